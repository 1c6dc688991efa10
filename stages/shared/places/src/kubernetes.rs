//! The settings for machines that Kubernetes chooses. `check` finds their mistakes, and [`manifest`](Kubernetes::manifest)
//! writes the document for `kubectl create`.

mod check;
mod manifest;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use pipeline::settings::DurationText;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::settings::{is_yes, yes};
use crate::terms::Terms;

pub use check::volume_of;
pub use manifest::{CONTAINER, LABEL_RUN, LABEL_SHARD, Launch, variable};

/// Jobs of Kubernetes, one with one pod for each launch of a server. Keys do not contain these settings, not even the image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("x-other-words" = {
    "cluster": "`context`",
    "requests": "`cpu`, `memory`, `gpus` and `resources`, each of which is both the request and the limit",
    "limits": "`cpu`, `memory`, `gpus` and `resources`, each of which is both the request and the limit",
    "cpus": "`cpu`",
    "mem": "`memory`",
    "gpu": "`gpus`",
    "env": "`secrets`: the pod gets each key of a Secret as a variable",
    "envfrom": "`secrets`",
    "env-from": "`secrets`",
    "credentials": "`secrets`",
    "nodeselector": "`node-selector`",
    "serviceaccount": "`service-account`",
    "serviceaccountname": "`service-account`",
    "imagepullsecrets": "`image-pull-secrets`",
    "pull-secrets": "`image-pull-secrets`",
    "priorityclassname": "`priority`",
    "priority-class": "`priority`",
    "priority-class-name": "`priority`",
    "shm": "`shared-memory`",
    "shm-size": "`shared-memory`",
    "pvc": "`volumes: [{claim: NAME, path: /data}]`",
    "claims": "`volumes: [{claim: NAME, path: /data}]`",
    "active-deadline": "`time`",
    "activedeadlineseconds": "`time`",
    "ttl": "`ttl-after-finished`",
    "ttlsecondsafterfinished": "`ttl-after-finished`",
    "backoff-limit": "`retries` of the stage: Kubernetes itself starts no pod twice",
    "backofflimit": "`retries` of the stage: Kubernetes itself starts no pod twice",
    "command": "nothing: the pod executes Benchtrail, which starts the engine",
}))]
pub struct Kubernetes {
    /// The container image, by digest: `registry.example/engine@sha256:…`. It must have what the engine needs.
    pub image: String,
    /// The context of your `kubectl` configuration; by default, the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub context: Option<String>,
    /// The namespace; by default, the namespace of the context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub namespace: Option<String>,
    /// The processors, as request and as limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64")]
    pub cpu: Option<f64>,
    /// The memory, as request and as limit, for example `64Gi`. Shared memory counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub memory: Option<String>,
    /// The number of GPUs: the resource `nvidia.com/gpu`. Name other kinds under `resources`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 1))]
    pub gpus: Option<u32>,
    /// Other countable resources by name, for example `amd.com/gpu: 1`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, u32>")]
    pub resources: BTreeMap<String, u32>,
    /// The disk space for temporary files, as request and as limit, for example `100Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub ephemeral_storage: Option<String>,
    /// The size of `/dev/shm`, for example `8Gi`; by default, that of the container runtime, often 64 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub shared_memory: Option<String>,
    /// Persistent volume claims to mount.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Volume>,
    /// Names of Secrets, for example with API keys or the credentials of the shared store. The pod gets each of their keys as
    /// a variable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1)))]
    pub secrets: Vec<String>,
    /// Names of Secrets that are used to pull the image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1)))]
    pub image_pull_secrets: Vec<String>,
    /// The service account of the pod; by default, that of the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub service_account: Option<String>,
    /// Whether the pod gets the token of its service account. Benchtrail itself does not need it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub service_account_token: bool,
    /// Labels that the node must have. All nodes of one stage must have the same facets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Names of nodes, as in the label `kubernetes.io/hostname`. The launches of a block then go to one node, and each block
    /// goes to the next node in turn, so that one node measures everything that a block compares. Without a design, the
    /// first launch of each kind goes to the first node, the second to the next. By default, Kubernetes chooses for each
    /// launch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1)))]
    pub nodes: Vec<String>,
    /// Taints of nodes that the pod tolerates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// The name of a PriorityClass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub priority: Option<String>,
    /// Whether a node has at most one launch of the namespace at a time. Other pods can still run there.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    #[schemars(default = "yes")]
    pub exclusive: bool,
    /// The time limit of a pod, counted from when a node accepts it. By default the sum of the `timeout`s of what the pod
    /// executes, and no limit if a stage has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DurationText")]
    pub time: Option<DurationText>,
    /// How long Kubernetes keeps a Job that has ended; by default 24 h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DurationText")]
    pub ttl_after_finished: Option<DurationText>,
    /// The largest number of Jobs of the study that Kubernetes has at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 1))]
    pub at_once: Option<u32>,
    /// A folder on a volume that keeps engines and environments for the next pod; by default, a pod has a temporary folder
    /// that is removed with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub folder: Option<String>,
    /// The hourly cost of one pod.
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

/// A persistent volume claim, and where the pod sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("x-other-words" = {
    "name": "`claim`", "pvc": "`claim`", "claimname": "`claim`", "mount": "`path`", "mountpath": "`path`",
    "readonly": "`read-only`", "subpath": "`sub-path`",
}))]
pub struct Volume {
    /// The name of the claim.
    pub claim: String,
    /// The folder of the pod.
    pub path: String,
    /// The folder of the volume; by default, all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub sub_path: Option<String>,
    /// Whether the pod can only read the volume.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}

/// A taint that the pod tolerates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("x-form" = "{key: nvidia.com/gpu, effect: NoSchedule}", "x-other-words" = {
    "operator": "nothing: a toleration with `value` asks for that value, and one without accepts every value",
    "tolerationseconds": "`for`", "toleration-seconds": "`for`",
}))]
pub struct Toleration {
    /// The key of the taint; by default, every key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub key: Option<String>,
    /// The value of the taint; by default, every value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub value: Option<String>,
    /// The effect of the taint; by default, every effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "TaintEffect")]
    pub effect: Option<TaintEffect>,
    /// How long the pod stays on a node that gets a taint with the effect `NoExecute`; by default, without a limit.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DurationText")]
    pub stays: Option<DurationText>,
}

/// What a taint does, in the words of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// No new pod is scheduled onto the node.
    NoSchedule,
    /// Kubernetes avoids the node.
    PreferNoSchedule,
    /// Pods are evicted from the node.
    NoExecute,
}

impl Kubernetes {
    /// Returns the price of a pod, if the study states one.
    pub fn terms(&self) -> Option<Terms> {
        let currency = self.currency.as_deref();
        let terms = crate::terms::read("kubernetes", self.cost_per_hour, self.budget, currency);
        terms.ok().flatten()
    }

    /// Returns the node for a replicate (from 1), if the study names nodes.
    pub fn node(&self, turn: usize) -> Option<&str> {
        crate::in_turn(&self.nodes, turn)
    }

    /// Returns the command line of `kubectl` with the user's choice of a cluster.
    pub fn kubectl(&self) -> Vec<String> {
        let chosen = [("context", &self.context), ("namespace", &self.namespace)];
        let chosen = chosen.into_iter();
        let chosen =
            chosen.filter_map(|(name, value)| Some(format!("--{name}={}", value.as_ref()?)));
        std::iter::once("kubectl".to_owned())
            .chain(chosen)
            .collect()
    }

    /// Returns the requests of a pod, by resource: each is its limit, too.
    pub fn requests(&self) -> BTreeMap<String, String> {
        let gpus = self.gpus.map(|count| count.to_string());
        let named = [
            ("cpu", self.cpu.map(manifest::processors)),
            ("memory", self.memory.clone()),
            ("ephemeral-storage", self.ephemeral_storage.clone()),
            (check::GPU, gpus),
        ];
        let others = self.resources.iter();
        let others = others.map(|(name, count)| (name.clone(), count.to_string()));
        named
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .chain(others)
            .collect()
    }
}
