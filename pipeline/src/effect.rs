//! What executing cells does outside of this program: programs it starts, files it fetches,
//! servers it sends requests to. Known beforehand, so that a user can look and consent.
//!
//! An experiment is data until it is run: then programs start that its author chose. What the
//! user wrote or installed needs no question, and what ships with the binary does not either;
//! anything else is asked about once per folder. A [`Consent`] names what is asked about, by a
//! digest over what would be executed: a changed command asks again.

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
    /// What a user consents to who lets it happen; `None` if there is nothing to ask about.
    #[serde(skip)]
    pub consent: Option<Consent>,
}

/// What an effect is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "does", rename_all = "kebab-case")]
pub enum What {
    /// Starts a program.
    Start {
        /// What it is for, for people.
        purpose: String,
        /// The program, and the arguments that come before all others.
        program: Vec<String>,
        /// Its arguments; what is known only at the start stands as `{port}`.
        arguments: Vec<String>,
        /// Variables set for it.
        environment: BTreeMap<String, String>,
        /// Names of the variables that it inherits besides `PATH`, `HOME` and `TMPDIR`.
        inherits: Vec<String>,
        /// The script it executes, if the definition holds one.
        #[serde(skip_serializing_if = "Option::is_none")]
        script: Option<String>,
    },
    /// Fetches one file of a package, checks it against its digest and unpacks it.
    Fetch {
        /// The registry.
        registry: String,
        /// The package and its version.
        package: String,
        /// The files of which one is fetched.
        files: Vec<String>,
        /// The most bytes of one of them.
        bytes: u64,
    },
    /// Installs Python packages into an environment of the store, unless the store has it, and
    /// lets the programs of a cell import them.
    Install {
        /// The version of the interpreter.
        python: String,
        /// The packages that the study pins.
        packages: Vec<String>,
        /// Packages that replace what others ask for.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        overrides: Vec<String>,
        /// Whether these are all; otherwise, what they need is installed, too.
        complete: bool,
        /// Python that is executed in the environment.
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
        /// Arguments that the study gives the runtime.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        arguments: Vec<String>,
        /// The GPUs that it sees.
        #[serde(skip_serializing_if = "Option::is_none")]
        gpus: Option<String>,
        /// What of this machine it can read, by the path inside.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        mounts: BTreeMap<String, String>,
        /// What of this machine it can write, by the path inside.
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
        /// The module, and its files.
        module: String,
        /// Its files.
        files: Vec<String>,
        /// The values of its variables.
        variables: BTreeMap<String, Json>,
        /// What all of it costs in an hour.
        cost_per_hour: f64,
        /// The most that the experiment may cost.
        budget: f64,
        /// The currency of both.
        currency: String,
    },
    /// Asks a scheduler for a machine, which executes this program there.
    Submit {
        /// The command that asks.
        command: Vec<String>,
    },
    /// Puts this program on another host, and has it execute launches there.
    Execute {
        /// The host as the study names it.
        host: String,
        /// The host as OpenSSH knows it.
        ssh: String,
    },
    /// Sends requests to a server that runs already.
    Reach {
        /// Its address.
        url: String,
        /// The name of the variable whose value is sent as its key.
        #[serde(skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
}

/// What a user consents to: the definition of what would act, and what an experiment gives it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Consent {
    /// The parts of the definition that decide what is executed.
    pub definition: Json,
    /// Free texts that the experiment hands over as values of settings.
    pub texts: BTreeMap<String, Json>,
    /// Whole arguments that the experiment hands over.
    pub arguments: BTreeMap<String, Json>,
}

impl Consent {
    /// Returns the digest of what is consented to.
    pub fn digest(&self) -> Digest {
        digest_of(&serde_json::json!(self))
    }
}

/// Returns the digest of a document whatever the order of its keys.
fn digest_of(document: &Json) -> Digest {
    let mut document = document.clone();
    document.sort_all_objects();
    Digest::of(format!("benchtrail consent 1\n{document}").as_bytes())
}

/// What may happen without a question.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Permit {
    vouched: BTreeSet<Digest>,
    given: BTreeSet<Digest>,
}

impl Permit {
    /// Makes a permit for definitions that somebody other than the experiment vouches for: those
    /// that ship with the binary, and those in the user's own folders.
    pub fn for_definitions<'a>(definitions: impl IntoIterator<Item = &'a Json>) -> Self {
        Self {
            vouched: definitions.into_iter().map(digest_of).collect(),
            given: BTreeSet::new(),
        }
    }

    /// Adds what the user consented to.
    pub fn give(&mut self, consent: &Consent) {
        self.given.insert(consent.digest());
    }

    /// Returns whether something may happen. A setting of a vouched definition does what the
    /// definition lets it do; whole arguments can make a program do anything.
    pub fn allows(&self, consent: &Consent) -> bool {
        let vouched = || self.vouched.contains(&digest_of(&consent.definition));
        self.given.contains(&consent.digest()) || (consent.arguments.is_empty() && vouched())
    }

    /// Looks whether something may happen.
    ///
    /// # Errors
    /// If nobody consented to it.
    pub fn check(&self, consent: &Consent) -> Result<(), Failure> {
        if self.allows(consent) {
            return Ok(());
        }
        Err(
            Failure::failed("you have not consented to what this cell would start").hint(
                "`benchtrail plan --commands` shows it; `benchtrail run --trust` consents to it",
            ),
        )
    }
}

/// An effect, and the cells that have it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageEffect {
    /// The stage.
    pub stage: String,
    /// How many of its cells have this effect.
    pub cells: usize,
    /// The effect.
    #[serde(flatten)]
    pub effect: Effect,
}

/// Returns what executing an experiment does outside of this program: of the whole experiment, or
/// of what a plan executes and everything that this needs.
///
/// # Errors
/// If a kind is unknown, or the folder for what is made up cannot be made or written.
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
            Some(known) => known.cells += cells,
            None => effects.push(StageEffect {
                stage,
                cells,
                effect,
            }),
        }
    }
    Ok(effects)
}

/// Returns for each stage whether its effects may happen: it executes something, or a stage that
/// needs it does.
fn acting(graph: &Graph<'_>, plan: Option<&Plan>) -> TiVec<StageId, bool> {
    let mut acting = TiVec::from(vec![false; graph.nodes.len()]);
    // Readers come after what they need.
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
