//! Statistical procedures with published definitions.
