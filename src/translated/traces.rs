//! Recorded arrivals: each tool has options of its own to replay them, and `load` has `--trace FILE`.

use super::options::{left_out, nothing};
use super::tools::Theirs;
use super::{Given, Instead};

/// The options by which a tool replays a trace.
struct Replay {
    /// The file.
    file: &'static str,
    /// How many times faster than `load` the tool replays the file.
    speed: f64,
    /// The options that are not needed beside `--trace`.
    unneeded: &'static [&'static str],
}

impl Theirs {
    /// Returns how a command line replays a trace; `None` if it replays none, or one that `load` does not read.
    fn replay(&self, given: &[Given]) -> Option<Replay> {
        let has = |option: &str| given.iter().any(|one| one.option == option);
        let value = |option: &str| {
            let one = given.iter().find(|one| one.option == option);
            one.and_then(Given::value)
        };
        let number = |option: &str| match value(option) {
            Some(text) => text.parse::<f64>().ok().filter(|n| *n > 0.0),
            None => Some(1.0),
        };
        let data_set = value("--dataset-name");
        let replay = match self.tool {
            // Its times are in seconds, or in parts of them; those that `load` reads are in milliseconds.
            "vllm" if data_set == Some("timed_trace") => {
                let own_names = given
                    .iter()
                    .any(|one| one.option.starts_with("--timed-trace-label-"));
                if own_names || has("--no-self-timed") {
                    return None;
                }
                Replay {
                    file: "--dataset-path",
                    speed: 0.001 / number("--timed-trace-sec-multiplier")?,
                    unneeded: &[
                        "--dataset-name",
                        "--self-timed",
                        "--timed-trace-sec-multiplier",
                    ],
                }
            }
            "sglang" if data_set == Some("mooncake") => {
                let is_own = matches!(value("--backend"), None | Some("sglang"));
                if !is_own && !has("--use-trace-timestamps") {
                    return None;
                }
                Replay {
                    file: "--dataset-path",
                    speed: 1.0 / number("--mooncake-slowdown-factor")?,
                    unneeded: &[
                        "--dataset-name",
                        "--use-trace-timestamps",
                        "--mooncake-slowdown-factor",
                    ],
                }
            }
            "aiperf" if has("--fixed-schedule") => {
                if value("--custom-dataset-type") != Some("mooncake_trace") {
                    return None;
                }
                Replay {
                    file: "--input-file",
                    speed: 1.0,
                    unneeded: &["--fixed-schedule", "--custom-dataset-type"],
                }
            }
            _ => return None,
        };
        has(replay.file).then_some(replay)
    }

    /// Returns what to write instead of an option by which a command line replays a trace.
    pub(super) fn trace(&self, one: &Given, given: &[Given]) -> Option<(Instead, String)> {
        let replay = self.replay(given)?;
        let option = one.option.as_str();
        if option == "--request-rate" {
            return Some(nothing("the trace says when requests are sent"));
        }
        if replay.unneeded.contains(&option) {
            return Some(left_out(": `--trace FILE` replays the file"));
        }
        if option != replay.file {
            return None;
        }
        let mut words = vec!["--trace".to_owned(), one.value()?.to_owned()];
        if (replay.speed - 1.0).abs() > 1e-12 {
            words.extend(["--speed".to_owned(), replay.speed.to_string()]);
        }
        let why = format!("`{}`", words.join(" "));
        Some((Instead::Words(words), why))
    }
}
