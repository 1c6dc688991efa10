//! Times that one side recorded in coarse steps, and how far they could move an effect.
//!
//! A clock that ticks every 16 ms, or a tool that writes whole milliseconds, may be early or late by up to one step, always in
//! the same direction. More launches do not reveal such an error. If both sides recorded in equal steps, most of it cancels. If
//! one side did, a difference below a step may be the step itself.

use std::collections::BTreeMap;

use contract::{CellRows, Request, RowSource};
use pipeline::Failure;
use statistics::{Sample, time_step};

use crate::intake::Load;
use crate::lost_requests::{Asked, Statistic, statistic_of};
use crate::operators::cell_summary::{ICL, ITL};
use crate::operators::units::Scale;

/// The two moments between which a time lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Span {
    FirstToken,
    FirstTokenScheduled,
    LastToken,
    LastTokenScheduled,
    /// From the first token to the last.
    Decode,
}

const SPANS: [Span; 5] = [
    Span::FirstToken,
    Span::FirstTokenScheduled,
    Span::LastToken,
    Span::LastTokenScheduled,
    Span::Decode,
];

impl Span {
    /// Returns the time of a request, ns.
    fn ns_of(self, request: &Request) -> Option<i64> {
        let (from, to) = match self {
            Self::FirstToken => (request.sent_ns, request.first_token_ns),
            Self::FirstTokenScheduled => (request.scheduled_ns, request.first_token_ns),
            Self::LastToken => (request.sent_ns, request.last_token_ns),
            Self::LastTokenScheduled => (request.scheduled_ns, request.last_token_ns),
            Self::Decode => (
                request.decode().map(|(from, _)| from),
                request.last_token_ns,
            ),
        };
        Some(to? - from?)
    }

    /// Returns the span behind a metric, and whether the metric falls as the span grows.
    fn behind(metric: &str) -> Option<(Self, bool)> {
        Some(match metric {
            "ttft_ms" => (Self::FirstToken, false),
            "ttft_scheduled_ms" => (Self::FirstTokenScheduled, false),
            "e2e_latency_ms" => (Self::LastToken, false),
            "e2e_scheduled_ms" => (Self::LastTokenScheduled, false),
            "tpot_ms" => (Self::Decode, false),
            "prefill_rate" => (Self::FirstToken, true),
            "decode_rate" => (Self::Decode, true),
            _ => return None,
        })
    }
}

/// The times of one span in one cell that recorded them in steps.
#[derive(Clone, Debug)]
struct Stepped {
    /// The step, ns; 0 if all times are equal, which may be any multiple.
    step: f64,
    times: Sample,
}

/// The spans of one cell whose times come in steps.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClockSteps(BTreeMap<Span, Stepped>);

impl ClockSteps {
    /// Looks for steps in the times of the answered requests of a cell. A simulated server may take equal times without
    /// any clock.
    pub(crate) fn of(rows: &CellRows) -> Self {
        let source = rows.cell.as_ref().and_then(|cell| cell.text("source"));
        if source == Some(RowSource::Simulated.word()) {
            return Self::default();
        }
        let answered = || {
            rows.requests
                .iter()
                .filter(|r| r.is_measured() && r.is_ok())
        };
        let of_span = |span: Span| {
            let times = answered().filter_map(|request| span.ns_of(request));
            Some((span, stepped(times.collect())?))
        };
        Self(SPANS.into_iter().filter_map(of_span).collect())
    }
}

/// Returns times, ns, with their step; `None` if they have none.
fn stepped(times: Vec<i64>) -> Option<Stepped> {
    let first = *times.first()?;
    let step = match time_step(&times) {
        Some(step) => step,
        // Other cells may tell the step of the clock.
        None if times.len() >= LEAST_EQUAL && times.iter().all(|time| *time == first) => 0.0,
        None => return None,
    };
    let times = Sample::new(times.into_iter().map(|ns| ns as f64)).ok()?;
    Some(Stepped { step, times })
}

/// How far the steps of two sides could move the effect of the first over the second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct UnlikeSteps {
    /// The step of each side, ns; 0 for a clock too fine to matter. For rounded values, the largest relative error of each side.
    steps: [f64; 2],
    /// Whether values were rounded, not times.
    values: bool,
    /// The most by which the true effect may lie below and above the recorded one, on the scale: −low and high.
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// The fewest equal times that are no coincidence: a clock in nanoseconds hardly ever gives two.
const LEAST_EQUAL: usize = 8;

/// How near two steps must be to be the same clock's.
const ALIKE: f64 = 0.01;

/// The largest shift of a logarithm: where a step is as long as the time itself, the true time may be near 0.
const MOST: f64 = 50.0;

impl UnlikeSteps {
    /// Bounds what the steps of times do to a comparison of a column over some cells. `None` if they do nothing, and for
    /// columns that are no mean or quantile of a time and no throughput.
    ///
    /// # Errors
    /// If rows cannot be read.
    pub(crate) fn of(
        loads: &[Load<'_>],
        cells: &[&Asked],
        (axis, sides): (&str, [&str; 2]),
        (column, scale): (&str, Scale),
    ) -> Result<Option<Self>, Failure> {
        let on = |side: &str| -> Vec<&Asked> {
            let is_on = |cell: &&&Asked| {
                cell.coordinates
                    .get(axis)
                    .is_some_and(|label| label.to_string() == side)
            };
            cells.iter().filter(is_on).copied().collect()
        };
        let of_sides = sides.map(on);
        if let Some((per_token, statistic)) = Gaps::behind(column) {
            let bounds = |side: usize| Gaps::of_side(&of_sides[side], loads, per_token);
            let gaps = [bounds(0)?, bounds(1)?];
            let steps =
                [0, 1].map(|side| shared_step(gaps[side].iter().flatten().map(|g| &g.stepped)));
            let bound = |side: usize, alike: bool| {
                let moved = |cell: &Option<Gaps>| {
                    cell.as_ref()?.shifts(steps[side], alike, statistic, scale)
                };
                mean_shift(gaps[side].iter().map(moved))
            };
            return Ok(Self::between(steps, bound));
        }
        let Some((span, falls, statistic)) = span_behind(column) else {
            return Ok(None);
        };
        // The span of a time per token does not tell by how many tokens it is divided.
        let in_ms = statistic.is_some()
            && matches!(column.split_once("_ms"), Some((name, _)) if name != "tpot");
        if scale == Scale::Difference && !in_ms {
            return Ok(None);
        }
        let steps = [0, 1].map(|side| {
            let cells = of_sides[side].iter();
            shared_step(cells.filter_map(|cell| cell.steps.0.get(&span)))
        });
        let bound = |side: usize, alike: bool| {
            let moved = |cell: &&Asked| {
                let times = cell.steps.0.get(&span)?;
                shifts(times, steps[side], alike, (cell, statistic.as_ref()), scale)
            };
            let (down, up) = mean_shift(of_sides[side].iter().map(moved));
            if falls { (-up, -down) } else { (down, up) }
        };
        Ok(Self::between(steps, bound))
    }

    /// Bounds the effect of two sides with these steps, given how far each may move, and whether the steps are alike.
    fn between(steps: [f64; 2], bound: impl Fn(usize, bool) -> (f64, f64)) -> Option<Self> {
        let alike = steps[0] > 0.0 && (steps[0] / steps[1] - 1.0).abs() < ALIKE;
        let ((down_a, up_a), (down_b, up_b)) = (bound(0, alike), bound(1, alike));
        let (low, high) = (down_a - up_b, up_a - down_b);
        (low < 0.0 || high > 0.0).then_some(Self {
            steps,
            values: false,
            low,
            high,
        })
    }

    /// Bounds the effect of two sides whose figures follow from rounded values, given the largest relative error of each side
    /// and the size of the figures.
    pub(crate) fn of_values(steps: [f64; 2], scale: Scale, size: f64) -> Self {
        let most = match scale {
            Scale::Ratio => steps
                .iter()
                .map(|off| -(1.0 - off.min(1.0)).ln())
                .sum::<f64>(),
            Scale::Difference => steps.iter().sum::<f64>() * size,
        };
        let most = most.min(MOST);
        Self {
            steps,
            values: true,
            low: -most,
            high: most,
        }
    }

    /// Returns the shift that would bring an effect nearest to 0, or beyond it.
    pub(crate) fn against(&self, effect: f64) -> f64 {
        if effect > 0.0 { self.low } else { self.high }
    }

    /// Describes the steps of two sides with these labels.
    pub(crate) fn words(&self, [a, b]: [&str; 2]) -> String {
        if self.values {
            let [of_a, of_b] = self
                .steps
                .map(|off| statistics::significant_without_zeros(100.0 * off, 2));
            return format!(
                "the values behind those of {a} may be off by {of_a} %, and those of {b} by {of_b} %"
            );
        }
        let ms = |step: f64| statistics::significant_without_zeros(step / 1e6, 3);
        match self.steps {
            [of_a, of_b] if of_a > 0.0 && of_b > 0.0 => {
                format!(
                    "the times of {a} are multiples of {} ms, and those of {b} of {} ms",
                    ms(of_a),
                    ms(of_b)
                )
            }
            [of_a, _] if of_a > 0.0 => format!(
                "the times of {a} are multiples of {} ms, and those of {b} are finer",
                ms(of_a)
            ),
            [_, of_b] => format!(
                "the times of {b} are multiples of {} ms, and those of {a} are finer",
                ms(of_b)
            ),
        }
    }
}

/// Returns the span behind a column, whether the column falls as the span grows, and its statistic; the statistic is `None`
/// for a throughput.
fn span_behind(column: &str) -> Option<(Span, bool, Option<Statistic>)> {
    match statistic_of(column) {
        Some((metric, statistic)) => {
            let (span, falls) = Span::behind(metric.name)?;
            Some((span, falls, Some(statistic)))
        }
        None => column
            .contains("_throughput")
            .then_some((Span::LastToken, true, None)),
    }
}

/// Returns the mean over cells of how far each may move down and up.
fn mean_shift(cells: impl Iterator<Item = Option<(f64, f64)>>) -> (f64, f64) {
    let moved: Vec<(f64, f64)> = cells.map(Option::unwrap_or_default).collect();
    let mean = |end: fn(&(f64, f64)) -> f64| {
        moved.iter().map(end).sum::<f64>() / moved.len().max(1) as f64
    };
    (mean(|m| m.0), mean(|m| m.1))
}

/// The gaps between the chunks of a cell whose clock records in steps.
#[derive(Clone, Debug)]
struct Gaps {
    stepped: Stepped,
    /// Each gap, ns, with the tokens among which it is divided.
    each: Vec<(f64, usize)>,
}

impl Gaps {
    /// Returns whether a column is a statistic of gaps per token or of whole gaps, and which.
    fn behind(column: &str) -> Option<(bool, Statistic)> {
        let statistic = |metric: &str| Statistic::behind(column, metric);
        let per_token = statistic(ITL.0).map(|of_tokens| (true, of_tokens));
        per_token.or_else(|| Some((false, statistic(ICL.0)?)))
    }

    /// Reads the gaps of each cell of a side; `None` for a cell without steps. The time from the first token to the last is
    /// a sum of gaps, so only cells where that one has a step are read.
    fn of_side(
        cells: &[&Asked],
        loads: &[Load<'_>],
        per_token: bool,
    ) -> Result<Vec<Option<Self>>, Failure> {
        let one = |cell: &&Asked| match cell.steps.0.contains_key(&Span::Decode) {
            true => Ok(Self::of(&*cell.rows(loads)?, per_token)),
            false => Ok(None),
        };
        cells.iter().map(one).collect()
    }

    /// Looks for a step in the gaps of a cell.
    fn of(rows: &CellRows, per_token: bool) -> Option<Self> {
        let timings = contract::timings(rows);
        let ok = timings.iter().filter(|timing| timing.request.is_ok());
        let tokens = |tokens: Option<i64>| match per_token {
            true => usize::try_from(tokens?).ok(),
            false => Some(1),
        };
        let each: Option<Vec<(f64, usize)>> = ok
            .flat_map(|timing| &timing.gaps.gaps)
            .map(|(ms, later)| Some((1e6 * ms, tokens(*later)?)))
            .collect();
        let each = each?;
        let gaps: Vec<i64> = each.iter().map(|(ns, _)| ns.round() as i64).collect();
        let stepped = stepped(gaps)?;
        Some(Self { stepped, each })
    }

    /// Returns by how much the true statistic may lie below and above the recorded one, on the scale, if the gaps were recorded in
    /// steps of some length.
    fn shifts(
        &self,
        step: f64,
        alike: bool,
        statistic: Statistic,
        scale: Scale,
    ) -> Option<(f64, f64)> {
        let off = off_by(step, alike, &self.stepped.times, statistic);
        let moved = |by: f64| {
            let each = self.each.iter().flat_map(|(ns, tokens)| {
                let each = (ns + by).max(0.0) / 1e6 / (*tokens).max(1) as f64;
                std::iter::repeat_n(each, *tokens)
            });
            Some(statistic.of(&Sample::new(each).ok()?))
        };
        let recorded = moved(0.0)?;
        let effect = |to: f64| scale.effect(to, recorded);
        // A recorded gap of 0 has no ratio, and its comparison is refused.
        Some((
            effect(moved(-off)?).unwrap_or(-MOST).max(-MOST),
            effect(moved(off)?)?,
        ))
    }
}

/// Returns the step that times have in all of some cells; 0 if they share none. Where all times of a cell are equal, those of the
/// other cells may tell their step. If all of them are equal, the step may be the time itself.
fn shared_step<'s>(stepped: impl Iterator<Item = &'s Stepped>) -> f64 {
    let stepped: Vec<&Stepped> = stepped.collect();
    let steps = || {
        stepped
            .iter()
            .map(|times| times.step)
            .filter(|step| *step > 0.0)
    };
    if let Some(least) = steps().reduce(f64::min) {
        // A cell with few times may show a multiple. A server that works in turns of its own in each cell has no clock's step.
        let is_multiple = |step: f64| (step / least - (step / least).round()).abs() < ALIKE;
        return if steps().all(is_multiple) { least } else { 0.0 };
    }
    let equal: Vec<i64> = stepped
        .iter()
        .flat_map(|times| times.times.values())
        .map(|ns| *ns as i64)
        .collect();
    let Some(first) = equal.first() else {
        return 0.0;
    };
    match time_step(&equal) {
        Some(step) => step,
        None if equal.iter().all(|time| time == first) => *first as f64,
        None => 0.0,
    }
}

/// Returns by how much the true value of a cell may lie below and above the recorded one, on the scale, if its times were
/// recorded in steps of some length.
fn shifts(
    times: &Stepped,
    step: f64,
    alike: bool,
    (cell, statistic): (&Asked, Option<&Statistic>),
    scale: Scale,
) -> Option<(f64, f64)> {
    let (value, off) = match statistic {
        // One stamp begins the load, and another ends it.
        None => (cell.window?, if alike { 0.0 } else { step }),
        Some(statistic) => (
            statistic.of(&times.times),
            off_by(step, alike, &times.times, *statistic),
        ),
    };
    let (value, off) = match scale {
        Scale::Ratio => (value, off),
        Scale::Difference => (value / 1e6, off / 1e6),
    };
    let moved = |to: f64| scale.effect(to, value);
    Some((
        moved(value - off).unwrap_or(-MOST).max(-MOST),
        moved(value + off)?,
    ))
}

/// Returns by how much the statistic of times, ns, that were recorded in steps may be off.
fn off_by(step: f64, alike: bool, times: &Sample, statistic: Statistic) -> f64 {
    match statistic {
        // A recorded quantile is a multiple itself. Where both sides round alike, the rule for rounded values holds.
        Statistic::Quantile(_) if alike => 0.0,
        Statistic::Quantile(_) => step,
        Statistic::Mean => {
            let rest = residue(step, times.std().unwrap_or(0.0));
            if alike {
                rest
            } else {
                step.min(step / 2.0 + rest)
            }
        }
    }
}

/// Returns how far the mean error of times that were rounded to multiples of a step may lie from that of times which vary by
/// many steps. Rounding down shortens those by half a step on average. For a normal distribution, the mean error oscillates
/// around that with the phase of the mean, by the first term of its Fourier series, (step ÷ π) e^(−2π² (sd ÷ step)²) (Sheppard's
/// correction and its remainder; Widrow & Kollár, Quantization Noise, 2008). The sum of all terms is at most half a step.
fn residue(step: f64, sd: f64) -> f64 {
    if step <= 0.0 {
        return 0.0;
    }
    let first =
        step / std::f64::consts::PI * (-2.0 * (std::f64::consts::PI * sd / step).powi(2)).exp();
    (1.6 * first).min(step / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_divided_among_its_tokens_and_so_is_the_error_of_its_clock() {
        let gaps = |tokens: usize| Gaps {
            stepped: stepped(vec![20_000_000; 9]).unwrap(),
            each: vec![(20e6, tokens); 9],
        };
        let near = |got: Option<(f64, f64)>, low: f64, high: f64| {
            let (down, up) = got.unwrap();
            assert!(
                (down - low).abs() < 1e-12 && (up - high).abs() < 1e-12,
                "{down} {up}"
            );
        };
        let median = Statistic::Quantile(0.5);
        let (low, high) = ((19.0_f64 / 20.0).ln(), (21.0_f64 / 20.0).ln());
        near(gaps(1).shifts(1e6, false, median, Scale::Ratio), low, high);
        near(gaps(4).shifts(1e6, false, median, Scale::Ratio), low, high);
        near(
            gaps(4).shifts(1e6, false, median, Scale::Difference),
            -0.25,
            0.25,
        );
        near(gaps(1).shifts(1e6, true, median, Scale::Ratio), 0.0, 0.0);
        // A true gap may be near 0 if the step is as long as the recorded one.
        let shift = gaps(1).shifts(20e6, false, median, Scale::Ratio).unwrap();
        assert_eq!(shift.0, -MOST);
        assert_eq!(Gaps::behind("itl_ms_p50"), Some((true, median)));
        assert_eq!(Gaps::behind("icl_ms_mean"), Some((false, Statistic::Mean)));
        assert_eq!(Gaps::behind("icl_ms_std"), None);
        assert_eq!(Gaps::behind("tpot_ms_p50"), None);
    }
}
