//! The conditions under which a cell was measured, as far as the cell itself did not cause them.
//!
//! A server that works harder heats its machine and keeps its processors busy; that is part of what is compared. So the
//! effects of the load are left out. For processors, only the time that neither the server nor the client used counts.
//! For frequencies and temperatures, only the sample before the first request counts. A GPU at its power limit is also
//! left out, because the load brings it there.

use artifacts::Table;
use contract::{ThrottleReason, Word as _};

/// A measuring condition.
#[derive(Debug)]
pub(crate) struct Condition {
    pub(crate) name: &'static str,
    /// The condition in words, with its unit.
    pub(crate) what: &'static str,
    /// The difference above which it matters.
    pub(crate) bound: Bound,
    read: fn(&Samples<'_>) -> Option<f64>,
}

/// The difference between two sides above which a condition matters.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// A difference in the condition's unit.
    Absolute(f64),
    /// A share of the smaller side.
    Relative(f64),
}

impl Bound {
    /// Returns the difference of two means relative to the bound; above 1, they differ.
    pub(crate) fn exceeded(self, a: f64, b: f64) -> f64 {
        let apart = (a - b).abs();
        match self {
            Self::Absolute(bound) => apart / bound,
            Self::Relative(share) => apart / (share * a.abs().min(b.abs())).max(f64::MIN_POSITIVE),
        }
    }
}

/// Every condition that is compared.
pub(crate) const CONDITIONS: [Condition; 18] = [
    Condition {
        name: "foreign-load",
        what: "share of all processors that other programs used",
        bound: Bound::Absolute(0.05),
        read: foreign_load,
    },
    // During the load, the server's own threads also wait for processors, and more of them if it has more threads.
    Condition {
        name: "foreign-threads",
        what: "threads that ran or waited for a processor before the load",
        bound: Bound::Absolute(2.0),
        read: |s| s.first(s.host?, "runnable"),
    },
    Condition {
        name: "steal",
        what: "share of processor time that other guests of the hypervisor took",
        bound: Bound::Absolute(0.02),
        read: |s| s.mean(s.host?, "cpu_steal"),
    },
    Condition {
        name: "memory-pressure",
        what: "share of time in which some task waited for memory",
        bound: Bound::Absolute(0.02),
        read: |s| s.mean(s.host?, "memory_pressure"),
    },
    Condition {
        name: "network-errors",
        what: "packets lost or damaged during a cell",
        bound: Bound::Absolute(5.0),
        read: |s| s.rise(s.host?, "network_errors"),
    },
    Condition {
        name: "frequency",
        what: "MHz of the processors before the load",
        bound: Bound::Relative(0.05),
        read: |s| s.first(s.host?, "frequency_mhz"),
    },
    Condition {
        name: "temperature",
        what: "°C of the hottest thermal zone before the load",
        bound: Bound::Absolute(8.0),
        read: |s| s.first(s.host?, "temperature_c"),
    },
    Condition {
        name: "throttling",
        what: "slowdowns of processors for heat during a cell",
        bound: Bound::Absolute(5.0),
        read: |s| s.rise(s.host?, "throttles"),
    },
    Condition {
        name: "gpu-throttling",
        what: "share of the GPUs' samples in which heat or a fault limited their clocks",
        bound: Bound::Absolute(0.05),
        read: gpu_throttling,
    },
    Condition {
        name: "gpu-temperature",
        what: "°C of the GPUs before the load",
        bound: Bound::Absolute(8.0),
        read: |s| s.first(s.gpu?, "temperature_c"),
    },
    Condition {
        name: "gpu-processes",
        what: "processes that computed on the GPUs, without the server's",
        bound: Bound::Absolute(0.5),
        read: |s| s.mean(s.gpu?, "foreign_processes"),
    },
    // Conditions of the server's machine, if it is a different one. There, the server's own use cannot be separated
    // from that of other programs, so the load is what ran before the first request.
    Condition {
        name: "server-threads",
        what: "threads that ran or waited on the server's machine before the load",
        bound: Bound::Absolute(2.0),
        read: |s| s.first(s.server_host?, "runnable"),
    },
    Condition {
        name: "server-steal",
        what: "share of the time of the processors of the server's machine that other guests took",
        bound: Bound::Absolute(0.02),
        read: |s| s.mean(s.server_host?, "cpu_steal"),
    },
    Condition {
        name: "server-memory-pressure",
        what: "share of time in which some task on the server's machine waited for memory",
        bound: Bound::Absolute(0.02),
        read: |s| s.mean(s.server_host?, "memory_pressure"),
    },
    Condition {
        name: "server-network-errors",
        what: "packets lost or damaged at the server's machine during a cell",
        bound: Bound::Absolute(5.0),
        read: |s| s.rise(s.server_host?, "network_errors"),
    },
    Condition {
        name: "server-frequency",
        what: "MHz of the processors of the server's machine before the load",
        bound: Bound::Relative(0.05),
        read: |s| s.first(s.server_host?, "frequency_mhz"),
    },
    Condition {
        name: "server-temperature",
        what: "°C of the hottest thermal zone of the server's machine before the load",
        bound: Bound::Absolute(8.0),
        read: |s| s.first(s.server_host?, "temperature_c"),
    },
    Condition {
        name: "server-throttling",
        what: "slowdowns of processors of the server's machine for heat during a cell",
        bound: Bound::Absolute(5.0),
        read: |s| s.rise(s.server_host?, "throttles"),
    },
];

/// The conditions of one cell, in the order of [`names`]; `None` for those that were not sampled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conditions([Option<f64>; CONDITIONS.len()]);

impl Conditions {
    pub(crate) fn get(&self, condition: usize) -> Option<f64> {
        self.0[condition]
    }
}

/// Returns the names of all conditions.
pub fn names() -> Vec<&'static str> {
    CONDITIONS.iter().map(|c| c.name).collect()
}

/// The tables sampled during one cell.
#[derive(Clone, Copy, Debug)]
pub struct Samples<'a> {
    /// Its table `host_telemetry`.
    pub host: Option<&'a Table>,
    /// Its table `server_host_telemetry`, for a server on a different machine.
    pub server_host: Option<&'a Table>,
    /// Its table `gpu_telemetry`.
    pub gpu: Option<&'a Table>,
    /// Its table `process_telemetry`.
    pub processes: Option<&'a Table>,
    /// The start and end of the measurement, ns; `None` if the cell does not record them.
    pub window: Option<(i64, i64)>,
}

impl Samples<'_> {
    /// Returns the conditions from the samples.
    pub fn conditions(&self) -> Conditions {
        Conditions(std::array::from_fn(|i| (CONDITIONS[i].read)(self)))
    }

    /// Returns the measured phase, or all time if it is unknown.
    fn phase(&self) -> (i64, i64) {
        self.window.unwrap_or((i64::MIN, i64::MAX))
    }

    /// Returns the values of a column with their times.
    fn values(table: &Table, column: &str) -> Option<Vec<(i64, f64)>> {
        let at = table.int("at_ns").ok()?;
        // A column of integers also counts as numbers.
        let values = table.float(column).ok().or_else(|| {
            let whole = table.int(column).ok()?;
            Some(whole.into_iter().map(|v| v.map(|v| v as f64)).collect())
        })?;
        let pairs = at.into_iter().zip(values);
        Some(
            pairs
                .filter_map(|(at, value)| Some((at?, value?)))
                .collect(),
        )
    }

    /// Returns the mean over the measured phase. For a cell shorter than the sampling interval, it is the mean over all
    /// samples.
    fn mean(&self, table: &Table, column: &str) -> Option<f64> {
        let all = Self::values(table, column)?;
        let (from, to) = self.phase();
        let within: Vec<f64> = all
            .iter()
            .filter(|(at, _)| (from..=to).contains(at))
            .map(|(_, value)| *value)
            .collect();
        let chosen = if within.is_empty() {
            all.into_iter().map(|(_, value)| value).collect()
        } else {
            within
        };
        (!chosen.is_empty()).then(|| chosen.iter().sum::<f64>() / chosen.len() as f64)
    }

    /// Returns the mean over the devices at the first sampling time.
    fn first(&self, table: &Table, column: &str) -> Option<f64> {
        let all = Self::values(table, column)?;
        let first = all.first()?.0;
        let at_first: Vec<f64> = all.iter().filter(|v| v.0 == first).map(|v| v.1).collect();
        Some(at_first.iter().sum::<f64>() / at_first.len() as f64)
    }

    /// Returns the rise of a counter over all sources of the table.
    fn rise(&self, table: &Table, column: &str) -> Option<f64> {
        let all = Self::values(table, column)?;
        let Ok(sources) = table.text("source") else {
            return Some(all.last()?.1 - all.first()?.1);
        };
        // Every source counts separately; null values are skipped.
        let floats = table
            .float(column)
            .ok()
            .map(|v| v.iter().map(Option::is_some).collect());
        let present = floats.or_else(|| {
            let whole = table.int(column).ok()?;
            Some(whole.iter().map(Option::is_some).collect::<Vec<bool>>())
        })?;
        let sources = sources
            .into_iter()
            .zip(present)
            .filter(|(_, present)| *present);
        let mut risen: Vec<(Option<&str>, f64, f64)> = Vec::new();
        for ((source, _), (_, value)) in sources.zip(all) {
            match risen.iter_mut().find(|(other, ..)| *other == source) {
                Some((_, _, last)) => *last = value,
                None => risen.push((source, value, value)),
            }
        }
        (!risen.is_empty()).then(|| risen.iter().map(|(_, first, last)| last - first).sum())
    }

    /// Returns the processors that server and client kept busy, on average.
    fn own(&self) -> Option<f64> {
        let all = Self::values(self.processes?, "cpu")?;
        let (from, to) = self.phase();
        let mut times: Vec<i64> = all.iter().map(|v| v.0).collect();
        let in_window = times.iter().any(|at| (from..=to).contains(at));
        let counts = |at: &i64| !in_window || (from..=to).contains(at);
        times.retain(counts);
        times.dedup();
        let busy: f64 = all.iter().filter(|v| counts(&v.0)).map(|v| v.1).sum();
        (!times.is_empty()).then(|| busy / times.len() as f64)
    }
}

fn foreign_load(samples: &Samples<'_>) -> Option<f64> {
    let host = samples.host?;
    let processors = samples.first(host, "processors").filter(|n| *n > 0.0)?;
    Some((samples.mean(host, "cpu_busy")? - samples.own()? / processors).max(0.0))
}

fn gpu_throttling(samples: &Samples<'_>) -> Option<f64> {
    let gpu = samples.gpu?;
    let at = gpu.int("at_ns").ok()?;
    let (from, to) = samples.phase();
    let within = |at: &Option<i64>| at.is_some_and(|at| (from..=to).contains(&at));
    let texts: Vec<&str> = at
        .iter()
        .zip(gpu.text("throttle_reasons").ok()?)
        .filter(|(at, _)| within(at))
        .filter_map(|(_, reasons)| reasons)
        .collect();
    let is_fault = |reason: &str| ThrottleReason::parse(reason).is_ok_and(ThrottleReason::is_fault);
    let faulty = |reasons: &&&str| reasons.split('+').any(is_fault);
    let limited = texts.iter().filter(faulty).count();
    (!texts.is_empty()).then(|| limited as f64 / texts.len() as f64)
}

#[cfg(test)]
mod tests {
    use artifacts::Column;

    use super::*;

    #[test]
    fn heat_that_slows_a_gpu_counts_and_its_power_limit_does_not() {
        let reasons = ["", "power-cap", "power-cap+thermal", "hardware-slowdown"];
        let gpu = Table::new(vec![
            Column::int("at_ns", (0..5).map(Some)),
            Column::text(
                "throttle_reasons",
                reasons.map(Some).into_iter().chain([None]),
            ),
        ]);
        let samples = |window| Samples {
            host: None,
            server_host: None,
            gpu: gpu.as_ref().ok(),
            processes: None,
            window,
        };
        assert_eq!(gpu_throttling(&samples(None)), Some(0.5));
        assert_eq!(gpu_throttling(&samples(Some((0, 1)))), Some(0.0));
        assert_eq!(gpu_throttling(&samples(Some((4, 9)))), None);
    }

    #[test]
    fn what_the_server_does_itself_is_no_condition() {
        let at = || Column::int("at_ns", [0, 5, 10].map(Some));
        let host = Table::new(vec![
            at(),
            // Its threads wait for processors as soon as it has work.
            Column::int("runnable", [Some(2), Some(40), Some(40)]),
            Column::int("processors", [Some(16); 3]),
            Column::float("cpu_busy", [None, Some(0.75), Some(0.75)]),
        ])
        .unwrap();
        let processes = Table::new(vec![
            at(),
            Column::float("cpu", [None, Some(12.0), Some(12.0)]),
        ]);
        let gpu = |column: &str| Table::new(vec![at(), Column::int(column, [Some(1); 3])]).unwrap();
        let (own, with_others) = (gpu("compute_processes"), gpu("foreign_processes"));
        let samples = |gpu| Samples {
            host: Some(&host),
            server_host: None,
            gpu: Some(gpu),
            processes: processes.as_ref().ok(),
            window: Some((1, 10)),
        };
        let value = |name: &str, gpu| {
            let at = names().iter().position(|n| *n == name).unwrap();
            samples(gpu).conditions().get(at)
        };
        assert_eq!(value("foreign-threads", &own), Some(2.0));
        assert_eq!(value("foreign-load", &own), Some(0.0));
        assert_eq!(
            value("gpu-processes", &own),
            None,
            "nothing is known of others"
        );
        assert_eq!(value("gpu-processes", &with_others), Some(1.0));
    }

    #[test]
    fn the_machine_of_a_server_has_conditions_of_its_own_over_all_its_sources() {
        let hosts = Table::new(vec![
            Column::int("at_ns", [0, 0, 5, 5].map(Some)),
            Column::text("source", ["one", "two", "one", "two"].map(Some)),
            Column::int("runnable", [Some(3), Some(5), Some(40), Some(40)]),
            Column::int("network_errors", [Some(100), Some(7), None, Some(9)]),
            Column::int("throttles", [Some(1), Some(50), Some(4), Some(50)]),
            Column::float("temperature_c", [None, Some(60.0), Some(90.0), Some(90.0)]),
        ])
        .unwrap();
        let samples = Samples {
            host: None,
            server_host: Some(&hosts),
            gpu: None,
            processes: None,
            window: None,
        };
        let conditions = samples.conditions();
        let condition = |name: &str| {
            let at = names().iter().position(|n| *n == name).unwrap();
            conditions.get(at)
        };
        assert_eq!(condition("server-threads"), Some(4.0));
        assert_eq!(condition("server-network-errors"), Some(2.0));
        assert_eq!(condition("server-throttling"), Some(3.0));
        assert_eq!(condition("server-temperature"), Some(60.0));
        assert_eq!(condition("server-steal"), None);
        assert_eq!(condition("temperature"), None);
    }
}
