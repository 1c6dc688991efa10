//! The settings of a report stage, and their canonical form.

mod figures;

use std::collections::BTreeMap;
use std::path::Path;

use pipeline::stage::{Json, Library, Problem, Step};
use pipeline::suggest::remedy;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use self::figures::{check_figure, required_by_kind};
use crate::claims::Claim;
use crate::flaws::flaws;
use crate::format::check_format;
use crate::said::wrong_in_title;
use crate::template::{Template, closure};

/// The settings as written.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(title = "Report settings")]
#[schemars(extend("x-other-words" = {
    "format": "not needed: a report is written as `report.md` and as `report.html`",
    "formats": "not needed: a report is written as `report.md` and as `report.html`",
    "output": "given when you run: `benchtrail run EXPERIMENT --report FILE`",
    "out": "given when you run: `benchtrail run EXPERIMENT --report FILE`",
    "file": "given when you run: `benchtrail run EXPERIMENT --report FILE`",
}))]
pub(crate) struct Settings {
    /// The template, from the collection `templates`; `report.md` if absent, which renders any
    /// experiment.
    #[serde(default = "generic")]
    pub(crate) template: String,
    /// The report's title; the experiment's title if absent. May hold template expressions.
    #[serde(default)]
    pub(crate) title: Option<String>,
    /// Tables by name, for `{{ table("name") }}`.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, TableSettings>")]
    pub(crate) tables: serde_json::Map<String, Json>,
    /// Figures by name, for `{{ figure("name") }}`.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, FigureSettings>")]
    pub(crate) figures: serde_json::Map<String, Json>,
    /// Numbers and words that the report may contain without a value from an artifact, each with the reason.
    #[serde(default)]
    pub(crate) literals: Vec<Literal>,
    /// The claims it judges, from the collection `claims`; all of them if absent.
    #[serde(default)]
    pub(crate) claims: Option<Vec<String>>,
}

/// The canonical parameters.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Parameters {
    /// The title, if the stage sets one.
    pub title: Option<String>,
    /// The main template first, then everything it includes.
    pub templates: Vec<Template>,
    /// The tables, in the order of declaration.
    pub tables: Vec<Named<TableSettings>>,
    /// The figures, in the order of declaration.
    pub figures: Vec<Named<FigureSettings>>,
    /// Numbers and words that may be typed.
    pub literals: Vec<Literal>,
    /// The claims to judge.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Named<Claim>>,
}

/// A declaration and its name.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Named<T> {
    /// The name.
    pub name: String,
    /// The declared settings.
    pub settings: T,
}

/// A number or a word that the report may contain without a value from an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Literal {
    /// The text as it is in the report, for example `two-sided`.
    pub text: String,
    /// Why it needs no artifact, for example "a name, not a quantity".
    pub reason: String,
}

/// One value, or a list of which one must match.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OneOrMany {
    /// One of these.
    Many(Vec<Json>),
    /// This.
    One(Json),
}

/// A table of the report.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("x-other-words" = {
    "table": "`from`", "only": "`where`", "filter": "`where`", "sort": "`order`", "sort-by": "`order`", "order-by": "`order`",
    "title": "`caption`",
    "limit": "left to a table of the analysis: the operator `sql` with `order by … limit N`",
    "top": "left to a table of the analysis: the operator `sql` with `order by … limit N`",
    "head": "left to a table of the analysis: the operator `sql` with `order by … limit N`",
}))]
pub struct TableSettings {
    /// The table to show, as `stage.output`.
    pub from: String,
    /// The columns, from left to right; with `pivot` those that name its rows.
    #[serde(deserialize_with = "columns")]
    #[schemars(with = "Vec<ColumnForm>")]
    pub columns: Vec<ColumnSettings>,
    /// Values of one column side by side, as columns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Pivot")]
    pub pivot: Option<Pivot>,
    /// Only rows with these values: `{COLUMN: VALUE}`, or several values as a list.
    #[serde(default, rename = "where")]
    pub only: BTreeMap<String, OneOrMany>,
    /// Columns to sort by; a leading `-` means descending.
    #[serde(default)]
    pub order: Vec<String>,
    /// The caption; may hold template expressions.
    pub caption: String,
    /// The text to show if there are no rows.
    #[serde(default)]
    pub empty: Option<String>,
    /// The reason why missing cells are not listed in footnotes; the report states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_footnotes: Option<String>,
}

impl TableSettings {
    /// Returns the columns that it reads from its table, each behind the route of the setting that names it.
    pub(crate) fn columns_read(&self) -> Vec<(Vec<Step>, &str)> {
        let columns = columns_of(&[key("columns")], &self.columns);
        let pivot = self.pivot.iter().flat_map(|pivot| {
            let values = columns_of(&[key("pivot"), key("values")], &pivot.values);
            let by = (vec![key("pivot"), key("by")], pivot.by.as_str());
            std::iter::once(by).chain(values)
        });
        let order = self.order.iter().enumerate().map(|(i, column)| {
            let name = column.strip_prefix('-').unwrap_or(column);
            (vec![key("order"), Step::Index(i)], name)
        });
        let columns = columns.into_iter().chain(pivot).chain(order);
        columns.chain(conditions(&self.only)).collect()
    }
}

/// Which values of a table are shown side by side.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Pivot {
    /// The column whose values become columns, in the order of the rows.
    pub by: String,
    /// What is shown for each of them.
    #[serde(deserialize_with = "columns")]
    #[schemars(with = "Vec<ColumnForm>")]
    pub values: Vec<ColumnSettings>,
    /// The word where the table has no row.
    #[serde(default = "no_row")]
    pub absent: String,
}

fn no_row() -> String {
    "–".to_owned()
}

/// A column of a table of the report.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("x-other-words" = {
    "name": "`column`", "field": "`column`", "key": "`column`",
    "title": "`heading`", "label": "`heading`", "header": "`heading`", "alias": "`heading`",
    "digits": "`format`, such as `\"0.00\"`", "precision": "`format`, such as `\"0.00\"`",
    "unit": "left out: a table shows the unit of its column",
}))]
pub struct ColumnSettings {
    /// The column of the artifact.
    pub column: String,
    /// The heading; the column's own name and unit if absent.
    #[serde(default)]
    pub heading: Option<String>,
    /// The format.
    #[serde(default)]
    pub format: String,
    /// The word for null.
    #[serde(default = "not_available")]
    pub null: String,
    /// A second column: the cell then shows an interval, `[low, high]`.
    #[serde(default)]
    pub to: Option<String>,
}

fn key(key: &str) -> Step {
    Step::Key(key.to_owned())
}

/// Returns the columns that a list of columns names, each behind its route.
fn columns_of<'a>(route: &[Step], columns: &'a [ColumnSettings]) -> Vec<(Vec<Step>, &'a str)> {
    let mut names = Vec::new();
    for (i, column) in columns.iter().enumerate() {
        let at = |name: &str| [route, &[Step::Index(i), key(name)]].concat();
        names.push((at("column"), column.column.as_str()));
        names.extend(column.to.as_deref().map(|to| (at("to"), to)));
    }
    names
}

/// Returns the columns of a condition, each behind its route.
fn conditions(only: &BTreeMap<String, OneOrMany>) -> impl Iterator<Item = (Vec<Step>, &str)> {
    let columns = only.keys();
    columns.map(|column| (vec![key("where"), key(column)], column.as_str()))
}

/// A column of a table of the report, as written.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum ColumnForm {
    /// The name of the column of the artifact; everything else is as usual.
    Name(String),
    /// The column and how to show it.
    Column(ColumnSettings),
}

fn columns<'de, D: Deserializer<'de>>(written: D) -> Result<Vec<ColumnSettings>, D::Error> {
    let written = Vec::<ColumnForm>::deserialize(written)?;
    let column = |form| match form {
        ColumnForm::Name(column) => ColumnSettings {
            column,
            heading: None,
            format: String::new(),
            null: not_available(),
            to: None,
        },
        ColumnForm::Column(column) => column,
    };
    Ok(written.into_iter().map(column).collect())
}

fn generic() -> String {
    "report.md".to_owned()
}

/// The default word for null.
pub(crate) fn not_available() -> String {
    "n/a".to_owned()
}

/// What a figure shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(extend("x-other-words" = crate::figure_words::words_for_kinds()))]
pub enum FigureKind {
    /// Lines over a ladder of loads (logarithmic x), one per series, with bands.
    Ladder,
    /// The empirical distribution of a column, one curve per series.
    Ecdf,
    /// A grid of coloured cells with their values.
    HeatMap,
    /// Estimates with intervals, one per row, against a reference.
    Forest,
    /// A grid of thresholds, such as the load at which each pair breaks; null has a word.
    Matrix,
    /// Bars from zero, one per group or one for each series in it, with intervals as whiskers.
    Bar,
    /// Quartiles, whiskers and the points themselves, one box per group.
    Box,
    /// A trade-off of two columns; the area of a bubble shows a third.
    Bubble,
    /// Two columns against each other, one mark per row, and the frontier of the best marks.
    Scatter,
    /// A column over time, the cells of its stage side by side, each marked.
    Timeline,
    /// Points and the curve that the operator `fit` found for them.
    Fit,
}

/// A figure of the report.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("x-other-words" = {
    "from": "`table`", "data": "`table`", "only": "`where`", "filter": "`where`", "hue": "`series`", "color": "`series`", "colour": "`series`",
    "group": "`series`", "type": "`kind`", "facets": "`facet`", "panel": "`facet`",
}, "allOf" = required_by_kind()))]
pub struct FigureSettings {
    /// What it shows.
    pub kind: FigureKind,
    /// The table to show, as `stage.output`.
    pub table: String,
    /// The column of the horizontal axis.
    #[schemars(extend("x-several" = "a figure shows one column: declare a figure for each"))]
    pub x: String,
    /// The column of the vertical axis (heat map, matrix: rows; forest: labels).
    #[serde(default)]
    #[schemars(extend("x-several" = "a figure shows one column: declare a figure for each"))]
    pub y: Option<String>,
    /// The column of the value (heat map, matrix) or of the area (bubble).
    #[serde(default)]
    #[schemars(extend("x-several" = "a figure shows one column: declare a figure for each"))]
    pub value: Option<String>,
    /// The column whose values are the curves.
    #[serde(default)]
    pub series: Option<String>,
    /// The column whose values are panels side by side.
    #[serde(default)]
    pub facet: Option<String>,
    /// The columns of the lower and upper end of the band or interval.
    #[serde(default)]
    pub band: Option<[String; 2]>,
    /// A column drawn as a dashed reference (ladder), or a reference value (forest).
    #[serde(default)]
    pub reference: Option<Json>,
    /// What the reference is, for the legend.
    #[serde(default)]
    pub reference_label: Option<String>,
    /// Only rows with these values: `{COLUMN: VALUE}`, or several values as a list.
    #[serde(default, rename = "where")]
    pub only: BTreeMap<String, OneOrMany>,
    /// The title; may hold template expressions.
    pub title: String,
    /// The caption; may hold template expressions.
    pub caption: String,
    /// The label of the horizontal axis; column and unit if absent.
    #[serde(default)]
    pub x_label: Option<String>,
    /// The label of the vertical axis; column and unit if absent.
    #[serde(default)]
    pub y_label: Option<String>,
    /// A logarithmic horizontal axis.
    #[serde(default)]
    pub log_x: bool,
    /// A logarithmic vertical axis (ladder, box, scatter). It needs values above 0.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub log_y: bool,
    /// The better direction of `x` and of `y` (scatter). A line joins the marks that no other mark
    /// beats in both; the others are hollow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frontier: Option<[contract::Better; 2]>,
    /// The table of the operator `fit`, as `stage.output` (fit).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fit: Option<String>,
    /// The column written beside each bubble.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The word for null: `never` if absent in a matrix, `n/a` in a heat map.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub null: Option<String>,
    /// The format of values written into the figure.
    #[serde(default)]
    pub format: String,
    /// The reason why missing cells are not listed in footnotes; the report states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_footnotes: Option<String>,
}

impl FigureSettings {
    /// Returns the columns that it reads from its table, each behind the route of the setting that names it.
    pub(crate) fn columns_read(&self) -> Vec<(Vec<Step>, &str)> {
        let reference = match (self.kind, &self.reference) {
            (FigureKind::Ladder, Some(Json::String(column))) => Some(column.as_str()),
            _ => None,
        };
        let named = [
            ("y", &self.y),
            ("value", &self.value),
            ("series", &self.series),
            ("facet", &self.facet),
            ("label", &self.label),
        ];
        let named = named
            .into_iter()
            .filter_map(|(name, column)| Some((vec![key(name)], column.as_deref()?)));
        let band = self.band.iter().flatten().enumerate();
        let band = band.map(|(i, column)| (vec![key("band"), Step::Index(i)], column.as_str()));
        std::iter::once((vec![key("x")], self.x.as_str()))
            .chain(named)
            .chain(reference.map(|column| (vec![key("reference")], column)))
            .chain(band)
            .chain(conditions(&self.only))
            .collect()
    }
}

/// Converts settings to canonical parameters, or returns every mistake.
pub(crate) fn canonical(
    settings: &Json,
    library: &dyn Library,
) -> Result<Parameters, Vec<Problem>> {
    let settings: Settings = serde_json::from_value(settings.clone())
        .map_err(|e| vec![Problem::at(&[], e.to_string())])?;
    let mut problems = Vec::new();
    let find = |name: &str| library.find("templates", name)?.as_str().map(str::to_owned);
    let templates = match closure(&settings.template, &find) {
        Ok(templates) => templates,
        Err(wrong) => {
            let template_names = library.names("templates");
            // Template parts are suggested only where one of them is included.
            let offered = |part: bool| {
                template_names
                    .iter()
                    .filter(move |n| part || !n.contains('/') && *n != "macros.md")
            };
            problems.extend(wrong.into_iter().map(|wrong| {
                let problem = match wrong.place {
                    Some((template, part)) => Problem::at(&[], wrong.message)
                        .part(&template.text, part)
                        .in_definition("templates", &template.name),
                    None => Problem::at(&["template"], wrong.message),
                };
                let Some(name) = wrong.missing else {
                    return Problem {
                        hint: wrong.hint,
                        ..problem
                    };
                };
                // `templates/mine.md` and `mine`: templates are named as in their folder.
                let own = name.strip_prefix("./").unwrap_or(&name);
                let own = own.strip_prefix("templates/").unwrap_or(own);
                let whole = [own.to_owned(), format!("{own}.md")];
                if let Some(meant) = whole.iter().find(|whole| template_names.contains(whole)) {
                    return problem.hint(format!("write `{meant}`: it is found in the folder `templates` beside the experiment"));
                }
                let names = offered(name != settings.template).map(String::as_str);
                let hint = remedy(&name, "templates", names);
                let is_file = Path::new(own).extension().is_some_and(|ending| ending == "md");
                problem.hint(match is_file && !hint.starts_with("did you mean") {
                    true => format!("{hint}; your own is the file templates/{own} beside the experiment"),
                    false => hint,
                })
            }));
            Vec::new()
        }
    };
    let tables = named::<TableSettings>("tables", settings.tables, &mut problems);
    let figures = named::<FigureSettings>("figures", settings.figures, &mut problems);
    for table in &tables {
        let pivoted = table.settings.pivot.iter().flat_map(|pivot| &pivot.values);
        for column in table.settings.columns.iter().chain(pivoted) {
            if let Err(error) = check_format(&column.format) {
                let message = error.to_string();
                problems.push(Problem::at(&["tables", &table.name, "columns"], message));
            }
        }
    }
    texts_that_do_not_parse(settings.title.as_ref(), &tables, &figures, &mut problems);
    for figure in &figures {
        check_figure(figure, &mut problems);
        // `ref("name")` and the numbering could not distinguish them.
        if tables.iter().any(|t| t.name == figure.name) {
            let message = format!(
                "a table is also named `{}`; give them different names",
                figure.name
            );
            problems.push(Problem::at(&["figures", &figure.name], message));
        }
    }
    for literal in &settings.literals {
        if literal.reason.trim().is_empty() || literal.text.trim().is_empty() {
            problems.push(Problem::at(
                &["literals"],
                "a literal needs its text and a reason",
            ));
        }
    }
    let claims = claims(settings.claims, library, &mut problems);
    for (key, text) in library.texts() {
        // A title of the report's own is checked where it is rendered.
        if key != "title" || settings.title.is_none() {
            problems.extend(wrong_in_title(key, &text));
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(Parameters {
        title: settings.title,
        templates,
        tables,
        figures,
        literals: settings.literals,
        claims,
    })
}

/// Reports titles and captions that do not parse as templates.
fn texts_that_do_not_parse(
    title: Option<&String>,
    tables: &[Named<TableSettings>],
    figures: &[Named<FigureSettings>],
    problems: &mut Vec<Problem>,
) {
    let title = title.into_iter().map(|title| (vec!["title"], title));
    let tables = tables.iter().map(|table| {
        let route = vec!["tables", table.name.as_str(), "caption"];
        (route, &table.settings.caption)
    });
    let figures = figures.iter().flat_map(|figure| {
        let route = |key| vec!["figures", figure.name.as_str(), key];
        let settings = &figure.settings;
        [
            (route("title"), &settings.title),
            (route("caption"), &settings.caption),
        ]
    });
    for (route, text) in title.chain(tables).chain(figures) {
        for flaw in flaws(text) {
            let problem = Problem::at(&route, flaw.message).part(text, flaw.part);
            problems.push(Problem {
                hint: flaw.hint,
                ..problem
            });
        }
    }
}

fn claims(
    names: Option<Vec<String>>,
    library: &dyn Library,
    problems: &mut Vec<Problem>,
) -> Vec<Named<Claim>> {
    let mut claims = Vec::new();
    for name in names.unwrap_or_else(|| library.names("claims")) {
        let Some(definition) = library.find("claims", &name) else {
            let names = library.names("claims");
            let hint = match names.is_empty() {
                true => "declare it in the experiment, `claims: {NAME: {says: TEXT, rule: {…}}}`, and give its name here"
                    .to_owned(),
                false => remedy(&name, "claims", names.iter().map(String::as_str)),
            };
            problems.push(Problem::at(&["claims"], format!("no claim `{name}`")).hint(hint));
            continue;
        };
        match serde_json::from_value::<Claim>(definition) {
            Ok(settings) => match settings.check() {
                Ok(()) => claims.push(Named { name, settings }),
                Err(message) => {
                    problems.push(Problem::at(
                        &["claims"],
                        format!("claim `{name}`: {message}"),
                    ));
                }
            },
            Err(error) => {
                problems.push(Problem::at(&["claims"], format!("claim `{name}`: {error}")));
            }
        }
    }
    claims
}

fn named<T: serde::de::DeserializeOwned>(
    section: &str,
    map: serde_json::Map<String, Json>,
    problems: &mut Vec<Problem>,
) -> Vec<Named<T>> {
    let mut entries = Vec::new();
    for (name, value) in map {
        match serde_json::from_value(value) {
            Ok(settings) => entries.push(Named { name, settings }),
            Err(error) => problems.push(Problem::at(&[section, &name], error.to_string())),
        }
    }
    entries
}

/// Returns the name of the output that holds a figure.
pub(crate) fn figure_output(name: &str) -> String {
    format!("figures/{name}.svg")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_that_is_only_a_name_is_the_column_with_its_usual_settings() {
        let table = |columns: Json| -> Json {
            let written = serde_json::json!({"from": "a.b", "caption": "c", "columns": columns,
                "pivot": {"by": "d", "values": columns}});
            let read: TableSettings = serde_json::from_value(written).unwrap();
            serde_json::to_value(read).unwrap()
        };
        let short = table(serde_json::json!(["a", {"column": "b", "format": "0.0"}]));
        let long = table(serde_json::json!([{"column": "a"}, {"column": "b", "format": "0.0"}]));
        assert_eq!(short, long);
        assert_eq!(short["columns"][0]["null"], not_available());
    }
}
