//! What makes a comparison unfair whatever its interval: one side lost cells, or its quantiles are of fewer values.

use artifacts::Scalar;
use contract::Verdict;

use crate::frame::{Absence, Frame, Missing, rows_of};
use crate::operators::comparison::{Compared, Terms};
use crate::operators::uneven::Quantiles;

impl Terms {
    /// Adds to a verdict that one side lost more cells than the other: what is left may be no fair sample of it.
    pub(super) fn with_losses(
        &self,
        from: &Frame,
        stratum: &[Scalar],
        (verdict, reason): (Verdict, Option<String>),
    ) -> (Verdict, Option<String>) {
        let (a, b) = self.pair.labels();
        let lost = |side: &str| {
            let here = from.missing_here(&self.by, stratum);
            let own = |m: &&Missing| {
                let label = m.get(&self.pair.axis).map(ToString::to_string);
                label.as_deref() == Some(side) && m.absence != Absence::Aggregate
            };
            here.filter(own).count()
        };
        let [of_a, of_b] = [&a, &b].map(|side| lost(side));
        if of_a == of_b || verdict == Verdict::Undecidable {
            return (verdict, reason);
        }
        let caution = format!(
            "{of_a} cells of {a} and {of_b} of {b} gave no result: if they failed because they were slow, the others flatter that \
             side"
        );
        let reason = reason.map_or(caution.clone(), |reason| format!("{reason}; {caution}"));
        (verdict, Some(reason))
    }

    /// Says why quantiles of the sides cannot be compared.
    pub(super) fn uneven<T>(&self, from: &Frame, test: &Compared<T>) -> Option<String> {
        let quantiles = Quantiles::of(from, &self.columns[test.column], &self.pair.axis)?;
        let (a, b) = self.pair.labels();
        quantiles.refusal(&rows_of(&test.lineage), [&a, &b])
    }
}
