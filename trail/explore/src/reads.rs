//! The load stages whose measurements a table shows. Stages may have the same axes, and then only this tells which cells
//! the rows of a table belong to.

use std::cell::RefCell;
use std::collections::BTreeSet;

use artifacts::{ColumnReader, Digest, Store, Table, TableError};
use pipeline::lock::LockClass;
use serde_json::Value;

use crate::catalogue::{Catalogue, Entry};

/// Returns the load stages that a table reads, directly or through other tables; `None` if the store cannot tell.
pub(crate) fn loads_of(
    name: &str,
    catalogue: &Catalogue<'_>,
    store: &Store,
) -> Option<BTreeSet<String>> {
    let (mut loads, mut seen) = (BTreeSet::new(), BTreeSet::new());
    let mut waiting = vec![name.to_owned()];
    while let Some(name) = waiting.pop() {
        let Some(entry) = catalogue.tables.get(&name) else {
            continue;
        };
        if entry.stage.class == LockClass::Measurement {
            loads.insert(entry.stage.name.clone());
        } else if entry.stage.class == LockClass::Pure
            && !entry.output.ends_with(".lineage")
            && seen.insert(name.clone())
        {
            match declared(entry, store).ok()? {
                Some(load) => drop(loads.insert(load)),
                None => waiting.extend(sources(&name, entry, catalogue, store).ok()?),
            }
        }
    }
    Some(loads)
}

/// Returns the load stage that the parameters of a table name.
fn declared(entry: &Entry<'_>, store: &Store) -> Result<Option<String>, TableError> {
    let (head, _) = Table::read_rows(store, &entry.sample.digest, 0..0)?;
    let parameters = head.metadata("parameters");
    let parameters: Option<Value> = parameters.and_then(|text| serde_json::from_str(&text).ok());
    let load = parameters.as_ref().and_then(|p| p["load"].as_str());
    Ok(load.map(str::to_owned))
}

/// Returns the tables that a table was computed from, as its lineage names them.
fn sources(
    name: &str,
    entry: &Entry<'_>,
    catalogue: &Catalogue<'_>,
    store: &Store,
) -> Result<Vec<String>, TableError> {
    let Some(lineage) = catalogue.tables.get(&format!("{name}.lineage")) else {
        return Ok(Vec::new());
    };
    let named = pairs(&lineage.sample.digest, store)?.into_iter();
    // A source without a stage is a table of the same cell.
    let full = |(stage, output): (Option<String>, Option<String>)| {
        let stage = stage.unwrap_or_else(|| entry.stage.name.clone());
        format!("{stage}.{}", output.unwrap_or_default())
    };
    Ok(named.map(full).collect())
}

type Pairs = BTreeSet<(Option<String>, Option<String>)>;

/// Returns the different pairs of stage and output in a lineage, which may have a row for each request.
fn pairs(lineage: &Digest, store: &Store) -> Result<Pairs, TableError> {
    let columns = ["source_stage", "source_output"];
    let mut pairs = Pairs::new();
    for batch in ColumnReader::open(store, lineage, &columns)? {
        let batch = batch?;
        let texts: RefCell<Vec<Option<String>>> = RefCell::default();
        let number = |text: Option<&str>| {
            let mut texts = texts.borrow_mut();
            let place = texts.iter().position(|own| own.as_deref() == text);
            place.unwrap_or_else(|| {
                texts.push(text.map(str::to_owned));
                texts.len() - 1
            })
        };
        let [stages, outputs] = columns.map(|column| batch.of_each_text(column, number));
        let numbers: BTreeSet<(usize, usize)> = stages?.into_iter().zip(outputs?).collect();
        let texts = texts.into_inner();
        pairs.extend(
            numbers
                .into_iter()
                .map(|(stage, output)| (texts[stage].clone(), texts[output].clone())),
        );
    }
    Ok(pairs)
}
