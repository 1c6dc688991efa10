//! Server-sent events and JSON lines, extracted from body bytes after the stream has ended.
//!
//! Works on bytes, line by line, so that reads may cut anywhere, even inside a character. Each event has the position
//! of the last byte of its last data line, which determines the stamp: that of the read that completed it.

/// How a body is divided into events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Division {
    /// Server-sent events (WHATWG HTML, section 9.2.6).
    Events,
    /// One JSON document per line.
    Lines,
    /// One JSON document in total.
    Whole,
}

impl Division {
    /// Returns the name of a body with this division, for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Events => "a stream of events (text/event-stream)",
            Self::Lines => "JSON lines",
            Self::Whole => "JSON",
        }
    }

    /// Returns whether a body of a media type may have this division.
    pub fn carried_by(self, media_type: &str) -> bool {
        let media_type = media_type.to_ascii_lowercase();
        match self {
            Self::Events => media_type == "text/event-stream",
            Self::Lines | Self::Whole => media_type.contains("json"),
        }
    }
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The `event:` field, if any.
    pub kind: Option<String>,
    /// The data, lines joined by a line feed.
    pub data: Vec<u8>,
    /// The position in the body of the byte that completed the data: the end of its line.
    pub end: usize,
}

/// The most events that an answer may have. It has about one for each token.
pub const MOST_EVENTS: usize = 1 << 22;

/// Returns the events of a body, at most `most`, and whether the last one of the body is unfinished. Events without data
/// take a dozen times their bytes in memory.
pub fn divide(body: &[u8], division: Division, most: usize) -> (Vec<Event>, bool) {
    match division {
        Division::Whole => {
            let event = Event {
                kind: None,
                data: body.to_vec(),
                end: body.len().saturating_sub(1),
            };
            (
                if body.is_empty() {
                    Vec::new()
                } else {
                    vec![event]
                },
                false,
            )
        }
        Division::Lines => {
            let mut events = Vec::new();
            for (line, end, _) in lines(body) {
                if events.len() == most {
                    break;
                }
                if !line.iter().all(u8::is_ascii_whitespace) {
                    events.push(Event {
                        kind: None,
                        data: line.to_vec(),
                        end,
                    });
                }
            }
            (events, false)
        }
        Division::Events => server_sent(body, most),
    }
}

fn server_sent(body: &[u8], most: usize) -> (Vec<Event>, bool) {
    let mut events = Vec::new();
    let (mut kind, mut data, mut data_end) = (None::<String>, None::<Vec<u8>>, 0);
    let body_start = if body.starts_with(b"\xEF\xBB\xBF") {
        3
    } else {
        0
    };
    let mut cut = false;
    for (line, end, finished) in lines(&body[body_start..]) {
        if events.len() == most {
            return (events, false);
        }
        if line.is_empty() {
            if let Some(data) = data.take() {
                events.push(Event {
                    kind: kind.take(),
                    data,
                    end: data_end,
                });
            }
            kind = None;
            continue;
        }
        if line[0] == b':' {
            continue;
        }
        let (field, value) = match line.iter().position(|&b| b == b':') {
            Some(at) => (
                &line[..at],
                line[at + 1..].strip_prefix(b" ").unwrap_or(&line[at + 1..]),
            ),
            None => (line, &[][..]),
        };
        match field {
            b"data" => {
                match &mut data {
                    Some(data) => {
                        data.push(b'\n');
                        data.extend_from_slice(value);
                    }
                    None => data = Some(value.to_vec()),
                }
                data_end = body_start + end;
                cut = !finished;
            }
            b"event" => kind = Some(String::from_utf8_lossy(value).into_owned()),
            _ => {}
        }
    }
    // A last event without its blank line, as left by servers that close right after `data: [DONE]`. A data line
    // without its end may lack bytes, so its event counts as unfinished.
    if let Some(data) = data
        && events.len() < most
    {
        events.push(Event {
            kind,
            data,
            end: data_end,
        });
    } else {
        cut = false;
    }
    (events, cut)
}

/// Iterates over lines that end with LF, CRLF or CR: the line, the position of its end, and whether it has an end.
fn lines(body: &[u8]) -> impl Iterator<Item = (&[u8], usize, bool)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= body.len() {
            return None;
        }
        let start = at;
        match body[start..].iter().position(|&b| b == b'\n' || b == b'\r') {
            Some(offset) => {
                let end = start + offset;
                at = if body[end..].starts_with(b"\r\n") {
                    end + 2
                } else {
                    end + 1
                };
                Some((&body[start..end], end, true))
            }
            None => {
                at = body.len();
                Some((&body[start..], body.len() - 1, false))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: usize = 100;

    #[test]
    fn no_more_events_are_made_than_may_be() {
        for (body, division) in [
            (&b"data: {}\n\n"[..], Division::Events),
            (b"{}\n", Division::Lines),
        ] {
            let body = body.repeat(1000);
            assert_eq!(divide(&body, division, MANY).0.len(), MANY);
            assert_eq!(divide(&body, division, 1000).0.len(), 1000);
        }
        assert_eq!(
            divide(b"data: a\n\ndata: b", Division::Events, 1).0.len(),
            1
        );
    }

    fn data(body: &str) -> Vec<String> {
        let (events, _) = divide(body.as_bytes(), Division::Events, MANY);
        events
            .into_iter()
            .map(|e| String::from_utf8(e.data).unwrap())
            .collect()
    }

    #[test]
    fn line_ends_of_all_three_kinds_divide_events() {
        for end in ["\n", "\r\n", "\r"] {
            let body = ["data: a", "", ": ping", "", "data:b", "data: c", "", ""].join(end);
            assert_eq!(data(&body), ["a", "b\nc"], "{end:?}");
        }
    }

    #[test]
    fn comments_other_fields_and_a_byte_order_mark_are_no_data() {
        assert_eq!(
            data("\u{feff}id: 7\nretry: 3\ndata: x\n\n:\n\nevent: ping\n\n"),
            ["x"]
        );
    }

    #[test]
    fn an_event_keeps_its_kind() {
        let (events, _) = divide(
            b"event: error\ndata: {}\n\ndata: y\n\n",
            Division::Events,
            MANY,
        );
        assert_eq!(events[0].kind.as_deref(), Some("error"));
        assert_eq!(events[1].kind, None);
    }

    #[test]
    fn a_last_event_without_its_blank_line_counts_and_one_cut_within_a_line_is_reported() {
        assert!(!divide(b"data: [DONE]\n", Division::Events, MANY).1);
        let (events, cut) = divide(b"data: a\n\ndata: {\"ha", Division::Events, MANY);
        assert_eq!((events.len(), cut), (2, true));
    }

    #[test]
    fn an_event_ends_where_its_last_data_line_ends() {
        let body = b"data: a\n\ndata: b\ndata: c\n\n";
        let ends: Vec<usize> = divide(body, Division::Events, MANY)
            .0
            .iter()
            .map(|e| e.end)
            .collect();
        assert_eq!(ends, [7, 24]);
    }

    #[test]
    fn json_lines_are_events() {
        let (events, _) = divide(b"{\"a\":1}\n\n{\"a\":2}\n", Division::Lines, MANY);
        assert_eq!(events.iter().map(|e| e.end).collect::<Vec<_>>(), [7, 16]);
    }
}
