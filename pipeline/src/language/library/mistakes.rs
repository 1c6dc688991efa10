//! The places of problems in definitions.

use std::collections::BTreeSet;

use super::Layers;
use crate::language::diagnostics::{Mistake, Span};
use crate::stage::{Problem, Step};

impl Layers<'_> {
    /// Returns a problem in a definition as a mistake with its place there; `None` if it is not in a definition, or if
    /// the definition is not in a file.
    pub(crate) fn mistake(&self, problem: &Problem) -> Option<Mistake> {
        let (collection, name) = problem.definition.as_deref()?;
        if !self.schemas.contains_key(collection.as_str()) {
            return self.mistake_in_text(collection, name, problem);
        }
        let (layer, node) = self.first(collection, name, 0)?;
        let tree = self.extended(collection, name, layer, &node, &mut BTreeSet::new())?;
        let span = if problem.of_key {
            tree.place_of_key(&problem.route)
        } else {
            tree.place(&problem.route)
        };
        let mut route = vec![Step::Key(collection.clone()), Step::Key(name.clone())];
        route.extend(problem.route.iter().cloned());
        Some(Mistake {
            hint: problem.hint.clone(),
            ..Mistake::new(span, &route, problem.message.clone())
        })
    }

    /// Returns a mistake in a definition that is a text, such as a template.
    fn mistake_in_text(&self, collection: &str, name: &str, problem: &Problem) -> Option<Mistake> {
        let layers = 1..self.folders.len() + 2;
        let (path, text) = layers
            .into_iter()
            .find_map(|layer| self.text(layer, collection, name, ""))?;
        let part = problem.part.as_deref().filter(|(whole, _)| *whole == text);
        let part = part.map_or(0..0, |(_, part)| part.clone());
        let before = text.get(..part.start)?;
        let line = before.rfind('\n').map_or(0, |at| at + 1);
        let wrong = text.get(part)?.lines().next().unwrap_or_default();
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let span = Span {
            source: self.sink.add_source(&path, &text),
            line: number(before.matches('\n').count() + 1),
            column: number(before[line..].chars().count() + 1),
            width: number(wrong.chars().count().max(1)),
        };
        Some(Mistake {
            hint: problem.hint.clone(),
            ..Mistake::new(span, &[], problem.message.clone())
        })
    }
}
