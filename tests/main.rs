//! End-to-end tests: the binary as a user would run it, against the real engine.
//!
//! The tests that need rows of a real run share one finished smoke run of the quickstart (`support::finished`); those
//! that make changes work on a copy of its project.

mod support;

mod abuse;
mod asked;
mod behaviour;
mod bounds;
mod bucket_stub;
mod cache;
mod catalogue;
mod cloud;
mod container;
mod crash;
mod damaged;
mod detached;
mod docs;
mod draft;
mod dry_run;
mod engines;
mod errors;
mod explore;
mod first_hour;
mod foreign;
mod generators;
mod groups;
mod help;
mod house;
mod imported;
mod imported_tokens;
mod kept;
mod mistakes;
mod named_files;
mod names;
mod not_worse;
mod numbers;
mod places;
mod planted;
mod pool;
mod power;
mod programs;
mod progress;
mod publish;
mod published;
mod readme;
mod real_engine;
mod regression;
mod remeasured;
mod sceptic;
mod security;
mod sharing;
mod sharing_bucket;
mod sharing_gc;
mod sharing_s3;
mod site;
mod slurm;
mod sql;
mod ssh;
mod steps;
mod tampering;
mod torture;
mod trust;
mod until;
mod venv;
mod worker;
