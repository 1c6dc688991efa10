//! Makes texts of a given length from a source of words.

use super::counter::Counter;
use super::error::PromptError;
use crate::random::Draws;
use crate::workload::Unit;

/// The words for prompts, one per line.
const WORDS: &str = include_str!("../words.txt");

/// The most words, characters or tokens of one text, because a prompt is made in memory.
const LONGEST: u32 = 1 << 24;

/// A source of words for texts.
pub(super) trait WordSource {
    /// Returns the next word.
    fn next(&mut self) -> &str;
    /// Returns whether the words have no punctuation. A full stop is then added after every twelfth word and after the
    /// last.
    fn bare(&self) -> bool;
}

/// Random words of the shipped list.
pub(super) struct Random<'a>(pub(super) &'a mut Draws);

impl WordSource for Random<'_> {
    fn next(&mut self) -> &str {
        use std::sync::OnceLock;
        static LIST: OnceLock<Vec<&'static str>> = OnceLock::new();
        let list = LIST.get_or_init(|| WORDS.lines().collect());
        list[self.0.below(list.len() as u64) as usize]
    }

    fn bare(&self) -> bool {
        true
    }
}

/// The words of a text from some position on. They wrap around at the end.
pub(super) struct Running<'a> {
    words: &'a [String],
    at: usize,
}

impl<'a> Running<'a> {
    pub(super) fn new(words: &'a [String], at: usize) -> Self {
        Self { words, at }
    }
}

impl WordSource for Running<'_> {
    fn next(&mut self) -> &str {
        let word = &self.words[self.at % self.words.len()];
        self.at += 1;
        word
    }

    fn bare(&self) -> bool {
        false
    }
}

/// Appends this many words, characters or tokens to a text.
///
/// # Errors
/// If it would become longer than any prompt may be, or tokens are requested and cannot be counted.
pub(super) fn write(
    text: &mut String,
    words: &mut dyn WordSource,
    unit: Unit,
    count: u32,
    counter: Option<&dyn Counter>,
) -> Result<(), PromptError> {
    if count > LONGEST {
        let what = match unit {
            Unit::Words => "words",
            Unit::Characters => "characters",
            Unit::Tokens => "tokens",
        };
        return Err(PromptError::wrong(format!(
            "a prompt of {count} {what} is too long: the limit is {LONGEST}"
        )));
    }
    match (unit, counter) {
        (Unit::Words, _) => {
            for i in 1..=count {
                push(text, words, i, i == count);
            }
            Ok(())
        }
        (Unit::Characters, _) => {
            write_characters(text, words, count as usize);
            Ok(())
        }
        (Unit::Tokens, Some(counter)) => write_tokens(text, words, count, counter),
        (Unit::Tokens, None) => Err(PromptError::wrong(
            "a length in tokens needs a tokenizer, but the workload does not name one".to_owned(),
        )),
    }
}

/// Appends word `i` (from 1), with a leading space, and with a full stop where one belongs.
fn push(text: &mut String, words: &mut dyn WordSource, i: u32, last: bool) {
    if !text.is_empty() {
        text.push(' ');
    }
    let bare = words.bare();
    text.push_str(words.next());
    if bare && (i.is_multiple_of(12) || last) {
        text.push('.');
    }
}

/// Appends words and cuts the last one to the exact length.
fn write_characters(text: &mut String, words: &mut dyn WordSource, count: usize) {
    let before = text.chars().count();
    let (mut length, mut i) = (before, 0);
    while length < before + count {
        i += 1;
        let from = text.len();
        push(text, words, i, false);
        length += text[from..].chars().count();
    }
    if let Some((cut, _)) = text.char_indices().nth(before + count) {
        text.truncate(cut);
    }
    // A trailing space may be trimmed on the way to the server.
    if text.ends_with(' ') {
        text.pop();
        text.push('.');
    }
}

/// The number of words to try for the last few tokens.
const CANDIDATES: usize = 24;

/// What to try after the words: marks that are tokens in nearly every tokenizer.
const FILLERS: [&str; 12] = [".", ",", "!", "?", ";", ":", ".", ",", "!", "?", ";", ":"];

/// The steps of a search that follow the proportion of words and tokens; the others halve the rest.
const PROPORTIONAL: u32 = 64;

/// How many words a token may take, and how many words every prompt may take, before the search for its end is given up.
const WORDS_PER_TOKEN: usize = 32;
const FEW_WORDS: usize = 4096;

/// Appends words until the text has the requested number of further tokens. The tokens of a text are not the sum of its
/// words' tokens, so the number of words is found by search (false position between a text that is too short and one
/// that is too long). The rest is filled with words that happen to fit, or with marks. If none fits, the text remains
/// short by a token or two, and the prompt set states its real count.
fn write_tokens(
    text: &mut String,
    words: &mut dyn WordSource,
    wanted: u32,
    counter: &dyn Counter,
) -> Result<(), PromptError> {
    if text.is_empty() && wanted <= counter.least() {
        return Err(PromptError::wrong(format!(
            "no prompt can have {wanted} tokens, because the server's chat template alone takes \
             {}; ask for more, or give the workload `tokenizer: {{server: {{template: \
             left-out}}}}`",
            counter.least()
        )));
    }
    let before = if text.is_empty() {
        0
    } else {
        counter.prompt_length(text)?
    };
    let target = before.checked_add(wanted).ok_or_else(|| {
        PromptError::wrong(format!(
            "{before} tokens are counted in a text of {} bytes",
            text.len()
        ))
    })?;
    // Texts of increasing length, as end positions in one buffer.
    let (mut buffer, mut ends) = (text.clone(), vec![text.len()]);
    let mut extend = |to: usize, words: &mut dyn WordSource, ends: &mut Vec<usize>| {
        while ends.len() <= to {
            push(&mut buffer, words, ends.len() as u32, false);
            ends.push(buffer.len());
        }
        buffer[..ends[to]].to_owned()
    };
    let mut low = (0_usize, before, text.clone());
    let mut high: Option<(usize, u32)> = None;
    let mut guess = ((f64::from(wanted) / 1.1) as usize).max(1);
    for step in 0_u32.. {
        let tried = extend(guess, words, &mut ends);
        let count = counter.prompt_length(&tried)?;
        if count <= target {
            low = (guess, count, tried);
        } else {
            high = Some((guess, count));
        }
        if low.1 == target {
            break;
        }
        // Whoever counts is somebody else, and may count nothing, or anything.
        if high.is_none() && low.0 > WORDS_PER_TOKEN * wanted as usize + FEW_WORDS {
            return Err(PromptError::wrong(format!(
                "the tokenizer counts {} tokens in a text of {} words, so no prompt of {wanted} tokens can be made",
                low.1.saturating_sub(before),
                low.0
            )));
        }
        guess = match high {
            Some((high, _)) if high <= low.0 + 1 => break,
            Some((high, _)) if step >= PROPORTIONAL => low.0.midpoint(high),
            Some((high, count)) => {
                let share = f64::from(target - low.1) / f64::from(count - low.1);
                let step = (share * (high - low.0) as f64) as usize;
                (low.0 + step).clamp(low.0 + 1, high - 1)
            }
            None => {
                let per_word =
                    (f64::from(low.1.saturating_sub(before)) / low.0.max(1) as f64).max(0.1);
                low.0 + ((f64::from(target - low.1) / per_word) as usize).clamp(1, 1 << 20)
            }
        };
    }
    let (_, mut count, mut fitted) = low;
    for i in 0..CANDIDATES + FILLERS.len() {
        if count == target {
            break;
        }
        let longer = match FILLERS.get(i.wrapping_sub(CANDIDATES)) {
            Some(mark) => format!("{fitted}{mark}"),
            None if fitted.is_empty() => words.next().to_owned(),
            None => format!("{fitted} {}", words.next()),
        };
        let next = counter.prompt_length(&longer)?;
        if (count..=target).contains(&next) {
            (fitted, count) = (longer, next);
        }
    }
    *text = fitted;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::set::LengthSource;
    use super::*;
    use crate::random::Origin;
    use pipeline::stage::{Coordinates, Json};
    use proptest::prelude::*;
    use std::cell::Cell;

    /// Counts this many characters, or fewer before a space, as one token.
    struct Every(usize);

    impl Counter for Every {
        fn count(&self, text: &str) -> Result<u32, PromptError> {
            let tokens = text
                .split(' ')
                .map(|word| word.chars().count().div_ceil(self.0));
            Ok(tokens.sum::<usize>() as u32)
        }

        fn source(&self) -> LengthSource {
            LengthSource::TokenizerFile
        }

        fn identity(&self) -> &str {
            "every"
        }
    }

    fn draws(seed: u64) -> Draws {
        Origin {
            seed,
            replicate: Coordinates::default(),
        }
        .stream("text", &Json::Null)
        .at(1)
    }

    /// Answers whatever it likes.
    struct Odd<F>(F);

    impl<F: Fn(&str) -> u32> Counter for Odd<F> {
        fn count(&self, text: &str) -> Result<u32, PromptError> {
            Ok((self.0)(text))
        }

        fn source(&self) -> LengthSource {
            LengthSource::ServerTokenizer
        }

        fn identity(&self) -> &str {
            "odd"
        }
    }

    #[test]
    fn a_tokenizer_that_counts_nothing_or_anything_ends_the_search() {
        let fit = |counter: &dyn Counter, start: &str| {
            let (mut text, mut draws) = (start.to_owned(), draws(1));
            let source = &mut Random(&mut draws);
            write(&mut text, source, Unit::Tokens, 20, Some(counter)).map(|()| text)
        };
        for constant in [0, 1, 19] {
            let error = fit(&Odd(|_: &str| constant), "").unwrap_err();
            assert!(error.message.contains("no prompt of 20 tokens"), "{error}");
        }
        // Always too many: as close as it gets.
        assert!(fit(&Odd(|_: &str| 1000), "").is_ok());
        let error = fit(&Odd(|_: &str| u32::MAX), "some words").unwrap_err();
        assert!(error.message.contains("4294967295 tokens"), "{error}");
        // Fewer tokens for a longer text.
        let falling = Odd(|text: &str| 1000_u32.saturating_sub(text.len() as u32));
        let _ended = fit(&falling, "some words");
        let calls = Cell::new(0_u32);
        let scattered = Odd(|text: &str| {
            calls.set(calls.get() + 1);
            text.bytes()
                .fold(7_u32, |a, b| a.wrapping_mul(31).wrapping_add(u32::from(b)))
                % 1_000_000
        });
        let _ended = fit(&scattered, "");
        assert!(calls.get() < 1000, "{}", calls.get());
    }

    #[test]
    fn a_text_that_would_fill_the_memory_is_refused() {
        for unit in [Unit::Words, Unit::Characters, Unit::Tokens] {
            let mut draws = draws(1);
            let counter: Option<&dyn Counter> = Some(&Every(4));
            for count in [LONGEST + 1, u32::MAX] {
                let mut text = String::new();
                let source = &mut Random(&mut draws);
                let refused = write(&mut text, source, unit, count, counter).unwrap_err();
                assert!(
                    refused.message.contains("the limit is 16777216"),
                    "{refused}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn a_text_has_exactly_the_tokens_wanted(
            seed in 0_u64..100, wanted in 1_u32..700, per_token in 1_usize..6, prefix in 0_u32..40,
        ) {
            let mut text = String::new();
            let mut draws = draws(seed);
            write(&mut text, &mut Random(&mut draws), Unit::Words, prefix, None).unwrap();
            let before = if text.is_empty() { 0 } else { Every(per_token).count(&text).unwrap() };
            let start = text.clone();
            write(&mut text, &mut Random(&mut draws), Unit::Tokens, wanted, Some(&Every(per_token))).unwrap();
            prop_assert!(text.starts_with(&start));
            let got = Every(per_token).count(&text).unwrap() - before;
            prop_assert_eq!(got, wanted);
        }

        #[test]
        fn a_text_has_exactly_the_characters_wanted(seed in 0_u64..100, wanted in 1_u32..700) {
            let mut text = String::new();
            write(&mut text, &mut Random(&mut draws(seed)), Unit::Characters, wanted, None).unwrap();
            prop_assert_eq!(text.chars().count(), wanted as usize);
            prop_assert!(!text.ends_with(' '));
        }
    }

    #[test]
    fn a_passage_goes_on_at_the_beginning_of_its_text() {
        let words: Vec<String> = ["a", "b,", "c."].map(str::to_owned).into();
        let mut text = String::new();
        write(
            &mut text,
            &mut Running::new(&words, 2),
            Unit::Words,
            5,
            None,
        )
        .unwrap();
        assert_eq!(text, "c. a b, c. a");
    }

    #[test]
    fn tokens_that_nothing_counts_are_refused() {
        let error = write(
            &mut String::new(),
            &mut Random(&mut draws(1)),
            Unit::Tokens,
            5,
            None,
        )
        .unwrap_err();
        assert!(error.to_string().contains("needs a tokenizer"), "{error}");
    }
}
