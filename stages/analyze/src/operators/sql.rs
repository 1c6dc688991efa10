//! `sql`: a query over the tables above it, and over raw rows.

mod mistakes;

use std::collections::{BTreeMap, BTreeSet};

use artifacts::{Column, ColumnData, Ratio, Scalar, Table};
use contract::{TableSpec, column_of_axis};
use pipeline::suggest::{column_remedy, remedy};
use pipeline::{Failure, Problem};
use query::{Database, Expected, Kind, Limits, QueryError, Shape};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::columns::Columns;
use crate::frame::{Frame, Level, Missing, SourceRows, Spec, spans};
use crate::intake::Load;
use crate::operator::{Context, Draft, Reads, Scope, TypedOperator, at};

use self::mistakes::{misnamed, misspelt, no_table};

pub(crate) struct Sql;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("x-other-words" = { "sql": "`query`", "select": "`query`", "statement": "`query`" }))]
pub(crate) struct Parameters {
    /// A single SELECT. It may read earlier tables by name, and the raw rows of a load stage as `"STAGE.requests"`, `"STAGE.chunks"` and the other [tables of a load cell](columns.md), with the axes as columns. Tables
    /// of a [run stage](run.md) are named in the same way.
    query: String,
    /// The result columns that identify a row; none if there is a single row.
    #[serde(default)]
    keys: Vec<String>,
    /// The units of computed columns, by name; a column that only repeats another keeps its own.
    #[serde(default, deserialize_with = "contract::units")]
    #[schemars(with = "BTreeMap<String, contract::UnitText>")]
    units: BTreeMap<String, String>,
    /// What computed columns mean, by name.
    #[serde(default)]
    descriptions: BTreeMap<String, String>,
    /// The two sides of computed columns of ratios, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    ratios: BTreeMap<String, Quotient>,
    /// What a row of the result represents.
    #[serde(default)]
    level: Stands,
}

/// The two sides of a ratio.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Quotient {
    /// What is divided, in words.
    numerator: String,
    /// The base, in words.
    denominator: String,
}

impl Parameters {
    /// The result columns that settings refer to, besides the keys, with the name of the setting.
    fn described(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let units = self.units.keys().map(|name| ("units", name));
        let descriptions = self.descriptions.keys().map(|name| ("descriptions", name));
        units
            .chain(descriptions)
            .chain(self.ratios.keys().map(|name| ("ratios", name)))
    }
}

#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Stands {
    Row,
    Cell,
    #[default]
    Marginal,
    Pooled,
}

impl Stands {
    pub(crate) fn level(self) -> Level {
        match self {
            Self::Row => Level::Row,
            Self::Cell => Level::Cell,
            Self::Marginal => Level::Marginal,
            Self::Pooled => Level::Pooled,
        }
    }
}

/// Returns the remedy for a syntax error at the name of a table that SQL reserves, such as `limit`.
fn reserved(message: &str, shapes: &[Shape]) -> Option<String> {
    let word = message.split("near \"").nth(1)?.split('"').next()?;
    let is_table = shapes.iter().any(|s| s.name.eq_ignore_ascii_case(word));
    let alone = query::check(&format!("select 1 as one from {word}"), shapes);
    let is_reserved = is_table && matches!(alone, Err(QueryError::Sql(..)));
    is_reserved.then(|| {
        format!("`{word}` is a word of SQL: write `\"{word}\"`, or give the table another name")
    })
}

impl TypedOperator for Sql {
    type Parameters = Parameters;
    type Made = Frame;
    const NAME: &'static str = "sql";
    const SUMMARY: &'static str =
        "The answer to an SQL query over earlier tables of the stage and over raw request rows.";
    const SOURCE: &'static str = "\
        The language is SQLite's SELECT, with `quantile(x, p)` (type 7), `median`, `stddev` and `variance` (n − 1) as \
        in the other operators. [The SQL page](sql.md) lists functions and limits.\n\n\
        Rows are sorted by key. In the lineage, every row depends on the whole of each table that the query reads, \
        because SQL gives no finer information.";
    const READS: Reads = Reads::Verified;

    fn plan(given: &mut Parameters, draft: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        let (settings, scope) = (draft.settings, draft.scope);
        let shapes = shapes(&given.query, scope);
        let checked = query::check(&given.query, &shapes).map_err(|error| {
            let mut problem = settings.problem(&at("query"), error.to_string());
            problem.hint = match &error {
                QueryError::NoColumn(name) => {
                    let columns = query::columns(&shapes);
                    Some(column_remedy(&contract::usual_name(name), columns))
                }
                QueryError::Sql(message, _) => reserved(message, &shapes),
                _ => None,
            };
            problem.hint = problem.hint.or_else(|| query::hint(&given.query, &error));
            if let QueryError::NoTable(name) = &error {
                problem = no_table(name, given, draft).unwrap_or(problem);
            }
            vec![match error.part(&given.query) {
                Some(part) => problem.part(&given.query, part),
                None => problem,
            }]
        })?;
        let mut problems = misspelt(&checked.assumed, given, &shapes, settings, scope);
        if problems.is_empty() {
            problems.extend(misnamed(&checked.columns, given, settings));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let columns = checked
            .columns
            .iter()
            .filter(|c| !given.keys.contains(&c.name));
        let own = |c: &Expected| spec(&c.name, c.kind, (&c.unit, &c.description, &c.ratio), given);
        Ok(columns.map(own).collect())
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Frame, Failure> {
        let mut sources = Sources::new()?;
        sources.fill(&query::mentioned(&given.query), context)?;
        let limits = Limits {
            deadline: context.control.deadline(),
            stop: Some(context.control.stop_flag()),
            ..Limits::default()
        };
        let answer = sources
            .database
            .select(&given.query, &limits)
            .map_err(|error| {
                if error == QueryError::Stopped
                    && let Err(stopped) = context.control.check()
                {
                    return stopped;
                }
                sources.explain(&error, context)
            })?;
        frame(given, &answer, &sources)
    }
}

/// The only column of a table whose columns are unknown.
const UNKNOWN: &str = "unknown columns";

/// Returns the tables that a query may read, as far as planning knows them.
fn shapes(query: &str, scope: &Scope<'_>) -> Vec<Shape> {
    let mentioned = query::mentioned(query);
    let mut shapes: Vec<Shape> = Vec::new();
    for (name, specs) in scope
        .earlier
        .iter()
        .filter(|(name, _)| mentioned.contains(*name))
    {
        let columns = specs.iter().map(Spec::empty_column).collect();
        shapes.push(Shape {
            name: name.clone(),
            columns,
            open: true,
        });
    }
    for name in scope.broken.iter().filter(|name| mentioned.contains(*name)) {
        shapes.push(Shape {
            name: name.clone(),
            columns: Vec::new(),
            open: true,
        });
    }
    for table in contract::LOAD_TABLES {
        let raw = |name: &&String| name.rsplit_once('.').is_some_and(|(_, o)| o == table.name);
        for name in mentioned.iter().filter(raw) {
            shapes.push(Shape {
                name: name.clone(),
                columns: table.empty_columns(),
                open: true,
            });
        }
    }
    // Which stage has this table is known only when the stages are connected. A table of this stage may have the name of
    // a program's, because both are named differently here.
    let names: Vec<&str> = contract::LOAD_TABLES
        .iter()
        .map(|table| table.name)
        .collect();
    let of_program = |name: &&String| {
        name.rsplit_once('.')
            .is_some_and(|(stage, output)| !stage.is_empty() && !names.contains(&output))
    };
    for name in mentioned.iter().filter(of_program) {
        if shapes.iter().all(|shape| shape.name != *name) {
            shapes.push(Shape {
                name: name.clone(),
                columns: Vec::new(),
                open: true,
            });
        }
    }
    for shape in shapes.iter_mut().filter(|s| s.columns.is_empty()) {
        // The table is unknown, and a table needs a column.
        shape
            .columns
            .push(Column::new(UNKNOWN, ColumnData::Int(Vec::new())));
    }
    shapes
}

/// A column's metadata: unit, meaning, sides.
type Own<'a> = (&'a Option<String>, &'a Option<String>, &'a Option<Ratio>);

fn spec(name: &str, kind: Option<Kind>, own: Own<'_>, given: &Parameters) -> Spec {
    let unit = given
        .units
        .get(name)
        .or(own.0.as_ref())
        .cloned()
        .unwrap_or_default();
    let description = given
        .descriptions
        .get(name)
        .or(own.1.as_ref())
        .filter(|d| !d.is_empty())
        .cloned();
    let description = description.unwrap_or_else(|| "as the query computes it".to_owned());
    let mut spec = match kind {
        Some(Kind::Int) => Spec::int(name, &unit, description),
        Some(Kind::Text) => Spec::text(name, description),
        Some(Kind::Bool) => Spec::boolean(name, description),
        // Until the rows are known, an unknown type counts as a number.
        Some(Kind::Float) | None => Spec::float(name, &unit, description),
    };
    let declared = |q: &Quotient| Ratio {
        numerator: q.numerator.clone(),
        denominator: q.denominator.clone(),
    };
    spec.ratio = given
        .ratios
        .get(name)
        .map(declared)
        .or_else(|| own.2.clone());
    spec
}

/// The tables that a query may read, and the location of their rows.
struct Sources {
    database: Database,
    /// All rows of each table, and its missing cells.
    rows: BTreeMap<String, (Vec<SourceRows>, Vec<Missing>)>,
}

impl Sources {
    fn new() -> Result<Self, Failure> {
        let database = Database::new().map_err(|e| Failure::failed(e.to_string()))?;
        Ok(Self {
            database,
            rows: BTreeMap::new(),
        })
    }

    fn fill(&mut self, mentioned: &BTreeSet<String>, context: &Context<'_>) -> Result<(), Failure> {
        for (name, frame) in context
            .tables
            .iter()
            .filter(|(name, _)| mentioned.contains(*name))
        {
            let (table, _) = frame.tables("", "")?;
            self.add(
                name,
                &table,
                spans(name, 0..table.rows()),
                frame.missing.clone(),
            )?;
        }
        for load in context.loads {
            for spec in contract::LOAD_TABLES {
                let name = format!("{}.{}", load.stage, spec.name);
                if mentioned.contains(&name.to_lowercase()) {
                    let (table, spans) = raw_table(load, spec.name, Some(spec))?;
                    self.add(&name, &table, spans, load.missing.clone())?;
                }
            }
        }
        for program in context.programs {
            for output in program.tables() {
                let name = format!("{}.{output}", program.stage);
                if mentioned.contains(&name.to_lowercase()) {
                    let (table, spans) = raw_table(program, &output, None)?;
                    self.add(&name, &table, spans, program.missing.clone())?;
                }
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        name: &str,
        table: &Table,
        spans: Vec<SourceRows>,
        missing: Vec<Missing>,
    ) -> Result<(), Failure> {
        self.database
            .add(name, table)
            .map_err(|e| Failure::failed(e.to_string()))?;
        self.rows.insert(name.to_owned(), (spans, missing));
        Ok(())
    }

    fn explain(&self, error: &QueryError, context: &Context<'_>) -> Failure {
        let failure = Failure::failed(error.to_string());
        match error {
            QueryError::NoTable(name) => {
                let own = name.rsplit_once('.').map(|(_, table)| table);
                if let Some(own) = own.filter(|own| context.tables.contains_key(*own)) {
                    return failure.hint(format!(
                        "write `{own}`: a table of the same stage is named without the stage"
                    ));
                }
                let raw = context.loads.iter().flat_map(|load| {
                    let tables = contract::LOAD_TABLES.iter();
                    tables.map(|spec| format!("{}.{}", load.stage, spec.name))
                });
                let of_programs = context.programs.iter().flat_map(|program| {
                    let tables = program.tables().into_iter();
                    tables.map(|output| format!("{}.{output}", program.stage))
                });
                let names: Vec<String> = context
                    .tables
                    .keys()
                    .cloned()
                    .chain(raw)
                    .chain(of_programs)
                    .collect();
                failure.hint(remedy(name, "tables", names))
            }
            QueryError::NoColumn(name) => failure.hint(column_remedy(
                &contract::usual_name(name),
                self.database.columns_by_table(),
            )),
            _ => failure,
        }
    }
}

/// Returns the raw rows of all cells in one table, preceded by their axes.
fn raw_table(
    load: &Load,
    output: &str,
    spec: Option<&TableSpec>,
) -> Result<(Table, Vec<SourceRows>), Failure> {
    let wrong =
        |e: artifacts::TableError| Failure::failed(format!("rows of `{}`: {e}", load.stage));
    let (mut tables, mut spans_of_all, mut axes) =
        (Vec::new(), Vec::new(), vec![Vec::new(); load.axes.len()]);
    for (at, cell) in &load.cells {
        let Some((source, table)) = cell.table(output)? else {
            continue;
        };
        let table = match spec {
            Some(spec) => spec.view(&table).map_err(wrong)?,
            None => table,
        };
        for (values, value) in axes.iter_mut().zip(at) {
            values.extend(std::iter::repeat_n(value.clone(), table.rows()));
        }
        spans_of_all.extend(spans(source, 0..table.rows()));
        tables.push(table);
    }
    let mut columns = Vec::new();
    let names = tables.first().map(Table::names).unwrap_or_default();
    for (axis, values) in load.axes.iter().zip(&axes) {
        columns.push(
            Column::from_scalars(column_of_axis(axis, &load.axes, &names), values)
                .map_err(wrong)?
                .describe("axis"),
        );
    }
    for name in names {
        let mut parts = tables.iter().map(|t| t.column(&name));
        let Some(first) = parts.next() else { continue };
        let mut whole = first.map_err(wrong)?;
        for part in parts {
            extend(&mut whole.data, part.map_err(wrong)?.data).map_err(|()| {
                let message = format!("the cells of `{}` have other types in `{name}`", load.stage);
                Failure::failed(message)
            })?;
        }
        columns.push(whole);
    }
    // If no cell has it, the columns of a load cell's table are still known: a query then finds no rows.
    if let (true, Some(spec)) = (tables.is_empty(), spec) {
        columns.extend(spec.empty_columns());
    }
    if columns.is_empty() {
        return Err(Failure::failed(format!(
            "no cell of `{}` has a table `{output}`",
            load.stage
        )));
    }
    Ok((Table::new(columns).map_err(wrong)?, spans_of_all))
}

/// Appends values of the same type. Both come from one definition of the columns, unless a study gives the cells of a
/// program different ones.
fn extend(all: &mut ColumnData, more: ColumnData) -> Result<(), ()> {
    match (all, more) {
        (ColumnData::Int(all), ColumnData::Int(more)) => all.extend(more),
        (ColumnData::Float(all), ColumnData::Float(more)) => all.extend(more),
        (ColumnData::Text(all), ColumnData::Text(more)) => all.extend(more),
        (ColumnData::Bool(all), ColumnData::Bool(more)) => all.extend(more),
        _ => return Err(()),
    }
    Ok(())
}

/// Turns the answer into a derived table.
fn frame(given: &Parameters, answer: &query::Answer, sources: &Sources) -> Result<Frame, Failure> {
    let table = &answer.table;
    let wrong = |e: artifacts::TableError| Failure::failed(e.to_string());
    let names = table.names();
    let name_list: Vec<&str> = names.iter().map(String::as_str).collect();
    for name in given
        .keys
        .iter()
        .chain(given.described().map(|(_, name)| name))
    {
        if !names.contains(name) {
            return Err(
                Failure::failed(format!("the query returns no column `{name}`"))
                    .hint(remedy(name, "columns", &name_list)),
            );
        }
    }
    if given.keys.is_empty() && table.rows() > 1 {
        return Err(
            Failure::failed("the query returns several rows, but no `keys` identify them")
                .hint("name the columns that name a row with `keys`"),
        );
    }
    let values: Vec<&String> = names.iter().filter(|n| !given.keys.contains(n)).collect();
    let mut columns = Columns::new();
    for name in values {
        let column = table.column(name).map_err(wrong)?;
        let kind = match column.data {
            ColumnData::Int(_) => Kind::Int,
            ColumnData::Float(_) => Kind::Float,
            ColumnData::Text(_) => Kind::Text,
            ColumnData::Bool(_) => Kind::Bool,
        };
        let own = (&column.unit, &column.description, &column.ratio);
        columns.push(spec(name, Some(kind), own, given), |row: &usize| {
            table.value(name, *row).ok()
        });
    }
    let (mut lineage, mut missing) = (Vec::new(), Vec::<Missing>::new());
    for (spans, gone) in answer.read.iter().filter_map(|name| sources.rows.get(name)) {
        lineage.extend(spans.iter().cloned());
        for cell in gone {
            if !missing.contains(cell) {
                missing.push(cell.clone());
            }
        }
    }
    let mut rows = Vec::new();
    for row in 0..table.rows() {
        let key = given.keys.iter().map(|name| table.value(name, row));
        let key = key.collect::<Result<Vec<Scalar>, _>>().map_err(wrong)?;
        rows.push(columns.row(key, &row, lineage.clone()));
    }
    Ok(Frame {
        level: given.level.level(),
        keys: given.keys.clone(),
        specs: columns.specs(),
        rows,
        missing,
    })
}
