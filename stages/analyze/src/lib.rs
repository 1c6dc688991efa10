//! The analyze stage: named tables from rows.
