//! "Did you mean …?": the remedy for a name that nothing has.

/// The most names that are listed.
const LISTED: usize = 20;
/// The names offered where there are too many to list.
const OFFERED: usize = 4;

/// Returns the candidate a word was probably meant to be.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let (distance, best) = candidates
        .into_iter()
        .map(|c| (distance(word, c), c))
        .min_by_key(|(d, _)| *d)?;
    // Any two names of one letter are a letter apart: that is not resemblance.
    let short = word.chars().count() <= 2;
    let longer = word.chars().count().max(best.chars().count());
    // A third of the letters, rounded: `fatal` is close to `fail`.
    (distance == 0 || !short && distance <= ((longer + 1) / 3).max(1)).then_some(best)
}

/// Returns how many letters differ, upper and lower case and `_`, ` ` and `-` alike.
fn distance(word: &str, other: &str) -> usize {
    let fold = |text: &str| text.to_lowercase().replace(['_', ' '], "-");
    strsim::damerau_levenshtein(&fold(word), &fold(other))
}

/// Returns a remedy for an unknown name among `what` (a plural): the close one, else all there are,
/// and of many those most like it.
pub fn remedy<'a>(
    word: &str,
    what: &str,
    candidates: impl IntoIterator<Item = &'a str> + Clone,
) -> String {
    if let Some(best) = closest(word, candidates.clone()) {
        return format!("did you mean `{best}`?");
    }
    let mut names: Vec<&str> = candidates.into_iter().collect();
    match names.len() {
        0 => format!("there are no {what}"),
        1..=LISTED => format!("the {what} are {}", list(names)),
        count => {
            // Who types a part of a name means one that has it.
            let typed = word.to_lowercase();
            let has = |name: &str| {
                let mut parts = name.split(['-', '_']);
                parts.any(|part| part.to_lowercase().starts_with(&typed))
            };
            names.sort_by_key(|name| (!has(name), distance(word, name)));
            format!(
                "of the {count} {what}, the most similar are {}",
                list(names[..OFFERED].iter().copied())
            )
        }
    }
}

/// Writes names as a list: "`a`, `b`", at most twenty.
pub fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.len() {
        0..=LISTED => names.join(", "),
        n => format!("{}, and {} more", names[..LISTED].join(", "), n - LISTED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_close_name_is_offered_alone() {
        let names = ["llama-cpp", "sglang", "vllm"];
        assert_eq!(
            remedy("lama_cpp", "engines", names),
            "did you mean `llama-cpp`?"
        );
        assert_eq!(
            remedy("tensorrt", "engines", names),
            "the engines are `llama-cpp`, `sglang`, `vllm`"
        );
        assert_eq!(remedy("vllm", "engines", []), "there are no engines");
    }

    #[test]
    fn of_many_names_those_most_alike_are_offered() {
        let names: Vec<String> = (0..40).map(|i| format!("workload-{i}")).collect();
        assert_eq!(
            remedy("load-3", "workloads", names.iter().map(String::as_str)),
            "of the 40 workloads, the most similar are `workload-3`, `workload-0`, `workload-1`, \
             `workload-2`"
        );
        let mut names = names;
        names.push("row-status".to_owned());
        let part = remedy("row", "gates", names.iter().map(String::as_str));
        assert!(part.contains("similar are `row-status`"), "{part}");
        names.pop();
        assert!(list(names.iter().map(String::as_str)).ends_with("`workload-19`, and 20 more"));
    }
}
