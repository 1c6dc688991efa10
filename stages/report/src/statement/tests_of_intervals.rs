//! Claims about values that have intervals, over simulated studies of two equal sides: how often is one licensed falsely?

use std::sync::Arc;

use artifacts::{Column, Digest, Table};
use contract::INTERVAL_LEVEL;
use pipeline::place::{Condition, Coordinates};
use serde_json::{Value as Json, json};

use super::judge::{judge, judge_claim};
use super::judgement::Judgement;
use super::predicate::Truth;
use super::rule::Rule;
use super::share::claimed_alternatives;
use crate::data::Miss;
use crate::trace::TraceSource;
use crate::view::{Opened, Part, View};

const STUDIES: u64 = 1000;

/// The metadata of deltas.
const DELTAS: [(&str, &str); 2] = [("keys", "level"), LEVEL];

/// That of a table without keys.
const ONE_ROW: [(&str, &str); 2] = [("keys", ""), LEVEL];

const LEVEL: (&str, &str) = (INTERVAL_LEVEL, "0.95");

/// A ratio, and its interval or the reason why it has none.
type Ratio<'a> = (f64, Result<(f64, f64), &'a str>);

/// The deltas of a study: at each level, a ratio with an interval, or the reason why it has none.
fn deltas(rows: &[Ratio<'_>]) -> Arc<Opened> {
    let floats = |name: &str, values: Vec<Option<f64>>| Column::float(name, values);
    let end = |end: fn((f64, f64)) -> f64| rows.iter().map(move |(_, i)| i.ok().map(end)).collect();
    let columns = vec![
        Column::int("level", (1..).take(rows.len()).map(Some)),
        floats("ratio", rows.iter().map(|(r, _)| Some(*r)).collect()),
        floats("ratio_low", end(|i| i.0)),
        floats("ratio_high", end(|i| i.1)),
        Column::text("ratio_why", rows.iter().map(|(_, i)| i.err())),
        floats("delta", rows.iter().map(|(r, _)| Some(*r - 1.0)).collect()),
    ];
    let part = Part {
        coordinates: Coordinates::default(),
        digest: Digest::of(b"deltas"),
        content: Arc::new(Table::with_metadata(columns, &DELTAS).unwrap()),
    };
    Arc::new(Opened::new(TraceSource::Table, ("r", "d"), vec![part], &[]))
}

fn rule(rule: Json) -> Rule {
    serde_json::from_value(rule).unwrap()
}

pub(super) fn claimed(rule: &Rule, table: &Arc<Opened>) -> Judgement {
    let look = |_: &str, only: &Condition| -> Result<View, Miss> { table.choose(only) };
    let shared = claimed_alternatives(&[rule], &look).unwrap();
    judge_claim(rule, (shared, false), &look).unwrap()
}

fn stated(rule: &Rule, table: &Arc<Opened>) -> Judgement {
    judge(rule, &|_, only| table.choose(only)).unwrap()
}

pub(super) fn normal(state: &mut u64) -> f64 {
    let mut uniform = || {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((*state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    };
    let (u, v) = (uniform(), uniform());
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// The share of studies of equal sides that license a claim, and that license it as a plain statement. Levels vary alone
/// or together.
fn rates(claim: Json, levels: usize, together: bool) -> [f64; 2] {
    let (claim, mut state) = (rule(claim), 97);
    let mut licensed = [0; 2];
    for _ in 0..STUDIES {
        let one = normal(&mut state);
        let row = |_| {
            let z = if together { one } else { normal(&mut state) };
            let at = |far: f64| (0.03 * (z + far)).exp();
            (at(0.0), Ok((at(-1.96), at(1.96))))
        };
        let table = deltas(&(0..levels).map(row).collect::<Vec<_>>());
        let judged = [claimed(&claim, &table), stated(&claim, &table)];
        for (count, judged) in licensed.iter_mut().zip(judged) {
            *count += u32::from(judged.truth == Truth::Yes);
        }
    }
    licensed.map(|count| f64::from(count) / STUDIES as f64)
}

#[test]
fn a_claim_about_a_value_beyond_a_bound_is_licensed_falsely_in_at_most_5_percent() {
    let every = |that: &str| json!({"every": {"table": "r.d", "that": that}});
    let some = |count| json!({"at-least": {"table": "r.d", "that": "ratio > 1", "count": count}});
    let any = json!({"any-of": [every("ratio > 1"), every("1 > ratio")]});
    let cases = [
        (every("ratio > 1"), 1, 0.4),
        (every("ratio > 1"), 3, 0.4),
        (every("not ratio <= 1.0 and level > 0"), 3, 0.4),
        (
            json!({"consistent": {"table": "r.d", "column": "ratio", "reference": 1, "across": ["level"]}}),
            3,
            0.9,
        ),
        (some(1), 6, 0.4),
        (some(5), 6, 0.4),
        (any, 2, 0.9),
    ];
    for (claim, levels, observed) in cases {
        let [licensed, stated] = rates(claim.clone(), levels, true);
        assert!(licensed <= 0.071, "{claim}: {licensed}");
        // The values alone say so in this share of studies.
        assert!(stated >= observed, "{claim}: {stated}");
        let [licensed, _] = rates(claim.clone(), levels, false);
        assert!(licensed <= 0.071, "{claim}: {licensed}");
    }
    let largest = json!({"largest": {"table": "r.d", "column": "ratio", "are": {"level": 2}}});
    let [licensed, stated] = rates(largest, 2, false);
    assert!(licensed <= 0.05 && stated >= 0.4, "{licensed} {stated}");
}

#[test]
fn a_claim_is_licensed_by_the_whole_interval_and_open_where_it_crosses_the_bound_or_is_withheld() {
    let above = rule(json!({"every": {"table": "r.d", "that": "ratio > 1"}}));
    let judged = |rows: &[Ratio<'_>]| claimed(&above, &deltas(rows));
    assert_eq!(judged(&[(1.2, Ok((1.1, 1.3)))]).truth, Truth::Yes);
    assert_eq!(judged(&[(0.8, Ok((0.7, 0.9)))]).truth, Truth::No);
    let crossing = judged(&[(1.2, Ok((1.1, 1.3))), (1.1, Ok((0.9, 1.3)))]);
    assert_eq!(crossing.truth, Truth::Unknown);
    assert_eq!(
        crossing.reason,
        "in 1 of 2 rows ratio is above 1; against it: level=2: ratio = 1.1, ratio_low = 0.9, ratio_high = 1.3; \
         a claim counts a value with its whole interval"
    );
    let few = judged(&[(1.2, Err("2 units, and at least 3 are needed"))]);
    assert_eq!(few.truth, Truth::Unknown);
    // A table without replication was not meant to have intervals, and units without spread have none by definition.
    for why in [
        "no replication of launches: the table has no key `block`, and no `unit` is declared",
        "3 units with the same effect: nothing says how far another would lie",
    ] {
        assert_eq!(judged(&[(1.2, Err(why))]).truth, Truth::Yes, "{why}");
    }
    // A value without interval columns is what was observed.
    let delta = rule(json!({"every": {"table": "r.d", "that": "delta > 0"}}));
    assert_eq!(
        claimed(&delta, &deltas(&[(1.2, Ok((0.9, 1.3)))])).truth,
        Truth::Yes
    );
}

#[test]
fn a_claim_about_an_effect_an_efficiency_or_a_fitted_parameter_needs_its_interval() {
    let one = |notes: &[(&str, &str)], columns: Vec<Column>| {
        let part = Part {
            coordinates: Coordinates::default(),
            digest: Digest::of(b"effects"),
            content: Arc::new(Table::with_metadata(columns, notes).unwrap()),
        };
        Arc::new(Opened::new(TraceSource::Table, ("r", "d"), vec![part], &[]))
    };
    let judged = |that: &str, notes: &[(&str, &str)], columns: Vec<Column>| {
        claimed(
            &rule(json!({"every": {"table": "r.d", "that": that}})),
            &one(notes, columns),
        )
        .truth
    };
    let float = |name: &str, value: Option<f64>| Column::float(name, [value]);
    let text = |name: &str, value: &str| Column::text(name, [Some(value)]);
    let effect = |ends: Option<(f64, f64)>, method: &str, verdict: &str| {
        let columns = vec![
            float("effect", Some(1.2)),
            float("adjusted_low", ends.map(|e| e.0)),
            float("adjusted_high", ends.map(|e| e.1)),
            text("ci_method", method),
            text("verdict", verdict),
        ];
        judged("effect > 1", &ONE_ROW, columns)
    };
    let t = "t over 5 units, 4.00 degrees of freedom";
    assert_eq!(effect(Some((1.1, 1.3)), t, "different"), Truth::Yes);
    assert_eq!(effect(Some((0.9, 1.3)), t, "no evidence"), Truth::Unknown);
    // Of two equal sides, either has the larger effect in half of the studies.
    let few = "none: 2 units, and at least 3 are needed";
    assert_eq!(effect(None, few, "undecidable"), Truth::Unknown);
    assert_eq!(effect(Some((1.1, 1.3)), t, "undecidable"), Truth::Unknown);
    let published =
        "none: no replication of launches: the table has no key `block`, and no `unit` is declared";
    assert_eq!(effect(None, published, "undecidable"), Truth::Yes);
    let efficiency = |why: &str| {
        let columns = vec![
            float("parallel_efficiency", Some(0.7)),
            float("parallel_efficiency_low", None),
            float("parallel_efficiency_high", None),
            text("speedup_why", why),
        ];
        judged("parallel_efficiency > 0.6", &ONE_ROW, columns)
    };
    assert_eq!(
        efficiency("2 units, and at least 3 are needed"),
        Truth::Unknown
    );
    assert_eq!(
        efficiency("one unit per row, because `block` is a key"),
        Truth::Yes
    );
    let fitted = |low: f64| {
        let columns = vec![
            float("value", Some(0.2)),
            float("ci_low", Some(0.19)),
            float("ci_high", Some(0.21)),
            float("unit_low", Some(low)),
            float("unit_high", Some(0.3)),
            Column::text("unit_why", [None::<&str>]),
        ];
        judged("value > 0.15", &ONE_ROW, columns)
    };
    assert_eq!((fitted(0.16), fitted(0.1)), (Truth::Yes, Truth::Unknown));
}

/// A table with one row that states its level.
fn one_row(columns: Vec<Column>) -> Arc<Opened> {
    let part = Part {
        coordinates: Coordinates::default(),
        digest: Digest::of(b"row"),
        content: Arc::new(Table::with_metadata(columns, &ONE_ROW).unwrap()),
    };
    Arc::new(Opened::new(TraceSource::Table, ("r", "d"), vec![part], &[]))
}

fn every(that: &str) -> Rule {
    rule(json!({"every": {"table": "r.d", "that": that}}))
}

#[test]
fn a_claim_needs_the_end_of_an_interval_that_a_lost_cell_withholds() {
    let float = |name: &str, value: Option<f64>| Column::float(name, [value]);
    let table = one_row(vec![
        float("ratio", Some(1.2)),
        float("ratio_low", None),
        float("ratio_high", Some(1.3)),
        Column::text(
            "ratio_why",
            [Some("2 cells of a and 0 of b gave no result")],
        ),
    ]);
    // What would favor the side that lost cells is open; what is against it stands.
    for (that, truth) in [
        ("ratio > 1.1", Truth::Unknown),
        ("ratio < 1.1", Truth::Unknown),
        ("ratio < 1.4", Truth::Yes),
        ("ratio > 1.4", Truth::No),
    ] {
        assert_eq!(claimed(&every(that), &table).truth, truth, "{that}");
    }
    let reason = claimed(&every("ratio > 1.1"), &table).reason;
    let why =
        "an end of the interval of `ratio` is withheld: 2 cells of a and 0 of b gave no result";
    assert!(reason.ends_with(why), "{reason}");
}

#[test]
fn a_quantile_of_a_cell_counts_only_with_its_interval_unless_it_is_not_meant_to_have_any() {
    let judged = |low: Option<f64>, high: Option<f64>, refused: Option<&str>| {
        let table = one_row(vec![
            Column::float("p90", [Some(200.0)]),
            Column::float("p90_low", [low]),
            Column::float("p90_high", [high]),
            Column::text("intervals_refused", [refused]),
        ]);
        claimed(&every("p90 < 300"), &table).truth
    };
    let refused = Some("p90 of e2e_latency_ms: 36 independent values needed");
    assert_eq!(judged(Some(180.0), Some(220.0), None), Truth::Yes);
    assert_eq!(judged(None, None, refused), Truth::Unknown);
    assert_eq!(judged(Some(180.0), None, refused), Truth::Unknown);
    assert_eq!(judged(None, None, None), Truth::Yes);
}

#[test]
fn a_value_outside_its_own_interval_shows_nothing() {
    let table = |value: f64| {
        one_row(vec![
            Column::float("x", [Some(value)]),
            Column::float("x_low", [Some(10.0)]),
            Column::float("x_high", [Some(20.0)]),
        ])
    };
    let judged = |value: f64| claimed(&every("x > 5"), &table(value));
    assert_eq!(judged(15.0).truth, Truth::Yes);
    assert_eq!(judged(10.0 - 1e-12).truth, Truth::Yes);
    for value in [9.0, 21.0] {
        let judgement = judged(value);
        assert_eq!(judgement.truth, Truth::Unknown, "{value}");
        let why = "a value of `x` lies outside its own interval, so it shows nothing";
        assert!(judgement.reason.ends_with(why), "{}", judgement.reason);
    }
}
