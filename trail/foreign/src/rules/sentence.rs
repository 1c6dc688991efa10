//! R-COUNT, R-ARITH, R-IDENT, R-BIND, R-SAME: what the numbers of one sentence owe each other.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::finding::{Confidence, Evidence, Finding};
use crate::number::{Agreement, Quantity, compare, quantities, shown, spread};
use crate::rules::Rule;
use crate::rules::scope::{Scope, in_prose};
use crate::rules::words::number_word;
use crate::text::Prose;

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    for prose in &scope.report.prose {
        more_than_all(prose, found);
        widths(prose, found);
        differences(prose, found);
        intervals(prose, found);
        itself(prose, found);
        points(prose, found);
    }
    levels(&scope.report.prose, found);
}

const NUM: &str = r"[+−-]?[0-9][0-9,]*(?:\.[0-9]+)?";

fn number(captures: &Captures<'_>, name: &str) -> Option<Quantity> {
    quantities(captures.name(name)?.as_str()).into_iter().next()
}

static SHARE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)(?:^|[\s(*])(?P<n>[0-9][0-9,]*|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve) (?:[a-z]+ )?(?:of|out of) (?:the |these |its |all )?(?P<m>[0-9][0-9,]*|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)(?P<after> [a-z]{3,}|[,.;)]|$)").expect("a regex")
});

/// `318 of 315 cells`: a part is not more than its whole.
fn more_than_all(prose: &Prose, found: &mut Vec<Finding>) {
    for captures in SHARE.captures_iter(&prose.text) {
        let number = |name: &str| -> Option<f64> {
            let text = captures.name(name)?.as_str();
            number_word(text).or_else(|| text.replace(',', "").parse().ok())
        };
        let (Some(part), Some(whole), Some(first), Some(last)) = (
            number("n"),
            number("m"),
            captures.name("n"),
            captures.name("m"),
        ) else {
            continue;
        };
        // `batches of 5`, `a set of 3`: groups of a size, not parts of a whole.
        let between = prose.text[first.end()..last.start()].trim();
        let plain = between
            .trim_start_matches("ok ")
            .trim_end_matches(" the")
            .trim_end_matches(" all");
        let grouped = !matches!(plain, "of" | "out of" | "of these" | "of its");
        if part <= whole || grouped {
            continue;
        }
        let message = format!(
            "{} of {}: the part is more than the whole",
            shown(part),
            shown(whole)
        );
        let span = (first.start(), last.end());
        found.push(in_prose(
            prose,
            span,
            (Rule::Count, Confidence::High),
            message,
            Vec::new(),
        ));
    }
}

static WIDTH: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(&format!(r"(?P<a>{NUM}) ?(?:to|–|—|→) ?(?P<b>{NUM})(?: ?[a-z/%]{{1,6}})?,? ?\(?(?:a |the |— a )?(?:spread|range|gap|width|difference|span) of ~?(?P<d>{NUM})\b")).expect("a regex")
});

/// `0.827 to 0.831, a spread of 0.004`.
fn widths(prose: &Prose, found: &mut Vec<Finding>) {
    for captures in WIDTH.captures_iter(&prose.text) {
        let (Some(a), Some(b), Some(d), Some(whole)) = (
            number(&captures, "a"),
            number(&captures, "b"),
            number(&captures, "d"),
            captures.get(0),
        ) else {
            continue;
        };
        let (low, high) = spread(&a, &b, |a, b| (b - a).abs());
        if compare(&d, low, high) == Agreement::Differs && d.half <= a.half.max(b.half) * 1.01 {
            let message = format!(
                "{} to {} is {} wide",
                shown(a.value),
                shown(b.value),
                shown(f64::midpoint(low, high))
            );
            let span = (whole.start(), whole.end());
            found.push(in_prose(
                prose,
                span,
                (Rule::Arith, Confidence::High),
                message,
                Vec::new(),
            ));
        }
    }
}

static DELTA: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(&format!(r"(?P<a>{NUM}) (?:for|on|with|by) [A-Za-z0-9_.\-]+ (?:against|versus|vs\.?|and) (?P<b>{NUM}) (?:for|on|with|by) [A-Za-z0-9_.\-]+[^.;0-9]{{0,20}}(?:[0-9]+ (?:pairs|cells|runs|rows))?,? (?:a |the )?(?:mean )?(?:delta|difference|gap) of (?P<d>{NUM})")).expect("a regex")
});

/// `0.841 for A against 0.743 for B, a mean delta of +0.0977`.
fn differences(prose: &Prose, found: &mut Vec<Finding>) {
    for captures in DELTA.captures_iter(&prose.text) {
        let (Some(a), Some(b), Some(d), Some(whole)) = (
            number(&captures, "a"),
            number(&captures, "b"),
            number(&captures, "d"),
            captures.get(0),
        ) else {
            continue;
        };
        let (low, high) = spread(&a, &b, |a, b| a - b);
        let unsigned = Quantity {
            value: d.value.abs(),
            ..d.clone()
        };
        let holds = [
            (&d, low, high),
            (&unsigned, low, high),
            (&unsigned, -high, -low),
        ]
        .iter()
        .any(|(stated, low, high)| compare(stated, *low, *high) != Agreement::Differs);
        // A printed sign must be that of the first less the second.
        let turned = d.signed && d.value * f64::midpoint(low, high) < 0.0 && low * high > 0.0;
        if !holds || turned {
            let message = format!(
                "{} less {} is {}",
                shown(a.value),
                shown(b.value),
                shown(f64::midpoint(low, high))
            );
            let span = (whole.start(), whole.end());
            found.push(in_prose(
                prose,
                span,
                (Rule::Arith, Confidence::Medium),
                message,
                Vec::new(),
            ));
        }
    }
}

static INTERVAL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(&format!(
        r"\[(?P<a>{NUM})(?:×|%| ?[a-z/]{{1,6}})?, ?(?P<b>{NUM})(?:×|%| ?[a-z/]{{1,6}})?\]"
    ))
    .expect("a regex")
});
static BEFORE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(&format!(r"(?P<v>{NUM})(?:×|%| ?[a-z/]{{1,6}})?[^0-9;.\[]{{0,25}}\(?(?:[0-9]{{2}} ?% ?)?[^0-9;.\[]{{0,20}}(?:interval|CI)[^0-9;.\[]{{0,12}}$")).expect("a regex")
});

/// `+0.0977 with the 95 % interval [+0.0702, +0.1255]`: the interval is not turned around and holds its estimate.
fn intervals(prose: &Prose, found: &mut Vec<Finding>) {
    for captures in INTERVAL.captures_iter(&prose.text) {
        let (Some(low), Some(high), Some(whole)) = (
            number(&captures, "a"),
            number(&captures, "b"),
            captures.get(0),
        ) else {
            continue;
        };
        if low.value > high.value {
            // Lists in brackets may fall: only intervals are called so, or are signed.
            let near = crate::number::tail(&prose.text[..whole.start()]).to_lowercase();
            if near.contains("interval") || near.contains("ci ") || low.signed {
                let message = "the interval is turned around".to_owned();
                let span = (whole.start(), whole.end());
                found.push(in_prose(
                    prose,
                    span,
                    (Rule::Ident, Confidence::High),
                    message,
                    Vec::new(),
                ));
            }
            continue;
        }
        let Some((start, _)) = prose.sentence(whole.start()) else {
            continue;
        };
        let Some(estimate) = BEFORE.captures(&prose.text[start..whole.start()]) else {
            continue;
        };
        let Some(value) = number(&estimate, "v") else {
            continue;
        };
        // A p-value has no place in the interval of its estimate.
        let before = estimate
            .get(0)
            .map_or("", |m| &prose.text[start..start + m.start()]);
        if before
            .trim_end_matches([' ', '=', '<', '≈'])
            .ends_with(" p")
            || before.to_lowercase().contains("p-value")
        {
            continue;
        }
        let (least, most) = (
            low.value - low.half - value.half,
            high.value + high.half + value.half,
        );
        if value.half == low.half && !(least..=most).contains(&value.value) {
            let message = format!(
                "the estimate {} lies outside its interval",
                shown(value.value)
            );
            let span = (
                start + estimate.get(0).map_or(0, |m| m.start()),
                whole.end(),
            );
            found.push(in_prose(
                prose,
                span,
                (Rule::Ident, Confidence::High),
                message,
                Vec::new(),
            ));
        }
    }
}

static TWICE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b(?P<a>[A-Za-z][A-Za-z0-9.\-]{2,}) (?:vs\.?|versus|less|minus|against) (?P<b>[A-Za-z][A-Za-z0-9.\-]{2,})|[0-9] (?:for|on|with) (?P<c>[A-Za-z][A-Za-z0-9.\-]{2,}) (?:vs\.?|versus|against) [+−-]?[0-9][0-9.,]* ?(?:[a-zA-Z/%×]{1,6} )?(?:for|on|with) (?P<d>[A-Za-z][A-Za-z0-9.\-]{2,})").expect("a regex")
});

/// `0.841 for A against 0.743 for A`, `A minus A`: one side is misnamed.
fn itself(prose: &Prose, found: &mut Vec<Finding>) {
    for captures in TWICE.captures_iter(&prose.text) {
        let names = (
            captures.name("a").or(captures.name("c")),
            captures.name("b").or(captures.name("d")),
        );
        let (Some(a), Some(b), Some(whole)) = (names.0, names.1, captures.get(0)) else {
            continue;
        };
        // `the … against the …`: names are longer, or have a capital or a digit.
        if a.len() < 4 && a.as_str().bytes().all(|byte| byte.is_ascii_lowercase()) {
            continue;
        }
        if a.as_str()
            .trim_end_matches(['.', '-'])
            .eq_ignore_ascii_case(b.as_str().trim_end_matches(['.', '-']))
        {
            let message = format!("\"{}\" is compared with itself", a.as_str());
            let span = (whole.start(), whole.end());
            found.push(in_prose(
                prose,
                span,
                (Rule::Bind, Confidence::Medium),
                message,
                Vec::new(),
            ));
        }
    }
}

static POINTS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"\b[0-9]{2}(?:\.[0-9]+)? ?(?:pp|percentage points?) (?:[a-z]+ ){0,2}(?:intervals?|CI|confidence)\b",
    )
    .expect("a regex")
});

/// `the 95 percentage points interval`: the level of an interval is a percentage.
fn points(prose: &Prose, found: &mut Vec<Finding>) {
    for whole in POINTS.find_iter(&prose.text) {
        let message = "the level of an interval is in percent, not in points".to_owned();
        let span = (whole.start(), whole.end());
        found.push(in_prose(
            prose,
            span,
            (Rule::Unit, Confidence::High),
            message,
            Vec::new(),
        ));
    }
}

static LEVEL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b(?P<p>[0-9]{2}(?:\.[0-9]+)?) ?% (?:[a-z]+ ){0,2}(?:intervals?|CI|confidence)\b")
        .expect("a regex")
});

/// The level of one interval against that of all others (`93 %` once, `95 %` elsewhere).
fn levels(prose: &[Prose], found: &mut Vec<Finding>) {
    let mut places: BTreeMap<&str, Vec<(&Prose, usize, usize)>> = BTreeMap::new();
    for paragraph in prose {
        for captures in LEVEL.captures_iter(&paragraph.text) {
            if let Some(level) = captures.name("p") {
                places.entry(level.as_str()).or_default().push((
                    paragraph,
                    level.start(),
                    level.end(),
                ));
            }
        }
    }
    let all: usize = places.values().map(Vec::len).sum();
    let Some((usual, often)) = places.iter().max_by_key(|(_, places)| places.len()) else {
        return;
    };
    if often.len() < 4 || often.len() + 1 != all {
        return;
    }
    let first = often.first().map_or(1, |place| place.0.place(place.1).0);
    for (level, places) in places.iter().filter(|(level, _)| level != &usual) {
        for (paragraph, start, end) in places {
            let message = format!(
                "{level} % here, {usual} % for the {} other intervals: confirm",
                often.len()
            );
            let evidence = vec![Evidence::new(format!("line {first}"), format!("{usual} %"))];
            found.push(in_prose(
                paragraph,
                (*start, *end),
                (Rule::Same, Confidence::Low),
                message,
                evidence,
            ));
        }
    }
}
