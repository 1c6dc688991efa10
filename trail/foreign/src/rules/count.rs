//! R-COUNT: lists have as many members as their number says, parts sum to their whole.

use std::sync::LazyLock;

use regex::Regex;

use crate::finding::{Confidence, Evidence, Finding};
use crate::number::shown;
use crate::rules::Rule;
use crate::rules::scope::{Scope, in_prose};
use crate::rules::words::number_word;
use crate::text::Prose;

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    for prose in &scope.report.prose {
        lists(prose, found);
        parts(prose, found);
        complements(prose, found);
    }
}

static LIST: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?P<n>[0-9]{1,2}|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)(?P<noun>(?:[ -][a-z][a-z\-]*){1,3}) ?(?:\((?P<round>[^()]{3,300})\)|\{(?P<curly>[^{}]{1,200})\})").expect("a regex")
});

/// `five models (a, b, c, d, e)`, `6 levels {1, 2, 4, 8, 16, 32}`.
fn lists(prose: &Prose, found: &mut Vec<Finding>) {
    for captures in LIST.captures_iter(&prose.text) {
        let (Some(number), Some(noun)) = (captures.name("n"), captures.name("noun")) else {
            continue;
        };
        // `N=16`, `2.5 models`, `of 7B-13 models`: not a count.
        if prose.text[..number.start()].ends_with(['.', '=', '-', '–', ',', '×', '/', '~']) {
            continue;
        }
        let Some(stated) = number_word(number.as_str()).or_else(|| number.as_str().parse().ok())
        else {
            continue;
        };
        let plural = noun.as_str().ends_with('s');
        let curly = captures.name("curly");
        let Some(body) = curly.or(captures.name("round")) else {
            continue;
        };
        let members = members(body.as_str());
        let Some(members) = members.filter(|_| plural && stated >= 2.0) else {
            continue;
        };
        let count = u32::try_from(members.len()).map_or(f64::MAX, f64::from);
        // In round brackets only names without blanks, so that remarks are not taken for lists.
        let sure = curly.is_some() || members.iter().all(|member| !member.contains(' '));
        // Far from the number it is another list: fields, remarks.
        let near = curly.is_some() || (count - stated).abs() <= 1.0;
        if count == stated || members.len() < 2 || !sure || !near {
            continue;
        }
        let message = format!(
            "{} members are listed, not {}",
            members.len(),
            shown(stated)
        );
        let range = captures.get(0).map_or((0, 0), |m| (m.start(), m.end()));
        let evidence = vec![Evidence::new(
            format!("line {}", prose.place(body.start()).0),
            members.join(" | "),
        )];
        let confidence = if curly.is_some() {
            Confidence::High
        } else {
            Confidence::Medium
        };
        found.push(in_prose(
            prose,
            range,
            (Rule::Count, confidence),
            message,
            evidence,
        ));
    }
}

/// The members of a list, or nothing where it is open (`…`, `e.g.`) or not a plain list.
fn members(body: &str) -> Option<Vec<&str>> {
    let open = [
        "...",
        "…",
        "e.g",
        "etc",
        "such as",
        "incl",
        "for example",
        "all ",
        "each",
        "–",
        "—",
        ";",
        "=",
    ];
    if open.iter().any(|word| body.contains(word)) || !body.contains(',') {
        return None;
    }
    let mut members = Vec::new();
    for part in body.split(',') {
        let part = part
            .trim()
            .trim_start_matches("and ")
            .trim_start_matches("or ")
            .trim_start_matches("& ")
            .trim();
        for half in part.split(" and ") {
            members.push(half.trim());
        }
    }
    members
        .iter()
        .all(|member| !member.is_empty() && member.len() < 40)
        .then_some(members)
}

static WHOLE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:of|out of) (?:the )?(?P<whole>[0-9][0-9,]*) (?P<noun>[a-z]+s)\b,? ?(?P<parts>(?:[0-9][0-9,]* [^0-9,;.()]{2,40}(?:\([^()]{0,80}\))?(?:N=[0-9]+)?,? (?:and )?){1,8}[0-9][0-9,]* [a-z]{3,})").expect("a regex")
});
static PART: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?:^|, |and )(?P<n>[0-9][0-9,]*) [a-z]").expect("a regex"));

/// `of 25 cells, 5 never break, 11 break at N=16, and 9 break at N=32`: parts of a whole.
fn parts(prose: &Prose, found: &mut Vec<Finding>) {
    for captures in WHOLE.captures_iter(&prose.text) {
        let (Some(whole), Some(parts)) = (captures.name("whole"), captures.name("parts")) else {
            continue;
        };
        // Only a list closed by `and` claims to be complete.
        if !parts.as_str().contains("and ") {
            continue;
        }
        let numbers: Vec<f64> = PART
            .captures_iter(parts.as_str())
            .filter_map(|part| part.name("n")?.as_str().replace(',', "").parse().ok())
            .collect();
        let Ok(stated) = whole.as_str().replace(',', "").parse::<f64>() else {
            continue;
        };
        let sum: f64 = numbers.iter().sum();
        if numbers.len() < 3 || sum == stated {
            continue;
        }
        let terms = numbers
            .iter()
            .map(|n| shown(*n))
            .collect::<Vec<_>>()
            .join(" + ");
        let evidence = vec![Evidence::new(
            format!("line {}", prose.place(parts.start()).0),
            format!("{terms} = {}", shown(sum)),
        )];
        let message = format!("the parts sum to {}, not {}", shown(sum), shown(stated));
        found.push(in_prose(
            prose,
            (whole.start(), parts.end()),
            (Rule::Count, Confidence::Medium),
            message,
            evidence,
        ));
    }
}

static COMPLEMENT: LazyLock<Regex> = LazyLock::new(|| {
    let rest = r"(?:not ok|hung|failed|excluded|skipped|dropped|missing|left out|timed out|barred|remaining|rejected|lost|incomplete|[a-z_]*errors?)";
    Regex::new(&format!(
        r"(?i)\b(?P<a>[0-9][0-9,]*) (?:[a-z]+ )?(?:of|out of) (?:the )?(?P<b>[0-9][0-9,]*)\b[^.;:,0-9()]{{0,40}}?(?P<rest>(?:[,;]? (?:and )?[0-9][0-9,]* (?:[a-z]+ ){{0,2}}?{rest}\b[^.;:,0-9()]{{0,30}})+)"
    ))
    .expect("a regex")
});
static NUMBER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"[0-9][0-9,]*").expect("a regex"));

/// `318 of 320 cells are ok, 0 left out, 2 failed`: a part and what is left sum to the whole.
fn complements(prose: &Prose, found: &mut Vec<Finding>) {
    for captures in COMPLEMENT.captures_iter(&prose.text) {
        let number = |name: &str| {
            captures
                .name(name)?
                .as_str()
                .replace(',', "")
                .parse::<f64>()
                .ok()
        };
        let (Some(part), Some(whole), Some(rest), Some(all)) = (
            number("a"),
            number("b"),
            captures.name("rest"),
            captures.get(0),
        ) else {
            continue;
        };
        let left: f64 = NUMBER
            .find_iter(rest.as_str())
            .filter_map(|m| m.as_str().replace(',', "").parse::<f64>().ok())
            .sum();
        // Some of those left may be named again (`2 not ok, of them 2 hung`): more than the whole is not proof.
        if part + left == whole || left == 0.0 && part == whole {
            continue;
        }
        let message = format!(
            "{} and {} left are {}, not {}",
            shown(part),
            shown(left),
            shown(part + left),
            shown(whole)
        );
        let evidence = vec![Evidence::new(
            format!("line {}", prose.place(all.start()).0),
            all.as_str().to_owned(),
        )];
        let span = (all.start(), all.end());
        found.push(in_prose(
            prose,
            span,
            (Rule::Count, Confidence::Medium),
            message,
            evidence,
        ));
    }
}
