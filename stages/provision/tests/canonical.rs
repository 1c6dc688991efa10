//! Which parts of a provision stage enter the key, and which mistakes are reported.

#[path = "../../shared/engines/tests/support/yaml.rs"]
mod yaml;

use std::collections::BTreeMap;
use std::path::Path;

use pipeline::{Json, Library, NoFiles, Options, Registry, StageKind, Step, load_text};
use provision::Provision;
use serde_json::json;

struct Definitions(BTreeMap<(String, String), Json>);

impl Definitions {
    fn shipped() -> Self {
        let all = engines::shipped().into_iter();
        Self(
            all.map(|s| ((s.collection.into(), s.name.into()), yaml::read(s.text)))
                .collect(),
        )
    }

    fn engine(&mut self, name: &str) -> &mut Json {
        self.0.get_mut(&("engines".into(), name.into())).unwrap()
    }
}

impl Library for Definitions {
    fn find(&self, collection: &str, name: &str) -> Option<Json> {
        self.0
            .get(&(collection.to_owned(), name.to_owned()))
            .cloned()
    }

    fn names(&self, collection: &str) -> Vec<String> {
        self.0
            .keys()
            .filter(|(c, _)| c == collection)
            .map(|(_, n)| n.clone())
            .collect()
    }
}

fn settings() -> Json {
    json!({"engine": "llama-cpp", "model": "smollm2-135m-instruct"})
}

fn canonical(library: &Definitions) -> Json {
    Provision.canonical(&settings(), library).unwrap()
}

#[test]
fn names_become_what_they_stand_for_with_every_fallback() {
    let parameters = canonical(&Definitions::shipped());
    let names: Vec<&str> = parameters["engines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["llama-cpp", "llama-cpp-portable"]);
    let pinned = &parameters["model"]["definition"]["weights"]["packaged"]["sha256"];
    assert_eq!(
        pinned,
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
    );
}

#[test]
fn a_help_text_changes_nothing_and_a_flag_or_digest_does() {
    let before = canonical(&Definitions::shipped());
    let mut library = Definitions::shipped();
    library.engine("llama-cpp")["settings"]["threads"]["help"] = json!("other words");
    assert_eq!(canonical(&library), before);
    for change in [
        |e: &mut Json| e["settings"]["threads"]["flags"][0] = json!("--other"),
        |e: &mut Json| e["packages"][0]["files"][0]["sha256"] = json!("0".repeat(64)),
        |e: &mut Json| e["stop"]["grace-s"] = json!(3),
    ] {
        let mut library = Definitions::shipped();
        change(library.engine("llama-cpp"));
        assert_ne!(canonical(&library), before);
    }
}

#[test]
fn an_unknown_name_is_reported_with_the_nearest_one() {
    let settings = json!({"engine": "lama-cpp", "model": "gpt"});
    let problems = Provision
        .canonical(&settings, &Definitions::shipped())
        .unwrap_err();
    assert_eq!(problems[0].message, "unknown engine `lama-cpp`");
    assert_eq!(
        problems[0].hint.as_deref(),
        Some("did you mean `llama-cpp`?")
    );
    assert_eq!(
        problems[1].hint.as_deref(),
        Some(
            "the models are `smollm2-135m-instruct`; define another one under `models:`, or in models/NAME.yaml \
             beside the experiment"
        )
    );
}

#[test]
fn a_wrong_definition_is_reported_with_the_place_inside_it() {
    let mut library = Definitions::shipped();
    library.engine("llama-cpp")["settings"]["threads"]["default"] = json!("many");
    let problems = Provision.canonical(&settings(), &library).unwrap_err();
    assert_eq!(
        problems[0].message,
        "the default of `threads` must be a whole number, got \"many\""
    );
    let of_engine = ("engines".to_owned(), "llama-cpp".to_owned());
    assert_eq!(problems[0].definition, Some(Box::new(of_engine)));
    let route = ["settings", "threads", "default"].map(|key| Step::Key(key.to_owned()));
    assert_eq!(problems[0].route, route);
}

#[test]
fn a_circle_of_fallbacks_is_reported() {
    let mut library = Definitions::shipped();
    library.engine("llama-cpp-portable")["fallback"] = json!("llama-cpp");
    let problems = Provision.canonical(&settings(), &library).unwrap_err();
    assert_eq!(
        problems[0].message,
        "the engine `llama-cpp` is its own fallback"
    );
}

#[test]
fn facets_name_the_engine_this_machine_would_run() {
    let facets = Provision
        .facets(&canonical(&Definitions::shipped()))
        .unwrap();
    assert!(
        facets["engine"].as_str().unwrap().starts_with("llama-cpp"),
        "{facets:?}"
    );
    assert!(facets.contains_key("cpu_model") && !facets.contains_key("load_average"));
}

#[test]
fn an_engine_for_another_platform_falls_back_and_without_fallback_fails_with_reasons() {
    let mut library = Definitions::shipped();
    library.engine("llama-cpp")["requires"]["cpu-flags"] = json!(["no_such_feature"]);
    assert_eq!(
        Provision.facets(&canonical(&library)).unwrap()["engine"],
        "llama-cpp-portable"
    );
    library.engine("llama-cpp-portable")["requires"]["libraries"] =
        json!([{"file": "libnone.so.1", "debian": "libnone1"}]);
    let failure = Provision.facets(&canonical(&library)).unwrap_err();
    assert_eq!(
        failure.reason,
        "no engine can run on this machine: `llama-cpp`: the processor lacks no_such_feature; \
         `llama-cpp-portable`: the system library libnone.so.1 is missing"
    );
    assert_eq!(
        failure.hint.as_deref(),
        Some("on Debian: apt install libnone1")
    );
}

/// The build contains the short form of the instructions of VNNI (`{vex} vpdpbusd`). Zen 4 has AVX-512, but not this form, and
/// the server would end with SIGILL at its first token.
#[test]
fn the_default_engine_needs_every_feature_that_its_build_uses() {
    let mut library = Definitions::shipped();
    let zen_4 = [
        "avx2",
        "avx512f",
        "avx512bw",
        "avx512vl",
        "avx512dq",
        "avx512_bf16",
        "avx512_vnni",
        "avx512ifma",
        "avx512vbmi",
        "avx512_vbmi2",
        "avx512_bitalg",
        "avx512_vpopcntdq",
        "bmi2",
        "f16c",
        "fma",
        "gfni",
        "vaes",
        "vpclmulqdq",
    ];
    let mut lacking = |engine: &str| -> Vec<String> {
        let needs = library.engine(engine)["requires"]["cpu-flags"]
            .as_array()
            .unwrap()
            .clone();
        let names = needs.iter().map(|flag| flag.as_str().unwrap().to_owned());
        names
            .filter(|flag| !zen_4.contains(&flag.as_str()))
            .collect()
    };
    assert_eq!(lacking("llama-cpp"), ["avx_vnni"]);
    assert_eq!(lacking("llama-cpp-portable"), Vec::<String>::new());
}

#[test]
fn the_image_of_a_pod_is_a_parameter_only_of_an_engine_that_comes_from_it() {
    let library = Definitions::shipped();
    let image = |digit: &str| format!("registry.example/engine@sha256:{}", digit.repeat(64));
    let settings_of = |engine: &str, image: &str, environment: Option<Json>| {
        let mut settings = json!({
            "engine": engine, "model": "smollm2-135m-instruct",
            "place": {"kubernetes": {"image": image, "cpu": 4}},
        });
        if let Some(environment) = environment {
            settings["environment"] = environment;
        }
        Provision.canonical(&settings, &library).unwrap()
    };
    for engine in ["vllm", "transformers-generate"] {
        let one = settings_of(engine, &image("1"), None);
        assert_ne!(one, settings_of(engine, &image("2"), None), "{engine}");
        // The name before the digest only says where the image is.
        let mirror = image("1").replace("registry.example", "mirror.example");
        assert_eq!(one, settings_of(engine, &mirror, None), "{engine}");
    }
    let packaged = settings_of("llama-cpp", &image("1"), None);
    assert_eq!(packaged, settings_of("llama-cpp", &image("2"), None));
    assert_eq!(packaged, canonical(&library));
    let venv = json!({"venv": {"python": "3.12", "packages": ["vllm==0.20.2"]}});
    let pinned = settings_of("vllm", &image("1"), Some(venv.clone()));
    assert_eq!(pinned, settings_of("vllm", &image("2"), Some(venv)));
}

#[test]
fn certificates_are_parameters_by_their_bytes_and_not_by_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let digest = |name: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, "-----BEGIN CERTIFICATE-----\n").unwrap();
        let mut library = Definitions::shipped();
        let program = json!({"running": "https://127.0.0.1:1"});
        *library.engine("llama-cpp") = json!({
            "title": "x", "version": "1", "launch": {"program": program, "arguments": [], "ca-file": file},
        });
        canonical(&library)["engines"][0]["definition"]["launch"]["ca-file"].clone()
    };
    assert_eq!(digest("a.pem"), digest("b.pem"));
    assert!(digest("a.pem").as_str().unwrap().starts_with("b3:"));
}

#[test]
fn of_a_server_that_runs_already_only_the_machine_that_loads_it_is_known() {
    let mut library = Definitions::shipped();
    let definition = library.engine("openai").clone();
    *library.engine("llama-cpp") = definition;
    let facets = Provision.facets(&canonical(&library)).unwrap();
    assert!(facets.contains_key("client_cpu_model") && !facets.contains_key("cpu_model"));
    assert!(!facets.contains_key("gpu_count"), "{facets:?}");
    assert_eq!(facets["host"], "not known: the server runs already");
    let here = Provision.facets(&canonical(&Definitions::shipped()));
    assert!(here.is_ok_and(|f| f.contains_key("cpu_model") && !f.contains_key("client_cpu_model")));
}

#[test]
fn the_relative_path_of_a_program_begins_at_the_experiments_folder() {
    let with = |path: &str, more: Json| {
        let mut library = Definitions::shipped();
        library.engine("vllm")["launch"]["program"] = json!({ "installed": path });
        let mut settings = json!({"engine": "vllm", "model": "smollm2-135m-instruct"});
        for (key, value) in more.as_object().unwrap() {
            settings[key] = value.clone();
        }
        Provision.canonical(&settings, &library)
    };
    let program = |path: &str, more: Json| {
        let parameters = with(path, more).unwrap();
        let program = &parameters["engines"][0]["definition"]["launch"]["program"]["installed"];
        program.as_str().unwrap().to_owned()
    };
    let here = std::env::current_dir().unwrap();
    let whole = here.join(".venv/bin/python3");
    assert_eq!(
        program("./.venv/bin/python3", json!({})),
        whole.to_str().unwrap()
    );
    for path in ["python3", "/opt/venv/bin/python3"] {
        assert_eq!(program(path, json!({})), path);
    }
    let image = json!({"environment": {"container": {"image": "vllm/vllm-openai:v0.32.0"}}});
    assert_eq!(program("./server", image), "./server");
    let there = json!({"place": {"ssh": {"host": "gpu-box"}}});
    let problems = with("./server", there).unwrap_err();
    assert!(
        problems[0].message.contains("another machine"),
        "{problems:?}"
    );
}

/// Returns the canonical definition of an engine that an experiment defines, or the mistakes.
fn defined(engine: &str) -> Result<Json, String> {
    let registry = Registry {
        kinds: vec![Box::new(Provision)],
        shipped: engines::shipped(),
        collections: engines::collections(),
    };
    let text = format!(
        "experiment: x\nseed: 1\nengines:\n  mine: {engine}\nstages:\n  a: {{kind: provision, engine: mine, model: \
         smollm2-135m-instruct}}\n"
    );
    let file = Path::new("/study/x.yaml");
    let experiment = load_text(&text, file, &registry, &Options::default(), &NoFiles);
    let experiment = experiment.map_err(|e| e.to_string())?;
    Ok(experiment.stages.raw[0].parameter_sets[0]["engines"][0]["definition"].clone())
}

#[test]
fn an_entry_of_an_extended_definition_is_removed_with_null() {
    let mine = defined("{extends: ollama, probe: {model-digest: null}, settings: {vulkan: null}}")
        .unwrap();
    let names = |key: &str| -> Vec<String> {
        let entries = mine[key].as_object().unwrap();
        entries.keys().cloned().collect()
    };
    assert_eq!(names("probe"), ["version"]);
    assert!(!names("settings").contains(&"vulkan".to_owned()));
    assert!(names("settings").contains(&"num-parallel".to_owned()));
}

#[test]
fn a_running_server_may_extend_every_shipped_engine_and_inherits_nothing_about_its_start() {
    let shipped = engines::shipped().into_iter();
    for engine in shipped.filter(|one| one.collection == "engines") {
        let program = "launch: {program: {running: \"http://127.0.0.1:8000\"}}";
        let text = format!("{{extends: {}, {program}}}", engine.name);
        let mine = defined(&text).unwrap_or_else(|e| panic!("{}: {e}", engine.name));
        assert!(mine.get("settings").is_none(), "{mine}");
        assert_eq!(mine["requires"], json!({}), "{mine}");
    }
    let own =
        "{extends: vllm, launch: {program: {running: \"http://127.0.0.1:8000\"}, arguments: [-x]}}";
    let mistakes = defined(own).unwrap_err();
    assert!(
        mistakes.contains("a running server takes neither arguments nor settings"),
        "{mistakes}"
    );
}
