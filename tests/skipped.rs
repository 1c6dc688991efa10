//! Tests that need a tool which not every machine has.

/// Says that a test is skipped, because a tool is missing or may not be used here. If `BENCHTRAIL_NO_SKIP` lists the
/// tool, or is `all`, the test fails instead.
#[expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "CI names the tools that it has; a test that was skipped says so"
)]
pub(crate) fn skipped(tool: &str, why: &str) {
    let needed = std::env::var("BENCHTRAIL_NO_SKIP").unwrap_or_default();
    let is_needed = needed.split(',').any(|name| name == tool || name == "all");
    assert!(!is_needed, "BENCHTRAIL_NO_SKIP requires {tool}, but {why}");
    eprintln!("skipped: {why}");
}
