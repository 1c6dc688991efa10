//! Environments built from Python packages: an engine's programs, pinned by the study, so that you
//! need not install them yourself.
//!
//! Layout: `<store>/venvs/<64 hex digits>/env` is the environment, `lock.txt` lists every file it
//! was built from by SHA-256, and `complete.json` lists its contents and is written last. A folder
//! without that file is unfinished and is rebuilt. The digest covers the interpreter and the lock,
//! so studies with the same pins share a folder. `<store>/venvs/resolved/<64 hex digits>.txt` is
//! the lock that pinned packages were first resolved to.

mod client;
mod facts;
mod interpreter;
mod pins;
mod place;

use std::collections::BTreeMap;

use pipeline::sources::NamedFiles;
use pipeline::suggest::{closest, either};
use pipeline::{Consent, Effect, Library, Problem, Step, What, sources};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use client::{PinnedBy, Session};
pub(crate) use facts::{TELL, installed_software, promised, table};
pub(crate) use interpreter::find as interpreter;
pub(crate) use pins::normalized;
pub(crate) use place::{Installed, prepare};

/// A virtual environment.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct VenvSettings {
    /// The version of the interpreter, in quotes: `"3.12"`, `"3.12.7"`, or `"3.14t"` without the
    /// global interpreter lock. It must be installed.
    #[schemars(regex(pattern = r"^3\.\d+(\.\d+)?t?$"))]
    pub python: String,
    /// Packages with exact versions: `vllm==0.20.2`. Their dependencies are resolved once and kept in the store.
    #[serde(default)]
    pub packages: Vec<String>,
    /// Packages with exact versions that replace the requirements of other packages. Needs `uv`.
    #[serde(default)]
    pub overrides: Vec<String>,
    /// Instead of `packages`: a file of requirements with the exact version and the SHA-256 of every package.
    /// Benchtrail then resolves nothing.
    #[serde(default)]
    pub lock: Option<String>,
    /// Python that must hold in the environment before anything is started: statements, and
    /// expressions that must be true (`torch.cuda.is_available()`), in this order.
    #[serde(default)]
    pub assertions: Vec<String>,
}

/// A virtual environment in canonical parameters.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct VenvRecipe {
    pub(crate) python: String,
    /// `name==version`, sorted.
    pub(crate) packages: Vec<String>,
    pub(crate) overrides: Vec<String>,
    /// The digest of the lock's text.
    pub(crate) lock: Option<String>,
    pub(crate) assertions: Vec<String>,
    /// The pins of the lock, if it was read during planning.
    #[serde(skip)]
    locked: BTreeMap<String, String>,
}

impl VenvRecipe {
    /// Returns the packages that the study names itself, by normalized name.
    pub(crate) fn named(&self) -> impl Iterator<Item = (String, &str)> {
        let all = self.packages.iter().chain(&self.overrides);
        all.filter_map(|pin| pins::parts(pin))
            .map(|(name, version)| (normalized(name), version))
    }

    /// Returns the version that the pins give to one of these distributions.
    pub(crate) fn version_of(&self, distributions: &[String]) -> Option<String> {
        let wanted: Vec<String> = distributions.iter().map(|d| normalized(d)).collect();
        let named = self
            .named()
            .map(|(name, version)| (name, version.to_owned()));
        named
            .chain(self.locked.clone())
            .find(|(name, _)| wanted.contains(name))
            .map(|(_, version)| version)
    }
}

/// Returns the effect of building an environment: what would be installed if the store lacks it,
/// and what is executed in it. The publishers of the pinned packages control all of its code.
pub(crate) fn effect(recipe: &VenvRecipe, files: &NamedFiles) -> Effect {
    let locked = recipe.lock.as_deref().and_then(|digest| {
        let (_, bytes) = files.read(digest).ok()?;
        pins::locked(&String::from_utf8_lossy(&bytes)).ok()
    });
    let packages = match &locked {
        Some(locked) => locked
            .iter()
            .map(|(name, version)| format!("{name}=={version}"))
            .collect(),
        None => recipe.packages.clone(),
    };
    Effect {
        what: What::Install {
            python: recipe.python.clone(),
            packages,
            overrides: recipe.overrides.clone(),
            complete: locked.is_some(),
            assertions: recipe.assertions.clone(),
        },
        consent: Some(Consent {
            definition: serde_json::json!({ "venv": recipe }),
            texts: BTreeMap::new(),
            arguments: BTreeMap::new(),
        }),
    }
}

/// Makes settings canonical: pins in one form and order, the lock as its digest.
pub(crate) fn canonical(
    venv: VenvSettings,
    library: &dyn Library,
    problems: &mut Vec<Problem>,
) -> VenvRecipe {
    let route = |key: &str| vec!["environment".to_owned(), "venv".to_owned(), key.to_owned()];
    let mut add = |steps: Vec<Step>, message: String, hint: &str| {
        problems.push(Problem {
            route: steps,
            ..Problem::at(&[], message).hint(hint)
        });
    };
    let at = |key: &str| route(key).into_iter().map(Step::Key).collect::<Vec<_>>();
    if venv.packages.is_empty() == venv.lock.is_none() {
        let message = "a venv needs either `packages` or a `lock`, and not both".to_owned();
        add(
            at("python"),
            message,
            "`packages: [vllm==0.20.2]` resolves what it needs once; `lock: FILE` names every package",
        );
    }
    if venv.lock.is_some() && !venv.overrides.is_empty() {
        let message = "`overrides` have no effect on a `lock`, which is complete".to_owned();
        add(
            at("overrides"),
            message,
            "correct the lock, or remove `overrides`",
        );
    }
    for (key, list) in [("packages", &venv.packages), ("overrides", &venv.overrides)] {
        for (index, pin) in list.iter().enumerate() {
            if let Err((message, hint)) = pins::check(pin) {
                let mut steps = at(key);
                steps.push(Step::Index(index));
                add(steps, message, &hint);
            }
        }
    }
    let mut locked = BTreeMap::new();
    let lock = venv
        .lock
        .and_then(|file| match sources::read(library, &file) {
            Ok((source, bytes)) => {
                match pins::locked(&String::from_utf8_lossy(&bytes)) {
                    Ok(pins) => locked = pins,
                    Err(wrong) => add(
                        at("lock"),
                        format!("{file}:{}: {}", wrong.line, wrong.message),
                        pins::MAKE_A_LOCK,
                    ),
                }
                Some(source.digest.to_string())
            }
            Err(e) => {
                add(at("lock"), e.message, &e.hint);
                None
            }
        });
    VenvRecipe {
        python: venv.python,
        packages: pins::sorted(&venv.packages),
        overrides: pins::sorted(&venv.overrides),
        lock,
        assertions: venv.assertions,
        locked,
    }
}

/// Returns a problem if the venv pins none of the engine's distributions, with a hint that names a
/// similar pin.
pub(crate) fn not_pinned(
    recipe: &VenvRecipe,
    distributions: &[String],
    engine: &str,
) -> Option<Problem> {
    if distributions.is_empty() || recipe.version_of(distributions).is_some() {
        return None;
    }
    let names: Vec<String> = recipe.named().map(|(name, _)| name).collect();
    let near = distributions
        .iter()
        .find_map(|wanted| closest(wanted, names.iter().map(String::as_str)));
    let wanted = either(distributions);
    let hint = match near {
        Some(near) => format!("did you mean {wanted} instead of `{near}`?"),
        None => format!("add `{}==VERSION`", distributions[0]),
    };
    let message = format!("the venv does not pin {wanted}, which contains the engine `{engine}`");
    Some(Problem::at(&["environment", "venv"], message).hint(hint))
}
