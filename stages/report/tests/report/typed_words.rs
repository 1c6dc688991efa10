//! Words that are true or false of the rows, typed by hand into a clean report or substituted for a licensed word: the
//! check catches all of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::fixture::Lab;

/// The places where an author can put text; `@` marks the spot.
const PLACES: &[&str] = &[
    "The server was @ quick that day.\n",
    "\n@ is what we saw.\n",
    "## What @ means\n",
    "- an item with @ in it\n",
    "> it was @ then\n",
    "| a | b |\n| --- | --- |\n| x | @ |\n",
    "| a | @ |\n| --- | --- |\n| x | y |\n",
    "it was *@* then\n",
    "it was **@** then\n",
    "see [the @ page](notes.md)\n",
    "![a picture of @ bars](notes.svg)\n",
    "a note[^n]\n\n[^n]: it was @ then\n",
    "the server (@) was quick\n",
    "what was @, then\n",
    "from {{ count(\"results.efficiency\") }} and @ so.\n",
    // Beside a statement, not inside it.
    "{% call every(\"results.efficiency\", none, \"efficiency <= 1\") %}All of them{% endcall %} and @ so.\n",
];

/// For each rule, a statement that holds.
const STATEMENTS: &[(&str, &str)] = &[
    (
        "every",
        r#"every("results.efficiency", none, "efficiency <= 1")"#,
    ),
    (
        "no_row",
        r#"no_row("results.efficiency", none, "efficiency > 1")"#,
    ),
    (
        "holds",
        r#"holds("results.breakdown", {"configuration": "serial"}, "breakdown_n = 2")"#,
    ),
    (
        "at_least",
        r#"at_least("results.efficiency", none, "efficiency >= 0.5", count=5)"#,
    ),
    (
        "at_most",
        r#"at_most("results.efficiency", none, "efficiency < 0.5", count=1)"#,
    ),
    (
        "exactly",
        r#"exactly("results.efficiency", none, "efficiency = 1", count=2)"#,
    ),
    (
        "only_these",
        r#"only_these("results.efficiency", none, "efficiency < 0.3", are={"configuration": "serial", "concurrency": 4})"#,
    ),
    (
        "largest",
        r#"largest("results.efficiency", {"concurrency": 4}, "efficiency")"#,
    ),
    (
        "smallest",
        r#"smallest("results.efficiency", none, "e2e_p95")"#,
    ),
    (
        "between",
        r#"between("results.efficiency", none, "efficiency")"#,
    ),
    (
        "within",
        r#"within("results.efficiency", {"configuration": "serial"}, "efficiency", of="serial_reference", ratio=0.05)"#,
    ),
    (
        "monotone",
        r#"monotone("results.efficiency", none, x="concurrency", y="efficiency", series=["configuration"], direction="falling")"#,
    ),
    (
        "steepest",
        r#"steepest("results.efficiency", none, x="concurrency", y="efficiency", series=["configuration"], direction="falling")"#,
    ),
    (
        "different",
        r#"different("results.comparison", {"workload": "short-decode"})"#,
    ),
    (
        "no_evidence",
        r#"no_evidence("results.comparison", {"workload": "shared-prefix"})"#,
    ),
    (
        "consistent",
        r#"consistent("results.efficiency", none, "e2e_p95", across=["configuration"])"#,
    ),
];

/// The words of the documented table, with the functions that license each, and whether they are checked only before a
/// traced number. Another test compares the table with the code.
fn documented() -> BTreeMap<String, (BTreeSet<String>, bool)> {
    let page = include_str!("../../../../docs/number-check.md");
    let rows = page
        .lines()
        .skip_while(|l| *l != "| words | licensed by |")
        .skip(2);
    let mut words = BTreeMap::new();
    for row in rows.take_while(|l| l.starts_with('|')) {
        let (left, right) = row
            .trim_matches('|')
            .split_once(" | ")
            .expect("a table of two columns");
        let functions: BTreeSet<String> = right
            .split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect();
        for part in left.split(", ") {
            let word = part
                .trim()
                .trim_end_matches('¹')
                .trim_matches('*')
                .to_owned();
            words.insert(word, (functions.clone(), part.contains('¹')));
        }
    }
    words
}

/// Whether a text is refused for its words; any other refusal fails the test.
fn is_refused(lab: &Lab, text: &str) -> bool {
    match lab.render_text(text) {
        Ok(_) => false,
        Err(error) => {
            let refused = error.starts_with("the word check refuses")
                || error.contains("it may only deny one");
            assert!(refused, "{text}: {error}");
            true
        }
    }
}

fn dressed(word: &str, dress: usize) -> String {
    match dress {
        0 => word.to_owned(),
        1 => word.to_uppercase(),
        _ => word[..1].to_uppercase() + &word[1..],
    }
}

#[test]
fn no_word_typed_by_hand_gets_through() {
    let lab = Lab::new();
    let words = documented();
    assert!(words.len() >= 60, "{}", words.len());
    let (mut tried, mut missed) = (0, Vec::new());
    for place in PLACES {
        let clean = lab.render_text(&place.replace('@', "something"));
        assert!(clean.is_ok(), "{place}: {clean:?}");
        for (number, (word, (_, before_number))) in words.iter().enumerate() {
            let mut typed = dressed(word, (number + tried) % 3);
            if *before_number {
                typed.push_str(" {{ spec(\"seed\") }}");
            }
            tried += 1;
            if !is_refused(&lab, &place.replace('@', &typed)) {
                missed.push(place.replace('@', &typed));
            }
        }
    }
    assert!(tried >= 1000, "{tried}");
    assert!(
        missed.is_empty(),
        "{} of {tried} missed: {missed:#?}",
        missed.len()
    );
}

#[test]
fn no_word_of_a_statement_can_be_exchanged_for_one_it_does_not_license() {
    let lab = Lab::new();
    let words = documented();
    let (mut tried, mut wrong) = (0, Vec::new());
    for (function, call) in STATEMENTS {
        for (word, (licensed_by, before_number)) in &words {
            let number = if *before_number {
                " {{ spec(\"seed\") }}"
            } else {
                ""
            };
            let text = format!("{{% call {call} %}}It is {word}{number} so{{% endcall %}}.\n");
            // Comparatives are licensed by `any statement`, which names no function. Under `no_evidence`, they and
            // *significant* may only be denied.
            let comparative = licensed_by.is_empty();
            let denied_only = *function == "no_evidence"
                && (comparative || ["significant", "significantly"].contains(&word.as_str()));
            let licensed = (comparative || licensed_by.contains(*function)) && !denied_only;
            tried += 1;
            if is_refused(&lab, &text) == licensed {
                wrong.push(text);
            }
        }
    }
    assert!(tried >= 1000, "{tried}");
    assert!(
        wrong.is_empty(),
        "{} of {tried} are wrong: {wrong:#?}",
        wrong.len()
    );
}

#[test]
fn a_caption_and_a_heading_of_a_table_are_checked_for_words_too() {
    let lab = Lab::new();
    let render = |caption: &str, heading: &str| {
        let settings = serde_json::json!({
            "template": "t.md",
            "tables": {"t": {
                "from": "results.efficiency", "caption": caption,
                "columns": [{"column": "configuration", "heading": heading}],
            }},
        });
        lab.render(
            &settings,
            &crate::fixture::Templates::one("{{ table(\"t\") }}\n"),
        )
        .map(|_| ())
        .map_err(|f| f.reason)
    };
    render("Some rows", "Configuration").expect("a clean table");
    for (caption, heading) in [
        ("The fastest rows", "Configuration"),
        ("Some rows", "Best configuration"),
    ] {
        let error = render(caption, heading).unwrap_err();
        assert!(
            error.starts_with("the word check refuses 1 word"),
            "{error}"
        );
    }
}
