//! The step in which a clock or a file records times.
//!
//! A clock that ticks every 15.6 ms, a browser that rounds to 1 ms, and a file in whole milliseconds record multiples of a step. A
//! step is invisible in means over many requests, and plain in the times themselves: the gaps between neighbouring times are
//! multiples of it.

/// The most times that are examined; of more, this many at equal distances.
const MOST: usize = 2_000;

/// How far a time may lie from the grid, as a share of the step. Steps of a sixtieth of a second are no whole
/// number of nanoseconds. A server that works in turns of equal length varies by more.
const TOLERANCE: f64 = 1e-3;

/// The share of the times that must lie on the grid. A few may come from elsewhere, for example from a retry.
const LEAST_SHARE: f64 = 0.9;

/// The fewest times that show a step.
const LEAST_TIMES: usize = 8;

/// The number of gaps that are tried as a multiple of the step, and the largest such multiple.
const TRIED: usize = 6;
const MULTIPLES: u32 = 8;

/// The shortest step that is looked for, ns. Below it, [`TOLERANCE`] would be finer than the unit of the times.
const SHORTEST: f64 = 1e3;

/// Returns the largest step, ns, by multiples of which most of the times, ns, differ. `None` for times of a finer clock, and
/// where too few different times exist to tell.
pub fn time_step(times: &[i64]) -> Option<f64> {
    let stride = times.len().div_ceil(MOST).max(1);
    let mut times: Vec<i64> = times.iter().step_by(stride).copied().collect();
    if times.len() < LEAST_TIMES {
        return None;
    }
    times.sort_unstable();
    let gaps = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64);
    let mut gaps: Vec<f64> = gaps.filter(|gap| *gap > 0.0).collect();
    gaps.sort_by(f64::total_cmp);
    let mut candidates: Vec<f64> = candidates(&gaps)
        .into_iter()
        .flat_map(|gap| (1..=MULTIPLES).map(move |part| gap / f64::from(part)))
        .filter(|step| *step >= SHORTEST)
        .collect();
    candidates.sort_by(|a, b| f64::total_cmp(b, a));
    let origins = origins(&times);
    candidates
        .into_iter()
        .find(|step| origins.iter().any(|origin| divides(*step, *origin, &times)))
}

/// Returns times that are probably multiples of the step: the most frequent one, and some in the middle.
fn origins(sorted: &[i64]) -> Vec<i64> {
    let runs = sorted.chunk_by(|a, b| a == b);
    let most = runs.max_by_key(|run| run.len()).map(|run| run[0]);
    let middle = [1, 2, 3].map(|quarter| sorted.get(quarter * sorted.len() / 4).copied());
    most.into_iter()
        .chain(middle.into_iter().flatten())
        .collect()
}

/// Returns the gaps that may be a small multiple of the step: the smallest different ones, and the median.
fn candidates(sorted: &[f64]) -> Vec<f64> {
    let mut few: Vec<f64> = Vec::new();
    for gap in sorted {
        let new = few
            .last()
            .is_none_or(|last| *gap > last * (1.0 + TOLERANCE));
        if new && *gap >= SHORTEST {
            few.push(*gap);
        }
        if few.len() == TRIED {
            break;
        }
    }
    few.extend(sorted.get(sorted.len() / 2).filter(|gap| **gap >= SHORTEST));
    few
}

/// Whether most times differ from one of them by multiples of a step, and enough do.
fn divides(step: f64, origin: i64, sorted: &[i64]) -> bool {
    let most = sorted.len() - (LEAST_SHARE * sorted.len() as f64).ceil() as usize;
    let mut others = 0;
    let mut multiples: Vec<i64> = Vec::new();
    for time in sorted {
        let count = (time - origin) as f64 / step;
        // A step that is no whole number of nanoseconds is known to one of them.
        let near = (TOLERANCE + count.abs() / step).min(10.0 * TOLERANCE);
        if (count - count.round()).abs() > near {
            others += 1;
            if others > most {
                return false;
            }
        } else if multiples.last() != Some(&(count.round() as i64)) {
            multiples.push(count.round() as i64);
        }
    }
    multiples.len() > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times that vary freely between 40 and 70 ms.
    fn free(n: i64) -> Vec<i64> {
        let draw = |i: i64| (i * 7_919_113_577 + i * i * 104_729_331) % 30_000_000;
        (1..=n).map(|i| 40_000_000 + draw(i).abs()).collect()
    }

    fn floored(times: &[i64], step: f64) -> Vec<i64> {
        let floor = |time: &i64| ((*time as f64 / step).floor() * step).round() as i64;
        times.iter().map(floor).collect()
    }

    #[test]
    fn the_step_of_floored_times_is_recovered() {
        for n in [12, 64, 500, 5_000] {
            for step in [1e6, 5e6, 15_625_000.0, 1e9 / 60.0] {
                let recovered = time_step(&floored(&free(n), step));
                assert!(
                    recovered.is_some_and(|s| (s / step - 1.0).abs() < 1e-3),
                    "{n} {step}: {recovered:?}"
                );
            }
        }
    }

    #[test]
    fn free_times_have_no_step() {
        for n in [2, 3, 4, 8, 64, 500, 5_000] {
            assert_eq!(time_step(&free(n)), None, "{n}");
        }
        assert_eq!(time_step(&[]), None);
        // One time says nothing about the clock.
        assert_eq!(time_step(&[16_000_000; 40]), None);
    }

    #[test]
    fn a_server_that_works_in_turns_is_no_coarse_clock() {
        // Turns of 25 ms that vary by 1 %.
        let noise = free(200);
        let times = noise
            .iter()
            .enumerate()
            .map(|(i, noise)| 25_000_000 * (1 + i as i64 % 7) + noise % 250_000);
        assert_eq!(time_step(&times.collect::<Vec<_>>()), None);
    }

    #[test]
    fn a_few_times_from_elsewhere_do_not_hide_a_step() {
        let mut times = floored(&free(100), 2e6);
        times[7] += 312_457;
        times[50] += 777_777;
        assert_eq!(time_step(&times), Some(2e6));
    }
}
