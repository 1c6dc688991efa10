//! The environments and servers of a study side by side: their facets, and the differences between them.

use std::collections::{BTreeMap, BTreeSet};

use artifacts::json::{leaves, plain};
use artifacts::{Column, Table};
use pipeline::stage::{CellStatus, Coordinates, Input, InputCell, Json};

use crate::data::{Data, Miss};
use crate::footnotes::boxes;

/// The outputs that describe an environment or a server.
const DESCRIPTORS: [&str; 3] = ["host", "environment", "server"];

/// The prefix of the names of tables of facets; the stage follows.
pub(crate) const FACETS: &str = "facets-";

/// The meaning of the column `state`.
pub(crate) const STATE: &str = "same, unknown, planned (set from an axis), follows (computed from planned values), confound, \
    or unmatched";

/// The facets of a cell: values by name.
pub(crate) type Facets = BTreeMap<String, String>;

/// Reads one descriptor of each ok cell of a stage. Mere observations of a host are not facets.
fn described<'a>(
    data: &Data,
    input: &'a Input,
    output: &str,
) -> Result<Vec<(&'a Coordinates, Facets)>, Miss> {
    let mut sides = Vec::new();
    let mut unread = false;
    for cell in ok(input) {
        let Some(artifact) = cell.outputs.get(output) else {
            continue;
        };
        match data.by_digest(&artifact.digest) {
            Ok(document) => {
                let mut flat = Facets::new();
                match document.get("facets").filter(|_| output == "host") {
                    Some(facets) => flatten("", facets, &mut flat),
                    None => flatten("", &document, &mut flat),
                }
                flat.retain(|key, _| is_own(data, output, key));
                // An engine that generates without a server has no API.
                if output == "server" && is_worker(data, &document["engine"]["name"])? {
                    flat.remove("api");
                }
                sides.push((&cell.coordinates, flat));
            }
            Err(Miss::Unread) => unread = true,
            Err(miss) => return Err(miss),
        }
    }
    if unread { Err(Miss::Unread) } else { Ok(sides) }
}

/// Whether an engine generates in a worker, according to its definition in the environment.
fn is_worker(data: &Data, engine: &Json) -> Result<bool, Miss> {
    for input in data.stages().iter().filter(|s| s.kind == "provision") {
        for artifact in ok(input).filter_map(|cell| cell.outputs.get("environment")) {
            let environment = data.by_digest(&artifact.digest)?;
            let program = &environment["engine"]["definition"]["launch"]["program"];
            if environment["engine"]["name"] == *engine && program.get("worker").is_some() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Whether a descriptor is the right place to report a value. A server repeats its environment, both repeat their host,
/// and the settings and command that follow from an engine's definition already show the definition.
fn is_own(data: &Data, output: &str, key: &str) -> bool {
    let has = |output: &str| {
        let cells = data
            .stages()
            .iter()
            .filter(|s| s.kind == "provision")
            .flat_map(|s| &s.cells);
        cells.into_iter().any(|c| c.outputs.contains_key(output))
    };
    let is_below = |part: &str| {
        key.strip_prefix(part)
            .is_some_and(|rest| rest.starts_with('.'))
    };
    let repeats_host = output != "host" && is_below("facets") && has("host");
    let repeats_environment =
        output == "server" && (is_below("engine") || is_below("model")) && has("environment");
    !(repeats_host || repeats_environment || is_below("engine.definition"))
}

/// The parts of a descriptor that follow from the choice of the engine, and of the model.
const MADE_OF: [(&str, &[&str]); 2] = [
    (
        "engine",
        &[
            "engine",
            "cpu_flags",
            "version",
            "api",
            "endpoints",
            "counters",
            "settings",
            "command",
            "limits",
        ],
    ),
    ("model", &["model", "model_name", "command", "limits"]),
];

/// Returns a facet as the server of a group names it: `command.arguments` for `roles.router.server.command.arguments`.
fn within_role(key: &str) -> &str {
    let of_role = key.strip_prefix("roles.");
    let of_server = of_role.and_then(|rest| rest.split_once(".server."));
    of_server.map_or(key, |(_, own)| own)
}

/// Returns the role of a group to which a facet belongs.
fn role(key: &str) -> Option<&str> {
    let of_role = key.strip_prefix("roles.")?;
    of_role.split('.').next()
}

/// Returns the choices behind a facet. If a stage has several descriptors, the facet's first part names one
/// (`environment.engine.version`).
fn choices_behind(key: &str) -> impl Iterator<Item = &'static str> {
    let outputs = ["environment.", "server.", "host."];
    let within = outputs.iter().find_map(|output| key.strip_prefix(output));
    let own = within_role(within.unwrap_or(key));
    // Each server of a group has the facets of its host.
    let own = own.strip_prefix("facets.").unwrap_or(own);
    let part = own.split('.').next().unwrap_or(own);
    MADE_OF
        .iter()
        .filter(move |(choice, made)| {
            let of_engine = *choice == "engine" && contract::OF_ENGINE.contains(&part);
            made.contains(&part) || of_engine
        })
        .map(|(choice, _)| *choice)
}

/// Returns the axes from which a stage, or one that it needs, selects `engine` or `model`.
fn axes_of(data: &Data, stage: &str, choice: &str) -> Vec<String> {
    let Ok(study) = data.study() else {
        return Vec::new();
    };
    let definition = |name: &str| study.spec.get("stages").and_then(|stages| stages.get(name));
    let needs = definition(stage)
        .and_then(|s| s.get("needs"))
        .and_then(Json::as_array);
    let needs = needs.into_iter().flatten().filter_map(Json::as_str);
    let mut axes = Vec::new();
    for name in std::iter::once(stage).chain(needs) {
        let text = definition(name).and_then(|s| s.pointer(&format!("/settings/{choice}")));
        let parts = text
            .and_then(Json::as_str)
            .unwrap_or_default()
            .split("${")
            .skip(1);
        axes.extend(parts.filter_map(|part| {
            let (path, _) = part.split_once('}')?;
            Some(path.split('.').next().unwrap_or(path).to_owned())
        }));
    }
    axes
}

/// Whether the engine replaces one that was passed over, so that nobody chose it.
fn stands_in(facets: &Facets) -> bool {
    let passed_over = |key: &str| {
        let within = key.strip_prefix("environment.").unwrap_or(key);
        within.starts_with("engine.passed_over")
    };
    // An empty list is flattened to an empty text.
    facets
        .iter()
        .any(|(key, value)| passed_over(key) && !value.is_empty())
}

/// Whether a facet follows from a choice that an axis sets: it is equal wherever the axis' labels are.
fn follows_choice(data: &Data, stage: &str, key: &str, sides: &[(&Coordinates, &Facets)]) -> bool {
    let axes: Vec<String> = choices_behind(key)
        .flat_map(|choice| axes_of(data, stage, choice))
        .collect();
    if axes.is_empty() || sides.iter().any(|(_, facets)| stands_in(facets)) {
        return false;
    }
    let mut by_label: BTreeMap<Vec<Option<String>>, Option<&String>> = BTreeMap::new();
    sides.iter().all(|(at, facets)| {
        let labels = axes
            .iter()
            .map(|axis| at.get(axis).map(ToString::to_string))
            .collect();
        *by_label.entry(labels).or_insert(facets.get(key)) == facets.get(key)
    })
}

/// Whether a value stands for an unknown one.
fn is_unknown(value: &str) -> bool {
    matches!(value, "unknown" | contract::HOST_NOT_KNOWN)
}

/// Returns the state of each facet when the sides are compared.
fn states<'a>(
    data: &Data,
    stage: &str,
    cells: &'a [(&Coordinates, Facets)],
) -> BTreeMap<&'a str, &'static str> {
    let sides: Vec<&'a Facets> = cells.iter().map(|(_, facets)| facets).collect();
    let placed: Vec<(&Coordinates, &Facets)> = cells.iter().map(|(at, f)| (*at, f)).collect();
    let keys: BTreeSet<&str> = sides
        .iter()
        .flat_map(|facets| facets.keys())
        .map(String::as_str)
        .collect();
    let roles: Vec<BTreeSet<&str>> = sides
        .iter()
        .map(|facets| facets.keys().filter_map(|key| role(key)).collect())
        .collect();
    // The experiment alone decides which roles a group has. So a role's facets are compared where the role exists.
    let with_role = |key: &str| {
        let sides = sides.iter().zip(&roles);
        sides
            .filter(|(_, roles)| role(key).is_none_or(|role| roles.contains(role)))
            .map(|(facets, _)| *facets)
            .collect::<Vec<_>>()
    };
    let set_by_axes = set_by_axes(data, stage);
    let state = |key: &str| {
        let with_role = with_role(key);
        let everywhere = with_role.len() == sides.len();
        let values: BTreeSet<_> = with_role.iter().map(|facets| facets.get(key)).collect();
        match Vec::from_iter(values)[..] {
            // Two unknown values are not known to be the same.
            [Some(value)] if is_unknown(value) => "unknown",
            // The number of members stands for the role itself.
            [_] if !everywhere && role(key).is_some_and(|r| *key == format!("roles.{r}.count")) => {
                "planned"
            }
            [_] if !everywhere => "follows",
            [_] | [] => "same",
            _ if set_by_axes.contains(last_segment(key)) => "planned",
            _ if follows_choice(data, stage, key, &placed) => "follows",
            [None, ..] => "unmatched",
            _ => "confound",
        }
    };
    let mut states: BTreeMap<&str, &'static str> =
        keys.iter().map(|key| (*key, state(key))).collect();
    let planned: Vec<&str> = keys
        .into_iter()
        .filter(|key| states[key] == "planned")
        .collect();
    for (key, state) in &mut states {
        // The command, the files that it names and the limits of a server follow from its settings and nothing else.
        let own = within_role(key);
        let made = ["command.", "files.", "limits."]
            .iter()
            .any(|part| own.starts_with(part));
        if made && matches!(*state, "confound" | "unmatched") && !planned.is_empty() {
            let mut by_plan: BTreeMap<Vec<Option<&String>>, Option<&String>> = BTreeMap::new();
            let follows = sides.iter().all(|facets| {
                let plan = planned.iter().map(|key| facets.get(*key)).collect();
                *by_plan.entry(plan).or_insert(facets.get(*key)) == facets.get(*key)
            });
            if follows {
                *state = "follows";
            }
        }
    }
    states
}

/// A facet that differs between cells of its stage.
struct Difference {
    stage: String,
    key: String,
    values: String,
    kind: &'static str,
}

fn differences(data: &Data) -> Result<Vec<Difference>, Miss> {
    let mut sets = Vec::new();
    let mut unread = false;
    for input in data
        .stages()
        .iter()
        .filter(|s| matches!(s.kind.as_str(), "provision" | "serve"))
    {
        for output in DESCRIPTORS {
            let sides = match described(data, input, output) {
                Ok(sides) => sides,
                Err(Miss::Unread) => {
                    unread = true;
                    continue;
                }
                Err(miss) => return Err(miss),
            };
            for (key, kind) in states(data, &input.stage, &sides) {
                if matches!(kind, "same" | "unknown") {
                    continue;
                }
                let value = |facets: &Facets| facets.get(key).map_or("(absent)", |v| v).to_owned();
                let values: Vec<String> = sides
                    .iter()
                    .map(|(cell, facets)| format!("{cell}: {}", value(facets)))
                    .collect();
                sets.push(Difference {
                    stage: input.stage.clone(),
                    key: key.to_owned(),
                    values: values.join("; "),
                    kind,
                });
            }
        }
    }
    if unread { Err(Miss::Unread) } else { Ok(sets) }
}

/// Returns the names of the settings that axes or overrides make differ between the cells of a stage.
fn set_by_axes(data: &Data, stage: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let Ok(study) = data.study() else {
        return names;
    };
    let settings = study.spec.pointer(&format!("/stages/{stage}/settings"));
    if let Some(settings) = settings {
        insert_set_by_axes(settings, "", &study.spec, &mut names);
    }
    let overrides = study.spec.get("overrides").and_then(Json::as_array);
    for one in overrides.into_iter().flatten() {
        let stage_name = one.pointer("/where/stage").and_then(Json::as_str);
        if stage_name.is_none_or(|name| name == stage) {
            let mut set = Facets::new();
            flatten("", &one["set"], &mut set);
            names.extend(set.keys().map(|path| last_segment(path).to_owned()));
        }
    }
    names
}

/// Inserts the names below a value in which it depends on axes. A text that is exactly one placeholder can stand for many
/// settings: those in which the labels of its axis differ.
fn insert_set_by_axes(value: &Json, name: &str, spec: &Json, names: &mut BTreeSet<String>) {
    match value {
        Json::Object(map) => map
            .iter()
            .for_each(|(key, value)| insert_set_by_axes(value, key, spec, names)),
        Json::Array(items) => items
            .iter()
            .for_each(|item| insert_set_by_axes(item, name, spec, names)),
        Json::String(text) if text.contains("${") => {
            let sides = whole(text).and_then(|path| by_label(spec, path));
            let Some(sides) = sides else {
                names.insert(name.to_owned());
                return;
            };
            let paths: BTreeSet<&String> = sides.iter().flat_map(Facets::keys).collect();
            for path in paths {
                let values: BTreeSet<_> = sides.iter().map(|side| side.get(path)).collect();
                if values.len() > 1 {
                    let own = last_segment(path);
                    names.insert(if own.is_empty() { name } else { own }.to_owned());
                }
            }
        }
        _ => {}
    }
}

/// Returns what the only placeholder of a text names, if the text has nothing else.
fn whole(text: &str) -> Option<&str> {
    let path = text.strip_prefix("${")?.strip_suffix('}')?;
    (!path.contains("${")).then_some(path)
}

/// Returns the leaves of what a placeholder stands for, for each label of its axis. A value that is not a mapping is one
/// leaf with an empty path.
fn by_label(spec: &Json, path: &str) -> Option<Vec<Facets>> {
    let (axis, field) = path.split_once('.').unwrap_or((path, ""));
    let labels = spec.pointer(&format!("/axes/{axis}/labels"))?.as_array()?;
    let at = field.split('.').filter(|part| !part.is_empty());
    let sides = labels.iter().map(|label| {
        let of_label = label.get("fields").unwrap_or(&label["label"]);
        let value = at.clone().try_fold(of_label, |value, part| value.get(part));
        let mut leaves = Facets::new();
        value
            .into_iter()
            .for_each(|value| flatten("", value, &mut leaves));
        leaves
    });
    Some(sides.collect())
}

fn last_segment(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// Flattens a document to scalars by path; lists of scalars are joined by spaces. An empty mapping has no scalars.
pub(crate) fn flatten(path: &str, json: &Json, into: &mut Facets) {
    let is_list = |value: &Json| {
        let items = value.as_array();
        items.is_some_and(|items| !items.iter().any(Json::is_object))
    };
    for (at, leaf) in leaves(json, is_list) {
        let text = match leaf {
            Json::Object(_) => continue,
            Json::Array(items) => items.iter().map(word).collect::<Vec<_>>().join(" "),
            leaf => plain(leaf),
        };
        let parts = [path, &at].into_iter().filter(|part| !part.is_empty());
        into.insert(parts.collect::<Vec<_>>().join("."), text);
    }
}

/// Returns an item of a list between spaces. A text that could be several items, or none, is quoted: lists that differ must not
/// look the same.
fn word(item: &Json) -> String {
    match item.as_str() {
        Some(text)
            if text.is_empty() || text.starts_with('"') || text.contains(char::is_whitespace) =>
        {
            item.to_string()
        }
        _ => plain(item),
    }
}

/// Returns the ok cells of an input.
pub(crate) fn ok(input: &Input) -> impl Iterator<Item = &InputCell> {
    input.cells.iter().filter(|c| c.status == CellStatus::Ok)
}

/// Returns the number of facets that differ without being set from an axis.
///
/// # Errors
/// If a descriptor is not read yet.
pub(crate) fn confounds(data: &Data) -> Result<usize, Miss> {
    Ok(differences(data)?
        .into_iter()
        .filter(|d| !matches!(d.kind, "planned" | "follows"))
        .count())
}

/// Returns the differences: the table `environment`.
///
/// # Errors
/// If a descriptor is not read yet.
pub(crate) fn table(data: &Data) -> Result<Table, Miss> {
    let differing = differences(data)?;
    let table = Table::with_metadata(
        vec![
            Column::text("stage", differing.iter().map(|d| Some(d.stage.as_str()))),
            Column::text("key", differing.iter().map(|d| Some(d.key.as_str()))),
            Column::text("values", differing.iter().map(|d| Some(d.values.as_str()))),
            Column::text("kind", differing.iter().map(|d| Some(d.kind))).describe(
                "planned if the experiment sets the value from an axis, follows if it is \
                 computed from such values, unmatched if a side lacks the key, else confound",
            ),
        ],
        &[("keys", "stage,key")],
    );
    Ok(table.map_err(|e| e.to_string())?)
}

/// The cells of a stage, grouped by agreement in all facets, and the state of each facet between the groups.
pub(crate) struct Sides<'a> {
    /// Cells with their facets; each key begins with the name of the descriptor.
    pub(crate) groups: Vec<(Vec<&'a Coordinates>, Facets)>,
    /// `same`, `planned`, `follows`, `confound` or `unmatched`, by facet.
    pub(crate) stands: BTreeMap<String, &'static str>,
}

impl Sides<'_> {
    /// Returns the heading of each group: its cells, or the stage if the group is the whole stage.
    pub(crate) fn titles(&self, stage: &str) -> Vec<String> {
        let title = |members: &[&Coordinates]| {
            let parts = boxes(members);
            let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
            parts.join("; ")
        };
        let titles = self.groups.iter().map(|(members, _)| title(members));
        titles
            .map(|title| {
                if title.is_empty() {
                    stage.to_owned()
                } else {
                    title
                }
            })
            .collect()
    }
}

/// Groups the cells of a stage by agreement in all facets.
///
/// # Errors
/// If a descriptor is not read yet.
pub(crate) fn sides<'a>(data: &Data, input: &'a Input) -> Result<Sides<'a>, Miss> {
    let mut cells: Vec<(&Coordinates, Facets)> = ok(input)
        .map(|cell| (&cell.coordinates, Facets::new()))
        .collect();
    let mut stands: BTreeMap<String, &'static str> = BTreeMap::new();
    for output in DESCRIPTORS {
        let sides = described(data, input, output)?;
        let lines = states(data, &input.stage, &sides);
        stands.extend(
            lines
                .into_iter()
                .map(|(key, state)| (format!("{output}.{key}"), state)),
        );
        for (coordinates, flat) in sides {
            if let Some((_, facets)) = cells.iter_mut().find(|(at, _)| *at == coordinates) {
                facets.extend(
                    flat.into_iter()
                        .map(|(key, value)| (format!("{output}.{key}"), value)),
                );
            }
        }
    }
    let mut groups: Vec<(Vec<&Coordinates>, Facets)> = Vec::new();
    for (coordinates, facets) in cells {
        match groups.iter_mut().find(|(_, other)| *other == facets) {
            Some((members, _)) => members.push(coordinates),
            None => groups.push((vec![coordinates], facets)),
        }
    }
    Ok(Sides { groups, stands })
}

/// Returns the facets of a stage side by side, if the name refers to them. The table has a row per facet, a column per
/// group of cells that agree in all of them, and, with several groups, the state of the facet.
///
/// # Errors
/// If the stage does not exist, or a descriptor is not read yet.
pub(crate) fn facets(name: &str, data: &Data) -> Result<Option<Table>, Miss> {
    let Some(stage) = name.strip_prefix(FACETS) else {
        return Ok(None);
    };
    let sides = sides(data, data.input(stage)?)?;
    let keys: BTreeSet<&String> = sides.groups.iter().flat_map(|(_, f)| f.keys()).collect();
    let mut columns = vec![Column::text("facet", keys.iter().map(|k| Some(k.as_str())))];
    for (title, (_, facets)) in sides.titles(stage).into_iter().zip(&sides.groups) {
        columns.push(Column::text(
            title,
            keys.iter().map(|k| facets.get(*k).cloned()),
        ));
    }
    if sides.groups.len() > 1 {
        let states = keys.iter().map(|key| sides.stands.get(*key).copied());
        columns.push(Column::text("state", states).describe(STATE));
    }
    let table = Table::with_metadata(columns, &[("keys", "facet")]);
    Ok(Some(table.map_err(|e| e.to_string())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_facet_is_made_from_a_choice_in_whichever_output_it_stands() {
        let behind = |key: &str| choices_behind(key).collect::<Vec<_>>();
        assert_eq!(behind("environment.engine.version"), ["engine"]);
        assert_eq!(behind("engine.version"), ["engine"]);
        assert_eq!(behind("environment.model.title"), ["model"]);
        assert_eq!(behind("server.command.program"), ["engine", "model"]);
        assert_eq!(
            behind("server.roles.router.server.command.program"),
            ["engine", "model"]
        );
        for facet in [
            "engine",
            "program.digest",
            "program.libraries.libpython3.so",
            "files./x.py",
        ] {
            let key = format!("server.roles.router.server.facets.{facet}");
            assert_eq!(behind(&key), ["engine"], "{key}");
        }
        assert_eq!(behind("host.cpu.model"), Vec::<&str>::new());
        assert_eq!(
            behind("server.roles.router.server.facets.cpu_model"),
            Vec::<&str>::new()
        );
    }

    #[test]
    fn commands_with_other_arguments_are_other_facets() {
        let shown = |arguments: &[&str]| {
            let mut flat = Facets::new();
            flatten(
                "command",
                &serde_json::json!({"arguments": arguments}),
                &mut flat,
            );
            flat.remove("command.arguments").expect("a list")
        };
        assert_eq!(shown(&["--x", "a", r#"{"b":1}"#]), r#"--x a {"b":1}"#);
        assert_eq!(shown(&["--x", "a b"]), r#"--x "a b""#);
        let lists: [&[&str]; 6] = [
            &["--x", "a b"],
            &["--x", "a", "b"],
            &["--x", "\"a", "b\""],
            &["--x", "\"a b\""],
            &["--x", "", "a b"],
            &["--x", "a\tb"],
        ];
        let all: BTreeSet<String> = lists.iter().map(|list| shown(list)).collect();
        assert_eq!(all.len(), lists.len(), "{all:?}");
    }

    #[test]
    fn an_engine_stands_in_only_where_another_was_passed_over() {
        let facets = |list: &str| {
            let mut flat = Facets::new();
            let document = serde_json::from_str(list).expect("JSON");
            flatten("environment", &document, &mut flat);
            flat
        };
        assert!(!stands_in(&facets(
            r#"{"engine": {"name": "a", "passed_over": []}}"#
        )));
        let passed =
            r#"{"engine": {"name": "a", "passed_over": [{"name": "b", "why": "no GPU"}]}}"#;
        assert!(stands_in(&facets(passed)));
        assert!(stands_in(&facets(r#"{"engine": {"passed_over": ["b"]}}"#)));
    }
}
