//! Scales and their ticks.

/// Maps values to positions: linear, or logarithmic with base two or ten.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    logarithmic: bool,
}

impl Scale {
    pub(super) fn linear(low: f64, high: f64, from: f64, to: f64) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        Self {
            low,
            high,
            from,
            to,
            logarithmic: false,
        }
    }

    pub(super) fn logarithmic(low: f64, high: f64, from: f64, to: f64) -> Self {
        let (low, high) = if high > low {
            (low, high)
        } else {
            (low / 1.5, low * 1.5)
        };
        Self {
            low: low.ln(),
            high: high.ln(),
            from,
            to,
            logarithmic: true,
        }
    }

    /// Returns the title of the axis. On a logarithmic one, equal distances are equal factors, which the title says.
    pub(super) fn titled(&self, title: String) -> String {
        match self.logarithmic && !title.contains("log") {
            true => format!("{title}, log"),
            false => title,
        }
    }

    pub(super) fn at(&self, value: f64) -> f64 {
        let value = if self.logarithmic { value.ln() } else { value };
        self.from + (value - self.low) / (self.high - self.low) * (self.to - self.from)
    }
}

/// Returns about `count` round ticks that cover `low..=high`: multiples of 1, 2 or 5 times a power of ten. The first is
/// at or below `low`, the last at or above `high`.
pub(super) fn ticks(low: f64, high: f64, count: u32) -> Vec<f64> {
    let span = if high > low { high - low } else { 1.0 };
    let rough = span / f64::from(count.max(1));
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|m| m * power)
        .into_iter()
        .find(|s| *s >= rough * 0.999);
    let step = step.unwrap_or(power * 10.0);
    let first = (low / step + 1e-9).floor();
    let last = (high / step - 1e-9).ceil();
    let mut ticks = Vec::new();
    let mut i = first;
    while i <= last && ticks.len() < 100 {
        ticks.push(i * step);
        i += 1.0;
    }
    ticks
}

/// Returns ticks of a logarithmic axis: 1, 2 and 5 times powers of ten within the range.
pub(super) fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let decades = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
    let all = decades.flat_map(|d| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(d)));
    all.filter(|t| *t >= low * 0.999 && *t <= high * 1.001)
        .collect()
}

/// Formats ticks with exactly the decimals they need.
pub(super) fn tick_text(value: f64, all: &[f64]) -> String {
    let needed =
        |v: &f64| (0..8).find(|d| (v * 10f64.powi(*d) - (v * 10f64.powi(*d)).round()).abs() < 1e-6);
    let decimals = all.iter().filter_map(needed).max().unwrap_or(0);
    let text = format!("{value:.*}", usize::try_from(decimals).unwrap_or(0));
    let text = if text
        .trim_start_matches('-')
        .bytes()
        .all(|b| b == b'0' || b == b'.')
    {
        text.trim_start_matches('-').to_owned()
    } else {
        text
    };
    text.replace('-', "\u{2212}")
}

/// Returns the scale of an axis and its ticks. It starts at 0 if the values are close to 0, and is logarithmic on
/// request if every value is above 0.
pub(super) fn axis(
    (low, high): (f64, f64),
    log: bool,
    (from, to): (f64, f64),
    few: u32,
) -> (Scale, Vec<f64>) {
    if log && low > 0.0 {
        let (low, high) = (low / 1.2, high * 1.2);
        return (
            Scale::logarithmic(low, high, from, to),
            log_ticks(low, high),
        );
    }
    let marks = ticks(
        low.min(0.0),
        if high > 0.0 { high * 1.04 } else { 0.0 },
        few,
    );
    (
        Scale::linear(marks[0], marks[marks.len() - 1], from, to),
        marks,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_cover_the_range() {
        assert_eq!(
            ticks(0.0, 0.97, 5),
            [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]
        );
        assert_eq!(ticks(-0.3, 1.1, 5).first(), Some(&-0.5));
        assert_eq!(tick_text(0.2, &[0.0, 0.25]), "0.20");
        assert_eq!(log_ticks(80.0, 1100.0), [100.0, 200.0, 500.0, 1000.0]);
    }
}
