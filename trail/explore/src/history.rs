//! A figure over the commits of a lock, with change points.

mod measured;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use artifacts::{Digest, Ratio, Store, Table, counted};
use pipeline::Coordinates;
use pipeline::design::BLOCK;
use pipeline::lock::Lock;
use pipeline::suggest::remedy;
use query::{Limits, QueryError};
use serde_json::json;
use statistics::{LEAST_FOR_A_CHANGE, Sample};

use self::measured::{Behind, Measured, are_one};
use crate::catalogue::{Catalogue, CatalogueError};
use crate::commits::{Commit, GitError, commits, lock_at};
use crate::error::Failure;
use crate::figure_names::not_a_figure;
use crate::reply::{Freshness, Reply};
use crate::request::Ask;

/// The probability of any false change point in any of the series that are shown together.
const LEVEL: f64 = 0.05;

/// The number of commits that a page shows.
const OF_A_PAGE: u32 = 50;

/// The figure to follow.
#[derive(Clone, Copy, Debug)]
pub struct Followed<'a> {
    /// The lock whose commits are read.
    pub lock: &'a Path,
    /// The table, such as `results.cells`.
    pub table: &'a str,
    /// The column.
    pub column: &'a str,
    /// The labels that rows must have.
    pub only: &'a [(String, String)],
    /// The largest number of commits, starting with the newest.
    pub most: u32,
}

/// A value of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The position of the commit.
    pub commit: usize,
    /// The median of the rows.
    pub value: f64,
    /// The number of rows behind the median.
    pub rows: usize,
    /// Whether it rests on the measurements of an earlier value of the series, not necessarily the one before it. It then
    /// tells nothing new, and is not tested.
    pub again: bool,
    /// If a new level begins here, its ratio to the previous one, or its difference if some value is not positive.
    pub change: Option<f64>,
}

/// What is known about the level of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// The number of change points.
    Changes(usize),
    /// The number of values with measurements of their own, which are too few to show a change.
    TooFew(usize),
}

/// The values of one set of labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its labels, as `axis=label,…`; empty if there is one series.
    pub name: String,
    /// Its values, oldest first.
    pub points: Vec<Point>,
    /// What is known about its level.
    pub judged: Judged,
}

/// A figure over commits.
#[derive(Clone, Debug)]
pub struct History {
    /// The commits, oldest first.
    pub commits: Vec<Commit>,
    /// The unit of the values.
    pub unit: Option<String>,
    /// The series by name.
    pub series: Vec<Series>,
    /// The reasons why commits have no value, each once with the first commit that has it.
    pub notes: Vec<(String, String)>,
}

impl Series {
    /// Returns whether all values are positive, so that changes are ratios.
    pub fn is_positive(&self) -> bool {
        self.points.iter().all(|p| p.value > 0.0)
    }
}

impl History {
    /// Returns the judgement on a series in words.
    pub fn words(&self, series: &Series) -> String {
        let tested = |s: &&Series| matches!(s.judged, Judged::Changes(_));
        let shared = match self.series.iter().filter(tested).count() {
            0 | 1 => String::new(),
            n => format!(", which {n} series share"),
        };
        match series.judged {
            Judged::Changes(0) => format!("no change point at a level of 5 %{shared}"),
            Judged::Changes(n) => {
                format!(
                    "{} at a level of 5 %{shared}: the software, the study, or a lasting state of the machine changed",
                    counted(n, "change point")
                )
            }
            Judged::TooFew(n) => {
                let all = series.points.len();
                let repeated = match all - n {
                    0 => String::new(),
                    _ => format!(" in {}", counted(all, "commit")),
                };
                format!(
                    "undecidable: {}{repeated}, and a change point needs {LEAST_FOR_A_CHANGE}",
                    counted(n, "measurement")
                )
            }
        }
    }
}

/// Follows a figure over the commits of a lock, by the results that are still in the store.
///
/// # Errors
/// If the lock is not in a git repository.
pub fn history(followed: &Followed<'_>, store: &Store) -> Result<History, GitError> {
    let commits = commits(followed.lock, followed.most)?;
    let mut points: BTreeMap<String, Vec<Point>> = BTreeMap::new();
    // What the values with measurements of their own rest on: a lock that is reverted repeats one of them.
    let mut own: BTreeMap<String, Vec<Behind>> = BTreeMap::new();
    let mut notes: Vec<(String, String)> = Vec::new();
    let mut read: Vec<Result<Values, String>> = Vec::new();
    for commit in &commits {
        let lock = match lock_at(followed.lock, &commit.id) {
            // The next commit would take as long.
            Err(late @ GitError::Late(_)) => return Err(late),
            lock => lock.map_err(|e| e.to_string()),
        };
        read.push(lock.and_then(|lock| at(followed, &lock, store)));
    }
    let newest = read.iter().rev().filter_map(|values| values.as_ref().ok());
    let unit = newest.clone().find_map(|values| values.unit.clone());
    let sides = newest.clone().find_map(|values| values.sides.clone());
    for (i, (commit, read)) in commits.iter().zip(read).enumerate() {
        match read.and_then(|values| values.like(unit.as_deref(), sides.as_ref())) {
            Ok(values) => {
                for (name, (values, behind)) in values {
                    // Every series has values, and all of them are finite.
                    let Ok(sample) = Sample::new(values) else {
                        continue;
                    };
                    let earlier = own.entry(name.clone()).or_default();
                    let again = earlier.iter().any(|earlier| are_one(earlier, &behind));
                    points.entry(name).or_default().push(Point {
                        commit: i,
                        rows: sample.len(),
                        value: sample.median(),
                        again,
                        change: None,
                    });
                    if !again {
                        earlier.push(behind);
                    }
                }
            }
            Err(why) if notes.iter().any(|(_, other)| *other == why) => {}
            Err(why) => notes.push((commit.id.clone(), why)),
        }
    }
    // The series share the level.
    let own = |points: &[Point]| points.iter().filter(|p| !p.again).count();
    let tested = |points: &&Vec<Point>| own(points) >= LEAST_FOR_A_CHANGE;
    let tests = points.values().filter(tested).count().max(1);
    let series = points.into_iter().map(|(name, mut points)| {
        let judged = mark(&mut points, LEVEL / tests as f64);
        Series {
            name,
            points,
            judged,
        }
    });
    Ok(History {
        series: series.collect(),
        commits,
        unit,
        notes,
    })
}

/// The values of a figure at a commit.
struct Values {
    /// The values of each series with what they rest on.
    series: BTreeMap<String, (Vec<f64>, Behind)>,
    unit: Option<String>,
    /// The sides, if the figure is a ratio.
    sides: Option<Ratio>,
}

impl Values {
    /// Returns the series, unless the unit is not that of the newest commit, or the sides of the ratio are turned: such
    /// values are of another figure.
    fn like(
        self,
        unit: Option<&str>,
        sides: Option<&Ratio>,
    ) -> Result<BTreeMap<String, (Vec<f64>, Behind)>, String> {
        match (self.unit.as_deref(), unit) {
            (Some(own), Some(newest)) if own != newest => {
                return Err(format!(
                    "its unit is `{own}`, and in a newer commit `{newest}`"
                ));
            }
            _ => {}
        }
        match (&self.sides, sides) {
            (Some(own), Some(newest))
                if own.numerator == newest.denominator && own.denominator == newest.numerator =>
            {
                Err(format!("it is {own}, and in a newer commit {newest}"))
            }
            _ => Ok(self.series),
        }
    }
}

/// Reads the figure from the results that the lock of a commit names.
fn at(followed: &Followed<'_>, lock: &Lock, store: &Store) -> Result<Values, String> {
    let Followed { table, column, .. } = *followed;
    let catalogue = Catalogue::read(lock, store).map_err(|e| e.to_string())?;
    let query = format!("select * from {}", query::quoted(table));
    let asked = catalogue.ask(&query, store, &Limits::default());
    let (answer, _) = asked.map_err(|error| match error {
        CatalogueError::Query(QueryError::NoTable(_), remedy) => {
            format!("the study has no table `{table}`; {remedy}")
        }
        error => error.to_string(),
    })?;
    let numbers = answer.float(column);
    let numbers = numbers.map_err(|_| not_a_figure(table, &answer, column))?;
    let entry = catalogue.tables.get(table);
    let keys = entry.map_or_else(Vec::new, |entry| keys_of(&entry.sample.digest, store));
    let labels = labels_of(lock, &answer, column, &keys, store);
    if let Some((unknown, _)) = followed.only.iter().find(|(name, _)| !answer.has(name)) {
        return Err(not_a_figure(table, &answer, unknown));
    }
    let stage = entry.map_or(table, |entry| entry.stage.name.as_str());
    let measured = Measured::read(lock, store, stage);
    let mut values: BTreeMap<String, (Vec<f64>, Behind)> = BTreeMap::new();
    for (row, value) in numbers.into_iter().enumerate() {
        let text = |name: &str| {
            answer
                .value(name, row)
                .map(|v| v.to_string())
                .unwrap_or_default()
        };
        let Some(value) = value.filter(|v| v.is_finite()) else {
            continue;
        };
        if (followed.only.iter()).all(|(name, label)| text(name) == *label) {
            let name: Vec<String> = labels.iter().map(|l| format!("{l}={}", text(l))).collect();
            let behind = || {
                let own = labels.iter().map(|l| (l.clone(), text(l)));
                let selected = followed.only.iter().cloned();
                measured.behind(&own.chain(selected).collect::<Vec<_>>())
            };
            let here = values.entry(name.join(","));
            let here = here.or_insert_with(|| (Vec::new(), behind()));
            here.0.push(value);
        }
    }
    match followed.only {
        [_, ..] if values.is_empty() => Err(no_such_rows(followed, &answer)),
        _ => Ok(Values {
            series: values,
            unit: answer.unit(column),
            sides: answer.ratio(column),
        }),
    }
}

/// Returns why no row of a table is left, with the labels that its rows have.
fn no_such_rows(followed: &Followed<'_>, table: &Table) -> String {
    let labels = |name: &str| -> BTreeSet<String> {
        let labels = (0..table.rows()).filter_map(|row| table.value(name, row).ok());
        labels.map(|label| label.to_string()).collect()
    };
    let Followed {
        only,
        table: name,
        column,
        ..
    } = followed;
    let absent = |(axis, label): &&(String, String)| !labels(axis).contains(label);
    match only.iter().find(absent) {
        Some((axis, label)) => format!(
            "no row of `{name}` has `{axis}={label}`; {}",
            remedy(label, &format!("labels of `{axis}`"), labels(axis))
        ),
        None => {
            let wanted: Vec<String> = only.iter().map(|(a, l)| format!("`{a}={l}`")).collect();
            format!(
                "no row of `{name}` with {} has a `{column}`",
                wanted.join(" and ")
            )
        }
    }
}

/// Returns the columns that distinguish the rows of a table, as it declares them; none if it does not.
fn keys_of(table: &Digest, store: &Store) -> Vec<String> {
    let bytes = store.get(table).ok();
    let table = bytes.and_then(|bytes| Table::from_parquet(bytes).ok());
    let keys = table.and_then(|table| table.metadata("keys"));
    let keys = keys.unwrap_or_default();
    let keys = keys.split(',').filter(|key| !key.is_empty());
    keys.map(str::to_owned).collect()
}

/// Returns the columns that distinguish series: the keys of the table, and axes, but no replicates. Rows that differ in
/// anything else than replicates are no repetitions, and have no common median.
fn labels_of(
    lock: &Lock,
    table: &Table,
    column: &str,
    keys: &[String],
    store: &Store,
) -> Vec<String> {
    let mut axes: Vec<String> = Vec::new();
    for cell in lock.stages.iter().flat_map(|stage| &stage.cells) {
        let at: Coordinates = cell.coordinates.parse().unwrap_or_default();
        axes.extend(at.0.into_iter().map(|(axis, _)| axis));
    }
    let mut repeats = Measured::replicates(lock, store);
    repeats.extend([BLOCK, "rep", "repetition"].map(str::to_owned));
    let tells = |name: &String| {
        name != column
            && !repeats.contains(name)
            && (axes.contains(name) || keys.contains(name) || name == "metric")
    };
    table.names().into_iter().filter(tells).collect()
}

/// Marks where a new level begins; if all values are positive, uses levels of their logarithms. Values without
/// measurements of their own are left out: a repeated value looks like a level without noise.
fn mark(points: &mut [Point], level: f64) -> Judged {
    let mut points: Vec<&mut Point> = points.iter_mut().filter(|p| !p.again).collect();
    let positive = points.iter().all(|p| p.value > 0.0);
    let values: Vec<f64> = points
        .iter()
        .map(|p| if positive { p.value.ln() } else { p.value })
        .collect();
    // Values that were rounded to the same step may differ by less than they seem to.
    let step = statistics::resolution(points.iter().map(|p| p.value)).unwrap_or(0.0);
    let relative = |p: &&mut Point| if positive { step / p.value } else { step };
    let rounding = points
        .iter()
        .map(|p| relative(p).powi(2) / 12.0)
        .sum::<f64>();
    let rounding = rounding / points.len().max(1) as f64;
    let Some(segments) = statistics::segments(&values, rounding, level) else {
        return Judged::TooFew(points.len());
    };
    for pair in segments.windows(2) {
        points[pair[1].from].change = Some(match positive {
            true => (pair[1].level - pair[0].level).exp(),
            false => pair[1].level - pair[0].level,
        });
    }
    Judged::Changes(segments.len() - 1)
}

/// Answers a page's question for a figure over the commits of a study's lock.
pub(crate) fn reply(lock: &Path, ask: &Ask, store: &Store) -> Result<Reply, Failure> {
    let needed = |name: &str| {
        let missing = || Failure::question(format!("`{name}` is missing"), "give table and column");
        ask.get(name).ok_or_else(missing)
    };
    let followed = Followed {
        lock,
        table: needed("table")?,
        column: needed("column")?,
        only: &[],
        most: OF_A_PAGE,
    };
    let commit = "commit the lock after each run, so that its figures can be followed over time";
    let answer = history(&followed, store).map_err(|e| Failure::nothing(e, commit))?;
    if answer.commits.is_empty() {
        return Err(Failure::nothing("no commit has this lock", commit));
    }
    let series = answer.series.iter().map(|s| {
        let points = s.points.iter();
        let points = points.map(
            |p| json!({"commit": p.commit, "value": p.value, "rows": p.rows, "same_measurement": p.again, "change": p.change}),
        );
        json!({
            "name": s.name, "points": points.collect::<Vec<_>>(), "ratios": s.is_positive(),
            "judgement": answer.words(s),
        })
    });
    let notes = answer.notes.iter();
    let notes = notes.map(|(commit, why)| json!({"commit": commit, "reason": why}));
    let value = json!({
        "table": followed.table, "column": followed.column, "unit": answer.unit,
        "commits": answer.commits, "series": series.collect::<Vec<_>>(), "notes": notes.collect::<Vec<_>>(),
    });
    Ok(Reply::json(&value, Freshness::Tagged))
}

#[cfg(test)]
mod tests {
    use artifacts::Column;
    use pipeline::CellStatus;
    use pipeline::lock::{LockCell, LockClass, LockStage};

    use super::*;

    #[test]
    fn a_repeated_value_is_no_level() {
        let point = |i: usize, value: f64, again: bool| Point {
            commit: i,
            value,
            rows: 1,
            again,
            change: None,
        };
        // Four measurements, each of which three commits repeat.
        let values = [100.0, 103.0, 98.0, 101.0].into_iter().enumerate();
        let mut points: Vec<Point> = values
            .flat_map(|(m, value)| [0, 1, 2].map(|i| point(3 * m + i, value, i > 0)))
            .collect();
        assert_eq!(mark(&mut points, LEVEL), Judged::TooFew(4));
        assert!(points.iter().all(|p| p.change.is_none()));
        // Measured anew at each commit, they are tested.
        points.iter_mut().for_each(|p| p.again = false);
        assert!(matches!(mark(&mut points, LEVEL), Judged::Changes(_)));
    }

    #[test]
    fn values_of_another_unit_or_of_turned_sides_are_of_another_figure() {
        let ratio = |(numerator, denominator): (&str, &str)| Ratio {
            numerator: numerator.to_owned(),
            denominator: denominator.to_owned(),
        };
        let values = |unit: Option<&str>, sides: Option<(&str, &str)>| Values {
            series: BTreeMap::new(),
            unit: unit.map(str::to_owned),
            sides: sides.map(ratio),
        };
        assert!(values(Some("ms"), None).like(Some("ms"), None).is_ok());
        assert!(values(None, None).like(Some("ms"), None).is_ok());
        let why = values(Some("ms"), None).like(Some("s"), None).err();
        assert_eq!(
            why.as_deref(),
            Some("its unit is `ms`, and in a newer commit `s`")
        );
        let newest = ratio(("v3", "v2"));
        let like =
            |sides: (&str, &str)| values(Some("1"), Some(sides)).like(Some("1"), Some(&newest));
        // A release later, the sides have other names.
        assert!(like(("v2", "v1")).is_ok());
        let why = like(("v2", "v3")).err();
        assert_eq!(
            why.as_deref(),
            Some("it is v2 ÷ v3, and in a newer commit v3 ÷ v2")
        );
    }

    #[test]
    fn every_key_but_replicates_makes_a_series_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let table = Table::with_metadata(
            vec![
                Column::int("clients", [Some(1)]),
                Column::int("block", [Some(1)]),
                Column::text("objective", [Some("lax")]),
                Column::float("pass_rate", [Some(0.5)]),
            ],
            &[("keys", "clients,block,objective")],
        );
        let table = table.unwrap();
        let digest = store.put(&table.to_parquet().unwrap()).unwrap();
        let keys = keys_of(&digest, &store);
        assert_eq!(keys, ["clients", "block", "objective"]);
        let cell = LockCell {
            coordinates: "clients=1,block=1".to_owned(),
            status: CellStatus::Ok,
            key: None,
            record: None,
            outputs: Some(Digest::of(b"rows")),
            reason: None,
            earlier: Vec::new(),
        };
        let lock = Lock {
            experiment: "h".to_owned(),
            profile: None,
            seed: 1,
            stages: vec![LockStage {
                name: "load".to_owned(),
                class: LockClass::Measurement,
                cells: vec![cell],
            }],
        };
        let labels = labels_of(&lock, &table, "pass_rate", &keys, &store);
        assert_eq!(labels, ["clients", "objective"]);
    }
}
