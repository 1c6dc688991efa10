//! The contract of an operator: planning yields parameters and columns, and running makes the rows.

use std::collections::BTreeMap;
use std::fmt;

use artifacts::Scalar;
use contract::{Better, Settings};
use pipeline::suggest::{closest, list, remedy};
use pipeline::{CellStatus, Control, Failure, Json, Library, Problem, Step};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::frame::{Absence, Frame, Spec};
use crate::intake::{AGGREGATE, Load, SEVERAL_LOADS, choose, no_such_load};
use crate::keys::Keys;
use crate::needed::load_tables;
use crate::operators::family::{Pending, Shares};
use crate::operators::published::Files;
use crate::surroundings::Surroundings;

/// An operator that makes a table, as the stage sees it: [`TypedOperator`] without its types.
pub(crate) trait Operator: Send + Sync {
    /// The name in `operator:`.
    fn name(&self) -> &'static str;

    /// What it computes, in one sentence.
    fn summary(&self) -> &'static str;

    /// The definition or publication that it follows, and where others differ.
    fn source(&self) -> &'static str;

    /// The cells whose rows it reads.
    fn reads(&self) -> Reads;

    /// The JSON Schema of its parameters.
    fn schema(&self) -> Json;

    /// Checks the parameters and returns the columns of the result, without the keys.
    ///
    /// # Errors
    /// Every problem found.
    fn plan(&self, settings: &Settings<'_>, scope: &Scope<'_>) -> Result<Plan, Vec<Problem>>;

    /// Makes the table from canonical parameters.
    ///
    /// # Errors
    /// If the inputs do not fit, with a message for the user.
    fn run(&self, parameters: &Json, context: &Context<'_>) -> Result<Made, Failure>;
}

/// The cells whose rows an operator reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// None: it reads other tables, definitions or files.
    NoCells,
    /// Cells that are ok and that no gate excluded.
    Verified,
    /// These, and cells that hung or timed out, if they left request rows. No gate has judged those rows.
    AlsoHung,
    /// These, and cells that failed, if they left request rows.
    AlsoFailed,
}

impl Reads {
    /// Whether an operator reads the rows of cells with this status.
    pub(crate) fn includes(self, status: CellStatus) -> bool {
        match status {
            CellStatus::Ok => self != Self::NoCells,
            CellStatus::Hung | CellStatus::Timeout => {
                matches!(self, Self::AlsoHung | Self::AlsoFailed)
            }
            CellStatus::Failed => self == Self::AlsoFailed,
            CellStatus::Skipped | CellStatus::Excluded | CellStatus::Interrupted => false,
        }
    }
}

impl fmt::Display for Reads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let read = CellStatus::EACH
            .into_iter()
            .filter(|status| self.includes(*status));
        let words: Vec<&str> = read.map(|status| status.word()).collect();
        match words.split_first() {
            None => f.write_str("none"),
            Some((ok, [])) => write!(f, "`{ok}`, unless a gate excluded them"),
            Some((ok, failed)) => write!(
                f,
                "`{ok}`, unless a gate excluded them; `{}`, if they left request rows",
                failed.join("`, `")
            ),
        }
    }
}

/// The result of an operator.
pub(crate) enum Made {
    /// The table.
    Table(Frame),
    /// Its tests, which are decided together with those of other tables.
    Tests(Pending),
}

impl From<Frame> for Made {
    fn from(frame: Frame) -> Self {
        Self::Table(frame)
    }
}

impl From<Pending> for Made {
    fn from(pending: Pending) -> Self {
        Self::Tests(pending)
    }
}

/// An operator that makes a table. One file of `operators` each.
pub(crate) trait TypedOperator: Send + Sync {
    /// The parameters.
    type Parameters: Serialize + DeserializeOwned + schemars::JsonSchema;
    /// A table, or the tests that decide it.
    type Made: Into<Made>;
    /// The name in `operator:`.
    const NAME: &'static str;
    /// What it computes, in one sentence.
    const SUMMARY: &'static str;
    /// The definition or publication that it follows, and where others differ.
    const SOURCE: &'static str;
    /// The cells whose rows it reads.
    const READS: Reads = Reads::NoCells;

    /// Checks well-typed parameters, fills in values from definitions, and returns the columns of the result, without
    /// the keys.
    ///
    /// # Errors
    /// Every problem found.
    fn plan(given: &mut Self::Parameters, draft: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>>;

    /// Makes the table.
    ///
    /// # Errors
    /// If the inputs do not fit, with a message for the user.
    fn run(given: &Self::Parameters, context: &Context<'_>) -> Result<Self::Made, Failure>;
}

impl<O: TypedOperator> Operator for O {
    fn name(&self) -> &'static str {
        O::NAME
    }

    fn summary(&self) -> &'static str {
        O::SUMMARY
    }

    fn source(&self) -> &'static str {
        O::SOURCE
    }

    fn reads(&self) -> Reads {
        O::READS
    }

    fn schema(&self) -> Json {
        contract::inline_schema::<O::Parameters>()
    }

    fn plan(&self, settings: &Settings<'_>, scope: &Scope<'_>) -> Result<Plan, Vec<Problem>> {
        let mut given: O::Parameters = settings.read()?;
        let columns = O::plan(&mut given, &Draft { settings, scope })?;
        let parameters = contract::canonical(&given);
        Ok(Plan {
            parameters,
            columns,
        })
    }

    fn run(&self, parameters: &Json, context: &Context<'_>) -> Result<Made, Failure> {
        let given = serde_json::from_value(parameters.clone())
            .map_err(|e| Failure::failed(format!("parameters: {e}")))?;
        O::run(&given, context).map(Into::into)
    }
}

/// What an operator can access while it plans: its settings, and the tables and definitions they may name.
pub(crate) struct Draft<'a> {
    pub(crate) settings: &'a Settings<'a>,
    pub(crate) scope: &'a Scope<'a>,
}

impl Draft<'_> {
    /// Creates a problem with a parameter.
    pub(crate) fn problem(&self, key: &str, message: impl Into<String>) -> Problem {
        self.settings.problem(&at(key), message)
    }

    /// Returns the columns listed in the parameter `columns`, from the table that the parameter `from` names. They must
    /// hold numbers.
    ///
    /// # Errors
    /// Every problem found.
    pub(crate) fn columns(&self, from: &str, names: &[String]) -> Result<Vec<Spec>, Vec<Problem>> {
        let wanted = items("columns", names);
        self.scope
            .numbers(self.settings, (&at("from"), from), &wanted)
    }

    /// Returns the column that the parameter `column` names, from the table that the parameter `from` names. It must
    /// hold numbers.
    ///
    /// # Errors
    /// Every problem found.
    pub(crate) fn column(&self, from: &str, name: &str) -> Result<Spec, Vec<Problem>> {
        let wanted = [(at("column"), name)];
        let mut numbers = self
            .scope
            .numbers(self.settings, (&at("from"), from), &wanted)?;
        Ok(numbers.remove(0))
    }

    /// Reports that a parameter calls those values of a column better that are known to be worse.
    pub(crate) fn direction(&self, key: &str, better: Better, spec: &Spec) -> Vec<Problem> {
        let direction = Better::of_metric(&spec.name, spec.unit.as_deref());
        let wrong = direction.filter(|direction| *direction != better);
        let wrong = wrong.map(|direction| {
            let (worse, right) = (better.word(), direction.word());
            let message = format!("{worse} values of `{}` are worse", spec.name);
            self.problem(key, message)
                .hint(format!("write `{key}: {right}`"))
        });
        wrong.into_iter().collect()
    }

    /// Reports which parameters are not valid shares.
    pub(crate) fn shares(&self, shares: &[(&str, f64)]) -> Vec<Problem> {
        let wrong = shares
            .iter()
            .filter(|(_, value)| !(*value > 0.0 && *value < 1.0));
        wrong
            .map(|(key, value)| {
                let message = format!("`{key}` must be between 0 and 1, got {value}");
                let problem = self.problem(key, message);
                match pipeline::suggest::share(*value) {
                    Some(hint) => problem.hint(hint),
                    None => problem,
                }
            })
            .collect()
    }
}

/// Returns whether a word means a table of a load cell, and resembles none of the names.
fn is_of_cells(word: &str, names: &[&str]) -> bool {
    let means = contract::usual_table(word).is_some() || closest(word, load_tables()).is_some();
    means && closest(word, names.iter().copied()).is_none()
}

/// Returns the columns, or the problems if there are any.
///
/// # Errors
/// The problems.
pub(crate) fn unless(
    problems: Vec<Problem>,
    columns: impl FnOnce() -> Vec<Spec>,
) -> Result<Vec<Spec>, Vec<Problem>> {
    if problems.is_empty() {
        Ok(columns())
    } else {
        Err(problems)
    }
}

/// The result of planning a table.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) parameters: Json,
    pub(crate) columns: Vec<Spec>,
}

/// What a table may refer to while planning.
pub(crate) struct Scope<'a> {
    /// The columns of the tables before this one.
    pub(crate) earlier: &'a BTreeMap<String, Vec<Spec>>,
    /// Earlier tables that have errors themselves: a reference to them is not a second mistake.
    pub(crate) broken: &'a [String],
    /// The names of this table and of those after it.
    pub(crate) later: &'a [String],
    /// The names that key columns of the earlier tables can have.
    pub(crate) keys: &'a Keys,
    /// Definitions, for example of models.
    pub(crate) library: &'a dyn Library,
}

impl Scope<'_> {
    /// Returns the columns of an earlier table; `None` if that table has errors.
    ///
    /// # Errors
    /// If no such table exists, or it comes later.
    pub(crate) fn table(
        &self,
        settings: &Settings<'_>,
        at: &[Step],
        name: &str,
    ) -> Result<Option<&[Spec]>, Problem> {
        if let Some(columns) = self.earlier.get(name) {
            return Ok(Some(columns));
        }
        if self.broken.iter().any(|b| b == name) {
            return Ok(None);
        }
        if self.later.iter().any(|l| l == name) {
            return Err(settings
                .problem(at, format!("the table `{name}` itself depends on this one"))
                .hint("two tables cannot depend on each other; take one of them from elsewhere"));
        }
        let names: Vec<&str> = self.earlier.keys().map(String::as_str).collect();
        let own = name.rsplit_once('.').map(|(_, table)| table);
        let hint = match own.filter(|own| names.contains(own)) {
            Some(own) => {
                format!("write `{own}`: a table of the same stage is named without the stage")
            }
            None if own.is_some_and(|own| is_of_cells(own, &names)) => format!(
                "only the operator `sql` reads tables of cells; {}",
                match names.is_empty() {
                    true => "declare a table here, such as `cells: {operator: cell-summary}`, and read that".to_owned(),
                    false => remedy("", "tables that this operator can read", &names),
                }
            ),
            None if names.is_empty() => "the stage declares no other table it could use".to_owned(),
            None => remedy(own.unwrap_or(name), "tables it can read", &names),
        };
        Err(settings
            .problem(at, format!("unknown table `{name}` in this stage"))
            .hint(hint))
    }

    /// Checks that columns exist in an earlier table and hold numbers, and returns them.
    ///
    /// # Errors
    /// Every problem found.
    pub(crate) fn numbers(
        &self,
        settings: &Settings<'_>,
        from: (&[Step], &str),
        columns: &[(Vec<Step>, &str)],
    ) -> Result<Vec<Spec>, Vec<Problem>> {
        let Some(specs) = self.table(settings, from.0, from.1).map_err(|p| vec![p])? else {
            return Ok(columns
                .iter()
                .map(|(_, name)| Spec::float(*name, "", ""))
                .collect());
        };
        let mut chosen = Vec::new();
        let mut problems = Vec::new();
        for (at, name) in columns {
            match specs.iter().find(|s| s.name == **name) {
                Some(spec) if spec.is_number() => chosen.push(spec.clone()),
                Some(_) => problems.push(settings.problem(
                    at,
                    format!("the column `{name}` of `{}` does not hold numbers", from.1),
                )),
                None => {
                    let names: Vec<&str> = specs
                        .iter()
                        .filter(|s| s.is_number())
                        .map(|s| s.name.as_str())
                        .collect();
                    let message = format!("the table `{}` has no column `{name}`", from.1);
                    let hint = self.elsewhere(name).unwrap_or_else(|| {
                        remedy(&contract::usual_name(name), "columns of numbers", &names)
                    });
                    problems.push(settings.problem(at, message).hint(hint));
                }
            }
        }
        if problems.is_empty() {
            Ok(chosen)
        } else {
            Err(problems)
        }
    }

    /// Returns the tables before this one that have a column, for the remedy of a name that another table lacks.
    fn elsewhere(&self, column: &str) -> Option<String> {
        let has = |specs: &Vec<Spec>| specs.iter().any(|spec| spec.name == column);
        let tables = self.earlier.iter().filter(|(_, specs)| has(specs));
        let tables: Vec<&str> = tables.map(|(name, _)| name.as_str()).collect();
        (!tables.is_empty()).then(|| {
            format!(
                "{} {} it: read it `from` there, or join the tables",
                list(tables.iter().copied()),
                if tables.len() == 1 { "has" } else { "have" }
            )
        })
    }
}

/// Returns the route to a parameter.
pub(crate) fn at(key: &str) -> Vec<Step> {
    vec![Step::Key(key.to_owned())]
}

/// Returns the routes to the items of a list, each with the item.
pub(crate) fn items<'a>(key: &str, list: &'a [String]) -> Vec<(Vec<Step>, &'a str)> {
    let route = |i| vec![Step::Key(key.to_owned()), Step::Index(i)];
    list.iter()
        .enumerate()
        .map(|(i, name)| (route(i), name.as_str()))
        .collect()
}

/// What an operator can access while it makes a table.
pub(crate) struct Context<'a> {
    pub(crate) loads: &'a [Load<'a>],
    /// The stages whose programs wrote tables.
    pub(crate) programs: &'a [Load<'a>],
    pub(crate) surroundings: &'a Surroundings<'a>,
    pub(crate) tables: &'a BTreeMap<String, Frame>,
    pub(crate) seed: u64,
    pub(crate) control: &'a Control,
    /// The location of the files of published tables; `None` where tables are simulated.
    pub(crate) files: Option<Files<'a>>,
    /// The name of the table in the making.
    pub(crate) making: &'a str,
    /// What the cell shares with the rest of the study, including the A/A arm of the design.
    pub(crate) shares: &'a Shares,
    /// Whether this is a dry run, whose load cells lack the samples of a server.
    pub(crate) rehearsal: bool,
    /// The cells whose rows the table in the making may read.
    pub(crate) reads: Reads,
}

impl Context<'_> {
    /// Whether a label is that of the design's A/A arm, which is a check and not a contender.
    pub(crate) fn is_arm(&self, axis: &str, label: &Scalar) -> bool {
        self.shares.is_arm(axis, label)
    }

    /// Returns the bytes of a file that planning found, by digest.
    ///
    /// # Errors
    /// If it is missing or has changed.
    pub(crate) fn file(&self, digest: &str) -> Result<Vec<u8>, Failure> {
        let files = self
            .files
            .ok_or_else(|| Failure::failed("files are not read here"))?;
        files.bytes(digest)
    }

    /// Returns an earlier table.
    ///
    /// # Errors
    /// If no table has this name (planning has checked it).
    pub(crate) fn table(&self, name: &str) -> Result<&Frame, Failure> {
        self.tables
            .get(name)
            .ok_or_else(|| Failure::failed(format!("unknown table `{name}`")))
    }

    /// Returns the named load input, or the only one.
    ///
    /// # Errors
    /// If no load has this name, or if there are several and no name is given.
    pub(crate) fn load(&self, name: Option<&str>) -> Result<&Load<'_>, Failure> {
        let load = self.named(name)?;
        if load.cells.is_empty() && load.missing.iter().any(|m| m.absence == Absence::Aggregate) {
            return Err(Failure::failed(format!(
                "no cell of `{}` has request rows: {AGGREGATE}",
                load.stage
            ))
            .hint(
                "measure again with the tool's option for rows, such as `--save-detailed` of vLLM or `--output-details` \
                 of SGLang; docs/import.md lists the options. A table needs a row for each request",
            ));
        }
        Ok(load)
    }

    fn named(&self, name: Option<&str>) -> Result<&Load<'_>, Failure> {
        let stages: Vec<&str> = self.loads.iter().map(|l| l.stage.as_str()).collect();
        match name {
            Some(name) => self.loads.iter().find(|l| l.stage == name).ok_or_else(|| {
                Failure::failed(no_such_load(name)).hint(remedy(
                    name,
                    "load stages it needs",
                    &stages,
                ))
            }),
            None if self.loads.len() == 1 => Ok(&self.loads[0]),
            None => Err(Failure::failed(SEVERAL_LOADS).hint(choose(&stages))),
        }
    }
}
