//! The labels that an author writes at a figure: they have no number of their own, and no other unit than the column.

use crate::check::{Numeral, check, contradicts_label, numerals, with_names};
use crate::data::Data;
use crate::settings::{FigureSettings, Literal};
use crate::view::View;

/// Returns whether a number in a label is part of a name, such as `log2`, `p99` and `E2E`.
fn is_name(text: &str, label: &str) -> bool {
    let own = |numeral: &Numeral| label.get(numeral.range.clone()) == Some(text);
    let mut numerals = numerals(label).into_iter();
    numerals.any(|numeral| own(&numeral) && numeral.is_name(label))
}

/// Checks the labels of the axes and of the reference.
///
/// # Errors
/// The first label that is refused, with the reason and the remedy.
pub(crate) fn check_labels(
    settings: &FigureSettings,
    literals: &[Literal],
    data: &Data,
    view: &View,
) -> Result<(), String> {
    let unit = |column: Option<&String>| column.and_then(|column| view.table.unit(column));
    let reference = settings.reference.as_ref().and_then(|value| value.as_f64());
    for (key, label, unit) in [
        ("x-label", &settings.x_label, unit(Some(&settings.x))),
        ("y-label", &settings.y_label, unit(settings.y.as_ref())),
        ("reference-label", &settings.reference_label, None),
    ] {
        let Some(label) = label else { continue };
        if let (Some(other), Some(unit)) = (contradicts_label(label, unit.as_deref()), &unit) {
            return Err(format!(
                "`{key}: {label}` says `{other}`, but the unit of the column is `{unit}`: write this unit"
            ));
        }
        let literals = with_names(literals, data, label);
        let numbers = check(label, &[], &literals).findings.into_iter();
        let is_reference = |text: &str| {
            let values = numerals(text)
                .into_iter()
                .filter_map(|numeral| numeral.value);
            key == "reference-label" && values.eq(reference)
        };
        if let Some(number) = numbers
            .map(|finding| finding.text)
            .find(|text| !is_reference(text) && !is_name(text, label))
        {
            return Err(format!(
                "`{key}: {label}` has `{number}`, a number written by hand: leave it out, or declare it under \
                 `literals:` with the reason why it needs no artifact"
            ));
        }
    }
    Ok(())
}
