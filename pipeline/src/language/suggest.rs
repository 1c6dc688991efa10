//! "Did you mean …?"

/// Returns the candidate a word was probably meant to be.
pub(crate) fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let fold = |text: &str| text.to_lowercase().replace(['_', ' '], "-");
    let word = fold(word);
    // Any two names of one letter are a letter apart: that is no resemblance.
    let short = word.chars().count() <= 2;
    let distance = |c: &'a str| (strsim::damerau_levenshtein(&word, &fold(c)), c);
    let (distance, best) = candidates.into_iter().map(distance).min_by_key(|(d, _)| *d)?;
    let longer = word.chars().count().max(best.chars().count());
    (distance == 0 || !short && distance <= (longer / 3).max(1)).then_some(best)
}

/// Returns a remedy for an unknown name: the close one, or those there are.
pub(crate) fn remedy<'a>(
    word: &str,
    what: &str,
    candidates: impl IntoIterator<Item = &'a str> + Clone,
) -> String {
    if let Some(best) = closest(word, candidates.clone()) {
        return format!("did you mean `{best}`?");
    }
    let names = list(candidates);
    if names.is_empty() { format!("there are no {what}") } else { format!("the {what} are {names}") }
}

/// Writes names as a list: "`a`, `b`", at most twenty.
pub(crate) fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.len() {
        0..=20 => names.join(", "),
        n => format!("{}, and {} more", names[..20].join(", "), n - 20),
    }
}
