//! Findings as SARIF 2.1.0 (OASIS standard), for code hosts and editors.

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
                    "artifactLocation": {"uri": uri(&audit.report)},
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

/// A path as a relative URI reference: everything except RFC 3986's unreserved set and `/` is percent-encoded.
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
