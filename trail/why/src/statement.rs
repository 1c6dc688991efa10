//! The checked statements of a report: read from its record, and judged again over its tables.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use artifacts::json::plain;
use artifacts::{Column, Digest, Table, TableError, counted};
use pipeline::Json;
use pipeline::stage::Coordinates;
use serde::Serialize;

use crate::check::text;
use crate::document::Document;
use crate::error::TrailError;
use crate::provenance::Provenance;

/// One cell's table: its coordinates, digest and rows.
pub type TablePart = (Coordinates, Digest, Rc<Table>);

/// Reads a table by its name in a rule: the parts of its cells, in order.
pub type Read<'a> = &'a dyn Fn(&str) -> Result<Vec<TablePart>, String>;

/// Judges a rule, given as JSON, over tables.
pub type Judge<'a> = &'a dyn Fn(&str, Read<'_>) -> Result<Judged, String>;

/// The result of evaluating a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Judged {
    /// `yes`, `no` or `unknown`.
    pub truth: String,
    /// The number of rows considered.
    pub n: Option<i64>,
    /// The number of rows that meet the predicate.
    pub count: Option<i64>,
    /// Values of the evaluation, as JSON.
    pub values: String,
    /// The rows that contradict the rule, as JSON.
    pub against: String,
}

/// A statement or a claim in the report's record.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Statement {
    /// Its number, from 0.
    pub number: i64,
    /// The claim that the rule belongs to.
    pub claim: Option<String>,
    /// Line and column of the first character, and of the end, one past the last character; null
    /// for claims.
    pub place: Option<[usize; 4]>,
    /// Its place in the template.
    pub template: Option<String>,
    /// The words as rendered.
    pub text: Option<String>,
    /// The rule about the rows, as JSON; `None` for a premise.
    pub rule: Option<String>,
    /// The stage whose table it concerns.
    pub stage: Option<String>,
    /// The table's name.
    pub output: Option<String>,
    /// `holds`, `alternative`, `premise`, `licensed`, `refused` or `undecided`.
    pub outcome: String,
    /// The evaluation when the report was rendered.
    #[serde(rename = "found")]
    pub judgement: Option<Judged>,
    /// The reason for the outcome.
    pub reason: String,
}

impl Statement {
    /// Returns whether it covers a place in the report.
    pub fn covers(&self, line: usize, column: usize) -> bool {
        self.place.is_some_and(|[from_line, from, to_line, to]| {
            (from_line, from) <= (line, column) && (line, column) < (to_line, to)
        })
    }

    /// Returns `LINE:COLUMN`, or the claim's name.
    pub fn name(&self) -> String {
        match (&self.claim, self.place) {
            (Some(claim), _) => format!("claim {claim}"),
            (None, Some([line, column, ..])) => format!("{line}:{column}"),
            (None, None) => format!("statement {}", self.number),
        }
    }
}

/// Returns the statements of a report; none if the lock does not have the report.
///
/// # Errors
/// If the record or the table cannot be read.
pub fn statements(provenance: &Provenance<'_>) -> Result<Vec<Statement>, TrailError> {
    let Some(seal) = &provenance.seal else {
        return Ok(Vec::new());
    };
    let record = provenance.reader.record(&seal.record)?;
    let Some(artifact) = record.outputs.get("statements") else {
        return Ok(Vec::new());
    };
    let table = provenance.reader.table(&artifact.digest)?;
    read(&table).map_err(|e| TrailError::Artifact(artifact.digest, e.to_string()))
}

fn read(table: &Table) -> Result<Vec<Statement>, TableError> {
    let int = |name: &str| table.int(name);
    let places = [
        int("line")?,
        int("column_start")?,
        int("line_end")?,
        int("column_end")?,
    ];
    let (numbers, n, count) = (int("statement")?, int("n")?, int("count")?);
    let column = |name: &str| -> Result<Vec<Option<String>>, TableError> {
        Ok(table
            .text(name)?
            .into_iter()
            .map(|v| v.map(str::to_owned))
            .collect())
    };
    let (claims, templates, texts) = (column("claim")?, column("template")?, column("text")?);
    let (rules, stages, outputs) = (column("rule")?, column("stage")?, column("output")?);
    let (outcomes, truths, reasons) = (column("outcome")?, column("truth")?, column("reason")?);
    let (values, against) = (column("values")?, column("against")?);
    let statement = |i: usize| {
        let place: Option<Vec<usize>> = places
            .iter()
            .map(|p| p[i].and_then(|v| usize::try_from(v).ok()))
            .collect();
        Statement {
            number: numbers[i].unwrap_or_default(),
            claim: claims[i].clone(),
            place: place.and_then(|p| p.try_into().ok()),
            template: templates[i].clone(),
            text: texts[i].clone(),
            rule: rules[i].clone(),
            stage: stages[i].clone(),
            output: outputs[i].clone(),
            outcome: outcomes[i].clone().unwrap_or_default(),
            judgement: truths[i].clone().map(|truth| Judged {
                truth,
                n: n[i],
                count: count[i],
                values: values[i].clone().unwrap_or_default(),
                against: against[i].clone().unwrap_or_default(),
            }),
            reason: reasons[i].clone().unwrap_or_default(),
        }
    };
    Ok((0..table.rows()).map(statement).collect())
}

/// The result of judging a statement again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// It was judged over its tables, with the same result.
    Holds,
    /// It is a premise, or concerns tables of the ledger that a lock does not hold completely.
    NotJudged,
}

/// Judges a statement again. The error describes what does not hold.
pub(crate) fn judge_again(
    document: &Document,
    provenance: &Provenance<'_>,
    statement: &Statement,
    judge: Judge<'_>,
) -> Result<Again, String> {
    check_place(document, statement)?;
    let (Some(rule), Some(judged)) = (&statement.rule, &statement.judgement) else {
        return Ok(Again::NotJudged);
    };
    let expected = match statement.outcome.as_str() {
        "holds" | "licensed" => judged.truth == "yes",
        _ => judged.truth != "yes",
    };
    if !expected {
        return Err(format!(
            "it is reported as `{}`, but was found to be `{}`",
            statement.outcome, judged.truth
        ));
    }
    if matches!(
        statement.output.as_deref(),
        Some("ledger.stages" | "ledger.axes")
    ) {
        return Ok(Again::NotJudged);
    }
    let now = judge(rule, &|name| parts(provenance, name))?;
    if now == *judged {
        return Ok(Again::Holds);
    }
    let described = |j: &Judged| {
        let count = j
            .count
            .map(|c| format!(", {c} satisfy the predicate"))
            .unwrap_or_default();
        format!(
            "{} over {}{count}, values {}, against it {}",
            j.truth,
            counted(j.n.unwrap_or(0), "row"),
            j.values,
            j.against
        )
    };
    Err(format!(
        "it was judged {}, but its tables give {}",
        described(judged),
        described(&now)
    ))
}

/// Checks that the words are still at the place where they were rendered.
fn check_place(document: &Document, statement: &Statement) -> Result<(), String> {
    let (Some([line, column, to_line, to]), Some(text)) = (statement.place, &statement.text) else {
        return Ok(());
    };
    let mut words = String::new();
    for (at, content) in document
        .markdown
        .split('\n')
        .enumerate()
        .take(to_line)
        .skip(line.saturating_sub(1))
    {
        let from = if at + 1 == line { column - 1 } else { 0 };
        let end = if at + 1 == to_line {
            to - 1
        } else {
            usize::MAX
        };
        words.extend(content.chars().take(end).skip(from));
        if at + 1 < to_line {
            words.push('\n');
        }
    }
    if words.trim_end() == text.trim_end() {
        return Ok(());
    }
    Err(format!(
        "the report has `{}` at that place",
        words.trim_end()
    ))
}

/// Returns the tables with a name: those of a stage's cells, of the report itself, or of the
/// ledger.
fn parts(provenance: &Provenance<'_>, name: &str) -> Result<Vec<TablePart>, String> {
    if name == "ledger" {
        return Ok(vec![(
            Coordinates::default(),
            Digest::of(b""),
            Rc::new(ledger(provenance)?),
        )]);
    }
    let Some((stage, output)) = name.split_once('.') else {
        let record = provenance
            .seal
            .as_ref()
            .map(|s| provenance.reader.record(&s.record).map_err(text));
        let record = record
            .transpose()?
            .ok_or("the lock has no record of the report")?;
        let artifact = record
            .outputs
            .get(name)
            .ok_or_else(|| format!("the report has no table `{name}`"))?;
        let table = provenance.reader.table(&artifact.digest).map_err(text)?;
        return Ok(vec![(Coordinates::default(), artifact.digest, table)]);
    };
    let mut tables = Vec::new();
    for cell in provenance.cells(stage).map_err(text)? {
        let artifact = cell.record.outputs.get(output);
        let artifact = artifact.ok_or_else(|| format!("{} has no output {output}", cell.cell()))?;
        let table = provenance.reader.table(&artifact.digest).map_err(text)?;
        tables.push((cell.record.coordinates.clone(), artifact.digest, table));
    }
    if tables.is_empty() {
        Err(format!("the lock has no cell of stage `{stage}`"))
    } else {
        Ok(tables)
    }
}

/// Returns the ledger from a lock: everything except the count of evidence.
fn ledger(provenance: &Provenance<'_>) -> Result<Table, String> {
    let stages = provenance
        .lock
        .stages
        .iter()
        .filter(|s| s.class != pipeline::lock::LockClass::Study);
    let lines: Vec<_> = stages
        .flat_map(|s| s.cells.iter().map(move |c| (s.name.as_str(), c)))
        .collect();
    let table = Table::new(vec![
        Column::text("stage", lines.iter().map(|(stage, _)| Some(*stage))),
        Column::text(
            "cell",
            lines.iter().map(|(_, c)| Some(c.coordinates.as_str())),
        ),
        Column::text("status", lines.iter().map(|(_, c)| Some(c.status.word()))),
        Column::text("reason", lines.iter().map(|(_, c)| c.reason.clone())),
    ]);
    table.map_err(|e| e.to_string())
}

/// Returns the values of the statements by their names in a trace, `NUMBER.VALUE`.
pub(crate) fn values(statements: &[Statement]) -> BTreeMap<String, String> {
    let mut contents = BTreeMap::new();
    for statement in statements {
        let values = statement
            .judgement
            .as_ref()
            .map(|f| serde_json::from_str::<Json>(&f.values));
        let Some(Ok(Json::Object(values))) = values else {
            continue;
        };
        for (name, value) in values {
            contents.insert(format!("{}.{name}", statement.number), plain(&value));
        }
    }
    contents
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.text.as_deref().unwrap_or("").replace('\n', " ");
        writeln!(f, "{}: \"{words}\": {}", self.name(), self.outcome)?;
        if let Some(template) = &self.template {
            writeln!(f, "template {template}")?;
        }
        if let Some(rule) = &self.rule {
            writeln!(f, "rule     {rule}")?;
        }
        write!(f, "because  {}", self.reason)?;
        if let Some(judged) = &self.judgement {
            if let Some(n) = judged.n {
                write!(f, "\nrows     {n} looked at")?;
            }
            if judged.against != "[]" {
                write!(f, "\nagainst  {}", judged.against)?;
            }
        }
        Ok(())
    }
}
