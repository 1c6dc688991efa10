//! Cases of rules that hold several tables, or prose and tables, against each other.

use foreign::Rule;

use crate::Case;
use crate::families::LADDER;

const GRID: &str = "## Grid

| Workload | Engine | Clients | Output tok/s | TTFT p50 (ms) |
|---|---|---|---|---|
| chat | swift | 1 | 48.25 | 295 |
| chat | swift | 8 | 50.75 | 1758 |
| chat | robin | 1 | 47.30 | 318 |
| chat | robin | 8 | 47.95 | 3236 |
| code | swift | 1 | 83.20 | 113 |
| code | swift | 8 | 86.15 | 787 |

## Top

| Workload | Engine | Throughput | TTFT p50 |
|---|---|---|---|
| code | swift | 86.15 | 787 |
| chat | robin | 47.95 | 3236 |

";

const VERDICTS: &str = "## Tests

| Workload | Pairs | Mean delta | Holm p | Significant | Verdict |
|---|---|---|---|---|---|
| chat | 12 | -0.0349 | 0.001 | yes | directional |
| code | 12 | +0.0022 | 0.652 | no | equivalent |
| search | 12 | +0.0757 | 0.002 | yes | directional |
| prose | 12 | +0.0148 | 0.003 | yes | directional |

";

const BREAKS: &str = "## Boundary

A cell breaks at the first N whose efficiency falls below 0.65.

| Cell | Swift break-N | Robin break-N |
|---|---|---|
| ash-3b chat | 16 | 32 |
| ash-3b code | never | 8 |
| oak-7b chat | 32 | 32 |

| Model | Swift N=32 (chat) | Robin N=32 (chat) |
|---|---|---|
| ash-3b | 0.610 | 0.633 |
| oak-7b | 0.641 | 0.644 |

";

pub(crate) fn cases() -> Vec<(Case, String)> {
    let case = |rule, report, from, to| Case {
        rule,
        report,
        from,
        to,
    };
    let list: Vec<(&str, Case)> = vec![
        // Two tables with the keys workload, engine and clients; the second has them in another order.
        (
            "## A\n\n| Workload | Clients | Rate |\n|---|---|---|\n| chat | 1 | 48.25 |\n| chat | 8 | 50.75 |\n| code | 1 | 83.20 |\n| code | 8 | 86.15 |\n| mail | 1 | 51.05 |\n\n## B\n\n",
            case(
                Rule::Same,
                "| Workload | Clients | Output tok/s |\n|---|---|---|\n| code | 8 | 86.15 |\n| code | 1 | 83.20 |\n| chat | 8 | 50.75 |\n| chat | 1 | 48.25 |\n",
                "| code | 8 | 86.15 |\n| code | 1",
                "| code | 8 | 88.15 |\n| code | 1",
            ),
        ),
        // The number of a sentence is that of the row that the sentence names.
        (
            LADDER,
            case(
                Rule::Same,
                "Here cedar-7b keeps 0.660 in the end.\n",
                "keeps 0.660",
                "keeps 0.680",
            ),
        ),
        (
            LADDER,
            case(
                Rule::Bind,
                "Here cedar-7b keeps 0.660 in the end.\n",
                "keeps 0.660",
                "keeps 0.650",
            ),
        ),
        (
            GRID,
            case(
                Rule::Same,
                "With swift on chat and 8 clients it is 50.75 tok/s.\n",
                "it is 50.75",
                "it is 50.85",
            ),
        ),
        (
            GRID,
            case(
                Rule::Bind,
                "With swift on chat and 8 clients it is 50.75 tok/s.\n",
                "it is 50.75",
                "it is 48.25",
            ),
        ),
        (
            BREAKS,
            case(Rule::Mono, "End.\n", "0.610 | 0.633", "0.655 | 0.633"),
        ),
        (
            BREAKS,
            case(
                Rule::Ident,
                "End.\n",
                "| oak-7b chat | 32 | 32 |",
                "| oak-7b chat | never | 32 |",
            ),
        ),
        (
            BREAKS,
            case(
                Rule::Grain,
                "At N=8 the worst model is at 0.712.\n",
                "worst model",
                "worst cell",
            ),
        ),
        (
            "",
            case(
                Rule::Def,
                "| Clients | Aggregate (tok/s) | Scaling efficiency |\n|---|---|---|\n| 10 | 224.6 | 100% |\n| 50 | 894.6 | 79.7% |\n| 100 | 1637.6 | 72.9% |\n",
                "72.9%",
                "69.5%",
            ),
        ),
        (
            "",
            case(
                Rule::Def,
                "Parallel efficiency at N is (tps_at_N) / tps_at_N=1 per client.\n",
                "at N is (tps_at_N)",
                "at N is (N × tps_at_N)",
            ),
        ),
        (
            "",
            case(
                Rule::Phys,
                "Efficiency fell to 0.547 at N=2, 0.295 at N=4, 0.127 at N=8 and 0.056 at N=16, an efficiency sequential from N=2 on.\n",
                "from N=2",
                "by N=16",
            ),
        ),
        (
            "## Logs\n\n| Metric | Value |\n|---|---|\n| Sustained throughput | 1637.6 tok/s |\n\n## Summary\n\n",
            case(
                Rule::Stat,
                "| Metric | Swift | Robin |\n|---|---|---|\n| Mean throughput | 1622.6 tok/s | 2023.3 tok/s |\n| MFU | 17.5% | 21.6% |\n",
                "Mean throughput | 1622.6",
                "Peak throughput | 1637.6",
            ),
        ),
        (
            VERDICTS,
            case(
                Rule::Count,
                "The delta is significant on 3 of 4 workloads.\n",
                "3 of 4",
                "2 of 4",
            ),
        ),
        (
            VERDICTS,
            case(
                Rule::Count,
                "Three of four workloads are directional.\n",
                "Three",
                "Two",
            ),
        ),
        (
            VERDICTS,
            case(
                Rule::Quant,
                "They are near-identical on code workloads.\n",
                "on code",
                "on search and code",
            ),
        ),
        (
            "",
            case(
                Rule::Count,
                "Of the plan 318 of 320 cells are ok, 2 failed.\n",
                "318 of",
                "308 of",
            ),
        ),
        (
            "",
            case(
                Rule::Count,
                "| Gate | Judged | Passed | Failed | Skipped |\n|---|---|---|---|---|\n| rows | 318 | 317 | 1 | 0 |\n| digests | 318 | 318 | 0 | 0 |\n| census | 40 | 38 | 1 | 1 |\n| lag | 318 | 318 | 0 | 0 |\n| pairs | 318 | 0 | 16 | 302 |\n",
                "16 | 302",
                "16 | 320",
            ),
        ),
        (
            "| Metric | Swift |\n|---|---|\n| Throughput | 1637.6 tok/s |\n\n",
            case(
                Rule::Arith,
                "- Target: 1800-1900 tok/s (10-16% improvement)\n",
                "10-16%",
                "10-13%",
            ),
        ),
        (
            "## Load\n\n",
            case(
                Rule::Lic,
                "| Users | Rate |\n|---|---|\n| 10 | 224.6 tok/s |\n| 50 | 894.6 tok/s |\n| 100 | 1637.6 tok/s |\n| 150 | 2200.5 tok/s |\n\n## Fit\n\n```\nT(u) = (Vmax × u) / (K + u)\n  Vmax = 1000.0 tok/s\n  K = 100.0 users\n  R² = 0.999\n```\n\n| Users | Predicted |\n|---|---|\n| 100 | 500 tok/s |\n| 900 | 900 tok/s |\n",
                "| 50 | 894.6 tok/s |\n",
                "",
            ),
        ),
        (
            "The servers have an A100 80GB each.\n\n",
            case(
                Rule::Phys,
                "One ran on SXM (~2.0 TB/s HBM), one on PCIe (~1.9 TB/s HBM).\n",
                "~1.9 TB/s",
                "~1.5 TB/s",
            ),
        ),
        (
            "",
            case(
                Rule::Conf,
                "Wheels 2.9.0+cu130 and 2.11.0+cu130 run on the same CUDA-13 stack.\n",
                "2.9.0+cu130",
                "2.8.0+cu128",
            ),
        ),
        (
            "The grid is 5 models × 6 levels × 3 reps = 90 cells.\n\n",
            case(
                Rule::Count,
                "For each (model × level × rep) cell of both engines the pair is tested. The number of pairs per workload is 90.\n",
                "is 90",
                "is 25",
            ),
        ),
        // The numbers of one sentence.
        (
            "",
            case(
                Rule::Count,
                "In all 14 of 16 rows are ok.\n",
                "14 of",
                "17 of",
            ),
        ),
        (
            "",
            case(
                Rule::Arith,
                "They go from 0.827 to 0.831, a spread of 0.004 over 4 models.\n",
                "0.827",
                "0.527",
            ),
        ),
        (
            "",
            case(
                Rule::Arith,
                "It is 0.841 for swift against 0.743 for robin over 9 pairs, a mean delta of +0.0977.\n",
                "+0.0977",
                "+0.0877",
            ),
        ),
        (
            "",
            case(
                Rule::Ident,
                "The delta is +0.0977 with the interval [+0.0702, +0.1255].\n",
                "+0.0977",
                "+0.1977",
            ),
        ),
        (
            "",
            case(
                Rule::Ident,
                "The delta is +0.0977 with the interval [+0.0702, +0.1255].\n",
                "+0.1255",
                "−0.1255",
            ),
        ),
        (
            "",
            case(
                Rule::Unit,
                "The 95 % bootstrap interval is wide.\n",
                "95 %",
                "95 percentage points",
            ),
        ),
        (
            "",
            case(
                Rule::Bind,
                "It is 0.841 for swift against 0.743 for robin.\n",
                "robin",
                "swift",
            ),
        ),
        (
            "The 95 % interval is in Table 1. A 95 % interval is by t. Each 95 % interval is wide. No 95 % interval is read.\n\n",
            case(
                Rule::Same,
                "The 95 % interval of the delta is narrow.\n",
                "95 % interval of",
                "93 % interval of",
            ),
        ),
        (
            "",
            case(
                Rule::Ref,
                "Table 1. A.\n\nx\n\nTable 2. B.\n\nx\n\nTable 3. C.\n",
                "Table 2.",
                "Table 7.",
            ),
        ),
        // Attributes of a restated cell.
        (
            VERDICTS,
            case(
                Rule::Same,
                "On search the delta is +0.0757 here.\n",
                "+0.0757 here",
                "−0.0757 here",
            ),
        ),
        (
            GRID,
            case(
                Rule::Unit,
                "With swift on code and 8 clients it is 86.15 tok/s.\n",
                "86.15 tok/s.",
                "86.15 req/s.",
            ),
        ),
        (
            GRID,
            case(
                Rule::Stat,
                "With swift on chat and 8 clients the p50 is 1758 ms.\n",
                "the p50",
                "the p95",
            ),
        ),
        // The rows of a grid.
        (
            "",
            case(
                Rule::Dup,
                "| Model | Users | Rate |\n|---|---|---|\n| ash | 1 | 48.25 |\n| ash | 8 | 50.75 |\n| oak | 1 | 47.35 |\n| oak | 8 | 47.95 |\n",
                "| oak | 8",
                "| oak | 1",
            ),
        ),
        (
            "",
            case(
                Rule::Shape,
                "| Model | Users | Rate |\n|---|---|---|\n| ash | 1 | 48.25 |\n| ash | 4 | 49.85 |\n| ash | 8 | 50.75 |\n| oak | 1 | 47.35 |\n| oak | 4 | 47.65 |\n| oak | 8 | 47.95 |\n| elm | 1 | 46.15 |\n| elm | 4 | 46.55 |\n| elm | 8 | 46.95 |\n",
                "| oak | 4 | 47.65 |\n",
                "",
            ),
        ),
    ];
    list.into_iter()
        .map(|(before, case)| (Case { ..case }, format!("{before}{}", case.report)))
        .collect()
}
