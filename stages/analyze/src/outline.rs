//! The columns of tables as far as planning knows them, for the stages that read them.

use std::collections::BTreeMap;

use contract::Settings;
use pipeline::{KnownTable, Library};

use crate::frame::Spec;
use crate::keys::{self, Keys};
use crate::kind::{PUBLISHED, Planned, operator};
use crate::operator::Scope;

/// Returns the columns of a planned table without its keys; `None` if planning cannot know them.
pub(crate) fn columns(
    table: &Planned,
    earlier: &BTreeMap<String, Vec<Spec>>,
    keys: &Keys,
    library: &dyn Library,
) -> Option<Vec<Spec>> {
    let settings = Settings {
        values: table.parameters.as_object().cloned().unwrap_or_default(),
        route: &[],
        what: format!("table `{}`", table.name),
    };
    let scope = Scope {
        earlier,
        broken: &[],
        later: &[],
        keys,
        library,
    };
    // Canonicalization has already reported what is wrong with it.
    let plan = operator(&table.operator)?.plan(&settings, &scope).ok()?;
    Some(plan.columns)
}

/// Returns the tables of a stage, with their companions.
pub(crate) fn known_tables(tables: Vec<Planned>, library: &dyn Library) -> Vec<KnownTable> {
    let axes = library.axes();
    let (mut earlier, mut known_keys) = (BTreeMap::new(), Keys::new());
    let mut of_axes = Keys::new();
    let mut all = Vec::new();
    for table in tables {
        let specs = columns(&table, &earlier, &known_keys, library);
        let keys = keys::keys(&table.operator, &table.parameters, &axes, &known_keys);
        let names = specs.as_ref().map(|specs| {
            let own = specs.iter().map(|spec| spec.name.clone());
            own.chain(keys.iter().cloned()).collect::<Vec<_>>()
        });
        let names = names.map(|names| {
            // A column with the name of an axis has the operator's name as well.
            let is_taken = |name: &String| keys.contains(name) || axes.contains(name);
            let prefix = table.operator.replace('-', "_");
            let renamed = names.iter().filter(|name| is_taken(name));
            let renamed: Vec<String> = renamed.map(|name| format!("{prefix}_{name}")).collect();
            [names, renamed].concat()
        });
        let companions = match table.operator.as_str() {
            PUBLISHED => vec!["file", "lineage"],
            _ => vec!["lineage"],
        };
        let companion = |ending: &str| KnownTable {
            name: format!("{}.{ending}", table.name),
            columns: None,
            axes: Vec::new(),
        };
        all.extend(companions.into_iter().map(companion));
        let labelled = keys::of_axes(&table.operator, &table.parameters, &keys, &axes, &of_axes);
        all.push(KnownTable {
            name: table.name.clone(),
            columns: names,
            axes: labelled.iter().cloned().collect(),
        });
        of_axes.insert(table.name.clone(), labelled);
        if let Some(specs) = specs {
            earlier.insert(table.name.clone(), specs);
        }
        known_keys.insert(table.name, keys);
    }
    all
}
