//! The report stage: traced numbers, figures, the number check.
