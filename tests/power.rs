//! `power`: the design of an experiment simulated, before anything is measured.

use crate::support::Project;

/// Five in a hundred, and four standard errors of so many studies.
fn bound(studies: f64) -> f64 {
    studies * 0.05 + 4.0 * (studies * 0.05 * 0.95).sqrt()
}

#[test]
fn the_verdicts_of_every_shipped_experiment_are_rarely_false() {
    let project = Project::new();
    let studies = 100.0;
    let mut simulated = 0;
    for experiment in std::fs::read_dir(project.path().join("experiments")).unwrap() {
        let experiment = experiment.unwrap().path();
        if experiment.extension().is_none_or(|e| e != "yaml") {
            continue;
        }
        let arguments = ["power", "--studies", "100", "--effect", "50", "--json"];
        let file = experiment.to_str().unwrap();
        let outcome = project.run(arguments.into_iter().chain([file]));
        // Most studies that ship compare nothing.
        if outcome.code == Some(5) {
            continue;
        }
        let found = outcome.ok().json();
        for stage in found["stages"].as_array().unwrap() {
            for table in stage["found"]["tables"].as_array().unwrap() {
                simulated += 1;
                assert!(table["refused"].is_null(), "{file}: {table}");
                let at = |i: usize, count: &str| table["at"][i][count].as_f64().unwrap();
                let wrong = at(0, "any_different");
                assert!(wrong <= bound(studies), "{file}: {table}");
                let rows = table["rows"].as_f64().unwrap() * studies;
                assert!(at(1, "rows_found") >= 0.95 * rows, "{file}: {table}");
            }
        }
    }
    // The three of the quickstart, and that of the planted grid.
    assert_eq!(simulated, 4);
}

#[test]
fn a_design_too_small_for_verdicts_says_so_and_a_study_without_comparisons_is_told() {
    let project = Project::new();
    let shown = project
        .run([
            "power",
            "experiments/quickstart.yaml",
            "--smoke",
            "--studies",
            "20",
        ])
        .ok()
        .stdout;
    assert!(
        shown.contains("results.comparison: 1 unit, and at least 3 are needed"),
        "{shown}"
    );
    let outcome = project.run(["power", "experiments/sessions.yaml"]);
    assert_eq!(outcome.code, Some(5));
    assert!(
        outcome
            .stderr
            .contains("sessions has no table of comparisons")
    );
    let outcome = project.run(["power", "experiments/quickstart.yaml", "--noise", "0"]);
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.stderr.contains("--noise cannot be 0"));
}

#[test]
fn more_noise_finds_less_and_the_same_seed_finds_the_same() {
    let project = Project::new();
    let found = |noise: &str| {
        let quick = "experiments/quickstart.yaml";
        let arguments = [
            "power",
            quick,
            "--studies",
            "50",
            "--effect",
            "10",
            "--noise",
            noise,
        ];
        let json = project
            .run(arguments.into_iter().chain(["--json"]))
            .ok()
            .json();
        json["stages"][0]["found"].clone()
    };
    let rows = |found: &serde_json::Value| {
        let tables = found["tables"].as_array().unwrap().iter();
        let of = |table: &serde_json::Value| table["at"][1]["rows_found"].as_u64().unwrap();
        tables.map(of).sum::<u64>()
    };
    let (little, much) = (found("2"), found("20"));
    assert!(rows(&little) > 2 * rows(&much));
    assert_eq!(little, found("2"));
}
