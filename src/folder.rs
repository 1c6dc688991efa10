//! Tables outside any store: a Parquet file, and the folder that `load --out` writes.

use std::path::{Path, PathBuf};

use pipeline::suggest::{closest, did_you_mean};

use crate::exit::Stop;
use crate::project::in_shell;

/// The table that identifies a folder as one of a load.
pub(crate) const ROWS: &str = "requests.parquet";

/// Returns whether a path is a Parquet file or a folder with the tables of a load.
pub(crate) fn is_loose(path: &Path) -> bool {
    is_load(path) || crate::given::is_table(path)
}

/// Returns whether a path is a folder with the tables of a load.
pub(crate) fn is_load(path: &Path) -> bool {
    path.is_dir() && path.join(ROWS).is_file()
}

/// Returns whether a path is a folder that a load wrote, with one level or with several.
pub(crate) fn is_of_a_load(path: &Path) -> bool {
    is_load(path) || path.join("sweep.json").is_file()
}

fn is_parquet(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "parquet") && path.is_file()
}

/// Returns the error for a table that cannot be read.
pub(crate) fn damaged(name: &str, error: &artifacts::TableError) -> Stop {
    Stop::failed(format!("{name}: {error}"))
        .hint("the file is damaged or was not written to its end: copy it again, or write it again")
}

/// Returns the names of the tables in a folder of a load, sorted.
///
/// # Errors
/// If the folder cannot be read.
pub(crate) fn tables(folder: &Path) -> Result<Vec<String>, Stop> {
    let wrong = |e: std::io::Error| Stop::refused_at(folder.display(), &e);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        if is_parquet(&path)
            && let Some(stem) = path.file_stem()
        {
            names.push(stem.to_string_lossy().into_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Returns the file of a table: the path itself, or `TABLE.parquet` in a folder.
///
/// # Errors
/// If the folder does not have the table, or no table is named.
pub(crate) fn table_file(path: &Path, table: Option<&str>) -> Result<PathBuf, Stop> {
    if !path.is_dir() {
        return match table {
            None => Ok(path.to_owned()),
            Some(table) => Err(Stop::usage(format!(
                "{} is one table, so there is no `{table}` in it",
                path.display()
            ))
            .hint(format!("benchtrail show {}", in_shell(path)))),
        };
    }
    let names = tables(path)?;
    let Some(table) = table else {
        return Err(Stop::usage("which table?").hint(other_table("", &names)));
    };
    let name = table.strip_suffix(".parquet").unwrap_or(table);
    if names.iter().any(|n| n == name) {
        Ok(path.join(format!("{name}.parquet")))
    } else {
        let message = format!("{} has no table `{name}`", path.display());
        Err(Stop::nothing(message).hint(other_table(name, &names)))
    }
}

/// Returns the remedy for a table that the folder of a load does not have. Its tables have no stage in front.
pub(crate) fn other_table(name: &str, names: &[String]) -> String {
    let own = name.rsplit_once('.').map_or(name, |(_, own)| own);
    let names = || names.iter().map(String::as_str);
    let usual = contract::usual_table(own).filter(|usual| names().any(|name| name == *usual));
    match usual.or_else(|| closest(own, names())) {
        Some(table) if !own.is_empty() => did_you_mean(table),
        _ => format!("its tables: {}", names().collect::<Vec<_>>().join(", ")),
    }
}
