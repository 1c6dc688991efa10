use contract::Word as _;

use super::*;

/// What a test asks of every API; it changes what it is about.
struct Asked {
    system: Option<&'static str>,
    schema: Option<Value>,
    sampling: Sampling,
    output_mode: OutputMode,
    extra: BTreeMap<String, Value>,
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            system: None,
            schema: None,
            sampling: Sampling::default(),
            output_mode: OutputMode::Cap,
            extra: BTreeMap::new(),
        }
    }
}

impl Asked {
    fn body(&self, api: Api, history: &[Exchange]) -> Value {
        api.body(&Generation {
            model: "m",
            prompt: "and you?",
            output_tokens: 9,
            output_mode: self.output_mode,
            system: self.system,
            history,
            schema: self.schema.as_ref(),
            sampling: &self.sampling,
            delivery: Delivery::Streamed,
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
fn each_api_is_told_the_schema_in_its_own_words() {
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
    for api in Api::ALL.iter().copied() {
        let plain = Asked::default().body(api, &[]).to_string();
        assert!(
            !plain.contains("schema") && !plain.contains("grammar") && !plain.contains("format"),
            "{plain}"
        );
    }
}

#[test]
fn each_api_is_told_length_sampling_and_exactness_in_its_own_words() {
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
fn reasoning_is_told_apart_from_the_answer() {
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
        let told = Api::OpenaiChat.read(&event);
        assert_eq!(told.reasoning.as_deref(), reasoning, "{event}");
        assert_eq!(told.text, text.map(|t| Text::New(t.to_owned())), "{event}");
    }
    let told =
        Api::OllamaChat.read(&json!({"message": {"thinking": "hm", "content": ""}, "done": false}));
    assert_eq!((told.reasoning.as_deref(), told.text), (Some("hm"), None));
}
