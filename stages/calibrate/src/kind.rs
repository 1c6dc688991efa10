//! The `calibrate` stage kind.

use std::collections::BTreeMap;

use load::reference::Launcher;
use load::{LoadError, Origin, Target, Telemetry, target};
use pipeline::stage::{
    Class, Done, Failure, Input, Job, Json, Library, Output, Problem, StageKind,
};
use serde_json::json;

use crate::account::{Accounted, NO_TIMINGS, account, account_table};
use crate::grid::Grid;
use crate::rehearse;
use crate::result::{Calibration, Host, calibrate};

/// The `calibrate` kind. It starts its own server, and queries the server among its needs for its
/// account.
#[derive(Clone, Debug, Default)]
pub struct Calibrate {
    /// How to start the reference server; this program itself if `None`.
    pub launcher: Option<Launcher>,
}

impl StageKind for Calibrate {
    fn name(&self) -> &'static str {
        "calibrate"
    }

    fn semantic_version(&self) -> u32 {
        3
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
        let of_grid = grid
            .problems()
            .into_iter()
            .map(|(setting, message)| Problem::at(&[setting], message));
        let of_account = grid.account.problems().into_iter();
        let of_account =
            of_account.map(|(setting, message)| Problem::at(&["account", setting], message));
        let problems: Vec<Problem> = of_grid.chain(of_account).collect();
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
        let grid = grid_of(job)?;
        let origin = Origin::of(job);
        let launcher = match &self.launcher {
            Some(launcher) => launcher.clone(),
            None => {
                Launcher::own().map_err(|e| Failure::failed(format!("this program's file: {e}")))?
            }
        };
        // If the user or the time limit stopped the run, report that.
        let failed = |e: LoadError| {
            job.control
                .check()
                .err()
                .unwrap_or_else(|| Failure::failed(e.to_string()))
        };
        let calibration = calibrate(&grid, &launcher, &origin, job.control).map_err(failed)?;
        let mut done = outputs(&calibration)?;
        if let Some(serve) = job.input_of_kind("serve") {
            let (target, _) = target(job, grid.account.api, None, Telemetry::none())?;
            // Nothing reads the tables that telemetry would add.
            let target = Target {
                metrics: None,
                log: None,
                ..target
            };
            let slots = slots(job, serve)?;
            tell(
                &mut done,
                &account(&grid.account, slots, &target, &origin, job.control).map_err(failed)?,
            )?;
        }
        Ok(done)
    }

    /// Makes synthetic errors, and the account of a server that reports its timings.
    fn rehearse(&self, job: &Job<'_>, slowdown: f64) -> Result<Done, Failure> {
        let grid = grid_of(job)?;
        let mut done = outputs(&rehearse::calibration(&grid, slowdown))?;
        if let Some(serve) = job.input_of_kind("serve") {
            tell(
                &mut done,
                &rehearse::account(&grid.account, slots(job, serve)?, slowdown),
            )?;
        }
        Ok(done)
    }
}

fn grid_of(job: &Job<'_>) -> Result<Grid, Failure> {
    serde_json::from_value(job.parameters.clone())
        .map_err(|e| Failure::failed(format!("canonical parameters cannot be read: {e}")))
}

fn outputs(calibration: &Calibration) -> Result<Done, Failure> {
    let table = calibration
        .table()
        .map_err(|e| Failure::failed(e.to_string()))?;
    let mut done = Done {
        outputs: vec![
            Output::table("calibration", &table)?,
            Output::json("instrument", &calibration.instrument()),
        ],
        ..Done::default()
    };
    if calibration.covered().is_none() {
        done.warnings
            .push("no point of the grid meets the bound, so nothing is covered".to_owned());
    }
    Ok(done)
}

/// Adds a server's account, or the reason why it is missing.
fn tell(done: &mut Done, loops: &[Accounted]) -> Result<(), Failure> {
    match account_table(loops).map_err(|e| Failure::failed(e.to_string()))? {
        Some(table) => done.outputs.push(Output::table("server_account", &table)?),
        None => {
            done.observations
                .insert("server_account".to_owned(), json!(NO_TIMINGS));
        }
    }
    Ok(())
}

/// Returns the number of requests that the server processes at once, if its limits state it.
fn slots(job: &Job<'_>, serve: &Input) -> Result<Option<u32>, Failure> {
    let Some(document) = serve
        .cells
        .first()
        .and_then(|cell| cell.outputs.get("server"))
    else {
        return Ok(None);
    };
    let unreadable =
        |e: &dyn std::fmt::Display| Failure::failed(format!("the server's description: {e}"));
    let bytes = job
        .store
        .get(&document.digest)
        .map_err(|e| unreadable(&e))?;
    let server: Json = serde_json::from_slice(&bytes).map_err(|e| unreadable(&e))?;
    Ok(server["limits"]["slots"]
        .as_u64()
        .and_then(|slots| u32::try_from(slots).ok()))
}
