//! Counts of things in English, for messages.

use std::fmt::Display;

/// Returns a count with its noun: `1 block`, `5 blocks`, `2 processes`, `3 queries`.
pub fn counted<N: Copy + Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    match count == N::from(1) {
        true => format!("{count} {noun}"),
        false => format!("{count} {}", several(noun)),
    }
}

/// Returns the plural of a noun.
fn several(noun: &str) -> String {
    let after_a_vowel = |stem: &str| stem.ends_with(['a', 'e', 'i', 'o', 'u']);
    match noun.strip_suffix('y') {
        Some(stem) if !after_a_vowel(stem) => format!("{stem}ies"),
        _ if noun.ends_with(['s', 'x']) || noun.ends_with("ch") || noun.ends_with("sh") => {
            format!("{noun}es")
        }
        _ => format!("{noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_singular_and_any_other_number_is_plural() {
        assert_eq!(counted(1_usize, "object"), "1 object");
        assert_eq!(counted(0_u64, "object"), "0 objects");
        assert_eq!(counted(2_u32, "process"), "2 processes");
        assert_eq!(counted(3_i64, "launch"), "3 launches");
        assert_eq!(counted(4_usize, "query"), "4 queries");
        assert_eq!(counted(5_usize, "key"), "5 keys");
    }
}
