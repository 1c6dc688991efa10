//! Per-request data as vLLM and SGLang write it: one list per quantity, with one item per request.

use artifacts::Digest;
use contract::RequestStatus;

use crate::json::{At, ImportError};
use crate::rows::{Clock, Imported, Row};

const SECONDS: i64 = 1_000_000_000;

/// Reads the lists into rows. `start_times` may be absent; then each row counts from its own
/// sending. Returns no rows if the lists are absent.
pub(crate) fn rows(result: &At<'_>, imported: &mut Imported) -> Result<(), ImportError> {
    let (Some(ttfts), Some(itls)) = (result.get("ttfts"), result.get("itls")) else {
        return Ok(());
    };
    let (ttfts, itls) = (ttfts.spans(SECONDS)?, itls.items()?);
    let errors = result.need("errors")?.items()?;
    let (inputs, outputs) = (
        result.need("input_lens")?.items()?,
        result.need("output_lens")?.items()?,
    );
    let optional = |key: &str| result.get(key).map(|list| list.spans(SECONDS)).transpose();
    let starts = optional("start_times")?;
    let latencies = optional("latencies")?;
    let cached = result
        .get("cached_tokens")
        .map(|list| list.items())
        .transpose()?;
    let texts = result
        .get("generated_texts")
        .map(|list| list.items())
        .transpose()?;
    let n = ttfts.len();
    for (name, length) in [
        ("itls", Some(itls.len())),
        ("errors", Some(errors.len())),
        ("input_lens", Some(inputs.len())),
        ("output_lens", Some(outputs.len())),
        ("start_times", starts.as_ref().map(Vec::len)),
        ("latencies", latencies.as_ref().map(Vec::len)),
        ("cached_tokens", cached.as_ref().map(Vec::len)),
        ("generated_texts", texts.as_ref().map(Vec::len)),
    ] {
        if let Some(length) = length.filter(|length| *length != n) {
            return Err(ImportError::at(
                format!("{}.{name}", result.path),
                format!("{length} entries, but `ttfts` has {n}"),
                "the tool writes one entry per request into each list; the file has been changed",
            ));
        }
    }
    let base = starts
        .iter()
        .flatten()
        .copied()
        .fold(f64::INFINITY, f64::min);
    imported.facts.clock = if starts.is_some() {
        Clock::Cell
    } else {
        Clock::Request
    };
    for i in 0..n {
        let gaps = itls[i].spans(SECONDS)?;
        let error = errors[i]
            .value
            .as_str()
            .filter(|text| !text.is_empty())
            .map(str::to_owned);
        let (input, output) = (inputs[i].count()?, outputs[i].count()?);
        let ok = error.is_none() && (output > 0 || ttfts[i] > 0.0);
        let sent = starts.as_ref().map_or(0.0, |starts| starts[i] - base);
        let at = |ns: f64| (sent + ns).round() as i64;
        let status = match ok {
            true => RequestStatus::Ok,
            false => RequestStatus::Failed,
        };
        let mut row = Row {
            sent_ns: Some(at(0.0)),
            prompt_tokens: Some(input),
            error: error.or_else(|| (!ok).then(|| "the tool gives no reason".to_owned())),
            ..Row::new(status)
        };
        if ttfts[i] > 0.0 {
            let mut moment = ttfts[i];
            let mut chunks = vec![at(moment)];
            chunks.extend(gaps.iter().map(|gap| {
                moment += gap;
                at(moment)
            }));
            row.first_token_ns = chunks.first().copied();
            row.last_token_ns = chunks.last().copied();
            row.chunks_ns = Some(chunks);
        }
        if ok {
            row.output_tokens = Some(output);
            row.done_ns = latencies
                .as_ref()
                .map(|l| l[i])
                .filter(|l| *l > 0.0)
                .map(at);
            if let Some(cached) = &cached {
                row.cached_prompt_tokens = Some(cached[i].count()?);
            }
            if let Some(texts) = &texts {
                let text = texts[i].text()?;
                row.output_characters = Some(text.chars().count() as i64);
                row.output_digest = Some(Digest::of(text.as_bytes()).to_string());
            }
        }
        imported.requests.push(row);
    }
    not_streamed(imported);
    check_completed(result, imported)?;
    imported.map(&[
        (
            "sent_ns",
            if starts.is_some() {
                "start_times − the smallest"
            } else {
                "0: the file has no start times"
            },
        ),
        ("first_token_ns", "sent_ns + ttfts"),
        ("last_token_ns", "first_token_ns + the sum of itls"),
        ("chunks.at_ns", "first_token_ns + the running sum of itls"),
        ("prompt_tokens", "input_lens"),
        ("output_tokens", "output_lens, where the request is ok"),
        (
            "status, error",
            "errors, and no time and no token for a failure without a text",
        ),
    ]);
    if texts.is_some() {
        imported.map(&[("output_characters, output_digest", "generated_texts")]);
    }
    if cached.is_some() {
        imported.map(&[("cached_prompt_tokens", "cached_tokens")]);
    }
    Ok(())
}

/// Removes first tokens that were not observed. If answers are not streamed, both tools put the
/// whole latency into `ttfts` and write no gaps.
fn not_streamed(imported: &mut Imported) {
    let ok = || {
        imported
            .requests
            .iter()
            .filter(|row| row.status == RequestStatus::Ok)
    };
    let gaps = ok().any(|row| {
        row.chunks_ns
            .as_ref()
            .is_some_and(|chunks| chunks.len() > 1)
    });
    if gaps || !ok().any(|row| row.output_tokens.is_some_and(|n| n > 1)) {
        imported.facts.streamed = gaps.then_some(true);
        return;
    }
    imported.facts.streamed = Some(false);
    imported.warnings.push(
        "no request has a gap between chunks, so the answers were not streamed and have no time \
        to first token"
            .to_owned(),
    );
    for row in &mut imported.requests {
        row.first_token_ns = None;
        row.chunks_ns = None;
    }
}

fn check_completed(result: &At<'_>, imported: &mut Imported) -> Result<(), ImportError> {
    let ok = imported
        .requests
        .iter()
        .filter(|row| row.status == RequestStatus::Ok)
        .count() as i64;
    let completed = result.need("completed")?.count()?;
    if ok == completed {
        return Ok(());
    }
    Err(ImportError::at(
        format!("{}.completed", result.path),
        format!("{completed} requests completed, but the lists hold {ok} without an error"),
        "the lists and figures are from different runs; import the file that the tool wrote",
    ))
}
