//! `why`: traces a number of a report down to the raw request rows.

use std::path::Path;

use serde_json::json;
use why::{Document, Found, Number, Query, TrailError};

use crate::args::{Global, RemoteArgs, WhyArgs};
use crate::columns::columns;
use crate::commands::run_report::trace_file;
use crate::evidence::Evidence;
use crate::exit::Stop;
use crate::given::{Wanted, must_be};
use crate::project::{in_shell, shown};
use crate::terminal::say;

/// Turns an anchor of a page on a code host, `#L24` or `#L24-L30`, and a range of lines, `:24-30`, into the first line.
fn without_anchor(report: &str) -> String {
    let anchor = report.rsplit_once("#L").or_else(|| report.rsplit_once(':'));
    let Some((path, lines)) = anchor else {
        return report.to_owned();
    };
    let (first, rest) = lines.split_once(['-', 'C']).unwrap_or((lines, "0"));
    let is_line = |text: &str| text.trim_start_matches('L').parse::<usize>().is_ok();
    match is_line(first) && is_line(rest) {
        true => format!("{path}:{first}"),
        false => report.to_owned(),
    }
}

pub(super) fn why(arguments: &WhyArgs, global: &Global) -> Result<(), Stop> {
    let mut query = Query::parse(
        &without_anchor(&arguments.report),
        arguments.number.as_deref(),
    );
    let whole = Path::new(&arguments.report);
    if whole.is_file() {
        // The file's own name ends like a position.
        query = Query {
            report: whole.to_owned(),
            text: query.text,
            ..Query::default()
        };
    }
    must_be(&query.report, Wanted::Report)?;
    if query
        .report
        .extension()
        .is_some_and(|e| e == "yaml" || e == "yml")
    {
        let name = query
            .report
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy();
        return Err(Stop::usage(format!(
            "{} is an experiment, not a report",
            shown(&query.report)
        ))
        .hint(format!(
            "give the report that `run` wrote, such as reports/{name}/report.md:12"
        )));
    }
    let document = open_document(&query.report)?;
    if query.line.is_none() && query.text.is_none() {
        return Err(
            Stop::usage("which number? Give a line or the number's text").hint(format!(
                "benchtrail why {}:LINE, or benchtrail why {0} NUMBER",
                in_shell(&query.report)
            )),
        );
    }
    let (number, places) = match why::find(&document, &query) {
        Err(error) => return statement(&document, &query, error, &arguments.remote, global),
        Ok(Found::One(number, places)) => (number, places),
        Ok(Found::Several(numbers)) => {
            list(&document, &numbers, global);
            return Ok(());
        }
    };
    let evidence = Evidence::of(&document, &arguments.remote, global)?;
    let provenance = evidence.provenance(&document)?;
    let mut answer = why::why(&document, &provenance, number, &places)?;
    answer.report = shown(&document.path);
    answer.lock = provenance
        .file
        .as_deref()
        .map(|lock| evidence.shown_lock(lock));
    if global.json {
        say(&serde_json::to_string_pretty(&answer).map_err(Stop::failed)?);
    } else {
        say(answer.to_string().trim_end());
    }
    Ok(())
}

/// Explains the checked statement at a place without a number, if any.
fn statement(
    document: &Document,
    query: &Query,
    error: TrailError,
    remote: &RemoteArgs,
    global: &Global,
) -> Result<(), Stop> {
    let (Some(line), None) = (query.line, &query.text) else {
        return Err(error.into());
    };
    let evidence = Evidence::of(document, remote, global)?;
    let provenance = evidence.provenance(document)?;
    let mut statements = why::statements(&provenance)?;
    statements.retain(|s| match (query.column, s.place) {
        (Some(column), _) => s.covers(line, column),
        (None, Some([from, _, to, _])) => (from..=to).contains(&line),
        (None, None) => false,
    });
    if statements.is_empty() {
        return Err(error.into());
    }
    if global.json {
        say(&json!({ "report": shown(&document.path), "statements": statements }).to_string());
    } else {
        let texts: Vec<String> = statements.iter().map(ToString::to_string).collect();
        say(&texts.join("\n\n"));
    }
    Ok(())
}

/// Reads the report and the trace next to it.
///
/// # Errors
/// If either is missing or not readable.
pub(super) fn open_document(report: &Path) -> Result<Document, Stop> {
    must_be(report, Wanted::Report)?;
    if report
        .extension()
        .is_some_and(|extension| extension == "html")
    {
        let markdown = report.with_extension("md");
        return Err(Stop::usage(format!(
            "{}: this command reads the Markdown report, of which this is the page",
            shown(report)
        ))
        .hint(format!(
            "use {}; the page's trails give its LINE:COLUMN for `why`",
            shown(&markdown)
        )));
    }
    Ok(Document::open(report, &trace_file(report))?)
}

/// Shows several matching numbers with their places, for the next question.
fn list(document: &Document, numbers: &[&Number], global: &Global) {
    if global.json {
        say(&json!({ "report": shown(&document.path), "several": numbers }).to_string());
        return;
    }
    let file = shown(&document.path);
    let row = |n: &&Number| {
        let source = match (&n.stage, &n.output) {
            (Some(stage), Some(output)) => format!("{stage}.{output}"),
            _ => n.source.to_string(),
        };
        let cell = |text: &Option<String>| text.clone().unwrap_or_default();
        vec![
            format!("{file}:{}", n.place()),
            n.text.clone(),
            source,
            n.row_key
                .as_ref()
                .map(|k| format!("{k:#}"))
                .unwrap_or_default(),
            cell(&n.column),
        ]
    };
    let rows: Vec<Vec<String>> = numbers.iter().take(40).map(row).collect();
    say(&columns(
        &["place", "number", "from", "row", "column"],
        &rows,
        &[1],
    ));
    if numbers.len() > rows.len() {
        say(&format!(
            "… and {} more; add a line",
            numbers.len() - rows.len()
        ));
    }
    if let Some(first) = numbers.first() {
        say(&format!(
            "{} numbers match; ask for one: benchtrail why {}:{}",
            numbers.len(),
            in_shell(&document.path),
            first.place()
        ));
    }
}

impl From<TrailError> for Stop {
    fn from(error: TrailError) -> Self {
        match error {
            TrailError::NoReport(_) => Self::nothing(error).hint(
                "`benchtrail run EXPERIMENT` renders a report and \
                    prints its path",
            ),
            TrailError::NoTrace(_) => Self::nothing(error).hint(
                "`why` needs the trace that `benchtrail run` writes next to the report; move the \
                two together",
            ),
            TrailError::NoNumber { ref hint, .. } => {
                let hint = hint.clone();
                Self::nothing(error).hint(hint)
            }
            TrailError::Io(..) => Self::refused(&error),
            TrailError::Trace(..) => {
                Self::failed(error).hint("`benchtrail run EXPERIMENT` writes it again")
            }
            TrailError::Store(error) => error.into(),
            TrailError::Artifact(..) => Self::damaged(error),
        }
    }
}
