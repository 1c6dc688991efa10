//! `digests`: are the stored bytes still the measured ones?

use artifacts::counted;
use contract::Settings;
use pipeline::{Failure, Json, Problem};
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, Gate};
use crate::study::{Cell, Stage};

pub(crate) struct Digests;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Parameters {}

impl Gate for Digests {
    fn name(&self) -> &'static str {
        "digests"
    }

    fn summary(&self) -> &'static str {
        "\
         Every artifact of every cell still has its digest. The gate reads and hashes all artifacts again, including \
         logs and prompts. If bytes differ from the record, the verify cell itself fails and names each such \
         artifact. The result is never cached, so the gate judges a repaired store again."
    }

    fn severity(&self) -> Severity {
        Severity::Fail
    }

    fn schema(&self) -> Json {
        contract::inline_schema::<Parameters>()
    }

    fn plan(&self, settings: &Settings<'_>) -> Result<Json, Vec<Problem>> {
        settings
            .read::<Parameters>()
            .map(|p| contract::canonical(&p))
    }

    fn judge(&self, _parameters: &Json, stage: &Stage<'_>) -> Result<Vec<Judgement>, Failure> {
        let read: Vec<(usize, u64, Vec<String>)> = stage
            .cells
            .par_iter()
            .enumerate()
            .filter_map(|(i, cell)| Some((i, hashed(cell)?)))
            .map(|(i, (b, d))| (i, b, d))
            .collect();
        let damaged: Vec<&str> = read
            .iter()
            .flat_map(|(_, _, damaged)| damaged)
            .map(String::as_str)
            .collect();
        if !damaged.is_empty() {
            return Err(
                Failure::failed(format!("gate digests: {}", damaged.join("; "))).hint(
                    "`benchtrail fsck` shows what the store has lost; measure those cells again",
                ),
            );
        }
        let judgements = read.into_iter().map(|(i, bytes, _)| {
            let artifacts = stage.cells[i].input.outputs.len();
            let observed = format!(
                "{}, {} hashed again",
                counted(artifacts, "artifact"),
                counted(bytes, "byte")
            );
            Assessment::new(true, observed, "every artifact has its recorded digest").of_cell(i)
        });
        Ok(judgements.collect())
    }
}

/// Returns the number of bytes of a cell's artifacts and the problems with them; `None` for a cell
/// without artifacts.
fn hashed(cell: &Cell<'_>) -> Option<(u64, Vec<String>)> {
    let store = cell.store.filter(|_| !cell.input.outputs.is_empty())?;
    let (mut bytes, mut damaged) = (0, Vec::new());
    for (name, artifact) in &cell.input.outputs {
        match store.get(&artifact.digest) {
            Ok(content) if content.len() as u64 == artifact.bytes => bytes += artifact.bytes,
            Ok(content) => damaged.push(format!(
                "`{name}` of the load cell {} has {} bytes, {} are recorded",
                cell.input.coordinates,
                content.len(),
                artifact.bytes
            )),
            Err(e) => damaged.push(format!(
                "`{name}` of the load cell {}: {e}",
                cell.input.coordinates
            )),
        }
    }
    Some((bytes, damaged))
}
