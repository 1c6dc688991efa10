//! Quantiles over unlike numbers of values.
//!
//! The quantile p of n values (type 7) is, on average, about the quantile p + (1 − 2p) ÷ (n + 1) of the distribution
//! they came from. It is too low in an upper tail, and more so the fewer values there are. With equally many values on
//! each side this cancels in a ratio. With 40 against 400 it does not: a p90 of 40 values is 5 % lower if requests vary
//! by 50 %. That is bias, not noise, so no interval shows it, and more units make it worse.

use crate::frame::Frame;

/// The share by which the tails beyond two quantiles may differ because one rests on fewer values. For an exponential
/// tail, the quantiles then differ by at most 2 %.
const TAIL: f64 = 0.05;

/// Returns whether the quantile p of one number of values is noticeably nearer to the middle of its distribution than
/// that of another number. For the extremes, p is 0 or 1.
pub(crate) fn differ_by_counts(p: f64, counts: [f64; 2]) -> bool {
    let [a, b] = counts.map(|n| 1.0 / (n + 1.0));
    apart(p, [a, b]) > TAIL
}

/// How far the tails beyond a quantile are apart, given the means of 1 ÷ (n + 1).
fn apart(p: f64, [a, b]: [f64; 2]) -> f64 {
    match p.min(1.0 - p) {
        tail if tail > 0.0 => (2.0 * p - 1.0).abs() / tail * (a - b).abs(),
        // Beyond the largest of n values lies 1 ÷ (n + 1) of the distribution.
        _ => (a - b).abs() / a.max(b),
    }
}

/// Returns the metric and the quantile that a column's name stands for, as `ttft_ms_p99_9` is 0.999.
pub(crate) fn quantile_of(column: &str) -> Option<(&str, f64)> {
    let (stem, percent) = column.rsplit_once("_p")?;
    let percent: f64 = percent.replace('_', ".").parse().ok()?;
    (percent > 0.0 && percent < 100.0).then_some((stem, percent / 100.0))
}

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
        let extreme = |end, p| Some((column.strip_suffix(end)?, p));
        let (stem, p) = quantile_of(column)
            .or_else(|| extreme("_max", 1.0))
            .or_else(|| extreme("_min", 0.0))?;
        let counts = format!("{stem}_n");
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
        if counts.iter().any(Vec::is_empty) {
            return None;
        }
        let mean = |values: &[f64], of: fn(f64) -> f64| {
            values.iter().map(|n| of(*n)).sum::<f64>() / values.len() as f64
        };
        let [a, b] = counts.each_ref().map(|n| mean(n, |n| 1.0 / (n + 1.0)));
        let off = apart(self.p, [a, b]);
        let [n, m] = counts.each_ref().map(|n| mean(n, |n| n).round());
        let [a, b] = sides;
        let percent = format!("{:.4}", 100.0 * self.p);
        let percent = percent.trim_end_matches('0').trim_end_matches('.');
        let which = match self.p {
            0.0 => "smallest value".to_owned(),
            1.0 => "largest value".to_owned(),
            _ => format!("p{percent}"),
        };
        (off > TAIL).then(|| {
            format!(
                "the {which} of {a} is of {n} values and that of {b} of {m}: a tail quantile of fewer values is biased \
                 towards the middle; measure as many requests on each side"
            )
        })
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

    #[test]
    fn the_quantile_of_a_column_is_in_its_name() {
        assert_eq!(quantile_of("ttft_ms_p50"), Some(("ttft_ms", 0.5)));
        assert!((quantile_of("itl_ms_p99_9").unwrap().1 - 0.999).abs() < 1e-12);
        assert_eq!(quantile_of("output_throughput"), None);
        assert_eq!(quantile_of("slo_pass_rate"), None);
        assert_eq!(quantile_of("ttft_ms_p50_low"), None);
    }
}
