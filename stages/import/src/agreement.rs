//! Figures that a file states beside its rows. Both are of one run, so the rows give the figures again.

use contract::RequestStatus;
use statistics::significant_without_zeros;

use crate::rows::{Clock, Imported, Row};

/// A figure of a tool over its successful requests.
pub(crate) struct Figure {
    /// The tool's name for the metric.
    pub(crate) metric: &'static str,
    pub(crate) over: Over,
    /// What a row adds, in the figure's unit: a sum, and the number of values in it. `None` if the row lacks them.
    pub(crate) part: fn(&Row) -> Option<(f64, f64)>,
}

/// How a figure follows from the values of its rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    Mean,
    Total,
}

impl Over {
    /// Returns the name of the statistic in a summary.
    fn word(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Total => "value",
        }
    }
}

/// The largest relative distance of a figure from its rows. Tools round some figures to a few digits.
const DISTANCE: f64 = 0.01;

/// Returns the time to the first token, ms, as a part.
pub(crate) fn ttft_ms(row: &Row) -> Option<(f64, f64)> {
    Some((ms(row.sent_ns?, row.first_token_ns?), 1.0))
}

/// Returns the time to the end, ms, as a part.
pub(crate) fn latency_ms(row: &Row) -> Option<(f64, f64)> {
    Some((ms(row.sent_ns?, row.done_ns?), 1.0))
}

/// Returns the gaps between chunks, ms, as a part.
pub(crate) fn gaps_ms(row: &Row) -> Option<(f64, f64)> {
    let chunks = row.chunks_ns.as_ref()?;
    let (first, last) = (chunks.first()?, chunks.last()?);
    Some((ms(*first, *last), (chunks.len() - 1) as f64))
}

/// Returns the output tokens as a part.
pub(crate) fn output_tokens(row: &Row) -> Option<(f64, f64)> {
    Some((row.output_tokens? as f64, 1.0))
}

fn ms(from: i64, to: i64) -> f64 {
    (to - from) as f64 / 1e6
}

/// Warns of figures that the rows contradict. A figure is not checked if a successful row lacks its values.
pub(crate) fn check(imported: &mut Imported, figures: &[Figure]) {
    let mut warnings = Vec::new();
    for figure in figures {
        let word = figure.over.word();
        let mut all = imported.summary.iter();
        let stated = all.find(|one| one.metric == figure.metric && one.statistic == word);
        let (Some(stated), Some(again)) = (stated, again(figure, imported)) else {
            continue;
        };
        let most = stated.value.abs().max(again.abs());
        if (again - stated.value).abs() > DISTANCE * most {
            let kind = match figure.over {
                Over::Mean => "mean ",
                Over::Total => "",
            };
            let what = format!("{kind}`{}`", figure.metric);
            let unit = stated.unit.as_deref().unwrap_or_default();
            warnings.push(contradiction(&what, stated.value, again, unit));
        }
    }
    warnings.extend(short(imported));
    imported.warnings.extend(warnings);
}

/// Returns a figure as the rows give it.
fn again(figure: &Figure, imported: &Imported) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    let measured = imported.requests.iter().filter(|row| !row.warmup);
    for row in measured.filter(|row| row.status == RequestStatus::Ok) {
        let (value, of_row) = (figure.part)(row)?;
        sum += value;
        count += of_row;
    }
    match figure.over {
        Over::Mean => (count > 0.0).then(|| sum / count),
        Over::Total => Some(sum),
    }
}

/// Warns of a `duration` that is shorter than the time that the rows take.
fn short(imported: &Imported) -> Option<String> {
    let mut all = imported.summary.iter();
    let stated = all.find(|one| one.metric == "duration")?.value;
    let rows = || imported.requests.iter();
    let from = rows().filter_map(|row| row.sent_ns).min()?;
    let to = rows()
        .filter_map(|row| row.done_ns.or(row.last_token_ns))
        .max()?;
    let taken = ms(from, to) / 1e3;
    let is_short = imported.facts.clock == Clock::Cell && taken * (1.0 - DISTANCE) > stated;
    is_short.then(|| contradiction("`duration`", stated, taken, "s"))
}

fn contradiction(what: &str, stated: f64, again: f64, unit: &str) -> String {
    let shown = |value| significant_without_zeros(value, 4);
    format!(
        "the file states a {what} of {} {unit}, but its rows give {} {unit}: they are of different runs, or a list has \
         another unit than the tool writes. Import the file that the tool wrote",
        shown(stated),
        shown(again)
    )
}
