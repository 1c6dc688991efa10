//! `same-prompts`: compared cells received the same prompts.

use std::collections::BTreeMap;

use artifacts::counted;
use contract::Settings;
use pipeline::Problem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Judgement, Outcome, Severity};
use crate::gate::TypedGate;
use crate::sent_prompts;
use crate::study::{Cell, Stage};

pub(crate) struct SamePrompts;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The axis compared across: cells that differ only on this axis must have the same prompts.
    across: String,
}

impl TypedGate for SamePrompts {
    type Parameters = Parameters;
    const NAME: &'static str = "same-prompts";
    const SUMMARY: &'static str = "Cells that differ only on the compared axis have the same \
                                   prompts by digest, and the same counts of prompt tokens. \
                                   If a duration ends a load, the faster side sends more: the \
                                   gate then compares as many requests as both sent.";
    const SEVERITY: Severity = Severity::Fail;

    fn check(&self, parameters: &Parameters, settings: &Settings<'_>) -> Vec<Problem> {
        if parameters.across.is_empty() {
            return vec![settings.problem(&[], "`across` does not name an axis")];
        }
        Vec::new()
    }

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        let expected = format!(
            "the same prompts and prompt tokens across {}",
            parameters.across
        );
        if !stage.axes.contains(&parameters.across) {
            return vec![Judgement {
                cell: None,
                outcome: Outcome::Fail,
                observed: format!(
                    "the stage has no axis {}: {}",
                    parameters.across,
                    stage.axes.join(", ")
                ),
                expected,
                evidence: None,
            }];
        }
        let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (i, cell) in stage.cells.iter().enumerate().filter(|(_, c)| c.is_ok()) {
            let rest = cell.without(&parameters.across);
            groups.entry(rest).or_default().push(i);
        }
        let mut judgements = Vec::new();
        for (_, members) in groups {
            let first = &stage.cells[members[0]];
            for member in &members {
                let cell = &stage.cells[*member];
                let label = |c: &Cell<'_>| {
                    c.input
                        .coordinates
                        .get(&parameters.across)
                        .map(ToString::to_string)
                        .unwrap_or_default()
                };
                let (outcome, observed) = if members.len() == 1 {
                    (
                        Outcome::NotJudged,
                        "no other cell to compare with".to_owned(),
                    )
                } else {
                    let number = sent_prompts::in_common(first, cell);
                    let [prompts, others] = [cell, first].map(|c| Prompts::of(c, number));
                    match prompts.differs(&others) {
                        Some(how) => (Outcome::Fail, format!("{how} than {}", label(first))),
                        None if prompts.are_known() && others.are_known() => {
                            (Outcome::Pass, counted(prompts.digests.len(), "prompt"))
                        }
                        None => (
                            Outcome::NotJudged,
                            "the rows do not say which prompts were sent".to_owned(),
                        ),
                    }
                };
                judgements.push(Judgement {
                    cell: Some(*member),
                    outcome,
                    observed,
                    expected: expected.clone(),
                    evidence: None,
                });
            }
        }
        judgements.sort_by_key(|j| j.cell);
        // If one cell of a group differs, none of the group can be compared.
        let broken: Vec<usize> = judgements
            .iter()
            .filter(|j| j.outcome == Outcome::Fail)
            .filter_map(|j| j.cell)
            .collect();
        for cell in broken {
            let rest = |c: usize| -> Vec<(String, artifacts::Scalar)> {
                let all = stage.cells[c].input.coordinates.0.iter();
                all.filter(|(name, _)| *name != parameters.across)
                    .cloned()
                    .collect()
            };
            for judgement in &mut judgements {
                if judgement.outcome != Outcome::Fail
                    && judgement.cell.is_some_and(|c| rest(c) == rest(cell))
                {
                    judgement.outcome = Outcome::Fail;
                    judgement.observed = format!("{} differs", stage.cells[cell].input.coordinates);
                }
            }
        }
        judgements
    }
}

/// The prompts of a cell as multisets, with the server's token counts.
struct Prompts {
    /// `None` for a prompt that a file of another tool does not hold.
    digests: Vec<Option<String>>,
    tokens: BTreeMap<String, Option<i64>>,
    /// The token counts of all prompts; `None` if one is unknown.
    lengths: Option<Vec<i64>>,
}

impl Prompts {
    /// The first requests, this many, or all.
    fn of(cell: &Cell<'_>, number: Option<usize>) -> Self {
        let (mut digests, mut tokens) = (Vec::new(), BTreeMap::new());
        let rows = cell.answers();
        let requests = rows
            .iter()
            .flat_map(|rows| sent_prompts::first(rows, number));
        let mut lengths = Vec::new();
        for request in requests {
            digests.push(request.prompt_digest.clone());
            lengths.push(request.prompt_tokens);
            if let Some(digest) = &request.prompt_digest {
                let count = tokens
                    .entry(digest.clone())
                    .or_insert(request.prompt_tokens);
                *count = count.or(request.prompt_tokens);
            }
        }
        digests.sort();
        lengths.sort_unstable();
        Self {
            digests,
            tokens,
            lengths: lengths.into_iter().collect(),
        }
    }

    /// Whether there are prompts, and all of them are known.
    fn are_known(&self) -> bool {
        !self.digests.is_empty() && self.digests.iter().all(Option::is_some)
    }

    /// Returns how the prompts of two cells differ, as far as the rows tell.
    fn differs(&self, other: &Self) -> Option<String> {
        if self.digests.len() != other.digests.len() {
            return Some("other prompts".to_owned());
        }
        if !(self.are_known() && other.are_known()) {
            let lengths = self.lengths.as_ref().zip(other.lengths.as_ref());
            let differ = lengths.is_some_and(|(a, b)| a != b);
            return differ.then(|| "prompts of other lengths".to_owned());
        }
        if self.digests != other.digests {
            return Some("other prompts".to_owned());
        }
        let shifted = self.tokens.iter().find(|(digest, tokens)| {
            let theirs = other.tokens.get(*digest).copied().flatten();
            tokens.zip(theirs).is_some_and(|(a, b)| a != b)
        });
        shifted.map(|(digest, tokens)| {
            let theirs = other
                .tokens
                .get(digest)
                .copied()
                .flatten()
                .unwrap_or_default();
            format!(
                "tokenizer-confounded: prompt {digest} counts {} tokens, not {theirs},",
                tokens.unwrap_or_default()
            )
        })
    }
}
