//! Names of quantiles in other tools: `p99`, `p99.9`, `99th`, `99%`.

/// The words around the digits of a quantile.
const AROUND: [&str; 6] = ["percentile", "quantile", "perc", "pct", "p", "q"];

/// Returns the probability of the quantile that a word names, as a number to copy: `0.999` for `p99.9`, `p99_9` and `p999`.
/// `None` if the word names no quantile between 0 and 1.
pub fn probability(word: &str) -> Option<String> {
    let folded = word.trim().to_lowercase().replace(['_', '-', ' '], ".");
    let text = folded.trim_matches('.');
    let ending = ["th", "st", "nd", "rd", "%"]
        .iter()
        .find_map(|ending| text.strip_suffix(ending));
    let in_words = |word: &&&str| text.starts_with(**word) || text.ends_with(**word);
    let around = AROUND.iter().find(in_words);
    let digits = match (around, ending) {
        (Some(word), _) => {
            let rest = text
                .strip_prefix(word)
                .or_else(|| text.strip_suffix(word))?;
            let rest = rest.trim_matches('.');
            ["th", "st", "nd", "rd", "%"]
                .iter()
                .find_map(|ending| rest.strip_suffix(ending))
                .unwrap_or(rest)
        }
        (None, Some(rest)) => rest.trim_matches('.'),
        (None, None) => return None,
    };
    let (whole, rest) = digits.split_once('.').unwrap_or((digits, ""));
    let are_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || whole.len() + rest.len() > 9 || !are_digits(whole) || !are_digits(rest) {
        return None;
    }
    let decimals = match whole.len() {
        // `q0.99`
        1 if whole == "0" && digits.contains('.') => rest.to_owned(),
        1 => format!("0{whole}{rest}"),
        2 => format!("{whole}{rest}"),
        // `p999`, as many write for `p99.9`
        _ if whole.starts_with("99") && rest.is_empty() => whole.to_owned(),
        _ => return None,
    };
    let decimals = decimals.trim_end_matches('0');
    (!decimals.is_empty()).then(|| format!("0.{decimals}"))
}

#[cfg(test)]
mod tests {
    use super::probability;

    #[test]
    fn a_quantile_under_any_usual_name_is_a_probability() {
        for (word, meant) in [
            ("p99", "0.99"),
            ("P50", "0.5"),
            ("p5", "0.05"),
            ("p99.9", "0.999"),
            ("p99_9", "0.999"),
            ("p999", "0.999"),
            ("p-95", "0.95"),
            ("q99", "0.99"),
            ("q0.99", "0.99"),
            ("95th", "0.95"),
            ("95th-percentile", "0.95"),
            ("percentile_99", "0.99"),
            ("99%", "0.99"),
            ("99.9 %", "0.999"),
            ("22nd", "0.22"),
        ] {
            assert_eq!(probability(word).as_deref(), Some(meant), "{word}");
        }
        for none in [
            "",
            "p",
            "p0",
            "p100",
            "q",
            "percentile",
            "99",
            "0.99",
            "p99x",
            "pp99",
            "p1000",
            "cpu99",
            "p-",
            "%",
            "th",
            "p123456789012345678901234567890",
            "p9.9.9",
        ] {
            assert_eq!(probability(none), None, "{none}");
        }
    }
}
