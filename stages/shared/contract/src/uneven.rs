//! Quantiles and extremes over unlike numbers of values.
//!
//! The quantile p of n values (type 7) is, on average, about the quantile p + (1 − 2p) ÷ (n + 1) of the distribution
//! they came from. It is too low in an upper tail, and more so the fewer values there are. With equally many values on
//! each side this cancels in a ratio. With 40 against 400 it does not: a p90 of 40 values is 3 % lower if requests vary
//! by 50 %, and 5 % if they are exponential. That is bias, not noise, so no interval shows it, and more units make it worse.

/// The share by which the tails beyond two quantiles may differ because one rests on fewer values. For an exponential
/// tail, the quantiles then differ by at most 2 %.
const TAIL: f64 = 0.05;

/// Returns whether the quantile p of one number of values is noticeably nearer to the middle of its distribution than
/// that of another number. For the extremes, p is 0 or 1.
pub fn differ_by_counts(p: f64, counts: [f64; 2]) -> bool {
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
pub fn quantile_of(column: &str) -> Option<(&str, f64)> {
    let (stem, percent) = column.rsplit_once("_p")?;
    let percent: f64 = percent.replace('_', ".").parse().ok()?;
    (percent > 0.0 && percent < 100.0).then_some((stem, percent / 100.0))
}

/// Returns the column with the number of values behind a quantile or an extreme, and its p: 0 and 1 for the extremes;
/// `None` for other columns.
pub fn counts_of(column: &str) -> Option<(String, f64)> {
    let extreme = |end, p| Some((column.strip_suffix(end)?, p));
    let (stem, p) = quantile_of(column)
        .or_else(|| extreme("_max", 1.0))
        .or_else(|| extreme("_min", 0.0))?;
    Some((format!("{stem}_n"), p))
}

/// Explains why the quantiles p of two named sides cannot be compared, from the numbers of values behind each.
pub fn unlike_counts(p: f64, [a, b]: [&str; 2], counts: &[Vec<f64>; 2]) -> Option<String> {
    if counts.iter().any(Vec::is_empty) {
        return None;
    }
    let mean = |values: &[f64], map: fn(f64) -> f64| {
        values.iter().map(|n| map(*n)).sum::<f64>() / values.len() as f64
    };
    let shares = counts.each_ref().map(|n| mean(n, |n| 1.0 / (n + 1.0)));
    let [n, m] = counts.each_ref().map(|n| mean(n, |n| n).round());
    let percent = format!("{:.4}", 100.0 * p);
    let percent = percent.trim_end_matches('0').trim_end_matches('.');
    let which = match p {
        0.0 => "smallest value".to_owned(),
        1.0 => "largest value".to_owned(),
        _ => format!("p{percent}"),
    };
    (apart(p, shares) > TAIL).then(|| {
        format!(
            "the {which} of {a} is of {n} values and that of {b} of {m}: a tail quantile of fewer values is biased \
             towards the middle; measure as many requests on each side"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quantile_of_a_column_is_in_its_name() {
        assert_eq!(quantile_of("ttft_ms_p50"), Some(("ttft_ms", 0.5)));
        assert!((quantile_of("itl_ms_p99_9").unwrap().1 - 0.999).abs() < 1e-12);
        assert_eq!(quantile_of("output_throughput"), None);
        assert_eq!(quantile_of("slo_pass_rate"), None);
        assert_eq!(quantile_of("ttft_ms_p50_low"), None);
        assert_eq!(
            counts_of("ttft_ms_max"),
            Some(("ttft_ms_n".to_owned(), 1.0))
        );
        assert_eq!(counts_of("ttft_ms_mean"), None);
    }
}
