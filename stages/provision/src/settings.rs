//! The settings of a provision stage and its canonical parameters.

use std::collections::{BTreeMap, BTreeSet};

use contract::DECLARED;
use engines::{Engine, Model, Program};
use pipeline::{Failure, Json};
use places::Place;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::container::ContainerSettings;
use crate::descriptor::OVER_SSH;
use crate::installed;
use crate::machine::Machine;
use crate::remote::REACHED;
use crate::requirements::{Unmet, unmet};
use crate::surroundings::{EnvironmentRecipe, EnvironmentSettings};
use crate::venv::VenvRecipe;

/// What a provision stage says.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("x-other-words" = {
    "url": "a key of the engine's definition: `launch: {program: {running: URL}}`",
    "base-url": "a key of the engine's definition: `launch: {program: {running: URL}}`",
    "version": "not chosen here: it is what the machine has, or what `environment:` installs",
    "settings": "a key of the serve stage",
    "weights": "a key of the model's definition",
    "image": "a key of the environment: `environment: {container: {image: …}}`",
    "container": "a key of the environment: `environment: {container: {image: …}}`",
    "venv": "a key of the environment: `environment: {venv: …}`",
}))]
pub(crate) struct Settings {
    /// The engine: the name of a definition among `engines`.
    pub(crate) engine: String,
    /// The model: the name of a definition among `models`.
    pub(crate) model: String,
    /// The model that drafts tokens for it (speculative decoding): the name of a definition among
    /// `models`. `launch.draft-arguments` in the engine's definition passes it to the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(crate) draft: Option<String>,
    /// The environment of the engine's program. By default, the definition's own packages, or the
    /// program that you installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) environment: Option<EnvironmentSettings>,
    /// Where the engine is prepared and runs; by default on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Place")]
    pub(crate) place: Option<Place>,
}

/// The canonical parameters: the definitions behind the names.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// The engine, followed by those that stand in for it.
    pub(crate) engines: Vec<Named<Engine>>,
    pub(crate) model: Named<Model>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) draft: Option<Named<Model>>,
    /// Absent rather than null, so that stages without it keep their keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) environment: Option<EnvironmentRecipe>,
    /// The image of a pod, if an engine comes from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) image_digest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) place: Option<Place>,
}

/// A definition with its name.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Named<T> {
    pub(crate) name: String,
    pub(crate) definition: T,
}

/// The chosen engine, and why those before it were passed over.
pub(crate) struct Choice<'a> {
    pub(crate) engine: &'a Named<Engine>,
    pub(crate) passed_over: Vec<(&'a str, Vec<Unmet>)>,
}

impl Parameters {
    pub(crate) fn read(parameters: &Json) -> Result<Self, Failure> {
        serde_json::from_value(parameters.clone())
            .map_err(|e| Failure::failed(format!("invalid parameters of a provision stage: {e}")))
    }

    /// Chooses the first engine whose requirements the machine meets.
    pub(crate) fn choose(&self, machine: &Machine) -> Result<Choice<'_>, Failure> {
        let mut passed_over = Vec::new();
        // Only the other host knows what it can run.
        if let (Some(_), Some(engine)) = (&self.place, self.engines.first()) {
            return Ok(Choice {
                engine,
                passed_over,
            });
        }
        for engine in &self.engines {
            let brought = EnvironmentRecipe::brought(self.environment.as_ref());
            let missing = unmet(&engine.definition, machine, brought);
            if missing.is_empty() {
                return Ok(Choice {
                    engine,
                    passed_over,
                });
            }
            passed_over.push((engine.name.as_str(), missing));
        }
        let reasons: Vec<String> = passed_over
            .iter()
            .map(|(name, missing)| format!("`{name}`: {}", sentence(missing)))
            .collect();
        let hints: BTreeSet<&String> = passed_over
            .iter()
            .flat_map(|(_, m)| m)
            .filter_map(|u| u.hint.as_ref())
            .collect();
        let failure = Failure::failed(format!(
            "no engine can run on this machine: {}",
            reasons.join("; ")
        ));
        let mut hints: Vec<&str> = hints.into_iter().map(String::as_str).collect();
        if hints.is_empty() {
            hints.push(
                "measure on a machine that has what the engine needs, or give its definition a `fallback:` \
                 that this machine can run; use `--locked` to show results from another machine",
            );
        }
        Err(failure.hint(hints.join("; ")))
    }

    /// Returns the processor features that matter to any of the engines.
    pub(crate) fn flags(&self) -> BTreeSet<String> {
        let needs = self.engines.iter().map(|e| &e.definition.requires);
        needs
            .flat_map(|r| r.cpu_flags.iter().chain(&r.cpu_flags_optional))
            .cloned()
            .collect()
    }

    pub(crate) fn facets(&self, machine: &Machine) -> Result<BTreeMap<String, Json>, Failure> {
        self.facets_with(machine, self.choose(machine)?.engine)
    }

    /// Returns the facets of a machine for an engine. For a server that already runs, only the
    /// machine that loads it is known.
    pub(crate) fn facets_with(
        &self,
        machine: &Machine,
        engine: &Named<Engine>,
    ) -> Result<BTreeMap<String, Json>, Failure> {
        let mut facets = machine.facets(&self.flags());
        if self.place.is_some() {
            facets = client_facets(facets);
            facets.insert(REACHED.to_owned(), json!(OVER_SSH));
            // The other host identifies the program.
            return Ok(facets);
        }
        if matches!(engine.definition.launch.program, Program::Running(_)) {
            facets = client_facets(facets);
            facets.insert("host".to_owned(), json!(contract::HOST_NOT_KNOWN));
            let declared = &engine.definition.facts.host;
            if !declared.is_empty() {
                facets.insert(DECLARED.to_owned(), json!(declared));
            }
        }
        // Two machines with the same processor may still differ in what makes an engine fall back.
        facets.insert("engine".to_owned(), json!(engine.name));
        // For a program that is not pinned, and for values outside the definition.
        let brought = EnvironmentRecipe::brought(self.environment.as_ref());
        facets.extend(installed::facets(&engine.definition, machine, brought)?);
        if let Some(digest) = &self.image_digest {
            facets.insert("image_digest".to_owned(), json!(digest));
        }
        Ok(facets)
    }

    /// Returns the engine's virtual environment.
    pub(crate) fn venv(&self) -> Option<&VenvRecipe> {
        match &self.environment {
            Some(EnvironmentRecipe::Venv(venv)) => Some(venv),
            _ => None,
        }
    }

    /// Returns the engine's container.
    pub(crate) fn container(&self) -> Option<&ContainerSettings> {
        match &self.environment {
            Some(EnvironmentRecipe::Container(container)) => Some(container),
            _ => None,
        }
    }
}

pub(crate) fn sentence(missing: &[Unmet]) -> String {
    missing
        .iter()
        .map(|u| u.reason.as_str())
        .collect::<Vec<_>>()
        .join(", ")
}

/// Renames this machine's facets to those of a client that loads another machine.
fn client_facets(facets: BTreeMap<String, Json>) -> BTreeMap<String, Json> {
    let client = |(name, value)| (format!("client_{name}"), value);
    facets.into_iter().map(client).collect()
}
