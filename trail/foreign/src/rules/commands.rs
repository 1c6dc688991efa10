//! R-CONF: command lines in code blocks.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use crate::finding::{Confidence, Evidence, Finding};
use crate::rules::Rule;
use crate::rules::scope::{Scope, clip};
use crate::text::Code;

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    for code in &scope.report.code {
        broken_continuation(code, found);
    }
    two_values(scope, found);
}

static BROKEN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"--?[A-Za-z].*\\[ \t]+#|--?[A-Za-z].*\\[ \t]+$").expect("a regex")
});

/// `--flag \ # remark`: the backslash escapes the blank, the command ends at the line.
fn broken_continuation(code: &Code, found: &mut Vec<Finding>) {
    let lines: Vec<usize> = (0..code.lines.len())
        .filter(|&at| BROKEN.is_match(&code.lines[at]))
        .collect();
    let Some(&first) = lines.first() else { return };
    let message =
        "a shell ends the command here: the backslash is not the last character of its line"
            .to_owned();
    let evidence = lines
        .iter()
        .map(|&at| {
            Evidence::new(
                format!("line {}", code.line + at),
                clip(code.lines[at].trim()),
            )
        })
        .collect();
    let column = code.lines[first]
        .find('\\')
        .map_or(1, |at| code.lines[first][..at].chars().count() + 1);
    found.push(Finding {
        rule: Rule::Conf,
        confidence: Confidence::High,
        line: code.line + first,
        column,
        quote: clip(code.lines[first].trim()),
        message,
        evidence,
    });
}

static FLAG: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?:^|\s)--(?P<name>[a-z][a-z0-9\-]+)[ =](?P<value>[0-9][0-9.,]*[A-Za-z]{0,2})(?:\s|$|\\)",
    )
    .expect("a regex")
});
static NAME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?i)\b(?:v[0-9]+(?:\.[0-9]+)*|(?:config|configuration|variant|profile) [A-Z0-9]{1,2})\b",
    )
    .expect("a regex")
});

/// Two command lines under headings that name the same configuration give a flag different values.
fn two_values(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    let mut seen: BTreeMap<(String, String), (String, usize, usize)> = BTreeMap::new();
    for code in &scope.report.code {
        let Some(heading) = code
            .section
            .checked_sub(1)
            .and_then(|at| scope.report.headings.get(at))
        else {
            continue;
        };
        let Some(id) = NAME
            .find(&heading.text)
            .map(|name| name.as_str().to_lowercase())
        else {
            continue;
        };
        for (at, line) in code.lines.iter().enumerate() {
            for captures in FLAG.captures_iter(line) {
                let (Some(name), Some(value)) = (captures.name("name"), captures.name("value"))
                else {
                    continue;
                };
                let key = (id.clone(), name.as_str().to_owned());
                let here = code.line + at;
                match seen.get(&key) {
                    // One section may list alternatives.
                    Some((other, there, section))
                        if other != value.as_str() && *section != code.section =>
                    {
                        let message = format!(
                            "--{} of {id} is {} here and {other} in line {there}",
                            name.as_str(),
                            value.as_str()
                        );
                        let column = line[..name.start()].chars().count() - 1;
                        let evidence = vec![
                            Evidence::new(
                                format!("line {there}"),
                                format!("--{} {other}", name.as_str()),
                            ),
                            Evidence::new(
                                format!("line {here}"),
                                format!("--{} {}", name.as_str(), value.as_str()),
                            ),
                        ];
                        found.push(Finding {
                            rule: Rule::Conf,
                            confidence: Confidence::Medium,
                            line: here,
                            column,
                            quote: clip(line.trim()),
                            message,
                            evidence,
                        });
                    }
                    Some(_) => {}
                    None => {
                        seen.insert(key, (value.as_str().to_owned(), here, code.section));
                    }
                }
            }
        }
    }
}
