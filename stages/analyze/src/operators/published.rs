//! `published`: a table that others published, read from a file.

use std::collections::BTreeMap;

use artifacts::{Scalar, Store};
use pipeline::sources::{self, NamedFiles, Unusable};
use pipeline::suggest::remedy;
use pipeline::{Content, Failure, Media, Output, Problem, Step};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tabular::{Field, Format, Sheet, Unreadable, there_are};

use crate::columns::Columns;
use crate::frame::{Frame, SourceRows, Spec, Type};
use crate::kind::Planned;
use crate::operator::{Context, Draft, TypedOperator, items, unless};
use crate::operators::sql::Stands;

pub(crate) struct Published;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The file: `.csv`, `.tsv`, `.json`, `.jsonl` or `.parquet`. A relative path begins at the experiment's folder.
    file: String,
    /// The columns that tell rows apart; none if there is one row.
    #[serde(default)]
    keys: Vec<String>,
    /// The units of columns, by name. In text, a number may have its unit after it: `1637.6 tok/s`.
    #[serde(
        default,
        deserialize_with = "contract::units",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    #[schemars(with = "BTreeMap<String, contract::UnitText>")]
    units: BTreeMap<String, String>,
    /// The meanings of columns, by column.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    descriptions: BTreeMap<String, String>,
    /// Names of columns of the file, each with the name that it has here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    rename: BTreeMap<String, String>,
    /// The columns to take, by their names here; by default, all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    columns: Vec<String>,
    /// Texts that mean null, in addition to empty text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    nulls: Vec<String>,
    /// For JSON whose rows are below keys: the path to them, with dots between the keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rows: Option<String>,
    /// Where the table was published, for readers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    /// What a row represents.
    #[serde(default)]
    level: Stands,
    /// The digest of the file's bytes. Filled in while planning; a file with another one is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
}

/// The columns of a file, as the table reads them.
struct Read {
    sheet: Sheet,
    /// For each key, then each other column: its name in the table, its position in the file, and its type.
    taken: Vec<(String, usize, Type)>,
    keys: usize,
}

/// Converts one field to a scalar of its column's type.
fn scalar(field: &Field, kind: Type) -> Scalar {
    match (field, kind) {
        (Field::Null | Field::Other(_), _) => Scalar::Null,
        (Field::Int(value), Type::Float) => Scalar::Float(*value as f64),
        (Field::Int(value), Type::Int) => Scalar::Int(*value),
        (Field::Float(value), Type::Float) => Scalar::Float(*value),
        (Field::Bool(value), Type::Bool) => Scalar::Bool(*value),
        (value, _) => Scalar::Text(value.to_string()),
    }
}

/// Returns the type that fits all values: whole numbers, numbers, truth values, or else text.
fn kind(fields: &[Field]) -> Type {
    let given = || fields.iter().filter(|f| **f != Field::Null);
    let all = |fits: fn(&Field) -> bool| given().next().is_some() && given().all(fits);
    if all(|f| matches!(f, Field::Int(_))) {
        Type::Int
    } else if all(|f| matches!(f, Field::Int(_) | Field::Float(_))) {
        Type::Float
    } else if all(|f| matches!(f, Field::Bool(_))) {
        Type::Bool
    } else {
        Type::Text
    }
}

/// Parses text as numbers or truth values where the whole column consists of them.
fn typed(fields: &mut [Field], unit: Option<&str>) {
    let number = |f: &Field| match f {
        Field::Text(text) => Field::number(text, unit),
        Field::Null | Field::Int(_) | Field::Float(_) => Some(f.clone()),
        _ => None,
    };
    let truth = |f: &Field| match f {
        Field::Text(text) if text == "true" => Some(Field::Bool(true)),
        Field::Text(text) if text == "false" => Some(Field::Bool(false)),
        Field::Null | Field::Bool(_) => Some(f.clone()),
        _ => None,
    };
    let all = |read: &dyn Fn(&Field) -> Option<Field>| {
        fields.iter().map(read).collect::<Option<Vec<Field>>>()
    };
    if let Some(read) = all(&number).or_else(|| all(&truth)) {
        fields.clone_from_slice(&read);
    }
}

impl Parameters {
    fn sheet(&self, bytes: &[u8]) -> Result<Sheet, Unreadable> {
        let mut sheet = tabular::read(Format::of(&self.file)?, bytes, self.rows.as_deref())?;
        for name in &mut sheet.names {
            if let Some(ours) = self.rename.get(name) {
                name.clone_from(ours);
            }
        }
        let nothing = |f: &Field| match f {
            Field::Text(text) => text.trim().is_empty() || self.nulls.contains(text),
            _ => false,
        };
        for (at, column) in sheet.columns.iter_mut().enumerate() {
            for field in column.iter_mut().filter(|f| nothing(f)) {
                *field = Field::Null;
            }
            typed(column, self.units.get(&sheet.names[at]).map(String::as_str));
        }
        Ok(sheet)
    }

    /// Returns the columns to read from a sheet that planning has checked.
    fn read(&self, sheet: Sheet) -> Read {
        let others = sheet.names.iter().filter(|name| {
            !self.keys.contains(name) && (self.columns.is_empty() || self.columns.contains(name))
        });
        let taken = self.keys.iter().chain(others).filter_map(|name| {
            let at = sheet.position(name)?;
            Some((name.clone(), at, kind(&sheet.columns[at])))
        });
        let taken = taken.collect();
        Read {
            sheet,
            taken,
            keys: self.keys.len(),
        }
    }

    fn spec(&self, (name, at, kind): &(String, usize, Type), sheet: &Sheet) -> Spec {
        let unit = self.units.get(name).or(sheet.units[*at].as_ref());
        let unit = unit.map(String::as_str).unwrap_or_default();
        let theirs = self.rename.iter().find(|(_, ours)| *ours == name);
        let theirs = theirs.map_or(name, |(theirs, _)| theirs);
        let own = || format!("as published: the column `{theirs}` of {}", self.file);
        let description = self.descriptions.get(name).cloned().unwrap_or_else(own);
        match kind {
            Type::Int => Spec::int(name, unit, description),
            Type::Float => Spec::float(name, unit, description),
            Type::Text => Spec::text(name, description),
            Type::Bool => Spec::boolean(name, description),
        }
    }
}

fn columns(given: &Parameters, read: &Read) -> Columns<'static, Vec<Scalar>> {
    let mut columns = Columns::new();
    for (at, column) in read.taken[read.keys..].iter().enumerate() {
        let spec = given.spec(column, &read.sheet);
        columns.push(spec, move |row: &Vec<Scalar>| row[at].clone());
    }
    columns
}

/// Locates and describes an error in a file or in one of its values.
fn place(path: &std::path::Path, error: &Unreadable) -> (String, String) {
    (error.of(&path.display().to_string()), error.hint.clone())
}

/// Finds settings that refer to columns missing from the file.
fn unknown(given: &Parameters, sheet: &Sheet, draft: &Draft<'_>) -> Vec<Problem> {
    let columns: Vec<&str> = sheet.names.iter().map(String::as_str).collect();
    let maps = [
        ("units", &given.units),
        ("descriptions", &given.descriptions),
    ];
    let of_maps = maps.into_iter().flat_map(|(setting, map)| {
        let route =
            move |name: &str| vec![Step::Key(setting.to_owned()), Step::Key(name.to_owned())];
        map.keys().map(move |name| (route(name), name.as_str()))
    });
    let lists = items("keys", &given.keys)
        .into_iter()
        .chain(items("columns", &given.columns));
    let wrong = lists
        .chain(of_maps)
        .filter(|(_, name)| sheet.position(name).is_none());
    let mut problems: Vec<Problem> = wrong
        .map(|(at, name)| {
            let message = format!("{} has no column `{name}`", given.file);
            let problem = draft.settings.problem(&at, message);
            problem.hint(remedy(name, "columns", &columns))
        })
        .collect();
    for (theirs, ours) in &given.rename {
        if sheet.position(ours).is_none() {
            let at = [Step::Key("rename".to_owned()), Step::Key(theirs.clone())];
            let message = format!("{} has no column `{theirs}`", given.file);
            let problem = Problem {
                of_key: true,
                ..draft.settings.problem(&at, message)
            };
            problems.push(problem.hint(remedy(theirs, "columns", &columns)));
        }
    }
    problems
}

/// Finds invalid numbers, rows with the same key, and values that a table cannot hold.
fn misread(given: &Parameters, read: &Read, draft: &Draft<'_>) -> Vec<Problem> {
    let sheet = &read.sheet;
    let mut problems = Vec::new();
    for (name, unit) in &given.units {
        let Some(at) = sheet.position(name) else {
            continue;
        };
        let text = |f: &Field| match f {
            Field::Text(text) => Field::number(text, Some(unit)).is_none(),
            _ => false,
        };
        if let Some(row) = sheet.columns[at].iter().position(text) {
            let key = [Step::Key("units".to_owned()), Step::Key(name.clone())];
            let value = &sheet.columns[at][row];
            let message = format!(
                "{}: `{value}` in the column `{name}` is not a number in {unit}",
                sheet.places.words(row)
            );
            let hint = "name texts that stand for nothing under `nulls`, or leave out the unit";
            problems.push(draft.settings.problem(&key, message).hint(hint));
        }
    }
    for (name, at, _) in &read.taken {
        let other = |f: &Field| matches!(f, Field::Other(_));
        if let Some(row) = sheet.columns[*at].iter().position(other) {
            let value = &sheet.columns[*at][row];
            let place = sheet.places.words(row);
            let message = format!("{place}: the column `{name}` holds {value}");
            let hint = "take other columns with `columns`";
            problems.push(draft.problem("file", message).hint(hint));
        }
    }
    let mut seen: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    for row in 0..sheet.rows() {
        let key = read.taken[..read.keys].iter();
        let key = key
            .map(|(_, at, _)| sheet.columns[*at][row].to_string())
            .collect();
        if let Some(first) = seen.insert(key, row) {
            let (first, second) = (sheet.places.words(first), sheet.places.words(row));
            let message = match given.keys.is_empty() {
                true => format!(
                    "{} has several rows and no `keys` tell them apart",
                    given.file
                ),
                false => format!("{first} and {second} have the same `keys`"),
            };
            let columns = there_are(sheet.names.iter().map(String::as_str));
            let hint = format!("name the columns that tell rows apart; {columns}");
            problems.push(draft.problem("keys", message).hint(hint));
            break;
        }
    }
    problems
}

impl TypedOperator for Published {
    type Parameters = Parameters;
    type Made = Frame;
    const NAME: &'static str = "published";
    const SUMMARY: &'static str = "A table that others published, from a CSV, TSV, JSON, JSON Lines or Parquet file; `operator:` can be left out.";
    const SOURCE: &'static str = "\
        The values are those of the file. They were not measured here, and no gate judges them.\n\n\
        The first line of a CSV file names the columns; lines that begin with `#` are comments. Numbers may be \
        written as `1,234` or `−0.02`, or with their unit after them.\n\n\
        The stage keeps the file as the output `NAME.file`. Lineage leads to its lines (for Parquet, to its rows), \
        counted from 0. The name of the file is a parameter, because `why` names it. If you rename the file, the \
        table is computed again.";

    fn plan(given: &mut Parameters, draft: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        let wrong = |message: String, hint: String| vec![draft.problem("file", message).hint(hint)];
        Format::of(&given.file)
            .map_err(|e| wrong(format!("{}: {}", given.file, e.message), e.hint))?;
        let (source, bytes) = sources::read(draft.scope.library, &given.file)
            .map_err(|Unusable { message, hint }| wrong(message, hint))?;
        let actual = source.digest.to_string();
        if let Some(digest) = given.digest.as_ref().filter(|d| **d != actual) {
            let message = format!("{} has the digest {actual}, not {digest}", given.file);
            let hint = "correct the digest, or find the file that was meant";
            return Err(vec![draft.problem("digest", message).hint(hint)]);
        }
        given.digest = Some(actual);
        if let Some(name) = source.path.file_name().and_then(|name| name.to_str()) {
            name.clone_into(&mut given.file);
        }
        let sheet = given.sheet(&bytes).map_err(|e| {
            let (message, hint) = place(&source.path, &e);
            wrong(message, hint)
        })?;
        let problems = unknown(given, &sheet, draft);
        if !problems.is_empty() {
            return Err(problems);
        }
        let read = given.read(sheet);
        unless(misread(given, &read, draft), || {
            columns(given, &read).specs()
        })
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Frame, Failure> {
        let bytes = context.file(given.digest.as_deref().unwrap_or_default())?;
        let sheet = given
            .sheet(&bytes)
            .map_err(|e| Failure::failed(e.of(&given.file)).hint(e.hint))?;
        let read = given.read(sheet);
        let columns = columns(given, &read);
        let file = contract::LineageSource::from(file_output(context.making).as_str());
        let value = |row: usize, (_, at, kind): &(String, usize, Type)| {
            scalar(&read.sheet.columns[*at][row], *kind)
        };
        let row = |row: usize| {
            let (keys, others) = read.taken.split_at(read.keys);
            let key = keys.iter().map(|column| value(row, column)).collect();
            let values = others.iter().map(|column| value(row, column)).collect();
            let lineage = vec![SourceRows::of(&file, &read.sheet.places.of(row))];
            columns.row(key, &values, lineage)
        };
        Ok(Frame {
            level: given.level.level(),
            keys: given.keys.clone(),
            specs: columns.specs(),
            rows: (0..read.sheet.rows()).map(row).collect(),
            missing: Vec::new(),
        })
    }
}

/// The name of the output for the file of a table.
fn file_output(table: &str) -> String {
    format!("{table}.file")
}

/// Returns the file of a table as an output of its cell; `None` for a table of another operator.
///
/// # Errors
/// If the file no longer exists.
pub(crate) fn file(table: &Planned, files: Files<'_>) -> Result<Option<Output>, Failure> {
    if table.operator != Published::NAME {
        return Ok(None);
    }
    let text = |key: &str| table.parameters[key].as_str().unwrap_or_default();
    let media = match Format::of(text("file")) {
        // Not `Parquet`: that stands for our own tables, with our notes.
        Ok(Format::Parquet) => Media::Binary,
        Ok(Format::Json) if text("file").ends_with(".json") => Media::Json,
        _ => Media::Text,
    };
    Ok(Some(Output {
        name: file_output(&table.name),
        media,
        content: Content::Bytes(files.bytes(text("digest"))?),
        rows: None,
    }))
}

/// The location of the files of published tables.
#[derive(Clone, Copy)]
pub(crate) struct Files<'a> {
    pub(crate) store: &'a Store,
    /// The files as planning found them.
    pub(crate) named: &'a NamedFiles,
}

impl Files<'_> {
    /// Returns the bytes of a file: from the store, where the plan or an earlier run kept them, or from the file
    /// itself.
    ///
    /// # Errors
    /// If neither has it, or the file has changed.
    pub(crate) fn bytes(&self, digest: &str) -> Result<Vec<u8>, Failure> {
        if let Ok(known_digest) = digest.parse()
            && let Ok(bytes) = self.store.get(&known_digest)
        {
            return Ok(bytes);
        }
        let read = self.named.read(digest);
        let (_, bytes) = read.map_err(|e| Failure::failed(e.message).hint(e.hint))?;
        Ok(bytes)
    }
}
