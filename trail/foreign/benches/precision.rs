//! Precision and recall on reports whose cases were found by hand. They are not ours to publish:
//! `cargo bench -p foreign --bench precision -- DIR` reads them (`000_*.txt`, `004_*.txt`) from a folder. Errors planted in
//! reports of our own, and alterations of right ones, are distinguished by the tests.

#![expect(clippy::print_stdout, reason = "says what it measured")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use foreign::audit;

/// Cases listed by hand in the two documents: 36 and 27.
const CASES: usize = 63;

/// Every finding, judged by hand against the report: report, line, rule, verdict, the listed case it is (or `-`).
const VERDICTS: &str = include_str!("verdicts.tsv");

fn main() {
    let Some(folder) = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'))
    else {
        println!("name a folder of reports: cargo bench -p foreign --bench precision -- DIR");
        return;
    };
    let verdicts: Vec<Vec<&str>> = VERDICTS
        .lines()
        .skip(1)
        .map(|line| line.split('\t').collect())
        .collect();
    let (mut right, mut all, mut cases, mut unjudged) = (0, 0, BTreeSet::new(), Vec::new());
    let mut paths: Vec<_> = fs::read_dir(Path::new(&folder))
        .expect("the folder")
        .flatten()
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    for path in paths {
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let Some(report) = name
            .split('_')
            .next()
            .filter(|id| verdicts.iter().any(|v| v[0] == *id))
        else {
            continue;
        };
        let text = fs::read_to_string(&path).expect("a text");
        for finding in audit(&name, &text, &[], Vec::new()).findings {
            let (line, rule) = (finding.line.to_string(), finding.rule.id());
            match verdicts
                .iter()
                .find(|v| v[0] == report && v[1] == line && v[2] == rule)
            {
                Some(verdict) => {
                    all += 1;
                    right += usize::from(verdict[3] == "true");
                    if verdict[3] == "true" && verdict[4] != "-" {
                        cases.insert(verdict[4].to_owned());
                    }
                }
                None => unjudged.push(format!("{name}:{line} {rule}: {}", finding.message)),
            }
        }
    }
    println!(
        "precision {right} of {all}, recall {} of {CASES} cases",
        cases.len()
    );
    assert!(
        unjudged.is_empty(),
        "judge these by hand and add them to verdicts.tsv:\n{}",
        unjudged.join("\n")
    );
    assert!(all > 0, "no known report in the folder");
    assert!(right * 100 >= all * 95, "precision {right} of {all}");
    assert!(cases.len() >= 38, "recall {} of {CASES}", cases.len());
}
