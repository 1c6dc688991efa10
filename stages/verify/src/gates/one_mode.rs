//! `one-mode`: do latencies come from one state of the server, or from two that alternate?

use contract::{CellRows, ChunkGaps, Request, Settings, Timing};
use pipeline::Problem;
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{Sample, dip_test, holm};

use crate::finding::{Judgement, Severity};
use crate::gate::{TypedGate, Verdict, listed, percent, share_problems, show};
use crate::pace::{Company, is_open, residuals};
use crate::replicates;
use crate::study::Stage;

pub(crate) struct OneMode;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The probability of any false alarm per load stage.
    #[serde(default = "percent_one")]
    alpha: f64,
    /// Two modes matter if the upper one is above the lower one by at least this share.
    #[serde(default = "tenth")]
    effect: f64,
}

fn percent_one() -> f64 {
    0.01
}

fn tenth() -> f64 {
    0.1
}

/// The smallest share of requests that makes a mode.
const SMALLEST_SHARE: f64 = 0.1;

/// From how many requests on the shape of their distribution can be seen.
const REQUESTS: usize = 20;

impl TypedGate for OneMode {
    type Parameters = Parameters;
    const NAME: &'static str = "one-mode";
    const SUMMARY: &'static str = "Latencies have one mode: the server did not alternate between \
        two states. Examples of two states are a second instance behind the same address, a \
        processor that changes its clock, and a cache that hits every other time. The gate \
        applies Hartigan's dip test to each coordinate, with all repetitions together, \
        Holm-adjusted over coordinates. It uses the logarithm of latency or, under open \
        arrivals, of the time per token. Regression first removes the effect of the lengths of \
        prompt and answer and of the number of requests in flight. Two modes matter if each has \
        a tenth of the requests and they are `effect` apart.";
    const SEVERITY: Severity = Severity::Warn;

    fn check(&self, parameters: &Parameters, settings: &Settings<'_>) -> Vec<Problem> {
        share_problems(settings, &[("alpha", parameters.alpha)])
    }

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        let expected = "one mode of latency at each coordinate";
        let axes = replicates::axes(stage, None);
        let groups: Vec<(String, Vec<usize>)> =
            replicates::groups(stage, &axes).into_iter().collect();
        let tested: Vec<(String, f64, Modes)> = groups
            .into_par_iter()
            .filter_map(|(at, cells)| {
                let rows = cells.iter().filter_map(|c| stage.cells[*c].answers());
                let values: Vec<f64> = rows.flat_map(|rows| freed(&rows)).collect();
                let sample = Sample::new(values).ok()?;
                let modes = Modes::of(sample.values())?;
                (sample.len() >= REQUESTS).then(|| (at, dip_test(&sample).p, modes))
            })
            .collect();
        if tested.is_empty() {
            let why = format!("no coordinate has {REQUESTS} ok requests with times");
            return vec![Verdict::not_judged(why, expected).of_stage()];
        }
        let p: Vec<f64> = tested.iter().map(|(_, p, _)| *p).collect();
        let mut wrong: Vec<(f64, String)> = Vec::new();
        let mut smallest = f64::INFINITY;
        for ((at, _, modes), p) in tested.iter().zip(holm(&p)) {
            smallest = smallest.min(p);
            if p <= parameters.alpha && modes.matter(parameters.effect) {
                let text = format!(
                    "{at}: {:.0} % of the requests are {} slower than the others; p {}",
                    100.0 * modes.upper_share,
                    percent(modes.apart.exp() - 1.0).trim_start_matches('+'),
                    show(p)
                );
                wrong.push((p, text));
            }
        }
        wrong.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
        let texts: Vec<String> = wrong.into_iter().map(|(_, text)| text).collect();
        let observed = if texts.is_empty() {
            format!(
                "one mode at {} coordinates; smallest p {}",
                tested.len(),
                show(smallest)
            )
        } else {
            format!(
                "two modes at {} of {} coordinates: a median falls between them. Look which requests are slow: every \
                 other one, those of one client, those of some seconds",
                texts.len(),
                tested.len()
            )
        };
        vec![
            Verdict::new(texts.is_empty(), observed, expected)
                .evidence(listed(&texts))
                .of_stage(),
        ]
    }
}

/// Returns the log latencies of a cell without what lengths and company explain, in the order of
/// the rows.
fn freed(rows: &CellRows) -> Vec<f64> {
    let open = is_open(rows);
    let metric = contract::metric(if open { "tpot_ms" } else { "e2e_latency_ms" });
    let company = if open {
        Company::generating(rows)
    } else {
        Company::in_flight(rows)
    };
    let latency = |request: &Request| {
        let gaps = ChunkGaps::default();
        let timing = Timing {
            row: 0,
            request,
            gaps,
            chunk_rows: Vec::new(),
        };
        metric.and_then(|m| m.of(&timing)).filter(|l| *l > 0.0)
    };
    let points: Vec<(f64, [f64; 3])> = rows
        .measured()
        .filter(|r| r.is_ok())
        .filter_map(|r| {
            let prompt = r.prompt_tokens.unwrap_or(0) - r.cached_prompt_tokens.unwrap_or(0);
            let answer = r.output_tokens.unwrap_or(0);
            let with = if open {
                company.over(r.first_token_ns?, r.last_token_ns?)
            } else {
                company.over(r.sent_ns?, r.done_ns?)
            };
            let log = |n: i64| (n.max(0) as f64).ln_1p();
            Some((latency(r)?.ln(), [log(answer), log(prompt), with.ln()]))
        })
        .collect();
    let mut values: Vec<f64> = points.iter().map(|p| p.0).collect();
    let mut features: Vec<Vec<f64>> = (0..3)
        .map(|f| points.iter().map(|p| p.1[f]).collect())
        .collect();
    // One explanation after the other, each freed from those before it: the least squares of all.
    while let Some(feature) = features.pop() {
        let without = |of: &[f64]| {
            let points: Vec<(f64, f64)> = feature.iter().copied().zip(of.iter().copied()).collect();
            residuals(&points)
        };
        values = without(&values);
        features = features.iter().map(|f| without(f)).collect();
    }
    values
}

/// A sample cut in two where its parts vary least.
struct Modes {
    /// The distance of the medians of the parts.
    apart: f64,
    upper_share: f64,
}

impl Modes {
    /// Cuts sorted values; `None` for fewer than two.
    fn of(sorted: &[f64]) -> Option<Self> {
        let n = sorted.len();
        let total: f64 = sorted.iter().sum();
        let mut below = 0.0;
        let mut best: Option<(f64, usize)> = None;
        for cut in 1..n {
            below += sorted[cut - 1];
            let (low, high) = (below / cut as f64, (total - below) / (n - cut) as f64);
            // What lies between the parts; the rest of the variance lies within them.
            let between = cut as f64 * (n - cut) as f64 * (high - low).powi(2);
            if best.is_none_or(|(most, _)| between > most) {
                best = Some((between, cut));
            }
        }
        let (_, cut) = best?;
        let middle = |part: &[f64]| part[part.len() / 2];
        Some(Self {
            apart: middle(&sorted[cut..]) - middle(&sorted[..cut]),
            upper_share: (n - cut) as f64 / n as f64,
        })
    }

    fn matter(&self, effect: f64) -> bool {
        self.apart > effect.ln_1p()
            && (SMALLEST_SHARE..=1.0 - SMALLEST_SHARE).contains(&self.upper_share)
    }
}
