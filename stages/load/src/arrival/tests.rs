use super::*;
use crate::random::Origin;
use crate::random::testing::{KS_LIMIT, ks};
use pipeline::stage::{Coordinates, Json};
use statrs::distribution::{ContinuousCDF, Exp, Gamma as GammaDistribution};

fn stream(seed: u64) -> Stream {
    Origin {
        seed,
        replicate: Coordinates::default(),
    }
    .stream("arrival", &Json::Null)
}

fn gaps(offsets: &[u64]) -> Vec<f64> {
    let shifted = std::iter::once(&0).chain(offsets);
    offsets
        .iter()
        .zip(shifted)
        .map(|(b, a)| (b - a) as f64 / 1e9)
        .collect()
}

#[test]
fn constant_arrivals_are_exactly_i_over_rate() {
    let arrival = Arrival::Constant(Rate { rate: 3.0 });
    let offsets = arrival.drawn(5, &stream(1)).unwrap();
    assert_eq!(
        offsets,
        [0, 333_333_333, 666_666_667, 1_000_000_000, 1_333_333_333]
    );
}

#[test]
fn a_burst_is_one_instant_and_closed_loops_have_no_schedule() {
    assert_eq!(Arrival::Burst.drawn(3, &stream(1)).unwrap(), [0, 0, 0]);
    assert!(Arrival::Sequential.drawn(3, &stream(1)).is_none());
}

#[test]
fn poisson_gaps_are_exponential() {
    let arrival = Arrival::Poisson(Rate { rate: 200.0 });
    for seed in [1, 2, 3] {
        let mut gaps = gaps(&arrival.drawn(20_000, &stream(seed)).unwrap());
        let exponential = Exp::new(200.0).unwrap();
        assert!(
            ks(&mut gaps, |x| exponential.cdf(x)) < KS_LIMIT,
            "seed {seed}"
        );
    }
}

#[test]
fn gamma_gaps_follow_the_gamma_of_shape_burstiness() {
    for burstiness in [0.25, 1.0, 4.0] {
        let arrival = Arrival::Gamma(Gamma {
            rate: 50.0,
            burstiness,
        });
        let mut gaps = gaps(&arrival.drawn(20_000, &stream(5)).unwrap());
        let gamma = GammaDistribution::new(burstiness, burstiness * 50.0).unwrap();
        assert!(
            ks(&mut gaps, |x| gamma.cdf(x)) < KS_LIMIT,
            "burstiness {burstiness}"
        );
    }
}

#[test]
fn the_first_arrivals_do_not_depend_on_how_many_follow() {
    let arrival = Arrival::Poisson(Rate { rate: 10.0 });
    let long = arrival.drawn(100, &stream(1)).unwrap();
    assert_eq!(arrival.drawn(10, &stream(1)).unwrap(), long[..10]);
}

fn ladder(process: Process) -> Arrival {
    let level = |rate, seconds| Level {
        rate,
        to: None,
        seconds,
    };
    Arrival::Steps(Steps {
        levels: vec![level(2.0, 1.0), level(0.0, 3.0), level(4.0, 0.5)],
        process,
    })
}

fn ramp(from: f64, to: f64, seconds: f64, process: Process) -> Arrival {
    Arrival::Ramp(Ramp {
        from,
        to,
        seconds,
        process,
    })
}

#[test]
fn even_steps_are_exact_pause_and_go_on_at_the_last_rate() {
    let offsets = ladder(Process::Constant).drawn(7, &stream(1)).unwrap();
    let ms: Vec<u64> = offsets.iter().map(|ns| ns / 1_000_000).collect();
    assert_eq!(ms, [0, 500, 4000, 4250, 4500, 4750, 5000]);
    assert_eq!(ladder(Process::Constant).room(), Some(4));
    assert_eq!(ladder(Process::Constant).peak_rate(), Some(4.0));
}

#[test]
fn an_even_ramp_is_exact_up_and_down() {
    // t(x) = √(2 · x · seconds / to) from 0: x = 5 t².
    let up = ramp(0.0, 20.0, 2.0, Process::Constant);
    let offsets = up.drawn(21, &stream(1)).unwrap();
    for (i, at) in offsets.iter().enumerate() {
        assert_eq!(*at, ((i as f64 / 5.0).sqrt() * 1e9).round() as u64);
    }
    assert_eq!((up.room(), up.rate()), (Some(20), Some(10.0)));
    let down = ramp(20.0, 10.0, 1.0, Process::Constant)
        .drawn(16, &stream(1))
        .unwrap();
    // Viewed from its end, the rate rises from 10 to 20: x = 10 t + 5 t².
    for (i, at) in down.iter().enumerate() {
        let left = 1.0 - *at as f64 / 1e9;
        assert!((10.0 * left + 5.0 * left * left - (15.0 - i as f64)).abs() < 1e-6);
    }
}

#[test]
fn a_rate_that_falls_to_nothing_ends_the_load_there() {
    let hill = Arrival::Steps(Steps {
        levels: vec![
            Level {
                rate: 0.0,
                to: Some(10.0),
                seconds: 2.0,
            },
            Level {
                rate: 10.0,
                to: None,
                seconds: 1.0,
            },
            Level {
                rate: 10.0,
                to: Some(0.0),
                seconds: 4.0,
            },
        ],
        process: Process::Constant,
    });
    assert_eq!(hill.lasts(true), Some(TimeSpan::seconds(7)));
    assert_eq!(hill.expected_within(7.0), Some((40.0, 0.0)));
    assert_eq!(hill.expected_within(1.0), Some((2.5, 0.0)));
    let offsets = hill.drawn(50, &stream(1)).unwrap();
    // The hill has 40 arrivals: 10 up, 10 on top, 20 down. None comes after it.
    for (arrival, seconds) in [
        (0, 0.0),
        (10, 2.0),
        (20, 3.0),
        (39, 7.0 - 0.2_f64.sqrt() * 2.0),
    ] {
        let at = offsets[arrival] as f64 / 1e9;
        assert!((at - seconds).abs() < 1e-3, "arrival {arrival} at {at} s");
    }
    assert!(offsets[40..].iter().all(|at| *at == u64::MAX));
    assert_eq!(ramp(3.0, 1.0, 2.0, Process::Poisson).lasts(true), None);
}

#[test]
fn random_arrivals_of_a_ladder_end_by_its_time_and_their_number_varies() {
    let levels = [(10.0, 1.0), (40.0, 0.5)].map(|(rate, seconds)| Level {
        rate,
        to: None,
        seconds,
    });
    let ladder = |process| {
        Arrival::Steps(Steps {
            levels: levels.to_vec(),
            process,
        })
    };
    let random = ladder(Process::Poisson);
    assert_eq!(random.lasts(true), None);
    assert_eq!(ladder(Process::Constant).lasts(false), None);
    let span = random.lasts(false).unwrap();
    assert_eq!(span, TimeSpan::milliseconds(1500));
    let count = crate::extent::enough_for(&random, span).unwrap() as usize;
    let counts: Vec<f64> = (0..200)
        .map(|seed| {
            let offsets = random.drawn(count, &stream(seed)).unwrap();
            offsets.partition_point(|at| *at < span.nanoseconds()) as f64
        })
        .collect();
    // Poisson of mean 30.
    let mean = counts.iter().sum::<f64>() / 200.0;
    let variance = counts.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / 199.0;
    assert!((28.5..31.5).contains(&mean), "{mean}");
    assert!((20.0..42.0).contains(&variance), "{variance}");
}

#[test]
fn a_ramp_without_slope_is_a_constant_rate() {
    let ramp = ramp(3.0, 3.0, 1.0, Process::Constant)
        .drawn(9, &stream(1))
        .unwrap();
    assert_eq!(
        ramp,
        Arrival::Constant(Rate { rate: 3.0 })
            .drawn(9, &stream(1))
            .unwrap()
    );
}

#[test]
fn expected_arrivals_between_poisson_arrivals_of_a_changing_rate_are_exponential() {
    let unit = Exp::new(1.0).unwrap();
    for seed in [1, 2, 3] {
        let offsets = ramp(0.0, 400.0, 100.0, Process::Poisson)
            .drawn(19_000, &stream(seed))
            .unwrap();
        let expected: Vec<f64> = offsets
            .iter()
            .map(|ns| 2.0 * (*ns as f64 / 1e9).powi(2))
            .collect();
        let mut gaps: Vec<f64> = expected.windows(2).map(|w| w[1] - w[0]).collect();
        assert!(
            ks(&mut gaps, |x| unit.cdf(x)) < KS_LIMIT,
            "ramp, seed {seed}"
        );
        let level = |rate| Level {
            rate,
            to: None,
            seconds: 50.0,
        };
        let steps = Steps {
            levels: vec![level(100.0), level(300.0)],
            process: Process::Poisson,
        };
        let offsets = Arrival::Steps(steps).drawn(20_000, &stream(seed)).unwrap();
        let cumulative = |at: f64| {
            if at < 50.0 {
                100.0 * at
            } else {
                5000.0 + 300.0 * (at - 50.0)
            }
        };
        let expected: Vec<f64> = offsets
            .iter()
            .map(|ns| cumulative(*ns as f64 / 1e9))
            .collect();
        let mut gaps: Vec<f64> = expected.windows(2).map(|w| w[1] - w[0]).collect();
        assert!(
            ks(&mut gaps, |x| unit.cdf(x)) < KS_LIMIT,
            "steps, seed {seed}"
        );
    }
}

#[test]
fn rates_and_times_that_make_no_sense_are_refused() {
    let steps = |levels: &[(f64, f64)]| {
        let levels = levels
            .iter()
            .map(|&(rate, seconds)| Level {
                rate,
                to: None,
                seconds,
            })
            .collect();
        Arrival::Steps(Steps {
            levels,
            process: Process::Poisson,
        })
    };
    for wrong in [
        steps(&[]),
        steps(&[(-1.0, 1.0), (1.0, 1.0)]),
        steps(&[(1.0, 0.0)]),
        steps(&[(0.0, 1.0), (0.0, 1.0)]),
        ramp(0.0, 0.0, 1.0, Process::Constant),
        ramp(f64::NAN, 1.0, 1.0, Process::Constant),
    ] {
        assert!(wrong.problem().is_some(), "{wrong:?}");
    }
    assert!(
        steps(&[(1.0, 1.0), (0.0, 2.0), (3.0, 1.0)])
            .problem()
            .is_none()
    );
}

#[test]
fn a_trace_arrives_as_recorded_or_faster_and_is_not_repeated() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "timestamp_ms\n100\n250\n1100\n").unwrap();
    let replay = |speed| {
        let file = file.path().to_str().unwrap().to_owned();
        Arrival::Trace(Replay {
            file,
            digest: None,
            speed,
        })
    };
    let offsets = |speed, count| replay(speed).offsets(count, &stream(1), &NamedFiles::default());
    assert_eq!(
        offsets(1.0, 3).unwrap().unwrap(),
        [0, 150_000_000, 1_000_000_000]
    );
    assert_eq!(offsets(2.0, 2).unwrap().unwrap(), [0, 75_000_000]);
    assert!(
        offsets(1.0, 4)
            .unwrap_err()
            .contains("holds 3 arrivals, but 4 are needed")
    );
    assert!(replay(0.0).problem().is_some());
}
