//! Claims about pooled comparisons whose direction changes with the level.

use std::sync::Arc;

use artifacts::{Column, Digest, Table};
use pipeline::place::{Condition, Coordinates};
use serde_json::{Value as Json, json};

use super::again::{Judge, Written};
use super::judge::judge_claim;
use super::judgement::Judgement;
use super::predicate::Truth;
use super::rule::Rule;
use crate::data::Miss;
use crate::trace::TraceSource;
use crate::view::{Opened, Part, View};

/// A comparison over two numbers of clients: on average 4 % more on side `a`, and 10 % less for one client.
fn comparison(changes: Option<bool>) -> Arc<Opened> {
    let text = |name: &str, text: &'static str| Column::text(name, [Some(text)]);
    let float = |name: &str, value: f64| Column::float(name, [Some(value)]);
    let columns = vec![
        text("metric", "throughput"),
        text("verdict", "different"),
        text("higher", "a"),
        text("a", "a"),
        text("scale", "ratio"),
        float("effect", 1.04),
        float("adjusted_low", 1.01),
        float("adjusted_high", 1.07),
        float("smallest_effect", 0.9),
        text("smallest_effect_at", "clients=1"),
        float("largest_effect", 1.2),
        text("largest_effect_at", "clients=64"),
        Column::boolean("direction_changes", [changes]),
    ];
    let part = Part {
        coordinates: Coordinates::default(),
        digest: Digest::of(b"levels"),
        content: Arc::new(
            Table::with_metadata(
                columns,
                &[("keys", "metric"), (contract::INTERVAL_LEVEL, "0.95")],
            )
            .unwrap(),
        ),
    };
    Arc::new(Opened::new(TraceSource::Table, ("r", "c"), vec![part], &[]))
}

fn claimed(rule: &Json, general: bool, table: &Arc<Opened>) -> Judgement {
    let rule: Rule = serde_json::from_value(rule.clone()).unwrap();
    let look = |_: &str, only: &Condition| -> Result<View, Miss> { table.choose(only) };
    judge_claim(&rule, (1, general), &look).unwrap()
}

/// The ways in which a claim can say that side `a` has more.
fn higher() -> [Json; 3] {
    let every = |that: &str| json!({"every": {"table": "r.c", "that": that}});
    [
        json!({"different": {"table": "r.c", "side": "greater"}}),
        every("verdict = 'different' and higher = a"),
        every("adjusted_low > 1"),
    ]
}

#[test]
fn a_sentence_without_a_restriction_is_not_licensed_by_an_average_that_some_level_contradicts() {
    for rule in higher() {
        let general = claimed(&rule, true, &comparison(Some(true)));
        assert_eq!(general.truth, Truth::Unknown, "{rule}");
        let said = "changes with the level: from 0.9 at clients=1 to 1.2 at clients=64, so what holds on average does not \
                    hold at each level; write `on average` in the sentence";
        assert!(general.reason.contains(said), "{}", general.reason);
        let on_average = claimed(&rule, false, &comparison(Some(true)));
        assert_eq!(on_average.truth, Truth::Yes, "{rule}");
        for changes in [Some(false), None] {
            let judgement = claimed(&rule, true, &comparison(changes));
            assert_eq!(judgement.truth, Truth::Yes, "{rule}, {changes:?}");
        }
    }
}

#[test]
fn a_rule_that_names_the_column_restricts_the_sentence_itself() {
    let that = |that: &str| json!({"every": {"table": "r.c", "that": that}});
    let constant = that("adjusted_low > 1 and direction_changes = false");
    let table = comparison(Some(true));
    assert_eq!(claimed(&constant, true, &table).truth, Truth::No);
    let changing = that("adjusted_low > 1 and direction_changes = true");
    assert_eq!(claimed(&changing, true, &table).truth, Truth::Yes);
}

#[test]
fn an_audit_judges_a_general_sentence_as_one() {
    let table = comparison(Some(true));
    let again = |levels: bool| {
        let written = serde_json::to_string(&Written {
            alternatives: 1,
            intervals: true,
            levels,
            rule: serde_json::from_value(higher()[0].clone()).unwrap(),
        })
        .unwrap();
        let part = &table.parts[0];
        let content = Table::clone(&part.content);
        let read = |_: &str| Ok(vec![(Coordinates::default(), part.digest, content.clone())]);
        Judge::default().judge_again(&written, &read).unwrap().truth
    };
    assert_eq!([again(true), again(false)], ["unknown", "yes"]);
}
