//! The columns of a table, each traced as a whole.

use std::collections::{BTreeMap, BTreeSet};

use super::{Asked, LISTED, Status, Traced, Tracer};
use crate::finding::{Evidence, Finding, Rule};
use crate::number::{Quantity, quantities, shown};
use crate::source::{Derived, Formula, How, Key, KeyedTable};
use crate::table::Table;

/// Columns of counts that match a level column of the data, with that column.
fn like_columns(table: &Table, source: &KeyedTable<'_>) -> BTreeMap<usize, usize> {
    (0..table.columns.len())
        .filter_map(|column| {
            let counts =
                (0..table.rows.len()).map(|row| table.plain(row, column).filter(|n| n.is_count()));
            let values: Vec<String> = counts
                .map(|n| n.map(|n| shown(n.value)))
                .collect::<Option<_>>()?;
            let data = source.levels_like(table.name(column), &values, column == 0)?;
            Some((column, data))
        })
        .collect()
}

/// A data table, and the formula by which it yields a column.
type Signature = (usize, Formula);

/// The maximum number of derivations that are compared with every cell of a column.
const MOST_SIGNATURES: usize = 8;

impl Tracer<'_> {
    /// Traces the cells of a table, column by column.
    pub(super) fn table(
        &mut self,
        table: &Table,
        numbers: &mut Vec<Traced>,
        findings: &mut Vec<Finding>,
    ) {
        let like: Vec<BTreeMap<usize, usize>> = self
            .sources
            .iter()
            .map(|source| like_columns(table, source))
            .collect();
        // Levels of the data identify rows, and are not traced themselves.
        let is_label = |column: usize| {
            !table.is_numeric(column) || like.iter().any(|like| like.contains_key(&column))
        };
        for column in (0..table.columns.len()).filter(|column| !is_label(*column)) {
            let asked: Vec<Asked> = (0..table.rows.len())
                .map(|row| {
                    let mut texts: Vec<&str> = (0..table.columns.len())
                        .filter(|c| is_label(*c))
                        .filter_map(|c| table.cell(row, c))
                        .map(|cell| cell.text.as_str())
                        .collect();
                    texts.push(table.name(column));
                    self.asked(&texts, &table.title, (table, row, column), &like)
                })
                .collect();
            let expected = self.signature(table, column, &asked);
            for (row, asked) in asked.iter().enumerate() {
                let Some(cell) = table.cell(row, column) else {
                    continue;
                };
                let (line, first) = table.spot(row, column);
                let around = [table.label(row), table.name(column), table.title.as_str()];
                let context = format!("{} | {}", around[0], around[1]);
                for number in &quantities(&cell.text) {
                    let text = cell.text.get(number.start..number.end).unwrap_or("");
                    let before = cell.text.get(..number.start).unwrap_or("");
                    let place = (line, first + before.chars().count());
                    let mut traced = self.number(number, place, text, &context, &around, asked);
                    let own = cell.value.as_ref().filter(|own| own.start == number.start);
                    if let (Some(signature), Some(_)) = (&expected, own) {
                        self.settle(signature, number, asked, &mut traced, table, findings);
                    }
                    numbers.push(traced);
                }
            }
        }
    }

    /// The keys that a row and a header name; those of the title only for columns that neither names.
    fn asked(
        &self,
        texts: &[&str],
        title: &str,
        (table, row, traced): (&Table, usize, usize),
        like: &[BTreeMap<usize, usize>],
    ) -> Asked {
        self.sources
            .iter()
            .zip(like)
            .map(|(source, like)| {
                let mut keys: BTreeSet<Key> =
                    texts.iter().flat_map(|text| source.named(text)).collect();
                for (own, column) in like.iter().filter(|(own, _)| **own != traced) {
                    keys.extend(table.plain(row, *own).map(|n| (*column, shown(n.value))));
                }
                let columns: BTreeSet<usize> = keys.iter().map(|key| key.0).collect();
                keys.extend(
                    source
                        .named(title)
                        .into_iter()
                        .filter(|key| !columns.contains(&key.0)),
                );
                keys
            })
            .collect()
    }

    /// The derivation that yields most cells of a column: at least three, and three for each cell that it does not
    /// yield.
    fn signature(&mut self, table: &Table, column: usize, asked: &[Asked]) -> Option<Signature> {
        let cells = asked.iter().enumerate();
        let filled: Vec<(&Quantity, &Asked)> = cells
            .filter_map(|(row, asked)| Some((table.value(row, column)?, asked)))
            .collect();
        // The number of cells that a derivation yields, and their distinct values.
        let mut tally: BTreeMap<Signature, (usize, BTreeSet<u64>)> = BTreeMap::new();
        for (stated, asked) in &filled {
            let named = asked
                .iter()
                .enumerate()
                .filter(|(_, keys)| !keys.is_empty());
            for (at, keys) in named {
                let fits = |derived: &&Derived| derived.gives(stated);
                for derived in self.derive(at, keys).iter().filter(fits) {
                    let counts = tally.entry((at, derived.formula.clone())).or_default();
                    counts.0 += 1;
                    counts.1.insert(stated.value.to_bits());
                }
            }
        }
        tally.retain(|_, (yes, values)| *yes >= 3 && values.len() >= 3);
        let mut most: Vec<(Signature, usize)> = tally
            .into_iter()
            .map(|(signature, (yes, _))| (signature, yes))
            .collect();
        most.sort_by_key(|(signature, yes)| (std::cmp::Reverse(*yes), signature.1.how));
        most.truncate(MOST_SIGNATURES);
        most.into_iter().find_map(|(signature, yes)| {
            let mut no = 0;
            for (stated, asked) in &filled {
                let mut derived = self.derive(signature.0, &asked[signature.0]).iter();
                let there = derived.find(|derived| derived.formula == signature.1);
                no += usize::from(there.is_some_and(|derived| !derived.gives(stated)));
            }
            (yes >= 3 * no).then_some(signature)
        })
    }

    /// Judges a cell of a column whose derivation is known: it agrees or differs.
    fn settle(
        &mut self,
        signature: &Signature,
        stated: &Quantity,
        asked: &Asked,
        traced: &mut Traced,
        table: &Table,
        findings: &mut Vec<Finding>,
    ) {
        let at = &signature.0;
        let derivation = self
            .derive(*at, &asked[*at])
            .iter()
            .find(|derived| derived.formula == signature.1);
        let Some(derived) = derivation.cloned() else {
            return;
        };
        let source = self.source(*at, &derived);
        if derived.gives(stated) {
            traced.status = match derived.formula.how {
                How::Cell => Status::Cell,
                _ => Status::Derived,
            };
            traced.sources.retain(|other| *other != source);
            traced.sources.insert(0, source);
            traced.sources.truncate(LISTED);
            traced.candidates = traced.candidates.max(traced.sources.len());
            return;
        }
        let value = shown(source.value);
        let message = format!(
            "the data gives {value}: {}, which yields the rest of this column",
            source.formula
        );
        let quote = format!("{} | {}", traced.context, traced.number);
        let cause = format!("line {}: {}", table.line, self.sources[*at].table.file);
        let place = (traced.line, traced.column);
        let evidence = |place: &String| Evidence::new(place.clone(), value.clone());
        findings.push(Finding {
            evidence: source.places.iter().map(evidence).collect(),
            ..Finding::new(Rule::Data, place, &quote, message, cause)
        });
        traced.status = Status::Differs;
        traced.sources = vec![source];
        traced.candidates = 1;
    }
}
