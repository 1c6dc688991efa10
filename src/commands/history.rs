//! `history`: shows a figure over the commits of a lock, with change points.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use artifacts::{Column, Store, Table};
use explore::{Catalogue, csv};
use pipeline::Coordinates;
use pipeline::lock::Lock;
use query::Limits;
use serde_json::json;
use statistics::LEAST_FOR_A_CHANGE;

use super::history_figure::{Line, drawn};
use crate::args::{Global, HistoryArgs};
use crate::cells::lock_file;
use crate::columns::columns;
use crate::exit::Stop;
use crate::given::{Wanted, must_be};
use crate::project::{Project, shown};
use crate::terminal::{complain, say};

/// A commit that changed the lock.
struct Commit {
    id: String,
    day: String,
    subject: String,
}

/// A value of a series.
struct Point {
    commit: usize,
    value: f64,
    /// The number of rows behind the median.
    rows: usize,
    /// If a new level begins here, the factor by which it differs from the previous one.
    change: Option<f64>,
}

pub(super) fn history(arguments: &HistoryArgs, global: &Global) -> Result<(), Stop> {
    let (table, column) = arguments
        .figure_of
        .rsplit_once('.')
        .filter(|(table, _)| table.contains('.'))
        .ok_or_else(|| {
            Stop::usage(format!("`{}` does not name a figure", arguments.figure_of))
                .hint("write STAGE.OUTPUT.COLUMN, such as results.cells.ttft_ms_p50; `benchtrail sql EXPERIMENT` lists the tables")
        })?;
    let profile = match arguments.smoke {
        true => Some("smoke"),
        false => arguments.profile.as_deref(),
    };
    if !arguments.study.exists() && !lock_file(&arguments.study, profile).exists() {
        let name = shown(&arguments.study);
        return Err(Stop::usage(format!("{name}: no such file"))
            .hint(pipeline::language::instead_of(&arguments.study)));
    }
    must_be(&arguments.study, Wanted::Run)?;
    let lock = match arguments.study.extension().is_some_and(|e| e == "lock") {
        true => arguments.study.clone(),
        false => lock_file(&arguments.study, profile),
    };
    let commits = commits(&lock, arguments.commits)?;
    let store = Project::of(Some(&lock), global.store.as_deref())?.open_existing()?;
    let mut series: BTreeMap<String, Vec<Point>> = BTreeMap::new();
    let mut unit = None;
    let mut printed: Vec<String> = Vec::new();
    for (i, commit) in commits.iter().enumerate() {
        let read = at(&lock, commit, &store, table, column, &arguments.only);
        match read {
            Ok((values, of)) => {
                unit = of.or(unit);
                for (name, values) in values {
                    let rows = values.len();
                    let value = median(values);
                    series.entry(name).or_default().push(Point {
                        commit: i,
                        value,
                        rows,
                        change: None,
                    });
                }
            }
            // Each reason is printed once, with the first commit that has it.
            Err(why) if printed.contains(&why) => {}
            Err(why) => {
                complain(&format!("note: {} has no value: {why}", commit.id));
                printed.push(why);
            }
        }
    }
    if series.is_empty() {
        return Err(Stop::nothing(format!(
            "no commit of {} has a value of {}",
            shown(&lock),
            arguments.figure_of
        ))
        .hint("the notes above say why; the store must still have what the locks name"));
    }
    let judged = judged(&mut series);
    if let Some(file) = &arguments.figure {
        let lines: Vec<Line> = series
            .iter()
            .map(|(name, points)| Line {
                name,
                points: points.iter().map(|p| (p.commit, p.value)).collect(),
                breaks: points
                    .iter()
                    .filter(|p| p.change.is_some())
                    .map(|p| p.commit)
                    .collect(),
            })
            .collect();
        let ticks: Vec<&str> = commits.iter().map(|c| c.id.as_str()).collect();
        let label = match &unit {
            Some(unit) => format!("{} ({unit})", arguments.figure_of),
            None => arguments.figure_of.clone(),
        };
        std::fs::write(file, drawn(&label, &ticks, &lines))
            .map_err(|e| Stop::machine(format!("{}: {e}", file.display())))?;
    }
    tell(
        arguments,
        global,
        (&series, &judged),
        &commits,
        unit.as_deref(),
    )
}

/// Runs git in the folder of the lock; on failure, returns its error output.
fn git(lock: &Path, arguments: &[&str]) -> Result<String, String> {
    let folder = lock.parent().filter(|p| !p.as_os_str().is_empty());
    let output = Command::new("git")
        .arg("-C")
        .arg(folder.unwrap_or(Path::new(".")))
        .args(arguments)
        .output()
        .map_err(|e| format!("git cannot be started: {e}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

/// Returns the commits that changed the lock, oldest first.
fn commits(lock: &Path, most: u32) -> Result<Vec<Commit>, Stop> {
    let name = lock.file_name().unwrap_or_default().to_string_lossy();
    let most = format!("-n{most}");
    let log = git(
        lock,
        &["log", &most, "--format=%h%x09%cs%x09%s", "--", &name],
    );
    let log = log.map_err(|e| {
        Stop::machine(e).hint(
            "`history` reads the commits of the lock, so the lock must be in a git \
                repository",
        )
    })?;
    let mut commits: Vec<Commit> = log
        .lines()
        .filter_map(|line| {
            let mut parts = line.splitn(3, '\t').map(str::to_owned);
            Some(Commit {
                id: parts.next()?,
                day: parts.next()?,
                subject: parts.next().unwrap_or_default(),
            })
        })
        .collect();
    commits.reverse();
    match commits.is_empty() {
        true => Err(
            Stop::nothing(format!("no commit has {}", shown(lock))).hint(format!(
                "commit the lock after each run: `git add {0} && git commit`",
                shown(lock)
            )),
        ),
        false => Ok(commits),
    }
}

/// The values of each series at a commit, and their unit.
type Values = (BTreeMap<String, Vec<f64>>, Option<String>);

/// Reads the figure from the results that the lock of a commit names.
fn at(
    file: &Path,
    commit: &Commit,
    store: &Store,
    table: &str,
    column: &str,
    only: &[(String, String)],
) -> Result<Values, String> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let text = git(file, &["show", &format!("{}:./{name}", commit.id)])?;
    let lock = Lock::parse(&text, file).map_err(|e| e.to_string())?;
    let catalogue = Catalogue::read(&lock, store).map_err(|e| e.to_string())?;
    let query = format!("select * from \"{}\"", table.replace('"', "\"\""));
    let (answer, _) = catalogue
        .ask(&query, store, &Limits::default())
        .map_err(|e| e.to_string())?;
    let numbers = answer.float(column).or_else(|_| {
        let whole = answer.int(column)?;
        Ok(whole.into_iter().map(|n| n.map(|n| n as f64)).collect())
    });
    let numbers: Vec<Option<f64>> = numbers.map_err(|e: artifacts::TableError| e.to_string())?;
    let labels = labels_of(&lock, &answer, column);
    if let Some((unknown, _)) = only.iter().find(|(name, _)| !answer.has(name)) {
        return Err(format!("`{table}` has no column `{unknown}`"));
    }
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
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
        if only.iter().all(|(name, label)| text(name) == *label) {
            let name: Vec<String> = labels.iter().map(|l| format!("{l}={}", text(l))).collect();
            values.entry(name.join(",")).or_default().push(value);
        }
    }
    Ok((values, answer.unit(column)))
}

/// Returns the columns that distinguish series: texts that name a metric, and axes other than replicates.
fn labels_of(lock: &Lock, table: &Table, column: &str) -> Vec<String> {
    let mut axes: Vec<String> = Vec::new();
    for cell in lock.stages.iter().flat_map(|stage| &stage.cells) {
        let at: Coordinates = cell.coordinates.parse().unwrap_or_default();
        axes.extend(at.0.into_iter().map(|(axis, _)| axis));
    }
    let repeats = ["block", "rep", "repetition"];
    let tells = |name: &String| {
        name != column
            && !repeats.contains(&name.as_str())
            && (axes.contains(name) || name == "metric")
    };
    table.names().into_iter().filter(tells).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        0 => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}

/// The probability of any false change point in any of the series that are shown together.
const LEVEL: f64 = 0.05;

/// What is known about the level of a series.
enum Judged {
    /// The number of change points.
    Changes(usize),
    /// The number of values, which are too few to show a change.
    TooFew(usize),
}

impl Judged {
    fn words(&self, series: usize) -> String {
        let shared = match series {
            0 | 1 => String::new(),
            n => format!(", which {n} series share"),
        };
        match self {
            Self::Changes(0) => format!("no change point at a level of 5 %{shared}"),
            Self::Changes(1) => format!("1 change point at a level of 5 %{shared}"),
            Self::Changes(n) => format!("{n} change points at a level of 5 %{shared}"),
            Self::TooFew(n) => format!(
                "undecidable: {n} commits have a value, and a change point needs {LEAST_FOR_A_CHANGE}"
            ),
        }
    }
}

/// Marks the change points of all series. The series share the level.
fn judged(series: &mut BTreeMap<String, Vec<Point>>) -> Vec<Judged> {
    let tested = |points: &&Vec<Point>| points.len() >= LEAST_FOR_A_CHANGE;
    let tests = series.values().filter(tested).count().max(1);
    let level = LEVEL / tests as f64;
    series
        .values_mut()
        .map(|points| mark(points, level))
        .collect()
}

/// Marks where a new level begins; if all values are positive, uses levels of their logarithms.
fn mark(points: &mut [Point], level: f64) -> Judged {
    let positive = points.iter().all(|p| p.value > 0.0);
    let values: Vec<f64> = points
        .iter()
        .map(|p| if positive { p.value.ln() } else { p.value })
        .collect();
    // Values that were rounded to the same step may differ by less than they seem to.
    let step = statistics::resolution(points.iter().map(|p| p.value)).unwrap_or(0.0);
    let relative = |p: &Point| if positive { step / p.value } else { step };
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

fn tell(
    arguments: &HistoryArgs,
    global: &Global,
    (series, judged): (&BTreeMap<String, Vec<Point>>, &[Judged]),
    commits: &[Commit],
    unit: Option<&str>,
) -> Result<(), Stop> {
    let tests = judged.iter().filter(|j| matches!(j, Judged::Changes(_)));
    let tests = tests.count();
    let each = || {
        series
            .iter()
            .flat_map(|(name, points)| points.iter().map(move |p| (name, p)))
    };
    if global.json {
        let rows: Vec<_> = each()
            .map(|(name, p)| {
                let commit = &commits[p.commit];
                json!({"series": name, "commit": commit.id, "day": commit.day, "subject": commit.subject,
                       "value": p.value, "rows": p.rows, "change": p.change})
            })
            .collect();
        let judged: Vec<_> = series
            .keys()
            .zip(judged)
            .map(|(name, judged)| {
                let changes = match judged {
                    Judged::Changes(n) => Some(n),
                    Judged::TooFew(_) => None,
                };
                json!({"series": name, "change_points": changes, "judgement": judged.words(tests)})
            })
            .collect();
        say(
            &json!({"figure": arguments.figure_of, "unit": unit, "points": rows, "series": judged})
                .to_string(),
        );
        return Ok(());
    }
    if arguments.csv {
        let texts = |f: &dyn Fn(&String, &Point) -> String| -> Vec<Option<String>> {
            each().map(|(name, p)| Some(f(name, p))).collect()
        };
        let table = Table::new(vec![
            Column::text("series", texts(&|name, _| name.clone())),
            Column::text("commit", texts(&|_, p| commits[p.commit].id.clone())),
            Column::text("day", texts(&|_, p| commits[p.commit].day.clone())),
            Column::float("value", each().map(|(_, p)| Some(p.value))),
            Column::int("rows", each().map(|(_, p)| i64::try_from(p.rows).ok())),
            Column::float("change", each().map(|(_, p)| p.change)),
        ])?;
        say(csv(&table)?.trim_end_matches('\n'));
        return Ok(());
    }
    let heading = format!(
        "value{}",
        unit.map_or_else(String::new, |unit| format!(" [{unit}]"))
    );
    for ((name, points), judged) in series.iter().zip(judged) {
        if !name.is_empty() {
            say(name);
        }
        let positive = points.iter().all(|p| p.value > 0.0);
        let rows: Vec<Vec<String>> = points
            .iter()
            .map(|p| {
                let commit = &commits[p.commit];
                let change = p.change.map_or_else(String::new, |c| match positive {
                    true => format!("{:+.1} %", (c - 1.0) * 100.0),
                    false => format!("{c:+}"),
                });
                let value = format!("{:.4}", p.value);
                vec![
                    commit.day.clone(),
                    commit.id.clone(),
                    value,
                    p.rows.to_string(),
                    change,
                    commit.subject.clone(),
                ]
            })
            .collect();
        say(&columns(
            &["day", "commit", &heading, "rows", "new level", ""],
            &rows,
            &[2, 3, 4],
        ));
        say(&judged.words(tests));
        say("");
    }
    if let Some(file) = &arguments.figure {
        say(&format!("figure: {}", shown(file)));
    }
    Ok(())
}
