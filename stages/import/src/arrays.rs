//! Per-request data as vLLM and SGLang write it: one list per quantity, with one item per request.

use artifacts::Digest;
use contract::RequestStatus;

use crate::json::{At, ImportError};
use crate::rows::{Clock, Facts, Imported, Row};

const SECONDS: i64 = 1_000_000_000;

/// What one entry of `itls` is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gap {
    /// The time between two chunks.
    OfAChunk,
    /// The time between two chunks divided by the tokens of the second, written once for each of these tokens. The
    /// moments of the chunks cannot be computed from it.
    OfAToken,
}

/// Reads the lists into rows. `start_times` may be absent; then each row counts from its own
/// sending. Reads no rows if the lists are absent. Returns how many rows are failed although the tool counts them as
/// completed.
pub(crate) fn rows(
    result: &At<'_>,
    gap: Gap,
    imported: &mut Imported,
) -> Result<usize, ImportError> {
    let Some(lists) = Lists::read(result, gap)? else {
        return Ok(0);
    };
    imported.facts.clock = if lists.starts.is_some() {
        Clock::Cell
    } else {
        Clock::Request
    };
    for i in 0..lists.ttfts.len() {
        imported.requests.push(lists.row(i)?);
    }
    let gaps = imported.requests.iter().zip(&lists.itls);
    let streamed = gaps
        .filter(|(row, _)| row.status == RequestStatus::Ok)
        .any(|(_, gaps)| has_items(gaps));
    not_streamed(streamed, imported);
    let claimed = (0..lists.ttfts.len()).filter(|i| lists.claims(*i)).count();
    check_completed(result, claimed, imported)?;
    lists.sources(imported);
    Ok(claimed)
}

/// Records the arrivals of a run without a rate: a limit on concurrency then means a closed loop.
pub(crate) fn without_a_rate(limit: Option<i64>, facts: &mut Facts) {
    let arrival = match limit {
        Some(_) => "closed-loop",
        None => "burst",
    };
    facts.arrival = Some(arrival.to_owned());
    facts.clients = limit;
}

fn has_items(list: &At<'_>) -> bool {
    list.value.as_array().is_some_and(|items| !items.is_empty())
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
    gap: Gap,
    /// The smallest start.
    base: f64,
}

impl<'a> Lists<'a> {
    /// Reads the lists. `None` if the tool wrote only aggregates.
    ///
    /// # Errors
    /// If a list is missing, is not a list of numbers or texts, or has another length than `ttfts`.
    fn read(result: &At<'a>, gap: Gap) -> Result<Option<Self>, ImportError> {
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
            gap,
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

    /// Returns whether the tool counts a request as completed that had no text, among others that had some. SGLang does
    /// so if a server answers with an error in a stream of status 200.
    fn claims(&self, i: usize) -> bool {
        let is_empty = |at: &At<'_>| at.value.as_str().is_none_or(str::is_empty);
        let has_text = self.texts.as_ref().is_some_and(|all| !is_empty(&all[i]));
        let silent = self.ttfts[i] <= 0.0 && !has_items(&self.itls[i]) && !has_text;
        let asked = self.outputs[i].value.as_i64().is_some_and(|n| n > 0);
        silent && asked && is_empty(&self.errors[i]) && self.ttfts.iter().any(|t| *t > 0.0)
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
        let claims = self.claims(i);
        let ok = error.is_none() && !claims && (output > 0 || self.ttfts[i] > 0.0);
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
            error: error.or_else(|| (!ok).then(|| no_reason(claims).to_owned())),
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
            row.chunks_ns = (self.gap == Gap::OfAChunk).then_some(chunks);
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
            (
                "chunks.at_ns",
                match self.gap {
                    Gap::OfAChunk => "first_token_ns + the running sum of itls",
                    Gap::OfAToken => {
                        "nothing: itls holds shares of the gaps, one for each token, and not the gaps"
                    }
                },
            ),
            ("prompt_tokens", "input_lens"),
            ("output_tokens", "output_lens, where the request is ok"),
            (
                "status, error",
                "errors; without an error also failed: no time and no token, or no text where other requests had one",
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

/// Returns the error of a failed row to which the tool gives none.
fn no_reason(claims: bool) -> &'static str {
    match claims {
        true => "the tool reports success without any text",
        false => "the tool gives no reason",
    }
}

/// Removes first tokens that were not observed. If answers are not streamed, both tools put the
/// whole latency into `ttfts` and write no gaps.
fn not_streamed(gaps: bool, imported: &mut Imported) {
    let mut ok = imported
        .requests
        .iter()
        .filter(|row| row.status == RequestStatus::Ok);
    if gaps || !ok.any(|row| row.output_tokens.is_some_and(|n| n > 1)) {
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

fn check_completed(
    result: &At<'_>,
    claimed: usize,
    imported: &mut Imported,
) -> Result<(), ImportError> {
    let ok = imported
        .requests
        .iter()
        .filter(|row| row.status == RequestStatus::Ok)
        .count();
    let ok = (ok + claimed) as i64;
    let completed = result.need("completed")?.count()?;
    if ok == completed {
        if claimed > 0 {
            imported.warnings.push(format!(
                "{} without any text, which the tool counts as completed: failed here",
                artifacts::counted(claimed as u64, "request")
            ));
        }
        return Ok(());
    }
    Err(ImportError::at(
        format!("{}.completed", result.path),
        format!("{completed} requests completed, but the lists hold {ok} without an error"),
        "the lists and figures are from different runs; import the file that the tool wrote",
    ))
}
