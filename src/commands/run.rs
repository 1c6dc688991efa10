//! `run`: executes missing cells, and writes the report.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use artifacts::Store;
use pipeline::design::Preflight;
use pipeline::lock::{Lock, lock_path};
use pipeline::record::Build;
use pipeline::{
    CellStatus, Diagnostics, Event, Permit, Plan, PlanOptions, Prepared, RunOptions, RunSummary,
};

use super::run_report::{check_named, check_place, write_not_run, write_reports};
use super::run_summary::{Conclusion, is_trouble, outcomes};
use crate::answers;
use crate::args::{Global, PlanArgs, RunArgs};
use crate::cluster_run::{self, How};
use crate::dry_run;
use crate::exit::Stop;
use crate::progress::{Progress, Show};
use crate::project::shown;
use crate::quiet;
use crate::rented;
use crate::room;
use crate::same_name;
use crate::session::{Session, plan_options};
use crate::shared::{Shared, chosen_name};
use crate::signals::listen_for_signals;
use crate::stopper::Token;
use crate::terminal::{complain, say};
use crate::trust;

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
    check_named(&session.experiment, arguments)?;
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
    let run = Run {
        arguments,
        global,
        session: &session,
        store: &store,
        shared: shared.as_ref(),
        plan: &plan,
    };
    for warning in &plan.warnings {
        complain(&format!("warning: {warning}"));
    }
    // Asked before signals are deferred, so that Ctrl-C at a question ends the process.
    let permit = run.permit()?;
    if !plan.is_idle() {
        let pure = session.pure_cells().iter().sum();
        let step = room::Step::executes(session.cells(), pure, arguments.jobs);
        room::fits("this run", &step)?;
    }
    let cancelled = Arc::new(AtomicBool::new(false));
    listen_for_signals(&cancelled)?;
    run.try_before(&cancelled)?;
    let preflight = quiet::look_before(&session, &plan, &cancelled)?;
    let summary = run.execute(prepared, options, permit, preflight, cancelled)?;
    run.finish(summary)
}

/// A run of a planned study.
struct Run<'a> {
    arguments: &'a RunArgs,
    global: &'a Global,
    session: &'a Session,
    store: &'a Store,
    shared: Option<&'a Shared>,
    plan: &'a Plan,
}

impl Run<'_> {
    /// Checks that the cells can start, and that the user consents to what they start.
    fn permit(&self) -> Result<Permit, Stop> {
        let (session, plan) = (self.session, self.plan);
        check_place(session)?;
        session.check_ready(plan)?;
        if self.shared.is_none() {
            let wanting =
                pipeline::wants_shared_store(&session.experiment, &session.registry, plan)?;
            if !wanting.is_empty() {
                return Err(Stop::diagnostics(Diagnostics(wanting)));
            }
        }
        trust::permit(session, plan, self.arguments.trust.answer())
    }

    /// Tries the pure stages on simulated rows if something will be measured first: a mistake in the analysis or the
    /// report should show before the measurement, not after it.
    fn try_before(&self, cancelled: &Arc<AtomicBool>) -> Result<(), Stop> {
        if self.arguments.no_dry_run || !pipeline::dry_run_is_due(self.plan) {
            return Ok(());
        }
        let tried = dry_run::try_out(self.session, cancelled, self.arguments.quiet)?;
        if tried.interrupted {
            return Err(Stop::interrupted());
        }
        for finding in &tried.findings {
            complain(&dry_run::text(finding));
        }
        if tried.errors().next().is_some() {
            complain("nothing was measured; use `--no-dry-run` to measure anyway");
            return Err(Stop::usage_printed());
        }
        Ok(())
    }

    /// Executes the missing cells, first those on other machines. Everything that this run rented is given back, even if
    /// it fails.
    fn execute(
        &self,
        prepared: Option<Prepared<'_>>,
        options: PlanOptions,
        permit: Permit,
        preflight: Option<Preflight>,
        cancelled: Arc<AtomicBool>,
    ) -> Result<RunSummary, Stop> {
        let (arguments, session, store) = (self.arguments, self.session, self.store);
        let how = How {
            keep_going: arguments.keep_going,
            cancelled: &cancelled,
            quiet: arguments.quiet,
        };
        let came = cluster_run::execute(session, store, self.shared, &options, &permit, how)?;
        let events = self.events();
        // Without an event log, nobody can see the run or stop it from a page.
        let folder = events.as_deref().and_then(Path::parent);
        let token = folder.and_then(Token::new);
        let digest = token.as_ref().map(Token::digest);
        let progress = Progress::new(
            &session.experiment,
            self.show(),
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
        rented::sweep_left(store, &listener)?;
        let summary = pipeline::run_prepared(
            // A plan made here does not contain the results of other machines.
            prepared.filter(|_| came.is_none()),
            &session.experiment,
            &session.registry,
            store,
            &options,
            &listener,
        );
        let costs = rented::give_back(&listener);
        progress.close();
        drop(stopper);
        for cost in costs {
            complain(&cost);
        }
        let summary = summary?;
        if let Some(came) = came {
            came.close()?;
        }
        Ok(summary)
    }

    fn show(&self) -> Show {
        match () {
            () if self.arguments.quiet || self.global.json => Show::Quiet,
            () if self.arguments.verbose => Show::Verbose,
            () => Show::Progress,
        }
    }

    /// Returns the path of the event log. Warns if another experiment would write the same report.
    fn events(&self) -> Option<PathBuf> {
        let experiment = &self.session.experiment;
        let events = match &self.arguments.events {
            Some(file) => Some(file.clone()),
            None => events_file(self.session),
        };
        if let (None, Some(events)) = (&self.arguments.report, &events)
            && let Some(other) = same_name::other(events, &experiment.file)
        {
            complain(&format!(
                "warning: {} is also named `{}`, so this run replaces its report; rename one of them (`experiment: …`), \
                 or write this report elsewhere with `--report FILE`",
                shown(&other),
                experiment.name
            ));
        }
        events
    }

    /// Pushes the results, writes the reports and prints the summary; returns how the command ends.
    fn finish(&self, mut summary: RunSummary) -> Result<(), Stop> {
        let (session, store) = (self.session, self.store);
        // Without a lock, nothing ran.
        let place = lock_path(&session.experiment);
        let lock_kept = summary.locked.is_none();
        let lock = match summary.locked.take() {
            Some(lock) => Some(lock),
            None => Lock::read(&place).map_err(Stop::failed)?,
        };
        let pushed = self.shared.map(|shared| {
            let locks: Vec<_> = lock
                .iter()
                .map(|lock| (place.clone(), lock.clone()))
                .collect();
            let report = shared.push(store, &locks, false, &AtomicBool::new(false));
            report.map(|(report, _)| (report, shared.remote.url()))
        });
        let file = self.arguments.report.as_deref();
        // The report beside a lock that stays is that of its results, of which the store lacks some.
        let report_kept = lock_kept && file.is_none() && !summary.results.is_empty();
        let reports = match report_kept {
            true => Vec::new(),
            false => write_reports(session, store, &summary, file)?,
        };
        let not_run = write_not_run(session, self.plan)?;
        let any_ok = summary.counts.contains_key(CellStatus::Ok.word());
        let gates = match &lock {
            Some(lock) if any_ok && !lock_kept => outcomes(store, session, lock)?,
            // The lock is from an earlier run.
            _ => Default::default(),
        };
        let mut claims = Vec::new();
        for result in &summary.results {
            claims.extend(answers::of(store, result)?);
        }
        let conclusion = Conclusion {
            summary: &summary,
            reports: &reports,
            gates: &gates,
            claims: &claims,
            lock_kept,
            report_kept,
            pushed: pushed.as_ref().and_then(|pushed| pushed.as_ref().ok()),
        };
        if self.global.json {
            say(&conclusion.json().to_string());
        } else {
            conclusion.print(self.arguments, session, (lock.as_ref(), store));
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
            .any(|line| is_trouble(line) && line.status != CellStatus::Skipped);
        match summary.lacks.as_slice() {
            _ if summary.done && gates.failed.is_empty() => Ok(()),
            [] => Err(Stop::failed_printed()),
            _ if failed || !gates.failed.is_empty() => Err(Stop::failed_printed()),
            lacks => Err(session.lacking(lacks, self.arguments.selection.locked)),
        }
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
