//! A run in progress, from the event log that `run` writes beside the report. New events are read once a second, and
//! never more than a fixed amount of them.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use artifacts::Digest;
use pipeline::place::CellPattern;
use pipeline::record::Record;
use serde_json::{Value, json};
use statistics::Sample;

use crate::error::{Failure, Fault};
use crate::reply::{Freshness, Reply};
use crate::site::Site;

/// The name of an event log, in the folder of its report.
pub(crate) const LOG: &str = "events.jsonl";

/// The file beside an event log that stops its run; it contains the run's token.
pub const STOP: &str = "stop";

/// The file beside an event log that contains the run's token, readable by the user only.
pub const STOP_TOKEN: &str = "stop-token";

/// The maximum number of bytes of a log that one step reads.
const STEP: u64 = 1 << 20;

/// The maximum size in bytes of the first line of a log, which names every cell.
const FIRST_LINE: u64 = 64 << 20;

/// The maximum number of requests of a cell that are read during a run.
const ROWS: u64 = 200_000;

/// Lists the runs that have an event log, newest first.
pub(crate) fn runs(root: &Path) -> Reply {
    let mut logs = Vec::new();
    let folders = fs::read_dir(root.join("reports")).into_iter().flatten();
    for folder in folders.flatten() {
        let Ok(meta) = fs::metadata(folder.path().join(LOG)) else {
            continue;
        };
        let modified = meta.modified().ok();
        let modified = modified.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        if let (Some(modified), Ok(id)) = (modified, folder.file_name().into_string()) {
            logs.push((modified.as_secs(), id, meta.len()));
        }
    }
    logs.sort_by(|a, b| b.cmp(a));
    let line = |(modified, id, bytes): (u64, String, u64)| json!({"id": id, "modified_unix_s": modified, "bytes": bytes});
    let runs: Vec<Value> = logs.into_iter().map(line).collect();
    Reply::json(&json!({"runs": runs}), Freshness::Never)
}

/// The end of an event log.
#[derive(Debug)]
pub(crate) struct Tail {
    path: PathBuf,
    at: u64,
    more: bool,
    began: Began,
}

/// The contents of the first line of a log.
#[derive(Debug, Default, PartialEq, Eq)]
struct Began {
    experiment: String,
    /// The stages that measure with the load generator.
    loads: Vec<String>,
    /// The digest of the token that can stop the run.
    stop: Option<Digest>,
}

impl Tail {
    /// Opens the log of a run at a byte offset.
    pub(crate) fn open(root: &Path, id: &str, from: u64) -> Result<Self, Failure> {
        let nothing = || {
            Failure::nothing(
                format!("unknown run `{id}`"),
                "`benchtrail run` writes an event log next to its report",
            )
        };
        // The name of a single folder, never a path.
        let plain = !id.is_empty() && !id.contains(['/', '\\', '\0']) && id != "." && id != "..";
        let path = root.join("reports").join(id).join(LOG);
        if !plain || !path.is_file() {
            return Err(nothing());
        }
        Ok(Self {
            began: began(&path).unwrap_or_default(),
            path,
            at: from,
            more: false,
        })
    }

    /// Returns whether the log has more than one step reads.
    pub(crate) fn has_more(&self) -> bool {
        self.more
    }

    /// Returns the new events as server-sent events: each line of the log, with its position as id, and the rates of
    /// the newest cell measured since. A comment if nothing is new, so that a closed page is noticed.
    pub(crate) fn step(&mut self, site: &Site) -> String {
        let lines = self.read().unwrap_or_default();
        let mut text = String::new();
        let mut measured = None;
        for (end, line) in lines {
            text.push_str(&format!("id: {end}\nevent: run\ndata: {line}\n\n"));
            let event: Value = serde_json::from_str(&line).unwrap_or_default();
            let is_load = |stage: &String| event["stage"] == stage.as_str();
            if event["event"] == "cell-ended"
                && event["cached"] == false
                && event["status"] == "ok"
                && self.began.loads.iter().any(is_load)
            {
                measured = event["cell"].as_str().map(str::to_owned);
            }
        }
        // One cell per step, so that a page opened late does not read everything that came before.
        let rates = measured.and_then(|cell| rates(site, &self.began.experiment, &cell));
        if let Some(rates) = rates {
            text.push_str(&format!("event: measured\ndata: {rates}\n\n"));
        }
        if text.is_empty() {
            text.push_str(": nothing new\n\n");
        }
        text
    }

    /// Returns the complete lines after the last read position, each with the position of its end.
    fn read(&mut self) -> std::io::Result<Vec<(u64, String)>> {
        let mut file = File::open(&self.path)?;
        if file.metadata()?.len() < self.at {
            // The experiment runs again, so the log started over.
            (self.at, self.began) = (0, began(&self.path).unwrap_or_default());
        }
        file.seek(SeekFrom::Start(self.at))?;
        let mut bytes = Vec::new();
        file.take(STEP).read_to_end(&mut bytes)?;
        self.more = bytes.len() as u64 == STEP;
        let mut lines = Vec::new();
        for line in bytes.split_inclusive(|b| *b == b'\n') {
            if !line.ends_with(b"\n") {
                if lines.is_empty() && self.more {
                    // A line longer than a step is not ours.
                    self.at += STEP;
                }
                break;
            }
            self.at += line.len() as u64;
            let line = String::from_utf8_lossy(&line[..line.len() - 1]);
            // A log line must be a single line of the stream.
            lines.push((self.at, line.replace(['\r', '\n'], " ")));
        }
        Ok(lines)
    }
}

/// Stops a run, like Ctrl-C, on behalf of a client with its token: writes the token where the run looks for it.
pub(crate) fn stop(root: &Path, id: &str, token: &str) -> Result<Reply, Failure> {
    let tail = Tail::open(root, id, 0)?;
    let folder = tail.path.parent().unwrap_or(root);
    let wanted = tail
        .began
        .stop
        .as_ref()
        .filter(|_| folder.join(STOP_TOKEN).is_file());
    let Some(wanted) = wanted else {
        return Err(Failure::new(
            Fault::Conflict,
            format!("the run `{id}` is over, or cannot be stopped from here"),
            "Ctrl-C in its own terminal stops a run",
        ));
    };
    let token = token.trim();
    if Digest::of(token.as_bytes()) != *wanted {
        return Err(Failure::new(
            Fault::Denied,
            "that is not the run's token",
            format!("it is in `reports/{id}/{STOP_TOKEN}`"),
        ));
    }
    // Renamed only when complete.
    let (part, file) = (folder.join(".stop.tmp"), folder.join(STOP));
    let written = artifacts::regular::create(&part)
        .and_then(|mut new| new.write_all(token.as_bytes()))
        .and_then(|()| fs::rename(&part, &file));
    written.map_err(|e| Failure::store(format!("{}: {e}", file.display())))?;
    let answer = json!({"stopping": id, "how": "as after Ctrl-C: measured cells stay, and you can \
        continue the run later"});
    Ok(Reply {
        status: 202,
        ..Reply::json(&answer, Freshness::Never)
    })
}

/// Returns the contents of the first line of a log.
fn began(path: &Path) -> Option<Began> {
    let mut start = Vec::new();
    let file = File::open(path).ok()?;
    file.take(FIRST_LINE).read_to_end(&mut start).ok()?;
    let line = start.split(|b| *b == b'\n').next()?;
    let event: Value = serde_json::from_slice(line).ok()?;
    let stages = event["stages"].as_array()?.iter();
    let loads = stages
        .filter(|stage| stage["kind"] == "load")
        .filter_map(|stage| stage["name"].as_str().map(str::to_owned));
    Some(Began {
        experiment: event["experiment"].as_str()?.to_owned(),
        loads: loads.collect(),
        stop: event["stop"]
            .as_str()
            .and_then(|digest| digest.parse().ok()),
    })
}

/// Returns the figures that a page shows for a cell that was just measured, if the cell has request rows.
fn rates(site: &Site, experiment: &str, cell: &str) -> Option<Value> {
    let pattern: CellPattern = cell.parse().ok()?;
    let at = cell
        .strip_prefix(pattern.stage.as_str())?
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or_default();
    let history = site.store.history(experiment, &pattern.stage, Some(at), 1);
    let line = history.ok()?.into_iter().next()?;
    let record = Record::parse(&site.store.get_document(&line.record).ok()?).ok()?;
    let requests = record.outputs.get("requests")?;
    if requests.rows.is_none_or(|rows| rows > ROWS) {
        return None;
    }
    let mut value = of_requests(site, &requests.digest).ok()?;
    value["cell"] = json!(cell);
    Some(value)
}

/// Returns throughput, TTFT and errors of the measured requests of a cell.
///
/// As docs/load.md defines them, output throughput is tokens over the time from the first request sent to the last
/// byte, in tok/s, and TTFT is the time from sending to the first token, in ms. Quantiles are of type 7.
fn of_requests(site: &Site, digest: &Digest) -> Result<Value, Failure> {
    let table = site.table(digest)?;
    let (phases, statuses) = (table.text("phase")?, table.text("status")?);
    let superseded = table.boolean("superseded")?;
    let int = |name: &str| table.int(name);
    let (sent, first, done) = (int("sent_ns")?, int("first_token_ns")?, int("done_ns")?);
    let tokens = int("output_tokens")?;
    let (mut requests, mut errors, mut sum) = (0, 0, 0_i64);
    let (mut from, mut to, mut ttft) = (i64::MAX, i64::MIN, Vec::new());
    for row in 0..table.rows() {
        if phases[row] != Some("measured") || superseded[row] == Some(true) {
            continue;
        }
        requests += 1;
        from = from.min(sent[row].unwrap_or(i64::MAX));
        to = to.max(done[row].unwrap_or(i64::MIN));
        if statuses[row] != Some("ok") {
            errors += 1;
            continue;
        }
        sum = sum.saturating_add(tokens[row].unwrap_or(0));
        if let (Some(sent), Some(first)) = (sent[row], first[row]) {
            ttft.push(first.saturating_sub(sent) as f64 / 1e6);
        }
    }
    let ttft = Sample::new(ttft).ok();
    let milliseconds = |share| ttft.as_ref().map(|ttft| ttft.quantile(share));
    let seconds = (to > from).then(|| to.saturating_sub(from) as f64 / 1e9);
    Ok(json!({
        "requests": requests,
        "errors": errors,
        "output_throughput": seconds.map(|s| sum as f64 / s),
        "ttft_ms_p50": milliseconds(0.5),
        "ttft_ms_p95": milliseconds(0.95),
    }))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn log(text: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("reports/a");
        fs::create_dir_all(&at).unwrap();
        fs::write(at.join(LOG), text).unwrap();
        folder
    }

    #[test]
    fn only_whole_lines_are_read_and_each_once() {
        let folder = log(concat!(
            r#"{"event":"run-began","experiment":"a","stages":[{"name":"l","kind":"load"}]}"#,
            "\n",
            r#"{"event":"x""#
        ));
        let mut tail = Tail::open(folder.path(), "a", 0).unwrap();
        assert_eq!(tail.began.experiment, "a");
        assert_eq!(tail.began.loads, ["l"]);
        assert_eq!(tail.read().unwrap().len(), 1);
        assert_eq!(tail.read().unwrap(), []);
        let path = folder.path().join("reports/a").join(LOG);
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"}\n").unwrap();
        assert_eq!(tail.read().unwrap()[0].1, "{\"event\":\"x\"}");
        // The experiment runs again.
        fs::write(&path, "{}\n").unwrap();
        assert_eq!(tail.read().unwrap(), [(3, "{}".to_owned())]);
    }

    #[test]
    fn a_run_is_stopped_by_its_token_alone_and_only_while_it_goes_on() {
        let digest = Digest::of(b"secret");
        let first = json!({"event": "run-began", "experiment": "a", "stages": [], "stop": digest});
        let folder = log(&format!("{first}\n"));
        let at = folder.path().join("reports/a");
        let ask = |token: &str| stop(folder.path(), "a", token).map_err(|f| f.fault);
        assert_eq!(ask("secret").unwrap_err(), Fault::Conflict);
        fs::write(at.join(STOP_TOKEN), "secret\n").unwrap();
        assert_eq!(ask("other").unwrap_err(), Fault::Denied);
        assert!(!at.join(STOP).exists());
        assert_eq!(ask(" secret\n").unwrap().status, 202);
        assert_eq!(fs::read_to_string(at.join(STOP)).unwrap(), "secret");
    }

    #[test]
    fn the_name_of_a_run_is_never_a_path() {
        let folder = log("");
        for id in ["", ".", "..", "../reports/a", "b", "a/../a"] {
            assert!(Tail::open(folder.path(), id, 0).is_err(), "{id}");
        }
    }
}
