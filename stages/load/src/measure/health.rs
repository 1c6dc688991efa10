//! The health of the measuring thread: delays that are not the server's fault.
//!
//! Three things are kept, each in a histogram of fixed size:
//!
//! - **wake lag**: a timer of the kernel is due every [`PROBE`]. Bytes that arrive at that moment would be stamped as
//!   late as this thread notices the timer. A timer noticed late stands for all ticks due meanwhile, each with its own
//!   lateness, so a thread that is stopped for 80 of 100 ms is late in 80 % of the ticks and not in one.
//! - **read wait**: from the moment the thread woke to the stamp of a read, while it served other sockets. Bytes that
//!   arrived while the thread was awake waited for less.
//! - **write time**: from the `sent` stamp to the return of the `write(2)` after it.
//!
//! The kernel's own counts for the thread and the machine are kept too.

use std::cell::Cell;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Epoch;

/// How often the probe's timer is due.
pub(crate) const PROBE: Duration = Duration::from_millis(5);

/// The time between the start of the measured phase and the first tick, ns.
const FIRST_NS: u64 = 500_000;

/// The number of buckets for each power of two. A bucket is less than 1.6 % wide.
const PER_OCTAVE: u64 = 64;

/// A histogram of nanoseconds of fixed size: exact below 128 ns, relative error below 1.6 % above.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    n: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: vec![0; (Self::bucket(u64::MAX) + 1) as usize],
            n: 0,
            max: 0,
        }
    }
}

impl Histogram {
    /// Returns whether it can have been filled value by value, with fewer than `most` of them.
    fn is_possible(&self, most: u64) -> bool {
        let counted = self
            .counts
            .iter()
            .try_fold(0_u64, |all, count| all.checked_add(*count));
        self.n < most
            && self.max < most
            && self.counts.len() as u64 == Self::bucket(u64::MAX) + 1
            && counted == Some(self.n)
    }

    fn bucket(value: u64) -> u64 {
        if value < 2 * PER_OCTAVE {
            return value;
        }
        let octave = u64::from(value.ilog2() - PER_OCTAVE.ilog2());
        octave * PER_OCTAVE + (value >> octave)
    }

    /// The largest value of a bucket.
    fn top(bucket: u64) -> u64 {
        if bucket < 2 * PER_OCTAVE {
            return bucket;
        }
        let octave = bucket / PER_OCTAVE - 1;
        let low = (bucket - octave * PER_OCTAVE) << octave;
        low + ((1 << octave) - 1)
    }

    /// Counts a value.
    pub(crate) fn add(&mut self, value: u64) {
        self.counts[Self::bucket(value) as usize] += 1;
        self.n += 1;
        self.max = self.max.max(value);
    }

    /// Returns the number of values.
    pub(crate) fn n(&self) -> u64 {
        self.n
    }

    /// Returns the largest value; `None` without values.
    pub(crate) fn max(&self) -> Option<u64> {
        (self.n > 0).then_some(self.max)
    }

    /// Returns a value that at least the share `q` of all values does not exceed, at most 1.6 % above the smallest such
    /// value; `None` without values.
    pub(crate) fn quantile(&self, q: f64) -> Option<u64> {
        let rank = ((self.n as f64 * q).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in (0..).zip(&self.counts) {
            seen += count;
            if self.n > 0 && seen >= rank {
                return Some(Self::top(bucket).min(self.max));
            }
        }
        None
    }
}

/// The kernel's counts for this thread and this machine up to a moment. Missing data (on other systems, or without
/// `/proc`) is absent.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct KernelCounts {
    /// Time waited for a core while runnable, ns.
    pub(crate) waited_ns: Option<u64>,
    /// Involuntary context switches of the thread.
    pub(crate) preempted: Option<u64>,
    /// Time that the hypervisor took, all cores together, ticks.
    pub(crate) steal_ticks: Option<u64>,
    /// The total time of all cores, ticks.
    pub(crate) all_ticks: Option<u64>,
}

impl KernelCounts {
    /// Reads the counts of the calling thread.
    pub(crate) fn now() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).ok();
        let waited_ns = read("/proc/thread-self/schedstat")
            .and_then(|text| text.split_ascii_whitespace().nth(1)?.parse().ok());
        let preempted = read("/proc/thread-self/status").and_then(|text| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?;
            line.trim().parse().ok()
        });
        let ticks: Option<Vec<u64>> = read("/proc/stat").and_then(|text| {
            let line = text.lines().next()?.strip_prefix("cpu ")?;
            // User and nice already include guest time, the last two fields.
            line.split_ascii_whitespace()
                .take(8)
                .map(|field| field.parse().ok())
                .collect()
        });
        let steal_ticks = ticks.as_ref().and_then(|ticks| ticks.get(7).copied());
        Self {
            waited_ns,
            preempted,
            steal_ticks,
            all_ticks: ticks.map(|ticks| ticks.iter().sum()),
        }
    }
}

/// The counts between the start and the end of the measured phase.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Health {
    /// Lateness of the probe's ticks, ns.
    pub(crate) wake_lag: Histogram,
    /// From waking to the stamp of a read, ns.
    pub(crate) read_wait: Histogram,
    /// Duration of a request's first `write(2)`, ns.
    pub(crate) write_time: Histogram,
    /// Length of the measured phase, ns.
    pub(crate) wall_ns: u64,
    /// CPU time of the measuring thread, ns.
    pub(crate) cpu_ns: u64,
    pub(crate) before: KernelCounts,
    pub(crate) after: KernelCounts,
}

impl Health {
    /// Returns the counts of a phase in which nothing happened.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self {
            wake_lag: Histogram::default(),
            read_wait: Histogram::default(),
            write_time: Histogram::default(),
            wall_ns: 0,
            cpu_ns: 0,
            before: KernelCounts::default(),
            after: KernelCounts::default(),
        }
    }

    /// Returns whether the counts of another process can be those of a load, each below `most`.
    pub(crate) fn is_possible(&self, most: u64) -> bool {
        let kernel = |counts: &KernelCounts| {
            [
                counts.waited_ns,
                counts.preempted,
                counts.steal_ticks,
                counts.all_ticks,
            ]
        };
        let counts = kernel(&self.before).into_iter().chain(kernel(&self.after));
        let histograms = [&self.wake_lag, &self.read_wait, &self.write_time];
        self.wall_ns < most
            && self.cpu_ns < most
            && counts.flatten().all(|count| count < most)
            && histograms.iter().all(|kept| kept.is_possible(most))
    }
}

thread_local! {
    static KEPT: Kept = Kept::default();
}

/// The measuring thread's counts while it runs. No other thread reads them.
#[derive(Default)]
struct Kept {
    epoch: Cell<Option<Epoch>>,
    woke_ns: Cell<u64>,
    /// When the probe's next tick is due.
    due_ns: Cell<u64>,
    histograms: std::cell::RefCell<Histograms>,
}

#[derive(Default)]
struct Histograms {
    wake_lag: Histogram,
    read_wait: Histogram,
    write_time: Histogram,
}

/// Resets the counts of this thread. The first tick is due soon, so that a short phase also has some.
pub(crate) fn begin(epoch: Epoch, from_ns: u64) {
    KEPT.with(|kept| {
        kept.epoch.set(Some(epoch));
        kept.woke_ns.set(from_ns);
        kept.due_ns.set(from_ns + FIRST_NS);
        kept.histograms.take();
    });
}

/// The probe: waits for one tick after the other. It ends when dropped.
///
/// # Errors
/// If the timer fails.
pub(crate) async fn probe(epoch: Epoch, timer: super::clock::Timer) -> std::io::Result<()> {
    loop {
        timer
            .until(epoch, KEPT.with(|kept| kept.due_ns.get()))
            .await?;
        note_ticks(epoch.now());
    }
}

/// Records that this thread has just woken; the runtime calls it.
pub(crate) fn woke() {
    KEPT.with(|kept| {
        if let Some(epoch) = kept.epoch.get() {
            kept.woke_ns.set(epoch.now());
        }
    });
}

/// Records the stamp of a read.
pub(crate) fn note_read(at_ns: u64) {
    KEPT.with(|kept| {
        let wait = at_ns.saturating_sub(kept.woke_ns.get());
        kept.histograms.borrow_mut().read_wait.add(wait);
    });
}

/// Records the duration of a write.
pub(crate) fn note_write(took_ns: u64) {
    KEPT.with(|kept| kept.histograms.borrow_mut().write_time.add(took_ns));
}

/// Counts the ticks that were due up to `at_ns` and noticed only then.
fn note_ticks(at_ns: u64) {
    KEPT.with(|kept| {
        let mut histograms = kept.histograms.borrow_mut();
        let mut due = kept.due_ns.get();
        while due <= at_ns {
            histograms.wake_lag.add(at_ns - due);
            due += PROBE.as_nanos() as u64;
        }
        kept.due_ns.set(due);
    });
}

/// Returns this thread's counts since [`begin`]; a tick due by now counts as noticed now.
pub(crate) fn end(from_ns: u64, to_ns: u64, cpu_ns: u64, before: KernelCounts) -> Health {
    note_ticks(to_ns);
    let wall_ns = to_ns.saturating_sub(from_ns);
    let Histograms {
        wake_lag,
        read_wait,
        write_time,
    } = KEPT.with(|kept| kept.histograms.take());
    Health {
        wake_lag,
        read_wait,
        write_time,
        wall_ns,
        cpu_ns,
        before,
        after: KernelCounts::now(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_quantile_is_at_most_a_sixtieth_above_an_exact_one(mut values in prop::collection::vec(0_u64..1 << 40, 1..200), q in 0.0..=1.0_f64) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|v| histogram.add(*v));
            values.sort_unstable();
            let exact = values[((values.len() as f64 * q).ceil() as usize).max(1) - 1];
            let estimate = histogram.quantile(q).unwrap();
            prop_assert!(estimate >= exact && estimate as f64 <= exact as f64 * (1.0 + 1.0 / 60.0) + 1.0, "{estimate} {exact}");
            prop_assert_eq!(histogram.max(), values.last().copied());
        }
    }

    #[test]
    fn every_value_has_a_bucket_that_holds_it() {
        for value in [
            0,
            1,
            127,
            128,
            129,
            255,
            256,
            1 << 20,
            (1 << 20) + 1,
            u64::MAX / 2,
            u64::MAX,
        ] {
            let bucket = Histogram::bucket(value);
            assert!(Histogram::top(bucket) >= value, "{value}");
            assert!(bucket == 0 || Histogram::top(bucket - 1) < value, "{value}");
        }
    }

    #[test]
    fn a_stopped_thread_is_late_for_every_tick_it_missed() {
        begin(Epoch::start(), 10_000_000 - FIRST_NS);
        // Due at 10, 15, …, 45 ms; noticed at 45 ms.
        note_ticks(45_000_000);
        let health = end(10_000_000, 46_000_000, 1, KernelCounts::default());
        assert_eq!(health.wall_ns, 36_000_000);
        assert_eq!(
            (health.wake_lag.n(), health.wake_lag.max()),
            (8, Some(35_000_000))
        );
        let median = health.wake_lag.quantile(0.5).unwrap();
        assert!((15_000_000..15_400_000).contains(&median), "{median}");
    }

    #[test]
    fn nothing_is_known_of_nothing() {
        assert_eq!(Histogram::default().quantile(0.5), None);
        assert_eq!(Histogram::default().max(), None);
    }
}
