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

/// Splits a label into its numbers and the text around them: `2026-01-31` into 2026, 1 and 31, `run-7` into 7.
fn numbers(label: &Scalar) -> (Vec<String>, Vec<f64>) {
    if let Some(number) = label.as_f64() {
        return (Vec::new(), vec![number]);
    }
    let text = label.to_string();
    let is_digit = |c: char| c.is_ascii_digit();
    let around = text.split(is_digit).filter(|part| !part.is_empty());
    let digits = text.split(|c| !is_digit(c)).filter(|part| !part.is_empty());
    (
        around.map(str::to_owned).collect(),
        digits.filter_map(|digits| digits.parse().ok()).collect(),
    )
}

/// Returns the positions of labels in rising order. Only labels that differ in nothing but numbers have an order, such as
/// numbers, dates, or `run-7`; `None` for others.
pub fn in_order(labels: &[Scalar]) -> Option<Vec<usize>> {
    let split: Vec<(Vec<String>, Vec<f64>)> = labels.iter().map(numbers).collect();
    let (around, first) = split.first()?;
    let alike = |(other, numbers): &(Vec<String>, Vec<f64>)| {
        other == around && numbers.len() == first.len()
    };
    if first.is_empty() || !split.iter().all(alike) {
        return None;
    }
    let mut order: Vec<usize> = (0..labels.len()).collect();
    order.sort_by(|a, b| {
        let pairs = split[*a].1.iter().zip(&split[*b].1);
        let mut pairs = pairs.map(|(a, b)| a.total_cmp(b));
        pairs.find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
    });
    Some(order)
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
        assert_eq!(in_order(&["mon", "tue"].map(text)), None);
    }
}
