//! Findings as SARIF 2.1.0 (OASIS standard), for code hosts and editors.

use serde_json::{Value, json};

use crate::finding::{Audit, Confidence};
use crate::rules::Rule;

/// The audit as one SARIF run. Confidence becomes the level: high = `error`, medium = `warning`, low = `note`.
pub fn sarif(audit: &Audit) -> Value {
    let rules: Vec<Value> = Rule::ALL
        .iter()
        .map(|rule| json!({"id": rule.id(), "shortDescription": {"text": rule.meaning()}}))
        .collect();
    let results: Vec<Value> = audit
        .findings
        .iter()
        .map(|finding| {
            let mut text = finding.message.clone();
            for evidence in &finding.evidence {
                text.push_str(&format!("\n{}: {}", evidence.place, evidence.value));
            }
            let level = match finding.confidence {
                Confidence::High => "error",
                Confidence::Medium => "warning",
                Confidence::Low => "note",
            };
            let index = Rule::ALL.iter().position(|rule| *rule == finding.rule);
            json!({
                "ruleId": finding.rule.id(),
                "ruleIndex": index,
                "level": level,
                "message": {"text": text},
                "locations": [{"physicalLocation": {
                    "artifactLocation": {"uri": uri(&audit.report)},
                    "region": {
                        "startLine": finding.line,
                        "startColumn": finding.column,
                        "snippet": {"text": finding.quote},
                    },
                }}],
                "properties": {"confidence": finding.confidence},
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

/// A path as a relative URI reference: everything outside RFC 3986's unreserved set and `/` is percent-encoded.
fn uri(path: &str) -> String {
    let mut uri = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri
}
