//! Checks during planning whether the settings of a server fit the engine that its provision stage names.

use engines::{Engine, resolve, stands_for_setting};
use pipeline::suggest::{closest, nearest};
use pipeline::{Json, Library, Needed, Problem, Step};

use crate::group;

/// The remedy for an engine that needs other servers.
pub(crate) const IN_A_GROUP: &str =
    "start it in a group: give the stage `roles`, and connect this one by `peers`";

/// Checks the settings against the engine that the provision stage names. An engine that stands in for it may accept
/// settings that the first one does not. The roles of a group state their own needs. An engine that needs other servers must be
/// in a group.
pub(crate) fn fits(
    parameters: &Json,
    needs: &[Needed<'_>],
    library: &dyn Library,
) -> Result<(), Vec<Problem>> {
    let Some(environment) = Needed::of_kind(needs, "provision") else {
        let message = "a server needs an engine, but this stage does not need one";
        let hint = "add `needs: [STAGE]` with a stage of kind `provision`";
        return Err(vec![Problem::at(&["needs"], message).hint(hint)]);
    };
    if !parameters["roles"].is_null() {
        let roles = serde_json::from_value(parameters["roles"].clone()).unwrap_or_default();
        let problems = group::connections(&roles, needs);
        return match problems.is_empty() {
            true => Ok(()),
            false => Err(problems),
        };
    }
    let given = parameters["settings"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    if environment.parameters.is_null() {
        let problems = of_no_engine(&given, library);
        return if problems.is_empty() {
            Ok(())
        } else {
            Err(problems)
        };
    }
    let mut first = None;
    for named in environment.parameters["engines"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let Ok(engine) = Engine::from_json(&named["definition"]) else {
            return Ok(());
        };
        if let Some(message) = group::needs_others(&engine.title, &engine) {
            return Err(vec![Problem::at(&[], message).hint(IN_A_GROUP)]);
        }
        match resolve(&engine.settings, &given) {
            Ok(_) => return Ok(()),
            Err(problems) => {
                let name = named["name"].as_str().unwrap_or_default();
                // The definition of the library says what each setting is for.
                let described = library.find("engines", name);
                let described = described.and_then(|json| Engine::from_json(&json).ok());
                let resolved = described.and_then(|full| resolve(&full.settings, &given).err());
                let problems = resolved.unwrap_or(problems);
                first.get_or_insert_with(|| of_engine(name, &engine, problems));
            }
        }
    }
    first.map_or(Ok(()), Err)
}

/// Returns whether a definition of an engine is wrong, which is reported. It may have any setting: that nothing has the setting
/// could follow from it.
pub(crate) fn a_definition_is_wrong(library: &dyn Library) -> bool {
    let names = library.names("engines");
    let mut definitions = names.iter().map(|name| library.find("engines", name));
    definitions.any(|json| json.is_none_or(|json| Engine::from_json(&json).is_err()))
}

/// Returns the remedy for a key of the stage that some engine has as a setting.
pub(crate) fn setting_meant(key: &str, value: &Json, library: &dyn Library) -> Option<String> {
    let engines = Engine::all(library);
    let mut settings = engines.iter().map(|engine| &engine.settings);
    let of_an_engine = settings.any(|all| all.contains_key(key) || stands_for_setting(all, key));
    let shown = match value {
        Json::Array(_) | Json::Object(_) => "…".to_owned(),
        Json::String(text) => text.clone(),
        value => value.to_string(),
    };
    of_an_engine.then(|| {
        format!("it is a setting of the engine, so it belongs below `settings`: `settings: {{{key}: {shown}}}`")
    })
}

/// Finds settings that no engine has, for use when the engine is unknown.
fn of_no_engine(given: &serde_json::Map<String, Json>, library: &dyn Library) -> Vec<Problem> {
    if a_definition_is_wrong(library) {
        return Vec::new();
    }
    let engines = Engine::all(library);
    let settings = || engines.iter().flat_map(|e| e.settings.keys());
    let unknown = given
        .keys()
        .filter(|name| !settings().any(|setting| setting == *name));
    unknown
        .map(|name| {
            let message = format!("no engine has a setting `{name}`");
            let problem = Problem::at_key(&["settings", name], message);
            let question = nearest(name, settings().map(String::as_str));
            problem.hint(question.unwrap_or_else(|| {
                "`benchtrail list engines NAME` shows the settings of an engine".to_owned()
            }))
        })
        .collect()
}

/// Returns the problems with an engine's settings as problems of the stage, with the engine's name.
fn of_engine(name: &str, engine: &Engine, problems: Vec<Problem>) -> Vec<Problem> {
    let problem_of = |problem: Problem| {
        let given = match problem.route.first() {
            Some(Step::Key(key)) if problem.of_key => Some(key.as_str()),
            _ => None,
        };
        let names = || engine.settings.keys().map(String::as_str);
        let unlike_any = given.is_some_and(|given| {
            closest(given, names()).is_none() && !stands_for_setting(&engine.settings, given)
        });
        let route = std::iter::once(Step::Key("settings".to_owned())).chain(problem.route);
        let message = problem
            .message
            .replacen("the engine", &format!("the engine `{name}`"), 1);
        let hint = problem.hint.map(|hint| {
            if unlike_any {
                format!("{hint}; `benchtrail list engines {name}` shows them all")
            } else {
                hint
            }
        });
        Problem {
            route: route.collect(),
            message,
            hint,
            of_key: problem.of_key,
            definition: None,
            part: None,
        }
    };
    problems.into_iter().map(problem_of).collect()
}
