//! Clocks and files that record times in coarse steps: a difference below a step is no difference of the servers.
//!
//! `STEP_SEEDS=300 cargo test --test cli clock_steps -- --nocapture` prints how often studies have each verdict.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use crate::lost_requests::{Uniform, compared};
use crate::support::Project;

/// How a time becomes the recorded one.
#[derive(Clone, Copy)]
enum Recorded {
    /// To the microsecond.
    Fine,
    /// Down to a multiple of this many ms.
    Down(f64),
    /// To the nearest multiple.
    Nearest(f64),
}

impl Recorded {
    fn of(self, ms: f64) -> f64 {
        match self {
            Self::Fine => ms,
            Self::Down(step) => (ms / step).floor() * step,
            Self::Nearest(step) => (ms / step).round() * step,
        }
    }
}

/// Returns each cell of two engines and five blocks with its name, how it is recorded, and its true time over that of `a`.
fn cells(recorded: [Recorded; 2], ratio: f64) -> impl Iterator<Item = (String, Recorded, f64)> {
    (1..=5).flat_map(move |block| {
        let [of_a, of_b] = recorded;
        [
            (format!("a-{block}"), of_a, 1.0),
            (format!("b-{block}"), of_b, ratio),
        ]
    })
}

/// A study of two engines in five blocks, each cell a file of 40 requests.
struct Study {
    name: &'static str,
    recorded: [Recorded; 2],
    /// The median time of `a`, ms, and the spread of requests.
    times: (f64, f64),
    /// The true ratio of `b` to `a`.
    ratio: f64,
}

const COARSE: f64 = 15.625;

const STUDIES: [Study; 11] = [
    Study {
        name: "both fine",
        recorded: [Recorded::Fine, Recorded::Fine],
        times: (100.0, 0.1),
        ratio: 1.0,
    },
    Study {
        name: "b in steps of 15.6 ms",
        recorded: [Recorded::Fine, Recorded::Down(COARSE)],
        times: (100.0, 0.1),
        ratio: 1.0,
    },
    Study {
        name: "a in steps of 15.6 ms",
        recorded: [Recorded::Down(COARSE), Recorded::Fine],
        times: (100.0, 0.02),
        ratio: 1.0,
    },
    Study {
        name: "b to the nearest 10 ms",
        recorded: [Recorded::Fine, Recorded::Nearest(10.0)],
        times: (33.0, 0.05),
        ratio: 1.0,
    },
    Study {
        name: "b in whole milliseconds",
        recorded: [Recorded::Fine, Recorded::Down(1.0)],
        times: (20.0, 0.1),
        ratio: 1.0,
    },
    Study {
        name: "b one step of 100 ms",
        recorded: [Recorded::Fine, Recorded::Down(100.0)],
        times: (140.0, 0.05),
        ratio: 1.0,
    },
    Study {
        name: "both in steps of 15.6 ms",
        recorded: [Recorded::Down(COARSE), Recorded::Down(COARSE)],
        times: (100.0, 0.02),
        ratio: 1.0,
    },
    Study {
        name: "both fine, b 10 % faster",
        recorded: [Recorded::Fine, Recorded::Fine],
        times: (100.0, 0.1),
        ratio: 0.9,
    },
    Study {
        name: "b in steps of 5 ms, twice as fast",
        recorded: [Recorded::Fine, Recorded::Down(5.0)],
        times: (200.0, 0.1),
        ratio: 0.5,
    },
    Study {
        name: "both in steps of 15.6 ms, b 30 % slower",
        recorded: [Recorded::Down(COARSE), Recorded::Down(COARSE)],
        times: (400.0, 0.1),
        ratio: 1.3,
    },
    Study {
        name: "b in whole milliseconds, 10 % slower",
        recorded: [Recorded::Fine, Recorded::Down(1.0)],
        times: (200.0, 0.1),
        ratio: 1.1,
    },
];

const YAML: &str = "experiment: steps\nseed: 1\naxes:\n  engine: [a, b]\n  block: ['1', '2', '3', '4', '5']\nstages:\n  \
    rows:\n    kind: load\n    over: [engine, block]\n    import:\n      tool: csv\n      file: '${engine}-${block}.csv'\n      \
    columns: {sent: {from: sent_ms, unit: ms}, ttft: {from: ttft_ms, unit: ms}, status: {value: ok}}\n  checks: {kind: verify, needs: [rows], \
    gates: [{gate: census, severity: warn}]}\n  results:\n    kind: analyze\n    needs: [rows, checks]\n    tables:\n      \
    cells: {operator: cell-summary}\n      comparison:\n        operator: paired-comparison\n        from: cells\n        \
    pair: {axis: engine, a: a, b: b}\n        columns: [ttft_ms_p50, ttft_ms_mean]\n        family: per-column\n";

impl Study {
    /// Writes the files of a study and returns the verdicts with their reasons and the direction, by metric.
    fn run(&self, seed: u64) -> BTreeMap<String, (String, String)> {
        let project = Project::new();
        let mut random = Uniform::of(seed);
        let (median, spread) = self.times;
        for (cell, recorded, truth) in cells(self.recorded, self.ratio) {
            let launch = median * truth * (0.01 * random.normal()).exp();
            let mut text = "sent_ms,ttft_ms\n".to_owned();
            for i in 0..40 {
                let time = recorded.of(launch * (spread * random.normal()).exp());
                let sent = 400.0 * f64::from(i) + random.draw();
                writeln!(text, "{sent:.3},{time:.6}").expect("a text");
            }
            let file = project.path().join(format!("{cell}.csv"));
            fs::write(file, text).expect("a file");
        }
        fs::write(project.path().join("steps.yaml"), YAML).expect("a file");
        compared(&project, "steps.yaml")
    }
}

/// Runs some studies, prints how often each verdict appeared, and returns the verdicts that appeared too often.
#[expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a developer asks for more studies, and reads how often they have each verdict"
)]
fn too_often(
    (name, ratio): (&str, f64),
    study: impl Fn(u64) -> BTreeMap<String, (String, String)>,
) -> Vec<String> {
    let seeds: u64 = std::env::var("STEP_SEEDS").map_or(1, |n| n.parse().expect("a number"));
    let mut counts: BTreeMap<(String, String), u64> = BTreeMap::new();
    let mut reasons: BTreeMap<String, String> = BTreeMap::new();
    for seed in 1..=seeds {
        for (metric, (verdict, reason)) in study(seed) {
            reasons.insert(metric.clone(), reason);
            *counts.entry((metric, verdict)).or_default() += 1;
        }
    }
    println!("{name}");
    let mut wrong = Vec::new();
    for ((metric, verdict), count) in counts {
        let share = count as f64 / seeds as f64;
        println!(
            "  {metric}: {verdict} {:.1} % ({})",
            100.0 * share,
            reasons[&metric]
        );
        let is_error = match ratio == 1.0 {
            // A test of level 5 % may err that often.
            true => verdict.starts_with("different"),
            false => verdict == "undecidable",
        };
        if is_error && share > 0.1 {
            wrong.push(format!("{name}, {metric}: {verdict} in {count}"));
        }
    }
    wrong
}

#[test]
fn a_difference_below_the_step_of_a_clock_is_no_difference_of_the_servers() {
    let wrong = STUDIES
        .iter()
        .flat_map(|study| too_often((study.name, study.ratio), |seed| study.run(seed)));
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A study of the times between tokens: each cell is a result file of vLLM with twenty requests of thirty gaps.
struct Gaps {
    name: &'static str,
    recorded: [Recorded; 2],
    /// Whether the moments of tokens were recorded in steps, and not the gaps.
    moments: bool,
    /// The median gap of `a`, ms, and the spread of gaps.
    times: (f64, f64),
    /// The true ratio of `b` to `a`.
    ratio: f64,
}

const GAPS: [Gaps; 7] = [
    Gaps {
        name: "gaps, both fine",
        recorded: [Recorded::Fine, Recorded::Fine],
        moments: true,
        times: (20.0, 0.1),
        ratio: 1.0,
    },
    Gaps {
        name: "gaps of b in whole milliseconds",
        recorded: [Recorded::Fine, Recorded::Down(1.0)],
        moments: false,
        times: (20.0, 0.1),
        ratio: 1.0,
    },
    Gaps {
        name: "moments of b in steps of 15.6 ms",
        recorded: [Recorded::Fine, Recorded::Down(COARSE)],
        moments: true,
        times: (20.0, 0.1),
        ratio: 1.0,
    },
    Gaps {
        name: "moments of a in steps of 10 ms",
        recorded: [Recorded::Down(10.0), Recorded::Fine],
        moments: true,
        times: (33.0, 0.05),
        ratio: 1.0,
    },
    Gaps {
        name: "moments of both in steps of 15.6 ms",
        recorded: [Recorded::Down(COARSE), Recorded::Down(COARSE)],
        moments: true,
        times: (20.0, 0.1),
        ratio: 1.0,
    },
    Gaps {
        name: "gaps, both fine, b 10 % faster",
        recorded: [Recorded::Fine, Recorded::Fine],
        moments: true,
        times: (20.0, 0.1),
        ratio: 0.9,
    },
    Gaps {
        name: "moments of b in whole milliseconds, 20 % slower",
        recorded: [Recorded::Fine, Recorded::Down(1.0)],
        moments: true,
        times: (50.0, 0.1),
        ratio: 1.2,
    },
];

const GAPS_YAML: &str = "experiment: gaps\nseed: 1\naxes:\n  engine: [a, b]\n  block: ['1', '2', '3', '4', '5']\nstages:\n  \
    rows:\n    kind: load\n    over: [engine, block]\n    import: {tool: vllm, file: '${engine}-${block}.json'}\n  \
    checks: {kind: verify, needs: [rows], gates: [{gate: census, severity: warn}]}\n  results:\n    kind: analyze\n    \
    needs: [rows, checks]\n    tables:\n      cells: {operator: cell-summary}\n      comparison:\n        \
    operator: paired-comparison\n        from: cells\n        pair: {axis: engine, a: a, b: b}\n        \
    columns: [icl_ms_p50, icl_ms_mean]\n        family: per-column\n";

impl Gaps {
    /// Writes the files of a study and returns the verdicts with their reasons and the direction, by metric.
    fn run(&self, seed: u64) -> BTreeMap<String, (String, String)> {
        let project = Project::new();
        let mut random = Uniform::of(seed);
        for (cell, recorded, truth) in cells(self.recorded, self.ratio) {
            let launch = self.times.0 * truth * (0.01 * random.normal()).exp();
            let requests: Vec<Vec<f64>> = (0..20)
                .map(|_| self.request(launch, recorded, &mut random))
                .collect();
            let each = |value: serde_json::Value| vec![value; requests.len()];
            let seconds = |ms: &f64| (1e3 * ms).round() / 1e6;
            let first: Vec<f64> = requests.iter().map(|times| seconds(&times[0])).collect();
            let gaps: Vec<Vec<f64>> = requests
                .iter()
                .map(|times| times[1..].iter().map(seconds).collect())
                .collect();
            let starts: Vec<f64> = (0..20).map(|i| 3.0 * f64::from(i)).collect();
            let result = serde_json::json!({"completed": 20, "ttfts": first, "itls": gaps, "start_times": starts,
                    "errors": each("".into()), "input_lens": each(8.into()), "output_lens": each(31.into())});
            let file = project.path().join(format!("{cell}.json"));
            fs::write(file, result.to_string()).expect("a file");
        }
        fs::write(project.path().join("gaps.yaml"), GAPS_YAML).expect("a file");
        compared(&project, "gaps.yaml")
    }

    /// Returns the time to the first token and the gaps of one request, ms, as they were recorded.
    fn request(&self, launch: f64, recorded: Recorded, random: &mut Uniform) -> Vec<f64> {
        let mut at = 100.0 + 50.0 * random.draw();
        let mut before = recorded.of(at);
        let mut times = vec![before];
        for _ in 0..30 {
            let gap = launch * (self.times.1 * random.normal()).exp();
            at += gap;
            times.push(match self.moments {
                true => recorded.of(at) - before,
                false => recorded.of(gap),
            });
            before = recorded.of(at);
        }
        times
    }
}

#[test]
fn a_difference_of_times_between_tokens_below_the_step_of_a_clock_is_no_difference_of_the_servers()
{
    let wrong = GAPS
        .iter()
        .flat_map(|study| too_often((study.name, study.ratio), |seed| study.run(seed)));
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
