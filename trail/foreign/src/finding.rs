//! The results of an audit: findings, each with its place, its cause and the conflicting values.

use std::fmt;

use serde::Serialize;

use crate::coverage::Coverage;

/// The kind of check behind a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// A result does not follow from the operands written beside it.
    Arithmetic,
    /// A total, an average or a count does not follow from the rows or items that it summarizes.
    Total,
    /// A row breaks a relation that holds in the other rows of its table.
    Relation,
    /// A sentence contradicts the only cells that it can be about.
    Claim,
    /// A cell differs from the data that yields the rest of its column.
    Data,
    /// Two places give one quantity different values.
    Restated,
    /// The rendered document differs from the source: lost cells, open fences, dangling references.
    Structure,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 7] = [
        Self::Arithmetic,
        Self::Total,
        Self::Relation,
        Self::Claim,
        Self::Data,
        Self::Restated,
        Self::Structure,
    ];

    /// The name in messages and in SARIF.
    pub fn id(self) -> &'static str {
        self.described().0
    }

    /// Returns a sentence about what it checks.
    pub fn meaning(self) -> &'static str {
        self.described().1
    }

    #[rustfmt::skip]
    fn described(self) -> (&'static str, &'static str) {
        match self {
            Self::Arithmetic => ("arithmetic", "A result follows from the operands written next to it."),
            Self::Total => ("total", "Totals, averages and counts follow from the rows or items that they sum up."),
            Self::Relation => ("relation", "Every row of a table keeps the relation that the other rows keep."),
            Self::Claim => ("claim", "A sentence agrees with the cells of the tables that it names."),
            Self::Data => ("data", "A cell agrees with the data that yields the rest of its column."),
            Self::Restated => ("restated", "One quantity has one value wherever it is stated."),
            Self::Structure => ("structure", "Readers see all that was written, and references lead somewhere."),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// A value that contradicts a statement, and its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// `line 12` or `table.csv:3`, and the cell.
    pub place: String,
    /// The value there.
    pub value: String,
}

impl Evidence {
    /// Creates evidence.
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
    /// The rule behind it.
    pub rule: Rule,
    /// Line in the report, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The words in question.
    pub quote: String,
    /// What is wrong.
    pub message: String,
    /// The common origin of findings that one correction resolves: a table, a column, a list.
    pub cause: String,
    /// The conflicting values.
    pub evidence: Vec<Evidence>,
}

impl Finding {
    /// Creates a finding without evidence.
    pub(crate) fn new(
        rule: Rule,
        (line, column): (usize, usize),
        quote: &str,
        message: String,
        cause: String,
    ) -> Self {
        Self {
            rule,
            line,
            column,
            quote: quote.to_owned(),
            message,
            cause,
            evidence: Vec::new(),
        }
    }
}

/// The audit of one document, with findings in document order.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Audit {
    /// The name of the document, as given.
    pub report: String,
    /// Tables read in the document.
    pub tables: usize,
    /// Tables given as data.
    pub data_tables: usize,
    /// The findings.
    pub findings: Vec<Finding>,
    /// The lines of sentences and cells that are too long to be checked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub too_long: Vec<usize>,
    /// The sources of the numbers, if data was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coverage: Option<Coverage>,
}

impl Audit {
    /// Returns the findings by cause, with causes in the order of their first finding.
    pub fn causes(&self) -> Vec<(&str, Vec<&Finding>)> {
        let mut groups: Vec<(&str, Vec<&Finding>)> = Vec::new();
        let mut at = std::collections::BTreeMap::new();
        for finding in &self.findings {
            let key = (finding.rule, finding.cause.as_str());
            let index = *at.entry(key).or_insert_with(|| {
                groups.push((finding.cause.as_str(), Vec::new()));
                groups.len() - 1
            });
            groups[index].1.push(finding);
        }
        groups
    }
}

/// The maximum number of findings of one cause that are printed in full; the rest is counted.
const SHOWN: usize = 5;

impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups = self.causes();
        for (_, group) in &groups {
            for finding in group.iter().take(SHOWN) {
                let Finding {
                    rule,
                    line,
                    column,
                    message,
                    ..
                } = finding;
                writeln!(f, "{}:{line}:{column}: {rule}: {message}", self.report)?;
                writeln!(f, "    \"{}\"", finding.quote)?;
                for evidence in &finding.evidence {
                    writeln!(f, "    {}: {}", evidence.place, evidence.value)?;
                }
            }
            if group.len() > SHOWN {
                let lines: Vec<String> = group[SHOWN..]
                    .iter()
                    .take(20)
                    .map(|finding| finding.line.to_string())
                    .collect();
                let more = group.len() - SHOWN;
                let dots = if more > 20 { ", …" } else { "" };
                writeln!(
                    f,
                    "    and {more} more of the same cause, in lines {}{dots}",
                    lines.join(", ")
                )?;
            }
        }
        if let Some(coverage) = &self.coverage {
            writeln!(f, "{coverage}")?;
        }
        let count =
            |n: usize, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
        let said = match self.findings.len() {
            0 => "no findings".to_owned(),
            n => format!(
                "{} of {}",
                count(n, "finding", "findings"),
                count(groups.len(), "cause", "causes")
            ),
        };
        write!(
            f,
            "{said} in {}; {} read in the document, {} in the data",
            self.report,
            count(self.tables, "table", "tables"),
            self.data_tables
        )
    }
}
