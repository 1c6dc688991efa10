//! The audit: parse, apply every rule, order, merge.

use crate::finding::{Audit, Finding};
use crate::rules::{Scope, apply};
use crate::table::Table;
use crate::text::Report;

/// Audits a report against itself and against data tables. `name` is how the report is called in the result.
pub fn audit(name: &str, text: &str, data: &[Table], unread: Vec<String>) -> Audit {
    let report = Report::parse(text);
    let mut findings = apply(&Scope {
        report: &report,
        data,
    });
    findings.sort_by(|a, b| {
        let key = |f: &Finding| {
            (
                f.line,
                f.column,
                f.rule.id(),
                std::cmp::Reverse(f.confidence),
            )
        };
        key(a).cmp(&key(b)).then_with(|| a.message.cmp(&b.message))
    });
    findings.dedup_by(|later, first| {
        later.rule == first.rule && (later.line, later.column) == (first.line, first.column)
    });
    Audit {
        report: name.to_owned(),
        tables: report.tables.len(),
        data_tables: data.len(),
        findings,
        unread,
    }
}
