//! The contract of a gate.

use pipeline::{Failure, Json, Problem};
use rows::Settings;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::finding::{Judgement, Severity};
use crate::study::Stage;

/// A question asked of every cell, or of a stage as a whole.
pub(crate) trait Gate: Send + Sync {
    /// The name in `gate:`.
    fn name(&self) -> &'static str;
    /// What it asks, in one sentence.
    fn summary(&self) -> &'static str;
    /// What follows by default if it does not pass.
    fn severity(&self) -> Severity;
    /// The JSON Schema of its parameters.
    fn schema(&self) -> Json;
    /// Checks the parameters and returns them with defaults filled in.
    fn plan(&self, settings: &Settings<'_>) -> Result<Json, Vec<Problem>>;
    /// Returns the name in the results, if parameters decide it.
    fn label(&self, _parameters: &Json) -> String {
        self.name().to_owned()
    }
    /// Judges one stage.
    fn judge(&self, parameters: &Json, stage: &Stage<'_>) -> Result<Vec<Judgement>, Failure>;
}

/// A gate with typed parameters: what most gates implement.
pub(crate) trait TypedGate: Send + Sync {
    /// The parameters.
    type Parameters: Serialize + DeserializeOwned + schemars::JsonSchema;
    const NAME: &'static str;
    const SUMMARY: &'static str;
    const SEVERITY: Severity;
    /// Judges one stage.
    fn judge(&self, parameters: &Self::Parameters, stage: &Stage<'_>) -> Vec<Judgement>;
    /// Says what is wrong with well-typed parameters.
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
        rows::inline_schema::<G::Parameters>()
    }

    fn plan(&self, settings: &Settings<'_>) -> Result<Json, Vec<Problem>> {
        let parameters: G::Parameters = settings.read()?;
        let problems = self.check(&parameters, settings);
        if problems.is_empty() { Ok(rows::canonical(&parameters)) } else { Err(problems) }
    }

    fn judge(&self, parameters: &Json, stage: &Stage<'_>) -> Result<Vec<Judgement>, Failure> {
        let parameters = serde_json::from_value(parameters.clone())
            .map_err(|e| Failure::failed(format!("gate {}: {e}", G::NAME)))?;
        Ok(TypedGate::judge(self, &parameters, stage))
    }
}

/// Judges every cell that has rows with one function.
pub(crate) fn each(
    stage: &Stage<'_>,
    judge: impl Fn(&crate::study::Cell<'_>, &rows::CellRows) -> Verdict,
) -> Vec<Judgement> {
    let cells = stage.cells.iter().enumerate();
    cells
        .filter_map(|(i, cell)| {
            let Verdict { passed, observed, expected, evidence } = judge(cell, cell.rows.as_ref()?);
            Some(Judgement { cell: Some(i), passed, observed, expected, evidence })
        })
        .collect()
}

/// A judgement without its place.
pub(crate) struct Verdict {
    passed: Option<bool>,
    observed: String,
    expected: String,
    evidence: Option<String>,
}

impl Verdict {
    pub(crate) fn new(passed: bool, observed: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { passed: Some(passed), observed: observed.into(), expected: expected.into(), evidence: None }
    }

    /// There is nothing to judge, and why.
    pub(crate) fn none(why: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { passed: None, observed: why.into(), expected: expected.into(), evidence: None }
    }

    pub(crate) fn evidence(mut self, evidence: Option<String>) -> Self {
        self.evidence = evidence;
        self
    }
}

/// Names the first few of a list of rows.
pub(crate) fn some(rows: &[i64]) -> Option<String> {
    const SHOWN: usize = 5;
    let ids: Vec<String> = rows.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = rows.len().saturating_sub(SHOWN);
    let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!rows.is_empty()).then(|| format!("request_id {}{tail}", ids.join(", ")))
}
