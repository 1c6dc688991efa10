//! Versions in what programs and servers say.

/// Returns whether a text states this version, and not a longer one that begins or ends with it: `1.2.0` is neither in
/// `1.2.0rc6` nor in `1.2.0-rc6`, `1.2.0.post1`, `1.2.01` and `11.2.0`. A local suffix (`1.2.0+cu130`) may follow: it names a
/// build of the version.
pub fn states_version(text: &str, version: &str) -> bool {
    let continues = |rest: &str| {
        let mut next = rest.chars();
        match next.next() {
            // llama.cpp: the build and its commit.
            Some('-') if begins_with_commit(&rest[1..]) => false,
            // A sentence may end after a version.
            Some('.' | '-' | '_' | '~') => next.next().is_some_and(|c| c.is_ascii_alphanumeric()),
            Some(c) => c.is_ascii_alphanumeric(),
            None => false,
        }
    };
    !version.is_empty()
        && text.match_indices(version).any(|(at, matched)| {
            let before = text[..at].chars().next_back();
            // `v1.2` is version 1.2.
            !before.is_some_and(|c| c.is_ascii_digit() || c == '.' || c == '+')
                && !continues(&text[at + matched.len()..])
        })
}

/// Returns whether a text begins with the short hash of a commit.
fn begins_with_commit(text: &str) -> bool {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric());
    let hash = &text[..end.unwrap_or(text.len())];
    (7..=40).contains(&hash.len())
        && hash.chars().all(|c| c.is_ascii_hexdigit())
        && hash.chars().any(|c| c.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_may_be_followed_by_its_commit() {
        assert!(states_version("b6123-abc1234", "6123"));
        assert!(!states_version("b6123-rc1", "6123"));
    }

    #[test]
    fn a_version_is_stated_whole() {
        for text in [
            "0.32.0",
            "vllm v0.32.0\n",
            "version 0.32.0.",
            "(0.32.0)",
            "0.32.0 - released",
            "0.32.0+cpu",
            "0.32.0rc1, then 0.32.0",
        ] {
            assert!(states_version(text, "0.32.0"), "{text}");
        }
        for text in [
            "10.32.0",
            "2+0.32.0",
            "0.32.01",
            "0.32.05",
            "0.32.0.1",
            "0.32.0.post1",
            "0.32.0rc1",
            "0.32.0-rc2",
            "0.32.0~rc2",
            "",
        ] {
            assert!(!states_version(text, "0.32.0"), "{text}");
        }
        assert!(states_version("0.33.0-rc2", "0.33.0-rc2"));
        assert!(!states_version("2.0+cu130", "2.0+cu13"));
    }
}
