//! The stage kind `report`.

use std::sync::Arc;

use pipeline::stage::{
    Class, Done, Failure, Job, Json, KnownAxis, KnownStage, Library, Media, Output, Problem,
    StageKind, Step,
};

use crate::data::{Data, Miss};
use crate::names;
use crate::render::render;
use crate::settings::{Parameters, Settings, canonical, figure_output};

/// Renders the report: outputs `report` (Markdown), `html`, `trace` and `statements` (tables), `figures/NAME.svg`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report;

impl StageKind for Report {
    fn name(&self) -> &'static str {
        "report"
    }

    fn other_words(&self) -> &'static [&'static str] {
        &["plot", "render", "figure", "figures", "publish", "document"]
    }

    fn semantic_version(&self) -> u32 {
        35
    }

    fn class(&self) -> Class {
        Class::Pure
    }

    fn schema(&self) -> schemars::Schema {
        schemars::schema_for!(Settings)
    }

    fn canonical(&self, settings: &Json, library: &dyn Library) -> Result<Json, Vec<Problem>> {
        let parameters = canonical(settings, library)?;
        Ok(serde_json::to_value(parameters).expect("parameters are plain data"))
    }

    fn ordered(&self) -> &'static [&'static str] {
        &["tables", "figures"]
    }

    fn unknown_names(
        &self,
        parameters: &Json,
        stages: &[KnownStage],
        axes: &[KnownAxis],
    ) -> Vec<Problem> {
        let parameters: Option<Parameters> = serde_json::from_value(parameters.clone()).ok();
        parameters.map_or_else(Vec::new, |parameters| {
            names::unknown(&parameters, stages, axes)
        })
    }

    fn sees_study(&self) -> bool {
        true
    }

    fn run(&self, job: &Job<'_>) -> Result<Done, Failure> {
        report(job, Data::new(job.inputs, job.study))
    }

    fn rehearse(&self, job: &Job<'_>, _slowdown: f64) -> Result<Done, Failure> {
        report(job, Data::new(job.inputs, job.study).of_rehearsal())
    }
}

/// Returns the first setting of a declared table or figure that names a table or a column which does not exist. The error
/// of a template names only the place that shows it.
fn misnamed(parameters: &Parameters, data: &Data) -> Option<Failure> {
    let tables = parameters.tables.iter().map(|table| {
        let names = table.settings.columns_read();
        (
            "tables",
            table.name.as_str(),
            ("from", table.settings.from.as_str()),
            names,
        )
    });
    let figures = parameters.figures.iter().map(|figure| {
        let names = figure.settings.columns_read();
        (
            "figures",
            figure.name.as_str(),
            ("table", figure.settings.table.as_str()),
            names,
        )
    });
    let failed = |(section, name, key): (&str, &str, &str), miss: Miss| match miss {
        Miss::Wrong(message) => Some(
            Failure::failed(format!(
                "{} `{name}`: {message}",
                section.trim_end_matches('s')
            ))
            .about(&[section, name, key]),
        ),
        Miss::Unread => None,
    };
    tables
        .chain(figures)
        .find_map(|(section, name, (key, table), columns)| {
            let opened = match data.open(table) {
                Ok(opened) => opened,
                Err(_) if data.unsampled(table).is_some() => return None,
                Err(miss) => return failed((section, name, key), miss),
            };
            let mut columns = columns.into_iter();
            columns.find_map(|(route, column)| {
                let key = match route.first() {
                    Some(Step::Key(key)) => key.as_str(),
                    _ => "",
                };
                failed((section, name, key), opened.require(column).err()?)
            })
        })
}

fn report(job: &Job<'_>, data: Data) -> Result<Done, Failure> {
    let parameters: Parameters = serde_json::from_value(job.parameters.clone())
        .map_err(|e| Failure::failed(format!("the parameters cannot be read: {e}")))?;
    let data = data.of_stage(job.stage);
    let data = Arc::new(data.stopped_by(job.control.stop_flag()));
    let report = render(&parameters, &data, job.store);
    // A stopped template is not a template error.
    job.control.check()?;
    let report = report.map_err(|error| {
        let misnamed = misnamed(&parameters, &data);
        misnamed.unwrap_or_else(|| Failure::failed(error.message).findings(error.findings))
    })?;
    let mut outputs = vec![
        Output::text("report", Media::Markdown, report.markdown),
        Output::text("html", Media::Html, report.html),
        Output::table("trace", &report.trace)?,
        Output::table("statements", &report.statements)?,
    ];
    for (name, table) in &report.derived {
        outputs.push(Output::table(name.clone(), table)?);
    }
    for figure in report.figures {
        outputs.push(Output::text(
            figure_output(&figure.name),
            Media::Svg,
            figure.svg,
        ));
    }
    Ok(Done {
        outputs,
        ..Done::default()
    })
}
