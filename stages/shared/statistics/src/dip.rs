//! The dip test: does a sample have one mode?

use crate::sample::Sample;

/// The result of a dip test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dip {
    /// The dip: the largest distance between the empirical distribution and the nearest unimodal
    /// one.
    pub dip: f64,
    /// The p value under the uniform distribution, interpolated in a published table; coarse above 0.1. It is 1 below
    /// four values, and never below 0.00001.
    pub p: f64,
}

/// Tests whether a sample has more than one mode (Hartigan & Hartigan 1985, Annals of Statistics 13, 70; the algorithm
/// of Hartigan 1985, Applied Statistics 34, 320, as corrected in R's `diptest`). The p value comes from the table of a
/// million uniform samples in that package (Maechler 2016), linear in √n·dip and in n, as in R and in the Python
/// package `diptest`. Ties are modes: values on a coarse grid look multimodal.
///
/// The values are worth `effective` independent ones: as many as there are, or fewer if they come in groups
/// ([`crate::effective_size_in_groups`]). The dip is that of all values, and its p value that of so many. This is exact if
/// the values of a group are equal, because repeated values have the dip of the values themselves.
pub fn dip_test(sample: &Sample, effective: usize) -> Dip {
    let dip = dip(sample.values());
    Dip {
        dip,
        p: p_value(effective.min(sample.len()), dip),
    }
}

/// Returns the dip of sorted values.
fn dip(x: &[f64]) -> f64 {
    let n = x.len();
    if n < 2 || x[0] == x[n - 1] {
        return 0.5 / n.max(1) as f64;
    }
    let (below, above) = hulls(x);
    let (mut low, mut high, mut dip) = (0, n - 1, 1.0_f64);
    loop {
        let minorant = chain(high, low, &below);
        let majorant = chain(low, high, &above);
        let (distance, ig, ih) = largest_distance(x, &minorant, &majorant);
        if distance < dip {
            break;
        }
        let mut here = 0.0_f64;
        for pair in minorant[ig..].windows(2) {
            let (begin, end) = (pair[1], pair[0]);
            here = here.max(from_chord(x, begin, end, |i, at| {
                (i - begin + 1) as f64 - at
            }));
        }
        for pair in majorant[ih..].windows(2) {
            let (begin, end) = (pair[0], pair[1]);
            here = here.max(from_chord(x, begin, end, |i, at| {
                at - (i as f64 - begin as f64 - 1.0)
            }));
        }
        dip = dip.max(here);
        if low == minorant[ig] && high == majorant[ih] {
            break;
        }
        (low, high) = (minorant[ig], majorant[ih]);
    }
    dip / (2.0 * n as f64)
}

/// Returns for each point its predecessor on the greatest convex minorant of the points up to it, and its successor on
/// the least concave majorant of the points from it on.
fn hulls(x: &[f64]) -> (Vec<usize>, Vec<usize>) {
    let n = x.len();
    let mut below = vec![0; n];
    for j in 1..n {
        below[j] = j - 1;
        loop {
            let a = below[j];
            let b = below[a];
            if a == 0 || (x[j] - x[a]) * ((a - b) as f64) < (x[a] - x[b]) * ((j - a) as f64) {
                break;
            }
            below[j] = b;
        }
    }
    let mut above = vec![n - 1; n];
    for k in (0..n - 1).rev() {
        above[k] = k + 1;
        loop {
            let a = above[k];
            let b = above[a];
            let last = n - 1;
            if a == last || (x[a] - x[k]) * ((b - a) as f64) < (x[b] - x[a]) * ((a - k) as f64) {
                break;
            }
            above[k] = b;
        }
    }
    (below, above)
}

fn chain(from: usize, to: usize, next: &[usize]) -> Vec<usize> {
    let mut chain = vec![from];
    let mut at = from;
    while at != to {
        at = next[at];
        chain.push(at);
    }
    chain
}

/// Returns the largest distance between minorant and majorant, with its index on each.
fn largest_distance(x: &[f64], minorant: &[usize], majorant: &[usize]) -> (f64, usize, usize) {
    let (mut ig, mut ih) = (minorant.len() - 1, majorant.len() - 1);
    if minorant.len() == 2 && majorant.len() == 2 {
        return (1.0, ig, ih);
    }
    let (mut ix, mut iv, mut distance) = (minorant.len() - 2, 1, 0.0);
    loop {
        let (g, l) = (minorant[ix], majorant[iv]);
        if g > l {
            let before = minorant[ix + 1];
            let along = (x[l] - x[before]) * ((g - before) as f64) / (x[g] - x[before]);
            let here = (l as f64 - before as f64 + 1.0) - along;
            iv += 1;
            if here >= distance {
                (distance, ig, ih) = (here, ix + 1, iv - 1);
            }
        } else {
            let before = majorant[iv - 1];
            let along = (x[g] - x[before]) * ((l - before) as f64) / (x[l] - x[before]);
            let here = along - (g as f64 - before as f64 - 1.0);
            let at = ix;
            ix = ix.saturating_sub(1);
            if here >= distance {
                (distance, ig, ih) = (here, at, iv);
            }
        }
        iv = iv.min(majorant.len() - 1);
        if minorant[ix] == majorant[iv] {
            return (distance, ig, ih);
        }
    }
}

/// Returns the largest distance between the chord of two points and the points between them, at least 1.
fn from_chord(x: &[f64], begin: usize, end: usize, distance: impl Fn(usize, f64) -> f64) -> f64 {
    if end - begin < 2 || x[end] == x[begin] {
        return 1.0;
    }
    let slope = (end - begin) as f64 / (x[end] - x[begin]);
    (begin..=end)
        .map(|i| distance(i, (x[i] - x[begin]) * slope))
        .fold(1.0, f64::max)
}

/// Upper tail probabilities of the columns of [`QUANTILES`].
const TAILS: [f64; 14] = [
    0.5, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005, 0.0002, 0.0001, 0.00005, 0.00002,
    0.00001,
];

/// Quantiles of the dip of uniform samples by their size (R package `diptest`, `qDiptab`).
#[rustfmt::skip]
const QUANTILES: [(usize, [f64; 14]); 17] = [
    (4, [0.125, 0.187402, 0.20727, 0.223756, 0.231796, 0.237264, 0.241993, 0.24437, 0.245967, 0.24744, 0.248231, 0.248754, 0.249302, 0.24946]),
    (5, [0.121564, 0.176812, 0.186392, 0.193613, 0.196509, 0.19816, 0.199244, 0.199618, 0.199801, 0.199917, 0.199959, 0.199978, 0.199993, 0.199996]),
    (6, [0.123071, 0.159137, 0.16477, 0.179177, 0.191863, 0.202102, 0.213016, 0.219519, 0.224339, 0.229449, 0.232715, 0.236548, 0.239089, 0.240104]),
    (7, [0.117808, 0.144241, 0.159903, 0.175197, 0.184119, 0.191014, 0.198217, 0.202341, 0.205378, 0.208307, 0.209866, 0.210968, 0.212233, 0.212661]),
    (8, [0.111035, 0.141841, 0.153978, 0.165979, 0.172989, 0.17901, 0.186504, 0.194484, 0.200864, 0.20885, 0.212556, 0.217149, 0.2217, 0.225001]),
    (9, [0.104154, 0.136413, 0.146604, 0.157084, 0.164165, 0.172822, 0.182555, 0.188659, 0.194089, 0.199157, 0.202882, 0.20598, 0.210541, 0.2118]),
    (10, [0.097782, 0.130462, 0.139611, 0.150962, 0.159684, 0.167195, 0.17542, 0.180611, 0.185286, 0.191203, 0.195805, 0.200294, 0.205651, 0.209682]),
    (15, [0.083621, 0.110087, 0.118761, 0.12889, 0.135984, 0.142452, 0.150173, 0.155456, 0.160896, 0.166979, 0.171118, 0.175901, 0.181857, 0.185743]),
    (20, [0.073344, 0.097235, 0.10513, 0.11431, 0.120624, 0.126552, 0.133601, 0.13857, 0.143369, 0.14894, 0.152833, 0.15601, 0.161319, 0.165568]),
    (30, [0.061451, 0.081479, 0.088169, 0.096056, 0.101479, 0.106505, 0.112725, 0.117164, 0.121426, 0.126733, 0.131199, 0.133692, 0.137832, 0.141558]),
    (50, [0.048851, 0.064914, 0.070274, 0.07671, 0.0812, 0.085285, 0.090485, 0.094093, 0.09749, 0.102284, 0.104681, 0.107497, 0.111409, 0.113537]),
    (100, [0.035462, 0.047153, 0.051128, 0.055802, 0.059024, 0.062043, 0.065802, 0.068448, 0.070917, 0.074118, 0.076258, 0.078574, 0.081346, 0.083296]),
    (200, [0.025584, 0.033997, 0.036842, 0.040273, 0.042686, 0.044959, 0.047764, 0.04972, 0.051611, 0.054054, 0.05587, 0.057388, 0.059337, 0.060765]),
    (500, [0.016452, 0.021878, 0.023729, 0.02592, 0.027452, 0.028899, 0.030681, 0.032017, 0.033245, 0.034834, 0.035983, 0.036905, 0.038722, 0.03993]),
    (1000, [0.011744, 0.015615, 0.016934, 0.018513, 0.019608, 0.020649, 0.021929, 0.022869, 0.023739, 0.024833, 0.025613, 0.026549, 0.027578, 0.028443]),
    (5000, [0.005312, 0.007056, 0.007651, 0.008368, 0.008864, 0.009342, 0.009932, 0.01035, 0.010778, 0.011318, 0.011733, 0.012, 0.012441, 0.012947]),
    (72000, [0.00141, 0.001873, 0.002032, 0.002224, 0.002358, 0.002483, 0.002642, 0.002752, 0.002861, 0.002987, 0.003093, 0.003199, 0.003327, 0.003393]),
];

fn p_value(n: usize, dip: f64) -> f64 {
    if n < QUANTILES[0].0 {
        return 1.0;
    }
    let upper = QUANTILES
        .iter()
        .position(|(size, _)| *size >= n)
        .unwrap_or(QUANTILES.len() - 1);
    let lower = if QUANTILES[upper].0 == n {
        upper
    } else {
        upper.max(1) - 1
    };
    let (below, above) = (&QUANTILES[lower], &QUANTILES[upper]);
    let share = if above.0 == below.0 {
        0.0
    } else {
        (n.min(above.0) - below.0) as f64 / (above.0 - below.0) as f64
    };
    let scaled = |i: usize| {
        let (a, b) = (
            (below.0 as f64).sqrt() * below.1[i],
            (above.0 as f64).sqrt() * above.1[i],
        );
        a + share * (b - a)
    };
    let observed = (n as f64).sqrt() * dip;
    if observed <= scaled(0) {
        // The lower half of the table is omitted: such a sample is practically unimodal.
        return 1.0;
    }
    let Some(right) = (1..TAILS.len()).find(|i| scaled(*i) >= observed) else {
        return TAILS[TAILS.len() - 1];
    };
    let (from, to) = (scaled(right - 1), scaled(right));
    TAILS[right - 1] + (observed - from) / (to - from) * (TAILS[right] - TAILS[right - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns numbers between 0 and 1 from Knuth's generator, every second one moved by `shift`.
    fn numbers(n: usize, seed: u64, shift: f64) -> Vec<f64> {
        let mut state = seed;
        let mut draw = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        (0..n)
            .map(|i| draw() + if i % 2 == 0 { shift } else { 0.0 })
            .collect()
    }

    /// n, seed, shift, dip and p from the Python package diptest 0.12.0 (a port of R's).
    #[rustfmt::skip]
    const ORACLE: [(usize, u64, f64, f64, f64); 8] = [
        (20, 1, 0.0, 0.06662714544062806, 0.6831942429640891),
        (50, 2, 0.0, 0.03860718733003733, 0.873692707283273),
        (200, 3, 0.0, 0.02986767433740278, 0.24424641886069243),
        (20, 4, 2.0, 0.1332491608935507, 0.002149891108026658),
        (40, 5, 2.0, 0.12609375000953277, 8.899879254564702e-06),
        (60, 6, 1.5, 0.10794152827311351, 3.7150222188531146e-06),
        (100, 7, 1.2, 0.06511418999453371, 0.002548598441688199),
        (50, 8, 1.5, 0.09776059424941282, 0.0004830930706243297),
    ];

    /// Tests independent values.
    fn alone(sample: &Sample) -> Dip {
        dip_test(sample, sample.len())
    }

    #[test]
    fn values_that_come_several_times_count_once() {
        let once = numbers(40, 5, 1.0);
        let often: Vec<f64> = once.iter().flat_map(|v| [*v; 16]).collect();
        let often = Sample::new(often).unwrap();
        let expected = alone(&Sample::new(once).unwrap());
        let result = dip_test(&often, 40);
        assert!((result.dip - expected.dip).abs() < 1e-12);
        assert_eq!(result.p, expected.p);
        assert!(alone(&often).p < expected.p);
    }

    #[test]
    fn dips_and_p_values_are_those_of_the_published_package() {
        for (n, seed, shift, dip, p) in ORACLE {
            let result = alone(&Sample::new(numbers(n, seed, shift)).unwrap());
            assert!(
                (result.dip - dip).abs() < 1e-12,
                "{n}: {} {dip}",
                result.dip
            );
            if p < 0.1 {
                // The package returns 0 beyond the end of the table.
                assert!(
                    (result.p - p.max(1e-5)).abs() < 1e-5,
                    "{n}: {} {p}",
                    result.p
                );
            } else {
                assert!(result.p > 0.1);
            }
        }
    }

    #[test]
    fn ties_and_constant_samples_have_a_dip() {
        let tied = [1.0, 1.0, 2.0, 2.0, 2.0, 3.0, 7.0, 7.0, 8.0, 8.0, 8.0, 9.0];
        let result = alone(&Sample::new(tied).unwrap());
        assert!(
            (result.dip - 0.16666666666666666).abs() < 1e-12,
            "{}",
            result.dip
        );
        let same = alone(&Sample::new([3.0; 20]).unwrap());
        assert_eq!((same.dip, same.p), (0.025, 1.0));
    }
}
