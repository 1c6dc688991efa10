//! The reference pages generated from our types: `docs/command-line.md` from the parser of the command line, and
//! `docs/yaml-keys.md` from the schemas of the stage kinds. To refresh them: `UPDATE_DOCS=1 cargo test --bin benchtrail
//! manual`.

mod command_line;
mod keys;

use std::fs;
use std::path::Path;

/// Compares a page with the text generated from the types, or writes it.
#[expect(
    clippy::disallowed_methods,
    reason = "a developer asks for the pages to be written"
)]
fn assert_page(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("docs")
        .join(name);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, text).expect("the page can be written");
    }
    let page = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        page == text,
        "docs/{name} is not up to date: UPDATE_DOCS=1 cargo test --bin benchtrail manual"
    );
}

/// Returns a text in a form that fits into a table cell.
fn cell(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.replace('|', "\\|")
}

/// Formats words as a list of code.
fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    words.join(", ")
}

#[test]
fn the_manual_of_the_command_line_is_that_of_the_parser() {
    let page = command_line::page();
    assert!(page.matches("\n## ").count() > 25, "a command is missing");
    assert_page("command-line.md", &page);
}

#[test]
fn the_manual_of_the_keys_is_that_of_the_schemas() {
    let page = keys::page();
    for kind in crate::registry::registry()
        .kinds
        .iter()
        .map(|kind| kind.name())
    {
        assert!(page.contains(&format!("\n## `kind: {kind}`\n")), "{kind}");
    }
    assert!(!page.contains("| — |"), "a key has no meaning:\n{page}");
    assert_page("yaml-keys.md", &page);
}
