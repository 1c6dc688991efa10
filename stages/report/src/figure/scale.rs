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

/// The most ticks of a logarithmic axis.
const MOST: usize = 13;

/// Returns ticks of a logarithmic axis: 1, 2 and 5 times powers of ten within the range, or only powers of ten if these
/// are too many. In a range with fewer than two of them, the ticks are those of a linear axis, since a single number does
/// not show the scale.
pub(super) fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let decades = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
    let inside = |tick: &f64| *tick >= low * 0.999 && *tick <= high * 1.001;
    let fine = decades
        .clone()
        .flat_map(|d| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(d)));
    let fine: Vec<f64> = fine.filter(inside).collect();
    match fine.len() {
        0..2 => {
            let slack = (high - low) * 1e-9;
            let round = ticks(low, high, 4).into_iter();
            round
                .filter(|t| *t >= low - slack && *t <= high + slack)
                .collect()
        }
        2..=MOST => fine,
        _ => {
            let powers: Vec<f64> = decades.map(|d| 10f64.powi(d)).filter(inside).collect();
            let step = powers.len().div_ceil(MOST);
            powers.into_iter().step_by(step).collect()
        }
    }
}

/// Formats ticks with exactly the decimals they need. Small numbers have a power of ten, since their zeros would fill the
/// space beside an axis.
pub(super) fn tick_text(value: f64, all: &[f64]) -> String {
    let largest = all.iter().fold(0.0_f64, |most, t| most.max(t.abs()));
    if largest > 0.0 && largest < 1e-4 {
        return power_text(value);
    }
    let needed = |v: &f64| {
        let is_whole =
            |scaled: f64| (scaled - scaled.round()).abs() <= 1e-6 * scaled.abs().min(1.0);
        (0..9).find(|d| is_whole(v * 10f64.powi(*d)))
    };
    let decimals = all.iter().map(|v| needed(v).unwrap_or(8)).max();
    let decimals = decimals.unwrap_or(0);
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

/// Formats a tick as digits and a power of ten, as the numbers of tables: `2.5e−7`.
pub(super) fn power_text(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let text = format!("{value:.5e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    format!("{digits}e{power}").replace('-', "\u{2212}")
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

    #[test]
    fn a_logarithmic_axis_has_numbers_however_narrow_or_wide_it_is() {
        assert_eq!(log_ticks(265.0, 412.0), [300.0, 350.0, 400.0]);
        assert_eq!(log_ticks(0.021, 0.023).len(), 5);
        assert_eq!(log_ticks(5.0 / 1.5, 7.5), [4.0, 6.0]);
        let wide = log_ticks(1e-6, 1e9);
        assert!(wide.len() <= MOST && wide.len() > 5, "{wide:?}");
        for (low, factor) in [
            (1e-9, 1.002),
            (3.0, 1.05),
            (7e5, 1.4),
            (1.0, 3.9),
            (1.0, 1e4),
        ] {
            let count = log_ticks(low, low * factor).len();
            assert!((2..=MOST).contains(&count), "{low} {factor} {count}");
        }
    }

    #[test]
    fn each_tick_has_its_own_number_however_small() {
        let texts =
            |all: &[f64]| -> Vec<String> { all.iter().map(|tick| tick_text(*tick, all)).collect() };
        assert_eq!(
            texts(&ticks(0.0, 1e-6, 5)),
            [
                "0",
                "2e\u{2212}7",
                "4e\u{2212}7",
                "6e\u{2212}7",
                "8e\u{2212}7",
                "1e\u{2212}6"
            ]
        );
        assert_eq!(
            texts(&[0.0, 0.00005, 0.0001]),
            ["0.00000", "0.00005", "0.00010"]
        );
        for power in -12..6 {
            let all = ticks(0.0, 3.7 * 10_f64.powi(power), 5);
            let mut shown = texts(&all);
            shown.dedup();
            assert_eq!(shown.len(), all.len(), "{all:?} {shown:?}");
        }
        // A sum of steps is not exactly the number that it stands for.
        assert_eq!(tick_text(0.1 + 0.2, &[0.1 + 0.2]), "0.3");
        assert_eq!(tick_text(1.0 / 3.0, &[1.0 / 3.0]), "0.33333333");
    }
}
