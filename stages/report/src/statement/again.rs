//! A rule judged again, from outside of a rendering: for audits.

use std::sync::Arc;

use artifacts::{Digest, Table};
use pipeline::stage::Coordinates;

use super::bound::{rows, values};
use super::judge::judge;
use super::rule::Rule;
use crate::data::{Miss, Part, View};
use crate::trace::Source;

/// One cell's table: its coordinates, its digest, its rows.
pub type TablePart = (Coordinates, Digest, Table);

/// What a rule's evaluation found, as the table `statements` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejudged {
    /// `yes`, `no` or `unknown`.
    pub truth: &'static str,
    /// How many rows were looked at; `None` for rules made of rules.
    pub n: Option<usize>,
    /// How many of them meet the predicate.
    pub count: Option<usize>,
    /// Values of the evaluation, as JSON.
    pub values: String,
    /// The rows against it, as JSON: digest of the table and row.
    pub against: String,
}

/// Judges a rule, given as the JSON of the column `rule`, over the tables that `read` gives.
///
/// # Errors
/// If the text is no rule, a table cannot be read, or the rule does not fit its tables.
pub fn judge_again(
    rule: &str,
    read: &dyn Fn(&str) -> Result<Vec<TablePart>, String>,
) -> Result<Rejudged, String> {
    let rule: Rule = serde_json::from_str(rule).map_err(|e| format!("not a rule: {e}"))?;
    let look = |name: &str, condition: &crate::data::Where| {
        let parts = read(name)?.into_iter().map(|(coordinates, digest, table)| Part {
            coordinates,
            digest,
            content: Arc::new(table),
        });
        let place = name.split_once('.').unwrap_or(("", name));
        View::choose(Source::Table, place, parts.collect(), Vec::new(), condition)
    };
    let found = judge(&rule, &look).map_err(|miss| match miss {
        Miss::Unread => "a table is not read".to_owned(),
        Miss::Wrong(message) => message,
    })?;
    Ok(Rejudged {
        truth: found.truth.word(),
        n: found.n(),
        count: found.count,
        values: values(&found),
        against: rows(&found),
    })
}
