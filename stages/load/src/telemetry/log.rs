//! Lines of the server's log, read while it grows and parsed with the engine's patterns.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use contract::{ERROR_EVENT, ERROR_TEXTS_NOTE, EngineEvent, EventPattern};
use jiff::civil::DateTime;
use net::{ApiKey, Secrets};
use pipeline::unix_ns;
use regex_lite::{Captures, Regex};

use super::companion::{Companion, Sampled};
use crate::sheet::Sheet;

/// A compiled pattern.
struct Pattern {
    event: String,
    line: Regex,
    fields: Vec<Regex>,
    time: Option<String>,
}

/// Compiles patterns.
///
/// # Errors
/// If an expression is invalid; names the pattern.
fn compile(patterns: &[(String, EventPattern)]) -> Result<Vec<Pattern>, String> {
    let all = patterns.iter().map(|(event, pattern)| {
        let regex = |text: &String| Regex::new(text).map_err(|e| format!("pattern `{event}`: {e}"));
        Ok(Pattern {
            event: event.clone(),
            line: regex(&pattern.line)?,
            fields: pattern.fields.iter().map(regex).collect::<Result<_, _>>()?,
            time: pattern.time.clone(),
        })
    });
    all.collect()
}

/// Converts the times of lines to stamps.
///
/// A log has local times, often without zone and year. The zone follows from the first line: the difference between its
/// time and our time when it was read, rounded to a quarter of an hour.
struct Clock {
    started_unix_ns: i128,
    zone_ns: Option<i128>,
    /// What this machine's clock has been set by, if this machine writes the log.
    set: Option<Set>,
}

/// How a machine's clock was set while a cell ran.
#[derive(Default)]
struct Set {
    /// How far the wall clock was ahead of the cell's clock at the first sample, ns.
    first_ns: Option<i128>,
    /// How far it has been set ahead since, ns.
    ahead_ns: i128,
    /// Whether the lines of this sample may be from before or after the clock was set.
    unsure: bool,
}

/// From this difference on, ns, between two clocks of this machine, one was set. A sample is not as late.
const APART: i128 = 500_000_000;

impl Set {
    /// Compares the wall clock with the cell's clock at a sample.
    fn compare(&mut self, at_ns: i64, seen_unix_ns: i128) {
        let difference = seen_unix_ns - i128::from(at_ns);
        let ahead = difference - *self.first_ns.get_or_insert(difference);
        self.unsure = (ahead - self.ahead_ns).abs() >= APART;
        if self.unsure {
            self.ahead_ns = ahead;
        }
    }
}

const QUARTER_NS: i128 = 900_000_000_000;

impl Clock {
    fn stamp(&mut self, format: &str, text: &str, seen_unix_ns: i128) -> Option<i64> {
        let set_ahead_ns = match &self.set {
            Some(set) if set.unsure => return None,
            Some(set) => set.ahead_ns,
            None => 0,
        };
        let local = local_time(format, text, seen_unix_ns)?;
        let zone = *self.zone_ns.get_or_insert_with(|| {
            (local - seen_unix_ns + QUARTER_NS / 2).div_euclid(QUARTER_NS) * QUARTER_NS
        });
        i64::try_from(local - zone - self.started_unix_ns - set_ahead_ns).ok()
    }
}

/// Parses a time as if it were in UTC, ns since 1970; a missing year becomes the nearest one to `near`.
fn local_time(format: &str, text: &str, near: i128) -> Option<i128> {
    let unix = |time: DateTime| {
        Some(
            time.to_zoned(jiff::tz::TimeZone::UTC)
                .ok()?
                .timestamp()
                .as_nanosecond(),
        )
    };
    if format.contains("%Y") || format.contains("%F") {
        return unix(DateTime::strptime(format, text).ok()?);
    }
    let now = jiff::Timestamp::from_nanosecond(near)
        .ok()?
        .to_zoned(jiff::tz::TimeZone::UTC);
    let year = now.year();
    let candidates = [year - 1, year, year + 1].into_iter().filter_map(|year| {
        let (format, text) = (format!("%Y {format}"), format!("{year:04} {text}"));
        unix(DateTime::strptime(format, text).ok()?)
    });
    candidates.min_by_key(|time| (time - near).abs())
}

/// The longest line that is parsed, and the most that is read at once, bytes.
const LONGEST: usize = 64 * 1024;
const READ_AT_ONCE: u64 = 4 * 1024 * 1024;

/// The most parts of a log that one sample reads.
const PARTS: usize = 16;

/// The logs of a server, or of the members of a group, as a companion.
pub(crate) struct LogEvents {
    logs: Vec<Log>,
    sheet: Sheet<EngineEvent>,
}

/// One log while it grows.
struct Log {
    member: Option<String>,
    path: PathBuf,
    position: u64,
    cut: Vec<u8>,
    line: i64,
    patterns: Vec<Pattern>,
    errors: Vec<String>,
    clock: Clock,
    api_key: Option<ApiKey>,
    secrets: Secrets,
}

/// The path of a log, and the position where reading starts.
pub(crate) struct LogFrom<'a> {
    /// The member of a group of servers that writes it.
    pub(crate) member: Option<String>,
    pub(crate) path: &'a Path,
    pub(crate) position: u64,
    /// How far the clock of the log's writer is ahead of ours, ns.
    pub(crate) ahead_ns: i64,
    pub(crate) patterns: &'a [(String, EventPattern)],
    /// Texts that mark a line as an error.
    pub(crate) errors: &'a [String],
}

impl LogEvents {
    /// Starts `engine_events`; `started` is when the cell started.
    ///
    /// # Errors
    /// If a pattern is not a regular expression, or its file cannot be created.
    pub(crate) fn new(
        folder: &Path,
        logs: &[LogFrom<'_>],
        started: SystemTime,
        api_key: Option<&ApiKey>,
        interval_ms: &str,
    ) -> Result<Self, String> {
        let texts: BTreeSet<&str> = logs
            .iter()
            .flat_map(|log| log.errors)
            .map(String::as_str)
            .collect();
        let texts = texts.into_iter().collect::<Vec<_>>().join("\n");
        let errors = (!texts.is_empty()).then_some((ERROR_TEXTS_NOTE, texts.as_str()));
        let notes: Vec<_> = [("interval_ms", interval_ms)]
            .into_iter()
            .chain(errors)
            .collect();
        let logs = logs.iter().map(|log| Log::new(log, started, api_key));
        Ok(Self {
            logs: logs.collect::<Result<_, _>>()?,
            sheet: Sheet::create(folder, &notes).map_err(|e| e.to_string())?,
        })
    }
}

impl Log {
    fn new(
        log: &LogFrom<'_>,
        started: SystemTime,
        api_key: Option<&ApiKey>,
    ) -> Result<Self, String> {
        Ok(Self {
            member: log.member.clone(),
            path: log.path.to_owned(),
            position: log.position,
            cut: Vec::new(),
            line: 0,
            patterns: compile(log.patterns)?,
            errors: log.errors.to_vec(),
            clock: Clock {
                started_unix_ns: i128::from(unix_ns(started)) + i128::from(log.ahead_ns),
                zone_ns: None,
                set: (log.ahead_ns == 0).then(Set::default),
            },
            api_key: api_key.cloned(),
            secrets: Secrets::of_this_process(),
        })
    }

    /// Reads the new part of the log.
    #[expect(
        clippy::disallowed_methods,
        reason = "lines of a server's log have wall time"
    )]
    fn read(&mut self, at_ns: i64) -> Result<Vec<EngineEvent>, String> {
        let wrong = |e: std::io::Error| format!("the server's log {}: {e}", self.path.display());
        let mut file = File::open(&self.path).map_err(wrong)?;
        file.seek(SeekFrom::Start(self.position)).map_err(wrong)?;
        let mut bytes = Vec::new();
        file.take(READ_AT_ONCE)
            .read_to_end(&mut bytes)
            .map_err(wrong)?;
        self.position += bytes.len() as u64;
        let seen_unix_ns = i128::from(unix_ns(SystemTime::now()));
        let mut rows = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.cut.extend_from_slice(
                &piece[..piece.len().min(LONGEST.saturating_sub(self.cut.len()))],
            );
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.cut);
                self.line += 1;
                self.take_apart(
                    &String::from_utf8_lossy(&line),
                    at_ns,
                    seen_unix_ns,
                    &mut rows,
                );
            }
        }
        Ok(rows)
    }

    /// Reports the part of the log that no sample has read, if any.
    fn unread(&self) -> Option<String> {
        let length = std::fs::metadata(&self.path).ok()?.len();
        let left = length.saturating_sub(self.position);
        (left > READ_AT_ONCE).then(|| {
            format!(
                "engine_events: the last {} MiB of the server's log {} were not searched for events",
                left >> 20,
                self.path.display()
            )
        })
    }

    /// Reports that this machine's clock was set meanwhile.
    fn clock_set(&self) -> Option<String> {
        let ahead_ns = self.clock.set.as_ref()?.ahead_ns;
        (ahead_ns != 0).then(|| {
            format!(
                "engine_events: this machine's clock was set by {:+.1} s during the cell, or the machine slept; the lines of the server's log around that time have no stamp",
                ahead_ns as f64 / 1e9
            )
        })
    }

    fn take_apart(
        &mut self,
        line: &str,
        seen_ns: i64,
        seen_unix_ns: i128,
        rows: &mut Vec<EngineEvent>,
    ) {
        let line = pipeline::long_log::uncoloured(line);
        let line = self.secrets.mask(line.trim_end());
        let line = match &self.api_key {
            Some(key) => key.mask(&line),
            None => line,
        };
        if self.errors.iter().any(|text| line.contains(text.as_str())) {
            rows.push(EngineEvent {
                at_ns: None,
                seen_ns,
                line: self.line,
                event: ERROR_EVENT.to_owned(),
                field: Some("message".to_owned()),
                value: None,
                text: Some(line.clone()),
                member: self.member.clone(),
            });
        }
        for pattern in &self.patterns {
            let Some(captures) = pattern.line.captures(&line) else {
                continue;
            };
            let mut fields = named(&pattern.line, &captures);
            for regex in &pattern.fields {
                fields.extend(
                    regex
                        .captures(&line)
                        .map(|captures| named(regex, &captures))
                        .into_iter()
                        .flatten(),
                );
            }
            let time = fields
                .iter()
                .position(|(name, _)| name == "time")
                .map(|i| fields.remove(i).1);
            let at_ns = pattern.time.as_deref().zip(time.as_deref());
            let at_ns =
                at_ns.and_then(|(format, text)| self.clock.stamp(format, text, seen_unix_ns));
            let row = |field: Option<String>, text: Option<String>| EngineEvent {
                at_ns,
                seen_ns,
                line: self.line,
                event: pattern.event.clone(),
                field,
                value: text.as_deref().and_then(number),
                text,
                member: self.member.clone(),
            };
            if fields.is_empty() {
                rows.push(row(None, None));
            }
            rows.extend(
                fields
                    .into_iter()
                    .map(|(name, text)| row(Some(name), Some(text))),
            );
        }
    }
}

/// Returns the named groups of a match, in the order of the expression.
fn named(regex: &Regex, captures: &Captures<'_>) -> Vec<(String, String)> {
    let names = regex.capture_names().flatten();
    names
        .filter_map(|name| Some((name.to_owned(), captures.name(name)?.as_str().to_owned())))
        .collect()
}

/// Parses a number in the form of logs: thousands separated, `True` and `False`.
fn number(text: &str) -> Option<f64> {
    match text {
        "True" | "true" => Some(1.0),
        "False" | "false" => Some(0.0),
        _ => text
            .replace(',', "")
            .parse::<f64>()
            .ok()
            .filter(|v| v.is_finite()),
    }
}

impl Companion for LogEvents {
    fn name(&self) -> &'static str {
        "engine_events"
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "lines of a server's log have wall time"
    )]
    fn sample(&mut self, at_ns: i64) -> Result<(), String> {
        let seen_unix_ns = i128::from(unix_ns(SystemTime::now()));
        self.sheet.room()?;
        for log in &mut self.logs {
            if let Some(set) = &mut log.clock.set {
                set.compare(at_ns, seen_unix_ns);
            }
            for _ in 0..PARTS {
                let before = log.position;
                for row in log.read(at_ns)? {
                    self.sheet.push(row).map_err(|e| e.to_string())?;
                }
                if log.position - before < READ_AT_ONCE {
                    break;
                }
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Sampled {
        let warnings = self
            .logs
            .iter()
            .flat_map(|log| [log.unread(), log.clock_set()]);
        let warnings: Vec<String> = warnings.flatten().collect();
        let mut left = Sampled::of(self.sheet);
        left.warnings.extend(warnings);
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const NOON: i128 = 1_765_368_000_000_000_000; // 2025-12-10 12:00:00 UTC

    #[test]
    fn local_times_become_stamps_whatever_the_zone() {
        // 10:38:08 in a zone two hours behind, read one second later.
        let seen = NOON + 2_289 * 1_000_000_000;
        for (zone, text) in [
            (0, "2025-12-10 12:38:08"),
            (-2, "2025-12-10 10:38:08"),
            (5, "2025-12-10 17:38:08"),
        ] {
            let mut clock = Clock {
                started_unix_ns: NOON,
                zone_ns: None,
                set: None,
            };
            assert_eq!(
                clock.stamp("%Y-%m-%d %H:%M:%S", text, seen),
                Some(2_288_000_000_000),
                "{zone}"
            );
        }
    }

    #[test]
    fn a_clock_that_is_set_during_a_cell_moves_no_stamp() {
        const S: i128 = 1_000_000_000;
        for step in [3600 * S, -3600 * S, 2 * S] {
            let mut clock = Clock {
                started_unix_ns: NOON,
                zone_ns: None,
                set: Some(Set::default()),
            };
            // A line at 10 s, 20 s, 30 s and 40 s of the cell; the clock is set between the second and the third.
            let stamps = [10, 20, 30, 40].map(|at| {
                let wall = NOON + at * S + if at > 20 { step } else { 0 };
                let set = clock.set.as_mut().unwrap();
                set.compare((at * S) as i64, wall + S / 100);
                let text = jiff::Timestamp::from_nanosecond(wall).unwrap();
                let text = text.strftime("%Y-%m-%d %H:%M:%S").to_string();
                clock.stamp("%Y-%m-%d %H:%M:%S", &text, wall + S / 100)
            });
            let expected = [Some(10 * S), Some(20 * S), None, Some(40 * S)];
            let expected = expected.map(|at| at.map(|at| at as i64));
            assert_eq!(stamps, expected, "{step}");
        }
    }

    #[test]
    fn a_time_without_year_is_of_the_nearest_one() {
        let new_year = 1_767_225_600_000_000_000_i128; // 2026-01-01 00:00:00 UTC
        let mut clock = Clock {
            started_unix_ns: new_year,
            zone_ns: None,
            set: None,
        };
        let seen = new_year + 500_000_000;
        assert_eq!(
            clock.stamp("%m-%d %H:%M:%S", "12-31 23:59:59", seen),
            Some(-1_000_000_000)
        );
        assert_eq!(
            clock.stamp("%m-%d %H:%M:%S", "01-01 00:00:03", seen),
            Some(3_000_000_000)
        );
        assert_eq!(clock.stamp("%m-%d %H:%M:%S", "nonsense", seen), None);
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "lines of a server's log have wall time"
    )]
    fn lines_are_read_as_they_grow_and_halves_wait() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = File::create(&path).unwrap();
        writeln!(log, "before").unwrap();
        let pattern = EventPattern {
            line: r"^(?<word>.+) done".to_owned(),
            fields: vec![r"n=(?<n>[\d,.]+)".to_owned(), r"never=(?<m>\d+)".to_owned()],
            time: None,
        };
        let patterns = [("done".to_owned(), pattern)];
        let from = LogFrom {
            member: Some("replica-1".to_owned()),
            path: &path,
            position: 7,
            ahead_ns: 0,
            patterns: &patterns,
            errors: &["ERROR".to_owned(), "[E]".to_owned()],
        };
        let key = ApiKey::new("secret").unwrap();
        let mut events = Log::new(&from, SystemTime::now(), Some(&key)).unwrap();
        write!(log, "one done n=1,234.5\nnoise\nsecr").unwrap();
        let rows = events.read(10).unwrap();
        let row = |line, field: &str, value, text: &str| EngineEvent {
            at_ns: None,
            seen_ns: 10,
            line,
            event: "done".into(),
            field: Some(field.into()),
            value,
            text: Some(text.into()),
            member: Some("replica-1".into()),
        };
        assert_eq!(
            rows,
            [
                row(1, "word", None, "one"),
                row(1, "n", Some(1234.5), "1,234.5")
            ]
        );
        writeln!(log, "et done").unwrap();
        let rows = events.read(10).unwrap();
        assert_eq!(rows.len(), 1);
        assert!(
            rows[0].line == 3 && !rows[0].text.as_deref().unwrap().contains("secret"),
            "{rows:?}"
        );
        // A line may be an error and have a pattern of its own.
        writeln!(log, "the secret [E] ERROR done\nno errors").unwrap();
        let rows = events.read(10).unwrap();
        let words: Vec<(&str, Option<&str>)> = rows
            .iter()
            .map(|row| (row.event.as_str(), row.field.as_deref()))
            .collect();
        assert_eq!(words, [("error", Some("message")), ("done", Some("word"))]);
        let message = rows[0].text.as_deref().unwrap();
        assert!(
            message.ends_with("[E] ERROR done") && !message.contains("secret"),
            "{message}"
        );
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "lines of a server's log have wall time"
    )]
    fn a_log_that_grows_by_megabytes_between_samples_is_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = File::create(&path).unwrap();
        let noise = "noise\n".repeat(READ_AT_ONCE as usize / 6 + 1);
        writeln!(log, "{noise}{noise}the end").unwrap();
        let pattern = EventPattern {
            line: "^(?<word>the) end".to_owned(),
            fields: Vec::new(),
            time: None,
        };
        let patterns = [("ended".to_owned(), pattern)];
        let from = LogFrom {
            member: None,
            path: &path,
            position: 0,
            ahead_ns: 0,
            patterns: &patterns,
            errors: &[],
        };
        let start = || {
            LogEvents::new(
                folder.path(),
                std::slice::from_ref(&from),
                SystemTime::now(),
                None,
                "1",
            )
        };
        let mut events = Box::new(start().unwrap());
        events.sample(1).unwrap();
        let left = events.finish();
        assert_eq!((left.tables[0].rows, left.warnings.len()), (1, 0));
        // Without a sample, the log is unread.
        let left = Box::new(start().unwrap()).finish();
        assert!(
            left.warnings[0].contains("the last 8 MiB of the server's log"),
            "{:?}",
            left.warnings
        );
    }

    #[test]
    fn a_pattern_that_is_none_is_named() {
        let pattern = EventPattern {
            line: "(".to_owned(),
            fields: Vec::new(),
            time: None,
        };
        assert!(
            compile(&[("broken".to_owned(), pattern)])
                .err()
                .unwrap()
                .starts_with("pattern `broken`: ")
        );
    }
}
