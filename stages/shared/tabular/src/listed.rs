//! Names from a file in a message.

/// The largest number of names in a message.
const MOST_NAMES: usize = 50;

/// The largest number of characters of a name in a message.
const MOST_CHARACTERS: usize = 80;

/// Returns the names that a file has, for a message: `there are: a, b`. A file can have a million names, each can be
/// long, and a line break in one could look like a line of the message.
pub fn there_are<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names = names.into_iter();
    let first: Vec<String> = names.by_ref().take(MOST_NAMES).map(in_one_line).collect();
    let text = format!("there are: {}", first.join(", "));
    match names.count() {
        0 => text,
        rest => format!("{text}, and {rest} more"),
    }
}

fn in_one_line(name: &str) -> String {
    let mut characters = name.chars();
    let mut text = String::new();
    for c in characters.by_ref().take(MOST_CHARACTERS) {
        if c.is_control() {
            text.extend(c.escape_default());
        } else {
            text.push(c);
        }
    }
    if characters.next().is_some() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::there_are;

    #[test]
    fn names_are_one_line_of_bounded_length() {
        assert_eq!(there_are(["start", "größe"]), "there are: start, größe");
        assert_eq!(
            there_are(["a\nhint: b", "\u{1b}[2K"]),
            r"there are: a\nhint: b, \u{1b}[2K"
        );
        let long = "x".repeat(1 << 20);
        let text = there_are(std::iter::repeat_n(long.as_str(), 1000));
        assert!(text.ends_with("…, and 950 more"), "{text}");
        assert!(text.len() < 50 * 90 + 40, "{}", text.len());
    }
}
