//! Checks a workload for mistakes that its schema does not find.

use super::definition::{Output, OutputMode, PromptSource, Workload};
use super::length::{Count, Length, Range, Unit};
use super::sessions::{Think, ThinkDrawn, Turns, TurnsDrawn};

/// Mistakes: the keys that lead to each, and its description.
pub(crate) type Problems = Vec<(Vec<String>, String)>;

/// More turns than this are a mistake, not a session.
const MAX_TURNS: u32 = 10_000;

impl Workload {
    /// Returns the mistakes that the schema does not find: the keys that lead there, and a message.
    pub(crate) fn problems(&self) -> Problems {
        let mut check = Check {
            tokenizer: self.tokenizer.is_some(),
            problems: Vec::new(),
        };
        check.source(&self.prompts, &mut vec!["prompts".to_owned()]);
        // The API decides whether an output of none is a mistake.
        if !self.output.is_none() {
            check.output(&self.output, &["output".to_owned()]);
        }
        if let Some(documents) = &self.documents {
            let route = ["documents".to_owned()];
            check.count(
                &documents.count,
                1,
                &[&route[..], &["count".to_owned()]].concat(),
            );
            check.length(&documents.length, &route, "length");
        }
        if !(self.sampling.temperature.is_finite() && self.sampling.temperature >= 0.0) {
            let message = format!(
                "temperature must be 0 or more, got {}",
                self.sampling.temperature
            );
            check.say(&["sampling".to_owned(), "temperature".to_owned()], message);
        }
        check.sessions(self);
        check.batch(self);
        if let Some(structured) = &self.structured {
            let route = ["structured".to_owned()];
            if structured.schema.is_some() == structured.file.is_some() {
                check.say(
                    &route,
                    "structured output takes either `schema` or `file`".to_owned(),
                );
            }
            if let Some(Err(error)) = structured
                .schema
                .as_ref()
                .map(crate::structured::Validator::new)
            {
                check.say(&[&route[..], &["schema".to_owned()]].concat(), error);
            }
            if self.asks_exactly() {
                let message =
                    "structured output ends where its schema ends, so `mode: exact` is impossible";
                check.say(
                    &["output".to_owned(), "mode".to_owned()],
                    message.to_owned(),
                );
            }
        }
        check.problems
    }

    fn asks_exactly(&self) -> bool {
        fn within(source: &PromptSource) -> bool {
            let PromptSource::Mixture(parts) = source else {
                return false;
            };
            let exact = |output: &Option<Output>| {
                output.as_ref().is_some_and(|o| o.mode == OutputMode::Exact)
            };
            parts
                .iter()
                .any(|part| exact(&part.output) || within(&part.prompts))
        }
        self.output.mode == OutputMode::Exact || within(&self.prompts)
    }
}

struct Check {
    /// Whether the workload has a tokenizer.
    tokenizer: bool,
    problems: Problems,
}

impl Check {
    fn say(&mut self, route: &[String], message: String) {
        self.problems.push((route.to_vec(), message));
    }

    fn count(&mut self, count: &Count, least: u32, route: &[String]) {
        let (from, to) = count.ends();
        if from > to {
            self.say(route, format!("the range from {from} to {to} is empty"));
        } else if from < least {
            let key = route.last().map_or("", String::as_str);
            self.say(
                route,
                format!("`{key}` must be at least {least}, got {from}"),
            );
        }
    }

    fn length(&mut self, length: &Length, route: &[String], key: &str) {
        let route = [route, &[key.to_owned()]].concat();
        let (unit, count) = length.parts();
        self.count(count, 1, &route);
        if unit == Unit::Tokens {
            self.needs_tokenizer(&route, "a length in tokens");
        }
    }

    fn needs_tokenizer(&mut self, route: &[String], what: &str) {
        if !self.tokenizer {
            self.say(
                route,
                format!(
                    "{what} needs something that counts tokens: add `tokenizer: {{file: tokenizer.json}}` or \
                     `tokenizer: {{server: {{}}}}` to the workload, or give the length in words or characters"
                ),
            );
        }
    }

    fn output(&mut self, output: &Output, route: &[String]) {
        self.count(&output.tokens, 1, &[route, &["tokens".to_owned()]].concat());
    }

    fn source(&mut self, source: &PromptSource, route: &mut Vec<String>) {
        let depth = route.len();
        match source {
            PromptSource::Words(words) => {
                route.push("words".to_owned());
                self.length(&words.length, route, "length");
            }
            PromptSource::SharedPrefix(shared) => {
                route.push("shared-prefix".to_owned());
                self.length(&shared.prefix, route, "prefix");
                self.length(&shared.suffix, route, "suffix");
                if shared.prefixes == 0 {
                    self.say(route, "there must be at least one prefix".to_owned());
                }
                if !(0.0..=1.0).contains(&shared.fraction) {
                    self.say(
                        route,
                        format!("fraction must be from 0 to 1, got {}", shared.fraction),
                    );
                }
            }
            PromptSource::Mixture(parts) => {
                route.push("mixture".to_owned());
                if parts.iter().map(|p| u64::from(p.weight)).sum::<u64>() == 0 {
                    self.say(route, "the weights must add up to more than 0".to_owned());
                }
                for part in parts {
                    self.source(&part.prompts, route);
                    if let Some(output) = &part.output {
                        self.output(output, route);
                    }
                }
            }
            PromptSource::Pack(pack) => {
                route.push("pack".to_owned());
                // A pinned pack has only the digest of its file.
                if (pack.file.is_some() || pack.digest.is_some()) != pack.texts.is_empty() {
                    self.say(route, "a pack takes either `file` or `texts`".to_owned());
                }
            }
            PromptSource::Corpus(corpus) => {
                route.push("corpus".to_owned());
                self.length(&corpus.length, route, "length");
            }
            PromptSource::Dataset(dataset) => {
                route.push("dataset".to_owned());
                if dataset.recorded_output {
                    self.needs_tokenizer(
                        &[&route[..], &["recorded-output".to_owned()]].concat(),
                        "this",
                    );
                }
            }
            PromptSource::Trace(trace) => {
                route.push("trace".to_owned());
                if !(trace.words_per_token.is_finite() && trace.words_per_token > 0.0) {
                    let given = trace.words_per_token;
                    self.say(
                        route,
                        format!("words-per-token must be above 0, got {given}"),
                    );
                }
            }
        }
        route.truncate(depth);
    }

    fn sessions(&mut self, workload: &Workload) {
        let Some(sessions) = &workload.sessions else {
            return;
        };
        let route = |key: &str| vec!["sessions".to_owned(), key.to_owned()];
        match &sessions.turns {
            None if !matches!(workload.prompts, PromptSource::Dataset(_)) => {
                self.say(
                    &["sessions".to_owned()],
                    "the number of `turns` in a session is missing".to_owned(),
                );
            }
            None => {}
            Some(Turns::Fixed(n)) => self.turns(*n, *n, &route("turns")),
            Some(Turns::Range(Range { from, to })) => self.turns(*from, *to, &route("turns")),
            Some(Turns::Drawn(TurnsDrawn::Geometric(mean)))
                if !(1.0..=f64::from(MAX_TURNS)).contains(mean) =>
            {
                let message = format!("a mean of turns must be from 1 to {MAX_TURNS}, got {mean}");
                self.say(&route("turns"), message);
            }
            Some(Turns::Drawn(TurnsDrawn::Geometric(_))) => {}
        }
        match &sessions.think_time {
            Think::Range(range) if range.from > range.to => {
                let message = format!("the range from {} to {} is empty", range.from, range.to);
                self.say(&route("think-time"), message);
            }
            Think::Range(_) | Think::Fixed(_) | Think::Drawn(ThinkDrawn::Exponential(_)) => {}
        }
        match &sessions.follow_up {
            Some(source) => {
                let mut at = route("follow-up");
                self.source(source, &mut at);
                if !is_drawn(source) {
                    self.say(&at, GIVEN.to_owned());
                }
            }
            None if !is_drawn(&workload.prompts)
                && !matches!(workload.prompts, PromptSource::Dataset(_)) =>
            {
                self.say(
                    &["sessions".to_owned()],
                    format!("{GIVEN}: add `follow-up`"),
                );
            }
            None => {}
        }
        if matches!(workload.prompts, PromptSource::Mixture(_)) && !is_drawn(&workload.prompts) {
            self.say(
                &["prompts".to_owned()],
                "a mixture of sessions may contain only parts with random text".to_owned(),
            );
        }
    }

    fn batch(&mut self, workload: &Workload) {
        let route = ["batch-size".to_owned()];
        let size = workload.batch_size;
        if !(1..=MAX_BATCH).contains(&size) {
            let message = format!("`batch-size` must be from 1 to {MAX_BATCH}, got {size}");
            self.say(&route, message);
        } else if size > 1 && replays(&workload.prompts) {
            let message = "a row of a trace is one request with one text, so `batch-size` does not apply; remove it, or \
                 draw the texts from another source";
            self.say(&route, message.to_owned());
        }
    }

    fn turns(&mut self, from: u32, to: u32, route: &[String]) {
        self.count(&Count::Range(Range { from, to }), 1, route);
        if to > MAX_TURNS {
            self.say(route, format!("at most {MAX_TURNS} turns, got {to}"));
        }
    }
}

/// The most texts in one request.
const MAX_BATCH: u32 = 65_536;

/// Returns whether prompts come from a trace.
fn replays(source: &PromptSource) -> bool {
    match source {
        PromptSource::Trace(_) => true,
        PromptSource::Mixture(parts) => parts.iter().any(|part| replays(&part.prompts)),
        _ => false,
    }
}

const GIVEN: &str = "the turns after the first are drawn from `words`, `shared-prefix`, `corpus` or a mixture of them";

/// Returns whether a source can make any number of prompts.
fn is_drawn(source: &PromptSource) -> bool {
    match source {
        PromptSource::Words(_) | PromptSource::SharedPrefix(_) | PromptSource::Corpus(_) => true,
        PromptSource::Mixture(parts) => parts.iter().all(|part| is_drawn(&part.prompts)),
        PromptSource::Pack(_) | PromptSource::Dataset(_) | PromptSource::Trace(_) => false,
    }
}
