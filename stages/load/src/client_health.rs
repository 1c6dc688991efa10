//! The health of the client in a run: how late its stamps may be, and whether the client was the bottleneck, not the
//! server.
//!
//! # The stated bound
//!
//! At least 99 % of the stamps of arrivals are late by at most `stamp_error_bound`, ms:
//!
//! ```text
//! w + min(w, probe interval) + min(p99(read wait), max(largest wake lag, probe interval)) + p99(write time)
//! ```
//!
//! where `w` is the upper end of the one-sided 99 % confidence interval of the 99th percentile of the wake lag (by
//! order statistics: the value of rank `0.99 n + 2.326 √(0.99 · 0.01 n)`, normal approximation). `w` appears twice
//! because a tick falls anywhere in a stall and sees only the rest of it, while tokens that keep step with the stalls
//! may see the whole. Every interval has a tick, so a stall is at most an interval longer than observed.
//!
//! Bytes that arrive while the thread sleeps are stamped late for two reasons: the time to wake up, which the probe
//! samples evenly in time, and the sockets served before them, which each read records. A thread that is busy for
//! longer than a probe interval cannot hide it from the probe, which limits the second term for threads that never
//! sleep. The write is the time between the stamp `sent` and the request's arrival in the server's socket. TTFT and
//! E2E, differences of two stamps, are too long by at most the bound. The bound does not include what happens to bytes
//! before the kernel wakes the thread (a network, delays on the other side).
//!
//! # The verdict
//!
//! `client_bound` if any of these holds, otherwise `client_ok`:
//!
//! - the median wake lag is above 1 ms: this client would have been late most of the time;
//! - the 99th percentile of the wake lag is above 50 ms: the client stood still;
//! - the measuring thread was on a core for 90 % of the time or more: it had no spare time.
//!
//! A phase without a tick of the probe has no bound. With fewer than 20 of them, 100 ms, it has no verdict: one late tick
//! would decide it.

use contract::Cell;
pub use contract::ClientVerdict;

use crate::measure::{Health, Histogram, PROBE};
use crate::tally::Tally;

/// The median wake lag above which the client is the bottleneck, ms.
const WAKE_LAG_P50_MS: f64 = 1.0;

/// The 99th percentile of the wake lag above which the client is the bottleneck, ms.
const WAKE_LAG_P99_MS: f64 = 50.0;

/// The share of time on a core from which the client is the bottleneck.
const BUSY: f64 = 0.9;

/// The ticks of the probe from which a client is judged.
const FEWEST_PROBES: u64 = 20;

/// The client's health in the measured phase.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientHealth {
    /// Ticks of the probe.
    pub probes: u64,
    /// Lateness of the probe's ticks, ms: p50, p99 and the largest.
    pub wake_lag_ms: Option<[f64; 3]>,
    /// From waking to the stamp of a read, ms: p50, p99 and the largest.
    pub read_wait_ms: Option<[f64; 3]>,
    /// Duration of a request's first `write(2)`, ms: p50, p99 and the largest.
    pub write_time_ms: Option<[f64; 3]>,
    /// CPU time over wall time of the measuring thread, 0–1.
    pub busy: Option<f64>,
    /// Time runnable but waiting for a core over wall time, 0–1.
    pub run_queue_wait: Option<f64>,
    /// Involuntary context switches of the measuring thread.
    pub preemptions: Option<i64>,
    /// Time the hypervisor took from all cores over their time, 0–1.
    pub cpu_steal: Option<f64>,
    /// Chunks for each socket read that completed one; above 1, chunks share a stamp.
    pub chunks_per_read: Option<f64>,
    /// Chunks per second over the window of measured requests.
    pub chunk_rate: Option<f64>,
    /// The most measured requests in flight at once.
    pub peak_in_flight: Option<i64>,
    /// The upper bound on how late at least 99 % of arrivals are stamped, ms.
    pub stamp_error_bound_ms: Option<f64>,
    /// Whether the client was the bottleneck.
    pub verdict: Option<ClientVerdict>,
}

impl ClientHealth {
    /// Judges a measured phase from the thread's records and the counts over its rows.
    pub(crate) fn of(health: &Health, tally: &Tally) -> Self {
        let three = |h: &Histogram| {
            let at = |q| h.quantile(q).map(|ns| ns as f64 / 1e6);
            Some([at(0.5)?, at(0.99)?, h.max()? as f64 / 1e6])
        };
        let of_wall = |ns: u64| (health.wall_ns > 0).then(|| ns as f64 / health.wall_ns as f64);
        let grown = |before: Option<u64>, after: Option<u64>| Some(after?.saturating_sub(before?));
        let (before, after) = (&health.before, &health.after);
        let ticks = grown(before.all_ticks, after.all_ticks).filter(|ticks| *ticks > 0);
        let wake_lag_ms = three(&health.wake_lag);
        let (read_wait_ms, write_time_ms) = (three(&health.read_wait), three(&health.write_time));
        let busy = of_wall(health.cpu_ns);
        let window = tally.seconds();
        Self {
            probes: health.wake_lag.n(),
            wake_lag_ms,
            read_wait_ms,
            write_time_ms,
            busy,
            run_queue_wait: grown(before.waited_ns, after.waited_ns).and_then(of_wall),
            preemptions: grown(before.preempted, after.preempted)
                .and_then(|n| i64::try_from(n).ok()),
            cpu_steal: grown(before.steal_ticks, after.steal_ticks)
                .zip(ticks)
                .map(|(steal, all)| steal as f64 / all as f64),
            chunks_per_read: tally.chunks_per_read(),
            chunk_rate: window.map(|seconds| tally.chunks as f64 / seconds),
            peak_in_flight: tally.peak_in_flight,
            stamp_error_bound_ms: bound(
                upper_p99_ms(&health.wake_lag),
                wake_lag_ms,
                read_wait_ms,
                write_time_ms,
            ),
            verdict: verdict(health.wake_lag.n(), wake_lag_ms, busy),
        }
    }

    /// Adds the bound on the difference between the generator's clock and the coordinator's to the bound on stamp errors.
    pub(crate) fn on_a_clock_within(mut self, bound_ms: Option<f64>) -> Self {
        if let (Some(stamps), Some(clock)) = (&mut self.stamp_error_bound_ms, bound_ms) {
            *stamps += clock;
        }
        self
    }

    /// Puts together how several generators fared: of each figure the worst, of counts the sum. The counts over rows are those of
    /// all of them. `None` if none says how it fared.
    ///
    /// The bound of the worst generator holds for 99 % of the stamps of each, and so for 99 % of all.
    pub(crate) fn worst_of(all: &[Self], tally: &Tally) -> Option<Self> {
        let worst = |read: fn(&Self) -> Option<f64>| all.iter().filter_map(read).reduce(f64::max);
        let three = |read: fn(&Self) -> Option<[f64; 3]>| {
            let larger = |a: [f64; 3], b: [f64; 3]| [0, 1, 2].map(|i| f64::max(a[i], b[i]));
            all.iter().filter_map(read).reduce(larger)
        };
        let is_bound = |health: &Self| health.verdict == Some(ClientVerdict::Bound);
        // A generator that says nothing of itself proves nothing.
        let said = all.iter().all(|health| health.verdict.is_some()) && !all.is_empty();
        let verdict = match all.iter().any(is_bound) {
            true => Some(ClientVerdict::Bound),
            false => said.then_some(ClientVerdict::Ok),
        };
        let bounded = all
            .iter()
            .all(|health| health.stamp_error_bound_ms.is_some());
        let window = tally.seconds();
        (!all.is_empty()).then(|| Self {
            probes: all.iter().map(|health| health.probes).sum(),
            wake_lag_ms: three(|health| health.wake_lag_ms),
            read_wait_ms: three(|health| health.read_wait_ms),
            write_time_ms: three(|health| health.write_time_ms),
            busy: worst(|health| health.busy),
            run_queue_wait: worst(|health| health.run_queue_wait),
            preemptions: all.iter().map(|health| health.preemptions).sum(),
            cpu_steal: worst(|health| health.cpu_steal),
            chunks_per_read: tally.chunks_per_read(),
            chunk_rate: window.map(|seconds| tally.chunks as f64 / seconds),
            peak_in_flight: tally.peak_in_flight,
            stamp_error_bound_ms: worst(|health| health.stamp_error_bound_ms).filter(|_| bounded),
            verdict,
        })
    }

    /// Returns the health of a simulated client that was on time, for a dry run.
    pub fn made_up(chunk_rate: f64, peak_in_flight: i64, stamp_error_bound_ms: f64) -> Self {
        Self {
            probes: 1,
            wake_lag_ms: None,
            read_wait_ms: None,
            write_time_ms: None,
            busy: None,
            run_queue_wait: None,
            preemptions: None,
            cpu_steal: None,
            chunks_per_read: None,
            chunk_rate: Some(chunk_rate),
            peak_in_flight: Some(peak_in_flight),
            stamp_error_bound_ms: Some(stamp_error_bound_ms),
            verdict: Some(ClientVerdict::Ok),
        }
    }

    /// Writes the health into the row of its cell.
    pub(crate) fn enter(&self, cell: &mut Cell) {
        let [p50, p99, max] = [0, 1, 2].map(|i| move |three: [f64; 3]| three[i]);
        cell.probes = i64::try_from(self.probes).ok();
        cell.wake_lag_p50 = self.wake_lag_ms.map(p50);
        cell.wake_lag_p99 = self.wake_lag_ms.map(p99);
        cell.wake_lag_max = self.wake_lag_ms.map(max);
        cell.read_wait_p50 = self.read_wait_ms.map(p50);
        cell.read_wait_p99 = self.read_wait_ms.map(p99);
        cell.read_wait_max = self.read_wait_ms.map(max);
        cell.write_time_p50 = self.write_time_ms.map(p50);
        cell.write_time_p99 = self.write_time_ms.map(p99);
        cell.write_time_max = self.write_time_ms.map(max);
        cell.client_busy = self.busy;
        cell.run_queue_wait = self.run_queue_wait;
        cell.preemptions = self.preemptions;
        cell.cpu_steal = self.cpu_steal;
        cell.chunks_per_read = self.chunks_per_read;
        cell.chunk_rate = self.chunk_rate;
        cell.peak_in_flight = self.peak_in_flight;
        cell.stamp_error_bound = self.stamp_error_bound_ms;
        cell.client_verdict = self.verdict;
    }
}

/// Returns the upper end of the one-sided 99 % confidence interval of the 99th percentile, ms.
fn upper_p99_ms(sample: &Histogram) -> Option<f64> {
    const Z: f64 = 2.326;
    let n = sample.n() as f64;
    let share = 0.99 + Z * (0.99 * 0.01 / n.max(1.0)).sqrt();
    sample.quantile(share.min(1.0)).map(|ns| ns as f64 / 1e6)
}

fn bound(
    wake_upper: Option<f64>,
    wake: Option<[f64; 3]>,
    read: Option<[f64; 3]>,
    write: Option<[f64; 3]>,
) -> Option<f64> {
    let ([.., wake_max], wake_upper) = (wake?, wake_upper?);
    let probe = PROBE.as_secs_f64() * 1e3;
    let p99 = |sample: Option<[f64; 3]>| sample.map_or(0.0, |s| s[1]);
    let queue = p99(read).min(wake_max.max(probe));
    Some(wake_upper + wake_upper.min(probe) + queue + p99(write))
}

fn verdict(probes: u64, wake: Option<[f64; 3]>, busy: Option<f64>) -> Option<ClientVerdict> {
    let [p50, p99, _] = wake.filter(|_| probes >= FEWEST_PROBES)?;
    let bound = p50 > WAKE_LAG_P50_MS || p99 > WAKE_LAG_P99_MS || busy.is_some_and(|b| b >= BUSY);
    Some(if bound {
        ClientVerdict::Bound
    } else {
        ClientVerdict::Ok
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_is_late_at_most_moments_is_the_bottleneck() {
        let at = |p50, p99, busy| verdict(FEWEST_PROBES, Some([p50, p99, 99.0]), Some(busy));
        assert_eq!(at(0.1, 9.0, 0.5), Some(ClientVerdict::Ok));
        assert_eq!(at(1.5, 9.0, 0.5), Some(ClientVerdict::Bound));
        assert_eq!(at(0.1, 51.0, 0.5), Some(ClientVerdict::Bound));
        assert_eq!(at(0.1, 9.0, 0.95), Some(ClientVerdict::Bound));
        assert_eq!(verdict(0, None, Some(0.1)), None);
    }

    #[test]
    fn a_few_ticks_of_the_probe_are_no_verdict() {
        let late = Some([60.0, 60.0, 60.0]);
        assert_eq!(verdict(FEWEST_PROBES - 1, late, Some(1.0)), None);
        let bound = Some(ClientVerdict::Bound);
        assert_eq!(verdict(FEWEST_PROBES, late, Some(1.0)), bound);
    }

    #[test]
    fn the_bound_is_the_sum_of_its_parts_and_a_busy_thread_cannot_stretch_it() {
        let (wake, write) = (Some([0.1, 2.0, 8.0]), Some([0.01, 0.5, 0.6]));
        assert_eq!(
            bound(Some(2.0), wake, Some([0.1, 3.0, 4.0]), write),
            Some(7.5)
        );
        // Awake for a second without a pause, but the probe was never served more than 8 ms late.
        assert_eq!(
            bound(Some(2.0), wake, Some([500.0, 990.0, 1000.0]), write),
            Some(12.5)
        );
        // A stall of 80 ms is at most a probe interval longer than observed.
        assert_eq!(
            bound(Some(80.0), Some([40.0, 79.0, 80.0]), None, None),
            Some(85.0)
        );
        assert_eq!(bound(None, None, None, None), None);
    }

    #[test]
    fn generators_together_are_as_bad_as_the_worst_and_one_that_says_nothing_proves_nothing() {
        let good = ClientHealth {
            wake_lag_ms: Some([0.1, 0.5, 9.0]),
            ..ClientHealth::made_up(100.0, 4, 0.5)
        };
        let bad = ClientHealth {
            probes: 7,
            wake_lag_ms: Some([2.0, 3.0, 4.0]),
            verdict: Some(ClientVerdict::Bound),
            ..ClientHealth::made_up(100.0, 4, 6.0)
        };
        let silent = ClientHealth {
            verdict: None,
            stamp_error_bound_ms: None,
            ..good.clone()
        };
        let worst = |all: &[ClientHealth]| ClientHealth::worst_of(all, &Tally::default());
        let both = worst(&[good.clone(), bad.clone()]).unwrap();
        assert_eq!(both.verdict, Some(ClientVerdict::Bound));
        assert_eq!(both.stamp_error_bound_ms, Some(6.0));
        assert_eq!((both.probes, both.wake_lag_ms), (8, Some([2.0, 3.0, 9.0])));
        let unsaid = worst(&[good.clone(), silent.clone()]).unwrap();
        assert_eq!((unsaid.verdict, unsaid.stamp_error_bound_ms), (None, None));
        assert_eq!(
            worst(&[bad, silent]).unwrap().verdict,
            Some(ClientVerdict::Bound)
        );
        assert_eq!(
            worst(&[good.clone(), good]).unwrap().verdict,
            Some(ClientVerdict::Ok)
        );
        assert_eq!(worst(&[]), None);
    }

    #[test]
    fn few_ticks_leave_the_percentile_uncertain_and_many_do_not() {
        let sample = |n: u64| {
            let mut lags = Histogram::default();
            (1..=n).for_each(|i| lags.add(i * 100));
            upper_p99_ms(&lags)
        };
        // Of 100 values the largest; of 10,000 the one with rank 9,924, in buckets 1.6 % wide.
        assert_eq!(sample(100), Some(0.01));
        let many = sample(10_000).unwrap();
        assert!((0.9924..0.9924 * 1.016).contains(&many), "{many}");
        assert_eq!(sample(0), None);
    }
}
