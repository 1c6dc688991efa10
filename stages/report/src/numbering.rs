//! The numbers of tables and figures, in the order in which the templates show them, including inclusions. A table
//! keeps its number even if a summary mentions it before it is shown.

use std::collections::BTreeSet;

use crate::template::Template;

/// The parts of a template that affect numbering.
enum Mention<'t> {
    /// `table("name")` or `figure("name")`, or the shipped macro `result("name")` that calls one of them.
    Shows(&'t str),
    /// `{% include "name" %}`.
    Includes(&'t str),
    /// `declared("tables")`, in a loop.
    Declared(&'t str),
}

/// Returns the names shown by the first template and its inclusions, in order without duplicates. `declared` are the
/// names that `declared("tables")` and `declared("figures")` stand for.
pub(crate) fn shown(templates: &[Template], declared: &Declared) -> Vec<String> {
    let mut names = Names::default();
    if let Some(first) = templates.first() {
        walk(first, templates, declared, &mut BTreeSet::new(), &mut names);
    }
    names.in_order
}

/// Names in order, without duplicates.
#[derive(Default)]
struct Names {
    in_order: Vec<String>,
    names: BTreeSet<String>,
}

impl Names {
    fn add(&mut self, name: &str) {
        if self.names.insert(name.to_owned()) {
            self.in_order.push(name.to_owned());
        }
    }
}

/// The names of the tables and figures that a report declares, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Declared {
    pub(crate) tables: Vec<String>,
    pub(crate) figures: Vec<String>,
}

fn walk<'t>(
    template: &'t Template,
    all: &'t [Template],
    declared: &Declared,
    open: &mut BTreeSet<&'t str>,
    names: &mut Names,
) {
    if !open.insert(&template.name) {
        return;
    }
    for mention in mentions(&template.text) {
        match mention {
            Mention::Declared(section) => {
                let section = if section == "tables" {
                    &declared.tables
                } else {
                    &declared.figures
                };
                section.iter().for_each(|name| names.add(name));
            }
            Mention::Shows(name) => names.add(name),
            Mention::Includes(name) => {
                if let Some(included) = all.iter().find(|t| t.name == name) {
                    walk(included, all, declared, open, names);
                }
            }
        }
    }
    open.remove(template.name.as_str());
}

fn mentions(text: &str) -> Vec<Mention<'_>> {
    let mut mentions: Vec<(usize, Mention<'_>)> = Vec::new();
    for opening in [
        "table(\"",
        "figure(\"",
        "result(\"",
        "include \"",
        "declared(\"",
    ] {
        for (at, _) in text.match_indices(opening) {
            let rest = &text[at + opening.len()..];
            let Some((name, _)) = rest.split_once('"') else {
                continue;
            };
            let mention = match opening {
                "include \"" => Mention::Includes(name),
                "declared(\"" => Mention::Declared(name),
                _ => Mention::Shows(name),
            };
            mentions.push((at, mention));
        }
    }
    mentions.sort_by_key(|(at, _)| *at);
    mentions.into_iter().map(|(_, mention)| mention).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_numbered_as_they_are_shown_whatever_is_mentioned_before() {
        let template = |name: &str, text: &str| Template {
            name: name.to_owned(),
            text: text.to_owned(),
        };
        let templates = [
            template(
                "main",
                r#"{{ ref("b") }} {{ table("a") }} {% include "part" %} {{ figure("f") }}"#,
            ),
            template(
                "part",
                r#"{{ table("b") }} {{ table("a") }} {% include "main" %}"#,
            ),
        ];
        assert_eq!(shown(&templates, &Declared::default()), ["a", "b", "f"]);
    }
}
