//! The wait that `Retry-After` asks for.

use httparse::Header;
use jiff::fmt::rfc2822::DateTimeParser;

/// Dates of HTTP. A wrong day of the week changes no moment.
static DATES: DateTimeParser = DateTimeParser::new().relaxed_weekday(true);

/// Returns the seconds that a value of `Retry-After` asks for, rounded up. A date counts from the `Date` of the same
/// answer: rows are made later, and the server's clock may differ from ours. `None` if the value cannot be read.
pub(super) fn seconds(value: &str, headers: &[Header<'_>]) -> Option<u64> {
    number(value).or_else(|| {
        let moment = |text: &str| Some(DATES.parse_timestamp(text).ok()?.as_second());
        let wait = moment(value)? - moment(header(headers, "date")?)?;
        // A date in the past asks for no wait.
        Some(u64::try_from(wait).unwrap_or(0))
    })
}

/// Reads digits, with a fraction or without.
fn number(value: &str) -> Option<u64> {
    let (whole, fraction) = value.split_once('.').unwrap_or((value, "0"));
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !are_digits(whole) || !are_digits(fraction) {
        return None;
    }
    let more = fraction.bytes().any(|b| b != b'0');
    whole.parse::<u64>().ok()?.checked_add(u64::from(more))
}

/// Returns the value of a header without surrounding white space.
pub(super) fn header<'a>(headers: &[Header<'a>], name: &str) -> Option<&'a str> {
    let header = headers.iter().find(|h| h.name.eq_ignore_ascii_case(name))?;
    std::str::from_utf8(header.value).ok().map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_up_and_dates_count_from_the_date_of_the_answer() {
        let date = Header {
            name: "Date",
            value: b"Sun, 06 Nov 1994 08:49:37 GMT",
        };
        let read = |value| seconds(value, &[date]);
        for (value, expected) in [
            ("7", Some(7)),
            ("0", Some(0)),
            ("1.5", Some(2)),
            ("3.000", Some(3)),
            ("18446744073709551615.1", None),
            ("-1", None),
            ("+1", None),
            ("1e9", None),
            (".5", None),
            ("1.", None),
            ("soon", None),
            ("", None),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            // Its day of the week is wrong.
            ("Fri, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sat, 05 Nov 1994 08:50:37 GMT", Some(0)),
        ] {
            assert_eq!(read(value), expected, "{value}");
        }
        assert_eq!(seconds("Sun, 06 Nov 1994 08:50:37 GMT", &[]), None);
    }
}
