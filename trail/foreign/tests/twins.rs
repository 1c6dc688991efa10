//! Documents with one error, each with a true twin, and unusual documents without one. No rule may report what is true.

use foreign::audit;

/// A pipe table from lines of cells between bars.
fn table(lines: &[&str]) -> String {
    let width = lines[0].split('|').count();
    let mut out = format!("| {} |\n{}|\n", lines[0], "|---".repeat(width));
    for line in &lines[1..] {
        out.push_str(&format!("| {line} |\n"));
    }
    out
}

fn findings(text: &str) -> Vec<String> {
    let audit = audit("r.md", &format!("# Report\n\n{text}\n"), &[]);
    let shown = |f: foreign::Finding| format!("{}: {}", f.rule, f.message);
    audit.findings.into_iter().map(shown).collect()
}

/// Sentences about the table of hosts, true and false.
#[rustfmt::skip]
const HOSTS: &[&str] = &["Host | Wait (ms) | Rate (req/s) | Lost", "north | 71 | 2,415 | 0", "south | 96 | 1,880 | 5", "east | 64 | 2,633 | 2", "west | 64 | 2,390 | 0"];
#[rustfmt::skip]
const SENTENCES: &[(&str, &str)] = &[
    ("east has the highest rate (2,633 req/s).", "west has the highest rate (2,390 req/s)."),
    ("The lowest rate is that of south with 1,880 req/s.", "The highest rate is that of south with 1,880 req/s."),
    ("north (2,415 req/s) is faster than south (1,880 req/s).", "south (1,880 req/s) is faster than north (2,415 req/s)."),
    ("north is 28% faster than south in req/s.", "north is 48% faster than south in req/s."),
    ("east has 40% more req/s than south.", "east has 70% more req/s than south."),
    ("Three of the four hosts exceed 2,000 req/s.", "Two of the four hosts exceed 2,000 req/s."),
    ("One of the four hosts exceeds 90 ms.", "Three of the four hosts exceed 90 ms."),
    ("Every host exceeds 1.8k req/s.", "Every host exceeds 2.1k req/s."),
    ("south reaches 1.9k req/s.", "south reaches 1.6k req/s."),
    ("The hosts were rebooted. north reaches 2,415 req/s.", "The hosts were rebooted. north reaches 2,145 req/s."),
    ("The mean rate is 2,330 req/s.", "The mean rate is 2,710 req/s."),
    ("The average wait is 74 ms.", "The average wait is 56 ms."),
    ("south, our spare, waits for 96 ms.", "south, our spare, waits for 69 ms."),
];

/// A table with the place of a cell, a true value and a false one.
#[rustfmt::skip]
const TABLES: &[(&[&str], &str, &str)] = &[
    // Labels that begin with a number.
    (&["Cards | Rate (req/s)", "2×L4 | 311", "4×L4 | 604", "8×L4 | {}"], "1,166", "1,166"),
    // A constant.
    (&["Plan | req/s | req/min", "a | 2.1 | 126", "b | 2.5 | 150", "c | 4.2 | {}", "d | 6.1 | 366", "e | 9.4 | 564", "f | 12.5 | 750"], "252", "522"),
    (&["Plan | Rate | Price", "a | 400 | 30.00", "b | 500 | 24.00", "c | 600 | {}", "d | 750 | 16.00", "e | 800 | 15.00"], "20.00", "26.00"),
    (&["Load | Met | Late", "1 | 988 | 12", "2 | 951 | 49", "3 | 877 | {}", "4 | 640 | 360", "5 | 222 | 778"], "123", "132"),
    // Against the first row, and shares.
    (&["Format | Score | Δ", "a | 81.4 | 0.0", "b | 80.9 | −0.5", "c | 78.2 | {}", "d | 74.1 | −7.3", "e | 70.3 | −11.1"], "−3.2", "−2.3"),
    (&["Load | Hits | Misses | Hit share", "1 | 950 | 50 | 95.0%", "2 | 720 | 180 | 80.0%", "3 | 512 | 288 | {}", "4 | 410 | 410 | 50.0%", "5 | 120 | 280 | 30.0%"], "64.0%", "46.0%"),
    // Whole numbers are exact.
    (&["System | Boards | Points | Each", "a | 2 | 6,120 | 3,060", "b | 8 | 24,400 | 3,050", "c | 4 | 12,340 | {}", "d | 16 | 48,480 | 3,030", "e | 2 | 6,002 | 3,001"], "3,085", "3,805"),
    // Statistics in order.
    (&["Host | min | mean | max", "a | 12 | 20 | 31", "b | 14 | {} | 40", "c | 11 | 19 | 28"], "22", "52"),
    (&["Host | p50 | p90 | p99", "a | 120 ms | 410 ms | 1.2 s", "b | 130 ms | 480 ms | {}", "c | 99 ms | 300 ms | 0.9 s"], "1.1 s", "0.1 s"),
    // Few rows: many digits, a header that states the relation, a constant of the text.
    (&["Engine | Duration (s) | Output tokens | Output tok/s", "a | 84.2 | 221,873 | 2,635.1", "b | 79.6 | 221,873 | 2,787.3", "c | 102.9 | 219,405 | {}"], "2,132.2", "2,312.2"),
    (&["Load | p50 | p99 | p99/p50", "low | 2.04 | 3.31 | 1.6", "mid | 2.61 | 7.83 | 3.0", "high | 4.90 | 24.0 | {}"], "4.9", "3.9"),
    (&["Engine | Clients | req/s | Mean latency (s)", "a | 64 | 9.27 | 6.90", "b | 64 | 10.02 | 6.39", "c | 64 | 9.81 | {}"], "6.52", "5.62"),
    (&["Engine | chat | code | rag | geomean", "a | 1.20 | 1.45 | 1.10 | 1.24", "b | 1.62 | 0.80 | 1.90 | {}", "c | 0.95 | 0.98 | 0.70 | 0.87"], "1.35", "1.45"),
    (&["Phase | Base (s) | New (s)", "pull | 38.6 | 0.0 (cached)", "load | 52.3 | 11.9", "graphs | 31.0 | 30.8", "Sum | 121.9 | {}"], "42.7", "47.2"),
    // Intervals.
    (&["Arm | Mean | 95% CI", "a | 412 | [401, 423]", "b | 455 | {}", "c | 390 | [380, 400]"], "[447, 463]", "[477, 493]"),
    (&["Arm | Mean | 95% CI", "a | 412 | [401, 423]", "b | 455 | {}", "c | 390 | [380, 400]"], "[447, 463]", "[463, 447]"),
    // Winners and ranks.
    (&["Case | Otter (ms) | Stoat (ms) | Winner", "a | 14 | 18 | Otter", "b | 29 | 22 | Stoat", "c | 31 | 40 | {}", "d | 55 | 47 | Stoat"], "Otter", "Stoat"),
    (&["Rank | Team | Points", "1 | a | 88", "2 | b | 81", "3 | c | {}", "4 | d | 60"], "77", "87"),
    // Bounds.
    (&["Load | TTFT (ms) | E2E (ms)", "1 | 50 | 900", "2 | 61 | 1,020", "3 | {} | 1,300", "4 | 140 | 1,910"], "88", "8,800"),
    (&["Load | Sent | Completed", "1 | 400 | 400", "2 | 800 | 799", "3 | 1,200 | {}", "4 | 1,600 | 1,570"], "1,188", "1,881"),
    (&["Load | Hit rate", "1 | 41%", "2 | 66%", "3 | {}", "4 | 93%"], "79%", "179%"),
    // Totals.
    (&["Part | Files | Bytes", "a | 31 | 410", "b | 12 | 233", "c | 50 | 801", "Total | 93 | {}"], "1,444", "1,544"),
    (&["Part | Runs | Hours (h)", "a | 31 | 110.5", "b | 12 | 33.0", "c | 50 | 81.5", "Total | 93 | {}"], "225.0", "252.0"),
];

/// Statements that need no table.
#[rustfmt::skip]
const WRITTEN: &[(&str, &str)] = &[
    ("It drafted 118,240 and accepted 71,536 tokens, an acceptance rate of 60.5 %.", "It drafted 118,240 and accepted 71,536 tokens, an acceptance rate of 65.0 %."),
    ("We rejected 46,704 and accepted 71,536 tokens, an acceptance rate of 60.5 %.", "We rejected 46,704 and accepted 71,536 tokens, an acceptance rate of 65.0 %."),
    ("It reads 14.9 GiB in 11.9 s, that is 1.25 GiB/s.", "It reads 14.9 GiB in 11.9 s, that is 1.52 GiB/s."),
    ("A user streams at 1000 / 24.0 ≈ 41.7 tokens a second.", "A user streams at 1000 / 24.0 ≈ 47.1 tokens a second."),
    ("On a machine with two cores that both share:\n\n- a\n- b\n- c", "On this machine we use two cores:\n\n- a\n- b\n- c"),
    ("The patch halves the tail from 640 ms to 320 ms.", "The patch halves the tail from 640 ms to 520 ms."),
    ("It doubles our cache throughput from 1.1 GB/s to 2.2 GB/s.", "It doubles our cache throughput from 1.1 GB/s to 1.4 GB/s."),
    ("Loading fell from 90 s to 30 s, a threefold reduction.", "Loading fell from 90 s to 30 s, a fivefold reduction."),
    ("Loading fell from 90 s to 18 s (a 5-fold reduction).", "Loading fell from 90 s to 18 s (a 7-fold reduction)."),
    ("The rate rose from 1.5k req/s to 4.5k req/s, a 200% increase.", "The rate rose from 1.5k req/s to 4.5k req/s, a 150% increase."),
    ("The wait fell from 80 ms to 60 ms, a 25% drop. vLLM kept its rate.", "The wait fell from 80 ms to 60 ms, a 40% drop. vLLM kept its rate."),
    ("Die Wartezeit: 2,5 s → 1,5 s (−40 %).", "Die Wartezeit: 2,5 s → 1,5 s (−60 %)."),
    ("1.500 ms → 750 ms (−50 %), 2,5 GB → 5 GB (+100 %).", "1.500 ms → 750 ms (−80 %), 2,5 GB → 5 GB (+100 %)."),
    ("- Total: 800\n- Succeeded: 776\n- Failed: 24\n- Success rate: 97.0%\n", "- Total: 800\n- Succeeded: 776\n- Failed: 42\n- Success rate: 97.0%\n"),
    ("- Sent: 800\n- Passed: 776\n- Failed: 24\n- Failure rate: 3.0%\n", "- Sent: 800\n- Passed: 776\n- Failed: 24\n- Failure rate: 5.0%\n"),
    ("> [!NOTE]\n> The wait fell from 80 ms to 60 ms, a 25% drop.", "> [!NOTE]\n> The wait fell from 80 ms to 60 ms, a 40% drop."),
];

/// True statements that resemble errors.
#[rustfmt::skip]
const TRUE: &[&str] = &[
    "With 1,000 accepted requests of 64 clients, the hit rate is 70 %.", "It has 24 hours × 60 minutes × 7 days ≈ 10,000 minutes.",
    "It reads 14.9 GiB in 11.9 s, that is 1.34 GB/s.",
    // Settings at both ends, and a change of something else.
    "PP 2 → 4 (+35%)", "window 4k → 16k (−12%)", "batch 8 → 64 (+310%)", "From 4 to 16 threads, a 2.1x speedup.",
    "Raising --max-batched-tokens from 2048 to 8192, a 9% gain.", "max_num_seqs=64 → 128 (+7%)",
    "Memory per card 24 GB → 48 GB (1.2x faster)", "Raising the limit from 300 W to 450 W brings an 8% gain.",
    "A clock from 1.2 GHz to 1.8 GHz, 1.3x faster.", "Weights from 16 to 4 bits, 2.2x faster", "Ruby 3.2 → 3.3 (+15%)",
    "Going from 32 GB to 64 GB gave a 5% gain.",
    // Withdrawn and quoted.
    "The wait fell from 80 ms to 60 ms, a ~~40%~~ 25% drop.", "The wait fell from 80 ms to 60 ms, a <s>40%</s> 25% drop.",
    "<del>The wait fell from 80 ms to 60 ms, a 40% drop.</del>", "> It fell from 80 ms to 60 ms, a 40% drop.\n\nNo: a quarter.",
    // Rates of another time.
    "We sent 600 requests in 40 s (16.5 req/s after the ramp of 5 s).", "2,000 requests in 100 s (22 req/s at the peak).",
    // Decimal commas and points as thousands.
    "0,8 → 1,6 (+100 %)", "3,5 h × 2 = 7 h", "1.500 + 500 = 2.000", "2,25 GB + 0,75 GB = 3 GB", "12 × 1.250 = 15.000",
    // Rounder words.
    "Loading fell from 100 s to 22 s, more than a fourfold reduction.", "The patch roughly halves the tail from 640 ms to 350 ms.",
    "It halves the price when going from 8 nodes to 6 nodes.", "A gain of 1.1k tok/s: from 2.2k tok/s to 3.3k tok/s.",
    // Lists of other outcomes.
    "- Total: 800\n- Succeeded: 776\n- Failed: 20\n- Cancelled: 4\n", "- Total: 800\n- Succeeded: 700 (100 still run)\n- Failed: 0\n",
    "- Succeeded: 776\n- Failed: 24\n- Retried: 9\n", "- Total requests: 800\n- Succeeded after a retry: 42\n",
    "- Total time: 300\n- Completed: 500\n- Failed: 2\n", "- All runs: 5\n- Successful requests: 4000\n",
    "- Total suites: 12\n- Passed: 340\n", "- Total: 1000\n- Succeeded: 1000\n- Errors: 3 (retried)\n",
    "- Total: 1000\n- Succeeded: 1000\n- Errors: 3\n", "- Total: 800\n- Completed: 800\n- Failed: 0\n- SLO success rate: 96.2%\n",
    // Several steps, and changes against another system.
    "Throughput doubles twice, from 100 tok/s to 400 tok/s.", "The price halves every year, from $1.00 to $0.25.",
    "Each step doubles again, from 100 tok/s to 400 tok/s.", "It rose from 12 tok/s to 50 tok/s, a twofold gain over SGLang.",
    "It rose from 12 to 50 tok/s, a twofold gain over SGLang.", "It rose from 12 tok/s to 50 tok/s, a twofold gain compared with SGLang.",
];

/// True tables that resemble errors.
#[rustfmt::skip]
const TRUE_TABLES: &[&[&str]] = &[
    // Totals that are not sums.
    &["Host | Jobs | Mean wait (ms)", "a | 200 | 30", "b | 600 | 50", "Total | 800 | 45"],
    &["Host | Jobs | p95 (ms)", "a | 200 | 30", "b | 600 | 50", "Total | 800 | 48"],
    &["Shard | Rows | Wall time (s)", "a | 200 | 31", "b | 600 | 55", "Total | 800 | 61"],
    &["Shard | Rows | TTFT (ms)", "a | 200 | 31", "b | 600 | 55", "c | 100 | 40", "Total | 900 | 130"],
    &["Metric | a | b | Total", "Jobs | 200 | 600 | 800", "Lost | 1 | 3 | 4", "Rate (req/s) | 10 | 30 | 25"],
    // Means of ratios.
    &["Case | Old | New | Ratio", "a | 20 | 40 | 2.00", "b | 30 | 30 | 1.00", "c | 10 | 40 | 4.00", "d | 50 | 75 | 1.50", "Mean | 27.5 | 46.3 | 2.13"],
    // Decimal commas.
    &["Fall | Anfragen | Token", "a | 700 | 10", "b | 850 | 20", "c | 1.450 | 30", "Total | 3.000 | 60"],
    &["Fall | Alt (s) | Neu (s) | Speedup", "a | 4,5 | 1,5 | 3,0x", "b | 8,0 | 2,0 | 4,0x", "c | 9,0 | 6,0 | 1,5x", "d | 5,0 | 2,5 | 2,0x"],
    &["Fall | p50 (ms) | p99 (ms)", "a | 310,5 | 1.204,0 ", "b | 290,1 | 998,5", "c | 401,9 | 1.310,2"],
    // A cap of the load.
    &["Limit of clients | req/s | Latency (s)", "8 | 4.0 | 2.0", "16 | 6.4 | 2.5", "32 | 8.0 | 4.0", "64 | 10.0 | 6.4", "500 | 11.0 | 7.0"],
    // A ladder that saturates.
    &["Clients | tok/s", "1 | 100", "2 | 200", "4 | 400", "8 | 800", "16 | 1,200"],
    &["Planned | Done | Host", "320 | 320 | a", "410 | 410 | b", "505 | 505 | c", "610 | 600 | d", "777 | 777 | e"],
    // Rounded whole numbers.
    &["Case | Before (s) | After (s) | Speedup", "a | 912 | 304 | 3.00x", "b | 850 | 425 | 2.00x", "c | 999 | 222 | 4.50x", "d | 640 | 128 | 5.00x", "e | 3 | 2 | 1.25x"],
    // Heavy tails, falling percentiles, other windows.
    &["Host | mean | p50 | p95 | max", "a | 90 | 20 | 41 | 3,000", "b | 30 | 21 | 44 | 610", "c | 25 | 22 | 40 | 99"],
    &["Length | Prefill (ms) | Decode (ms) | E2E (ms)", "1k | 100 | 500 | 600", "2k | 210 | 500 | 710", "4k | 450 | 505 | 955", "8k | 1,010 | 520 | 1,550", "16k | 2,400 | 560 | 2,960"],
    // Medians of ratios are near the ratio of medians; percentiles of shares; gains of both more and less.
    &["Streams | bare | load | ratio", "64 | 7.0 µs | 9.1 µs | 1.18", "256 | 7.0 µs | 8.4 µs | 1.18", "1,024 | 6.7 µs | 7.9 µs | 1.20", "4,096 | 5.1 µs | 6.7 µs | 1.36"],
    &["Case | sglang | vllm | effect", "a | 153.7 | 152.7 | 1.006", "b | 23.17 | 19.45 | 1.176", "c | 2,150 | 2,081 | 1.033", "d | 59.88 | 72.16 | 0.8280", "e | 5,786 | 5,726 | 1.006", "f | 134.7 | 226.3 | 0.5955", "g | 645.1 | 640.6 | 0.9689", "h | 120.1 | 128.3 | 0.9263"],
    &["Load | p50, covered | p90, covered", "1 | 94.9 % | 95.3 %", "2 | 95.1 % | 95.6 %", "4 | 97.0 % | 96.3 %", "8 | 95.0 % | 95.2 %"],
    &["Metric | old | new | improvement", "tok/s | 1,418 | 1,861 | +31.2%", "req/s | 6.02 | 7.91 | +31.4%", "TTFT (ms) | 412 | 268 | +35.0%"],
    // A rounder window.
    &["Engine | Duration (s) | Output tokens | Output tok/s", "a | 84.2 | 221,873 | 2,635.1", "b | 79.6 | 221,873 | 2,787.3", "c (ramp cut) | 102.9 | 219,405 | 2,312.2"],
    // Several winners by several metrics.
    &["Metric | Otter | Stoat | Winner", "Rate (req/s) | 90 | 80 | Otter", "Wait (ms) | 30 | 20 | Stoat", "Power (W) | 300 | 250 | Stoat", "Score | 7 | 8 | Stoat", "Cost ($) | 5 | 9 | Otter"],
    &["Case | Otter (ms) | Stoat (ms) | Winner", "a | 14 | 18 | Otter", "b | 29 | 22 | Stoat", "c | 31 | 31 | Otter", "d | 55 | 47 | tie"],
    // Ranks by another number.
    &["Rank | Team | Size (B)", "1 | a | 70", "2 | b | 8", "3 | c | 32", "4 | d | 3"],
    // Bold marks a row.
    &["Way | A | B | C | D", "a | 1 | 4 | 2 | **9**", "b | **3** | **6** | **5** | 8", "c | 2 | 5 | 4 | 7"],
    // A third outcome.
    &["Load | Succeeded | Failed | Cancelled", "1 | 990 | 10 | 0", "2 | 960 | 40 | 0", "4 | 811 | 180 | 9", "8 | 700 | 300 | 0", "16 | 420 | 580 | 0", "32 | 900 | 100 | 0"],
    &["Host | Succeeded | Failed | Cancelled", "a | 990 | 10 | 0", "b | 960 | 40 | 0", "c | 811 | 180 | 9", "d | 700 | 300 | 0", "e | 420 | 580 | 0"],
    // A run with early stops.
    &["Clients | Requests | Output tokens | Total tokens", "1 | 100 | 25,600 | 76,800", "2 | 200 | 51,200 | 153,600", "4 | 400 | 102,300 | 307,100", "8 | 800 | 204,800 | 614,400", "16 | 1,600 | 409,600 | 1,228,800"],
    &["Clients | Input tokens | Output tokens | Duration (s)", "1 | 51,200 | 25,600 | 11.0", "2 | 102,400 | 51,200 | 12.1", "4 | 204,800 | 102,300 | 14.2", "8 | 409,600 | 204,800 | 17.9", "16 | 819,200 | 409,600 | 25.0"],
    // Rows with a remark.
    &["Model | TPOT (ms) | tok/s", "3B | 5 | 200.0", "8B | 10 | 100.0", "7B (spec) | 12 | 93.3", "13B | 20 | 50.0", "34B | 40 | 25.0", "70B | 80 | 12.5"],
    &["Nodes | Time (h) | Cost ($)", "2 | 2 | 0.058", "4 | 4 | 0.116", "6 | 6 | 0.174", "8 (spot) | 8 | 0.223", "16 | 16 | 0.464", "32 | 32 | 0.928"],
    // Changes and sums of shares.
    &["Cache | Hit rate change (%)", "a | 12", "b | 31", "c | 140", "d | 55"],
    &["Build | Success rate vs baseline (%)", "a | 99", "b | 97", "c | 103", "d | 98"],
    &["Build | Hit rate (% of base)", "a | 99", "b | 97", "c | 103", "d | 98"],
    &["Load | GPU util (sum, %)", "1 | 60", "2 | 88", "4 | 97", "8 | 187"],
    // Intervals of another column.
    &["Arm | TTFT mean (ms) | CI of p50", "a | 412 | [401, 423]", "b | 455 | [407, 423]", "c | 390 | [380, 400]", "d | 395 | [380, 400]"],
    &["Arm | Launches | 95% CI", "a | 30 | [28, 33]", "b | 50 | [37, 43]", "c | 30 | [29, 34]", "d | 30 | [29, 35]"],
    // A winner within the noise.
    &["Case | Otter (ms) | Stoat (ms) | Winner", "a | 14.0 | 18.0 | Otter", "b | 29.0 | 22.0 | Stoat", "c | 31.4 | 31.0 | Otter", "d | 55.0 | 47.0 | Stoat"],
];

/// True sentences about the hosts.
#[rustfmt::skip]
const TRUE_SENTENCES: &[&str] = &[
    "north reaches 2,415 req/s, up from 2,145 req/s.", "north reaches 2,415 req/s (2,455 req/s with retries).",
    "south waits for 96 ms, of which 66 ms are disk.", "A rerun of north gave 2,425 req/s.", "Repeating north gave 2,425 req/s.",
    "north (eager) 2,315 req/s.", "Without the slowest probe south reaches 1,980 req/s.", "Instead of 1,680 req/s, south now reaches 1,880 req/s.",
    "Excluding restarts, west reaches 2,490 req/s.", "east is the fastest host by 218 req/s.", "west and east have the lowest wait (64 ms).",
    "Excluding north, the fastest host reaches 2,633 req/s.", "north (pinned) 2,215 req/s.",
    "On average, a probe of north takes 171 ms.", "The mean rate with keep-alive is 2,930 req/s.", "Two of the hosts lost nothing.",
    "north is faster than south by 535 req/s.", "east is faster than west in req/s, incl. retries.", "Only south stays above 90 ms.",
    "In req/s, east beats west by 10%.", "Three of the four hosts exceed 2.3k req/s.", "south rejected 5 requests, 71% of all 7.",
];

#[test]
fn an_error_is_found_and_its_true_twin_is_not_reported() {
    let hosts = table(HOSTS);
    let about = |sentence: &str| format!("{hosts}\n{sentence}");
    let mut twins: Vec<(String, String)> = Vec::new();
    twins.extend(
        SENTENCES
            .iter()
            .map(|(right, wrong)| (about(right), about(wrong))),
    );
    for (lines, right, wrong) in TABLES.iter().filter(|case| case.1 != case.2) {
        let whole = table(lines);
        twins.push((whole.replace("{}", right), whole.replace("{}", wrong)));
    }
    let cards = table(TABLES[0].0).replace("{}", "1,166");
    twins.push((
        format!("{cards}\n8×L4 reaches 1,166 req/s."),
        format!("{cards}\n8×L4 reaches 1,616 req/s."),
    ));
    twins.extend(
        WRITTEN
            .iter()
            .map(|(right, wrong)| ((*right).to_owned(), (*wrong).to_owned())),
    );
    let mut wrong_of: Vec<String> = Vec::new();
    for (right, wrong) in &twins {
        let (good, bad) = (findings(right), findings(wrong));
        if !good.is_empty() || bad.is_empty() {
            wrong_of.push(format!(
                "{wrong}\nreported of the true twin: {good:?}, of the false one: {bad:?}"
            ));
        }
    }
    assert!(wrong_of.is_empty(), "{}", wrong_of.join("\n\n"));
    assert!(twins.len() >= 40, "{}", twins.len());
}

#[test]
fn an_unusual_document_without_an_error_is_not_reported() {
    let hosts = table(HOSTS);
    let mut texts: Vec<String> = TRUE.iter().map(|text| (*text).to_owned()).collect();
    texts.extend(TRUE_TABLES.iter().map(|lines| table(lines)));
    let quantiles = table(&[
        "Load | TTFT p50 (ms) | tok/s",
        "1 | 41 | 310",
        "2 | 52 | 590",
        "4 | 59 | 1,010",
        "8 | 66 | 1,490",
    ]);
    texts.push(format!("{quantiles}\nThe mean TTFT is 95 ms."));
    texts.push(format!("{quantiles}\nThe mean TTFT is 45.5 ms."));
    texts.extend(
        TRUE_SENTENCES
            .iter()
            .map(|sentence| format!("{hosts}\n{sentence}")),
    );
    let reported: Vec<String> = texts
        .iter()
        .map(|text| (text, findings(text)))
        .filter(|(_, findings)| !findings.is_empty())
        .map(|(text, findings)| format!("{text}\n{findings:?}"))
        .collect();
    assert!(reported.is_empty(), "{}", reported.join("\n\n"));
    assert!(texts.len() >= 60, "{}", texts.len());
}

#[test]
fn findings_are_written_with_the_marks_of_the_document() {
    let text = "Die Wartezeit: 2,5 s → 1.250,5 ms (−60,5 %).";
    assert_eq!(
        findings(text),
        [
            "arithmetic: −60,5 % does not follow from 2,5 s and 1.250,5 ms: the change is −50,0 %, the factor 0,5"
        ]
    );
}
