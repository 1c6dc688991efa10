//! The direction that a sentence states: *faster* contradicts a rule that shows the opposite, and *more tokens per second*
//! contradicts a rule about latencies.
//!
//! Only sentences that can be read in one way are judged: with one word of direction and no denial. To state the
//! opposite, a sentence also needs one side as its subject.

use std::ops::Range;

use contract::Better;
use pipeline::stage::{Json, KnownStage};

use crate::settings::OneOrMany;
use crate::statement::{Rule, Side, better_of_metric};

/// What a word says of the subject of its sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    /// The subject is better (`true`) or worse.
    Good(bool),
    /// A value of the subject is higher (`true`) or lower.
    High(bool),
    /// The subject takes more time (`true`) or less.
    Long(bool),
}

const WORDS: [(&str, Says); 20] = [
    ("faster", Says::Good(true)),
    ("better", Says::Good(true)),
    ("superior", Says::Good(true)),
    ("outperforms", Says::Good(true)),
    ("outperform", Says::Good(true)),
    ("outperformed", Says::Good(true)),
    ("beats", Says::Good(true)),
    ("slower", Says::Good(false)),
    ("worse", Says::Good(false)),
    ("inferior", Says::Good(false)),
    ("higher", Says::High(true)),
    ("more", Says::High(true)),
    ("larger", Says::High(true)),
    ("greater", Says::High(true)),
    ("lower", Says::High(false)),
    ("less", Says::High(false)),
    ("fewer", Says::High(false)),
    ("smaller", Says::High(false)),
    ("longer", Says::Long(true)),
    ("shorter", Says::Long(false)),
];

/// Words before a side that is not the subject.
const NOT_SUBJECT: [&str; 14] = [
    "than",
    "from",
    "without",
    "unlike",
    "against",
    "over",
    "versus",
    "vs",
    "to",
    "by",
    "outperform",
    "outperforms",
    "outperformed",
    "beats",
];

/// Words after which a sentence may say the opposite of its words.
const DENIALS: [&str; 34] = [
    "accept",
    "accepts",
    "since",
    "because",
    "not",
    "no",
    "nor",
    "neither",
    "never",
    "cannot",
    "without",
    "hardly",
    "isn",
    "doesn",
    "off",
    "disabling",
    "disabled",
    "removing",
    "removed",
    "replacing",
    "replaced",
    "switching",
    "avoids",
    "avoid",
    "spares",
    "saves",
    "save",
    "saved",
    "fails",
    "far",
    "trades",
    "despite",
    "instead",
    "though",
];

/// Words before a state that the subject is in, and not a result: *at higher load*.
const OF_STATES: [&str; 5] = ["at", "under", "with", "despite", "of"];

/// Words that end the quantity after a word of direction.
const STOPS: [&str; 18] = [
    "than", "in", "on", "at", "for", "with", "by", "over", "under", "when", "if", "as", "and",
    "to", "of", "from", "because", "which",
];

/// Labels that are also common words.
const COMMON: [&str; 8] = ["on", "off", "yes", "no", "with", "without", "a", "in"];

/// Words that name a rate, of which more is better, and words that name a time.
const RATES: [&str; 2] = ["throughput", "rate"];
const COUNTED: [&str; 5] = ["tok", "token", "tokens", "request", "requests"];
const TIMES: [&str; 8] = [
    "latency", "wait", "time", "ttft", "tpot", "itl", "e2e", "delay",
];

/// Nouns of one kind of metric only. *Rate* and *time* also name settings.
const TIMES_ALONE: [&str; 5] = ["latency", "ttft", "tpot", "itl", "e2e"];

/// What a comparison shows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Compared {
    /// The labels of its sides.
    pub(crate) a: String,
    /// See [`Self::a`].
    pub(crate) b: String,
    /// Whether side a has the higher value.
    pub(crate) a_is_higher: bool,
    /// Which values of its metric are better.
    pub(crate) better: Better,
}

/// How a sentence contradicts a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contradiction {
    /// It states the other direction.
    Opposite,
    /// It states the direction of another metric.
    OtherMetric,
}

/// Returns the word of a claim that contradicts its rule, if there is one.
pub(super) fn of_claim(
    says: &str,
    rule: &Rule,
    stages: &[KnownStage],
) -> Option<(Range<usize>, Contradiction)> {
    let Rule::Different(tested) = rule else {
        return None;
    };
    let a_is_higher = match tested.side {
        Side::Greater => true,
        Side::Less => false,
        Side::Either => return None,
    };
    let parameters = parameters(&tested.table, stages)?;
    let side = |key: &str| Some(parameters["pair"][key].as_str()?.to_owned());
    let compared = Compared {
        a: side("a")?,
        b: side("b")?,
        a_is_higher,
        better: direction(tested.only.get("metric"), parameters)?,
    };
    contradiction(says, &compared)
}

/// Returns the word of a sentence that contradicts a comparison, if there is one.
pub(crate) fn contradiction(
    says: &str,
    compared: &Compared,
) -> Option<(Range<usize>, Contradiction)> {
    let better = compared.better;
    let words: Vec<Range<usize>> = words(says);
    let lower = |range: &Range<usize>| says[range.clone()].to_lowercase();
    if words.iter().any(|word| DENIALS.contains(&&*lower(word))) {
        return None;
    }
    let stated = words.iter().enumerate().filter_map(|(i, word)| {
        let word = lower(word);
        let (_, says) = WORDS.iter().find(|(own, _)| *own == word)?;
        Some((i, *says))
    });
    let [(at, stated)] = stated.collect::<Vec<_>>()[..] else {
        return None;
    };
    // `is outperformed by` has its subject behind it.
    if words.get(at + 1).is_some_and(|next| lower(next) == "by") {
        return None;
    }
    let article = |word: &str| ["a", "an", "the"].contains(&word);
    let before = words[..at]
        .iter()
        .rev()
        .map(lower)
        .find(|word| !article(word));
    if before.is_some_and(|word| OF_STATES.contains(&&*word)) {
        return None;
    }
    let from = words[at].end;
    let end = says[from..]
        .find([',', ';', ':', '('])
        .map_or(says.len(), |i| from + i);
    let quantity: Vec<String> = words[at + 1..]
        .iter()
        .take_while(|word| word.start < end)
        .map(lower)
        .take_while(|word| !STOPS.contains(&&**word))
        .take(4)
        .collect();
    let names = |nouns: &[&str]| quantity.iter().any(|word| nouns.contains(&&**word));
    let is_rate = names(&RATES) || names(&COUNTED) && names(&["second", "s"]);
    let is_of_metric = match better {
        Better::Higher => is_rate && !names(&TIMES),
        Better::Lower => names(&TIMES) && !is_rate,
    };
    if of_other_metric(&quantity, better) {
        return Some((words[at].clone(), Contradiction::OtherMetric));
    }
    let is_a = subject_is_a(says, &compared.a, &compared.b)?;
    let subject_is_higher = is_a == compared.a_is_higher;
    let subject_is_better = subject_is_higher == (better == Better::Higher);
    // The object of a verb is the other side.
    let is_verb = lower(&words[at]).starts_with("outperform") || lower(&words[at]) == "beats";
    let of_rule = is_verb || quantity.is_empty() || is_of_metric;
    let agrees = match stated {
        Says::Good(good) if of_rule => good == subject_is_better,
        Says::High(high) if is_of_metric => high == subject_is_higher,
        Says::Long(long) if of_rule && better == Better::Lower => long == subject_is_higher,
        Says::Good(_) | Says::High(_) | Says::Long(_) => true,
    };
    (!agrees).then(|| (words[at].clone(), Contradiction::Opposite))
}

/// Whether a quantity ends with the name of a metric of the other kind: a rate, if less is better.
fn of_other_metric(quantity: &[String], better: Better) -> bool {
    // `TTFT p99` ends with its metric.
    let last = quantity.iter().rposition(|word| word != "p");
    let Some(last) = last.map(|at| quantity[at].as_str()) else {
        return false;
    };
    let counts = quantity.iter().any(|word| COUNTED.contains(&&**word));
    match better {
        Better::Higher => TIMES_ALONE.contains(&last),
        Better::Lower => last == "throughput" || counts && matches!(last, "second" | "s"),
    }
}

/// Returns the parameters of a comparison.
fn parameters<'a>(table: &str, stages: &'a [KnownStage]) -> Option<&'a Json> {
    let (stage, output) = table.split_once('.')?;
    let named = stages.iter().filter(|one| one.stage == stage);
    let tables = named.flat_map(|one| &one.parameters);
    let mut tables = tables.flat_map(|p| p["tables"].as_array().into_iter().flatten());
    Some(&tables.find(|table| table["name"] == output)?["parameters"])
}

/// Returns which direction of the tested metrics is better, if it is known and the same for all.
fn direction(chosen: Option<&OneOrMany>, parameters: &Json) -> Option<Better> {
    let chosen = match chosen {
        Some(metrics) => serde_json::to_value(metrics).ok()?,
        None => parameters["columns"].clone(),
    };
    let metrics = match &chosen {
        Json::Array(metrics) => metrics.iter().collect(),
        one => vec![one],
    };
    let mut directions = metrics
        .iter()
        .map(|metric| better_of_metric(metric.as_str()?));
    let first = directions.next()??;
    directions
        .all(|other| other == Some(first))
        .then_some(first)
}

/// Whether the subject of a sentence is side a of a comparison; `None` if the sentence does not say.
fn subject_is_a(says: &str, a: &str, b: &str) -> Option<bool> {
    let common = |label: &str| COMMON.contains(&label.to_lowercase().as_str());
    if a.is_empty() || b.is_empty() || common(a) || common(b) {
        return None;
    }
    let places = |label: &str| -> Vec<bool> {
        let says = says.to_lowercase();
        let label = label.to_lowercase();
        let joins = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
        let whole = |at: &usize| {
            !says[..*at].ends_with(joins) && !says[at + label.len()..].starts_with(joins)
        };
        let mentions = says.match_indices(&label).map(|(at, _)| at).filter(whole);
        mentions.map(|at| is_subject(&says[..at])).collect()
    };
    let (of_a, of_b) = (places(a), places(b));
    let only =
        |places: &[bool], subject: bool| !places.is_empty() && places.iter().all(|p| *p == subject);
    match () {
        () if only(&of_a, true) && (of_b.is_empty() || only(&of_b, false)) => Some(true),
        () if only(&of_b, true) && (of_a.is_empty() || only(&of_a, false)) => Some(false),
        // Of two sides, what is compared with one is the other.
        () if of_a.is_empty() && only(&of_b, false) && says.contains(" than ") => Some(true),
        () if of_b.is_empty() && only(&of_a, false) && says.contains(" than ") => Some(false),
        () => None,
    }
}

/// Whether a side that follows this text is the subject: no word such as *than* precedes it, apart from an article.
fn is_subject(before: &str) -> bool {
    let mut words: Vec<&str> = before
        .split(|c: char| !c.is_alphanumeric())
        .filter(|w| !w.is_empty())
        .collect();
    while words
        .last()
        .is_some_and(|word| ["the", "a", "an"].contains(word))
    {
        words.pop();
    }
    let last = words.last();
    let phrases = [
        ["compared", "with"],
        ["instead", "of"],
        ["ahead", "of"],
        ["because", "of"],
    ];
    let compared = phrases.iter().any(|phrase| words.ends_with(phrase));
    !compared && last.is_none_or(|word| !NOT_SUBJECT.contains(word))
}

fn words(text: &str) -> Vec<Range<usize>> {
    crate::check::letter_runs(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the word that contradicts a comparison of *batched* with *serial*.
    fn wrong<'a>(says: &'a str, metric: &str, side: &str) -> Option<&'a str> {
        let rule = json!({"different": {"table": "results.comparison", "where": {"metric": metric}, "side": side}});
        let stages = [KnownStage {
            stage: "results".to_owned(),
            tables: None,
            parameters: vec![json!({"tables": [{"name": "comparison", "parameters": {
                "pair": {"axis": "configuration", "a": "batched", "b": "serial"},
                "columns": ["output_throughput", "ttft_ms_p50"],
            }}]})],
        }];
        let rule = serde_json::from_value(rule).unwrap();
        of_claim(says, &rule, &stages).map(|(range, _)| &says[range])
    }

    #[test]
    fn a_word_about_another_metric_than_that_of_the_rule_is_returned() {
        for (says, metric, word) in [
            (
                "The batched server has the higher throughput.",
                "ttft_ms_p50",
                "higher",
            ),
            (
                "The batched server delivers more tokens per second.",
                "ttft_ms_p50",
                "more",
            ),
            ("It has the lower latency.", "output_throughput", "lower"),
            (
                "The batched server has a shorter TTFT p99 than the serial one.",
                "output_throughput",
                "shorter",
            ),
        ] {
            assert_eq!(wrong(says, metric, "either"), None, "{says}");
            assert_eq!(wrong(says, metric, "less"), Some(word), "{says}");
            assert_eq!(wrong(says, metric, "greater"), Some(word), "{says}");
        }
        for (says, metric) in [
            (
                "A larger latency budget helps batched.",
                "output_throughput",
            ),
            ("At a lower latency, they differ.", "output_throughput"),
            ("More tokens reach batched servers.", "ttft_ms_p50"),
            ("With higher throughput goes a cost.", "ttft_ms_p50"),
            (
                "Under more requests per second, they differ.",
                "ttft_ms_p50",
            ),
            (
                "A smaller time slice gives batched the lead.",
                "output_throughput",
            ),
        ] {
            assert_eq!(wrong(says, metric, "less"), None, "{says}");
            assert_eq!(wrong(says, metric, "greater"), None, "{says}");
        }
    }

    #[test]
    fn a_word_that_states_the_opposite_of_its_rule_is_returned() {
        for (says, metric, side, word) in [
            (
                "The batched server is slower.",
                "output_throughput",
                "greater",
                "slower",
            ),
            (
                "The batched server is faster.",
                "output_throughput",
                "less",
                "faster",
            ),
            (
                "The batched server is faster.",
                "ttft_ms_p50",
                "greater",
                "faster",
            ),
            (
                "The serial server is faster than the batched one.",
                "output_throughput",
                "greater",
                "faster",
            ),
            (
                "Serial outperforms batched.",
                "ttft_ms_p50",
                "less",
                "outperforms",
            ),
            (
                "The batched server has the lower throughput.",
                "output_throughput",
                "greater",
                "lower",
            ),
            (
                "The serial server delivers more tokens per second than the batched one.",
                "output_throughput",
                "greater",
                "more",
            ),
            (
                "The first token takes longer on the batched server.",
                "ttft_ms_p50",
                "less",
                "longer",
            ),
            (
                "Batched has a higher latency than serial.",
                "e2e_latency_ms_p99",
                "less",
                "higher",
            ),
            (
                "Requests wait for less time on the serial server.",
                "ttft_ms_p50",
                "less",
                "less",
            ),
            (
                "It is slower than the serial server.",
                "output_throughput",
                "greater",
                "slower",
            ),
            (
                "The throughput of the batched server is worse.",
                "output_throughput",
                "greater",
                "worse",
            ),
        ] {
            assert_eq!(wrong(says, metric, side), Some(word), "{says}");
            let other = if side == "less" { "greater" } else { "less" };
            assert_eq!(wrong(says, metric, other), None, "{says}");
        }
    }

    #[test]
    fn what_can_be_read_in_another_way_is_not_judged() {
        for says in [
            "The batched server is not slower.",
            "The batched server is never slower than the serial one.",
            "Serial is outperformed by batched.",
            "Moving from serial to batched is slower.",
            "Compared with batched, batched and serial are slower.",
            "The two servers differ.",
            "It is slower.",
            // Another quantity than the rule's.
            "The batched server needs less memory.",
            "The batched server is slower at first, then faster.",
            "The batched-only server is slower.",
            // Fewer tokens, more of something else.
            "The batched server needs more launches.",
            "The batched server wins on the slower host.",
            "The batched server needs fewer steps per second.",
            "The lower precision of batched raises throughput.",
            "Smaller weights let the batched server raise its throughput.",
            "Removing batched makes the server slower.",
            "At a lower request rate, the batched server falls behind.",
            "With fewer clients, the batched server has an advantage.",
        ] {
            assert_eq!(wrong(says, "output_throughput", "greater"), None, "{says}");
        }
        for says in [
            "With more clients, the batched server cuts the time to the first token.",
            "At higher load, batched reduces the time to the first token.",
            "The batched server answers longer prompts sooner.",
            "The batched server saves more time.",
            "Despite its larger cache, batched cuts the time to the first token.",
        ] {
            assert_eq!(wrong(says, "ttft_ms_p50", "less"), None, "{says}");
        }
        // A metric whose good direction only the author knows.
        assert_eq!(wrong("Batched is slower.", "efficiency", "greater"), None);
        assert_eq!(
            wrong("Batched is slower.", "output_throughput", "either"),
            None
        );
    }
}
