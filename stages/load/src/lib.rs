//! The load stage: the load generator.
