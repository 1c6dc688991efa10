//! `balanced-conditions`: was the machine busier for one side than for the other?

use conditions::Compared;
use contract::Settings;
use pipeline::suggest::remedy;
use pipeline::{Problem, Step};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, TypedGate, listed};
use crate::imbalances::imbalances;
use crate::study::Stage;

pub(crate) struct BalancedConditions;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The axis compared across: its labels are the sides.
    pub(crate) across: String,
    /// The probability of any false alarm per load stage with blocks.
    #[serde(default = "twentieth")]
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub(crate) alpha: f64,
    /// Conditions in which the sides may differ. For example, allow `frequency` if the sides run on
    /// different machines on purpose.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) may_differ: Vec<String>,
}

fn twentieth() -> f64 {
    conditions::ALPHA
}

impl TypedGate for BalancedConditions {
    type Parameters = Parameters;
    const NAME: &'static str = "balanced-conditions";
    const SUMMARY: &'static str = "\
        The sides of a comparison were measured under the same conditions.\n\n\
        Telemetry samples these conditions during each cell: the load of other programs, steal, memory pressure, \
        network errors and other processes on the GPUs. It also samples the threads that ran, the frequency and the \
        temperature before the load. What the server itself causes does not count: its threads, its heat, its \
        processes on the GPUs. For a server on another machine, the gate uses the conditions there.\n\n\
        Each condition has a smallest difference that matters. With an axis `block`, a condition fails if the sides \
        differ by more than that and a paired t test over blocks confirms it, Holm-adjusted over conditions and pairs \
        of sides. Without blocks, it fails if they differ by more than twice that. The table `imbalances` has a row \
        for each pair of sides and each condition that differs.\n\n\
        The comparisons of the analyze stage always make the same check, even without this gate. They call a \
        difference between such sides undecidable.";
    const SEVERITY: Severity = Severity::Warn;

    fn check(&self, parameters: &Parameters, settings: &Settings<'_>) -> Vec<Problem> {
        let mut problems = Vec::new();
        if parameters.across.is_empty() {
            problems.push(settings.problem(&[], "`across` names no axis"));
        }
        let names = conditions::names();
        for (i, name) in parameters.may_differ.iter().enumerate() {
            if !names.contains(&name.as_str()) {
                let place = [Step::Key("may-differ".to_owned()), Step::Index(i)];
                let message = format!("unknown condition `{name}`");
                let problem = settings.problem(&place, message);
                problems.push(problem.hint(remedy(name, "conditions", &names)));
            }
        }
        problems
    }

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        let expected = format!(
            "the labels of {} measured under the same conditions",
            parameters.across
        );
        if !stage.axes.contains(&parameters.across) {
            let observed = format!("the stage has no axis {}", parameters.across);
            return vec![Assessment::new(false, observed, expected).of_stage()];
        }
        let all = imbalances(
            stage,
            &parameters.across,
            parameters.alpha,
            &parameters.may_differ,
        );
        if all.is_empty() {
            let why = "no two sides have telemetry of their cells";
            return vec![Assessment::not_judged(why, expected).of_stage()];
        }
        let wrong: Vec<String> = all
            .iter()
            .filter(|c| c.differs)
            .map(Compared::text)
            .collect();
        let observed = if wrong.is_empty() {
            format!(
                "{} comparisons of conditions, none with a difference",
                all.len()
            )
        } else {
            format!(
                "{} of {} comparisons of conditions differ. Measure again in blocks on a quiet \
                machine",
                wrong.len(),
                all.len()
            )
        };
        vec![
            Assessment::new(wrong.is_empty(), observed, expected)
                .evidence(listed(&wrong))
                .of_stage(),
        ]
    }
}
