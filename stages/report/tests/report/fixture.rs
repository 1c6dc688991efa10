//! A small study with synthetic rows in realistic shapes.

use std::collections::BTreeMap;
use std::path::Path;

use artifacts::{Column, Digest, Scalar, Store, Table};
use pipeline::stage::{
    Artifact, CellStatus, Control, Coordinates, Done, Failure, Input, InputCell, Job, Json,
    LedgerLine, Library, Media, Problem, StageKind, Study,
};
use report::Report;
use serde_json::json;

pub(crate) struct Templates(pub(crate) BTreeMap<String, String>);

impl Templates {
    pub(crate) fn one(text: &str) -> Self {
        Self(BTreeMap::from([("t.md".to_owned(), text.to_owned())]))
    }
}

impl Library for Templates {
    fn find(&self, collection: &str, name: &str) -> Option<Json> {
        (collection == "templates").then(|| self.0.get(name).cloned().map(Json::String))?
    }

    fn names(&self, collection: &str) -> Vec<String> {
        if collection == "templates" {
            self.0.keys().cloned().collect()
        } else {
            Vec::new()
        }
    }
}

pub(crate) struct Lab {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) store: Store,
    pub(crate) inputs: Vec<Input>,
    pub(crate) study: Study,
}

pub(crate) fn coordinates(pairs: &[(&str, Scalar)]) -> Coordinates {
    Coordinates(
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), v.clone()))
            .collect(),
    )
}

fn text(value: &str) -> Scalar {
    Scalar::Text(value.to_owned())
}

pub(crate) fn store_table(store: &Store, table: &Table) -> Artifact {
    let bytes = table.to_parquet().unwrap();
    let digest = store.put(&bytes).unwrap();
    Artifact {
        digest,
        media: Media::Parquet,
        bytes: bytes.len() as u64,
        rows: Some(table.rows() as u64),
    }
}

pub(crate) fn store_json(store: &Store, value: &Json) -> Artifact {
    let bytes = serde_json::to_vec_pretty(value).unwrap();
    let digest = store.put(&bytes).unwrap();
    Artifact {
        digest,
        media: Media::Json,
        bytes: bytes.len() as u64,
        rows: None,
    }
}

pub(crate) fn cell(at: Coordinates, outputs: Vec<(&str, Artifact)>) -> InputCell {
    InputCell {
        coordinates: at,
        status: CellStatus::Ok,
        reason: None,
        parameters: json!({}),
        outputs: outputs
            .into_iter()
            .map(|(k, v)| (k.to_owned(), v))
            .collect(),
        record: None,
        live: None,
    }
}

pub(crate) fn efficiency() -> Table {
    let configurations = [
        "batched", "batched", "batched", "serial", "serial", "serial",
    ];
    Table::with_metadata(
        vec![
            Column::text("configuration", configurations.map(Some)),
            Column::text("workload", ["short-decode"; 6].map(Some)),
            Column::int("concurrency", [1, 2, 4, 1, 2, 4].map(Some)),
            Column::float(
                "efficiency",
                [1.0, 0.913, 0.7574, 1.0, 0.52, 0.251].map(Some),
            )
            .unit("1")
            .describe("output throughput over N times that at N = 1"),
            Column::float(
                "low",
                [
                    Some(1.0),
                    Some(0.9),
                    Some(0.74),
                    Some(1.0),
                    None,
                    Some(0.24),
                ],
            )
            .unit("1"),
            Column::float(
                "high",
                [
                    Some(1.0),
                    Some(0.93),
                    Some(0.78),
                    Some(1.0),
                    None,
                    Some(0.26),
                ],
            )
            .unit("1"),
            Column::float(
                "serial_reference",
                [1.0, 0.5, 0.25, 1.0, 0.5, 0.25].map(Some),
            )
            .unit("1"),
            Column::float(
                "e2e_p95",
                [101.25, 130.5, 190.0, 99.0, 180.0, 352.0].map(Some),
            )
            .unit("ms"),
        ],
        &[("operator", "parallel-efficiency")],
    )
    .unwrap()
}

fn breakdown() -> Table {
    Table::new(vec![
        Column::text("configuration", [Some("batched"), Some("serial")]),
        Column::int("breakdown_n", [None, Some(2)]),
        Column::boolean("monotone", [Some(true), Some(true)]),
        Column::text("note", [Some("a|b"), Some("threshold 0.65")]),
    ])
    .unwrap()
}

pub(crate) fn comparison() -> Table {
    Table::new(vec![
        Column::text("workload", [Some("short-decode"), Some("shared-prefix")]),
        Column::float("delta", [Some(0.42), Some(-0.0349)]).unit("1"),
        Column::float("ci_low", [Some(0.31), Some(-0.07)]).unit("1"),
        Column::float("ci_high", [Some(0.55), Some(0.01)]).unit("1"),
        Column::float("p_holm", [Some(0.000_4), Some(0.21)]).unit("1"),
        Column::text("a", [Some("batched"); 2]),
        Column::text("higher", [Some("batched"), Some("serial")]),
        Column::text("verdict", [Some("different"), Some("no evidence")]),
    ])
    .unwrap()
}

impl Lab {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let nothing = coordinates(&[]);
        let results = cell(
            nothing.clone(),
            vec![
                ("efficiency", store_table(&store, &efficiency())),
                ("breakdown", store_table(&store, &breakdown())),
                ("comparison", store_table(&store, &comparison())),
            ],
        );
        let host = json!({
            "facets": {"cpu.model": "Some CPU 7B13", "cpu.count": 2},
            "observations": {"memory_mib": {"value": 3936}, "gpu": {"value": null, "reason": "no such device"}},
        });
        let environment = json!({"engine": "llama-cpp", "version": "0.3.16", "pins": [1, 2, 3]});
        let machine = cell(
            nothing.clone(),
            vec![
                ("host", store_json(&store, &host)),
                ("environment", store_json(&store, &environment)),
            ],
        );
        let (mut servers, mut ladder) = (Vec::new(), Vec::new());
        for (configuration, slots) in [("batched", 8), ("serial", 1)] {
            let at = coordinates(&[("configuration", text(configuration))]);
            let server = json!({"settings": {"parallel": slots}, "model": {"bytes": 144_811_456}});
            servers.push(cell(at, vec![("server", store_json(&store, &server))]));
            let at = coordinates(&[
                ("configuration", text(configuration)),
                ("concurrency", Scalar::Int(2)),
            ]);
            let latencies: Vec<_> = (0..20)
                .map(|i| Some(100.0 + f64::from(i * i) * f64::from(slots)))
                .collect();
            let requests = Table::new(vec![Column::float("e2e_ms", latencies).unit("ms")]).unwrap();
            ladder.push(cell(at, vec![("requests", store_table(&store, &requests))]));
        }
        let input = |stage: &str, kind: &str, cells| Input {
            stage: stage.into(),
            kind: kind.into(),
            needs: Vec::new(),
            cells,
        };
        let line = |stage: &str, at: Coordinates, status, reason: Option<&str>| LedgerLine {
            execution: None,
            stage: stage.to_owned(),
            coordinates: at,
            status,
            reason: reason.map(str::to_owned),
            evidence: BTreeMap::new(),
        };
        let at = |n| {
            coordinates(&[
                ("configuration", text("batched")),
                ("concurrency", Scalar::Int(n)),
            ])
        };
        let study = Study {
            spec: json!({
                "experiment": "quickstart", "title": "A study of 2 servers", "seed": 164,
                "axes": {"configuration": ["batched", "serial"], "concurrency": [1, 2, 4]},
            }),
            trail: Digest::of(b"trail"),
            ledger: vec![
                line("ladder", at(1), CellStatus::Ok, None),
                line("ladder", at(2), CellStatus::Ok, None),
                line(
                    "ladder",
                    at(4),
                    CellStatus::Timeout,
                    Some("the cell's time limit passed"),
                ),
            ],
        };
        let inputs = vec![
            input("machine", "provision", vec![machine]),
            input("server", "serve", servers),
            input("ladder", "load", ladder),
            input("results", "analyze", vec![results]),
        ];
        Self {
            folder,
            store,
            inputs,
            study,
        }
    }

    pub(crate) fn render(&self, settings: &Json, templates: &Templates) -> Result<Done, Failure> {
        self.render_with(settings, templates)
    }

    pub(crate) fn render_with(
        &self,
        settings: &Json,
        library: &dyn Library,
    ) -> Result<Done, Failure> {
        let parameters = Report
            .canonical(settings, library)
            .map_err(|p| Failure::failed(placed(&p[0])))?;
        let nothing = coordinates(&[]);
        let control = Control::quiet();
        let scratch: &Path = self.folder.path();
        let leases = pipeline::Leases::new(scratch, "quickstart", "report");
        Report.run(&Job {
            experiment: "quickstart",
            stage: "report",
            coordinates: &nothing,
            parameters: &parameters,
            seed: 164,
            replicate: &nothing,
            inputs: &self.inputs,
            store: &self.store,
            files: &Default::default(),
            scratch,
            control: &control,
            leases: &leases,
            study: Some(&self.study),
        })
    }

    /// Renders a template with no declarations.
    pub(crate) fn render_text(&self, text: &str) -> Result<String, String> {
        let done = self.render(&json!({"template": "t.md"}), &Templates::one(text));
        done.map(|d| markdown(&d)).map_err(|f| f.reason)
    }
}

/// Returns the message of a problem behind its place in a template, if it is in one.
fn placed(problem: &Problem) -> String {
    let (Some(part), Some(definition)) = (&problem.part, &problem.definition) else {
        return problem.message.clone();
    };
    let before = &part.0[..part.1.start];
    let line = before.matches('\n').count() + 1;
    format!("{}:{line}: {}", definition.1, problem.message)
}

pub(crate) fn canonical(settings: &Json, templates: &Templates) -> Result<Json, Vec<Problem>> {
    Report.canonical(settings, templates)
}

pub(crate) fn bytes(done: &Done, name: &str) -> Vec<u8> {
    let output = done.outputs.iter().find(|o| o.name == name).unwrap();
    match &output.content {
        pipeline::stage::Content::Bytes(bytes) => bytes.clone(),
        pipeline::stage::Content::File(path) => std::fs::read(path).unwrap(),
    }
}

pub(crate) fn markdown(done: &Done) -> String {
    String::from_utf8(bytes(done, "report")).unwrap()
}

pub(crate) fn trace(done: &Done) -> Table {
    Table::from_parquet(bytes(done, "trace")).unwrap()
}
