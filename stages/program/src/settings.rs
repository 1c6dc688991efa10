//! The settings of a run stage, and their checks.

use std::collections::BTreeMap;
use std::path::Path;

use pipeline::language::has_known_key;
use pipeline::{Library, Problem, sources};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a run stage says.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("x-other-words" = {
    "command": "`program:` and `arguments:`",
    "cmd": "`program:` and `arguments:`",
    "script": "a key of `program:`",
    "args": "`arguments:`",
    "env": "`environment:` for values, `inherit:` for names",
    "outputs": "`tables:` and `blobs:`",
    "artifacts": "`blobs:`",
    "python": "`interpreter:`",
}))]
pub(crate) struct Settings {
    /// The program to execute.
    pub(crate) program: Program,
    /// The program that executes a script, with its own arguments.
    #[serde(default = "interpreter")]
    pub(crate) interpreter: Vec<String>,
    /// The arguments of the program. They may contain placeholders. Three are folders: `{out}` for its outputs,
    /// `{inputs}` with the outputs of the needed stages, and `{files}` with `files`. `{url}` is the URL of the server that
    /// the stage needs, `{urls}` those of all its servers, separated by commas, and `{model}` the name of the model.
    /// `{seed}` is the experiment's seed.
    #[serde(default)]
    #[schemars(with = "Vec<serde_json::Value>")]
    pub(crate) arguments: Vec<Word>,
    /// Files that the program reads, by their name in `{files}`. They are pinned by their digest.
    #[serde(default)]
    pub(crate) files: BTreeMap<String, String>,
    /// Environment variables to set. The values may contain the placeholders of `arguments`.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub(crate) environment: BTreeMap<String, Word>,
    /// Names of environment variables that the program inherits, in addition to `PATH`, `HOME` and `TMPDIR`.
    #[serde(default)]
    pub(crate) inherit: Vec<String>,
    /// A command that must succeed before the program is started, such as one that checks whether
    /// counters are accessible. If it fails, the cell is blocked, and the last line of its output is
    /// the reason.
    #[serde(default)]
    pub(crate) check: Vec<String>,
    /// The tables that the program writes, by name.
    #[serde(default)]
    pub(crate) tables: BTreeMap<String, TableSettings>,
    /// Other files that the program writes to `{out}`, by the name of the output.
    #[serde(default)]
    pub(crate) blobs: BTreeMap<String, String>,
    /// The most that the program may write to `{out}`, in MiB.
    #[serde(default = "budget")]
    #[schemars(range(min = 1))]
    pub(crate) budget_mib: u64,
}

/// A text. Numbers and booleans, which labels of axes often are, are spelled as in YAML.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct Word(pub(crate) String);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match pipeline::Json::deserialize(from)? {
            pipeline::Json::String(text) => Ok(Self(text)),
            pipeline::Json::Number(number) => Ok(Self(number.to_string())),
            pipeline::Json::Bool(is) => Ok(Self(is.to_string())),
            other => Err(serde::de::Error::custom(format!(
                "an argument or a variable is a text, a number or a boolean, not {other}"
            ))),
        }
    }
}

/// The program to execute.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Program {
    /// A file of the experiment, pinned by its digest; canonical parameters hold the digest.
    Script(String),
    /// A program on the search path, or in the venv of a needed provision stage. The digest of its
    /// file is part of the key.
    Installed(String),
}

/// A table that the program writes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct TableSettings {
    /// The file in `{out}`: `.csv` with a heading, or `.jsonl` with an object in each line.
    pub(crate) file: String,
    /// Its columns by name. A column of the file that is not declared is an error.
    pub(crate) columns: BTreeMap<String, ColumnSettings>,
    /// The columns that name a row.
    #[serde(default)]
    pub(crate) keys: Vec<String>,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ColumnSettings {
    /// The type of its values. An empty field of a CSV file is null.
    #[serde(rename = "type")]
    pub(crate) kind: ColumnType,
    /// The unit of its numbers, for example `ms`.
    #[serde(
        default,
        deserialize_with = "contract::unit",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "contract::UnitText")]
    pub(crate) unit: Option<String>,
    /// What it means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(crate) description: Option<String>,
}

/// The type of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ColumnType {
    /// Whole numbers.
    Integer,
    /// Numbers.
    Number,
    /// Texts.
    Text,
    /// `true` or `false`.
    Boolean,
}

fn interpreter() -> Vec<String> {
    ["python3", "-B"].map(str::to_owned).to_vec()
}

fn budget() -> u64 {
    1024
}

/// The placeholders of arguments and variables.
pub(crate) const PLACEHOLDERS: [&str; 7] =
    ["out", "inputs", "files", "url", "urls", "model", "seed"];

/// The names that the stage gives its own outputs.
const OWN: [&str; 2] = ["log", "run"];

/// Returns the words in braces in a text that consist of lower-case letters.
pub(crate) fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    text.split('{').skip(1).filter_map(|rest| {
        let (name, _) = rest.split_once('}')?;
        (!name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase())).then_some(name)
    })
}

impl Settings {
    /// Returns whether any text uses a placeholder.
    pub(crate) fn mentions(&self, name: &str) -> bool {
        let words = self.arguments.iter().chain(self.environment.values());
        let texts = words.map(|word| &word.0).chain(&self.check);
        texts
            .flat_map(|text| placeholders(text))
            .any(|used| used == name)
    }

    /// Replaces files by their digests.
    ///
    /// # Errors
    /// All problems with the settings.
    pub(crate) fn pin(mut self, library: &dyn Library) -> Result<Self, Vec<Problem>> {
        let mut problems = self.problems();
        if let Program::Script(file) = &mut self.program {
            pin_script(library, file, &mut problems);
        }
        for (name, file) in &mut self.files {
            pin(library, file, &["files", name], &mut problems);
        }
        if problems.is_empty() {
            Ok(self)
        } else {
            Err(problems)
        }
    }

    fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let placed = |key: &str, text: &String| (vec![key.to_owned()], text.clone());
        let arguments = self
            .arguments
            .iter()
            .map(|word| placed("arguments", &word.0));
        let check = self.check.iter().map(|text| placed("check", text));
        let variables = self.environment.iter().map(|(name, word)| {
            let route = vec!["environment".to_owned(), name.clone()];
            (route, word.0.clone())
        });
        for (route, text) in arguments.chain(check).chain(variables) {
            for unknown in placeholders(&text).filter(|name| !PLACEHOLDERS.contains(name)) {
                let route: Vec<&str> = route.iter().map(String::as_str).collect();
                let message = format!("`{{{unknown}}}` is not a placeholder");
                problems.push(Problem::at(&route, message).hint(pipeline::suggest::remedy(
                    unknown,
                    "placeholders",
                    PLACEHOLDERS,
                )));
            }
        }
        if self.tables.is_empty() && self.blobs.is_empty() {
            let problem = Problem::at(
                &[],
                "the program has no outputs: declare `tables` or `blobs`",
            );
            problems.push(problem.hint("declare what it writes into `{out}`"));
        }
        for (name, table) in &self.tables {
            problems.extend(table.problems(name));
        }
        for (key, name, file) in self
            .tables
            .iter()
            .map(|(name, table)| ("tables", name, &table.file))
            .chain(self.blobs.iter().map(|(name, file)| ("blobs", name, file)))
        {
            if let Err(error) = pipeline::OutputName::check(name) {
                problems.push(
                    Problem::at_key(&[key, name], error.to_string())
                        .hint("use letters, digits, `-` and `_`"),
                );
            }
            if OWN.contains(&name.as_str()) || (key == "blobs" && self.tables.contains_key(name)) {
                let problem = Problem::at_key(&[key, name], format!("the name `{name}` is taken"));
                problems.push(problem.hint("choose another one"));
            }
            if !is_inside(file) {
                let problem = Problem::at(
                    &[key, name],
                    format!("`{file}` is not a file below `{{out}}`"),
                );
                problems.push(problem.hint("write its path from there, for example `answers.csv`"));
            }
        }
        for name in self.files.keys().filter(|name| !is_inside(name)) {
            let problem = Problem::at_key(
                &["files", name],
                format!("`{name}` is not the name of a file"),
            );
            problems.push(problem.hint("write a relative path without `..`"));
        }
        let installed = match &self.program {
            Program::Installed(name) => Some((&["program", "installed"][..], name)),
            Program::Script(_) => None,
        };
        let interpreter = self
            .interpreter
            .first()
            .map(|name| (&["interpreter"][..], name));
        for (route, name) in installed.into_iter().chain(interpreter) {
            // The program starts in a folder of its own, where such a path leads elsewhere.
            if name.is_empty() || (name.contains('/') && !name.starts_with('/')) {
                let problem = Problem::at(route, format!("`{name}` is not on the search path"));
                problems.push(problem.hint(
                    "write the name of a program or an absolute path; for a file of the study, write `script`",
                ));
            }
        }
        if self.interpreter.is_empty() {
            problems.push(
                Problem::at(&["interpreter"], "there is no interpreter")
                    .hint("write the program and its arguments, for example `[python3, -B]`"),
            );
        }
        problems
    }
}

impl TableSettings {
    fn problems(&self, name: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        let extension = self.file.rsplit('.').next().unwrap_or_default();
        if !matches!(extension, "csv" | "jsonl") {
            let problem = Problem::at(
                &["tables", name, "file"],
                format!("`{}` is not a table", self.file),
            );
            problems.push(
                problem.hint("write a `.csv` or a `.jsonl` file, or declare it under `blobs`"),
            );
        }
        if self.columns.is_empty() {
            problems.push(
                Problem::at(&["tables", name, "columns"], "the table has no columns")
                    .hint("declare each column: `score: {type: number}`"),
            );
        }
        for key in self
            .keys
            .iter()
            .filter(|key| !self.columns.contains_key(*key))
        {
            let names = self.columns.keys().map(String::as_str);
            let problem = Problem::at(&["tables", name, "keys"], format!("unknown column `{key}`"));
            problems.push(problem.hint(pipeline::suggest::remedy(key, "columns", names)));
        }
        for (column, settings) in &self.columns {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            if column.is_empty() || !column.chars().all(plain) {
                let message = format!("`{column}` is not a valid name for a column");
                problems.push(
                    Problem::at_key(&["tables", name, "columns", column], message)
                        .hint("use lower-case letters, digits and underscores"),
                );
            }
            if settings.unit.is_some()
                && !matches!(settings.kind, ColumnType::Integer | ColumnType::Number)
            {
                problems.push(
                    Problem::at(
                        &["tables", name, "columns", column, "unit"],
                        "only numbers have a unit",
                    )
                    .hint("remove `unit`, or correct `type`"),
                );
            }
        }
        problems
    }
}

/// Returns whether a path stays below its starting folder.
fn is_inside(path: &str) -> bool {
    !path.is_empty() && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// Replaces a script's path by its digest. A script is stored with the results, so it cannot contain a key.
fn pin_script(library: &dyn Library, file: &mut String, problems: &mut Vec<Problem>) {
    let route = ["program", "script"];
    let has_key = |path: &Path| {
        let bytes = artifacts::regular::read(path).unwrap_or_default();
        has_known_key(&String::from_utf8_lossy(&bytes))
    };
    match sources::pin(library, file) {
        Ok(source) if has_key(&source.path) => {
            let message = format!(
                "`{file}` contains what looks like a key, a token or a password, and would be stored with the results"
            );
            problems.push(Problem::at(&route, message).hint(
                "set a variable in your shell, name it in `inherit`, and read it in the script",
            ));
        }
        Ok(source) => *file = source.digest.to_string(),
        Err(e) => problems.push(Problem::at(&route, e.message).hint(e.hint)),
    }
}

/// Replaces a file's path by its digest.
fn pin(library: &dyn Library, file: &mut String, route: &[&str], problems: &mut Vec<Problem>) {
    match sources::pin(library, file) {
        Ok(source) => *file = source.digest.to_string(),
        Err(e) => problems.push(Problem::at(route, e.message).hint(e.hint)),
    }
}
