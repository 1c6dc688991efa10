//! Claims with alternatives, over simulated comparisons whose true effect is the margin: how often is one licensed
//! falsely?

use std::sync::Arc;

use artifacts::{Column, Digest, Table};
use contract::LevelScope;
use pipeline::place::{Condition, Coordinates};
use serde_json::{Value as Json, json};

use super::again::{Judge, Written};
use super::judge::judge_at;
use super::predicate::Truth;
use super::rule::Rule;
use super::share::alternatives;
use crate::data::Miss;
use crate::trace::TraceSource;
use crate::view::{Opened, Part, View};

const STUDIES: u64 = 4000;

/// Uniform numbers between 0 and 1 (SplitMix64).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A comparison of latencies at the levels 1, 2, … with a margin of 5 %. The p value of *not higher* and of *equivalent*
/// at each level is given. No row is different; `family` decides whether that matters.
fn comparison(p: &[f64], holm: &[f64], family: &str) -> Arc<Opened> {
    let n = p.len();
    let texts = |text: &'static str| Column::text("", (0..n).map(move |_| Some(text)));
    let named = |name: &str, mut column: Column| {
        name.clone_into(&mut column.name);
        column
    };
    let family_of = |row: usize| match LevelScope::read(family) == Some(LevelScope::Column) {
        true => format!("{family}: x{row} (1 test)"),
        false => family.to_owned(),
    };
    let shown = |p: &f64| *p <= 0.05;
    let bools = |name: &str, values: Vec<Option<bool>>| Column::boolean(name, values);
    let verdicts = p
        .iter()
        .zip(holm)
        .map(|(p, holm)| match (shown(holm), shown(p)) {
            (true, _) => "different",
            (_, true) => "equivalent",
            _ => "no evidence",
        });
    let floats = |name: &str, values: &[f64]| Column::float(name, values.iter().map(|v| Some(*v)));
    let columns = vec![
        Column::int("level", (1..=n).map(|i| i64::try_from(i).ok())),
        Column::text("verdict", verdicts.map(Some)),
        Column::text("verdict_reason", (0..n).map(|_| Some("few units"))),
        named("higher", texts("b")),
        named("a", texts("a")),
        named("scale", texts("ratio")),
        Column::text("family", (0..n).map(|row| Some(family_of(row)))),
        floats("holm_p", holm),
        floats("equivalence_p", p),
        bools("equivalent", p.iter().map(|p| Some(shown(p))).collect()),
        floats("not_higher_p", p),
        bools(
            "not_higher",
            p.iter().map(|p| shown(p).then_some(true)).collect(),
        ),
        floats("not_lower_p", p),
        bools(
            "not_lower",
            p.iter().map(|p| shown(p).then_some(true)).collect(),
        ),
        floats("margin", &vec![0.05; n]),
        floats("bound_high", &p.iter().map(|p| 1.0 + p).collect::<Vec<_>>()),
        floats("effect", &vec![1.05; n]),
    ];
    let notes = [("keys", "level"), ("parameters", r#"{"alpha":0.05}"#)];
    let part = Part {
        coordinates: Coordinates::default(),
        digest: Digest::of(b""),
        content: Arc::new(Table::with_metadata(columns, &notes).unwrap()),
    };
    Arc::new(Opened::new(TraceSource::Table, ("r", "c"), vec![part], &[]))
}

fn rule(rule: Json) -> Rule {
    serde_json::from_value(rule).unwrap()
}

fn not_worse(levels: &[i64]) -> Json {
    json!({"not-worse": {"table": "r.c", "where": {"level": levels}, "better": "lower"}})
}

fn equivalent(level: i64) -> Json {
    json!({"equivalent": {"table": "r.c", "where": {"level": level}}})
}

/// The first of a claim's sentences that may be said, and why the first may not.
fn first_licensed(sentences: &[Rule], table: &Arc<Opened>) -> (Option<usize>, String) {
    let look = |_: &str, only: &Condition| -> Result<View, Miss> { table.choose(only) };
    let all: Vec<&Rule> = sentences.iter().collect();
    let shared = alternatives(&all, &look).unwrap();
    let judgements: Vec<_> = sentences
        .iter()
        .map(|rule| judge_at(rule, (shared, false), &look).unwrap())
        .collect();
    let first = judgements
        .iter()
        .position(|judgement| judgement.truth == Truth::Yes);
    (first, judgements[0].reason.clone())
}

/// The share of studies in which a sentence is said, over levels whose p values are independent, or all equal.
fn rate(sentences: &[Json], levels: usize, shown: &[usize], equal: bool) -> f64 {
    let sentences: Vec<Rule> = sentences.iter().cloned().map(rule).collect();
    let mut draw = Draw(97);
    let mut licensed = 0;
    for _ in 0..STUDIES {
        let one = draw.next();
        let mut p: Vec<f64> = (0..levels)
            .map(|_| if equal { one } else { draw.next() })
            .collect();
        for level in shown {
            p[*level] = 1e-9;
        }
        let table = comparison(&p, &vec![1.0; levels], "the study at 5 %");
        licensed += u64::from(first_licensed(&sentences, &table).0.is_some());
    }
    licensed as f64 / STUDIES as f64
}

#[test]
fn no_claim_with_alternatives_is_licensed_falsely_more_often_than_one_without() {
    let six: Vec<Json> = (1..=6).map(|level| not_worse(&[level])).collect();
    let mixed: Vec<Json> = (1..=6)
        .map(|l| {
            if l % 2 == 0 {
                equivalent(l)
            } else {
                not_worse(&[l])
            }
        })
        .collect();
    let counted =
        |count: u64| json!({"at-least": {"table": "r.c", "that": "not_higher", "count": count}});
    let at_most = json!({"at-most": {"table": "r.c", "that": "not not_higher", "count": 3}});
    // Sentences, the levels whose effect lies within the margin, and the least rate that shows the level is used.
    let cases: Vec<(&str, Vec<Json>, Vec<usize>, f64)> = vec![
        ("one", vec![not_worse(&[1])], vec![], 0.035),
        ("any of six", vec![json!({"any-of": six})], vec![], 0.035),
        (
            "any of six kinds",
            vec![json!({"any-of": mixed})],
            vec![],
            0.035,
        ),
        ("one of six", vec![counted(1)], vec![], 0.035),
        ("three of six", vec![counted(3)], vec![0, 1], 0.035),
        ("six of six", vec![counted(6)], vec![0, 1, 2, 3, 4], 0.035),
        ("at most three not", vec![at_most], vec![0, 1], 0.035),
        ("six narrower", six.clone(), vec![], 0.035),
        (
            "nested",
            vec![not_worse(&[1, 2, 3]), not_worse(&[1, 2]), not_worse(&[1])],
            vec![],
            0.035,
        ),
        (
            "nested, all but one",
            vec![not_worse(&[1, 2, 3]), not_worse(&[1, 2]), not_worse(&[1])],
            vec![1, 2],
            0.035,
        ),
        (
            "whole and parts",
            vec![not_worse(&[1, 2]), not_worse(&[1]), not_worse(&[2])],
            vec![],
            0.035,
        ),
    ];
    for (name, sentences, shown, least) in cases {
        for equal in [false, true] {
            let rate = rate(&sentences, 6, &shown, equal);
            // 5 % and three standard errors.
            assert!(rate <= 0.0604, "{name}, equal: {equal}: {rate}");
            assert!(equal || rate >= least, "{name}: {rate}");
        }
    }
}

#[test]
fn neither_a_finding_nor_its_absence_is_counted_at_the_easier_level() {
    let holds = |form: &str, that: &str, count: u64| {
        // One of six is equivalent at 5 %, but not at a sixth of it.
        let p = [0.02, 0.5, 0.5, 0.5, 0.5, 0.5];
        let table = comparison(&p, &[1.0; 6], "the study at 5 %");
        let claim = json!({form: {"table": "r.c", "that": that, "count": count}});
        first_licensed(&[rule(claim)], &table).0.is_some()
    };
    assert!(!holds("at-least", "verdict = 'equivalent'", 1));
    assert!(!holds("at-least", "verdict != 'no evidence'", 1));
    assert!(!holds("at-least", "not verdict = 'no evidence'", 1));
    assert!(!holds("at-most", "verdict = 'no evidence'", 5));
    assert!(holds("at-least", "verdict = 'no evidence'", 5));
    assert!(!holds("at-least", "verdict = 'no evidence'", 6));
    assert!(!holds("at-least", "verdict != 'equivalent'", 6));
}

#[test]
fn a_stronger_sentence_costs_nothing_and_an_unrelated_one_half() {
    let look = |table: &Arc<Opened>| {
        let table = table.clone();
        move |_: &str, only: &Condition| -> Result<View, Miss> { table.choose(only) }
    };
    let counted = |sentences: &[Json], family: &str| {
        let rules: Vec<Rule> = sentences.iter().cloned().map(rule).collect();
        let table = comparison(&[0.5; 6], &[1.0; 6], family);
        alternatives(&rules.iter().collect::<Vec<_>>(), &look(&table)).unwrap()
    };
    let different = |level: i64| json!({"different": {"table": "r.c", "where": {"level": level}, "side": "less"}});
    let study = "the study at 5 %";
    let both = json!({"all-of": [not_worse(&[1]), different(1)]});
    let every = json!({"every": {"table": "r.c", "that": "effect < 2"}});
    for (sentences, family, expected) in [
        (vec![not_worse(&[1])], study, 1),
        (vec![not_worse(&[1, 2]), not_worse(&[1])], study, 1),
        (
            vec![not_worse(&[1, 2]), not_worse(&[1]), not_worse(&[2])],
            study,
            2,
        ),
        (vec![not_worse(&[1]), not_worse(&[1])], study, 1),
        (vec![different(1), not_worse(&[1])], study, 1),
        (vec![different(1), not_worse(&[2])], study, 2),
        (vec![both, not_worse(&[1])], study, 1),
        (vec![equivalent(1), not_worse(&[1])], study, 1),
        // The differences of a study or a table share one level already; those of columns by themselves do not.
        ((1..=6).map(different).collect(), study, 1),
        ((1..=6).map(different).collect(), "this table at 5 %", 1),
        ((1..=6).map(different).collect(), "each column at 5 %", 6),
        (vec![every.clone(), every, not_worse(&[1])], study, 1),
    ] {
        assert_eq!(counted(&sentences, family), expected, "{sentences:?}");
    }
}

#[test]
fn a_reason_states_the_level_and_bounds_on_one_scale() {
    let six: Vec<Json> = (1..=6).map(|level| not_worse(&[level])).collect();
    let p = [0.02, 0.5, 0.5, 0.5, 0.5, 0.5];
    let table = comparison(&p, &[1.0; 6], "the study at 5 %");
    let (first, reason) = first_licensed(&[rule(json!({"any-of": six}))], &table);
    assert_eq!(first, None);
    assert!(reason.starts_with("it is not shown: level=1: p = 0.02; its alternatives share the level, so each test counts at 0.83 %"), "{reason}");
    let (_, reason) = first_licensed(&[rule(not_worse(&[2]))], &table);
    assert_eq!(
        reason,
        "it is not shown: level=2: the one-sided bound is 1.5×, beyond the margin, which ends at 1.05×"
    );
}

#[test]
fn an_audit_judges_a_claim_at_the_same_share_of_its_level() {
    let table = comparison(&[0.02; 6], &[1.0; 6], "the study at 5 %");
    let again = |alternatives: usize| {
        let rule = rule(not_worse(&[1]));
        let written = serde_json::to_string(&Written {
            alternatives,
            intervals: false,
            levels: false,
            rule,
        })
        .unwrap();
        let part = &table.parts[0];
        let content = Table::clone(&part.content);
        let read = |_: &str| Ok(vec![(Coordinates::default(), part.digest, content.clone())]);
        let judgement = Judge::default().judge_again(&written, &read).unwrap();
        (written.contains("alternatives"), judgement.truth)
    };
    assert_eq!(again(1), (false, "yes"));
    assert_eq!(again(2), (true, "yes"));
    assert_eq!(again(6), (true, "unknown"));
}
