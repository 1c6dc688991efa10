//! Tables outside any store: a Parquet file, and the folder that `load --out` writes.

use std::path::{Path, PathBuf};

use crate::exit::Stop;

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
            .hint(format!("benchtrail show {}", path.display()))),
        };
    }
    let names = tables(path)?;
    let listed = || format!("its tables: {}", names.join(", "));
    let Some(table) = table else {
        return Err(Stop::usage("which table?").hint(listed()));
    };
    let name = table.strip_suffix(".parquet").unwrap_or(table);
    if names.iter().any(|n| n == name) {
        Ok(path.join(format!("{name}.parquet")))
    } else {
        Err(Stop::nothing(format!("{} has no table `{name}`", path.display())).hint(listed()))
    }
}
