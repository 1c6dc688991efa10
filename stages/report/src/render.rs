//! From parameters and data to a report: rendering, extraction of the trace, number check.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex};

use artifacts::{Digest, Store, Table};
use minijinja::Environment;

use crate::check::{Objection, check, check_words, with_names};
use crate::data::Data;
use crate::figure::Drawn;
use crate::held::Spent;
use crate::html;
use crate::language::{World, install, render_text};
use crate::mistakes::describe;
use crate::numbering::Declared;
use crate::settings::{FigureSettings, Parameters};
use crate::statement::statements_table;
use crate::template::{environment, instrument};
use crate::trace::{Extracted, Ledger, extract, trace_table, unmarked};

/// A rendered and checked report.
#[derive(Debug)]
pub struct Report {
    /// The Markdown.
    pub markdown: String,
    /// The trace, one row per traced text.
    pub trace: Table,
    /// The statements and claims, one row each.
    pub statements: Table,
    /// The tables that the report derived itself, by name.
    pub derived: Vec<(String, Arc<Table>)>,
    /// The figures used.
    pub figures: Vec<Drawn>,
    /// The report as one HTML file.
    pub html: String,
}

/// Why a report could not be rendered.
#[derive(Debug)]
pub struct RenderError {
    /// The error message.
    pub message: String,
    /// If checks reject the report, the identity of each finding: its place in the template, and what is wrong there.
    pub findings: Vec<String>,
}

impl From<String> for RenderError {
    fn from(message: String) -> Self {
        Self {
            message,
            findings: Vec::new(),
        }
    }
}

impl fmt::Display for RenderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RenderError {}

/// Renders a report; the store supplies the artifacts that the template looks up.
///
/// # Errors
/// An error of a template with its line, an artifact that cannot be read, or every number that the check rejects.
pub fn render(
    parameters: &Parameters,
    data: &Arc<Data>,
    store: &Store,
) -> Result<Report, RenderError> {
    let parameters = Arc::new(parameters.clone());
    // Tables named explicitly are read at once, since each later fetch renders again.
    let tables = parameters.tables.iter().map(|t| t.settings.from.as_str());
    let figures = parameters.figures.iter().map(|f| f.settings.table.as_str());
    let in_templates = parameters
        .templates
        .iter()
        .flat_map(|t| t.text.split(['"', '\'']));
    data.read_ahead(tables.chain(figures).chain(in_templates), store);
    loop {
        match attempt(&parameters, data) {
            Ok(report) => return Ok(report),
            Err(error) => {
                if !data.fetch(store)? {
                    return Err(error);
                }
            }
        }
    }
}

fn attempt(parameters: &Arc<Parameters>, data: &Arc<Data>) -> Result<Report, RenderError> {
    let declared = Declared {
        tables: parameters.tables.iter().map(|t| t.name.clone()).collect(),
        figures: parameters.figures.iter().map(|f| f.name.clone()).collect(),
    };
    let shown = crate::numbering::shown(&parameters.templates, &declared);
    let world = Arc::new(World {
        data: data.clone(),
        parameters: parameters.clone(),
        trace: Ledger::default(),
        figures: Mutex::new(BTreeSet::new()),
        labels: crate::parts::labels(parameters, &shown),
        texts: Mutex::default(),
        absent: Mutex::default(),
        reasons: Mutex::default(),
        statements: Mutex::default(),
        spent: Arc::new(Spent::stopped_by(data.stop_flag())),
    });
    crate::claims::derive(&world).map_err(|miss| miss.to_string())?;
    let mut environment = environment();
    install(&mut environment, &world);
    for (number, template) in parameters.templates.iter().enumerate() {
        let marked = instrument(number, &template.text);
        environment
            .add_template_owned(template.name.clone(), marked)
            .map_err(|e| describe(&e, &environment, &world))?;
    }
    let first = parameters
        .templates
        .first()
        .ok_or_else(|| "the report has no template".to_owned())?;
    let template = environment
        .get_template(&first.name)
        .map_err(|e| describe(&e, &environment, &world))?;
    let rendered = template
        .render(())
        .map_err(|e| describe(&e, &environment, &world))?;
    let extracted = extract(&crate::blocks::separated(&rendered), &world.trace)?;
    let literals = with_names(&parameters.literals, data, &extracted.markdown);
    let mut outcome = check(&extracted.markdown, &extracted.spans, &literals);
    let recorded = world
        .statements
        .lock()
        .expect("no holder of this lock panics")
        .clone();
    let words = check_words(&extracted, &recorded, &parameters.literals);
    let templates = parameters.templates.iter().map(|t| t.name.clone());
    let texts = world.texts.lock().expect("no holder of this lock panics");
    let names: Vec<String> = templates.chain(texts.iter().cloned()).collect();
    drop(texts);
    let phrases = crate::claims::forbidden(&extracted, &world);
    let factors = crate::ratios::check(&extracted);
    refuse(
        &[
            (&outcome.findings, "number"),
            (&words.findings, "word"),
            (&phrases, "phrase"),
            (&factors, "factor"),
        ],
        &extracted,
        &names,
    )?;
    outcome.literals.extend(words.literals);
    let figures = figures(&world, &environment)?;
    let mut spans = extracted.spans;
    spans.extend(outcome.literals);
    spans.sort_by_key(|s| (s.bytes.start, s.bytes.end));
    let trace = trace_table(&spans).map_err(|e| e.to_string())?;
    let statements = statements_table(
        &recorded,
        &extracted.statements,
        &extracted.markdown,
        &names,
    )
    .map_err(|e| e.to_string())?;
    let html = html::page(&html::Parts {
        markdown: &extracted.markdown,
        spans: &spans,
        enclosed: &extracted.statements,
        recorded: &recorded,
        figures: &figures,
    });
    Ok(Report {
        markdown: extracted.markdown,
        trace,
        statements,
        derived: data.derived(),
        figures,
        html,
    })
}

/// Rejects the report if a check has findings, with every finding of every check.
fn refuse(
    objections: &[(&Vec<Objection>, &str)],
    extracted: &Extracted,
    names: &[String],
) -> Result<(), RenderError> {
    let (mut messages, mut identities) = (Vec::new(), Vec::new());
    for (findings, what) in objections
        .iter()
        .filter(|(findings, _)| !findings.is_empty())
    {
        messages.push(refusal(findings, what, extracted, names));
        let identity = |f: &Objection| {
            let place = place_of_finding(f, extracted, names);
            format!("{place}: {}", f.reason)
        };
        identities.extend(findings.iter().map(identity));
    }
    if messages.is_empty() {
        return Ok(());
    }
    Err(RenderError {
        message: messages.join("\n"),
        findings: identities,
    })
}

/// Draws the figures that the text shows.
fn figures(world: &World, environment: &Environment<'_>) -> Result<Vec<Drawn>, String> {
    let used = world
        .figures
        .lock()
        .expect("no holder of this lock panics")
        .clone();
    let drawn = |at: usize| {
        let figure = &world.parameters.figures[at];
        let (svg, digests) = draw(world, environment, &world.data, &figure.settings)
            .map_err(|message| format!("figure `{}`: {message}", figure.name))?;
        Ok(Drawn {
            name: figure.name.clone(),
            svg,
            table: figure.settings.table.clone(),
            digests,
        })
    };
    used.into_iter().map(drawn).collect()
}

fn draw(
    world: &World,
    environment: &Environment<'_>,
    data: &Data,
    settings: &FigureSettings,
) -> Result<(String, Vec<Digest>), String> {
    let text = |what: &str, text: &str| {
        render_text(world, environment, what, text)
            .map(|t| unmarked(&t))
            .map_err(|e| describe(&e, environment, world))
    };
    let title = text("title", &settings.title)?;
    let caption = text("caption", &settings.caption)?;
    if let Some(reason) = data.unsampled(&settings.table) {
        let svg = crate::figure::empty((&title, &caption), &reason, &[]);
        return Ok((svg, Vec::new()));
    }
    let only = crate::language::declared(&settings.only);
    let view = data
        .view(&settings.table, &only)
        .map_err(|miss| miss.to_string())?;
    crate::labels::check_labels(settings, &world.parameters.literals, data, &view)?;
    let lacks = crate::footnotes::of(world, &settings.table, &view, &only)
        .map_err(|miss| miss.to_string())?;
    crate::figure::draw(data, settings, &lacks, (&title, &caption)).map_err(|e| e.to_string())
}

/// Returns the place of a finding in its template.
fn place_of_finding(finding: &Objection, extracted: &Extracted, names: &[String]) -> String {
    let place = extracted.origin(finding.at).and_then(|o| {
        Some(format!(
            "{}:{}:{}",
            names.get(o.template)?,
            o.line,
            o.column
        ))
    });
    place.unwrap_or_else(|| "template".to_owned())
}

/// Describes what a check rejects, with the place of each finding in the report and in the template.
fn refusal(findings: &[Objection], what: &str, extracted: &Extracted, names: &[String]) -> String {
    let count = findings.len();
    let s = if count == 1 { "" } else { "s" };
    let mut message = format!("the {what} check refuses {count} {what}{s}");
    for finding in findings {
        let from = place_of_finding(finding, extracted, names);
        let Objection {
            line,
            column,
            text,
            context,
            reason,
            remedy,
            ..
        } = finding;
        let _ = write!(
            message,
            "\n  {from} (report {line}:{column}): `{text}`: {reason}\n    | {}\n    hint: {remedy}",
            context.trim()
        );
    }
    message
}
