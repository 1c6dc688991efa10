//! The numbers of a report, checked against the rows they were made from.
