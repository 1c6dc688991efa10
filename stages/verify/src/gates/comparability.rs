//! `comparability`: do compared cells differ only in the declared variable?

use std::collections::{BTreeMap, BTreeSet};

use artifacts::counted;
use contract::Settings;
use pipeline::Problem;
use pipeline::suggest::remedy;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::comparability::{FACETS, Pair, PairVerdict, Status, pairs};
use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, TypedGate, listed};
use crate::study::Stage;

pub(crate) struct Comparability;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The axis compared across: cells that differ only on this axis form pairs.
    pub(crate) across: String,
    /// What may differ between them: facets (`source`, `prompts`, `prompt-tokens`, `load`, `cache`,
    /// `client`, `host`, `model`, `engine`, `settings`), or a part of a facet, such as
    /// `settings.parallel`.
    #[serde(default = "engine_and_settings")]
    pub(crate) varies: Vec<String>,
}

fn engine_and_settings() -> Vec<String> {
    vec!["engine".to_owned(), "settings".to_owned()]
}

impl TypedGate for Comparability {
    type Parameters = Parameters;
    const NAME: &'static str = "comparability";
    const SUMMARY: &'static str = "\
        Cells that differ only on the compared axis form a pair, and the cells of a pair differ only in what you \
        declare. The table `comparability` lists every pair.\n\n\
        The cells of a pair have the same prompts by digest, the same prompt-token counts, load, host facets and \
        model digest. If a facet is not known, the pair is `unknown`, which is not a pass. A pair is \
        `tokenizer-confounded` if counts differ for the same prompts, or if the counts are disjoint or shifted \
        (Mann–Whitney, p < 0.001 per pair).\n\n\
        Host, model, engine and settings are known if the verify stage also needs the serve stage. The facet `engine` \
        contains the version, the packages, and what you installed: the program, its Python packages, the variables \
        that it inherits, the image. For a server that was already running, host and settings are unknown. If the \
        engine resolves the weights itself, it must have been started with their revision.\n\n\
        If several cells of one server sent the same prompts, one of these must hold:\n\n\
        - The cache was emptied before each cell (`cache_reset`).\n\
        - The server reports that none of these prompts came from a cache.\n\
        - The server reports nothing about a cache, and a setting switches the cache off, as the engine's definition \
        says (`prompt-cache`).";
    const SEVERITY: Severity = Severity::Fail;

    fn check(&self, parameters: &Parameters, settings: &Settings<'_>) -> Vec<Problem> {
        let at = |key: &str| [pipeline::Step::Key(key.to_owned())];
        let mut problems = Vec::new();
        if parameters.across.is_empty() {
            problems.push(settings.problem(&at("across"), "`across` does not name an axis"));
        }
        for varies in &parameters.varies {
            let facet = varies.split('.').next().unwrap_or_default();
            if !FACETS.contains(&facet) {
                problems.push(
                    settings
                        .problem(&at("varies"), format!("`{facet}` is not a facet"))
                        .hint(remedy(facet, "facets", &FACETS)),
                );
            }
        }
        problems
    }

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        let expected = format!(
            "differences across {} in {} only",
            parameters.across,
            parameters.varies.join(", ")
        );
        if !stage.axes.contains(&parameters.across) {
            let observed = format!(
                "the stage has no axis {}: {}",
                parameters.across,
                stage.axes.join(", ")
            );
            return vec![Assessment::new(false, observed, expected).of_stage()];
        }
        let pairs = pairs(stage, &parameters.across, &parameters.varies);
        let mut by_cell: BTreeMap<usize, Vec<&Pair>> = BTreeMap::new();
        for pair in &pairs {
            by_cell.entry(pair.a).or_default().push(pair);
            by_cell.entry(pair.b).or_default().push(pair);
        }
        let cells = stage.cells.iter().enumerate().filter(|(_, c)| c.is_ok());
        cells
            .map(|(i, _)| match by_cell.get(&i) {
                None => {
                    Assessment::not_judged("no other cell to compare with", &expected).of_cell(i)
                }
                Some(pairs) => judge(i, pairs, stage, &parameters.across, &expected).of_cell(i),
            })
            .collect()
    }
}

fn judge(
    cell: usize,
    pairs: &[&Pair],
    stage: &Stage<'_>,
    across: &str,
    expected: &str,
) -> Assessment {
    let worst = pairs
        .iter()
        .map(|p| p.verdict)
        .max()
        .unwrap_or(PairVerdict::Unknown);
    let mut others = Vec::new();
    let mut unknown = BTreeSet::new();
    let mut evidence = Vec::new();
    for pair in pairs
        .iter()
        .filter(|p| p.verdict == worst && worst != PairVerdict::Comparable)
    {
        let other = if pair.a == cell { pair.b } else { pair.a };
        let label = stage.cells[other]
            .input
            .coordinates
            .get(across)
            .map(ToString::to_string)
            .unwrap_or_default();
        for facet in pair
            .facets
            .iter()
            .filter(|f| f.status != Status::Equal && !f.declared)
        {
            match &facet.detail {
                Some(detail) => evidence.push(format!("{} than {label}: {detail}", facet.name)),
                None => evidence.push(format!("{} against {label} is not known", facet.name)),
            }
            if facet.status == Status::Unknown {
                unknown.insert(facet.name);
            }
        }
        others.push(label);
    }
    let others = others.join(", ");
    let observed = match worst {
        PairVerdict::Comparable => format!("comparable with {}", counted(pairs.len(), "cell")),
        PairVerdict::Unknown => {
            let unknown = Vec::from_iter(unknown).join(", ");
            format!("compared with {across}={others}, unknown: {unknown}")
        }
        _ => format!("{} with {across}={others}", worst.word()),
    };
    match worst {
        PairVerdict::Comparable => Assessment::new(true, observed, expected),
        PairVerdict::Unknown => {
            Assessment::not_judged(observed, expected).evidence(listed(&evidence))
        }
        PairVerdict::TokenizerConfounded | PairVerdict::NotComparable => {
            Assessment::new(false, observed, expected).evidence(listed(&evidence))
        }
    }
}
