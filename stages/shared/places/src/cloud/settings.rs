//! The settings for a machine that an OpenTofu or Terraform module makes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use artifacts::Digest;
use pipeline::sources::{self, NamedFile};
use pipeline::{Json, Library, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A machine that your own module creates for as long as the study needs it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Cloud {
    /// The folder of your module for OpenTofu or Terraform. A relative path begins at the experiment's
    /// folder; canonical parameters hold the digest of its files. Its output `host` is the address
    /// of the machine; `user`, `port`, `key_path` and `host_key` may follow.
    pub module: String,
    /// Values of the module's variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, Json>,
    /// The folder that Benchtrail uses on the host; by default `benchtrail` in the user's cache folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub folder: Option<String>,
    /// The program that is called: by default `tofu` if it is on the search path, otherwise `terraform`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub program: Option<String>,
    /// The hourly cost of everything that the module creates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64")]
    pub cost_per_hour: Option<f64>,
    /// The most that this experiment may cost here, in all runs together. When it is spent, everything is destroyed,
    /// and cells that need the machine fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64")]
    pub budget: Option<f64>,
    /// The currency of both, for people; by default `USD`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub currency: Option<String>,
    /// How long the machine may take from the end of `apply` until SSH answers, in seconds; by
    /// default 600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 1))]
    pub boot_timeout_s: Option<u32>,
}

/// The settings that do not affect any measurement, and are therefore in no key.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Terms {
    /// The module, as the settings name it.
    pub(super) module: String,
    /// The module's files, by their path in the module.
    pub(super) files: BTreeMap<String, NamedFile>,
    pub(super) program: Option<String>,
    pub(super) cost_per_hour: f64,
    pub(super) budget: f64,
    pub(super) currency: String,
    pub(super) boot_timeout_s: u32,
}

/// The terms of each machine planned in this process.
static TERMS: Mutex<BTreeMap<String, Terms>> = Mutex::new(BTreeMap::new());

impl Cloud {
    /// Checks the settings, names the module by the digest of its files, and removes what affects no measurement.
    ///
    /// # Errors
    /// Every mistake, with a route that starts at the place.
    pub(crate) fn pin(&mut self, library: &dyn Library) -> Result<(), Vec<Problem>> {
        let mut problems = Vec::new();
        let amount = |key: &str, value: Option<f64>, problems: &mut Vec<Problem>| match value {
            Some(value) if value.is_finite() && value > 0.0 => value,
            Some(value) => {
                let message = format!("`{key}` must be greater than 0, got {value}");
                problems.push(Problem::at(&["cloud", key], message));
                1.0
            }
            None => {
                let message = format!("a machine that costs money needs `{key}`");
                problems.push(Problem::at(&["cloud"], message).hint(
                    "`cost-per-hour: 2.49` is the hourly cost of everything that the module creates, and `budget: 20` \
                     is the most that this experiment may cost",
                ));
                1.0
            }
        };
        let cost_per_hour = amount("cost-per-hour", self.cost_per_hour.take(), &mut problems);
        let budget = amount("budget", self.budget.take(), &mut problems);
        for name in self.variables.keys() {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            if name.is_empty() || name.starts_with('-') || !name.chars().all(plain) {
                let message = format!("`{name}` cannot be the name of a variable");
                problems.push(Problem::at(&["cloud", "variables", name], message));
            }
        }
        let files = match files_of(library, &self.module) {
            Ok(files) => files,
            Err((message, hint)) => {
                problems.push(Problem::at(&["cloud", "module"], message).hint(hint));
                BTreeMap::new()
            }
        };
        if !problems.is_empty() {
            return Err(problems);
        }
        let list: String = files
            .iter()
            .map(|(name, source)| format!("{} {name}\n", source.digest))
            .collect();
        let module = std::mem::replace(&mut self.module, Digest::of(list.as_bytes()).to_string());
        let mut terms = Terms {
            module,
            files,
            program: self.program.take(),
            cost_per_hour,
            budget,
            currency: self.currency.take().unwrap_or_else(|| "USD".to_owned()),
            boot_timeout_s: self.boot_timeout_s.take().unwrap_or(600),
        };
        let mut all = TERMS.lock().unwrap_or_else(PoisonError::into_inner);
        // If two stages that share a machine name two budgets, the smaller one holds.
        if let Some(earlier) = all.get(&self.name()) {
            terms.budget = terms.budget.min(earlier.budget);
        }
        all.insert(self.name(), terms);
        Ok(())
    }

    /// Returns the name of this machine within a process: its canonical parameters.
    pub(super) fn name(&self) -> String {
        let document = serde_json::json!({"module": self.module, "variables": self.variables});
        Digest::of(document.to_string().as_bytes()).hex()
    }

    pub(super) fn terms(&self) -> Option<Terms> {
        let all = TERMS.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&self.name()).cloned()
    }
}

/// The most files that a module may have.
const MOST_FILES: usize = 1000;

/// Reads the files of a module, except hidden files, states, and the content of hidden folders. The lock file of its
/// providers is included.
fn files_of(
    library: &dyn Library,
    module: &str,
) -> Result<BTreeMap<String, NamedFile>, (String, String)> {
    let root = library.path(module);
    let unread = |e: std::io::Error| {
        let problem = sources::unread(module, &root, &e);
        (problem.message, problem.hint)
    };
    let mut names = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder)).map_err(unread)? {
            let entry = entry.map_err(unread)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = folder.join(&name);
            let kind = std::fs::metadata(entry.path()).map_err(unread)?;
            if kind.is_dir() && !name.starts_with('.') {
                folders.push(path);
            } else if kind.is_file() && belongs(&name) {
                names.push(path.to_string_lossy().into_owned());
            }
            if names.len() > MOST_FILES || folders.len() > MOST_FILES {
                let message = format!("{} has more than {MOST_FILES} files", root.display());
                return Err((message, "name the folder of the module itself".to_owned()));
            }
        }
    }
    if !names.iter().any(|name| {
        let inside = Path::new(name).parent().is_some_and(|p| p != Path::new(""));
        !inside
            && [".tf", ".tf.json", ".tofu"]
                .iter()
                .any(|end| name.ends_with(end))
    }) {
        let message = format!("{} has no file that ends with `.tf`", root.display());
        return Err((message, "name the folder of the module".to_owned()));
    }
    names
        .into_iter()
        .map(|name| {
            let full = Path::new(module).join(&name);
            let (source, _) =
                sources::read(library, &full.to_string_lossy()).map_err(|e| (e.message, e.hint))?;
            Ok((name, source))
        })
        .collect()
}

fn belongs(name: &str) -> bool {
    name == ".terraform.lock.hcl" || !(name.starts_with('.') || name.contains(".tfstate"))
}
