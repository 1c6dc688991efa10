//! A span of time as settings write it: `500 ms`, `30 s`, `10 min`.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A span of time, whole nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeSpan(Duration);

/// Units from large to small, with their nanoseconds.
const UNITS: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

impl TimeSpan {
    /// Makes a span of whole microseconds.
    pub const fn microseconds(count: u64) -> Self {
        Self(Duration::from_micros(count))
    }

    /// Makes a span of whole milliseconds.
    pub const fn milliseconds(count: u64) -> Self {
        Self(Duration::from_millis(count))
    }

    /// Makes a span of whole seconds.
    pub const fn seconds(count: u64) -> Self {
        Self(Duration::from_secs(count))
    }

    /// Makes the span of a duration.
    pub(crate) const fn of(duration: Duration) -> Self {
        Self(duration)
    }

    /// Returns the span as a duration.
    pub fn duration(self) -> Duration {
        self.0
    }

    /// Returns the span in nanoseconds; spans above 584 years saturate.
    pub fn nanoseconds(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Reads a number and a unit (`h`, `min`, `s`, `ms`, `us`, `ns`).
    ///
    /// # Errors
    /// If the text is anything else, negative, or longer than 584 years.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || match pipeline::suggest::duration(text) {
            Some(meant) => format!("`{text}` is not a duration; write `{meant}`"),
            None => {
                format!("`{text}` is not a duration; write a number and a unit, such as `30 s`")
            }
        };
        let trimmed = text.trim();
        let split = trimmed
            .find(|c: char| c.is_ascii_alphabetic())
            .ok_or_else(wrong)?;
        let (number, unit) = (trimmed[..split].trim(), &trimmed[split..]);
        let (_, scale) = UNITS
            .into_iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(wrong)?;
        let nanoseconds = if let Ok(whole) = number.parse::<u64>() {
            whole.checked_mul(scale).ok_or_else(wrong)?
        } else {
            let value = number
                .parse::<f64>()
                .ok()
                .filter(|v| v.is_finite() && *v >= 0.0)
                .ok_or_else(wrong)?;
            let nanoseconds = value * scale as f64;
            if nanoseconds >= u64::MAX as f64 {
                return Err(wrong());
            }
            nanoseconds.round() as u64
        };
        Ok(Self(Duration::from_nanos(nanoseconds)))
    }
}

impl fmt::Display for TimeSpan {
    /// Formats the span in its only normal form: with the largest unit that divides it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = self.nanoseconds();
        if nanoseconds == 0 {
            return f.write_str("0 s");
        }
        let (unit, scale) = UNITS
            .into_iter()
            .find(|(_, scale)| nanoseconds.is_multiple_of(*scale))
            .expect("every count of nanoseconds is a multiple of one");
        write!(f, "{} {unit}", nanoseconds / scale)
    }
}

impl Serialize for TimeSpan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TimeSpan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for TimeSpan {
    fn schema_name() -> Cow<'static, str> {
        "TimeSpan".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "format": "span",
            "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*(h|min|s|ms|us|ns)$",
            "description": "A span of time: a number and a unit (`h`, `min`, `s`, `ms`, `us`, `ns`)."
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_spans_have_one_canonical_form() {
        for text in ["120 s", "2 min", "2min", "120000 ms"] {
            assert_eq!(TimeSpan::parse(text).unwrap().to_string(), "2 min");
        }
        assert_eq!(TimeSpan::parse("0.5 s").unwrap().to_string(), "500 ms");
        assert_eq!(TimeSpan::parse("0 ms").unwrap().to_string(), "0 s");
    }

    #[test]
    fn a_span_without_unit_or_sense_is_refused() {
        for text in [
            "30",
            "",
            "s",
            "-1 s",
            "nan s",
            "3 weeks",
            "1e400 s",
            "99999999999 h",
        ] {
            assert!(TimeSpan::parse(text).is_err(), "{text}");
        }
    }
}
