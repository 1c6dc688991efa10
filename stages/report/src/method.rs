//! The method as carried out: what each load stage sent, from the canonical parameters of its cells, and the lengths of
//! its prompts, from the cells' own tables.

use std::collections::BTreeMap;

use artifacts::{Column, Scalar, Table};
use pipeline::place::Condition;
use pipeline::stage::{CellStatus, Coordinates, Input, InputCell, Json};

use crate::data::{Data, Miss};
use crate::derived::{repetitions, sources};
use crate::footnotes::boxes;
use crate::format::format_value;

/// Parameters that are reported elsewhere or do not affect what is sent.
const ELSEWHERE: [&str; 10] = [
    ARRIVAL,
    "api-key-env",
    "headers",
    "heartbeat",
    "requests",
    "simulate",
    "telemetry",
    "timeouts",
    "warmup",
    "workload",
];

/// The maximum length of a description; the experiment has longer ones in full.
const LONGEST: usize = 160;

/// Returns what each load stage sent: the table `loads`, one row per setting.
///
/// # Errors
/// If a cell's table is not read yet.
pub(crate) fn loads(data: &Data) -> Result<Table, Miss> {
    let mut rows: Vec<[String; 3]> = Vec::new();
    for input in load_stages(data) {
        let mut say = |setting: &str, value: String| {
            if !value.is_empty() {
                rows.push([input.stage.clone(), in_cell(setting), in_cell(&value)]);
            }
        };
        say(ARRIVAL, arrivals(input));
        say("requests measured", measured(input));
        say(
            "warm-up requests",
            each(
                &values(input, "warmup"),
                " per cell; stored as rows, excluded from statistics",
            ),
        );
        if let Ok(study) = data.study() {
            say(
                "repetitions",
                repetitions(&study.spec, &input.stage).to_string(),
            );
        }
        say("endpoint", endpoint(data, input)?);
        say("timeouts", values(input, "timeouts").join("; "));
        let cells = cells(data, input)?;
        say(
            "prompt lengths by",
            cells.distinct("length_source")?.join(", "),
        );
        say("tokenizer", cells.distinct("tokenizer")?.join(", "));
        say(
            "rows",
            sources(data, input)?
                .into_keys()
                .collect::<Vec<_>>()
                .join(", "),
        );
        for (cells, server) in simulated(input) {
            let suffix = if cells.is_empty() {
                String::new()
            } else {
                format!(", {cells}")
            };
            say(&format!("simulated server{suffix}"), server);
        }
        let mut others: Vec<&String> = planned(input)
            .filter_map(|c| c.parameters.as_object())
            .flat_map(|p| p.keys())
            .collect();
        others.sort();
        others.dedup();
        for key in others
            .into_iter()
            .filter(|k| !ELSEWHERE.contains(&k.as_str()))
        {
            if !matches!(key.as_str(), "api" | "delivery") {
                say(
                    &key.replace('-', " "),
                    clipped(&values(input, key).join("; ")),
                );
            }
        }
    }
    let column = |i: usize| {
        Column::text(
            ["stage", "setting", "value"][i],
            rows.iter().map(|r| Some(r[i].clone())),
        )
    };
    let scheduled = rows.iter().map(|[stage, setting, _]| {
        let input = load_stages(data).find(|input| input.stage == *stage);
        input
            .filter(|_| setting == ARRIVAL)
            .map(|input| planned(input).all(|cell| is_scheduled(&cell.parameters["arrival"])))
    });
    let scheduled = Column::boolean("scheduled", scheduled)
        .describe("whether all arrivals have moments that do not depend on answers; null except for `arrival`");
    let columns = (0..3).map(column).chain([scheduled]).collect();
    let table = Table::with_metadata(columns, &[("keys", "stage,setting")]);
    Ok(table.map_err(|e| e.to_string())?)
}

/// The setting that says how requests arrive.
const ARRIVAL: &str = "arrival";

/// Whether requests arrive at declared rates, whatever the server does. A burst has no rate.
fn is_scheduled(arrival: &Json) -> bool {
    const BY_RATE: [&str; 6] = ["constant", "poisson", "gamma", "steps", "ramp", "trace"];
    let way = arrival
        .as_object()
        .and_then(|settings| settings.keys().next());
    way.is_some_and(|way| BY_RATE.contains(&way.as_str()))
}

/// A workload as sent by a stage.
struct Workload<'a> {
    stage: &'a str,
    /// Its name, or the axis labels that select it.
    names: Vec<String>,
    definition: &'a Json,
    tokens: Option<(i64, i64)>,
    /// The fewest and the most output tokens asked for, if the definition does not say.
    requested: Option<(i64, i64)>,
}

/// Returns the range that covers two ranges; `None` if there is none.
fn joined(a: Option<(i64, i64)>, b: Option<(i64, i64)>) -> Option<(i64, i64)> {
    match (a, b) {
        (Some((low, high)), Some((least, most))) => Some((low.min(least), high.max(most))),
        (a, b) => a.or(b),
    }
}

/// Returns the workloads of the load stages: the table `workloads`.
///
/// # Errors
/// If a cell's table is not read yet.
pub(crate) fn workloads(data: &Data) -> Result<Table, Miss> {
    let mut workloads: Vec<Workload<'_>> = Vec::new();
    for input in load_stages(data) {
        let facts = cells(data, input)?;
        let mut definitions = planned(input).filter_map(|c| c.parameters.get("workload"));
        let asked = match definitions.any(asks_elsewhere) {
            true => requested(data, input)?,
            false => Vec::new(),
        };
        for cell in planned(input) {
            let Some(definition) = cell.parameters.get("workload") else {
                continue;
            };
            let tokens = facts.tokens(cell)?;
            let own = |(at, range): &(Coordinates, (i64, i64))| {
                (*at == cell.coordinates).then_some(*range)
            };
            let requested = match asks_elsewhere(definition) {
                true => asked.iter().find_map(own),
                false => None,
            };
            let name = name(data, input, cell);
            let listed = workloads
                .iter_mut()
                .find(|w| w.stage == input.stage && w.definition == definition);
            let Some(listed) = listed else {
                workloads.push(Workload {
                    stage: &input.stage,
                    names: vec![name],
                    definition,
                    tokens,
                    requested,
                });
                continue;
            };
            if !listed.names.contains(&name) {
                listed.names.push(name);
            }
            listed.tokens = joined(listed.tokens, tokens);
            listed.requested = joined(listed.requested, requested);
        }
    }
    let text = |read: &dyn Fn(&Workload<'_>) -> String| {
        workloads.iter().map(read).map(Some).collect::<Vec<_>>()
    };
    let part =
        |w: &Workload<'_>, key: &str| w.definition.get(key).map(in_words).unwrap_or_default();
    let tokens = |read: fn((i64, i64)) -> i64| {
        workloads
            .iter()
            .map(|w| w.tokens.map(read))
            .collect::<Vec<_>>()
    };
    let table = Table::with_metadata(
        vec![
            Column::text("stage", text(&|w| w.stage.to_owned())),
            Column::text("workload", text(&|w| w.names.join(", "))),
            Column::text("prompts", text(&|w| clipped(&part(w, "prompts")))),
            Column::int("prompt_tokens_min", tokens(|t| t.0))
                .unit("tok")
                .describe("smallest number of tokens in a measured prompt, over the cells"),
            Column::int("prompt_tokens_max", tokens(|t| t.1))
                .unit("tok")
                .describe("largest number of tokens in a measured prompt, over the cells"),
            Column::text("output", text(&|w| output(w.definition, w.requested))),
            Column::text("sampling", text(&|w| part(w, "sampling"))),
            Column::text("further", further(&workloads)),
        ],
        &[("keys", "stage,workload")],
    );
    Ok(table.map_err(|e| e.to_string())?)
}

fn load_stages(data: &Data) -> impl Iterator<Item = &Input> {
    data.stages().iter().filter(|s| s.kind == "load")
}

fn planned(input: &Input) -> impl Iterator<Item = &InputCell> {
    input
        .cells
        .iter()
        .filter(|c| c.status != CellStatus::Excluded)
}

/// The distinct values of a parameter over the cells, in cell order.
fn values(input: &Input, key: &str) -> Vec<String> {
    distinct(planned(input).filter_map(|c| c.parameters.get(key)))
}

/// Each of these values once, in words.
fn distinct<'a>(all: impl Iterator<Item = &'a Json>) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for value in all.map(in_words) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

fn each(values: &[String], what: &str) -> String {
    if values.is_empty() {
        String::new()
    } else {
        format!("{}{what}", values.join(", "))
    }
}

/// The number of requests after the warm-up, for each cell and for all ok cells together.
fn measured(input: &Input) -> String {
    let is_timed = |c: &InputCell| c.parameters.get("duration").is_some_and(|d| !d.is_null());
    if planned(input).any(is_timed) {
        let counts = |timed: bool| {
            let cells = planned(input).filter(|c| is_timed(c) == timed);
            distinct(cells.filter_map(|c| c.parameters.get("requests")))
        };
        let parts = [
            each(
                &counts(true),
                " per cell at most; the cell ends after its duration",
            ),
            each(&counts(false), " per cell without a duration"),
        ];
        let given = parts.into_iter().filter(|part| !part.is_empty());
        return given.collect::<Vec<_>>().join("; ");
    }
    let of_ok =
        crate::environment::ok(input).filter_map(|c| c.parameters.get("requests")?.as_u64());
    let total: u64 = of_ok.sum();
    each(
        &values(input, "requests"),
        &format!(" per cell; {} in the ok cells", thousands(total)),
    )
}

/// Formats a count with separated thousands.
fn thousands(count: u64) -> String {
    let count = Scalar::Int(i64::try_from(count).unwrap_or(i64::MAX));
    format_value(&count, None, ",0", "").unwrap_or_else(|_| count.to_string())
}

/// The arrival processes, each with all its levels: `closed loop: clients 1, 2, 4`.
fn arrivals(input: &Input) -> String {
    let mut ways: Vec<(String, BTreeMap<String, Vec<String>>)> = Vec::new();
    for arrival in planned(input).filter_map(|c| c.parameters.get("arrival")) {
        let (way, settings) = match arrival.as_object().and_then(|o| o.iter().next()) {
            Some((way, settings)) => (way.replace('-', " "), settings.clone()),
            None => (in_words(arrival), Json::Null),
        };
        let at = ways
            .iter()
            .position(|(other, _)| *other == way)
            .unwrap_or_else(|| {
                ways.push((way, BTreeMap::new()));
                ways.len() - 1
            });
        for (key, value) in settings.as_object().into_iter().flatten() {
            let levels = ways[at].1.entry(key.replace('-', " ")).or_default();
            let level = in_words(value);
            if !levels.contains(&level) {
                levels.push(level);
            }
        }
    }
    let way = |(way, settings): (String, BTreeMap<String, Vec<String>>)| {
        let settings: Vec<String> = settings
            .iter()
            .map(|(k, v)| format!("{k} {}", v.join(", ")))
            .collect();
        if settings.is_empty() {
            way
        } else {
            format!("{way}: {}", settings.join("; "))
        }
    };
    ways.into_iter().map(way).collect::<Vec<_>>().join("; ")
}

/// The server models that rows were simulated from, with the cells of each if there are several.
fn simulated(input: &Input) -> Vec<(String, String)> {
    let mut servers: Vec<(&Json, Vec<&Coordinates>)> = Vec::new();
    for cell in planned(input) {
        let Some(server) = cell.parameters.pointer("/simulate/server") else {
            continue;
        };
        match servers.iter_mut().find(|(other, _)| *other == server) {
            Some((_, cells)) => cells.push(&cell.coordinates),
            None => servers.push((server, vec![&cell.coordinates])),
        }
    }
    let all: Vec<&Coordinates> = planned(input).map(|c| &c.coordinates).collect();
    let whole = boxes(&all);
    // An axis on which all labels have the same server does not affect the server.
    let is_whole = |pair: &(String, Vec<Scalar>)| whole.iter().any(|other| other.0.contains(pair));
    let apart = |cells: &[&Coordinates]| {
        let in_words = boxes(cells).into_iter().map(|mut condition| {
            condition.0.retain(|pair| !is_whole(pair));
            condition.to_string()
        });
        in_words.collect::<Vec<_>>().join("; ")
    };
    servers
        .into_iter()
        .map(|(server, cells)| (apart(&cells), in_words(server)))
        .collect()
}

/// The interface requests went to, and whether answers are streamed.
fn endpoint(data: &Data, input: &Input) -> Result<String, Miss> {
    let mut parts = cells(data, input)?.distinct("api")?;
    if parts.is_empty() {
        parts = values(input, "api");
    }
    parts.extend(values(input, "delivery"));
    Ok(parts.join(", "))
}

/// Whether the prompts of a workload can ask for another number of output tokens than its `output`: those of a file, of a
/// trace, and of the parts of a mixture.
fn asks_elsewhere(workload: &Json) -> bool {
    let prompts = workload.get("prompts").and_then(Json::as_object);
    let own = ["mixture", "pack", "dataset", "trace"];
    prompts.is_some_and(|prompts| own.iter().any(|source| prompts.contains_key(*source)))
}

/// A range for each cell.
type Ranges = Vec<(Coordinates, (i64, i64))>;

/// Returns the fewest and the most output tokens that the measured requests of each cell of a stage asked for.
fn requested(data: &Data, input: &Input) -> Result<Ranges, Miss> {
    let name = format!("{}.requests", input.stage);
    if !data.has(&name) {
        return Ok(Vec::new());
    }
    let view = data.view(&name, &Condition::default())?;
    let columns = ["phase", "requested_output_tokens"];
    if columns.iter().any(|c| !view.table.has_column(c)) {
        return Ok(Vec::new());
    }
    let mut ranges = vec![None; view.table.parts.len()];
    for (row, (part, _)) in view.rows.iter().enumerate() {
        let measured = view.get(row, columns[0])?.as_str() == Some("measured");
        if let (true, Scalar::Int(tokens)) = (measured, view.get(row, columns[1])?) {
            ranges[*part] = joined(ranges[*part], Some((tokens, tokens)));
        }
    }
    let parts = view.table.parts.iter().zip(ranges);
    Ok(parts
        .filter_map(|(part, range)| Some((part.coordinates.clone(), range?)))
        .collect())
}

/// Describes the requested output of a workload: its length, or the range that was asked for, and whether it is a cap.
fn output(workload: &Json, requested: Option<(i64, i64)>) -> String {
    let Some(output) = workload.get("output") else {
        return String::new();
    };
    let tokens = match requested {
        Some((low, high)) if low == high => low.to_string(),
        Some((low, high)) => format!("{low} to {high}"),
        None => output.get("tokens").map(in_words).unwrap_or_default(),
    };
    let parts = workload
        .pointer("/prompts/mixture")
        .and_then(Json::as_array);
    let of_part = |part: &Json| part.get("output").unwrap_or(output).clone();
    let modes: Vec<Json> = match parts {
        Some(parts) => parts.iter().map(of_part).collect(),
        None => vec![output.clone()],
    };
    let exact = modes.iter().filter(|output| output["mode"] == "exact");
    match exact.count() {
        0 => format!("{tokens} tokens at most"),
        all if all == modes.len() => format!("{tokens} tokens, end of sequence ignored"),
        _ => format!("{tokens} tokens, end of sequence ignored in some parts"),
    }
}

/// The other settings of each workload; null if it has none.
fn further(workloads: &[Workload<'_>]) -> Vec<Option<String>> {
    let fields = ["description", "prompts", "output", "sampling", "tokenizer"];
    let fields_of = |w: &Workload<'_>| {
        let others = w
            .definition
            .as_object()?
            .iter()
            .filter(|(key, _)| !fields.contains(&key.as_str()));
        let others: Vec<String> = others
            .map(|(key, value)| format!("{key}: {}", in_words(value)))
            .collect();
        (!others.is_empty()).then(|| clipped(&others.join("; ")))
    };
    workloads.iter().map(fields_of).collect()
}

/// Returns the name of a workload: from the stage, or the label of the axis that selects it.
fn name(data: &Data, input: &Input, cell: &InputCell) -> String {
    let settings = |key: &str| {
        let study = data.study().ok()?;
        study
            .spec
            .pointer(&format!("/stages/{}/settings/{key}", input.stage))
            .cloned()
    };
    match settings("workload").as_ref().and_then(Json::as_str) {
        Some(text) => match text.split_once("${") {
            None => text.to_owned(),
            Some((_, expression)) => {
                let axis = expression
                    .split(['.', '}'])
                    .next()
                    .unwrap_or_default()
                    .trim();
                cell.coordinates
                    .get(axis)
                    .map_or_else(|| axis.to_owned(), ToString::to_string)
            }
        },
        None => input.stage.clone(),
    }
}

/// Formats a setting for people: `words: length 16 to 32`.
fn in_words(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        Json::Array(items) => {
            // Parentheses show where one of several mappings ends.
            let item = |item: &Json| match (item, in_words(item)) {
                (Json::Object(_), words) => format!("({words})"),
                (_, words) => words,
            };
            items.iter().map(item).collect::<Vec<_>>().join(", ")
        }
        Json::Object(map) => {
            if let (2, Some(from), Some(to)) = (map.len(), map.get("from"), map.get("to")) {
                return format!("{} to {}", in_words(from), in_words(to));
            }
            let pair = |(key, value): (&String, &Json)| match value {
                Json::Object(inner) if !inner.contains_key("from") => {
                    format!("{key}: {}", in_words(value))
                }
                value => format!("{key} {}", in_words(value)),
            };
            let nested = map.values().any(Json::is_object);
            map.iter()
                .map(pair)
                .collect::<Vec<_>>()
                .join(if nested { "; " } else { ", " })
        }
        // 4.0 is how a whole number looks among numbers with a fraction.
        Json::Number(number) if number.is_f64() => number
            .as_f64()
            .filter(|whole| whole.fract() == 0.0 && whole.abs() < 1e15)
            .map_or_else(|| number.to_string(), |whole| whole.to_string()),
        other => other.to_string(),
    }
}

/// Formats a text for a cell of a Markdown table, where a bar begins the next cell.
fn in_cell(text: &str) -> String {
    text.replace('|', "/")
}

fn clipped(text: &str) -> String {
    let text = &in_cell(text);
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The tables `cell` of a load stage, if any.
struct Cells(Option<crate::view::View>);

fn cells(data: &Data, input: &Input) -> Result<Cells, Miss> {
    let name = format!("{}.cell", input.stage);
    Ok(Cells(if data.has(&name) {
        Some(data.view(&name, &Condition::default())?)
    } else {
        None
    }))
}

impl Cells {
    /// The distinct texts of a column, in the order of the cells; empty if the column does not exist.
    fn distinct(&self, column: &str) -> Result<Vec<String>, Miss> {
        let mut values = Vec::new();
        let Some(view) = self.0.as_ref().filter(|v| v.table.has_column(column)) else {
            return Ok(values);
        };
        for row in 0..view.rows.len() {
            if let Scalar::Text(text) = view.get(row, column)?
                && !values.contains(&text)
            {
                values.push(text);
            }
        }
        Ok(values)
    }

    /// The fewest and the most tokens in a prompt of a cell, if its table has them.
    fn tokens(&self, cell: &InputCell) -> Result<Option<(i64, i64)>, Miss> {
        let columns = ["prompt_tokens_min", "prompt_tokens_max"];
        let Some(view) = self
            .0
            .as_ref()
            .filter(|v| columns.iter().all(|c| v.table.has_column(c)))
        else {
            return Ok(None);
        };
        let own = view
            .rows
            .iter()
            .position(|(part, _)| view.table.parts[*part].coordinates == cell.coordinates);
        let Some(row) = own else { return Ok(None) };
        match (view.get(row, columns[0])?, view.get(row, columns[1])?) {
            (Scalar::Int(low), Scalar::Int(high)) => Ok(Some((low, high))),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_are_written_as_people_read_them() {
        assert_eq!(
            in_words(&json!({"words": {"length": {"from": 16, "to": 32}}})),
            "words: length 16 to 32"
        );
        let nested = json!({"decode": {"fixed": "10 ms", "step": 2}, "slots": 8});
        assert_eq!(in_words(&nested), "decode: fixed 10 ms, step 2; slots 8");
        let levels =
            json!({"levels": [{"rate": 2, "seconds": 60}, {"rate": 2, "seconds": 30, "to": 0}]});
        assert_eq!(
            in_words(&levels),
            "levels (rate 2, seconds 60), (rate 2, seconds 30, to 0)"
        );
        assert_eq!(
            in_words(&json!({"seed": 1, "temperature": 0.0})),
            "seed 1, temperature 0"
        );
        assert_eq!(
            in_words(&json!({"inter-token": "1 min"})),
            "inter-token 1 min"
        );
    }

    #[test]
    fn the_output_of_a_trace_or_a_mixture_is_what_its_requests_asked_for() {
        let words =
            json!({"prompts": {"words": {"length": 5}}, "output": {"tokens": 64, "mode": "exact"}});
        assert!(!asks_elsewhere(&words));
        assert_eq!(output(&words, None), "64 tokens, end of sequence ignored");
        let trace = json!({"prompts": {"trace": {"file": "t.csv"}}, "output": {"tokens": 128, "mode": "cap"}});
        assert!(asks_elsewhere(&trace));
        assert_eq!(output(&trace, Some((3, 700))), "3 to 700 tokens at most");
        let part = |mode: &str| json!({"name": "p", "weight": 1, "prompts": {}, "output": {"tokens": 9, "mode": mode}});
        let mixture = |modes: [&str; 2]| json!({"prompts": {"mixture": modes.map(part)}, "output": {"tokens": 128}});
        assert_eq!(
            output(&mixture(["cap", "cap"]), Some((9, 9))),
            "9 tokens at most"
        );
        assert_eq!(
            output(&mixture(["exact", "exact"]), Some((9, 9))),
            "9 tokens, end of sequence ignored"
        );
        assert!(output(&mixture(["exact", "cap"]), Some((9, 9))).ends_with("in some parts"));
        assert_eq!(joined(Some((3, 5)), Some((2, 4))), Some((2, 5)));
    }

    #[test]
    fn cells_with_and_without_a_duration_are_told_apart() {
        let cell = |parameters| contract::synthetic::bare(&[], parameters);
        let timed = |n: u32| cell(json!({"requests": n, "duration": "4 s"}));
        let plain = cell(json!({"requests": 30, "duration": null}));
        let stage = |cells| contract::synthetic::input("load", "load", cells);
        let mixed = stage(vec![timed(53), plain, timed(137)]);
        assert_eq!(
            measured(&mixed),
            "53, 137 per cell at most; the cell ends after its duration; 30 per cell without a duration"
        );
        assert_eq!(
            measured(&stage(vec![timed(9)])),
            "9 per cell at most; the cell ends after its duration"
        );
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let long = "é".repeat(LONGEST + 5);
        assert_eq!(clipped(&long).chars().count(), LONGEST + 1);
        assert_eq!(clipped("a|b"), "a/b");
    }
}
