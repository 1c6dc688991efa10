//! The texts of mistakes: `errors/NAME.yaml` against `errors/NAME.txt`.
//!
//! `BLESS=1` writes the texts again; read them before committing.

use std::path::{Path, PathBuf};

use pipeline::{NoFiles, Options, load_text};

use crate::kinds::registry;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/language/errors")
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a developer asks for the snapshots to be written"
)]
fn every_mistake_reads_as_written_down() {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "yaml"));
    paths.sort();
    assert!(paths.len() >= 30, "only {} fixtures", paths.len());
    let mut wrong = Vec::new();
    for path in paths {
        let (registry, _) = registry();
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap();
        let loaded = load_text(
            &text,
            Path::new(name),
            &registry,
            &Options::default(),
            &NoFiles,
        );
        let error = loaded.expect_err(&format!("{} has no mistake", path.display()));
        for diagnostic in &error.0 {
            assert!(
                diagnostic.hint.is_some(),
                "{}: no remedy: {diagnostic}",
                path.display()
            );
        }
        let rendered = error.to_string();
        let expected = path.with_extension("txt");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&expected, &rendered).unwrap();
        } else if std::fs::read_to_string(&expected).unwrap_or_default() != rendered {
            wrong.push(format!("{}:\n{rendered}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn labels_with_characters_that_nobody_sees_are_refused() {
    for hidden in [
        '\u{200b}',
        '\u{2060}',
        '\u{ad}',
        '\u{202e}',
        '\u{3164}',
        '\u{e0041}',
    ] {
        let text =
            format!("experiment: x\naxes: {{side: [left, \"le{hidden}ft\"]}}\nstages: {{}}\n");
        let (registry, _) = registry();
        let loaded = load_text(
            &text,
            Path::new("x.yaml"),
            &registry,
            &Options::default(),
            &NoFiles,
        );
        let error = loaded.expect_err("the label is refused").to_string();
        let named = format!("contains `\\u{{{:x}}}`", u32::from(hidden));
        assert!(error.contains(&named), "{error}");
    }
}
