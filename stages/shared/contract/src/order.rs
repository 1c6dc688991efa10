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
}
