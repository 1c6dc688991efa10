//! Drawing with replacement, as many units as there are: one resample of a bootstrap.

use rand_xoshiro::Xoshiro256PlusPlus as Stream;

use crate::random::{self, Dice};

/// Up to how many units pairs of them are drawn at once: a table of all pairs (128 KiB for sums of
/// one number) takes half the draws and half the look-ups.
const PAIRED: usize = 128;

/// Units to draw from, each of `W` numbers that are added up.
#[derive(Debug)]
pub(crate) struct Urn<const W: usize> {
    units: Vec<[f64; W]>,
    /// The sum of units `i` and `j` at `i · n + j`; the units themselves if they are many.
    table: Vec<[f64; W]>,
    dice: Dice,
}

impl<const W: usize> Urn<W> {
    /// Makes an urn of two units or more.
    pub(crate) fn new(units: Vec<[f64; W]>) -> Self {
        let table: Vec<[f64; W]> = if units.len() <= PAIRED {
            units.iter().flat_map(|a| units.iter().map(|b| plus(*a, *b))).collect()
        } else {
            units.clone()
        };
        let dice = Dice::new(table.len());
        Self { units, table, dice }
    }

    /// Returns the sum of a resample: as many units, drawn with replacement, as there are. It is
    /// added up in an order that follows from the draws alone.
    pub(crate) fn total(&self, rng: &mut Stream) -> [f64; W] {
        let add = |sum: &mut [f64; W], face: usize| *sum = plus(*sum, self.table[face]);
        let (rolls, single) = self.rolls();
        let total = self.dice.gather(rng, rolls, [0.0; W], add, plus);
        if single { plus(total, self.units[random::below(rng, self.units.len())]) } else { total }
    }

    /// Calls `each` with the positions of the units that [`Urn::total`] adds up.
    pub(crate) fn draw(&self, rng: &mut Stream, mut each: impl FnMut(usize)) {
        let n = self.units.len();
        let paired = n <= PAIRED;
        let (rolls, single) = self.rolls();
        let roll = |(): &mut (), face: usize| {
            if paired {
                each(face / n);
                each(face % n);
            } else {
                each(face);
            }
        };
        self.dice.gather(rng, rolls, (), roll, |(), ()| ());
        if single {
            each(random::below(rng, n));
        }
    }

    /// How many times the dice are rolled, and whether one unit is drawn by itself.
    fn rolls(&self) -> (usize, bool) {
        let n = self.units.len();
        if n <= PAIRED { (n / 2, n % 2 == 1) } else { (n, false) }
    }
}

fn plus<const W: usize>(a: [f64; W], b: [f64; W]) -> [f64; W] {
    std::array::from_fn(|i| a[i] + b[i])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each of `n` units is drawn in so many resamples.
    fn counts(n: usize, resamples: usize) -> Vec<u32> {
        let urn = Urn::new((0..n).map(|i| [i as f64]).collect());
        let (mut rng, mut counts) = (random::stream(7, 0), vec![0; n]);
        for _ in 0..resamples {
            urn.draw(&mut rng, |i| counts[i] += 1);
        }
        counts
    }

    #[test]
    fn the_total_is_that_of_the_units_drawn() {
        for n in [2, 3, 25, 128, 129, 1_000, 2_000] {
            // Whole numbers: their sums are exact in any order.
            let urn = Urn::new((0..n).map(|i| [i as f64, 1.0]).collect());
            let (mut one, mut other) = (random::stream(1, 2), random::stream(1, 2));
            for _ in 0..20 {
                let mut sums = [0.0, 0.0];
                urn.draw(&mut one, |i| sums = plus(sums, [i as f64, 1.0]));
                assert_eq!(urn.total(&mut other), sums, "{n} units");
                assert_eq!(sums[1], n as f64);
            }
        }
    }

    #[test]
    fn every_unit_is_drawn_once_a_resample_on_average() {
        for n in [3, 25, 128, 129] {
            // Each count is binomial with mean 20,000: six standard deviations are 850.
            let counts = counts(n, 20_000);
            assert!(counts.iter().all(|c| c.abs_diff(20_000) < 850), "{n} units: {counts:?}");
        }
    }
}
