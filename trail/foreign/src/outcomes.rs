//! Lists of outcomes: `Total`, `Succeeded`, `Failed` and their rate, one in each item.

use crate::document::{Document, List, Prose};
use crate::finding::{Evidence, Finding, Rule};
use crate::number::{Quantity, misprints, shown};
use crate::words::words;

/// What an item counts.
#[derive(Clone, Copy, PartialEq)]
enum Outcome {
    Total,
    Good,
    Bad,
    /// The share of the good (`true`) or of the bad.
    Rate(bool),
}

/// An item `NAME: NUMBER`.
struct Item<'a> {
    prose: &'a Prose,
    outcome: Outcome,
    number: &'a Quantity,
    /// The other words of its name, such as `requests`.
    nouns: Vec<String>,
}

#[rustfmt::skip]
const GOOD: &[&str] = &["succeeded", "successful", "success", "successe", "passed", "completed", "ok"];
#[rustfmt::skip]
const BAD: &[&str] = &["failed", "failure", "failing"];
const ALL: &[&str] = &["total", "sent", "all"];
const RATE: &[&str] = &["rate", "ratio", "share"];

/// Checks the lists of a document.
pub(crate) fn check(document: &Document) -> Vec<Finding> {
    let mut findings = Vec::new();
    for list in &document.lists {
        if let Some(items) = read(document, list) {
            findings.extend(judge(&items));
        }
    }
    findings
}

/// The outcomes of a list; `None` if it counts anything else, which may be a further outcome.
fn read<'a>(document: &'a Document, list: &List) -> Option<Vec<Item<'a>>> {
    let mut items: Vec<Item<'a>> = Vec::new();
    for at in &list.items {
        let prose = document.prose.get((*at)?)?;
        let (name, value) = prose.text.split_once(':')?;
        let spoken = words(name);
        let has = |list: &[&str]| spoken.iter().any(|word| list.contains(&word.text.as_str()));
        let [number] = prose.numbers.as_slice() else {
            continue;
        };
        // A remark behind the number may name what else counts.
        let plain = prose
            .text
            .get(number.end..)?
            .trim_matches(['.', ' '])
            .is_empty();
        let rate = number.is_percent();
        let outcome = match (has(ALL), has(GOOD), has(BAD)) {
            (true, false, false) if number.is_count() => Outcome::Total,
            (false, true, false) if number.is_count() => Outcome::Good,
            (false, false, true) if number.is_count() => Outcome::Bad,
            (false, true, false) if rate => Outcome::Rate(true),
            (false, false, true) if rate => Outcome::Rate(false),
            _ if number.is_count() => return None,
            _ => continue,
        };
        let role = |word: &str| [ALL, GOOD, BAD].iter().any(|list| list.contains(&word));
        let nouns = spoken.iter().map(|word| word.text.clone());
        let mut nouns: Vec<String> = nouns.filter(|word| !role(word)).collect();
        if rate {
            nouns.retain(|word| !RATE.contains(&word.as_str()));
            // `SLO success rate`
            if !nouns.is_empty() {
                continue;
            }
        }
        let again = items.iter().any(|item| item.outcome == outcome);
        if again || !plain || value.len() > 40 || spoken.len() > 3 {
            return None;
        }
        items.push(Item {
            prose,
            outcome,
            number,
            nouns,
        });
    }
    Some(items)
}

fn judge(items: &[Item<'_>]) -> Option<Finding> {
    let item = |outcome: Outcome| items.iter().find(|item| item.outcome == outcome);
    let (total, good, bad) = (
        item(Outcome::Total)?,
        item(Outcome::Good)?,
        item(Outcome::Bad),
    );
    // `Total time`, `Total suites` beside `Passed`
    let counted = [Some(total), Some(good), bad];
    if counted
        .into_iter()
        .flatten()
        .any(|item| item.nouns != total.nouns)
    {
        return None;
    }
    let (all, ok) = (total.number.value, good.number.value);
    let wrong = |at: &Item<'_>, message: String| {
        let place = at.prose.place(at.number.start);
        let others = items
            .iter()
            .filter(|item| item.number.start != at.number.start);
        let evidence = others.map(|item| {
            let line = item.prose.place(item.number.start).0;
            Evidence::new(format!("line {line}"), &item.prose.text)
        });
        Finding {
            evidence: evidence.collect(),
            ..Finding::new(
                Rule::Total,
                place,
                &at.prose.text,
                message,
                format!("line {}", place.0),
            )
        }
    };
    if let Some(bad) = bad {
        let sum = ok + bad.number.value;
        // Fewer may be counted: some requests may still run.
        if sum > all || sum < all && misprints(bad.number, all - ok) {
            let message = format!(
                "{} and {} are {}, not {}",
                shown(ok),
                shown(bad.number.value),
                shown(sum),
                shown(all)
            );
            return Some(wrong(bad, message));
        }
    }
    let rate = |of_good: bool| -> Option<Finding> {
        let own = item(Outcome::Rate(of_good))?;
        let part = if of_good { ok } else { bad?.number.value };
        let judged = ok + bad.map_or(0.0, |bad| bad.number.value);
        let shares = [100.0 * part / all, 100.0 * part / judged];
        let fits = shares.iter().any(|share| own.number.agrees(*share, *share));
        (all > 0.0 && judged > 0.0 && !fits).then(|| {
            let message = format!(
                "{} of {} is {} %",
                shown(part),
                shown(all),
                shown(shares[0])
            );
            wrong(own, message)
        })
    };
    rate(true).or_else(|| rate(false))
}
