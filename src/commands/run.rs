//! `run`: executes missing cells, and writes the report.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use artifacts::Store;
use pipeline::lock::{Lock, LockStage, lock_path};
use pipeline::record::{Build, parse_outputs};
use pipeline::{
    Artifact, CellStatus, Diagnostics, Event, LedgerLine, Media, Plan, PlanOptions, RunOptions,
    RunSummary, StudyResult,
};
use serde_json::{Value, json};

use crate::answers::{self, Answer};
use crate::args::{Global, PlanArgs, RunArgs};
use crate::cluster_run::{self, How};
use crate::dry_run;
use crate::exit::Stop;
use crate::main_table;
use crate::progress::{Progress, Show};
use crate::project::shown;
use crate::quiet;
use crate::rented;
use crate::room;
use crate::same_name;
use crate::session::{Session, plan_options};
use crate::shared::{Shared, chosen_name, push_json, push_lines};
use crate::stopper::Token;
use crate::terminal::{complain, say};
use crate::trust::{self, quoted};

/// The number of failed cells that are named at the end; the ledger lists all of them.
const TROUBLE_SHOWN: usize = 10;

pub(super) fn run(arguments: &RunArgs, global: &Global) -> Result<(), Stop> {
    if arguments.dry_run {
        let plan = PlanArgs {
            experiment: arguments.experiment.clone(),
            selection: arguments.selection.clone(),
            cells: false,
            commands: false,
            dry_run: true,
            remote: arguments.remote.clone(),
        };
        return super::plan::plan(&plan, global);
    }
    let session = Session::open(&arguments.experiment, global)?;
    session.project.must_not_be_published("run")?;
    let store = session.project.open()?;
    let options = plan_options(&arguments.selection);
    let shared = Shared::of_writer(&arguments.remote)?;
    if let Some(shared) = &shared {
        for offer in shared.fetch(&session, &store, &options)? {
            complain(&format!("note: {offer}"));
        }
    }
    let (plan, prepared) = session.plan_to_run(&store, &options)?;
    session.check_ready(&plan)?;
    // Asked before signals are deferred, so that Ctrl-C at a question ends the process.
    if shared.is_none() {
        let wanting = pipeline::wants_shared_store(&session.experiment, &session.registry, &plan)?;
        if !wanting.is_empty() {
            return Err(Stop::diagnostics(Diagnostics(wanting)));
        }
    }
    let permit = trust::permit(&session, &plan, arguments.trust.answer())?;
    if !plan.is_idle() {
        room::for_cells("this run", session.cells(), arguments.jobs)?;
    }
    let cancelled = Arc::new(AtomicBool::new(false));
    listen_for_signals(&cancelled)?;
    try_before(arguments, &session, &plan, &cancelled)?;
    let preflight = quiet::look_before(&session, &plan, &cancelled)?;
    let show = match () {
        () if arguments.quiet || global.json => Show::Quiet,
        () if arguments.verbose => Show::Verbose,
        () => Show::Progress,
    };
    let how = How {
        keep_going: arguments.keep_going,
        cancelled: &cancelled,
        quiet: arguments.quiet,
    };
    let came = cluster_run::execute(&session, &store, shared.as_ref(), &options, &permit, how)?;
    let events = match &arguments.events {
        Some(file) => Some(file.clone()),
        None => events_file(&session),
    };
    if let (None, Some(events)) = (&arguments.report, &events)
        && let Some(other) = same_name::other(events, &session.experiment.file)
    {
        complain(&format!(
            "warning: {} is also named `{}`, so this run replaces its report; rename one of them (`experiment: …`), \
             or write this report elsewhere with `--report FILE`",
            shown(&other),
            session.experiment.name
        ));
    }
    // Without an event log, nobody can see the run or stop it from a page.
    let folder = events.as_deref().and_then(Path::parent);
    let token = folder.and_then(Token::new);
    let digest = token.as_ref().map(Token::digest);
    let progress = Progress::new(
        &session.experiment,
        show,
        events.as_deref(),
        digest.as_ref(),
    )?;
    // From here on, the log contains the token's digest, and the token may become visible.
    let stopper = token.and_then(|token| token.watch(Arc::clone(&cancelled)));
    let mut options = RunOptions {
        plan: PlanOptions {
            elsewhere: came.as_ref().map(|came| Arc::clone(&came.elsewhere)),
            ..options
        },
        keep_going: arguments.keep_going,
        cancelled,
        build: Build {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            describe: None,
        },
        preflight,
        permit: Some(Arc::new(permit)),
        by: chosen_name(),
        ..RunOptions::default()
    };
    if let Some(jobs) = arguments.jobs {
        options.jobs = jobs.max(1);
    }
    let listener = |event: &Event| progress.hear(event);
    rented::sweep_left(&store, &listener)?;
    let summary = pipeline::run_prepared(
        // A plan made here does not contain the results of other machines.
        prepared.filter(|_| came.is_none()),
        &session.experiment,
        &session.registry,
        &store,
        &options,
        &listener,
    );
    let costs = rented::give_back(&listener);
    progress.close();
    drop(stopper);
    for cost in costs {
        complain(&cost);
    }
    let mut summary = summary?;
    if let Some(came) = came {
        came.close()?;
    }
    // Without a lock, nothing ran.
    let place = lock_path(&session.experiment);
    let lock = match summary.locked.take() {
        Some(lock) => Some(lock),
        None => Lock::read(&place).map_err(Stop::failed)?,
    };
    let pushed = shared.as_ref().map(|shared| {
        let locks: Vec<_> = lock
            .iter()
            .map(|lock| (place.clone(), lock.clone()))
            .collect();
        shared.push(&store, &locks, false, &AtomicBool::new(false))
    });
    let reports = write_reports(&session, &store, &summary, arguments.report.as_deref())?;
    let not_run = write_not_run(&session, &plan)?;
    let any_ok = summary.counts.contains_key(CellStatus::Ok.word());
    let gates = match &lock {
        Some(lock) if any_ok => outcomes(&store, &session, lock)?,
        // The lock is from an earlier run.
        _ => Outcomes::default(),
    };
    let mut claims = Vec::new();
    for result in &summary.results {
        claims.extend(answers::of(&store, result)?);
    }
    if global.json {
        let mut json = json_of(&summary, &reports, &gates, &claims);
        if let (Some(shared), Some(Ok((report, _)))) = (&shared, &pushed) {
            json["pushed"] = push_json(report, shared.remote.url());
        }
        say(&json.to_string());
    } else {
        tell(arguments, &summary, &reports, &gates);
        if let (Some(shared), Some(Ok((report, _)))) = (&shared, &pushed) {
            push_lines(report, shared.remote.url())
                .iter()
                .for_each(|line| say(line));
        }
        if !arguments.quiet {
            tell_table(lock.as_ref(), &store);
        }
        tell_answers(&claims, &reports);
        tell_next(arguments, &session, &reports);
        if let Some(page) = &not_run {
            complain(&format!(
                "nothing was measured; what is missing: {}",
                page.display()
            ));
        }
    }
    if let Some(Err(stop)) = pushed {
        complain(&format!(
            "the results are in the store {}, but were not pushed; `benchtrail push` pushes them",
            shown(&session.project.store)
        ));
        return Err(stop);
    }
    if summary.interrupted {
        return Err(Stop::interrupted());
    }
    let failed = summary
        .ledger
        .iter()
        .any(|l| is_trouble(l) && l.status != CellStatus::Skipped);
    match summary.lacks.as_slice() {
        _ if summary.done && gates.failed.is_empty() => Ok(()),
        [] => Err(Stop::told()),
        _ if failed || !gates.failed.is_empty() => Err(Stop::told()),
        lacks => Err(Stop::lacking(lacks)),
    }
}

/// Returns the default path of the event log: next to the report, where `explore` looks for a run in progress. A folder
/// that cannot be created must not stop a measurement.
pub(super) fn events_file(session: &Session) -> Option<PathBuf> {
    let experiment = &session.experiment;
    let report = session
        .project
        .report_file(&experiment.name, experiment.profile.as_deref());
    let folder = report.parent()?;
    fs::create_dir_all(folder).ok()?;
    Some(folder.join("events.jsonl"))
}

/// Tries the pure stages on simulated rows if something will be measured first: a mistake in the analysis or the report
/// should show before the measurement, not after it.
fn try_before(
    arguments: &RunArgs,
    session: &Session,
    plan: &Plan,
    cancelled: &Arc<AtomicBool>,
) -> Result<(), Stop> {
    if arguments.no_dry_run || !pipeline::dry_run_is_due(plan) {
        return Ok(());
    }
    let tried = dry_run::try_out(session, cancelled)?;
    if tried.interrupted {
        return Err(Stop::interrupted());
    }
    for finding in &tried.findings {
        complain(&dry_run::text(finding));
    }
    if tried.errors().next().is_some() {
        complain("nothing was measured; use `--no-dry-run` to measure anyway");
        return Err(Stop::usage_told());
    }
    Ok(())
}

/// The first Ctrl-C or SIGTERM ends the run cleanly; a second one ends the process.
pub(crate) fn listen_for_signals(cancelled: &Arc<AtomicBool>) -> Result<(), Stop> {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(cancelled))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(cancelled)))
            .map_err(|e| Stop::machine(format!("cannot listen for signals: {e}")))?;
    }
    Ok(())
}

/// Writes each report next to its figures and its trace, and returns the paths.
fn write_reports(
    session: &Session,
    store: &Store,
    summary: &RunSummary,
    file: Option<&Path>,
) -> Result<Vec<PathBuf>, Stop> {
    let experiment = &session.experiment;
    let mut written = Vec::new();
    for result in &summary.results {
        let default = || {
            session
                .project
                .report_file(&experiment.name, experiment.profile.as_deref())
        };
        let mut path = file.map_or_else(default, Path::to_owned);
        if summary.results.len() > 1 {
            let stem = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            path.set_file_name(format!("{stem}-{}.md", result_name(result)));
        }
        let outputs = result.outputs.iter();
        if write_report(store, outputs.map(|(name, a)| (name.as_str(), a)), &path)? {
            written.push(path);
        }
    }
    Ok(written)
}

/// Writes the page of a study that cannot be measured here; returns its path.
fn write_not_run(session: &Session, plan: &Plan) -> Result<Option<PathBuf>, Stop> {
    let experiment = &session.experiment;
    let Some(page) = pipeline::not_run(experiment, plan, &session.registry) else {
        return Ok(None);
    };
    let report = session
        .project
        .report_file(&experiment.name, experiment.profile.as_deref());
    let file = report.with_file_name("not-run.md");
    let written = file.parent().map_or(Ok(()), fs::create_dir_all);
    written
        .and_then(|()| fs::write(&file, page))
        .map_err(|e| Stop::machine(format!("{}: {e}", file.display())))?;
    Ok(Some(file))
}

fn result_name(result: &StudyResult) -> String {
    let labels: Vec<String> = result
        .coordinates
        .0
        .iter()
        .map(|(_, label)| plain(&label.to_string()))
        .collect();
    std::iter::once(result.stage.clone())
        .chain(labels)
        .collect::<Vec<_>>()
        .join("-")
}

/// Returns a label as part of a file name: every character except letters, digits, `-`, `_` and `.` becomes `_`,
/// because a label may contain anything, even a path.
fn plain(label: &str) -> String {
    let kept = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    label
        .chars()
        .map(|c| if kept(c) { c } else { '_' })
        .collect()
}

/// Writes one report: `NAME.md`, `NAME.trace.parquet`, `NAME.statements.parquet` and its other tables in the same way,
/// and every other output under its name. Returns false if the outputs contain no report.
pub(super) fn write_report<'a>(
    store: &Store,
    outputs: impl Iterator<Item = (&'a str, &'a Artifact)> + Clone,
    path: &Path,
) -> Result<bool, Stop> {
    let folder = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    if !outputs.clone().any(|(name, _)| name == "report") {
        return Ok(false);
    }
    for (name, artifact) in outputs {
        let target = match name {
            "report" => path.to_owned(),
            "trace" => trace_file(path),
            "html" => path.with_extension("html"),
            // The report's statements and the tables it derived.
            table if artifact.media == Media::Parquet => {
                path.with_extension(format!("{table}.parquet"))
            }
            other => folder.join(other),
        };
        let bytes = store.get(&artifact.digest)?;
        let fault = |e: std::io::Error| Stop::machine(format!("{}: {e}", target.display()));
        fs::create_dir_all(target.parent().expect("a file lies in a folder")).map_err(fault)?;
        if fs::read(&target).ok().as_deref() != Some(bytes.as_slice()) {
            fs::write(&target, &bytes).map_err(fault)?;
        }
    }
    Ok(true)
}

/// Returns the path of a report's trace: next to the report.
pub(super) fn trace_file(report: &Path) -> PathBuf {
    report.with_extension("trace.parquet")
}

/// The outcomes of the gates of all verify cells.
#[derive(Default)]
struct Outcomes {
    pass: u64,
    fail: u64,
    not_judged: u64,
    /// The failed gates of severity `fail`.
    failed: Vec<String>,
}

/// Counts the outcomes of gates, from the verdicts of the verify cells.
fn outcomes(store: &Store, session: &Session, lock: &Lock) -> Result<Outcomes, Stop> {
    let is_verify = |stage: &&LockStage| {
        let mut stages = session.experiment.stages.iter();
        stages.any(|s| s.name == stage.name && s.kind == "verify")
    };
    let lookup = store.lookup()?;
    let mut outcomes = Outcomes::default();
    for stage in lock.stages.iter().filter(is_verify) {
        for cell in stage.cells.iter().filter(|c| c.status == CellStatus::Ok) {
            let (Some(key), Some(record)) = (cell.key, cell.record) else {
                continue;
            };
            let known = lookup.records_for(&key)?;
            let known = known.iter().find(|cached| cached.record == record);
            let outputs = known.and_then(|cached| parse_outputs(&cached.outputs));
            let verdict = outputs.and_then(|all| {
                let mut all = all.into_iter();
                all.find(|(name, _)| *name == "verdict")
            });
            if let Some((_, artifact)) = verdict {
                let verdict = store.get(&artifact.digest)?;
                let verdict = serde_json::from_slice(&verdict).map_err(Stop::failed)?;
                outcomes.add(&stage.name, &verdict);
            }
        }
    }
    Ok(outcomes)
}

impl Outcomes {
    /// Adds the outcomes of one cell's gates.
    fn add(&mut self, stage: &str, verdict: &Value) {
        let count = |outcome: &str| verdict[outcome].as_u64().unwrap_or_default();
        self.pass += count("pass");
        self.fail += count("fail");
        self.not_judged += count("not_judged");
        let names = verdict["failed_gates"].as_array().into_iter().flatten();
        let names = names.filter_map(Value::as_str);
        self.failed
            .extend(names.map(|gate| format!("{stage}: {gate}")));
    }
}

fn json_of(
    summary: &RunSummary,
    reports: &[PathBuf],
    gates: &Outcomes,
    claims: &[Answer],
) -> Value {
    let claim = |a: &Answer| json!({"claim": a.claim, "verdict": a.verdict, "may_say": a.may_say, "reason": a.reason});
    let mut stages: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for line in &summary.ledger {
        *stages
            .entry(&line.stage)
            .or_default()
            .entry(line.status.word())
            .or_default() += 1;
    }
    json!({
        "executed": summary.executed, "lacks": summary.lacks, "resource_starts": summary.resource_starts, "counts": summary.counts,
        "stages": stages, "interrupted": summary.interrupted, "failed_gates": gates.failed,
        "gates": {"pass": gates.pass, "fail": gates.fail, "not_judged": gates.not_judged},
        "trail": summary.trail, "lock": summary.lock, "reports": reports,
        "claims": claims.iter().map(claim).collect::<Vec<_>>(),
    })
}

fn tell(arguments: &RunArgs, summary: &RunSummary, reports: &[PathBuf], gates: &Outcomes) {
    let counts: Vec<String> = summary
        .counts
        .iter()
        .map(|(word, n)| format!("{n} {word}"))
        .collect();
    let executed = if summary.executed == 1 {
        "cell"
    } else {
        "cells"
    };
    say(&format!(
        "{} {executed} executed; {}",
        summary.executed,
        counts.join(", ")
    ));
    if gates.pass + gates.fail + gates.not_judged > 0 {
        say(&format!(
            "gates: {} pass, {} fail, {} not judged",
            gates.pass, gates.fail, gates.not_judged
        ));
    }
    for gate in &gates.failed {
        say(&format!("gate failed: {gate}"));
    }
    let (skipped, mut trouble): (Vec<&LedgerLine>, Vec<&LedgerLine>) = summary
        .ledger
        .iter()
        .filter(|l| is_trouble(l))
        .partition(|l| l.status == CellStatus::Skipped);
    // If nothing failed but the study is not done, the first skipped cell gives the reason.
    if trouble.is_empty() && !summary.done {
        trouble.extend(skipped.first());
    }
    for line in trouble.iter().take(TROUBLE_SHOWN) {
        let cell = pipeline::place::cell_text(&line.stage, &line.coordinates.to_string());
        // The full reason of a failure was already printed when the cell ended.
        let reason = line
            .reason
            .as_deref()
            .unwrap_or("no reason given")
            .lines()
            .next()
            .unwrap_or_default();
        say(&format!("{} {cell}: {reason}", line.status.word()));
    }
    if !arguments.keep_going && !summary.done && skipped.len() > 1 {
        say(&format!(
            "{} cells were skipped; {}",
            skipped.len(),
            if summary.interrupted {
                "run the same command again to continue"
            } else {
                "use `--keep-going` to continue with cells that do not need the failed ones"
            }
        ));
    }
    if trouble.len() > TROUBLE_SHOWN || skipped.len() > 1 {
        say("`benchtrail status` shows the reason for every cell that is not ok");
    }
    for report in reports {
        say(&format!("report       {}", shown(report)));
    }
    let ok = summary
        .counts
        .get(CellStatus::Ok.word())
        .is_some_and(|n| *n > 0);
    if !ok && !summary.lock_written {
        say(&format!(
            "lock         {}, unchanged: no cell is ok",
            shown(&summary.lock)
        ));
        return;
    }
    say(&format!("trail digest {}", summary.trail));
    say(&format!("lock         {}", shown(&summary.lock)));
}

/// Prints the main table of results, if any. An error here does not affect the measurements.
fn tell_table(lock: Option<&Lock>, store: &Store) {
    if let Some(Ok(Some(text))) = lock.map(|lock| main_table::of(lock, store)) {
        say(&text);
    }
}

/// Prints the study's answers, and the report's address for a browser.
fn tell_answers(claims: &[Answer], reports: &[PathBuf]) {
    if !claims.is_empty() {
        say("claims:");
    }
    for answer in claims {
        say(&format!("  {}", answer.text()));
    }
    for page in reports.iter().map(|r| r.with_extension("html")) {
        // A report with a custom file name may have no page.
        if let Ok(page) = page.canonicalize() {
            say(&format!("read it at   file://{}", page.display()));
        }
    }
}

/// Prints the commands that a reader of the summary probably wants next.
fn tell_next(arguments: &RunArgs, session: &Session, reports: &[PathBuf]) {
    let file = quoted(&shown(&session.experiment.file));
    let profile = match &session.experiment.profile {
        Some(profile) if profile == "smoke" => " --smoke".to_owned(),
        Some(profile) => format!(" --profile {profile}"),
        None => String::new(),
    };
    say("try next:");
    match reports
        .first()
        .and_then(|r| first_number(r).map(|n| (r, n)))
    {
        Some((report, (line, number))) => {
            say(&format!(
                "  benchtrail why {} '{number}'",
                quoted(&format!("{}:{line}", shown(report)))
            ));
        }
        None => say(&format!("  benchtrail status {file}{profile}")),
    }
    let set: String = arguments
        .experiment
        .set
        .iter()
        .map(|(k, v)| format!(" --set {}", quoted(&format!("{k}={v}"))))
        .collect();
    say(&format!("  benchtrail plan {file}{profile}{set}"));
}

fn is_trouble(line: &LedgerLine) -> bool {
    !matches!(line.status, CellStatus::Ok | CellStatus::Excluded)
}

/// Returns the line and text of an interesting number in the report: the first in a usual column of results, or the
/// first measured one.
fn first_number(report: &Path) -> Option<(i64, String)> {
    let table = artifacts::Table::from_parquet(fs::read(trace_file(report)).ok()?).ok()?;
    let (lines, texts) = (table.int("line").ok()?, table.text("text").ok()?);
    let (sources, units) = (table.text("source").ok()?, table.text("unit").ok()?);
    let columns = table.text("column").ok()?;
    let measured =
        |row: &usize| sources[*row] == Some("table") && matches!(units[*row], Some("tok/s" | "ms"));
    let usual = |row: &usize| {
        columns[*row].is_some_and(|c| main_table::USUAL.iter().any(|usual| c.starts_with(usual)))
    };
    let numbers = || (0..table.rows()).filter(measured);
    let row = numbers().find(usual).or_else(|| numbers().next())?;
    Some((lines[row]?, texts[row]?.to_owned()))
}
