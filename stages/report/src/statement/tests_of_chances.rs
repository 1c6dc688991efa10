//! Claims that could be licensed in several ways, and claims of every kind of rule about values with intervals, over simulated
//! studies in which all true values are equal: how often is one licensed falsely?

use std::sync::Arc;

use artifacts::{Column, Digest, Table};
use contract::INTERVAL_LEVEL;
use pipeline::place::Coordinates;
use serde_json::{Value as Json, json};

use super::judge::judge;
use super::predicate::Truth;
use super::rule::Rule;
use super::tests_of_intervals::{claimed, normal};
use crate::trace::TraceSource;
use crate::view::{Opened, Part};

const STUDIES: u64 = 200;
/// 5 % and three standard errors.
const MOST: f64 = 0.0963;
/// The number of columns with a mean.
const MEANS: usize = 8;
/// The means of all columns.
const TRUTH: f64 = 1.0;

/// A table of the means that a text uses, at some levels, each with an interval from so many standard errors below to as many above.
fn means(z: &[[f64; MEANS]], errors: f64, notes: &[(&str, &str)], used: &str) -> Arc<Opened> {
    let levels = (1..).take(z.len()).map(Some);
    let mut columns = vec![Column::int("level", levels)];
    for mean in 0..MEANS {
        if !used.contains(&format!("x{}_", mean + 1)) {
            continue;
        }
        for (name, by) in [("mean", 0.0), ("ci_low", -errors), ("ci_high", errors)] {
            let values = z.iter().map(|row| Some(TRUTH + 0.03 * (row[mean] + by)));
            columns.push(Column::float(format!("x{}_{name}", mean + 1), values));
        }
    }
    let part = Part {
        coordinates: Coordinates::default(),
        digest: Digest::of(b"means"),
        content: Arc::new(Table::with_metadata(columns, notes).unwrap()),
    };
    Arc::new(Opened::new(TraceSource::Table, ("r", "m"), vec![part], &[]))
}

fn notes(level: &str) -> [(&str, &str); 2] {
    [("keys", "level"), (INTERVAL_LEVEL, level)]
}

fn rule(rule: Json) -> Rule {
    serde_json::from_value(rule).unwrap()
}

/// The shares of studies that license a claim with intervals of some standard errors, and that license it as a plain statement.
fn rates(claim: &Json, levels: usize, (errors, level): (f64, &str)) -> [f64; 2] {
    let (used, claim, mut state) = (claim.to_string(), rule(claim.clone()), 97);
    let mut licensed = [0; 2];
    for _ in 0..STUDIES {
        let z: Vec<[f64; MEANS]> = (0..levels)
            .map(|_| [(); MEANS].map(|()| normal(&mut state)))
            .collect();
        let table = means(&z, errors, &notes(level), &used);
        let stated = judge(&claim, &|_, only| table.choose(only)).unwrap();
        for (count, judged) in licensed.iter_mut().zip([claimed(&claim, &table), stated]) {
            *count += u32::from(judged.truth == Truth::Yes);
        }
    }
    licensed.map(|count| f64::from(count) / STUDIES as f64)
}

const USUAL: (f64, &str) = (1.959_964, "0.95");
/// Enough for sixteen ends.
const HIGH: (f64, &str) = (2.734_4, "0.99375");

fn every(that: &str) -> Json {
    json!({"every": {"table": "r.m", "that": that}})
}

fn joined(of_one: &dyn Fn(usize) -> String, by: &str) -> String {
    let parts: Vec<String> = (1..=MEANS).map(of_one).collect();
    parts.join(by)
}

/// Claims that have several chances, and the least share of studies in which their values alone say so.
fn with_chances() -> Vec<(Json, usize, f64)> {
    let above = |i: usize| format!("x{i}_mean > 1");
    let consistent = |i| json!({"consistent": {"table": "r.m", "column": format!("x{i}_mean"), "reference": 1, "across": ["level"]}});
    let between =
        |i| json!({"between": {"table": "r.m", "column": format!("x{i}_mean"), "low": 1}});
    let rising = |i| json!({"monotone": {"table": "r.m", "x": "level", "y": format!("x{i}_mean")}});
    let each = |one: &dyn Fn(usize) -> Json| {
        let parts: Vec<Json> = (1..=MEANS).map(one).collect();
        json!({"any-of": parts})
    };
    let counted = |form: &str, that: &str, count: u64| json!({form: {"table": "r.m", "that": that, "count": count}});
    let nested = json!({"any-of": [
        {"all-of": [consistent(1), every("x2_mean > 1 or x3_mean > 1")]},
        {"any-of": [every("x4_mean > 1 or x5_mean < 1"), between(6), rising(7)]},
        every("not (x7_mean <= 1 and x8_mean <= 1)"),
    ]});
    vec![
        (each(&consistent), 2, 0.9),
        (each(&between), 1, 0.9),
        (each(&rising), 2, 0.9),
        (every(&joined(&above, " or ")), 1, 0.9),
        (
            every(&format!(
                "not ({})",
                joined(&|i| format!("x{i}_mean <= 1"), " and ")
            )),
            1,
            0.9,
        ),
        (
            json!({"no-row": {"table": "r.m", "that": joined(&|i| format!("x{i}_mean <= 1"), " and ")}}),
            1,
            0.9,
        ),
        (
            every(&joined(&|i| format!("x{i}_ci_low > 1"), " or ")),
            1,
            0.0,
        ),
        (
            every(&joined(&|i| format!("x{i}_mean != 1"), " or ")),
            1,
            0.9,
        ),
        (
            every("x1_mean > x2_mean or x3_mean > x4_mean or x5_mean > x6_mean"),
            1,
            0.8,
        ),
        (counted("at-least", "x1_mean > 1 or x2_mean > 1", 1), 6, 0.9),
        (counted("at-most", "x1_mean <= 1", 5), 6, 0.9),
        (counted("exactly", "x1_mean > 1", 3), 6, 0.2),
        (nested, 2, 0.9),
    ]
}

#[test]
fn a_claim_with_several_chances_is_licensed_falsely_in_at_most_5_percent() {
    for (claim, levels, observed) in with_chances() {
        for intervals in [USUAL, HIGH] {
            let [licensed, stated] = rates(&claim, levels, intervals);
            assert!(licensed <= MOST, "{claim}: {licensed}, {intervals:?}");
            assert!(stated >= observed, "{claim}: {stated}");
        }
    }
    // Longer intervals can license what may be licensed in eight ways.
    let above = every(&joined(&|i| format!("x{i}_mean > 1"), " or "));
    let [licensed, _] = rates(&above, 1, HIGH);
    assert!(licensed > 0.01, "{licensed}");
}

#[test]
fn every_rule_that_compares_numbers_counts_whole_intervals() {
    let one = |form: &str, more: Json| {
        let mut rule = json!({"table": "r.m", "column": "x1_mean"});
        rule.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({form: rule})
    };
    let steps = |form: &str, more: Json| {
        let mut rule = json!({"table": "r.m", "x": "level", "y": "x1_mean"});
        rule.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({form: rule})
    };
    // Claims, the number of levels, and the least share of studies in which the values alone say so.
    let cases = [
        (one("between", json!({"low": 1})), 1, 0.4),
        (one("between", json!({"high": 1})), 1, 0.4),
        (one("within", json!({"of": 1.5, "by": 0.5})), 1, 0.4),
        (one("within", json!({"of": 2, "ratio": 0.5})), 1, 0.4),
        (one("within", json!({"of": "x2_mean", "by": 0})), 1, 0.0),
        (one("largest", json!({"are": {"level": 1}})), 2, 0.4),
        (one("smallest", json!({})), 2, 0.9),
        (
            one("consistent", json!({"reference": 1, "across": ["level"]})),
            2,
            0.4,
        ),
        (steps("monotone", json!({})), 2, 0.4),
        (
            steps(
                "monotone",
                json!({"direction": "falling", "strictly": true}),
            ),
            2,
            0.4,
        ),
        (steps("steepest", json!({"are": {"level": 2}})), 3, 0.2),
        (every("x1_mean > x2_mean"), 1, 0.4),
        (every("x1_mean != 1"), 1, 0.9),
        (every("not x1_mean in [1]"), 1, 0.9),
        (every("not x1_mean between 0.5 and 1"), 1, 0.4),
    ];
    for (claim, levels, observed) in cases {
        for intervals in [USUAL, HIGH] {
            let [licensed, stated] = rates(&claim, levels, intervals);
            assert!(licensed <= MOST, "{claim}: {licensed}, {intervals:?}");
            assert!(stated >= observed, "{claim}: {stated}");
        }
    }
}

#[test]
fn whole_intervals_license_and_refute_each_rule() {
    let table = |rows: &[f64]| {
        let z: Vec<[f64; MEANS]> = rows.iter().map(|x| [(x - TRUTH) / 0.03; MEANS]).collect();
        means(&z, HIGH.0, &notes(HIGH.1), "x1_ x2_")
    };
    let judged = |claim: Json, rows: &[f64]| claimed(&rule(claim), &table(rows)).truth;
    let between = || json!({"between": {"table": "r.m", "column": "x1_mean", "low": 1, "high": 2}});
    assert_eq!(judged(between(), &[1.5, 1.2]), Truth::Yes);
    assert_eq!(judged(between(), &[1.5, 1.05]), Truth::Unknown);
    assert_eq!(judged(between(), &[1.05, 0.8]), Truth::No);
    let within = || json!({"within": {"table": "r.m", "column": "x1_mean", "of": 1, "by": 0.2}});
    assert_eq!(judged(within(), &[1.0, 1.1]), Truth::Yes);
    assert_eq!(judged(within(), &[1.0, 1.2]), Truth::Unknown);
    assert_eq!(judged(within(), &[1.2, 1.5]), Truth::No);
    let rising = || json!({"monotone": {"table": "r.m", "x": "level", "y": "x1_mean"}});
    assert_eq!(judged(rising(), &[1.0, 1.5, 2.0]), Truth::Yes);
    assert_eq!(judged(rising(), &[1.0, 1.5, 1.6]), Truth::Unknown);
    assert_eq!(judged(rising(), &[1.0, 1.5, 1.45]), Truth::Unknown);
    assert_eq!(judged(rising(), &[1.0, 1.5, 1.2]), Truth::No);
    let steepest =
        || json!({"steepest": {"table": "r.m", "x": "level", "y": "x1_mean", "are": {"level": 3}}});
    assert_eq!(judged(steepest(), &[1.0, 1.5, 3.0]), Truth::Yes);
    assert_eq!(judged(steepest(), &[1.0, 1.5, 2.2]), Truth::Unknown);
    assert_eq!(judged(steepest(), &[1.0, 3.0, 3.5]), Truth::No);
    let consistent = || json!({"consistent": {"table": "r.m", "column": "x1_mean", "reference": 1, "across": ["level"]}});
    assert_eq!(judged(consistent(), &[1.2, 1.3]), Truth::Yes);
    assert_eq!(judged(consistent(), &[1.2, 0.99]), Truth::Unknown);
    assert_eq!(judged(consistent(), &[1.2, 0.8]), Truth::No);
    assert_eq!(judged(every("x1_mean > x2_mean"), &[1.5]), Truth::Unknown);
    let open = claimed(&rule(rising()), &table(&[1.0, 1.05]));
    assert!(
        open.reason
            .starts_with("the intervals of neighbouring rows overlap, or are withheld: level=1"),
        "{}",
        open.reason
    );
}

#[test]
fn a_claim_needs_intervals_at_a_level_for_all_its_chances() {
    let short = |level: f64, errors: f64| (errors, level.to_string());
    let one = every("x1_mean > 1");
    let two = json!({"any-of": [every("x1_mean > 1"), every("x2_mean > 1")]});
    for (claim, level, errors, licensed) in [
        (&one, 0.2, 0.2533, false),
        (&one, 0.8, 1.2816, false),
        (&one, 0.9, 1.6449, true),
        (&two, 0.6, 0.8416, false),
        (&two, 0.9, 1.6449, false),
        (&two, 0.95, 1.96, true),
    ] {
        let (errors, level) = short(level, errors);
        let [rate, _] = rates(claim, 1, (errors, &level));
        assert!(rate <= MOST, "{claim} {level}: {rate}");
        assert_eq!(rate > 0.0, licensed, "{claim} {level}: {rate}");
    }
    let table = |parameters: &str| {
        means(
            &[[9.0; MEANS]],
            0.2533,
            &notes(parameters),
            "x1_ x2_ x3_ x4_ x5_ x6_ x7_ x8_",
        )
    };
    let reason = |claim: &Json, parameters: &str| {
        let judged = claimed(&rule(claim.clone()), &table(parameters));
        (judged.truth, judged.reason)
    };
    let (truth, why) = reason(&one, "0.2");
    assert_eq!(truth, Truth::Unknown);
    let says = "a claim needs intervals at 90 %, and these have 20 %: raise `confidence`, or lower `alpha`, of the operator that makes \
                them so that their level is 90 %, or use the rule `different` on a comparison";
    assert!(why.ends_with(says), "{why}");
    let (truth, why) = reason(
        &every(&joined(&|i| format!("x{i}_mean > 1"), " or ")),
        "0.95",
    );
    assert_eq!(truth, Truth::Unknown);
    assert!(why.contains("a claim that 8 ends of intervals could license needs intervals at 98.75 %, and these have 95 %: raise `confidence`, or lower `alpha`, of the operator that makes them so that their level is 98.75 %, or"), "{why}");
    let (truth, why) = reason(&one, "0.9");
    assert_eq!(truth, Truth::Yes);
    assert!(why.ends_with("its intervals have the level 90 %"), "{why}");
}

#[test]
fn the_level_of_intervals_is_that_which_their_table_states() {
    let judged = |notes: &[(&str, &str)]| {
        let table = means(&[[9.0; MEANS]], 1.96, notes, "x1_");
        claimed(&rule(every("x1_mean > 1")), &table)
    };
    let truth = |level: &str| judged(&[(INTERVAL_LEVEL, level)]).truth;
    assert_eq!(truth("0.95"), Truth::Yes);
    assert_eq!(truth("0.2"), Truth::Unknown);
    assert_eq!(truth("high"), Truth::Unknown);
    let query = judged(&[("operator", "sql")]);
    assert_eq!(query.truth, Truth::Unknown);
    assert!(query.reason.ends_with("their table does not state their level: use the table that the intervals come from, or add a column `interval_level`"), "{}", query.reason);
}
