//! Compares the clock of a generator on another host with the coordinator's.
//!
//! An exchange takes the coordinator's time, the generator's time, and the coordinator's time again. The generator read
//! its clock at some moment in between. Assuming the middle is therefore wrong by at most half the duration of the
//! exchange. Of several exchanges, the shortest counts.
//!
//! The first comparison determines the epoch of the generator. Because clocks drift, the comparison is repeated after the
//! last request. The bound for the whole load is the sum of both bounds and the change between the comparisons. This assumes
//! that the difference between the clocks changes in one direction during a load.

/// The number of exchanges in a comparison.
pub(super) const EXCHANGES: usize = 15;

/// The difference between another monotonic clock and the local one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ahead {
    /// The difference, ns; negative if the other clock is behind.
    pub(super) by_ns: i64,
    /// The largest possible error of the difference, ns.
    pub(super) bound_ns: i64,
}

impl Ahead {
    /// Computes the difference from one exchange: `asked_ns` and `heard_ns` by the local clock, `there_ns` by the
    /// other.
    pub(super) fn of(asked_ns: u64, there_ns: u64, heard_ns: u64) -> Self {
        let took = heard_ns.saturating_sub(asked_ns);
        let here = i128::from(asked_ns) + i128::from(took / 2);
        Self {
            by_ns: (i128::from(there_ns) - here).clamp(i64::MIN.into(), i64::MAX.into()) as i64,
            // Rounded up.
            bound_ns: i64::try_from(took.div_ceil(2)).unwrap_or(i64::MAX),
        }
    }

    /// Returns the more exact of two.
    pub(super) fn better(self, other: Self) -> Self {
        if other.bound_ns < self.bound_ns {
            other
        } else {
            self
        }
    }

    /// Converts a time of the local clock to the other clock.
    pub(super) fn on_other_clock(self, here_ns: u64) -> u64 {
        here_ns.saturating_add_signed(self.by_ns)
    }

    /// Returns the largest error, ns, of stamps that rely on this comparison until a later one.
    pub(super) fn bound_until(self, later: Self) -> i64 {
        let change = later.by_ns.saturating_sub(self.by_ns).saturating_abs();
        let both = self.bound_ns.saturating_add(later.bound_ns);
        both.saturating_add(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_clock_that_jumps_as_far_as_it_can_has_a_bound() {
        let early = Ahead::of(u64::MAX, 0, u64::MAX);
        let late = Ahead::of(0, u64::MAX, 0);
        assert_eq!(early.bound_until(late), i64::MAX);
        assert_eq!(late.on_other_clock(u64::MAX), u64::MAX);
    }

    proptest! {
        #[test]
        fn the_bound_holds_whenever_the_other_clock_was_read(
            ahead in -1_000_000_000_i64..1_000_000_000,
            asked in 2_000_000_000_u64..3_000_000_000,
            there in 0_u64..5_000_000,
            back in 0_u64..5_000_000,
        ) {
            let read = asked + there;
            let clock = Ahead::of(asked, read.saturating_add_signed(ahead), read + back);
            prop_assert!((clock.by_ns - ahead).abs() <= clock.bound_ns, "{clock:?} {ahead}");
            let at = clock.on_other_clock(asked);
            prop_assert!(at.abs_diff(asked.saturating_add_signed(ahead)) as i64 <= clock.bound_ns);
        }

        #[test]
        fn the_bound_over_a_load_holds_for_a_clock_that_drifts(
            drift in -100_000_i64..100_000,
            (first, last) in (0_i64..50_000, 0_i64..50_000),
            (wrong_first, wrong_last) in (-1.0..1.0_f64, -1.0..1.0_f64),
            share in 0.0..1.0_f64,
        ) {
            let before = Ahead { by_ns: (first as f64 * wrong_first) as i64, bound_ns: first };
            let after = Ahead { by_ns: drift + (last as f64 * wrong_last) as i64, bound_ns: last };
            let error = (drift as f64 * share - before.by_ns as f64).abs();
            prop_assert!(error <= before.bound_until(after) as f64 + 1.0);
        }
    }
}
