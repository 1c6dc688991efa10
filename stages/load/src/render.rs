//! Renders prompts to the bytes of requests.

use std::io;
use std::ops::Range;

use contract::Phase;
use net::ApiKey;

use crate::images;
use crate::measure::{Ahead, Planned};
use crate::prompts::Prompt;
use crate::run::{LoadSpec, Target};
use crate::servers::Servers;
use crate::wire;
use apis::{Adapter as _, Delivery, Exchange, Generation};

/// Renders requests to bytes.
pub(crate) struct Renderer<'a> {
    pub(crate) spec: &'a LoadSpec,
    pub(crate) target: &'a Target,
    pub(crate) servers: Servers,
}

impl Renderer<'_> {
    /// Renders the request at an index of the plan, after the turns before it.
    pub(crate) fn render(&self, request: usize, prompt: &Prompt, history: &[Exchange]) -> Vec<u8> {
        let (spec, target) = (self.spec, self.target);
        let path = target
            .path
            .as_deref()
            .unwrap_or(target.api.path(spec.delivery == Delivery::Streamed));
        let headers: Vec<_> = target
            .headers
            .iter()
            .cloned()
            .chain(target.api_key.as_ref().map(ApiKey::header))
            .collect();
        let workload = &spec.workload;
        let images = prompt
            .images
            .map(|images| images::drawn(images, &spec.origin, prompt));
        let texts = prompt.batched().unwrap_or_default();
        let body = target.api.body(&Generation {
            model: prompt.model.as_deref().unwrap_or(&target.model),
            prompt: &prompt.text,
            texts: &texts,
            output_tokens: prompt.output_tokens,
            output_mode: prompt.output_mode,
            system: workload.system.as_deref(),
            history,
            schema: workload.structured.as_ref().and_then(|s| s.schema.as_ref()),
            sampling: &workload.sampling,
            delivery: spec.delivery,
            images: images.as_deref().unwrap_or_default(),
            extra: &workload.extra,
        });
        let body = serde_json::to_vec(&body).expect("a JSON value always serializes");
        let peer = self.servers.at(self.servers.of(request));
        wire::post(&peer.address, path, &headers, &body)
    }
}

/// The number of requests rendered between two looks at the queue.
const AT_ONCE: usize = 16;

/// Renders the units of dispatch, one after the other, into a queue: warm-up requests, then measured requests or the
/// first turns of sessions.
pub(crate) struct Rendering<'a> {
    renderer: &'a Renderer<'a>,
    ahead: &'a Ahead,
    next: usize,
    end: usize,
}

impl<'a> Rendering<'a> {
    /// Starts with the first request of the plan.
    pub(crate) fn new(renderer: &'a Renderer<'a>, ahead: &'a Ahead) -> Self {
        let prompts = &renderer.spec.prompts;
        let measured = prompts
            .sessions()
            .map_or(prompts.count(Phase::Measured), <[_]>::len);
        Self {
            renderer,
            ahead,
            next: 0,
            end: prompts.count(Phase::Warmup) + measured,
        }
    }

    /// Renders until the queue is full; returns whether everything is rendered.
    ///
    /// # Errors
    /// If a prompt cannot be read.
    pub(crate) fn fill(&mut self) -> io::Result<bool> {
        while self.ahead.has_room() {
            if self.next == self.end {
                self.ahead.end();
                return Ok(true);
            }
            let until = self.end.min(self.next + AT_ONCE);
            let planned = (self.next..until).map(|unit| self.planned(unit));
            self.ahead.put(planned.collect::<io::Result<_>>()?);
            self.next = until;
        }
        Ok(false)
    }

    /// Renders whenever there is room, until everything is rendered or nothing more is wanted.
    ///
    /// # Errors
    /// If a prompt cannot be read; the queue then ends there.
    pub(crate) fn follow(mut self) -> io::Result<()> {
        while self.ahead.wait_for_room() {
            match self.fill() {
                Ok(false) => {}
                Ok(true) => break,
                Err(error) => {
                    self.ahead.end();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn planned(&self, unit: usize) -> io::Result<Planned> {
        let requests = self.requests(unit);
        let prompt = self.renderer.spec.prompts.at(requests.start)?;
        Ok(Planned {
            bytes: self.renderer.render(requests.start, &prompt, &[]),
            requests,
        })
    }

    /// Returns the requests of a unit as indices into the plan.
    fn requests(&self, unit: usize) -> Range<usize> {
        let prompts = &self.renderer.spec.prompts;
        let warmup = prompts.count(Phase::Warmup);
        match prompts.sessions() {
            Some(sessions) if unit >= warmup => {
                let session = &sessions[unit - warmup];
                warmup + session.start..warmup + session.end
            }
            _ => unit..unit + 1,
        }
    }
}
