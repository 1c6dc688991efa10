//! What an audit says: findings with their place, evidence and confidence.

use std::fmt;

use serde::Serialize;

use crate::rules::Rule;

/// How sure a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// To look at: the text may mean something else, or only asks for a confirmation.
    Low,
    /// The binding of the words to the numbers is an inference; the arithmetic is not.
    Medium,
    /// Operands and result are beside each other, or the form itself is broken.
    High,
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        })
    }
}

/// A value that speaks against a statement, and where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// `line 12`, or `table.csv:3`, and the cell.
    pub place: String,
    /// What is there.
    pub value: String,
}

impl Evidence {
    /// Makes one.
    pub fn new(place: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            value: value.into(),
        }
    }
}

/// One inconsistency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which rule found it.
    pub rule: Rule,
    /// How sure it is.
    pub confidence: Confidence,
    /// Line in the report, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The words in question.
    pub quote: String,
    /// What is wrong.
    pub message: String,
    /// The conflicting values.
    pub evidence: Vec<Evidence>,
}

/// The result of an audit, findings in the order of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Audit {
    /// The report, as it was named.
    pub report: String,
    /// Tables recognised in the report.
    pub tables: usize,
    /// Tables read from the data folder.
    pub data_tables: usize,
    /// What was found.
    pub findings: Vec<Finding>,
    /// Files of the data folder that could not be read, with the reason.
    pub unread: Vec<String>,
}

impl Audit {
    /// How many findings are at least this sure.
    pub fn count(&self, at_least: Confidence) -> usize {
        self.findings
            .iter()
            .filter(|finding| finding.confidence >= at_least)
            .count()
    }
}

impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(
                f,
                "{}:{}:{}: {} ({}): {}",
                self.report,
                finding.line,
                finding.column,
                finding.rule,
                finding.confidence,
                finding.message
            )?;
            writeln!(f, "    \"{}\"", finding.quote)?;
            for evidence in &finding.evidence {
                writeln!(f, "    {}: {}", evidence.place, evidence.value)?;
            }
        }
        for unread in &self.unread {
            writeln!(f, "not read: {unread}")?;
        }
        write!(
            f,
            "{} findings ({} high, {} medium, {} low); {} tables in the report, {} in the data",
            self.findings.len(),
            self.count(Confidence::High),
            self.count(Confidence::Medium) - self.count(Confidence::High),
            self.count(Confidence::Low) - self.count(Confidence::Medium),
            self.tables,
            self.data_tables
        )
    }
}
