//! Sentences that compare sides in many words. The false ones must be found, and the true ones, with hedges, exceptions,
//! levels and possessives, may not be reported.

use foreign::audit;

const ENGINES: &str = "## At 64 clients\n\n| Engine | Throughput (tok/s) | TTFT p50 (ms) | TTFT p99 (ms) | TPOT (ms) |\n|---|---:|---:|---:|---:|\n| Kite | 4,812 | 182 | 611 | 21.4 |\n| Wren | 5,236 | 164 | 548 | 19.8 |\n| Heron | 5,904 | 143 | 702 | 17.6 |\n| Crane | 3,487 | 264 | 1,137 | 29.5 |\n\n";
const LADDER: &str = "## Output throughput (tok/s)\n\n| Clients | Kite | Wren | Crane |\n|---:|---:|---:|---:|\n| 1 | 92 | 88 | 71 |\n| 8 | 688 | 671 | 503 |\n| 16 | 1,294 | 1,287 | 866 |\n| 32 | 2,210 | 2,391 | 1,312 |\n| 64 | 3,340 | 3,902 | 1,690 |\n\n";
const LONG: &str = "## Sweep\n\n| Engine | Clients | Output tok/s | p99 TTFT (ms) |\n|---|---:|---:|---:|\n| Kite | 8 | 690 | 142 |\n| Kite | 32 | 2,204 | 318 |\n| Kite | 128 | 4,310 | 1,240 |\n| Wren | 8 | 655 | 155 |\n| Wren | 32 | 2,380 | 287 |\n| Wren | 128 | 5,150 | 936 |\n\n";

#[rustfmt::skip]
const FALSE: &[(&str, &str)] = &[
    (ENGINES, "Kite beats Wren on every metric."),
    (ENGINES, "Wren reaches the highest throughput and the lowest TPOT."),
    (ENGINES, "Kite's p99 TTFT is better than Wren's."),
    (ENGINES, "Wren cuts p99 TTFT by about 30% compared with Kite."),
    (ENGINES, "Compared with Kite, Wren reduces p99 TTFT by 30%."),
    (ENGINES, "All engines keep p99 TTFT below one second."),
    (ENGINES, "Only Kite misses the 1 s SLO on p99 TTFT."),
    (ENGINES, "Median TTFT ranges from 164 ms (Wren) to 264 ms (Crane)."),
    (ENGINES, "TPOT stays between 17 and 25 ms."),
    (ENGINES, "Crane has five times the p99 TTFT of Wren."),
    (ENGINES, "Wren halves p99 TTFT relative to Kite."),
    (LADDER, "Kite beats Wren at every concurrency."),
    (LADDER, "Wren overtakes Kite from 16 clients on."),
    (LADDER, "Kite is faster than Wren at 32 and 64 clients."),
    (LADDER, "Kite exceeds Wren below 64 clients."),
    (LONG, "Kite keeps p99 TTFT under one second at every concurrency."),
    (LONG, "At 8 clients Wren is faster than Kite."),
    (LONG, "Kite has a lower p99 TTFT than Wren from 32 clients on."),
];

#[rustfmt::skip]
const TRUE: &[(&str, &str)] = &[
    (ENGINES, "Heron beats Kite on almost every metric."),
    (ENGINES, "Heron beats Kite on every metric but p99 TTFT."),
    (ENGINES, "Wren beats Kite on every metric."),
    (ENGINES, "Heron has the highest throughput and the lowest TPOT."),
    (ENGINES, "Crane almost meets the 1 s SLO on p99 TTFT."),
    (ENGINES, "Crane does not meet the 1 s SLO on p99 TTFT."),
    (ENGINES, "Only Crane misses the 1 s SLO on p99 TTFT."),
    (ENGINES, "Crane's p99 TTFT is better than Kite's used to be."),
    (ENGINES, "Except for Crane, median TTFT stays between 143 and 182 ms."),
    (ENGINES, "Median TTFT stays between 140 and 190 ms for all engines but Crane."),
    (ENGINES, "Human readers want TPOT between 25 and 50 ms."),
    (ENGINES, "Crane is more than twice as slow as Wren at the p99 TTFT."),
    (ENGINES, "Heron is 1.5 times as slow as Wren at the tail and has 1.13 times the throughput."),
    (LADDER, "Kite beats Wren below 32 clients."),
    (LADDER, "Wren overtakes Kite beyond 16 clients."),
    (LADDER, "Kite is faster than Wren at 1, 8 and 16 clients."),
    (LADDER, "Kite beats Wren at every concurrency up to 16."),
    (LADDER, "Kite has its highest throughput at 64 clients."),
    (LADDER, "Kite's highest throughput is reached at 64 clients."),
    (LADDER, "The highest throughput of Kite is at 64 clients."),
    (LADDER, "At 8 clients the highest throughput is that of Kite."),
    (LADDER, "Over the sweep, Kite stays above Crane."),
    (LONG, "At 8 clients Kite is faster than Wren."),
    (LONG, "Wren keeps p99 TTFT under one second at every concurrency."),
    (LONG, "Kite at 32 clients is faster than Wren at 8 clients."),
];

fn findings((table, sentence): &(&str, &str)) -> usize {
    let text = format!("# Report\n\n{table}{sentence}\n");
    audit("r.md", &text, &[]).findings.len()
}

#[test]
fn false_comparisons_are_found_and_true_ones_are_not_reported() {
    let missed: Vec<_> = FALSE.iter().filter(|case| findings(case) == 0).collect();
    let accused: Vec<_> = TRUE.iter().filter(|case| findings(case) > 0).collect();
    let texts = |cases: &[&(&str, &str)]| -> Vec<String> {
        cases.iter().map(|case| case.1.to_owned()).collect()
    };
    assert_eq!((texts(&missed), texts(&accused)), (vec![], vec![]));
}

#[test]
fn a_factor_is_not_compared_with_a_column_that_only_the_number_behind_it_names() {
    let table = "## Boards\n\n| Board | Speed (tok/s) | Power (W) |\n|---|---:|---:|\n| Nano | 17.9 | 13.8 |\n| Orin | 47.0 | 39.2 |\n\n";
    let sentence = |n: &str| {
        format!("Orin generates {n} times as fast as Nano and needs 2.8 times the power.")
    };
    assert_eq!(findings(&(table, &sentence("2.6"))), 0);
}
