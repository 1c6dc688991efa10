//! Sends the answers of the reference server, with its faults.

use std::io;
use std::time::Instant;

use tokio::sync::SemaphorePermit;

use super::answers::{self, Dialect};
use super::request::Request;
use super::{Fault, Log, State, Truth, WhenFull, since};
use crate::measure::Stream;

/// Answers one request; returns whether the connection stays open.
pub(super) async fn answer(
    stream: &mut Stream,
    state: &State,
    request: &Request,
    fault: Fault,
    arrived: Instant,
    truth: &mut Truth,
) -> io::Result<bool> {
    let Some(dialect) = Dialect::of(request.path()) else {
        stream
            .send(&answers::error(404, "", "no such path"))
            .await?;
        return Ok(true);
    };
    if let Some(goes_on) = instead_of_tokens(stream, state, request, fault).await? {
        return Ok(goes_on);
    }
    let Some((_slot, arrived)) = slot(state, arrived).await else {
        stream
            .send(&answers::error(503, "Retry-After: 7\r\n", "no free slot"))
            .await?;
        return Ok(true);
    };
    let answer = Answer {
        state,
        request,
        dialect,
        fault,
        tokens: tokens(state, request, fault),
        arrived,
    };
    if request.streamed() {
        return answer.stream(stream, truth).await;
    }
    let last = answer.due(answer.tokens.saturating_sub(1));
    tokio::time::sleep_until(last.into()).await;
    let asked = request.results();
    let results = match fault {
        Fault::FewerResults => asked.saturating_sub(1),
        _ => asked,
    };
    let body = dialect.whole(answer.tokens, results);
    stream
        .send(&answers::whole(200, "", "application/json", &body))
        .await?;
    Ok(true)
}

/// Returns the number of tokens in the answer to a request.
fn tokens(state: &State, request: &Request, fault: Fault) -> u32 {
    let asked = [
        "max_tokens",
        "max_output_tokens",
        "n_predict",
        "max_new_tokens",
        "num_predict",
    ]
    .into_iter()
    .find_map(|key| request.number(key));
    match fault {
        Fault::NoTokens => 0,
        _ => state.behaviour.tokens.or(asked).unwrap_or(16),
    }
}

/// Performs a fault that replaces an answer, and returns whether the connection stays open; `None` if the fault lets
/// the answer begin.
async fn instead_of_tokens(
    stream: &mut Stream,
    state: &State,
    request: &Request,
    fault: Fault,
) -> io::Result<Option<bool>> {
    let goes_on = match fault {
        Fault::CloseBeforeAnswer => false,
        Fault::ResetBeforeAnswer => {
            stream.tcp().set_zero_linger()?;
            false
        }
        Fault::Status(code) => {
            let extra = if code == 429 || code == 503 {
                "Retry-After: 7\r\n"
            } else {
                ""
            };
            stream.send(&answers::error(code, extra, "not now")).await?;
            true
        }
        Fault::RepeatKey => {
            let key = request.header("authorization").unwrap_or("nothing");
            let message = format!("{}wrong key: {key}", " ".repeat(280));
            stream.send(&answers::error(401, "", &message)).await?;
            true
        }
        Fault::StallBeforeHead => stall(state).await?,
        Fault::Nonsense => {
            stream.send(b"I do not speak HTTP\r\n\r\n").await?;
            false
        }
        _ => return Ok(None),
    };
    Ok(Some(goes_on))
}

/// Takes a slot; returns it with the start time of the answer's schedule. Returns `None` if all slots are taken and the
/// server refuses such requests.
async fn slot(state: &State, arrived: Instant) -> Option<(Option<SemaphorePermit<'_>>, Instant)> {
    let Some(slots) = &state.slots else {
        return Some((None, arrived));
    };
    match (slots.try_acquire(), state.behaviour.when_full) {
        (Ok(slot), _) => Some((Some(slot), arrived)),
        // The semaphore is never closed, and gives slots in the order of the requests.
        (Err(_), WhenFull::Wait) => Some((slots.acquire().await.ok(), Instant::now())),
        (Err(_), WhenFull::Refuse) => None,
    }
}

/// An answer in progress.
struct Answer<'a> {
    state: &'a State,
    request: &'a Request,
    dialect: Dialect,
    fault: Fault,
    tokens: u32,
    arrived: Instant,
}

impl Answer<'_> {
    /// Returns when a token must be sent.
    fn due(&self, token: u32) -> Instant {
        let behaviour = &self.state.behaviour;
        self.arrived + behaviour.ttft + behaviour.gap * token
    }

    /// Sends the answer token by token; returns whether the connection stays open.
    async fn stream(&self, stream: &mut Stream, truth: &mut Truth) -> io::Result<bool> {
        let fault = self.fault;
        let mut writer = Writer {
            stream,
            fault,
            held: Vec::new(),
        };
        // With many requests at once, a separate write for each head would delay the later ones, so the head is sent
        // with the first token.
        let mut head = self.dialect.stream_head().into_bytes();
        let plain = fault == Fault::None && self.step() == 1;
        if !(self.waits() && plain) || self.dialect.first_event().is_some() {
            writer.raw(&std::mem::take(&mut head)).await?;
        }
        if fault == Fault::StallBeforeFirstToken {
            return stall(self.state).await;
        }
        if let Some(first) = self.dialect.first_event() {
            writer.event(first.as_bytes()).await?;
        }
        if let Some(goes_on) = self.chunks(&mut writer, &mut head, truth).await? {
            return Ok(goes_on);
        }
        // One write: if hundreds of answers end at once, each further write delays the tokens after it.
        let mut end = head;
        let usage = self.request.says("include_usage");
        for event in self.dialect.last_events(self.tokens, usage, fault) {
            match fault {
                Fault::Drip => writer.event(event.as_bytes()).await?,
                _ => end.extend_from_slice(&frame(event.as_bytes())),
            }
        }
        if fault != Fault::CloseInsteadOfEnd {
            end.extend_from_slice(b"0\r\n\r\n");
        }
        writer.raw(&end).await?;
        writer.stream.send(&writer.held).await?;
        Ok(!matches!(
            fault,
            Fault::CloseInsteadOfEnd | Fault::CloseAfterAnswer
        ))
    }

    /// Sends the chunks, the first one with the rest of the head. If a fault ends the answer, returns whether the
    /// connection stays open.
    async fn chunks(
        &self,
        writer: &mut Writer<'_>,
        head: &mut Vec<u8>,
        truth: &mut Truth,
    ) -> io::Result<Option<bool>> {
        let (state, fault) = (self.state, self.fault);
        let mut sent = 0;
        while sent < self.tokens {
            let in_chunk = self.step().min(self.tokens - sent);
            match fault {
                Fault::ResetAfter(n) if sent >= n => {
                    writer.stream.tcp().set_zero_linger()?;
                    return Ok(Some(false));
                }
                Fault::CloseAfter(n) if sent >= n => return Ok(Some(false)),
                Fault::StallAfter(n) if sent >= n => return stall(state).await.map(Some),
                Fault::ErrorEventAfter(n) if sent >= n => {
                    writer
                        .event(b"data: {\"error\":{\"message\":\"engine died\",\"code\":500}}\n\n")
                        .await?;
                    writer.event(b"data: [DONE]\n\n").await?;
                    writer.raw(b"0\r\n\r\n").await?;
                    return Ok(Some(true));
                }
                Fault::BrokenJsonAfter(n) if sent >= n => {
                    writer.event(b"data: {\"choices\": oops}\n\n").await?;
                }
                _ => {}
            }
            if self.waits() {
                tokio::time::sleep_until(self.due(sent + in_chunk - 1).into()).await;
            }
            if state.behaviour.log != Log::Nothing {
                truth.sent_ns.push(since(state, Instant::now()));
            }
            if fault == Fault::None && self.step() == 1 {
                let framed = state.framed(self.dialect, sent);
                if head.is_empty() {
                    writer.raw(&framed).await?;
                } else {
                    head.extend_from_slice(&framed);
                    writer.raw(&std::mem::take(head)).await?;
                }
            } else {
                let event = self.dialect.event(sent, in_chunk, fault);
                writer.event(event.as_bytes()).await?;
            }
            sent += in_chunk;
        }
        Ok(None)
    }

    /// Returns the number of tokens in a chunk.
    fn step(&self) -> u32 {
        self.state.behaviour.tokens_per_chunk.max(1)
    }

    /// Returns whether tokens have due times.
    fn waits(&self) -> bool {
        let behaviour = &self.state.behaviour;
        !(behaviour.ttft.is_zero() && behaviour.gap.is_zero())
    }
}

/// Stays silent until the server stops.
async fn stall(state: &State) -> io::Result<bool> {
    let _never = state;
    std::future::pending::<()>().await;
    Ok(false)
}

/// Wraps an event in a chunk of the transfer encoding.
pub(super) fn frame(event: &[u8]) -> Vec<u8> {
    let mut framed = format!("{:x}\r\n", event.len()).into_bytes();
    framed.extend_from_slice(event);
    framed.extend_from_slice(b"\r\n");
    framed
}

/// Writes events as the fault demands.
struct Writer<'a> {
    stream: &'a mut Stream,
    fault: Fault,
    /// Bytes held back until the end.
    held: Vec<u8>,
}

impl Writer<'_> {
    async fn event(&mut self, event: &[u8]) -> io::Result<()> {
        if self.fault == Fault::Drip {
            // Every byte gets its own transfer chunk and segment, which cuts lines and characters.
            for byte in event {
                self.stream
                    .send(&[b"1\r\n".as_slice(), &[*byte], b"\r\n"].concat())
                    .await?;
                tokio::task::yield_now().await;
            }
            return Ok(());
        }
        self.raw(&frame(event)).await
    }

    async fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.fault == Fault::OnePiece {
            self.held.extend_from_slice(bytes);
            return Ok(());
        }
        self.stream.send(bytes).await
    }
}
