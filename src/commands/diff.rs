//! `diff`: two studies side by side.

use std::path::Path;

use artifacts::Store;
use bundle::Bundle;
use compare::{Rule, Side, Test, compare};
use pipeline::lock::Lock;
use serde_json::json;

use crate::args::{DiffArgs, ExperimentArgs, Global, PlanArgs, Selection};
use crate::exit::Stop;
use crate::project::{Project, shown};
use crate::terminal::say;

pub(super) fn diff(arguments: &DiffArgs, global: &Global) -> Result<(), Stop> {
    let profile = if arguments.smoke {
        Some("smoke")
    } else {
        arguments.profile.as_deref()
    };
    let Some(b) = &arguments.b else {
        return since_its_lock(arguments, global);
    };
    for (name, value, fine) in [
        ("threshold", arguments.threshold, arguments.threshold >= 0.0),
        (
            "alpha",
            arguments.alpha,
            (0.0..=1.0).contains(&arguments.alpha),
        ),
    ] {
        if !fine {
            return Err(Stop::usage(format!("--{name} {value} makes no sense")));
        }
    }
    let rule = Rule {
        columns: arguments.column.clone(),
        threshold: arguments.threshold / 100.0,
        alpha: arguments.alpha,
        test: if arguments.test == "welch" {
            Test::Welch
        } else {
            Test::MannWhitney
        },
    };
    let (first, second) = (
        Source::open(&arguments.a, profile, global)?,
        Source::open(b, profile, global)?,
    );
    let (older, newer) = (first.side()?, second.side()?);
    let found = compare(&older, &newer, &rule).map_err(Stop::failed)?;
    let offences = found.offences().count();
    if global.json {
        say(&json!({
            "a": older.name, "b": newer.name, "rule": rule, "comparison": found, "offences": offences,
        })
        .to_string());
    } else {
        say(&format!("from {} to {}", older.name, newer.name));
        say(found.to_string().trim_end());
        say(&format!(
            "a change counts from {} % on with p at most {} ({} over repetitions, Holm over {} results)",
            arguments.threshold,
            arguments.alpha,
            if rule.test == Test::Welch {
                "Welch's t"
            } else {
                "Mann–Whitney U"
            },
            found.results.len()
        ));
    }
    if !arguments.gate {
        return Ok(());
    }
    if found.results.is_empty() {
        return Err(
            Stop::failed("no result could be compared: a gate over nothing does not pass")
                .hint("both studies need a table of `cell-summary` with the columns compared"),
        );
    }
    if offences > 0 {
        return Err(Stop::failed(format!(
            "{offences} of {} results got worse or changed untested",
            found.results.len()
        )));
    }
    Ok(())
}

/// With one study: what changed in the experiment since its lock.
fn since_its_lock(arguments: &DiffArgs, global: &Global) -> Result<(), Stop> {
    if arguments.gate {
        return Err(Stop::usage("--gate compares results: name a second study"));
    }
    let experiment = ExperimentArgs {
        experiment: arguments.a.clone(),
        set: Vec::new(),
        profile: arguments.profile.clone(),
        smoke: arguments.smoke,
    };
    super::plan::plan(
        &PlanArgs {
            experiment,
            selection: Selection::default(),
            cells: false,
            dry_run: false,
        },
        global,
    )
}

/// Where one of the studies is.
struct Source {
    name: String,
    lock: Lock,
    store: Store,
    /// A bundle that was unpacked goes when this does.
    _bundle: Option<Bundle>,
}

impl Source {
    fn open(path: &Path, profile: Option<&str>, global: &Global) -> Result<Self, Stop> {
        let name = shown(path);
        let is = |extension: &str| path.extension().is_some_and(|e| e == extension);
        if path.is_dir() || is("zst") {
            let bundle = Bundle::open(path)?;
            let (lock, store) = (bundle.lock()?, bundle.store()?);
            return Ok(Self {
                name,
                lock,
                store,
                _bundle: Some(bundle),
            });
        }
        let lock = if is("lock") {
            let lock = Lock::read(path).map_err(Stop::failed)?;
            lock.ok_or_else(|| Stop::nothing(format!("{name}: there is no such lock")))?
        } else {
            crate::cells::read_lock(path, profile)?
        };
        let store = Project::of(Some(path), global.store.as_deref())?.open_existing()?;
        Ok(Self {
            name,
            lock,
            store,
            _bundle: None,
        })
    }

    fn side(&self) -> Result<Side<'_>, Stop> {
        Side::read(self.name.clone(), self.lock.clone(), &self.store).map_err(|e| {
            Stop::failed(e).hint(
                "a lock is compared where the store it was made with is; a bundle brings its own",
            )
        })
    }
}
