//! A source of samples beside the load, and its thread.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::measure::Epoch;
use crate::sheet::{Sheet, TableFile};

/// A source that cannot be sampled: its table's name and the reason, one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Absent {
    pub(crate) table: &'static str,
    pub(crate) reason: String,
}

/// The output of a companion.
#[derive(Debug, Default)]
pub(crate) struct Sampled {
    pub(crate) tables: Vec<TableFile>,
    pub(crate) warnings: Vec<String>,
    pub(crate) observations: BTreeMap<String, Value>,
}

impl Sampled {
    /// Completes a table that is a companion's only output.
    pub(crate) fn of<R: contract::Row>(sheet: Sheet<R>) -> Self {
        let mut left = Self::default();
        left.complete(sheet);
        left
    }

    /// Completes a table and keeps it.
    pub(crate) fn complete<R: contract::Row>(&mut self, sheet: Sheet<R>) {
        match sheet.finish() {
            Ok(table) => self.tables.push(table),
            Err(error) => self.warnings.push(error.to_string()),
        }
    }
}

/// A source of samples.
pub(crate) trait Companion: Send {
    /// Returns the name of what it samples, for warnings and for its thread.
    fn name(&self) -> &'static str;

    /// Takes a sample now, `at_ns` on the cell's clock.
    ///
    /// # Errors
    /// The problem in one sentence. The next sample is tried anyway.
    fn sample(&mut self, at_ns: i64) -> Result<(), String>;

    /// Completes its tables.
    fn finish(self: Box<Self>) -> Sampled;
}

/// A bell that ends all waits at once.
#[derive(Debug, Default)]
pub(crate) struct Halt {
    rung: Mutex<bool>,
    bell: Condvar,
}

impl Halt {
    /// Ends all waits, present and future.
    pub(crate) fn ring(&self) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.bell.notify_all();
    }

    /// Waits for an instant or the bell; returns whether the bell rang.
    pub(crate) fn wait_until(&self, at: Instant) -> bool {
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let left = at.saturating_duration_since(Instant::now());
        *self
            .bell
            .wait_timeout_while(rung, left, |rung| !*rung)
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }
}

/// The niceness of sampling threads: they give way to threads that measure or serve.
const NICENESS: i32 = 10;

/// Samples on a thread for each companion while `work` runs. The bell ends the sampling, at the latest after the work;
/// `work` rings it if it has more to do than to load the server. A thread that cannot be started is a warning.
pub(crate) fn while_sampling<T>(
    companions: Vec<Box<dyn Companion>>,
    interval: Duration,
    epoch: Epoch,
    work: impl FnOnce(&Halt) -> T,
) -> (T, Vec<Sampled>) {
    let halt = Halt::default();
    std::thread::scope(|scope| {
        let start = |companion: Box<dyn Companion>| {
            let halt = &halt;
            std::thread::Builder::new()
                .name(companion.name().to_owned())
                .spawn_scoped(scope, move || watch(companion, interval, epoch, halt))
        };
        let threads: Vec<_> = companions.into_iter().map(start).collect();
        let done = work(&halt);
        halt.ring();
        let sampled = |thread: std::io::Result<ScopedJoinHandle<'_, Sampled>>| match thread {
            Ok(thread) => joined(thread.join()),
            Err(e) => Sampled {
                warnings: vec![format!("cannot start the sampling thread: {e}")],
                ..Sampled::default()
            },
        };
        (done, threads.into_iter().map(sampled).collect())
    })
}

/// Returns a thread's result, or resumes its panic.
pub(crate) fn joined<T>(result: std::thread::Result<T>) -> T {
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Samples at the interval until the bell rings, then once more. Lowers the priority of the calling thread. If a sample
/// is late by whole intervals, the missed samples are skipped.
fn watch(
    mut companion: Box<dyn Companion>,
    interval: Duration,
    epoch: Epoch,
    halt: &Halt,
) -> Sampled {
    // On Linux, this call without a process affects the calling thread. If it is refused, the priority stays the same.
    let _usual_priority = rustix::process::setpriority_process(None, NICENESS);
    let (mut problems, mut failed) = (0_u64, None);
    let mut next = Instant::now() + interval;
    loop {
        let last = halt.wait_until(next);
        if let Err(problem) = companion.sample(i64::try_from(epoch.now()).unwrap_or(i64::MAX)) {
            problems += 1;
            failed = failed.or(Some(problem));
        }
        if last {
            break;
        }
        let now = Instant::now();
        while next <= now {
            next += interval;
        }
    }
    let name = companion.name();
    let mut left = companion.finish();
    left.warnings.extend(
        failed.map(|first| format!("{name}: {problems} samples failed; the first: {first}")),
    );
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    struct Counter(Arc<AtomicI64>, i64);

    impl Companion for Counter {
        fn name(&self) -> &'static str {
            "counter"
        }

        fn sample(&mut self, _: i64) -> Result<(), String> {
            self.1 += 1;
            self.0.fetch_add(1, Ordering::Relaxed);
            if self.1 > 1 {
                Err(format!("sample {}", self.1))
            } else {
                Ok(())
            }
        }

        fn finish(self: Box<Self>) -> Sampled {
            Sampled::default()
        }
    }

    #[test]
    fn the_last_sample_is_taken_when_the_bell_rings_and_failures_are_reported_once() {
        let (halt, count) = (Halt::default(), Arc::new(AtomicI64::new(0)));
        let counter = Box::new(Counter(count.clone(), 1));
        halt.ring();
        let left = watch(counter, Duration::from_secs(3600), Epoch::start(), &halt);
        assert_eq!(count.load(Ordering::Relaxed), 1);
        assert_eq!(
            left.warnings,
            ["counter: 1 samples failed; the first: sample 2"]
        );
    }

    #[test]
    fn every_companion_samples_while_the_work_runs() {
        let counts: Vec<_> = (0..2).map(|_| Arc::new(AtomicI64::new(0))).collect();
        let counters = counts
            .iter()
            .map(|count| Box::new(Counter(count.clone(), 0)) as Box<dyn Companion>);
        let (done, sampled) = while_sampling(
            counters.collect(),
            Duration::from_millis(1),
            Epoch::start(),
            |_| {
                while counts.iter().any(|count| count.load(Ordering::Relaxed) < 5) {
                    std::thread::yield_now();
                }
                "done"
            },
        );
        assert_eq!((done, sampled.len()), ("done", 2));
    }

    #[test]
    fn samples_go_on_until_the_bell() {
        let (halt, count) = (Arc::new(Halt::default()), Arc::new(AtomicI64::new(0)));
        let (bell, counter) = (halt.clone(), Box::new(Counter(count.clone(), 0)));
        let thread = std::thread::spawn(move || {
            watch(counter, Duration::from_millis(1), Epoch::start(), &bell)
        });
        while count.load(Ordering::Relaxed) < 5 {
            std::thread::yield_now();
        }
        halt.ring();
        assert!(thread.join().unwrap().warnings[0].ends_with("the first: sample 2"));
    }
}
