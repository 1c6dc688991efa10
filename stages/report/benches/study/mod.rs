//! A study with a report of a given length: 50 traced numbers per page.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use artifacts::{Column, Digest, Scalar, Store, Table};
use contract::{LineageRow, LineageSource, SourceArtifact, lineage_table};
use pipeline::place::CellName;
use pipeline::stage::{
    Artifact, CellStatus, Control, Coordinates, Done, Input, InputCell, Job, Json, Library, Media,
    StageKind as _, Study,
};
use report::Report;
use serde_json::json;

/// Traced numbers per page: a heading, fifteen in prose, and a table of eight rows and four columns with its number and
/// a count.
pub(crate) const NUMBERS: usize = 50;
const RUNGS: usize = 8;

struct OneTemplate(String);

impl Library for OneTemplate {
    fn find(&self, collection: &str, name: &str) -> Option<Json> {
        (collection == "templates" && name == "t.md").then(|| Json::String(self.0.clone()))
    }

    fn names(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}

/// The inputs of a report, its settings in canonical form, and the study.
pub(crate) struct Long {
    pub(crate) inputs: Vec<Input>,
    pub(crate) parameters: Json,
    pub(crate) study: Study,
}

fn put(store: &Store, table: &Table) -> Artifact {
    let bytes = table.to_parquet().expect("a table");
    let digest = store.put(&bytes).expect("the store takes it");
    Artifact {
        digest,
        media: Media::Parquet,
        bytes: bytes.len() as u64,
        rows: Some(table.rows() as u64),
    }
}

fn cell(coordinates: Coordinates, outputs: Vec<(&str, Artifact)>) -> InputCell {
    InputCell {
        coordinates,
        status: CellStatus::Ok,
        reason: None,
        parameters: json!({}),
        outputs: outputs
            .into_iter()
            .map(|(name, a)| (name.to_owned(), a))
            .collect(),
        record: None,
        live: None,
    }
}

impl Long {
    /// Makes a study with a report of `pages` pages; each page shows the results of eight measured cells.
    pub(crate) fn new(store: &Store, pages: usize) -> Self {
        let rows = pages * RUNGS;
        let whole = |i: usize| i64::try_from(i).expect("small");
        let mut ladder = Vec::new();
        let mut sources = Vec::new();
        for row in 0..rows {
            let latency = (0..32).map(|i| Some((row * 32 + i) as f64 * 0.37 + 1.0));
            let artifact = put(
                store,
                &Table::new(vec![Column::float("ttft", latency).unit("ms")]).expect("a table"),
            );
            let at = Coordinates(vec![("cell".to_owned(), Scalar::Int(whole(row)))]);
            sources.push(LineageSource::Artifact(Arc::new(SourceArtifact {
                cell: CellName {
                    stage: "ladder".to_owned(),
                    coordinates: at.clone(),
                },
                output: "requests".to_owned(),
                digest: artifact.digest,
            })));
            ladder.push(cell(at, vec![("requests", artifact)]));
        }
        let numbers = |scale: f64| {
            (0..rows).map(move |i| Some(((i * 7919) % 997) as f64 * scale + 0.123_456))
        };
        let cells = Table::with_metadata(
            vec![
                Column::int("page", (0..rows).map(|i| Some(whole(i / RUNGS)))),
                Column::int("rung", (0..rows).map(|i| Some(whole(i % RUNGS)))),
                Column::float("throughput", numbers(1.7)).unit("tok/s"),
                Column::float("ttft", numbers(0.3)).unit("ms"),
                Column::float("efficiency", numbers(0.001)).unit("1"),
            ],
            &[("keys", "page,rung")],
        );
        let lineage = lineage_table(sources.iter().enumerate().map(|(row, source)| LineageRow {
            row,
            source,
            start: 0,
            end: 32,
        }));
        let outputs = vec![
            ("cells", put(store, &cells.expect("a table"))),
            ("cells.lineage", put(store, &lineage.expect("a table"))),
        ];
        let results = cell(Coordinates::default(), outputs);
        let input = |stage: &str, kind: &str, cells| Input {
            stage: stage.into(),
            kind: kind.into(),
            needs: Vec::new(),
            cells,
        };
        let inputs = vec![
            input("ladder", "load", ladder),
            input("results", "analyze", vec![results]),
        ];
        let settings = json!({ "template": "t.md", "tables": tables(pages) });
        let parameters = Report
            .canonical(&settings, &OneTemplate(template(pages)))
            .expect("fitting settings");
        let study = Study {
            trail: Digest::of(b"trail"),
            spec: json!({ "experiment": "long", "axes": {} }),
            ledger: Vec::new(),
        };
        Self {
            inputs,
            parameters,
            study,
        }
    }

    /// Renders the report.
    pub(crate) fn render(&self, store: &Store, scratch: &Path) -> Done {
        let nothing = Coordinates::default();
        let control = Control::quiet();
        let leases = pipeline::Leases::new(scratch, "long", "report");
        let job = Job {
            experiment: "long",
            stage: "report",
            coordinates: &nothing,
            parameters: &self.parameters,
            seed: 164,
            replicate: &nothing,
            inputs: &self.inputs,
            store,
            files: &Default::default(),
            scratch,
            control: &control,
            leases: &leases,
            study: Some(&self.study),
        };
        Report
            .run(&job)
            .unwrap_or_else(|failure| panic!("{}", failure.reason))
    }
}

fn tables(pages: usize) -> BTreeMap<String, Json> {
    let table = |page: usize| {
        let columns = json!([
            {"column": "rung"}, {"column": "throughput", "format": "0.0"}, {"column": "ttft", "format": "0.00"},
            {"column": "efficiency", "format": "0.000"},
        ]);
        let caption =
            format!("Results of {{{{ count(\"results.cells\", {{\"page\": {page}}}) }}}} cells.");
        json!({"from": "results.cells", "columns": columns, "where": {"page": page}, "caption": caption})
    };
    (0..pages)
        .map(|page| (format!("page-{page:05}"), table(page)))
        .collect()
}

const FILLER: &str = "The server answers each request in the order in which it came, and the clients wait for the \
                      answer before they send another; what is told here holds for this host and these settings.";

fn template(pages: usize) -> String {
    let mut text = String::from("# A long report\n");
    for page in 0..pages {
        let value = |rung: usize, column: &str, format: &str| {
            format!(
                "{{{{ value(\"results.cells\", {{\"page\": {page}, \"rung\": {rung}}}, \"{column}\", \"{format}\") }}}}"
            )
        };
        let _ = write!(text, "\n## Part {}\n", value(0, "page", "0"));
        for rung in 0..5 {
            let (a, b, c) = (
                value(rung, "throughput", "0.0u"),
                value(rung, "ttft", "0.0u"),
                value(rung, "efficiency", "0.0%"),
            );
            let _ = write!(
                text,
                "\nThe server gives {a} at {b}, which is {c} of it. {FILLER} {FILLER}\n"
            );
        }
        let _ = write!(text, "\n{{{{ table(\"page-{page:05}\") }}}}\n");
    }
    text
}
