//! The provision stage: host probes, engines and weights.
