//! Any text is audited without a panic; a long one in time (shown, not asserted) linear in its length.

use proptest::prelude::*;

use foreign::{audit, sarif};

fn survives(text: &str) {
    let result = audit("r.md", text, &[], Vec::new());
    let lines = text.lines().count().max(1);
    for finding in &result.findings {
        assert!(
            (1..=lines).contains(&finding.line) && finding.column >= 1,
            "{finding:?} in {text:?}"
        );
    }
    let document = sarif(&result);
    assert_eq!(
        document["runs"][0]["results"].as_array().map(Vec::len),
        Some(result.findings.len())
    );
}

/// Pieces of which reports are made, so that random texts reach the rules.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9]{1,4}(\\.[0-9]{1,3})?",
        "\\PC{0,6}",
        prop::sample::select(vec![
            "%",
            " of ",
            " (",
            ")",
            "→",
            "–",
            "-",
            "−",
            " × ",
            " = ",
            "+",
            "N=",
            "§",
            "SS",
            "|",
            "\n",
            "\n\n",
            "\n|---|---|\n",
            "```\n",
            "## ",
            "# 1. ",
            "- ",
            "from ",
            " to ",
            "every ",
            "no ",
            "above ",
            "steepest step ",
            "sheds ",
            "an order of magnitude smaller than ",
            " than Robin",
            "% slower",
            "P95 TTFT ",
            "Total",
            "Winner",
            "Δ%",
            "never",
            "[",
            ", ",
            "]",
            "{",
            "}",
            " > ",
            "high-0.8s at N=4",
            "T(u) = ",
            "K / u",
            "--flag 8 \\ #",
            "md5 ",
            "5fd15755…",
            " tok/W",
            " monotonically rises",
            "e-308",
            "×10⁻⁵",
            "k",
            "M",
        ])
        .prop_map(str::to_owned),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_text_is_audited_without_a_panic(text in "\\PC{0,300}") {
        survives(&text);
    }

    #[test]
    fn random_pieces_of_reports_are_audited_without_a_panic(pieces in prop::collection::vec(piece(), 0..80)) {
        survives(&pieces.concat());
    }

    #[test]
    fn random_tables_are_audited_without_a_panic(
        rows in prop::collection::vec(prop::collection::vec(piece(), 1..6), 2..12),
        text in prop::collection::vec(piece(), 0..20),
    ) {
        let mut report = String::from("## 1. A\n\n| m | N=1 | N=2 | N=4 |\n|---|---|---|---|\n");
        for row in rows {
            report.push_str(&format!("| {} |\n", row.join(" | ").replace('\n', " ")));
        }
        report.push_str(&format!("\n{}\n", text.concat()));
        survives(&report);
    }
}

#[test]
fn a_report_of_half_a_megabyte_is_audited_whole() {
    let part = "## 1. Part\n\nEvery model stays above 0.64 at N=8, a 20% loss (5 of 25) from 100 to 80 ms on the N=4→N=8 step.\n\n\
                | Model | N=1 | N=2 | N=4 | N=8 |\n|---|---|---|---|---|\n| ash-3b | 1.000 | 0.980 | 0.900 | 0.700 |\n| birch-7b | 1.000 | 0.970 | 0.880 | 0.650 |\n\n";
    let (small, large) = (part.repeat(250), part.repeat(2000));
    assert!(large.len() > 500_000);
    let tables = |text: &str| audit("r.md", text, &[], Vec::new()).tables;
    assert_eq!((tables(&small), tables(&large)), (250, 2000));
}
