//! The scan for secrets and user names before publication.
//!
//! A finding never repeats the text: it names the rule and the place.

use std::collections::BTreeSet;
use std::fmt;

use artifacts::Table;
use net::ApiKey;
use pipeline::{Experiment, Json};
use regex::Regex;
use serde::Serialize;

/// A kind of text that must not be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The name, for `--allow`.
    pub name: &'static str,
    /// A description of what it finds.
    pub finds: &'static str,
    pattern: &'static str,
}

/// Every rule.
pub const RULES: &[Rule] = &[
    Rule {
        name: "private-key",
        finds: "a private key",
        pattern: r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----",
    },
    Rule {
        name: "aws-key",
        finds: "an AWS access key",
        pattern: r"\bA(?:KIA|SIA)[0-9A-Z]{16}\b",
    },
    Rule {
        name: "github-token",
        finds: "a GitHub token",
        pattern: r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})",
    },
    Rule {
        name: "gitlab-token",
        finds: "a GitLab token",
        pattern: r"\bglpat-[A-Za-z0-9_-]{20,}",
    },
    Rule {
        name: "hf-token",
        finds: "a model hub's token",
        pattern: r"\bhf_[A-Za-z0-9]{30,}\b",
    },
    Rule {
        name: "api-key",
        finds: "an API key",
        pattern: r"\bsk-[A-Za-z0-9_-]{20,}",
    },
    Rule {
        name: "google-key",
        finds: "a Google API key",
        pattern: r"\bAIza[0-9A-Za-z_-]{35}",
    },
    Rule {
        name: "slack-token",
        finds: "a Slack token",
        pattern: r"\bxox[abeprs]-[A-Za-z0-9-]{10,}",
    },
    Rule {
        name: "jwt",
        finds: "a JSON web token",
        pattern: r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    },
    Rule {
        name: "authorization",
        finds: "an authorization header",
        pattern: r#"(?i)\bauthorization["']?\s*[:=]\s*["']?(?:bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"#,
    },
    Rule {
        name: "url-credentials",
        finds: "a password in a URL",
        pattern: r#"(?i)\b[a-z][a-z0-9+.-]*://[^/\s:@"']*:[^/\s:@"']+@"#,
    },
    Rule {
        name: "password",
        finds: "a password or key given a value",
        pattern: r#"(?x)
            (?i: (?: \b | _ ) (?: password | passwd | passphrase | secret | (?: api | access | account | secret ) [_-]? key
                | (?: access | auth | refresh ) [_-]? token ) )
                ["']? \s* [:=] \s* ["']? [^\s"',;{}$]{8,}
            | \b [A-Z] [A-Z0-9]* (?: _ [A-Z0-9]+ )* _ (?: TOKEN | PASS | PAT | AUTH ) ["']? \s* [:=] \s* ["']? [^\s"',;{}$<]{8,}"#,
    },
    Rule {
        name: "user-name",
        finds: "the folder of a user",
        pattern: r#"(?:(?:^|[^A-Za-z0-9_.-])/(?:home|Users)/|\b[A-Z]:\\+Users\\+)[^/\\\s"':,;*$<>{}()\[\]]+"#,
    },
];

/// A place whose text must not be published.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SecretFinding {
    /// The file of the bundle.
    pub path: String,
    /// The content of the file, such as `ladder[rep=1].engine_log`.
    pub what: String,
    /// The line and column, or the column's name and the row.
    pub place: String,
    /// The rule's name.
    pub rule: String,
    /// A description of what was found.
    pub finds: String,
}

impl fmt::Display for SecretFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}: {} [{}]",
            self.what, self.place, self.finds, self.rule
        )
    }
}

/// The scanner for text that must not be published.
pub(crate) struct Scanner {
    rules: Vec<(Rule, Regex)>,
    names: Vec<Regex>,
    keys: Vec<ApiKey>,
}

/// The rule of [`RULES`] that switches off the search for the API keys of the study, too.
const API_KEY: &str = "api-key";

/// Returns the API keys in the variables that a study names with `api-key-env`, if they are set now.
pub fn keys_named(experiment: &Experiment) -> Vec<ApiKey> {
    fn visit<'a>(value: &'a Json, variables: &mut BTreeSet<&'a str>) {
        match value {
            Json::Object(fields) => {
                variables.extend(fields.get("api-key-env").and_then(Json::as_str));
                fields.values().for_each(|value| visit(value, variables));
            }
            Json::Array(values) => values.iter().for_each(|value| visit(value, variables)),
            Json::String(_) | Json::Number(_) | Json::Bool(_) | Json::Null => {}
        }
    }
    let mut variables = BTreeSet::new();
    let sets = experiment.stages.iter().flat_map(|s| &s.parameter_sets);
    sets.for_each(|set| visit(set, &mut variables));
    let keys = variables.into_iter();
    keys.filter_map(|variable| ApiKey::from_environment(variable).ok())
        .collect()
}

/// Names of generic accounts.
const COMMON: [&str; 9] = [
    "root", "user", "ubuntu", "debian", "admin", "runner", "nobody", "home", "bench",
];

impl Scanner {
    /// Makes a scanner without the allowed rules. `names` are the user's own names on this machine, `keys` the API keys of
    /// the study.
    pub(crate) fn new(allowed: &[String], names: &[String], keys: &[ApiKey]) -> Self {
        let rules = RULES
            .iter()
            .filter(|rule| !allowed.iter().any(|a| a == rule.name));
        let compiled = rules.map(|rule| {
            (
                *rule,
                Regex::new(rule.pattern).expect("a constant pattern compiles"),
            )
        });
        let personal = |name: &&String| name.len() > 2 && !COMMON.contains(&name.as_str());
        let names = if allowed.iter().any(|a| a == "user-name") {
            &[]
        } else {
            names
        };
        let names = names.iter().filter(personal).filter_map(|name| {
            Regex::new(&format!(
                r"(?:^|[^A-Za-z0-9_]){}(?:[^A-Za-z0-9_]|$)",
                regex::escape(name)
            ))
            .ok()
        });
        Self {
            rules: compiled.collect(),
            names: names.collect(),
            keys: match allowed.iter().any(|a| a == API_KEY) {
                true => Vec::new(),
                false => keys.to_vec(),
            },
        }
    }

    /// Returns the first match of each rule that a text breaks: its offset, the rule, and what the rule finds.
    fn first(&self, text: &str) -> Vec<(usize, &'static str, &'static str)> {
        let mut secrets: Vec<(usize, &'static str, &'static str)> = Vec::new();
        for (rule, pattern) in &self.rules {
            secrets.extend(
                pattern
                    .find(text)
                    .map(|m| (m.start(), rule.name, rule.finds)),
            );
        }
        for name in &self.names {
            secrets.extend(
                name.find(text)
                    .map(|m| (m.start(), "user-name", "the name of this machine's user")),
            );
        }
        for at in self.keys.iter().filter_map(|key| key.position_in(text)) {
            secrets.push((at, API_KEY, "the API key in a variable of the study"));
        }
        secrets
    }

    /// Scans text, line by line.
    pub(crate) fn text(
        &self,
        path: &str,
        what: &str,
        text: &str,
        findings: &mut Vec<SecretFinding>,
    ) {
        for (number, line) in text.lines().enumerate() {
            for (at, rule, finds) in self.first(line) {
                let column = line[..at].chars().count() + 1;
                findings.push(SecretFinding {
                    path: path.to_owned(),
                    what: what.to_owned(),
                    place: format!("{}:{column}", number + 1),
                    rule: rule.to_owned(),
                    finds: finds.to_owned(),
                });
            }
        }
    }

    /// Scans the text columns of a table; each column's first finding of a rule is reported.
    pub(crate) fn table(
        &self,
        path: &str,
        what: &str,
        table: &Table,
        findings: &mut Vec<SecretFinding>,
    ) {
        for column in table.names() {
            // A column of numbers contains no text.
            let Ok(values) = table.text(&column) else {
                continue;
            };
            let mut kinds: Vec<&str> = Vec::new();
            let mut seen = std::collections::HashSet::new();
            for (row, value) in values.into_iter().enumerate() {
                let Some(value) = value.filter(|v| seen.insert(*v)) else {
                    continue;
                };
                for (_, rule, finds) in self.first(value) {
                    if kinds.contains(&rule) {
                        continue;
                    }
                    kinds.push(rule);
                    findings.push(SecretFinding {
                        path: path.to_owned(),
                        what: what.to_owned(),
                        place: format!("column {column}, row {row}"),
                        rule: rule.to_owned(),
                        finds: finds.to_owned(),
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use artifacts::Column;

    use super::*;

    fn rules_in(text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        Scanner::new(&[], &["jdoe".to_owned()], &[]).text("f", "w", text, &mut findings);
        findings.into_iter().map(|f| f.rule).collect()
    }

    /// Returns texts with secrets, assembled here so that scanners of source code do not flag the
    /// test as a leak.
    fn samples() -> Vec<(String, &'static str)> {
        let a = |n: usize| "a1B2".repeat(n);
        vec![
            (format!("-----BEGIN {} KEY-----", "PRIVATE"), "private-key"),
            (
                format!("-----BEGIN OPENSSH {} KEY-----", "PRIVATE"),
                "private-key",
            ),
            (format!("id=AKIA{}", "ABCD".repeat(4)), "aws-key"),
            (format!("ghp_{}", a(9)), "github-token"),
            (format!("glpat-{}", a(6)), "gitlab-token"),
            (format!("token hf_{}", a(9)), "hf-token"),
            (format!("sk-proj-{}", a(8)), "api-key"),
            (format!("AIza{}xyz", a(8)), "google-key"),
            (format!("xoxb-{}", a(4)), "slack-token"),
            (format!("eyJ{}.eyJ{}.{}", a(4), a(4), a(4)), "jwt"),
            (format!("Authorization: Bearer {}", a(4)), "authorization"),
            (
                format!("-----BEGIN PGP {} KEY BLOCK-----", "PRIVATE"),
                "private-key",
            ),
            ("postgres://bob:hunter2@db/x".to_owned(), "url-credentials"),
            ("HTTPS://bob:hunter2@db/x".to_owned(), "url-credentials"),
            ("redis://:hunter2@db/0".to_owned(), "url-credentials"),
            ("\"password\": \"correct-horse\"".to_owned(), "password"),
            ("DB_PASSWORD=correct-horse".to_owned(), "password"),
            ("export MY_API_KEY='correct-horse'".to_owned(), "password"),
            ("my_secret: correct-horse".to_owned(), "password"),
            ("CI_JOB_TOKEN=correct-horse".to_owned(), "password"),
            ("AccountKey=correct-horse".to_owned(), "password"),
            ("-m /home/jane/models/x.gguf".to_owned(), "user-name"),
            ("{\"path\": \"/Users/jane/x\"}".to_owned(), "user-name"),
            ("C:\\Users\\jane\\x".to_owned(), "user-name"),
            ("run by jdoe on Monday".to_owned(), "user-name"),
        ]
    }

    #[test]
    fn each_kind_of_secret_is_found_by_its_rule() {
        for (text, rule) in samples() {
            assert!(
                rules_in(&text).iter().any(|r| r == rule),
                "{rule} in a text of {} bytes",
                text.len()
            );
        }
    }

    #[test]
    fn what_studies_are_made_of_is_not_taken_for_a_secret() {
        for text in [
            "api-key-env: OPENAI_API_KEY",
            "b3:7dcda260dba6398f098ff10635456952274dff558f971dcf748aca6cd3a41a0d",
            "sha256: b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            "http://127.0.0.1:8080/v1/completions",
            "main: n_ctx_slot = 1024, /usr/share/homes/x, tokens_per_second: 12.5",
            "the secret of batching: more requests at once",
            "password: ${PASSWORD}",
            "api-key-env: MY_API_KEY",
            "\"eos_token\": \"<|endoftext|>\", EOS_TOKEN = <|endoftext|>",
            "print_info: EOS token        = 151645 '<|im_end|>'",
            "output_tokens: 12345678, TOKENS=123456789",
        ] {
            assert_eq!(rules_in(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn a_finding_names_the_place_and_never_the_secret() {
        let secret = format!("hf_{}", "Zz9".repeat(12));
        let mut findings = Vec::new();
        let scanner = Scanner::new(&[], &[], &[]);
        scanner.text(
            "a",
            "ladder.engine_log",
            &format!("one\n  {secret}"),
            &mut findings,
        );
        let column = Column::text(
            "error",
            [None, Some("fine".to_owned()), Some(secret.clone())],
        );
        scanner.table(
            "b",
            "ladder.requests",
            &Table::new(vec![column]).unwrap(),
            &mut findings,
        );
        let places: Vec<&str> = findings.iter().map(|f| f.place.as_str()).collect();
        assert_eq!(places, ["2:3", "column error, row 2"]);
        assert!(findings.iter().all(|f| !f.to_string().contains(&secret)));
    }

    #[test]
    fn an_allowed_rule_finds_nothing() {
        let scanner = Scanner::new(&["user-name".to_owned()], &["jdoe".to_owned()], &[]);
        let mut findings = Vec::new();
        scanner.text("f", "w", "/home/jdoe/x", &mut findings);
        assert_eq!(findings, []);
    }

    #[test]
    fn the_key_of_the_study_is_found_in_every_form() {
        let key = ApiKey::new("plain/word+of=mine").unwrap();
        let places = |allowed: &[String], text: &str| {
            let mut findings = Vec::new();
            let scanner = Scanner::new(allowed, &[], std::slice::from_ref(&key));
            scanner.text("f", "w", text, &mut findings);
            findings.into_iter().map(|f| f.place).collect::<Vec<_>>()
        };
        for text in ["é plain/word+of=mine", "é plain%2Fword%2Bof%3Dmine x"] {
            assert_eq!(places(&[], text), ["1:3"], "{text}");
            assert!(places(&["api-key".to_owned()], text).is_empty());
        }
        assert!(places(&[], "plain words of mine").is_empty());
    }
}
