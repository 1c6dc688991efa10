//! The evidence behind raw rows: the cells that measured them, their gates, the server that answered and its host.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use artifacts::{Digest, Table, TableError};
use contract::{GateOutcome, Word as _};
use pipeline::{CellStatus, Json};
use serde::Serialize;

use crate::error::TrailError;
use crate::lineage::RawRows;
use crate::provenance::{Holder, Provenance};

/// A measured cell and the outcomes of its gates.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadCell {
    /// The cell.
    pub cell: String,
    /// How it ended and why, if it is not ok. No gate has judged its rows then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Its record; `None` if the lock no longer has it.
    pub record: Option<Digest>,
    /// The start of its measurement: wall clock, RFC 3339, UTC.
    pub started: Option<String>,
    /// The tool that measured, if its result file was imported; `None` for a live run. For an import, `started` is the
    /// time of reading the file.
    pub imported: Option<ImportedFrom>,
    /// Whether its rows were drawn from a declared model of a server.
    pub simulated: bool,
    /// The warnings of the measurement itself.
    pub warnings: Vec<String>,
    /// The outcomes of its gates.
    pub gates: Gates,
    /// The descriptor of the server under load.
    pub server: Option<Digest>,
}

/// The origin of imported rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ImportedFrom {
    /// The tool that wrote the file, or the format of its table.
    pub tool: String,
    /// The original file.
    pub original: Digest,
}

/// The gates of a cell or of a whole stage, by outcome.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Gates {
    /// The number of gates that passed.
    pub pass: usize,
    /// The gates that failed.
    pub fail: Vec<GateFinding>,
    /// The gates that could not judge.
    pub not_judged: Vec<GateFinding>,
}

impl Gates {
    /// Returns the number of gates.
    pub fn asked(&self) -> usize {
        self.pass + self.fail.len() + self.not_judged.len()
    }

    fn add(&mut self, finding: &GateFinding) {
        match GateOutcome::parse(&finding.outcome) {
            Ok(GateOutcome::Pass) => self.pass += 1,
            Ok(GateOutcome::Fail) => self.fail.push(finding.clone()),
            Ok(GateOutcome::NotJudged) | Err(_) => self.not_judged.push(finding.clone()),
        }
    }
}

/// A gate that did not pass for a cell (or its whole stage).
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
    /// The observed value.
    pub observed: String,
    /// The expected value.
    pub expected: String,
}

/// A table of gates, read once for all queries.
#[derive(Debug)]
pub(crate) struct GateTable {
    /// The findings with their stages, in the order of the table.
    findings: Vec<(String, GateFinding)>,
    /// The indices of findings about a cell, by stage and cell.
    of_cell: HashMap<String, HashMap<String, Vec<usize>>>,
    /// The indices of findings about a whole stage.
    of_stage: Vec<usize>,
}

impl GateTable {
    /// Reads the table.
    ///
    /// # Errors
    /// If a column is missing or is not text.
    pub(crate) fn read(table: &Table) -> Result<Self, TableError> {
        let text = |name: &str| table.text(name);
        let (stages, cells, gates) = (text("stage")?, text("cell")?, text("gate")?);
        let (severities, observed, expected) =
            (text("severity")?, text("observed")?, text("expected")?);
        let outcomes = text("outcome")?;
        let owned = |value: Option<&str>| value.unwrap_or_default().to_owned();
        let mut read = Self {
            findings: Vec::with_capacity(table.rows()),
            of_cell: HashMap::new(),
            of_stage: Vec::new(),
        };
        for i in 0..table.rows() {
            let stage = owned(stages[i]);
            match cells[i] {
                Some(cell) => {
                    let cells = read.of_cell.entry(stage.clone()).or_default();
                    cells.entry(cell.to_owned()).or_default().push(i);
                }
                None => read.of_stage.push(i),
            }
            let finding = GateFinding {
                gate: owned(gates[i]),
                severity: owned(severities[i]),
                outcome: owned(outcomes[i]),
                cell: cells[i].map(str::to_owned),
                observed: owned(observed[i]),
                expected: owned(expected[i]),
            };
            read.findings.push((stage, finding));
        }
        Ok(read)
    }

    fn of_cell(&self, stage: &str, cell: &str) -> impl Iterator<Item = &GateFinding> {
        let rows = self.of_cell.get(stage).and_then(|cells| cells.get(cell));
        rows.into_iter().flatten().map(|row| &self.findings[*row].1)
    }

    fn of_stages(&self, stages: &BTreeSet<&str>) -> impl Iterator<Item = &GateFinding> {
        let of_stages = self.of_stage.iter().map(|row| &self.findings[*row]);
        let own = of_stages.filter(|(stage, _)| stages.contains(stage.as_str()));
        own.map(|(_, finding)| finding)
    }
}

/// A server as resolved, and its host.
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

/// All evidence behind raw rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Evidence {
    pub(crate) cells: Vec<LoadCell>,
    /// The outcomes of gates over whole stages.
    pub(crate) study: Gates,
    pub(crate) judged: bool,
    pub(crate) servers: Vec<Server>,
}

/// Collects the evidence behind raw rows; `analysis` is the cell whose inputs they are.
///
/// # Errors
/// If an artifact on the trail is missing or damaged.
pub(crate) fn behind(
    provenance: &Provenance<'_>,
    analysis: &Holder,
    raw: &[RawRows],
) -> Result<Evidence, TrailError> {
    let mut evidence = Evidence::default();
    let mut seen = BTreeSet::new();
    let place = raw
        .iter()
        .map(|r| (r.stage.as_str(), r.coordinates.as_str()));
    let places: Vec<(&str, &str)> = place.filter(|place| seen.insert(*place)).collect();
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
            failure: holder.as_ref().and_then(failure),
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

/// Returns how a cell that is not ok ended.
fn failure(holder: &Holder) -> Option<String> {
    let status = holder.record.status;
    let reason = holder
        .record
        .reason
        .as_deref()
        .unwrap_or("no reason is recorded");
    (status != CellStatus::Ok).then(|| format!("{}: {reason}", status.word()))
}

/// Reads the gates of the cells: those among the inputs of the analysis or, if there are none, those of every stage
/// that checked one of the cells.
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
    let stages: BTreeSet<&str> = places.iter().map(|(stage, _)| *stage).collect();
    for digest in &tables {
        evidence.judged = true;
        let table = provenance.reader.gates(digest)?;
        // In a stage without axes, the name of the only cell is empty.
        for ((stage, cell), judged) in places.iter().zip(&mut evidence.cells) {
            for finding in table.of_cell(stage, cell) {
                judged.gates.add(finding);
            }
        }
        for finding in table.of_stages(&stages) {
            evidence.study.add(finding);
        }
    }
    Ok(())
}

/// Returns the file that a cell's rows were imported from.
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

/// Returns the server behind a measured cell: the input with a server descriptor.
fn server_of(provenance: &Provenance<'_>, holder: &Holder) -> Result<Option<Server>, TrailError> {
    let inputs = holder.record.recipe.inputs.iter();
    let mut cells =
        inputs.flat_map(|input| input.cells.iter().map(move |cell| (&input.stage, cell)));
    let server = cells.find_map(|(stage, cell)| Some((stage, cell, *cell.outputs.get("server")?)));
    let Some((stage, cell, artifact)) = server else {
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
