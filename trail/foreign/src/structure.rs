//! Checks what the form of a document promises: cells that are visible, fences that end, references with a target,
//! lists as long as their introduction states.

use std::collections::BTreeSet;

use crate::document::{Document, List, Prose};
use crate::finding::{Evidence, Finding, Rule};
use crate::number::quantities;
use crate::words::{normal, number_word, words};

/// Checks the structure of a document.
pub(crate) fn check(document: &Document) -> Vec<Finding> {
    let mut findings = Vec::new();
    for lost in &document.lost {
        findings.push(Finding {
            rule: Rule::Structure,
            line: lost.line,
            column: 1,
            quote: lost.text.clone(),
            message: format!(
                "{} cells under a header of {}: the rest is not shown",
                lost.cells.0, lost.cells.1
            ),
            cause: format!("table of line {}", lost.table),
            evidence: Vec::new(),
        });
    }
    if let Some(line) = document.open_fence {
        findings.push(Finding {
            rule: Rule::Structure,
            line,
            column: 1,
            quote: "```".to_owned(),
            message: "no fence closes this code: all that follows is shown as code".to_owned(),
            cause: "fence".to_owned(),
            evidence: Vec::new(),
        });
    }
    fragments(document, &mut findings);
    for list in &document.lists {
        counts(document, list, &mut findings);
    }
    enumerations(document, &mut findings);
    disjoint(document, &mut findings);
    contents(document, &mut findings);
    findings
}

/// Reduces a text to letters and digits, since renderers differ in the rest.
fn squeezed(text: &str) -> String {
    text.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

/// Checks links to headings for a missing target.
fn fragments(document: &Document, findings: &mut Vec<Finding>) {
    if document.headings.len() < 2 {
        return;
    }
    let mut targets: BTreeSet<String> = document
        .anchors
        .iter()
        .map(|anchor| squeezed(anchor))
        .collect();
    for heading in &document.headings {
        targets.insert(squeezed(&heading.text));
        targets.extend(heading.id.as_deref().map(squeezed));
        // Some renderers drop text in brackets, or the number before a title.
        targets.insert(squeezed(
            heading.text.split(['(', '[']).next().unwrap_or(""),
        ));
        targets.insert(squeezed(
            heading
                .text
                .trim_start_matches(|c: char| c.is_ascii_digit() || c == '.'),
        ));
    }
    for (line, column, fragment) in &document.fragments {
        let decoded = squeezed(&percent_decoded(fragment));
        let generated = fragment.contains(['.', ':', '=', '/', '~', '!'])
            || fragment.starts_with("fn")
            || decoded.is_empty()
            || decoded == "top";
        // `#usage-1` is the second heading `Usage`.
        let base = squeezed(fragment.trim_end_matches(|c: char| c.is_ascii_digit()));
        if !generated && !targets.contains(&decoded) && !targets.contains(&base) {
            findings.push(Finding {
                rule: Rule::Structure,
                line: *line,
                column: *column,
                quote: format!("#{fragment}"),
                message: format!("no heading or anchor is named `{fragment}`"),
                cause: format!("#{fragment}"),
                evidence: Vec::new(),
            });
        }
    }
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let hex = tail
            .get(..2)
            .and_then(|two| std::str::from_utf8(two).ok())
            .and_then(|two| u8::from_str_radix(two, 16).ok());
        if let (b'%', Some(byte)) = (first, hex) {
            bytes.push(byte);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The count that a text gives for a plural noun: its place, its value, the noun. `None` if there are several.
fn count(text: &str) -> Option<(usize, usize, usize, String)> {
    let words = words(text);
    let mut count = None;
    for (at, word) in words.iter().enumerate() {
        let raw = text.get(word.start..word.end)?;
        let value = number_word(&word.text).or_else(|| raw.parse().ok());
        let Some(value) = value.filter(|n| (2..=30).contains(n)) else {
            if raw.chars().any(|c| c.is_ascii_digit()) {
                return None;
            }
            continue;
        };
        if count.is_some() {
            return None;
        }
        let before = at.checked_sub(1).map_or("", |at| words[at].text.as_str());
        let vague = [
            "least",
            "to",
            "most",
            "than",
            "version",
            "step",
            "of",
            "other",
            "about",
            "first",
            "last",
            "next",
            "these",
            "previous",
            "or",
            "and",
            "every",
            "python",
            "roughly",
            "around",
            "some",
            "approximately",
            "nearly",
            "almost",
        ]
        .contains(&before);
        // The noun ends in a plural `s` that `stem` removed, within three words.
        let noun = words[at + 1..]
            .iter()
            .take(3)
            .take_while(|next| {
                text.get(word.end..next.start)
                    .is_some_and(|gap| !gap.contains([',', '.', ';', ':', '(']))
            })
            .find(|next| {
                let raw = text.get(next.start..next.end).unwrap_or("").to_lowercase();
                raw != next.text && !is_unit(&raw)
            });
        if vague
            || noun.is_none()
            || text[..word.start].ends_with(['-', '#', '.', '/', '='])
            || text[word.end..].starts_with(['-', '.', '/', '%'])
                && !text[word.end..].starts_with(". ")
        {
            return None;
        }
        count = noun.map(|noun| (word.start, noun.end, value, noun.text.clone()));
    }
    count
}

/// Checks `Three runs failed:` before a list of four.
fn counts(document: &Document, list: &List, findings: &mut Vec<Finding>) {
    let Some(prose) = list.intro.and_then(|at| document.prose.get(at)) else {
        return;
    };
    let Some(&(start, end)) = prose.sentences.last() else {
        return;
    };
    let sentence = prose.text[start..end].trim_end();
    let Some(body) = sentence.strip_suffix(':') else {
        return;
    };
    // `generate four requests as follows:` introduces steps, and not the requests.
    if body.trim_end().ends_with("as follows") {
        return;
    }
    let Some((from, to, value, noun)) = count(body) else {
        return;
    };
    // The list may be of something other than the counted noun: the noun must be near the end, or be the only one.
    let named = list
        .items
        .iter()
        .flatten()
        .filter(|at| {
            let text = &document.prose[**at].text;
            // An item that begins with a number (`Two of …`) counts for several.
            let several = words(text)
                .first()
                .is_some_and(|word| number_word(&word.text).is_some());
            // An item may also name several things (`train.zip, val.zip: …`).
            let name = text.split(':').next().unwrap_or("");
            let several = several || name.len() < text.len() && name.contains([',', '/', '&']);
            text.len() < 400 && !several
        })
        .count();
    if words(&body[to..]).len() > 5
        || list.items.len() == value
        || list.items.len().abs_diff(value) > 2
        || named != list.items.len()
        || list.items.len() < 2
        || body.contains([';', '('])
    {
        return;
    }
    let (line, column) = prose.place(start + from);
    findings.push(Finding {
        rule: Rule::Total,
        line,
        column,
        quote: sentence.to_owned(),
        message: format!(
            "{} announces {value} {noun}s; the list has {} items",
            &body[from..to],
            list.items.len()
        ),
        cause: format!("line {line}: list"),
        evidence: Vec::new(),
    });
}

/// Checks `Four workloads (chat, code, search)`.
fn enumerations(document: &Document, findings: &mut Vec<Finding>) {
    for prose in &document.prose {
        for (open, _) in prose.text.match_indices(" (") {
            let inner = &prose.text[open + 2..];
            let Some(close) = inner.find(')') else {
                continue;
            };
            let inner = &inner[..close];
            let items: Vec<&str> = inner
                .split(',')
                .flat_map(|item| item.split(" and "))
                .map(str::trim)
                .filter(|item| !item.is_empty() && *item != "and")
                .collect();
            let simple = |item: &&str| {
                words(item).len() <= 2
                    && !item.contains(['…', '=', ':', '/', '&', '+', '#'])
                    && words(item).first().is_some_and(|word| {
                        ![
                            "e",
                            "eg",
                            "ie",
                            "etc",
                            "including",
                            "such",
                            "or",
                            "plus",
                            "see",
                            "all",
                        ]
                        .contains(&word.text.as_str())
                    })
            };
            if items.len() < 3
                || !inner.contains(',')
                || !items.iter().all(simple)
                || inner.contains("..")
                || inner.contains(" or ")
            {
                continue;
            }
            // `Four workloads (`: the count directly precedes its noun, and the noun directly precedes the bracket.
            let before = words(&prose.text[..open]);
            let said = (1..=2).find_map(|back| {
                let at = before.len().checked_sub(back + 1)?;
                let raw = prose.text.get(before[at].start..before[at].end)?;
                let value = number_word(&before[at].text).or_else(|| raw.parse().ok())?;
                let noun = prose.text.get(before[at].end..open)?;
                (!noun.contains([')', '.', ';', ':', ','])).then_some((before[at].start, value))
            });
            let noun = before.last().map(|word| {
                prose.text[word.start..word.end].to_lowercase() != word.text && word.end == open
            });
            let Some((start, value)) = said.filter(|(start, value)| {
                *value >= 2
                    && *value < 20
                    && noun == Some(true)
                    && !prose
                        .numbers
                        .iter()
                        .any(|n| n.start == *start && !n.unit.is_empty())
                    && !prose.text[..*start].ends_with(['.', '-', '/', '=', 'v'])
            }) else {
                continue;
            };
            if value != items.len() {
                let (line, column) = prose.place(start);
                findings.push(Finding {
                    rule: Rule::Total,
                    line,
                    column,
                    quote: prose.text[start..=open + 2 + close].to_owned(),
                    message: format!("{value} are announced, {} are listed", items.len()),
                    cause: format!("line {line}: enumeration"),
                    evidence: Vec::new(),
                });
            }
        }
    }
}

/// States that exclude each other.
const OPPOSITES: &[(&str, &str)] = &[
    ("complete", "lost"),
    ("complete", "incomplete"),
    ("complete", "missing"),
    ("passed", "failed"),
    ("passing", "failing"),
    ("included", "excluded"),
    ("supported", "unsupported"),
    ("enabled", "disabled"),
    ("present", "missing"),
    ("kept", "removed"),
    ("finished", "unfinished"),
    ("valid", "invalid"),
    ("succeeded", "failed"),
    ("successful", "failed"),
    ("kept", "dropped"),
];

/// Finds members of two lists whose introductions exclude each other.
fn disjoint(document: &Document, findings: &mut Vec<Finding>) {
    let intro = |list: &List| -> Option<Vec<String>> {
        let prose = document.prose.get(list.intro?)?;
        let words: Vec<String> = words(&prose.text)
            .into_iter()
            .map(|word| word.text)
            .collect();
        (words.len() <= 4 && prose.text.trim_end().ends_with(':')).then_some(words)
    };
    let lists: Vec<(&List, Vec<String>)> = document
        .lists
        .iter()
        .filter_map(|list| Some((list, intro(list)?)))
        .collect();
    for pair in lists.windows(2) {
        let [(first, one), (second, other)] = pair else {
            continue;
        };
        let has = |words: &[String], word: &str| words.iter().any(|w| w == word);
        let rest = |words: &[String]| words.iter().skip(1).cloned().collect::<Vec<_>>();
        if rest(one) != rest(other)
            || !OPPOSITES
                .iter()
                .any(|(a, b)| has(one, a) && has(other, b) || has(one, b) && has(other, a))
        {
            continue;
        }
        let text = |at: &Option<usize>| at.and_then(|at| document.prose.get(at));
        for item in second.items.iter().filter_map(text) {
            if let Some(twin) = first
                .items
                .iter()
                .filter_map(text)
                .find(|twin| normal(&twin.text) == normal(&item.text))
            {
                let (line, column) = item.place(0);
                findings.push(Finding {
                    rule: Rule::Restated,
                    line,
                    column,
                    quote: item.text.clone(),
                    message: format!("listed as {} and as {}", one.join(" "), other.join(" ")),
                    cause: format!("line {line}: lists"),
                    evidence: vec![Evidence::new(
                        format!("line {}", twin.place(0).0),
                        twin.text.clone(),
                    )],
                });
            }
        }
    }
}

/// Finds entries of the table of contents without a heading.
fn contents(document: &Document, findings: &mut Vec<Finding>) {
    let unnumbered = |text: &str| {
        normal(text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.' || c == ' '))
    };
    let titles: BTreeSet<String> = document
        .headings
        .iter()
        .map(|heading| unnumbered(&heading.text))
        .collect();
    for list in &document.lists {
        let items: Vec<&Prose> = list
            .items
            .iter()
            .flatten()
            .filter_map(|at| document.prose.get(*at))
            .collect();
        let Some(first) = items.first() else { continue };
        let heading = normal(document.heading_of(first.section));
        if !matches!(heading.as_str(), "content" | "table of content")
            || items.iter().any(|item| item.linked)
        {
            continue;
        }
        let lacking: Vec<&&Prose> = items
            .iter()
            .filter(|item| !titles.contains(&unnumbered(&item.text)))
            .collect();
        if lacking.len() * 2 >= items.len() {
            continue;
        }
        for item in lacking {
            let (line, column) = item.place(0);
            findings.push(Finding {
                rule: Rule::Structure,
                line,
                column,
                quote: item.text.clone(),
                message: format!("the contents name `{}`; no heading does", item.text),
                cause: "contents".to_owned(),
                evidence: Vec::new(),
            });
        }
    }
}

/// Whether a word is a unit, so that a number before it is not a count.
pub(crate) fn is_unit(word: &str) -> bool {
    quantities(&format!("1 {word}"))
        .first()
        .is_some_and(|number| !number.unit.is_empty())
}
