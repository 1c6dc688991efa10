//! All rules, in the order in which they are asked.

use crate::finding::Finding;
use crate::rules::{
    Scope, arith, bind, boundary, commands, compare, count, derived, estimates, extremes, formula,
    grid, hardware, identities, keyed, labels, orderings, pairing, quantified, quantifiers, refs,
    repetition, restated, same, scaling, sentence, shape, statistics, steps, units, verdicts,
};

/// Applies every rule.
pub(crate) fn apply(scope: &Scope<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for rule in [
        shape::check,
        derived::check,
        estimates::check,
        identities::check,
        arith::check,
        count::check,
        compare::check,
        steps::check,
        quantifiers::check,
        quantified::check,
        repetition::check,
        statistics::check,
        extremes::check,
        orderings::check,
        units::check,
        refs::check,
        commands::check,
        formula::check,
        same::check,
        keyed::check,
        restated::check,
        sentence::check,
        grid::check,
        hardware::check,
        pairing::check,
        bind::check,
        boundary::check,
        scaling::check,
        labels::check,
        verdicts::check,
    ] {
        rule(scope, &mut found);
    }
    found
}
