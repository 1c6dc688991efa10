use super::*;
use pipeline::Step;
use pipeline::sources::NamedFile;
use std::cell::RefCell;
use std::path::Path;

/// Records the requested files.
#[derive(Default)]
struct Reading(RefCell<Vec<NamedFile>>);

impl Library for Reading {
    fn find(&self, collection: &str, name: &str) -> Option<Json> {
        Shelf.find(collection, name)
    }

    fn names(&self, collection: &str) -> Vec<String> {
        Shelf.names(collection)
    }

    fn reads(&self, source: &NamedFile) {
        self.0.borrow_mut().push(source.clone());
    }

    fn files(&self) -> NamedFiles {
        NamedFiles::new(self.0.borrow().clone(), Path::new(""), None)
    }
}

struct Shelf;

impl Library for Shelf {
    fn find(&self, collection: &str, name: &str) -> Option<Json> {
        let short = json!({"description": "d", "prompts": {"words": {"length": 5}}, "output": {"tokens": 4}});
        let pair = json!({"slots": 2, "prefill": {}, "decode": {"fixed": "10 ms"}});
        match (collection, name) {
            ("workloads", "short") => Some(short),
            ("simulated-servers", "pair") => Some(pair),
            _ => None,
        }
    }

    fn names(&self, _: &str) -> Vec<String> {
        vec!["short".to_owned()]
    }
}

fn settings(change: &Json) -> Json {
    let mut settings =
        json!({"workload": "short", "arrival": {"closed-loop": {"clients": 4}}, "requests": 8});
    for (key, value) in change.as_object().unwrap() {
        if value.is_null() {
            settings.as_object_mut().unwrap().remove(key);
        } else {
            settings[key] = value.clone();
        }
    }
    settings
}

#[test]
fn a_workload_by_name_and_written_out_have_the_same_parameters() {
    let inline = Shelf.find("workloads", "short").unwrap();
    let by_name = Load.canonical(&settings(&json!({})), &Shelf).unwrap();
    assert_eq!(
        by_name,
        Load.canonical(&settings(&json!({"workload": inline})), &Shelf)
            .unwrap()
    );
    assert!(by_name["workload"].get("description").is_none());
}

#[test]
fn canonical_parameters_are_their_own_canonical_form() {
    let once = Load
        .canonical(&settings(&json!({"heartbeat": "120 s"})), &Shelf)
        .unwrap();
    assert_eq!(once["heartbeat"], "2 min");
    assert_eq!(Load.canonical(&once, &Shelf).unwrap(), once);
}

#[test]
fn a_pack_that_is_too_small_or_cannot_be_read_is_reported_while_planning() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pack.jsonl");
    let message = |text: &str, requests: u64| {
        std::fs::write(&file, text).unwrap();
        let workload = json!({"prompts": {"pack": {"file": file}}, "output": {"tokens": 4}});
        let change = json!({
            "workload": workload, "requests": requests, "warmup": 1, "arrival": "sequential",
        });
        let problems = Load
            .canonical(&settings(&change), &Reading::default())
            .err()
            .unwrap_or_default();
        problems
            .into_iter()
            .map(|p| p.message)
            .collect::<Vec<_>>()
            .join("; ")
    };
    let two = "{\"prompt\": \"a\"}\n{\"prompt\": \"b\"}\n";
    assert_eq!(message(two, 1), "");
    assert!(
        message(two, 2).contains("holds 2 prompts, but the cell needs 3"),
        "{}",
        message(two, 2)
    );
    assert!(message("{\"prompt\": \"a\"}\nnot json\n", 1).contains("line 2: column 2 is not JSON"));
    let repeated = message("{\"prompt\": \"a\", \"prompt\": \"b\"}\n", 1);
    assert!(
        repeated.contains("line 1: column 24: an object has the key \"prompt\" twice"),
        "{repeated}"
    );
    assert!(message("\n", 1).contains("holds no prompts"));
}

#[test]
fn clients_that_never_send_are_reported_while_planning() {
    let messages = |change: &Json| {
        let problems = Load.canonical(&settings(change), &Shelf).err();
        let problems = problems.unwrap_or_default().into_iter();
        problems.map(|p| p.message).collect::<Vec<_>>().join("; ")
    };
    let with = |key: &str, count: u64| {
        let mut change = json!({"arrival": {"closed-loop": {"clients": 8}}, "requests": null});
        change[key] = json!(count);
        change
    };
    assert_eq!(
        messages(&with("requests", 7)),
        "7 requests are fewer than the 8 clients, so 8 clients never send at once"
    );
    assert_eq!(messages(&with("requests", 8)), "");
    assert_eq!(messages(&with("requests-per-client", 1)), "");
    let open = json!({"arrival": {"poisson": {"rate": 100}}, "requests": 2});
    assert_eq!(messages(&open), "");
}

#[test]
fn a_share_of_requests_to_abandon_may_be_none_or_all() {
    let given = |share: f64| {
        let change = json!({"cancel": {"after": "2 s", "share": share}});
        Load.canonical(&settings(&change), &Shelf)
    };
    assert_eq!(given(0.0).unwrap()["cancel"]["share"], 0.0);
    assert!(given(1.0).unwrap()["cancel"].get("share").is_none());
    for share in [-0.1, 1.1] {
        assert_eq!(
            given(share).unwrap_err()[0].message,
            "`share` must be between 0 and 1"
        );
    }
}

#[test]
fn settings_that_several_generators_cannot_share_are_reported_while_planning() {
    let plain = Load.canonical(&settings(&json!({})), &Shelf).unwrap();
    let one = Load.canonical(&settings(&json!({"generators": 1})), &Shelf);
    assert_eq!(one.unwrap(), plain);
    assert!(plain.get("generators").is_none());
    let four = Load
        .canonical(&settings(&json!({"generators": 4})), &Shelf)
        .unwrap();
    assert_eq!(four["generators"], 4);
    assert_eq!(Load.canonical(&four, &Shelf).unwrap(), four);
    let messages = |change: &Json| {
        let problems = Load.canonical(&settings(change), &Shelf).err();
        let problems = problems.unwrap_or_default().into_iter();
        problems.map(|p| p.message).collect::<Vec<_>>().join("; ")
    };
    let open = |key: &str, value: Json| {
        let mut change = json!({"arrival": {"poisson": {"rate": 5}}, "generators": 2});
        change[key] = value;
        change
    };
    assert_eq!(messages(&open("duration", json!("2 s"))), "");
    assert_eq!(messages(&open("cancel", json!({"after": "1 s"}))), "");
    assert!(messages(&open("max-in-flight", json!(4))).contains("cannot keep one limit"));
    assert_eq!(
        messages(&open("requests", json!(1))),
        "2 generators need at least 2 requests, and this load has 1"
    );
    assert_eq!(
        messages(&json!({"generators": 5})),
        "5 generators need at least 5 clients, and this load has 4"
    );
    assert!(messages(&json!({"generators": 0})).contains("between 1 and 64"));
    assert!(messages(&json!({"generators": {"hosts": ["left"]}})).contains("`left`"));
    assert!(messages(&json!({"generators": {"hosts": []}})).contains("no host is named"));
    let search = json!({"up-to": 8, "bounds": {"ttft-ms": 50}});
    assert!(messages(&json!({"generators": 2, "search": search})).contains("one generator"));
    let simulated = messages(&json!({"generators": 2, "simulate": {"server": "pair"}}));
    assert_eq!(simulated, "simulated servers do not support this setting");
}

#[test]
fn a_simulated_load_may_end_with_open_arrivals_but_not_a_closed_loop() {
    let messages = |mut change: Json| {
        change["simulate"] = json!({"server": "pair"});
        let problems = Load.canonical(&settings(&change), &Shelf).err();
        problems
            .into_iter()
            .flatten()
            .map(|p| p.message)
            .collect::<Vec<_>>()
    };
    let levels = json!([{"rate": 5, "seconds": 2}, {"rate": 5, "to": 0, "seconds": 2}]);
    let fading = json!({"arrival": {"steps": {"levels": levels}}});
    assert_eq!(messages(fading), [""; 0]);
    let closed = "simulated servers do not support this setting for a closed loop";
    assert_eq!(messages(json!({"duration": "2 s"})), [closed]);
}

#[test]
fn a_key_that_is_not_set_is_missed_unless_the_server_is_simulated() {
    let mut parameters = json!({"api-key-env": "BENCHTRAIL_NO_SUCH_KEY"});
    let problem = Load.ready(&parameters, &NamedFiles::default()).unwrap_err();
    assert_eq!(problem.route, [Step::Key("api-key-env".to_owned())]);
    assert!(problem.message.contains("`BENCHTRAIL_NO_SUCH_KEY`") && problem.hint.is_some());
    parameters["simulate"] = json!({});
    assert_eq!(Load.ready(&parameters, &NamedFiles::default()), Ok(()));
}

#[test]
fn requests_per_client_are_requests() {
    let change = json!({"requests": null, "requests-per-client": 2});
    let each = Load.canonical(&settings(&change), &Shelf).unwrap();
    assert_eq!(each, Load.canonical(&settings(&json!({})), &Shelf).unwrap());
}

#[test]
fn the_demand_is_the_count_of_requests_and_the_time_of_declared_arrivals() {
    let demand = |change: Json| {
        let parameters = Load.canonical(&settings(&change), &Shelf).unwrap();
        Load.demand(&parameters).map(|d| (d.requests, d.seconds))
    };
    let poisson = json!({"poisson": {"rate": 4.0}});
    let closed = json!({"closed-loop": {"clients": 3}});
    let up_and_down = json!({"steps": {"levels": [
        {"rate": 0.0, "to": 16.0, "seconds": 4.0},
        {"rate": 16.0, "seconds": 6.0},
        {"rate": 16.0, "to": 0.0, "seconds": 4.0},
    ]}});
    for (change, expected) in [
        (
            json!({"requests": 12, "arrival": poisson}),
            (Some(12), Some(3.0)),
        ),
        (
            json!({"requests": 12, "arrival": poisson, "duration": "2 s"}),
            (Some(8), Some(2.0)),
        ),
        (
            json!({"requests": null, "arrival": up_and_down}),
            (Some(160), Some(14.0)),
        ),
        (
            json!({"requests": null, "arrival": up_and_down, "duration": "12 s"}),
            (Some(152), Some(12.0)),
        ),
        (
            json!({"requests": 32, "arrival": up_and_down}),
            (Some(32), Some(4.0)),
        ),
        (json!({"requests": 12, "arrival": closed}), (Some(12), None)),
        (
            json!({"requests": 12, "arrival": closed, "duration": "2 s"}),
            (Some(12), None),
        ),
        (
            json!({"requests": null, "arrival": closed, "duration": "2 s"}),
            (None, Some(2.0)),
        ),
    ] {
        assert_eq!(demand(change.clone()), Some(expected), "{change}");
    }
    // A model of a server is asked nothing.
    assert_eq!(Load.demand(&json!({"simulate": {}})), None);
}

#[test]
fn the_requests_of_a_cell_are_planned_for_a_model_too_and_not_for_a_search() {
    let planned = |change: Json| {
        let parameters = Load.canonical(&settings(&change), &Shelf).unwrap();
        Load.requests_planned(&parameters)
    };
    assert_eq!(planned(json!({"requests": 12})), Some(12));
    assert_eq!(planned(json!({"simulate": {"server": "pair"}})), Some(8));
    assert_eq!(planned(json!({"requests": null, "duration": "2 s"})), None);
    let mut searching = Load.canonical(&settings(&json!({})), &Shelf).unwrap();
    searching["search"] = json!({"bounds": {}});
    assert_eq!(Load.requests_planned(&searching), None);
}

#[test]
fn a_trace_without_a_file_says_so() {
    let change = json!({"arrival": {"trace": {}}, "requests": null});
    let problems = Load.canonical(&settings(&change), &Shelf).unwrap_err();
    assert_eq!(problems[0].message, "the trace names no file");
}

#[test]
fn every_mistake_is_found_at_once_with_its_place() {
    let change =
        json!({"workload": "shrt", "arrival": {"poisson": {"rate": 0.0}}, "requests": null});
    let problems = Load.canonical(&settings(&change), &Shelf).unwrap_err();
    let messages: Vec<String> = problems.iter().map(|p| p.message.clone()).collect();
    assert_eq!(
        messages,
        [
            "rate must be above 0, got 0",
            "the number of requests to measure is missing",
            "no workload is named `shrt`",
        ]
    );
}

#[test]
fn headers_are_parameters_and_a_secret_among_them_is_refused() {
    let parameters =
        |headers: &Json| Load.canonical(&settings(&json!({ "headers": headers })), &Shelf);
    assert_eq!(
        parameters(&json!({"X-Route": "blue"})).unwrap()["headers"],
        json!({"X-Route": "blue"})
    );
    assert!(parameters(&json!({})).unwrap().get("headers").is_none());
    let problems = parameters(&json!({"Authorization": "Bearer 1", "Host": "other"})).unwrap_err();
    assert_eq!(problems.len(), 2);
    assert!(
        problems[0]
            .hint
            .as_deref()
            .unwrap()
            .contains("environment variable"),
        "{problems:?}"
    );
}

#[test]
fn a_simulated_server_by_name_and_written_out_have_the_same_parameters() {
    let server =
        json!({"description": "d", "slots": 2, "prefill": {}, "decode": {"fixed": "10 ms"}});
    let named = settings(&json!({"simulate": {"server": "pair"}}));
    let written = settings(&json!({"simulate": {"server": server}}));
    let by_name = Load.canonical(&named, &Shelf).unwrap();
    assert_eq!(by_name, Load.canonical(&written, &Shelf).unwrap());
    assert!(by_name["simulate"]["server"].get("description").is_none());
    assert_eq!(Load.canonical(&by_name, &Shelf).unwrap(), by_name);
}

#[test]
fn mistakes_in_a_simulated_server_have_their_places() {
    let unknown = settings(&json!({"simulate": {"server": "piar"}}));
    let problems = Load.canonical(&unknown, &Shelf).unwrap_err();
    assert_eq!(problems[0].message, "no simulated server is named `piar`");
    let wrong =
        json!({"slots": 2, "prefill": {}, "decode": {"fixed": "0 s"}, "tokens-per-word": -1.0});
    let written = settings(&json!({"simulate": {"server": wrong, "slowdown": 0.0}}));
    let problems = Load.canonical(&written, &Shelf).unwrap_err();
    let messages: Vec<_> = problems
        .iter()
        .map(|p| (p.route.len(), p.message.as_str()))
        .collect();
    let expected = [
        (2, "slowdown must be above 0, got 0"),
        (3, "tokens-per-word must be above 0, got -1"),
        (4, "a decode step must take time"),
    ];
    assert_eq!(messages, expected);
}

fn refused(settings: &Json) -> String {
    let problems = Load.canonical(settings, &Shelf).unwrap_err();
    let text = |p: &Problem| format!("{} ({})", p.message, p.hint.clone().unwrap_or_default());
    problems.iter().map(text).collect::<Vec<_>>().join("; ")
}

#[test]
fn images_of_a_simulated_load_need_a_price_in_tokens() {
    let stage = |server: Json| {
        json!({
            "api": "openai-chat", "arrival": "sequential", "requests": 2, "simulate": {"server": server},
            "workload": {"prompts": {"words": {"length": 5}}, "output": {"tokens": 4},
                         "images": {"count": 1, "width": 8, "height": 8}},
        })
    };
    let mut server = json!({"slots": 1, "prefill": {}, "decode": {"fixed": "1 ms"}});
    let text = refused(&stage(server.clone()));
    assert!(
        text.contains("what an image costs") && text.contains("tokens-per-image"),
        "{text}"
    );
    server["tokens-per-image"] = json!(576);
    assert!(Load.canonical(&stage(server), &Shelf).is_ok());
    let vectors = json!({
        "api": "openai-embeddings", "arrival": "sequential", "requests": 2, "simulate": {"server": "batching"},
        "workload": {"prompts": {"words": {"length": 5}}},
    });
    let refused = Load.canonical(&vectors, &Shelf).err();
    let said = |p: &Problem| p.message.contains("generates");
    assert!(!refused.unwrap_or_default().iter().any(said));
}

#[test]
fn what_does_not_apply_to_an_api_is_refused_while_planning() {
    let words = json!({"words": {"length": 5}});
    let stage = |api: &str, workload: Json| json!({"api": api, "workload": workload, "arrival": "sequential", "requests": 2});
    let image = json!({"count": 1, "width": 8, "height": 8});
    for (settings, part) in [
        (
            stage(
                "openai-embeddings",
                json!({"prompts": words, "output": {"tokens": 4}}),
            ),
            "`output` of the workload does not apply",
        ),
        (
            stage("openai-chat", json!({"prompts": words})),
            "asks for no output tokens",
        ),
        (
            stage("rerank", json!({"prompts": words})),
            "nothing to rank",
        ),
        (
            stage(
                "openai-chat",
                json!({"prompts": words, "output": {"tokens": 4}, "documents": {"count": 2, "length": 4}}),
            ),
            "only `api: rerank`",
        ),
        (
            stage(
                "openai-chat",
                json!({"prompts": words, "output": {"tokens": 4}, "batch-size": 8}),
            ),
            "`batch-size: 8` of the workload sends several texts in one request, and openai-chat takes one prompt",
        ),
        (
            stage(
                "rerank",
                json!({"prompts": words, "documents": {"count": 2, "length": 4}, "batch-size": 8}),
            ),
            "the number of documents is `documents:",
        ),
        (
            stage(
                "openai-chat",
                json!({"prompts": words, "output": {"tokens": 4}, "extra": {"n": 2}}),
            ),
            "asks for several answers to one request (`n: 2`)",
        ),
        (
            stage(
                "openai-embeddings",
                json!({"prompts": words, "batch-size": 0}),
            ),
            "batch-size",
        ),
        (
            stage(
                "openai-embeddings",
                json!({"prompts": {"mixture": [{"name": "a", "weight": 1,
                    "prompts": {"trace": {"file": "t.csv"}}}]}, "batch-size": 2}),
            ),
            "a row of a trace is one request",
        ),
        (
            stage(
                "openai-completions",
                json!({"prompts": words, "output": {"tokens": 4}, "images": image}),
            ),
            "takes no images",
        ),
        (
            stage(
                "anthropic-messages",
                json!({"prompts": words, "output": {"tokens": 4, "mode": "exact"}}),
            ),
            "`mode: exact` demands",
        ),
        (
            stage(
                "anthropic-messages",
                json!({"prompts": words, "output": {"tokens": 4}, "structured": {"schema": {"type": "object"}}}),
            ),
            "no way to demand a JSON Schema",
        ),
    ] {
        let text = refused(&settings);
        assert!(text.contains(part), "{settings}: {text}");
    }
    let mut streamed = stage("openai-embeddings", json!({"prompts": words}));
    assert_eq!(
        Load.canonical(&streamed, &Shelf).unwrap()["delivery"],
        "whole"
    );
    streamed["delivery"] = json!("streamed");
    assert!(refused(&streamed).contains("not in a stream"));
}

#[test]
fn a_cell_whose_requests_were_all_abandoned_has_the_remedy() {
    let hint = |statuses: &[RequestStatus]| {
        let tally = Tally {
            statuses: statuses.iter().map(|status| (*status, 3)).collect(),
            ..Tally::default()
        };
        nothing_answered(&tally).unwrap().hint.unwrap_or_default()
    };
    let (cancelled, timeout) = (RequestStatus::Cancelled, RequestStatus::Timeout);
    assert!(hint(&[cancelled]).contains("raise `cancel.after`"));
    assert!(hint(&[cancelled, timeout]).contains("the server's log"));
}

#[test]
fn the_versions_of_searches_and_of_the_model_of_a_server_re_key_their_cells_alone() {
    let version = |simulate: Json| Load.semantic_version_of(&json!({"simulate": simulate}));
    assert_eq!(version(Json::Null), Load.semantic_version());
    assert_eq!(
        Load.semantic_version_of(&json!({})),
        Load.semantic_version()
    );
    assert_ne!(version(json!({"server": "plain"})), Load.semantic_version());
    let searching = |simulate: Json| {
        Load.semantic_version_of(&json!({"search": {"up-to": 8}, "simulate": simulate}))
    };
    assert_ne!(searching(Json::Null), Load.semantic_version());
    assert_ne!(
        searching(json!({"server": "plain"})),
        version(json!({"server": "plain"}))
    );
}
