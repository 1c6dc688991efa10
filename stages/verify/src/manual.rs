//! `docs/gates.md` is written from the gates themselves.
//!
//! To refresh it: `UPDATE_DOCS=1 cargo test -p verify manual`.

use std::fmt::Write;

use pipeline::Json;

fn page() -> String {
    let mut text = String::from(
        "# Gates of the verify stage\n\n\
         A gate is asked of every cell of the load stages needed, or of a stage as a whole. Its `severity` says\n\
         what follows if it does not pass: `fail` (the run ends with an error and the cell enters no\n\
         statistic), `exclude` (the cell enters no statistic; a `reason` is required) or `warn`. A gate with\n\
         nothing to judge says so; that is not a pass. In `gates`, one row per gate and cell says what was\n\
         observed and what was expected.\n",
    );
    for page in crate::pages() {
        writeln!(
            text,
            "\n## {}\n\n{}\n\nDefault severity: `{}`. Parameters:\n",
            page.name, page.summary, page.severity
        )
        .unwrap();
        let required: Vec<&str> =
            page.schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
        let properties = page.schema["properties"].as_object().cloned().unwrap_or_default();
        for (name, property) in &properties {
            let state = match (required.contains(&name.as_str()), property.get("default")) {
                (true, _) => "required".to_owned(),
                (false, Some(default)) if !default.is_null() => {
                    format!(
                        "default `{}`",
                        default.as_str().map_or_else(|| default.to_string(), str::to_owned)
                    )
                }
                _ => "optional".to_owned(),
            };
            let meaning = property["description"].as_str().unwrap_or_default();
            writeln!(text, "- `{name}` ({state}): {meaning}").unwrap();
        }
        if properties.is_empty() {
            writeln!(text, "- none").unwrap();
        }
    }
    text
}

#[test]
fn the_manual_says_what_the_gates_do() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/gates.md");
    let page = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == page, "docs/gates.md is not up to date: UPDATE_DOCS=1 cargo test -p verify manual");
}
