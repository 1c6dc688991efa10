//! A process that may not start another thread ends with a reason instead of a panic.

use std::panic::{set_hook, take_hook};

use crate::exit::Stop;

/// Ends the process as soon as a thread cannot be started. Nothing is lost: the next run continues, as after a kill.
pub(crate) fn watch() {
    let before = take_hook();
    set_hook(Box::new(move |panic| {
        if panic.payload_as_str().is_some_and(names_a_thread) {
            let stop = Stop::machine("the system does not let this process start another thread")
                .hint(
                    "raise the limit: `ulimit -u` of the user, `pids.max` of the control group, or `--pids-limit` of \
                     the container",
                );
            stop.report();
            #[expect(
                clippy::exit,
                reason = "the panic may be on any thread, and others may wait for it"
            )]
            std::process::exit(i32::from(stop.code()));
        }
        before(panic);
    }));
}

/// Returns whether this is a message of the standard library, of rayon or of tokio about a thread that was not started.
fn names_a_thread(message: &str) -> bool {
    let all = [
        "failed to spawn thread",
        "ThreadPoolBuildError",
        "OS can't spawn worker thread",
    ];
    all.iter().any(|text| message.contains(text))
}
