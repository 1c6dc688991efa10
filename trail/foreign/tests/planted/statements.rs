//! Cases of statements: quantifiers over the rows of a table, and the names of statistics.

use foreign::Rule;

use crate::Case;

const DELTAS: &str = "## Deltas

Swift less Robin, by workload:

| Workload | Pairs | Mean delta | Verdict |
|---|---:|---:|---|
| chat | 12 | +0.0977 | directional |
| code | 12 | +0.0321 | directional |
| search | 12 | −0.0208 | equivalent |
| summary | 12 | +0.0130 | directional |

";

const CURVES: &str = "## Curves

| Workload | Efficiency | Serial reference | Planted share | Fitted share | Falls at each step |
|---|---:|---:|---:|---:|---|
| chat | 0.871 | 0.125 | 0.0216 | 0.0214 | yes |
| code | 0.719 | 0.125 | 0.0565 | 0.0557 | yes |
| search | 0.912 | 0.125 | 0.0141 | 0.0137 | yes |
| summary | 0.829 | 0.125 | 0.0387 | 0.0380 | yes |

";

const OUTCOMES: &str = "## Outcomes

| Engine | Requests | Failed | Mean TTFT (ms) | P99 TTFT (ms) |
|---|---:|---:|---:|---:|
| swift | 500 | 0 | 121.4 | 842.0 |
| robin | 500 | 0 | 98.3 | 911.5 |

";

const STATISTICS: &str = "## One run

| Statistic | Swift | Robin |
|---|---:|---:|
| Mean TPOT (ms) | 21.4 | 18.7 |
| Median TPOT (ms) | 19.9 | 17.2 |
| P99 TPOT (ms) | 44.6 | 39.1 |

";

const METRICS: &str = "## Tests

| Metric | Pairs | Ratio | p |
|---|---:|---:|---:|
| ttft_ms_p50 | 8 | 0.58× | 0.008 |
| e2e_ms_p95 | 8 | 1.02× | 0.641 |

";

pub(crate) fn cases() -> Vec<(Case, String)> {
    let quantifiers = [
        (
            DELTAS,
            "The mean delta is positive on at least 3 of 4 workloads.\n",
            "at least 3",
            "more than 3",
        ),
        (
            DELTAS,
            "The mean delta is negative on fewer than 2 of 4 workloads.\n",
            "fewer than 2",
            "at least 2",
        ),
        (
            DELTAS,
            "At least 2 of 4 workloads are directional.\n",
            "At least 2",
            "Fewer than 2",
        ),
        (DELTAS, "Most workloads are directional.\n", "Most", "No"),
        (DELTAS, "Most workloads are directional.\n", "Most", "All"),
        (
            CURVES,
            "All 4 curves fall at each step.\n",
            "All 4 curves fall",
            "None of the 4 curves fall",
        ),
        (
            CURVES,
            "Every efficiency lies above the serial reference.\n",
            "Every",
            "No",
        ),
        (
            CURVES,
            "No workload has an efficiency below 0.65.\n",
            "No",
            "Every",
        ),
        (
            CURVES,
            "All 4 fitted shares lie within 0.01 of the planted shares.\n",
            "All",
            "None of the",
        ),
        (
            OUTCOMES,
            "No request failed.\n",
            "No request",
            "Every request",
        ),
        (
            "",
            "Swift answers every prompt of the chat workload at 8 clients.\n\n## Conclusion\n\n- Claimed: *Swift answers every prompt of the chat workload at 8 clients.*\n",
            "Claimed: *Swift answers every",
            "Claimed: *Swift answers no",
        ),
        (
            OUTCOMES,
            "No request failed.\n",
            "| robin | 500 | 0",
            "| robin | 500 | 3",
        ),
    ];
    let counts = [(
        DELTAS,
        "The mean delta is positive on exactly 3 of 4 workloads.\n",
        "exactly 3",
        "exactly 2",
    )];
    let statistics = [
        (
            OUTCOMES,
            "For swift the P99 TTFT is 842.0 ms.\n",
            "the P99",
            "the mean",
        ),
        (
            OUTCOMES,
            "The lower mean TTFT is 98.3 ms.\n",
            "mean TTFT",
            "P99 TTFT",
        ),
        (
            STATISTICS,
            "Robin has a median TPOT of 17.2 ms.\n",
            "a median",
            "a mean",
        ),
        (
            METRICS,
            "The median wait is 0.58× as long (p 0.008).\n",
            "median",
            "mean",
        ),
        (
            "",
            "## Waits\n\n**Table 2.** The p99 of the wait.\n\n| Engine | Wait p99 (ms) |\n|---|---:|\n| swift | 842.0 |\n| robin | 911.5 |\n",
            "The p99",
            "The p50",
        ),
        (
            "",
            "![Median wait by load](wait.svg)\n\n**Figure 1.** Median wait by load. Lower is better.\n",
            "1.** Median",
            "1.** Mean",
        ),
    ];
    let planted = |rule| {
        move |(before, report, from, to): (&str, &'static str, _, _)| {
            (
                Case {
                    rule,
                    report,
                    from,
                    to,
                },
                format!("{before}{report}"),
            )
        }
    };
    quantifiers
        .into_iter()
        .map(planted(Rule::Quant))
        .chain(counts.into_iter().map(planted(Rule::Count)))
        .chain(statistics.into_iter().map(planted(Rule::Stat)))
        .collect()
}

/// Statements that no column decides, or that hold once read as they are meant.
#[test]
fn a_statement_that_leaves_the_table_is_not_judged() {
    let reports = [
        (
            DELTAS,
            "The mean delta is positive on all 4 workloads after warm-up.",
        ),
        (DELTAS, "No workload but search is equivalent."),
        (DELTAS, "Every workload is directional at 64 clients."),
        (
            DELTAS,
            "Every workload of the second campaign is directional.",
        ),
        (CURVES, "All 7 curves fall at each step."),
        (CURVES, "Not all curves fall at each step."),
        (OUTCOMES, "Every warm-up request failed."),
        (OUTCOMES, "At least 3 of 1000 requests failed."),
        (
            CURVES,
            "At least 3 of 4 requests have an efficiency above 0.9.",
        ),
        (CURVES, "Fewer than 2 of 4 repetitions fall at each step."),
        (
            OUTCOMES,
            "The median of the mean TTFT is 109.9 ms, the largest P99 TTFT 911.5 ms.",
        ),
        (STATISTICS, "The mean p99 TPOT is 44.6 ms."),
        (STATISTICS, "The mean throughput is 17.2 tok/s."),
        (METRICS, "The mean load was 0.58× (12 clients)."),
    ];
    for (tables, sentence) in reports {
        let text = format!("{tables}{sentence}\n");
        let result = foreign::audit("r.md", &text, &[], Vec::new());
        assert!(result.findings.is_empty(), "{sentence}\n{result}");
    }
}
