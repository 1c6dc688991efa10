//! The catalogue of published studies: every one plans with the cells that its page says.

use std::thread;

use crate::support::{Outcome, Project};

/// The page, whose table this test holds.
const PAGE: &str = include_str!("../docs/catalogue.md");

/// A row of the page's table: the file, and cells planned and left out of the load stages together.
struct Listed {
    file: String,
    planned: usize,
    left_out: usize,
}

fn listed() -> Vec<Listed> {
    let rows = PAGE.lines().filter(|line| line.starts_with("| S"));
    let studies = rows.map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let file = cells[2].split(['(', ')']).nth(1).expect("a link");
        let count = |i: usize| cells[i].replace(',', "").parse().expect("a count");
        Listed {
            file: file.trim_start_matches("../").to_owned(),
            planned: count(5),
            left_out: count(6),
        }
    });
    studies.collect()
}

/// Returns how many cells of load stages a plan executes, and how many it leaves out. Nothing else of a
/// study is a measurement.
fn loads(plan: &Outcome) -> (usize, usize) {
    let plan = plan.json();
    let stages = plan["stages"].as_array().expect("the stages");
    let loads = stages
        .iter()
        .filter(|stage| stage["class"] == "measurement");
    let counts = loads.map(|stage| {
        let count = |what: &str| stage["counts"][what].as_u64().expect("a count") as usize;
        let planned = ["cached", "run", "after", "blocked"]
            .map(count)
            .iter()
            .sum::<usize>();
        (planned, count("excluded"))
    });
    counts.fold((0, 0), |sums, (planned, left_out)| {
        (sums.0 + planned, sums.1 + left_out)
    })
}

#[test]
fn every_study_of_the_catalogue_plans_with_the_cells_that_the_page_says() {
    let studies = listed();
    assert_eq!(studies.len(), 23, "the page lost a study");
    let project = Project::new();
    let project = &project;
    let check = |study: &Listed| {
        let plan = project.run(["plan", &study.file, "--json"]);
        // 4: this machine lacks an engine, which is what most of them are for.
        assert!(
            matches!(plan.code, Some(0 | 4)),
            "{}: {}",
            study.file,
            plan.stderr
        );
        assert_eq!(
            loads(&plan),
            (study.planned, study.left_out),
            "{}",
            study.file
        );
    };
    for_each(&studies, &check);
}

/// Checks studies two at a time.
fn for_each(studies: &[Listed], check: &(dyn Fn(&Listed) + Sync)) {
    thread::scope(|scope| {
        for half in studies.chunks(studies.len().div_ceil(2)) {
            scope.spawn(move || half.iter().for_each(check));
        }
    });
}

#[test]
fn the_smoke_profile_of_every_study_plans_here_and_its_analysis_holds_on_made_up_rows() {
    let project = Project::new();
    for study in listed() {
        let tried = project
            .run(["run", &study.file, "--smoke", "--dry-run"])
            .ok();
        let said = format!("{}{}", tried.stdout, tried.stderr);
        assert!(said.contains("made-up rows"), "{}: {said}", study.file);
    }
}

#[test]
fn a_study_whose_engine_is_missing_leaves_a_page_with_its_plan_and_no_result() {
    let project = Project::new();
    let file = "experiments/studies/s17-infer-batch-sweep.yaml";
    // The engine needs a GPU's driver; where there is one, it needs a program of the authors.
    let outcome = project.run(["run", file, "--trust", "--quiet"]);
    assert_eq!(outcome.code, Some(4), "{}", outcome.stderr);
    let page = project
        .path()
        .join("reports/s17-infer-batch-sweep/not-run.md");
    let page = std::fs::read_to_string(page).expect("the page");
    for part in [
        "# Not run: Where the memory of 16 GB ends",
        "## What is missing here",
        "is not on the search path",
        "## What the study needs",
        "engine infer research server 0.1.0 (infer)",
        "| sweep | load | pool, model | 4 | 0 |",
    ] {
        assert!(page.contains(part), "{part} is not in\n{page}");
    }
    assert!(
        !project
            .path()
            .join("reports/s17-infer-batch-sweep/report.md")
            .exists()
    );
}
