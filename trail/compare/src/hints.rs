//! What helps if a column of the gate is undecidable. The reason decides: more blocks help only if the spread is too large.

use crate::surroundings::Unlike;

/// The bounds are too wide.
pub(crate) const MORE: &str = "more blocks on both sides narrow the bounds";

/// There are fewer than three units.
const FEW: &str = "measure at least three blocks in each study; if the axis of the launches is not `block`, name it with \
                   `--unit`";

/// There are no units.
pub(crate) const UNITS: &str = "if the axis of the launches is not `block`, name it with `--unit`; a study without launches of its \
                                own needs `design: {blocks: 5}`";

/// One study has far more units.
pub(crate) const SIMILAR: &str = "measure similar numbers of blocks in both studies";

/// The newer study lost cells.
pub(crate) const CELLS: &str = "`benchtrail run` measures failed cells again, and `benchtrail status` says why cells are missing";

/// The newer study lost requests.
pub(crate) const REQUESTS: &str = "look why requests were lost; `--column ok_rate` judges the loss itself, and `--lost-requests 0.1` allows a loss of 0.1 %";

/// There are no values.
pub(crate) const VALUES: &str = "name columns that both studies have values of; a quantile is null if too few requests bound it";

/// The studies share no coordinate with a value.
pub(crate) const COORDINATES: &str = "compare studies whose axes have names and labels in common; a quantile is null if too few requests \
                                      bound it";

/// There is no better direction.
pub(crate) const DIRECTION: &str = "`diff` without `--gate` shows whether such a column changed; the gate needs columns with a better direction";

/// The conditions differ.
const CONDITIONS: &str = "measure again under the same conditions, or name those that may differ with \
                          `--conditions-may-differ`";

/// Returns what helps against a difference between the studies. Others say themselves what to do.
pub(crate) fn of_unlike(unlike: &Unlike) -> Option<&'static str> {
    match unlike {
        Unlike::Conditions(_) => Some(CONDITIONS),
        Unlike::Requests(_) | Unlike::Labels(_) => None,
    }
}

/// Returns what helps if the units of a study are too few. Other reasons of units say themselves what to do, or nothing helps.
pub(crate) fn of_units(fewest: usize) -> Option<&'static str> {
    (fewest < statistics::LEAST_UNITS).then_some(FEW)
}
