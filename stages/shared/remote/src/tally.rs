//! What a transfer has done so far, counted by several threads.

use std::sync::Mutex;

use crate::{Progress, Watch};

/// The report and the progress of one transfer.
pub(crate) struct Tally<'a, R> {
    watch: Watch<'a>,
    state: Mutex<(R, Progress)>,
}

impl<'a, R: Default> Tally<'a, R> {
    /// Starts a transfer of this number of parts.
    pub(crate) fn new(watch: Watch<'a>, total: usize) -> Self {
        let progress = Progress {
            total: total as u64,
            ..Progress::default()
        };
        Self {
            watch,
            state: Mutex::new((R::default(), progress)),
        }
    }

    /// Changes the report and the progress, and reports the progress.
    pub(crate) fn add(&self, change: impl FnOnce(&mut R, &mut Progress)) {
        let mut state = self.state.lock().expect("nobody panics with the lock");
        let (report, progress) = &mut *state;
        change(report, progress);
        let progress = *progress;
        drop(state);
        (self.watch.listener)(progress);
    }

    pub(crate) fn into_report(self) -> R {
        let state = self.state.into_inner();
        state.expect("nobody panics with the lock").0
    }
}
