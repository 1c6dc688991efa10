//! Makes the tables of one cell in turn. Tables with tests wait until all tests are known, because the tables of a
//! study share its level.

use std::collections::{BTreeMap, BTreeSet};

use pipeline::{Control, Failure, Json};

use crate::frame::Frame;
use crate::intake::Load;
use crate::kind::{Planned, operator};
use crate::operator::{Context, Made, Operator, Reads};
use crate::operators::family::{Asked, Pending, Shares, decide, decide_late};
use crate::operators::looks::TESTING;
use crate::operators::published::Files;
use crate::sources::sources;
use crate::surroundings::Surroundings;

/// The inputs of the tables.
pub(crate) struct Maker<'a> {
    pub(crate) loads: &'a [Load<'a>],
    pub(crate) programs: &'a [Load<'a>],
    pub(crate) surroundings: &'a Surroundings<'a>,
    pub(crate) seed: u64,
    pub(crate) control: &'a Control,
    /// The location of the files of published tables; `None` where tables are simulated.
    pub(crate) files: Option<Files<'a>>,
    pub(crate) shares: &'a Shares,
    /// The number of tables of the cell that take a share of its level but are not made.
    pub(crate) absent: usize,
    /// Whether this is a dry run, whose load cells lack the samples of a server.
    pub(crate) rehearsal: bool,
}

/// Observes the tables while they are made.
pub(crate) trait Witness {
    /// Called before a table is made.
    fn starts(&mut self, _table: &Planned) -> Result<(), Failure> {
        Ok(())
    }

    /// Called with a finished table, which the witness may change.
    fn made(&mut self, _name: &str, _frame: &mut Frame) {}

    /// Called when a table could not be made; an error ends the cell.
    fn failed(&mut self, _table: &Planned, failure: Failure) -> Result<(), Failure> {
        Err(failure)
    }
}

impl Maker<'_> {
    /// Makes tables in order, each after the tables it is made from, and adds them to `tables`.
    ///
    /// # Errors
    /// The first failure that the witness passes on.
    pub(crate) fn make(
        &self,
        planned: &[&Planned],
        tables: &mut BTreeMap<String, Frame>,
        witness: &mut dyn Witness,
    ) -> Result<(), Failure> {
        let (first, after) = split(planned);
        let mut waiting: Vec<(&Planned, Pending)> = Vec::new();
        for table in first {
            match self.one(table, tables, witness)? {
                Some(Made::Tests(pending)) => waiting.push((table, pending)),
                Some(Made::Table(frame)) => self.settle(table, frame, tables, witness)?,
                None => {}
            }
        }
        let others = after.iter().filter(|table| shares_the_study(table)).count();
        let others = others + self.absent;
        let asked: Vec<(&str, &Asked)> = waiting
            .iter()
            .map(|(table, pending)| (table.name.as_str(), &pending.asked))
            .collect();
        let (decided, share) = decide(&asked, others, self.shares);
        for ((table, pending), adjusted) in waiting.into_iter().zip(decided) {
            self.finish(table, pending, adjusted, tables, witness)?;
        }
        for table in after {
            match self.one(table, tables, witness)? {
                Some(Made::Tests(pending)) => {
                    let adjusted = decide_late(&pending.asked, share, self.shares);
                    self.finish(table, pending, adjusted, tables, witness)?;
                }
                Some(Made::Table(frame)) => self.settle(table, frame, tables, witness)?,
                None => {}
            }
        }
        Ok(())
    }

    fn context<'b>(
        &'b self,
        table: &'b Planned,
        tables: &'b BTreeMap<String, Frame>,
    ) -> Context<'b> {
        let reads = operator(&table.operator).map_or(Reads::NoCells, Operator::reads);
        Context {
            loads: self.loads,
            programs: self.programs,
            surroundings: self.surroundings,
            tables,
            seed: self.seed,
            control: self.control,
            files: self.files,
            making: &table.name,
            shares: self.shares,
            rehearsal: self.rehearsal,
            reads,
        }
    }

    fn one(
        &self,
        table: &Planned,
        tables: &BTreeMap<String, Frame>,
        witness: &mut dyn Witness,
    ) -> Result<Option<Made>, Failure> {
        self.control.check()?;
        witness.starts(table)?;
        let operator = operator(&table.operator)
            .ok_or_else(|| Failure::failed(format!("unknown operator `{}`", table.operator)))?;
        match operator.run(&table.parameters, &self.context(table, tables)) {
            Ok(made) => Ok(Some(made)),
            Err(failure) => witness.failed(table, named(table, failure)).map(|()| None),
        }
    }

    fn finish(
        &self,
        table: &Planned,
        pending: Pending,
        adjusted: Vec<crate::operators::family::Adjusted>,
        tables: &mut BTreeMap<String, Frame>,
        witness: &mut dyn Witness,
    ) -> Result<(), Failure> {
        match pending.finish(adjusted, &self.context(table, tables)) {
            Ok(frame) => self.settle(table, frame, tables, witness),
            Err(failure) => witness.failed(table, named(table, failure)),
        }
    }

    fn settle(
        &self,
        table: &Planned,
        mut frame: Frame,
        tables: &mut BTreeMap<String, Frame>,
        witness: &mut dyn Witness,
    ) -> Result<(), Failure> {
        frame.keep_axes(&table.operator);
        match frame.settle() {
            Ok(mut frame) => {
                witness.made(&table.name, &mut frame);
                tables.insert(table.name.clone(), frame);
                Ok(())
            }
            Err(failure) => witness.failed(table, named(table, failure)),
        }
    }
}

fn named(table: &Planned, mut failure: Failure) -> Failure {
    failure.reason = format!(
        "table `{}` ({}): {}",
        table.name, table.operator, failure.reason
    );
    failure.about(&["tables", &table.name])
}

pub(crate) fn tests(table: &Planned) -> bool {
    TESTING.contains(&table.operator.as_str())
}

/// Whether the tests of a table share the level of the study.
pub(crate) fn shares_the_study(table: &Planned) -> bool {
    tests(table) && table.parameters["family"] == "study"
}

/// Splits tables into those that depend on no verdict and those that do.
fn split<'a>(planned: &[&'a Planned]) -> (Vec<&'a Planned>, Vec<&'a Planned>) {
    let names = planned.iter().map(|p| (p.name.clone(), Json::Null));
    let names: serde_json::Map<String, Json> = names.collect();
    let mut waits: BTreeSet<&str> = BTreeSet::new();
    let (mut first, mut after) = (Vec::new(), Vec::new());
    for table in planned.iter().copied() {
        let of_verdicts = sources(&table.parameters, &names)
            .iter()
            .any(|source| waits.contains(source.as_str()));
        if of_verdicts || tests(table) {
            waits.insert(&table.name);
        }
        if of_verdicts {
            after.push(table);
        } else {
            first.push(table);
        }
    }
    (first, after)
}

/// Makes tables from `t`, each given by name and operator, as one cell with the parameters `shared`.
pub(crate) fn made(
    tables: &[(&str, &str, Json)],
    frame: Frame,
    shared: &Json,
) -> Result<BTreeMap<String, Frame>, Failure> {
    struct Nobody;
    impl Witness for Nobody {}
    let planned = |(name, operator, parameters): &(&str, &str, Json)| Planned {
        name: (*name).to_owned(),
        operator: (*operator).to_owned(),
        parameters: parameters.clone(),
    };
    let planned: Vec<Planned> = tables.iter().map(planned).collect();
    let mut tables = BTreeMap::from([("t".to_owned(), frame)]);
    let maker = Maker {
        loads: &[],
        programs: &[],
        surroundings: &Surroundings::new(&[]),
        seed: 164,
        control: &Control::quiet(),
        files: None,
        shares: &Shares::of(shared),
        absent: 0,
        rehearsal: false,
    };
    let planned: Vec<&Planned> = planned.iter().collect();
    maker.make(&planned, &mut tables, &mut Nobody)?;
    Ok(tables)
}
