//! Findings as SARIF 2.1.0 (OASIS standard), for code hosts and editors.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::finding::{Audit, Rule};

/// The audits as one SARIF run. A claim is a `warning`, because its binding to a table is inferred; the rest are
/// `error`.
pub fn sarif(audits: &[Audit]) -> Value {
    let rules: Vec<Value> = Rule::ALL
        .iter()
        .map(|rule| json!({"id": rule.id(), "shortDescription": {"text": rule.meaning()}}))
        .collect();
    let results: Vec<Value> = audits
        .iter()
        .flat_map(|audit| audit.findings.iter().map(move |finding| (audit, finding)))
        .map(|(audit, finding)| {
            let mut text = finding.message.clone();
            for evidence in &finding.evidence {
                text.push_str(&format!("\n{}: {}", evidence.place, evidence.value));
            }
            let level = if finding.rule == Rule::Claim {
                "warning"
            } else {
                "error"
            };
            json!({
                "ruleId": finding.rule.id(),
                "ruleIndex": Rule::ALL.iter().position(|rule| *rule == finding.rule),
                "level": level,
                "message": {"text": text},
                "locations": [{"physicalLocation": {
                    "artifactLocation": {"uri": utf8_percent_encode(&audit.report, ESCAPED).to_string()},
                    "region": {
                        "startLine": finding.line,
                        "startColumn": finding.column,
                        "snippet": {"text": finding.quote},
                    },
                }}],
                "properties": {"cause": finding.cause},
            })
        })
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "benchtrail", "version": env!("CARGO_PKG_VERSION"), "rules": rules}},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

/// What is escaped in a path as a URI reference: all except RFC 3986's unreserved set and `/`.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/');
