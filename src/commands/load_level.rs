//! One level of `load`: measures it, shows progress on the terminal, and returns a summary.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use artifacts::counted;
use contract::{Phase, RequestStatus};
use indicatif::{ProgressBar, ProgressStyle};
use load::{
    DirectArrival, Ending, LoadSpec, Monitoring, Origin, Settings, Summarizer, Summary, Target,
    run_load_into,
};
use pipeline::stage::Control;
use serde_json::Value;

use super::load_compat::{compat, compat_json, compat_table};
use super::load_failures::Failures;
use super::load_save;
use super::load_server::Server;
use super::load_settings::{direct, judged_slo, slo};
use super::load_study::LoadStudy;
use super::load_table::{json_of, table_of};
use super::load_words::in_options;
use crate::args::{Global, LoadArgs};
use crate::exit::Stop;
use crate::progress::{Pace, logged};
use crate::terminal::{complain, continued, is_watched, say};

/// One level of a run.
pub(super) struct Level<'a> {
    pub(super) arguments: &'a LoadArgs,
    pub(super) global: &'a Global,
    pub(super) arrival: &'a DirectArrival,
    pub(super) folder: &'a Path,
    /// Whether other levels come before or after it.
    pub(super) several: bool,
}

/// The result of a level.
pub(super) struct Run {
    pub(super) summary: Summary,
    pub(super) ok: u64,
    pub(super) model: String,
    /// The document that `--json` prints.
    pub(super) document: Value,
    pub(super) table: String,
    /// The notes on token figures that need an explanation.
    pub(super) notes_on_tokens: Vec<String>,
    ending: Ending,
    gone: String,
    heartbeat: String,
    failures: Failures,
}

impl Level<'_> {
    pub(super) fn measure(
        &self,
        settings: Settings,
        origin: &Origin,
        server: &Server<'_>,
        target: &Target,
        monitoring: &Monitoring,
        cancelled: &Arc<AtomicBool>,
    ) -> Result<Run, Stop> {
        let (arguments, global) = (self.arguments, self.global);
        let declared = settings.clone();
        let spec = LoadSpec::for_target(settings, origin.clone(), target, self.folder)
            .map_err(Stop::from)?;
        let quiet = arguments.quiet || global.json;
        let (control, bar) = self.control(&spec, target, cancelled, quiet);
        let (asked, slo) = (slo(arguments), judged_slo(arguments, self.arrival));
        let mut summarizer = Summarizer::new(slo, self.folder);
        let mut failures = Failures::default();
        let result = run_load_into(
            &spec,
            target,
            monitoring,
            self.folder,
            &control,
            &mut |row, chunks| {
                failures.add(row);
                summarizer.add(row, chunks)
            },
        );
        bar.finish_and_clear();
        let mut result = result.map_err(Stop::from)?;
        if let Ending::Refused(refusal) = &result.ending {
            return Err(server.refusal(target, refusal));
        }
        let doubts = [
            result.tally.standstill(),
            spec.prompts.repeated(),
            result.tally.warm_cache(&spec.workload),
            result.tally.other_lengths(&spec.workload, target.api),
        ];
        result.warnings.extend(doubts.into_iter().flatten());
        result
            .warnings
            .iter()
            .for_each(|warning| complain(&format!("warning: {}", continued(&in_options(warning)))));
        let summary = summarizer
            .finish()
            .map_err(|e| Stop::refused_at("the rows cannot be read again", &e))?
            .with_unsent(result.cell.unsent_requests);
        if let Some(doubt) = summary.unmeasured(&slo) {
            complain(&format!("warning: {doubt}"));
            result.warnings.push(doubt);
        }
        // Other tools count from sending.
        let compat = compat(arguments, &result, &asked)?;
        let saved = load_save::save(arguments, target, &spec, &result, &asked);
        let mut document = json_of(origin.seed, target, &spec, &result, &summary, &slo);
        if arguments.out.is_some() {
            let stage = direct(arguments, self.arrival)?.stage();
            let study = LoadStudy::new(
                arguments,
                origin,
                target,
                &declared,
                stage,
                document.clone(),
            );
            study.write(self.folder)?;
        }
        let mut table = table_of(origin.seed, target, &spec, &result, &summary, &slo);
        if let Some((tool, figures)) = &compat {
            document["compat"] = compat_json(*tool, figures);
            table.push_str(&format!("\n\n{}", compat_table(*tool, figures)));
        }
        // The figures are there, whatever the disk says.
        if saved.is_err() {
            say(&match self.global.json {
                true => document.to_string(),
                false => table.clone(),
            });
        }
        saved?;
        let ok = summary.statuses.get(&RequestStatus::Ok).copied();
        Ok(Run {
            ok: ok.unwrap_or(0),
            summary,
            model: target.model.clone(),
            document,
            table,
            notes_on_tokens: result.tally.notes_on_tokens(),
            gone: match &result.ending {
                Ending::Gone(server) => target.name_of(*server),
                _ => String::new(),
            },
            ending: result.ending,
            heartbeat: spec.heartbeat.to_string(),
            failures,
        })
    }

    /// Returns the control that stops the level and receives its progress, and the bar on the terminal.
    fn control(
        &self,
        spec: &LoadSpec,
        target: &Target,
        cancelled: &Arc<AtomicBool>,
        quiet: bool,
    ) -> (Control, ProgressBar) {
        let planned = spec.prompts.count(Phase::Measured);
        // Ladders and ramps last as long as they say.
        let lasts = spec.extent.duration;
        let timed = lasts.is_some();
        let bar = bar((!timed).then_some(planned as u64), quiet);
        let logs = !quiet && !is_watched();
        if logs || self.several && !quiet {
            let at = match (spec.arrival.clients(), spec.arrival.rate()) {
                _ if !self.several => String::new(),
                (Some(clients), _) => format!(" with {}", counted(clients, "client")),
                (None, Some(rate)) => format!(" at {rate} req/s"),
                (None, None) => " at once".to_owned(),
            };
            let what = match lasts {
                Some(duration) => format!("requests for {duration}"),
                None => counted(planned, "request"),
            };
            complain(&logged(&format!(
                "sending {what}{at} to {} …",
                target.place()
            )));
        }
        let (shown, pace) = (bar.clone(), Mutex::new(Pace::from(Instant::now())));
        let tell = move |progress: pipeline::stage::Progress| {
            shown.set_position(progress.done);
            if logs && pace.lock().expect("no listener panics").due(Instant::now()) {
                complain(&logged(&match timed {
                    true => counted(progress.done, "request"),
                    false => format!("{} of {}", progress.done, counted(planned, "request")),
                }));
            }
        };
        (
            Control::new(Arc::clone(cancelled), None, Box::new(tell)),
            bar,
        )
    }
}

impl Run {
    /// Returns why the command fails, if it does.
    pub(super) fn stop(&self) -> Option<Stop> {
        match &self.ending {
            Ending::Stopped(_, reason) => {
                complain(&format!(
                    "{reason}: the result covers the requests that had ended"
                ));
                Some(Stop::interrupted())
            }
            Ending::Hung => {
                let reason = format!(
                    "no byte arrived on any stream for {}; the run was ended as hung",
                    self.heartbeat
                );
                Some(
                    Stop::failed(reason)
                        .hint("check the server's log; --heartbeat sets how long to wait"),
                )
            }
            Ending::Gone(_) => {
                let reason = format!(
                    "{} no longer accepts connections; the run was ended",
                    self.gone
                );
                Some(Stop::failed(reason).hint("check whether the server has crashed"))
            }
            Ending::Lost(lost) => Some(
                Stop::failed(format!("{lost}; the run was ended"))
                    .hint("the result covers the requests of the other generators"),
            ),
            Ending::Complete | Ending::Refused(_) if self.ok > 0 => None,
            Ending::Complete | Ending::Refused(_) => Some(self.failures.none_answered()),
        }
    }
}

/// Returns a bar over a number of requests; without a number if time ends the run.
fn bar(requests: Option<u64>, quiet: bool) -> ProgressBar {
    if quiet || !is_watched() {
        return ProgressBar::hidden();
    }
    let template = match requests {
        Some(_) => "{bar:30} {pos} of {len} requests  {elapsed} elapsed",
        None => "{spinner} {pos} requests  {elapsed} elapsed",
    };
    let bar = requests.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
    bar.with_style(ProgressStyle::with_template(template).expect("the template is right"))
}
