//! The manifest of a Job.

use std::time::Duration;

use pipeline::Json;
use serde_json::{Map, json};

use super::{Kubernetes, Toleration};

/// The labels by which a run finds its Jobs and pods.
pub const LABEL_RUN: &str = "benchtrail/run";
/// The label with the name of the shard.
pub const LABEL_SHARD: &str = "benchtrail/shard";

/// The name of the container that executes Benchtrail.
pub const CONTAINER: &str = "benchtrail";

/// How long Kubernetes keeps a Job that has ended unless the study sets it, s.
const TTL: u64 = 24 * 3600;

/// The time that a pod has to stop, s. Its engine ends, and the pod pushes its measurements.
const GRACE: u64 = 60;

/// Variables that identify a pod to the program in it.
pub mod variable {
    /// The name of the Job.
    pub const JOB: &str = "BENCHTRAIL_KUBERNETES_JOB";
    /// The name of the pod.
    pub const POD: &str = "BENCHTRAIL_KUBERNETES_POD";
    /// The unique identifier of the pod, which differs between pods of the same Job.
    pub const UID: &str = "BENCHTRAIL_KUBERNETES_POD_UID";
    /// The name of the node.
    pub const NODE: &str = "BENCHTRAIL_KUBERNETES_NODE";
    /// The image of the container.
    pub const IMAGE: &str = "BENCHTRAIL_KUBERNETES_IMAGE";
}

/// One launch of a study.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The name of the Job.
    pub name: &'a str,
    /// The name of the run.
    pub run: &'a str,
    /// The name of the shard.
    pub shard: &'a str,
    /// The name of the experiment.
    pub experiment: &'a str,
    /// The node, if the study names nodes.
    pub node: Option<&'a str>,
    /// The time limit if the study sets none.
    pub limit: Option<Duration>,
    /// The command of the container.
    pub command: &'a [String],
}

impl Kubernetes {
    /// Returns the manifest of a launch: a Job with one pod that is started once. It contains only the names of
    /// Secrets, never credentials.
    pub fn manifest(&self, launch: &Launch<'_>) -> Json {
        let labels = json!({
            "app.kubernetes.io/name": "benchtrail",
            LABEL_RUN: launch.run,
            LABEL_SHARD: launch.shard,
        });
        let ttl = self.ttl_after_finished;
        let ttl = ttl.map_or(TTL, |ttl| seconds(ttl.0));
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": launch.name,
                "labels": labels,
                "annotations": {"benchtrail/experiment": launch.experiment},
            },
            "spec": {
                "backoffLimit": 0,
                "ttlSecondsAfterFinished": ttl,
                "template": {
                    "metadata": {"labels": labels},
                    "spec": self.pod(launch),
                },
            },
        })
    }

    fn pod(&self, launch: &Launch<'_>) -> Json {
        let mut pod = Map::new();
        let mut set = |key: &str, value: Json| {
            pod.insert(key.to_owned(), value);
        };
        set("restartPolicy", json!("Never"));
        set(
            "automountServiceAccountToken",
            json!(self.service_account_token),
        );
        // Variables of other services in the namespace would change the programs' environment.
        set("enableServiceLinks", json!(false));
        // The first process then belongs to Kubernetes, which reaps processes that an engine leaves behind.
        set("shareProcessNamespace", json!(true));
        set("terminationGracePeriodSeconds", json!(GRACE));
        // A limit on the Job would also count the time in the queue.
        if let Some(limit) = self.time.map(|time| time.0).or(launch.limit) {
            set("activeDeadlineSeconds", json!(seconds(limit)));
        }
        let mut selector = json!(self.node_selector);
        if let Some(node) = launch.node {
            selector["kubernetes.io/hostname"] = json!(node);
        }
        if selector.as_object().is_some_and(|map| !map.is_empty()) {
            set("nodeSelector", selector);
        }
        if !self.tolerations.is_empty() {
            let tolerations: Vec<Json> = self.tolerations.iter().map(toleration).collect();
            set("tolerations", json!(tolerations));
        }
        if self.exclusive {
            let others = json!({
                "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "benchtrail"}},
                "topologyKey": "kubernetes.io/hostname",
            });
            set(
                "affinity",
                json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [others]}}),
            );
        }
        if let Some(priority) = &self.priority {
            set("priorityClassName", json!(priority));
        }
        if let Some(account) = &self.service_account {
            set("serviceAccountName", json!(account));
        }
        if !self.image_pull_secrets.is_empty() {
            let secrets = self.image_pull_secrets.iter();
            let secrets: Vec<Json> = secrets.map(|name| json!({"name": name})).collect();
            set("imagePullSecrets", json!(secrets));
        }
        let (volumes, mounts) = self.mounts();
        if !volumes.is_empty() {
            set("volumes", json!(volumes));
        }
        set("containers", json!([self.container(launch, &mounts)]));
        Json::Object(pod)
    }

    fn container(&self, launch: &Launch<'_>, mounts: &[Json]) -> Json {
        let of_pod = |name: &str, field: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": field}}});
        // Kubernetes would expand `$(NAME)`.
        let words = launch.command.iter();
        let command: Vec<String> = words.map(|word| word.replace("$(", "$$(")).collect();
        let mut container = json!({
            "name": CONTAINER,
            "image": self.image,
            // The digest identifies the image, so a copy on the node is the same image.
            "imagePullPolicy": "IfNotPresent",
            "command": command,
            "env": [
                {"name": variable::JOB, "value": launch.name},
                {"name": variable::IMAGE, "value": self.image},
                of_pod(variable::POD, "metadata.name"),
                of_pod(variable::UID, "metadata.uid"),
                of_pod(variable::NODE, "spec.nodeName"),
            ],
            "terminationMessagePolicy": "FallbackToLogsOnError",
        });
        if !self.secrets.is_empty() {
            let secrets = self.secrets.iter();
            let secrets: Vec<Json> = secrets
                .map(|name| json!({"secretRef": {"name": name}}))
                .collect();
            container["envFrom"] = json!(secrets);
        }
        let requests = self.requests();
        if !requests.is_empty() {
            container["resources"] = json!({"requests": requests, "limits": requests});
        }
        if !mounts.is_empty() {
            container["volumeMounts"] = json!(mounts);
        }
        container
    }

    /// Returns the volumes of the pod and the mounts of its container. A claim is one volume, however often it is mounted.
    fn mounts(&self) -> (Vec<Json>, Vec<Json>) {
        let mut claims: Vec<&str> = Vec::new();
        let (mut volumes, mut mounts) = (Vec::new(), Vec::new());
        if let Some(size) = &self.shared_memory {
            volumes.push(
                json!({"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": size}}),
            );
            mounts.push(json!({"name": "shared-memory", "mountPath": "/dev/shm"}));
        }
        for volume in &self.volumes {
            let position = claims.iter().position(|claim| *claim == volume.claim);
            let at = position.unwrap_or_else(|| {
                claims.push(&volume.claim);
                claims.len() - 1
            });
            let name = format!("claim-{}", at + 1);
            if position.is_none() {
                let claim = json!({"claimName": volume.claim});
                volumes.push(json!({"name": name, "persistentVolumeClaim": claim}));
            }
            let mut mount = json!({"name": name, "mountPath": volume.path});
            if let Some(path) = &volume.sub_path {
                mount["subPath"] = json!(path);
            }
            if volume.read_only {
                mount["readOnly"] = json!(true);
            }
            mounts.push(mount);
        }
        (volumes, mounts)
    }
}

fn toleration(toleration: &Toleration) -> Json {
    let mut written = Map::new();
    if let Some(key) = &toleration.key {
        written.insert("key".to_owned(), json!(key));
    }
    let operator = match &toleration.value {
        Some(value) => {
            written.insert("value".to_owned(), json!(value));
            "Equal"
        }
        None => "Exists",
    };
    written.insert("operator".to_owned(), json!(operator));
    if let Some(effect) = toleration.effect {
        written.insert("effect".to_owned(), json!(effect));
    }
    if let Some(stays) = toleration.stays {
        written.insert("tolerationSeconds".to_owned(), json!(seconds(stays.0)));
    }
    Json::Object(written)
}

/// Returns a span in whole seconds, at least 1, because Kubernetes refuses a limit of 0.
fn seconds(span: Duration) -> u64 {
    span.as_secs() + u64::from(span.subsec_nanos() > 0).max(u64::from(span.is_zero()))
}

/// Returns a number of processors in Kubernetes' notation: whole processors, or thousandths.
pub(super) fn processors(count: f64) -> String {
    let thousandths = (count * 1000.0).round();
    match thousandths % 1000.0 == 0.0 {
        true => format!("{:.0}", thousandths / 1000.0),
        false => format!("{thousandths:.0}m"),
    }
}
