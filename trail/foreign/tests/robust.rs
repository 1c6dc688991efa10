//! Any text can be audited without a panic, in time that grows no faster than its length.

use std::path::Path;

use foreign::{Table, Unaudited, audit, html, markdown, sarif, supported};
use proptest::prelude::*;

fn survives(text: &str, data: &[Table]) {
    let result = audit("r.md", text, data);
    let lines = text.lines().count().max(1);
    for finding in &result.findings {
        assert!(
            (1..=lines).contains(&finding.line) && finding.column >= 1,
            "{finding:?} in {text:?}"
        );
    }
    assert!(markdown(&result).starts_with("# ") && html(&result).ends_with("</html>\n"));
    assert_eq!(
        sarif(std::slice::from_ref(&result))["runs"][0]["results"]
            .as_array()
            .map(Vec::len),
        Some(result.findings.len())
    );
}

/// The pieces of reports, chosen so that random texts reach the rules.
fn piece() -> impl Strategy<Value = String> {
    let words = [
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
        "u=",
        "|",
        "\n",
        "\n\n",
        "\n|---|---|\n",
        "```\n",
        "## ",
        "- ",
        "1. ",
        "from ",
        " to ",
        "every ",
        "no ",
        "above ",
        "faster than ",
        "peaks at ",
        " within ",
        "Total",
        "Mean",
        "Ratio",
        "P95 ",
        ", ",
        "[",
        "](#",
        "{",
        "}",
        "<!--",
        "-->",
        "[^1]",
        "e-308",
        "×10⁻⁵",
        "k",
        "ms",
        " of which ",
        "08:15",
    ];
    prop_oneof![
        "[0-9]{1,4}(\\.[0-9]{1,3})?",
        "\\PC{0,6}",
        prop::sample::select(words.to_vec()).prop_map(str::to_owned)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_pieces_are_audited_without_a_panic(pieces in prop::collection::vec(piece(), 0..80)) {
        survives(&pieces.concat(), &[]);
    }

    #[test]
    fn random_html_is_audited_without_a_panic(
        pieces in prop::collection::vec((0..24_usize, piece()), 0..80),
    ) {
        let tags = [
            "<table>", "</table>", "<tr>", "<td>", "<th colspan=3>", "<td rowspan=2>", "</td>", "<thead>", "<caption>",
            "</caption>", "<p>", "<h2>", "</h2>", "<ul>", "<li>", "</ul>", "<pre>", "</pre>", "<b>", "<code>", "<br>",
            "&nbsp;", "&amp;", "<a href='#x'>",
        ];
        let text: String = pieces.iter().map(|(tag, text)| format!("{}{text}", tags[*tag])).collect();
        survives(&format!("<html>{text}"), &[]);
    }

    #[test]
    fn random_tables_are_audited_and_traced_without_a_panic(
        rows in prop::collection::vec(prop::collection::vec(piece(), 1..6), 2..12),
        text in prop::collection::vec(piece(), 0..20),
    ) {
        let mut report = String::from("## 1. A\n\n| m | u=1 | u=2 | u=4 |\n|---|---|---|---|\n");
        for row in rows {
            report.push_str(&format!("| {} |\n", row.join(" | ").replace('\n', " ")));
        }
        report.push_str(&format!("\n{}\n", text.concat()));
        let tables = foreign::Document::parse(&report).tables;
        survives(&report, &tables);
    }
}

#[test]
fn every_table_of_a_long_report_is_read() {
    let part = "## 1. Part\n\nEvery host stays above 0.64 at u=8, a 20% loss (5 of 25) from 100 to 80 ms.\n\n\
                | Host | u=1 | u=2 | u=4 | u=8 |\n|---|---|---|---|---|\n| ash-3b | 1.000 | 0.980 | 0.900 | 0.700 |\n| birch-7b | 1.000 | 0.970 | 0.880 | 0.650 |\n\n";
    let large = part.repeat(1400);
    assert!(large.len() > 323_000);
    assert_eq!(audit("r.md", &large, &[]).tables, 1400);
}

#[test]
fn formats_that_are_not_read_are_refused_by_name_or_by_content() {
    let refused = |file: &str, text: &str| {
        matches!(
            supported(Path::new(file), text.as_bytes().to_vec()),
            Err(Unaudited::Format(_))
        )
    };
    for (file, text) in [
        ("r.tex", "x"),
        ("r.ipynb", "{}"),
        ("r.rst", "x"),
        ("r.csv", "a,b"),
        ("r.pdf", "x"),
        ("r.txt", "\\documentclass{article}"),
        ("r", "{\"cells\": [], \"nbformat\": 4}"),
    ] {
        assert!(refused(file, text), "{file}: {text}");
    }
    assert!(
        !refused("r.md", "# Report")
            && !refused("README", "plain text")
            && !refused("r.html", "<p>x")
    );
    assert_eq!(
        supported(Path::new("r.md"), b"M\xfcller".to_vec()),
        Err(Unaudited::NotText)
    );
}

#[test]
fn a_list_of_thousands_of_numbers_is_named_and_not_compared() {
    let list = "a 1.0 b 2.0 ".repeat(10_000);
    let text = format!(
        "{list}\n\n| a | b |\n|---|---|\n| {list} | 2 |\n\nWaits fell from 80 ms to 60 ms, a 40% drop.\n"
    );
    let result = audit("r.md", &text, &[]);
    assert_eq!(result.too_long, [1, 5]);
    assert_eq!(result.findings.len(), 1, "the rest is checked");
    let long = Unaudited::TooLong(result.too_long).to_string();
    assert!(
        long.contains("more than 300 numbers") && long.contains("in lines 1, 5"),
        "{long}"
    );
}
