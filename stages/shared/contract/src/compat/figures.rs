//! Tools, their figures, and the statistics they share.

use crate::metrics::Timing;

use super::{aiperf, guidellm, sglang, vllm};

/// A load generator whose figures can be recomputed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// `vllm bench serve`.
    Vllm,
    /// `sglang.benchmark.serving`, formerly `bench_serving`.
    Sglang,
    /// guidellm.
    Guidellm,
    /// NVIDIA aiperf.
    Aiperf,
}

impl Tool {
    /// Every tool.
    pub const ALL: [Self; 4] = [Self::Vllm, Self::Sglang, Self::Guidellm, Self::Aiperf];

    /// Returns the word on the command line and in settings.
    pub fn word(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::Guidellm => "guidellm",
            Self::Aiperf => "aiperf",
        }
    }

    /// Returns the tool with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.word() == word)
    }

    /// Returns the version whose formulas these are.
    pub fn version(self) -> &'static str {
        match self {
            Self::Vllm => "0.33.0",
            Self::Sglang => "0.5.23",
            Self::Guidellm => "0.8.1",
            Self::Aiperf => "0.13.0",
        }
    }
}

/// Bounds for goodput, ms. Each tool decides which of its metrics a bound applies to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounds {
    /// The bound on the time to the first token.
    pub ttft_ms: Option<f64>,
    /// The bound on the time per output token.
    pub tpot_ms: Option<f64>,
    /// The bound on the end-to-end latency.
    pub e2e_ms: Option<f64>,
}

impl Bounds {
    pub(super) fn any(&self) -> bool {
        self.ttft_ms.is_some() || self.tpot_ms.is_some() || self.e2e_ms.is_some()
    }

    /// Returns whether every bounded value is within its bound, or `None` if one of them is
    /// undefined.
    pub(super) fn met(
        &self,
        ttft: Option<f64>,
        tpot: Option<f64>,
        e2e: Option<f64>,
    ) -> Option<bool> {
        let pairs = [
            (self.ttft_ms, ttft),
            (self.tpot_ms, tpot),
            (self.e2e_ms, e2e),
        ];
        let bounded = pairs
            .into_iter()
            .filter_map(|(bound, value)| Some((bound?, value)));
        let met: Option<Vec<bool>> = bounded
            .map(|(bound, value)| Some(value? <= bound))
            .collect();
        met.map(|met| met.into_iter().all(|met| met))
    }
}

/// A figure as a tool would print it.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The name in the tool's own result file. The parts of a nested name are joined by `_`.
    pub name: String,
    /// The unit.
    pub unit: &'static str,
    /// The tool's formula, in terms of the columns of the rows.
    pub formula: &'static str,
    /// The value; `None` if no data enters it.
    pub value: Option<f64>,
}

/// Returns the figures of a tool over the measured requests of a cell, in the order of the tool's
/// output. Names, units and formulas depend only on the tool; they are the same without requests.
pub fn figures(tool: Tool, timings: &[Timing<'_>], bounds: &Bounds) -> Vec<Figure> {
    let mut list = List::default();
    match tool {
        Tool::Vllm => vllm::figures(&mut list, timings, bounds),
        Tool::Sglang => sglang::figures(&mut list, timings, bounds),
        Tool::Guidellm => guidellm::figures(&mut list, timings, bounds),
        Tool::Aiperf => aiperf::figures(&mut list, timings, bounds),
    }
    list.0
}

/// The figures so far.
#[derive(Default)]
pub(super) struct List(Vec<Figure>);

impl List {
    pub(super) fn put(
        &mut self,
        name: impl Into<String>,
        unit: &'static str,
        formula: &'static str,
        value: Option<f64>,
    ) {
        self.0.push(Figure {
            name: name.into(),
            unit,
            formula,
            value: value.filter(|v| v.is_finite()),
        });
    }

    /// Adds the peaks of the busiest second. Each span is a request and the time at which it ends.
    pub(super) fn put_peaks<'a>(
        &mut self,
        spans: impl Iterator<Item = (&'a Timing<'a>, i64)> + Clone,
    ) {
        let peaks = peaks(spans);
        self.put(
            "max_output_tokens_per_s",
            "tok/s",
            "most chunks with text in a whole second from the first sent_ns: a chunk is taken for a token",
            peaks.map(|p| p.0),
        );
        self.put(
            "max_concurrent_requests",
            "1",
            "most requests that touch a whole second from the first sent_ns",
            peaks.map(|p| p.1),
        );
    }
}

/// A sample in ascending order, as NumPy would describe it.
pub(super) struct Described(Vec<f64>);

impl Described {
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    pub(super) fn sum(&self) -> f64 {
        self.0.iter().sum()
    }

    pub(super) fn mean(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.sum() / self.0.len() as f64)
    }

    /// Returns the standard deviation over n (`numpy.std`).
    pub(super) fn std(&self) -> Option<f64> {
        let mean = self.mean()?;
        let squares: f64 = self.0.iter().map(|v| (v - mean).powi(2)).sum();
        Some((squares / self.0.len() as f64).sqrt())
    }

    pub(super) fn min(&self) -> Option<f64> {
        self.0.first().copied()
    }

    pub(super) fn max(&self) -> Option<f64> {
        self.0.last().copied()
    }

    /// Returns the quantile with linear interpolation (`numpy.percentile`).
    pub(super) fn quantile(&self, q: f64) -> Option<f64> {
        let place = q * self.0.len().checked_sub(1)? as f64;
        let (below, above) = (
            self.0[place.floor() as usize],
            self.0[place.ceil() as usize],
        );
        Some(below + (above - below) * (place - place.floor()))
    }
}

/// Returns a span in ms, or `None` if one of its ends is `None`.
pub(super) fn ms(from: Option<i64>, to: Option<i64>) -> Option<f64> {
    Some((to? - from?) as f64 / 1e6)
}

/// Returns the seconds from the scheduled start of the first request to the end of the last, failed
/// requests included. Tools that keep one clock around the whole run use this span.
pub(super) fn around_all(timings: &[Timing<'_>]) -> Option<f64> {
    let from = timings
        .iter()
        .filter_map(|t| t.request.scheduled_ns.or(t.request.sent_ns))
        .min();
    let to = timings.iter().filter_map(|t| t.request.done_ns).max();
    ms(from, to).map(|ms| ms / 1e3).filter(|s| *s > 0.0)
}

/// Returns the chunks and the requests of the busiest second, by the algorithm that vLLM and SGLang
/// share. Whole seconds count from the first start. A chunk counts as a token, and a request is in
/// flight in every second it touches.
fn peaks<'a>(spans: impl Iterator<Item = (&'a Timing<'a>, i64)> + Clone) -> Option<(f64, f64)> {
    let start = |t: &Timing<'_>| t.request.sent_ns;
    let from = spans.clone().filter_map(|(t, _)| start(t)).min()?;
    let second = |ns: i64| ((ns - from).max(0) / 1_000_000_000) as usize;
    let last = spans.clone().map(|(_, end)| second(end)).max()?;
    let (mut chunks, mut flying) = (vec![0_u64; last + 2], vec![0_u64; last + 2]);
    for (timing, end) in spans {
        let Some(sent) = start(timing) else { continue };
        if let Some(first) = timing.request.first_token_ns {
            let mut at = first as f64;
            chunks[second(first)] += 1;
            for (gap, _) in &timing.gaps.gaps {
                at += gap * 1e6;
                if let Some(count) = chunks.get_mut(second(at.round() as i64)) {
                    *count += 1;
                }
            }
        }
        flying[second(sent)..=second(end)]
            .iter_mut()
            .for_each(|n| *n += 1);
    }
    let most = |counts: &[u64]| counts.iter().max().map(|n| *n as f64);
    most(&chunks).zip(most(&flying))
}
