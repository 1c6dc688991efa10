//! Types that the settings of several stage kinds share.

use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A duration as people write it: `500 ms`, `30 s`, `1.5 min`, `2 h`; whole milliseconds.
///
/// It is serialized as an integer number of milliseconds, so that one minute and 60 s are the same canonical parameter.
/// It can be deserialized from either form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DurationText(pub Duration);

/// The units, largest first, with their length in milliseconds.
const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1)];

impl DurationText {
    /// Reads a duration.
    ///
    /// # Errors
    /// One sentence with the problem, if the text is not a number with a unit, not a whole number of milliseconds, or
    /// longer than ten years.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let wrong = || format!("`{text}` is not a duration");
        let end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = (&text[..end], text[end..].trim_start());
        if number == "0" && unit.is_empty() {
            return Ok(Self(Duration::ZERO));
        }
        let (_, factor) = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(wrong)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        if whole.is_empty() || fraction.is_empty() || fraction.len() > 9 || whole.len() > 12 {
            return Err(wrong());
        }
        let digits: u128 = format!("{whole}{fraction}").parse().map_err(|_| wrong())?;
        let scale = 10u128.pow(u32::try_from(fraction.len()).map_err(|_| wrong())?);
        let scaled = digits * u128::from(*factor);
        if !scaled.is_multiple_of(scale) {
            return Err(format!("`{text}` is not a whole number of milliseconds"));
        }
        match u64::try_from(scaled / scale) {
            Ok(ms) if ms <= 10 * 366 * 24 * 3_600_000 => Ok(Self(Duration::from_millis(ms))),
            _ => Err(format!("`{text}` is longer than ten years")),
        }
    }

    /// Returns the number of whole milliseconds.
    pub fn milliseconds(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for DurationText {
    /// Writes the duration with the largest unit that divides it: `2 min`, `90 s`, `1500 ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.milliseconds();
        let fits = |(_, factor): &&(&str, u64)| ms.is_multiple_of(*factor);
        let (unit, factor) = UNITS
            .iter()
            .find(fits)
            .expect("every number of milliseconds is one of 1 ms");
        if ms == 0 {
            f.write_str("0 s")
        } else {
            write!(f, "{} {unit}", ms / factor)
        }
    }
}

impl Serialize for DurationText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.milliseconds())
    }
}

impl<'de> Deserialize<'de> for DurationText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = DurationText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration such as `30 s`, or milliseconds")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<DurationText, E> {
                DurationText::parse(text).map_err(E::custom)
            }
            fn visit_u64<E: de::Error>(self, ms: u64) -> Result<DurationText, E> {
                Ok(DurationText(Duration::from_millis(ms)))
            }
            fn visit_i64<E: de::Error>(self, ms: i64) -> Result<DurationText, E> {
                u64::try_from(ms)
                    .map_err(|_| E::custom("a duration is not negative"))
                    .and_then(|v| self.visit_u64(v))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for DurationText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Duration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "format": "duration",
            "pattern": r"^\s*([0-9]+(\.[0-9]+)?\s*(ms|s|min|h)|0)\s*$",
        })
    }
}

/// Returns the share that a number of percent is; `None` if it is not a decimal number without an exponent. Division by
/// 100 would make 99.9 % a neighbour of 0.999.
pub fn share_of_percent(percent: impl fmt::Display) -> Option<f64> {
    format!("{percent}e-2").parse().ok()
}

/// Returns the number of percent that a share is. Multiplication by 100 would make 0.07 a neighbour of 7 %.
pub fn percent_of_share(share: f64) -> f64 {
    // Infinity and NaN take no exponent, and are their own percentages.
    format!("{share}e2").parse().unwrap_or(share)
}

/// A share as people write it: `3 %`, `0.5 %`. It is serialized as a fraction: 0.03.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize)]
pub struct PercentText(pub f64);

impl PercentText {
    /// Reads a share above 0 % and at most 1000 %.
    ///
    /// # Errors
    /// One sentence with the problem.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{}` is not a percentage", text.trim());
        let number = text.trim().strip_suffix('%').ok_or_else(wrong)?.trim_end();
        let plain = |c: char| c.is_ascii_digit() || c == '.';
        if !number.starts_with(|c: char| c.is_ascii_digit()) || !number.chars().all(plain) {
            return Err(wrong());
        }
        let share = share_of_percent(number).ok_or_else(wrong)?;
        if share <= 0.0 || share > 10.0 {
            return Err(format!(
                "`{}` must be above 0 % and at most 1000 %",
                text.trim()
            ));
        }
        Ok(Self(share))
    }
}

impl<'de> Deserialize<'de> for PercentText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = PercentText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a percentage such as `3 %`, or a fraction")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<PercentText, E> {
                PercentText::parse(text).map_err(E::custom)
            }
            fn visit_f64<E: de::Error>(self, share: f64) -> Result<PercentText, E> {
                Ok(PercentText(share))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for PercentText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Percent".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "format": "percent",
            "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*%\s*$",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_the_nearest_fraction() {
        for (text, share) in [
            ("3 %", 0.03),
            ("0.5%", 0.005),
            (" 12 % ", 0.12),
            ("150 %", 1.5),
        ] {
            assert_eq!(PercentText::parse(text).unwrap().0, share, "{text}");
        }
        for text in [
            "3", "%", "-1 %", "0 %", "2000 %", "1e2 %", "1.2.3 %", "NaN %",
        ] {
            assert!(PercentText::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shares_and_percentages_have_the_digits_that_people_write() {
        for (percent, share) in [
            (99.9, 0.999),
            (7.0, 0.07),
            (0.1, 0.001),
            (14.000_000_1, 0.140_000_001),
            (-29.0, -0.29),
            (110.0, 1.1),
            (0.0, 0.0),
            (1e22, 1e20),
            (3e-9, 3e-11),
        ] {
            assert_eq!(share_of_percent(percent), Some(share), "{percent}");
            assert_eq!(percent_of_share(share), percent, "{share}");
        }
        assert_eq!(share_of_percent("57.0"), Some(0.57));
        for text in ["", "many", "inf", "NaN", "1e1"] {
            assert_eq!(share_of_percent(text), None, "{text}");
        }
        assert!(percent_of_share(f64::INFINITY).is_infinite());
        assert!(percent_of_share(f64::NAN).is_nan());
    }

    #[test]
    fn equal_spans_have_one_canonical_form() {
        for text in ["90 s", "1.5 min", "90000 ms", "90s", "0.025 h"] {
            let span = DurationText::parse(text).unwrap();
            assert_eq!(serde_json::to_string(&span).unwrap(), "90000");
            assert_eq!(span.to_string(), "90 s");
            assert_eq!(serde_json::from_str::<DurationText>("90000").unwrap(), span);
        }
    }

    #[test]
    fn what_is_not_a_span_of_time_is_refused() {
        for text in [
            "",
            "5",
            "s",
            "-1 s",
            "1 day",
            "1.s",
            ".5 s",
            "0.0001 s",
            "1e3 s",
            "99999999999 h",
            "1.2.3 s",
        ] {
            assert!(DurationText::parse(text).is_err(), "{text}");
        }
    }
}

/// A number of blocks: `12 blocks`, or `12`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlocksText(pub(crate) u32);

impl<'de> Deserialize<'de> for BlocksText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = BlocksText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of blocks such as `12 blocks`")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<BlocksText, E> {
                let number = text.trim().trim_end_matches("blocks").trim_end();
                let wrong = || E::custom(format!("`{}` is not a number of blocks", text.trim()));
                number.parse().map(BlocksText).map_err(|_| wrong())
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<BlocksText, E> {
                let wrong = || E::custom(format!("{number} blocks are too many"));
                u32::try_from(number).map(BlocksText).map_err(|_| wrong())
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<BlocksText, E> {
                let wrong = || E::custom(format!("{number} is not a number of blocks"));
                u32::try_from(number).map(BlocksText).map_err(|_| wrong())
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for BlocksText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Blocks".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "oneOf": [
                {"type": "integer", "minimum": 1, "maximum": 1000},
                {"type": "string", "pattern": r"^\s*[1-9][0-9]{0,2}\s+blocks\s*$"},
            ],
        })
    }
}
