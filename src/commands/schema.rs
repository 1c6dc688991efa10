//! `schema`: the JSON Schema of experiments, for editors.

use crate::exit::Stop;
use crate::registry::registry;
use crate::terminal::say;

pub(super) fn schema() -> Result<(), Stop> {
    let schema = pipeline::language::experiment_schema(&registry());
    say(&serde_json::to_string_pretty(&schema).map_err(Stop::failed)?);
    Ok(())
}
