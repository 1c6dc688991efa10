//! Runs every command in the README's console blocks in the order of the text, and plans its example of an experiment.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{BINARY, Project};

/// Returns the replacement for a command that a test cannot run unchanged, with the reason.
fn stand_in(command: &str) -> Option<String> {
    match command {
        // This test would start itself.
        "cargo test --workspace" => None,
        // The same experiment in its short form, since the long one takes five minutes.
        "cargo run --release -- run experiments/quickstart.yaml" => {
            Some("benchtrail run experiments/quickstart.yaml --smoke".to_owned())
        }
        other => Some(other.to_owned()),
    }
}

fn commands_of(document: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(document);
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{document}: {e}"));
    let mut inside = false;
    let mut commands = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            inside = line == "```console" && !inside;
        } else if inside && let Some(command) = line.strip_prefix("$ ") {
            commands.push(command.to_owned());
        }
    }
    commands
}

#[test]
fn the_experiment_in_the_readme_is_planned_as_it_stands() {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md"))
        .expect("the README");
    let start = readme.find("```yaml\n").expect("an example") + "```yaml\n".len();
    let example = &readme[start..start + readme[start..].find("```").expect("its end")];
    let project = Project::new();
    fs::write(project.path().join("my-study.yaml"), example).expect("the file can be written");
    let plan = project.run(["plan", "my-study.yaml", "--json"]).ok().json();
    // 1 + 3 blocks + 3 × 3 levels + 1 + 1 + 1
    let cells = plan["cells"]
        .as_array()
        .expect("cells")
        .iter()
        .filter(|c| c["status"] != "excluded")
        .count();
    assert_eq!(cells, 16, "{plan}");

    fs::remove_file(project.path().join("my-study.yaml")).expect("it is there");
    project.run(["init", "my-study", "--yes"]).ok();
    let written = fs::read_to_string(project.path().join("my-study.yaml")).expect("it is written");
    assert_eq!(example, written, "the example is what `init` writes");
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the binary must be found on the search path"
)]
fn every_command_of_the_readme_works_in_the_order_given() {
    let commands = commands_of("README.md");
    assert!(
        commands.len() >= 8,
        "the README lost its commands: {commands:?}"
    );
    let project = Project::new();
    let folder = Path::new(BINARY)
        .parent()
        .expect("the binary lies in a folder");
    let path = std::env::join_paths([folder.to_owned()].into_iter().chain(std::env::split_paths(
        &std::env::var_os("PATH").unwrap_or_default(),
    )))
    .expect("a search path");
    for command in commands.iter().filter_map(|c| stand_in(c)) {
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &command])
            .current_dir(project.path())
            .env("PATH", &path)
            .env_remove("BENCHTRAIL_STORE")
            .output()
            .expect("bash starts");
        assert!(
            output.status.success(),
            "$ {command}\n{}\n{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
