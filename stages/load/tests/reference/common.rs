//! Code that the tests against the reference server share.

use std::time::Duration;

use contract::{Api, Phase, RequestStatus};
use load::reference::{Behaviour, Fault, Faults, ReferenceServer};
use load::{
    Arrival, ClosedLoop, Count, Delivery, Extent, LoadResult, LoadSpec, Origin, Output, OutputMode,
    Prompt, PromptSet, PromptSource, Sampling, Target, TimeSpan, Timeouts, Words, Workload,
    run_load,
};
use pipeline::stage::{Control, Coordinates};

/// A run that a test changes and then sends.
pub(crate) struct Run {
    pub(crate) behaviour: Behaviour,
    pub(crate) api: Api,
    pub(crate) delivery: Delivery,
    pub(crate) arrival: Arrival,
    pub(crate) requests: usize,
    pub(crate) warmup: usize,
    pub(crate) tokens: u32,
    /// Words of each prompt.
    pub(crate) words: u32,
    pub(crate) timeouts: Timeouts,
    pub(crate) heartbeat: TimeSpan,
    pub(crate) extent: Extent,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            behaviour: Behaviour::default(),
            api: Api::OpenaiCompletions,
            delivery: Delivery::Streamed,
            arrival: closed(2),
            requests: 6,
            warmup: 0,
            tokens: 5,
            words: 8,
            timeouts: Timeouts::default(),
            heartbeat: TimeSpan::seconds(30),
            extent: Extent::default(),
        }
    }
}

pub(crate) fn closed(clients: u32) -> Arrival {
    Arrival::ClosedLoop(ClosedLoop {
        clients,
        think_time: TimeSpan::default(),
    })
}

/// Returns a behaviour with enough time between tokens to read each one separately.
pub(crate) fn paced() -> Behaviour {
    Behaviour {
        gap: Duration::from_millis(20),
        ..Behaviour::default()
    }
}

impl Run {
    pub(crate) fn with(fault: Fault) -> Self {
        let behaviour = Behaviour {
            faults: Faults::all(fault),
            ..Behaviour::default()
        };
        Self {
            behaviour,
            ..Self::default()
        }
    }

    pub(crate) fn spec(&self) -> LoadSpec {
        let workload = Workload {
            description: None,
            prompts: PromptSource::Words(Words {
                length: Count::Fixed(self.words).into(),
            }),
            drawn_by: Default::default(),
            batch_size: 1,
            system: None,
            output: Output {
                tokens: Count::Fixed(self.tokens),
                mode: OutputMode::Exact,
                replaces_recorded: false,
            },
            sampling: Sampling::default(),
            sessions: None,
            structured: None,
            tokenizer: None,
            images: None,
            documents: None,
            extra: Default::default(),
        };
        let origin = Origin {
            seed: 7,
            replicate: Coordinates::default(),
        };
        LoadSpec {
            prompts: PromptSet::generate(&workload, &origin, self.warmup, self.requests).unwrap(),
            workload,
            arrival: self.arrival.clone(),
            delivery: self.delivery,
            timeouts: self.timeouts.clone(),
            heartbeat: self.heartbeat,
            origin,
            extent: self.extent.clone(),
            files: Default::default(),
            generators: Default::default(),
        }
    }

    pub(crate) fn target(&self, url: String) -> Target {
        Target::new(url, "reference", self.api)
    }

    /// Sends the run to a reference server with its behaviour.
    pub(crate) fn send(&self) -> (LoadResult, ReferenceServer) {
        let server = ReferenceServer::start(self.behaviour.clone()).unwrap();
        let result = run_load(&self.spec(), &self.target(server.url()), &Control::quiet()).unwrap();
        (result, server)
    }

    pub(crate) fn result(&self) -> LoadResult {
        self.send().0
    }
}

/// Returns the measured prompts of a run.
pub(crate) fn prompts(spec: &LoadSpec) -> Vec<Prompt> {
    spec.prompts.of(Phase::Measured).unwrap()
}

/// Returns the statuses of all attempts in order.
pub(crate) fn statuses(result: &LoadResult) -> Vec<RequestStatus> {
    result.requests.iter().map(|r| r.status).collect()
}
