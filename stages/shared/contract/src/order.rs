//! One order of scalars, for sorting cells by coordinates. The row order of every derived table
//! follows from the values, not from the order of execution.

use std::cmp::Ordering;

use artifacts::Scalar;

/// Compares two scalars: null, then truth values, then numbers by size, then text.
pub fn compare(a: &Scalar, b: &Scalar) -> Ordering {
    let class = |s: &Scalar| match s {
        Scalar::Null => 0,
        Scalar::Bool(_) => 1,
        Scalar::Int(_) | Scalar::Float(_) => 2,
        Scalar::Text(_) => 3,
    };
    match (a, b) {
        (Scalar::Bool(a), Scalar::Bool(b)) => a.cmp(b),
        (Scalar::Int(a), Scalar::Int(b)) => a.cmp(b),
        (Scalar::Text(a), Scalar::Text(b)) => a.cmp(b),
        _ => match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            _ => class(a).cmp(&class(b)),
        },
    }
}

/// Compares two lists of scalars by their first difference.
pub fn compare_all(a: &[Scalar], b: &[Scalar]) -> Ordering {
    let pairs = a.iter().zip(b).map(|(a, b)| compare(a, b));
    pairs
        .into_iter()
        .find(|o| o.is_ne())
        .unwrap_or_else(|| a.len().cmp(&b.len()))
}

/// A label as the text before each of its numbers, the text after the last one, and its numbers: `2026-01-31` has 2026, 1
/// and 31, `run-7` has 7.
struct Split {
    texts: Vec<String>,
    numbers: Vec<f64>,
}

impl Split {
    fn of(label: &Scalar) -> Self {
        let mut split = Self {
            texts: vec![String::new()],
            numbers: Vec::new(),
        };
        if let Some(number) = label.as_f64() {
            split.numbers.push(number);
            return split;
        }
        let text = label.to_string();
        let runs: Vec<char> = text.chars().collect();
        for run in runs.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit()) {
            let run: String = run.iter().collect();
            match run.parse() {
                Ok(number) if run.starts_with(|c: char| c.is_ascii_digit()) => {
                    split.numbers.push(number);
                    split.texts.push(String::new());
                }
                _ => {
                    split.texts.pop();
                    split.texts.push(run);
                }
            }
        }
        split
    }

    /// Returns whether two labels differ in nothing but numbers.
    fn is_like(&self, other: &Self) -> bool {
        self.texts == other.texts && self.numbers.len() == other.numbers.len()
    }
}

/// The numbers that are years, if they follow a day, a month, a week or a quarter.
const YEARS: std::ops::RangeInclusive<f64> = 1900.0..=2199.0;

/// Returns the ways to read labels as numbers, each as the positions from the most to the least significant one. A year
/// comes first, wherever the labels have it. Days and months before a year have two ways if the labels leave both open.
/// The result is empty if some labels put the day first and others the month.
fn readings(labels: &[Split]) -> Vec<Vec<usize>> {
    let Some(first) = labels.first() else {
        return Vec::new();
    };
    let count = first.numbers.len();
    let all = |at: usize, holds: &dyn Fn(f64) -> bool| labels.iter().all(|l| holds(l.numbers[at]));
    let is_year = |at: usize| all(at, &|n| YEARS.contains(&n));
    let between = |at: usize| first.texts[at].as_str();
    let moved = |year: usize, rest: &[usize]| -> Vec<usize> {
        let start = year - rest.len();
        let (before, after) = (0..start, year + 1..count);
        before
            .chain([year])
            .chain(rest.iter().copied())
            .chain(after)
            .collect()
    };
    let natural = vec![(0..count).collect()];
    let Some(year) = (1..count).find(|at| is_year(*at)) else {
        return natural;
    };
    let separator = between(year);
    let of_year = |at: usize| matches!(between(at), "." | "/" | "-" | " ");
    if year >= 2 && of_year(year) && between(year - 1) == separator && all(year - 1, &|n| n <= 31.0)
    {
        let [a, b] = [year - 2, year - 1];
        let (day_first, month_first) = (moved(year, &[b, a]), moved(year, &[a, b]));
        return match (all(a, &|n| n <= 12.0), all(b, &|n| n <= 12.0)) {
            (true, true) if separator == "." => vec![day_first],
            (true, true) => vec![day_first, month_first],
            (false, true) => vec![day_first],
            (true, false) => vec![month_first],
            (false, false) => Vec::new(),
        };
    }
    match of_year(year) && all(year - 1, &|n| n <= 53.0) {
        true => vec![moved(year, &[year - 1])],
        false => natural,
    }
}

/// Returns the positions of labels in rising order. Only labels that differ in nothing but numbers have an order, such as
/// numbers, dates, or `run-7`; `None` for others, and for dates that leave open whether the day or the month is first if
/// their order depends on it.
pub fn in_order(labels: &[Scalar]) -> Option<Vec<usize>> {
    let split: Vec<Split> = labels.iter().map(Split::of).collect();
    let first = split.first()?;
    if first.numbers.is_empty() || !split.iter().all(|other| other.is_like(first)) {
        return None;
    }
    let sorted = |reading: &Vec<usize>| {
        let key = |label: &Split| reading.iter().map(|at| label.numbers[*at]).collect();
        let keys: Vec<Vec<f64>> = split.iter().map(key).collect();
        let mut order: Vec<usize> = (0..labels.len()).collect();
        order.sort_by(|a, b| {
            let mut pairs = keys[*a].iter().zip(&keys[*b]).map(|(a, b)| a.total_cmp(b));
            pairs.find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
        });
        order
    };
    let mut orders: Vec<Vec<usize>> = readings(&split).iter().map(sorted).collect();
    orders.dedup();
    match orders.len() {
        1 => orders.pop(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_sort_by_size_and_before_text() {
        let mut values = [
            Scalar::Text("16".into()),
            Scalar::Int(16),
            Scalar::Float(2.5),
            Scalar::Int(2),
            Scalar::Null,
        ];
        values.sort_by(compare);
        let text: Vec<String> = values.iter().map(ToString::to_string).collect();
        assert_eq!(text, ["null", "2", "2.5", "16", "16"]);
    }

    #[test]
    fn labels_that_differ_in_numbers_only_have_an_order() {
        let text = |label: &str| Scalar::Text(label.to_owned());
        let runs = ["run-10", "run-9", "run-2"].map(text);
        assert_eq!(in_order(&runs), Some(vec![2, 1, 0]));
        let days = ["2026-02-01", "2025-12-31"].map(text);
        assert_eq!(in_order(&days), Some(vec![1, 0]));
        assert_eq!(
            in_order(&[Scalar::Int(3), Scalar::Int(1)]),
            Some(vec![1, 0])
        );
        assert_eq!(in_order(&["a1", "b1"].map(text)), None);
        assert_eq!(in_order(&["run-7", "run7"].map(text)), None);
        assert_eq!(in_order(&["mon", "tue"].map(text)), None);
    }

    #[test]
    fn a_year_counts_first_wherever_a_date_has_it() {
        let order = |labels: &[&str]| {
            let labels: Vec<Scalar> = labels
                .iter()
                .map(|l| Scalar::Text((*l).to_owned()))
                .collect();
            in_order(&labels)
        };
        let rising = Some(vec![0, 1, 2]);
        for dates in [
            ["28.12.2025", "04.01.2026", "01.02.2026"],
            ["28/12/2025", "04/01/2026", "01/02/2026"],
            ["12/28/2025", "01/04/2026", "02/01/2026"],
            [
                "run of 28-12-2025 09:30",
                "run of 28-12-2025 14:05",
                "run of 01-01-2026 00:00",
            ],
            ["03.12.2025", "02.01.2026", "01.02.2026"],
            ["12/2025", "01/2026", "02/2026"],
            ["Q4 2025", "Q1 2026", "Q2 2026"],
            ["2025-12-28", "2026-01-04", "2026-02-01"],
            // Either reading gives the same order.
            ["01/02/2026", "02/02/2026", "03/02/2026"],
            // Not a year: the second number counts for itself.
            ["batch-8 x 2000", "batch-16 x 1900", "batch-16 x 2100"],
        ] {
            assert_eq!(order(&dates), rising, "{dates:?}");
        }
        // The third of January and the first of February, or the first of March and the second of January?
        assert_eq!(order(&["03/01/2025", "01/02/2025"]), None);
        // Both cannot be the month.
        assert_eq!(order(&["28.12.2025", "12.28.2025"]), None);
    }
}
