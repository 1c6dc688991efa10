//! The pages of the documentation about engines and their settings, against the definitions.

use super::*;

#[test]
fn the_examples_in_the_documentation_are_valid() {
    let text = include_str!("../../../../../docs/engines.md");
    let examples: Vec<Json> = text
        .split("```yaml\n")
        .skip(1)
        .map(|rest| yaml::read(rest.split("```").next().expect("the example ends")))
        .collect();
    let [
        study,
        container,
        own,
        extended,
        running,
        host,
        cloud,
        group,
        replicas,
        arrangements,
        model,
        draft,
    ] = &examples[..]
    else {
        panic!("twelve examples, not {}", examples.len())
    };
    for part in [study, container, host, cloud, group, replicas, arrangements] {
        assert!(part["stages"].is_object());
    }
    assert!(container["stages"]["machine"]["environment"]["container"]["image"].is_string());
    let extended = extended["engines"].as_object().unwrap();
    for definition in extended.values() {
        engine(definition["extends"].as_str().unwrap());
    }
    let drafting = &draft["engines"]["drafting"];
    assert_eq!(drafting["extends"], "llama-cpp");
    assert!(drafting["launch"]["draft-arguments"].is_array());
    let running = Engine::from_json(running).unwrap();
    assert_eq!(running.exporters.len(), 3);
    // Each role of an example connects to what the shipped router takes, and its settings are those of its engine.
    let router = engine("sglang-router");
    let arrangements = arrangements["axes"]["servers"].as_array().unwrap();
    let arranged = arrangements
        .iter()
        .flat_map(|label| label.as_object().unwrap().values())
        .map(|label| &label["roles"]);
    let in_stages = [group, replicas].map(|example| &example["stages"]["server"]["roles"]);
    let all: Vec<&Json> = in_stages.into_iter().chain(arranged).collect();
    assert_eq!(all.len(), 4);
    for roles in all {
        let peers = roles["router"]["peers"].as_object().unwrap();
        assert!(
            peers
                .keys()
                .all(|slot| router.launch.peers.contains_key(slot))
        );
        assert!(
            peers
                .values()
                .all(|role| roles[role.as_str().unwrap()].is_object())
        );
    }
    for role in ["prefill", "decode"] {
        let settings = &group["stages"]["server"]["roles"][role]["settings"];
        assert!(
            arguments(&engine("sglang"), settings).contains(&"--disaggregation-mode".to_owned())
        );
    }
    let engine = Engine::from_json(own).unwrap();
    let line = arguments(&engine, &json!({"slots": 2, "eager": true}));
    assert_eq!(line[line.len() - 3..], ["--eager", "--slots", "2"]);
    Model::from_json(model).unwrap();
}

/// Returns the page's section about one engine: its settings as a table.
fn page_of(name: &str, engine: &Engine) -> String {
    let cell = |text: String| text.replace('|', "\\|");
    let kind = |setting: &engines::Setting| {
        let word = serde_json::to_value(setting.kind).unwrap();
        let mut text = word.as_str().unwrap().to_owned();
        if !setting.choices.is_empty() {
            text = format!("one of `{}`", setting.choices.join("`, `"));
        }
        match (setting.min, setting.max) {
            (Some(min), Some(max)) => text.push_str(&format!(", {min} to {max}")),
            (Some(min), None) => text.push_str(&format!(", at least {min}")),
            (None, Some(max)) => text.push_str(&format!(", at most {max}")),
            (None, None) => {}
        }
        text
    };
    let becomes = |setting: &engines::Setting| {
        let parts = [
            (&setting.flags, ""),
            (&setting.when_true, " if true"),
            (&setting.when_false, " if false"),
        ];
        let mut flags: Vec<String> = parts
            .iter()
            .filter(|(part, _)| !part.is_empty())
            .map(|(part, when)| format!("`{}`{when}", part.join(" ")))
            .collect();
        let variables = setting.environment.iter();
        flags.extend(variables.map(|(name, form)| format!("`{name}={form}`")));
        flags.join(", ")
    };
    let status = match &engine.untested {
        Some(why) => format!("*untested*: {why}"),
        None => "see [engines.md](engines.md#which-engines-and-how-they-were-verified)".to_owned(),
    };
    let mut page = format!(
        "\n## `{name}`\n\n{}, {}; {status}.\n",
        engine.title,
        match engine.version.as_str() {
            "unknown" => "any version".to_owned(),
            version => format!("version {version}"),
        }
    );
    if engine.settings.is_empty() {
        page.push_str("\nIt has no settings, because Benchtrail does not start it.\n");
        return page;
    }
    let recorded = engine.settings.values().any(|s| s.ran_on.is_some());
    page.push_str("\n| setting | meaning | value | default | becomes |");
    page.push_str(if recorded { " ran on |" } else { "" });
    page.push_str("\n|---|---|---|---|---|");
    page.push_str(if recorded { "---|\n" } else { "\n" });
    for (name, setting) in &engine.settings {
        let default = if setting.default.is_null() {
            String::new()
        } else {
            format!("`{}`", setting.default)
        };
        let help = setting.help.clone().unwrap_or_default();
        let (kind, becomes) = (cell(kind(setting)), cell(becomes(setting)));
        page.push_str(&format!(
            "| `{name}` | {} | {kind} | {default} | {becomes} |",
            cell(help)
        ));
        if recorded {
            let ran = setting.ran_on.clone().map_or("*untested*".to_owned(), cell);
            page.push_str(&format!(" {ran} |"));
        }
        page.push('\n');
    }
    page
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the variable asks to rewrite the page"
)]
fn the_page_of_settings_says_what_the_definitions_have() {
    let mut page =
        "# The settings of the shipped engines\n\nThis page lists what you can write under `settings:` of a `serve` \
        stage, for each shipped engine. For example:\n\n    \
        server: {kind: serve, needs: [machine], settings: {max-num-seqs: 64}}\n\n\
        - *Default* is the value that Benchtrail uses if you set none. Without a default, Benchtrail omits the setting from \
        the command,\n  and the engine's own default applies.\n\
        - *Becomes* is what the setting adds to the engine's command or environment. `{}` stands for the value.\n\
        - *Ran on* says with which values a real engine ran, and where. We saw the effect, or the value in the engine's own \
        record of its\n  configuration. *Untested* means that nobody has recorded such a run. An engine without this column \
        has no record for single\n  settings.\n\n\
        For an option that is not listed, use `extra-arguments`, or add a setting to the definition: see \
        [engines.md](engines.md).\n\nThe page is generated from the definitions: `UPDATE_DOCS=1 cargo test -p engines \
        page`.\n"
            .to_owned();
    for one in shipped().iter().filter(|one| one.collection == "engines") {
        page.push_str(&page_of(one.name, &engine(one.name)));
    }
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let path = root.join("docs/engine-settings.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/engine-settings.md is not up to date: UPDATE_DOCS=1 cargo test -p engines page"
    );
}

#[test]
fn every_setting_is_explained() {
    for one in shipped().iter().filter(|one| one.collection == "engines") {
        for (name, setting) in engine(one.name).settings {
            assert!(setting.help.is_some(), "{}: {name}", one.name);
        }
    }
}

#[test]
fn every_engine_is_in_the_table_and_marked_untested_there_if_it_is() {
    let page = include_str!("../../../../../docs/engines.md");
    for one in shipped().iter().filter(|one| one.collection == "engines") {
        let start = format!("| `{}` |", one.name);
        let row = page.lines().find(|line| line.starts_with(&start));
        let row = row.unwrap_or_else(|| panic!("{} has no row", one.name));
        let untested = engine(one.name).untested.is_some();
        assert_eq!(row.contains("*untested*"), untested, "{row}");
        assert_eq!(row.contains("verified on"), !untested, "{row}");
    }
}

#[test]
fn every_place_says_where_it_was_verified_and_by_what_or_that_it_is_untested() {
    let page = include_str!("../../../../../docs/engines.md");
    let from = page
        .find("| place | how | status |")
        .expect("the table of places");
    let rows: Vec<&str> = page[from..]
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .collect();
    assert!(rows.len() >= 9, "places were lost: {}", rows.len());
    for row in rows {
        let verified = row.contains("verified on ");
        assert!(verified || row.contains("*untested*"), "{row}");
        // What was run can be run again: by the test suite, a study, or the steps of every study.
        let by = [
            "`launch.program.",
            "test suite",
            "](../tests/",
            "](gpu-study/",
        ];
        assert!(!verified || by.iter().any(|by| row.contains(by)), "{row}");
    }
}
