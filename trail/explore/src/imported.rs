//! Cells whose rows were imported: their record says when a file was read, and only the rows say when it was measured.

use artifacts::{Store, Table};
use pipeline::lock::LockCell;
use serde::Deserialize;

use crate::catalogue::record_of;

/// The part of a recipe that shows where the rows come from.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Origin {
    #[serde(default)]
    parameters: Given,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Given {
    import: Option<Import>,
}

#[derive(Debug, Deserialize)]
struct Import {
    #[serde(default)]
    tool: Option<String>,
}

impl Origin {
    /// Returns whether the rows were imported.
    pub(crate) fn is_imported(&self) -> bool {
        self.parameters.import.is_some()
    }

    /// Returns the tool that measured imported rows.
    pub(crate) fn tool(&self) -> Option<&str> {
        self.parameters.import.as_ref()?.tool.as_deref()
    }
}

/// Returns when an imported cell was measured, if its rows say so.
pub(crate) fn started(stage: &str, cell: &LockCell, store: &Store) -> Option<String> {
    let record = record_of(store, stage, cell).ok()??;
    let facts = record.outputs.get("cell")?;
    let table = Table::from_parquet(store.get(&facts.digest).ok()?).ok()?;
    let started = table.int("started_unix_ns").ok()?;
    started.first().copied().flatten().and_then(utc)
}

/// Returns a time since 1970 as text, to the nanosecond.
fn utc(unix_ns: i64) -> Option<String> {
    let time = jiff::Timestamp::from_nanosecond(i128::from(unix_ns)).ok()?;
    Some(format!("{time:.9}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_since_1970_are_dates() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00"),
            (951_782_400, "2000-02-29T00:00:00"),
            (951_868_799, "2000-02-29T23:59:59"),
            (1_709_251_199, "2024-02-29T23:59:59"),
            (1_795_949_036, "2026-11-29T10:43:56"),
            (4_107_542_400, "2100-03-01T00:00:00"),
            (-1, "1969-12-31T23:59:59"),
        ] {
            let shown = utc(seconds * 1_000_000_000).unwrap();
            assert_eq!(shown, format!("{text}.000000000Z"));
        }
        assert_eq!(utc(-1).unwrap(), "1969-12-31T23:59:59.999999999Z");
        assert_eq!(utc(i64::MIN).unwrap(), "1677-09-21T00:12:43.145224192Z");
        assert_eq!(utc(i64::MAX).unwrap(), "2262-04-11T23:47:16.854775807Z");
    }

    #[test]
    fn a_recipe_without_an_import_was_executed_here() {
        let origin = |text: &str| -> Origin { serde_json::from_str(text).unwrap() };
        assert!(!origin("{}").is_imported());
        assert!(!origin(r#"{"parameters": {"requests": 3}}"#).is_imported());
        let imported = origin(r#"{"parameters": {"import": {"tool": "benchtrail"}}}"#);
        assert_eq!(imported.tool(), Some("benchtrail"));
    }
}
