//! What stands behind raw rows: the cells that measured them, the gates those cells met, the
//! server that answered and the host it ran on.

use std::collections::BTreeMap;

use artifacts::Digest;
use pipeline::Json;
use serde::Serialize;

use crate::error::TrailError;
use crate::lineage::RawRows;
use crate::provenance::{Holder, Provenance};

/// A measured cell and what its gates said.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadCell {
    /// The cell.
    pub cell: String,
    /// Its record; `None` if the lock has it no longer.
    pub record: Option<Digest>,
    /// When it was measured: wall clock, RFC 3339, UTC.
    pub started: Option<String>,
    /// The tool that measured, where its result file was imported; `None` for a live run. Then
    /// `started` is when the file was read.
    pub imported: Option<ImportedFrom>,
    /// Whether its rows were drawn from a declared model of a server.
    pub simulated: bool,
    /// What the measurement itself doubted.
    pub warnings: Vec<String>,
    /// What its gates said.
    pub gates: Gates,
    /// The server descriptor it was measured against.
    pub server: Option<Digest>,
}

/// Where imported rows come from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ImportedFrom {
    /// The tool that wrote the file, or the format of its table.
    pub tool: String,
    /// The file itself, as it was.
    pub original: Digest,
}

/// What gates said of a cell, or of a stage as a whole, by outcome.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Gates {
    /// How many passed.
    pub pass: usize,
    /// Those that failed.
    pub fail: Vec<GateFinding>,
    /// Those that could not be judged.
    pub not_judged: Vec<GateFinding>,
}

impl Gates {
    /// Returns how many gates were asked.
    pub fn asked(&self) -> usize {
        self.pass + self.fail.len() + self.not_judged.len()
    }

    fn add(&mut self, outcome: &str, finding: impl FnOnce() -> GateFinding) {
        match outcome {
            "pass" => self.pass += 1,
            "fail" => self.fail.push(finding()),
            _ => self.not_judged.push(finding()),
        }
    }
}

/// A gate that did not pass a cell (or its whole stage).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GateFinding {
    /// The gate.
    pub gate: String,
    /// `fail`, `exclude` or `warn`.
    pub severity: String,
    /// `fail` or `not judged`.
    pub outcome: String,
    /// The cell; `None` for the stage as a whole.
    pub cell: Option<String>,
    /// What was observed.
    pub observed: String,
    /// What was expected.
    pub expected: String,
}

/// A server as it was resolved, and the host it ran on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Server {
    /// The cell of the serve stage.
    pub cell: String,
    /// The server descriptor.
    pub artifact: Digest,
    /// The engine's name.
    pub engine: Option<String>,
    /// The engine's version.
    pub version: Option<String>,
    /// The model's name.
    pub model: Option<String>,
    /// The digest (SHA-256) of the weights.
    pub model_sha256: Option<String>,
    /// The resolved settings.
    pub settings: Json,
    /// The identity facets of the host.
    pub facets: Json,
    /// The environment descriptor of the provision stage.
    pub environment: Option<Digest>,
}

/// Everything behind raw rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Evidence {
    pub(crate) cells: Vec<LoadCell>,
    /// What the gates said of the stages as a whole.
    pub(crate) study: Gates,
    pub(crate) judged: bool,
    pub(crate) servers: Vec<Server>,
}

/// Collects what stands behind raw rows; `analysis` is the cell whose inputs they are.
///
/// # Errors
/// If an artifact on the way is missing or damaged.
pub(crate) fn behind(
    provenance: &Provenance<'_>,
    analysis: &Holder,
    raw: &[RawRows],
) -> Result<Evidence, TrailError> {
    let mut evidence = Evidence::default();
    let mut places: Vec<(&str, &str)> = Vec::new();
    for rows in raw {
        let place = (rows.stage.as_str(), rows.coordinates.as_str());
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let mut servers: BTreeMap<Digest, usize> = BTreeMap::new();
    for (stage, coordinates) in &places {
        let cell = pipeline::place::cell_text(stage, coordinates);
        let holder = provenance.at(stage, coordinates)?;
        let server = match &holder {
            Some(holder) => server_of(provenance, holder)?,
            None => None,
        };
        let server_digest = server.as_ref().map(|s| s.artifact);
        if let Some(server) = server
            && !servers.contains_key(&server.artifact)
        {
            servers.insert(server.artifact, evidence.servers.len());
            evidence.servers.push(server);
        }
        evidence.cells.push(LoadCell {
            cell,
            record: holder.as_ref().map(|h| h.digest),
            started: holder.as_ref().map(|h| h.record.started.clone()),
            imported: holder.as_ref().and_then(imported),
            simulated: holder
                .as_ref()
                .is_some_and(|h| !h.record.recipe.parameters["simulate"].is_null()),
            warnings: holder
                .map(|h| h.record.warnings.clone())
                .unwrap_or_default(),
            gates: Gates::default(),
            server: server_digest,
        });
    }
    judge(provenance, analysis, &places, &mut evidence)?;
    Ok(evidence)
}

/// Reads the gates of the cells: those that the analysis needs, else those of every stage that checked one of the cells.
fn judge(
    provenance: &Provenance<'_>,
    analysis: &Holder,
    places: &[(&str, &str)],
    evidence: &mut Evidence,
) -> Result<(), TrailError> {
    let inputs = analysis.record.recipe.inputs.iter().flat_map(|i| &i.cells);
    let mut tables: Vec<Digest> = inputs
        .filter_map(|cell| cell.outputs.get("gates").copied())
        .collect();
    if tables.is_empty() {
        tables = provenance.gates_of(places)?;
    }
    let by_cell: BTreeMap<(&str, &str), usize> =
        (0..).zip(places).map(|(at, p)| (*p, at)).collect();
    for digest in &tables {
        evidence.judged = true;
        let table = provenance.reader.table(digest)?;
        let wrong = |e: artifacts::TableError| TrailError::Artifact(*digest, e.to_string());
        let text = |name: &str| table.text(name).map_err(wrong);
        let (stages, cells, gates) = (text("stage")?, text("cell")?, text("gate")?);
        let (severities, observed, expected) =
            (text("severity")?, text("observed")?, text("expected")?);
        let outcomes = text("outcome")?;
        for i in 0..table.rows() {
            let stage = stages[i].unwrap_or_default();
            let outcome = outcomes[i].unwrap_or_default();
            let finding = || GateFinding {
                gate: gates[i].unwrap_or_default().to_owned(),
                severity: severities[i].unwrap_or_default().to_owned(),
                outcome: outcome.to_owned(),
                cell: cells[i].map(str::to_owned),
                observed: observed[i].unwrap_or_default().to_owned(),
                expected: expected[i].unwrap_or_default().to_owned(),
            };
            // A gate of a stage without axes names its only cell with nothing.
            match cells[i].and_then(|cell| by_cell.get(&(stage, cell))) {
                Some(at) => evidence.cells[*at].gates.add(outcome, finding),
                None if cells[i].is_some() || !places.iter().any(|(s, _)| *s == stage) => {}
                None => evidence.study.add(outcome, finding),
            }
        }
    }
    Ok(())
}

/// Returns where a cell's rows were imported from.
fn imported(holder: &Holder) -> Option<ImportedFrom> {
    let tool = holder
        .record
        .recipe
        .parameters
        .pointer("/import/tool")?
        .as_str()?
        .to_owned();
    Some(ImportedFrom {
        tool,
        original: holder.record.outputs.get("original")?.digest,
    })
}

/// Returns the server behind a measured cell: the input that has a server descriptor.
fn server_of(provenance: &Provenance<'_>, holder: &Holder) -> Result<Option<Server>, TrailError> {
    let inputs = holder.record.recipe.inputs.iter();
    let mut cells =
        inputs.flat_map(|input| input.cells.iter().map(move |cell| (&input.stage, cell)));
    let found = cells.find_map(|(stage, cell)| Some((stage, cell, *cell.outputs.get("server")?)));
    let Some((stage, cell, artifact)) = found else {
        return Ok(None);
    };
    let descriptor = provenance.reader.json(&artifact)?;
    let text = |pointer: &str| {
        descriptor
            .pointer(pointer)
            .and_then(Json::as_str)
            .map(str::to_owned)
    };
    let coordinates = cell.coordinates.to_string();
    let environment = provenance.at(stage, &coordinates)?.and_then(|serve| {
        let mut cells = serve.record.recipe.inputs.iter().flat_map(|i| &i.cells);
        cells.find_map(|c| c.outputs.get("environment").copied())
    });
    Ok(Some(Server {
        cell: pipeline::place::cell_text(stage, &coordinates),
        artifact,
        engine: text("/engine/name"),
        version: text("/engine/version").or_else(|| text("/version")),
        model: text("/model/name").or_else(|| text("/model_name")),
        model_sha256: text("/model/sha256"),
        settings: descriptor.get("settings").cloned().unwrap_or_default(),
        facets: descriptor.get("facets").cloned().unwrap_or_default(),
        environment,
    }))
}
