//! `diff`: compares two studies.

use std::path::Path;

use compare::{Comparison, Outcome, Rule, Side, Test, compare};
use serde_json::json;

use crate::args::{DiffArgs, ExperimentArgs, Global, PlanArgs, RemoteArgs, Selection};
use crate::exit::Stop;
use crate::project::shown;
use crate::study::Study;
use crate::terminal::{complain, say};

/// The threshold, in percent, below which a number is probably meant as a share.
const LIKELY_A_SHARE: f64 = 0.3;

pub(super) fn diff(arguments: &DiffArgs, global: &Global) -> Result<(), Stop> {
    let profile = if arguments.smoke {
        Some("smoke")
    } else {
        arguments.profile.as_deref()
    };
    let Some(b) = &arguments.b else {
        return since_its_lock(arguments, global);
    };
    if arguments.threshold < 0.0 {
        let message = format!("--threshold must be 0 or more, not {}", arguments.threshold);
        return Err(Stop::usage(message).hint("give a number of percent, such as `--threshold 5`"));
    }
    if !(0.0..=100.0).contains(&arguments.lost_requests) {
        let message = format!(
            "--lost-requests must be from 0 to 100, not {}",
            arguments.lost_requests
        );
        return Err(Stop::usage(message)
            .hint("give a number of percent of the requests, such as `--lost-requests 0.1`"));
    }
    if arguments.threshold > 0.0 && arguments.threshold < LIKELY_A_SHARE {
        complain(&format!(
            "note: --threshold is a number of percent, so {0} means {0} %; multiply a share by 100",
            arguments.threshold
        ));
    }
    if !(arguments.alpha > 0.0 && arguments.alpha < 0.5) {
        let message = format!(
            "--alpha must be above 0 and below 0.5, not {}",
            arguments.alpha
        );
        return Err(Stop::usage(message).hint("give a level, such as `--alpha 0.05`"));
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
        unit: arguments.unit.clone(),
        conditions_may_differ: arguments.conditions_may_differ.clone(),
        lost_requests: arguments.lost_requests / 100.0,
    };
    let [first, second] = studies(arguments, b, profile, global)?;
    let (older, newer) = (side(&first)?, side(&second)?);
    let comparison = compare(&older, &newer, &rule).map_err(|e| match e.hint() {
        Some(hint) => Stop::usage(&e).hint(hint),
        None => Stop::failed(&e),
    })?;
    let outcome = comparison.outcome();
    if global.json {
        say(&json!({
            "a": older.name, "b": newer.name, "rule": rule, "comparison": comparison, "outcome": outcome,
        })
        .to_string());
    } else {
        say(&format!("from {} to {}", older.name, newer.name));
        say(comparison.to_string().trim_end());
        say(&format!(
            "a change counts from {} % on with p at most {} ({} of the units, Holm over the {} of {} results that were \
             tested)",
            arguments.threshold,
            arguments.alpha,
            if rule.test == Test::Welch {
                "Welch's t"
            } else {
                "Mann–Whitney U"
            },
            comparison.tested(),
            comparison.results.len()
        ));
        if outcome == Outcome::Undecidable && crate::folder::is_of_a_load(&arguments.a) {
            say(&format!(
                "a load is measured once; to decide, write a study that repeats it, run it on both sides, and compare the two: \
                 `benchtrail init NAME --from-load {}`",
                shown(&arguments.a)
            ));
        }
    }
    match arguments.gate {
        true => gated(&comparison),
        false => Ok(()),
    }
}

/// Ends with the outcome of the gate.
fn gated(comparison: &Comparison) -> Result<(), Stop> {
    let outcome = comparison.outcome();
    let named = |wanted: Outcome| -> String {
        let columns = comparison.gate.iter().filter(|g| g.outcome == wanted);
        columns
            .map(|g| g.column.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    match outcome {
        Outcome::Pass => Ok(()),
        Outcome::Fail => Err(Stop::failed(format!("worse: {}", named(outcome)))),
        Outcome::Undecidable if comparison.gate.is_empty() => Err(Stop::undecidable(
            "no result could be compared, so the gate does not pass",
        )
        .hint("both studies need a table of `cell-summary` with the columns compared")),
        Outcome::Undecidable => {
            let stop = Stop::undecidable(format!("undecided: {}", named(outcome)));
            let remedies = comparison.remedies();
            // The reasons above the error say what to do where no remedy fits.
            Err(match remedies.is_empty() {
                true => stop,
                false => stop.hint(remedies.join("; ")),
            })
        }
    }
}

/// Opens the two studies, or the two states of one.
fn studies(
    arguments: &DiffArgs,
    b: &Path,
    profile: Option<&str>,
    global: &Global,
) -> Result<[Study; 2], Stop> {
    let first = match commit(&arguments.a) {
        Some(commit) => Study::at_commit(commit, b, profile, global)?,
        None => Study::open(&arguments.a, profile, global)?,
    };
    if let (None, Some(newer)) = (commit(&arguments.a), commit(b))
        && study_of_commits(&arguments.a)
    {
        return Err(Stop::usage(format!("{newer}: no such file")).hint(format!(
            "the older study comes first: if `{newer}` is a commit, write `benchtrail diff {newer} {}`",
            shown(&arguments.a)
        )));
    }
    Ok([first, Study::open(b, profile, global)?])
}

/// Returns the text of a path that does not exist and is not written like a study, so that it may name a commit.
fn commit(path: &Path) -> Option<&str> {
    let text = path.to_str().filter(|text| !text.is_empty())?;
    let endings = [".yaml", ".yml", ".lock", ".zst", "/"];
    let is_path = endings.iter().any(|ending| text.ends_with(ending));
    (!is_path && !path.exists() && !path.with_extension("lock").exists()).then_some(text)
}

/// Returns whether a path is an experiment or a lock, of which a commit may have another version.
fn study_of_commits(path: &Path) -> bool {
    path.is_file()
        && (path.extension()).is_some_and(|e| ["yaml", "yml", "lock"].iter().any(|own| e == *own))
}

/// With one study: shows what changed in the experiment since its lock.
fn since_its_lock(arguments: &DiffArgs, global: &Global) -> Result<(), Stop> {
    if arguments.gate {
        return Err(Stop::usage("`--gate` compares the results of two studies")
            .hint("name both, the older one first: `benchtrail diff OLD NEW --gate`"));
    }
    let experiment = ExperimentArgs {
        experiment: arguments.a.clone(),
        set: Vec::new(),
        profile: arguments.profile.clone(),
        smoke: arguments.smoke,
    };
    super::plan::plan(
        &PlanArgs {
            commands: false,
            experiment,
            selection: Selection::default(),
            cells: false,
            dry_run: false,
            remote: RemoteArgs::default(),
        },
        global,
    )
}

fn side(study: &Study) -> Result<Side<'_>, Stop> {
    Side::read(study.name.clone(), study.lock.clone(), &study.store).map_err(|e| {
        Stop::failed(e).hint(
            "compare a lock on the machine that has its store, or compare a bundle, which \
             includes one",
        )
    })
}
