//! The rows of a load whose tables do not fit on the disk. A measurement cannot be repeated, so its rows go elsewhere.

use std::io;
use std::path::{Path, PathBuf};

use contract::{Chunk, Request};

use crate::ordered::Ordered;
use crate::run::LoadError;
use crate::sheet::Sheet;

/// Writes the rows of a load into a new folder below the temporary one, and adds the folder to the error that prevented
/// their tables. An error of another kind, or without rows, stays as it is.
pub(crate) fn rescue(error: LoadError, ordered: &Ordered) -> LoadError {
    if !error.by_machine || ordered.is_empty() {
        return error;
    }
    let below = std::env::temp_dir();
    let more = match written(ordered, &below) {
        Ok((folder, rows)) => format!(
            "the rows of {rows} attempts are in {} (requests.parquet, chunks.parquet)",
            folder.display()
        ),
        Err(e) => format!(
            "the rows are lost, because {} has no room for them either ({e}); name a folder with room in `TMPDIR`",
            below.display()
        ),
    };
    LoadError {
        message: format!("{}; {more}", error.message),
        ..error
    }
}

fn written(ordered: &Ordered, below: &Path) -> io::Result<(PathBuf, u64)> {
    let folder = tempfile::Builder::new()
        .prefix("benchtrail-load-")
        .tempdir_in(below)?;
    let mut requests: Sheet<Request> =
        Sheet::create(folder.path(), &[]).map_err(io::Error::other)?;
    let mut chunks: Sheet<Chunk> = Sheet::create(folder.path(), &[]).map_err(io::Error::other)?;
    let mut rows = 0;
    ordered.each(&mut |mut row| {
        row.chunks.sort_by_key(|chunk| chunk.at_ns);
        rows += 1;
        requests.push(row.request).map_err(io::Error::other)?;
        let mut all = row.chunks.into_iter();
        all.try_for_each(|chunk| chunks.push(chunk))
            .map_err(io::Error::other)
    })?;
    requests.finish().map_err(io::Error::other)?;
    chunks.finish().map_err(io::Error::other)?;
    Ok((folder.keep(), rows))
}

#[cfg(test)]
mod tests {
    use artifacts::Table;
    use contract::synthetic::request;

    use super::*;
    use crate::ordered::Rows;

    #[test]
    fn rows_whose_tables_do_not_fit_are_written_elsewhere_and_the_error_names_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let mut ordered = Ordered::new(folder.path().to_owned(), 1000);
        let no_space = io::Error::from(io::ErrorKind::StorageFull);
        let full = || LoadError::caused("cannot write the tables into out: no space", &no_space);
        assert_eq!(
            rescue(full(), &ordered).message,
            full().message,
            "nothing was measured"
        );
        for id in [2, 0, 1] {
            let rows = Rows {
                request: request(id),
                chunks: Vec::new(),
            };
            ordered.push(&rows).unwrap();
        }
        let other = rescue(LoadError::new("no address"), &ordered);
        assert_eq!(other.message, "no address");
        let error = rescue(full(), &ordered);
        assert!(error.by_machine);
        assert_eq!(error.disk_fault, Some(artifacts::DiskFault::Full));
        let (before, after) = error
            .message
            .split_once("; the rows of 3 attempts are in ")
            .unwrap();
        assert_eq!(before, full().message);
        let place = Path::new(after.split_once(" (").unwrap().0);
        let table = std::fs::read(place.join("requests.parquet")).unwrap();
        let table = Table::from_parquet(table).unwrap();
        let ids = table.int("request_id").unwrap();
        assert_eq!(ids, [Some(0), Some(1), Some(2)]);
        assert!(place.join("chunks.parquet").is_file());
        std::fs::remove_dir_all(place).unwrap();
        let error = written(&ordered, &folder.path().join("nowhere")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
