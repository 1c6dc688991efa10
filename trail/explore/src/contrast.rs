//! Two labels of an axis, or two studies, side by side: how their settings differ, and how far apart their results are.
//! Every interval comes from the crate `statistics`, as in `analyze` and `diff`.

use std::collections::{BTreeMap, BTreeSet};

use artifacts::{Scalar, Store, Table};
use compare::{Rule, Side, USUAL};
use contract::NotReplicated;
use pipeline::design::BLOCK;
use pipeline::lock::{LockCell, LockClass, LockStage};
use pipeline::{CellStatus, Coordinates};
use serde_json::{Value, json};
use statistics::{Sample, UnitEffect, log_ratios, rounding_of_ratios, unit_effect_rounded};

use crate::catalogue::{record_of, whole};
use crate::error::Failure;
use crate::facets::{self, Facet, Status};
use crate::reads::loads_of;
use crate::reply::{Freshness, Reply};
use crate::request::Ask;
use crate::study::Study;
use crate::table::scalar;

/// The two-sided level of an interval.
const LEVEL: f64 = 0.95;

/// The probability of finding the smallest detectable change.
const POWER: f64 = 0.8;

/// The sides of the comparison.
struct Sides<'a> {
    axis: &'a str,
    labels: [&'a str; 2],
}

/// Compares the two labels `a` and `b` of an axis of a stage, at every coordinate at which both were measured.
pub(crate) fn contrast(study: &Study, ask: &Ask, store: &Store) -> Result<Reply, Failure> {
    let needed = |name: &str| {
        let missing =
            || Failure::question(format!("`{name}` is missing"), "give stage, axis, a and b");
        ask.get(name).ok_or_else(missing)
    };
    let stage = study.stage(needed("stage")?)?;
    let sides = Sides {
        axis: needed("axis")?,
        labels: [needed("a")?, needed("b")?],
    };
    let pairs = pairs_of_cells(study, stage, &sides, store)?;
    let differences = facets::between(study, stage, &pairs, store);
    let wanted = |name: &str| -> Vec<String> {
        let list = ask.get(name).unwrap_or_default().split(',');
        list.filter(|n| !n.is_empty()).map(str::to_owned).collect()
    };
    let contrast = match cells_table(study, ask.get("table"), (stage, &sides), store)? {
        Some((name, table)) => {
            let (columns, unit) = (wanted("column"), wanted("unit"));
            let mut results = deltas(&name, &table, &sides, &columns, &unit, study, store)?;
            results["reads"] = json!(loads_of(&name, &study.catalogue(store)?, store));
            results
        }
        None => json!({
            "table": null,
            "reason": format!(
                "no table of cells (operator `cell-summary`) of the stage {} has this axis; add one to an analyze stage",
                stage.name
            ),
        }),
    };
    let value = json!({
        "stage": stage.name,
        "axis": sides.axis,
        "a": sides.labels[0],
        "b": sides.labels[1],
        "example": pairs.first().map(|pair| pair.map(|cell| &cell.coordinates)),
        "facets": differences.facets,
        "pairs": differences.pairs,
        "pairs_unread": differences.unread,
        "results": contrast,
    });
    Ok(Reply::json(&value, Freshness::Tagged))
}

/// Returns the pairs of cells that differ only in the axis: those that enter the statistics, or else those that are ok, or
/// else one pair. There is at least one.
fn pairs_of_cells<'s>(
    study: &Study,
    stage: &'s LockStage,
    sides: &Sides<'_>,
    store: &Store,
) -> Result<Vec<[&'s LockCell; 2]>, Failure> {
    let mut rest: BTreeMap<String, [Option<&LockCell>; 2]> = BTreeMap::new();
    let mut labels = BTreeSet::new();
    for cell in &stage.cells {
        let Coordinates(at) = cell.place().map_err(Failure::store)?;
        let Some(own) = at.iter().find(|(axis, _)| axis == sides.axis) else {
            let axes: Vec<&str> = at.iter().map(|(axis, _)| axis.as_str()).collect();
            return Err(Failure::question(
                format!("{} has no axis `{}`", stage.name, sides.axis),
                format!("it has: {}", axes.join(", ")),
            ));
        };
        let own = own.1.to_string();
        if let Some(side) = sides.labels.iter().position(|label| *label == own) {
            let others = at.iter().filter(|(axis, _)| axis != sides.axis).cloned();
            let key = Coordinates(others.collect()).to_string();
            rest.entry(key).or_default()[side] = Some(cell);
        }
        labels.insert(own);
    }
    let both: Vec<[&LockCell; 2]> = rest
        .values()
        .filter_map(|[a, b]| Some([(*a)?, (*b)?]))
        .collect();
    let Some(first) = both.first() else {
        let labels: Vec<String> = labels.into_iter().collect();
        return Err(Failure::question(
            format!(
                "no coordinate has both `{}` and `{}`",
                sides.labels[0], sides.labels[1]
            ),
            format!("labels of {}: {}", sides.axis, labels.join(", ")),
        ));
    };
    let only = |keep: &dyn Fn(&LockCell) -> bool| -> Vec<[&'s LockCell; 2]> {
        let kept = both
            .iter()
            .filter(|pair| pair.iter().all(|cell| keep(cell)));
        kept.copied().collect()
    };
    let ok = |cell: &LockCell| cell.status == CellStatus::Ok;
    // Damaged exclusions must not hide the cells.
    let exclusions = study.exclusions(store).ok();
    let enters = |cell: &LockCell| {
        let why = exclusions.and_then(|all| all.why(&stage.name, &cell.coordinates));
        ok(cell) && why.is_none()
    };
    let choices = [only(&enters), only(&ok), vec![*first]];
    Ok(choices
        .into_iter()
        .find(|pairs| !pairs.is_empty())
        .unwrap_or_default())
}

/// Returns the table of cells with the axis: the named one, or the first that reads the stage. Another stage may have the
/// same axes.
fn cells_table(
    study: &Study,
    named: Option<&str>,
    (stage, sides): (&LockStage, &Sides<'_>),
    store: &Store,
) -> Result<Option<(String, Table)>, Failure> {
    let catalogue = study.catalogue(store)?;
    if let Some(name) = named {
        let Some(entry) = catalogue.tables.get(name) else {
            let message = format!("unknown table `{name}`");
            return Err(Failure::nothing(message, catalogue.hint(name)));
        };
        return Ok(Some((name.to_owned(), whole(entry, store)?.table)));
    }
    for (name, entry) in &catalogue.tables {
        // Skip request rows and chunks. Nobody compares them by key, and a bundle may lack them.
        if entry.stage.class != LockClass::Pure || name.ends_with(".lineage") {
            continue;
        }
        let (head, _) = Table::read_rows(store, &entry.sample.digest, 0..0)?;
        let loads = || loads_of(name, &catalogue, store);
        if head.metadata("operator").as_deref() == Some("cell-summary")
            && head.has(sides.axis)
            && loads().is_none_or(|loads| loads.contains(&stage.name))
        {
            return Ok(Some((name.clone(), whole(entry, store)?.table)));
        }
    }
    Ok(None)
}

/// Compares columns of a table of cells, and names the units.
fn deltas(
    name: &str,
    table: &Table,
    sides: &Sides<'_>,
    columns: &[String],
    unit: &[String],
    study: &Study,
    store: &Store,
) -> Result<Value, Failure> {
    let keys = keys(table);
    let units: Vec<String> = match unit {
        [] => keys.iter().filter(|key| *key == BLOCK).cloned().collect(),
        declared => declared.to_vec(),
    };
    if let Some(missing) = units.iter().find(|unit| !keys.contains(unit)) {
        return Err(Failure::question(
            format!("`{name}` has no key `{missing}`"),
            format!("its keys are {}", keys.join(", ")),
        ));
    }
    let repeats = replicates(study, store)?;
    let places: Vec<String> = keys
        .iter()
        .filter(|key| *key != sides.axis && !units.contains(key) && !repeats.contains(*key))
        .cloned()
        .collect();
    let columns: Vec<String> = match columns {
        [] => USUAL
            .iter()
            .map(|c| (*c).to_owned())
            .filter(|c| table.has(c))
            .collect(),
        named => named.to_vec(),
    };
    let mut contrasts = Vec::new();
    for column in &columns {
        if !table.has(column) {
            return Err(artifacts::TableError::no_column(column, &table.names()).into());
        }
        let pairs = Pairs::of(table, column, sides, &places, &units)?;
        contrasts.push(json!({
            "column": column,
            "unit": table.unit(column),
            "description": table.description(column),
            "at": pairs.rows(),
            "overall": pairs.overall(),
        }));
    }
    let words = match units.as_slice() {
        [] => NotReplicated::Launches.because(format!(
            "the table has no key `{BLOCK}`, and no `unit` is named"
        )),
        units => units.join(" × "),
    };
    Ok(json!({
        "table": name,
        "places": places,
        "units": units,
        "interval_of": words,
        "level": LEVEL,
        "power": POWER,
        "could_be_units": keys.iter().filter(|k| repeats.contains(*k) || *k == BLOCK).collect::<Vec<_>>(),
        "columns": contrasts,
    }))
}

fn keys(table: &Table) -> Vec<String> {
    let declared = table.metadata("keys").unwrap_or_default();
    let keys = declared.split(',').filter(|key| table.has(key));
    keys.map(str::to_owned).collect()
}

/// Returns the axes that only number repetitions.
pub(crate) fn replicates(study: &Study, store: &Store) -> Result<BTreeSet<String>, Failure> {
    let mut axes = BTreeSet::new();
    for stage in &study.lock.stages {
        // All cells of a stage have the same axes.
        let Some(cell) = stage.cells.iter().find(|cell| cell.record.is_some()) else {
            continue;
        };
        let record = record_of(store, &stage.name, cell)?;
        let replicate = record.map(|record| record.recipe.replicate.0);
        axes.extend(replicate.into_iter().flatten().map(|(axis, _)| axis));
    }
    Ok(axes)
}

/// Values of both sides by coordinate and then by unit, averaged.
struct Pairs {
    at: Vec<(Vec<Value>, ByUnit)>,
    /// Whether the table has units, which replicate the launches.
    replicated: bool,
}

type ByUnit = BTreeMap<String, [Option<f64>; 2]>;

impl Pairs {
    fn of(
        table: &Table,
        column: &str,
        sides: &Sides<'_>,
        places: &[String],
        units: &[String],
    ) -> Result<Self, Failure> {
        type Held = (Vec<Value>, BTreeMap<String, [Vec<f64>; 2]>);
        let mut held: BTreeMap<String, Held> = BTreeMap::new();
        let mut order = Vec::new();
        let values = table.float(column)?;
        for (row, value) in values.into_iter().enumerate() {
            let label = table.value(sides.axis, row)?.to_string();
            let side = sides.labels.iter().position(|l| *l == label);
            let Some((side, value)) = side.zip(value.filter(|v| v.is_finite())) else {
                continue;
            };
            let labels = |axes: &[String]| -> Result<Vec<Scalar>, artifacts::TableError> {
                axes.iter().map(|axis| table.value(axis, row)).collect()
            };
            let (place, unit) = (labels(places)?, labels(units)?);
            let text = |list: &[Scalar]| {
                list.iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join("\u{1f}")
            };
            let key = text(&place);
            if !held.contains_key(&key) {
                order.push(key.clone());
            }
            let here = held.entry(key).or_default();
            here.0 = place.iter().map(scalar).collect();
            here.1.entry(text(&unit)).or_default()[side].push(value);
        }
        let mean = |values: Vec<f64>| Sample::new(values).ok().map(|sample| sample.mean());
        let averaged = |(place, units): Held| {
            let units = units
                .into_iter()
                .map(|(unit, sides)| (unit, sides.map(mean)));
            (place, units.collect())
        };
        let at = order
            .into_iter()
            .filter_map(|key| held.remove(&key))
            .map(averaged);
        Ok(Self {
            at: at.collect(),
            replicated: !units.is_empty(),
        })
    }

    /// Returns one line for each coordinate at which both sides were measured.
    fn rows(&self) -> Vec<Value> {
        let line = |(place, units): &(Vec<Value>, BTreeMap<String, [Option<f64>; 2]>)| {
            let both: Vec<(f64, f64)> = units.values().filter_map(|[a, b]| a.zip(*b)).collect();
            let mut line = distance_of(&both, self.replicated);
            line["at"] = json!(place);
            line["units"] = json!(both);
            line
        };
        let has_both = |(_, units): &&(Vec<Value>, BTreeMap<String, [Option<f64>; 2]>)| {
            units.values().any(|[a, b]| a.is_some() && b.is_some())
        };
        self.at.iter().filter(has_both).map(line).collect()
    }

    /// Returns the ratio over all coordinates, from the mean of the logarithms within each unit.
    fn overall(&self) -> Value {
        let mut of_unit: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        let (mut rounding, mut places) = (0.0, 0);
        for (_, units) in &self.at {
            let both = units
                .iter()
                .filter_map(|(unit, [a, b])| Some((unit, (*a)?, (*b)?)));
            let both: Vec<(&String, f64, f64)> = both.collect();
            if both.is_empty() {
                continue;
            }
            let pairs: Vec<(f64, f64)> = both.iter().map(|(_, a, b)| (*a, *b)).collect();
            let Ok(logs) = log_ratios(&pairs) else {
                return json!({"reason": "a value is not above 0 and has no ratio"});
            };
            places += 1;
            rounding += rounding_of_ratios(&pairs).powi(2);
            for ((unit, ..), log) in both.iter().zip(logs) {
                of_unit.entry(unit).or_default().push(log);
            }
        }
        if places == 0 {
            return json!({"reason": "no coordinate has both sides"});
        }
        let mean = |logs: &Vec<f64>| logs.iter().sum::<f64>() / logs.len() as f64;
        let logs: Vec<f64> = of_unit.values().map(mean).collect();
        let mut value = effect_of(&logs, rounding.sqrt() / f64::from(places), self.replicated);
        value["coordinates"] = json!(places);
        value
    }
}

/// Describes how far apart the sides of pairs are, with one pair per unit.
fn distance_of(both: &[(f64, f64)], replicated: bool) -> Value {
    let mean = |side: fn(&(f64, f64)) -> f64| {
        let sample = Sample::new(both.iter().map(side)).ok();
        sample.map(|sample| sample.mean())
    };
    let (a, b) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let mut value = match log_ratios(both) {
        Ok(logs) => effect_of(&logs, rounding_of_ratios(both), replicated),
        Err(refusal) => json!({"reason": refusal.to_string()}),
    };
    value["a"] = json!(a);
    value["b"] = json!(b);
    value["delta"] = json!(a.zip(b).map(|(a, b)| a - b));
    value
}

/// Returns the ratio a ÷ b of logarithms, with its interval and the smallest change that this number of units detects.
fn effect_of(logs: &[f64], rounding: f64, replicated: bool) -> Value {
    let ratio = Sample::new(logs.iter().copied())
        .ok()
        .map(|sample| sample.mean().exp());
    let mut value = json!({"n": if replicated { logs.len() } else { 0 }, "ratio": ratio});
    if !replicated {
        value["reason"] = json!(NotReplicated::Launches.to_string());
        return value;
    }
    match unit_effect_rounded(logs, rounding) {
        Ok(effect) => with_interval(&mut value, &effect),
        Err(refusal) => value["reason"] = json!(refusal.to_string()),
    }
    value
}

fn with_interval(value: &mut Value, effect: &UnitEffect) {
    let interval = effect.interval(LEVEL);
    let detectable = effect.smallest_detectable(1.0 - LEVEL, POWER).exp_m1();
    value["low"] = json!(interval.low.exp());
    value["high"] = json!(interval.high.exp());
    value["p"] = json!(effect.p);
    value["smallest_detectable"] = json!(Some(detectable).filter(|d| d.is_finite()));
}

/// Compares this study with another one, as `diff` does.
pub(crate) fn studies(
    older: &Study,
    newer: &Study,
    ask: &Ask,
    store: &Store,
) -> Result<Reply, Failure> {
    let number = |name: &str, usual: f64, most: f64| -> Result<f64, Failure> {
        let Some(text) = ask.get(name) else {
            return Ok(usual);
        };
        let value = text.parse::<f64>().ok().filter(|v| *v > 0.0 && *v < most);
        value.ok_or_else(|| {
            Failure::question(
                format!("`{name}={text}` cannot be"),
                format!("between 0 and {most}"),
            )
        })
    };
    let list = |name: &str| -> Vec<String> {
        let list = ask.get(name).unwrap_or_default().split(',');
        list.filter(|n| !n.is_empty()).map(str::to_owned).collect()
    };
    let usual = Rule::default();
    let rule = Rule {
        columns: list("column"),
        threshold: number("threshold", usual.threshold, 10.0)?,
        alpha: number("alpha", usual.alpha, 0.5)?,
        unit: list("unit"),
        ..usual
    };
    let side = |study: &Study| {
        Side::read(study.id.clone(), study.lock.clone(), store).map_err(Failure::store)
    };
    let (a, b) = (side(older)?, side(newer)?);
    let comparison = compare::compare(&a, &b, &rule).map_err(|e| Failure::question(e, ""))?;
    let planned: BTreeSet<&str> = comparison
        .recipes
        .iter()
        .map(|change| change.stage.as_str())
        .collect();
    let facets: Vec<Facet> = comparison
        .environment
        .iter()
        .map(|change| {
            let (stage, _) = change
                .document
                .split_once('.')
                .unwrap_or((&change.document, ""));
            let status = match (&change.a, &change.b) {
                (None, _) | (_, None) => Status::Unknown,
                _ if planned.contains(stage) => Status::Planned,
                _ => Status::Confound,
            };
            Facet {
                at: change.document.clone(),
                key: change.path.clone(),
                a: change.a.clone(),
                b: change.b.clone(),
                status,
            }
        })
        .collect();
    let facets = facets::by_name(facets);
    let value = json!({
        "a": older.summary(),
        "b": newer.summary(),
        "rule": rule,
        "outcome": comparison.outcome(),
        "facets": facets,
        "cells_in_both": cells_in_both(older, newer),
        "tables_in_both": comparison.tables_of_cells(),
        "comparison": comparison,
    });
    Ok(Reply::json(&value, Freshness::Tagged))
}

/// Returns the number of measured cells that have the same stage and labels in both studies.
fn cells_in_both(older: &Study, newer: &Study) -> usize {
    let [before, after] = [older, newer].map(|study| {
        let stages = study.lock.stages.iter();
        let measured = stages.filter(|stage| stage.class == LockClass::Measurement);
        let place = |stage: &'_ LockStage, cell: &LockCell| {
            (
                stage.name.clone(),
                Coordinates::canonical_text(&cell.coordinates),
            )
        };
        let cells = measured.flat_map(|stage| stage.cells.iter().map(move |c| place(stage, c)));
        cells.collect::<BTreeSet<(String, String)>>()
    });
    before.intersection(&after).count()
}

#[cfg(test)]
mod tests {
    use artifacts::Column;

    use super::*;

    /// Three blocks in which side `a` is 1.1, 1.2 and 1.3 times side `b`.
    fn table() -> Table {
        let rows = [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3), ("b", 3)];
        let values = [110.5, 100.25, 120.75, 100.5, 131.25, 100.125];
        let columns = vec![
            Column::text("side", rows.iter().map(|(side, _)| Some(*side))),
            Column::int("block", rows.iter().map(|(_, block)| Some(*block))),
            Column::float("x", values.iter().map(|v| Some(*v))),
        ];
        Table::new(columns).unwrap()
    }

    const SIDES: Sides<'_> = Sides {
        axis: "side",
        labels: ["a", "b"],
    };

    #[test]
    fn a_ratio_has_the_interval_of_its_units_and_says_what_they_can_find() {
        let pairs = Pairs::of(&table(), "x", &SIDES, &[], &["block".to_owned()]).unwrap();
        let overall = pairs.overall();
        let logs = log_ratios(&[(110.5, 100.25), (120.75, 100.5), (131.25, 100.125)]).unwrap();
        let rounding = rounding_of_ratios(&[(110.5, 100.25), (120.75, 100.5), (131.25, 100.125)]);
        let effect = unit_effect_rounded(&logs, rounding).unwrap();
        let interval = effect.interval(0.95);
        assert_eq!(overall["n"], 3);
        assert_eq!(overall["low"], json!(interval.low.exp()));
        assert_eq!(overall["high"], json!(interval.high.exp()));
        let detectable = overall["smallest_detectable"].as_f64().unwrap();
        assert!(detectable > 0.1, "{detectable}");
        assert_eq!(pairs.rows()[0]["units"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn without_units_there_is_a_ratio_and_no_interval() {
        let pairs = Pairs::of(&table(), "x", &SIDES, &[], &[]).unwrap();
        let overall = pairs.overall();
        assert!(overall["ratio"].as_f64().unwrap() > 1.1);
        assert_eq!(overall["low"], Value::Null);
        assert_eq!(overall["reason"], "no replication of launches");
    }
}
