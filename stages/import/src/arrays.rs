//! Per-request data as vLLM and SGLang write it: one list per quantity, with one item per request.

use artifacts::Digest;
use contract::RequestStatus;

use crate::json::{At, ImportError};
use crate::rows::{Clock, Imported, Row};

const SECONDS: i64 = 1_000_000_000;

/// Reads the lists into rows. `start_times` may be absent; then each row counts from its own
/// sending. Returns no rows if the lists are absent.
pub(crate) fn rows(result: &At<'_>, imported: &mut Imported) -> Result<(), ImportError> {
    let Some(lists) = Lists::read(result)? else {
        return Ok(());
    };
    imported.facts.clock = if lists.starts.is_some() {
        Clock::Cell
    } else {
        Clock::Request
    };
    for i in 0..lists.ttfts.len() {
        imported.requests.push(lists.row(i)?);
    }
    not_streamed(imported);
    check_completed(result, imported)?;
    lists.sources(imported);
    Ok(())
}

/// The lists of a result, with an entry for each request. Times are in ns.
struct Lists<'a> {
    ttfts: Vec<f64>,
    itls: Vec<At<'a>>,
    errors: Vec<At<'a>>,
    inputs: Vec<At<'a>>,
    outputs: Vec<At<'a>>,
    starts: Option<Vec<f64>>,
    latencies: Option<Vec<f64>>,
    cached: Option<Vec<At<'a>>>,
    texts: Option<Vec<At<'a>>>,
    /// The smallest start.
    base: f64,
}

impl<'a> Lists<'a> {
    /// Reads the lists. `None` if the tool wrote only aggregates.
    ///
    /// # Errors
    /// If a list is missing, is not a list of numbers or texts, or has another length than `ttfts`.
    fn read(result: &At<'a>) -> Result<Option<Self>, ImportError> {
        let (Some(ttfts), Some(itls)) = (result.get("ttfts"), result.get("itls")) else {
            return Ok(None);
        };
        let spans = |key: &str| result.get(key).map(|list| list.spans(SECONDS)).transpose();
        let items = |key: &str| result.get(key).map(|list| list.items()).transpose();
        let mut lists = Self {
            ttfts: ttfts.spans(SECONDS)?,
            itls: itls.items()?,
            errors: result.need("errors")?.items()?,
            inputs: result.need("input_lens")?.items()?,
            outputs: result.need("output_lens")?.items()?,
            starts: spans("start_times")?,
            latencies: spans("latencies")?,
            cached: items("cached_tokens")?,
            texts: items("generated_texts")?,
            base: 0.0,
        };
        let starts = lists.starts.iter().flatten().copied();
        lists.base = starts.fold(f64::INFINITY, f64::min);
        lists.check(result)?;
        Ok(Some(lists))
    }

    fn check(&self, result: &At<'_>) -> Result<(), ImportError> {
        let n = self.ttfts.len();
        for (name, length) in [
            ("itls", Some(self.itls.len())),
            ("errors", Some(self.errors.len())),
            ("input_lens", Some(self.inputs.len())),
            ("output_lens", Some(self.outputs.len())),
            ("start_times", self.starts.as_ref().map(Vec::len)),
            ("latencies", self.latencies.as_ref().map(Vec::len)),
            ("cached_tokens", self.cached.as_ref().map(Vec::len)),
            ("generated_texts", self.texts.as_ref().map(Vec::len)),
        ] {
            if let Some(length) = length.filter(|length| *length != n) {
                return Err(ImportError::at(
                    format!("{}.{name}", result.path),
                    format!("{length} entries, but `ttfts` has {n}"),
                    "the tool writes one entry per request into each list; the file has been changed",
                ));
            }
        }
        Ok(())
    }

    /// Returns the row of a request.
    fn row(&self, i: usize) -> Result<Row, ImportError> {
        let gaps = self.itls[i].spans(SECONDS)?;
        let error = self.errors[i]
            .value
            .as_str()
            .filter(|text| !text.is_empty())
            .map(str::to_owned);
        let (input, output) = (self.inputs[i].count()?, self.outputs[i].count()?);
        let ok = error.is_none() && (output > 0 || self.ttfts[i] > 0.0);
        let sent = self
            .starts
            .as_ref()
            .map_or(0.0, |starts| starts[i] - self.base);
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
        if self.ttfts[i] > 0.0 {
            let mut moment = self.ttfts[i];
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
            let latency = self.latencies.as_ref().map(|latencies| latencies[i]);
            row.done_ns = latency.filter(|latency| *latency > 0.0).map(at);
            if let Some(cached) = &self.cached {
                row.cached_prompt_tokens = Some(cached[i].count()?);
            }
            if let Some(texts) = &self.texts {
                let text = texts[i].text()?;
                row.output_characters = Some(text.chars().count() as i64);
                row.output_digest = Some(Digest::of(text.as_bytes()).to_string());
            }
        }
        Ok(row)
    }

    /// Records the lists from which each column comes.
    fn sources(&self, imported: &mut Imported) {
        let sent = match self.starts {
            Some(_) => "start_times − the smallest",
            None => "0: the file has no start times",
        };
        imported.map(&[
            ("sent_ns", sent),
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
        if self.texts.is_some() {
            imported.map(&[("output_characters, output_digest", "generated_texts")]);
        }
        if self.cached.is_some() {
            imported.map(&[("cached_prompt_tokens", "cached_tokens")]);
        }
    }
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
