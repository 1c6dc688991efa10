//! Drawing with replacement as many units as there are: one resample of a bootstrap.

use rand_xoshiro::Xoshiro256PlusPlus as Stream;

use crate::random::{self, Dice};

/// The largest number of units for which pairs are drawn at once. A table of all pairs (128 KiB for sums of one number)
/// halves the draws and the look-ups.
const PAIRED: usize = 128;

/// Units to draw from. Each holds `W` numbers that are summed.
#[derive(Debug)]
pub(crate) struct Urn<const W: usize> {
    units: Vec<[f64; W]>,
    /// The sum of units `i` and `j` at `i · n + j`, or the units themselves if there are many.
    table: Vec<[f64; W]>,
    dice: Dice,
}

impl<const W: usize> Urn<W> {
    /// Makes an urn of two units or more.
    pub(crate) fn new(units: Vec<[f64; W]>) -> Self {
        let table: Vec<[f64; W]> = if units.len() <= PAIRED {
            units
                .iter()
                .flat_map(|a| units.iter().map(|b| plus(*a, *b)))
                .collect()
        } else {
            units.clone()
        };
        let dice = Dice::new(table.len());
        Self { units, table, dice }
    }

    /// Draws resamples and returns their sums. Each resample draws as many units as there are, with replacement. The
    /// order of addition follows only from the draws: the n-th die of each word goes to the n-th accumulator, so that
    /// no addition waits for the one before it; then the accumulators are added in order.
    pub(crate) fn totals(&self, rng: &mut Stream, totals: &mut [[f64; W]]) {
        let (units, table) = (self.units.as_slice(), self.table.as_slice());
        let add = |sum: &mut [f64; W], drawn| {
            let value = match drawn {
                Drawn::Face(face) => table[face],
                Drawn::Unit(unit) => units[unit],
            };
            *sum = plus(*sum, value);
        };
        let mut places = totals.iter_mut();
        let count = places.len();
        self.resample(rng, count, [0.0; W], add, plus, |sum| {
            if let Some(place) = places.next() {
                *place = sum;
            }
        });
    }

    /// Draws one of the resamples that [`Urn::totals`] adds up. `each` receives the position of each drawn unit.
    pub(crate) fn draw(&self, rng: &mut Stream, mut each: impl FnMut(usize)) {
        let n = self.units.len();
        let add = |(): &mut (), drawn| match drawn {
            Drawn::Face(face) if n <= PAIRED => {
                each(face / n);
                each(face % n);
            }
            Drawn::Face(unit) | Drawn::Unit(unit) => each(unit),
        };
        self.resample(rng, 1, (), add, |(), ()| (), |()| ());
    }

    fn resample<T: Copy>(
        &self,
        rng: &mut Stream,
        count: usize,
        start: T,
        add: impl FnMut(&mut T, Drawn),
        join: impl Fn(T, T) -> T,
        done: impl FnMut(T),
    ) {
        match self.dice.per_word() {
            12 => self.resample_by::<12, T>(rng, count, start, add, join, done),
            8 => self.resample_by::<8, T>(rng, count, start, add, join, done),
            6 => self.resample_by::<6, T>(rng, count, start, add, join, done),
            5 => self.resample_by::<5, T>(rng, count, start, add, join, done),
            4 => self.resample_by::<4, T>(rng, count, start, add, join, done),
            3 => self.resample_by::<3, T>(rng, count, start, add, join, done),
            2 => self.resample_by::<2, T>(rng, count, start, add, join, done),
            _ => self.resample_by::<1, T>(rng, count, start, add, join, done),
        }
    }

    #[inline(always)]
    fn resample_by<const N: usize, T: Copy>(
        &self,
        rng: &mut Stream,
        count: usize,
        start: T,
        mut add: impl FnMut(&mut T, Drawn),
        join: impl Fn(T, T) -> T,
        mut done: impl FnMut(T),
    ) {
        let n = self.units.len();
        let (rolls, single) = if n <= PAIRED {
            (n / 2, n % 2 == 1)
        } else {
            (n, false)
        };
        // Copies stay in registers.
        let (dice, mut stream) = (self.dice, rng.clone());
        for _ in 0..count {
            let mut sums = [start; N];
            for _ in 0..rolls / N {
                for (sum, face) in sums.iter_mut().zip(dice.roll::<N>(&mut stream)) {
                    add(sum, Drawn::Face(face));
                }
            }
            if rolls % N > 0 {
                for (sum, face) in sums
                    .iter_mut()
                    .zip(dice.roll::<N>(&mut stream))
                    .take(rolls % N)
                {
                    add(sum, Drawn::Face(face));
                }
            }
            let mut all = sums.into_iter().reduce(&join).unwrap_or(start);
            if single {
                add(&mut all, Drawn::Unit(random::below(&mut stream, n)));
            }
            done(all);
        }
        *rng = stream;
    }
}

/// The result of a draw: a face of the dice, which is an entry of the table, or one unit.
#[derive(Clone, Copy)]
enum Drawn {
    Face(usize),
    Unit(usize),
}

fn plus<const W: usize>(a: [f64; W], b: [f64; W]) -> [f64; W] {
    std::array::from_fn(|i| a[i] + b[i])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how often each of `n` units is drawn in this many resamples.
    fn counts(n: usize, resamples: usize) -> Vec<u32> {
        let urn = Urn::new((0..n).map(|i| [i as f64]).collect());
        let (mut rng, mut counts) = (random::stream(7, 0), vec![0; n]);
        for _ in 0..resamples {
            urn.draw(&mut rng, |i| counts[i] += 1);
        }
        counts
    }

    #[test]
    fn the_totals_are_those_of_the_units_drawn() {
        for n in [2, 3, 11, 25, 128, 129, 1_000, 2_000] {
            // Whole numbers, so their sums are exact in any order.
            let urn = Urn::new((0..n).map(|i| [f64::from(i), 1.0]).collect());
            let (mut one, mut other) = (random::stream(1, 2), random::stream(1, 2));
            let mut totals = [[0.0; 2]; 20];
            urn.totals(&mut other, &mut totals);
            for total in totals {
                let mut sums = [0.0, 0.0];
                urn.draw(&mut one, |i| sums = plus(sums, [i as f64, 1.0]));
                assert_eq!(total, sums, "{n} units");
                assert_eq!(sums[1], f64::from(n));
            }
        }
    }

    #[test]
    fn every_unit_is_drawn_once_a_resample_on_average() {
        // Numbers of units that cover each number of dice per word.
        for n in [3, 5, 11, 25, 48, 128, 129, 700, 2_400, 16_400] {
            // Each count is nearly Poisson with mean 400,000 ÷ n, so chi-squared divided by its degrees of freedom is
            // nearly normal about 1.
            let resamples = 400_000 / n;
            let expected = resamples as f64;
            let squared = |c: u32| (f64::from(c) - expected).powi(2) / expected;
            let share = counts(n, resamples).into_iter().map(squared).sum::<f64>() / (n - 1) as f64;
            assert!(
                (share - 1.0).abs() < 6.0 * (2.0 / (n - 1) as f64).sqrt(),
                "{n} units: {share}"
            );
        }
    }

    #[test]
    fn units_drawn_after_each_other_have_nothing_in_common() {
        // 5 units: pairs (of one table entry) and words of 12 dice; 130: one unit at a time. All pairs of neighbouring
        // draws within a resample are equally likely.
        for n in [5, 130] {
            let urn = Urn::new((0..n).map(|i| [i as f64]).collect());
            let (mut rng, mut counts, mut pairs) = (random::stream(3, 0), vec![0_u32; 25], 0_u32);
            for _ in 0..200_000 / n {
                let mut drawn = Vec::with_capacity(n);
                urn.draw(&mut rng, |unit| drawn.push(unit * 5 / n));
                for pair in drawn.windows(2) {
                    counts[pair[0] * 5 + pair[1]] += 1;
                    pairs += 1;
                }
            }
            let expected = f64::from(pairs) / 25.0;
            let chi: f64 = counts
                .iter()
                .map(|c| (f64::from(*c) - expected).powi(2) / expected)
                .sum();
            // 24 degrees of freedom: the statistic is above 70 once in 10⁶ times.
            assert!(chi < 70.0, "{n} units: {chi}");
        }
    }
}
