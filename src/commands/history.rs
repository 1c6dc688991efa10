//! `history`: shows a figure over the commits of a lock, with change points.

use std::path::Path;

use artifacts::{Column, Store, Table};
use explore::{Commit, Followed, GitError, History, Judged, Point, Series, csv, figure_remedy};
use pipeline::lock::{Lock, is_lock, lock_file};
use serde_json::json;

use super::history_figure::{Line, drawn};
use crate::args::{Global, HistoryArgs};
use crate::columns::columns;
use crate::exit::Stop;
use crate::given::{Wanted, must_be};
use crate::project::{Project, shown};
use crate::terminal::{complain, continued, say};
use crate::whole_file;

pub(super) fn history(arguments: &HistoryArgs, global: &Global) -> Result<(), Stop> {
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
    let lock = match is_lock(&arguments.study) {
        true => arguments.study.clone(),
        false => lock_file(&arguments.study, profile),
    };
    let store = Project::of(Some(&lock), global.store.as_deref())?.open_existing()?;
    let figure_of = &arguments.figure_of;
    let is_full = |text: &str| text.matches('.').count() >= 2;
    let Some((table, column)) = figure_of.rsplit_once('.').filter(|_| is_full(figure_of)) else {
        return Err(no_figure(figure_of, &lock, &store));
    };
    let followed = Followed {
        lock: &lock,
        table,
        column,
        only: &arguments.only,
        most: arguments.commits,
    };
    let history = explore::history(&followed, &store).map_err(|e| unread(&e))?;
    if history.commits.is_empty() {
        return Err(no_commit(&lock));
    }
    for (commit, why) in &history.notes {
        complain(&format!("note: {commit} has no value: {}", continued(why)));
    }
    if history.series.is_empty() {
        return Err(Stop::nothing(format!(
            "no commit of {} has a value of {}",
            shown(&lock),
            arguments.figure_of
        ))
        .hint(match history.notes.len() {
            0 => "every row of the table lacks a number there; `benchtrail sql` shows the rows",
            1 => "the note above says why",
            _ => "the notes above say why",
        }));
    }
    if let Some(file) = &arguments.figure {
        whole_file::write(file, figure(&arguments.figure_of, &history).as_bytes())
            .map_err(|e| Stop::refused_at(file.display(), &e))?;
    }
    tell(arguments, global, &history)
}

/// Refuses a text that does not have the form of a figure.
fn no_figure(text: &str, lock: &Path, store: &Store) -> Stop {
    let read = Lock::read(lock).ok().flatten();
    let remedy = read.and_then(|lock| figure_remedy(&lock, store, text));
    Stop::usage(format!("`{text}` does not name a figure")).hint(remedy.unwrap_or_else(|| {
        format!(
            "write STAGE.OUTPUT.COLUMN, such as results.cells.ttft_ms_p50 or results.means.ttft_ms_p50_mean; \
             `benchtrail sql {}` lists the tables and their columns",
            shown(lock)
        )
    }))
}

fn unread(error: &GitError) -> Stop {
    Stop::refused(error)
        .hint("`history` reads the commits of the lock, so the lock must be in a git repository")
}

fn no_commit(lock: &Path) -> Stop {
    Stop::nothing(format!("no commit has {}", shown(lock))).hint(format!(
        "commit the lock after each run: `git add {0} && git commit`",
        shown(lock)
    ))
}

/// Returns the figure as SVG.
fn figure(name: &str, history: &History) -> String {
    let lines = history.series.iter().map(|series| Line {
        name: &series.name,
        points: series.points.iter().map(|p| (p.commit, p.value)).collect(),
        breaks: (series.points.iter())
            .filter(|p| p.change.is_some())
            .map(|p| p.commit)
            .collect(),
    });
    let lines: Vec<Line> = lines.collect();
    let ticks: Vec<&str> = history.commits.iter().map(|c| c.id.as_str()).collect();
    let label = match &history.unit {
        Some(unit) => format!("{name} ({unit})"),
        None => name.to_owned(),
    };
    drawn(&label, &ticks, &lines)
}

fn tell(arguments: &HistoryArgs, global: &Global, history: &History) -> Result<(), Stop> {
    let commits: &[Commit] = &history.commits;
    let unit = history.unit.as_deref();
    let each = || {
        (history.series.iter())
            .flat_map(|series| series.points.iter().map(move |p| (&series.name, p)))
    };
    if global.json {
        let rows: Vec<_> = each()
            .map(|(name, p)| {
                let commit = &commits[p.commit];
                json!({"series": name, "commit": commit.id, "day": commit.day, "subject": commit.subject,
                       "value": p.value, "rows": p.rows, "same_measurement": p.again, "change": p.change})
            })
            .collect();
        let judged = history.series.iter().map(|series| {
            let changes = match series.judged {
                Judged::Changes(n) => Some(n),
                Judged::TooFew(_) => None,
            };
            json!({"series": series.name, "change_points": changes, "judgement": history.words(series)})
        });
        let judged: Vec<_> = judged.collect();
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
            Column::boolean("same_measurement", each().map(|(_, p)| Some(p.again))),
            Column::float("change", each().map(|(_, p)| p.change)),
        ])?;
        say(csv(&table)?.trim_end_matches('\n'));
        return Ok(());
    }
    let heading = format!(
        "value{}",
        unit.map_or_else(String::new, |unit| format!(" [{unit}]"))
    );
    for series in &history.series {
        let Series { name, points, .. } = series;
        if !name.is_empty() {
            say(name);
        }
        let positive = series.is_positive();
        let rows: Vec<Vec<String>> = points
            .iter()
            .map(|p| {
                let commit = &commits[p.commit];
                let change = match p.change {
                    None if p.again => "same measurement".to_owned(),
                    None => String::new(),
                    Some(c) if positive => format!("{:+.1} %", (c - 1.0) * 100.0),
                    Some(c) => format!("{c:+}"),
                };
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
        say(&history.words(series));
        say("");
    }
    if let Some(file) = &arguments.figure {
        say(&format!("figure: {}", shown(file)));
    }
    Ok(())
}
