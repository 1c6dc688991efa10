//! Cases of the first families: arithmetic, counts, references, tables of one key.

use foreign::Rule;

use crate::Case;

pub(crate) const LADDER: &str = "## 1. Scaling

Efficiency by level:

| Model | N=1 | N=2 | N=4 | N=8 |
|---|---|---|---|---|
| ash-3b | 1.000 | 0.980 | 0.900 | 0.700 |
| birch-7b | 1.000 | 0.970 | 0.880 | 0.650 |
| cedar-7b | 1.000 | 0.975 | 0.890 | 0.660 |

";

const SYSTEMS: &str = "## Comparison

| Metric | Swift | Robin | Winner | Δ% |
|---|---|---|---|---|
| Throughput | 800.0 tok/s | 1000.0 tok/s | Robin | +25.0% |
| MFU @ 8u | 16.0% | 20.0% | Robin | +25.0% |
| TTFT P95 @ 8u | 540 ms | 400 ms | Robin | -25.9% |
| ITL P50 @ 16u | 25.0 ms | 20.0 ms | Robin | -20.0% |

";

const LOADS: &str = "## Load

| Users | Mean TTFT (ms) | P95 TTFT (ms) | P99 Latency (ms) |
|---|---|---|---|
| 10 | 100 | 200 | 900 |
| 50 | 140 | 300 | 1500 |
| 100 | 190 | 480 | 2400 |

";

pub(crate) fn cases() -> Vec<(Case, String)> {
    let case = |rule, report, from, to| Case {
        rule,
        report,
        from,
        to,
    };
    let list: Vec<(&str, Case)> = vec![
        (
            "",
            case(
                Rule::Shape,
                "| a | b |\n|---|---|\n| x | 1.5 |\n| y | 2.5 |\n",
                "| y | 2.5 |",
                "| y |",
            ),
        ),
        (
            "",
            case(
                Rule::Shape,
                "Model Alpha Beta\nred-1 16 32\nred-2 8 16\nred-3 32 32\n",
                "red-3 32 32",
                "red-3 32",
            ),
        ),
        (
            "",
            case(
                Rule::Arith,
                "Of all, 60.0% (12 of 20) passed.\n",
                "60.0%",
                "65.0%",
            ),
        ),
        (
            "",
            case(
                Rule::Arith,
                "Latency fell from 200 ms to 150 ms (-25%).\n",
                "-25%",
                "-45%",
            ),
        ),
        (
            "",
            case(
                Rule::Arith,
                "It loses 0.186 of efficiency (0.686 → 0.500).\n",
                "0.186",
                "0.196",
            ),
        ),
        (
            "",
            case(
                Rule::Arith,
                "It fell from 1.00 at N=1 to 0.40 at N=8 — a 60% loss of speed.\n",
                "60%",
                "70%",
            ),
        ),
        (
            "",
            case(
                Rule::Arith,
                "Throughput grew 100 → 300 tok/s (3.0x).\n",
                "3.0x",
                "4.0x",
            ),
        ),
        (
            "",
            case(
                Rule::Base,
                "Throughput grew 1000 → 1250 tok/s (+25%).\n",
                "+25%",
                "+20%",
            ),
        ),
        (
            "",
            case(
                Rule::Count,
                "The grid is 5 models × 4 levels × 3 reps = 60 cells.\n",
                "60 cells",
                "66 cells",
            ),
        ),
        (
            "",
            case(
                Rule::Count,
                "We ran 6 levels {1, 2, 4, 8, 16, 32} each.\n",
                "6 levels",
                "5 levels",
            ),
        ),
        (
            "",
            case(
                Rule::Count,
                "Of the 25 cells, 5 never break, 11 break late, and 9 break early.\n",
                "9 break",
                "8 break",
            ),
        ),
        (
            "",
            case(
                Rule::Time,
                "The run took from 10:00 to 11:30 (90 min).\n",
                "90 min",
                "45 min",
            ),
        ),
        (
            "",
            case(
                Rule::RowSum,
                "| Part | Requests |\n|---|---|\n| a | 100 |\n| b | 250 |\n| Total | 350 |\n",
                "350",
                "340",
            ),
        ),
        (
            "",
            case(
                Rule::Arith,
                "| m | best | worst | spread |\n|---|---|---|---|\n| a | 0.81 | 0.35 | 0.46 |\n| b | 0.72 | 0.31 | 0.41 |\n| c | 0.65 | 0.32 | 0.33 |\n| d | 0.78 | 0.44 | 0.34 |\n",
                "0.33 |",
                "0.39 |",
            ),
        ),
        (
            "",
            case(
                Rule::Ident,
                "| m | P50 TTFT | P99 TTFT |\n|---|---|---|\n| a | 120 | 300 |\n| b | 130 | 310 |\n",
                "130 | 310",
                "330 | 310",
            ),
        ),
        (
            "",
            case(
                Rule::Ident,
                "| m | mean | CI |\n|---|---|---|\n| a | 0.10 | [0.05, 0.15] |\n| b | 0.20 | [0.15, 0.25] |\n| c | 0.30 | [0.25, 0.35] |\n| d | 0.40 | [0.35, 0.45] |\n",
                "0.40 |",
                "0.50 |",
            ),
        ),
        (
            LOADS,
            case(
                Rule::Ident,
                "End.\n",
                "| 900 |\n| 50 | 140 | 300 | 1500 |\n| 100 | 190 | 480 | 2400 |",
                "| 202 |\n| 50 | 140 | 300 | 304 |\n| 100 | 190 | 480 | 485 |",
            ),
        ),
        (
            "",
            case(
                Rule::Ident,
                "| Users | Total (tok/s) | Per-request (tok/s) |\n|---|---|---|\n| 10 | 300 | 30.0 |\n| 20 | 500 | 25.0 |\n",
                "| 300 |",
                "| 220 |",
            ),
        ),
        (
            "",
            case(
                Rule::Stat,
                "| m | delta | p | sig. at 0.05 |\n|---|---|---|---|\n| a | 0.2 | 0.001 | yes |\n| b | 0.1 | 0.400 | no |\n",
                "0.001 | yes",
                "0.001 | no",
            ),
        ),
        (
            "",
            case(
                Rule::Def,
                "| Load | Mean TTFT | P99 TTFT | P99 Latency | Jitter (P99-Mean) |\n|---|---|---|---|---|\n| 1 | 100 | 150 | 400 | 50 |\n| 2 | 120 | 190 | 500 | 70 |\n",
                "400 | 50 |\n| 2 | 120 | 190 | 500 | 70 |",
                "400 | 300 |\n| 2 | 120 | 190 | 500 | 380 |",
            ),
        ),
        (
            LADDER,
            case(
                Rule::Argmax,
                "On every model the steepest step is the N=4→N=8 transition.\n",
                "N=4→N=8",
                "N=2→N=4",
            ),
        ),
        (
            LADDER,
            case(
                Rule::Range,
                "On the N=4→N=8 step every model sheds 0.20–0.23 of efficiency.\n",
                "0.20–0.23",
                "0.21–0.23",
            ),
        ),
        (
            LADDER,
            case(
                Rule::Range,
                "It goes through the high-0.9s at N=2 and the high-0.8s at N=4, roughly.\n",
                "at N=4",
                "at N=8",
            ),
        ),
        (
            LADDER,
            case(
                Rule::Ratio,
                "The N=1→N=2 step is 5x smaller than the N=4→N=8 step.\n",
                "5x",
                "20x",
            ),
        ),
        (
            LADDER,
            case(
                Rule::Quant,
                "The N=1→N=2 step is small, with the 7B models losing under 0.04.\n",
                "under 0.04",
                "under 0.02",
            ),
        ),
        (
            LADDER,
            case(
                Rule::Quant,
                "Every model stays above 0.64 at N=8.\n",
                "0.64",
                "0.66",
            ),
        ),
        (
            LADDER,
            case(
                Rule::Argmax,
                "The best at N=8 is ash-3b at 0.700.\n",
                "ash-3b at 0.700",
                "cedar-7b at 0.660",
            ),
        ),
        (
            LADDER,
            case(
                Rule::Mono,
                "Efficiency falls monotonically with N.\n",
                "0.880 | 0.650",
                "0.880 | 0.890",
            ),
        ),
        (
            LADDER,
            case(
                Rule::Rank,
                "At N=8 the order is ash-3b > cedar-7b > birch-7b\n",
                "cedar-7b > birch-7b",
                "birch-7b > cedar-7b",
            ),
        ),
        (
            SYSTEMS,
            case(
                Rule::Range,
                "Swift trails by 20-26% across all metrics.\n",
                "20-26%",
                "24-37%",
            ),
        ),
        (
            SYSTEMS,
            case(
                Rule::Win,
                "Robin wins 4 of 4 metrics.\n",
                "4 of 4",
                "3 of 4",
            ),
        ),
        (
            SYSTEMS,
            case(
                Rule::Base,
                "With 800.0 tok/s Swift is 20% slower than Robin.\n",
                "20% slower",
                "25% slower",
            ),
        ),
        (
            SYSTEMS,
            case(
                Rule::Unit,
                "With an MFU of 16.0% it is 20% lower than Robin.\n",
                "20% lower",
                "4% lower",
            ),
        ),
        (
            SYSTEMS,
            case(
                Rule::Unit,
                "The tree costs 20% MFU here.\n",
                "20% MFU",
                "4% MFU",
            ),
        ),
        (
            SYSTEMS,
            case(
                Rule::Bind,
                "P95 latency is 35% higher than Robin at 8 users.\n",
                "8 users",
                "16 users",
            ),
        ),
        (
            LOADS,
            case(
                Rule::Bind,
                "Mean TTFT increases 90% from 10→100 users.\n",
                "90%",
                "167%",
            ),
        ),
        (
            "",
            case(
                Rule::Unit,
                "- Swift: 400 GB/s (60.0% of peak)\n- Robin: 500 GB/s (75.0% of peak)\n- Difference: 25% better use\n",
                "25%",
                "15%",
            ),
        ),
        (
            "",
            case(
                Rule::Unit,
                "Fast (~2.0 TB/s) and Slow (~1.5 TB/s) differ; the 0.75 Slow/Fast bandwidth ratio was used.\n",
                "Slow/Fast",
                "Fast/Slow",
            ),
        ),
        (
            "",
            case(
                Rule::Unit,
                "| m | Energy |\n|---|---|\n| a | 6.5 tok/J |\n| b | 7.5 tok/J |\n",
                "6.5 tok/J",
                "6.5 tok/W",
            ),
        ),
        (
            "",
            case(
                Rule::Arith,
                "## Fit\n\n```\nT(u) = (Vmax × u) / (K + u)\n  Vmax = 1000.0 tok/s\n  K = 100.0 users\n```\n\n| Users | Predicted | Share |\n|---|---|---|\n| 100 | 500 tok/s | 50% |\n| 300 | 750 tok/s | 75% |\n| 900 | 900 tok/s | 90% |\n",
                "750 tok/s",
                "790 tok/s",
            ),
        ),
        (
            "",
            case(
                Rule::Ref,
                "# 1. A\n\nx\n\n# 2. B\n\nSee §1 and its neighbours.\n\n# 3. C\n\ny\n",
                "§1",
                "§7",
            ),
        ),
        (
            "",
            case(
                Rule::Ref,
                "# 1. A\n\n## 1.1 B\n\nx\n\n# 2. C\n\n## 2.1 D\n\ny\n",
                "2.1 D",
                "3.1 D",
            ),
        ),
        (
            "",
            case(
                Rule::Conf,
                "```bash\nserve --port 80 \\\n  --batch 8\n```\n",
                "80 \\\n",
                "80 \\ # the port\n",
            ),
        ),
        (
            "",
            case(
                Rule::Conf,
                "## Setup v2\n\n```\nserve --batch 8\n```\n\n## Plan for v2\n\n```\nserve --batch 8\n```\n",
                "Plan for v2\n\n```\nserve --batch 8",
                "Plan for v2\n\n```\nserve --batch 16",
            ),
        ),
        (
            "",
            case(
                Rule::Hash,
                "The md5 of the file is 5fd15755aa01bb02cc03dd04ee05ff06 as listed.\n",
                "5fd15755aa01bb02cc03dd04ee05ff06",
                "5fd15755…",
            ),
        ),
        (
            "",
            case(
                Rule::Dup,
                "| m | mean | median | p |\n|---|---|---|---|\n| a | 0.0349 | 0.0299 | 0.0018 |\n| b | 0.0351 | 0.0120 | 0.0006 |\n| c | 0.0148 | 0.0070 | 0.0013 |\n",
                "0.0351",
                "0.0349",
            ),
        ),
        (
            "",
            case(
                Rule::Same,
                "## A\n\n| m | N=1 | N=2 |\n|---|---|---|\n| a | 1.11 | 2.22 |\n| b | 3.33 | 4.44 |\n\n## B\n\n| m | N=1 | N=2 |\n|---|---|---|\n| b | 3.33 | 4.44 |\n| a | 1.11 | 2.22 |\n",
                "| a | 1.11 | 2.22 |\n| b",
                "| a | 1.11 | 2.92 |\n| b",
            ),
        ),
        (
            "",
            case(
                Rule::Quant,
                "## C\n\nThe decode rows are all dashes.\n\n| Cell | A | B |\n|---|---|---|\n| x decode | – | – |\n| x prefill | 16 | 32 |\n| y decode | – | – |\n| y prefill | 8 | 16 |\n| z decode | – | – |\n",
                "| z decode | – | – |",
                "| z decode | 16 | 32 |",
            ),
        ),
    ];
    list.into_iter()
        .map(|(before, case)| (Case { ..case }, format!("{before}{}", case.report)))
        .collect()
}
