//! APIs that generate nothing, images beside prompts, and models for parts of a mixture.

use contract::{Api, Phase, Request, RequestStatus, TokenSource};
use load::reference::{Behaviour, Fault, Faults, ReferenceServer};
use load::{Delivery, LoadResult, LoadSpec, Origin, PromptSet, Slo, Target, Workload, run_load};
use pipeline::stage::{Control, Coordinates};
use serde_json::{Value, json};

use crate::common::Run;

/// Sends four requests of a workload; returns the rows, and the bodies that the server received.
fn sent(api: Api, workload: &Value) -> (LoadResult, Vec<Value>) {
    sent_to(Behaviour::default(), api, workload)
}

fn sent_to(behaviour: Behaviour, api: Api, workload: &Value) -> (LoadResult, Vec<Value>) {
    let workload: Workload = serde_json::from_value(workload.clone()).unwrap();
    let origin = Origin {
        seed: 3,
        replicate: Coordinates::default(),
    };
    let run = Run {
        api,
        delivery: Delivery::Whole,
        ..Run::default()
    };
    let spec = LoadSpec {
        prompts: PromptSet::generate(&workload, &origin, 0, 4).unwrap(),
        workload,
        origin,
        ..run.spec()
    };
    let server = ReferenceServer::start(behaviour).unwrap();
    let target = Target::new(server.url(), "served", api);
    let result = run_load(&spec, &target, &Control::quiet()).unwrap();
    let body = |request: Vec<u8>| {
        let at = request.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
        serde_json::from_slice(&request[at + 4..]).unwrap()
    };
    let bodies = server
        .truth(4)
        .into_iter()
        .map(|t| body(t.request))
        .collect();
    (result, bodies)
}

#[test]
fn embeddings_have_a_latency_and_prompt_tokens_but_no_first_token_and_no_output() {
    let (result, bodies) = sent(
        Api::OpenaiEmbeddings,
        &json!({"prompts": {"words": {"length": 12}}}),
    );
    assert_eq!(result.requests.len(), 4);
    for row in &result.requests {
        assert_eq!(
            (row.status, row.phase),
            (RequestStatus::Ok, Phase::Measured)
        );
        assert_eq!(
            (row.first_token_ns, row.chunks, row.first_chunk_tokens),
            (None, None, None)
        );
        assert_eq!((row.prompt_tokens, row.output_tokens), (Some(7), Some(0)));
        assert_eq!(row.tokens_source, Some(TokenSource::Usage));
        assert_eq!(row.requested_output_tokens, Some(0));
        assert!(row.last_token_ns > row.sent_ns && row.last_token_ns <= row.done_ns);
    }
    assert!(result.chunks.is_empty());
    let summary = result.summary(&Slo::default()).unwrap();
    let text = format!("{summary:?}");
    assert!(!text.contains("NaN"), "{text}");
    for body in bodies {
        assert_eq!(
            body["input"].as_str().unwrap().split_whitespace().count(),
            12
        );
        assert!(
            body.get("max_tokens").is_none() && body.get("stream").is_none(),
            "{body}"
        );
    }
}

#[test]
fn a_batch_sends_so_many_different_texts_and_expects_a_vector_for_each() {
    let workload = json!({"prompts": {"words": {"length": 12}}, "batch-size": 3});
    let (result, bodies) = sent(Api::OpenaiEmbeddings, &workload);
    let mut texts = Vec::new();
    for body in &bodies {
        let input = body["input"].as_array().unwrap();
        assert_eq!(input.len(), 3, "{body}");
        texts.extend(input.iter().map(|text| text.as_str().unwrap()));
    }
    for text in &texts {
        assert_eq!(text.split_whitespace().count(), 12, "{text:?}");
        assert!(!text.contains('\n'), "{text:?}");
    }
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), 12);
    assert!(result.requests.iter().all(Request::is_ok));
}

#[test]
fn an_answer_that_lacks_a_vector_or_a_score_is_no_answer() {
    for (api, workload, wrong) in [
        (
            Api::OpenaiEmbeddings,
            json!({"prompts": {"words": {"length": 12}}, "batch-size": 3}),
            "the answer has 2 vectors, and the request asked for 3",
        ),
        (
            Api::Rerank,
            json!({"prompts": {"words": {"length": 5}}, "documents": {"count": 4, "length": 20}}),
            "the answer has 3 scores, and the request asked for 4",
        ),
    ] {
        let behaviour = Behaviour {
            faults: Faults::all(Fault::FewerResults),
            ..Behaviour::default()
        };
        let (result, _) = sent_to(behaviour, api, &workload);
        for row in &result.requests {
            assert_eq!(row.status, RequestStatus::MalformedStream);
            assert_eq!(row.error.as_deref(), Some(wrong));
        }
    }
}

#[test]
fn a_query_and_its_documents_are_ranked() {
    let (result, bodies) = sent(
        Api::Rerank,
        &json!({"prompts": {"words": {"length": 5}},
                "documents": {"count": {"from": 2, "to": 4}, "length": 20}}),
    );
    assert!(
        result
            .requests
            .iter()
            .all(|row| row.status == RequestStatus::Ok)
    );
    for body in bodies {
        assert_eq!(
            body["query"].as_str().unwrap().split_whitespace().count(),
            5
        );
        let documents = body["documents"].as_array().unwrap();
        assert!((2..=4).contains(&documents.len()), "{body}");
        for document in documents {
            assert_eq!(document.as_str().unwrap().split_whitespace().count(), 20);
        }
    }
}

#[test]
fn images_stand_beside_the_prompt_in_the_words_of_each_api() {
    let workload = json!({"prompts": {"words": {"length": 5}}, "output": {"tokens": 3},
                          "images": {"count": 2, "width": 40, "height": 24}});
    let mut urls = Vec::new();
    for (api, messages, image) in [
        (Api::OpenaiChat, "messages", "/image_url/url"),
        (Api::OpenaiResponses, "input", "/image_url"),
        (Api::AnthropicMessages, "messages", "/source/data"),
    ] {
        let (result, bodies) = sent(api, &workload);
        assert!(
            result
                .requests
                .iter()
                .all(|row| row.status == RequestStatus::Ok)
        );
        for body in bodies {
            let parts = body[messages][0]["content"].as_array().unwrap();
            assert_eq!(parts.len(), 3, "{body}");
            assert!(parts[2]["text"].is_string());
            for part in &parts[..2] {
                let data = part.pointer(image).unwrap().as_str().unwrap();
                let data = data.trim_start_matches("data:image/png;base64,");
                assert!(data.starts_with("iVBORw0KGgo"), "{data}");
                urls.push(data.to_owned());
            }
        }
    }
    // The images are the same for every API. Within a cell, no two are alike.
    urls.sort_unstable();
    assert_eq!(urls.len(), 24);
    urls.dedup();
    assert_eq!(urls.len(), 8);
}

#[test]
fn parts_of_a_mixture_ask_for_models_of_their_own() {
    let part = |name: &str, model: Option<&str>| {
        let mut part = json!({"name": name, "weight": 1, "prompts": {"words": {"length": 4}}});
        if let Some(model) = model {
            part["model"] = json!(model);
        }
        part
    };
    let workload = json!({"output": {"tokens": 3},
        "prompts": {"mixture": [part("base", None), part("tuned", Some("lora-a"))]}});
    let (_, bodies) = sent(Api::OpenaiCompletions, &workload);
    let models: Vec<&str> = bodies
        .iter()
        .map(|b| b["model"].as_str().unwrap())
        .collect();
    assert!(
        models.iter().all(|m| ["served", "lora-a"].contains(m)),
        "{models:?}"
    );
    assert!(
        models.contains(&"served") && models.contains(&"lora-a"),
        "{models:?}"
    );
}
