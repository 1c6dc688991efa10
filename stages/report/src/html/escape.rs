//! Escapes text for HTML.

/// Returns text escaped for content and quoted attributes, also of SVG.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    push(&mut out, text);
    out
}

/// Appends text escaped for content and quoted attributes.
pub(super) fn push(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // XML and HTML allow no other control characters. A figure with one would not be drawn.
            c if crate::format::acts(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}

/// Converts words to an identifier: lower-case letters, digits and hyphens; `part` if none is left.
pub(super) fn slug(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c.is_alphanumeric() {
            out.extend(c.to_lowercase());
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
    }
    let out = out.trim_end_matches('-');
    if out.is_empty() {
        "part".to_owned()
    } else {
        out.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(
            escape("a<b> & \"c\"\u{1}"),
            "a&lt;b&gt; &amp; &quot;c&quot;\u{fffd}"
        );
    }

    #[test]
    fn a_slug_has_no_empty_parts() {
        assert_eq!(slug("Limits, and  what-else?"), "limits-and-what-else");
        assert_eq!(slug("??"), "part");
    }
}
