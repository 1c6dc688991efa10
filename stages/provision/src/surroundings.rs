//! The environment that the engine's program is installed in, of one of the kinds that a study can name.

use pipeline::sources::NamedFiles;
use pipeline::{Effect, Json, Library, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::container::{self, ContainerSettings};
use crate::venv::{self, VenvRecipe, VenvSettings};

/// Where the engine's program is installed.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum EnvironmentSettings {
    /// A virtual environment of Python packages, made from pins and shared by all studies with
    /// the same ones.
    Venv(VenvSettings),
    /// A container of an image, started with docker, podman, or a runtime with the same command line.
    Container(ContainerSettings),
}

/// An environment in canonical parameters.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) enum EnvironmentRecipe {
    Venv(VenvRecipe),
    Container(ContainerSettings),
}

/// What an environment provides, so that this machine need not have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brought {
    /// Nothing: the engine uses the machine's installation.
    Nothing,
    /// The program and its packages.
    Program,
    /// Everything except the kernel and the hardware.
    System,
}

impl Brought {
    /// Returns what the environment in canonical parameters provides.
    pub fn by(parameters: &Json) -> Self {
        let environment = parameters.get("environment").cloned();
        let recipe = environment.and_then(|e| serde_json::from_value(e).ok());
        EnvironmentRecipe::brought(recipe.as_ref())
    }
}

impl EnvironmentSettings {
    /// Makes it canonical and reports its problems.
    pub(crate) fn canonical(
        self,
        library: &dyn Library,
        problems: &mut Vec<Problem>,
    ) -> EnvironmentRecipe {
        match self {
            Self::Venv(venv) => EnvironmentRecipe::Venv(venv::canonical(venv, library, problems)),
            Self::Container(container) => {
                EnvironmentRecipe::Container(container::canonical(container, problems))
            }
        }
    }
}

impl EnvironmentRecipe {
    /// Returns the effect of building it.
    pub(crate) fn effect(&self, files: &NamedFiles) -> Effect {
        match self {
            Self::Venv(venv) => venv::effect(venv, files),
            Self::Container(container) => container::effect(container),
        }
    }

    /// Returns what an environment provides.
    pub(crate) fn brought(recipe: Option<&Self>) -> Brought {
        match recipe {
            None => Brought::Nothing,
            Some(Self::Venv(_)) => Brought::Program,
            Some(Self::Container(_)) => Brought::System,
        }
    }
}
