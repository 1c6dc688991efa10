//! Golden manifests, and each mistake with its place.

use std::path::Path;
use std::time::Duration;

use pipeline::settings::DurationText;
use pipeline::{Json, Problem, Step};
use serde_json::json;

use super::{Kubernetes, Launch, volume_of};

const DIGEST: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

fn image() -> String {
    format!("registry.example/engine@{DIGEST}")
}

/// Reads settings as an experiment states them.
fn settings(more: &Json) -> Kubernetes {
    let mut all = json!({"image": image()});
    for (key, value) in more.as_object().expect("settings") {
        all[key] = value.clone();
    }
    serde_json::from_value(all).expect("settings")
}

fn manifest(settings: &Kubernetes, node: Option<&str>, limit: Option<Duration>) -> Json {
    let command = ["benchtrail", "__shard", "s3://lab/store", "r1", "0001"].map(str::to_owned);
    settings.manifest(&Launch {
        name: "benchtrail-r1-0001",
        run: "r1",
        shard: "0001",
        experiment: "a-study",
        node,
        limit,
        command: &command,
    })
}

fn golden(text: &str) -> Json {
    serde_json::from_str(text).expect("a golden file")
}

#[track_caller]
fn same(json: &Json, text: &str) {
    let pretty = serde_json::to_string_pretty(json).expect("it serializes");
    assert_eq!(json, &golden(text), "{pretty}");
}

#[test]
fn the_least_that_a_study_can_ask_for_is_a_job_that_starts_one_pod_once() {
    let manifest = manifest(&settings(&json!({})), None, None);
    same(&manifest, include_str!("golden/least.json"));
}

#[test]
fn everything_that_a_study_can_ask_for_is_in_the_manifest() {
    let all = settings(&json!({
        "context": "lab", "namespace": "bench",
        "cpu": 8.5, "memory": "64Gi", "gpus": 2, "resources": {"rdma/hca": 1}, "ephemeral-storage": "100Gi",
        "shared-memory": "16Gi",
        "volumes": [
            {"claim": "shared", "path": "/shared"},
            {"claim": "weights", "path": "/models", "read-only": true},
            {"claim": "shared", "path": "/cache", "sub-path": "engines"},
        ],
        "secrets": ["bucket", "hub-token"], "image-pull-secrets": ["registry"],
        "service-account": "bench", "service-account-token": true,
        "node-selector": {"nvidia.com/gpu.product": "H100"}, "nodes": ["gpu-1", "gpu-2"],
        "tolerations": [
            {"key": "nvidia.com/gpu", "effect": "NoSchedule"},
            {"key": "team", "value": "bench"},
            {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "for": "30 s"},
        ],
        "priority": "high", "exclusive": false, "folder": "/cache/benchtrail", "at-once": 2,
        "time": "90 min", "ttl-after-finished": "1.5 s",
    }));
    assert_eq!(all.check(), Vec::new());
    assert_eq!(
        all.kubectl(),
        ["kubectl", "--context=lab", "--namespace=bench"]
    );
    let manifest = manifest(&all, all.node(3), Some(Duration::from_secs(60)));
    same(&manifest, include_str!("golden/everything.json"));
}

#[test]
fn a_limit_is_that_of_the_study_or_else_that_of_its_cells_in_whole_seconds() {
    let limit = |settings: &Kubernetes, of_cells: Option<u64>| {
        let of_cells = of_cells.map(Duration::from_millis);
        manifest(settings, None, of_cells)["spec"]["template"]["spec"]["activeDeadlineSeconds"]
            .clone()
    };
    let plain = settings(&json!({}));
    assert_eq!(limit(&plain, None), Json::Null);
    assert_eq!(limit(&plain, Some(61_500)), json!(62));
    let own = Kubernetes {
        time: DurationText::parse("2 min").ok(),
        ..plain
    };
    assert_eq!(limit(&own, Some(61_500)), json!(120));
}

/// Returns each mistake with its place.
fn problems(more: &Json) -> Vec<(String, Problem)> {
    let route = |problem: &Problem| {
        let steps = problem.route.iter();
        let steps = steps.map(|step| match step {
            Step::Key(key) => key.clone(),
            Step::Index(i) => i.to_string(),
        });
        steps.collect::<Vec<_>>().join(" ")
    };
    let problems = settings(more).check().into_iter();
    problems.map(|problem| (route(&problem), problem)).collect()
}

#[track_caller]
fn one(more: &Json, at: &str, says: &str) -> String {
    let messages = problems(more);
    let [(route, problem)] = messages.as_slice() else {
        panic!("expected one mistake of {more}, got {messages:?}");
    };
    assert_eq!(route, at, "{problem:?}");
    assert!(problem.message.contains(says), "{}", problem.message);
    problem.hint.clone().expect("every mistake has a remedy")
}

#[test]
fn an_image_without_a_digest_is_a_mistake_that_says_how_to_find_it() {
    let hint = one(
        &json!({"image": "registry.example:5000/team/engine:1.2"}),
        "kubernetes image",
        "has no digest",
    );
    assert!(
        hint.contains("`registry.example:5000/team/engine@sha256:DIGEST`"),
        "{hint}"
    );
    assert!(
        hint.contains("crane digest registry.example:5000/team/engine:1.2"),
        "{hint}"
    );
    for bad in [
        "engine@sha256:abc",
        "engine@sha512:aa",
        &format!("engine@{}", DIGEST.to_uppercase()),
    ] {
        one(
            &json!({"image": bad}),
            "kubernetes image",
            "is not the digest",
        );
    }
    for bad in ["", "-x", "a b@sha256:00", "$(x)", "@sha256:00"] {
        one(
            &json!({"image": bad}),
            "kubernetes image",
            "is not the name of an image",
        );
    }
    let with_tag = format!("engine:1@{DIGEST}");
    assert_eq!(
        problems(&json!({"image": with_tag})),
        Vec::new(),
        "a tag beside a digest says what it is"
    );
}

#[test]
fn names_and_labels_are_those_that_kubernetes_accepts() {
    for (more, at, says) in [
        (
            json!({"context": ""}),
            "kubernetes context",
            "name of a context",
        ),
        (
            json!({"namespace": "Lab"}),
            "kubernetes namespace",
            "name of a namespace",
        ),
        (
            json!({"namespace": "a.b"}),
            "kubernetes namespace",
            "name of a namespace",
        ),
        (
            json!({"service-account": "-x"}),
            "kubernetes service-account",
            "a service account",
        ),
        (
            json!({"priority": "very high"}),
            "kubernetes priority",
            "a PriorityClass",
        ),
        (
            json!({"secrets": ["good", "AWS_KEY"]}),
            "kubernetes secrets 1",
            "a Secret",
        ),
        (
            json!({"image-pull-secrets": ["a/b"]}),
            "kubernetes image-pull-secrets 0",
            "a Secret",
        ),
        (
            json!({"nodes": ["gpu-[1-3]"]}),
            "kubernetes nodes 0",
            "a node",
        ),
        (
            json!({"node-selector": {"a b": "c"}}),
            "kubernetes node-selector a b",
            "key of a label",
        ),
        (
            json!({"node-selector": {"gpu": "a b"}}),
            "kubernetes node-selector gpu",
            "value of a label",
        ),
        (
            json!({"nodes": ["a"], "node-selector": {"kubernetes.io/hostname": "b"}}),
            "kubernetes node-selector kubernetes.io/hostname",
            "`nodes` selects by",
        ),
        (
            json!({"tolerations": [{"key": "a/b/c"}]}),
            "kubernetes tolerations 0 key",
            "key of a taint",
        ),
        (
            json!({"tolerations": [{}, {"value": "x"}]}),
            "kubernetes tolerations 1 value",
            "needs the key",
        ),
        (
            json!({"cost-per-hour": 2.0}),
            "kubernetes cost-per-hour",
            "needs `budget`",
        ),
    ] {
        one(&more, at, says);
    }
}

#[test]
fn amounts_are_those_that_kubernetes_accepts() {
    for good in ["64Gi", "1.5G", "512Mi", "1000000", "1Ti"] {
        assert_eq!(problems(&json!({"memory": good})), Vec::new(), "{good}");
    }
    for bad in [
        "", "64 Gi", "-1Gi", "0", "lots", "1e3", "5m", "Gi", "1.2.3Gi",
    ] {
        one(
            &json!({"memory": bad}),
            "kubernetes memory",
            "is not a quantity",
        );
    }
    let hint = one(
        &json!({"shared-memory": "16GB"}),
        "kubernetes shared-memory",
        "is not a quantity",
    );
    assert!(hint.contains("`16G`, or `16Gi`"), "{hint}");
    let hint = one(
        &json!({"ephemeral-storage": "16GiB"}),
        "kubernetes ephemeral-storage",
        "quantity",
    );
    assert!(hint.contains("`16Gi`"), "{hint}");
    for (usual, ours) in [
        ("2 GiB", "write `2Gi`"),
        ("1.5 TiB", "write `1.5Ti`"),
        ("2g", "write `2G`, or `2Gi` for powers of 1,024"),
        ("512 mb", "write `512M`, or `512Mi` for powers of 1,024"),
        ("64 kB", "write `64k`, or `64Ki` for powers of 1,024"),
        ("3 bytes", "a number and a unit"),
        ("-1 GiB", "a number and a unit"),
    ] {
        let hint = one(&json!({"memory": usual}), "kubernetes memory", "quantity");
        assert!(hint.contains(ours), "{usual}: {hint}");
    }
    for bad in [0.0, -1.0, 1e9] {
        one(
            &json!({"cpu": bad}),
            "kubernetes cpu",
            "number of processors",
        );
    }
    for (more, says) in [
        (json!({"nvidia.com/gpu": 1}), "has its own key"),
        (json!({"gpu": 1}), "cannot be the name of a resource"),
        (json!({"amd.com/gpu": 0}), "at least 1"),
    ] {
        let name = more
            .as_object()
            .and_then(|map| map.keys().next())
            .expect("a name");
        one(
            &json!({"resources": more}),
            &format!("kubernetes resources {name}"),
            says,
        );
    }
}

#[test]
fn mounts_are_folders_of_their_own_and_what_is_kept_is_on_one() {
    let volume = |path: &str| json!({"claim": "shared", "path": path});
    for bad in ["data", "/", "/a/../b", "/a//b", "/a:b"] {
        one(
            &json!({"volumes": [volume(bad)]}),
            "kubernetes volumes 0 path",
            "absolute path",
        );
    }
    for bad in ["/proc", "/dev/x", "/sys/fs"] {
        one(
            &json!({"volumes": [volume(bad)]}),
            "kubernetes volumes 0 path",
            "belongs to the system",
        );
    }
    let twice = json!({"volumes": [volume("/a"), volume("/a")]});
    one(
        &twice,
        "kubernetes volumes 1 path",
        "two volumes have the path",
    );
    let shared = json!({"volumes": [volume("/dev/shm")], "shared-memory": "1Gi"});
    one(
        &shared,
        "kubernetes volumes 0 path",
        "is mounted at /dev/shm",
    );
    let up = json!({"volumes": [{"claim": "a", "path": "/a", "sub-path": "../b"}]});
    one(&up, "kubernetes volumes 0 sub-path", "relative path");
    one(
        &json!({"volumes": [volume("/a")], "folder": "/b"}),
        "kubernetes folder",
        "is not on a volume",
    );
    one(
        &json!({"folder": "b"}),
        "kubernetes folder",
        "absolute path",
    );
    let read_only =
        json!({"volumes": [{"claim": "a", "path": "/a", "read-only": true}], "folder": "/a/b"});
    one(&read_only, "kubernetes folder", "is read-only");
    let nested = settings(&json!({"volumes": [volume("/a"), {"claim": "inner", "path": "/a/b"}]}));
    let claim =
        |folder: &str| volume_of(&nested.volumes, Path::new(folder)).map(|v| v.claim.as_str());
    assert_eq!(
        claim("/a/b/c"),
        Some("inner"),
        "the innermost mount holds it"
    );
    assert_eq!(claim("/a/bc"), Some("shared"));
    assert_eq!(claim("/ab"), None);
}

#[test]
fn only_a_taint_that_evicts_is_tolerated_for_a_while() {
    let toleration = |effect: Option<super::TaintEffect>| super::Toleration {
        key: Some("node.kubernetes.io/not-ready".to_owned()),
        effect,
        stays: DurationText::parse("30 s").ok(),
        ..super::Toleration::default()
    };
    let check = |effect| {
        let with = Kubernetes {
            tolerations: vec![toleration(effect)],
            ..settings(&json!({}))
        };
        with.check().len()
    };
    assert_eq!(check(Some(super::TaintEffect::NoExecute)), 0);
    assert_eq!(check(Some(super::TaintEffect::NoSchedule)), 1);
    assert_eq!(check(None), 1);
}
