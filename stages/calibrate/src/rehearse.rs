//! A synthetic calibration for a dry run.

use load::{ClientHealth, Distribution};

use crate::account::{Account, Accounted};
use crate::grid::Grid;
use crate::point::{Errors, Measured};
use crate::result::{Calibration, Host};

/// Makes synthetic errors of a tenth of a millisecond, `slowdown` times as long, at every point.
pub(super) fn calibration(grid: &Grid, slowdown: f64) -> Calibration {
    let truth = grid.ttft.nanoseconds() as f64 / 1e6 * slowdown;
    let values = |from: f64| {
        Distribution::of(
            (0..8)
                .map(|i| from + 0.1 * slowdown * f64::from(i) / 7.0)
                .collect(),
        )
    };
    let errors = (values(0.0), values(truth + 0.05 * slowdown), values(truth));
    let (Some(absolute), Some(reported), Some(truth)) = errors else {
        unreachable!("eight values each")
    };
    let one = Errors {
        bias: absolute.mean,
        absolute,
        reported,
        truth,
    };
    let points = grid.points().into_iter().map(|point| Measured {
        point,
        joined: point.requests,
        lost: 0,
        errors: ["ttft", "e2e", "icl", "stamp", "send_lag"]
            .map(|metric| (metric, one))
            .into(),
        first_sent_ms: Some(slowdown),
        cpu_per_chunk_us: Some(3.0),
        bound_covers: Some(1.0),
        health: Some(ClientHealth::made_up(
            1e6,
            i64::from(u16::MAX),
            0.2 * slowdown,
        )),
    });
    Calibration {
        points: points.collect(),
        bound: grid.bound,
        host: Host::this(),
        server_core: None,
        tls: grid.tls,
    }
}

/// Makes the synthetic account of a server that reports its timings.
pub(super) fn account(account: &Account, slots: Option<u32>, slowdown: f64) -> Vec<Accounted> {
    let beyond =
        |longer: f64| Distribution::of((1..=8).map(|i| longer * slowdown * f64::from(i)).collect());
    let one = |concurrency| Accounted {
        concurrency,
        requests: account.requests,
        answered: account.requests,
        tokens_agree: account.requests,
        tokens_disagree: 0,
        ttft: beyond(0.2),
        e2e: beyond(0.3),
    };
    account.levels(slots).into_iter().map(one).collect()
}
