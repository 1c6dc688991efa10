use contract::Word as _;

use super::*;

mod servers;

/// A generation for every API, with defaults. Each test changes the field that it checks.
struct Asked {
    system: Option<&'static str>,
    schema: Option<Value>,
    sampling: Sampling,
    output_mode: OutputMode,
    images: Vec<String>,
    texts: Vec<&'static str>,
    extra: BTreeMap<String, Value>,
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            system: None,
            schema: None,
            sampling: Sampling::default(),
            output_mode: OutputMode::Cap,
            images: Vec::new(),
            texts: Vec::new(),
            extra: BTreeMap::new(),
        }
    }
}

impl Asked {
    fn body(&self, api: Api, history: &[Exchange]) -> Value {
        api.body(&Generation {
            model: "m",
            prompt: "and you?",
            texts: &self.texts,
            output_tokens: 9,
            output_mode: self.output_mode,
            system: self.system,
            history,
            schema: self.schema.as_ref(),
            sampling: &self.sampling,
            delivery: Delivery::Streamed,
            images: &self.images,
            extra: &self.extra,
        })
    }
}

fn talk() -> Vec<Exchange> {
    vec![Exchange {
        said: "hello".to_owned(),
        answered: " hi there".to_owned(),
    }]
}

#[test]
fn chat_apis_get_the_turns_so_far_as_messages() {
    for api in [Api::OpenaiChat, Api::OllamaChat] {
        let asked = Asked {
            system: Some("be kind"),
            ..Asked::default()
        };
        let body = asked.body(api, &talk());
        let expected = json!([
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": " hi there"},
            {"role": "user", "content": "and you?"},
        ]);
        assert_eq!(body["messages"], expected, "{}", api.word());
    }
}

#[test]
fn other_apis_get_the_turns_so_far_as_text_that_goes_on_where_it_ended() {
    let text = |history: &[Exchange]| {
        [
            (Api::OpenaiCompletions, "prompt"),
            (Api::LlamaCppCompletion, "prompt"),
            (Api::TgiGenerate, "inputs"),
            (Api::SglangGenerate, "text"),
            (Api::OllamaGenerate, "prompt"),
        ]
        .map(|(api, field)| {
            Asked::default().body(api, history)[field]
                .as_str()
                .unwrap()
                .to_owned()
        })
    };
    for text in text(&talk()) {
        assert_eq!(text, "hello hi there\n\nand you?");
    }
    for text in text(&[]) {
        assert_eq!(text, "and you?");
    }
}

#[test]
fn each_api_gets_the_schema_in_its_own_words() {
    let schema = json!({"type": "object"});
    let asked = Asked {
        schema: Some(schema.clone()),
        ..Asked::default()
    };
    let body = |api| asked.body(api, &[]);
    for api in [Api::OpenaiCompletions, Api::OpenaiChat] {
        assert_eq!(
            body(api)["response_format"]["json_schema"]["schema"],
            schema
        );
        assert_eq!(body(api)["response_format"]["type"], "json_schema");
    }
    assert_eq!(body(Api::LlamaCppCompletion)["json_schema"], schema);
    assert_eq!(
        body(Api::TgiGenerate)["parameters"]["grammar"],
        json!({"type": "json", "value": {"type": "object"}})
    );
    assert_eq!(
        body(Api::SglangGenerate)["sampling_params"]["json_schema"],
        "{\"type\":\"object\"}"
    );
    for api in [Api::OllamaGenerate, Api::OllamaChat] {
        assert_eq!(body(api)["format"], schema);
    }
    assert_eq!(
        body(Api::OpenaiResponses)["text"]["format"]["schema"],
        schema
    );
    // Embeddings have a separate format.
    for api in Api::ALL.iter().copied().filter(|api| api.generates()) {
        let plain = Asked::default().body(api, &[]).to_string();
        assert!(
            !plain.contains("schema") && !plain.contains("grammar") && !plain.contains("format"),
            "{plain}"
        );
    }
}

#[test]
fn each_api_gets_length_sampling_and_exactness_in_its_own_words() {
    let asked = Asked {
        sampling: Sampling {
            temperature: 0.5,
            top_p: Some(0.9),
            seed: Some(3),
        },
        output_mode: OutputMode::Exact,
        ..Asked::default()
    };
    let body = |api| asked.body(api, &[]);
    for api in [Api::OpenaiCompletions, Api::OpenaiChat] {
        let body = body(api);
        assert_eq!(
            (&body["max_tokens"], &body["ignore_eos"]),
            (&json!(9), &json!(true))
        );
        assert_eq!(
            (&body["temperature"], &body["top_p"], &body["seed"]),
            (&json!(0.5), &json!(0.9), &json!(3))
        );
        assert_eq!(body["stream_options"]["include_usage"], true);
    }
    let llama = body(Api::LlamaCppCompletion);
    assert_eq!(
        (&llama["n_predict"], &llama["ignore_eos"]),
        (&json!(9), &json!(true))
    );
    let tgi = body(Api::TgiGenerate);
    assert_eq!(tgi["parameters"]["max_new_tokens"], 9);
    assert_eq!(
        (&tgi["parameters"]["do_sample"], &tgi["parameters"]["seed"]),
        (&json!(true), &json!(3))
    );
    let sglang = body(Api::SglangGenerate);
    assert_eq!(sglang["sampling_params"]["max_new_tokens"], 9);
    assert_eq!(sglang["sampling_params"]["ignore_eos"], true);
    for api in [Api::OllamaGenerate, Api::OllamaChat] {
        assert_eq!(body(api)["options"]["num_predict"], 9);
        assert_eq!(body(api)["options"]["seed"], 3);
        assert_eq!(body(api)["truncate"], false);
    }
}

#[test]
fn extra_fields_win_over_ours() {
    let extra = [("max_tokens", json!(1)), ("guided_json", json!({}))];
    let asked = Asked {
        extra: extra.map(|(key, value)| (key.to_owned(), value)).into(),
        ..Asked::default()
    };
    let body = asked.body(Api::OpenaiChat, &[]);
    assert_eq!(
        (&body["max_tokens"], &body["guided_json"]),
        (&json!(1), &json!({}))
    );
}

#[test]
fn reasoning_is_separated_from_the_answer() {
    for (event, reasoning, text) in [
        (
            json!({"choices": [{"delta": {"role": "assistant", "content": null}}]}),
            None,
            None,
        ),
        (
            json!({"choices": [{"delta": {"reasoning_content": "hm"}}]}),
            Some("hm"),
            None,
        ),
        (
            json!({"choices": [{"delta": {"reasoning": "hm", "content": ""}}]}),
            Some("hm"),
            None,
        ),
        (
            json!({"choices": [{"delta": {"content": "yes"}}]}),
            None,
            Some("yes"),
        ),
    ] {
        let reading = Api::OpenaiChat.read(&event);
        assert_eq!(reading.reasoning.as_deref(), reasoning, "{event}");
        assert_eq!(
            reading.text,
            text.map(|t| Text::New(t.to_owned())),
            "{event}"
        );
    }
    let reading =
        Api::OllamaChat.read(&json!({"message": {"thinking": "hm", "content": ""}, "done": false}));
    assert_eq!(
        (reading.reasoning.as_deref(), reading.text),
        (Some("hm"), None)
    );
}

/// Returns the total content of a stream or an answer.
fn total_content(api: Api, events: &[Value]) -> (String, [Option<i64>; 3], Option<String>, bool) {
    let (mut text, mut reasoning, mut reading) = (String::new(), String::new(), Reading::default());
    for event in events {
        let read = api.read(event);
        if let Some(Text::New(new)) = &read.text {
            text.push_str(new);
        }
        reasoning.extend(read.reasoning);
        reading.prompt_tokens = read.prompt_tokens.or(reading.prompt_tokens);
        reading.cached_prompt_tokens = read.cached_prompt_tokens.or(reading.cached_prompt_tokens);
        reading.output_tokens = read.output_tokens.or(reading.output_tokens);
        reading.finish_reason = read.finish_reason.or(reading.finish_reason);
        reading.last |= read.last;
    }
    let counts = [
        reading.prompt_tokens,
        reading.cached_prompt_tokens,
        reading.output_tokens,
    ];
    (
        format!("{reasoning}|{text}"),
        counts,
        reading.finish_reason,
        reading.last,
    )
}

#[test]
fn the_messages_api_counts_cached_input_beside_the_rest_and_its_output_at_the_end() {
    // The events of Anthropic's streaming guide, shortened.
    let events = [
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 472, "cache_creation_input_tokens": 10,
            "cache_read_input_tokens": 18, "output_tokens": 2}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}}),
        json!({"type": "ping"}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Okay"}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": ","}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 89}}),
        json!({"type": "message_stop"}),
    ];
    let whole = json!({"type": "message", "stop_reason": "end_turn", "usage": {"input_tokens": 472,
        "cache_creation_input_tokens": 10, "cache_read_input_tokens": 18, "output_tokens": 89},
        "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Okay,"}]});
    let counts = [Some(500), Some(18), Some(89)];
    let expected = ("hm|Okay,".to_owned(), counts, Some("stop".to_owned()), true);
    assert_eq!(total_content(Api::AnthropicMessages, &events), expected);
    assert_eq!(total_content(Api::AnthropicMessages, &[whole]), expected);
    let error = Api::AnthropicMessages
        .read(&json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}));
    assert_eq!(error.error.as_deref(), Some("busy"));
}

#[test]
fn the_responses_api_is_read_alike_in_a_stream_and_whole() {
    let response = json!({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"},
        "error": null, "output": [
            {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]},
            {"type": "message", "content": [{"type": "output_text", "text": "Hi there"}]}],
        "usage": {"input_tokens": 11, "input_tokens_details": {"cached_tokens": 3}, "output_tokens": 9,
            "output_tokens_details": {"reasoning_tokens": 4}}});
    let events = [
        json!({"type": "response.created", "response": {"status": "in_progress"}}),
        json!({"type": "response.reasoning_text.delta", "delta": "hm"}),
        json!({"type": "response.output_text.delta", "delta": "Hi"}),
        json!({"type": "response.output_text.delta", "delta": " there"}),
        json!({"type": "response.output_text.done", "text": "Hi there"}),
        json!({"type": "response.incomplete", "response": response}),
    ];
    let counts = [Some(11), Some(3), Some(9)];
    let expected = (
        "hm|Hi there".to_owned(),
        counts,
        Some("length".to_owned()),
        true,
    );
    assert_eq!(total_content(Api::OpenaiResponses, &events), expected);
    assert_eq!(total_content(Api::OpenaiResponses, &[response]), expected);
    let failed = json!({"type": "response.failed", "response": {"status": "failed", "error": {"message": "out of memory"}}});
    assert_eq!(
        Api::OpenaiResponses.read(&failed).error.as_deref(),
        Some("out of memory")
    );
}

#[test]
fn whatever_comes_piece_by_piece_is_generated_text() {
    let read = |kind: &str, delta: Value| {
        let read = Api::OpenaiResponses.read(&json!({"type": kind, "delta": delta}));
        (read.reasoning, read.other, read.wrong.is_some())
    };
    let some = |text: &str| Some(text.to_owned());
    for (kind, delta, expected) in [
        (
            "response.reasoning.delta",
            json!("a"),
            (some("a"), None, false),
        ),
        (
            "response.reasoning_summary_text.delta",
            json!({"type": "summary_text", "text": "a"}),
            (some("a"), None, false),
        ),
        (
            "response.refusal.delta",
            json!("a"),
            (None, some("a"), false),
        ),
        (
            "response.code_interpreter_call_code.delta",
            json!("a"),
            (None, some("a"), false),
        ),
        ("response.refusal.delta", json!(5), (None, None, true)),
        ("response.refusal.done", json!("a"), (None, None, false)),
    ] {
        assert_eq!(read(kind, delta), expected, "{kind}");
    }
    for kind in ["tool_use", "server_tool_use", "mcp_tool_use"] {
        let block = json!({"type": kind, "id": "t", "name": "f", "input": {}});
        let read = Api::AnthropicMessages
            .read(&json!({"type": "content_block_start", "index": 0, "content_block": block}));
        assert_eq!(read.other.as_deref(), Some("f"), "{kind}");
    }
}

#[test]
fn an_empty_finish_reason_is_none() {
    let open = |reason: Value| {
        [
            (
                Api::OpenaiCompletions,
                json!({"choices": [{"text": "a", "finish_reason": reason}]}),
            ),
            (
                Api::OpenaiChat,
                json!({"choices": [{"delta": {"content": "a"}, "finish_reason": reason}]}),
            ),
            (
                Api::SglangGenerate,
                json!({"text": "a", "meta_info": {"finish_reason": reason}}),
            ),
            (
                Api::TgiGenerate,
                json!({"token": {"text": "a"}, "details": {"finish_reason": reason}}),
            ),
            (
                Api::AnthropicMessages,
                json!({"type": "message", "stop_reason": reason}),
            ),
        ]
    };
    for reason in [json!(""), json!(null)] {
        for (api, event) in open(reason) {
            let reading = api.read(&event);
            assert_eq!(
                (reading.finish_reason, reading.last),
                (None, false),
                "{event}"
            );
        }
    }
    for (api, event) in open(json!("length")) {
        let reading = api.read(&event);
        let ended = (Some("length".to_owned()), true);
        assert_eq!((reading.finish_reason, reading.last), ended, "{event}");
    }
}

#[test]
fn tgi_counts_the_prompt_at_the_end_of_a_stream() {
    // The last event of a stream of TGI 3.3.7.
    let last = json!({"index": 2, "token": {"id": 40, "text": "a", "logprob": -1.0, "special": false},
        "generated_text": "ba",
        "details": {"finish_reason": "length", "generated_tokens": 2, "seed": 1, "input_length": 17}});
    let reading = Api::TgiGenerate.read(&last);
    assert_eq!(
        (reading.prompt_tokens, reading.output_tokens, reading.last),
        (Some(17), Some(2), true)
    );
    // It refuses a cut of 1.
    for (top_p, sent) in [(Some(1.0), json!(null)), (Some(0.9), json!(0.9))] {
        let sampling = Sampling {
            top_p,
            ..Sampling::default()
        };
        let asked = Asked {
            sampling,
            ..Asked::default()
        };
        assert_eq!(
            asked.body(Api::TgiGenerate, &[])["parameters"]["top_p"],
            sent
        );
    }
}

#[test]
fn an_answer_without_vectors_or_scores_is_an_error() {
    let good = Api::OpenaiEmbeddings
        .read(&json!({"data": [{"embedding": [0.5]}], "usage": {"prompt_tokens": 4}}));
    assert!(good.results == Some(1) && good.last && good.error.is_none());
    assert_eq!((good.prompt_tokens, good.output_tokens), (Some(4), Some(0)));
    let scores = Api::Rerank.read(&json!({"results": [{"index": 0, "relevance_score": 0.1}]}));
    assert_eq!(scores.results, Some(1));
    let vectors = |data: Value| (Api::OpenaiEmbeddings, json!({"data": data}));
    let scores = |results: Value| (Api::Rerank, json!({"results": results}));
    for (api, answer) in [
        vectors(json!([])),
        vectors(json!([{"embedding": []}])),
        vectors(json!([{"embedding": [null]}])),
        vectors(json!([{"embedding": ["a"]}])),
        vectors(json!([{"embedding": 5}])),
        vectors(json!([{"embedding": [1.0]}, {"embedding": [1.0, 2.0]}])),
        vectors(json!([{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [2.0]}])),
        vectors(json!([{"index": 7, "embedding": [1.0]}])),
        scores(json!([{"index": 0}])),
        scores(json!([{"index": 0, "relevance_score": "1"}])),
        scores(json!([{"index": 0, "score": 1}, {"index": 0, "score": 1}])),
        scores(json!([{"index": 0, "score": 1}, {"score": 1}])),
        scores(json!([{"score": 1}])),
        scores(json!([{"score": 1}, {"score": 2}])),
        // Not base64, half a number, not a number, and an infinity.
        vectors(json!([{"embedding": "a b"}])),
        vectors(json!([{"embedding": "AAAAPwAA"}])),
        vectors(json!([{"embedding": "AADAfw=="}])),
        vectors(json!([{"embedding": "AAAAPwAAgH8="}])),
        scores(json!([{"index": -1, "score": 1}])),
        scores(json!([{"index": "0", "score": 1}])),
        scores(json!({"index": 0, "score": 1})),
    ] {
        let read = api.read(&answer);
        assert!(read.results.is_none() && read.wrong.is_some(), "{answer}");
        assert!(!read.last && read.output_tokens.is_none(), "{answer}");
    }
    // Texts are embedded in their order, and an error is one.
    let (api, bare) = vectors(json!([{"embedding": [1.0]}, {"embedding": [2.0]}]));
    assert_eq!(
        (api.read(&bare).results, api.read(&bare).wrong),
        (Some(2), None)
    );
    let best = Api::Rerank
        .read(&json!({"results": [{"index": 7, "score": 1.5}, {"index": 2, "score": 1}]}));
    assert_eq!((best.results, best.largest_index), (Some(2), Some(7)));
    let read = Api::Rerank.read(&json!({"error": {"message": "busy"}}));
    assert_eq!((read.error.as_deref(), read.wrong), (Some("busy"), None));
}

#[test]
fn text_that_is_not_text_is_not_passed_over() {
    let chat = |choice: Value| json!({"choices": [choice]});
    use Api::{
        AnthropicMessages as Anthropic, LlamaCppCompletion as LlamaCpp, OllamaChat as Ollama,
        OpenaiChat as Chat, OpenaiCompletions as Completions, OpenaiResponses as Responses,
        SglangGenerate as Sglang, TgiGenerate as Tgi,
    };
    for (api, event) in [
        (Chat, chat(json!({"delta": {"content": 5}}))),
        (
            Chat,
            chat(json!({"delta": {"content": [{"type": "text", "text": 5}]}})),
        ),
        (Chat, chat(json!({"delta": {"content": ["a"]}}))),
        (Chat, chat(json!({"delta": {"thinking": {"text": "a"}}}))),
        (
            Chat,
            chat(json!({"delta": {"content": [{"thinking": [{"text": {}}]}]}})),
        ),
        (Chat, chat(json!({"delta": {"reasoning": true}}))),
        (Chat, chat(json!({"delta": "a"}))),
        (Chat, chat(json!({"message": ["a"]}))),
        (Chat, chat(json!("a"))),
        (Chat, json!({"choices": {"delta": {"content": "a"}}})),
        (Completions, chat(json!({"text": {"a": 1}}))),
        (Completions, json!({"choices": 5})),
        (LlamaCpp, json!({"content": 5})),
        (Tgi, json!({"token": {"text": 5}})),
        (Tgi, json!({"token": "a"})),
        (Sglang, json!({"text": 5, "meta_info": {}})),
        (Ollama, json!({"message": "a", "done": false})),
        (Ollama, json!({"message": {"content": 5}})),
        (Ollama, json!({"message": {"thinking": {}}})),
        (
            Anthropic,
            json!({"type": "content_block_delta", "delta": {"text": 5}}),
        ),
        (
            Anthropic,
            json!({"type": "content_block_start", "content_block": {"text": 5}}),
        ),
        (
            Responses,
            json!({"type": "response.output_text.delta", "delta": 5}),
        ),
    ] {
        let read = api.read(&event);
        assert!(
            read.wrong.is_some() && read.text.is_none(),
            "{api:?} {event}"
        );
        let direct = api.read_directly(event.to_string().as_bytes());
        assert!(direct.is_none_or(|direct| direct == read), "{event}");
    }
    for event in [
        chat(json!({"delta": {"content": null, "reasoning_content": null, "role": "assistant"}})),
        chat(json!({"delta": {}, "message": null, "finish_reason": "stop"})),
        json!({"choices": [], "usage": {"completion_tokens": 3}}),
        json!({"choices": null}),
    ] {
        assert_eq!(Chat.read(&event).wrong, None, "{event}");
    }
    // A reason that is none is not known.
    let end = |reason: Value| Ollama.read(&json!({"done": true, "done_reason": reason}));
    assert_eq!(end(json!(5)).finish_reason, None);
    assert_eq!(end(Value::Null).finish_reason.as_deref(), Some("stop"));
    assert!(end(json!(5)).last);
}

#[test]
fn what_belongs_to_another_choice_or_prompt_is_no_part_of_the_answer() {
    let other = json!({"index": 1, "text": "b", "finish_reason": "stop"});
    for (api, event) in [
        (Api::OpenaiCompletions, json!({"choices": [other]})),
        (
            Api::OpenaiChat,
            json!({"choices": [{"index": 2, "delta": {"content": "b", "reasoning": "c"}}]}),
        ),
        (
            Api::LlamaCppCompletion,
            json!({"index": 1, "content": "b", "stop": false}),
        ),
        (
            Api::SglangGenerate,
            json!({"index": 1, "text": "b", "meta_info": {}}),
        ),
    ] {
        let read = api.read(&event);
        assert!(
            read.wrong.unwrap().contains("one answer was requested"),
            "{event}"
        );
        assert_eq!((read.text, read.reasoning, read.last), (None, None, false));
        let first = event.to_string().replace("\"index\":1", "\"index\":0");
        let first = first.replace("\"index\":2", "\"index\":0");
        let read = api.read(&serde_json::from_str(&first).unwrap());
        assert!(read.wrong.is_none() && read.text.is_some(), "{first}");
    }
    let two = json!({"choices": [{"index": 0, "text": "a"}, {"index": 1, "text": "b"}]});
    let wrong = Api::OpenaiCompletions.read(&two).wrong.unwrap();
    assert_eq!(wrong, "the answer has 2 choices, and one was requested");
}

#[test]
fn a_request_for_several_answers_is_recognized_in_every_api() {
    let extra = |fields: Value| -> BTreeMap<String, Value> {
        serde_json::from_value(fields).expect("a mapping")
    };
    for (api, fields, path) in [
        (Api::OpenaiChat, json!({"n": 2}), Some("n")),
        (Api::OpenaiChat, json!({"n": "2"}), Some("n")),
        (Api::OpenaiChat, json!({"n": 1, "best_of": null}), None),
        (
            Api::OpenaiCompletions,
            json!({"n": 1, "best_of": 4}),
            Some("best_of"),
        ),
        (
            Api::OpenaiCompletions,
            json!({"prompt": ["a", "b"]}),
            Some("prompt"),
        ),
        (
            Api::OpenaiCompletions,
            json!({"prompt": [[1], [2]]}),
            Some("prompt"),
        ),
        (Api::OpenaiCompletions, json!({"prompt": [1, 2]}), None),
        (Api::OpenaiCompletions, json!({"prompt": ["a"]}), None),
        (
            Api::SglangGenerate,
            json!({"sampling_params": {"n": 3}}),
            Some("sampling_params.n"),
        ),
        (
            Api::TgiGenerate,
            json!({"parameters": {"best_of": 3}}),
            Some("parameters.best_of"),
        ),
        (Api::OllamaChat, json!({"n": 2}), None),
    ] {
        let extra = extra(fields);
        let asks = several_answers(api, &extra).map(|(path, _)| path);
        assert_eq!(asks, path, "{api:?} {extra:?}");
    }
}

#[test]
fn several_texts_are_sent_as_an_array_and_one_as_a_string() {
    let one = Asked::default();
    assert_eq!(
        one.body(Api::OpenaiEmbeddings, &[])["input"],
        json!("and you?")
    );
    let several = Asked {
        texts: vec!["and", "you?"],
        ..Asked::default()
    };
    assert_eq!(
        several.body(Api::OpenaiEmbeddings, &[])["input"],
        json!(["and", "you?"])
    );
}

#[test]
fn an_answer_owes_a_result_for_each_text_or_document_that_was_sent() {
    let extra = |fields: Value| -> BTreeMap<String, Value> {
        serde_json::from_value(fields).expect("a mapping")
    };
    for (api, fields, results) in [
        (Api::OpenaiEmbeddings, json!({}), Some(4)),
        (Api::OpenaiEmbeddings, json!({"input": "a"}), Some(1)),
        (Api::OpenaiEmbeddings, json!({"input": ["a", "b"]}), Some(2)),
        (Api::OpenaiEmbeddings, json!({"input": [5, 7, 9]}), Some(1)),
        (
            Api::OpenaiEmbeddings,
            json!({"input": [[5, 7], [9]]}),
            Some(2),
        ),
        (Api::OpenaiEmbeddings, json!({"input": {"a": 1}}), None),
        (Api::Rerank, json!({}), Some(2)),
        (Api::Rerank, json!({"top_n": 1}), Some(1)),
        (Api::Rerank, json!({"top_n": 9}), Some(2)),
        (Api::Rerank, json!({"top_n": null}), Some(2)),
        (Api::Rerank, json!({"top_n": "all"}), None),
        (Api::Rerank, json!({"documents": ["x", "y", "z"]}), Some(3)),
        (Api::OpenaiChat, json!({}), None),
    ] {
        let prompt = "the query\nfirst\n\nsecond\n";
        let owed = results_of(api, prompt, 4, &extra(fields.clone()));
        assert_eq!(owed, results, "{api:?} {fields}");
    }
}
