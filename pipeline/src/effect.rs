//! What executing cells does outside of this program: programs it starts, files it fetches, servers it sends requests
//! to. It is known in advance, so that a user can review it and consent.
//!
//! An experiment is data until you run it. Then programs that its author chose start. Definitions that the user wrote
//! or installed, or that ship with the binary, need no consent. For anything else, the program asks once per folder. A
//! [`Consent`] identifies what the user agreed to by a digest over what would be executed, so a changed command asks
//! again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use artifacts::Digest;
use serde::{Deserialize, Serialize};
use typed_index_collections::TiVec;

use crate::dry_run;
use crate::error::PipelineError;
use crate::experiment::Experiment;
use crate::graph::Graph;
use crate::ids::StageId;
use crate::plan::Plan;
use crate::stage::{Class, Failure, Json, Registry};

/// One thing that a cell does outside of this program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// What it does.
    #[serde(flatten)]
    pub what: What,
    /// The user's consent that it requires; `None` if it requires none.
    #[serde(skip)]
    pub consent: Option<Consent>,
}

/// The kinds of effects.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "does", rename_all = "kebab-case")]
pub enum What {
    /// Starts a program.
    Start {
        /// Its purpose, as text for people.
        purpose: String,
        /// The program, and the arguments that come before all others.
        program: Vec<String>,
        /// Its arguments; placeholders such as `{port}` stand for values known only at the start.
        arguments: Vec<String>,
        /// Variables set for it.
        environment: BTreeMap<String, String>,
        /// Names of the variables that it inherits in addition to `PATH`, `HOME` and `TMPDIR`.
        inherits: Vec<String>,
        /// The script it executes, if the definition contains one.
        #[serde(skip_serializing_if = "Option::is_none")]
        script: Option<String>,
    },
    /// Fetches one file of a package, checks it against its digest and unpacks it.
    Fetch {
        /// The registry.
        registry: String,
        /// The package and its version.
        package: String,
        /// The files; one of them is fetched.
        files: Vec<String>,
        /// The size in bytes of the largest of them.
        bytes: u64,
    },
    /// Installs Python packages into an environment of the store, unless the store has it, and
    /// lets the programs of a cell import them.
    Install {
        /// The version of the interpreter.
        python: String,
        /// The packages that the study pins.
        packages: Vec<String>,
        /// Packages that replace the versions other packages require.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        overrides: Vec<String>,
        /// Whether the packages are complete; otherwise their dependencies are also installed.
        complete: bool,
        /// Python code that is executed in the environment.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        assertions: Vec<String>,
    },
    /// Runs the programs of a cell in a container.
    Contain {
        /// The image.
        image: String,
        /// Whether the study pins it by a digest.
        pinned: bool,
        /// The runtime, if the study names one.
        #[serde(skip_serializing_if = "Option::is_none")]
        runtime: Option<String>,
        /// Arguments from the study to the runtime.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        arguments: Vec<String>,
        /// The GPUs that it can use.
        #[serde(skip_serializing_if = "Option::is_none")]
        gpus: Option<String>,
        /// Paths of this machine that it can read, by the path inside.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        mounts: BTreeMap<String, String>,
        /// Paths of this machine that it can write, by the path inside.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        caches: BTreeMap<String, String>,
    },
    /// Lets an engine fetch weights by their name; nothing checks their bytes.
    Resolve {
        /// The name.
        weights: String,
        /// The revision, if it is pinned.
        #[serde(skip_serializing_if = "Option::is_none")]
        revision: Option<String>,
    },
    /// Makes machines that cost money, and destroys them afterwards.
    Rent {
        /// The program that makes them.
        program: String,
        /// The module.
        module: String,
        /// Its files.
        files: Vec<String>,
        /// The values of its variables.
        variables: BTreeMap<String, Json>,
        /// The total cost per hour.
        cost_per_hour: f64,
        /// The maximum cost of the experiment.
        budget: f64,
        /// The currency of both amounts.
        currency: String,
    },
    /// Requests a machine from a scheduler, which executes this program there.
    Submit {
        /// The scheduler.
        scheduler: String,
        /// The command that submits the request.
        command: Vec<String>,
        /// The document that the command reads, if any.
        #[serde(skip_serializing_if = "Option::is_none")]
        manifest: Option<Json>,
    },
    /// Copies this program to another host, and executes launches there.
    Execute {
        /// The host's name in the study.
        host: String,
        /// The host's name for OpenSSH.
        ssh: String,
    },
    /// Sends requests to a server that is already running.
    Reach {
        /// Its address.
        url: String,
        /// The name of the variable whose value is sent as the API key.
        #[serde(skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// Sends the contents of a file to a server that is already running.
    Send {
        /// The file, as an absolute path without links.
        file: String,
        /// The server's address.
        url: String,
    },
}

/// What a user consents to: the definition that would act, and the values that an experiment gives it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Consent {
    /// The parts of the definition that determine what is executed.
    pub definition: Json,
    /// Free texts that the experiment passes as values of settings.
    pub texts: BTreeMap<String, Json>,
    /// Whole arguments that the experiment passes.
    pub arguments: BTreeMap<String, Json>,
}

impl Consent {
    /// Returns the digest of this consent.
    pub fn digest(&self) -> Digest {
        digest_of(&serde_json::json!(self))
    }
}

/// Returns the digest of a document, ignoring the order of its keys.
fn digest_of(document: &Json) -> Digest {
    let mut document = document.clone();
    document.sort_all_objects();
    Digest::of(format!("benchtrail consent 1\n{document}").as_bytes())
}

/// The effects that need no further consent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Permit {
    vouched: BTreeSet<Digest>,
    given: BTreeSet<Digest>,
}

impl Permit {
    /// Makes a permit for definitions that come from a trusted source instead of the experiment: those that ship with
    /// the binary, and those in the user's own folders.
    pub fn for_definitions<'a>(definitions: impl IntoIterator<Item = &'a Json>) -> Self {
        Self {
            vouched: definitions.into_iter().map(digest_of).collect(),
            given: BTreeSet::new(),
        }
    }

    /// Adds the user's consent.
    pub fn give(&mut self, consent: &Consent) {
        self.given.insert(consent.digest());
    }

    /// Returns whether an effect is allowed. A setting of a vouched definition can do only what the definition permits,
    /// but whole arguments can make a program do anything.
    pub fn allows(&self, consent: &Consent) -> bool {
        let vouched = || self.vouched.contains(&digest_of(&consent.definition));
        self.given.contains(&consent.digest()) || (consent.arguments.is_empty() && vouched())
    }

    /// Checks whether an effect is allowed.
    ///
    /// # Errors
    /// If the user has not consented to it.
    pub fn check(&self, consent: &Consent) -> Result<(), Failure> {
        if self.allows(consent) {
            return Ok(());
        }
        Err(
            Failure::failed("you have not consented to what this cell would start or send").hint(
                "`benchtrail plan --commands` shows it; `benchtrail run --trust` consents to it",
            ),
        )
    }
}

/// An effect and the number of cells that have it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageEffect {
    /// The stage.
    pub stage: String,
    /// The number of its cells that have this effect.
    pub cells: usize,
    /// The effect.
    #[serde(flatten)]
    pub effect: Effect,
}

/// Returns what executing an experiment does outside of this program, for the whole experiment, or for the cells that a
/// plan executes and everything they need.
///
/// # Errors
/// If a kind is unknown, or the folder for simulated data cannot be created or written.
pub fn effects(
    experiment: &Experiment,
    registry: &Registry,
    store: &Path,
    plan: Option<&Plan>,
) -> Result<Vec<StageEffect>, PipelineError> {
    if plan.is_some_and(Plan::is_idle) {
        return Ok(Vec::new());
    }
    let graph = Graph::new(experiment, registry)?;
    let acting = acting(&graph, plan);
    if !acting.contains(&true) {
        return Ok(Vec::new());
    }
    let cancelled = Arc::new(AtomicBool::new(false));
    let seen = dry_run::look_at_effects(&graph, store, &cancelled)?;
    let mut effects: Vec<StageEffect> = Vec::new();
    for (number, cells, effect) in seen {
        if !acting[number] {
            continue;
        }
        let stage = graph.nodes[number].stage.name.clone();
        match effects
            .iter_mut()
            .find(|e| e.stage == stage && e.effect == effect)
        {
            Some(listed) => listed.cells += cells,
            None => effects.push(StageEffect {
                stage,
                cells,
                effect,
            }),
        }
    }
    Ok(effects)
}

/// Returns for each stage whether its effects may occur: it executes something, or a stage that needs it does.
fn acting(graph: &Graph<'_>, plan: Option<&Plan>) -> TiVec<StageId, bool> {
    let mut acting = TiVec::from(vec![false; graph.nodes.len()]);
    // Readers come after the stages they need.
    for (number, node) in graph.nodes.iter_enumerated().rev() {
        if node.stage.class == Class::Pure {
            continue;
        }
        let executes = |plan: &Plan| {
            let counts = plan.stages.iter().find(|s| s.stage == node.stage.name);
            counts.is_some_and(|s| s.counts.run + s.counts.after > 0)
        };
        acting[number] =
            plan.is_none_or(executes) || node.readers.iter().any(|(reader, _)| acting[*reader]);
    }
    acting
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn consent() -> Consent {
        Consent {
            definition: json!({"program": "server", "arguments": ["--port", "{port}"]}),
            texts: BTreeMap::from([("dtype".to_owned(), json!("float16"))]),
            arguments: BTreeMap::new(),
        }
    }

    #[test]
    fn every_part_of_what_is_consented_to_changes_its_digest_and_the_order_of_keys_does_not() {
        let one = consent();
        let mut turned = consent();
        turned.definition = json!({"arguments": ["--port", "{port}"], "program": "server"});
        assert_eq!(one.digest(), turned.digest());
        type Change = fn(&mut Consent);
        let changes: [Change; 4] = [
            |c| c.definition["program"] = json!("other"),
            |c| c.definition["arguments"] = json!(["--port={port}"]),
            |c| {
                c.texts.insert("dtype".into(), json!("bfloat16"));
            },
            |c| {
                c.arguments
                    .insert("extra-arguments".into(), json!(["--dtype"]));
            },
        ];
        for change in changes {
            let mut other = consent();
            change(&mut other);
            assert_ne!(one.digest(), other.digest(), "{other:?}");
        }
    }

    #[test]
    fn a_vouched_definition_needs_no_consent_unless_it_is_given_whole_arguments() {
        let permit = Permit::for_definitions([&consent().definition]);
        assert!(permit.check(&consent()).is_ok());
        let mut other = consent();
        other.texts.insert("dtype".into(), json!("anything"));
        assert!(
            permit.allows(&other),
            "the definition says what a text can do"
        );
        other
            .arguments
            .insert("extra-arguments".into(), json!(["--load", "evil"]));
        let refused = permit.check(&other).unwrap_err();
        assert!(refused.hint.unwrap().contains("--trust"));
        let mut permit = permit;
        permit.give(&other);
        assert!(permit.allows(&other));
        let mut changed = other.clone();
        changed
            .arguments
            .insert("extra-arguments".into(), json!(["--load", "worse"]));
        assert!(!permit.allows(&changed), "a changed command asks again");
        assert!(!Permit::default().allows(&consent()));
    }
}
