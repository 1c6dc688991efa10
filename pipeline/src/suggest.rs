//! "Did you mean …?": the remedy for an unknown name.

use std::cell::Cell;
use std::fmt;

use crate::language::settings::share_of_percent;

/// The largest number of listed names.
const LISTED: usize = 20;
/// The number of names offered if there are too many to list.
const OFFERED: usize = 4;

thread_local! {
    static SEARCHES: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of searches for a similar name by this thread. A search compares the word with each candidate, so a
/// test asserts that what is done for each row of a table never searches.
pub fn searches() -> u64 {
    SEARCHES.get()
}

/// Returns the candidate that a word was probably meant to be.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    closest_of(word, &candidates.into_iter().collect::<Vec<_>>())
}

fn closest_of<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    SEARCHES.set(SEARCHES.get() + 1);
    let folded = word.to_lowercase();
    let mut parts: Vec<&str> = folded.split(['-', '_']).collect();
    parts.sort_unstable();
    let mut turned = None;
    let mut among: Option<&str> = None;
    let (distance, best) = candidates
        .iter()
        .copied()
        .inspect(|candidate| {
            let mut theirs: Vec<&str> = candidate.split(['-', '_']).collect();
            theirs.sort_unstable();
            // `ttft_p50_ms` for `ttft_ms_p50`.
            if turned.is_none() && theirs == parts {
                turned = Some(*candidate);
            }
            // `p50_ttft` for `ttft_ms_p50`: the shortest name with all parts of the word.
            let has_all = parts.len() > 1 && parts.iter().all(|part| theirs.contains(part));
            if has_all && among.is_none_or(|shortest| candidate.len() < shortest.len()) {
                among = Some(*candidate);
            }
        })
        .map(|c| (distance(word, c), c))
        .min_by_key(|(d, _)| *d)?;
    if turned.is_some() {
        return turned;
    }
    // Any two one-letter names differ by one letter, which is not resemblance.
    let short = word.chars().count() <= 2;
    let longer = word.chars().count().max(best.chars().count());
    // A third of the letters, rounded, may differ: `fatal` is close to `fail`.
    let resembles = distance == 0 || !short && distance <= ((longer + 1) / 3).max(1);
    resembles.then_some(best).or(among)
}

/// Returns the candidate that a word is but for one slip: one letter more, less, other or at another place.
pub fn slip<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut candidates = candidates.into_iter();
    candidates.find(|candidate| distance(word, candidate) == 1)
}

/// Asks whether a name was meant.
pub fn did_you_mean(name: impl fmt::Display) -> String {
    format!("did you mean `{name}`?")
}

/// Asks whether the candidate closest to a word was meant; `None` if no candidate is close.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    closest(word, candidates).map(did_you_mean)
}

/// Returns the remedy for a percentage in place of a share.
pub fn share(value: f64) -> Option<String> {
    let share = share_of_percent(value)?;
    (value > 1.0 && share <= 1.0)
        .then(|| format!("a share is at most 1: write {share} for {value} %"))
}

/// Returns the number of differing letters, ignoring case and treating `_`, ` ` and `-` alike.
fn distance(word: &str, other: &str) -> usize {
    let fold = |text: &str| text.to_lowercase().replace(['_', ' '], "-");
    strsim::damerau_levenshtein(&fold(word), &fold(other))
}

/// Returns whether at least half of the letters of two words agree.
fn is_alike(word: &str, other: &str) -> bool {
    let longer = word.chars().count().max(other.chars().count());
    2 * distance(word, other) <= longer
}

/// Returns a remedy for a column, with or without its table, that no table read by a query has. The candidates are the
/// tables that a query may read, each with one of its columns.
pub fn column_remedy<'a>(
    column: &str,
    candidates: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> String {
    let column = column.rsplit('.').next().unwrap_or(column);
    let candidates: Vec<(&str, &str)> = candidates.into_iter().collect();
    let tables: Vec<&str> = candidates
        .iter()
        .filter(|(_, name)| *name == column)
        .map(|(table, _)| *table)
        .take(OFFERED)
        .collect();
    if !tables.is_empty() {
        return format!("read it from {}, or join that table", either(&tables));
    }
    let mut names: Vec<&str> = candidates.into_iter().map(|(_, name)| name).collect();
    names.sort_unstable();
    names.dedup();
    remedy(column, "columns", names)
}

/// Returns a remedy for an unknown name among `what` (a plural): the closest name, otherwise all names, or the most
/// similar ones if there are many.
pub fn remedy<Names>(word: &str, what: &str, candidates: Names) -> String
where
    Names: IntoIterator<Item: AsRef<str>>,
{
    let candidates: Vec<Names::Item> = candidates.into_iter().collect();
    remedy_among(word, what, candidates.iter().map(AsRef::as_ref).collect())
}

fn remedy_among(word: &str, what: &str, mut names: Vec<&str>) -> String {
    // `ttft_ms` is the beginning of many columns, and the shortest of them, `ttft_ms_n`, is hardly meant.
    let folded = word.to_lowercase().replace(['-', ' '], "_");
    let continues = |name: &&str| {
        let rest = name.strip_prefix(folded.as_str());
        rest.is_some_and(|rest| rest.starts_with('_'))
    };
    let continuing = names.iter().copied().filter(|name| continues(name));
    let is_beginning = names.len() > LISTED && continuing.count() > 1;
    if let Some(remedy) = resembling(word, what, &names).filter(|_| !is_beginning) {
        return remedy;
    }
    match names.len() {
        0 => format!("there are no {what}"),
        1..=LISTED => format!("the {what} are {}", listed(&names)),
        count => {
            // A typed part of a name probably means a name that contains it.
            let typed = word.to_lowercase();
            let has = |name: &str| {
                let mut parts = name.split(['-', '_']);
                parts.any(|part| part.to_lowercase().starts_with(&typed))
            };
            let begins = |name: &str| is_beginning && continues(&name);
            names.retain(|name| begins(name) || has(name) || is_alike(word, name));
            names.sort_by_cached_key(|name| {
                (
                    !begins(name),
                    !has(name),
                    is_by_product(name),
                    distance(word, name),
                )
            });
            names.truncate(OFFERED);
            match names.as_slice() {
                [] => format!("none of the {count} {what} resembles it"),
                [one] => format!("the most similar of the {count} {what} is `{one}`"),
                several => format!(
                    "the most similar of the {count} {what} are {}",
                    listed(several)
                ),
            }
        }
    }
}

/// Returns whether a column only accompanies a figure: its count, spread or bounds.
fn is_by_product(column: &str) -> bool {
    let endings = ["_n", "_std", "_min", "_max", "_low", "_high", "_cv", "_why"];
    endings.iter().any(|ending| column.ends_with(ending))
}

/// Returns a remedy for an unknown name among `what` (a plural) that names what was probably meant; `None` if the name
/// resembles none.
pub fn resembling(word: &str, what: &str, names: &[&str]) -> Option<String> {
    if let Some(question) = nearest(word, names.iter().copied()) {
        return Some(question);
    }
    if let Some(file) = word
        .strip_suffix(".yaml")
        .or_else(|| word.strip_suffix(".yml"))
    {
        // `hardware definitions` are in the folder `hardware`.
        let folder = what.split(' ').next().unwrap_or(what);
        let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
        return Some(format!(
            "name it without folder and ending: `{name}`; it is found in {folder}/{name}.yaml beside the experiment"
        ));
    }
    // Of many names, those with the word as one of their parts: `chat` for `openai-chat`.
    let typed = word.to_lowercase();
    let partly = names.iter().copied().filter(|name| {
        let mut parts = name.split(['-', '_']);
        parts.any(|part| part.to_lowercase() == typed)
    });
    let partly: Vec<&str> = partly.collect();
    if names.len() > OFFERED && (1..=OFFERED).contains(&partly.len()) {
        return Some(format!("did you mean {}?", either(&partly)));
    }
    None
}

/// Formats alternatives: "`a`, `b` or `c`".
pub fn either(names: &[impl AsRef<str>]) -> String {
    let quoted: Vec<String> = names
        .iter()
        .map(|name| format!("`{}`", name.as_ref()))
        .collect();
    any_of(&quoted)
}

/// Joins alternatives: "a, b or c".
pub fn any_of(items: &[impl AsRef<str>]) -> String {
    joined(items, "or")
}

/// Joins what belongs together: "a, b and c".
pub fn all_of(items: &[impl AsRef<str>]) -> String {
    joined(items, "and")
}

fn joined(items: &[impl AsRef<str>], word: &str) -> String {
    let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
    match items.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [before @ .., last] => format!("{} {word} {last}", before.join(", ")),
    }
}

/// Formats names as a list: "`a`, `b`", at most twenty.
pub fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    listed(&names.into_iter().collect::<Vec<_>>())
}

fn listed(names: &[&str]) -> String {
    // A file's author may have put a line break into the name of a column.
    let in_one_line = |name: &str| name.replace(char::is_control, "\u{fffd}");
    let names = names.iter().map(|name| in_one_line(name));
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    match names.len() {
        0..=LISTED => names.join(", "),
        n => format!("{}, and {} more", names[..LISTED].join(", "), n - LISTED),
    }
}

/// Returns a duration in our spelling for one in another: `30sec`, `2 minuts`, `1:30`, `1h30m`, `PT5M`. `None` if the
/// text is not recognized or negative.
pub fn duration(text: &str) -> Option<String> {
    let text = text.trim().to_lowercase();
    let text = text
        .strip_prefix("pt")
        .unwrap_or(&text)
        .replace('\u{b5}', "u");
    if text.contains(':') {
        let parts: Option<Vec<u64>> = text.split(':').map(|part| part.parse().ok()).collect();
        let parts = parts.filter(|parts| matches!(parts.len(), 2 | 3))?;
        let seconds = parts
            .iter()
            .try_fold(0_u64, |sum, part| sum.checked_mul(60)?.checked_add(*part))?;
        return Some(format!("{seconds} s"));
    }
    let mut rest = text.as_str();
    let mut terms: Vec<(f64, &str, u64)> = Vec::new();
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ','))
            .unwrap_or(rest.len());
        let number: f64 = rest[..end].replace(',', ".").parse().ok()?;
        let after = rest[end..].trim_start();
        let end = after
            .find(|c: char| !c.is_alphabetic())
            .unwrap_or(after.len());
        // In `1h30`, 30 has the next smaller unit.
        let (unit, nanoseconds) = match (&after[..end], terms.last()) {
            ("", Some((_, _, larger))) => smaller_unit_of_time(*larger)?,
            (word, _) => unit_of_time(word)?,
        };
        terms.push((number, unit, nanoseconds));
        rest = after[end..].trim_start_matches([' ', ',']);
        rest = rest.strip_prefix("and ").unwrap_or(rest);
    }
    match terms.as_slice() {
        [] => None,
        [(number, "d", _)] => Some(format!("{} h", number * 24.0)),
        [(number, unit, _)] => Some(format!("{number} {unit}")),
        several => {
            let sum: f64 = several
                .iter()
                .map(|(number, _, ns)| number * *ns as f64)
                .sum();
            Some(in_largest_unit(sum).unwrap_or_else(|| format!("{} s", sum / 1e9)))
        }
    }
}

/// Writes a number of nanoseconds with the largest unit that divides it: `90 min`, not `5400 s`.
fn in_largest_unit(nanoseconds: f64) -> Option<String> {
    const UNITS: [(&str, f64); 4] = [("h", 3.6e12), ("min", 6e10), ("s", 1e9), ("ms", 1e6)];
    let mut units = UNITS.iter();
    let (unit, length) = units.find(|(_, length)| nanoseconds % length == 0.0)?;
    Some(format!("{} {unit}", nanoseconds / length))
}

/// Units of time from short to long: our word, nanoseconds, and the words of others; `d` for days, for which we have no word.
const UNITS_OF_TIME: [(&str, u64, &[&str]); 7] = [
    ("ns", 1, &["ns", "nsec", "nanosecond", "nanoseconds"]),
    ("us", 1_000, &["us", "usec", "microsecond", "microseconds"]),
    (
        "ms",
        1_000_000,
        &["ms", "msec", "millis", "millisecond", "milliseconds"],
    ),
    (
        "s",
        1_000_000_000,
        &["s", "sec", "secs", "second", "seconds"],
    ),
    (
        "min",
        60_000_000_000,
        &["m", "min", "mins", "minute", "minutes"],
    ),
    ("h", 3_600_000_000_000, &["h", "hr", "hrs", "hour", "hours"]),
    ("d", 86_400_000_000_000, &["d", "day", "days"]),
];

/// Returns our word for a unit of time, and its length in nanoseconds.
fn unit_of_time(word: &str) -> Option<(&'static str, u64)> {
    let all = UNITS_OF_TIME
        .iter()
        .flat_map(|(_, _, words)| words.iter().copied());
    let meant = all.clone().find(|w| *w == word);
    // Corrects a typing error in a long word; short words are too similar.
    let meant = meant.or_else(|| closest(word, all.filter(|w| w.len() > 4)))?;
    let (unit, ns, _) = UNITS_OF_TIME
        .iter()
        .find(|(_, _, words)| words.contains(&meant))?;
    Some((unit, *ns))
}

/// Returns the next smaller unit and its length, given the length of a unit in nanoseconds.
fn smaller_unit_of_time(larger: u64) -> Option<(&'static str, u64)> {
    let (unit, ns, _) = UNITS_OF_TIME.iter().rev().find(|(_, ns, _)| *ns < larger)?;
    Some((unit, *ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_in_another_spelling_is_translated() {
        for (theirs, ours) in [
            ("30sec", "30 s"),
            ("30 seconds", "30 s"),
            ("2 minuts", "2 min"),
            ("5M", "5 min"),
            ("1:30", "90 s"),
            ("01:00:05", "3605 s"),
            ("1h30m", "90 min"),
            ("1h30", "90 min"),
            ("1m30", "90 s"),
            ("2 s 500", "2500 ms"),
            ("1 hour and 30 minutes", "90 min"),
            ("1h30m15s", "5415 s"),
            ("1m 500ms", "60500 ms"),
            ("2d 12h", "60 h"),
            ("PT45S", "45 s"),
            ("200msec", "200 ms"),
            ("1,5 h", "1.5 h"),
            ("2 days", "48 h"),
        ] {
            assert_eq!(duration(theirs).as_deref(), Some(ours), "{theirs}");
        }
        for none in ["", "soon", "-3 s", "30", "5 apples", "s", "1:x"] {
            assert_eq!(duration(none), None, "{none}");
        }
    }

    #[test]
    fn a_share_has_the_digits_of_the_percentage() {
        let remedy = |value| share(value).unwrap_or_default();
        assert_eq!(remedy(99.9), "a share is at most 1: write 0.999 for 99.9 %");
        assert_eq!(remedy(7.0), "a share is at most 1: write 0.07 for 7 %");
        for other in [0.5, 1.0, 100.5, f64::NAN, f64::INFINITY] {
            assert_eq!(share(other), None, "{other}");
        }
    }

    #[test]
    fn a_name_with_all_parts_of_the_word_is_closest_unless_another_resembles_it() {
        let names = [
            "n_rows",
            "e2e_latency_ms_p95",
            "ttft_ms_p50",
            "ttft_ms_p50_bound",
            "ttft_ms_p99",
        ];
        for (word, meant) in [
            ("p50_ttft", Some("ttft_ms_p50")),
            ("TTFT-P50", Some("ttft_ms_p50")),
            ("latency_p95", Some("e2e_latency_ms_p95")),
            ("ttft_p99", Some("ttft_ms_p99")),
            ("latency_p12", None),
            ("ttft", None),
        ] {
            assert_eq!(closest(word, names), meant, "{word}");
        }
    }

    #[test]
    fn a_column_of_another_table_is_offered_there_and_not_under_its_own_name() {
        let columns = [
            ("cell", "model"),
            ("requests", "status"),
            ("prompts", "words"),
        ];
        assert_eq!(
            column_remedy("model", columns),
            "read it from `cell`, or join that table"
        );
        assert_eq!(
            column_remedy("requests.model", columns),
            "read it from `cell`, or join that table"
        );
        assert_eq!(column_remedy("statuss", columns), "did you mean `status`?");
        assert_eq!(column_remedy("zzz", []), "there are no columns");
    }

    #[test]
    fn a_name_with_its_parts_in_another_order_is_offered() {
        let columns = ["ttft_ms_p50", "ttft_ms_p50_low", "tpot_ms_p50"];
        assert_eq!(closest("ttft_p50_ms", columns), Some("ttft_ms_p50"));
        assert_eq!(
            remedy("./workloads/mine.yaml", "workloads", ["a"]),
            "name it without folder and ending: `mine`; it is found in workloads/mine.yaml beside the experiment"
        );
    }

    #[test]
    fn figures_are_offered_before_what_accompanies_them() {
        let mut names: Vec<String> = ["n", "std", "min", "max", "p50_low", "p50"]
            .map(|part| format!("ttft_ms_{part}"))
            .to_vec();
        names.extend((0..20).map(|i| format!("another_column_{i}")));
        let offered = remedy("ttft", "columns", names);
        assert!(offered.contains("columns are `ttft_ms_p50`, "), "{offered}");
    }

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
        assert_eq!(remedy("vllm", "engines", [""; 0]), "there are no engines");
    }

    #[test]
    fn of_many_names_those_most_alike_are_offered() {
        let names: Vec<String> = (0..40).map(|i| format!("workload-{i}")).collect();
        assert_eq!(
            remedy("load-3", "workloads", names.iter().map(String::as_str)),
            "the most similar of the 40 workloads are `workload-3`, `workload-0`, `workload-1`, \
             `workload-2`"
        );
        let mut names = names;
        names.push("row-status".to_owned());
        let part = remedy("row", "gates", names.iter().map(String::as_str));
        assert_eq!(part, "did you mean `row-status`?");
        let part = remedy("ro", "gates", names.iter().map(String::as_str));
        assert_eq!(part, "the most similar of the 41 gates is `row-status`");
        names.pop();
        assert!(list(names.iter().map(String::as_str)).ends_with("`workload-19`, and 20 more"));
    }

    #[test]
    fn a_name_that_resembles_none_of_many_gets_no_offer() {
        let names: Vec<String> = (0..155)
            .map(|i| format!("column_{i}_of_the_cells"))
            .collect();
        assert_eq!(
            remedy("zebra", "columns", &names),
            "none of the 155 columns resembles it"
        );
    }

    #[test]
    fn the_beginning_of_many_names_gets_the_figures_among_them() {
        let mut names: Vec<String> = (0..20).map(|i| format!("other_{i}")).collect();
        let endings = ["n", "std", "mean", "p50", "p99", "max"];
        names.extend(endings.map(|ending| format!("ttft_ms_{ending}")));
        let offered = "the most similar of the 26 columns are `ttft_ms_p50`, `ttft_ms_p99`, `ttft_ms_mean`, `ttft_ms_n`";
        assert_eq!(remedy("ttft_ms", "columns", &names), offered);
        assert_eq!(
            remedy("ttft_ms_p9", "columns", &names),
            "did you mean `ttft_ms_p99`?"
        );
    }
}
