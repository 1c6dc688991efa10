//! The activity of this machine at the moment: load, steal, other users of processor and GPUs.

use std::collections::HashMap;
use std::time::Duration;

use pipeline::design::Surroundings;

use super::files::Files;
use super::host::{Ticks, ticks};
use super::nvml::Library;

/// The number of busiest processes that are named.
const USERS: usize = 3;

/// The share of a core below which a process is not named.
const WORTH_NAMING: f64 = 0.1;

/// Observes this machine for `while_looking`. Data that it does not provide is left out. The time that this process
/// used does not count as the others'.
pub fn surroundings(while_looking: Duration) -> Surroundings {
    let files = Files::of_this_machine();
    let before = Glance::at(&files);
    std::thread::sleep(while_looking);
    let mut seen = between(&before, &Glance::at(&files), std::process::id());
    seen.load_per_core = files
        .text("proc/loadavg")
        .and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok())
        .map(|load| load / f64::from(seen.cores.max(1)));
    seen.gpu_processes = Library::open(Vec::new())
        .ok()
        .and_then(|gpus| gpus.processes());
    seen
}

/// The counters at one moment.
#[derive(Default)]
struct Glance {
    cores: u32,
    all: Option<Ticks>,
    /// The name and the ticks of each process.
    processes: HashMap<u32, (String, u64)>,
}

impl Glance {
    fn at(files: &Files) -> Self {
        let stat = files.text("proc/stat").unwrap_or_default();
        let is_core = |line: &&str| {
            line.strip_prefix("cpu")
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        let numbers = files.names("proc").into_iter();
        let processes = numbers.filter_map(|name| {
            let pid = name.parse().ok()?;
            Some((pid, process(&files.text(&format!("proc/{name}/stat"))?)?))
        });
        Self {
            cores: u32::try_from(stat.lines().filter(is_core).count()).unwrap_or(u32::MAX),
            all: ticks(&stat),
            processes: processes.collect(),
        }
    }
}

/// Parses `/proc/PID/stat`: the name, and the ticks in user and kernel mode. A name may contain spaces and brackets;
/// the last bracket ends it.
fn process(stat: &str) -> Option<(String, u64)> {
    let (open, close) = (stat.find('(')?, stat.rfind(')')?);
    let name = stat.get(open + 1..close)?.to_owned();
    let mut fields = stat.get(close + 1..)?.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    let (user, kernel) = (next()?, next()?);
    Some((name, user + kernel))
}

/// Returns the activity of processes other than `own` between two moments.
fn between(before: &Glance, after: &Glance, own: u32) -> Surroundings {
    let mut seen = Surroundings {
        cores: after.cores,
        ..Surroundings::default()
    };
    let (Some(first), Some(last)) = (&before.all, &after.all) else {
        return seen;
    };
    let all = last.all.saturating_sub(first.all) as f64;
    if all <= 0.0 {
        return seen;
    }
    let used = |pid: &u32| {
        let earlier = before.processes.get(pid).map_or(0, |(_, ticks)| *ticks);
        let now = after
            .processes
            .get(pid)
            .map_or(earlier, |(_, ticks)| *ticks);
        now.saturating_sub(earlier)
    };
    let idle = last.idle.saturating_sub(first.idle) + last.wait.saturating_sub(first.wait);
    let steal = last.steal.saturating_sub(first.steal) as f64;
    let busy = all - idle as f64 - steal - used(&own) as f64;
    seen.steal_share = Some(steal / all);
    seen.busy_share = Some((busy / all).clamp(0.0, 1.0));
    let core = all / f64::from(after.cores.max(1));
    let mut users: Vec<(u64, &str)> = after
        .processes
        .iter()
        .filter(|(pid, _)| **pid != own)
        .map(|(pid, (name, _))| (used(pid), name.as_str()))
        .filter(|(ticks, _)| *ticks as f64 / core >= WORTH_NAMING)
        .collect();
    users.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    let named = |(ticks, name): &(u64, &str)| format!("{name} ({:.1} cores)", *ticks as f64 / core);
    seen.users = users.iter().take(USERS).map(named).collect();
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glance(cpu: &str, processes: &[(u32, &str)]) -> Glance {
        let processes = processes
            .iter()
            .map(|(pid, stat)| (*pid, process(stat).unwrap()));
        Glance {
            cores: 2,
            all: ticks(cpu),
            processes: processes.collect(),
        }
    }

    #[test]
    fn other_processes_are_distinguished_from_ours_and_the_busiest_are_named() {
        let stat = |name: &str, ticks: u64| {
            format!("7 ({name}) S 1 7 7 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 1 0 0")
        };
        let (a, b) = (stat("cc (1) x", 100), stat("benchtrail", 10));
        let before = glance("cpu 100 0 0 1000 0 0 0 0", &[(7, &a), (8, &b)]);
        let (a, b) = (stat("cc (1) x", 200), stat("benchtrail", 30));
        let after = glance("cpu 220 0 0 1060 0 0 0 20", &[(7, &a), (8, &b)]);
        let seen = between(&before, &after, 8);
        assert_eq!(seen.steal_share, Some(0.1));
        assert_eq!(seen.busy_share, Some(0.5));
        assert_eq!(seen.users, ["cc (1) x (1.0 cores)"]);
    }

    #[test]
    fn nothing_is_said_of_a_machine_that_tells_nothing() {
        let seen = between(&Glance::default(), &Glance::default(), 1);
        assert_eq!(seen, Surroundings::default());
    }

    #[test]
    fn this_machine_can_be_looked_at() {
        let seen = surroundings(Duration::from_millis(1));
        if cfg!(target_os = "linux") {
            assert!(seen.cores > 0);
            assert!(seen.load_per_core.is_some_and(|load| load >= 0.0));
        }
    }
}
