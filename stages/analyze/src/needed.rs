//! What the queries of a stage read from the cells of the stages that it needs.

use pipeline::suggest::{did_you_mean, remedy};
use pipeline::{Needed, Problem};

use crate::kind::{Planned, SQL};

/// Returns the names of the tables of a load cell.
pub(crate) fn load_tables() -> impl Iterator<Item = &'static str> {
    contract::LOAD_TABLES.iter().map(|table| table.name)
}

/// Reports queries over the rows of a stage that `needs` does not list, and over tables that a load stage does not have.
pub(crate) fn unneeded_stages(tables: &[Planned], needs: &[Needed<'_>]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let stages: Vec<&str> = needs.iter().map(|need| need.stage).collect();
    for table in tables.iter().filter(|table| table.operator == SQL) {
        let query = table.parameters["query"].as_str().unwrap_or_default();
        for (stage, output) in query::mentioned(query)
            .iter()
            .filter_map(|name| name.rsplit_once('.'))
        {
            let raw = contract::LOAD_TABLES.iter().any(|spec| spec.name == output);
            let mut near = needs.iter();
            let near = near.find(|need| need.stage.eq_ignore_ascii_case(stage));
            let (message, hint) = match near {
                Some(need) if need.kind == "load" && !raw => (
                    format!("the stage `{stage}` has no table `{output}`"),
                    match contract::usual_table(output) {
                        Some(usual) => did_you_mean(format!("{stage}.{usual}")),
                        None => remedy(output, "tables of a load stage", load_tables()),
                    },
                ),
                None if raw => (
                    format!(
                        "the query reads `{stage}.{output}`, but the stage does not need `{stage}`"
                    ),
                    remedy(stage, "stages it needs", &stages),
                ),
                _ => continue,
            };
            let mut problem = Problem::at(&["tables", &table.name, "query"], message).hint(hint);
            if let Some(part) = query::place_of_name(query, &format!("{stage}.{output}")) {
                problem = problem.part(query, part);
            }
            problems.push(problem);
        }
    }
    problems
}
