//! Ctrl-C, SIGTERM and the end of the terminal, and the signals of a limit on file sizes and of a lack of memory.

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
            .map_err(|e| Stop::refused_at("cannot listen for signals", &e))?;
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
    .map_err(|e| Stop::refused_at("cannot listen for signals", &e))
}

/// Ends the process with the exit code of a machine that lacks something if an allocation of memory fails, for example
/// because of a limit on addresses (`ulimit -v`). The standard library says how much was asked for, and then aborts: no
/// other abort is expected here.
pub(crate) fn survive_a_lack_of_memory() -> Result<(), Stop> {
    let always = Arc::new(AtomicBool::new(true));
    let code = i32::from(Stop::machine("").code());
    signal_hook::flag::register_conditional_shutdown(signal_hook::consts::SIGABRT, code, always)
        .map(|_| ())
        .map_err(|e| Stop::refused_at("cannot listen for signals", &e))
}
