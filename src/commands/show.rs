//! `show`: shows a table, a record or a log, found by the start of its digest or by its place in an experiment.

use std::path::Path;

use artifacts::{Digest, Store, Table};
use pipeline::place::CellPattern;
use pipeline::suggest::remedy;
use serde_json::Value;

use crate::args::{Global, ShowArgs};
use crate::cells::{find_cells, parse_pattern, read_record};
use crate::exit::Stop;
use crate::project::{Project, again};
use crate::study::Study;
use crate::table_view::View;
use crate::terminal::{say, write_raw};

pub(super) fn show(arguments: &ShowArgs, global: &Global) -> Result<(), Stop> {
    let view = View {
        rows: arguments
            .rows
            .as_deref()
            .map(View::parse_rows)
            .transpose()
            .map_err(Stop::usage)?,
        columns: arguments.columns.clone(),
        all_columns: "choose columns with `--columns NAMES`",
    };
    let path = Path::new(&arguments.source);
    // In a folder of rows, a dot or bracket refers to the small study behind it.
    let inside = arguments
        .what
        .as_deref()
        .is_some_and(|what| what.contains(['.', '[']) && !what.ends_with(".parquet"));
    if crate::folder::is_loose(path) && !inside {
        return loose(path, arguments, &view, global);
    }
    let (digest, bytes) = if arguments.source.starts_with("b3:") {
        let store = Project::of(None, global.store.as_deref())?.open_existing()?;
        let digest = by_start(&store, &arguments.source)?;
        (digest, store.get(&digest)?)
    } else {
        in_study(arguments, global)?
    };
    if arguments.raw {
        return write_raw(&bytes).map_err(|e| Stop::refused_at("standard output", &e));
    }
    print(bytes, &digest.to_string(), &view, global)
}

/// Shows a Parquet file outside any store, or a table of a folder that `load --out` wrote.
fn loose(path: &Path, arguments: &ShowArgs, view: &View, global: &Global) -> Result<(), Stop> {
    let file = crate::folder::table_file(path, arguments.what.as_deref())?;
    let bytes =
        artifacts::regular::read(&file).map_err(|e| Stop::refused_at(file.display(), &e))?;
    if arguments.raw {
        return write_raw(&bytes).map_err(|e| Stop::refused_at("standard output", &e));
    }
    print(bytes, &file.display().to_string(), view, global)
}

/// The most bytes that are shown as text. A text of control characters becomes six times as long.
const LONGEST_TEXT: usize = 128 << 20;

/// Prints a table or a text.
fn print(bytes: Vec<u8>, name: &str, view: &View, global: &Global) -> Result<(), Stop> {
    if bytes.starts_with(b"PAR1") {
        let table = Table::from_parquet(bytes).map_err(|e| crate::folder::damaged(name, &e))?;
        if let Some(absent) = view.columns.iter().find(|column| !table.has(column)) {
            let message = format!("the table has no column `{absent}`");
            return Err(Stop::usage(message).hint(remedy(absent, "columns", table.names())));
        }
        say(&if global.json {
            view.json(&table)?.to_string()
        } else {
            view.text(&table)?
        });
        return Ok(());
    }
    if bytes.len() > LONGEST_TEXT {
        let size = crate::terminal::bytes(bytes.len() as u64);
        return Err(Stop::failed(format!(
            "{name} has {size}, more than is shown as text ({})",
            crate::terminal::bytes(LONGEST_TEXT as u64)
        ))
        .hint("`--raw` writes its bytes to standard output"));
    }
    match String::from_utf8(bytes) {
        Ok(text) if global.json && serde_json::from_str::<Value>(&text).is_err() => {
            say(&Value::String(text).to_string());
        }
        Ok(text) => say(text.trim_end_matches('\n')),
        Err(_) => {
            return Err(Stop::failed(format!("{name} is neither a table nor text"))
                .hint("`--raw` writes its bytes to standard output"));
        }
    }
    Ok(())
}

/// Returns the object whose digest starts with the given text.
fn by_start(store: &Store, text: &str) -> Result<Digest, Stop> {
    if let Ok(digest) = text.parse() {
        return Ok(digest);
    }
    let start = text
        .trim_start_matches("b3:")
        .trim_end_matches('…')
        .to_ascii_lowercase();
    if start.len() < 4 || !start.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(Stop::usage(format!("`{text}` is not a digest"))
            .hint("give `b3:` and at least 4 hexadecimal digits"));
    }
    let folder = store.root().join("objects").join(&start[..2]);
    let mut matches: Vec<Digest> = Vec::new();
    if folder.is_dir() {
        let entries =
            std::fs::read_dir(&folder).map_err(|e| Stop::refused_at(folder.display(), &e))?;
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(rest) = name.to_str() else { continue };
            if rest.starts_with(&start[2..])
                && let Ok(digest) = format!("b3:{}{rest}", &start[..2]).parse()
            {
                matches.push(digest);
            }
        }
    }
    matches.sort_unstable();
    match matches.as_slice() {
        [] => Err(Stop::nothing(format!(
            "no object's digest starts with `{text}`"
        ))),
        [one] => Ok(*one),
        many => {
            let list: Vec<String> = many.iter().take(5).map(ToString::to_string).collect();
            Err(
                Stop::usage(format!("{} objects start with `{text}`", many.len()))
                    .hint(list.join("\n      ")),
            )
        }
    }
}

/// Returns how to name one of several cells, and how to read a table of all of them.
fn one_of_many(cell: &str, stage: &str, pattern: &CellPattern, study: &str) -> String {
    match &pattern.output {
        Some(output) => format!(
            "one of them is `{cell}.{output}`; a query reads all: \
             `benchtrail sql {study} 'select … from \"{stage}.{output}\"'`"
        ),
        None => format!("one of them is `{cell}`"),
    }
}

/// Returns the artifact of a study that the arguments name.
fn in_study(arguments: &ShowArgs, global: &Global) -> Result<(Digest, Vec<u8>), Stop> {
    let profile = if arguments.smoke {
        Some("smoke")
    } else {
        arguments.profile.as_deref()
    };
    let study = Study::open(Path::new(&arguments.source), profile, global)?;
    let Study { lock, store, .. } = &study;
    let Some(what) = &arguments.what else {
        let study = again(Path::new(&arguments.source), profile);
        return Err(Stop::usage("which artifact?").hint(format!(
            "`benchtrail ls {study}` lists them; `benchtrail show {study} STAGE.OUTPUT` shows one"
        )));
    };
    let pattern = parse_pattern(what)?;
    let (stage, cells) = find_cells(&pattern, lock)?;
    let [cell] = cells.as_slice() else {
        let example = pipeline::place::cell_text(&stage.name, &cells[0].coordinates);
        return Err(
            Stop::usage(format!("`{what}` matches {} cells", cells.len())).hint(one_of_many(
                &example,
                &stage.name,
                &pattern,
                &again(Path::new(&arguments.source), profile),
            )),
        );
    };
    let Some(output) = &pattern.output else {
        return match cell.record {
            Some(record) => Ok((record, store.get(&record)?)),
            None => Err(Stop::nothing(format!(
                "`{what}` has no record: it is {}",
                cell.status.word()
            ))),
        };
    };
    let record = read_record(store, &stage.name, cell)?;
    let artifact = record
        .outputs
        .get(output)
        .or_else(|| record.evidence.get(output))
        .ok_or_else(|| {
            let names: Vec<&str> = record
                .outputs
                .keys()
                .chain(record.evidence.keys())
                .map(|name| name.as_str())
                .collect();
            Stop::nothing(format!(
                "`{}` has no output `{output}`",
                pipeline::place::cell_text(&stage.name, &cell.coordinates)
            ))
            .hint(match names.as_slice() {
                [] => format!(
                    "the cell has no outputs; its status is {}",
                    cell.status.word()
                ),
                _ => remedy(output, "outputs", names),
            })
        })?;
    Ok((artifact.digest, store.get(&artifact.digest)?))
}
