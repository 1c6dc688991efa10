//! The cells that gates keep from every statistic.

use std::collections::BTreeMap;

use artifacts::{Table, TableError};

/// The cells that gates keep from every statistic, with the reasons.
#[derive(Clone, Debug, Default)]
pub struct Exclusions {
    /// By stage, and by the cell's coordinates as text.
    reasons: BTreeMap<String, BTreeMap<String, String>>,
}

impl Exclusions {
    /// Adds the rows of a table `exclusions` of a verification.
    ///
    /// # Errors
    /// If the table lacks a column, or it is not text.
    pub fn add(&mut self, table: &Table) -> Result<(), TableError> {
        let [stages, cells] = [table.text("stage")?, table.text("cell")?];
        let [gates, reasons] = [table.text("gate")?, table.text("reason")?];
        for (row, (stage, cell)) in stages.into_iter().zip(cells).enumerate() {
            let of_stage = self.reasons.entry(stage.unwrap_or_default().to_owned());
            let of_cell = of_stage
                .or_default()
                .entry(cell.unwrap_or_default().to_owned());
            let gate = gates[row].unwrap_or_default();
            let reason = format!("gate {gate}: {}", reasons[row].unwrap_or_default());
            of_cell
                .and_modify(|earlier| *earlier = format!("{earlier}; {reason}"))
                .or_insert(reason);
        }
        Ok(())
    }

    /// Returns why gates exclude a cell, given its coordinates as text; `None` if none does.
    pub fn why(&self, stage: &str, cell: &str) -> Option<&str> {
        self.reasons.get(stage)?.get(cell).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use artifacts::Column;

    use super::*;

    #[test]
    fn a_cell_has_the_reasons_of_all_its_gates() {
        let text = |name: &str, values: [&'static str; 2]| Column::text(name, values.map(Some));
        let table = Table::new(vec![
            text("stage", ["load", "load"]),
            text("cell", ["clients=1", "clients=1"]),
            text("gate", ["stalls", "clock"]),
            text("reason", ["it stalls", "it is late"]),
        ]);
        let mut exclusions = Exclusions::default();
        exclusions
            .add(&table.expect("a table"))
            .expect("its columns");
        let why = "gate stalls: it stalls; gate clock: it is late";
        assert_eq!(exclusions.why("load", "clients=1"), Some(why));
        assert_eq!(exclusions.why("load", "clients=2"), None);
        assert_eq!(exclusions.why("other", "clients=1"), None);
    }
}
