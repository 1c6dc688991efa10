//! The settings of a place.

use pipeline::{Library, Problem, sources};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cloud::Cloud;
use crate::kubernetes::Kubernetes;
use crate::pool::{Hosts, Pool};
use crate::slurm::Slurm;

/// Where an engine is prepared and runs, if not on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// A host that your OpenSSH client reaches without a prompt.
    Ssh(Ssh),
    /// A machine that your own OpenTofu or Terraform module creates. It is destroyed afterwards.
    Cloud(Cloud),
    /// Machines that Slurm chooses: everything measured on the engine is measured there.
    Slurm(Slurm),
    /// Hosts of a pool, named under `hosts`: everything measured on the engine is measured there.
    Pool(Pool),
    /// Pods that Kubernetes runs: everything measured on the engine is measured there.
    Kubernetes(Box<Kubernetes>),
}

/// Where a launch is executed, with everything measured on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// On a machine that Slurm chooses.
    Slurm(Slurm),
    /// On a host of a pool.
    Pool(Hosts),
    /// In a pod of Kubernetes.
    Kubernetes(Box<Kubernetes>),
}

/// A host that OpenSSH reaches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Ssh {
    /// The host as you would name it to `ssh`: an alias of your configuration, `host` or
    /// `user@host`.
    pub host: String,
    /// The folder that Benchtrail uses on the host; by default `benchtrail` in the user's cache folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub folder: Option<String>,
    /// An OpenSSH configuration file instead of your own. A relative path begins at the
    /// experiment's folder; canonical parameters hold the digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub config: Option<String>,
}

impl Ssh {
    /// Names the configuration file by digest; returns every mistake, with a route that starts at the place.
    fn pin(&mut self, library: &dyn Library) -> Vec<Problem> {
        let mut problems = Vec::new();
        if let Some(mut problem) = host_problem("ssh", &self.host) {
            problem.route.push(pipeline::Step::Key("host".to_owned()));
            problems.push(problem);
        }
        problems.extend(folder_problem("ssh", self.folder.as_deref()));
        if let Some(file) = self.config.take() {
            match sources::pin(library, &file) {
                Ok(source) => self.config = Some(source.digest.to_string()),
                Err(e) => {
                    problems.push(Problem::at(&["ssh", "config"], e.message).hint(e.hint));
                }
            }
        }
        problems
    }
}

impl Place {
    /// Checks the settings and names their files by digest.
    ///
    /// # Errors
    /// Every mistake, with a route that starts at the place.
    pub fn pin(&mut self, library: &dyn Library) -> Result<(), Vec<Problem>> {
        let problems = match self {
            Self::Ssh(ssh) => ssh.pin(library),
            Self::Pool(pool) => pool.find(library).err().unwrap_or_default(),
            Self::Slurm(slurm) => {
                let mut problems = slurm.check();
                problems.extend(folder_problem("slurm", slurm.folder.as_deref()));
                problems
            }
            Self::Kubernetes(kubernetes) => kubernetes.check(),
            Self::Cloud(cloud) => {
                let folder = folder_problem("cloud", cloud.folder.as_deref());
                let mut problems = cloud.pin(library).err().unwrap_or_default();
                problems.extend(folder);
                problems
            }
        };
        match problems.is_empty() {
            true => Ok(()),
            false => Err(problems),
        }
    }

    /// Returns where a launch is executed, with everything measured on it; `None` if only the engine runs elsewhere.
    pub fn placement(self, library: &dyn Library) -> Option<Placement> {
        match self {
            Self::Slurm(slurm) => Some(Placement::Slurm(slurm)),
            Self::Pool(pool) => pool.find(library).ok().map(Placement::Pool),
            Self::Kubernetes(kubernetes) => Some(Placement::Kubernetes(kubernetes)),
            Self::Ssh(_) | Self::Cloud(_) => None,
        }
    }
}

/// The default of a switch that is on.
pub(crate) fn yes() -> bool {
    true
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
pub(crate) fn is_yes(value: &bool) -> bool {
    *value
}

/// Returns the problem with a host's name at a place, if any.
pub(crate) fn host_problem(place: &str, host: &str) -> Option<Problem> {
    let message = format!("`{host}` cannot be the name of a host");
    let hint = "write it as for `ssh`; put options into your OpenSSH configuration";
    (!plain(host, ".-_@:[]")).then(|| Problem::at(&[place], message).hint(hint))
}

/// Returns whether a text has only letters, digits and `more`. A leading hyphen is not allowed, because it would start
/// an option of `ssh`.
fn plain(text: &str, more: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
    !text.is_empty() && !text.starts_with('-') && text.chars().all(fits)
}

pub(crate) fn folder_problem(place: &str, folder: Option<&str>) -> Option<Problem> {
    let folder = folder?;
    if folder.starts_with('/') && plain(folder, "/.-_") && !folder.contains("..") {
        return None;
    }
    let message = format!("`{folder}` is not an absolute path of plain names");
    Some(Problem::at(&[place, "folder"], message).hint("write, for example, `/scratch/benchtrail`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(host: &str, folder: Option<&str>) -> Vec<String> {
        let ssh = Ssh {
            host: host.to_owned(),
            folder: folder.map(str::to_owned),
            config: None,
        };
        let problems = Place::Ssh(ssh)
            .pin(&pipeline::stage::NoLibrary)
            .err()
            .unwrap_or_default();
        problems.into_iter().map(|p| p.message).collect()
    }

    #[test]
    fn a_host_is_never_an_option_and_a_folder_never_a_command() {
        for host in ["box", "ada@10.0.0.5", "gpu-1.example.org", "[::1]"] {
            assert_eq!(
                messages(host, Some("/tmp/b-1")),
                Vec::<String>::new(),
                "{host}"
            );
        }
        for host in ["-oProxyCommand=x", "", "a b", "a;b", "$(x)", "a'b"] {
            assert_eq!(messages(host, None).len(), 1, "{host}");
        }
        for folder in ["relative", "/a b", "/a/../b", "/a;b", "/$(x)", "/a'b", ""] {
            assert_eq!(messages("box", Some(folder)).len(), 1, "{folder}");
        }
    }
}
