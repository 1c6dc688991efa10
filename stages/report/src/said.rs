//! What the sentences of the experiment file may say: the report prints them as the study's own words, so their numbers and
//! words are checked while planning.

mod directions;

use std::ops::Range;

use artifacts::Scalar;
use pipeline::stage::{Json, KnownAxis, KnownStage, Problem, Step};

use crate::check::{Numeral, hidden, is_quantile, numerals};
use crate::claims::Claim;
use crate::settings::Named;
use crate::statement::{
    FREE, Rule, RuleKind, checked, is_checked_before_number, licenses, needs_proof,
};
pub(crate) use directions::{Compared, Contradiction, contradiction};

const NUMBER: &str = "a number that is neither in the claim's rule nor a label of an axis";
const WORD: &str = "the claim's rule does not check this word";
const OPPOSITE: &str = "the claim's rule shows the opposite";
const OTHER_METRIC: &str = "the claim's rule tests another metric";
const HIDDEN: &str = "an invisible character inside a word hides it from the checks";
const SHOW: &str = "leave the invisible character out";
const BY_METRIC: &str =
    "name the metric that the rule tests, or add a rule for this one with `all-of`";
const NOTHING: &str =
    "the claim's rule only finds no difference, which does not show that none exists";
const BY_RULE: &str = "let the rule test it, or leave it out: the report prints the sentence if the rule holds, and looks up \
                       every other number";
const BY_SIDE: &str =
    "change the word, or the rule's `side`: `greater` means that side a has the higher value";
const BY_EQUIVALENCE: &str = "use `equivalent` or `not-worse`, which need a margin, or write that the study found no evidence";
const IN_TITLE: &str =
    "a title and a question do not say what was found: leave it out, or declare a claim";

/// Reports the numbers and the words of the sentences of a claim that its rules do not support.
pub(crate) fn wrong_in_claim(
    claim: &Named<Claim>,
    stages: &[KnownStage],
    axes: &[KnownAxis],
) -> Vec<Problem> {
    let settings = &claim.settings;
    let own = (
        vec![Step::Key("says".to_owned())],
        &settings.says,
        &settings.rule,
    );
    let narrower = settings.narrower.iter().enumerate().map(|(i, narrower)| {
        let route = [
            Step::Key("narrower".to_owned()),
            Step::Index(i),
            Step::Key("says".to_owned()),
        ];
        (route.to_vec(), &narrower.says, &narrower.rule)
    });
    let mut problems = Vec::new();
    for (route, says, rule) in std::iter::once(own).chain(narrower) {
        let allowed = Allowed::of(rule, stages, axes);
        let numbers = allowed.wrong(says).into_iter();
        let words = wrong_words(says, rule).into_iter();
        let unproved = unproved_words(says, rule).into_iter();
        let contradicts = directions::of_claim(says, rule, stages).into_iter();
        let contradicts = contradicts.map(|(part, how)| match how {
            Contradiction::Opposite => (part, OPPOSITE, BY_SIDE),
            Contradiction::OtherMetric => (part, OTHER_METRIC, BY_METRIC),
        });
        let hidden = hidden(says).map(|part| (part, HIDDEN, SHOW));
        let wrong = numbers.map(|part| (part, NUMBER, BY_RULE));
        let wrong = wrong.chain(words.map(|part| (part, WORD, BY_RULE)));
        let wrong = wrong.chain(unproved.map(|part| (part, NOTHING, BY_EQUIVALENCE)));
        let wrong = wrong.chain(contradicts).chain(hidden);
        problems.extend(wrong.map(|(part, message, hint)| {
            let message = format!("`{}`: {message}", &says[part.clone()]);
            let problem = Problem {
                route: route.clone(),
                ..Problem::at(&[], message)
            };
            problem
                .hint(hint)
                .part(says, part)
                .in_definition("claims", &claim.name)
        }));
    }
    problems
}

/// Beginnings of words after a share that is an effect.
const EFFECTS: [&str; 17] = [
    "faster", "slower", "higher", "lower", "more", "less", "fewer", "longer", "shorter", "better",
    "worse", "larger", "smaller", "gain", "increase", "drop", "reduc",
];

/// Verbs that state a result.
const CHANGES: [&str; 8] = [
    "doubles", "triples", "halves", "saves", "gains", "improves", "reduces", "cuts",
];

/// Reports what a title or a question of the experiment says of results. A sentence that asks says nothing.
pub(crate) fn wrong_in_title(key: &str, text: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    for sentence in sentences(text) {
        // `2x H100` and `50 % load` are settings; `2x faster` is a result.
        let compares = checked(sentence)
            .iter()
            .any(|(_, word)| FREE.contains(word));
        let changes = |word: &str| CHANGES.contains(&word.to_lowercase().as_str());
        let changes = sentence.split(|c: char| !c.is_alphanumeric()).any(changes);
        if asks(sentence) || !(compares || changes) {
            continue;
        }
        let effects = numerals(sentence).into_iter();
        for effect in effects.filter(|numeral| numeral.is_effect(sentence)) {
            let said = &sentence[effect.range];
            let message = format!("the {key} says `{said}`, without a rule");
            problems.push(Problem::at(&[], message).hint(IN_TITLE));
        }
    }
    problems
}

/// Splits a text into sentences. A stop inside a number or a version does not end one.
pub(crate) fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let ends = text
        .match_indices(['.', '?', '!'])
        .map(|(at, _)| at + 1)
        .filter(|end| text[*end..].starts_with(char::is_whitespace));
    let ends: Vec<usize> = ends.chain([text.len()]).collect();
    let starts = std::iter::once(0).chain(ends.clone());
    starts.zip(ends).map(|(start, end)| text[start..end].trim())
}

/// Whether a sentence asks, directly or not: `Whether a release is slower`.
fn asks(sentence: &str) -> bool {
    const ASKING: [&str; 8] = [
        "how", "what", "when", "where", "whether", "which", "who", "why",
    ];
    let first = sentence.split_whitespace().next().unwrap_or_default();
    let asks_inside = ["whether ", "how much ", "how many "];
    sentence.ends_with('?')
        || ASKING.contains(&first.to_lowercase().as_str())
        || asks_inside.iter().any(|words| sentence.contains(words))
}

/// The numbers and names that a sentence may contain.
#[derive(Default)]
struct Allowed {
    /// The numbers of the rule, and the margins of its tables. Only these may be effects.
    tested: Vec<f64>,
    /// The other numbers: of the settings of the tables, of labels, and how many labels an axis has.
    counted: Vec<f64>,
    /// The shares of the quantiles that the rule reads: `p90` counts nine of ten requests.
    shares: Vec<f64>,
    names: Vec<String>,
}

impl Allowed {
    /// Collects the numbers of a rule and of the tables that it reads, among them margins, and the labels of axes with their
    /// counts.
    fn of(rule: &Rule, stages: &[KnownStage], axes: &[KnownAxis]) -> Self {
        let mut allowed = Self::default();
        let mut tested = serde_json::to_value(rule).unwrap_or_default();
        let mut chosen = Vec::new();
        take_choices(&mut tested, &mut chosen);
        let in_rule = allowed.numbers(&tested);
        allowed.tested.extend(in_rule);
        let in_choices = allowed.numbers(&Json::Array(chosen));
        allowed.counted.extend(in_choices);
        for part in parts(rule) {
            let table = part.place().map(|(table, _)| table).unwrap_or_default();
            allowed.add_settings(table, stages);
        }
        // The settings of the load and of the server are facts of the study.
        for stage in stages {
            let numbers = stage.parameters.iter().flat_map(|p| allowed.numbers(p));
            let numbers: Vec<f64> = numbers.collect();
            allowed.counted.extend(numbers);
        }
        for axis in axes {
            let labels = || axis.labels.iter().chain(&axis.left_out);
            let counts = [axis.labels.len(), labels().count()];
            allowed.counted.extend(counts.map(|count| count as f64));
            for label in labels() {
                let numbers = match label {
                    Scalar::Text(text) => allowed.in_text(text),
                    label => label.as_f64().into_iter().collect(),
                };
                allowed.counted.extend(numbers);
            }
        }
        allowed
    }

    /// Adds the numbers of the settings of a table, such as its margins.
    fn add_settings(&mut self, table: &str, stages: &[KnownStage]) {
        let Some((stage, output)) = table.split_once('.') else {
            return;
        };
        let named = stages.iter().filter(|one| one.stage == stage);
        for parameters in named.flat_map(|one| &one.parameters) {
            let tables = parameters["tables"].as_array().into_iter().flatten();
            for table in tables.filter(|table| table["name"] == output) {
                let margins = self.numbers(&table["parameters"]["margin"]);
                self.tested.extend(margins);
                let others = self.numbers(&table["parameters"]);
                self.counted.extend(others);
            }
        }
    }

    /// Returns the numbers of a value, and adds its texts as names.
    fn numbers(&mut self, value: &Json) -> Vec<f64> {
        match value {
            Json::Number(number) => number.as_f64().into_iter().collect(),
            Json::String(text) => self.in_text(text),
            Json::Array(items) => items.iter().flat_map(|item| self.numbers(item)).collect(),
            Json::Object(fields) => fields
                .values()
                .flat_map(|field| self.numbers(field))
                .collect(),
            Json::Null | Json::Bool(_) => Vec::new(),
        }
    }

    /// Adds a text as a name, with the shares of the quantiles in it, and returns its other numbers.
    fn in_text(&mut self, text: &str) -> Vec<f64> {
        self.names.push(text.to_owned());
        let (names, own): (Vec<Numeral>, Vec<Numeral>) = numerals(text)
            .into_iter()
            .partition(|numeral| numeral.is_name(text));
        // The number in a name, as in `tp4`, is not one that the rule tests.
        self.counted
            .extend(names.iter().filter_map(|numeral| numeral.value));
        let words = text.split(|c: char| !c.is_alphanumeric());
        let percents = words.filter(|word| is_quantile(word));
        for percent in percents.filter_map(|word| word[1..].parse::<f64>().ok()) {
            self.counted.extend([percent, percent / 100.0]);
            self.shares.push(percent / 100.0);
        }
        own.iter().filter_map(|numeral| numeral.value).collect()
    }

    /// Returns the numerals of a sentence that it may not contain.
    fn wrong(&self, says: &str) -> Vec<Range<usize>> {
        let is_named = |range: &Range<usize>| {
            let named = self.names.iter().filter(|name| !name.is_empty());
            named
                .flat_map(|name| says.match_indices(name.as_str()))
                .any(|(at, name)| at <= range.start && range.end <= at + name.len())
        };
        let all = numerals(says);
        // `nine of ten` is a share of both.
        let is_share = |i: usize| {
            let pair = |i: usize| {
                let (a, b) = (all.get(i)?, all.get(i + 1)?);
                let between = &says[a.range.end..b.range.start];
                let of_each = [" of ", " in "].iter().any(|word| between.contains(word));
                let share = a.value? / b.value?;
                Some(of_each && (has(&self.tested, share) || has(&self.shares, share)))
            };
            pair(i) == Some(true) || i.checked_sub(1).and_then(pair) == Some(true)
        };
        let wrong = all.iter().enumerate().filter(|(i, numeral)| {
            let is_number = numeral
                .value
                .is_some_and(|value| self.allows(value, numeral, says));
            let is_name = numeral.is_name(says) || is_part_of_name(says, &numeral.range);
            let is_name = is_name && !numeral.is_effect(says);
            !(is_name || is_number || is_named(&numeral.range) || is_share(*i))
        });
        wrong.map(|(_, numeral)| numeral.range.clone()).collect()
    }

    fn allows(&self, value: f64, numeral: &Numeral, says: &str) -> bool {
        let is_tested = |value: f64| has(&self.tested, value);
        if numeral.is_percent(says) {
            let share = value / 100.0;
            // `90 % of the requests` counts, and `90 % faster` is an effect.
            let next = says[numeral.range.end..]
                .trim_start_matches([' ', '\u{a0}', '\u{202f}', '%'])
                .trim_start_matches("percent")
                .trim_start();
            let is_effect = EFFECTS.iter().any(|word| next.starts_with(word));
            // The slowest 10 % are those above p90.
            if !is_effect && (has(&self.shares, share) || has(&self.shares, 1.0 - share)) {
                return true;
            }
            return [value, share, 1.0 + share, 1.0 - share, share - 1.0]
                .into_iter()
                .any(is_tested);
        }
        if numeral.is_effect(says) {
            return is_tested(value);
        }
        // Seconds and minutes of a bound in ms.
        let times = [1.0, 1e3, 6e4, 1e-3].map(|factor| value * factor);
        is_tested(value)
            || has(&self.counted, value)
            || (numeral.is_time(says) && times.into_iter().any(is_tested))
    }
}

/// Whether a number belongs to a name: it follows a capitalised word inside the sentence, as in `CUDA 12.4` and
/// `Llama 3.1 8B`, or a unit of memory or parameters follows it, as in `24 GB` and `8B`.
fn is_part_of_name(says: &str, range: &Range<usize>) -> bool {
    let before = says[..range.start].trim_end();
    let (earlier, word) = before.rsplit_once(' ').unwrap_or(("", before));
    let follows_name = !earlier.is_empty()
        && word.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit())
        && word.ends_with(char::is_alphanumeric);
    let after = says[range.end..].trim_start();
    let unit = after.split(|c: char| !c.is_ascii_alphanumeric()).next();
    follows_name || unit.is_some_and(|unit| ["B", "GB", "GiB", "TB", "bit"].contains(&unit))
}

/// Takes out the parts of a rule that choose rows or count them. Their numbers are not effects: `where: {clients: 4}` does not
/// test `4x`.
fn take_choices(rule: &mut Json, chosen: &mut Vec<Json>) {
    match rule {
        Json::Object(fields) => {
            chosen.extend(
                ["where", "count"]
                    .iter()
                    .filter_map(|key| fields.remove(*key)),
            );
            fields
                .values_mut()
                .for_each(|value| take_choices(value, chosen));
        }
        Json::Array(items) => items.iter_mut().for_each(|item| take_choices(item, chosen)),
        _ => {}
    }
}

/// Whether a number is one of several, apart from rounding.
fn has(numbers: &[f64], value: f64) -> bool {
    let same = |number: &f64| (number - value).abs() <= 1e-9 * value.abs().max(number.abs());
    numbers.iter().any(same)
}

/// Returns the words of a sentence that no part of its rule allows. A predicate over all rows may say anything of them.
fn wrong_words(says: &str, rule: &Rule) -> Vec<Range<usize>> {
    let parts = parts(rule);
    let free = [RuleKind::Every, RuleKind::NoRow, RuleKind::Holds];
    if parts.iter().any(|part| free.contains(&part.kind())) {
        return Vec::new();
    }
    let words = checked(says).into_iter();
    let wrong = words.filter(|(_, word)| {
        !is_checked_before_number(word) && !parts.iter().any(|part| licenses(part, word))
    });
    wrong.map(|(range, _)| range).collect()
}

/// Returns the words of a sentence that say that there is nothing, if each part of its rule only finds nothing.
fn unproved_words(says: &str, rule: &Rule) -> Vec<Range<usize>> {
    if !parts(rule).iter().all(|part| finds_nothing(part)) {
        return Vec::new();
    }
    let words = checked(says)
        .into_iter()
        .filter(|(_, word)| needs_proof(word));
    words.map(|(range, _)| range).collect()
}

/// Whether a rule holds if a test shows nothing: `verdict = 'no evidence'`, `verdict != 'different'`, `p > 0.05`.
fn finds_nothing(rule: &Rule) -> bool {
    let (that, is_denied) = match rule {
        Rule::Every(r) | Rule::Holds(r) => (&r.that, false),
        Rule::NoRow(r) => (&r.that, true),
        _ => return false,
    };
    // With a further condition, the rule may show what the sentence says.
    if that
        .split_whitespace()
        .any(|word| word.eq_ignore_ascii_case("and"))
    {
        return false;
    }
    let that: String = that.chars().filter(|c| !c.is_whitespace()).collect();
    let has = |parts: &[&str]| parts.iter().any(|part| that.contains(part));
    let shows = ["equivalent", "not_lower", "not_higher"];
    let large_p = |sign: &str| {
        let mut places = that.match_indices(sign).map(|(at, _)| &that[..at]);
        places.any(|before| {
            let name = before
                .rsplit(|c: char| !(c.is_alphanumeric() || c == '_'))
                .next();
            name.is_some_and(|name| name == "p" || name.ends_with("_p") && !name.ends_with("top_p"))
        })
    };
    let nothing = match is_denied {
        true => has(&["verdict='different'"]) || large_p("<"),
        false => has(&["'noevidence'", "'undecidable'", "verdict!='different'"]) || large_p(">"),
    };
    nothing && !has(&shows)
}

/// Returns the rules that a rule consists of.
fn parts(rule: &Rule) -> Vec<&Rule> {
    match rule {
        Rule::AllOf(all) | Rule::AnyOf(all) => all.iter().flat_map(parts).collect(),
        one => vec![one],
    }
}

#[cfg(test)]
mod tests {
    use pipeline::stage::KnownTable;
    use serde_json::json;

    use super::*;

    /// The parts of a claim's sentence that are refused. Its table has a margin of 5 %, and the axes have 1, 2, 4 clients and
    /// five workloads.
    fn refused(says: &str, rule: &Json) -> Vec<String> {
        let claim = Named {
            name: "c".to_owned(),
            settings: serde_json::from_value(json!({"says": says, "rule": rule})).unwrap(),
        };
        let stages = [KnownStage {
            stage: "results".to_owned(),
            tables: Some(vec![KnownTable {
                name: "comparison".to_owned(),
                columns: None,
                axes: Vec::new(),
            }]),
            parameters: vec![json!({"tables": [
                {"name": "comparison", "parameters": {"margin": {"output_throughput": 0.05}, "alpha": 0.1}},
            ]})],
        }];
        let axis = |name: &str, labels: Vec<Scalar>| KnownAxis {
            name: name.to_owned(),
            labels,
            left_out: Vec::new(),
        };
        let text = |label: &str| Scalar::Text(label.to_owned());
        let axes = [
            axis("clients", [1, 2, 4].map(Scalar::Int).to_vec()),
            axis(
                "workload",
                ["a", "b", "c", "balanced_2k", "e"].map(text).to_vec(),
            ),
        ];
        let problems = wrong_in_claim(&claim, &stages, &axes).into_iter();
        let part = |problem: Problem| {
            let part = problem.part.unwrap().1;
            says[part].to_owned()
        };
        problems.map(part).collect()
    }

    #[test]
    fn a_claim_says_only_numbers_of_its_rule_and_labels() {
        let table = "results.comparison";
        let different = json!({"different": {"table": table, "side": "greater"}});
        let of_four =
            json!({"different": {"table": table, "where": {"clients": 4}, "side": "greater"}});
        let exactly =
            json!({"exactly": {"table": table, "that": "verdict = 'different'", "count": 3}});
        let bound = json!({"every": {"table": table, "that": "e2e_latency_ms_p90 < 700"}});
        let effect = json!({"every": {"table": table, "that": "effect > 1.25"}});
        let none: [&str; 0] = [];
        for (says, rule, wrong) in [
            (
                "Four clients deliver 400 % more throughput than one.",
                &different,
                &["400"][..],
            ),
            (
                "Four clients deliver 4x as much as one.",
                &different,
                &["4x"],
            ),
            ("Two clients are twice as fast.", &different, &["twice"]),
            ("Four clients deliver 4x as much.", &of_four, &["4x"]),
            ("Four clients deliver more.", &of_four, &none),
            (
                "Four clients deliver more than one, on an A100 with vLLM 0.10.2.",
                &different,
                &none,
            ),
            ("On balanced_2k they agree within 5 %.", &different, &none),
            (
                "On balanced_2k they agree within 10 %.",
                &different,
                &["10"],
            ),
            ("They differ on three of five workloads.", &exactly, &none),
            ("They differ on seven workloads.", &exactly, &["seven"]),
            ("Nine requests of ten end within 700 ms.", &bound, &none),
            ("Nine of ten requests end within 0.7 s, p90.", &bound, &none),
            ("Nine of ten requests end within 600 ms.", &bound, &["600"]),
            // The number of a quantile is not an effect.
            ("90 % of requests end within 700 ms.", &bound, &none),
            ("Requests are 90 % faster.", &bound, &["90"]),
            (
                "Requests are 90x faster, or 10 % slower.",
                &bound,
                &["90x", "10"],
            ),
            ("They are 25 % higher.", &effect, &none),
            ("They are 30 % higher.", &effect, &["30"]),
        ] {
            assert_eq!(refused(says, rule), wrong, "{says}");
        }
    }

    #[test]
    fn a_claim_says_only_words_that_its_rule_checks() {
        let table = "results.comparison";
        let least = json!({"at-least": {"table": table, "that": "effect > 1", "count": 2}});
        assert_eq!(refused("All of them are faster.", &least), ["All"]);
        assert_eq!(refused("Most of them are faster.", &least), [""; 0]);
        let every = json!({"every": {"table": table, "that": "effect > 1"}});
        assert_eq!(refused("It never falls below one.", &every), [""; 0]);
    }

    #[test]
    fn a_rule_that_finds_nothing_does_not_show_that_there_is_nothing() {
        let rule =
            |kind: &str, that: &str| json!({kind: {"table": "results.comparison", "that": that}});
        for (kind, that, wrong) in [
            ("every", "verdict = 'no evidence'", true),
            ("holds", "verdict != 'different'", true),
            ("every", "holm_p > 0.05", true),
            ("no-row", "verdict = 'different'", true),
            ("no-row", "p < 0.05", true),
            ("every", "verdict = 'equivalent'", false),
            (
                "every",
                "verdict != 'different' and equivalent = true",
                false,
            ),
            ("every", "errors_a = errors_b", false),
            ("every", "effect > 1", false),
            ("no-row", "effect < 1", false),
        ] {
            let rule = rule(kind, that);
            let refused_part = if wrong { &["no difference"][..] } else { &[] };
            assert_eq!(
                refused("There is no difference.", &rule),
                refused_part,
                "{kind} {that}"
            );
            assert_eq!(
                refused("There is no evidence of one.", &rule),
                [""; 0],
                "{that}"
            );
        }
        let shown = json!({"holds": {"table": "results.comparison", "that": "verdict = 'different' and higher = 'x'"}});
        assert_eq!(refused("It is no slower.", &shown), [""; 0]);
    }

    #[test]
    fn a_superlative_names_the_end_that_its_rule_shows() {
        let rule =
            |kind: &str, column: &str| json!({kind: {"table": "results.means", "column": column}});
        for (kind, column, fastest) in [
            ("largest", "output_throughput_mean", true),
            ("smallest", "output_throughput_mean", false),
            ("largest", "ttft_ms_p50_mean", false),
            ("smallest", "ttft_ms_p50_mean", true),
        ] {
            let rule = rule(kind, column);
            let (right, wrong) = match fastest {
                true => ("the fastest, the best", "slowest"),
                false => ("the slowest, the worst", "fastest"),
            };
            assert_eq!(refused(right, &rule), [""; 0], "{kind} {column}");
            assert_eq!(refused(wrong, &rule), [wrong], "{kind} {column}");
        }
        // Only its author knows which end of another column is better.
        for column in ["utilization", "output_throughput_ratio"] {
            let rule = rule("largest", column);
            assert_eq!(refused("The best, the worst.", &rule), [""; 0]);
        }
    }

    #[test]
    fn a_title_says_nothing_of_results() {
        for (text, count) in [
            ("Shared prefix is 2x faster", 1),
            ("vLLM 0.10 on 2x H100", 0),
            ("Latency at 50 % load, with 90 % shared prefix", 0),
            ("Batching doubles the throughput", 1),
            ("A prefix cache saves 30 %", 1),
            ("Is a shared prefix 2x faster?", 0),
            ("Whether a release is slower", 0),
            (
                "vLLM 0.10.2 against SGLang 0.5.12.post1 on one A100 80GB PCIe",
                0,
            ),
            ("Four engines, six models, one tokenizer each", 0),
            (
                "A server waits 50 ms. Does it wait longer, and which is better?",
                0,
            ),
        ] {
            assert_eq!(wrong_in_title("title", text).len(), count, "{text}");
        }
    }
}
