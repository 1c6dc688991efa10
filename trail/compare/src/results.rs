//! Measured results at every coordinate, with the test of their change.

use std::collections::{BTreeMap, BTreeSet};

use artifacts::Table;
use contract::Better;
use contract::uneven::{counts_of, unlike_counts};
use pipeline::Json;
use pipeline::place::{CellName, cell_text};
use serde::{Serialize, Serializer};
use statistics::{Continuity, Sample, cliffs_delta, holm, mann_whitney_u, tarone_family};

use crate::gate::{Column, Lost};
use crate::launches::Shared;
use crate::requests::{Counts, Loss, Requests, is_share_of_requests};
use crate::side::{CompareError, Executed, Side};
use crate::surroundings::{Both, Surroundings, Unlike, cells};
use crate::tables::keys;
use crate::units::{Axes, Logs, Values, effect, no_units, without_ratio};

/// The test of a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Test {
    /// Welch's t test of the units' logarithms.
    #[default]
    Welch,
    /// The Mann–Whitney U test of the units. It needs four per side, and more for several results.
    MannWhitney,
}

/// The criteria for a change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rule {
    /// The compared columns of the table of cells; empty means the usual ones that exist.
    pub columns: Vec<String>,
    /// The smallest relative change that counts, such as 0.05.
    pub threshold: f64,
    /// The largest Holm-adjusted p that counts.
    pub alpha: f64,
    /// The test of single results.
    pub test: Test,
    /// The axes whose labels are units of replication; empty means `block` where both studies have it.
    pub unit: Vec<String>,
    /// The measuring conditions in which the studies may differ. A difference in any other condition makes a result
    /// undecidable.
    pub conditions_may_differ: Vec<String>,
    /// How much larger a share of its requests the newer study may lose, such as 0.001.
    pub lost_requests: f64,
}

impl Default for Rule {
    fn default() -> Self {
        Self {
            columns: Vec::new(),
            threshold: 0.05,
            alpha: 0.05,
            test: Test::Welch,
            unit: Vec::new(),
            conditions_may_differ: Vec::new(),
            lost_requests: 0.0,
        }
    }
}

/// The columns that are compared by default.
pub const USUAL: [&str; 5] = [
    "output_throughput",
    "request_throughput",
    "ttft_ms_p50",
    "tpot_ms_p50",
    "e2e_latency_ms_p50",
];

/// The verdict on a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeVerdict {
    /// No change beyond the threshold was shown.
    NoEvidence,
    /// A change beyond the threshold for the better was shown.
    Improvement,
    /// A change beyond the threshold for the worse was shown.
    Regression,
    /// A change beyond the threshold was shown, but the better direction is unknown.
    Changed,
    /// The data cannot answer.
    Undecidable,
}

impl ChangeVerdict {
    /// Returns the verdict in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::NoEvidence => "no evidence",
            Self::Improvement => "improvement",
            Self::Regression => "regression",
            Self::Changed => "changed",
            Self::Undecidable => "undecidable",
        }
    }
}

/// One result at one coordinate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResultChange {
    /// The table of cells.
    pub table: String,
    /// The coordinates, without repetitions.
    pub at: String,
    /// The column.
    pub column: String,
    /// Its unit.
    pub unit: Option<String>,
    /// The number of units of the older study, or of rows if there are no units.
    pub n_a: usize,
    /// The number of units or rows of the newer study.
    pub n_b: usize,
    /// The mean over the units of the older study.
    pub mean_a: f64,
    /// The mean over the units of the newer study.
    pub mean_b: f64,
    /// `mean_b / mean_a − 1`; `None` if the older mean is 0.
    pub change: Option<f64>,
    /// The p value of the test; `None` if the test is impossible.
    pub p: Option<f64>,
    /// The same after Holm's correction over all tested results.
    pub holm_p: Option<f64>,
    /// The direction that is better; `None` if it is unknown.
    #[serde(serialize_with = "direction")]
    pub better: Option<Better>,
    /// Whether the test finds the newer study higher, whatever the means say; `None` if the test is impossible.
    #[serde(skip)]
    pub(crate) rises: Option<bool>,
    /// The smallest p that the test could give with these units; 0 for a test without such a limit.
    #[serde(skip)]
    pub(crate) least: f64,
    /// That the newer study lost more of its requests there, which the column does not count.
    #[serde(skip)]
    pub(crate) flattered: Option<String>,
    /// The verdict on the change.
    pub verdict: ChangeVerdict,
    /// The reason why it is undecidable.
    pub reason: Option<String>,
}

/// Writes which values are better: `higher`, `lower`, or `unknown`.
#[expect(
    clippy::ref_option,
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes the field by reference"
)]
pub(crate) fn direction<S: Serializer>(
    better: &Option<Better>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(better.map_or("unknown", Better::word))
}

/// What two studies have in common.
#[derive(Default)]
pub(crate) struct Changes {
    /// Every result that both studies have, with its test.
    pub(crate) results: Vec<ResultChange>,
    /// The columns over all their coordinates.
    pub(crate) columns: Vec<Column>,
    /// The number of tables of cells that both studies have.
    pub(crate) tables: usize,
    /// The launches that units share, in any of the tables.
    pub(crate) shared: Option<Shared>,
}

/// Returns every result that both sides have, with its test, and the columns over all their coordinates.
pub(crate) fn changes(a: &Side<'_>, b: &Side<'_>, rule: &Rule) -> Result<Changes, CompareError> {
    let replicates: Vec<String> = a.replicates().into_iter().chain(b.replicates()).collect();
    let (before, after) = (a.tables(&["analyze"])?, b.tables(&["analyze"])?);
    let mut all = Changes::default();
    let (mut names, mut axes) = (BTreeSet::new(), BTreeSet::new());
    for (name, newer) in &after {
        let Some(older) = before.get(name) else {
            continue;
        };
        let of_cells = |t: &Table| {
            t.metadata("level").as_deref() == Some("cell")
                && t.metadata("operator").as_deref() == Some("cell-summary")
        };
        if !of_cells(newer) || !of_cells(older) {
            continue;
        }
        all.tables += 1;
        names.extend(
            newer
                .names()
                .into_iter()
                .filter(|c| compared(older, newer, c)),
        );
        let shared = keys(newer).into_iter();
        axes.extend(shared.filter(|axis| keys(older).contains(axis)));
        table_changes([a, b], rule, &replicates, name, [older, newer], &mut all)?;
    }
    if let Some(column) = rule.columns.iter().find(|c| !names.contains(*c)) {
        return Err(CompareError::Column {
            column: column.clone(),
            names: names.into_iter().collect(),
        });
    }
    let unknown = rule.unit.iter().find(|axis| !axes.contains(*axis));
    if let Some(axis) = unknown.filter(|_| !axes.is_empty()) {
        return Err(CompareError::Unit {
            axis: axis.clone(),
            names: axes.into_iter().collect(),
        });
    }
    // A named column without values has a line, unless another table has values of it.
    let valued = all.columns.iter().filter(|c| c.empty.is_none());
    let valued: BTreeSet<String> = valued.map(|c| c.name.clone()).collect();
    all.columns
        .retain(|c| c.empty.is_none() || !valued.contains(&c.name));
    judge(&mut all.results, rule);
    Ok(all)
}

/// Adds the changes of one table and its columns over all coordinates.
fn table_changes(
    [a, b]: [&Side<'_>; 2],
    rule: &Rule,
    replicates: &[String],
    name: &str,
    [older, newer]: [&Table; 2],
    all: &mut Changes,
) -> Result<(), CompareError> {
    let axes = Axes::new(&rule.unit, replicates, [older, newer]);
    let same = a.output(name).is_some() && a.output(name) == b.output(name);
    let both = Both {
        surroundings: [
            Surroundings::read(a, "the older study", name, older.rows())?,
            Surroundings::read(b, "the newer study", name, newer.rows())?,
        ],
        tables: [older, newer],
        places: axes.places(newer),
        units: axes.units.clone(),
        may_differ: &rule.conditions_may_differ,
    };
    // A small difference shows only over all cells, another one only at its own coordinate.
    let unlike = if same { None } else { both.unlike(None) };
    let mut at_one: BTreeMap<String, Option<Unlike>> = BTreeMap::new();
    let counts = Counts::new([older, newer], &both.places, rule.lost_requests);
    let shared = match same {
        true => None,
        false => Shared::of([a, b], name, &axes.units)?,
    };
    if let Some(shared) = &shared {
        all.shared.get_or_insert_default().add(shared);
    }
    let other_load = !same && arrivals_differ([a, b], name)?;
    for column in columns(older, newer, rule) {
        let unit = newer.unit(&column);
        let undirected = (other_load && column.ends_with("_throughput")).then_some(OFFERED);
        let (was, is) = (axes.values(older, &column), axes.values(newer, &column));
        let unlike = match same {
            true => None,
            false => (unlike.clone())
                .or_else(|| uneven(&column, [older, newer]).map(Unlike::Requests))
                .or_else(|| axes.on_unlike_labels([&was, &is]).map(Unlike::Labels)),
        };
        let mut notes: Vec<String> = shared.iter().map(Shared::note).collect();
        let flattered = match counts.loss(&column, None) {
            Some(Loss::Allowed(note)) => {
                notes.push(note);
                None
            }
            loss => loss.and_then(Loss::flatters),
        };
        let mut whole = Column {
            table: name.to_owned(),
            // A rate of answers that follows another offered load has no better direction.
            better: Better::of(&column, unit.as_deref()).filter(|_| undirected.is_none()),
            undirected,
            name: column.clone(),
            replicated: !axes.units.is_empty(),
            same,
            unlike: unlike.clone(),
            at: Vec::new(),
            lost: lost_cells(&axes, [a, b], [&was, &is]),
            named: rule.columns.contains(&column),
            empty: why_empty([&was, &is]),
            flattered,
            note: (!notes.is_empty()).then(|| notes.join("; ")),
            requests: is_share_of_requests(&column).then(|| counts.at(None)),
        };
        for (at, values_b) in is {
            let Some(values_a) = was.get(&at) else {
                continue;
            };
            let sides = [values_a.clone(), values_b];
            let unlike = match &unlike {
                None if !same => at_one
                    .entry(at.clone())
                    .or_insert_with(|| both.unlike(Some(&at)))
                    .clone(),
                everywhere => everywhere.clone(),
            };
            let requests = whole.requests.is_some().then(|| counts.at(Some(&at)));
            let flattered = counts.loss(&column, Some(&at)).and_then(Loss::flatters);
            let here = Here {
                at,
                unit: unit.clone(),
                unlike,
                flattered,
                requests,
            };
            all.results.extend(result(&whole, here, &sides, rule));
            whole.at.push(sides);
        }
        if !was.is_empty() || whole.named {
            all.columns.push(whole);
        }
    }
    Ok(())
}

/// Why a rate of answers has no better direction if the arrivals differ.
const OFFERED: &str = "the `arrival` of the two studies differs, so this rate follows the load that each offered, and not \
                       only its server";

/// Returns whether a load behind a table has another arrival process in the newer study than in the older.
fn arrivals_differ([a, b]: [&Side<'_>; 2], table: &str) -> Result<bool, CompareError> {
    let place = |name: &str| match name.parse::<CellName>() {
        Ok(cell) => cell_text(&cell.stage, &cell.coordinates.canonical()),
        Err(_) => name.to_owned(),
    };
    let behind = cells(b, table)?;
    let behind: BTreeSet<String> = behind.into_iter().map(|(_, cell)| place(&cell)).collect();
    let loads = |side: &Side<'_>| -> BTreeMap<String, Option<Json>> {
        let loads = side.cells.iter().filter(|c| c.record.recipe.kind == "load");
        let arrival = |c: &Executed| {
            (
                place(&c.name()),
                c.record.recipe.parameters.get("arrival").cloned(),
            )
        };
        loads.map(arrival).collect()
    };
    let older = loads(a);
    let newer = loads(b).into_iter();
    let mut newer = newer.filter(|(cell, _)| behind.is_empty() || behind.contains(cell));
    Ok(newer.any(|(cell, arrival)| older.get(&cell).is_some_and(|was| *was != arrival)))
}

/// The values of a column at each coordinate.
type At = BTreeMap<String, Values>;

/// Counts the cells of each study that have no value where the other study has one. Without units, none counts.
fn lost_cells(axes: &Axes, [a, b]: [&Side<'_>; 2], [was, is]: [&At; 2]) -> [Lost; 2] {
    if axes.units.is_empty() {
        return [Lost::default(); 2];
    }
    let any = |values: &At| values.keys().cloned().collect();
    [
        axes.lost(&a.measured(), was, &any(is)),
        axes.lost(&b.measured(), is, &any(was)),
    ]
}

/// Explains why a column has no values to compare. A quantile that too few requests can support is null everywhere.
/// A column that only the newer study lacks does not pass, and neither does a named one without values.
fn why_empty([was, is]: [&At; 2]) -> Option<String> {
    was.is_empty().then(|| match is.is_empty() {
        true => "no value in either study".to_owned(),
        false => "the older study has no value of it".to_owned(),
    })
}

/// The place of a result, and what holds there.
struct Here {
    at: String,
    unit: Option<String>,
    /// Why the values of the two studies cannot be compared.
    unlike: Option<Unlike>,
    /// That the newer study lost more of its requests.
    flattered: Option<String>,
    /// The requests of each study, if the column is the share of answered ones.
    requests: Option<[Requests; 2]>,
}

fn columns(a: &Table, b: &Table, rule: &Rule) -> Vec<String> {
    let wanted: Vec<String> = if rule.columns.is_empty() {
        USUAL.map(str::to_owned).to_vec()
    } else {
        rule.columns.clone()
    };
    wanted.into_iter().filter(|c| compared(a, b, c)).collect()
}

/// Returns whether a column can be compared: both tables have it, with numbers.
fn compared(a: &Table, b: &Table, column: &str) -> bool {
    a.has(column) && b.has(column) && b.float(column).is_ok() && a.float(column).is_ok()
}

/// Explains why quantiles of the two studies cannot be compared: they rest on unlike numbers of requests.
fn uneven(column: &str, tables: [&Table; 2]) -> Option<String> {
    let (counts, p) = counts_of(column)?;
    let counts = tables.map(|table| {
        let counts = table.float(&counts).unwrap_or_default();
        counts.into_iter().flatten().filter(|n| *n > 0.0).collect()
    });
    unlike_counts(p, ["the older study", "the newer study"], &counts)
}

fn result(column: &Column, here: Here, [a, b]: &[Values; 2], rule: &Rule) -> Option<ResultChange> {
    let (mean_a, mean_b) = (a.mean()?, b.mean()?);
    let tested = match (column.replicated, here.unlike) {
        (false, _) => Err(no_units()),
        (true, Some(unlike)) => Err(unlike.reason().to_owned()),
        (true, None) => tested(&column.name, [a, b], here.requests, rule),
    };
    Some(ResultChange {
        table: column.table.clone(),
        at: here.at,
        column: column.name.clone(),
        better: column.better,
        unit: here.unit,
        n_a: a.n(),
        n_b: b.n(),
        mean_a,
        mean_b,
        change: (mean_a != 0.0).then(|| mean_b / mean_a - 1.0),
        p: tested.as_ref().ok().map(|test| test.p),
        holm_p: None,
        rises: tested.as_ref().ok().map(|test| test.rises),
        least: tested.as_ref().map_or(0.0, |test| test.least),
        flattered: here.flattered,
        verdict: ChangeVerdict::Undecidable,
        reason: tested.err(),
    })
}

/// The test of one result.
struct Tested {
    p: f64,
    /// Whether it finds the newer study higher.
    rises: bool,
    /// The smallest p that it could give with these units.
    least: f64,
}

/// Tests one result, or returns the reason why the test is impossible.
fn tested(
    column: &str,
    [a, b]: [&Values; 2],
    requests: Option<[Requests; 2]>,
    rule: &Rule,
) -> Result<Tested, String> {
    match rule.test {
        Test::Welch => {
            let logs = |side: &Values, study: usize| {
                let (labels, units) = side.logs()?.into_iter().unzip::<&str, f64, Vec<_>, _>();
                Some(Logs {
                    labels: labels.into_iter().map(str::to_owned).collect(),
                    units,
                    rounding: side.rounding(),
                    requests: requests.map(|requests| requests[study]),
                })
            };
            let (older, newer) = logs(a, 0).zip(logs(b, 1)).ok_or_else(|| {
                let both = a.by_unit.values().chain(b.by_unit.values());
                without_ratio(column, &both.copied().collect::<Vec<_>>())
            })?;
            let effect = effect(&older, &newer)?.0;
            Ok(Tested {
                p: effect.p,
                rises: effect.mean > 0.0,
                least: 0.0,
            })
        }
        Test::MannWhitney => {
            let sample = |side: &Values| Sample::new(side.by_unit.values().copied());
            let (older, newer) = (
                sample(a).map_err(|e| e.to_string())?,
                sample(b).map_err(|e| e.to_string())?,
            );
            let test = mann_whitney_u(&older, &newer, Continuity::Corrected)
                .ok_or("all values are equal")?;
            if test.least > rule.alpha {
                return Err(format!(
                    "the smallest p of {} and {} units is {:.3}: the test cannot reject",
                    a.n(),
                    b.n(),
                    test.least
                ));
            }
            Ok(Tested {
                p: test.p,
                rises: cliffs_delta(&newer, &older) > 0.0,
                least: test.least,
            })
        }
    }
}

/// Withdraws the tests that cannot reject among so many results. The others share the level (Tarone's family).
fn withdraw(results: &mut [ResultChange], rule: &Rule) {
    let tested: Vec<usize> = (0..results.len())
        .filter(|i| results[*i].p.is_some())
        .collect();
    let least: Vec<f64> = tested.iter().map(|i| results[*i].least).collect();
    let members = tarone_family(&least, rule.alpha);
    let m = tested.len();
    for (i, _) in tested
        .into_iter()
        .zip(members)
        .filter(|(_, member)| !member)
    {
        let result = &mut results[i];
        result.reason = Some(format!(
            "the smallest p of {} and {} units is {:.3}, and {:.3} after Holm's adjustment over {m} results: the test cannot \
             reject",
            result.n_a,
            result.n_b,
            result.least,
            (result.least * m as f64).min(1.0)
        ));
        (result.p, result.rises) = (None, None);
    }
}

/// Adjusts the p values of all results tested together, and sets the verdict on each change.
fn judge(results: &mut [ResultChange], rule: &Rule) {
    withdraw(results, rule);
    let tested: Vec<usize> = (0..results.len())
        .filter(|i| results[*i].p.is_some())
        .collect();
    let raw: Vec<f64> = tested.iter().filter_map(|i| results[*i].p).collect();
    for (i, p) in tested.into_iter().zip(holm(&raw)) {
        let result = &mut results[i];
        result.holm_p = Some(p);
        let large = result.change.is_none_or(|c| c.abs() >= rule.threshold);
        let rises = result.mean_b > result.mean_a;
        let opposed = result.rises.is_some_and(|shown| shown != rises);
        if large && p <= rule.alpha && opposed {
            result.reason = Some(opposed_words(rises));
        }
        result.verdict = match (result.better, rises) {
            _ if !large || p > rule.alpha => ChangeVerdict::NoEvidence,
            _ if opposed => ChangeVerdict::Undecidable,
            (None, _) | (Some(Better::Higher), true) | (Some(Better::Lower), false)
                if result.flattered.is_some() =>
            {
                result.reason.clone_from(&result.flattered);
                ChangeVerdict::Undecidable
            }
            (None, _) => ChangeVerdict::Changed,
            (Some(Better::Higher), true) | (Some(Better::Lower), false) => {
                ChangeVerdict::Improvement
            }
            _ => ChangeVerdict::Regression,
        };
    }
}

/// Explains why a test that rejects shows neither direction: a few units outweigh the others in the mean.
fn opposed_words(rises: bool) -> String {
    let (mean, most) = if rises {
        ("higher", "lower")
    } else {
        ("lower", "higher")
    };
    format!(
        "the newer study has the {mean} mean because of a few units, and the test finds it {most}: look at those units"
    )
}

#[cfg(test)]
mod tests {
    use artifacts::Column;

    use super::*;

    #[test]
    fn tail_quantiles_of_studies_with_unlike_numbers_of_requests_are_not_compared() {
        let table = |n: i64| {
            let columns = vec![
                Column::float("ttft_ms_p90", [Some(1.0), None]),
                Column::int("ttft_ms_n", [Some(n), Some(n)]),
            ];
            Table::with_metadata(columns, &[]).unwrap()
        };
        let refusal = |column: &str, n: i64, m: i64| uneven(column, [&table(n), &table(m)]);
        let why = refusal("ttft_ms_p90", 40, 400).unwrap();
        assert!(
            why.starts_with(
                "the p90 of the older study is of 40 values and that of the newer study of 400: "
            ),
            "{why}"
        );
        assert_eq!(refusal("ttft_ms_p90", 40, 40), None);
        assert_eq!(refusal("ttft_ms_p50", 40, 400), None);
        assert_eq!(refusal("output_throughput", 40, 400), None);
    }

    #[test]
    fn launches_on_days_of_each_study_do_not_count_as_units() {
        let table = |days: [&str; 2]| {
            let rows = days
                .iter()
                .flat_map(|day| [1, 2].map(|launch| (*day, launch)));
            let rows: Vec<(&str, i64)> = rows.collect();
            let columns = vec![
                Column::text("day", rows.iter().map(|row| Some(row.0))),
                Column::int("launch", rows.iter().map(|row| Some(row.1))),
                Column::float(
                    "output_throughput",
                    rows.iter().map(|row| Some(row.1 as f64)),
                ),
            ];
            Table::with_metadata(columns, &[("keys", "day,launch")]).unwrap()
        };
        let named = ["day".to_owned(), "launch".to_owned()];
        let refusal = |older: [&str; 2], newer: [&str; 2]| {
            let tables = [&table(older), &table(newer)];
            let axes = Axes::new(&named, &[], tables);
            let [was, is] = tables.map(|table| axes.values(table, "output_throughput"));
            axes.on_unlike_labels([&was, &is])
        };
        let why = refusal(["mon", "tue"], ["wed", "thu"]).unwrap();
        assert!(
            why.contains("unlike shares of the labels of `day`"),
            "{why}"
        );
        assert_eq!(refusal(["mon", "tue"], ["mon", "tue"]), None);
    }
}
