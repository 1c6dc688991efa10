//! Wall-clock time as a number.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns a time in ns since the start of 1970; 0 for earlier times.
pub fn unix_ns(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
