//! The order that a design requires: block by block, launch by launch, with everything measured on a launch together,
//! and rests between launches.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use typed_index_collections::TiVec;

use super::drive::Executor;
use crate::design::Place;
use crate::error::PipelineError;
use crate::event::{Event, Rest};
use crate::graph::Graph;
use crate::ids::CellId;
use crate::stage::Class;

/// How often a rest checks whether the user stopped the run.
const ASKED_EVERY: Duration = Duration::from_millis(50);

/// A launch's position in the design: its block, and its place there, both from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Seat {
    block: usize,
    place: usize,
}

/// The launches of a run.
#[derive(Default)]
pub(super) struct Blocks {
    /// The launch of each cell; empty without a design.
    seats: TiVec<CellId, Option<Seat>>,
    /// The current launch.
    current: Option<Seat>,
    /// The number of launches of this run, including the current one.
    launches: usize,
    /// The number of cells measured on the current launch.
    measured: usize,
}

impl Blocks {
    pub(super) fn new(graph: &Graph<'_>) -> Self {
        let Some(design) = &graph.experiment.design else {
            return Self::default();
        };
        let seats = graph
            .cells()
            .map(|cell| {
                let (block, launch) = graph.launch(design, cell)?;
                let place = design.place(block, launch);
                Some(Seat { block, place })
            })
            .collect();
        Self {
            seats,
            ..Self::default()
        }
    }

    /// Returns the launch of a cell; cells outside the design come before all launches.
    pub(super) fn seat(&self, cell: CellId) -> Option<Seat> {
        self.seats.get(cell).copied().flatten()
    }

    /// Counts a starting cell, and returns its place in the design.
    pub(super) fn note(&mut self, graph: &Graph<'_>, cell: CellId) -> Option<Place> {
        let (design, seat) = (graph.experiment.design.as_ref()?, self.seat(cell)?);
        let measured = graph.class(cell) == Class::Measurement;
        self.measured += usize::from(measured);
        let launch = design.sequence[seat.block][seat.place];
        Some(Place {
            block: seat.block + 1,
            launch: design.launches[launch].clone(),
            place: seat.place + 1,
            launches: self.launches,
            position: if measured { self.measured } else { 0 },
            planned: Some(design.blocks),
        })
    }
}

impl Executor<'_, '_> {
    /// Ends the current launch if a cell belongs to another one, and rests. Returns false if the user stopped the run
    /// meanwhile.
    pub(super) fn enter_launch(&mut self, cell: CellId) -> Result<bool, PipelineError> {
        let Some(seat) = self.blocks.seat(cell) else {
            return Ok(true);
        };
        if self.blocks.current == Some(seat) {
            return Ok(true);
        }
        for other in self.live.cells().into_iter().rev() {
            if self.blocks.seat(other).is_some_and(|s| s != seat) {
                self.release_with_dependants(other)?;
            }
        }
        let design = self.session.graph.experiment.design.as_ref();
        let design = design.expect("cells have launches only by a design");
        let done = if self.blocks.current.is_none() {
            self.rest(Rest::WarmUp, design.warm_up)
        } else {
            self.rest(Rest::CoolDown, design.cool_down)
        };
        self.blocks.current = Some(seat);
        self.blocks.launches += 1;
        self.blocks.measured = 0;
        Ok(done)
    }

    /// Rests with all cores at work or idle; returns false if the user stopped the run.
    fn rest(&self, rest: Rest, length: Duration) -> bool {
        if length.is_zero() {
            return true;
        }
        (self.context.listener)(&Event::Resting {
            rest,
            seconds: length.as_secs_f64(),
        });
        let over = AtomicBool::new(false);
        let end = Instant::now() + length;
        std::thread::scope(|scope| {
            if rest == Rest::WarmUp {
                for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
                    scope.spawn(|| {
                        while !over.load(Ordering::Relaxed) {
                            std::hint::spin_loop();
                        }
                    });
                }
            }
            while Instant::now() < end && !self.context.cancelled.load(Ordering::Relaxed) {
                let left = end.saturating_duration_since(Instant::now());
                std::thread::sleep(left.min(ASKED_EVERY));
            }
            over.store(true, Ordering::Relaxed);
        });
        !self.context.cancelled.load(Ordering::Relaxed)
    }
}
