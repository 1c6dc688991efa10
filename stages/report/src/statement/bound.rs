//! Statements in templates: `{% call every("results.cells", {…}, "n >= 8") %}…{% endcall %}`.
//!
//! The words inside are rendered only if the rule holds. Otherwise the alternative declared as `otherwise` is rendered,
//! or the build fails with the rows that refute the rule. Every statement is recorded, so that an audit can judge it
//! again.

use std::sync::Arc;

use artifacts::{Column, Scalar, Table, TableError};
use minijinja::value::{Enumerator, Kwargs, Object, Value, from_args};
use minijinja::{Environment, Error, State};
use pipeline::stage::Json;

use super::again::Written;
use super::judge::judge;
use super::judgement::Judgement;
use super::licence::{FREE, asserted, better_of_metric, checked, denies};
use super::predicate::Truth;
use super::rule::{Rule, RuleKind};
use crate::check::standing;
use crate::format::format_value;
use crate::language::{Shown, World, json_of, missed, plain_row, wrong};
use crate::said::{Compared, Contradiction, contradiction, sentences};
use crate::trace::{Enclosed, Entry, TraceSource, unmarked};
use crate::view::View;

contract::words! {
    /// What became of a statement or a claim.
    pub enum Outcome: "outcome" {
        /// It holds and is rendered.
        Holds = "holds",
        /// It does not hold; the declared alternative is rendered.
        Alternative = "alternative",
        /// It holds by construction, for the reason declared.
        Premise = "premise",
        /// The claim may be made.
        Licensed = "licensed",
        /// The claim may not be made.
        Refused = "refused",
        /// The data do not decide the claim.
        Undecided = "undecided",
    }
}

/// A judged statement.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    /// The claim that the rule belongs to.
    pub(crate) claim: Option<String>,
    /// The rule; `None` for a premise.
    pub(crate) rule: Option<Rule>,
    /// The number of sentences of its claim among which the level of its tests is divided; otherwise 1.
    pub(crate) alternatives: usize,
    /// Whether its sentence has no restriction to an average.
    pub(crate) levels: bool,
    /// The outcome.
    pub(crate) outcome: Outcome,
    /// The result of the evaluation.
    pub(crate) judgement: Option<Judgement>,
    /// The reason.
    pub(crate) reason: String,
}

/// The functions: the name in templates, the rule, the third argument.
const FUNCTIONS: [(&str, RuleKind, Option<&str>); 18] = [
    ("every", RuleKind::Every, Some("that")),
    ("no_row", RuleKind::NoRow, Some("that")),
    ("holds", RuleKind::Holds, Some("that")),
    ("at_least", RuleKind::AtLeast, Some("that")),
    ("at_most", RuleKind::AtMost, Some("that")),
    ("exactly", RuleKind::Exactly, Some("that")),
    ("only_these", RuleKind::OnlyThese, Some("that")),
    ("largest", RuleKind::Largest, Some("column")),
    ("smallest", RuleKind::Smallest, Some("column")),
    ("between", RuleKind::Between, Some("column")),
    ("within", RuleKind::Within, Some("column")),
    ("monotone", RuleKind::Monotone, None),
    ("steepest", RuleKind::Steepest, None),
    ("different", RuleKind::Different, None),
    ("equivalent", RuleKind::Equivalent, None),
    ("no_evidence", RuleKind::NoEvidence, None),
    ("not_worse", RuleKind::NotWorse, None),
    ("consistent", RuleKind::Consistent, Some("column")),
];

/// Adds the functions to an environment.
pub(crate) fn install(environment: &mut Environment<'static>, world: &Arc<World>) {
    for (name, kind, third) in FUNCTIONS {
        let function = Function {
            world: world.clone(),
            name,
            kind,
            third,
        };
        environment.add_global(name, Value::from_object(function));
    }
    environment.add_global(
        "premise",
        Value::from_object(Premise {
            world: world.clone(),
        }),
    );
}

#[derive(Debug)]
struct Function {
    world: Arc<World>,
    name: &'static str,
    kind: RuleKind,
    third: Option<&'static str>,
}

impl Object for Function {
    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        let (table, only, third, options): (String, Option<Value>, Option<Value>, Kwargs) =
            from_args(args)?;
        let mut rule = serde_json::Map::from_iter([("table".to_owned(), Json::String(table))]);
        if let Some(only) = only.filter(|v| !v.is_none()) {
            rule.insert("where".to_owned(), json_of(&only)?);
        }
        match (third, self.third) {
            (Some(value), Some(key)) => drop(rule.insert(key.to_owned(), json_of(&value)?)),
            (Some(_), None) => {
                return Err(wrong(&format!(
                    "`{}` takes a table and a condition; name the rest",
                    self.name
                )));
            }
            (None, _) => {}
        }
        let mut otherwise: Option<String> = None;
        let mut caller = None;
        for key in options.args() {
            let value: Value = options.get(key)?;
            match key {
                "caller" => caller = Some(value),
                "otherwise" => otherwise = Some(options.get(key)?),
                _ => drop(rule.insert(key.to_owned(), json_of(&value)?)),
            }
        }
        options.assert_all_used()?;
        let caller = caller.ok_or_else(|| {
            let name = self.name;
            wrong(&format!(
                "`{name}` is a statement: write `{{% call {name}(…) %}}text{{% endcall %}}`"
            ))
        })?;
        let rule: Rule = serde_json::from_value(serde_json::json!({ self.kind.word(): rule }))
            .map_err(|e| wrong(&format!("`{}`: {e}", self.name)))?;
        let data = self.world.data.clone();
        let judgement = judge(&rule, &|table, only| data.view(table, only)).map_err(missed)?;
        if judgement.truth != Truth::Yes && otherwise.is_none() {
            return Err(wrong(&refusal(&rule, &judgement)));
        }
        let holds = judgement.truth == Truth::Yes;
        let id = self.world.record(Recorded {
            claim: None,
            rule: Some(rule),
            alternatives: 1,
            levels: false,
            outcome: if holds {
                Outcome::Holds
            } else {
                Outcome::Alternative
            },
            reason: judgement.reason.clone(),
            judgement: Some(judgement.clone()),
        });
        let object = Value::from_object(Found {
            world: self.world.clone(),
            id,
            judgement: judgement.clone(),
        });
        let text = match otherwise {
            Some(otherwise) if !holds => {
                let name = format!("alternative of `{}`", self.name);
                let context = minijinja::context! { s => object };
                let text = state.env().render_named_str(&name, &otherwise, context)?;
                if let Some(word) = asserted(&standing(&unmarked(&text))) {
                    return Err(wrong(&format!(
                        "the alternative says `{word}` without a `not` before it in its sentence; it is \
                         rendered when the statement does not hold, so it may only deny the statement's words: reword the sentence, or write it after the call"
                    )));
                }
                text
            }
            _ => {
                let text = rendered_words(&caller, state, &object)?;
                let plain = standing(&unmarked(&text));
                match self.kind {
                    RuleKind::NoEvidence => denied(&plain),
                    RuleKind::Different => agrees(&plain, &judgement),
                    _ => Ok(()),
                }
                .map_err(|message| wrong(&message))?;
                text
            }
        };
        Ok(Value::from_object(Shown(
            self.world.trace.enclose(id, &text),
        )))
    }
}

/// Renders the words of a statement.
fn rendered_words(
    caller: &Value,
    state: &mut State<'_, '_>,
    object: &Value,
) -> Result<String, Error> {
    let takes = caller
        .get_attr("arguments")
        .ok()
        .and_then(|a| a.len())
        .unwrap_or(0);
    let text = match takes {
        0 => caller.call(state, &[])?,
        _ => caller.call(state, std::slice::from_ref(object))?,
    };
    let text = text.to_string();
    if unmarked(&text).trim().is_empty() {
        return Err(wrong("the statement is empty; write text inside it"));
    }
    Ok(text)
}

/// Checks that words under `no_evidence` deny a difference.
///
/// # Errors
/// If they assert one.
fn denied(text: &str) -> Result<(), String> {
    let asserts =
        |word: &str| FREE.contains(&word) || ["significant", "significantly"].contains(&word);
    let first = checked(text).into_iter().find(|(_, word)| asserts(word));
    match first {
        Some((range, word)) if !denies(&text[..range.start]) => Err(format!(
            "the statement says `{word}` without a `not` before it; `no_evidence` holds when no difference was shown, \
             so it may only deny one"
        )),
        _ => Ok(()),
    }
}

/// Checks that the words under `different` state no other direction and no other metric than its rows.
///
/// # Errors
/// If they do.
fn agrees(text: &str, judgement: &Judgement) -> Result<(), String> {
    let Some(compared) = judgement.view.as_ref().and_then(compared) else {
        return Ok(());
    };
    let wrong = |sentence| {
        let (range, why) = contradiction(sentence, &compared)?;
        Some((&sentence[range], why))
    };
    match sentences(text).find_map(wrong) {
        None => Ok(()),
        Some((word, Contradiction::Opposite)) => Err(format!(
            "the statement says `{word}`, but its rows show the opposite; change the word"
        )),
        Some((word, Contradiction::OtherMetric)) => Err(format!(
            "the statement says `{word}` of another metric than its rows compare; select the rows of that metric"
        )),
    }
}

/// Returns what rows of a comparison show, if it is the same in all of them.
fn compared(view: &View) -> Option<Compared> {
    let text = |row: usize, column: &str| match view.value(row, column) {
        Some(Scalar::Text(text)) => Some(text),
        _ => None,
    };
    let one = |row: usize| {
        let (a, b) = (text(row, "a")?, text(row, "b")?);
        Some(Compared {
            a_is_higher: text(row, "higher")? == a,
            better: better_of_metric(&text(row, "metric")?)?,
            a,
            b,
        })
    };
    let mut rows = (0..view.rows.len()).map(one);
    let first = rows.next()??;
    rows.all(|row| row.as_ref() == Some(&first))
        .then_some(first)
}

/// Explains why a statement is not rendered.
pub(crate) fn refusal(rule: &Rule, judgement: &Judgement) -> String {
    let over = rule.place().map_or_else(String::new, |(table, _)| {
        let view = judgement.view.as_ref();
        let condition = view.map(|v| v.condition.to_string()).unwrap_or_default();
        format!(" over `{table}` {{{condition}}}")
    });
    let what = match judgement.truth {
        Truth::Unknown => "cannot be known to hold",
        _ => "does not hold",
    };
    format!(
        "the statement `{}`{over} {what}: {}; change the text, or declare an alternative with \
         `otherwise=\"…\"`",
        rule.word(),
        judgement.reason
    )
}

/// The result of a statement, as `s` in `{% call(s) every(…) %}`.
#[derive(Debug)]
struct Found {
    world: Arc<World>,
    id: usize,
    judgement: Judgement,
}

impl Found {
    fn show(&self, name: &str, format: &str) -> Result<Value, Error> {
        let Some((_, value, unit)) = self.judgement.values.iter().find(|(n, _, _)| *n == name)
        else {
            let names: Vec<_> = self.judgement.values.iter().map(|(n, _, _)| *n).collect();
            return Err(wrong(&format!(
                "the statement has no value `{name}`; it has: {}",
                names.join(", ")
            )));
        };
        let text = format_value(value, unit.as_deref(), format, "n/a")
            .map_err(|e| wrong(&e.to_string()))?;
        let view = self.judgement.view.as_ref();
        Ok(Value::from_object(Shown(self.world.trace.mark(Entry {
            stage: view.map(|v| v.table.stage.clone()).unwrap_or_default(),
            output: view.map(|v| v.table.output.clone()).unwrap_or_default(),
            row_key: view.map(|v| v.condition.clone()).unwrap_or_default(),
            unit: unit.clone(),
            format: format.to_owned(),
            ..Entry::new(
                TraceSource::Statement,
                format!("{}.{name}", self.id),
                value.clone(),
                text,
            )
        }))))
    }

    fn rows(&self, positions: impl Iterator<Item = usize>) -> Option<Value> {
        let view = Arc::new(self.judgement.view.clone()?);
        Some(
            positions
                .map(|i| plain_row(&self.world, &view, i))
                .collect(),
        )
    }
}

impl Object for Found {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let name = key.as_str()?;
        match name {
            "holds" => return Some(Value::from(self.judgement.truth == Truth::Yes)),
            "rows" => return self.rows(0..self.judgement.n()?),
            "against" => return self.rows(self.judgement.against.iter().copied()),
            _ => {}
        }
        if let Some((_, row)) = self.judgement.named.iter().find(|(n, _)| *n == name) {
            let view = Arc::new(self.judgement.view.clone()?);
            return Some(plain_row(&self.world, &view, *row));
        }
        self.show(name, "").ok()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let values = self.judgement.values.iter().map(|(n, _, _)| *n);
        Enumerator::Values(
            values
                .chain(self.judgement.named.iter().map(|(n, _)| *n))
                .map(Value::from)
                .collect(),
        )
    }

    fn call_method(
        self: &Arc<Self>,
        _state: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        if method != "show" {
            return Err(wrong(&format!(
                "a statement has no method `{method}`; it has only `show`"
            )));
        }
        let (name, format): (&str, Option<&str>) = from_args(args)?;
        self.show(name, format.unwrap_or(""))
    }
}

/// `{% call premise("reason") %}…{% endcall %}`: true by construction, not by measurement.
#[derive(Debug)]
struct Premise {
    world: Arc<World>,
}

impl Object for Premise {
    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        let (reason, options): (String, Kwargs) = from_args(args)?;
        let caller: Option<Value> = options.get("caller")?;
        options.assert_all_used()?;
        let caller = caller.ok_or_else(|| {
            wrong("`premise` wraps text: write `{% call premise(\"reason\") %}text{% endcall %}`")
        })?;
        if reason.trim().is_empty() {
            return Err(wrong(
                "a premise needs the reason why it holds without data",
            ));
        }
        let text = rendered_words(&caller, state, &Value::from(()))?;
        let id = self.world.record(Recorded {
            claim: None,
            rule: None,
            alternatives: 1,
            levels: false,
            outcome: Outcome::Premise,
            judgement: None,
            reason,
        });
        Ok(Value::from_object(Shown(
            self.world.trace.enclose(id, &text),
        )))
    }
}

/// Returns the statements as a table, one row each, in the order of judgement.
///
/// # Errors
/// Never for recorded statements; passes on the errors of the table type.
pub(crate) fn statements_table(
    recorded: &[Recorded],
    enclosed: &[Enclosed],
    markdown: &str,
    templates: &[String],
) -> Result<Table, TableError> {
    let mut places: Vec<Option<&Enclosed>> = vec![None; recorded.len()];
    for place in enclosed {
        if let Some(earlier) = places.get_mut(place.statement) {
            earlier.get_or_insert(place);
        }
    }
    let at = |id: usize| places[id];
    let ids = || 0..recorded.len();
    let int = |pick: &dyn Fn(usize) -> Option<usize>| {
        ids()
            .map(|id| pick(id).and_then(|v| i64::try_from(v).ok()))
            .collect::<Vec<_>>()
    };
    let text = |pick: &dyn Fn(usize) -> Option<String>| ids().map(pick).collect::<Vec<_>>();
    let judgement = |id: usize| recorded[id].judgement.as_ref();
    let view = |id: usize| judgement(id)?.view.as_ref();
    Table::with_metadata(
        vec![
            Column::int("statement", int(&Some)).describe("the statement's number, from 0"),
            Column::text("claim", text(&|id| recorded[id].claim.clone()))
                .describe("the claim whose rule it is; null for statements of the template"),
            Column::int("line", int(&|id| Some(at(id)?.start.0)))
                .describe("line of the report, from 1"),
            Column::int("column_start", int(&|id| Some(at(id)?.start.1))),
            Column::int("line_end", int(&|id| Some(at(id)?.end.0))),
            Column::int("column_end", int(&|id| Some(at(id)?.end.1)))
                .describe("one past the last character"),
            Column::text(
                "template",
                text(&|id| {
                    let origin = at(id)?.origin?;
                    let name = templates.get(origin.template)?;
                    Some(format!("{name}:{}:{}", origin.line, origin.column))
                }),
            )
            .describe("its place in the template"),
            Column::text(
                "text",
                text(&|id| Some(markdown.get(at(id)?.bytes.clone())?.to_owned())),
            )
            .describe("the rendered text"),
            Column::text(
                "rule",
                text(&|id| {
                    let recorded = &recorded[id];
                    let rule = Written {
                        alternatives: recorded.alternatives,
                        intervals: recorded.claim.is_some(),
                        levels: recorded.levels,
                        rule: recorded.rule.clone()?,
                    };
                    Some(serde_json::to_string(&rule).expect("a rule is plain data"))
                }),
            )
            .describe(
                "the rule about the rows, as JSON; `alternatives` is the number of sentences of \
                 its claim that share the level of its tests, if there are several; null for a \
                 premise",
            ),
            Column::text(
                "stage",
                text(&|id| Some(view(id)?.table.stage.clone()).filter(|s| !s.is_empty())),
            ),
            Column::text("output", text(&|id| Some(view(id)?.table.output.clone()))),
            Column::text(
                "condition",
                text(&|id| Some(view(id)?.condition.to_string())),
            ),
            Column::text(
                "outcome",
                text(&|id| Some(recorded[id].outcome.word().to_owned())),
            )
            .describe("holds, alternative, premise, licensed, refused or undecided"),
            Column::text(
                "truth",
                text(&|id| judgement(id).map(|j| j.truth.word().to_owned())),
            )
            .describe("yes, no or unknown"),
            Column::int("n", int(&|id| judgement(id)?.n())).describe("rows looked at"),
            Column::int("count", int(&|id| judgement(id)?.count))
                .describe("rows that meet the predicate"),
            Column::text("values", text(&|id| Some(values(judgement(id)?))))
                .describe("values of the evaluation, as JSON"),
            Column::text("against", text(&|id| Some(rows(judgement(id)?)))).describe(
                "the rows that contradict it, as JSON: digest of the table and row, from 0",
            ),
            Column::text("reason", text(&|id| Some(recorded[id].reason.clone()))),
        ],
        &[("keys", "statement")],
    )
}

/// Returns the values of an evaluation as JSON.
pub(crate) fn values(judgement: &Judgement) -> String {
    let pairs = judgement
        .values
        .iter()
        .map(|(name, value, _)| ((*name).to_owned(), Json::from(value)));
    Json::Object(pairs.collect()).to_string()
}

/// Returns the rows that contradict a statement as JSON: `[["b3:…", 3], …]`.
pub(crate) fn rows(judgement: &Judgement) -> String {
    let Some(view) = &judgement.view else {
        return "[]".to_owned();
    };
    let rows = judgement.against.iter().map(|position| {
        let (part, row) = view.rows[*position];
        serde_json::json!([view.table.parts[part].digest.to_string(), row])
    });
    Json::Array(rows.collect()).to_string()
}

#[cfg(test)]
mod tests {
    use super::denied;

    #[test]
    fn words_about_a_difference_that_was_not_shown_deny_it() {
        for text in [
            "There is no evidence that a is faster.",
            "All comparisons give no evidence of a significant effect.",
            "Side a is not significantly faster.",
            "The study did not find anything.",
        ] {
            assert_eq!(denied(text), Ok(()), "{text}");
        }
        for (text, word) in [
            ("Side a is faster than b.", "faster"),
            ("A significant margin, with no cost.", "significant"),
        ] {
            assert!(denied(text).unwrap_err().contains(word), "{text}");
        }
    }
}
