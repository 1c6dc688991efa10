//! The findings of gates, and the tables of them.

use artifacts::{Column, Scalar, Table, TableError};
pub(crate) use contract::{GateOutcome as Outcome, GateSeverity as Severity};

use crate::study::Stage;

/// A gate's judgement about one cell or about a stage.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Judgement {
    /// The position of the cell in its stage; `None` for the stage as a whole.
    pub(crate) cell: Option<usize>,
    pub(crate) outcome: Outcome,
    pub(crate) observed: String,
    pub(crate) expected: String,
    pub(crate) evidence: Option<String>,
}

/// A judgement with its gate and stage.
pub(crate) struct GateJudgement<'a> {
    pub(crate) stage: &'a Stage<'a>,
    pub(crate) gate: String,
    pub(crate) severity: Severity,
    /// The reason declared for an exclusion.
    pub(crate) reason: Option<String>,
    pub(crate) judgement: Judgement,
}

impl GateJudgement<'_> {
    pub(crate) fn bars_its_cell(&self) -> bool {
        self.judgement.outcome == Outcome::Fail
            && self.judgement.cell.is_some()
            && self.severity != Severity::Warn
    }

    /// Returns the label on an axis: the cell's label or, for the whole stage, the label that all
    /// its cells share, if any. This distinguishes the stages of verify cells that run once per
    /// host.
    fn coordinate(&self, axis: &str) -> Scalar {
        let label = |c: usize| self.stage.cells[c].input.coordinates.get(axis);
        let label = match self.judgement.cell {
            Some(cell) => label(cell),
            None => {
                let mut labels = (0..self.stage.cells.len()).map(label);
                let first = labels.next().flatten();
                first.filter(|first| labels.all(|l| l == Some(*first)))
            }
        };
        label.cloned().unwrap_or(Scalar::Null)
    }

    fn place(&self) -> Option<String> {
        self.judgement
            .cell
            .map(|c| self.stage.cells[c].input.coordinates.to_string())
    }
}

/// Returns the column name for an axis: its own name, unless the tables already have a column of
/// that name.
fn column_of(axis: &str) -> String {
    const TAKEN: [&str; 9] = [
        "stage", "cell", "gate", "severity", "outcome", "observed", "expected", "evidence",
        "reason",
    ];
    match TAKEN.contains(&axis) {
        true => format!("axis_{axis}"),
        false => axis.to_owned(),
    }
}

/// Makes the columns that begin every table of findings.
fn places(findings: &[&GateJudgement<'_>], axes: &[String]) -> Result<Vec<Column>, TableError> {
    let mut columns = vec![
        Column::text("stage", findings.iter().map(|f| Some(f.stage.name)))
            .describe("the load stage"),
        Column::text("cell", findings.iter().map(|f| f.place()))
            .describe("the cell's coordinates as text; null for the stage as a whole"),
    ];
    for axis in axes {
        let values: Vec<Scalar> = findings.iter().map(|f| f.coordinate(axis)).collect();
        let name = column_of(axis);
        let column = Column::from_scalars(&name, &values).or_else(|_| {
            // Stages may use one axis name with labels of different types.
            let text = values.iter().map(|v| {
                if *v == Scalar::Null {
                    None
                } else {
                    Some(v.to_string())
                }
            });
            Ok::<_, TableError>(Column::text(&name, text))
        })?;
        columns.push(column.describe("key"));
    }
    columns.push(
        Column::text("gate", findings.iter().map(|f| Some(f.gate.as_str()))).describe("the gate"),
    );
    columns.push(
        Column::text("severity", findings.iter().map(|f| Some(f.severity.word())))
            .describe("the consequence of a failure: `fail`, `exclude` or `warn`"),
    );
    Ok(columns)
}

fn keys(axes: &[String]) -> String {
    format!(
        "stage,cell,{}gate",
        axes.iter()
            .map(|a| format!("{},", column_of(a)))
            .collect::<String>()
    )
}

/// Makes the table `gates`.
pub(crate) fn gates_table(
    findings: &[GateJudgement<'_>],
    axes: &[String],
) -> Result<Table, TableError> {
    let all: Vec<&GateJudgement<'_>> = findings.iter().collect();
    let mut columns = places(&all, axes)?;
    columns.extend([
        Column::text(
            "outcome",
            findings.iter().map(|f| Some(f.judgement.outcome.word())),
        )
        .describe("`pass`, `fail`, or `not judged` if the rows do not allow a decision"),
        Column::text(
            "observed",
            findings.iter().map(|f| Some(f.judgement.observed.as_str())),
        )
        .describe("what the gate observed"),
        Column::text(
            "expected",
            findings.iter().map(|f| Some(f.judgement.expected.as_str())),
        )
        .describe("what the gate expected"),
        Column::text(
            "evidence",
            findings.iter().map(|f| f.judgement.evidence.as_deref()),
        )
        .describe("where to look; null if the observation suffices"),
    ]);
    Table::with_metadata(columns, &[("keys", &keys(axes)), ("level", "cell")])
}

/// Makes the table `exclusions`.
pub(crate) fn exclusions_table(
    findings: &[GateJudgement<'_>],
    axes: &[String],
) -> Result<Table, TableError> {
    let barred: Vec<&GateJudgement<'_>> = findings.iter().filter(|f| f.bars_its_cell()).collect();
    let mut columns = places(&barred, axes)?;
    let reason = |f: &&GateJudgement<'_>| {
        let what = format!(
            "{} (expected {})",
            f.judgement.observed, f.judgement.expected
        );
        Some(match &f.reason {
            Some(reason) => format!("{reason}: {what}"),
            None => what,
        })
    };
    columns.push(
        Column::text("reason", barred.iter().map(reason))
            .describe("why the cell is excluded from statistics"),
    );
    Table::with_metadata(columns, &[("keys", &keys(axes)), ("level", "cell")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_may_be_called_like_a_column_of_the_table() {
        assert_eq!(
            keys(&["cell".to_owned(), "rep".to_owned()]),
            "stage,cell,axis_cell,rep,gate"
        );
        assert_eq!(column_of("clients"), "clients");
    }
}
