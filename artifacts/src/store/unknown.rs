//! Finds records that a file outside the store names and the index does not know.

use std::collections::{BTreeSet, HashMap};

use rusqlite::Connection;

use super::StoreError;
use super::index::{Index, digest};
use crate::{ActionKey, Digest};

/// If more than one row in this many is wanted, reading all rows is cheaper than searching the index for each.
const SCANNED: usize = 4;

impl Index {
    /// Returns the records that have no row, or a row with a different key from the one given.
    pub(super) fn unknown(
        &self,
        named: &[(Digest, Option<ActionKey>)],
    ) -> Result<BTreeSet<Digest>, StoreError> {
        let query = || {
            // In one view: each separate query would acquire and release the lock of the index.
            let view = self.connection.unchecked_transaction()?;
            let rows: i64 = view.query_row("SELECT rows FROM tally", [], |row| row.get(0))?;
            if usize::try_from(rows).unwrap_or_default() / SCANNED < named.len() {
                return unknown_by_scan(&view, named);
            }
            let text = "SELECT key FROM history WHERE record = ?1";
            let mut statement = view.prepare_cached(text)?;
            let mut unknown = BTreeSet::new();
            for (record, key) in named {
                let mut rows = statement.query([record.as_bytes()])?;
                let mut wanted = Wanted::with(*key);
                while let Some(row) = rows.next()? {
                    wanted.hear(digest(row, 0));
                }
                if !wanted.is_known() {
                    unknown.insert(*record);
                }
            }
            Ok(unknown)
        };
        query().map_err(|e| self.error(e))
    }
}

/// Same as [`Index::unknown`], but reads all rows in sequence.
fn unknown_by_scan(
    connection: &Connection,
    named: &[(Digest, Option<ActionKey>)],
) -> rusqlite::Result<BTreeSet<Digest>> {
    let mut wanted: HashMap<Digest, Wanted> = HashMap::with_capacity(named.len());
    for (record, key) in named {
        let wanted = wanted.entry(*record).or_default();
        wanted.key = wanted.key.or(*key);
    }
    let mut statement = connection.prepare_cached("SELECT record, key FROM history")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if let Some(wanted) = wanted.get_mut(&digest(row, 0)?) {
            wanted.hear(digest(row, 1));
        }
    }
    let unknown = wanted.into_iter().filter(|(_, w)| !w.is_known());
    Ok(unknown.map(|(record, _)| record).collect())
}

/// A record to look for.
#[derive(Default)]
struct Wanted {
    key: Option<ActionKey>,
    /// Whether all of its rows have the key; `None` until a row is seen.
    fits: Option<bool>,
}

impl Wanted {
    fn with(key: Option<ActionKey>) -> Self {
        Self { key, fits: None }
    }

    /// Takes in the key of a row of the record.
    fn hear(&mut self, key: rusqlite::Result<Digest>) {
        let fits = self.key.is_none_or(|wanted| key.ok() == Some(wanted.0));
        self.fits = Some(fits && self.fits != Some(false));
    }

    /// Returns whether the record has rows, and all of them have the key.
    fn is_known(&self) -> bool {
        self.fits == Some(true)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::Commit;
    use super::*;

    fn record(number: usize) -> Digest {
        Digest::of(format!("record {number}").as_bytes())
    }

    fn key(number: usize) -> ActionKey {
        ActionKey(Digest::of(format!("key {number}").as_bytes()))
    }

    fn commit(number: usize, stage: &str, key: ActionKey) -> Commit {
        Commit {
            experiment: "study".to_owned(),
            stage: stage.to_owned(),
            coordinates: format!("rep={number}"),
            key,
            record: record(number),
            objects: Vec::new(),
            status: "ok".to_owned(),
            cacheable: true,
            seconds: 1.0,
            outputs: String::new(),
        }
    }

    #[test]
    fn records_that_are_not_there_or_have_another_key_are_unknown_however_many_are_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["objects", "tmp"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let mut index = Index::open(folder.path()).unwrap();
        let mut commits: Vec<Commit> = (0..40).map(|n| commit(n, "load", key(n))).collect();
        // A second row of a record contradicts the first.
        commits.push(commit(7, "other", key(8)));
        index.write(&BTreeMap::new(), &commits).unwrap();
        let mut named: Vec<(Digest, Option<ActionKey>)> = vec![
            (record(1), Some(key(1))),
            (record(2), None),
            (record(3), Some(key(4))),
            (record(7), Some(key(7))),
            (record(99), None),
        ];
        let expected = BTreeSet::from([record(3), record(7), record(99)]);
        assert!(commits.len() / SCANNED >= named.len(), "searched");
        assert_eq!(index.unknown(&named).unwrap(), expected);
        named.extend((10..40).map(|n| (record(n), Some(key(n)))));
        // A journal names the same records as the lock, but without keys.
        named.extend((10..40).map(|n| (record(n), None)));
        assert!(commits.len() / SCANNED < named.len(), "scanned");
        assert_eq!(index.unknown(&named).unwrap(), expected);
    }
}
