//! The output of `benchtrail load --out`: the tables of a measured cell, imported unchanged.

use std::collections::BTreeMap;
use std::path::Path;

use artifacts::Table;
use contract::{Cell, Chunk, LOAD_TABLES, Request, Row as _};
use pipeline::sources::{self, Unusable};
use pipeline::stage::{Content, Done, Failure, Job, Library, Media, Output};
use serde_json::json;

use crate::file;
use crate::settings::Import;

/// The table that `file:` names and that identifies the folder.
const ROWS: &str = "requests";

/// Finds the tables beside the file of requests and returns their digests by name.
///
/// # Errors
/// If the folder or a file in it cannot be read.
pub(super) fn beside(
    pattern: &str,
    requests: &Path,
    library: &dyn Library,
) -> Result<BTreeMap<String, String>, Unusable> {
    let folder = requests
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let wrong = |e: std::io::Error| sources::unread(pattern, folder, &e);
    let mut tables = BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(wrong)? {
        let name = entry.map_err(wrong)?.file_name();
        let Some(table) = name.to_str().and_then(|name| name.strip_suffix(".parquet")) else {
            continue;
        };
        if table == ROWS || !is_a_table_of_a_cell(table) {
            continue;
        }
        let sibling = Path::new(pattern).with_file_name(&name);
        let (_, digest) = file::find(&sibling.display().to_string(), library)?;
        tables.insert(table.to_owned(), digest);
    }
    Ok(tables)
}

/// Returns whether a load cell may have an output of this name. The folder may also hold unrelated tables.
fn is_a_table_of_a_cell(name: &str) -> bool {
    LOAD_TABLES.iter().any(|table| table.name == name)
}

/// Executes the cell: every table becomes an output, byte for byte.
pub(super) fn run(import: &Import, job: &Job<'_>) -> Result<Done, Failure> {
    let requests = import.digest.clone().unwrap_or_default();
    let named = std::iter::once((ROWS.to_owned(), requests));
    let mut done = Done::default();
    let mut file = String::new();
    for (name, digest) in named.chain(import.tables.clone()) {
        job.control.check()?;
        let read = job.files.read(&digest);
        let (source, bytes) = read.map_err(|e| Failure::failed(e.message).hint(e.hint))?;
        let path = source.path.display().to_string();
        let wrong = |e: artifacts::TableError| {
            Failure::failed(format!("{path}: {e}"))
                .hint("import the folder as `benchtrail load --out` has written it")
        };
        let table = Table::from_parquet(bytes.clone()).map_err(wrong)?;
        match name.as_str() {
            ROWS => {
                let rows = Request::read(&table).map_err(wrong)?;
                let impossible = rows.iter().find_map(Request::impossible);
                if let Some(why) = impossible {
                    return Err(wrong(artifacts::TableError::new(why)));
                }
                file = source.name;
            }
            "chunks" => {
                let chunks = Chunk::read(&table).map_err(wrong)?;
                if let Some(why) = chunks.iter().find_map(Chunk::impossible) {
                    return Err(wrong(artifacts::TableError::new(why)));
                }
            }
            "cell" => {
                drop(Cell::read(&table).map_err(wrong)?);
                if let Some(why) = contract::impossible_cell(&table) {
                    return Err(wrong(artifacts::TableError::new(why)));
                }
            }
            _ => {}
        }
        done.outputs.push(Output {
            name,
            media: Media::Parquet,
            rows: Some(table.rows() as u64),
            content: Content::Bytes(bytes),
        });
    }
    done.observations
        .insert("source".to_owned(), json!("load --out"));
    done.observations.insert("file".to_owned(), json!(file));
    Ok(done)
}
