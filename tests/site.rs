//! The documentation as a site: every page is in the navigation, and every link leads to an existing file and heading.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Pages of the repository outside `docs`.
const BESIDE: [&str; 5] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the Markdown files below a folder.
fn pages_below(folder: &Path, pages: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            pages_below(&path, pages);
        } else if path.extension().is_some_and(|e| e == "md") {
            pages.push(path);
        }
    }
}

fn pages() -> Vec<PathBuf> {
    let mut pages = Vec::new();
    pages_below(&root().join("docs"), &mut pages);
    pages.sort();
    pages
}

#[test]
fn every_page_is_in_the_navigation_of_the_site() {
    let text = fs::read_to_string(root().join("mkdocs.yml")).expect("the configuration");
    let (_, navigation) = text.split_once("\nnav:\n").expect("the navigation");
    let listed: Vec<&str> = navigation
        .lines()
        .filter_map(|line| line.rsplit_once(": ")?.1.ends_with(".md").then_some(line))
        .filter_map(|line| Some(line.rsplit_once(": ")?.1))
        .collect();
    let named: BTreeSet<&str> = listed.iter().copied().collect();
    assert_eq!(named.len(), listed.len(), "a page is listed twice");
    let docs = root().join("docs");
    let pages = pages();
    let all: BTreeSet<String> = pages
        .iter()
        .map(|page| page.strip_prefix(&docs).expect("below docs"))
        .map(|page| page.display().to_string())
        // The README is the first page.
        .chain(["index.md".to_owned()])
        .collect();
    let all: BTreeSet<&str> = all.iter().map(String::as_str).collect();
    assert_eq!(named, all);
}

/// Returns the text of a page without code.
fn prose(text: &str) -> String {
    let mut inside = false;
    let kept = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        !fence && !inside
    });
    // Text between backticks is not a link.
    kept.map(|line| line.split('`').step_by(2).collect::<String>() + "\n")
        .collect()
}

/// Returns the links of a page that point into the repository.
fn links(text: &str) -> Vec<String> {
    let text = prose(text);
    let after = text.split("](").skip(1);
    let targets = after.filter_map(|rest| Some(rest.split_once(')')?.0.to_owned()));
    targets
        .filter(|target| !target.contains("://") && !target.contains(char::is_whitespace))
        .filter(|target| !target.starts_with("mailto:") && !target.is_empty())
        .collect()
}

/// Returns the anchors that a page's headings generate.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut inside = false;
    let headings = text.lines().filter(|line| {
        inside ^= line.starts_with("```");
        !inside && line.starts_with('#')
    });
    let anchor = |line: &str| -> String {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        // For a link, the text counts.
        let title = title.split("](").enumerate().map(|(i, part)| match i {
            0 => part,
            _ => part.split_once(')').map_or("", |(_, rest)| rest),
        });
        let title: String = title.collect();
        let kept = |c: &char| c.is_alphanumeric() || "-_ ".contains(*c);
        title
            .chars()
            .filter(kept)
            .collect::<String>()
            .replace(' ', "-")
    };
    headings.map(anchor).collect()
}

#[test]
fn every_link_of_a_page_leads_to_a_file_and_a_heading() {
    let beside = BESIDE.iter().map(|page| root().join(page));
    let (mut checked, mut wrong) = (0, Vec::new());
    for page in pages().into_iter().chain(beside) {
        let text = fs::read_to_string(&page).expect("a page");
        let folder = page.parent().expect("a folder");
        for link in links(&text) {
            let (file, anchor) = match link.split_once('#') {
                Some((file, anchor)) => (file, Some(anchor)),
                None => (link.as_str(), None),
            };
            let target = match file {
                "" => page.clone(),
                file => folder.join(file),
            };
            checked += 1;
            let exists = target.exists();
            let heading =
                match anchor.filter(|_| exists && target.extension().is_some_and(|e| e == "md")) {
                    Some(anchor) => {
                        anchors(&fs::read_to_string(&target).expect("a page")).contains(anchor)
                    }
                    None => true,
                };
            if !exists || !heading {
                wrong.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(checked > 200, "{checked}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
