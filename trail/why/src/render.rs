//! Formats an answer for display: a tree from the number down to raw rows.

use std::fmt;

use artifacts::counted;
use artifacts::json::plain;
use contract::TraceSource;
use pipeline::Json;

use crate::evidence::{GateFinding, Gates, LoadCell, Server};
use crate::explain::{Answer, TablePlace};
use crate::lineage::{FileRows, MadeOf, RawRows, RowRange, TableRows};

/// The number of measured cells of a table that are shown; the rest are counted.
const SHOWN: usize = 6;

/// The number of missing cells of a table that are shown; the rest are counted.
const MISSING_SHOWN: usize = 3;

/// Lines, each with the lines nested below it.
struct Tree {
    lines: Vec<String>,
    below: Vec<Tree>,
}

impl Tree {
    fn write(&self, f: &mut fmt::Formatter<'_>, first: &str, rest: &str) -> fmt::Result {
        for (i, line) in self.lines.iter().enumerate() {
            let bar = if self.below.is_empty() {
                "   "
            } else {
                "│  "
            };
            match i {
                0 => writeln!(f, "{first}{line}")?,
                _ => writeln!(f, "{rest}{bar}{line}")?,
            }
        }
        for (i, tree) in self.below.iter().enumerate() {
            match i + 1 == self.below.len() {
                true => tree.write(f, &format!("{rest}└─ "), &format!("{rest}   "))?,
                false => tree.write(f, &format!("{rest}├─ "), &format!("{rest}│  "))?,
            }
        }
        Ok(())
    }
}

/// Returns the tree of a table's source file: its name, the lines, and their text.
fn file_tree(file: &FileRows) -> Tree {
    let places = file.spans.iter().map(|span| match span.end - span.start {
        1 => format!("{} {}", file.counted, span.start + 1),
        _ => format!("{}s {} to {}", file.counted, span.start + 1, span.end),
    });
    let places: Vec<String> = places.take(SHOWN).collect();
    let more = match file.spans.len() > SHOWN {
        true => format!(", and {} more places", file.spans.len() - SHOWN),
        false => String::new(),
    };
    let mut lines = vec![format!(
        "{} {}{more} ({})",
        file.file,
        places.join(", "),
        file.artifact.short()
    )];
    lines.extend(
        file.origin
            .iter()
            .map(|origin| format!("published in {origin}")),
    );
    lines.extend(file.heading.iter().cloned());
    lines.extend(file.text.iter().cloned());
    Tree {
        lines,
        below: Vec::new(),
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = &self.number;
        writeln!(
            f,
            "{}   {}:{}",
            with_unit(&number.text, number.unit.as_deref()),
            self.report,
            number.place()
        )?;
        let value = number.value.as_deref().unwrap_or("null");
        let format = match number.format.as_str() {
            "" => String::new(),
            format => format!(", printed as {} by the format `{format}`", number.text),
        };
        writeln!(f, "= {}{format}", with_unit(value, number.unit.as_deref()))?;
        if !self.also_at.is_empty() {
            writeln!(f, "also at {}", self.also_at.join(", "))?;
        }
        for doubt in &self.doubts {
            writeln!(f, "note: {doubt}")?;
        }
        match &self.place {
            None => writeln!(f, "└─ {}", self.meaning)?,
            Some(place) => self.tree(place).write(f, "└─ ", "   ")?,
        }
        self.study(f)?;
        for server in &self.servers {
            write_server(f, server)?;
        }
        if !self.see.is_empty() {
            writeln!(f, "see:")?;
            for command in &self.see {
                writeln!(f, "  {command}")?;
            }
        }
        Ok(())
    }
}

impl Answer {
    fn tree(&self, place: &TablePlace) -> Tree {
        let row = place
            .row
            .map(|row| format!(" row {row}"))
            .unwrap_or_default();
        let key = place
            .row_key
            .as_ref()
            .map(|k| format!(": {k}"))
            .unwrap_or_default();
        let mut lines = vec![format!(
            "{}{row} ({}){key}",
            place.name,
            place.artifact.short()
        )];
        if let Some(column) = &place.column {
            let what = if self.number.source == TraceSource::Json {
                "path"
            } else {
                "column"
            };
            let unit = place
                .unit
                .as_ref()
                .filter(|u| *u != "1")
                .map(|u| format!(" ({u})"))
                .unwrap_or_default();
            let meaning = match &place.description {
                Some(description) => format!(": {description}"),
                None if self.number.source == TraceSource::Table && self.lineage.is_some() => {
                    String::new()
                }
                None => format!(": {}", self.meaning),
            };
            lines.push(format!("{what} {column}{unit}{meaning}"));
        }
        if let Some(operator) = &place.operator {
            let level = match place.level.as_deref() {
                Some("row") => ", from one row",
                Some("cell") => ", from one cell",
                Some("marginal") => ", from several cells together",
                Some("pooled") => ", from all cells together",
                _ => "",
            };
            lines.push(format!("made by {operator}{level}"));
        }
        for cell in place.missing.iter().take(MISSING_SHOWN) {
            lines.push(format!(
                "missing in it: {} ({})",
                cell.coordinates, cell.reason
            ));
        }
        if place.missing.len() > MISSING_SHOWN {
            lines.push(format!(
                "missing in it: {}",
                counted(place.missing.len() - MISSING_SHOWN, "more cell")
            ));
        }
        if place.description.is_some() && self.lineage.is_none() && self.raw.is_empty() {
            lines.push(self.meaning.clone());
        }
        let below = match &self.lineage {
            Some(lineage) => self.sources(lineage),
            None => self.raw_trees(&self.raw.iter().collect::<Vec<_>>()),
        };
        Tree { lines, below }
    }

    fn sources(&self, table: &TableRows) -> Vec<Tree> {
        let (mut trees, mut raw) = (Vec::new(), Vec::new());
        for source in &table.sources {
            match source {
                MadeOf::Raw(rows) => raw.push(rows),
                MadeOf::Table(below) => trees.push(Tree {
                    lines: vec![format!(
                        "{}.{} {} ({})",
                        below.cell,
                        below.output,
                        rows_text(&below.spans),
                        below.artifact.short()
                    )],
                    below: self.sources(below),
                }),
                MadeOf::File(file) => trees.push(file_tree(file)),
                MadeOf::Lost { source, reason } => {
                    trees.push(Tree {
                        lines: vec![format!("{source}: {reason}")],
                        below: Vec::new(),
                    });
                }
            }
        }
        trees.extend(self.raw_trees(&raw));
        trees
    }

    /// Returns a tree for each of the first measured cells.
    fn raw_trees(&self, raw: &[&RawRows]) -> Vec<Tree> {
        let mut cells: Vec<String> = Vec::new();
        for rows in raw {
            if !cells.contains(&rows.cell()) {
                cells.push(rows.cell());
            }
        }
        let mut trees: Vec<Tree> = cells
            .iter()
            .take(SHOWN)
            .map(|cell| self.cell_tree(cell, raw))
            .collect();
        if cells.len() > SHOWN {
            let rows: usize = raw
                .iter()
                .filter(|r| !cells[..SHOWN].contains(&r.cell()))
                .map(|r| r.rows)
                .sum();
            let line = format!(
                "and {} with {} (`--json` shows all)",
                counted(cells.len() - SHOWN, "more cell"),
                counted(rows, "raw row")
            );
            trees.push(Tree {
                lines: vec![line],
                below: Vec::new(),
            });
        }
        trees
    }

    fn cell_tree(&self, cell: &str, raw: &[&RawRows]) -> Tree {
        let mut lines = vec![cell.to_owned()];
        for rows in raw.iter().filter(|r| r.cell() == cell) {
            let noun = match (rows.output.as_str(), rows.rows) {
                ("requests", 1) => "request row",
                ("requests", _) => "request rows",
                (_, 1) => "row",
                _ => "rows",
            };
            let place = rows
                .spans
                .iter()
                .map(span_text)
                .collect::<Vec<_>>()
                .join(", ");
            lines.push(format!(
                "{} {place} ({}): {} {noun}",
                rows.output,
                rows.artifact.short(),
                rows.rows
            ));
        }
        if let Some(explained) = self.cells.iter().find(|c| c.cell == cell) {
            lines.extend(cell_lines(explained));
        }
        Tree {
            lines,
            below: Vec::new(),
        }
    }

    fn study(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked: usize = self.cells.iter().map(|c| c.gates.asked()).sum();
        if self.cells.is_empty() {
            return Ok(());
        }
        if asked + self.stage_gates.asked() == 0 {
            return writeln!(f, "gates  none checked these cells");
        }
        let sum = |count: fn(&Gates) -> usize| self.cells.iter().map(|c| count(&c.gates)).sum();
        let cells = self.cells.len();
        writeln!(
            f,
            "gates  {} in {}; {} of the stage as a whole",
            outcomes(
                sum(|g| g.pass),
                sum(|g| g.fail.len()),
                sum(|g| g.not_judged.len())
            ),
            counted(cells, "measured cell"),
            counts(&self.stage_gates)
        )?;
        findings(&self.stage_gates)
            .try_for_each(|finding| writeln!(f, "       {}", finding_text(finding)))
    }
}

fn cell_lines(cell: &LoadCell) -> Vec<String> {
    let mut lines = Vec::new();
    match (&cell.record, &cell.started) {
        (Some(record), Some(started)) => {
            let started = started
                .split('.')
                .next()
                .unwrap_or(started)
                .trim_end_matches('Z');
            match &cell.imported {
                None => {
                    let how = if cell.simulated {
                        "simulated"
                    } else {
                        "measured"
                    };
                    lines.push(format!("{how} {started}Z, record {}", record.short()));
                }
                Some(from) => {
                    let (tool, original) = (&from.tool, from.original.short());
                    lines.push(format!("imported {started}Z, record {}", record.short()));
                    lines.push(format!(
                        "from a file of {tool}, stored as original ({original})"
                    ));
                }
            }
        }
        _ => lines.push("the lock has no record of this cell".to_owned()),
    }
    if let Some(failure) = &cell.failure {
        lines.push(format!("{failure}; no gate has judged these rows"));
    }
    if cell.gates.asked() > 0 {
        lines.push(format!("gates: {}", counts(&cell.gates)));
    }
    lines.extend(findings(&cell.gates).map(finding_text));
    lines.extend(
        cell.warnings
            .iter()
            .map(|warning| format!("warning: {warning}")),
    );
    lines
}

/// Describes how many gates had each outcome, in the words of the table `gates`.
fn outcomes(pass: usize, fail: usize, not_judged: usize) -> String {
    format!("{pass} pass, {fail} fail, {not_judged} not judged")
}

fn counts(gates: &Gates) -> String {
    outcomes(gates.pass, gates.fail.len(), gates.not_judged.len())
}

/// Returns the gates that did not pass, failures first.
fn findings(gates: &Gates) -> impl Iterator<Item = &GateFinding> {
    gates.fail.iter().chain(&gates.not_judged)
}

fn finding_text(finding: &GateFinding) -> String {
    format!(
        "gate {} ({}) {}: {}; expected {}",
        finding.gate, finding.severity, finding.outcome, finding.observed, finding.expected
    )
}

fn write_server(f: &mut fmt::Formatter<'_>, server: &Server) -> fmt::Result {
    let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    let (engine, model) = (or_unknown(&server.engine), or_unknown(&server.model));
    let version = server
        .version
        .as_deref()
        .map(|v| format!(" {v}"))
        .unwrap_or_default();
    writeln!(
        f,
        "engine {engine}{version}, model {model}; {} ({})",
        server.cell,
        server.artifact.short()
    )?;
    let settings = pairs(&server.settings);
    if !settings.is_empty() {
        writeln!(f, "       {settings}")?;
    }
    let facet = |name: &str| server.facets.get(name).filter(|v| !v.is_null()).map(plain);
    let mut host: Vec<String> = ["os", "arch", "cpu_model"]
        .iter()
        .filter_map(|name| facet(name))
        .collect();
    host.extend(facet("cpu_count").map(|n| format!("{n} CPUs")));
    host.extend(facet("memory_gib").map(|n| format!("{n} GiB")));
    if let Some(Json::Array(gpus)) = server.facets.get("gpus")
        && !gpus.is_empty()
    {
        host.push(gpus.iter().map(plain).collect::<Vec<_>>().join(" + "));
    }
    let environment = server
        .environment
        .map(|e| format!(" ({})", e.short()))
        .unwrap_or_default();
    writeln!(f, "host   {}{environment}", host.join(", "))
}

fn pairs(json: &Json) -> String {
    let Json::Object(map) = json else {
        return String::new();
    };
    map.iter()
        .map(|(name, value)| format!("{name}={}", plain(value)))
        .collect::<Vec<_>>()
        .join(", ")
}

fn rows_text(spans: &[RowRange]) -> String {
    let rows = crate::lineage::count(spans);
    let mut places: Vec<String> = spans.iter().take(SHOWN).map(span_text).collect();
    if spans.len() > SHOWN {
        places.push(format!("and {}", counted(spans.len() - SHOWN, "more span")));
    }
    let places = places.join(", ");
    match rows {
        1 => format!("row {places}"),
        _ => format!("rows {places}: {rows} rows"),
    }
}

fn span_text(span: &RowRange) -> String {
    match span.end - span.start {
        1 => span.start.to_string(),
        _ => format!("{}..{}", span.start, span.end),
    }
}

fn with_unit(text: &str, unit: Option<&str>) -> String {
    match unit {
        Some(unit) if unit != "1" && !text.ends_with(unit) => format!("{text} {unit}"),
        _ => text.to_owned(),
    }
}
