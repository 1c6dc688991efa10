//! The settings for a pool of hosts that OpenSSH reaches: the definitions of hosts, and the hosts that a place selects.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pipeline::suggest::{list, remedy};
use pipeline::{Library, Problem, Step, sources};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::settings::{Ssh, folder_problem, host_problem};
use crate::terms::Terms;

/// The collection of definitions that names hosts.
pub(crate) const HOSTS: &str = "hosts";

/// A host of the pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("x-other-words" = {
    "host": "`ssh`",
    "address": "`ssh`",
    "hostname": "`ssh`",
    "user": "`ssh: USER@HOST`",
    "port": "a `Host` with a `Port` in your OpenSSH configuration, and its name as `ssh`",
    "tags": "`labels`",
    "slots": "nothing: a host executes one launch at a time, because others would disturb it",
}, "x-alone" = "ssh"))]
pub(crate) struct PoolHost {
    /// The host as you would name it to `ssh`: an alias of your configuration, `host` or `user@host`. By default the
    /// name of the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub ssh: Option<String>,
    /// What the host is or has, in your own words. `place` selects hosts by their labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1)))]
    pub labels: Vec<String>,
    /// The folder that Benchtrail uses on the host; by default `benchtrail` in the user's cache folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub folder: Option<String>,
}

/// Hosts of a pool, each of which executes one launch at a time. Keys do not contain these settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("x-form" = "{hosts: [NAME]}", "x-other-words" = {
    "nodes": "`hosts`",
    "host": "`hosts: [NAME]`",
    "constraint": "`labels`",
    "ssh": "`hosts: {NAME: {ssh: …}}` at the top of the experiment",
}))]
pub struct Pool {
    /// Names of hosts under `hosts`. By default all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1)))]
    pub hosts: Vec<String>,
    /// Only hosts that have all of these labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1)))]
    pub labels: Vec<String>,
    /// An OpenSSH configuration file instead of your own. A relative path begins at the experiment's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub config: Option<String>,
    /// The hourly cost of one host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64")]
    pub cost_per_hour: Option<f64>,
    /// The most that this experiment may cost here, in all runs together. When it is spent, launches are stopped, and
    /// the remaining cells are skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64")]
    pub budget: Option<f64>,
    /// The currency of both, for people; by default `USD`. `GPU-hours` is also possible, with the number of GPUs as
    /// the cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub currency: Option<String>,
}

/// A host that belongs to a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedHost {
    /// Its name in the pool, in records and reports.
    pub name: String,
    /// The host as OpenSSH knows it.
    pub ssh: String,
    /// The folder on the host, if the study names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
}

impl NamedHost {
    /// Returns the host's settings for OpenSSH.
    pub fn to_ssh(&self) -> Ssh {
        Ssh {
            host: self.ssh.clone(),
            folder: self.folder.clone(),
            config: None,
        }
    }
}

/// A study's settings for a pool, with the selected hosts in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hosts {
    /// The hosts, at least one.
    pub hosts: Vec<NamedHost>,
    /// The OpenSSH configuration file with its digest; `None` for the user's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<(PathBuf, String)>,
    /// The price of a host, if the study states one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terms: Option<Terms>,
}

impl Hosts {
    /// Returns the host for a replicate (from 1). Compared launches have the same numbers on each side, so they are
    /// measured on the same hosts.
    pub fn home(&self, turn: usize) -> Option<&NamedHost> {
        self.turns(turn).next()
    }

    /// Returns the hosts in the order in which a replicate tries them.
    pub fn turns(&self, turn: usize) -> impl Iterator<Item = &NamedHost> {
        let at = turn.saturating_sub(1).checked_rem(self.hosts.len());
        let (before, from) = self.hosts.split_at(at.unwrap_or_default());
        from.iter().chain(before)
    }
}

impl Pool {
    /// Finds the selected hosts.
    ///
    /// # Errors
    /// Every mistake, with a route that starts at the place.
    pub fn find(&self, library: &dyn Library) -> Result<Hosts, Vec<Problem>> {
        let mut problems = Vec::new();
        let defined = library.names(HOSTS);
        if defined.is_empty() {
            let problem = Problem::at(&["pool"], "no hosts are defined".to_owned()).hint(
                "define them at the top of the experiment: `hosts: {left: {ssh: ada@10.0.0.5}, right: {ssh: gpu-2}}`",
            );
            return Err(vec![problem]);
        }
        let mut by_name = BTreeMap::new();
        let asked = if self.hosts.is_empty() {
            &defined
        } else {
            &self.hosts
        };
        for (i, name) in asked.iter().enumerate() {
            let mut report = |problem: Problem| {
                let mut problem = problem;
                if !self.hosts.is_empty() {
                    problem.route.push(Step::Index(i));
                }
                problems.push(problem);
            };
            let at = |message| Problem::at(&["pool", "hosts"], message);
            let Some(json) = library.find(HOSTS, name) else {
                let hint = remedy(name, HOSTS, &defined);
                // If every host is selected, an invalid one was already reported where it is defined.
                if !self.hosts.is_empty() {
                    report(at(format!("unknown host `{name}`")).hint(hint));
                }
                continue;
            };
            let host: PoolHost = match serde_json::from_value(json) {
                Ok(host) => host,
                Err(e) => {
                    report(at(format!("the host `{name}`: {e}")));
                    continue;
                }
            };
            let ssh = host.ssh.clone().unwrap_or_else(|| name.clone());
            let wrong = host_problem("pool", &ssh)
                .into_iter()
                .chain(folder_problem("pool", host.folder.as_deref()));
            for problem in wrong {
                let message = format!("the host `{name}`: {}", problem.message);
                report(Problem {
                    hint: problem.hint,
                    ..at(message)
                });
            }
            by_name.insert(name.clone(), (ssh, host));
        }
        let has_all = |host: &PoolHost| self.labels.iter().all(|label| host.labels.contains(label));
        let hosts: Vec<NamedHost> = by_name
            .iter()
            .filter(|(_, (_, host))| has_all(host))
            .map(|(name, (ssh, host))| NamedHost {
                name: name.clone(),
                ssh: ssh.clone(),
                folder: host.folder.clone(),
            })
            .collect();
        problems.extend(same_machine(&hosts));
        if hosts.is_empty() && problems.is_empty() {
            let labels = by_name.values().flat_map(|(_, host)| &host.labels);
            let labels: std::collections::BTreeSet<&str> = labels.map(String::as_str).collect();
            let asked = list(self.labels.iter().map(String::as_str));
            let hint = match labels.is_empty() {
                true => "describe hosts with `labels: […]`".to_owned(),
                false => format!("their labels are {}", list(labels)),
            };
            let message = format!("no host has the labels {asked}");
            problems.push(Problem::at(&["pool", "labels"], message).hint(hint));
        }
        let config = self
            .config
            .as_ref()
            .and_then(|file| match sources::pin(library, file) {
                Ok(source) => Some((library.path(file), source.digest.to_string())),
                Err(e) => {
                    problems.push(Problem::at(&["pool", "config"], e.message).hint(e.hint));
                    None
                }
            });
        let currency = self.currency.as_deref();
        let terms = crate::terms::read("pool", self.cost_per_hour, self.budget, currency);
        let terms = terms.unwrap_or_else(|wrong| {
            problems.extend(wrong);
            None
        });
        match problems.is_empty() {
            true => Ok(Hosts {
                hosts,
                config,
                terms,
            }),
            false => Err(problems),
        }
    }
}

/// Finds two names for one folder of one machine. Its launches would wait for each other, and its results would count
/// as those of two hosts.
fn same_machine(hosts: &[NamedHost]) -> Option<Problem> {
    let mut seen: BTreeMap<(&str, Option<&str>), &str> = BTreeMap::new();
    for host in hosts {
        let place = (host.ssh.as_str(), host.folder.as_deref());
        if let Some(other) = seen.insert(place, &host.name) {
            let message = format!("`{other}` and `{}` are one host, `{}`", host.name, host.ssh);
            let hint = "remove one of them, or give each its own `folder` if they are parts of one machine";
            return Some(Problem::at(&["pool", "hosts"], message).hint(hint));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use pipeline::Json;
    use serde_json::json;

    use super::*;

    struct Defined(Json);

    impl Library for Defined {
        fn find(&self, collection: &str, name: &str) -> Option<Json> {
            assert_eq!(collection, HOSTS);
            self.0.get(name).cloned()
        }
        fn names(&self, _: &str) -> Vec<String> {
            self.0.as_object().expect("names").keys().cloned().collect()
        }
    }

    fn pool(hosts: &[&str], labels: &[&str]) -> Pool {
        let owned = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect();
        Pool {
            hosts: owned(hosts),
            labels: owned(labels),
            ..Pool::default()
        }
    }

    fn three() -> Defined {
        Defined(json!({
            "b": {"labels": ["gpu", "fast"]}, "a": {"ssh": "ada@10.0.0.5", "labels": ["gpu"]}, "c": {},
        }))
    }

    fn names(pool: &Pool, defined: &Defined) -> Vec<String> {
        let hosts = pool.find(defined).expect("hosts");
        hosts.hosts.into_iter().map(|host| host.name).collect()
    }

    fn message(pool: &Pool, defined: &Defined) -> String {
        let problems = pool.find(defined).expect_err("a mistake");
        problems.into_iter().map(|p| p.message).collect()
    }

    #[test]
    fn a_pool_is_the_hosts_that_are_named_and_have_all_labels() {
        assert_eq!(names(&pool(&[], &[]), &three()), ["a", "b", "c"]);
        assert_eq!(names(&pool(&[], &["gpu"]), &three()), ["a", "b"]);
        assert_eq!(names(&pool(&[], &["gpu", "fast"]), &three()), ["b"]);
        assert_eq!(names(&pool(&["c", "a"], &[]), &three()), ["a", "c"]);
        let hosts = pool(&["a", "c"], &[]).find(&three()).expect("hosts");
        assert_eq!(hosts.hosts[0].ssh, "ada@10.0.0.5");
        assert_eq!(hosts.hosts[1].ssh, "c", "the name stands for the host");
    }

    #[test]
    fn a_host_that_is_not_there_or_could_be_an_option_is_refused() {
        assert!(message(&pool(&["d"], &[]), &three()).contains("unknown host `d`"));
        assert!(message(&pool(&[], &["tpu"]), &three()).contains("no host has the labels"));
        assert!(message(&pool(&[], &[]), &Defined(json!({}))).contains("no hosts"));
        let option = Defined(json!({"x": {"ssh": "-oProxyCommand=x"}}));
        assert!(message(&pool(&[], &[]), &option).contains("cannot be the name of a host"));
        let folder = Defined(json!({"x": {"folder": "relative"}}));
        assert!(message(&pool(&[], &[]), &folder).contains("not an absolute path"));
        let twice = Defined(json!({"x": {"ssh": "box"}, "y": {"ssh": "box"}}));
        assert!(message(&pool(&[], &[]), &twice).contains("are one host"));
        let parts = Defined(json!({"x": {"ssh": "box"}, "y": {"ssh": "box", "folder": "/b"}}));
        assert_eq!(names(&pool(&[], &[]), &parts), ["x", "y"]);
    }

    #[test]
    fn replicates_go_round() {
        let hosts = pool(&[], &[]).find(&three()).expect("hosts");
        let home = |turn| hosts.home(turn).expect("a host").name.clone();
        let homes: Vec<String> = (1..=4).map(home).collect();
        assert_eq!(homes, ["a", "b", "c", "a"]);
        let turns: Vec<&str> = hosts.turns(2).map(|host| host.name.as_str()).collect();
        assert_eq!(turns, ["b", "c", "a"]);
        assert_eq!(Hosts::default().home(1), None);
    }
}
