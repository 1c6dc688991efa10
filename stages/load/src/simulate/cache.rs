//! The prefix cache of a simulated server.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The number of tokens in a block of the prefix cache. Prompts without a common prefix share less than a block.
const BLOCK: u64 = 16;

/// A prompt as a prefix cache sees it.
#[derive(Clone, Debug)]
pub(super) struct Cacheable {
    /// The number of the prefix that the workload shares between prompts, if any.
    pub(super) prefix: Option<u32>,
    /// The requested model. The caches of a model and its adapters are separate.
    pub(super) model: Option<String>,
    pub(super) text: String,
}

/// What is cached as a whole: the last prompt of a numbered prefix, or a prompt by model and text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Entry<'a> {
    Prefix(u32),
    Text(Option<&'a str>, &'a str),
}

/// Of a numbered prefix, the cache holds the last prompt. Of other prompts, it holds all. If it has a limit, the
/// prompts that were prefilled the longest ago leave first.
#[derive(Debug)]
pub(super) struct Cache<'a> {
    most: Option<u64>,
    prefixes: HashMap<u32, &'a str>,
    texts: BTreeSet<(Option<&'a str>, &'a str)>,
    /// The entries by age, with their tokens, and the age of each.
    by_age: BTreeMap<u64, (Entry<'a>, u64)>,
    ages: HashMap<Entry<'a>, u64>,
    tokens: u64,
    next: u64,
}

fn common_bytes(a: &str, b: &str) -> usize {
    let pairs = a.bytes().zip(b.bytes());
    pairs.take_while(|(a, b)| a == b).count()
}

impl<'a> Cache<'a> {
    pub(super) fn new(most: Option<u64>) -> Self {
        Self {
            most,
            prefixes: HashMap::new(),
            texts: BTreeSet::new(),
            by_age: BTreeMap::new(),
            ages: HashMap::new(),
            tokens: 0,
            next: 0,
        }
    }

    /// Returns how many tokens of a prompt are in the cache, and never the complete prompt. Of prompts without a
    /// numbered prefix, only complete blocks count.
    pub(super) fn share(&self, prompt: &Cacheable, prompt_tokens: u64) -> u64 {
        let share =
            |common: usize| prompt_tokens * common as u64 / (prompt.text.len() as u64).max(1);
        let cached = match prompt.prefix {
            Some(prefix) => self
                .prefixes
                .get(&prefix)
                .map_or(0, |earlier| share(common_bytes(&prompt.text, earlier))),
            None => share(self.longest_common(prompt)) / BLOCK * BLOCK,
        };
        cached.min(prompt_tokens.saturating_sub(1))
    }

    /// Returns how many bytes a prompt shares with the earlier prompt that has the longest prefix in common with it. In
    /// the order of the texts, that one is right before or right after it.
    fn longest_common(&self, prompt: &Cacheable) -> usize {
        let own = (prompt.model.as_deref(), prompt.text.as_str());
        let before = self.texts.range(..=own).next_back();
        let after = self.texts.range(own..).next();
        before
            .into_iter()
            .chain(after)
            .filter(|(model, _)| *model == own.0)
            .map(|(_, text)| common_bytes(own.1, text))
            .max()
            .unwrap_or(0)
    }

    /// Adds a prompt, and removes the oldest ones if they no longer fit.
    pub(super) fn keep(&mut self, prompt: &'a Cacheable, prompt_tokens: u64) {
        let entry = match prompt.prefix {
            Some(prefix) => {
                self.prefixes.insert(prefix, &prompt.text);
                Entry::Prefix(prefix)
            }
            None => {
                let (model, text) = (prompt.model.as_deref(), prompt.text.as_str());
                self.texts.insert((model, text));
                Entry::Text(model, text)
            }
        };
        let Some(most) = self.most else {
            return;
        };
        if let Some(age) = self.ages.insert(entry, self.next)
            && let Some((_, tokens)) = self.by_age.remove(&age)
        {
            self.tokens -= tokens;
        }
        self.by_age.insert(self.next, (entry, prompt_tokens));
        self.next += 1;
        self.tokens += prompt_tokens;
        while self.tokens > most {
            let Some((_, (oldest, tokens))) = self.by_age.pop_first() else {
                break;
            };
            self.tokens -= tokens;
            self.ages.remove(&oldest);
            match oldest {
                Entry::Prefix(prefix) => {
                    self.prefixes.remove(&prefix);
                }
                Entry::Text(model, text) => {
                    self.texts.remove(&(model, text));
                }
            }
        }
    }
}
