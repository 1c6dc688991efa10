//! The aggregates in a tool's result, under the tool's own names.

use crate::json::{At, ImportError};
use crate::rows::Statistic;

/// A metric of a tool: its name, its unit and the tool's definition.
pub(crate) type Definition = (&'static str, &'static str, &'static str);

/// Reads the figures of one object that are named `STATISTIC_METRIC_ms`, and those with names of
/// their own. `n` is the number of values of a distribution, if it is reported.
pub(crate) fn flat(
    result: &At<'_>,
    distributions: &[Definition],
    figures: &[Definition],
    n: impl Fn(&str) -> Option<i64>,
) -> Result<Vec<Statistic>, ImportError> {
    let mut all = Vec::new();
    for key in result.object()?.keys() {
        let Some(at) = result.get(key) else { continue };
        if let Some((name, unit, definition)) = figures.iter().find(|(name, _, _)| name == key) {
            all.push(Statistic {
                metric: (*name).to_owned(),
                statistic: "value".to_owned(),
                unit: Some((*unit).to_owned()),
                value: at.number()?,
                n: None,
                definition: (*definition).to_owned(),
            });
            continue;
        }
        let Some((statistic, metric)) = key.strip_suffix("_ms").and_then(|k| k.split_once('_'))
        else {
            continue;
        };
        if let Some((name, unit, definition)) =
            distributions.iter().find(|(name, _, _)| *name == metric)
        {
            all.push(Statistic {
                metric: (*name).to_owned(),
                statistic: statistic.to_owned(),
                unit: Some((*unit).to_owned()),
                value: at.number()?,
                n: n(metric),
                definition: (*definition).to_owned(),
            });
        }
    }
    all.sort_by(|a, b| (&a.metric, &a.statistic).cmp(&(&b.metric, &b.statistic)));
    Ok(all)
}
