//! Generates `docs/gates.md` from the gates.
//!
//! To refresh it: `UPDATE_DOCS=1 cargo test -p verify manual`.

use std::fmt::Write;

fn page() -> String {
    let mut text = String::from(
        "# Gates of the verify stage\n\n\
         A gate checks every cell of the load stages that the verify stage needs, or a stage as a whole. Its\n\
         `severity` decides what happens if it fails:\n\n\
         - `fail`: the run ends with an error, and the cell does not enter any statistic.\n\
         - `exclude`: the cell does not enter any statistic. You must give a `reason`.\n\
         - `warn`: the cell stays, and the report shows a note.\n\n\
         The outcome of a gate is `pass`, `fail` or `not judged`. A gate does not judge a cell if it lacks rows\n\
         or facts. Such a gate counts separately, and never as passed. The table `gates` has one row per gate\n\
         and cell, with the observed and the expected value.\n",
    );
    text.push_str("\n| gate | what it checks |\n|---|---|\n");
    for page in crate::pages() {
        let summary = page.summary.replace('\n', " ");
        let first = summary
            .split_once(". ")
            .map_or(&*summary, |(first, _)| first);
        writeln!(
            text,
            "| [`{0}`](#{0}) | {1} |",
            page.name,
            first.trim_end_matches('.')
        )
        .unwrap();
    }
    text.push_str(
        "\nA verify stage without `gates` uses these gates, which judge any load and need no parameters:\n",
    );
    let usual: Vec<String> = crate::usual::USUAL
        .iter()
        .map(|name| format!("`{name}`"))
        .collect();
    let caches = crate::usual::usual("cold-cache");
    writeln!(
        text,
        "{}.\n\nThere, `cold-cache` has `severity: {}` and `share: {}`.",
        usual.join(",\n"),
        caches["severity"].as_str().unwrap_or_default(),
        caches["share"]
    )
    .unwrap();
    for page in crate::pages() {
        writeln!(
            text,
            "\n## {}\n\n{}\n\nDefault severity: `{}`. Parameters:\n",
            page.name, page.summary, page.severity
        )
        .unwrap();
        let parameters = contract::parameters(&page.schema);
        for parameter in &parameters {
            parameter.write(&mut text, 0, &artifacts::json::plain);
        }
        if parameters.is_empty() {
            writeln!(text, "- none").unwrap();
        }
    }
    hardware(&mut text);
    tables(&mut text);
    faults(&mut text);
    text
}

/// Documents the shipped hardware definitions.
fn hardware(text: &mut String) {
    text.push_str(
        "\n## The collection `hardware`\n\n\
         The gate `physical-roofs` takes these definitions by name. Put your own definition into a folder `hardware` \
         beside the experiment, or into the experiment's section `hardware`. The numbers come from the manufacturers, \
         for dense products. Memory is rounded up to the binary unit.\n\n```yaml\n",
    );
    for shipped in crate::shipped() {
        let indented: Vec<String> = shipped
            .text
            .lines()
            .map(|line| format!("  {line}"))
            .collect();
        writeln!(text, "{}:\n{}", shipped.name, indented.join("\n")).unwrap();
    }
    text.push_str("```\n");
}

/// Documents the tables, using those of a study.
fn tables(text: &mut String) {
    text.push_str(
        "\n## The tables\n\n\
         In `gates` and `exclusions`, the columns after `cell` have the names of the axes. For a \
         judgement of a whole stage, such a column holds the label that all cells share, or null. \
         Your own SQL gate reads the tables of one cell. You can read the tables below in report \
         templates and with `benchtrail sql`. Write the stage's name in quotes: `\"checks.gates\"`.\n",
    );
    let done = crate::tests_of_faults::example();
    for name in [
        "gates",
        "exclusions",
        "census",
        "comparability",
        "imbalances",
    ] {
        let table = crate::tests::table(&done, name);
        let keys = table
            .metadata("keys")
            .unwrap_or_default()
            .replace("configuration,rep,", "AXES,");
        writeln!(
            text,
            "\n### {name}\n\nKey: `{keys}`.\n\n| column | unit | meaning |\n|---|---|---|"
        )
        .unwrap();
        for column in table
            .names()
            .into_iter()
            .filter(|c| c != "configuration" && c != "rep")
        {
            let unit = table.unit(&column).unwrap_or_default();
            let meaning = table.description(&column).unwrap_or_default();
            writeln!(text, "| `{column}` | {unit} | {meaning} |").unwrap();
        }
    }
}

/// Documents which gate catches which fault, from the test that injects the faults.
fn faults(text: &mut String) {
    text.push_str(
        "\n## False alarms and power\n\nGates that count or compare are not tests: on correct rows, they are never \
         wrong. The other gates may give a false alarm, and they may miss weak faults. \
         [Statistics](operating-characteristics.md#gates) lists both rates for every gate, over more than a \
         thousand simulated studies of each kind. A machine with other work violates the assumptions of the tests \
         and rightly causes an alarm. `comparability` tests prompt-token counts only if no prompt has the same \
         digest, at 0.1 % for each pair.\n\nWhere gates are least sensitive:\n\n- **One slow cell of several in a ragged closed loop.** If \
         answers have 9 to 65 tokens and requests wait for each other, the lengths of the others are part of a \
         latency. `outlying-repeats` therefore judges such cells by their time per token. A cell that is only 20 % \
         slower often escapes \
         ([table](operating-characteristics.md#faults-seen-by-gates-in-ragged-closed-loops)).\n- **Token counts \
         without a second count.** `token-bias` pairs imported rows without prompts by the order of sending. It \
         finds counts that are 12 % high only if the order is the same and few rows are missing \
         ([table](operating-characteristics.md#token-bias-of-imported-rows)).\n\nThe table below \
         covers `warm-up`, `stationarity` and `order-effects` with an `alpha` of 1 %, over simulated closed loops \
         with fixed seeds. A run has 16 cells of 40 requests, with 1 and 4 clients. One server works on all requests \
         at once, another one on a single request. Latencies are log-normal, and all requests in flight share a \
         random factor of the server. Of 400 runs at 5 %, 20 alarms are expected by chance:\n\n| gate | false alarms \
         in 200 clean runs | in 400 with `alpha: 0.05` and no smallest effect | fault in every cell, found in 50 runs \
         | fault in one cell of 16, found in 50 runs |\n|---|---|---|---|---|\n",
    );
    for [gate, clean, bare, every, one] in crate::rates::SEEN {
        writeln!(text, "| `{gate}` | {clean} | {bare} | {every} | {one} |").unwrap();
    }
    text.push_str(
        "\n## Faults, and what catches them\n\n\
         A test injects each of these faults, alone, into a correct study. The named gates catch \
             it, and no other gate does.\n\n\
         | fault | gates |\n|---|---|\n",
    );
    for fault in crate::tests_of_faults::FAULTS {
        let gates: Vec<String> = fault.gates.iter().map(|g| format!("`{g}`")).collect();
        writeln!(text, "| {} | {} |", fault.what, gates.join(", ")).unwrap();
    }
    text.push_str("| bytes changed in the store | `digests`: the verify cell itself fails |\n");
    text.push_str("\n`nobody-waits-long` is a gate in SQL: `");
    text.push_str(crate::tests_of_faults::NOBODY_WAITS_LONG);
    text.push_str(
        "`.\n\n## Faults that rows cannot show\n\n\
         | fault | why not, and what helps |\n|---|---|\n",
    );
    for (fault, why) in crate::tests_of_faults::NOT_IN_DATA {
        writeln!(text, "| {fault} | {why} |").unwrap();
    }
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the variable asks to rewrite the page"
)]
fn the_manual_says_what_the_gates_do() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/gates.md");
    let page = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == page,
        "docs/gates.md is not up to date: UPDATE_DOCS=1 cargo test -p verify manual"
    );
}

/// Returns the paths of the numbers of a schema without a bound below.
fn unbounded(path: &str, schema: &pipeline::Json) -> Vec<String> {
    let is = |kind: &str| match &schema["type"] {
        pipeline::Json::Array(kinds) => kinds.iter().any(|k| k == kind),
        one => one == kind,
    };
    let has_least = ["minimum", "exclusiveMinimum"]
        .iter()
        .any(|bound| schema[bound].is_number());
    let mut paths = Vec::new();
    if (is("number") || is("integer")) && !has_least {
        paths.push(path.to_owned());
    }
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        paths.extend(unbounded(&format!("{path}.{name}"), below));
    }
    for below in schema["anyOf"].as_array().into_iter().flatten() {
        paths.extend(unbounded(path, below));
    }
    paths
}

#[test]
fn every_number_of_a_gate_has_a_bound_below_and_every_share_one_above() {
    for page in crate::pages() {
        assert_eq!(unbounded(page.name, &page.schema), [""; 0]);
        let shares = [
            "alpha",
            "effect",
            "share",
            "tolerance",
            "start",
            "nearer",
            "outside",
        ];
        for share in shares.map(|name| &page.schema["properties"][name]) {
            assert!(
                share.is_null() || share["maximum"] == 1.0,
                "{}: {share}",
                page.name
            );
        }
    }
}
