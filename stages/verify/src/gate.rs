//! The interface of a gate.

use contract::{CellRows, Settings};
use pipeline::{Failure, Json, Library, Problem, Step};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::finding::{Judgement, Outcome, Severity};
use crate::study::{Cell, Stage};

/// The parameters of a gate, as written in the experiment.
pub(crate) type Values = serde_json::Map<String, Json>;

/// A name without a definition.
pub(crate) struct Unresolved {
    pub(crate) key: &'static str,
    pub(crate) message: String,
    pub(crate) hint: String,
}

/// A check of every cell, or of a stage as a whole.
pub(crate) trait Gate: Send + Sync {
    /// The name in `gate:`.
    fn name(&self) -> &'static str;
    /// The question that it checks, in one sentence.
    fn summary(&self) -> &'static str;
    /// The default consequence of a failure.
    fn severity(&self) -> Severity;
    /// The JSON Schema of its parameters.
    fn schema(&self) -> Json;
    /// Replaces names by definitions of the library, before the parameters are checked.
    ///
    /// # Errors
    /// If a name has no definition.
    fn resolve(&self, _values: &mut Values, _library: &dyn Library) -> Result<(), Unresolved> {
        Ok(())
    }
    /// Checks the parameters and returns them with defaults filled in.
    fn plan(&self, settings: &Settings<'_>) -> Result<Json, Vec<Problem>>;
    /// Returns the name in the results, if it depends on parameters.
    fn label(&self, _parameters: &Json) -> String {
        self.name().to_owned()
    }
    /// Returns whether it judges each cell separately. If so, it receives a stage in groups of cells.
    fn judges_cells_alone(&self) -> bool {
        false
    }
    /// Judges one stage.
    fn judge(&self, parameters: &Json, stage: &Stage<'_>) -> Result<Vec<Judgement>, Failure>;
}

/// A gate with typed parameters, which most gates are.
pub(crate) trait TypedGate: Send + Sync {
    /// The parameters.
    type Parameters: Serialize + DeserializeOwned + schemars::JsonSchema;
    const NAME: &'static str;
    const SUMMARY: &'static str;
    const SEVERITY: Severity;
    /// See [`Gate::judges_cells_alone`].
    const CELLS_ALONE: bool = false;
    /// Judges one stage.
    fn judge(&self, parameters: &Self::Parameters, stage: &Stage<'_>) -> Vec<Judgement>;
    /// See [`Gate::resolve`].
    fn resolve(&self, _values: &mut Values, _library: &dyn Library) -> Result<(), Unresolved> {
        Ok(())
    }
    /// Returns the problems with well-typed parameters.
    fn check(&self, _parameters: &Self::Parameters, _settings: &Settings<'_>) -> Vec<Problem> {
        Vec::new()
    }
}

impl<G: TypedGate> Gate for G {
    fn name(&self) -> &'static str {
        G::NAME
    }

    fn summary(&self) -> &'static str {
        G::SUMMARY
    }

    fn severity(&self) -> Severity {
        G::SEVERITY
    }

    fn schema(&self) -> Json {
        contract::inline_schema::<G::Parameters>()
    }

    fn resolve(&self, values: &mut Values, library: &dyn Library) -> Result<(), Unresolved> {
        TypedGate::resolve(self, values, library)
    }

    fn plan(&self, settings: &Settings<'_>) -> Result<Json, Vec<Problem>> {
        let parameters: G::Parameters = settings.read()?;
        planned(&parameters, self.check(&parameters, settings), settings)
    }

    fn judges_cells_alone(&self) -> bool {
        G::CELLS_ALONE
    }

    fn judge(&self, parameters: &Json, stage: &Stage<'_>) -> Result<Vec<Judgement>, Failure> {
        let parameters = serde_json::from_value(parameters.clone())
            .map_err(|e| Failure::failed(format!("gate {}: {e}", G::NAME)))?;
        Ok(TypedGate::judge(self, &parameters, stage))
    }
}

/// Judges every cell that has rows with one function, in parallel. The results keep the order of the cells.
pub(crate) fn each(
    stage: &Stage<'_>,
    judge: &(dyn Fn(&Cell<'_>, &CellRows) -> Assessment + Sync),
) -> Vec<Judgement> {
    use rayon::prelude::*;
    let cells = stage.cells.par_iter().enumerate();
    cells
        .filter_map(|(i, cell)| {
            let Assessment {
                outcome,
                observed,
                expected,
                evidence,
            } = judge(cell, cell.rows()?.as_ref());
            Some(Judgement {
                cell: Some(i),
                outcome,
                observed,
                expected,
                evidence,
            })
        })
        .collect()
}

/// Why a gate does not judge how requests lie in time.
pub(crate) const NO_CLOCK: &str = "the file has no start times: each row counts from its own send";

/// A judgement without its place.
pub(crate) struct Assessment {
    outcome: Outcome,
    observed: String,
    expected: String,
    evidence: Option<String>,
}

impl Assessment {
    pub(crate) fn new(
        holds: bool,
        observed: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self {
            outcome: Outcome::of(holds),
            observed: observed.into(),
            expected: expected.into(),
            evidence: None,
        }
    }

    /// Returns the judgement that the rows do not decide, with the reason.
    pub(crate) fn not_judged(why: impl Into<String>, expected: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::NotJudged,
            observed: why.into(),
            expected: expected.into(),
            evidence: None,
        }
    }

    /// Makes it a judgement of the whole stage.
    pub(crate) fn of_stage(self) -> Judgement {
        let Self {
            outcome,
            observed,
            expected,
            evidence,
        } = self;
        Judgement {
            cell: None,
            outcome,
            observed,
            expected,
            evidence,
        }
    }

    /// Makes it a judgement of one cell.
    pub(crate) fn of_cell(self, cell: usize) -> Judgement {
        Judgement {
            cell: Some(cell),
            ..self.of_stage()
        }
    }

    pub(crate) fn evidence(mut self, evidence: Option<String>) -> Self {
        self.evidence = evidence;
        self
    }
}

/// Returns well-typed parameters in canonical form.
///
/// # Errors
/// If there are problems, or if `alpha` is a level of confidence and not a probability of error.
pub(crate) fn planned<P: Serialize>(
    parameters: &P,
    mut problems: Vec<Problem>,
    settings: &Settings<'_>,
) -> Result<Json, Vec<Problem>> {
    let canonical = contract::canonical(parameters);
    if let Some(alpha) = canonical["alpha"].as_f64().filter(|alpha| *alpha > 0.5) {
        let message =
            format!("`alpha` must be at most 0.5, found {alpha}: it is a chance of error");
        let problem = settings.problem(&[Step::Key("alpha".to_owned())], message);
        let error = statistics::significant_without_zeros(1.0 - alpha, 3);
        let level = statistics::significant_without_zeros(100.0 * alpha, 3);
        problems.push(problem.hint(match alpha < 1.0 {
            true => format!("write {error} for a level of {level} %"),
            false => "write a number above 0 and at most 0.5, such as 0.05".to_owned(),
        }));
    }
    if problems.is_empty() {
        Ok(canonical)
    } else {
        Err(problems)
    }
}

/// Formats a measured number with three significant digits for display; `infinite` for a rate over no time.
pub(crate) fn show(value: f64) -> String {
    match value {
        unknown if unknown.is_nan() => "unknown".to_owned(),
        infinite if infinite.is_infinite() => "infinite".to_owned(),
        _ => statistics::significant(value, 3),
    }
}

/// Formats a relative change, such as `+12.0 %`.
pub(crate) fn percent(change: f64) -> String {
    format!("{:+.1} %", 100.0 * change)
}

/// Formats a share, such as `12.0 %`.
pub(crate) fn share(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// The number of places or findings that a message names.
pub(crate) const SHOWN: usize = 5;

/// Names the first few places or findings of a list.
pub(crate) fn listed(places: &[String]) -> Option<String> {
    listed_of(places, places.len())
}

/// Names the first few of `count` places or findings; `first` must hold at least as many as are named.
pub(crate) fn listed_of(first: &[String], count: usize) -> Option<String> {
    let more = count.saturating_sub(SHOWN);
    let tail = if more > 0 {
        format!("; and {more} more")
    } else {
        String::new()
    };
    (count > 0).then(|| format!("{}{tail}", first[..first.len().min(SHOWN)].join("; ")))
}

/// Names the first few of a list of rows.
pub(crate) fn some(rows: &[i64]) -> Option<String> {
    let ids: Vec<String> = rows.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = rows.len().saturating_sub(SHOWN);
    let tail = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    (!rows.is_empty()).then(|| format!("request_id {}{tail}", ids.join(", ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::gates::outlying_repeats::OutlyingRepeats;
    use crate::one_cell::refused;

    #[test]
    fn a_level_and_a_percentage_in_place_of_a_share_are_refused_with_a_remedy() {
        let refused = |parameters| refused(&OutlyingRepeats, parameters).join("; ");
        assert_eq!(
            refused(json!({"alpha": 0.95})),
            "`alpha` must be at most 0.5, found 0.95: it is a chance of error (write 0.05 for a level of 95 %)"
        );
        assert!(refused(json!({"alpha": 5})).contains("write 0.05 for 5 %"));
        assert!(refused(json!({"alpha": 0})).contains("must be greater than 0"));
        assert!(refused(json!({"effect": 10})).contains("write 0.1 for 10 %"));
        assert_eq!(refused(json!({"alpha": 0.05, "effect": 0})), "");
    }
}
