//! A comparison as text.

use std::fmt;

use pipeline::Json;

use crate::{Comparison, Verdict};

/// How many lines of a section are shown; `--json` has all.
const SHOWN: usize = 30;

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let recipes = self.recipes.iter().map(|c| {
            let cells = if c.cells == c.of {
                "every cell".to_owned()
            } else {
                format!("{} of {} cells", c.cells, c.of)
            };
            format!("{}: {} ({cells})", c.stage, c.what)
        });
        section(
            f,
            "recipe",
            "no field of a recipe differs",
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
            "both have the same cells, ended alike",
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
            "machines and servers describe themselves alike",
            &environment.collect::<Vec<_>>(),
        )?;
        let verdicts = self.verdicts.iter().map(|c| {
            format!(
                "{} [{}] {}: {} → {}",
                c.table,
                c.row,
                c.column,
                word(&c.a),
                word(&c.b)
            )
        });
        section(
            f,
            "verdicts",
            "every verdict and gate is the same",
            &verdicts.collect::<Vec<_>>(),
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
        let same = format!(
            "all {} numbers that both reports show are the same",
            self.numbers_compared
        );
        section(
            f,
            "numbers of the report",
            &same,
            &numbers.collect::<Vec<_>>(),
        )
    }
}

impl Comparison {
    fn results(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let beyond: Vec<_> = self
            .results
            .iter()
            .filter(|r| r.verdict != Verdict::WithinNoise)
            .collect();
        let lines = beyond.iter().map(|r| {
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
            0 => "no table of cells that both have".to_owned(),
            n => format!("none of {n} results changed beyond threshold and noise"),
        };
        section(
            f,
            &format!(
                "results ({} of {} beyond threshold and noise)",
                beyond.len(),
                self.results.len()
            ),
            &same,
            &lines.collect::<Vec<_>>(),
        )
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
            "    … and {} more (`--json` has all)",
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
