//! Checks the counts that a server claims. An impossible count must not enter a sum.

use apis::{NOT_A_COUNT, PromptParts, Reading, Server};

use crate::workload::Images;

/// The most tokens of one request that are believed. This is far beyond any context window, and small enough that 2³¹
/// of them add up in an `i64`.
const MOST_TOKENS: i64 = u32::MAX as i64;

/// The most milliseconds of one request that are believed, however long it took: 49 days.
const MOST_MS: f64 = u32::MAX as f64;

/// The tokens that a server may add to each text of a request: its chat template, its system prompt, its tools.
const MOST_ADDED: usize = 65_536;

/// The tokens that a server may add to each image beside one for each [`PIXELS`]: it may enlarge a small image.
const MOST_PER_IMAGE: usize = 16_384;

/// The fewest pixels that become a token. Servers use 14 × 14 pixels or more.
const PIXELS: usize = 64;

/// How much longer than a request a server may say that it worked on it: this part of the request, and this many
/// milliseconds, because clocks differ and some are coarse.
const SLACK: (f64, f64) = (0.01, 100.0);

/// Returns the problem with the counts and times of one event, whatever was requested, and removes them, because no
/// arithmetic on them is safe.
pub(crate) fn refuse_unthinkable(reading: &mut Reading) -> Option<String> {
    let counts = [
        ("output", &mut reading.output_tokens),
        ("reasoning", &mut reading.reasoning_tokens),
        ("prompt", &mut reading.prompt_tokens),
        ("cached prompt", &mut reading.cached_prompt_tokens),
        ("chunk", &mut reading.tokens),
        ("output", &mut reading.server.output_tokens),
        ("prompt", &mut reading.server.prompt_tokens),
        ("cached prompt", &mut reading.server.cached_prompt_tokens),
        ("prompt", &mut reading.prompt_parts.new),
        ("cached prompt", &mut reading.prompt_parts.cached),
        ("prompt", &mut reading.prompt_parts.written),
    ];
    let mut wrong = None;
    for (what, count) in counts {
        if let Some(claimed) = count.filter(|n| !(0..=MOST_TOKENS).contains(n)) {
            *count = None;
            wrong.get_or_insert_with(|| match claimed {
                NOT_A_COUNT => format!("the server's count of {what} tokens is not a whole number"),
                // A larger count is cut to this one.
                i64::MAX => format!("the server reports {claimed} {what} tokens or more"),
                _ => format!("the server reports {claimed} {what} tokens"),
            });
        }
    }
    // The sum of possible parts can be impossible.
    let sum = reading.prompt_parts.total();
    if sum.is_some_and(|tokens| tokens > MOST_TOKENS) {
        reading.prompt_parts = PromptParts::default();
    }
    let times = [
        ("prompt", &mut reading.server.prompt_ms),
        ("output", &mut reading.server.predicted_ms),
    ];
    for (what, time) in times {
        if let Some(claimed) = time.filter(|ms| !(0.0..=MOST_MS).contains(ms)) {
            *time = None;
            wrong.get_or_insert_with(|| {
                format!("the server reports {claimed:?} ms of work on the {what}")
            });
        }
    }
    wrong
}

/// Returns the most output tokens that can be: those requested, and one for each byte of text, since a token has at least
/// one, or it is hidden and was requested.
pub(crate) fn most_output(asked: u32, bytes: usize) -> i64 {
    i64::from(asked).saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX))
}

/// Returns the problem with claims of output: more than was requested and received together.
pub(crate) fn impossible_output(
    claims: impl IntoIterator<Item = Option<i64>>,
    asked: u32,
    bytes: usize,
) -> Option<String> {
    let most = most_output(asked, bytes);
    let claimed = claims
        .into_iter()
        .flatten()
        .find(|claimed| *claimed > most)?;
    Some(format!(
        "the server reports {claimed} output tokens, but {asked} were requested and {bytes} \
         bytes of text arrived"
    ))
}

/// What a request sent, as far as it decides how many tokens its prompt can have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    /// The bytes of the request.
    pub(crate) bytes: usize,
    /// How often the server may read them: a reranker reads the query with each document.
    pub(crate) readings: usize,
    /// The images, if there are any.
    pub(crate) images: Option<Images>,
}

impl Sent {
    /// Returns the most tokens that its prompt can have. A token has at least one byte.
    pub(crate) fn most_tokens(self) -> i64 {
        let image = |images: Images| {
            let pixels = images.width as usize * images.height as usize;
            (pixels / PIXELS + MOST_PER_IMAGE).saturating_mul(images.count as usize)
        };
        let text = self.bytes.saturating_add(MOST_ADDED);
        let most = text
            .saturating_mul(self.readings.max(1))
            .saturating_add(self.images.map_or(0, image));
        i64::try_from(most).unwrap_or(i64::MAX)
    }
}

/// Returns the problem with claims of the prompt: more tokens than the request has bytes, with what a server may add.
pub(crate) fn impossible_prompt(
    claims: impl IntoIterator<Item = Option<i64>>,
    sent: Sent,
) -> Option<String> {
    let most = sent.most_tokens();
    let claimed = claims
        .into_iter()
        .flatten()
        .find(|claimed| *claimed > most)?;
    let Sent { bytes, images, .. } = sent;
    let images = match images.map_or(0, |images| images.count) {
        0 => String::new(),
        1 => " with an image".to_owned(),
        count => format!(" with {count} images"),
    };
    Some(format!(
        "the server reports {claimed} prompt tokens, but a request of {bytes} bytes{images} can have at most {most}"
    ))
}

/// Returns the problem with a server's times: longer than the request took in all, in nanoseconds.
pub(crate) fn impossible_times(server: &Server, took_ns: Option<u64>) -> Option<String> {
    let took = took_ns? as f64 / 1e6;
    let most = took + took * SLACK.0 + SLACK.1;
    let times = [
        ("prompt", server.prompt_ms),
        ("output", server.predicted_ms),
    ];
    let late =
        |(what, time): (&'static str, Option<f64>)| Some((what, time.filter(|ms| *ms > most)?));
    let (what, claimed) = times.into_iter().find_map(late)?;
    Some(format!(
        "the server reports {claimed:?} ms of work on the {what}, but the request took {took:.3} ms"
    ))
}

/// Returns the problem with claims of cached tokens, each paired with the claim of its prompt: a part larger than the
/// whole.
pub(crate) fn impossible_cache(
    claims: impl IntoIterator<Item = (Option<i64>, Option<i64>)>,
) -> Option<String> {
    let mut both = claims
        .into_iter()
        .filter_map(|(cached, prompt)| Some((cached?, prompt?)));
    let (cached, prompt) = both.find(|(cached, prompt)| cached > prompt)?;
    Some(format!(
        "the server reports {cached} cached tokens of a prompt of {prompt}"
    ))
}

/// Returns the problem with the claims that the text contradicts: no output at all although text arrived, or more
/// reasoning than was requested and received together. Reasoning may exceed the output, because some servers count the
/// two apart.
pub(crate) fn impossible_part(
    output: Option<i64>,
    reasoning: Option<i64>,
    asked: u32,
    bytes: usize,
) -> Option<String> {
    if output == Some(0) && bytes > 0 {
        return Some(format!(
            "the server reports 0 output tokens, but {bytes} bytes of text arrived"
        ));
    }
    impossible_output([reasoning], asked, bytes)
        .map(|_| reasoning.unwrap_or_default())
        .map(|claimed| {
            format!(
                "the server reports {claimed} reasoning tokens, but {asked} output tokens were requested and {bytes} \
                 bytes of text arrived"
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use apis::Adapter as _;
    use apis::{Division, divide};
    use contract::Api;

    #[test]
    fn output_is_believed_up_to_what_was_asked_for_and_came() {
        assert_eq!(impossible_output([Some(16), None], 16, 0), None);
        assert_eq!(impossible_output([None, Some(36)], 16, 20), None);
        let wrong = impossible_output([None, Some(37)], 16, 20).unwrap();
        assert!(wrong.contains("37 output tokens"), "{wrong}");
    }

    #[test]
    fn reasoning_is_believed_like_output_and_text_is_more_than_no_tokens() {
        assert_eq!(impossible_part(Some(0), None, 16, 0), None);
        assert_eq!(impossible_part(Some(1), Some(0), 16, 9), None);
        // Some servers count reasoning apart from the output.
        assert_eq!(impossible_part(Some(4), Some(16), 16, 9), None);
        let wrong = impossible_part(Some(4), Some(26), 16, 9).unwrap();
        assert!(wrong.contains("26 reasoning tokens"), "{wrong}");
        let wrong = impossible_part(Some(0), None, 16, 9).unwrap();
        assert!(wrong.contains("0 output tokens"), "{wrong}");
    }

    #[test]
    fn a_part_larger_than_the_whole_is_not_believed() {
        assert_eq!(
            impossible_cache([(Some(10), Some(10)), (Some(1), None)]),
            None
        );
        assert!(impossible_cache([(None, Some(10)), (Some(11), Some(10))]).is_some());
    }

    #[test]
    fn counts_beyond_all_reason_are_removed_whatever_they_count() {
        for count in [-1, i64::MIN, i64::MAX, MOST_TOKENS + 1] {
            let mut reading = Reading {
                output_tokens: Some(count),
                prompt_tokens: Some(7),
                ..Reading::default()
            };
            reading.server.cached_prompt_tokens = Some(count);
            let wrong = refuse_unthinkable(&mut reading).unwrap();
            assert!(wrong.contains(&count.to_string()), "{wrong}");
            assert_eq!(
                (reading.output_tokens, reading.prompt_tokens),
                (None, Some(7))
            );
            assert_eq!(reading.server.cached_prompt_tokens, None);
            assert_eq!(refuse_unthinkable(&mut reading), None);
        }
    }

    #[test]
    fn times_that_cannot_be_are_removed() {
        for ms in [-1.0, f64::NAN, f64::INFINITY, 1e300] {
            let mut reading = Reading::default();
            (reading.server.prompt_ms, reading.server.predicted_ms) = (Some(3.0), Some(ms));
            let wrong = refuse_unthinkable(&mut reading).unwrap();
            assert!(wrong.contains("ms of work on the output"), "{wrong}");
            assert_eq!(reading.server.prompt_ms, Some(3.0));
            assert_eq!(reading.server.predicted_ms, None);
        }
    }

    #[test]
    fn a_prompt_is_believed_up_to_what_was_sent_and_what_a_server_may_add() {
        let sent = Sent {
            bytes: 1_000,
            ..Sent::default()
        };
        assert_eq!(impossible_prompt([None, Some(66_536)], sent), None);
        assert_eq!(
            impossible_prompt([Some(7), Some(66_537)], sent).unwrap(),
            "the server reports 66537 prompt tokens, but a request of 1000 bytes can have at most 66536"
        );
        // A reranker reads the query with each document.
        let ranked = Sent {
            readings: 10,
            ..sent
        };
        assert_eq!(impossible_prompt([Some(665_360)], ranked), None);
        assert!(impossible_prompt([Some(665_361)], ranked).is_some());
        // Bytes say nothing about the size of an image.
        let seen = Sent {
            images: Some(Images {
                count: 2,
                width: 4096,
                height: 4096,
            }),
            ..sent
        };
        assert_eq!(impossible_prompt([Some(2 * 4096 * 4096 / 196)], seen), None);
        let wrong = impossible_prompt([Some(1 << 30)], seen).unwrap();
        assert!(wrong.contains("1000 bytes with 2 images"), "{wrong}");
        let most = Sent {
            bytes: usize::MAX,
            readings: usize::MAX,
            ..seen
        };
        assert_eq!(impossible_prompt([Some(i64::MAX)], most), None);
    }

    #[test]
    fn a_server_works_no_longer_on_a_request_than_it_takes() {
        let server = |prompt_ms, predicted_ms| Server {
            prompt_ms,
            predicted_ms,
            ..Server::default()
        };
        let took = |server: Server, ms: u64| impossible_times(&server, Some(ms * 1_000_000));
        assert_eq!(took(server(Some(1_100.0), Some(1_110.0)), 1_000), None);
        assert_eq!(
            took(server(Some(1.0), Some(1_110.5)), 1_000).unwrap(),
            "the server reports 1110.5 ms of work on the output, but the request took 1000.000 ms"
        );
        assert!(took(server(Some(101.0), None), 0).is_some());
        assert_eq!(took(server(None, None), 0), None);
        // A request that was never sent took no time that anybody knows.
        assert_eq!(impossible_times(&server(Some(5.0e6), None), None), None);
    }

    #[test]
    fn a_count_beyond_64_bits_is_refused_and_not_missing() {
        for count in [
            "18446744073709551615",
            "9223372036854775808",
            "1e300",
            "-1e300",
        ] {
            let event = format!(
                "{{\"choices\": [{{\"text\": \"a\"}}], \"usage\": {{\"completion_tokens\": {count}}}}}"
            );
            let event: serde_json::Value = serde_json::from_str(&event).expect("JSON");
            let mut reading = Api::OpenaiCompletions.read(&event);
            assert!(
                refuse_unthinkable(&mut reading).is_some(),
                "{count}: {reading:?}"
            );
        }
        let event = serde_json::json!({"choices": [], "usage": {"completion_tokens": 16.0}});
        assert_eq!(Api::OpenaiCompletions.read(&event).output_tokens, Some(16));
    }

    #[test]
    fn a_count_that_is_not_a_whole_number_is_refused_and_null_is_missing() {
        for count in ["2.5", r#""2""#, "{}", "[2]", "true", "false"] {
            let usages = [
                (
                    Api::OpenaiCompletions,
                    format!(r#"{{"choices": [], "usage": {{"completion_tokens": {count}}}}}"#),
                ),
                (
                    Api::OpenaiCompletions,
                    format!(r#"{{"choices": [], "usage": {{"prompt_tokens": {count}}}}}"#),
                ),
                (
                    Api::LlamaCppCompletion,
                    format!(r#"{{"content": "", "stop": true, "tokens_predicted": {count}}}"#),
                ),
                (
                    Api::AnthropicMessages,
                    format!(
                        r#"{{"type": "message_start", "message": {{"usage": {{"input_tokens": 3, "cache_creation_input_tokens": {count}}}}}}}"#
                    ),
                ),
            ];
            for (api, event) in usages {
                let event: serde_json::Value = serde_json::from_str(&event).expect("JSON");
                let mut reading = api.read(&event);
                let wrong = refuse_unthinkable(&mut reading).unwrap_or_else(|| panic!("{event}"));
                assert!(wrong.ends_with("is not a whole number"), "{wrong}");
            }
        }
        let event = serde_json::json!({"choices": [], "usage": {"completion_tokens": null}});
        let mut reading = Api::OpenaiCompletions.read(&event);
        assert_eq!(refuse_unthinkable(&mut reading), None);
        assert_eq!(reading.output_tokens, None);
    }

    #[test]
    fn an_impossible_part_of_a_prompt_is_not_hidden_by_another_part() {
        let half = MOST_TOKENS / 2 + 1;
        for (new, cached) in [(-5, 9), (9, -5), (i64::MAX, 1), (1, i64::MAX), (half, half)] {
            let usage = serde_json::json!({"input_tokens": new, "cache_read_input_tokens": cached});
            let event = serde_json::json!({"type": "message_start", "message": {"usage": usage}});
            let mut reading = Api::AnthropicMessages.read(&event);
            assert!(refuse_unthinkable(&mut reading).is_some(), "{event}");
            assert_eq!(reading.prompt_tokens, None, "{event}");
            let total = reading.prompt_parts.total();
            assert!(total.is_none_or(|sum| (0..=9).contains(&sum)), "{event}");
        }
    }

    proptest::proptest! {
        /// `PROPTEST_CASES=20000 cargo test -p load any_stream` tries more.
        #[test]
        fn any_stream_of_any_api_is_read_without_a_panic(
            bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200),
            edits in proptest::collection::vec(
                (proptest::prelude::any::<proptest::sample::Index>(), proptest::prelude::any::<u8>()), 0..6),
            count in proptest::prelude::any::<i64>(),
        ) {
            let mut sound = format!(
                "event: x\ndata: {{\"choices\": [{{\"text\": \"a\", \"delta\": {{\"content\": \"b\"}}}}], \
                 \"usage\": {{\"completion_tokens\": {count}, \"prompt_tokens\": {count}}}, \
                 \"timings\": {{\"prompt_n\": {count}, \"cache_n\": {count}, \"predicted_n\": {count}}}, \
                 \"meta_info\": {{\"completion_tokens\": {count}}}, \"eval_count\": {count}}}\r\n\n"
            )
            .into_bytes();
            for (place, byte) in edits {
                let at = place.index(sound.len());
                sound[at] = byte;
            }
            sound.extend(bytes);
            for division in [Division::Events, Division::Lines, Division::Whole] {
                for event in divide(&sound, division, usize::MAX).0 {
                    let Ok(value) = serde_json::from_slice::<serde_json::Value>(&event.data) else {
                        continue;
                    };
                    for api in <Api as contract::Word>::ALL {
                        let mut reading = api.read(&value);
                        refuse_unthinkable(&mut reading);
                        proptest::prop_assert_eq!(refuse_unthinkable(&mut reading), None);
                    }
                }
            }
        }
    }
}
