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
    started.first().copied().flatten().map(utc)
}

/// Returns a time since 1970 as text: the date by the algorithm of Howard Hinnant, in the Gregorian calendar.
fn utc(unix_ns: i64) -> String {
    let (seconds, ns) = (
        unix_ns.div_euclid(1_000_000_000),
        unix_ns.rem_euclid(1_000_000_000),
    );
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Years begin in March, so that the leap day is the last of its year, and 400 years are an era.
    let since = days + 719_468;
    let (era, day) = (since.div_euclid(146_097), since.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = year + 400 * era + next;
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ns:09}Z")
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
            assert_eq!(utc(seconds * 1_000_000_000), format!("{text}.000000000Z"));
        }
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
