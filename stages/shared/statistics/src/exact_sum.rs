//! Sums without intermediate rounding: the double nearest to the true sum, in any order of the values.

/// The value bits of a limb; the upper half of the integer takes carries.
const LIMB: u32 = 32;

/// Enough limbs for every bit of a finite double, 2⁻¹⁰⁷⁴ to 2¹⁰²³, and for carries beyond.
const LIMBS: usize = 68;

/// Carries are propagated after this many numbers; each number adds less than 2⁵³ to a limb.
const BETWEEN_CARRIES: usize = 1 << 9;

/// Returns the sum, rounded once. The sum is infinite beyond the largest double, and NaN if a number is not finite.
pub(crate) fn exact_sum(values: impl IntoIterator<Item = f64, IntoIter: Clone>) -> f64 {
    let values = values.into_iter();
    compensated(values.clone()).unwrap_or_else(|| accumulated(values))
}

/// The number of parallel sums, so that the processor adds several numbers at once.
const LANES: usize = 8;

/// The number of values taken from the iterator at once.
const TAKEN: usize = 256;

/// Returns the sum, rounded once, if a compensated sum is precise enough (Ogita, Rump & Oishi, SIAM J. Sci. Comput. 26,
/// 2005, algorithm Sum2 and proposition 4.5). It is precise enough if all numbers within its error bound round to the
/// same double, which most do.
fn compensated(mut values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sums, mut lost, mut sizes) = ([0.0_f64; LANES], [0.0_f64; LANES], [0.0_f64; LANES]);
    let (mut taken, mut n) = ([0.0_f64; TAKEN], 0_usize);
    loop {
        let mut count = 0;
        for (slot, value) in taken.iter_mut().zip(&mut values) {
            *slot = value;
            count += 1;
        }
        if count == 0 {
            break;
        }
        n += count;
        let whole = count.next_multiple_of(LANES);
        taken[count..whole].fill(0.0);
        for some in taken[..whole].chunks_exact(LANES) {
            for lane in 0..LANES {
                let (sum, error) = two_sum(sums[lane], some[lane]);
                sums[lane] = sum;
                lost[lane] += error;
                sizes[lane] += some[lane].abs();
            }
        }
    }
    let (mut sum, mut rest) = (0.0, 0.0);
    for lane in 0..LANES {
        let (next, error) = two_sum(sum, sums[lane]);
        sum = next;
        rest += error + lost[lane];
    }
    // γ² · Σ|x| with γ = n·u / (1 − n·u). More than twice that covers the roundings of the bound itself.
    let gamma = (n + 4 * LANES) as f64 * f64::EPSILON;
    let bound = gamma * gamma * sizes.iter().sum::<f64>() + rest.abs() * f64::EPSILON;
    let (low, high) = (sum + (rest - bound), sum + (rest + bound));
    // A bound that underflowed, an infinity or a NaN is inconclusive.
    (low == high && low.is_finite() && bound >= f64::MIN_POSITIVE && gamma < 1e-6).then_some(low)
}

/// Returns the rounded sum of two numbers and its exact rounding error (Knuth).
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

/// Returns the sum, rounded once. A fixed-point number that spans all doubles holds the exact sum (Neal, arXiv
/// 1505.05571, the small superaccumulator).
fn accumulated(values: impl Iterator<Item = f64>) -> f64 {
    let mut limbs = [0_i64; LIMBS];
    let mut since = 0;
    for value in values {
        if since == BETWEEN_CARRIES {
            carry(&mut limbs);
            since = 0;
        }
        since += 1;
        let bits = value.to_bits();
        let exponent = ((bits >> 52) & 0x7ff) as u32;
        if exponent == 0x7ff {
            return f64::NAN;
        }
        let fraction = bits & ((1 << 52) - 1);
        // In units of 2⁻¹⁰⁷⁴ the number is its significand · 2^place; a subnormal lacks the leading bit.
        let (significand, place) = if exponent == 0 {
            (fraction, 0)
        } else {
            (fraction | 1 << 52, exponent - 1)
        };
        let (at, shift) = ((place / LIMB) as usize, place % LIMB);
        let low = ((significand << shift) & 0xffff_ffff).cast_signed();
        let high = (significand >> (LIMB - shift)).cast_signed();
        // All ones for a negative number: x ^ sign − sign is ±x.
        let sign = bits.cast_signed() >> 63;
        limbs[at] += (low ^ sign) - sign;
        limbs[at + 1] += (high ^ sign) - sign;
    }
    round(limbs)
}

/// Carries everything above 32 bits, so that every limb but the last is in 0 … 2³² − 1.
fn carry(limbs: &mut [i64; LIMBS]) {
    let mut carried = 0;
    for limb in &mut limbs[..LIMBS - 1] {
        let sum = *limb + carried;
        *limb = sum & 0xffff_ffff;
        carried = sum >> LIMB;
    }
    limbs[LIMBS - 1] += carried;
}

/// Returns the nearest double, ties to even.
fn round(mut limbs: [i64; LIMBS]) -> f64 {
    carry(&mut limbs);
    let negative = limbs[LIMBS - 1] < 0;
    if negative {
        limbs.iter_mut().for_each(|limb| *limb = -*limb);
        carry(&mut limbs);
    }
    let Some(top) = limbs.iter().rposition(|limb| *limb != 0) else {
        return 0.0;
    };
    // The three highest limbs have 65 bits or more, or hold everything. Below them, only whether the rest is 0 matters.
    let base = top.saturating_sub(2);
    let mut significand = 0_u128;
    for limb in limbs[base..=top].iter().rev() {
        significand = (significand << LIMB) | u128::from(limb.cast_unsigned());
    }
    significand |= u128::from(limbs[..base].iter().any(|limb| *limb != 0));
    let magnitude = significand as f64 * power_of_two(LIMB as i32 * base as i32 - 1074);
    if negative { -magnitude } else { magnitude }
}

/// Returns 2^exponent for −1074 ≤ exponent ≤ 1023.
fn power_of_two(exponent: i32) -> f64 {
    let bits = if exponent < -1022 {
        1 << (exponent + 1074)
    } else {
        ((exponent + 1023) as u64) << 52
    };
    f64::from_bits(bits)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_cancels_leaves_what_is_small() {
        assert_eq!(exact_sum([1e100, 1.0, -1e100]), 1.0);
        assert_eq!(exact_sum([1e308, 1e-308, -1e308]), 1e-308);
        assert_eq!(exact_sum([0.1, 0.2, -0.3]), 2.775_557_561_562_891_4e-17);
        assert_eq!(exact_sum([]).to_bits(), 0);
    }

    #[test]
    fn the_sum_is_rounded_once_and_ties_go_to_even() {
        let half = f64::EPSILON / 2.0;
        assert_eq!(exact_sum([1.0, half]), 1.0);
        assert_eq!(
            exact_sum([1.0, half, f64::from_bits(1)]),
            1.0 + f64::EPSILON
        );
        assert_eq!(
            exact_sum([-1.0, -half, -f64::EPSILON]),
            -1.0 - 2.0 * f64::EPSILON
        );
    }

    #[test]
    fn a_sum_of_many_numbers_needs_no_accumulator() {
        let values = (0..10_000).map(|i| f64::from(i).sqrt());
        assert_eq!(compensated(values.clone()), Some(accumulated(values)));
    }

    #[test]
    fn a_sum_midway_between_two_doubles_is_left_to_the_accumulator() {
        let half = f64::EPSILON / 2.0;
        assert_eq!(compensated([1.0, half].into_iter()), None);
        assert_eq!(compensated([1.0, half, -half / 2.0].into_iter()), Some(1.0));
        assert_eq!(compensated([1e100, 1.0, -1e100].into_iter()), None);
        assert_eq!(compensated([0.0, -0.0].into_iter()), None);
        assert_eq!(compensated([f64::MAX, f64::MAX].into_iter()), None);
        assert_eq!(compensated([1.0, f64::NAN].into_iter()), None);
    }

    #[test]
    fn the_ends_of_the_range_are_in_range() {
        let (least, most) = (f64::from_bits(1), f64::MAX);
        assert_eq!(exact_sum([least, least]), f64::from_bits(2));
        assert_eq!(exact_sum([most, most, -most]), most);
        assert_eq!(exact_sum([most, most]), f64::INFINITY);
        assert_eq!(exact_sum([-most, f64::MIN_POSITIVE]), -most);
    }

    #[test]
    fn many_numbers_do_not_overflow_a_limb() {
        let ones = (1_u64 << 53) as f64 - 1.0;
        assert_eq!(
            exact_sum(std::iter::repeat_n(ones, 1 << 13)),
            ones * f64::from(1 << 13)
        );
        assert_eq!(
            exact_sum(std::iter::repeat_n(-ones, 1 << 13)),
            -ones * f64::from(1 << 13)
        );
    }

    proptest! {
        #[test]
        fn the_order_decides_nothing(bits in prop::collection::vec(any::<u64>(), 1..60), turn in 0_usize..60) {
            let finite = bits.into_iter().map(f64::from_bits).filter(|v| v.is_finite());
            let mut values: Vec<f64> = finite.collect();
            let one = exact_sum(values.iter().copied());
            values.reverse();
            let turn = turn % values.len().max(1);
            values.rotate_left(turn);
            prop_assert_eq!(one.to_bits(), exact_sum(values).to_bits());
        }

        #[test]
        fn sums_that_fit_an_integer_are_that_integer(
            numbers in prop::collection::vec(-(1_i64 << 53)..1 << 53, 0..200), place in -900_i32..900,
        ) {
            let unit = power_of_two(place);
            let sum: i128 = numbers.iter().map(|n| i128::from(*n)).sum();
            prop_assert_eq!(exact_sum(numbers.iter().map(|n| *n as f64 * unit)), sum as f64 * unit);
        }

        #[test]
        fn a_compensated_sum_is_the_exact_one_or_none(
            values in prop::collection::vec(
                prop_oneof![-1e6..1e6_f64, 0.0..1e-9_f64, any::<f64>(), Just(1.0), Just(f64::EPSILON / 2.0), Just(1e30), Just(-1e30)],
                0..700,
            ),
        ) {
            if let Some(sum) = compensated(values.iter().copied()) {
                prop_assert_eq!(sum.to_bits(), accumulated(values.into_iter()).to_bits());
            }
        }

        #[test]
        fn two_numbers_add_up_as_the_processor_adds_them(a in any::<f64>(), b in any::<f64>()) {
            prop_assume!(a.is_finite() && b.is_finite());
            prop_assert_eq!(exact_sum([a, b]), a + b);
        }
    }
}
