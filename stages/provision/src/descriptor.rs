//! The identity of a provisioned engine and model.

use std::collections::BTreeMap;

use contract::{
    EngineIdentity, EngineSource, Environment, LiveEnvironment, ModelIdentity, ModelShape,
    PassedOver, PinnedFile, PinnedPackage, WeightsIdentity,
};
use engines::{Model, Program, Weights};
use pipeline::Json;
use serde_json::json;

use crate::prepare::Prepared;
use crate::settings::{Choice, Named, Parameters};

/// The description of a machine reached through OpenSSH: measurements went through its tunnel.
pub(crate) const OVER_SSH: &str = "over SSH";

/// Returns the descriptor. It is the same for the same definitions on the same kind of machine.
pub(crate) fn describe(
    choice: &Choice<'_>,
    parameters: &Parameters,
    facets: &BTreeMap<String, Json>,
) -> Environment {
    let model = &parameters.model;
    let engine = &choice.engine.definition;
    let source = match &engine.launch.program {
        _ if parameters.container().is_some() => EngineSource::Container,
        _ if parameters.environment.is_some() => EngineSource::Venv,
        Program::Packaged(_) | Program::Python(_) => EngineSource::Packages,
        Program::Worker(_) | Program::WorkerFile(_) => EngineSource::Worker,
        Program::Installed(_) => EngineSource::Installed,
        Program::Running(_) => EngineSource::Running,
    };
    let urls = match &engine.launch.program {
        Program::Running(urls) => urls.all().to_vec(),
        _ => Vec::new(),
    };
    let passed_over = choice.passed_over.iter().map(|(name, missing)| PassedOver {
        engine: (*name).to_owned(),
        reasons: missing.iter().map(|u| u.reason.clone()).collect(),
    });
    Environment {
        engine: EngineIdentity {
            name: choice.engine.name.clone(),
            title: engine.title.clone(),
            version: engine.version.clone(),
            licence: engine.licence.clone(),
            homepage: engine.homepage.clone(),
            source: Some(source),
            urls,
            packages: engine.packages.iter().map(package).collect(),
            passed_over: passed_over.collect(),
            definition: Some(json!(engine)),
        },
        model: describe_model(&model.name, &model.definition),
        draft: parameters
            .draft
            .as_ref()
            .map(|draft| describe_model(&draft.name, &draft.definition)),
        facets: facets.clone(),
        software: None,
    }
}

pub(crate) fn describe_model(name: &str, model: &Model) -> ModelIdentity {
    let weights = match &model.weights {
        Weights::Packaged(w) => WeightsIdentity {
            package: Some(package(&w.package)),
            file: Some(w.path.clone()),
            bytes: Some(w.bytes),
            ..WeightsIdentity::default()
        },
        Weights::Local(w) => WeightsIdentity {
            file: Some(w.path.clone()),
            ..WeightsIdentity::default()
        },
        Weights::Named(w) => WeightsIdentity {
            id: Some(w.id.clone()),
            revision: w.revision.clone(),
            ..WeightsIdentity::default()
        },
    };
    ModelIdentity {
        name: name.to_owned(),
        title: model.title.clone(),
        sha256: model.weights.sha256().map(ToString::to_string),
        weights,
        parameters: model.parameters,
        context: model.context,
        format: model.format.clone(),
        architecture: model.architecture.clone(),
        quantization: model.quantization.clone(),
        chat_template: Some(model.chat_template),
        licence: model.licence.clone(),
        served_name: model.served_name.clone(),
        // Absent rather than null, so that models without it keep their descriptor.
        shape: model.shape.as_ref().map(|shape| ModelShape {
            layers: Some(shape.layers),
            kv_heads: Some(shape.kv_heads),
            head_dim: Some(shape.head_dim),
        }),
    }
}

pub(crate) fn package(package: &engines::Package) -> PinnedPackage {
    let files = package.files.iter().map(|file| PinnedFile {
        name: file.name.clone(),
        sha256: file.sha256.to_string(),
        bytes: file.bytes,
    });
    PinnedPackage {
        registry: json!(package.registry).as_str().map(str::to_owned),
        name: package.name.clone(),
        version: package.version.clone(),
        files: files.collect(),
    }
}

pub(crate) fn live(choice: &Choice<'_>, model: &Named<Model>, prepared: &Prepared) -> Json {
    json!(LiveEnvironment {
        engine: choice.engine.name.clone(),
        model: model.name.clone(),
        bin: prepared.program.clone(),
        packages: prepared.packages.clone(),
        model_path: prepared.model.clone(),
        draft_path: prepared.draft.clone(),
        venv: prepared.venv.as_ref().map(|venv| venv.folder.clone()),
        container: prepared
            .container
            .as_ref()
            .map_or(Json::Null, |c| json!(c.containment)),
        place: Json::Null,
    })
}
