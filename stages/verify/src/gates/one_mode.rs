//! `one-mode`: do latencies come from one state of the server, or from two that alternate?

use std::collections::BTreeSet;

use contract::{CellRows, ChunkGaps, Request, Timing};
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{Sample, dip_test, effective_size_in_groups, holm, in_groups, resolution};

use crate::defaults;
use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, TypedGate, listed, share, show};
use crate::gates::possible_scaling::stated_slots;
use crate::pace::{Concurrency, Reading, is_open, residuals};
use crate::replicates;
use crate::study::Stage;

pub(crate) struct OneMode;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The probability of any false alarm per load stage.
    #[serde(default = "defaults::alpha")]
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    alpha: f64,
    /// Two modes matter if the upper one is above the lower one by at least this share.
    #[serde(default = "defaults::effect")]
    #[schemars(range(min = 0, max = 1))]
    effect: f64,
}

/// The smallest share of requests that makes a mode.
const SMALLEST_SHARE: f64 = 0.1;

/// The smallest number of independent requests that shows the shape of their distribution.
const REQUESTS: usize = 20;

impl TypedGate for OneMode {
    type Parameters = Parameters;
    const NAME: &'static str = "one-mode";
    const SUMMARY: &'static str = "\
        Latencies have one mode: the server did not alternate between two states. Examples of two states are a second \
        instance behind the same address, a processor that changes its clock, and a cache that hits every other time.\n\n\
        The gate applies Hartigan's dip test to each coordinate, with all repetitions together, and to each cell, \
        because a single launch may alternate. Coordinates and cells each get half of `alpha`, Holm-adjusted. Two \
        modes matter if each has a tenth of the requests and they are `effect` apart.\n\n\
        The gate tests the logarithm of latency. If more clients than slots wait in turns, it uses the time from the \
        first token on; under open arrivals, the time per token. Regression first removes the effect of the lengths \
        of prompt and answer, of the number of requests in flight, and of the prompts that the server reads while the \
        answer comes. If the clock is coarse, such as one of whole \
        milliseconds, the gate spreads the values over the clock's steps.\n\n\
        Requests in flight together share the server's batches, so their latencies resemble each other: a slow batch \
        is not a second state. The gate divides a cell into waves, as `warm-up` does, and counts the n requests of \
        waves of m as n ÷ (1 + (m − 1)·ρ) independent ones, with ρ the intraclass correlation of the waves (Kish 1965; \
        Donner 1986). With fewer than 20 independent requests, it does not judge a coordinate or a cell.";
    const SEVERITY: Severity = Severity::Warn;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        let expected = "one mode of latency at each coordinate";
        let axes = replicates::axes(stage, None);
        let groups: Vec<(String, Vec<usize>)> =
            replicates::groups(stage, &axes).into_iter().collect();
        let mut tested: Vec<Tested> = groups
            .par_iter()
            .filter_map(|(at, cells)| Tested::of(at.clone(), cells.clone(), stage))
            .collect();
        if tested.is_empty() {
            let why = format!("no coordinate has {REQUESTS} ok requests with times");
            return vec![Assessment::not_judged(why, expected).of_stage()];
        }
        let coordinates = tested.len();
        if tested.iter().all(|t| t.p.is_none()) {
            let most = tested.iter().map(|t| t.independent).max().unwrap_or(0);
            let why = format!(
                "requests in flight together resemble each other: no coordinate has {REQUESTS} independent requests, \
                 and the most is {most}"
            );
            return vec![Assessment::not_judged(why, expected).of_stage()];
        }
        // Without repetitions, a cell is its own coordinate.
        let cells = (groups.par_iter()).filter(|(_, cells)| cells.len() > 1);
        let cells = cells.flat_map_iter(|(_, cells)| cells.iter().copied());
        let alone = |cell: usize| {
            let name = stage.cells[cell].input.coordinates.to_string();
            Tested::of(name, vec![cell], stage)
        };
        tested.extend(cells.filter_map(alone).collect::<Vec<_>>());
        let halves = tested.split_at(coordinates);
        let halves = [halves.0, halves.1].map(|half| {
            let half: Vec<(&Tested, f64)> = half.iter().filter_map(|t| Some((t, t.p?))).collect();
            let p: Vec<f64> = half.iter().map(|(_, p)| *p).collect();
            let half: Vec<&Tested> = half.into_iter().map(|(t, _)| t).collect();
            (half, holm(&p))
        });
        let judged = halves[0].0.len();
        let parts = if halves[1].0.is_empty() { 1.0 } else { 2.0 };
        let mut wrong: Vec<(f64, &Tested)> = Vec::new();
        let mut smallest = f64::INFINITY;
        for (tested, p) in halves
            .iter()
            .flat_map(|(half, p)| half.iter().copied().zip(p))
        {
            let p = (p * parts).min(1.0);
            smallest = smallest.min(p);
            if p <= parameters.alpha && tested.modes.matter(parameters.effect) {
                wrong.push((p, tested));
            }
        }
        // A failed coordinate speaks for its cells.
        let whole: Vec<Vec<usize>> = wrong.iter().map(|(_, t)| t.cells.clone()).collect();
        wrong.retain(|(_, t)| {
            let covers = |cells: &Vec<usize>| cells.len() > 1 && cells.contains(&t.cells[0]);
            t.cells.len() > 1 || !whole.iter().any(covers)
        });
        let places = wrong.len();
        let text = |(p, t): (f64, &Tested)| {
            let text = format!(
                "{}: {:.0} % of the requests are {} slower than the others; p {}",
                t.at,
                100.0 * t.modes.upper_share,
                share(t.modes.apart.exp() - 1.0),
                show(p)
            );
            (p, text)
        };
        let single = wrong.iter().filter(|(_, t)| t.cells.len() == 1).count();
        let mut wrong: Vec<(f64, String)> = wrong.into_iter().map(text).collect();
        wrong.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
        let texts: Vec<String> = wrong.into_iter().map(|(_, text)| text).collect();
        let observed = if texts.is_empty() {
            all_have_one(coordinates, judged, smallest)
        } else {
            let cells = tested.len() - coordinates;
            some_have_two((places - single, coordinates), (single, cells))
        };
        vec![
            Assessment::new(texts.is_empty(), observed, expected)
                .evidence(listed(&texts))
                .of_stage(),
        ]
    }
}

/// Describes coordinates of which all that were judged have one mode.
fn all_have_one(coordinates: usize, judged: usize, smallest: f64) -> String {
    let smallest = show(smallest);
    if judged == coordinates {
        return format!("one mode at {coordinates} coordinates; smallest p {smallest}");
    }
    format!(
        "one mode at {judged} of {coordinates} coordinates; smallest p {smallest}; the others have fewer than \
         {REQUESTS} independent requests"
    )
}

/// Describes the coordinates and the single cells that have two modes, each with the number there are.
fn some_have_two((whole, coordinates): (usize, usize), (single, cells): (usize, usize)) -> String {
    let at = match (whole, single) {
        (whole, 0) => format!("{whole} of {coordinates} coordinates"),
        (0, single) if cells > 0 => format!("{single} of {cells} cells"),
        (0, single) => format!("{single} of {coordinates} coordinates"),
        (whole, single) if cells > 0 => {
            format!("{whole} of {coordinates} coordinates and at {single} single cells")
        }
        (whole, single) => format!("{} of {coordinates} coordinates", whole + single),
    };
    format!(
        "two modes at {at}: a median falls between them. Look which requests are slow: every other one, those of one \
         client, those of some seconds"
    )
}

/// The dip test of a coordinate or a cell.
struct Tested {
    at: String,
    cells: Vec<usize>,
    /// The number of independent requests; 0 if all were in flight together, so that nothing shows it.
    independent: usize,
    /// `None` if there are too few independent requests.
    p: Option<f64>,
    modes: Modes,
}

impl Tested {
    /// Tests the requests of several cells together; `None` if there are too few.
    fn of(at: String, cells: Vec<usize>, stage: &Stage<'_>) -> Option<Self> {
        let waves = |cell: &usize| {
            let cell = &stage.cells[*cell];
            let rows = cell.answers()?;
            let values = freed(&rows, stated_slots(cell));
            Some(in_groups(&values, rows.in_flight()))
        };
        let waves: Vec<Vec<Vec<f64>>> = cells.iter().filter_map(waves).collect();
        let sample = Sample::new(waves.iter().flatten().flatten().copied()).ok()?;
        if sample.len() < REQUESTS {
            return None;
        }
        let modes = Modes::of(sample.values())?;
        let size = effective_size_in_groups(&waves).map_or(0.0, |size| size.size);
        let independent = size.floor() as usize;
        let p = (independent >= REQUESTS).then(|| dip_test(&sample, independent).p);
        Some(Self {
            at,
            cells,
            independent,
            p,
            modes,
        })
    }
}

/// Returns the log latencies of a cell, in sending order, without the effects of lengths, of concurrent requests and of
/// their prompts. If a closed loop has more clients than the server has slots, some requests wait for a slot and others do not. Then the
/// time counts from the first token.
fn freed(rows: &CellRows, slots: Option<i64>) -> Vec<f64> {
    let open = is_open(rows);
    let clients: BTreeSet<i64> = rows.measured().filter_map(|r| r.client_id).collect();
    let waits = slots.is_some_and(|slots| clients.len() as i64 > slots);
    let metric = contract::metric(if open || waits {
        "tpot_ms"
    } else {
        "e2e_latency_ms"
    });
    let concurrency = if open {
        Concurrency::generating(rows)
    } else {
        Concurrency::in_flight(rows)
    };
    let read = Reading::of(rows);
    let step = clock_step(rows);
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
    let mut requests: Vec<&Request> = rows.measured().filter(|r| r.is_ok()).collect();
    requests.sort_by_key(|r| (r.sent_ns, r.request_id));
    let points: Vec<(f64, [f64; FEATURES])> = requests
        .into_iter()
        .enumerate()
        .filter_map(|(at, r)| {
            let prompt = r.prompt_tokens.unwrap_or(0) - r.cached_prompt_tokens.unwrap_or(0);
            let answer = r.output_tokens.unwrap_or(0);
            let (from, to) = match open {
                true => (r.first_token_ns?, r.last_token_ns?),
                false => (r.sent_ns?, r.done_ns?),
            };
            let with = concurrency.over(from, to);
            let reading = read.over(r, to);
            let log = |n: i64| (n.max(0) as f64).ln_1p();
            // Rows of a coarse clock have gaps between their values, which would look like gaps between modes.
            let parts = if open || waits {
                (answer - 1).max(1)
            } else {
                1
            };
            let within = step * (spread_evenly(at) - 0.5) / parts as f64;
            let latency = latency(r)?;
            let latency = Some(latency + within)
                .filter(|l| *l > 0.0)
                .unwrap_or(latency);
            Some((latency.ln(), [log(answer), log(prompt), with.ln(), reading]))
        })
        .collect();
    let mut values: Vec<f64> = points.iter().map(|p| p.0).collect();
    let mut features: Vec<Vec<f64>> = (0..FEATURES)
        .map(|f| points.iter().map(|p| p.1[f]).collect())
        .collect();
    // One feature at a time, each freed from those before it: together this is least squares over all.
    while let Some(feature) = features.pop() {
        let without = |values: &[f64]| {
            let points: Vec<(f64, f64)> = feature
                .iter()
                .copied()
                .zip(values.iter().copied())
                .collect();
            residuals(&points)
        };
        values = without(&values);
        features = features.iter().map(|f| without(f)).collect();
    }
    values
}

/// The number of effects that regression removes.
const FEATURES: usize = 4;

/// Returns the step of the clock that stamped the answers, ms: 0.001 µs for stamps in nanoseconds, 1 for whole milliseconds.
fn clock_step(rows: &CellRows) -> f64 {
    let durations = rows.measured().filter(|r| r.is_ok()).flat_map(|r| {
        let since = |stamp: Option<i64>| Some(stamp? - r.sent_ns?);
        [
            since(r.first_token_ns),
            since(r.last_token_ns),
            since(r.done_ns),
        ]
    });
    let durations = durations.flatten().filter(|ns| *ns > 0);
    resolution(durations.map(|ns| ns as f64)).unwrap_or(0.0) / 1e6
}

/// Returns numbers from 0 to 1 that are spread evenly over any run of positions (Weyl).
pub(crate) fn spread_evenly(at: usize) -> f64 {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    ((at + 1) as f64 * GOLDEN).fract()
}

/// A sample cut into two parts with the least variance.
struct Modes {
    /// The distance between the parts' medians.
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
            // The variance between the parts; the rest lies within them.
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

#[cfg(test)]
mod tests {
    use contract::synthetic::{self, ClosedLoop};

    use super::*;
    use crate::one_cell;

    /// The values of a loop whose answers take about 11 ms, or alternately 11 and 14, on a clock of whole milliseconds.
    fn of_milliseconds(slow_ms: f64) -> Vec<f64> {
        let mut requests = ClosedLoop::default().requests();
        let first = requests[0].clone();
        requests = (0..60)
            .map(|i| {
                let noise = 0.8 * (spread_evenly(7 * i) - 0.5) + 0.4 * spread_evenly(3 * i);
                let ms = 11.3 + noise + if i % 2 == 1 { slow_ms } else { 0.0 };
                let stamp = |ms: f64| Some(1_000_000 * (20 * i as i64 + ms.round() as i64));
                Request {
                    request_id: i as i64,
                    sent_ns: stamp(0.0),
                    first_token_ns: stamp(4.0),
                    last_token_ns: stamp(ms),
                    done_ns: stamp(ms),
                    ..first.clone()
                }
            })
            .collect();
        freed(&synthetic::rows_of(requests), None)
    }

    #[test]
    fn answers_that_pause_for_the_prompts_of_others_are_no_second_mode() {
        // Without the prompts that the server reads meanwhile, p is below 0.001.
        let values = freed(&one_cell::at_even_intervals(), None);
        let p = dip_test(&Sample::new(values).unwrap(), 80).p;
        assert!(p > 0.05, "{p}");
    }

    #[test]
    fn a_clock_of_whole_milliseconds_makes_no_modes() {
        let p = |slow| dip_test(&Sample::new(of_milliseconds(slow)).unwrap(), 60).p;
        // Without spreading the values over the step, p is below 0.001.
        assert!(p(0.0) > 0.05, "{}", p(0.0));
        assert!(p(4.0) < 0.01, "{}", p(4.0));
    }
}
