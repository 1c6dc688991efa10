//! How a text looks to people: different characters may be drawn alike.

use unicode_normalization_alignments::UnicodeNormalization as _;

/// Returns a text that is equal for texts that are drawn alike: `é` may be one character, or `e` with an accent. Selectors
/// of variants are left out, since many fonts ignore them.
pub(super) fn look(text: &str) -> String {
    let drawn = |c: &char| !matches!(c, '\u{fe00}'..='\u{fe0f}');
    let plain = text.chars().filter(drawn);
    plain.nfc().map(|(c, _)| c).collect()
}

/// Returns a text in which every character outside ASCII is an escape, so that texts that are drawn alike differ.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c.is_ascii() {
            true => escaped.push(c),
            false => escaped.extend(c.escape_unicode()),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_drawn_alike_look_the_same_and_others_do_not() {
        for (one, other) in [
            ("caf\u{e9}", "cafe\u{301}"),
            ("\u{c5}", "\u{212b}"),
            ("\u{d55c}", "\u{1112}\u{1161}\u{11ab}"),
            ("\u{1ec7}", "e\u{302}\u{323}"),
            ("\u{2764}\u{fe0f}", "\u{2764}"),
        ] {
            assert_eq!(look(one), look(other), "{one}");
            assert_ne!(escaped(one), escaped(other), "{one}");
        }
        for (one, other) in [("e", "\u{e9}"), ("a", "A"), ("1", "\u{b9}")] {
            assert_ne!(look(one), look(other), "{one}");
        }
        assert_eq!(escaped("caf\u{e9} 2"), "caf\\u{e9} 2");
        let label = crate::language::label_like;
        assert_eq!(label("cafe\u{301}\u{a0}2"), "caf\u{e9}-2");
        assert_eq!(label("cafe\u{301}"), label("caf\u{e9}"));
    }
}
