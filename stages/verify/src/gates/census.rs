//! `census`: do all planned cells exist, counted in two ways?

use std::collections::{BTreeMap, BTreeSet};

use artifacts::counted;
use contract::RowSource;
use pipeline::CellStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Judgement, Outcome, Severity};
use crate::gate::{TypedGate, listed};
use crate::study::{Cell, Stage};

pub(crate) struct Census;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// How many planned cells may be missing.
    #[serde(default)]
    missing: u32,
    /// How many coordinates of the product of all labels may be unplanned. They arise if `include`
    /// adds a cell with a new label.
    #[serde(default)]
    unplanned: u32,
}

impl TypedGate for Census {
    type Parameters = Parameters;
    const NAME: &'static str = "census";
    const SUMMARY: &'static str = "The number of ok cells equals the product of the axes minus \
        the excluded cells. No cell and no file of a cell is missing or unexpected. The table \
        `census` also counts rows, which `expected-rows` judges. This is a count, not a test.";
    const SEVERITY: Severity = Severity::Fail;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        let labels = stage.labels();
        let product: usize = if stage.cells.is_empty() {
            0
        } else {
            labels.iter().map(Vec::len).product()
        };
        let count_of = |status: CellStatus| {
            stage
                .cells
                .iter()
                .filter(|c| c.input.status == status)
                .count()
        };
        let (ok, excluded) = (count_of(CellStatus::Ok), count_of(CellStatus::Excluded));
        let with_rows = stage
            .cells
            .iter()
            .filter(|c| c.answers().is_some_and(|r| r.measured().count() > 0));
        let with_rows = with_rows.count();
        let unplanned = stage.unplanned();
        let mut seen = BTreeSet::new();
        let twice: Vec<String> = stage
            .cells
            .iter()
            .map(|c| c.input.coordinates.to_string())
            .filter(|at| !seen.insert(at.clone()))
            .collect();
        let lost: Vec<String> = stage
            .cells
            .iter()
            .filter(|c| !matches!(c.input.status, CellStatus::Ok | CellStatus::Excluded))
            .map(|c| format!("{} ({})", c.input.coordinates, c.input.status.word()))
            .collect();
        let files = files(stage);
        let due = stage.cells.len() - excluded;
        let holds = lost.len() <= parameters.missing as usize
            && with_rows + lost.len() == due
            && ok == with_rows
            && twice.is_empty()
            && files.is_empty()
            && unplanned.len() <= parameters.unplanned as usize;
        let mut evidence = lost;
        evidence.extend(
            unplanned
                .iter()
                .map(|at| format!("{at} (in the product of the axes, not planned)")),
        );
        evidence.extend(twice.into_iter().map(|at| format!("{at} (twice)")));
        evidence.extend(files);
        let axes: Vec<String> = labels.iter().map(|l| l.len().to_string()).collect();
        let mut observed = format!(
            "{} ok, {with_rows} with measured rows, {excluded} excluded",
            counted(ok, "cell")
        );
        // The counts may match the expectation and still one of these may be the cause.
        if let Some(causes) = listed(&evidence).filter(|_| !holds) {
            observed.push_str(&format!("; {causes}"));
        }
        vec![Judgement {
            cell: None,
            outcome: Outcome::of(holds),
            observed,
            expected: format!(
                "{} = {}, minus {excluded} excluded = {due}, of which at most {} \
                missing",
                axes.join(" × "),
                counted(product, "cell"),
                parameters.missing
            ),
            evidence: (!evidence.is_empty()).then(|| evidence.join("; ")),
        }]
    }
}

/// Outputs that all cells of a load stage have if one of them has them.
const ALWAYS: [&str; 4] = ["cell", "chunks", "prompts", "requests"];

/// Outputs that depend on a cell's server and machine.
const SOMETIMES: [&str; 14] = [
    "engine_events",
    "engine_log",
    "generators",
    "gpu_telemetry",
    "host_telemetry",
    "import",
    "members",
    "process_telemetry",
    "request_generators",
    "request_servers",
    "server_host_telemetry",
    "server_info",
    "server_metrics",
    "slots",
];

fn is_imported(cell: &Cell<'_>) -> bool {
    cell.source() == Some(RowSource::Imported)
}

/// Returns the engine that served a cell, as far as it is known.
fn engine(cell: &Cell<'_>) -> String {
    let descriptor = cell.server.as_ref().map(|server| &server.descriptor);
    descriptor.map_or_else(String::new, |d| {
        format!("{} {}", d["engine"]["name"], d["engine"]["version"])
    })
}

/// Returns the missing or unexpected files among cells that should have the same ones.
fn odd_files(cells: &[&Cell<'_>], judged: impl Fn(&str) -> bool) -> Vec<String> {
    let names = cells.iter().flat_map(|c| c.input.outputs.keys());
    let names: BTreeSet<&str> = names.map(String::as_str).collect();
    let mut files = Vec::new();
    for name in names.into_iter().filter(|n| judged(n)) {
        let (with, without): (Vec<&Cell<'_>>, Vec<&Cell<'_>>) = cells
            .iter()
            .partition(|c| c.input.outputs.contains_key(name));
        // A file with a known name counts as missing where it is absent. Any other file counts as
        // unexpected where it is present.
        let belongs = ALWAYS.contains(&name) || with.len() >= without.len();
        let (odd, what) = if belongs {
            (without, "missing")
        } else {
            (with, "unexpected")
        };
        files.extend(
            odd.iter()
                .map(|c| format!("{} (file `{name}` {what})", c.input.coordinates)),
        );
    }
    files
}

/// Returns the missing or unexpected files of ok cells: files that only some cells have, and files
/// whose row count differs from the recorded one.
pub(crate) fn files(stage: &Stage<'_>) -> Vec<String> {
    let ok: Vec<&Cell<'_>> = stage.cells.iter().filter(|c| c.is_ok()).collect();
    // The files of an imported cell depend on its tool.
    let own: Vec<&Cell<'_>> = ok.iter().copied().filter(|c| !is_imported(c)).collect();
    let mut files = Vec::new();
    // Each server offers its own data beside the load, so compare its cells only with each other.
    let mut servers: BTreeMap<String, Vec<&Cell<'_>>> = BTreeMap::new();
    for cell in own.iter().copied() {
        servers.entry(engine(cell)).or_default().push(cell);
    }
    let always = odd_files(&own, |name| ALWAYS.contains(&name));
    files.extend(always);
    for cells in servers.values() {
        let own = |name: &str| !ALWAYS.contains(&name) && !SOMETIMES.contains(&name);
        files.extend(odd_files(cells, own));
    }
    for cell in ok {
        let rows = cell.answers().map(|r| r.requests.len() as u64);
        let recorded = cell.input.outputs.get("requests").and_then(|a| a.rows);
        if let (Some(rows), Some(recorded)) = (rows, recorded)
            && rows != recorded
        {
            files.push(format!(
                "{} ({} in `requests`, {recorded} recorded)",
                cell.input.coordinates,
                counted(rows, "row")
            ));
        }
    }
    files
}
