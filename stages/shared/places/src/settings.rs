//! What an experiment says of a place.

use pipeline::{Library, Problem, sources};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where an engine is prepared and runs, if not on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// A host that your OpenSSH client reaches without asking anything.
    Ssh(Ssh),
}

/// A host that OpenSSH reaches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Ssh {
    /// The host as you would name it to `ssh`: an alias of your configuration, `host` or
    /// `user@host`.
    pub host: String,
    /// The folder there that Benchtrail keeps things in; by default `benchtrail` in the user's
    /// folder for caches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub folder: Option<String>,
    /// An OpenSSH configuration file instead of your own. A relative path begins at the
    /// experiment's folder; canonical parameters hold the digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub config: Option<String>,
}

impl Place {
    /// Checks it and names its files by digest.
    ///
    /// # Errors
    /// Every mistake, with a route that begins at the place.
    pub fn pin(&mut self, library: &dyn Library) -> Result<(), Vec<Problem>> {
        let Self::Ssh(ssh) = self;
        let mut problems = Vec::new();
        // What begins with a hyphen would be an option of `ssh`.
        let plain = |text: &str, more: &str| {
            !text.is_empty()
                && !text.starts_with('-')
                && text
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || more.contains(c))
        };
        if !plain(&ssh.host, ".-_@:[]") {
            problems.push(
                Problem::at(
                    &["ssh", "host"],
                    format!("`{}` cannot be the name of a host", ssh.host),
                )
                .hint("write it as for `ssh`; options belong into your configuration of OpenSSH"),
            );
        }
        if let Some(folder) = &ssh.folder
            && !(folder.starts_with('/') && plain(folder, "/.-_") && !folder.contains(".."))
        {
            problems.push(
                Problem::at(
                    &["ssh", "folder"],
                    format!("`{folder}` is not an absolute path of plain names"),
                )
                .hint("for instance `/scratch/benchtrail`"),
            );
        }
        if let Some(file) = ssh.config.take() {
            match sources::read(library, &file) {
                Ok((source, _)) => ssh.config = Some(source.digest.to_string()),
                Err(e) => {
                    problems.push(Problem::at(&["ssh", "config"], e.message).hint(e.hint));
                }
            }
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(problems)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl Library for Nothing {
        fn find(&self, _: &str, _: &str) -> Option<pipeline::Json> {
            None
        }
        fn names(&self, _: &str) -> Vec<String> {
            Vec::new()
        }
    }

    fn told(host: &str, folder: Option<&str>) -> Vec<String> {
        let ssh = Ssh {
            host: host.to_owned(),
            folder: folder.map(str::to_owned),
            config: None,
        };
        let problems = Place::Ssh(ssh).pin(&Nothing).err().unwrap_or_default();
        problems.into_iter().map(|p| p.message).collect()
    }

    #[test]
    fn a_host_is_never_an_option_and_a_folder_never_a_command() {
        for host in ["box", "ada@10.0.0.5", "gpu-1.example.org", "[::1]"] {
            assert_eq!(told(host, Some("/tmp/b-1")), Vec::<String>::new(), "{host}");
        }
        for host in ["-oProxyCommand=x", "", "a b", "a;b", "$(x)", "a'b"] {
            assert_eq!(told(host, None).len(), 1, "{host}");
        }
        for folder in ["relative", "/a b", "/a/../b", "/a;b", "/$(x)", "/a'b", ""] {
            assert_eq!(told("box", Some(folder)).len(), 1, "{folder}");
        }
    }
}
