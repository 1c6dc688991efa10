//! The settings for machines that Slurm chooses, and the arguments of `sbatch`.

use std::time::Duration;

use pipeline::Problem;
use pipeline::settings::DurationText;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::settings::{is_yes, yes};
use crate::terms::Terms;

/// The default number of jobs of one study that Slurm has at once.
pub const AT_ONCE: u32 = 8;

/// Jobs of Slurm, one for each launch of a server. Keys do not contain these settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("x-form" = "{partition: gpu, gres: \"gpu:1\"}", "x-other-words" = {
    "queue": "`partition`",
    "gpus": "`gres`, such as `gpu:1`, or `extra-arguments: [\"--gpus=1\"]`",
    "mem": "`memory`",
    "nodelist": "`nodes`",
    "walltime": "`time`",
    "exclude": "`extra-arguments: [\"--exclude=NODE\"]`",
}))]
pub struct Slurm {
    /// The partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub partition: Option<String>,
    /// Generic resources, for example `gpu:h100:1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub gres: Option<String>,
    /// The account that is charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub account: Option<String>,
    /// The quality of service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub qos: Option<String>,
    /// Features that the machine must have. All machines of one stage must have the same facets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub constraint: Option<String>,
    /// The memory, for example `64G`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub memory: Option<String>,
    /// The processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 1))]
    pub cpus: Option<u32>,
    /// The time limit of a job; Slurm counts whole minutes. By default the sum of the `timeout`s of what the job
    /// executes, and the partition's limit if a stage has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DurationText")]
    pub time: Option<DurationText>,
    /// Names of machines. The launches of a block then go to one machine, and each block goes to the next machine in
    /// turn, so that one machine measures everything that a block compares. Without a design, the first launch of
    /// each kind goes to the first machine, the second to the next. By default, Slurm chooses for each launch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1)))]
    pub nodes: Vec<String>,
    /// Whether a job has its machine to itself, as a measurement should.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    #[schemars(default = "yes")]
    pub exclusive: bool,
    /// The largest number of jobs of the study that Slurm has at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 1))]
    pub at_once: Option<u32>,
    /// A folder of each machine that keeps engines and environments for the next job; by default, a job has a
    /// temporary folder that is removed with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub folder: Option<String>,
    /// The hourly cost of one job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64")]
    pub cost_per_hour: Option<f64>,
    /// The most that this experiment may cost here, in all runs together. When it is spent, launches are stopped, and
    /// the remaining cells are skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64")]
    pub budget: Option<f64>,
    /// The currency of both, for people; by default `USD`. `GPU-hours` is also possible, with the number of GPUs as
    /// the cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub currency: Option<String>,
    /// Further arguments of `sbatch`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra_arguments: Vec<String>,
}

/// Arguments of `sbatch` that the study may not set.
const OURS: [&str; 8] = [
    "--parsable",
    "--job-name",
    "--output",
    "--error",
    "--wrap",
    "--array",
    "--wait",
    "--chdir",
];

/// The letters of the same options. A value may follow without a space.
const OUR_LETTERS: [char; 6] = ['J', 'o', 'e', 'a', 'W', 'D'];

/// Letters of options without a value, which may stand before another letter.
const SWITCHES: [char; 6] = ['H', 'k', 'O', 'Q', 's', 'v'];

/// Returns whether an argument sets an option that Benchtrail sets. `sbatch` accepts the beginning of a name for the name.
fn is_ours(argument: &str) -> bool {
    let name = argument.split('=').next().unwrap_or_default();
    match argument.strip_prefix("--") {
        Some(_) => name.len() > 2 && OURS.iter().any(|ours| ours.starts_with(name)),
        None => argument.strip_prefix('-').is_some_and(|letters| {
            letters
                .trim_start_matches(SWITCHES)
                .starts_with(OUR_LETTERS)
        }),
    }
}

impl Slurm {
    /// Returns the price of a job, if the study states one.
    pub fn terms(&self) -> Option<Terms> {
        let currency = self.currency.as_deref();
        let terms = crate::terms::read("slurm", self.cost_per_hour, self.budget, currency);
        terms.ok().flatten()
    }

    /// Returns every mistake, with a route that starts at the place.
    pub(crate) fn check(&self) -> Vec<Problem> {
        let currency = self.currency.as_deref();
        let terms = crate::terms::read("slurm", self.cost_per_hour, self.budget, currency);
        let mut problems = terms.err().unwrap_or_default();
        let texts = [
            ("partition", &self.partition),
            ("gres", &self.gres),
            ("account", &self.account),
            ("qos", &self.qos),
            ("constraint", &self.constraint),
            ("memory", &self.memory),
        ];
        for (key, text) in texts {
            if text.as_deref().is_some_and(|text| !is_value(text)) {
                let message = format!("`{key}` is not a value that `sbatch` accepts");
                problems.push(
                    Problem::at(&["slurm", key], message)
                        .hint("write it as you would after `--option=`, without spaces around it"),
                );
            }
        }
        for (i, node) in self.nodes.iter().enumerate() {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if node.is_empty() || node.starts_with('-') || !node.chars().all(plain) {
                let mut problem = Problem::at(
                    &["slurm", "nodes"],
                    format!("`{node}` cannot be the name of a machine"),
                )
                .hint("name each machine on its own, without brackets: `nodes: [gpu-1, gpu-2]`");
                problem.route.push(pipeline::Step::Index(i));
                problems.push(problem);
            }
        }
        for (i, argument) in self.extra_arguments.iter().enumerate() {
            let problem = if is_ours(argument) {
                Some("Benchtrail passes it to `sbatch` itself")
            } else if !argument.starts_with('-') || argument.contains(['\n', '\0']) {
                Some("it is not an option in one word")
            } else {
                None
            };
            if let Some(why) = problem {
                let mut problem = Problem::at(
                    &["slurm", "extra-arguments"],
                    format!("`{argument}` cannot be an argument here: {why}"),
                )
                .hint("write options as one word: `--reservation=NAME`");
                problem.route.push(pipeline::Step::Index(i));
                problems.push(problem);
            }
        }
        problems
    }

    /// Returns the options of `sbatch` that the study decides. `node` is the machine for this job, and `time` the limit
    /// if the study sets none.
    pub fn options(&self, node: Option<&str>, time: Option<Duration>) -> Vec<String> {
        let texts = [
            ("partition", self.partition.clone()),
            ("gres", self.gres.clone()),
            ("account", self.account.clone()),
            ("qos", self.qos.clone()),
            ("constraint", self.constraint.clone()),
            ("mem", self.memory.clone()),
            ("cpus-per-task", self.cpus.map(|n| n.to_string())),
            (
                "time",
                self.time.map(|time| time.0).or(time).map(whole_minutes),
            ),
            ("nodelist", node.map(str::to_owned)),
        ];
        let mut options = vec!["--nodes=1".to_owned(), "--ntasks=1".to_owned()];
        if self.exclusive {
            options.push("--exclusive".to_owned());
        }
        let given = texts
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        options.extend(given.map(|(name, value)| format!("--{name}={value}")));
        options.extend(self.extra_arguments.iter().cloned());
        options
    }

    /// Returns the machine for a replicate (from 1), if the study names machines.
    pub fn node(&self, turn: usize) -> Option<&str> {
        crate::in_turn(&self.nodes, turn)
    }
}

/// Formats a limit for Slurm, rounded up to minutes.
fn whole_minutes(limit: Duration) -> String {
    limit.as_secs().div_ceil(60).max(1).to_string()
}

/// Returns whether a text is valid as the value of an option.
fn is_value(text: &str) -> bool {
    !text.is_empty() && text.trim() == text && !text.contains(['\n', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slurm() -> Slurm {
        Slurm {
            exclusive: true,
            ..Slurm::default()
        }
    }

    #[test]
    fn what_a_study_says_becomes_options_of_sbatch() {
        let asked = Slurm {
            partition: Some("gpu".into()),
            gres: Some("gpu:1".into()),
            memory: Some("64G".into()),
            nodes: vec!["a".into(), "b".into()],
            extra_arguments: vec!["--reservation=mine".into()],
            ..slurm()
        };
        assert_eq!(asked.check(), Vec::new());
        assert_eq!(
            asked.options(asked.node(2), Some(Duration::from_secs(61))),
            [
                "--nodes=1",
                "--ntasks=1",
                "--exclusive",
                "--partition=gpu",
                "--gres=gpu:1",
                "--mem=64G",
                "--time=2",
                "--nodelist=b",
                "--reservation=mine"
            ]
        );
        assert_eq!(asked.node(3), Some("a"), "blocks go round");
        assert_eq!(slurm().node(1), None);
    }

    #[test]
    fn a_value_is_never_another_option_and_ours_are_refused() {
        for bad in ["", " gpu", "a\nb"] {
            let asked = Slurm {
                partition: Some(bad.into()),
                ..slurm()
            };
            assert_eq!(asked.check().len(), 1, "{bad:?}");
        }
        for bad in ["gpu-[1-3]", "-x", "", "a b"] {
            let asked = Slurm {
                nodes: vec![bad.into()],
                ..slurm()
            };
            assert_eq!(asked.check().len(), 1, "{bad:?}");
        }
        let problems = |argument: &str| {
            let asked = Slurm {
                extra_arguments: vec![argument.into()],
                ..slurm()
            };
            asked.check().len()
        };
        for bad in [
            "--output=x",
            "-J",
            "hostname",
            "--wrap=rm",
            "-a",
            "-oFILE",
            "-e/tmp/x",
            "--out=x",
            "-vJmine",
        ] {
            assert_eq!(problems(bad), 1, "{bad}");
        }
        for good in [
            "--wait-all-nodes=1",
            "--export=NONE",
            "--comment=out",
            "-Aours",
            "-x=n1",
            "-pWide",
            "-Cold",
            "--exclude=n1",
            "--overcommit",
            "--open-mode=append",
            "-H",
            "--chdirs",
            "-wn1",
        ] {
            assert_eq!(problems(good), 0, "{good}");
        }
    }
}
