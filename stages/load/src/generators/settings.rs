//! The setting `generators`: how many processes send the load, and on which machines.

use std::collections::BTreeMap;
use std::ffi::OsString;

use pipeline::Step;
use pipeline::effect::{Consent, Effect, What};
use pipeline::sources::{self, NamedFiles};
use pipeline::stage::{Control, Failure, Library, Problem};
use places::{Host, NamedHost, Pool, Ssh};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Generators, MOST_GENERATORS, There};

/// Which processes send a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum GeneratorsChoice {
    /// The number of processes on this machine; for other hosts, write `{hosts: [NAME]}`.
    Count(
        #[schemars(range(min = 1, max = 64), extend("x-other-words" = {
            "auto": "a number: begin with 1, and raise it while `client_verdict` is `client_bound`",
            "max": "a number: begin with 1, and raise it while `client_verdict` is `client_bound`",
            "all": "a number: begin with 1, and raise it while `client_verdict` is `client_bound`",
        }))]
        u32,
    ),
    /// Processes on other hosts.
    On(OnHosts),
}

/// Generators on hosts that OpenSSH reaches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct OnHosts {
    /// Names of hosts under `hosts` at the top of the experiment.
    #[schemars(length(min = 1), inner(length(min = 1)))]
    pub hosts: Vec<String>,
    /// How many generators each host runs.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1, max = 64))]
    pub each: u32,
    /// An OpenSSH configuration file instead of your own. A relative path begins at the experiment's folder; canonical
    /// parameters hold the digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub config: Option<String>,
    /// The hosts, in canonical parameters; not a setting.
    #[serde(default, rename = "found", skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub resolved: Vec<NamedHost>,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_one(each: &u32) -> bool {
    *each == 1
}

impl GeneratorsChoice {
    /// Returns the number of processes.
    pub fn count(&self) -> u32 {
        match self {
            Self::Count(count) => *count,
            Self::On(on) => {
                let hosts = u32::try_from(on.hosts.len()).unwrap_or(u32::MAX);
                hosts.saturating_mul(on.each)
            }
        }
    }

    /// Whether it changes nothing: one process on this machine.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::Count(1)
    }

    /// Finds the hosts, and names the configuration file by its digest.
    pub(crate) fn pin(&mut self, library: &dyn Library) -> Vec<Problem> {
        let Self::On(on) = self else {
            return Vec::new();
        };
        if !on.resolved.is_empty() {
            return Vec::new();
        }
        if on.hosts.is_empty() {
            let problem = Problem::at(&["generators", "hosts"], "no host is named");
            return vec![problem.hint("write, for example, `hosts: [left, right]`")];
        }
        // Of the place in a pool, only the place in its list of hosts applies here.
        let at = |problem: Problem| {
            let item = problem.route.last().cloned();
            let mut located = Problem::at(&["generators", "hosts"], problem.message);
            located.hint = problem.hint;
            located
                .route
                .extend(item.filter(|step| matches!(step, Step::Index(_))));
            located
        };
        let mut problems = Vec::new();
        let pool = Pool {
            hosts: on.hosts.clone(),
            ..Pool::default()
        };
        match pool.find(library) {
            // In the order in which the study names them.
            Ok(pool) => {
                let named = |name: &String| pool.hosts.iter().find(|host| host.name == *name);
                on.resolved = on.hosts.iter().filter_map(named).cloned().collect();
            }
            Err(wrong) => problems.extend(wrong.into_iter().map(at)),
        }
        let twice = |(i, name): (usize, &String)| on.hosts[..i].contains(name);
        if on.hosts.iter().enumerate().any(twice) {
            let problem = Problem::at(&["generators", "hosts"], "a host is named twice");
            problems.push(problem.hint("write `each: 2` for two generators on every host"));
        }
        if let Some(file) = on.config.take() {
            match sources::pin(library, &file) {
                Ok(source) => on.config = Some(source.digest.to_string()),
                Err(e) => {
                    let problem = Problem::at(&["generators", "config"], e.message);
                    problems.push(problem.hint(e.hint));
                }
            }
        }
        problems
    }

    /// Returns the effect of using each host: this program runs there under the user's name.
    pub(crate) fn effects(&self) -> Vec<Effect> {
        let Self::On(on) = self else {
            return Vec::new();
        };
        let effect = |host: &NamedHost| Effect {
            what: What::Execute {
                host: host.name.clone(),
                ssh: host.ssh.clone(),
            },
            consent: Some(Consent {
                definition: json!({ "host": host, "config": on.config }),
                texts: BTreeMap::new(),
                arguments: BTreeMap::new(),
            }),
        };
        on.resolved.iter().map(effect).collect()
    }

    /// Reaches the hosts, and returns how generators start there.
    ///
    /// # Errors
    /// If the user has not consented, or a host cannot be reached.
    pub(crate) fn reach(
        &self,
        files: &NamedFiles,
        control: &Control,
    ) -> Result<Generators, Failure> {
        for consent in self
            .effects()
            .into_iter()
            .filter_map(|effect| effect.consent)
        {
            control.permits(&consent)?;
        }
        let Self::On(on) = self else {
            return Ok(Generators::of(self.count()));
        };
        let reach = |named: &NamedHost| {
            let ssh = Ssh {
                config: on.config.clone(),
                ..named.to_ssh()
            };
            let host = Host::reach(&ssh, files, control)?;
            let command = host.of_binary(&["generate"]);
            Ok(There {
                name: named.name.clone(),
                command: command.into_iter().map(OsString::from).collect(),
            })
        };
        let there = on
            .resolved
            .iter()
            .map(reach)
            .collect::<Result<_, Failure>>()?;
        Ok(Generators {
            there,
            ..Generators::of(self.count())
        })
    }

    /// Returns the problem with the number of processes.
    pub(crate) fn count_problem(&self) -> Option<String> {
        let fits = (1..=MOST_GENERATORS).contains(&self.count());
        (!fits).then(|| format!("a load has between 1 and {MOST_GENERATORS} generators"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    struct Defined(Value);

    impl Library for Defined {
        fn find(&self, _: &str, name: &str) -> Option<Value> {
            self.0.get(name).cloned()
        }
        fn names(&self, _: &str) -> Vec<String> {
            let names = self.0.as_object().map(|all| all.keys().cloned().collect());
            names.unwrap_or_default()
        }
    }

    fn refusal(hosts: &[&str], defined: Value) -> (Vec<Step>, String) {
        let mut choice = GeneratorsChoice::On(OnHosts {
            hosts: hosts.iter().map(|name| (*name).to_owned()).collect(),
            each: 1,
            config: None,
            resolved: Vec::new(),
        });
        let mut problems = choice.pin(&Defined(defined)).into_iter();
        let first = problems.next().expect("a mistake");
        (first.route, first.message)
    }

    #[test]
    fn a_mistake_is_at_the_host_that_has_it() {
        let key = |name: &str| Step::Key(name.to_owned());
        let list = vec![key("generators"), key("hosts")];
        let second = [&list[..], &[Step::Index(1)]].concat();
        let (route, message) = refusal(&["a", "b"], json!({"a": {}, "c": {}}));
        assert_eq!(
            (route, message.as_str()),
            (second.clone(), "unknown host `b`")
        );
        let (route, message) = refusal(
            &["a", "b"],
            json!({"a": {}, "b": {"ssh": "-oProxyCommand=x"}}),
        );
        assert_eq!(route, second);
        assert!(
            message.contains("cannot be the name of a host"),
            "{message}"
        );
        let (route, message) = refusal(&["a"], json!({}));
        assert_eq!((route, message.as_str()), (list, "no hosts are defined"));
    }
}
