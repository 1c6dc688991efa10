//! Ctrl-C, SIGTERM and the end of the terminal, and the signal of a limit on file sizes.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::exit::Stop;

/// The first Ctrl-C or SIGTERM, or the end of the terminal, ends the run cleanly; a second one ends the process. What
/// ignores the end of its terminal (`nohup`) goes on.
pub(crate) fn listen_for_signals(cancelled: &Arc<AtomicBool>) -> Result<(), Stop> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let hangup = (!ignores_the_end_of_its_terminal()).then_some(SIGHUP);
    for signal in [SIGINT, SIGTERM].into_iter().chain(hangup) {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(cancelled))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(cancelled)))
            .map_err(|e| Stop::machine(format!("cannot listen for signals: {e}")))?;
    }
    Ok(())
}

/// Returns whether this process was started with SIGHUP, signal 1, ignored.
fn ignores_the_end_of_its_terminal() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & 1 != 0)
}

/// Makes a write beyond the limit on file sizes (`ulimit -f`) fail, so that the command can say why. By default, the
/// kernel ends the process without a word.
pub(crate) fn survive_the_limit_on_file_sizes() -> Result<(), Stop> {
    // A handler, unlike an ignored signal, ends with this program: what it starts keeps the default.
    signal_hook::flag::register(
        signal_hook::consts::SIGXFSZ,
        Arc::new(AtomicBool::new(false)),
    )
    .map(|_| ())
    .map_err(|e| Stop::machine(format!("cannot listen for signals: {e}")))
}
