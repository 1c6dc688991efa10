//! Names of tables and columns in the settings and templates of a report, compared with those that planning knows.

use std::ops::Range;

use pipeline::stage::{Json, KnownStage, KnownTable, Problem, Step};
use pipeline::suggest::{closest, did_you_mean, remedy};

use crate::calls::{Argument, Call, calls};
use crate::environment::FACETS;
use crate::settings::Parameters;
use crate::setup::SETUP;

/// What is wrong with a name.
struct Wrong {
    message: String,
    hint: String,
}

impl Wrong {
    fn problem(self, route: Vec<Step>) -> Problem {
        Problem {
            route,
            ..Problem::at(&[], self.message).hint(self.hint)
        }
    }
}

/// Reports every name of a table or a column that no needed stage can write.
pub(crate) fn unknown(parameters: &Parameters, stages: &[KnownStage]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut texts: Vec<(Vec<Step>, &str)> = Vec::new();
    for table in &parameters.tables {
        let (at, settings) = (["tables", table.name.as_str()].map(key), &table.settings);
        let names = settings.columns_read();
        declared(stages, (&at, "from", &settings.from), names, &mut problems);
        texts.push((below(&at, "caption"), &settings.caption));
    }
    for figure in &parameters.figures {
        let (at, settings) = (["figures", figure.name.as_str()].map(key), &figure.settings);
        let names = settings.columns_read();
        declared(
            stages,
            (&at, "table", &settings.table),
            names,
            &mut problems,
        );
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
        for (part, wrong) in in_text(stages, text) {
            problems.push(wrong.problem(route.clone()).part(text, part));
        }
    }
    for claim in &parameters.claims {
        let rules = serde_json::to_value(&claim.settings).unwrap_or_default();
        in_rules(
            stages,
            &rules,
            &mut Vec::new(),
            &mut |route, of_key, wrong| {
                let problem = Problem {
                    of_key,
                    ..wrong.problem(route)
                };
                problems.push(problem.in_definition("claims", &claim.name));
            },
        );
    }
    for template in &parameters.templates {
        for (part, wrong) in in_text(stages, &template.text) {
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

/// Checks the table and the columns of a declared table or figure.
fn declared(
    stages: &[KnownStage],
    (at, setting, name): (&[Step], &str, &str),
    columns: Vec<(Vec<Step>, &str)>,
    problems: &mut Vec<Problem>,
) {
    let table = match table(stages, name) {
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
    Err(Wrong {
        message: format!("the stage `{stage}` has no table `{output}`"),
        hint: remedy(output, &format!("tables of `{stage}`"), names),
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

/// Returns the wrong names in the calls of a template, each with its bytes.
fn in_text(stages: &[KnownStage], text: &str) -> Vec<(Range<usize>, Wrong)> {
    let mut wrong = Vec::new();
    for call in calls(text) {
        let Some(Argument::Text(name, part)) = call.arguments.first() else {
            continue;
        };
        match table(stages, name) {
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
            }
        }
    }
    wrong
}

/// Reports the wrong names in the rules of a claim: a mapping with `table` may also have `where` and `column`.
fn in_rules(
    stages: &[KnownStage],
    rules: &Json,
    route: &mut Vec<Step>,
    report: &mut dyn FnMut(Vec<Step>, bool, Wrong),
) {
    if let Some(name) = rules.get("table").and_then(Json::as_str) {
        match table(stages, name) {
            Err(wrong) => report(below(route, "table"), false, wrong),
            Ok(None) => {}
            Ok(Some(table)) => {
                let only = rules.get("where").and_then(Json::as_object);
                for name_of_column in only.into_iter().flatten().map(|(column, _)| column) {
                    if let Err(wrong) = column(table, name, name_of_column) {
                        let at = below(&below(route, "where"), name_of_column);
                        report(at, true, wrong);
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
    let inner: Vec<(Step, &Json)> = match rules {
        Json::Object(entries) => entries
            .iter()
            .map(|(name, rule)| (key(name), rule))
            .collect(),
        Json::Array(items) => {
            let items = items.iter().enumerate();
            items.map(|(i, rule)| (Step::Index(i), rule)).collect()
        }
        _ => Vec::new(),
    };
    for (step, rule) in inner {
        route.push(step);
        in_rules(stages, rule, route, report);
        route.pop();
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
            Argument::Keys(keys) => columns.extend(keys.iter().cloned()),
            _ => {}
        }
    }
    columns
}
