//! The `calibrate` stage kind.

use std::collections::BTreeMap;

use pipeline::stage::{Class, Done, Failure, Job, Json, Library, Output, Problem, StageKind};
use serde_json::json;

use super::grid::Grid;
use super::process::Launcher;
use super::result::{Host, calibrate};
use crate::random::Origin;

/// The `calibrate` kind: needs no server, since it brings its own.
#[derive(Clone, Debug, Default)]
pub struct Calibrate {
    /// How the reference server is started; this program itself if `None`.
    pub launcher: Option<Launcher>,
}

impl StageKind for Calibrate {
    fn name(&self) -> &'static str {
        "calibrate"
    }

    fn semantic_version(&self) -> u32 {
        1
    }

    fn class(&self) -> Class {
        Class::Measurement
    }

    fn schema(&self) -> schemars::Schema {
        schemars::schema_for!(Grid)
    }

    fn canonical(&self, settings: &Json, _library: &dyn Library) -> Result<Json, Vec<Problem>> {
        let grid: Grid = serde_json::from_value(settings.clone())
            .map_err(|e| vec![Problem::at(&[], format!("settings cannot be read: {e}"))])?;
        let problems: Vec<Problem> =
            grid.problems().into_iter().map(|(setting, message)| Problem::at(&[setting], message)).collect();
        if problems.is_empty() {
            Ok(serde_json::to_value(&grid).expect("a grid always serializes"))
        } else {
            Err(problems)
        }
    }

    fn facets(&self, _parameters: &Json) -> Result<BTreeMap<String, Json>, Failure> {
        let host = Host::this();
        Ok(BTreeMap::from([
            ("cpu_count".to_owned(), json!(host.cpu_count)),
            ("cpu_model".to_owned(), json!(host.cpu_model)),
        ]))
    }

    fn run(&self, job: &Job<'_>) -> Result<Done, Failure> {
        let grid: Grid = serde_json::from_value(job.parameters.clone())
            .map_err(|e| Failure::failed(format!("canonical parameters cannot be read: {e}")))?;
        let origin = Origin { seed: job.seed, replicate: job.replicate.clone() };
        let launcher = match &self.launcher {
            Some(launcher) => launcher.clone(),
            None => Launcher::own().map_err(|e| Failure::failed(format!("this program's file: {e}")))?,
        };
        let calibration = calibrate(&grid, &launcher, &origin, job.control).map_err(|e| {
            // A run stopped by the user or the time limit is told as what it is.
            job.control.check().err().unwrap_or_else(|| Failure::failed(e.to_string()))
        })?;
        let table = calibration.table().map_err(|e| Failure::failed(e.to_string()))?;
        let mut done = Done {
            outputs: vec![
                Output::table("calibration", &table)?,
                Output::json("instrument", &calibration.instrument()),
            ],
            ..Done::default()
        };
        if calibration.covered().is_none() {
            done.warnings.push("no point of the grid keeps the bound: nothing is covered".to_owned());
        }
        Ok(done)
    }
}
