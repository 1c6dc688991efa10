//! Names of tables and columns in the settings and templates of a report, compared with those that planning knows.

use std::collections::BTreeMap;
use std::ops::Range;

use artifacts::Scalar;
use pipeline::place::same_label;
use pipeline::stage::{Json, KnownAxis, KnownStage, KnownTable, Problem, Step};
use pipeline::suggest::{closest, did_you_mean, remedy};

use crate::calls::{Argument, Call, calls};
use crate::environment::FACETS;
use crate::reads::reads;
use crate::said::wrong_in_claim;
use crate::settings::{OneOrMany, Parameters};
use crate::setup::SETUP;

/// What is wrong with a name or a label.
pub(crate) struct Wrong {
    pub(crate) message: String,
    pub(crate) hint: String,
}

/// What planning knows about the study.
#[derive(Clone, Copy)]
struct Known<'a> {
    stages: &'a [KnownStage],
    axes: &'a [KnownAxis],
}

impl Wrong {
    fn problem(self, route: Vec<Step>) -> Problem {
        Problem {
            route,
            ..Problem::at(&[], self.message).hint(self.hint)
        }
    }
}

/// Reports every name of a table or a column that no needed stage can write, and every label that its axis does not have.
pub(crate) fn unknown(
    parameters: &Parameters,
    stages: &[KnownStage],
    axes: &[KnownAxis],
) -> Vec<Problem> {
    let study = Known { stages, axes };
    let mut problems = Vec::new();
    let mut texts: Vec<(Vec<Step>, &str)> = Vec::new();
    for table in &parameters.tables {
        let (at, settings) = (["tables", table.name.as_str()].map(key), &table.settings);
        let names = (settings.columns_read(), &settings.only);
        declared(study, (&at, "from", &settings.from), names, &mut problems);
        texts.push((below(&at, "caption"), &settings.caption));
    }
    for figure in &parameters.figures {
        let (at, settings) = (["figures", figure.name.as_str()].map(key), &figure.settings);
        let names = (settings.columns_read(), &settings.only);
        declared(study, (&at, "table", &settings.table), names, &mut problems);
        if let Some(fit) = &settings.fit
            && let Err(wrong) = table(stages, fit)
        {
            problems.push(wrong.problem(below(&at, "fit")));
        }
        texts.push((below(&at, "caption"), &settings.caption));
        texts.push((below(&at, "title"), &settings.title));
    }
    texts.extend(
        parameters
            .title
            .iter()
            .map(|title| (vec![key("title")], title.as_str())),
    );
    for (route, text) in texts {
        for (part, wrong) in in_text(study, text) {
            problems.push(wrong.problem(route.clone()).part(text, part));
        }
    }
    for claim in &parameters.claims {
        problems.extend(wrong_in_claim(claim, stages, axes));
        let rules = serde_json::to_value(&claim.settings).unwrap_or_default();
        in_rules(study, &rules, &[], &mut |route, of_key, wrong| {
            let problem = Problem {
                of_key,
                ..wrong.problem(route)
            };
            problems.push(problem.in_definition("claims", &claim.name));
        });
    }
    for template in &parameters.templates {
        for (part, wrong) in in_text(study, &template.text) {
            let problem = wrong.problem(Vec::new()).part(&template.text, part);
            problems.push(problem.in_definition("templates", &template.name));
        }
    }
    problems
}

fn key(key: &str) -> Step {
    Step::Key(key.to_owned())
}

fn below(route: &[Step], name: &str) -> Vec<Step> {
    [route, &[key(name)]].concat()
}

/// The columns that a table or a figure names, each behind its route, and its condition.
type Names<'a> = (Vec<(Vec<Step>, &'a str)>, &'a BTreeMap<String, OneOrMany>);

/// Checks the table, the columns and the labels of a declared table or figure.
fn declared(
    study: Known<'_>,
    (at, setting, name): (&[Step], &str, &str),
    (columns, only): Names<'_>,
    problems: &mut Vec<Problem>,
) {
    let table = match table(study.stages, name) {
        Ok(Some(table)) => table,
        Ok(None) => return,
        Err(wrong) => return problems.push(wrong.problem(below(at, setting))),
    };
    for (route, column) in columns {
        if let Err(wrong) = self::column(table, name, column) {
            let of_key = route.first() == Some(&key("where"));
            let problem = wrong.problem([at, &route].concat());
            problems.push(Problem { of_key, ..problem });
        }
    }
    for (column, wanted) in only {
        let at = below(&below(at, "where"), column);
        let each: Vec<(Vec<Step>, &Json)> = match wanted {
            OneOrMany::One(label) => vec![(at, label)],
            OneOrMany::Many(labels) => items(&at, labels),
        };
        for (route, label) in each {
            let label = Scalar::from_json(label);
            let wrong = label.and_then(|label| no_label(study, table, column, &label));
            problems.extend(wrong.map(|wrong| wrong.problem(route)));
        }
    }
}

/// Returns the items of a list, each behind its route.
fn items<'a>(route: &[Step], list: &'a [Json]) -> Vec<(Vec<Step>, &'a Json)> {
    let items = list.iter().enumerate();
    let placed = items.map(|(i, item)| ([route, &[Step::Index(i)]].concat(), item));
    placed.collect()
}

/// Returns what is wrong with a label for a column that has the labels of an axis.
fn no_label(study: Known<'_>, table: &KnownTable, column: &str, label: &Scalar) -> Option<Wrong> {
    let axis = study.axes.iter().find(|axis| axis.name == column)?;
    let same = |other: &Scalar| same_label(other, label);
    let may_be = *label == Scalar::Null
        || axis.labels.iter().chain(&axis.left_out).any(same)
        || !table.axes.contains(&axis.name);
    (!may_be).then(|| wrong_label(&axis.name, label, &axis.labels))
}

/// Says that an axis does not have a label.
pub(crate) fn wrong_label(axis: &str, label: &Scalar, labels: &[Scalar]) -> Wrong {
    let text = label.to_string();
    if let Some(meant) = labels.iter().find(|other| other.to_string() == text) {
        let (quotes, kind) = match meant {
            Scalar::Text(_) => ("in", "text"),
            Scalar::Bool(_) => ("without", "true or false"),
            _ => ("without", "a number"),
        };
        return Wrong {
            message: format!("the label `{label}` of the axis `{axis}` is {kind}"),
            hint: format!("write it {quotes} quotes"),
        };
    }
    let texts: Vec<String> = labels.iter().map(ToString::to_string).collect();
    Wrong {
        message: format!("`{label}` is not a label of the axis `{axis}`"),
        hint: remedy(&text, &format!("labels of `{axis}`"), &texts),
    }
}

/// Finds a table of a needed stage. `None` if planning does not know it.
fn table<'a>(stages: &'a [KnownStage], name: &str) -> Result<Option<&'a KnownTable>, Wrong> {
    let Some((stage, output)) = name.split_once('.') else {
        return match stages.iter().find(|stage| has(stage, name)) {
            Some(stage) if !is_of_report(name) => Err(Wrong {
                message: format!("the table `{name}` is named without its stage"),
                hint: format!("write `{}.{name}`", stage.stage),
            }),
            _ => Ok(None),
        };
    };
    let Some(needed) = stages.iter().find(|needed| needed.stage == stage) else {
        let names = || stages.iter().map(|needed| needed.stage.as_str());
        return match closest(stage, names()) {
            Some(_) if !is_of_report(name) => Err(Wrong {
                message: format!("the report needs no stage `{stage}`"),
                hint: remedy(stage, "stages that it needs", names()),
            }),
            _ => Ok(None),
        };
    };
    let Some(tables) = &needed.tables else {
        return Ok(None);
    };
    if let Some(table) = tables.iter().find(|table| table.name == output) {
        return Ok(Some(table));
    }
    let names = tables.iter().map(|table| table.name.as_str());
    let names = names.filter(|name| !name.contains('.'));
    let usual = contract::usual_table(output);
    let usual = usual.filter(|usual| tables.iter().any(|table| table.name == *usual));
    Err(Wrong {
        message: format!("the stage `{stage}` has no table `{output}`"),
        hint: match usual {
            Some(usual) => did_you_mean(format!("{stage}.{usual}")),
            None => remedy(output, &format!("tables of `{stage}`"), names),
        },
    })
}

/// Returns whether a stage has a table of a name.
fn has(stage: &KnownStage, name: &str) -> bool {
    let mut tables = stage.tables.iter().flatten();
    tables.any(|table| table.name == name)
}

/// Returns whether a name can be that of a table which the report itself makes.
fn is_of_report(name: &str) -> bool {
    const OWN: [&str; 9] = [
        "claims",
        "commands",
        "deviations",
        "environment",
        "ledger",
        "limits",
        "loads",
        "statements",
        "workloads",
    ];
    let first = name.split('.').next().unwrap_or(name);
    OWN.contains(&first) || name.starts_with(FACETS) || name.starts_with(SETUP)
}

fn column(table: &KnownTable, name: &str, column: &str) -> Result<(), Wrong> {
    let Some(columns) = &table.columns else {
        return Ok(());
    };
    if columns.iter().any(|other| other == column) {
        return Ok(());
    }
    let mut names = columns.clone();
    names.sort();
    names.dedup();
    let usual = contract::usual_name(column);
    // A table of means has several columns for each column that it combines.
    let mean = format!("{usual}_mean");
    let hint = match names.contains(&mean) {
        true => did_you_mean(mean),
        false => remedy(&usual, &format!("columns of `{name}`"), &names),
    };
    Err(Wrong {
        message: format!("the table `{name}` has no column `{column}`"),
        hint,
    })
}

/// Returns the wrong names and labels in a template, each with its bytes.
fn in_text(study: Known<'_>, text: &str) -> Vec<(Range<usize>, Wrong)> {
    let mut wrong = Vec::new();
    for call in calls(text) {
        let Some(Argument::Text(name, part)) = call.arguments.first() else {
            continue;
        };
        match table(study.stages, name) {
            // A template may ask first whether the table exists.
            Err(_) if call.guarded => {}
            Err(why) => wrong.push((part.clone(), why)),
            Ok(None) => {}
            Ok(Some(table)) => {
                for (column, part) in columns_of(&call) {
                    if let Err(why) = self::column(table, name, &column) {
                        wrong.push((part, why));
                    }
                }
                let labels = call.arguments.iter().flat_map(|argument| match argument {
                    Argument::Mapping(entries) => entries.as_slice(),
                    _ => &[],
                });
                for (entry, (label, part)) in
                    labels.flat_map(|entry| entry.values.iter().map(move |value| (entry, value)))
                {
                    let why = no_label(study, table, &entry.key, label);
                    wrong.extend(why.map(|why| (part.clone(), why)));
                }
            }
        }
    }
    for read in reads(text) {
        if let Ok(Some(table)) = table(study.stages, &read.table)
            && let Err(why) = column(table, &read.table, &read.column)
        {
            wrong.push((read.part, why));
        }
    }
    wrong
}

/// Reports the wrong names and labels in the rules of a claim: a mapping with `table` may also have `where` and `column`.
fn in_rules(
    study: Known<'_>,
    rules: &Json,
    route: &[Step],
    report: &mut dyn FnMut(Vec<Step>, bool, Wrong),
) {
    if let Some(name) = rules.get("table").and_then(Json::as_str) {
        match table(study.stages, name) {
            Err(wrong) => report(below(route, "table"), false, wrong),
            Ok(None) => {}
            Ok(Some(table)) => {
                let only = rules.get("where").and_then(Json::as_object);
                for (name_of_column, wanted) in only.into_iter().flatten() {
                    let at = below(&below(route, "where"), name_of_column);
                    if let Err(wrong) = column(table, name, name_of_column) {
                        report(at, true, wrong);
                        continue;
                    }
                    let each = match wanted {
                        Json::Array(labels) => items(&at, labels),
                        label => vec![(at, label)],
                    };
                    for (at, label) in each {
                        let label = Scalar::from_json(label);
                        let wrong =
                            label.and_then(|label| no_label(study, table, name_of_column, &label));
                        if let Some(wrong) = wrong {
                            report(at, false, wrong);
                        }
                    }
                }
                if let Some(of_rule) = rules.get("column").and_then(Json::as_str)
                    && let Err(wrong) = column(table, name, of_rule)
                {
                    report(below(route, "column"), false, wrong);
                }
            }
        }
    }
    let inner: Vec<(Vec<Step>, &Json)> = match rules {
        Json::Object(entries) => entries
            .iter()
            .map(|(name, rule)| (below(route, name), rule))
            .collect(),
        Json::Array(list) => items(route, list),
        _ => Vec::new(),
    };
    for (route, rule) in inner {
        in_rules(study, rule, &route, report);
    }
}

/// Returns the columns that a call names, each with its bytes.
fn columns_of(call: &Call<'_>) -> Vec<(String, Range<usize>)> {
    let column = match call.function {
        "value" | "raw" | "lowest" | "highest" | "largest" | "smallest" | "between" | "within"
        | "consistent" => 2,
        "sides" => 1,
        _ => usize::MAX,
    };
    let mut columns = Vec::new();
    for (number, argument) in call.arguments.iter().enumerate().skip(1) {
        match argument {
            Argument::Text(name, part) if number == column => {
                columns.push((name.clone(), part.clone()));
            }
            Argument::Mapping(entries) => {
                let keys = entries.iter();
                columns.extend(keys.map(|entry| (entry.key.clone(), entry.part.clone())));
            }
            Argument::Named(name, texts) if name == "order" => {
                columns.extend(texts.iter().map(|(text, part)| {
                    let column = text.strip_prefix('-').unwrap_or(text);
                    let start = part.end - column.len();
                    (column.to_owned(), start..part.end)
                }));
            }
            _ => {}
        }
    }
    columns
}
