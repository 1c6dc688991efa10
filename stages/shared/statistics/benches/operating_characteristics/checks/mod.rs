//! Simulated studies with known answers, and how often each procedure gives them.
//!
//! The bench and the test count the same figures; the bench runs many studies, the test few.

mod apart;
mod controls;
mod coverage;
mod directions;
mod draw;
mod fits;
mod nulls;
mod parts;
mod power;
mod series;

use rand_xoshiro::Xoshiro256PlusPlus as Stream;
use rand_xoshiro::rand_core::SeedableRng;
use rayon::prelude::*;

#[allow(
    unused_imports,
    reason = "the bench prints them, and the test that shares this module does not"
)]
pub(crate) use series::critical_values;

/// The number of studies that share one stream of random numbers.
const CHUNK: usize = 50;

/// Figures that belong together.
pub(crate) struct Table {
    pub(crate) title: &'static str,
    pub(crate) note: &'static str,
    pub(crate) checks: Vec<Check>,
}

/// A study. Returns whether the event happened, or `None` if the procedure refuses.
type Study = Box<dyn Fn(&mut Stream) -> Option<bool> + Sync>;

/// One figure: the share of simulated studies in which an event happens.
pub(crate) struct Check {
    pub(crate) row: String,
    pub(crate) column: String,
    /// The allowed range of the share; 0 and 1 if the share is only recorded.
    bounds: (f64, f64),
    /// The divisor of the requested number of studies, because some studies are large.
    costs: usize,
    study: Study,
}

/// The counts of one figure.
#[derive(Clone, Copy)]
pub(crate) struct Counted {
    studies: usize,
    judged: usize,
    times: usize,
}

impl Counted {
    /// Returns the share of the studies in which the procedure did not refuse.
    fn share(&self) -> f64 {
        self.times as f64 / self.judged.max(1) as f64
    }

    /// Returns the share as table text, with the share of refused studies if there are any.
    pub(crate) fn percent(&self) -> String {
        let refused = self.studies - self.judged;
        let share = format!("{:.1} %", 100.0 * self.share());
        match (refused, self.judged) {
            (0, _) => share,
            (_, 0) => "refused".to_owned(),
            _ => {
                let refused = 100.0 * refused as f64 / self.studies as f64;
                if refused < 0.5 {
                    format!("{share} (< 1 % refused)")
                } else {
                    format!("{share} ({refused:.0} % refused)")
                }
            }
        }
    }
}

impl Check {
    fn new(
        (row, column): (impl Into<String>, impl Into<String>),
        bounds: (f64, f64),
        study: impl Fn(&mut Stream) -> Option<bool> + Sync + 'static,
    ) -> Self {
        Self {
            row: row.into(),
            column: column.into(),
            bounds,
            costs: 1,
            study: Box::new(study),
        }
    }

    fn costing(self, costs: usize) -> Self {
        Self { costs, ..self }
    }

    /// Simulates studies. The seed follows from the figure's row and column and from the study's
    /// chunk.
    pub(crate) fn count(&self, studies: usize) -> Counted {
        let studies = (studies / self.costs).max(1);
        let name = format!("{} {}", self.row, self.column);
        let seed = name.bytes().fold(164_u64, |seed, byte| {
            seed.wrapping_mul(0x0100_0000_01b3)
                .wrapping_add(u64::from(byte))
        });
        let chunk = |chunk: usize| -> (usize, usize) {
            let mut rng = Stream::seed_from_u64(seed.wrapping_add((chunk as u64) << 32));
            let size = CHUNK.min(studies - chunk * CHUNK);
            let outcomes = (0..size).filter_map(|_| (self.study)(&mut rng));
            outcomes.fold((0, 0), |(judged, times), outcome| {
                (judged + 1, times + usize::from(outcome))
            })
        };
        let parts: Vec<(usize, usize)> = (0..studies.div_ceil(CHUNK))
            .into_par_iter()
            .map(chunk)
            .collect();
        Counted {
            studies,
            judged: parts.iter().map(|p| p.0).sum(),
            times: parts.iter().map(|p| p.1).sum(),
        }
    }

    /// Returns whether the share lies within its bounds, or outside them by at most four standard
    /// errors of the simulation.
    pub(crate) fn holds(&self, counted: &Counted) -> bool {
        let error = |p: f64| 4.0 * (p * (1.0 - p) / counted.judged.max(1) as f64).sqrt();
        let (low, high) = self.bounds;
        let share = counted.share();
        counted.judged == 0 || (share >= low - error(low) && share <= high + error(high))
    }
}

/// Returns all tables.
pub(crate) fn tables() -> Vec<Table> {
    [
        nulls::tables(),
        coverage::tables(),
        fits::tables(),
        power::tables(),
        parts::tables(),
        controls::tables(),
        series::tables(),
        apart::tables(),
        directions::tables(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
