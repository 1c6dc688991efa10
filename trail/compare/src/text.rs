//! Formats a comparison as text.

use std::collections::BTreeMap;
use std::fmt;

use artifacts::counted;
use pipeline::Json;

use crate::{ChangeVerdict, Comparison};

/// The number of lines shown per section; `--json` has all.
const SHOWN: usize = 30;

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes = self.axes.iter().map(|c| {
            let labels = |labels: &[String]| match labels.is_empty() {
                true => "(absent)".to_owned(),
                false => labels.join(", "),
            };
            format!("{}: {} → {}", c.axis, labels(&c.a), labels(&c.b))
        });
        let same_axes = self.axes.is_empty();
        if !same_axes {
            section(
                f,
                "axes: only cells that both studies have are compared, and averages are over the levels of each study",
                "",
                &axes.collect::<Vec<_>>(),
            )?;
        }
        let recipes = self.recipes.iter().map(|c| {
            let cells = if c.cells == c.common {
                "every cell".to_owned()
            } else {
                format!("{} of {} cells", c.cells, c.common)
            };
            format!("{}: {} ({cells})", c.stage, c.what)
        });
        section(
            f,
            "recipe",
            match same_axes {
                true => "the recipes are the same",
                false => "the recipes of the cells that both studies have are the same",
            },
            &recipes.collect::<Vec<_>>(),
        )?;
        let word =
            |status: &Option<String>| status.clone().unwrap_or_else(|| "not there".to_owned());
        let cells = self
            .cells
            .iter()
            .map(|c| format!("{}: {} → {}", c.cell, word(&c.a), word(&c.b)));
        section(
            f,
            "cells",
            "both have the same cells with the same status",
            &cells.collect::<Vec<_>>(),
        )?;
        let environment = self.environment.iter().map(|c| {
            format!(
                "{} {}: {} → {}",
                c.document,
                c.path,
                leaf(c.a.as_ref()),
                leaf(c.b.as_ref())
            )
        });
        section(
            f,
            "environment",
            "the descriptors of machines and servers are the same",
            &environment.collect::<Vec<_>>(),
        )?;
        section(
            f,
            "verdicts",
            "all verdicts and gates are the same",
            &self.verdict_lines(),
        )?;
        self.results(f)?;
        let numbers = self.numbers.iter().map(|n| {
            let change = n
                .change
                .map(|c| format!(" ({})", percent(c)))
                .unwrap_or_default();
            let place = [n.row.as_deref(), n.column.as_deref()]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(" ");
            format!(
                "{}  {} {place}: {} → {}{change}",
                n.place, n.source, n.a, n.b
            )
        });
        let same = match self.numbers_compared {
            0 => "no number is in a report of both studies".to_owned(),
            1 => "the number that both reports show is the same".to_owned(),
            n => format!("all {n} numbers that both reports show are the same"),
        };
        section(
            f,
            "numbers of the report",
            &same,
            &numbers.collect::<Vec<_>>(),
        )
    }
}

impl Comparison {
    /// Returns the verdicts and gates that differ: those of a table that only one study has as a count.
    fn verdict_lines(&self) -> Vec<String> {
        let word =
            |status: &Option<String>| status.clone().unwrap_or_else(|| "not there".to_owned());
        let mut alone: BTreeMap<(&str, &str), (&str, usize)> = BTreeMap::new();
        for c in self.verdicts.iter().filter(|c| c.alone) {
            let study = if c.b.is_none() { "older" } else { "newer" };
            alone
                .entry((c.table.as_str(), c.column.as_str()))
                .or_insert((study, 0))
                .1 += 1;
        }
        let alone = alone.iter().map(|((table, column), (study, n))| {
            let words = match *column {
                "outcome" => counted(*n, "gate"),
                _ => counted(*n, "verdict"),
            };
            format!("{table} {column}: only in the {study} study ({words})")
        });
        let both = self.verdicts.iter().filter(|c| !c.alone).map(|c| {
            format!(
                "{} [{}] {}: {} → {}",
                c.table,
                c.row,
                c.column,
                word(&c.a),
                word(&c.b)
            )
        });
        alone.chain(both).collect()
    }

    fn results(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<_> = self
            .results
            .iter()
            .filter(|r| {
                !matches!(
                    r.verdict,
                    ChangeVerdict::NoEvidence | ChangeVerdict::Undecidable
                )
            })
            .collect();
        let lines = shown.iter().map(|r| {
            let unit = r.unit.as_deref().unwrap_or("");
            let p = match r.holm_p {
                Some(p) if p < 0.0001 => "p < 0.0001 (Holm)".to_owned(),
                Some(p) => format!("p = {p:.4} (Holm)"),
                None => "no test".to_owned(),
            };
            let change = r.change.map_or_else(|| "from 0".to_owned(), percent);
            format!(
                "{}: {} {} {:.4} → {:.4} {unit}, {change}, n {} and {}, {p}",
                r.verdict.words(),
                r.at,
                r.column,
                r.mean_a,
                r.mean_b,
                r.n_a,
                r.n_b
            )
        });
        let same = match self.results.len() {
            0 if self.tables == 0 => "no table of cells is in both studies".to_owned(),
            0 => "no result is in both studies: at no coordinate do both have a value".to_owned(),
            n => format!("no change is shown beyond the threshold in any of {n} results"),
        };
        section(
            f,
            &format!(
                "results ({} of {} changed)",
                shown.len(),
                self.results.len()
            ),
            &same,
            &lines.collect::<Vec<_>>(),
        )?;
        let given = self.undecidable(f)?;
        self.gate(f, given)?;
        match &self.shared_launches {
            Some(shared) => writeln!(f, "    note: {shared}"),
            None => Ok(()),
        }
    }

    /// Writes how many results cannot be judged, and why. Returns the reason if it is the same for all results.
    fn undecidable(&self, f: &mut fmt::Formatter<'_>) -> Result<Option<&str>, fmt::Error> {
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for reason in self.results.iter().filter_map(|r| r.reason.as_deref()) {
            *reasons.entry(reason).or_default() += 1;
        }
        let total = self.results.len();
        for (reason, results) in &reasons {
            writeln!(f, "    undecidable: {results} of {total} results: {reason}")?;
        }
        let only = reasons
            .into_iter()
            .next()
            .filter(|(_, results)| *results == total);
        Ok(only.map(|(reason, _)| reason))
    }

    /// Writes the result of each column over all coordinates, unless it repeats the reason that was given.
    fn gate(&self, f: &mut fmt::Formatter<'_>, given: Option<&str>) -> fmt::Result {
        for g in &self.gate {
            if let (0, 0, Some(reason)) = (g.n_a, g.n_b, &g.reason) {
                if given == Some(reason.as_str()) {
                    continue;
                }
                writeln!(f, "    {} {}: {reason}", g.outcome.words(), g.column)?;
                continue;
            }
            let bounds = match (g.low, g.high) {
                (None, None) => String::new(),
                (Some(low), None) => format!(", at least {}", percent(low)),
                (None, Some(high)) => format!(", at most {}", percent(high)),
                (Some(low), Some(high)) => format!(" [{}, {}]", percent(low), percent(high)),
            };
            let worse = g.worsening.map_or_else(String::new, |worsening| {
                format!("worse by {}{bounds} over ", percent(worsening))
            });
            let detects = g.smallest_detectable.map_or_else(String::new, |d| {
                format!(
                    ", finds a worsening of {}",
                    percent(d).trim_start_matches('+')
                )
            });
            let why = g
                .reason
                .as_ref()
                .map_or_else(String::new, |r| format!(": {r}"));
            writeln!(
                f,
                "    {} {}: {worse}{}, n {} and {}{detects}{why}",
                g.outcome.words(),
                g.column,
                counted(g.coordinates, "coordinate"),
                g.n_a,
                g.n_b
            )?;
        }
        Ok(())
    }
}

fn section(f: &mut fmt::Formatter<'_>, title: &str, empty: &str, lines: &[String]) -> fmt::Result {
    if lines.is_empty() {
        return writeln!(f, "= {empty}");
    }
    writeln!(f, "≠ {title}")?;
    for line in lines.iter().take(SHOWN) {
        writeln!(f, "    {line}")?;
    }
    if lines.len() > SHOWN {
        writeln!(
            f,
            "    … and {} more (`--json` shows all)",
            lines.len() - SHOWN
        )?;
    }
    Ok(())
}

fn percent(change: f64) -> String {
    format!("{:+.1} %", change * 100.0)
}

fn leaf(value: Option<&Json>) -> String {
    match value {
        None => "(absent)".to_owned(),
        Some(Json::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
