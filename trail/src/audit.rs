//! Every number of a report read again from its artifacts, every digest computed again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use artifacts::{Digest, Scalar};
use pipeline::Json;
use serde::Serialize;

use crate::document::{Document, Number};
use crate::error::TrailError;
use crate::explain::is_in;
use crate::provenance::{Holder, Provenance};

/// Renders a value: value, unit, format.
pub type Format<'a> = &'a dyn Fn(&Scalar, Option<&str>, &str) -> Result<String, String>;

/// Something that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The place in the report, `LINE:COLUMN`.
    pub place: Option<String>,
    /// The number's text.
    pub text: Option<String>,
    /// What does not hold.
    pub what: String,
}

/// What an audit found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Audit {
    /// The report's file.
    pub report: String,
    /// The lock.
    pub lock: Option<String>,
    /// How many numbers the trace has.
    pub numbers: usize,
    /// How many come from an artifact, the lock or the experiment; the others are the report's
    /// own numbering and declared literals.
    pub traced: usize,
    /// How many hold: at their place, equal to what the artifact has, rendered to the same text.
    pub verified: usize,
    /// How many numbers there are of each source.
    pub sources: BTreeMap<String, usize>,
    /// How many artifacts and records were hashed again.
    pub artifacts: usize,
    /// Everything that does not hold.
    pub problems: Vec<Problem>,
}

impl Audit {
    /// Returns whether everything holds.
    pub fn holds(&self) -> bool {
        self.problems.is_empty()
    }

    fn complain(&mut self, what: impl Into<String>) {
        self.problems.push(Problem { place: None, text: None, what: what.into() });
    }
}

/// Checks a report: its bytes and its trace's against the lock, every number against its
/// artifact, every artifact and record of the lock against its digest. `format` renders a
/// value as the report does.
pub fn audit(document: &Document, provenance: &Provenance<'_>, format: Format<'_>) -> Audit {
    let mut audit = Audit {
        report: document.path.display().to_string(),
        lock: provenance.file.as_ref().map(|f| f.display().to_string()),
        numbers: document.numbers.len(),
        ..Audit::default()
    };
    seal(document, provenance, &mut audit);
    let lines: Vec<&str> = document.markdown.split('\n').collect();
    for number in &document.numbers {
        *audit.sources.entry(number.source.clone()).or_default() += 1;
        if !matches!(number.source.as_str(), "structure" | "literal") {
            audit.traced += 1;
        }
        match check(provenance, &lines, number, format) {
            Ok(()) => audit.verified += 1,
            Err(what) => {
                let (place, text) = (Some(number.place()), Some(number.text.clone()));
                audit.problems.push(Problem { place, text, what });
            }
        }
    }
    hash_all(document, provenance, &mut audit);
    audit
}

fn seal(document: &Document, provenance: &Provenance<'_>, audit: &mut Audit) {
    for doubt in &provenance.doubts {
        audit.complain(doubt);
    }
    let Some(seal) = &provenance.seal else {
        audit.complain(format!(
            "no lock of this project has the report {} or its trace {} as an output",
            document.report.short(),
            document.trace.short()
        ));
        return;
    };
    if !seal.report_intact {
        let (now, then) = (document.report.short(), seal.report.short());
        let rendered = provenance.reader.bytes(&seal.report).ok();
        let lines =
            rendered.map(|r| edited(&document.markdown, &String::from_utf8_lossy(&r))).unwrap_or_default();
        audit.complain(format!("the report is {now}, the lock has {then}: it was edited{lines}"));
    }
    if !seal.trace_intact {
        let then = seal.trace.map_or_else(|| "none".to_owned(), |t| t.short());
        audit
            .complain(format!("the trace is {}, the lock has {then}: it was edited", document.trace.short()));
    }
}

/// Says which lines of the report are not those rendered.
fn edited(now: &str, then: &str) -> String {
    let (now, then): (Vec<&str>, Vec<&str>) = (now.lines().collect(), then.lines().collect());
    if now.len() != then.len() {
        return format!(" (it has {} lines, {} were rendered)", now.len(), then.len());
    }
    let differ: Vec<String> = now
        .iter()
        .zip(&then)
        .enumerate()
        .filter(|(_, (a, b))| a != b)
        .map(|(i, _)| (i + 1).to_string())
        .collect();
    match differ.len() {
        0 => String::new(),
        1 => format!(" in line {}", differ[0]),
        n if n > 10 => format!(" in {n} lines, the first of them {}", differ[0]),
        _ => format!(" in lines {}", differ.join(", ")),
    }
}

/// Checks one number; says what does not hold.
fn check(
    provenance: &Provenance<'_>,
    lines: &[&str],
    number: &Number,
    format: Format<'_>,
) -> Result<(), String> {
    let line = number.line.checked_sub(1).and_then(|i| lines.get(i)).copied().unwrap_or_default();
    if !is_in(line, number) {
        let length = number.column_end.saturating_sub(number.column_start);
        let there: String = line.chars().skip(number.column_start.saturating_sub(1)).take(length).collect();
        return Err(format!("the report has `{there}` there"));
    }
    let unit = number.unit.as_deref();
    match number.source.as_str() {
        "table" if number.row.is_none() => heading(provenance, number),
        "table" => {
            let value = table_value(provenance, number)?;
            same_value(number, &value)?;
            same_text(number, &value, unit, format)
        }
        "count" => match recount(provenance, number)? {
            Some(count) => {
                same_value(number, &count)?;
                same_text(number, &count, unit, format)
            }
            None => rendered(number, format),
        },
        "json" => json_value(provenance, number, format),
        "trail" => {
            let trail = provenance.lock.trail().to_string();
            let told = number.value.as_deref() == Some(&trail) && number.text == trail;
            if told || !provenance.is_known() {
                Ok(())
            } else {
                Err(format!("the lock's trail digest is {trail}"))
            }
        }
        "spec" | "ledger" | "structure" | "literal" => rendered(number, format),
        other => Err(format!("the trace names an unknown source `{other}`")),
    }
}

/// Renders the trace's own value again, where no artifact has it.
fn rendered(number: &Number, format: Format<'_>) -> Result<(), String> {
    let Some(value) = &number.value else { return Ok(()) };
    if value == &number.text || matches!(number.source.as_str(), "literal" | "structure") {
        return Ok(());
    }
    if let Ok(Json::Array(items)) = serde_json::from_str(value) {
        return list(number, &items, format);
    }
    let whole = value.parse::<i64>().map(Scalar::Int).ok();
    let value = whole.or_else(|| value.parse::<f64>().ok().map(Scalar::Float));
    let value = value.unwrap_or_else(|| match number.value.as_deref() {
        Some("true") => Scalar::Bool(true),
        Some("false") => Scalar::Bool(false),
        text => Scalar::Text(text.unwrap_or_default().to_owned()),
    });
    same_text(number, &value, number.unit.as_deref(), format)
}

fn artifact(number: &Number) -> Result<(Digest, &str), String> {
    let artifact = number.artifact.ok_or("the trace names no artifact")?;
    let column = number.column.as_deref().ok_or("the trace names no column")?;
    Ok((artifact, column))
}

/// The cell that a number's artifact is an output of, if the lock is known.
fn holder(provenance: &Provenance<'_>, number: &Number, artifact: &Digest) -> Result<Option<Holder>, String> {
    if !provenance.is_known() {
        return Ok(None);
    }
    let stage = number.stage.as_deref().unwrap_or_default();
    let holder = provenance.holder(stage, artifact).map_err(text)?;
    let output = number.output.as_deref().unwrap_or_default();
    match holder {
        Some(holder) if holder.record.outputs.get(output).is_some_and(|a| a.digest == *artifact) => {
            Ok(Some(holder))
        }
        _ => Err(format!("the lock has no output {stage}.{output} with the digest {}", artifact.short())),
    }
}

fn table_value(provenance: &Provenance<'_>, number: &Number) -> Result<Scalar, String> {
    let (artifact, column) = artifact(number)?;
    let holder = holder(provenance, number, &artifact)?;
    let row = number.row.ok_or("the trace names no row")?;
    let table = provenance.reader.table(&artifact).map_err(text)?;
    if row >= table.rows() {
        return Err(format!("{} has {} rows, none is row {row}", artifact.short(), table.rows()));
    }
    // Coordinates of the cell stand beside the columns of its tables.
    let label = holder.filter(|_| !table.has(column)).and_then(|h| h.record.coordinates.get(column).cloned());
    match label {
        Some(label) => Ok(label),
        None => table.value(column, row).map_err(|e| format!("{}: {e}", artifact.short())),
    }
}

fn heading(provenance: &Provenance<'_>, number: &Number) -> Result<(), String> {
    let (artifact, column) = artifact(number)?;
    let table = provenance.reader.table(&artifact).map_err(text)?;
    if !table.has(column) {
        return Err(format!("{} has no column `{column}`", artifact.short()));
    }
    Ok(())
}

/// Counts the rows that meet a condition; `None` if they are not those of an artifact.
fn recount(provenance: &Provenance<'_>, number: &Number) -> Result<Option<Scalar>, String> {
    let (Some(stage), Some(output)) = (&number.stage, &number.output) else { return Ok(None) };
    let condition = condition(number.row_key.as_deref().unwrap_or_default());
    let mut parts: Vec<(Digest, Option<Holder>)> = Vec::new();
    match number.artifact {
        Some(artifact) => parts.push((artifact, holder(provenance, number, &artifact)?)),
        None => {
            for cell in provenance.cells(stage).map_err(text)? {
                let found = cell.record.outputs.get(output).map(|a| a.digest);
                parts.push((
                    found.ok_or_else(|| format!("{} has no output {output}", cell.cell()))?,
                    Some(cell),
                ));
            }
        }
    }
    let mut count = 0;
    for (artifact, holder) in &parts {
        let table = provenance.reader.table(artifact).map_err(text)?;
        for row in 0..table.rows() {
            let meets = |(column, wanted): &(String, Vec<String>)| {
                let label = || holder.as_ref().and_then(|h| h.record.coordinates.get(column).cloned());
                let value = match table.has(column) {
                    true => table.value(column, row).ok(),
                    false => label(),
                };
                value.is_some_and(|v| wanted.iter().any(|w| is_value(&v, w)))
            };
            count += i64::from(condition.iter().all(meets));
        }
    }
    Ok(Some(Scalar::Int(count)))
}

/// Reads `a=x|y,b=z`; a comma without an equals sign after it is part of the value.
fn condition(text: &str) -> Vec<(String, Vec<String>)> {
    let mut pairs: Vec<String> = Vec::new();
    for piece in text.split(',').filter(|p| !p.is_empty()) {
        match pairs.last_mut() {
            Some(last) if !piece.contains('=') => last.push_str(&format!(",{piece}")),
            _ => pairs.push(piece.to_owned()),
        }
    }
    let values = |text: &str| text.split('|').map(str::to_owned).collect();
    pairs.iter().filter_map(|p| p.split_once('=')).map(|(c, v)| (c.to_owned(), values(v))).collect()
}

/// Whether a value is what the trace wrote in full precision.
fn is_value(value: &Scalar, written: &str) -> bool {
    match (value.as_f64(), written.parse::<f64>()) {
        (Some(value), Ok(written)) => value == written,
        _ => value.to_string() == written,
    }
}

fn same_value(number: &Number, value: &Scalar) -> Result<(), String> {
    let holds = match (value, &number.value) {
        (Scalar::Null, written) => written.is_none(),
        (_, None) => false,
        (value, Some(written)) => value.to_string() == *written,
    };
    let (written, place) = (number.value.as_deref().unwrap_or("null"), place(number));
    if holds { Ok(()) } else { Err(format!("the trace has {written}, {place} has {value}")) }
}

fn same_text(number: &Number, value: &Scalar, unit: Option<&str>, format: Format<'_>) -> Result<(), String> {
    // The word for null is the template's and not in the trace.
    if *value == Scalar::Null {
        return Ok(());
    }
    is_text(number, &format(value, unit, &number.format)?)
}

fn is_text(number: &Number, rendered: &str) -> Result<(), String> {
    // In a table of the report a bar is written with a backslash.
    if number.text == rendered || number.text.replace("\\|", "|") == rendered {
        return Ok(());
    }
    Err(format!("the value of {} renders as `{rendered}`", place(number)))
}

fn place(number: &Number) -> String {
    let (stage, output) = (number.stage.as_deref().unwrap_or_default(), number.output.as_deref());
    let row = number.row.map(|row| format!(" row {row}")).unwrap_or_default();
    match output {
        Some(output) => format!("{stage}.{output}{row} {}", number.column.as_deref().unwrap_or_default()),
        None => "the trace".to_owned(),
    }
}

fn json_value(provenance: &Provenance<'_>, number: &Number, format: Format<'_>) -> Result<(), String> {
    let (artifact, path) = artifact(number)?;
    holder(provenance, number, &artifact)?;
    let json = provenance.reader.json(&artifact).map_err(text)?;
    let value = at_path(&json, path).ok_or_else(|| format!("{} has no `{path}`", artifact.short()))?;
    if let Json::Array(items) = value {
        if number.value.as_deref() != Some(&value.to_string()) {
            return Err(format!(
                "the trace has {}, {} has {value}",
                number.value.as_deref().unwrap_or("null"),
                place(number)
            ));
        }
        return list(number, items, format);
    }
    let value = scalar(value).ok_or_else(|| format!("`{path}` is an object"))?;
    same_value(number, &value)?;
    same_text(number, &value, None, format)
}

fn list(number: &Number, items: &[Json], format: Format<'_>) -> Result<(), String> {
    let mut texts = Vec::new();
    for item in items {
        match scalar(item) {
            Some(Scalar::Null) => return Ok(()),
            Some(value) => texts.push(format(&value, None, &number.format)?),
            None => return Err("a list of lists or objects".to_owned()),
        }
    }
    is_text(number, &texts.join(", "))
}

/// Returns the value at keys and indices joined by full stops; a key may hold full stops.
fn at_path<'a>(json: &'a Json, path: &str) -> Option<&'a Json> {
    if path.is_empty() {
        return Some(json);
    }
    path.match_indices('.').map(|(i, _)| i).chain([path.len()]).find_map(|end| {
        let child = match json {
            Json::Object(map) => map.get(&path[..end]),
            Json::Array(items) => path[..end].parse::<usize>().ok().and_then(|i| items.get(i)),
            _ => None,
        };
        at_path(child?, path.get(end + 1..).unwrap_or(""))
    })
}

fn scalar(json: &Json) -> Option<Scalar> {
    Some(match json {
        Json::Null => Scalar::Null,
        Json::Bool(value) => Scalar::Bool(*value),
        Json::Number(value) => match value.as_i64() {
            Some(int) => Scalar::Int(int),
            None => Scalar::Float(value.as_f64()?),
        },
        Json::String(text) => Scalar::Text(text.clone()),
        Json::Array(_) | Json::Object(_) => return None,
    })
}

/// Hashes every record of the lock, and every artifact those name.
fn hash_all(document: &Document, provenance: &Provenance<'_>, audit: &mut Audit) {
    let mut artifacts: BTreeMap<Digest, String> = BTreeMap::new();
    for number in &document.numbers {
        if let Some(artifact) = number.artifact {
            artifacts.insert(artifact, format!("the artifact of {}", number.place()));
        }
    }
    let records: BTreeSet<Digest> = provenance.lock.records().collect();
    audit.artifacts += records.len();
    for digest in records {
        match provenance.reader.record(&digest) {
            Ok(record) => {
                let cell = Holder { digest, record: record.clone() }.cell();
                let inputs =
                    record.recipe.inputs.iter().flat_map(|i| &i.cells).flat_map(|c| c.outputs.values());
                for input in inputs {
                    artifacts.entry(*input).or_insert_with(|| format!("an input of {cell}"));
                }
                for artifact in record.artifacts() {
                    artifacts.insert(artifact, format!("an output of {cell}"));
                }
            }
            Err(error) => audit.complain(format!("a record of the lock: {}", text(error))),
        }
    }
    audit.artifacts += artifacts.len();
    for (digest, what) in artifacts {
        if let Err(error) = provenance.reader.check(&digest) {
            audit.complain(format!("{what}: {}", text(error)));
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "made for map_err")]
fn text(error: TrailError) -> String {
    error.to_string()
}

impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.problems {
            match (&problem.place, &problem.text) {
                (Some(place), Some(text)) => {
                    writeln!(f, "{}:{place}: `{text}`: {}", self.report, problem.what)?
                }
                _ => writeln!(f, "{}", problem.what)?,
            }
        }
        let numbers = self.numbers;
        let s = if numbers == 1 { "" } else { "s" };
        writeln!(f, "{numbers} number{s}, {} traced, {} verified", self.traced, self.verified)?;
        let sources: Vec<String> = self.sources.iter().map(|(source, n)| format!("{n} {source}")).collect();
        writeln!(f, "sources: {}", sources.join(", "))?;
        write!(f, "{} artifacts and records hashed", self.artifacts)?;
        match self.problems.len() {
            0 => write!(f, "; everything holds"),
            1 => write!(f, "; 1 thing does not hold"),
            n => write!(f, "; {n} things do not hold"),
        }
    }
}
