//! `init --from-results`: a study over result files of other tools.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use import::Tool;
use pipeline::place::is_hidden;
use pipeline::suggest::list;

use super::init_text::quoted;
use crate::exit::Stop;
use crate::project::shown;
use crate::terminal::{complain, continued};

/// A result in a file.
struct Found {
    label: String,
    tool: Tool,
    file: String,
    /// Which result of the file, from 1, if it holds several.
    entry: Option<usize>,
}

/// Returns the text of a study with one cell for each result in these files.
///
/// # Errors
/// If a file cannot be imported without a column map, or none of them has rows of requests.
pub(super) fn text(name: &str, given: &[PathBuf]) -> Result<String, Stop> {
    let mut result_files: Vec<Found> = Vec::new();
    for path in given {
        if crate::folder::is_of_a_load(path) {
            let folder = shown(path);
            let message = format!(
                "{folder} is a folder that `load --out` wrote, not a result of another tool"
            );
            return Err(Stop::usage(message).hint(format!(
                "`benchtrail init NAME --from-load {folder}` writes an experiment for this load"
            )));
        }
        if path.is_dir() {
            let before = result_files.len();
            let (files, unread) = results_in(path)?;
            if !unread.is_empty() {
                complain(&format!(
                    "warning: left out of {}, because only files that end in `.json` or `.jsonl` are read: {}",
                    shown(path),
                    list(unread.iter().map(String::as_str))
                ));
            }
            for file in files {
                match results(&file) {
                    Ok(more) => result_files.extend(more),
                    Err(Refused { message, .. }) => {
                        complain(&format!("warning: left out: {}", continued(&message)));
                    }
                }
            }
            if result_files.len() == before {
                let message = format!("{} holds no result file of a known tool", shown(path));
                return Err(Stop::usage(message).hint(of_table("csv", &[])));
            }
        } else {
            let refused = |why: Refused| Stop::usage(why.message).hint(why.hint);
            result_files.extend(results(path).map_err(refused)?);
        }
    }
    if result_files.is_empty() {
        let hint = "measure again with the tool's option for rows, such as `--save-detailed` of vLLM or `--output-details` \
                    of SGLang; docs/import.md lists the options";
        return Err(Stop::usage("none of these files has rows of requests").hint(hint));
    }
    name_apart(&mut result_files);
    Ok(study(name, &result_files))
}

/// What to give in place of a path that cannot be read.
const RESULTS: &str =
    "give a result file of another tool, or a folder of them; docs/import.md lists the tools";

/// How much of a column's name is shown, in characters.
const NAME_SHOWN: usize = 64;

/// Returns what to do with a table, whose columns have no known meaning.
fn of_table(format: &str, columns: &[String]) -> String {
    let stage = format!(
        "the columns of a table have no known meaning: write a stage with `import: {{tool: {format}, file: FILE, columns: \
         {{…}}}}`; docs/import.md shows it"
    );
    match columns {
        [] => stage,
        columns => {
            let shown = |name: &String| name.chars().take(NAME_SHOWN).collect::<String>();
            let columns: Vec<String> = columns.iter().map(shown).collect();
            let names = list(columns.iter().map(String::as_str));
            format!("{stage}; the file's columns are {names}")
        }
    }
}

/// Endings of files that may hold results, and that are not read in a folder: compressed files, and tables, whose columns
/// have no known meaning.
const UNREAD: [&str; 11] = [
    "gz", "zst", "bz2", "xz", "zip", "yaml", "yml", "csv", "tsv", "parquet", "ndjson",
];

/// Returns the JSON files in a folder, and the names of others that may hold results; both sorted.
fn results_in(folder: &Path) -> Result<(Vec<PathBuf>, Vec<String>), Stop> {
    let wrong = |e: std::io::Error| Stop::usage(format!("{}: {e}", shown(folder))).hint(RESULTS);
    let (mut files, mut unread) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(folder).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("json" | "jsonl") => files.push(path),
            Some(ending) if UNREAD.contains(&ending) => {
                let name = path.file_name().unwrap_or_default();
                unread.push(name.to_string_lossy().into_owned());
            }
            _ => {}
        }
    }
    files.sort();
    unread.sort();
    Ok((files, unread))
}

/// Why a file gives no results, and what to do.
struct Refused {
    message: String,
    hint: String,
}

/// Returns the names of the columns of a table: those of a Parquet file, or the first line of a text.
fn columns_of(bytes: &[u8]) -> Vec<String> {
    if bytes.starts_with(b"PAR1") {
        let table = artifacts::Table::from_parquet(bytes.to_vec());
        return table.map_or_else(|_| Vec::new(), |table| table.names());
    }
    let text = String::from_utf8_lossy(bytes);
    let names = text
        .lines()
        .next()
        .unwrap_or_default()
        .split([',', ';', '\t']);
    let names = names.map(|name| name.trim().trim_matches('"').to_owned());
    names.filter(|name| !name.is_empty()).collect()
}

/// Returns the results in a file that have rows of requests.
fn results(path: &Path) -> Result<Vec<Found>, Refused> {
    let name = shown(path);
    let refused = |message: String, hint: &str| Refused {
        message: format!("{name}: {message}"),
        hint: hint.to_owned(),
    };
    // An experiment could not name it, or would name others, too.
    let is_plain = path
        .to_str()
        .is_some_and(|text| !text.contains(|c: char| c == '*' || is_hidden(c)));
    if !is_plain {
        let message = "an experiment cannot name it: it has `*` or a character that cannot be seen";
        return Err(refused(message.to_owned(), "rename the file"));
    }
    let bytes = artifacts::regular::read(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => refused("no such file".to_owned(), RESULTS),
        _ => refused(e.to_string(), RESULTS),
    })?;
    let is_table = bytes.starts_with(b"PAR1") || name.ends_with(".csv") || name.ends_with(".tsv");
    if is_table {
        let message = "it is a table, not a result file of a known tool";
        let format = match bytes.starts_with(b"PAR1") {
            true => "parquet",
            false => "csv",
        };
        let hint = of_table(format, &columns_of(&bytes));
        return Err(refused(message.to_owned(), &hint));
    }
    let recognised =
        import::recognised(&bytes).map_err(|why| match import::json_columns(&bytes) {
            Some(columns) => refused(why.message, &of_table("json", &columns)),
            None => refused(why.message, &why.hint),
        })?;
    let tool = recognised.tool;
    if recognised.entries == 1 {
        let text = String::from_utf8_lossy(&bytes);
        let rows = import::read_text(tool.word(), &text)
            .map_err(|e| refused(e, "docs/import.md says which files of a tool hold rows"))?;
        if rows.is_empty() {
            complain(&format!(
                "warning: left out: {name}: it holds only aggregates of {}, and no rows of requests",
                tool.title()
            ));
            return Ok(Vec::new());
        }
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let label = pipeline::language::label_like(&stem);
    let one = |entry: Option<usize>| Found {
        label: match entry {
            Some(entry) => format!("{label}-{entry}"),
            None => label.clone(),
        },
        tool,
        file: name.clone(),
        entry,
    };
    Ok(match recognised.entries {
        1 => vec![one(None)],
        several => (1..=several).map(|entry| one(Some(entry))).collect(),
    })
}

/// Gives results of files with the same name different labels.
fn name_apart(results: &mut [Found]) {
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for one in results {
        let (label, mut n) = (one.label.clone(), 1);
        while !taken.insert(one.label.clone()) {
            n += 1;
            one.label = format!("{label}-{n}");
        }
    }
}

fn study(name: &str, results: &[Found]) -> String {
    let mut text = format!(
        "# {name}: results of other tools, with checks, tables and a report. Every key: docs/import.md\nexperiment: {name}\n\
         seed: 7\naxes:\n  result:    # rename the labels as you like: they are the rows of every table\n"
    );
    let mut add = |line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    for one in results {
        let mut fields = format!("tool: {}, file: {}", one.tool.word(), quoted(&one.file));
        if let Some(entry) = one.entry {
            let _ = write!(fields, ", entry: {entry}");
        }
        add(&format!("    - {}: {{{fields}}}", quoted(&one.label)));
    }
    let entry = match results.iter().any(|one| one.entry.is_some()) {
        true => ", entry: \"${result.entry}\"",
        false => "",
    };
    add("stages:\n  rows:\n    kind: load\n    over: [result]");
    add(&format!(
        "    import: {{tool: \"${{result.tool}}\", file: \"${{result.file}}\"{entry}}}"
    ));
    add("  checks:\n    kind: verify\n    needs: [rows]\n    gates:");
    add("      - {gate: census}\n      - {gate: row-status}    # every request succeeded");
    add("      # A file may lack what these need, so they only warn.");
    add("      - {gate: degenerate, severity: warn}\n      - {gate: identities, severity: warn}");
    add(
        "  results:\n    kind: analyze\n    needs: [rows, checks]\n    tables:\n      cells: {operator: cell-summary}",
    );
    add("  report: {kind: report, needs: [rows, checks, results]}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_folder_that_may_hold_results_are_read_or_named() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "a.json",
            "b.jsonl",
            "c.json.gz",
            "d.yaml",
            "e.csv",
            "notes.md",
        ] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let (files, unread) = results_in(folder.path()).unwrap();
        let names = files.iter().filter_map(|path| path.file_name());
        assert!(names.eq(["a.json", "b.jsonl"]));
        assert_eq!(unread, ["c.json.gz", "d.yaml", "e.csv"]);
    }
}
