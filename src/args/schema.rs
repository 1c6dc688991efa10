//! Arguments of `schema`.

use clap::{Args, ValueEnum};

/// Arguments of `schema`.
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// What to describe.
    #[arg(value_enum, default_value_t, value_name = "WHAT")]
    pub(crate) what: SchemaOf,
}

/// What `schema` describes.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum SchemaOf {
    /// The JSON Schema of experiments, for editors.
    #[default]
    Experiment,
    /// The tables that stages exchange, with all their columns.
    Tables,
}
