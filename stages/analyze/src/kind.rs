//! The stage kind: turns settings into a checked list of tables, and runs one cell.

use std::collections::BTreeMap;

use contract::Settings;
use pipeline::suggest::remedy;
use pipeline::{
    CellStatus, Class, Control, Coordinates, Done, Failure, Input, Job, Json, KnownAxis,
    KnownStage, KnownTable, Library, MeasuredRequests, Needed, Output, PlannedTable, Problem,
    StageKind, Step,
};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::frame::{Frame, Spec};
use crate::intake::{
    self, Load, NEEDS_LOAD, NEEDS_VERIFY, NO_LOAD, SEVERAL_LOADS, choose, no_such_load,
    unverified_load,
};
use crate::keys::{self, Keys};
use crate::make::{Maker, Witness, tests};
use crate::needed::unneeded_stages;
use crate::operator::{Operator, Reads, Scope};
use crate::operators::ALL;
use crate::operators::family::Shares;
use crate::operators::looks::{self, Looks, TESTING};
use crate::operators::published::{self, Files};
use crate::other_words::{other_parts, other_words, with_words_for_parameters, words_for_operator};
use crate::outline::{self, known_tables};
use crate::side_labels;
use crate::sources::{order, sources};
use crate::surroundings::Surroundings;
use crate::too_few;

/// The `analyze` kind.
///
/// Settings: `tables`, a mapping from names to `{operator: …}` with the operator's parameters, or to `{file: …}` for a
/// table published elsewhere. Outputs: each table under its name, the file of a published table as `NAME.file`, and
/// `NAME.lineage` with the columns `row`, `source` (a table of this stage or the digest of a raw artifact),
/// `source_row_start`, `source_row_end`.
pub struct Analyze;

/// The operator of tables that name a file.
pub(crate) const PUBLISHED: &str = "published";

/// The operator of tables with facts of an axis.
const FACTS: &str = "facts";

/// The operator of queries.
pub(crate) const SQL: &str = "sql";

/// One table in canonical form.
#[derive(Serialize, Deserialize)]
pub(crate) struct Planned {
    pub(crate) name: String,
    pub(crate) operator: String,
    pub(crate) parameters: Json,
}

/// Collects the labels of both sides of every comparison, and the order of every series of phases, each with its axis.
fn sides(settings: &Json, named: &mut Vec<(String, Json)>) {
    match settings {
        Json::Array(items) => items.iter().for_each(|item| sides(item, named)),
        Json::Object(fields) => {
            let is_label = |label: &&Json| label.is_string() || label.is_number();
            let mut add = |axis: &str, labels: &[Option<&Json>]| {
                if let Some(axis) = fields.get(axis).and_then(Json::as_str) {
                    let labels = labels.iter().flatten().copied().filter(is_label);
                    named.extend(labels.map(|label| (axis.to_owned(), label.clone())));
                }
            };
            if let (Some(a), Some(b)) = (fields.get("a"), fields.get("b")) {
                add("axis", &[Some(a), Some(b)]);
            }
            if let Some(order) = fields.get("order").and_then(Json::as_array) {
                add("phase", &order.iter().map(Some).collect::<Vec<_>>());
            }
            fields.values().for_each(|value| sides(value, named));
        }
        _ => {}
    }
}

pub(crate) fn operator(name: &str) -> Option<&'static dyn Operator> {
    ALL.iter().copied().find(|o| o.name() == name)
}

impl StageKind for Analyze {
    fn name(&self) -> &'static str {
        "analyze"
    }

    fn other_words(&self) -> &'static [&'static str] {
        &[
            "analyse",
            "analysis",
            "aggregate",
            "summary",
            "statistics",
            "stats",
            "compare",
            "comparison",
            "metrics",
            "compute",
        ]
    }

    fn semantic_version(&self) -> u32 {
        32
    }

    fn semantic_version_of(&self, parameters: &Json) -> u32 {
        self.semantic_version() + crate::operators::revision(parameters)
    }

    fn labels_named(&self, parameters: &Json) -> Vec<(String, Json)> {
        let mut named = Vec::new();
        sides(parameters, &mut named);
        named
    }

    /// A table of facts has a row for each label of an axis.
    fn axes_read(&self, settings: &Json) -> Vec<String> {
        let tables = settings["tables"].as_object().into_iter().flatten();
        let facts = tables.filter(|(_, table)| table["operator"] == FACTS);
        let axis = facts.filter_map(|(_, table)| table["axis"].as_str());
        axis.map(str::to_owned).collect()
    }

    fn class(&self) -> Class {
        Class::Pure
    }

    fn schema(&self) -> schemars::Schema {
        let names: Vec<&str> = ALL.iter().map(|o| o.name()).collect();
        let mut properties = serde_json::Map::new();
        let cases: Vec<Json> = ALL
            .iter()
            .map(|o| {
                let mut then = o.schema();
                if let Some(object) = then.as_object_mut() {
                    object.remove("$schema");
                    object.remove("title");
                    // `operator` itself is described beside the parameters.
                    if let Some(properties) = object["properties"].as_object_mut() {
                        properties.insert("operator".to_owned(), true.into());
                    }
                    with_words_for_parameters(object);
                    let description = format!("{}\nCells: {}.", o.summary(), o.reads());
                    object.insert("description".to_owned(), description.into());
                }
                let condition = match o.name() {
                    PUBLISHED => json!({"required": ["file"]}),
                    name => {
                        json!({"required": ["operator"], "properties": {"operator": {"const": name}}})
                    }
                };
                json!({"if": condition, "then": then})
            })
            .collect();
        properties.insert(
            "tables".to_owned(),
            json!({
                "type": "object",
                "description": "The tables to compute; a table may use others by name.",
                "additionalProperties": {
                    "type": "object",
                    "properties": {
                        "operator": {"type": "string", "enum": names, "x-listed-by": "benchtrail list operators", "description": "The \
                        operator that computes the table; without it, the table comes from a `file`.",
                        "x-other-words": other_words(), "x-other-parts": other_parts()}
                    },
                    "allOf": cases,
                    "if": {"anyOf": [{"required": ["operator"]}, {"required": ["file"]}]},
                    "else": {"x-other-words": words_for_operator()},
                },
            }),
        );
        schemars::Schema::try_from(json!({
            "type": "object",
            "required": ["tables"],
            "additionalProperties": false,
            "properties": properties,
        }))
        .expect("an object is a schema")
    }

    fn canonical(&self, settings: &Json, library: &dyn Library) -> Result<Json, Vec<Problem>> {
        let (tables, problems) = plan(settings, library);
        if problems.is_empty() {
            Ok(json!({ "tables": tables }))
        } else {
            Err(problems)
        }
    }

    fn looked_at_repeatedly(&self, mut parameters: Json) -> Result<Json, Vec<Problem>> {
        let mut problems = Vec::new();
        let tables = parameters["tables"].as_array_mut();
        for table in tables.into_iter().flatten() {
            let operator = table["operator"].as_str().unwrap_or_default();
            if !TESTING.contains(&operator) {
                continue;
            }
            let test = table["parameters"]["test"].as_str().unwrap_or_default();
            if let Some(refusal) = looks::refusal(operator, test) {
                let name = table["name"].as_str().unwrap_or_default();
                let key = match operator {
                    "paired-comparison" => "test",
                    _ => "operator",
                };
                problems.push(Problem::at(&["tables", name, key], refusal).hint(looks::INSTEAD));
            }
            table["parameters"]["looks"] = json!(Looks::AfterEachBlock);
        }
        match problems.is_empty() {
            true => Ok(parameters),
            false => Err(problems),
        }
    }

    fn fits(
        &self,
        parameters: &Json,
        needs: &[Needed<'_>],
        _library: &dyn Library,
    ) -> Result<(), Vec<Problem>> {
        let tables = planned(parameters).unwrap_or_default();
        let problems = missing_stages(&tables, needs);
        match problems.is_empty() {
            true => Ok(()),
            false => Err(problems),
        }
    }

    fn planned_tables(&self, parameters: &Json, library: &dyn Library) -> Vec<PlannedTable> {
        planned(parameters).map_or_else(|_| Vec::new(), |tables| columns_of(tables, library))
    }

    fn tables_known(&self, parameters: &Json, library: &dyn Library) -> Option<Vec<KnownTable>> {
        let tables = planned(parameters).ok()?;
        Some(known_tables(tables, library))
    }

    fn unknown_names(
        &self,
        parameters: &Json,
        _stages: &[KnownStage],
        axes: &[KnownAxis],
    ) -> Vec<Problem> {
        side_labels::wrong(&planned(parameters).unwrap_or_default(), axes)
    }

    fn decides(&self, parameters: &Json) -> bool {
        planned(parameters).is_ok_and(|tables| tables.iter().any(tests))
    }

    fn reads_evidence(&self, parameters: &Json) -> bool {
        let reads = |table: &Planned| {
            operator(&table.operator).is_some_and(|o| o.reads().includes(CellStatus::Hung))
        };
        planned(parameters).is_ok_and(|tables| tables.iter().any(reads))
    }

    fn too_few_requests(
        &self,
        (stage, parameters): (&str, &Json),
        readers: &[&Json],
        measured: &[&str],
        requests: &dyn Fn(&str) -> Option<MeasuredRequests>,
    ) -> Vec<String> {
        let tables = planned(parameters).unwrap_or_default();
        too_few::warnings((stage, &tables), readers, measured, requests)
    }

    fn sharing(&self, parameters: Json, shared: &pipeline::Shared) -> Json {
        Shares::put(shared, parameters)
    }

    fn run(&self, job: &Job<'_>) -> Result<Done, Failure> {
        let files = Files {
            store: job.store,
            named: job.files,
        };
        run(job.parameters, job.inputs, files, job.seed, job.control)
    }

    fn rehearse(&self, job: &Job<'_>, _slowdown: f64) -> Result<Done, Failure> {
        let files = Files {
            store: job.store,
            named: job.files,
        };
        let (seed, control) = (job.seed, job.control);
        let hold = intake::HOLD;
        run_holding(job.parameters, job.inputs, files, seed, control, hold, true)
    }
}

/// The operators whose tables have one row per cell. Other tables read their columns by name, so an axis must not share
/// a name with one of them.
const OF_CELLS: [&str; 3] = ["cell-summary", "goodput", "steady-state"];

/// Whether tables only diagnose failures. They need no verification: their rows say how each cell ended, and the cells
/// that failed are those that no gate can judge.
pub(crate) fn diagnoses(tables: &[Planned]) -> bool {
    let reads = |table: &Planned| operator(&table.operator).map(Operator::reads);
    let all = tables
        .iter()
        .all(|table| !matches!(reads(table), Some(Reads::Verified | Reads::AlsoHung)));
    all && tables
        .iter()
        .any(|table| reads(table) == Some(Reads::AlsoFailed))
}

/// Reports the stages that the tables read but `needs` does not list.
fn missing_stages(tables: &[Planned], needs: &[Needed<'_>]) -> Vec<Problem> {
    let loads: Vec<&str> = needs
        .iter()
        .filter(|need| need.kind == "load")
        .map(|need| need.stage)
        .collect();
    let published = tables.iter().any(|table| table.operator == PUBLISHED);
    if loads.is_empty() {
        let reads = needs.iter().any(|need| need.kind == "run") || (published && needs.is_empty());
        let problem = || Problem::at(&["needs"], NO_LOAD).hint(NEEDS_LOAD);
        return if reads { Vec::new() } else { vec![problem()] };
    }
    let covers = |verify: &Needed<'_>, load: &str| verify.needs.iter().any(|n| n.stage == load);
    let verified = |load: &&str| {
        let mut gates = needs.iter().filter(|need| need.kind == "verify");
        gates.any(|verify| covers(verify, load))
    };
    let unverified = loads
        .iter()
        .filter(|load| !verified(load) && !diagnoses(tables));
    let mut problems: Vec<Problem> = unverified
        .map(|load| Problem::at(&["needs"], unverified_load(load)).hint(NEEDS_VERIFY))
        .collect();
    for table in tables {
        let takes = operator(&table.operator)
            .is_some_and(|o| o.schema()["properties"].get("load").is_some());
        let problem = match table.parameters["load"].as_str() {
            Some(name) if !loads.contains(&name) => Problem::at(
                &["tables", &table.name, "load"],
                no_such_load(name),
            )
            .hint(remedy(name, "load stages it needs", &loads)),
            None if takes && loads.len() > 1 => {
                Problem::at(&["tables", &table.name], SEVERAL_LOADS).hint(choose(&loads))
            }
            _ => continue,
        };
        problems.push(problem);
    }
    problems.extend(unneeded_stages(tables, needs));
    problems
}

/// Returns the columns of the tables of the cells.
fn columns_of(tables: Vec<Planned>, library: &dyn Library) -> Vec<PlannedTable> {
    let of_cells = tables
        .into_iter()
        .filter(|table| OF_CELLS.contains(&table.operator.as_str()));
    let columns = of_cells.filter_map(|table| {
        let columns = outline::columns(&table, &BTreeMap::new(), &Keys::new(), library)?;
        Some(PlannedTable {
            name: table.name,
            operator: table.operator,
            of_kind: "load",
            columns: columns.into_iter().map(|c| c.name).collect(),
        })
    });
    columns.collect()
}

fn plan(settings: &Json, library: &dyn Library) -> (Vec<Planned>, Vec<Problem>) {
    let Some(declared) = settings
        .get("tables")
        .and_then(Json::as_object)
        .filter(|t| !t.is_empty())
    else {
        let problem = Problem::at(&["tables"], "an analyze stage needs at least one table")
            .hint("write, for example, `tables: {cells: {operator: cell-summary}}`");
        return (Vec::new(), vec![problem]);
    };
    let names = order(declared);
    let operators: Vec<&str> = ALL.iter().map(|o| o.name()).collect();
    let (mut planned, mut problems) = (Vec::new(), Vec::new());
    let (mut earlier, mut broken) = (BTreeMap::<String, Vec<Spec>>::new(), Vec::new());
    let (axes, mut known_keys) = (library.axes(), Keys::new());
    for (i, (name, value)) in names
        .iter()
        .filter_map(|name| declared.get_key_value(name))
        .enumerate()
    {
        let route = [Step::Key("tables".to_owned()), Step::Key(name.clone())];
        let mut values = value.as_object().cloned().unwrap_or_default();
        let named = values.shift_remove("operator");
        let settings = Settings {
            values,
            route: &route,
            what: format!("table `{name}`"),
        };
        let mut mistakes = Vec::new();
        if !is_name(name) {
            mistakes.push(
                settings
                    .problem(&[], format!("`{name}` is not a valid name for a table"))
                    .hint("use lower-case letters, digits and underscores, at most 64"),
            );
        }
        let named = named.as_ref().and_then(Json::as_str);
        // A table with a `file` needs no operator.
        let named = named.or_else(|| settings.values.contains_key("file").then_some(PUBLISHED));
        match (named, named.and_then(operator)) {
            (_, Some(operator)) => {
                let scope = Scope {
                    earlier: &earlier,
                    broken: &broken,
                    later: &names[i..],
                    keys: &known_keys,
                    library,
                };
                match operator.plan(&settings, &scope) {
                    Ok(plan) => {
                        let (what, given) = (operator.name(), &plan.parameters);
                        // The keys of a table with errors are unknown.
                        let reads = sources(given, declared);
                        if !reads.iter().any(|table| broken.contains(table)) {
                            mistakes.extend(keys::unknown(
                                what,
                                given,
                                &settings,
                                &axes,
                                &known_keys,
                            ));
                        }
                        let own = keys::keys(what, given, &axes, &known_keys);
                        known_keys.insert(name.clone(), own);
                        earlier.insert(name.clone(), plan.columns);
                        let (name, operator) = (name.clone(), operator.name().to_owned());
                        planned.push(Planned {
                            name,
                            operator,
                            parameters: plan.parameters,
                        });
                    }
                    Err(more) => mistakes.extend(more),
                }
            }
            (Some(wrong), None) => mistakes.push(
                settings
                    .problem(
                        &[Step::Key("operator".to_owned())],
                        format!("unknown operator `{wrong}`"),
                    )
                    .hint(remedy(wrong, "operators", &operators)),
            ),
            (None, None) => mistakes.push(
                settings
                    .problem(
                        &[],
                        format!("table `{name}` needs an `operator`, or a `file`"),
                    )
                    .hint(format!("operators are: {}", operators.join(", "))),
            ),
        }
        if !mistakes.is_empty() {
            broken.push(name.clone());
            problems.extend(mistakes);
        }
    }
    (planned, problems)
}

/// The longest name of a table in bytes. The table becomes a file, and a companion has the same name and an ending.
const LONGEST_NAME: usize = 64;

fn is_name(name: &str) -> bool {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(word)
}

/// Returns the tables of canonical parameters, each after the tables it is made from.
///
/// # Errors
/// If the parameters hold no tables.
pub(crate) fn planned(parameters: &Json) -> Result<Vec<Planned>, Failure> {
    let tables = parameters.get("tables").cloned();
    tables
        .and_then(|t| serde_json::from_value(t).ok())
        .ok_or_else(|| Failure::failed("the canonical parameters hold no tables"))
}

/// Makes the tables of one cell: a pure function of the parameters, the inputs and the seed.
pub(crate) fn run(
    parameters: &Json,
    inputs: &[Input],
    files: Files<'_>,
    seed: u64,
    control: &Control,
) -> Result<Done, Failure> {
    let hold = intake::HOLD;
    run_holding(parameters, inputs, files, seed, control, hold, false)
}

/// Shows progress: the table in the making.
struct Shown<'a> {
    control: &'a Control,
    at: u64,
    total: u64,
}

impl Witness for Shown<'_> {
    fn starts(&mut self, table: &Planned) -> Result<(), Failure> {
        let what = format!("table {}", table.name);
        self.control.progress(self.at, Some(self.total), what);
        self.at += 1;
        Ok(())
    }
}

/// As `run`, with a given bound on the bytes of rows held in memory, which affects only the time taken, and for a dry
/// run on request.
pub(crate) fn run_holding(
    parameters: &Json,
    inputs: &[Input],
    files: Files<'_>,
    seed: u64,
    control: &Control,
    hold: u64,
    rehearsal: bool,
) -> Result<Done, Failure> {
    let store = files.store;
    let planned = planned(parameters)?;
    let published = planned.iter().any(|table| table.operator == PUBLISHED);
    let loads = match published && inputs.is_empty() {
        true => Vec::new(),
        false => intake::loads(inputs, store, control, hold, diagnoses(&planned))?,
    };
    let programs = intake::programs(inputs, store);
    let surroundings = Surroundings::new(&loads);
    let mut tables: BTreeMap<String, Frame> = BTreeMap::new();
    let mut done = Done::default();
    let maker = Maker {
        loads: &loads,
        programs: &programs,
        surroundings: &surroundings,
        seed,
        control,
        files: Some(files),
        shares: &Shares::of(parameters),
        absent: 0,
        rehearsal,
    };
    let mut progress = Shown {
        control,
        at: 0,
        total: planned.len() as u64,
    };
    maker.make(
        &planned.iter().collect::<Vec<_>>(),
        &mut tables,
        &mut progress,
    )?;
    // Each table is laid out separately, in parallel; the outputs are in the order of the tables.
    let outputs = |table: &Planned| {
        let mut notes = table.parameters.clone();
        notes.sort_all_objects();
        let (rows, lineage) = tables[&table.name].tables(&table.operator, &notes.to_string())?;
        let lineage = Output::table(format!("{}.lineage", table.name), &lineage)?;
        Ok([Output::table(&table.name, &rows)?, lineage])
    };
    let outputs: Vec<Result<[Output; 2], Failure>> = planned.par_iter().map(outputs).collect();
    for pair in outputs {
        done.outputs.extend(pair?);
    }
    for table in &planned {
        done.outputs.extend(published::file(table, files)?);
    }
    let diagnosed = |load: &Load<'_>, at: &Coordinates| {
        let mut failed = load.failed.iter().map(|(_, _, rows)| rows.coordinates());
        diagnoses(&planned) && failed.any(|cell| cell == at)
    };
    for load in loads.iter().chain(&programs) {
        for missing in &load.missing {
            let at = Coordinates(missing.at.clone());
            if diagnosed(load, &at) {
                continue;
            }
            let cell = format!("{} {at}", load.stage);
            done.warnings.push(format!(
                "{} does not enter: {}",
                cell.trim_end(),
                missing.why
            ));
        }
    }
    Ok(done)
}
