//! The kinds of the study. They execute nothing, so that only the bookkeeping is measured.

use std::collections::BTreeMap;

use cluster::{Placement, Slurm};
use pipeline::{
    Class, Done, Failure, Inert, Job, Json, Library, Media, Output, Problem, Registry, StageKind,
};
use serde_json::json;

struct Kind {
    name: &'static str,
    class: Class,
}

/// Returns the kinds.
pub(crate) fn registry() -> Registry {
    registry_with(|class| class)
}

/// Returns the kinds with every class `Pure`, so that no cell needs a machine for itself. Their keys are the same.
pub(crate) fn registry_of_machines() -> Registry {
    registry_with(|_| Class::Pure)
}

fn registry_with(class_of: fn(Class) -> Class) -> Registry {
    let kind = |name, class| -> Box<dyn StageKind> {
        let class = class_of(class);
        Box::new(Kind { name, class })
    };
    Registry {
        kinds: vec![
            kind("launch", Class::Resource),
            kind("measure", Class::Measurement),
            kind("count", Class::Pure),
        ],
        ..Registry::default()
    }
}

impl StageKind for Kind {
    fn name(&self) -> &'static str {
        self.name
    }

    fn semantic_version(&self) -> u32 {
        1
    }

    fn class(&self) -> Class {
        self.class
    }

    fn schema(&self) -> schemars::Schema {
        schemars::Schema::default()
    }

    fn canonical(&self, settings: &Json, _: &dyn Library) -> Result<Json, Vec<Problem>> {
        let mut parameters = settings.clone();
        if let Some(settings) = parameters.as_object_mut() {
            settings.remove("place");
        }
        Ok(parameters)
    }

    fn placement(&self, settings: &Json, _: &dyn Library) -> Option<Json> {
        let at_once = u32::try_from(settings.get("place")?.as_u64()?).ok()?;
        let slurm = Slurm {
            at_once: Some(at_once),
            ..Slurm::default()
        };
        Some(json!(Placement::Slurm(slurm)))
    }

    fn facets(&self, _: &Json) -> Result<BTreeMap<String, Json>, Failure> {
        Ok(BTreeMap::from([("machine".to_owned(), json!("simulated"))]))
    }

    fn run(&self, job: &Job<'_>) -> Result<Done, Failure> {
        let cells = job.inputs.iter().map(|input| input.cells.len());
        let text = format!(
            "{} {} of {}",
            job.coordinates,
            job.parameters,
            cells.sum::<usize>()
        );
        let lease = match self.class {
            Class::Resource => {
                Some(Box::new(Inert { live: json!({}) }) as Box<dyn pipeline::Lease>)
            }
            _ => None,
        };
        Ok(Done {
            outputs: vec![Output::text("rows", Media::Text, text)],
            lease,
            ..Done::default()
        })
    }
}
