//! The cost of a study's launches on other machines, so far and expected.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use artifacts::{Digest, Store, StoreError};
use pipeline::{Experiment, RentedMachine, Shard, What};
use places::{Placement, Terms};
use serde::{Deserialize, Serialize};

use crate::error::ClusterError;
use crate::placements::Placements;

/// The number of earlier executions of a stage that an expectation considers.
const HISTORY: usize = 10_000;

/// The cost of one launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    run: String,
    shard: String,
    seconds: f64,
    cost: f64,
    currency: String,
}

/// What all runs of a study have spent: a file with a line for each launch.
#[derive(Debug)]
pub(crate) struct Spent {
    path: PathBuf,
    entries: BTreeMap<(String, String), Entry>,
    /// The sum by currency.
    sums: BTreeMap<String, f64>,
    /// The end of the last complete line, if a cut one follows.
    cut: Option<u64>,
}

impl Spent {
    /// Reads what a study has spent.
    ///
    /// # Errors
    /// If the file exists and cannot be read: what was spent must not be forgotten.
    pub(crate) fn read(store: &Path, lock: &Path) -> Result<Self, ClusterError> {
        let absolute = std::path::absolute(lock).unwrap_or_else(|_| lock.to_owned());
        let name = Digest::of(absolute.as_os_str().as_encoded_bytes()).hex();
        let path = store
            .join("clusters")
            .join(format!("{}.spent", &name[..32]));
        let text = match fs::read_to_string(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
            read => read.map_err(|e| ClusterError::Io(path.clone(), e))?,
        };
        let whole = text.rfind('\n').map_or(0, |at| at + 1);
        let cut = (whole < text.len()).then_some(whole as u64);
        let mut entries = BTreeMap::new();
        // A power failure may have cut the last line; it has no line end then.
        for line in text.split_inclusive('\n').filter(|l| l.ends_with('\n')) {
            let entry: Entry = serde_json::from_str(line).map_err(|e| {
                ClusterError::Broken(format!("{} cannot be read: {e}", path.display()))
            })?;
            entries.insert((entry.run.clone(), entry.shard.clone()), entry);
        }
        let mut sums: BTreeMap<String, f64> = BTreeMap::new();
        for entry in entries.values() {
            *sums.entry(entry.currency.clone()).or_default() += entry.cost;
        }
        Ok(Self {
            path,
            entries,
            sums,
            cut,
        })
    }

    /// Records the cost of a launch, durably.
    pub(crate) fn note(
        &mut self,
        run: &str,
        shard: &str,
        seconds: f64,
        terms: &Terms,
    ) -> Result<(), ClusterError> {
        let entry = Entry {
            run: run.to_owned(),
            shard: shard.to_owned(),
            seconds,
            cost: terms.cost(seconds),
            currency: terms.currency.clone(),
        };
        let key = (entry.run.clone(), entry.shard.clone());
        if self
            .entries
            .get(&key)
            .is_some_and(|entry| entry.seconds >= seconds)
        {
            return Ok(());
        }
        let at = |e| ClusterError::Io(self.path.clone(), e);
        let mut line = serde_json::to_vec(&entry).expect("an entry always serializes");
        line.push(b'\n');
        let mut file = artifacts::regular::unlinked()
            .create(true)
            .append(true)
            .open(&self.path)
            .map_err(at)?;
        // A cut line must not swallow this one.
        if let Some(whole) = self.cut.take() {
            file.set_len(whole).map_err(at)?;
        }
        file.write_all(&line)
            .and_then(|()| file.sync_all())
            .map_err(at)?;
        *self.sums.entry(entry.currency.clone()).or_default() += entry.cost;
        if let Some(before) = self.entries.insert(key, entry) {
            *self.sums.entry(before.currency).or_default() -= before.cost;
        }
        Ok(())
    }

    /// Returns the sum spent in a currency.
    pub(crate) fn in_currency(&self, currency: &str) -> f64 {
        self.sums.get(currency).copied().unwrap_or_default()
    }
}

/// The expected duration of a launch, from earlier executions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Expected {
    /// The mean, s.
    pub(crate) seconds: f64,
    /// The variance between executions, s².
    pub(crate) variance: f64,
    /// Cells without an earlier execution of their stage.
    pub(crate) unknown: usize,
}

/// The mean and the variance of each stage's earlier executions.
#[derive(Debug, Default)]
pub(crate) struct Durations {
    stages: BTreeMap<String, Option<(f64, f64)>>,
}

impl Durations {
    /// Returns the expected duration of some cells, of which the stages are given.
    ///
    /// # Errors
    /// If the index of the store returns an error: without it, a stage would seem never executed.
    pub(crate) fn expect(
        &mut self,
        experiment: &Experiment,
        store: &Store,
        stages: &mut dyn Iterator<Item = &str>,
    ) -> Result<Expected, StoreError> {
        let mut expected = Expected::default();
        for stage in stages {
            let estimate = match self.stages.get(stage) {
                Some(estimate) => *estimate,
                None => {
                    let lines = store.history(&experiment.name, stage, None, HISTORY)?;
                    let lines = lines.iter().filter(|line| line.cacheable);
                    let estimate = moments(&lines.map(|line| line.seconds).collect::<Vec<_>>());
                    self.stages.insert(stage.to_owned(), estimate);
                    estimate
                }
            };
            match estimate {
                Some((mean, variance)) => {
                    expected.seconds += mean;
                    expected.variance += variance;
                }
                None => expected.unknown += 1,
            }
        }
        Ok(expected)
    }
}

/// Returns the mean and the variance (Bessel's) of some durations in seconds. A single one is assumed to vary by half.
fn moments(seconds: &[f64]) -> Option<(f64, f64)> {
    let count = seconds.len() as f64;
    let mean = seconds.iter().sum::<f64>() / count;
    match seconds {
        [] => None,
        [one] => Some((*one, (one / 2.0).powi(2))),
        _ => {
            let squares = seconds.iter().map(|s| (s - mean).powi(2)).sum::<f64>();
            Some((mean, squares / (count - 1.0)))
        }
    }
}

/// What costs money.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Costly {
    /// Launches on machines of a scheduler or a pool.
    Launches,
    /// Machines that the study rents and destroys.
    Rented,
}

/// The cost of a plan elsewhere, in one currency.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// What costs it.
    pub costly: Costly,
    /// The currency.
    pub currency: String,
    /// The most that the experiment may cost.
    pub budget: f64,
    /// What earlier launches have cost.
    pub spent: f64,
    /// Launches or machines to come.
    pub count: usize,
    /// Their expected cost, from earlier executions; `None` if some stage was never executed.
    pub expected: Option<f64>,
    /// Two standard deviations of the expected cost, from the differences between earlier executions.
    pub uncertainty: f64,
    /// Their lowest cost, from the rates and durations in the settings; 0 if the settings give no time.
    pub least: f64,
    /// Their highest cost, from the time limits; `None` if a stage has no limit.
    pub most: Option<f64>,
}

/// Returns the terms of a placement.
pub(crate) fn terms_of(placement: &Placement) -> Option<Terms> {
    match placement {
        Placement::Slurm(slurm) => slurm.terms(),
        Placement::Kubernetes(kubernetes) => kubernetes.terms(),
        Placement::Pool(pool) => pool.terms.clone(),
    }
}

/// Returns the cost of shards, for each currency that has a budget.
///
/// # Errors
/// If a placement, the file of what was spent, or the index of the store cannot be read.
pub fn costs(
    experiment: &Experiment,
    store: &Store,
    lock: &Path,
    shards: &[Shard],
) -> Result<Vec<Cost>, ClusterError> {
    let mut sums = Sums::new(experiment, store, Costly::Launches);
    let mut placements = Placements::default();
    for shard in shards {
        let placement = placements.of(shard)?;
        let Some(terms) = terms_of(&placement) else {
            continue;
        };
        let mut stages = shard.cells.iter().map(|cell| cell.name.stage.as_str());
        sums.add(&terms, &mut stages, shard.declared_s, shard.timeout)?;
    }
    if sums.costs.is_empty() {
        return Ok(Vec::new());
    }
    let spent = Spent::read(store.root(), lock)?;
    Ok(sums.finish(|currency| spent.in_currency(currency)))
}

/// Returns the cost of the machines that a plan rents, for each currency.
///
/// # Errors
/// If what earlier machines have cost, or the index of the store, cannot be read.
pub fn rented_costs(
    experiment: &Experiment,
    store: &Store,
    machines: &[RentedMachine],
) -> Result<Vec<Cost>, ClusterError> {
    let mut sums = Sums::new(experiment, store, Costly::Rented);
    let mut spent = BTreeMap::new();
    for machine in machines {
        let What::Rent {
            cost_per_hour,
            budget,
            currency,
            ..
        } = &machine.rent
        else {
            continue;
        };
        if !spent.contains_key(currency) {
            let so_far = places::cloud::spent(store.root(), &experiment.name, currency)
                .map_err(|e| ClusterError::Io(store.root().to_owned(), e))?;
            spent.insert(currency.clone(), so_far);
        }
        let terms = Terms {
            cost_per_hour: *cost_per_hour,
            budget: *budget,
            currency: currency.clone(),
        };
        let mut stages = machine.stages.iter().map(String::as_str);
        sums.add(&terms, &mut stages, machine.declared_s, machine.timeout)?;
    }
    Ok(sums.finish(|currency| spent.get(currency).copied().unwrap_or_default()))
}

/// Costs and the variances of their expectations, by currency.
struct Sums<'a> {
    experiment: &'a Experiment,
    store: &'a Store,
    costly: Costly,
    durations: Durations,
    costs: BTreeMap<String, (Cost, f64)>,
}

impl<'a> Sums<'a> {
    fn new(experiment: &'a Experiment, store: &'a Store, costly: Costly) -> Self {
        Self {
            experiment,
            store,
            costly,
            durations: Durations::default(),
            costs: BTreeMap::new(),
        }
    }

    /// Adds a launch or a machine, on which cells of these stages execute.
    fn add(
        &mut self,
        terms: &Terms,
        stages: &mut dyn Iterator<Item = &str>,
        declared_s: f64,
        timeout: Option<Duration>,
    ) -> Result<(), StoreError> {
        let expected = self.durations.expect(self.experiment, self.store, stages)?;
        let empty = || Cost {
            costly: self.costly,
            currency: terms.currency.clone(),
            budget: terms.budget,
            spent: 0.0,
            count: 0,
            expected: Some(0.0),
            uncertainty: 0.0,
            least: 0.0,
            most: Some(0.0),
        };
        let (cost, variance) = self
            .costs
            .entry(terms.currency.clone())
            .or_insert_with(|| (empty(), 0.0));
        // If two places of one currency name two budgets, the smaller one holds.
        cost.budget = cost.budget.min(terms.budget);
        cost.count += 1;
        cost.expected = match expected.unknown {
            0 => cost.expected.map(|sum| sum + terms.cost(expected.seconds)),
            _ => None,
        };
        *variance += terms.cost(1.0).powi(2) * expected.variance;
        cost.least += terms.cost(declared_s);
        let limit = timeout.map(|limit| terms.cost(limit.as_secs_f64()));
        cost.most = cost.most.zip(limit).map(|(sum, limit)| sum + limit);
        Ok(())
    }

    /// Returns the costs, with what was spent in each currency.
    fn finish(self, spent: impl Fn(&str) -> f64) -> Vec<Cost> {
        let cost = |(cost, variance): (Cost, f64)| Cost {
            spent: spent(&cost.currency),
            uncertainty: 2.0 * variance.sqrt(),
            ..cost
        };
        self.costs.into_values().map(cost).collect()
    }
}

impl Cost {
    /// Returns the cost as a document.
    pub fn json(&self) -> serde_json::Value {
        let counted = match self.costly {
            Costly::Launches => "launches",
            Costly::Rented => "machines",
        };
        serde_json::json!({
            "currency": self.currency, "budget": self.budget, "spent": self.spent, counted: self.count,
            "expected": self.expected, "uncertainty": self.uncertainty, "least": self.least,
            "most": self.most,
        })
    }

    /// Returns the cost in one line for people.
    pub fn text(&self) -> String {
        let Self {
            currency,
            budget,
            spent,
            ..
        } = self;
        let launches = match (self.costly, self.count) {
            (Costly::Launches, 1) => "1 launch".to_owned(),
            (Costly::Launches, n) => format!("{n} launches"),
            (Costly::Rented, 1) => "1 rented machine".to_owned(),
            (Costly::Rented, n) => format!("{n} rented machines"),
        };
        let verb = if self.count == 1 { "costs" } else { "cost" };
        let rented = self.costly == Costly::Rented;
        let by_limits = self.most.map_or(String::new(), |most| {
            format!(", and at most {most:.2} by the time limits")
        });
        let costs = match (self.expected, self.most) {
            (Some(expected), _) => format!(
                "{launches} {verb} about {expected:.2} ± {:.2} by earlier executions (two standard deviations; {}){by_limits}",
                self.uncertainty,
                match rented {
                    true => "attempts that fail are not counted",
                    false =>
                        "neither the preparation of engines nor attempts that fail are counted",
                }
            ),
            (None, Some(most)) => format!(
                "{launches} {verb} {}at most {most:.2} by the time limits; no earlier executions to estimate it",
                match self.least {
                    least if least > 0.0 =>
                        format!("at least {least:.2} by the declared rates and durations, and "),
                    _ => String::new(),
                }
            ),
            (None, None) => format!(
                "no earlier executions and no time limits to estimate what {launches} {verb}{}",
                match self.least {
                    least if least > 0.0 =>
                        format!("; at least {least:.2} by the declared rates and durations"),
                    _ => String::new(),
                }
            ),
        };
        let apart = match self.expected {
            None if self.least > 0.0 && rented => {
                " (the least is only for the time in which requests are sent: creating the machine, preparing and starting \
                 engines, warm-up, the last answers, and attempts that fail come on top)"
            }
            None if self.least > 0.0 => {
                " (the least is only for the time in which requests are sent: preparing and starting engines, warm-up, the \
                 last answers, and attempts that fail come on top)"
            }
            None if rented => {
                " (earlier executions of the same stages give an expected cost: run a profile with few cells first)"
            }
            None => {
                " (earlier executions of the same stages give an expected cost: run a profile with few cells first, or one launch)"
            }
            Some(_) => "",
        };
        let more = match self.expected {
            Some(expected) if spent + expected > *budget => "; that is more than the budget",
            _ => "",
        };
        format!("budget: {budget:.2} {currency}, {spent:.2} spent; {costs}{apart}{more}")
    }
}

/// Parses a duration as Slurm writes it (`DAYS-HOURS:MINUTES:SECONDS`, leading zero parts left out), in seconds.
pub(crate) fn seconds_of(clock: &str) -> Option<f64> {
    let (days, rest) = clock.split_once('-').unwrap_or(("0", clock));
    let mut seconds = 0.0;
    for part in rest.split(':') {
        seconds = seconds * 60.0 + part.parse::<u32>().map(f64::from).ok()?;
    }
    Some(days.parse::<u32>().map(f64::from).ok()? * 86_400.0 + seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms() -> Terms {
        Terms {
            cost_per_hour: 3600.0,
            budget: 100.0,
            currency: "EUR".to_owned(),
        }
    }

    #[test]
    fn what_was_spent_is_counted_once_over_runs_and_survives_a_cut_line() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("clusters")).expect("a folder");
        let lock = folder.path().join("study.lock");
        let read = || Spent::read(folder.path(), &lock);
        let mut spent = read().expect("nothing yet");
        spent.note("r1", "0001", 10.0, &terms()).expect("noted");
        spent.note("r1", "0002", 5.0, &terms()).expect("noted");
        // The same launch, with a better value.
        spent.note("r1", "0001", 12.0, &terms()).expect("noted");
        assert!((read().expect("read").in_currency("EUR") - 17.0).abs() < 1e-9);
        let path = read().expect("read").path;
        let mut file = fs::File::options()
            .append(true)
            .open(&path)
            .expect("a file");
        file.write_all(b"{\"run\": \"r1\", \"sha").expect("cut");
        let mut spent = read().expect("a cut line is left out");
        spent.note("r2", "0001", 1.0, &terms()).expect("noted");
        let spent = read().expect("read");
        assert!((spent.in_currency("EUR") - 18.0).abs() < 1e-9);
        assert!(spent.in_currency("USD").abs() < 1e-9);
        fs::write(&path, "{}\n").expect("damaged");
        assert!(read().is_err(), "what was spent is not forgotten");
    }

    #[test]
    fn spans_are_read_as_slurm_writes_them() {
        for (text, seconds) in [
            ("0:05", 5.0),
            ("01:02:03", 3_723.0),
            ("2-00:00:01", 172_801.0),
        ] {
            assert_eq!(seconds_of(text), Some(seconds), "{text}");
        }
        for text in ["", "INVALID", "1:x"] {
            assert_eq!(seconds_of(text), None, "{text}");
        }
    }

    #[test]
    fn an_expectation_has_the_variance_of_what_it_rests_on() {
        assert_eq!(moments(&[]), None);
        assert_eq!(moments(&[4.0]), Some((4.0, 4.0)));
        assert_eq!(moments(&[3.0, 5.0]), Some((4.0, 2.0)));
    }

    #[test]
    fn an_index_that_cannot_be_read_is_no_stage_without_earlier_executions() {
        let experiment = Experiment {
            name: "study".to_owned(),
            profile: None,
            file: "study.yaml".into(),
            sources: Vec::new(),
            seed: 1,
            order: pipeline::Order::default(),
            reuse: pipeline::Reuse::default(),
            design: None,
            spec: serde_json::Value::Null,
            axes: Default::default(),
            stages: Default::default(),
        };
        let folder = tempfile::tempdir().expect("a folder");
        let expect = |root: &Path| {
            let store = Store::open(root).expect("a store");
            Durations::default().expect(&experiment, &store, &mut ["load"].into_iter())
        };
        let never = expect(&folder.path().join("whole")).expect("an index");
        assert_eq!(never.unknown, 1);
        // A store whose index cannot be opened can still be read.
        let root = folder.path().join("store");
        fs::create_dir_all(root.join("objects")).expect("a folder");
        fs::create_dir(root.join("index.sqlite")).expect("a folder");
        assert!(matches!(expect(&root), Err(StoreError::Index(..))));
    }

    #[test]
    fn a_cost_says_what_it_rests_on_and_whether_it_fits() {
        let cost = Cost {
            costly: Costly::Launches,
            currency: "EUR".to_owned(),
            budget: 10.0,
            spent: 4.0,
            count: 3,
            expected: Some(7.0),
            uncertainty: 1.5,
            least: 0.0,
            most: None,
        };
        let text = cost.text();
        assert!(text.contains("about 7.00 ± 1.50"), "{text}");
        assert!(text.ends_with("more than the budget"), "{text}");
        let cost = Cost {
            expected: None,
            most: Some(30.0),
            ..cost
        };
        assert!(cost.text().contains("at most 30.00"), "{}", cost.text());
        assert!(cost.text().contains("run a profile"), "{}", cost.text());
        // Without records, the settings give a range.
        let cost = Cost { least: 2.0, ..cost };
        let text = cost.text();
        assert!(
            text.contains("at least 2.00 by the declared rates and durations, and at most 30.00"),
            "{text}"
        );
        assert!(text.contains("starting engines, warm-up"), "{text}");
        let cost = Cost { most: None, ..cost };
        let text = cost.text();
        assert!(text.contains("at least 2.00"), "{text}");
        let rented = Cost {
            costly: Costly::Rented,
            count: 1,
            ..cost
        };
        let text = rented.text();
        assert!(
            text.contains("what 1 rented machine costs; at least 2.00")
                && text.contains("creating the machine"),
            "{text}"
        );
        assert_eq!(rented.json()["machines"], 1);
    }
}
