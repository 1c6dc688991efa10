//! The verify stage: gates over rows.
