//! The binary plans the shipped experiments and the examples of `docs/experiments.md`, and its output is compared with
//! the output on the page.
//!
//! A YAML example that begins with `experiment:` is a whole file. Any other is merged into the first whole one: under
//! each key (in a section of named things, under each name), its text replaces the existing one, and an axis that no
//! longer occurs in any stage's `over` is removed. An example after `<!-- file: PATH -->` is written to that path. An
//! example after `<!-- wrong -->` must be refused with exactly the text that follows. A shell example is a command and
//! its standard output.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{BINARY, Outcome};

const PAGE: &str = "docs/experiments.md";

/// A fenced block.
#[derive(Debug)]
struct Block {
    /// The language of the fence.
    language: String,
    /// The comment on the line above, if it is for this test.
    mark: String,
    /// The line of the page on which the text begins.
    line: usize,
    text: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut mark = String::new();
    let mut inside = false;
    for (i, line) in page.lines().enumerate() {
        if inside && line == "```" {
            inside = false;
        } else if inside {
            let block = blocks.last_mut().expect("a block was opened");
            block.text.push_str(line);
            block.text.push('\n');
        } else if let Some(language) = line.strip_prefix("```") {
            inside = true;
            let mark = std::mem::take(&mut mark);
            blocks.push(Block {
                language: language.to_owned(),
                mark,
                line: i + 2,
                text: String::new(),
            });
        } else {
            let comment = line
                .strip_prefix("<!-- ")
                .and_then(|l| l.strip_suffix(" -->"));
            mark = comment.unwrap_or_default().to_owned();
        }
    }
    blocks
}

/// An empty project.
struct Shelf(tempfile::TempDir);

impl Shelf {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(folder.path().join(".benchtrail")).expect("a folder can be made");
        Self(folder)
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().expect("a file lies in a folder"))
            .expect("a folder can be made");
        fs::write(path, text).expect("a file can be written");
    }

    fn run(&self, arguments: &[&str]) -> Outcome {
        let mut command = Command::new(BINARY);
        command
            .current_dir(self.0.path())
            .args(arguments)
            .stdin(Stdio::null());
        // Definitions of the user who runs the tests must not interfere.
        command
            .env_remove("BENCHTRAIL_STORE")
            .env("XDG_CONFIG_HOME", self.0.path().join("nobody"));
        command.output().expect("the binary starts").into()
    }
}

/// Splits block-style YAML at the keys of one depth; text before the first key is dropped.
fn entries(text: &str, depth: usize) -> Vec<(String, String)> {
    let mut entries: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let key = line
            .split_once(':')
            .filter(|_| indent == depth && !line.trim_start().starts_with(['#', '-']));
        if let Some((key, _)) = key {
            entries.push((key.trim().to_owned(), String::new()));
        }
        if let Some((_, body)) = entries.last_mut() {
            body.push_str(line);
            body.push('\n');
        }
    }
    entries
}

fn put_over(below: &[(String, String)], above: &[(String, String)], depth: usize) -> String {
    let mut merged = below.to_vec();
    for (key, text) in above {
        let Some((_, old)) = merged.iter_mut().find(|(k, _)| k == key) else {
            merged.push((key.clone(), text.clone()));
            continue;
        };
        let names = |text: &str| entries(text, 2);
        *old = if depth == 0 && !names(text).is_empty() && !names(old).is_empty() {
            format!("{key}:\n{}", put_over(&names(old), &names(text), 2))
        } else {
            text.clone()
        };
    }
    merged.into_iter().map(|(_, text)| text).collect()
}

fn page() -> Vec<Block> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    blocks(&fs::read_to_string(&path).unwrap_or_else(|e| panic!("{PAGE}: {e}")))
}

fn is_whole(block: &Block) -> bool {
    block.language == "yaml" && block.text.starts_with("experiment:")
}

/// Returns the first whole example.
fn base(blocks: &[Block]) -> &str {
    &blocks
        .iter()
        .find(|b| is_whole(b) && b.mark.is_empty())
        .expect("the page has a whole example")
        .text
}

fn experiment(block: &Block, base: &str) -> String {
    if is_whole(block) {
        block.text.clone()
    } else {
        without_unused_axes(&put_over(&entries(base, 0), &entries(&block.text, 0), 0))
    }
}

/// Removes the axes of a text that no `over` in it names.
fn without_unused_axes(text: &str) -> String {
    let lists = text.lines().filter_map(|line| line.split_once("over: ["));
    let used: Vec<&str> = lists
        .filter_map(|(_, rest)| rest.split_once(']'))
        .flat_map(|(list, _)| list.split(',').map(str::trim))
        .collect();
    let kept = |(key, section): (String, String)| {
        if key != "axes" {
            return section;
        }
        let axes = entries(&section, 2).into_iter();
        let axes = axes.filter(|(name, _)| used.contains(&name.as_str()));
        let axes: String = axes.map(|(_, axis)| axis).collect();
        format!("axes:\n{axes}")
    };
    entries(text, 0).into_iter().map(kept).collect()
}

#[test]
fn every_example_of_the_language_is_planned() {
    let blocks = page();
    let shelf = Shelf::new();
    let mut planned = 0;
    for block in blocks
        .iter()
        .filter(|b| b.language == "yaml" && b.mark != "wrong")
    {
        if let Some(path) = block.mark.strip_prefix("file: ") {
            shelf.put(path, &block.text);
            continue;
        }
        let text = experiment(block, base(&blocks));
        shelf.put("experiments/example.yaml", &text);
        let outcome = shelf.run(&["plan", "experiments/example.yaml", "--json"]);
        assert_eq!(
            outcome.code,
            Some(0),
            "{PAGE}:{}\n{}\n{text}",
            block.line,
            outcome.stderr
        );
        let plan = outcome.json();
        assert!(
            plan["cells"].as_array().is_some_and(|c| !c.is_empty()),
            "{PAGE}:{}: {plan}",
            block.line
        );
        planned += 1;
    }
    assert!(planned >= 8, "the page lost its examples: {planned}");
}

#[test]
fn the_binary_prints_what_the_language_page_says_it_prints() {
    let blocks = page();
    let (mut wrong, mut commands) = (0, 0);
    for pair in blocks.windows(2).filter(|pair| pair[0].mark == "wrong") {
        let [block, said] = pair else {
            unreachable!("windows of two")
        };
        assert_eq!(
            said.language, "text",
            "{PAGE}:{}: the error must follow",
            block.line
        );
        let shelf = Shelf::new();
        shelf.put("experiments/wrong.yaml", &experiment(block, base(&blocks)));
        let outcome = shelf.run(&["plan", "experiments/wrong.yaml"]);
        assert_eq!(
            outcome.code,
            Some(2),
            "{PAGE}:{}\n{}",
            block.line,
            outcome.stdout
        );
        compare(&outcome.stderr, &said.text, said.line);
        wrong += 1;
    }
    for block in blocks.iter().filter(|b| b.language == "console") {
        let (command, said) = block
            .text
            .split_once('\n')
            .expect("a command and what it prints");
        let words = command
            .strip_prefix("$ benchtrail ")
            .unwrap_or_else(|| panic!("{PAGE}:{}", block.line));
        let shelf = Shelf::new();
        shelf.put("experiments/ladder.yaml", base(&blocks));
        let outcome = shelf
            .run(&words.split_whitespace().collect::<Vec<_>>())
            .ok();
        compare(&outcome.stdout, said, block.line + 1);
        commands += 1;
    }
    assert!(
        wrong >= 3 && commands >= 1,
        "the page lost its errors ({wrong}) or commands ({commands})"
    );
}

#[test]
fn every_shipped_experiment_is_planned_whole_and_as_a_smoke_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
    let shelf = Shelf::new();
    // Files that an experiment imports are named from the working directory.
    for entry in fs::read_dir(folder.join("imported")).expect("the imported files") {
        let path = entry.expect("a readable entry").path();
        let name = path.file_name().and_then(|n| n.to_str()).expect("a name");
        shelf.put(
            &format!("experiments/imported/{name}"),
            &fs::read_to_string(&path).expect("text"),
        );
    }
    let mut planned = 0;
    for entry in fs::read_dir(&folder).expect("experiments are shipped") {
        let path = entry.expect("a readable entry").path();
        if path.extension().is_none_or(|e| e != "yaml") {
            continue;
        }
        let path = path.to_str().expect("a path of text");
        let count = |arguments: &[&str]| {
            let all = [&["plan", path, "--store", "store", "--json"], arguments].concat();
            shelf.run(&all).ok().json()["cells"]
                .as_array()
                .map_or(0, Vec::len)
        };
        let (whole, smoke) = (count(&[]), count(&["--smoke"]));
        assert!(
            0 < smoke && smoke < whole,
            "{path}: {whole} cells, {smoke} in a smoke run"
        );
        planned += 1;
    }
    assert!(planned >= 2, "experiments were lost: {planned}");
}

/// Compares output with the page; `BLESS=1` writes the output to the page instead.
#[expect(
    clippy::disallowed_methods,
    reason = "a developer sets it to have the page written"
)]
fn compare(printed: &str, said: &str, line: usize) {
    let printed = format!("{}\n", printed.trim_end());
    if std::env::var_os("BLESS").is_some() && printed != said {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
        let text = fs::read_to_string(&path).expect("the page is there");
        fs::write(&path, text.replacen(said, &printed, 1)).expect("the page can be written");
        return;
    }
    assert_eq!(printed, said, "{PAGE}:{line}; BLESS=1 accepts the new text");
}

/// The shipped reports, each with its archive beside it.
const REPORTS: [&str; 10] = [
    "docs/first-report",
    "docs/gpu-study/two-engines",
    "docs/gpu-study/prefix-cache",
    "docs/gpu-study/tensor-parallel",
    "docs/gpu-study/disaggregation",
    "docs/gpu-study/lmdeploy",
    "docs/gpu-study/direct",
    "docs/gpu-study/llama-server",
    "docs/gpu-study/turbomind",
    "docs/planted-grid",
];

/// The numbers with a decimal point or a multiplication sign in the tables of a report, each with its line.
fn numbers(report: &str) -> Vec<(usize, &str)> {
    let decimal = |cell: &&str| {
        let digits = cell.trim_end_matches('×');
        digits.contains('.') && digits.parse::<f64>().is_ok()
    };
    let rows = report
        .lines()
        .enumerate()
        .filter(|(_, line)| line.starts_with('|'));
    rows.filter_map(|(i, line)| Some((i + 1, line.split('|').map(str::trim).find(decimal)?)))
        .collect()
}

#[test]
fn a_number_of_every_report_that_ships_leads_to_its_rows_where_there_is_no_store() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for folder in REPORTS {
        let clone = tempfile::tempdir().expect("a folder");
        crate::support::copy_folder(&root.join(folder), clone.path());
        let report = clone.path().join("report.md");
        let text = fs::read_to_string(&report).expect("a report");
        let numbers = numbers(&text);
        assert!(numbers.len() > 20, "{folder}");
        let (line, number) = numbers[numbers.len() / 2];
        let why = Command::new(BINARY)
            .arg("why")
            .arg(format!("{}:{line}", report.display()))
            .arg(number)
            .current_dir(clone.path())
            .output()
            .expect("the binary starts");
        let said = String::from_utf8_lossy(&why.stdout);
        assert!(
            why.status.success(),
            "{folder}:{line} {number}: {said}{why:?}"
        );
        assert!(
            said.contains("requests"),
            "{folder}:{line} {number}: {said}"
        );
    }
}

#[test]
fn the_pages_show_what_why_prints_for_the_report_that_ships() {
    for page in ["README.md", "docs/why.md"] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text = fs::read_to_string(root.join(page)).expect("a page");
        let (_, from) = text
            .split_once("```text\n$ benchtrail why docs/first-report/")
            .unwrap_or_else(|| panic!("{page} lost its example"));
        let (place, rest) = from.split_once('\n').expect("a command and what it prints");
        let (said, _) = rest.split_once("```").expect("the end of the example");
        let why = Command::new(BINARY)
            .args(["why", &format!("docs/first-report/{place}")])
            .current_dir(root)
            .env_remove("BENCHTRAIL_STORE")
            .output()
            .expect("the binary starts");
        let printed = String::from_utf8_lossy(&why.stdout);
        // The page leaves out lines where it has an ellipsis.
        let mut lines = printed.lines();
        let shown = |line: &&str| !line.trim_matches([' ', '│']).eq("…");
        for line in said.lines().filter(shown) {
            assert!(
                lines.any(|printed| printed == line),
                "{page}: `{line}` is not next in\n{printed}"
            );
        }
    }
}
