//! R-REF, R-HASH: references to sections, digests.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use crate::finding::{Confidence, Evidence, Finding};
use crate::rules::Rule;
use crate::rules::scope::{Scope, clip, in_prose};
use crate::text::{Prose, Report};

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    numbering(scope.report, found);
    dangling(scope.report, found);
    captions(scope.report, found);
    digests(scope, found);
}

/// A subsection whose number does not begin with that of its chapter.
fn numbering(report: &Report, found: &mut Vec<Finding>) {
    let mut chapter: Option<(&str, usize)> = None;
    let mut last: Option<Finding> = None;
    for heading in &report.headings {
        let mut parts = heading.number.split('.');
        let first = parts.next().unwrap_or("");
        if first.is_empty() {
            continue;
        }
        if parts.next().is_none() {
            chapter = Some((first, heading.line));
            found.extend(last.take());
        } else if let Some((chapter, line)) = chapter.filter(|chapter| chapter.0 != first) {
            let evidence = Evidence::new(format!("line {}", heading.line), clip(&heading.text));
            match &mut last {
                Some(finding) => finding.evidence.push(evidence),
                None => {
                    last = Some(Finding {
                        rule: Rule::Ref,
                        confidence: Confidence::High,
                        line: heading.line,
                        column: 1,
                        quote: clip(&heading.text),
                        message: format!("section {} is in chapter {chapter}", heading.number),
                        evidence: vec![
                            Evidence::new(format!("line {line}"), format!("chapter {chapter}")),
                            evidence,
                        ],
                    });
                }
            }
        }
    }
    found.extend(last);
}

static REFERENCE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?P<kind>§|SS|Section |Sections |Table |Tab\. |Figure |Fig\. )(?P<n>[0-9]{1,3}(?:\.[0-9]{1,2})*)\b",
    )
    .expect("a regex")
});
static LABEL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"\b(?P<kind>SS|Section |Table |Tab\. |Figure |Fig\. )(?P<n>[0-9]{1,3}(?:\.[0-9]{1,2})*)\b ?[.:—–|]",
    )
    .expect("a regex")
});

/// `§23`, `SS17`, `Table 4` where the report has no such part.
fn dangling(report: &Report, found: &mut Vec<Finding>) {
    let numbers: BTreeSet<&str> = report
        .headings
        .iter()
        .map(|heading| heading.number.as_str())
        .filter(|n| !n.is_empty())
        .collect();
    let mut labels: BTreeSet<(char, &str)> = BTreeSet::new();
    for heading in &report.headings {
        for captures in LABEL.captures_iter(&heading.text) {
            labels.extend(label(&captures));
        }
    }
    for prose in &report.prose {
        for captures in LABEL
            .captures_iter(&prose.text)
            .filter(|c| c.get(0).is_some_and(|m| m.start() < 4))
        {
            labels.extend(label(&captures));
        }
    }
    // Chapters that only their own subsections bear witness of exist.
    let chapters: BTreeSet<&str> = numbers
        .iter()
        .filter_map(|number| number.split('.').next())
        .collect();
    for prose in &report.prose {
        for captures in REFERENCE.captures_iter(&prose.text) {
            let (Some(kind), Some(number), Some(whole)) =
                (captures.name("kind"), captures.name("n"), captures.get(0))
            else {
                continue;
            };
            if elsewhere(prose, whole.start()) || whole.start() < 3 {
                continue;
            }
            let letter = kind.as_str().chars().next().unwrap_or(' ');
            let n = number.as_str();
            let exists = match letter {
                '§' => numbers.len() < 3 || numbers.contains(n) || chapters.contains(n),
                'S' if kind.as_str() == "SS" => {
                    !labels.iter().any(|l| l.0 == 's') || labels.contains(&('s', n))
                }
                'S' => {
                    numbers.len() < 3
                        || numbers.contains(n)
                        || chapters.contains(n)
                        || labels.contains(&('S', n))
                }
                // Captions often stay in images or are lost: only where most numbers up to it have one.
                other => {
                    labels.iter().filter(|l| l.0 == other).count() < 2
                        || labels.contains(&(other, n))
                }
            };
            if !exists {
                let message = format!("the report has no {}{n}", kind.as_str());
                let start = whole.start();
                let confidence = if matches!(letter, '§' | 'S') {
                    Confidence::High
                } else {
                    Confidence::Medium
                };
                found.push(in_prose(
                    prose,
                    (start, around(&prose.text, whole.end())),
                    (Rule::Ref, confidence),
                    message,
                    Vec::new(),
                ));
            }
        }
    }
}

fn label<'a>(captures: &regex::Captures<'a>) -> Option<(char, &'a str)> {
    let kind = captures.name("kind")?.as_str();
    let letter = if kind == "SS" {
        's'
    } else {
        kind.chars().next()?
    };
    Some((letter, captures.name("n")?.as_str()))
}

/// Whether the reference is to another document: its name is before it, or `of [12]` behind it.
fn elsewhere(prose: &Prose, start: usize) -> bool {
    let mut sentence = prose
        .sentence(start)
        .map_or(0, |s| s.0)
        .max(start.saturating_sub(400));
    while !prose.text.is_char_boundary(sentence) {
        sentence += 1;
    }
    // Up to the last bracket or semicolon: `(FILE.md SS4 and SS14; this §3)`.
    let before = &prose.text[sentence..start];
    let clause = before.rfind([';', '(']).map_or(before, |at| &before[at..]);
    clause
        .split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | ','))
        .any(|word| {
            let word = word.trim_end_matches([':', ',', '.']);
            let stem = word.trim_end_matches(char::is_numeric);
            word.contains('_') && word.chars().filter(|c| c.is_uppercase()).count() > 1
                || word.ends_with(".md")
                || word.ends_with(".pdf")
                || word.starts_with('[') && word.ends_with(']')
                || (stem.len() >= 2
                    && stem.len() < word.len()
                    && stem.chars().all(char::is_uppercase)
                    && stem != "SS"
                    && stem != "N")
                || matches!(
                    word,
                    "RFC" | "spec" | "specification" | "paper" | "arXiv" | "their"
                )
        })
}

fn around(text: &str, end: usize) -> usize {
    let rest = &text[end..];
    end + rest.char_indices().nth(40).map_or(rest.len(), |(at, _)| at)
}

static CAPTION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(?P<kind>Table|Figure) (?P<n>[0-9]{1,3})(?:[.:]| [—–|])").expect("a regex")
});

/// Captions are numbered one after the other.
fn captions(report: &Report, found: &mut Vec<Finding>) {
    for kind in ["Table", "Figure"] {
        let all: Vec<(&Prose, u32)> = report
            .prose
            .iter()
            .filter_map(|prose| {
                let captures = CAPTION.captures(&prose.text)?;
                (captures.name("kind")?.as_str() == kind).then_some(())?;
                Some((prose, captures.name("n")?.as_str().parse().ok()?))
            })
            .collect();
        for (at, (prose, number)) in all.iter().enumerate() {
            // The neighbours agree with each other and not with this one.
            let before = at.checked_sub(1).map(|at| all[at].1 + 1);
            let after = all.get(at + 1).and_then(|next| next.1.checked_sub(1));
            let expected = match (before, after) {
                (Some(before), Some(after)) if before == after => before,
                (Some(before), None) if at >= 3 && all[at - 1].1 == all[at - 2].1 + 1 => before,
                _ => continue,
            };
            if expected != *number {
                let message = format!("{kind} {number} is where {kind} {expected} should be");
                let end = around(&prose.text, 0);
                found.push(in_prose(
                    prose,
                    (0, end),
                    (Rule::Ref, Confidence::Medium),
                    message,
                    Vec::new(),
                ));
            }
        }
    }
}

static DIGEST: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b(?P<d>[0-9a-f]{6,16})(?:…|\.\.\.)").expect("a regex"));

/// A digest cut short: nobody can verify it.
fn digests(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    let report = scope.report;
    let mixed = |text: &str| {
        text.bytes().any(|b| b.is_ascii_digit()) && text.bytes().any(|b| b.is_ascii_alphabetic())
    };
    let mut first: Option<Finding> = None;
    for prose in &report.prose {
        let talks = ["md5", "sha", "hash", "digest", "checksum", "blake"]
            .iter()
            .any(|word| prose.text.to_lowercase().contains(word));
        for captures in DIGEST.captures_iter(&prose.text) {
            let Some(digest) = captures.name("d").filter(|d| talks && mixed(d.as_str())) else {
                continue;
            };
            let (line, _) = prose.place(digest.start());
            let evidence = Evidence::new(format!("line {line}"), format!("{}…", digest.as_str()));
            match &mut first {
                Some(finding) => finding.evidence.push(evidence),
                None => {
                    let message =
                        "a digest cut short cannot be verified: publish it in full".to_owned();
                    first = Some(in_prose(
                        prose,
                        (digest.start(), digest.end()),
                        (Rule::Hash, Confidence::Medium),
                        message,
                        vec![evidence],
                    ));
                }
            }
        }
    }
    found.extend(first);
}
