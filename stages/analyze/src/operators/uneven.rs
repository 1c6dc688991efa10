//! Quantiles of the sides of a comparison that rest on unlike numbers of values.

use contract::uneven::{counts_of, unlike_counts};

use crate::frame::Frame;

/// A column of quantiles or extremes in a table that records the number of values behind each.
pub(crate) struct Quantiles<'a> {
    from: &'a Frame,
    p: f64,
    counts: String,
    /// The position of the axis of the sides.
    axis: usize,
}

impl<'a> Quantiles<'a> {
    /// Returns `None` for other columns, and where the number of values is unknown.
    pub(crate) fn of(from: &'a Frame, column: &str, axis: &str) -> Option<Self> {
        let (counts, p) = counts_of(column)?;
        from.spec(&counts)?;
        Some(Self {
            from,
            p,
            counts,
            axis: from.keys.iter().position(|key| key == axis)?,
        })
    }

    /// Explains why the quantiles of two sides in some rows cannot be compared.
    pub(crate) fn refusal(&self, rows: &[usize], sides: [&str; 2]) -> Option<String> {
        let counts = sides.map(|side| {
            let on = |row: &&usize| self.from.rows[**row].key[self.axis].to_string() == side;
            let counts = rows.iter().filter(on);
            let counts = counts.filter_map(|row| self.from.number(*row, &self.counts));
            counts.filter(|n| *n > 0.0).collect::<Vec<f64>>()
        });
        unlike_counts(self.p, sides, &counts)
    }
}

#[cfg(test)]
mod tests {
    use artifacts::Scalar;

    use super::*;
    use crate::frame::{Level, Row, Spec};

    fn refusal(column: &str, n: [i64; 2]) -> Option<String> {
        let row = |(side, n): (&str, i64)| {
            let values = vec![Scalar::Float(1.0), Scalar::Int(n)];
            Row::new(vec![Scalar::Text(side.to_owned())], values, Vec::new())
        };
        let frame = Frame {
            level: Level::Cell,
            keys: vec!["side".to_owned()],
            specs: vec![
                Spec::float(column, "ms", "a quantile"),
                Spec::int("ttft_ms_n", "1", "values"),
            ],
            rows: ["a", "b"].into_iter().zip(n).map(row).collect(),
            missing: Vec::new(),
        };
        Quantiles::of(&frame, column, "side")?.refusal(&[0, 1], ["a", "b"])
    }

    #[test]
    fn tail_quantiles_of_unlike_numbers_of_values_are_not_compared() {
        let reason = refusal("ttft_ms_p90", [40, 400]).unwrap();
        assert!(
            reason.starts_with("the p90 of a is of 40 values and that of b of 400: "),
            "{reason}"
        );
        assert!(refusal("ttft_ms_p99", [400, 4_000]).is_some());
        assert!(refusal("ttft_ms_p10", [40, 400]).is_some());
        // Almost equally many, apart from a few failures, and medians of any number.
        assert_eq!(refusal("ttft_ms_p90", [40, 39]), None);
        assert_eq!(refusal("ttft_ms_p99", [400, 440]), None);
        assert_eq!(refusal("ttft_ms_p50", [6, 400]), None);
        // The largest of more values is larger.
        let reason = refusal("ttft_ms_max", [40, 44]).unwrap();
        assert!(
            reason.starts_with("the largest value of a is of 40 values and that of b of 44: "),
            "{reason}"
        );
        assert_eq!(refusal("ttft_ms_max", [40, 39]), None);
        // Not a quantile, or a quantile without a count.
        assert_eq!(refusal("ttft_ms_mean", [40, 400]), None);
        assert_eq!(refusal("other_p90", [40, 400]), None);
    }
}
