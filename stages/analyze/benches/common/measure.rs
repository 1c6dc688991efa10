//! Measurements shared by the benches of this crate and of `verify`.

use pipeline::Json;

/// An empty library: the benches refer to no definitions.
pub(crate) struct NoLibrary;

impl pipeline::Library for NoLibrary {
    fn find(&self, _: &str, _: &str) -> Option<Json> {
        None
    }
    fn names(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}

/// CPU time of the process so far, user plus system, in steps of 10 ms.
pub(crate) fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").expect("/proc is there");
    // The name, in parentheses, may contain anything; the third field follows it.
    let rest = text.rsplit(')').next().expect("a stat line");
    let ticks: u64 = rest
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|n| n.parse::<u64>().expect("ticks"))
        .sum();
    ticks as f64 / 100.0
}

/// The peak resident set of the process so far, in MiB.
pub(crate) fn peak_mib() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("/proc is there");
    let line = text
        .lines()
        .find(|l| l.starts_with("VmHWM:"))
        .expect("/proc/self/status has VmHWM");
    line.split_whitespace()
        .nth(1)
        .and_then(|n| n.parse::<f64>().ok())
        .expect("a number")
        / 1024.0
}
