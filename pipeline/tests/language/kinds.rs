//! Stage kinds and definitions for tests, with settings of every shape and no effect.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pipeline::settings::DurationText;
use pipeline::{
    Adopted, Class, Done, Failure, Job, Json, Library, Needed, Problem, Registry, Shipped,
    StageKind,
};
use schemars::{JsonSchema, Schema, schema_for};
use serde::{Deserialize, Serialize};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[expect(dead_code, reason = "only its schema is used")]
struct Measure {
    /// The workload to send. It names a definition.
    workload: String,
    /// How requests arrive.
    arrival: Option<Arrival>,
    /// Measured requests.
    #[schemars(range(min = 1))]
    requests: u32,
    warmup: Option<u32>,
    /// The longest silence before a cell counts as hung.
    heartbeat: Option<DurationText>,
    streaming: Option<bool>,
    /// Anything.
    extra: Option<Json>,
    #[serde(default)]
    checks: Vec<Check>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
enum Arrival {
    /// As many as the clients can take.
    ClosedLoop {
        #[schemars(range(min = 1))]
        clients: u32,
    },
    /// At a rate.
    OpenLoop {
        /// Requests per second.
        #[schemars(extend("exclusiveMinimum" = 0))]
        rate: f64,
    },
    /// All at once.
    Burst,
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "check", rename_all = "kebab-case", deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
enum Check {
    /// Counts rows.
    Census { expected: u64 },
    /// Looks at lag.
    Lag { limit: f64 },
}

/// A workload.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Workload {
    /// Tokens to ask for.
    output_tokens: u32,
    prompt: Option<Prompt>,
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Prompt {
    text: Option<String>,
    tokens: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Free {
    #[serde(default)]
    settings: serde_json::Map<String, Json>,
}

struct Kind {
    name: &'static str,
    class: Class,
    calls: Arc<AtomicUsize>,
}

impl StageKind for Kind {
    fn name(&self) -> &'static str {
        self.name
    }

    fn semantic_version(&self) -> u32 {
        1
    }

    fn class(&self) -> Class {
        self.class
    }

    fn schema(&self) -> Schema {
        if self.name == "measure" {
            schema_for!(Measure)
        } else {
            schema_for!(Free)
        }
    }

    fn canonical(&self, settings: &Json, library: &dyn Library) -> Result<Json, Vec<Problem>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let mut settings = settings.clone();
        let Some(name) = settings.get("workload").and_then(Json::as_str) else {
            return Ok(settings);
        };
        match library.find("workloads", name) {
            Some(definition) => {
                settings["workload"] = definition;
                Ok(settings)
            }
            None => Err(vec![
                Problem::at(&["workload"], format!("unknown workload `{name}`")).hint(format!(
                    "the workloads are {}",
                    library.names("workloads").join(", ")
                )),
            ]),
        }
    }

    fn uses_one(&self, _gives: &dyn Fn(&str) -> bool) -> &'static [(&'static str, &'static str)] {
        if self.name == "measure" {
            &[("prepare", "measures one")]
        } else {
            &[]
        }
    }

    /// A measurement may not have more requests than the stage it needs allows.
    fn fits(
        &self,
        parameters: &Json,
        needs: &[Needed<'_>],
        _: &dyn Library,
    ) -> Result<(), Vec<Problem>> {
        let Some(prepared) = Needed::of_kind(needs, "prepare").filter(|_| self.name == "measure")
        else {
            return Ok(());
        };
        match prepared.parameters["settings"]["most"].as_u64() {
            Some(most) if parameters["requests"].as_u64() > Some(most) => {
                let above = prepared.needs.iter().map(|n| n.stage);
                let message = format!(
                    "`{}` takes {most} requests at most, as `{}` says",
                    prepared.stage,
                    above.collect::<Vec<_>>().join(", ")
                );
                Err(vec![
                    Problem::at_key(&["requests"], message).hint("ask for fewer"),
                ])
            }
            _ => Ok(()),
        }
    }

    fn runs_already(&self, parameters: &Json) -> bool {
        parameters["settings"]["running"] == true
    }

    fn adopts(&self, parameters: &Json) -> Option<Adopted> {
        let adopted = parameters["extra"].get("adopts")?;
        Some(Adopted {
            identity: adopted.to_string(),
            chosen_by: vec![vec!["extra", "adopts"], vec!["extra", "part"]],
        })
    }

    fn figures(&self) -> &'static [&'static str] {
        &["output_throughput"]
    }

    fn run(&self, _: &Job<'_>) -> Result<Done, Failure> {
        Err(Failure::failed(
            "kinds for tests of the language do not run",
        ))
    }
}

/// Returns a registry and the number of calls of `canonical` so far.
pub(crate) fn registry() -> (Registry, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let kind = |name, class| -> Box<dyn StageKind> {
        Box::new(Kind {
            name,
            class,
            calls: calls.clone(),
        })
    };
    let registry = Registry {
        kinds: vec![
            kind("prepare", Class::Resource),
            kind("measure", Class::Measurement),
            kind("tabulate", Class::Pure),
        ],
        shipped: vec![
            Shipped {
                collection: "workloads",
                name: "short",
                text: "output_tokens: 16\n",
            },
            Shipped {
                collection: "workloads",
                name: "long",
                text: "extends: short\noutput_tokens: 256\n",
            },
            Shipped {
                collection: "templates",
                name: "plain.md",
                text: "# {{ title }}\n",
            },
        ],
        collections: vec![("workloads", schema_for!(Workload))],
    };
    (registry, calls)
}
