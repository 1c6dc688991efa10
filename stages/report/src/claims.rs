//! Claims: what an experiment asserts before it measures, and what its data then license.
//!
//! A claim is declared in the experiment (`claims:`) together with the rule that decides it. The record of every cell
//! executed afterwards contains its digest. From the records, the report can therefore show which measurements were
//! made after the claim was declared in these words.

use std::sync::Arc;

use artifacts::{Column, Digest, Table};
use minijinja::Environment;
use minijinja::value::Kwargs;
use pipeline::place::Condition;
use pipeline::stage::{CellStatus, Input, Json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::check::{Objection, finding_of};
use crate::data::{Data, Miss};
use crate::extended::Extended;
use crate::language::{World, missed, shown, wrong};
use crate::settings::Named;
use crate::statement::{
    Outcome, Recorded, Rule, Truth, claimed_alternatives, judge, judge_claim, restricted,
};
use crate::trace::Extracted;

/// A claim: a sentence, and the rule that decides whether it may be said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Claim {
    /// What you expect, and why. Write it before you measure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypothesis: Option<String>,
    /// The sentence that the report may say if the rule holds.
    pub says: String,
    /// The decision rule: the claim is licensed if it holds, undecided if a value it needs is null or no row exists,
    /// and otherwise refused.
    pub rule: Rule,
    /// A rule that must hold for the claim to be refused; if it does not, the claim is undecided. The rules
    /// `different`, `equivalent` and `not-worse` do not need it, because `no evidence` does not refute them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_if: Option<Rule>,
    /// Narrower sentences, the strongest first: the first whose rule holds may be said
    /// instead of a claim that is not licensed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub narrower: Vec<Narrower>,
    /// Phrases that must not appear in the report unless the claim is licensed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forbidden: Vec<String>,
}

/// A narrower form of a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Narrower {
    /// The sentence.
    pub says: String,
    /// The rule that allows it.
    pub rule: Rule,
}

impl Claim {
    /// Performs the checks that need no data.
    ///
    /// # Errors
    /// What is wrong, in one sentence.
    pub(crate) fn check(&self) -> Result<(), String> {
        let narrower = self.narrower.iter().map(|n| &n.rule);
        let rules = std::iter::once(&self.rule)
            .chain(&self.refused_if)
            .chain(narrower);
        let empty = |text: &String| text.trim().is_empty();
        if empty(&self.says) || self.narrower.iter().any(|n| empty(&n.says)) {
            return Err("`says` is empty".to_owned());
        }
        if self.forbidden.iter().any(|f| f.trim().chars().count() < 3) {
            return Err("a forbidden phrase has at least three characters".to_owned());
        }
        rules.into_iter().try_for_each(Rule::check)
    }
}

/// The order of a claim and the measurements, according to the records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Order {
    measured: i64,
    /// Measurements whose record holds the digest of the claim's present words.
    before: i64,
    /// Those of them whose record also holds the digest of its present tests.
    with_tests: i64,
    imported: i64,
}

impl Order {
    fn word(&self) -> &'static str {
        match self {
            Self {
                measured: 0,
                imported: 0,
                ..
            } => "nothing was measured",
            Self { measured: 0, .. } => "cannot be shown: the rows were imported",
            Self { imported: i, .. } if *i > 0 => "cannot be shown: some rows were imported",
            Self {
                measured,
                with_tests,
                ..
            } if with_tests == measured => "before all measurements",
            Self {
                measured, before, ..
            } if before == measured => {
                "before all measurements in these words; the records do not show it for the margin, the level and the \
                 other settings of its tests"
            }
            Self { before: 0, .. } => "not before the measurements, in these words",
            _ => "before some of the measurements",
        }
    }
}

/// Judges the claims and derives the table `claims`; does nothing without claims.
///
/// # Errors
/// If a rule refers to a missing table or column, or an artifact is not read yet.
pub(crate) fn derive(world: &World) -> Result<(), Miss> {
    let claims = &world.parameters.claims;
    if claims.is_empty() {
        return Ok(());
    }
    let data = &world.data;
    let look = |table: &str, only: &Condition| data.view(table, only);
    let (mut verdicts, mut may_say, mut reasons, mut orders) = (vec![], vec![], vec![], vec![]);
    let (mut licences, executions) = (vec![], most_executions(data));
    let extended = data.study().ok().and_then(Extended::of);
    for Named { name, settings } in claims {
        let at = |miss: Miss| match miss {
            Miss::Wrong(message) => Miss::Wrong(format!("claim `{name}`: {message}")),
            unread => unread,
        };
        let sentences = settings.narrower.iter().map(|narrower| &narrower.rule);
        let sentences: Vec<&Rule> = std::iter::once(&settings.rule).chain(sentences).collect();
        let shared = claimed_alternatives(&sentences, &look).map_err(at)?;
        let general = !restricted(&settings.says);
        let judgement = judge_claim(&settings.rule, (shared, general), &look).map_err(at)?;
        let refuted = match &settings.refused_if {
            Some(rule) => judge(rule, &look).map_err(at)?.truth == Truth::Yes,
            None => judgement.truth == Truth::No,
        };
        let outcome = match judgement.truth {
            Truth::Yes => Outcome::Licensed,
            _ if refuted => Outcome::Refused,
            _ => Outcome::Undecided,
        };
        let mut instead = (outcome == Outcome::Licensed).then(|| settings.says.clone());
        for narrower in &settings.narrower {
            let general = !restricted(&narrower.says);
            let holds = |miss| judge_claim(&narrower.rule, (shared, general), &look).map_err(miss);
            if instead.is_none() && holds(at)?.truth == Truth::Yes {
                instead = Some(narrower.says.clone());
            }
        }
        world.record(Recorded {
            claim: Some(name.clone()),
            rule: Some(settings.rule.clone()),
            alternatives: shared,
            levels: general,
            outcome,
            reason: judgement.reason.clone(),
            judgement: Some(judgement.clone()),
        });
        let repeated =
            (executions > 1).then(|| format!("by the latest of {executions} executions"));
        let extended = extended.as_ref().map(Extended::licence);
        let licence: Vec<String> = repeated.into_iter().chain(extended).collect();
        let noted = outcome == Outcome::Licensed && !licence.is_empty();
        licences.push(noted.then(|| licence.join(", and ")));
        verdicts.push(outcome.word());
        may_say.push(instead);
        reasons.push(judgement.reason);
        orders.push(order(name, data)?);
    }
    let text = |pick: &dyn Fn(&Claim) -> Option<String>| {
        claims.iter().map(|c| pick(&c.settings)).collect::<Vec<_>>()
    };
    let table = Table::with_metadata(
        vec![
            Column::text("claim", claims.iter().map(|c| Some(c.name.as_str()))),
            Column::text("hypothesis", text(&|c| c.hypothesis.clone())),
            Column::text("says", text(&|c| Some(c.says.clone()))).describe("the sentence claimed"),
            Column::text("verdict", verdicts.iter().map(|v| Some(*v)))
                .describe("licensed, refused or undecided, according to the claim's rule"),
            Column::text("may_say", may_say).describe(
                "the claim if it is licensed, else its first licensed narrower form; null if \
                none is licensed",
            ),
            Column::text("reason", reasons.into_iter().map(Some)),
            Column::text("licensed_by", licences).describe(
                "the latest execution, if measurements were executed several times, and the planned \
                number of blocks, if it changed after blocks were measured; null otherwise, or if \
                the claim is not licensed",
            ),
            Column::text("registered", orders.iter().map(|o| Some(o.word()))).describe(
                "the order of this wording and the measurements, according to the \
                    records",
            ),
            Column::int("measured", orders.iter().map(|o| Some(o.measured)))
                .describe("measured cells among the report's inputs"),
            Column::int("measured_after", orders.iter().map(|o| Some(o.before)))
                .describe("measured cells whose record contains the digest of this claim"),
        ],
        &[("keys", "claim")],
    );
    data.derive("claims", table.map_err(|e| e.to_string())?)
}

/// The number of executions of the most often executed measurement: a licence after several executions may be the luck
/// of the last.
fn most_executions(data: &Data) -> usize {
    let Ok(study) = data.study() else {
        return 0;
    };
    let executions = study
        .ledger
        .iter()
        .filter_map(|line| line.execution.as_ref());
    executions.map(|e| e.executions).max().unwrap_or(0)
}

/// Counts the measured cells whose record contains the claim in its current form.
fn order(name: &str, data: &Data) -> Result<Order, Miss> {
    let Ok(study) = data.study() else {
        return Ok(Order::default());
    };
    let words = pipeline::claims_digests(&study.spec).remove(name);
    let tests = pipeline::tests_digests(&study.spec).remove(name);
    let holds = |record: &Json, part: &str, digest: Option<Digest>| {
        let carried = record.get(part).and_then(|part| part.get(name)?.as_str());
        carried.is_some() && carried == digest.map(|digest| digest.to_string()).as_deref()
    };
    let mut order = Order::default();
    let mut unread = false;
    for cell in data
        .stages()
        .iter()
        .filter(|s| s.kind == "load")
        .flat_map(|s: &Input| &s.cells)
    {
        if cell.status != CellStatus::Ok {
            continue;
        }
        if cell.parameters.get("import").is_some_and(|i| !i.is_null()) {
            order.imported += 1;
            continue;
        }
        order.measured += 1;
        let Some(record) = cell.record else { continue };
        match data.by_digest(&record) {
            Ok(record) => {
                let in_these_words = holds(&record, "claims", words);
                order.before += i64::from(in_these_words);
                order.with_tests +=
                    i64::from(in_these_words && holds(&record, "claim_tests", tests));
            }
            Err(Miss::Unread) => unread = true,
            Err(miss) => return Err(miss),
        }
    }
    if unread { Err(Miss::Unread) } else { Ok(order) }
}

/// Adds `claim(name)`: the sentence that the data license for a claim.
pub(crate) fn install(environment: &mut Environment<'static>, world: &Arc<World>) {
    let w = world.clone();
    environment.add_function("claim", move |name: &str, options: Kwargs| {
        let otherwise: Option<String> = options.get("otherwise")?;
        options.assert_all_used()?;
        let only = Condition(vec![(
            "claim".to_owned(),
            vec![artifacts::Scalar::Text(name.to_owned())],
        )]);
        let unknown = || {
            let names: Vec<_> = w
                .parameters
                .claims
                .iter()
                .map(|c| c.name.as_str())
                .collect();
            wrong(&format!(
                "no claim `{name}` is declared; the claims are: {}",
                names.join(", ")
            ))
        };
        if !w.parameters.claims.iter().any(|c| c.name == name) {
            return Err(unknown());
        }
        let view = w.data.view("claims", &only).map_err(missed)?;
        let text = |column: &str| view.get(0, column).map(|v| v.to_string()).map_err(missed);
        if view.get(0, "may_say").map_err(missed)? != artifacts::Scalar::Null {
            return shown(w.show(&view, 0, "may_say", "", "n/a"));
        }
        match otherwise {
            Some(word) => shown(w.show(&view, 0, "may_say", "", &word)),
            None => Err(wrong(&format!(
                "the claim `{name}` is {}, and none of its narrower forms is licensed ({}); use \
                 `otherwise=\"…\"` to give the text for this case",
                text("verdict")?,
                text("reason")?
            ))),
        }
    });
    let w = world.clone();
    environment.add_function("has_claims", move || !w.parameters.claims.is_empty());
}

const FORBIDDEN: &str = "a phrase that is forbidden while its claim is not licensed";
const SAY_LESS: &str = "write the claim's narrower form (`{{ claim(\"NAME\") }}`), or remove it";

/// Returns the forbidden phrases of unlicensed claims, wherever they occur outside the table of claims.
pub(crate) fn forbidden(extracted: &Extracted, world: &World) -> Vec<Objection> {
    let recorded = world
        .statements
        .lock()
        .expect("no holder of this lock panics")
        .clone();
    let refused = |name: &str| {
        recorded
            .iter()
            .any(|r| r.claim.as_deref() == Some(name) && r.outcome != Outcome::Licensed)
    };
    let claims = world.parameters.claims.iter().filter(|c| refused(&c.name));
    let text = folded(&extracted.markdown);
    let mut objections = Vec::new();
    for phrase in claims.flat_map(|c| &c.settings.forbidden) {
        let wanted: Vec<char> = folded(phrase).into_iter().map(|(_, c)| c).collect();
        for start in 0..text.len().saturating_sub(wanted.len() - 1) {
            let here = &text[start..start + wanted.len()];
            let word = |at: Option<&(usize, char)>| at.is_some_and(|(_, c)| c.is_alphanumeric());
            let part = word(start.checked_sub(1).and_then(|i| text.get(i)))
                || word(text.get(start + wanted.len()));
            if part || !here.iter().map(|(_, c)| c).eq(&wanted) {
                continue;
            }
            let last = here[here.len() - 1];
            let range = here[0].0
                ..last.0
                    + extracted.markdown[last.0..]
                        .chars()
                        .next()
                        .map_or(0, char::len_utf8);
            let numbered = extracted.spans.iter().any(|s| {
                s.entry.output == "claims"
                    && s.bytes.start <= range.start
                    && range.end <= s.bytes.end
            });
            if !numbered {
                objections.push(finding_of(&extracted.markdown, &range, FORBIDDEN, SAY_LESS));
            }
        }
    }
    objections.sort_by_key(|f| f.at);
    objections
}

/// The characters in lower case with their positions, without emphasis and with runs of spaces collapsed.
fn folded(text: &str) -> Vec<(usize, char)> {
    let mut characters: Vec<(usize, char)> = Vec::new();
    for (at, c) in text.trim().char_indices() {
        let at = at + (text.len() - text.trim_start().len());
        if c.is_whitespace() {
            if characters.last().is_some_and(|(_, c)| *c != ' ') {
                characters.push((at, ' '));
            }
        } else if !matches!(c, '*' | '_' | '`') {
            characters.extend(c.to_lowercase().map(|c| (at, c)));
        }
    }
    characters
}
