//! The conditions under which the cells of both studies were measured.
//!
//! Two studies were measured at different times, perhaps while other programs ran. If the machine was busier for one of
//! them, a change is not evidence about the system.

use std::collections::{BTreeMap, BTreeSet};

use artifacts::Table;
use conditions::{ALPHA, Compared, Conditions, Measured, Samples, compared};
use contract::{Lineage, LineageSource};
use pipeline::Media;

use crate::side::{CompareError, Side};
use crate::tables::row_key;

/// Why the values of two studies cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unlike {
    /// They were measured under different conditions.
    Conditions(String),
    /// Their tail quantiles rest on unlike numbers of requests.
    Requests(String),
    /// Their units lie within unlike labels.
    Labels(String),
}

impl Unlike {
    /// Returns the reason in words.
    pub(crate) fn reason(&self) -> &str {
        match self {
            Self::Conditions(reason) | Self::Requests(reason) | Self::Labels(reason) => reason,
        }
    }
}

/// The load cells behind each row of a table, with the conditions sampled during them.
pub(crate) struct Surroundings {
    side: &'static str,
    behind: Vec<Vec<Conditions>>,
}

impl Surroundings {
    /// Reads the conditions sampled during the cells behind a table. Empty if the table has no lineage.
    ///
    /// # Errors
    /// If an artifact cannot be read.
    pub(crate) fn read(
        side: &Side<'_>,
        called: &'static str,
        name: &str,
        rows: usize,
    ) -> Result<Self, CompareError> {
        let mut conditions: BTreeMap<String, Option<Conditions>> = BTreeMap::new();
        let mut behind = vec![Vec::new(); rows];
        let mut seen = BTreeSet::new();
        for (row, cell) in cells(side, name)? {
            if row >= rows || !seen.insert((row, cell.clone())) {
                continue;
            }
            if !conditions.contains_key(&cell) {
                conditions.insert(cell.clone(), sampled(side, &cell)?);
            }
            behind[row].extend(conditions[&cell].clone());
        }
        Ok(Self {
            side: called,
            behind,
        })
    }

    /// Adds the cells behind some rows, each with its unit. Two studies have no common units.
    fn measured<'a>(
        &'a self,
        table: &'a Table,
        units: &'a [String],
        wanted: impl Fn(usize) -> bool + 'a,
    ) -> impl Iterator<Item = Measured> + 'a {
        let rows = self.behind.iter().enumerate();
        let rows = rows.filter(move |(row, _)| wanted(*row));
        rows.flat_map(move |(row, cells)| {
            let unit = format!("{}: {}", self.side, row_key(table, units, row));
            cells.iter().map(move |conditions| Measured {
                side: self.side.to_owned(),
                unit: unit.clone(),
                conditions: conditions.clone(),
            })
        })
    }
}

/// Both studies' cells behind one table.
pub(crate) struct Both<'a> {
    pub(crate) tables: [&'a Table; 2],
    pub(crate) surroundings: [Surroundings; 2],
    /// The axes whose labels are units. If there are none, every row is a unit.
    pub(crate) units: Vec<String>,
    /// The axes that give a row's coordinate.
    pub(crate) places: Vec<String>,
    /// The conditions that may differ.
    pub(crate) may_differ: &'a [String],
}

impl Both<'_> {
    /// Describes the differences in measuring conditions between the two studies, at one coordinate or at all that both
    /// have; `None` if conditions were alike or nothing was sampled.
    pub(crate) fn unlike(&self, at: Option<&str>) -> Option<Unlike> {
        let place = |side: usize, row: usize| row_key(self.tables[side], &self.places, row);
        let all = |side: usize| -> BTreeSet<String> {
            (0..self.tables[side].rows())
                .map(|row| place(side, row))
                .collect()
        };
        let shared: BTreeSet<String> = all(0).intersection(&all(1)).cloned().collect();
        let measured = [0, 1].into_iter().flat_map(|side| {
            let shared = &shared;
            let wanted = move |row: usize| match at {
                Some(at) => place(side, row) == at,
                None => shared.contains(&place(side, row)),
            };
            self.surroundings[side].measured(self.tables[side], &self.units, wanted)
        });
        let mut differences = compared(&measured.collect::<Vec<_>>(), ALPHA, self.may_differ);
        differences.retain(|condition| condition.differs);
        let text: Vec<String> = differences.iter().map(Compared::text).collect();
        let text = text.join("; ");
        let reason = || format!("the studies were measured under different conditions: {text}");
        (!text.is_empty()).then(|| Unlike::Conditions(reason()))
    }
}

/// Returns each row of a table with its source load cells.
pub(crate) fn cells(side: &Side<'_>, table: &str) -> Result<Vec<(usize, String)>, CompareError> {
    let name = format!("{table}.lineage");
    let Some(digest) = side.output(&name) else {
        return Ok(Vec::new());
    };
    let wrong = |e: String| CompareError::Study(format!("{}: {name}: {e}", side.name));
    let lineage = Table::from_parquet(side.bytes(&name, &digest)?);
    let lineage = lineage.map_err(|e| wrong(e.to_string()))?;
    // Older versions of Benchtrail did not record which cells the rows came from.
    let Ok(lineage) = Lineage::read(&lineage) else {
        return Ok(Vec::new());
    };
    let rows = lineage.rows.iter();
    let origin = |row: &contract::LineageRow<usize>| match &lineage.sources[row.source] {
        LineageSource::Artifact(source) => Some((row.row, source.cell.to_string())),
        LineageSource::Table(_) => None,
    };
    Ok(rows.filter_map(origin).collect())
}

/// Reads the conditions sampled during a cell; `None` if there are none.
fn sampled(side: &Side<'_>, cell: &str) -> Result<Option<Conditions>, CompareError> {
    let Some(executed) = side.cells.iter().find(|c| c.name() == cell) else {
        return Ok(None);
    };
    let table = |output: &str| -> Result<Option<Table>, CompareError> {
        let outputs = executed.record.outputs.iter();
        let mut artifacts = outputs.filter(|(name, _)| name.as_str() == output);
        let Some((_, artifact)) = artifacts.next().filter(|(_, a)| a.media == Media::Parquet)
        else {
            return Ok(None);
        };
        let name = format!("{cell}.{output}");
        let table = Table::from_parquet(side.bytes(&name, &artifact.digest)?);
        let table =
            table.map_err(|e| CompareError::Study(format!("{}: {name}: {e}", side.name)))?;
        Ok(Some(table))
    };
    let facts = table("cell")?;
    let fact = |name: &str| *facts.as_ref()?.int(name).ok()?.first()?;
    let (host, gpu) = (table("host_telemetry")?, table("gpu_telemetry")?);
    let processes = table("process_telemetry")?;
    let server_host = table("server_host_telemetry")?;
    let samples = Samples {
        host: host.as_ref(),
        gpu: gpu.as_ref(),
        processes: processes.as_ref(),
        server_host: server_host.as_ref(),
        window: fact("window_from_ns").zip(fact("window_to_ns")),
    };
    let sampled = host.is_some() || gpu.is_some() || server_host.is_some();
    Ok(sampled.then(|| samples.conditions()))
}
