//! The catalogue of published studies: each can be planned, with the number of cells that its page states.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;

use crate::support::{Outcome, Project};

/// The page whose table this test checks.
const PAGE: &str = include_str!("../docs/catalogue.md");

/// A row of the page's table: the file, and the total numbers of planned and skipped cells of the load stages.
struct Listed {
    file: String,
    planned: usize,
    left_out: usize,
}

fn listed() -> Vec<Listed> {
    let is_study = |line: &&str| line.starts_with("| S") && line.contains("](../experiments/");
    let rows = PAGE.lines().filter(is_study);
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

/// Returns the numbers of load cells that a plan executes and skips. Only these are measurements.
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
        // Code 4 means that this machine lacks an engine, which most of these studies need.
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

#[test]
fn the_plan_of_a_study_that_cannot_run_here_says_what_it_measures() {
    let project = Project::new();
    let plan = project.run(["plan", "experiments/studies/s04-v3-grid.yaml"]);
    let wanted = "\nto measure: 189000 requests in 1800 cells\n";
    assert!(plan.stdout.contains(wanted), "{}", plan.stdout);
}

/// Checks the studies, two at a time.
fn for_each(studies: &[Listed], check: &(dyn Fn(&Listed) + Sync)) {
    thread::scope(|scope| {
        for half in studies.chunks(studies.len().div_ceil(2)) {
            scope.spawn(move || half.iter().for_each(check));
        }
    });
}

/// Returns the declarations of a study's report, including those of the files that it extends, one line each.
fn declared(file: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(file).expect("a study");
    let own = text.lines().filter_map(|line| {
        let line = line.strip_prefix("      ")?;
        let (name, rest) = line.split_once(": {")?;
        let table = rest.starts_with("from: ") && rest.contains("caption: ");
        let figure = rest.starts_with("kind: ") && rest.contains("title: ");
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        (is_name && (table || figure)).then(|| name.to_owned())
    });
    let mut all: BTreeSet<String> = own.collect();
    if let Some(below) = text.lines().find_map(|l| l.strip_prefix("extends: ")) {
        all.extend(declared(&file.with_file_name("").join(below)));
    }
    all
}

/// Returns the names in code type in the last column of each study's list, by study number.
fn rendered_according_to_the_page() -> Vec<(String, BTreeSet<String>)> {
    let sections = PAGE.split("\n### ").skip(1);
    let lists = sections.map(|section| {
        let section = section.split("\n## ").next().expect("a section");
        let study = section.split(' ').next().expect("a heading").to_owned();
        let rows = section.lines().filter(|line| line.starts_with("| "));
        let last = rows.filter_map(|row| row.trim_end_matches(" |").rsplit_once(" | "));
        let names = last.flat_map(|(_, names)| names.split('`').skip(1).step_by(2));
        // Drops the gates that replace a table, and the word for the source of the rest.
        let names = names.filter(|name| !["digests", "extends"].contains(name));
        (study, names.map(str::to_owned).collect())
    });
    lists.collect()
}

#[test]
fn the_page_lists_every_table_and_figure_of_every_study_and_no_other() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let lists = rendered_according_to_the_page();
    assert_eq!(lists.len(), 23, "the page lost a study");
    for (study, mut listed) in lists {
        let row = PAGE
            .lines()
            .find(|l| l.starts_with(&format!("| {study} |")));
        let row = row.unwrap_or_else(|| panic!("{study} is not in the table"));
        let file = row.split(['(', ')']).nth(1).expect("a link");
        let declared = declared(&root.join("docs").join(file));
        if study == "S5" {
            // S5 renders the same as S4.
            let grid = rendered_according_to_the_page();
            let grid = grid.into_iter().find(|(study, _)| study == "S4");
            listed.extend(grid.expect("S4 is listed").1);
        }
        assert!(declared.len() > 1, "{study} declares {declared:?}");
        assert_eq!(
            listed, declared,
            "{study}: what the page lists, and what the file declares"
        );
    }
}

#[test]
fn the_smoke_profile_of_every_study_plans_here_and_its_analysis_holds_on_made_up_rows() {
    let project = Project::new();
    for study in listed() {
        let tried = project
            .run(["run", &study.file, "--smoke", "--dry-run"])
            .ok();
        let said = format!("{}{}", tried.stdout, tried.stderr);
        assert!(said.contains("synthetic rows"), "{}: {said}", study.file);
    }
}

#[test]
fn a_study_whose_engine_is_missing_leaves_a_page_with_its_plan_and_no_result() {
    let project = Project::new();
    let file = "experiments/studies/s17-infer-batch-sweep.yaml";
    // The engine needs a GPU driver and, where that exists, a program of the authors.
    let outcome = project.run(["run", file, "--trust", "--quiet"]);
    assert_eq!(outcome.code, Some(4), "{}", outcome.stderr);
    let page = project
        .path()
        .join("reports/s17-infer-batch-sweep/not-run.md");
    let page = fs::read_to_string(page).expect("the page");
    for part in [
        "# Not run: Where the memory of 16 GB ends",
        "## What is missing here",
        "is not on the search path",
        "## What the study needs",
        "engine infer research server 0.1.0 (infer)",
        "| sweep | load | pool, model | 4 | 0 |",
        "\nTo measure: 192 requests in 4 cells.\n",
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

#[test]
fn the_questions_beyond_the_published_studies_are_on_the_page_and_are_answered() {
    let project = Project::new();
    let folder = "experiments/questions";
    let entries = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder));
    let paths = entries
        .expect("the folder")
        .map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|e| e == "yaml"))
        .collect();
    files.sort();
    assert!(files.len() >= 4, "{files:?}");
    for path in &files {
        let name = path.file_name().and_then(|n| n.to_str()).expect("a name");
        let file = format!("{folder}/{name}");
        let row = format!("](../{file}) |");
        assert!(PAGE.contains(&row), "{file} is not in a table of the page");
        let text = fs::read_to_string(path).expect("a study");
        // A study of a real engine would take minutes.
        let dry: &[&str] = match text.contains("kind: serve") {
            true => &["--dry-run"],
            false => &[],
        };
        let outcome = project.run([&["run", &file, "--smoke"], dry].concat()).ok();
        let said = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(!said.contains("gate degenerate (fail)"), "{file}: {said}");
    }
    // Each cloud has its own price, and the cost has the interval of the throughput.
    let query = "select count(*) as n, count(cost_per_million_tokens_low) as bounded, \
                 count(distinct price_per_hour) as prices, count(distinct price_date) as days from \"results.cost\"";
    let file = format!("{folder}/price-of-a-million-tokens.yaml");
    let csv = project
        .run(["sql", &file, "--smoke", "--csv", query])
        .ok()
        .stdout;
    assert_eq!(csv.lines().last(), Some("6,6,3,2"), "{csv}");
}

#[test]
fn queries_of_the_catalogue_count_a_request_once_however_often_it_was_tried() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments/studies");
    let files = fs::read_dir(folder).expect("a folder").flatten();
    let studies = files.filter(|file| file.path().extension().is_some_and(|e| e == "yaml"));
    for study in studies {
        let text = fs::read_to_string(study.path()).expect("a study");
        for line in text.lines().filter(|l| l.contains("phase = 'measured'")) {
            let once = line.contains("not superseded") || line.contains("status = 'ok'");
            assert!(once, "{}: {line}", study.path().display());
        }
    }
}
