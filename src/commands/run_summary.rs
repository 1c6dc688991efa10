//! What a run tells its user at the end: counts, gates, cells that are not ok, files, claims and the next commands.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use artifacts::Store;
use pipeline::lock::{Lock, LockStage};
use pipeline::record::parse_outputs;
use pipeline::{CellStatus, LedgerLine, RunSummary};
use remote::PushReport;
use serde_json::{Value, json};

use super::run_report::trace_file;
use crate::answers::Answer;
use crate::args::RunArgs;
use crate::comparison_tables;
use crate::effect_text::to_copy;
use crate::exit::Stop;
use crate::main_table;
use crate::project::{again, in_shell, shown};
use crate::session::Session;
use crate::shared::{push_json, push_lines};
use crate::terminal::say;

/// The number of failed cells that are named at the end; the ledger lists all of them.
const TROUBLE_SHOWN: usize = 10;

/// The outcomes of the gates of all verify cells.
#[derive(Default)]
pub(super) struct Outcomes {
    pass: u64,
    fail: u64,
    not_judged: u64,
    /// Failures by severity, the severest first.
    failures: [(&'static str, u64); 3],
    /// The failed gates of severity `fail`.
    pub(super) failed: Vec<String>,
}

/// Counts the outcomes of gates, from the verdicts of the verify cells.
pub(super) fn outcomes(store: &Store, session: &Session, lock: &Lock) -> Result<Outcomes, Stop> {
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
            let records = lookup.records_for(&key)?;
            let entry = records.iter().find(|cached| cached.record == record);
            let outputs = entry.and_then(|cached| parse_outputs(&cached.outputs));
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

/// The severities of gates.
const SEVERITIES: [&str; 3] = ["fail", "exclude", "warn"];

impl Outcomes {
    /// Returns the counts as text. Failures say what follows from them.
    fn text(&self) -> String {
        let some: Vec<&(&str, u64)> = self.failures.iter().filter(|(_, n)| *n > 0).collect();
        let failures = match some.as_slice() {
            [] => String::new(),
            [(severity, n)] if *n == self.fail => match *severity {
                "warn" => " (each only a warning)".to_owned(),
                other => format!(" (severity `{other}`)"),
            },
            several => {
                let each = several
                    .iter()
                    .map(|(severity, n)| format!("{n} `{severity}`"));
                format!(" ({})", each.collect::<Vec<_>>().join(", "))
            }
        };
        format!(
            "gates: {} pass, {} fail{failures}, {} not judged",
            self.pass, self.fail, self.not_judged
        )
    }

    /// Adds the outcomes of one cell's gates.
    fn add(&mut self, stage: &str, verdict: &Value) {
        let count = |outcome: &str| verdict[outcome].as_u64().unwrap_or_default();
        self.pass += count("pass");
        self.fail += count("fail");
        self.not_judged += count("not_judged");
        for (at, severity) in SEVERITIES.into_iter().enumerate() {
            let n = verdict["failed"][severity].as_u64().unwrap_or_default();
            self.failures[at] = (severity, self.failures[at].1 + n);
        }
        let names = verdict["failed_gates"].as_array().into_iter().flatten();
        let names = names.filter_map(Value::as_str);
        self.failed
            .extend(names.map(|gate| format!("{stage}: {gate}")));
    }
}

/// What a run tells its user.
pub(super) struct Conclusion<'a> {
    pub(super) summary: &'a RunSummary,
    pub(super) reports: &'a [PathBuf],
    pub(super) gates: &'a Outcomes,
    pub(super) claims: &'a [Answer],
    /// Whether an earlier lock stayed.
    pub(super) lock_kept: bool,
    /// Whether no report was written, because that of the earlier lock stayed.
    pub(super) report_kept: bool,
    /// What was pushed, and the address of the shared store.
    pub(super) pushed: Option<&'a (PushReport, &'a str)>,
}

impl Conclusion<'_> {
    pub(super) fn json(&self) -> Value {
        let (summary, gates) = (self.summary, self.gates);
        let claim = |a: &Answer| json!({"claim": a.claim, "verdict": a.verdict, "may_say": a.may_say, "reason": a.reason});
        let mut stages: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
        for line in &summary.ledger {
            *stages
                .entry(&line.stage)
                .or_default()
                .entry(line.status.word())
                .or_default() += 1;
        }
        let mut json = json!({
            "executed": summary.executed, "lacks": summary.lacks, "resource_starts": summary.resource_starts, "counts": summary.counts,
            "stages": stages, "interrupted": summary.interrupted, "failed_gates": gates.failed,
            "gates": {"pass": gates.pass, "fail": gates.fail, "not_judged": gates.not_judged},
            "trail": summary.trail, "lock": summary.lock, "reports": self.reports,
            "claims": self.claims.iter().map(claim).collect::<Vec<_>>(),
        });
        if let Some((report, url)) = self.pushed {
            json["pushed"] = push_json(report, url);
        }
        json
    }

    pub(super) fn print(
        &self,
        arguments: &RunArgs,
        session: &Session,
        (lock, store): (Option<&Lock>, &Store),
    ) {
        self.print_counts();
        self.print_trouble(arguments);
        self.print_files();
        if let Some((report, url)) = self.pushed {
            push_lines(report, url).iter().for_each(|line| say(line));
        }
        if !arguments.quiet {
            tell_tables(lock, store);
        }
        tell_answers(self.claims, self.reports);
        tell_next(arguments, session, self.reports);
    }

    fn print_counts(&self) {
        let (summary, gates) = (self.summary, self.gates);
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
            say(&gates.text());
        }
        for gate in &gates.failed {
            say(&format!("gate failed: {gate}"));
        }
    }

    /// Prints the cells that are not ok.
    fn print_trouble(&self, arguments: &RunArgs) {
        let summary = self.summary;
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
    }

    /// Prints the paths of the reports and of the lock, and the trail digest.
    fn print_files(&self) {
        let summary = self.summary;
        for report in self.reports {
            say(&format!("report       {}", shown(report)));
        }
        if self.report_kept {
            say(
                "report       unchanged, like the lock; `--report FILE` writes one of the results that are left",
            );
        }
        let ok = summary
            .counts
            .get(CellStatus::Ok.word())
            .is_some_and(|n| *n > 0);
        let unchanged = match (ok, self.lock_kept) {
            (false, _) if !summary.lock_written => Some("no cell is ok"),
            (true, true) => Some("the store lacks results that it names"),
            _ => None,
        };
        if let Some(why) = unchanged {
            let lock = shown(&summary.lock);
            say(&format!("lock         {lock}, unchanged: {why}"));
            return;
        }
        say(&format!("trail digest {}", summary.trail));
        say(&format!("lock         {}", shown(&summary.lock)));
    }
}

/// Prints the main table of results and the comparisons, if any. An error here does not affect the measurements.
fn tell_tables(lock: Option<&Lock>, store: &Store) {
    if let Some(Ok(Some(text))) = lock.map(|lock| main_table::of(lock, store)) {
        say(&text);
    }
    if let Some(Ok(texts)) = lock.map(|lock| comparison_tables::of(lock, store)) {
        texts.iter().for_each(|text| say(text));
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
    pages(reports);
}

/// Prints the addresses of reports for a browser.
pub(super) fn pages(reports: &[PathBuf]) {
    for page in reports.iter().map(|r| r.with_extension("html")) {
        // A report with a custom file name may have no page.
        if let Ok(page) = page.canonicalize() {
            say(&format!("read it at   file://{}", page.display()));
        }
    }
}

/// Prints the commands that a reader of the summary probably wants next.
fn tell_next(arguments: &RunArgs, session: &Session, reports: &[PathBuf]) {
    let study = again(
        &session.experiment.file,
        session.experiment.profile.as_deref(),
    );
    say("try next:");
    match reports
        .first()
        .and_then(|r| first_number(r).map(|n| (r, n)))
    {
        Some((report, (line, number))) => {
            say(&format!(
                "  benchtrail why {} '{number}'",
                in_shell(Path::new(&format!("{}:{line}", report.display())))
            ));
        }
        None => say(&format!("  benchtrail status {study}")),
    }
    let set: String = arguments
        .experiment
        .set
        .iter()
        .map(|(k, v)| format!(" --set {}", to_copy(&format!("{k}={v}"))))
        .collect();
    say(&format!("  benchtrail plan {study}{set}"));
}

pub(super) fn is_trouble(line: &LedgerLine) -> bool {
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
