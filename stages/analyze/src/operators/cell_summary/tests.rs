use statistics::Noise;

use super::*;

/// A server behind a queue, and how requests arrive.
#[derive(Clone, Copy)]
struct Queue {
    /// The requests that it serves at a time, each in 0.1 s.
    slots: usize,
    /// The part of its time in which a slot is busy.
    load: f64,
    /// Whether gaps between arrivals have four times the variance of exponential ones, as those of gamma with burstiness 0.25.
    bursts: bool,
}

/// Simulates the latencies of a cell, in milliseconds, from an empty queue on.
fn latencies(noise: &mut Noise, queue: Queue, requests: usize) -> Vec<f64> {
    const SERVICE: f64 = 0.1;
    // Two exponentials of balanced means.
    const SHORT: f64 = 0.887_298_334_620_741_7;
    let gap = SERVICE / (queue.slots as f64 * queue.load);
    let mut free = vec![0.0_f64; queue.slots];
    let mut now = 0.0;
    let request = |_| {
        let mean = match queue.bursts {
            false => gap,
            true if noise.uniform() < SHORT => gap / (2.0 * SHORT),
            true => gap / (2.0 * (1.0 - SHORT)),
        };
        now -= mean * noise.uniform().ln();
        let first = free.iter_mut().min_by(|a, b| a.total_cmp(b)).unwrap();
        *first = first.max(now) + SERVICE * (0.1 * noise.normal()).exp();
        1_000.0 * (*first - now)
    };
    (0..requests).map(request).collect()
}

/// Simulates latencies of which a fifth, in phases of 25 requests, are twice as long.
fn phases(noise: &mut Noise, requests: usize) -> Vec<f64> {
    const PHASE: usize = 25;
    let mut left = 0;
    let request = |_| {
        left = match left {
            0 if noise.uniform() < 0.01 => PHASE,
            left => usize::saturating_sub(left, 1),
        };
        let usual = if left > 0 { 200.0 } else { 100.0 };
        usual * (0.1 * noise.normal()).exp()
    };
    (0..requests).map(request).collect()
}

/// Returns the parts of cells whose interval of a quantile is printed, and whose printed interval misses the quantile, for
/// each of [`QUANTILES`].
fn printed_and_wrong(
    cells: usize,
    mut cell: impl FnMut(&mut Noise) -> Vec<f64>,
) -> [(f64, f64); 4] {
    let mut noise = Noise(11);
    let cells: Vec<Vec<f64>> = (0..cells).map(|_| cell(&mut noise)).collect();
    let truth = Sample::new(cells.concat()).unwrap();
    let dependence = Dependence {
        queue: true,
        waves: None,
    };
    let mut counts = [(0, 0); 4];
    for values in &cells {
        let made = Distribution::of_requests(values, dependence).unwrap();
        for ((count, interval), (_, p)) in counts.iter_mut().zip(made.intervals).zip(QUANTILES) {
            let Some(Interval { low, high }) = interval else {
                continue;
            };
            count.0 += 1;
            count.1 += usize::from(!(low..=high).contains(&truth.quantile(p)));
        }
    }
    let part = |count: usize| count as f64 / cells.len() as f64;
    counts.map(|(printed, wrong)| (part(printed), part(wrong)))
}

/// The simulated cells of each kind.
const CELLS: usize = 500;

/// Returns a row of the table in `docs/operating-characteristics.md`.
fn row(name: &str, requests: usize, parts: [(f64, f64); 4]) -> String {
    let cells =
        parts.map(|(printed, wrong)| format!("{:.1} / {:.1}", 100.0 * printed, 100.0 * wrong));
    format!("| {name}, {requests} requests | {} |", cells.join(" | "))
}

#[test]
fn few_cells_of_a_queue_print_an_interval_that_misses_the_quantile() {
    let queue = |slots, load, bursts| Queue {
        slots,
        load,
        bursts,
    };
    let mut rows = Vec::new();
    for requests in [200, 600] {
        for (name, queue) in [
            ("one slot, load 0.5", queue(1, 0.5, false)),
            ("one slot, load 0.7", queue(1, 0.7, false)),
            ("one slot, load 0.9", queue(1, 0.9, false)),
            ("one slot, load 0.5, bursts", queue(1, 0.5, true)),
            ("four slots, load 0.9", queue(4, 0.9, false)),
            ("four slots, load 1", queue(4, 1.0, false)),
            ("eight slots, load 0.7", queue(8, 0.7, false)),
            ("a hundred slots, load 0.3", queue(100, 0.3, false)),
        ] {
            let parts = printed_and_wrong(CELLS, |noise| latencies(noise, queue, requests));
            rows.push(row(name, requests, parts));
            // The level of 5 %, with three standard errors.
            let most = 0.05 + 3.0 * (0.05 * 0.95 / CELLS as f64).sqrt();
            assert!(parts.iter().all(|(_, wrong)| *wrong <= most), "{rows:#?}");
            // A short cell of a long queue shows nothing about its tail.
            if queue.slots == 1 && queue.load == 0.9 {
                assert!(parts[1..].iter().all(|(printed, _)| *printed < 0.05));
            }
            // Requests that do not wait for each other keep their intervals.
            if queue.slots == 100 {
                assert!(parts[..3].iter().all(|(printed, _)| *printed > 0.9));
            }
        }
        let parts = printed_and_wrong(CELLS, |noise| phases(noise, requests));
        rows.push(row("slow phases of 25 requests", requests, parts));
        // A cell without a slow phase cannot show that there are any.
        assert!(parts.iter().all(|(_, wrong)| *wrong <= 0.2), "{rows:#?}");
    }
    // Little more than the 72 and 368 independent values that bound p95 and p99.
    for (requests, at) in [(100, 2), (400, 3)] {
        let parts = printed_and_wrong(CELLS, |noise| {
            latencies(noise, queue(100, 0.3, false), requests)
        });
        rows.push(row("a hundred slots, load 0.3", requests, parts));
        assert!(parts[at].0 > 0.9, "{rows:#?}");
    }
}
