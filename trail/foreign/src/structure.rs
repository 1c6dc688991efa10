//! Checks what the form of a document promises: cells that are visible, fences that end, references with a target,
//! lists as long as their introduction states.

use std::collections::BTreeSet;

use percent_encoding::percent_decode_str;

use crate::document::{Document, List};
use crate::finding::{Finding, Rule};
use crate::number::unit_named;
use crate::words::{Word, is_note, words};

/// Checks the structure of a document.
pub(crate) fn check(document: &Document) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut broken = |place, quote: &str, message: String, cause: &str| {
        findings.push(Finding::new(
            Rule::Structure,
            place,
            quote,
            message,
            cause.to_owned(),
        ));
    };
    for lost in &document.lost {
        let (own, header) = lost.cells;
        let message = format!("{own} cells under a header of {header}: the rest is not shown");
        let cause = format!("table of line {}", lost.table);
        broken((lost.line, 1), &lost.text, message, &cause);
    }
    if let Some(line) = document.open_fence {
        let message = "no fence closes this code: all that follows is shown as code";
        broken((line, 1), "```", message.to_owned(), "fence");
    }
    fragments(document, &mut findings);
    for list in &document.lists {
        findings.extend(count_of_list(document, list));
    }
    enumerations(document, &mut findings);
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
    let anchors = document.anchors.iter().map(|anchor| squeezed(anchor));
    let mut targets: BTreeSet<String> = anchors.collect();
    for heading in &document.headings {
        let text = heading.text.as_str();
        targets.extend(heading.id.as_deref().map(squeezed));
        // Some renderers drop text in brackets, or the number before a title.
        let bare = text.split(['(', '[']).next().unwrap_or("");
        let title = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        targets.extend([text, bare, title].map(squeezed));
    }
    for (line, column, fragment) in &document.fragments {
        let decoded = squeezed(&percent_decode_str(fragment).decode_utf8_lossy());
        let generated = fragment.contains(['.', ':', '=', '/', '~', '!'])
            || fragment.starts_with("fn")
            || decoded.is_empty()
            || decoded == "top";
        // `#usage-1` is the second heading `Usage`.
        let base = squeezed(fragment.trim_end_matches(|c: char| c.is_ascii_digit()));
        if !generated && !targets.contains(&decoded) && !targets.contains(&base) {
            let message = format!("no heading or anchor is named `{fragment}`");
            let quote = format!("#{fragment}");
            let place = (*line, *column);
            let cause = quote.clone();
            findings.push(Finding::new(Rule::Structure, place, &quote, message, cause));
        }
    }
}

/// Words before a number that make it no count of the things after it.
#[rustfmt::skip]
const VAGUE: &[&str] = &[
    "least", "to", "most", "than", "version", "step", "of", "other", "about", "first", "last", "next", "these",
    "previous", "or", "and", "every", "latest", "recent", "tier", "level", "phase", "stage", "class", "type", "python",
    "roughly", "around", "some", "approximately", "nearly", "almost",
];

/// The number that a word states, in letters or digits.
fn stated(text: &str, word: &Word) -> Option<usize> {
    numerals::count(&word.text).or_else(|| text.get(word.start..word.end)?.parse().ok())
}

/// Whether a word is a plural: it ends in an `s` that its stem lacks.
fn is_plural(text: &str, word: &Word) -> bool {
    text.get(word.start..word.end)
        .is_some_and(|raw| raw.to_lowercase() != word.text)
}

/// The count that a text gives for a plural noun: its place, its value, the noun. `None` if there are several.
fn count(text: &str) -> Option<(usize, usize, usize, String)> {
    let words = words(text);
    let mut count = None;
    for (at, word) in words.iter().enumerate() {
        let Some(value) = stated(text, word).filter(|n| (2..=30).contains(n)) else {
            if text[word.start..word.end].contains(|c: char| c.is_ascii_digit()) {
                return None;
            }
            continue;
        };
        let before = at.checked_sub(1).map_or("", |at| words[at].text.as_str());
        let near = |next: &&Word| {
            let gap = text.get(word.end..next.start);
            gap.is_some_and(|gap| !gap.contains([',', '.', ';', ':', '(']))
        };
        let mut nouns = words[at + 1..].iter().take(3).take_while(near);
        let noun = nouns.find(|next| {
            is_plural(text, next)
                && unit_named(&text[next.start..next.end].to_lowercase()).is_none()
        })?;
        let after = &text[word.end..];
        if count.is_some()
            || VAGUE.contains(&before)
            || text[..word.start].ends_with(['-', '#', '.', '/', '='])
            || after.starts_with(['-', '.', '/', '%']) && !after.starts_with(". ")
        {
            return None;
        }
        count = Some((word.start, noun.end, value, noun.text.clone()));
    }
    count
}

/// Checks `Three runs failed:` before a list of four.
fn count_of_list(document: &Document, list: &List) -> Option<Finding> {
    let prose = document.prose.get(list.intro?)?;
    let &(start, end) = prose.sentences.last()?;
    let sentence = prose.text[start..end].trim_end();
    // `generate four requests as follows:` introduces steps, and not the requests.
    let body = sentence.strip_suffix(':')?;
    let (from, to, value, noun) = count(body).filter(|_| !body.ends_with("as follows"))?;
    // The list may be of something other than the counted noun: the noun must be near the end, or be the only one.
    let single = |at: &Option<usize>| {
        let text = &document.prose[(*at)?].text;
        // An item that begins with a number (`Two of …`) counts for several.
        let several = words(text)
            .first()
            .is_some_and(|word| numerals::count(&word.text).is_some());
        // An item may also name several things (`train.zip, val.zip: …`).
        let name = text.split(':').next().unwrap_or("");
        let several = several || name.len() < text.len() && name.contains([',', '/', '&']);
        (text.len() < 400 && !several && !is_note(text)).then_some(())
    };
    let n = list.items.len();
    // `on a machine with two cores that both shared:` describes the machine.
    let lead = words(&body[..from]);
    let within = lead.last().is_some_and(|word| {
        #[rustfmt::skip]
        let prepositions = ["on", "with", "at", "for", "across", "under", "in", "from", "by", "over", "after", "per", "within", "between"];
        prepositions.contains(&word.text.as_str())
    });
    let behind = words(&body[to..]).len();
    let meant = behind <= 5 && !(within && behind >= 2) && !body.contains([';', '(']);
    if !meant
        || n == value
        || n.abs_diff(value) > 2
        || n < 2
        || !list.items.iter().all(|at| single(at).is_some())
    {
        return None;
    }
    let place = prose.place(start + from);
    let said = &body[from..to];
    let message = format!("{said} announces {value} {noun}s; the list has {n} items");
    let cause = format!("line {}: list", place.0);
    Some(Finding::new(Rule::Total, place, sentence, message, cause))
}

/// Words with which a bracket begins that does not list its noun.
#[rustfmt::skip]
const REMARKS: &[&str] = &["e", "eg", "ie", "etc", "including", "such", "or", "plus", "see", "all"];

/// Checks `Four workloads (chat, code, search)`.
fn enumerations(document: &Document, findings: &mut Vec<Finding>) {
    for prose in &document.prose {
        for (open, _) in prose.text.match_indices(" (") {
            let inner = &prose.text[open + 2..];
            let Some(inner) = inner.find(')').map(|close| &inner[..close]) else {
                continue;
            };
            let items: Vec<&str> = inner
                .split(',')
                .flat_map(|item| item.split(" and "))
                .map(str::trim)
                .filter(|item| !item.is_empty() && *item != "and")
                .collect();
            let simple = |item: &&str| {
                let words = words(item);
                let first = words.first().map(|word| word.text.as_str());
                words.len() <= 2
                    && !item.contains(['…', '=', ':', '/', '&', '+', '#'])
                    && first.is_some_and(|first| !REMARKS.contains(&first))
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
            let announced = (1..=2).find_map(|back| {
                let word = &before[before.len().checked_sub(back + 1)?];
                let value = stated(&prose.text, word)?;
                let noun = prose.text.get(word.end..open)?;
                (!noun.contains([')', '.', ';', ':', ','])).then_some((word.start, value))
            });
            let noun = before
                .last()
                .is_some_and(|word| word.end == open && is_plural(&prose.text, word));
            let counts = |start: usize| {
                let mut numbers = prose.numbers.iter();
                !numbers.any(|n| n.start == start && !n.unit.is_empty())
                    && !prose.text[..start].ends_with(['.', '-', '/', '=', 'v'])
            };
            let n = items.len();
            let Some((start, value)) = announced.filter(|(start, value)| {
                (2..20).contains(value) && *value != n && noun && counts(*start)
            }) else {
                continue;
            };
            let place = prose.place(start);
            let quote = &prose.text[start..open + 3 + inner.len()];
            let message = format!("{value} are announced, {n} are listed");
            let cause = format!("line {}: enumeration", place.0);
            findings.push(Finding::new(Rule::Total, place, quote, message, cause));
        }
    }
}
