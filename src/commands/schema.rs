//! `schema`: prints the JSON Schema of experiments, for editors, or the declared tables.

use crate::args::{SchemaArgs, SchemaOf};
use crate::exit::Stop;
use crate::registry::registry;
use crate::terminal::say;

pub(super) fn schema(arguments: &SchemaArgs) -> Result<(), Stop> {
    let text = match arguments.what {
        SchemaOf::Experiment => {
            let schema = pipeline::language::experiment_schema(&registry());
            serde_json::to_string_pretty(&schema)
        }
        SchemaOf::Tables => serde_json::to_string_pretty(&contract::tables().collect::<Vec<_>>()),
    };
    say(&text.map_err(Stop::failed)?);
    Ok(())
}
