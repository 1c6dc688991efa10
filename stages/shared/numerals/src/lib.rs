//! English number words and their values. The language, the number check of reports and the audit of other people's
//! reports all read them from here.

/// The cardinals of one word, with their values.
#[rustfmt::skip]
const CARDINALS: &[(&str, u64)] = &[
    ("zero", 0), ("one", 1), ("two", 2), ("three", 3), ("four", 4), ("five", 5), ("six", 6), ("seven", 7), ("eight", 8),
    ("nine", 9), ("ten", 10), ("eleven", 11), ("twelve", 12), ("thirteen", 13), ("fourteen", 14), ("fifteen", 15),
    ("sixteen", 16), ("seventeen", 17), ("eighteen", 18), ("nineteen", 19), ("twenty", 20), ("thirty", 30),
    ("forty", 40), ("fifty", 50), ("sixty", 60), ("seventy", 70), ("eighty", 80), ("ninety", 90), ("dozen", 12),
    ("hundred", 100), ("thousand", 1_000), ("million", 1_000_000), ("billion", 1_000_000_000),
    ("trillion", 1_000_000_000_000),
];

/// Returns the value of a cardinal of one word in lower case: `seven`, `forty`, `dozen`.
pub fn cardinal(word: &str) -> Option<u64> {
    let entry = CARDINALS.iter().find(|(name, _)| *name == word);
    entry.map(|(_, value)| *value)
}

/// Returns the value of a word that counts things without help: `zero` to `twenty`, in lower case.
pub fn count(word: &str) -> Option<usize> {
    let value = cardinal(word).filter(|value| *value <= 20 && word != "dozen")?;
    usize::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::{cardinal, count};

    #[test]
    fn a_number_word_has_its_value_and_only_small_ones_count() {
        assert_eq!(cardinal("ninety"), Some(90));
        assert_eq!(cardinal("dozen"), Some(12));
        assert_eq!(cardinal("second"), None);
        assert_eq!((count("zero"), count("twenty")), (Some(0), Some(20)));
        assert_eq!((count("thirty"), count("dozen")), (None, None));
    }
}
