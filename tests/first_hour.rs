//! The first commands of a new user: `init`, `list` and `schema`.

use std::fs;
use std::path::Path;

use crate::support::Project;

fn written(project: &Project, name: &str) -> String {
    fs::read_to_string(project.path().join(format!("{name}.yaml"))).expect("it is written")
}

#[test]
fn every_study_that_init_writes_is_short_and_planned() {
    let many: &[(&str, &[&str])] = &[
        ("plain", &[]),
        ("levels", &["--clients", "1,8,64", "--repetitions", "5"]),
        ("rates", &["--rates", "0.5,2,4"]),
        ("burst", &["--rates", "0.5,2,inf"]),
        ("workloads", &["--workloads", "short-decode,shared-prefix"]),
        ("once", &["--repetitions", "1", "--clients", "1"]),
        (
            "own-model",
            &["--engine", "openai", "--model", "Org/Model: \"one\" #1"],
        ),
    ];
    let project = Project::new();
    for (name, more) in many {
        let arguments = [&["init", name, "--yes"], *more].concat();
        project.run(arguments).ok();
        let text = written(&project, name);
        assert!(text.lines().count() <= 28, "{name}:\n{text}");
        assert!(text.starts_with("# "), "{name} says what it is");
        let plan = project.run(["plan", &format!("{name}.yaml")]).ok().stdout;
        assert!(plan.contains(" to measure\n"), "{plan}");
    }
    assert!(written(&project, "plain").lines().count() <= 25);
    assert!(written(&project, "levels").contains("clients: [1, 8, 64]"));
    assert!(written(&project, "levels").contains("design: {blocks: 5}"));
    // Every client of the highest level has requests to send.
    assert!(written(&project, "levels").contains("requests-per-client: 8"));
    let few = project.run([
        "init",
        "few",
        "--yes",
        "--clients",
        "1,64",
        "--requests",
        "32",
    ]);
    assert_eq!(few.code, Some(2), "{}", few.stderr);
    assert!(
        few.stderr.contains("give `--requests 64` or more"),
        "{}",
        few.stderr
    );
    assert!(written(&project, "rates").contains("poisson: {rate: \"${rate}\"}"));
    assert!(written(&project, "burst").contains("\"0.5\": {arrival: {poisson: {rate: 0.5}}}"));
    assert!(written(&project, "burst").contains("inf: {arrival: burst}"));
}

#[test]
fn init_writes_a_comparison_of_two_engines() {
    let project = Project::new();
    let engines = "llama-cpp,llama-cpp-portable";
    let which = ["init", "which", "--yes", "--engine", engines, "--clients"];
    project.run([&which[..], &["16"]].concat()).ok();
    let text = written(&project, "which");
    assert!(text.lines().count() <= 45, "{text}");
    assert!(
        text.contains("pair: {axis: engine, a: llama-cpp, b: llama-cpp-portable}"),
        "{text}"
    );
    let plan = project.run(["plan", "which.yaml"]).ok().stdout;
    assert!(plan.contains("5 blocks of 2 launches"), "{plan}");
    for (engines, reason) in [
        ("llama-cpp,llama-cpp", "cannot be compared with itself"),
        ("llama-cpp,vllm,sglang", "compares two engines"),
        ("llama-cpp,vlm", "unknown engine `vlm`"),
        ("llama-cpp,", "unknown engine ``"),
    ] {
        let refused = project.run(["init", "none", "--yes", "--engine", engines]);
        assert_eq!(refused.code, Some(2), "{engines}");
        assert!(refused.stderr.contains(reason), "{}", refused.stderr);
    }
}

#[test]
fn a_running_server_without_a_scheme_gets_its_whole_url() {
    let project = Project::new();
    project.run(["init", "mine", "--yes"]).ok();
    let text = written(&project, "mine").replace("engine: llama-cpp", "engine: there");
    let engine =
        "engines:\n  there: {extends: openai, launch: {program: {running: \"10.0.0.5:8000\"}}}\n";
    fs::write(project.path().join("mine.yaml"), text + engine).expect("a file");
    let refused = project.run(["plan", "mine.yaml"]);
    assert!(
        refused
            .stderr
            .contains("URL, such as `http://10.0.0.5:8000`"),
        "{}",
        refused.stderr
    );
}

#[test]
fn init_replaces_no_file_and_refuses_what_is_not_there() {
    let project = Project::new();
    project.run(["init", "mine", "--yes"]).ok();
    fs::write(project.path().join("mine.yaml"), "changed\n").expect("a file");
    let again = project.run(["init", "mine", "--yes"]);
    assert_eq!(again.code, Some(2));
    assert!(
        again.stderr.contains("mine.yaml already exists"),
        "{}",
        again.stderr
    );
    assert_eq!(written(&project, "mine"), "changed\n");
    project.run(["init", "mine", "--yes", "--force"]).ok();
    assert!(written(&project, "mine").contains("experiment: mine"));
    for (arguments, expected) in [
        (["init", "a", "--engine", "vlm"], "did you mean `vllm`?"),
        (
            ["init", "a", "--workloads", "short-decod"],
            "did you mean `short-decode`?",
        ),
        (
            ["init", "1a", "--requests", "4"],
            "a name starts with a letter",
        ),
        (
            ["init", "a", "--from-url", "http://127.0.0.1:1"],
            "start the server",
        ),
        (["init", "a", "--from-load", "nowhere"], "load --out DIR"),
    ] {
        let refused = project.run(arguments);
        assert!(refused.code != Some(0), "{arguments:?}");
        assert!(
            refused.stderr.contains(expected),
            "{arguments:?}: {}",
            refused.stderr
        );
        assert!(!project.path().join("a.yaml").exists());
    }
}

#[test]
fn everything_listed_is_shown_in_full() {
    let project = Project::new();
    fs::create_dir_all(project.path().join("workloads")).expect("a folder");
    let own = "description: Ours.\nextends: short-decode\n";
    fs::write(project.path().join("workloads/ours.yaml"), own).expect("a file");
    let kinds = [
        "engines",
        "models",
        "workloads",
        "gates",
        "operators",
        "templates",
        "apis",
    ];
    for kind in kinds {
        let list = project.run(["list", kind, "--json"]).ok().json();
        let entries = list.as_array().expect("a list");
        assert!(!entries.is_empty(), "{kind}");
        for entry in entries {
            let name = entry["name"].as_str().expect("a name");
            assert!(
                !entry["summary"].as_str().unwrap_or_default().is_empty(),
                "{kind} {name}"
            );
            let full = project.run(["list", kind, name]).ok().stdout;
            assert!(full.trim().len() > 10, "{kind} {name}: {full}");
        }
    }
    let shown = project.run(["list", "workloads"]).ok().stdout;
    assert!(shown.contains("workloads/ours.yaml"), "{shown}");
    let unknown = project.run(["list", "gates", "row-statis"]);
    assert_eq!(unknown.code, Some(5));
    assert!(
        unknown.stderr.contains("did you mean `row-status`?"),
        "{}",
        unknown.stderr
    );
}

/// Returns what an editor would underline, file by file.
fn underlined(project: &Project, files: &[std::path::PathBuf]) -> Vec<String> {
    let schema = project.run(["schema"]).ok().json();
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let mut commands = Vec::new();
    for file in files {
        let text = fs::read_to_string(file).expect("a file");
        let json = pipeline::language::json_of(&text, file).expect("YAML");
        let errors = validator.iter_errors(&json);
        commands.extend(errors.map(|e| format!("{}: {}: {e}", file.display(), e.instance_path())));
    }
    commands
}

#[test]
fn no_shipped_experiment_is_red_in_an_editor() {
    let project = Project::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
    let mut files = Vec::new();
    for folder in [root.clone(), root.join("gpu")] {
        let entries = fs::read_dir(folder)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path());
        files.extend(entries.filter(|path| path.extension().is_some_and(|e| e == "yaml")));
    }
    assert!(files.len() >= 9, "{files:?}");
    project.run(["init", "mine", "--yes"]).ok();
    files.push(project.path().join("mine.yaml"));
    let red = underlined(&project, &files);
    assert!(red.is_empty(), "{}", red.join("\n"));
}

#[test]
fn an_editor_underlines_what_the_program_refuses() {
    let project = Project::new();
    project.run(["init", "mine", "--yes"]).ok();
    let file = project.path().join("mine.yaml");
    let good = fs::read_to_string(&file).expect("it is written");
    for (from, to) in [
        ("requests: 16", "requests: many"),
        ("kind: verify", "kind: verfy"),
        ("clients: [1, 2, 4]", "clients: {from: 1, til: 4}"),
        ("seed: 7", "seed: seven"),
        (
            "axes:",
            "workloads:\n  w: {extends: short-decode, prompt: {}}\naxes:",
        ),
    ] {
        assert!(good.contains(from), "{from}");
        fs::write(&file, good.replacen(from, to, 1)).expect("a file");
        assert!(
            !underlined(&project, std::slice::from_ref(&file)).is_empty(),
            "{to}"
        );
        assert_eq!(project.run(["plan", "mine.yaml"]).code, Some(2), "{to}");
    }
}

#[test]
fn run_with_dry_run_measures_nothing_and_says_what_plan_says() {
    let project = Project::new();
    project.run(["init", "mine", "--yes"]).ok();
    let run = project.run(["run", "mine.yaml", "--dry-run"]).ok();
    let plan = project.run(["plan", "mine.yaml", "--dry-run"]).ok();
    assert_eq!(run.stdout, plan.stdout);
    assert!(run.stdout.contains("dry run:"), "{}", run.stdout);
    assert!(
        !project.path().join("mine.lock").exists(),
        "nothing was measured"
    );
}

/// The rows of the tables on a page: other tools' flags, our flags.
fn flags(page: &str) -> Vec<(String, String)> {
    let rows = page.lines().filter(|line| line.starts_with("| `--"));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        (cells[0].replace('`', ""), cells[1].to_owned())
    })
    .collect()
}

#[test]
fn every_flag_on_the_page_for_users_of_other_tools_is_ours_or_accepted() {
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/coming-from.md"))
            .expect("the page");
    let project = Project::new();
    let help = project.run(["load", "--help"]).ok().stdout;
    let rows = flags(&page);
    assert!(rows.len() >= 20, "{rows:?}");
    for (theirs, ours) in rows {
        if ours == "the same" {
            let mut arguments = vec!["load", "http://127.0.0.1:1"];
            arguments.extend(theirs.split_whitespace());
            let refused = project.run(arguments);
            assert!(
                refused.stderr.contains("cannot connect"),
                "{theirs}: {}",
                refused.stderr
            );
        } else if let Some(flag) = ours.strip_prefix("`--") {
            let flag = flag.split(['`', ' ']).next().unwrap_or_default();
            assert!(
                help.contains(&format!("--{flag}")),
                "{theirs}: `load` has no --{flag}"
            );
        }
    }
}

/// The studies of the tutorials can be planned, both as printed on the page and as its `init` lines write them.
#[test]
fn every_study_of_the_tutorials_can_be_planned() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/tutorials.md"))
        .expect("the page");
    let asked = std::process::Command::new("python3")
        .args(["-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
        .output()
        .expect("python3, which the tests need");
    let python = String::from_utf8_lossy(&asked.stdout).trim().to_owned();
    let project = Project::new();
    let mut planned = 0;
    for block in page.split("```yaml\n").skip(1) {
        let text = block.split("```").next().expect("it ends");
        assert!(text.contains("python: \"3.12\""), "{text}");
        let text = text.replace("python: \"3.12\"", &format!("python: \"{python}\""));
        fs::write(project.path().join("tutorial.yaml"), text).expect("it is written");
        let message = project.run(["plan", "tutorial.yaml"]).ok().stdout;
        assert!(message.contains("5 blocks of 2 launches"), "{message}");
        planned += 1;
    }
    assert_eq!(planned, 1);
    for line in page
        .lines()
        .filter_map(|l| l.trim().strip_prefix("benchtrail init gpu"))
    {
        let arguments: Vec<&str> = ["init", "gpu"]
            .into_iter()
            .chain(line.split_whitespace())
            .collect();
        project.run(arguments).ok();
        let outcome = project.run(["plan", "gpu.yaml"]);
        assert!(
            outcome.stdout.contains("16 cells may execute"),
            "{}",
            outcome.stdout
        );
        // A machine without vLLM reports that and nothing else.
        if outcome.code != Some(0) {
            assert_eq!(outcome.code, Some(4), "{}", outcome.stderr);
            assert_eq!(
                outcome.stderr.matches("error:").count(),
                1,
                "{}",
                outcome.stderr
            );
            assert!(
                outcome.stderr.contains("vLLM is not installed"),
                "{}",
                outcome.stderr
            );
        }
        planned += 1;
    }
    assert_eq!(planned, 2);
}

#[test]
fn a_command_without_its_file_lists_the_files_that_it_could_have() {
    let project = Project::new();
    fs::write(project.path().join("notes.yaml"), "steps: [a]\n").expect("a file");
    fs::write(project.path().join("mine.yaml"), "# x\nexperiment: mine\n").expect("a file");
    let plan = project.run(["plan"]);
    assert_eq!(plan.code, Some(2));
    assert!(
        plan.stderr
            .contains("the experiments here are `mine.yaml`, `experiments/"),
        "{}",
        plan.stderr
    );
    assert!(!plan.stderr.contains("notes.yaml"), "{}", plan.stderr);
    let folder = project.path().join("reports/mine");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("report.md"), "x").expect("a file");
    let why = project.run(["why"]);
    assert!(
        why.stderr
            .contains("the reports here are `reports/mine/report.md`"),
        "{}",
        why.stderr
    );
}
