//! Studies whose number of blocks changed after blocks were measured, without a declared stopping rule.
//!
//! The record of each measurement holds the number of blocks that the design had at that time. Whoever adds blocks until
//! a verdict comes looks at the data repeatedly, and a test of the last look alone does not know that.

use pipeline::stage::{CellStatus, LedgerLine, Study};

/// The changes of the number of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Extended {
    /// The numbers of blocks after which the measurements of a plan were complete, ascending; at each, the verdicts could
    /// be looked at.
    complete: Vec<usize>,
    /// The largest number of blocks that was planned, if it is above the present one.
    dropped: Option<usize>,
    now: usize,
}

impl Extended {
    /// Finds the changes; `None` if the records show none, or if the design has `until`, whose tests hold at every look.
    pub(crate) fn of(study: &Study) -> Option<Self> {
        let design = study.spec.get("design")?;
        if design.get("until").is_some_and(|until| !until.is_null()) {
            return None;
        }
        let now = usize::try_from(design.get("blocks")?.as_u64()?).ok()?;
        Self::at(&study.ledger, now)
    }

    fn at(ledger: &[LedgerLine], now: usize) -> Option<Self> {
        let fine = ledger.iter().filter(|line| line.status == CellStatus::Ok);
        let places = fine.filter_map(|line| {
            let place = line.execution.as_ref()?.place.as_ref()?;
            Some((place.block, place.planned?))
        });
        let places: Vec<(usize, usize)> = places.collect();
        // The last block of a plan was measured under that plan.
        let complete = places
            .iter()
            .filter(|(block, planned)| block == planned && *planned < now);
        let mut complete: Vec<usize> = complete.map(|(_, planned)| *planned).collect();
        complete.sort_unstable();
        complete.dedup();
        let most = places.iter().map(|(_, planned)| *planned).max();
        let dropped = most.filter(|most| *most > now);
        (!complete.is_empty() || dropped.is_some()).then_some(Self {
            complete,
            dropped,
            now,
        })
    }

    /// Describes the changes for the limits of a report.
    pub(crate) fn words(&self) -> String {
        let mut parts = Vec::new();
        if !self.complete.is_empty() {
            parts.push(format!(
                "blocks were added after all {} blocks of an earlier plan were measured; the plan now has {}, and no \
                 `until`. If you looked at the verdicts to decide, false differences are more frequent than the level of \
                 the tests: with a look after each of 5 to 12 blocks, 14 % of studies of equal systems have one",
                listed(&self.complete, "and then all"),
                self.now
            ));
        }
        if let Some(dropped) = self.dropped {
            parts.push(format!(
                "some measurements were planned with {dropped} blocks, and the plan now has {}; the report leaves out the \
                 others",
                self.now
            ));
        }
        parts.join("; ")
    }

    /// Describes the changes after the words "licensed".
    pub(crate) fn licence(&self) -> String {
        match (self.complete.as_slice(), self.dropped) {
            ([], Some(dropped)) => format!("by {} of {dropped} planned blocks", self.now),
            (complete, _) => {
                let planned = listed(complete, "or");
                format!("after blocks were added to a plan of {planned}")
            }
        }
    }
}

fn listed(numbers: &[usize], word: &str) -> String {
    let texts: Vec<String> = numbers.iter().map(usize::to_string).collect();
    match texts.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} {word} {last}", others.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use pipeline::design::Place;
    use pipeline::stage::{Coordinates, Execution};

    use super::*;

    fn line(block: usize, planned: Option<usize>) -> LedgerLine {
        LedgerLine {
            stage: "ladder".to_owned(),
            coordinates: Coordinates::default(),
            status: CellStatus::Ok,
            reason: None,
            evidence: std::collections::BTreeMap::new(),
            execution: Some(Execution {
                order: 1,
                place: Some(Place {
                    block,
                    launch: "side=a".to_owned(),
                    place: 1,
                    launches: 1,
                    position: 1,
                    planned,
                }),
                executions: 1,
                discarded: Vec::new(),
                loud: None,
                host: None,
                by: None,
                started: None,
            }),
        }
    }

    fn licence_of(lines: &[(usize, Option<usize>)], now: usize) -> Option<String> {
        let ledger: Vec<LedgerLine> = lines.iter().map(|(b, p)| line(*b, *p)).collect();
        Extended::at(&ledger, now).map(|extended| extended.licence())
    }

    #[test]
    fn blocks_that_were_added_or_left_out_after_a_plan_was_measured_are_found() {
        let rows = |blocks: std::ops::RangeInclusive<usize>, planned| {
            blocks.map(move |b| (b, Some(planned)))
        };
        let five: Vec<_> = rows(1..=5, 5).collect();
        assert_eq!(licence_of(&five, 5), None);
        let more: Vec<_> = rows(1..=5, 5).chain(rows(6..=8, 8)).collect();
        assert_eq!(
            licence_of(&more, 8).unwrap(),
            "after blocks were added to a plan of 5"
        );
        let looks: Vec<_> = rows(1..=5, 5)
            .chain(rows(6..=6, 6))
            .chain(rows(7..=8, 8))
            .collect();
        assert_eq!(
            licence_of(&looks, 8).unwrap(),
            "after blocks were added to a plan of 5 or 6"
        );
        // The first plan was changed before its blocks were measured: there was no verdict to look at.
        let early: Vec<_> = rows(1..=3, 5).chain(rows(4..=8, 8)).collect();
        assert_eq!(licence_of(&early, 8), None);
        let fewer: Vec<_> = rows(1..=5, 8).collect();
        assert_eq!(licence_of(&fewer, 5).unwrap(), "by 5 of 8 planned blocks");
        // Older records do not hold the plan.
        let unknown: Vec<_> = (1..=8).map(|block| (block, None)).collect();
        assert_eq!(licence_of(&unknown, 8), None);
    }
}
