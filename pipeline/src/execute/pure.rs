//! Executes pure cells on several threads; the results do not depend on the number of threads.

use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::attempt::{Context, Finished, execute};
use super::drive::Executor;
use super::task::Task;
use crate::error::PipelineError;
use crate::plan::State;

/// Results are committed together after this time or this number. A synced commit costs milliseconds, and these bounds
/// limit what a crash can lose.
const COMMIT_AFTER: Duration = Duration::from_millis(200);
const COMMIT_AT: usize = 64;

/// The ready pure cells that a phase executes.
#[derive(Clone, Copy)]
pub(super) enum PureCells {
    /// Those that a measurement or resource waits for.
    Feeding,
    /// The others.
    Others,
}

impl Executor<'_, '_> {
    /// Executes ready pure cells, and those that become ready meanwhile.
    pub(super) fn pure_phase(&mut self, which: PureCells) -> Result<(), PipelineError> {
        // This thread decides which cells come next, and the workers only compute. So the order of execution and of
        // commits does not depend on them.
        let (tasks, inbox) = channel::<Task<'_>>();
        let (results, finished) = channel::<Result<Finished, PipelineError>>();
        let inbox = Mutex::new(inbox);
        let context = std::sync::Arc::clone(&self.context);
        let context: &Context<'_> = &context;
        std::thread::scope(|scope| {
            let waiting = match which {
                PureCells::Feeding => self.ready_feeding.len(),
                PureCells::Others => self.ready_pure.len(),
            };
            for _ in 0..self.jobs.min(waiting.max(1) * 4).max(1) {
                let (inbox, results) = (&inbox, results.clone());
                scope.spawn(move || {
                    loop {
                        let next = inbox.lock().map(|inbox| inbox.recv());
                        let Ok(Ok(task)) = next else { break };
                        if results.send(execute(context, &task)).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(results);
            let mut in_flight = 0;
            let mut last_commit = Instant::now();
            loop {
                while in_flight < self.jobs * 2 && self.stopped.is_none() {
                    if self.context.cancelled.load(Ordering::Relaxed) {
                        self.interrupt();
                        break;
                    }
                    let queue = match which {
                        PureCells::Feeding => &mut self.ready_feeding,
                        PureCells::Others => &mut self.ready_pure,
                    };
                    let Some(cell) = queue.pop_front() else { break };
                    let State::Ready(key) = self.session.states[cell] else {
                        continue;
                    };
                    let task = self.task(cell, key);
                    tasks.send(task).expect("the workers wait for tasks");
                    in_flight += 1;
                }
                if in_flight == 0 {
                    break;
                }
                match finished.recv_timeout(COMMIT_AFTER) {
                    Ok(result) => {
                        in_flight -= 1;
                        self.finish(result?)?;
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => {
                        unreachable!("workers live while tasks may come")
                    }
                }
                if self.commits.len() >= COMMIT_AT || last_commit.elapsed() >= COMMIT_AFTER {
                    self.commit()?;
                    last_commit = Instant::now();
                }
            }
            drop(tasks);
            self.commit()
        })
    }
}
