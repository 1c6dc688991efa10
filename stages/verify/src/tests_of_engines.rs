//! Gates over two engines: it is not a fault if only one of them has something.

use std::collections::BTreeMap;

use artifacts::{Column, Scalar, Store, Table};
use contract::{CacheReset, Cell, Row as _, synthetic};
use pipeline::{Control, Done, Input, InputCell, Json, Needed};
use serde_json::json;

use crate::gates::variants_planned;
use crate::kind::run;
use crate::tests::{broken, canonical, store, table, verify};

/// Returns a cell of an engine with its own counter and its own tables.
fn cell(
    store: &Store,
    engine: &str,
    counter: Option<&str>,
    facts: Cell,
    more: &[&str],
) -> InputCell {
    let requests: Vec<_> = (0..4)
        .map(|id| {
            let mut request = synthetic::request(id);
            request.sent_ns = Some(id * 1_000_000);
            request.cached_prompt_tokens = None;
            request
        })
        .collect();
    let total: i64 = requests.iter().filter_map(|r| r.output_tokens).sum();
    let facts = Cell {
        expected_requests: Some(4),
        ..facts
    };
    let mut tables = vec![
        ("requests", synthetic::requests_table(&requests).unwrap()),
        ("cell", Cell::table(&[facts]).unwrap()),
    ];
    if let Some(counter) = counter {
        let metrics = Table::new(vec![
            Column::int("at_ns", [Some(0), Some(900_000_000)]),
            Column::text("name", [Some(counter), Some(counter)]),
            Column::text("labels", [Some(""), Some("")]),
            Column::float("value", [Some(0.0), Some(total as f64)]),
        ]);
        tables.push(("server_metrics", metrics.unwrap()));
    }
    for name in more {
        tables.push((
            name,
            Table::new(vec![Column::int("at_ns", [Some(0)])]).unwrap(),
        ));
    }
    synthetic::cell(
        store,
        &[("engine", Scalar::Text(engine.into()))],
        Json::Null,
        &tables,
    )
    .unwrap()
}

fn servers(store: &Store, counters: &[(&str, Option<&str>)]) -> Input {
    let cells = counters.iter().map(|(engine, counter)| {
        let at = [("engine", Scalar::Text((*engine).into()))];
        let mut cell = synthetic::cell(store, &at, Json::Null, &[]).unwrap();
        let mut descriptor = json!({"engine": {"name": engine, "version": "1"}});
        if let Some(counter) = counter {
            descriptor["counters"] = json!({"generated-tokens": counter});
        }
        let bytes = serde_json::to_vec(&descriptor).unwrap();
        let artifact = pipeline::Artifact {
            digest: store.put(&bytes).unwrap(),
            media: pipeline::Media::Json,
            bytes: bytes.len() as u64,
            rows: None,
        };
        cell.outputs.insert("server".to_owned(), artifact);
        cell
    });
    synthetic::input("server", "serve", cells.collect())
}

fn outcomes(done: &Done, gate: &str) -> Vec<(String, String)> {
    let gates = table(done, "gates");
    let (names, outcomes) = (gates.text("gate").unwrap(), gates.text("outcome").unwrap());
    let observed = gates.text("observed").unwrap();
    (0..gates.rows())
        .filter(|i| names[*i] == Some(gate))
        .map(|i| {
            (
                outcomes[i].unwrap().to_owned(),
                observed[i].unwrap().to_owned(),
            )
        })
        .collect()
}

#[test]
fn an_engine_with_documents_of_its_own_beside_one_without_passes_the_census() {
    let (_folder, store) = store();
    let load = vec![
        cell(
            &store,
            "sglang",
            None,
            Cell::default(),
            &["server_info", "cache_info"],
        ),
        cell(&store, "vllm", None, Cell::default(), &[]),
    ];
    let inputs = [
        servers(&store, &[("sglang", None), ("vllm", None)]),
        synthetic::loaded(load),
    ];
    let done = verify(&store, &inputs, &json!({"gates": [{"gate": "census"}]}));
    assert_eq!(broken(&done), []);
}

#[test]
fn a_census_that_fails_with_the_counts_expected_says_why_where_it_is_read() {
    let (_folder, store) = store();
    let mut load = vec![
        cell(&store, "a", None, Cell::default(), &["prompts"]),
        cell(&store, "b", None, Cell::default(), &[]),
    ];
    load[1].outputs.remove("prompts");
    let inputs = [synthetic::loaded(load)];
    let done = verify(&store, &inputs, &json!({"gates": [{"gate": "census"}]}));
    let [(outcome, observed)] = &outcomes(&done, "census")[..] else {
        panic!("one judgement")
    };
    assert_eq!(outcome, "fail");
    assert!(
        observed.contains("engine=b (file `prompts` missing)"),
        "{observed}"
    );
}

#[test]
fn each_engines_own_counter_is_compared_with_its_rows() {
    let (_folder, store) = store();
    let (vllm, sglang) = (
        "vllm:generation_tokens_total",
        "sglang:generation_tokens_total",
    );
    let load = |of_sglang: Option<&str>| {
        vec![
            cell(&store, "sglang", of_sglang, Cell::default(), &[]),
            cell(&store, "vllm", Some(vllm), Cell::default(), &[]),
        ]
    };
    let judged = |load: Vec<InputCell>| {
        let inputs = [
            servers(&store, &[("sglang", Some(sglang)), ("vllm", Some(vllm))]),
            synthetic::loaded(load),
        ];
        let done = verify(
            &store,
            &inputs,
            &json!({"gates": [{"gate": "token-accounting"}]}),
        );
        outcomes(&done, "token-accounting")
    };
    let both = judged(load(Some(sglang)));
    assert!(
        both.iter().all(|(outcome, _)| outcome == "pass"),
        "{both:?}"
    );
    let one = judged(load(None));
    assert_eq!(one[0].0, "not judged");
    assert!(
        one[0]
            .1
            .contains("the counter sglang:generation_tokens_total was not scraped")
    );
    assert_eq!(one[1].0, "pass");
}

#[test]
fn a_counter_that_was_asked_for_and_not_scraped_is_not_judged() {
    let (_folder, store) = store();
    let load = vec![cell(&store, "a", None, Cell::default(), &[])];
    let inputs = [synthetic::loaded(load)];
    let settings = json!({"gates": [{"gate": "token-accounting", "counter": "x_total"}]});
    let done = verify(&store, &inputs, &settings);
    assert_eq!(outcomes(&done, "token-accounting")[0].0, "not judged");
}

#[test]
fn a_load_is_judged_by_the_server_that_it_needs_and_not_by_one_of_another_load() {
    let (_folder, store) = store();
    let load = |stage: &str, server: &str, cells| Input {
        needs: vec![server.to_owned()],
        ..synthetic::input(stage, "load", cells)
    };
    let cells = || vec![cell(&store, "a", None, Cell::default(), &[])];
    // Servers without axes share the coordinates of every load.
    let alone = |stage: &str| {
        let mut serve = servers(&store, &[("a", None)]);
        stage.clone_into(&mut serve.stage);
        serve.cells[0].coordinates = pipeline::Coordinates::default();
        serve
    };
    let inputs = [
        alone("first-server"),
        alone("second-server"),
        load("first", "first-server", cells()),
        load("second", "second-server", cells()),
        load("none", "elsewhere", cells()),
    ];
    let settings = json!({"gates": [{"gate": "engine-identity"}]});
    let done = verify(&store, &inputs, &settings);
    let said = format!("{:?}", outcomes(&done, "engine-identity"));
    assert!(said.contains("the same over 1 of 1 cells"), "{said}");
    assert!(said.contains("no server is known"), "{said}");
}

#[test]
fn a_cache_that_was_proven_empty_is_cold_and_one_that_could_not_be_emptied_is_not() {
    let (_folder, store) = store();
    let judged = |reset: Option<CacheReset>| {
        let facts = Cell {
            cache_reset: reset,
            ..Cell::default()
        };
        let inputs = [synthetic::loaded(vec![cell(&store, "a", None, facts, &[])])];
        let done = verify(&store, &inputs, &json!({"gates": [{"gate": "cold-cache"}]}));
        outcomes(&done, "cold-cache")[0].0.clone()
    };
    assert_eq!(judged(Some(CacheReset::Proven)), "pass");
    assert_eq!(judged(Some(CacheReset::Failed)), "fail");
    assert_eq!(judged(Some(CacheReset::Unproven)), "not judged");
    assert_eq!(judged(None), "not judged");
}

#[test]
fn the_usual_gates_warn_of_prompts_from_a_warm_cache_but_not_of_what_prompts_share() {
    const TEMPLATE: i64 = 60;
    // `cached` says how many tokens of a prompt with so many words come from a cache.
    let judged = |prefix: &str, stored: bool, cached: &dyn Fn(usize, i64) -> i64| {
        let (_folder, store) = store();
        let texts: Vec<String> = (0..8)
            .map(|i| format!("{prefix}{i} {}", vec!["word"; 20 + 3 * i].join(" ")))
            .collect();
        let mut requests: Vec<_> = (0..8).map(synthetic::request).collect();
        for (i, request) in requests.iter_mut().enumerate() {
            let words = texts[i].split_whitespace().count() as i64;
            request.sent_ns = Some(i as i64);
            request.prompt_tokens = Some(TEMPLATE + words + words / 10);
            request.cached_prompt_tokens = Some(cached(i, words));
        }
        let digests = requests.iter().map(|r| r.prompt_digest.clone());
        let prompts = Table::new(vec![
            Column::text("prompt_digest", digests),
            Column::text("text", texts.into_iter().map(Some)),
        ]);
        let mut tables = vec![
            ("requests", synthetic::requests_table(&requests).unwrap()),
            ("cell", Cell::table(&[Cell::default()]).unwrap()),
        ];
        if stored {
            tables.push(("prompts", prompts.unwrap()));
        }
        let cell = synthetic::cell(&store, &[], Json::Null, &tables).unwrap();
        let done = verify(&store, &[synthetic::loaded(vec![cell])], &json!({}));
        outcomes(&done, "cold-cache").remove(0).0
    };
    let all = |_: usize, words: i64| TEMPLATE + words + words / 10 - 1;
    assert_eq!(judged("", true, &|_, _| 0), "pass");
    assert_eq!(
        judged("", true, &|_, _| TEMPLATE - 5),
        "pass",
        "the opening of a template"
    );
    assert_eq!(judged("", true, &all), "fail");
    assert_eq!(judged("", false, &all), "not judged");
    let prefix = "prefix ".repeat(200);
    let shared = |i: usize, _: i64| if i == 0 { 0 } else { TEMPLATE + 220 };
    assert_eq!(
        judged(&prefix, true, &shared),
        "pass",
        "prompts that share a beginning"
    );
    assert_eq!(
        judged(&prefix, true, &all),
        "fail",
        "what they do not share is cached, too"
    );
    // One prompt of eight says little.
    let one = |i: usize, words: i64| if i == 0 { all(i, words) } else { TEMPLATE - 5 };
    assert_eq!(judged("", true, &one), "pass");
}

/// Returns the status of a facet for the one pair of two servers.
fn facet(descriptors: [&Json; 2], name: &str) -> (String, String) {
    let (_folder, store) = store();
    let names = ["a", "b"];
    let load = names.map(|engine| cell(&store, engine, None, Cell::default(), &[]));
    let mut serve = servers(&store, &names.map(|name| (name, None)));
    for (cell, descriptor) in serve.cells.iter_mut().zip(descriptors) {
        let bytes = serde_json::to_vec(descriptor).unwrap();
        let server = cell.outputs.get_mut("server").unwrap();
        server.digest = store.put(&bytes).unwrap();
        server.bytes = bytes.len() as u64;
    }
    let inputs = [serve, synthetic::loaded(load.to_vec())];
    let settings = json!({"gates": [{"gate": "comparability", "across": "engine"}]});
    let done = verify(&store, &inputs, &settings);
    let table = table(&done, "comparability");
    let row = |i: &usize| table.text("facet").unwrap()[*i] == Some(name);
    let row = (0..table.rows()).find(row).unwrap();
    let text = |column: &str| table.text(column).unwrap()[row].unwrap().to_owned();
    (text("status"), text("verdict"))
}

#[test]
fn servers_that_somebody_else_started_have_neither_a_host_nor_settings_in_common() {
    let running = json!({
        "engine": {"name": "x", "version": "1", "source": "running already"},
        "model": {"sha256": "00"}, "settings": {},
        "facets": {"client_cpu_model": "c", "host": "not known"},
    });
    let both = [&running, &running];
    for name in ["host", "settings"] {
        assert_eq!(
            facet(both, name),
            ("unknown".to_owned(), "unknown".to_owned())
        );
    }
    assert_eq!(facet(both, "client").0, "equal");
    let mut elsewhere = running.clone();
    elsewhere["facets"]["client_cpu_model"] = json!("d");
    assert_eq!(facet([&running, &elsewhere], "client").0, "differs");
}

#[test]
fn two_engines_on_one_host_differ_in_their_programs_and_images_and_not_in_their_host() {
    let with = |name: &str, more: Json| {
        let mut facets = json!({"cpu_model": "c", "gpus": ["8 x H100"], "engine": name});
        for (facet, value) in more.as_object().unwrap() {
            facets[facet] = value.clone();
        }
        json!({
            "engine": {"name": name, "version": "1", "source": "installed by the user"},
            "model": {"sha256": "00"}, "settings": {}, "facets": facets,
        })
    };
    let program = |packages: Json| json!({"digest": "b3:00", "distributions": packages});
    let of_program = |name: &str, packages: Json| {
        let inherited = json!({"CUDA_HOME": "/usr/local/cuda"});
        with(
            name,
            json!({"program": program(packages), "inherited": inherited}),
        )
    };
    let image = |name: &str| {
        let labels = json!({"version": name});
        with(
            name,
            json!({"image": name, "image_digest": name, "image_labels": labels}),
        )
    };
    for (a, b) in [
        (
            of_program("x", json!(["x-1", "torch-2.9"])),
            of_program("y", json!(["y-1", "torch-2.8"])),
        ),
        (image("x"), image("y")),
        // Each definition names the flags that its engine uses.
        (
            with("x", json!({"cpu_flags": ["avx2", "avx512f"]})),
            with("y", json!({"cpu_flags": ["avx2"]})),
        ),
    ] {
        assert_eq!(facet([&a, &b], "host").0, "equal");
        assert_eq!(facet([&a, &b], "engine").0, "differs");
        let mut elsewhere = b.clone();
        elsewhere["facets"]["gpus"] = json!(["8 x H200"]);
        assert_eq!(facet([&a, &elsewhere], "host").0, "differs");
    }
    let updated = of_program("x", json!(["x-1", "torch-2.10"]));
    let before = of_program("x", json!(["x-1", "torch-2.9"]));
    assert_eq!(facet([&before, &updated], "engine").0, "differs");
}

#[test]
fn as_many_versions_of_an_engine_as_a_study_plans_pass_and_one_more_does_not() {
    let pinned = |name: &str, version: &str| json!({"engines": [{"name": name, "definition": {"version": version}}], "model": version});
    let planned = |all: &[&Json]| {
        let needed = |parameters| Needed {
            stage: "machine",
            kind: "provision",
            parameters,
            needs: Vec::new(),
        };
        variants_planned(&all.iter().copied().map(needed).collect::<Vec<_>>())
    };
    let (old, new) = (pinned("x", "1"), pinned("x", "2"));
    let several = planned(&[&old, &new, &pinned("y", "1")]);
    assert_eq!(several, BTreeMap::from([("x".to_owned(), 2)]));
    // Another model of the same version is not another version.
    let mut other_model = old.clone();
    other_model["model"] = json!("m");
    assert!(planned(&[&old, &other_model]).is_empty());

    let outcome = |versions: &[&str], variants: &BTreeMap<String, usize>| {
        let (_folder, store) = store();
        let names: Vec<String> = (0..versions.len()).map(|i| i.to_string()).collect();
        let load = names
            .iter()
            .map(|at| cell(&store, at, None, Cell::default(), &[]));
        let load = load.collect();
        let cells: Vec<_> = names.iter().map(|at| (at.as_str(), None)).collect();
        let mut serve = servers(&store, &cells);
        for (cell, version) in serve.cells.iter_mut().zip(versions) {
            let descriptor = json!({"engine": {"name": "x"}, "version": version});
            let server = cell.outputs.get_mut("server").unwrap();
            let bytes = serde_json::to_vec(&descriptor).unwrap();
            server.digest = store.put(&bytes).unwrap();
            server.bytes = bytes.len() as u64;
        }
        let inputs = [serve, synthetic::loaded(load)];
        let mut parameters = canonical(&json!({"gates": [{"gate": "engine-identity"}]}));
        parameters["gates"][0]["parameters"]["variants"] = json!(variants);
        let done = run(&parameters, &inputs, &store, &Control::quiet(), u64::MAX).unwrap();
        outcomes(&done, "engine-identity").pop().unwrap().0
    };
    let one = BTreeMap::new();
    assert_eq!(outcome(&["1", "1"], &one), "pass");
    assert_eq!(outcome(&["1", "2"], &one), "fail");
    assert_eq!(outcome(&["1", "2", "2"], &several), "pass");
    assert_eq!(outcome(&["1", "2", "3"], &several), "fail");
}

#[test]
fn a_few_answers_of_an_engine_without_batches_may_begin_early_and_no_answer_comes_early_as_a_whole()
{
    let (_folder, store) = store();
    // Sixteen requests in flight take turns, so a token takes 580 ms. An answer that gets the first turn begins after a
    // pass of 20 ms.
    let judged = |early: usize, ttft_us: i64, pace_ms: i64| {
        let requests: Vec<_> = (0..16)
            .map(|id| {
                let mut request = synthetic::request(id);
                let (ttft, pace) = match (id as usize) < early {
                    true => (ttft_us, pace_ms),
                    false => (600_000, 580),
                };
                request.sent_ns = Some(id * 10_000);
                request.first_token_ns = Some(id * 10_000 + ttft * 1_000);
                request.last_token_ns = Some(id * 10_000 + ttft * 1_000 + 31 * pace * 1_000_000);
                request.done_ns = request.last_token_ns;
                request.output_tokens = Some(32);
                request
            })
            .collect();
        let facts = Cell {
            expected_requests: Some(16),
            ..Cell::default()
        };
        let tables = [
            ("requests", synthetic::requests_table(&requests).unwrap()),
            ("cell", Cell::table(&[facts]).unwrap()),
        ];
        let axes = [("engine", Scalar::Text("a".into()))];
        let cell = synthetic::cell(&store, &axes, Json::Null, &tables).unwrap();
        let inputs = [synthetic::loaded(vec![cell])];
        let gates = json!({"gates": [{"gate": "plausible-ttft"}]});
        let done = verify(&store, &inputs, &gates);
        outcomes(&done, "plausible-ttft")[0].0.clone()
    };
    assert_eq!(judged(3, 20_000, 400), "pass");
    assert_eq!(judged(9, 20_000, 400), "fail", "most stamps are misplaced");
    assert_eq!(
        judged(1, 20_000, 20),
        "fail",
        "an answer comes from a cache"
    );
    assert_eq!(
        judged(1, 10, 400),
        "fail",
        "no request goes out and comes back so soon"
    );
}

#[test]
fn what_is_declared_of_running_servers_is_compared_as_declared_and_what_is_not_stays_unknown() {
    let with = |host: Json, settings: Json| {
        json!({
            "engine": {"name": "x", "version": "1", "source": "running already"},
            "model": {"sha256": "00"}, "settings": {}, "declared_settings": settings,
            "facets": {"client_cpu_model": "c", "host": "not known", "declared": host},
        })
    };
    let first = with(json!({"gpus": "8 x H100"}), json!({"tensor-parallel": 8}));
    for name in ["host", "settings"] {
        assert_eq!(facet([&first, &first], name).0, "equal", "{name}");
    }
    let other = with(json!({"gpus": "8 x H200"}), json!({"tensor-parallel": 4}));
    for name in ["host", "settings"] {
        assert_eq!(facet([&first, &other], name).0, "differs", "{name}");
    }
    let more = with(json!({"gpus": "8 x H100", "memory_gib": 2048}), json!({}));
    for name in ["host", "settings"] {
        assert_eq!(facet([&first, &more], name).0, "unknown", "{name}");
    }
    // A machine that Benchtrail inspected has more facets than anyone declares.
    let ours = json!({
        "engine": {"name": "x", "version": "1", "source": "installed by the user"},
        "model": {"sha256": "00"}, "settings": {"tensor-parallel": 8},
        "facets": {"gpus": "8 x H100", "cpu_model": "c"},
    });
    assert_eq!(facet([&first, &ours], "host").0, "unknown");
}

#[test]
fn a_revision_pins_a_model_only_if_the_engine_received_it() {
    let with = |arguments: Json| {
        json!({
            "engine": {"name": "x", "version": "1", "source": "installed by the user"},
            "model": {"weights": {"id": "org/model", "revision": "0123abc"}}, "settings": {},
            "facets": {"cpu_model": "c"}, "command": {"arguments": arguments},
        })
    };
    let typed = with(json!(["--model", "{model}"]));
    assert_eq!(facet([&typed, &typed], "model").0, "unknown");
    let facets = with(json!(["--model", "{model}", "--revision", "0123abc"]));
    assert_eq!(facet([&facets, &facets], "model").0, "equal");
}

#[test]
fn cells_of_one_server_with_the_same_prompts_are_comparable_only_with_cold_caches() {
    let judged = |first: Option<CacheReset>, second: Option<CacheReset>, cached: Option<i64>| {
        let (_folder, store) = store();
        let at = |name: &str| [("clients", Scalar::Text(name.into()))];
        let cell = |name: &str, reset: Option<CacheReset>, cached: Option<i64>| {
            let mut requests: Vec<_> = (0..4).map(synthetic::request).collect();
            for request in &mut requests {
                request.cached_prompt_tokens = cached;
                request.prompt_tokens = Some(100);
            }
            let facts = Cell {
                cache_reset: reset,
                ..Cell::default()
            };
            let tables = [
                ("requests", synthetic::requests_table(&requests).unwrap()),
                ("cell", Cell::table(&[facts]).unwrap()),
            ];
            synthetic::cell(&store, &at(name), Json::Null, &tables).unwrap()
        };
        let mut serve = servers(&store, &[("x", None)]);
        serve.cells[0].coordinates = pipeline::Coordinates::default();
        let load = vec![cell("1", first, Some(0)), cell("2", second, cached)];
        let inputs = [serve, synthetic::loaded(load)];
        let settings = json!({"gates": [{"gate": "comparability", "across": "clients"}]});
        let done = verify(&store, &inputs, &settings);
        let table = table(&done, "comparability");
        let row = (0..table.rows()).find(|i| table.text("facet").unwrap()[*i] == Some("cache"));
        table.text("status").unwrap()[row.unwrap()]
            .unwrap()
            .to_owned()
    };
    assert_eq!(judged(None, None, Some(92)), "differs");
    assert_eq!(judged(None, None, Some(0)), "equal");
    assert_eq!(judged(None, None, None), "unknown");
    let proven = Some(CacheReset::Proven);
    // A prompt that the cell itself sent twice may come from the cache.
    assert_eq!(judged(proven, proven, Some(92)), "equal");
    assert_eq!(judged(proven, Some(CacheReset::Failed), None), "differs");
}

#[test]
fn a_cache_that_a_setting_switches_off_is_known_to_be_cold_only_by_the_engines_definition() {
    let judged = |server: Json, caches: Option<Json>, gate: &str| {
        let (_folder, store) = store();
        let cell = |name: &str| {
            let requests: Vec<_> = (0..4).map(synthetic::request).collect();
            let tables = [
                ("requests", synthetic::requests_table(&requests).unwrap()),
                ("cell", Cell::table(&[Cell::default()]).unwrap()),
            ];
            let at = [("clients", Scalar::Text(name.into()))];
            synthetic::cell(&store, &at, Json::Null, &tables).unwrap()
        };
        let load = synthetic::loaded(vec![cell("1"), cell("2")]);
        let mut serve = servers(&store, &[("x", None)]);
        serve.cells[0].coordinates = pipeline::Coordinates::default();
        let bytes = serde_json::to_vec(&server).unwrap();
        serve.cells[0].outputs.get_mut("server").unwrap().digest = store.put(&bytes).unwrap();
        let gate = match gate {
            "comparability" => json!({"gate": gate, "across": "clients"}),
            _ => json!({ "gate": gate }),
        };
        let mut parameters = canonical(&json!({ "gates": [gate] }));
        if let Some(caches) = caches {
            parameters["prompt-caches"] = caches;
        }
        let quiet = Control::quiet();
        let done = run(&parameters, &[serve, load], &store, &quiet, 1 << 30).unwrap();
        if gate["gate"] == "cold-cache" {
            return outcomes(&done, "cold-cache").remove(0).0;
        }
        let table = table(&done, "comparability");
        let row = (0..table.rows()).find(|i| table.text("facet").unwrap()[*i] == Some("cache"));
        table.text("status").unwrap()[row.unwrap()]
            .unwrap()
            .to_owned()
    };
    let server = |settings: Json| json!({"engine": {"name": "x"}, "settings": settings});
    let caches = || Some(json!({"x": {"setting": "prefixes", "off": false}}));
    let both = |server: &Json, caches: Option<Json>| {
        let result_of = |gate| judged(server.clone(), caches.clone(), gate);
        (result_of("comparability"), result_of("cold-cache"))
    };
    let equal = ("equal".to_owned(), "pass".to_owned());
    let unknown = ("unknown".to_owned(), "not judged".to_owned());
    let off = server(json!({"prefixes": false}));
    assert_eq!(both(&off, caches()), equal);
    assert_eq!(both(&off, None), unknown);
    let of_other = Some(json!({"y": {"setting": "prefixes", "off": false}}));
    assert_eq!(both(&off, of_other), unknown);
    assert_eq!(both(&server(json!({"prefixes": true})), caches()), unknown);
    assert_eq!(both(&server(json!({"prefixes": null})), caches()), unknown);
    let by_default =
        || Some(json!({"x": {"setting": "prefixes", "off": false, "off-by-default": true}}));
    assert_eq!(
        both(&server(json!({"prefixes": null})), by_default()),
        equal
    );
    let never = Some(json!({"x": {"off-by-default": true}}));
    assert_eq!(both(&server(json!({})), never), equal);
    // For a server that already runs, only declarations count.
    let running = |declared: Json| {
        json!({"engine": {"name": "x", "source": "running already"}, "settings": {"prefixes": false},
               "declared_settings": declared})
    };
    assert_eq!(both(&running(json!({})), by_default()), unknown);
    assert_eq!(both(&running(json!({"prefixes": false})), caches()), equal);
    // For a group, every role needs evidence.
    let mut group = off.clone();
    group["roles"] = json!({"router": {"server": {"engine": {"name": "r"}, "settings": {}}}});
    assert_eq!(both(&group, caches()), unknown);
}

#[test]
fn roles_that_only_one_side_has_are_settings_and_their_hosts_and_models_are_compared_with_all_servers()
 {
    let server = |engine: &str, host: &str, weights: &str| {
        json!({
            "engine": {"name": engine, "version": "1", "source": "packaged"}, "model": {"sha256": weights},
            "settings": {}, "facets": {"cpu_model": host},
        })
    };
    let group = |roles: &[(&str, Json)]| {
        let mut group = server("router", "c", "00");
        let of_role = |(name, server): &(&str, Json)| {
            (
                (*name).to_owned(),
                json!({"count": 1, "gpus": [], "server": server}),
            )
        };
        let front = ("router", server("router", "c", "00"));
        group["roles"] = roles.iter().chain([&front]).map(of_role).collect();
        group
    };
    let replicated = group(&[("replica", server("x", "c", "00"))]);
    // Nothing is known of the caches of these cells.
    let differs = ("differs".to_owned(), "unknown".to_owned());
    let equal = ("equal".to_owned(), "unknown".to_owned());
    let other = ("differs".to_owned(), "not-comparable".to_owned());
    let split = |host: &str, weights: &str| {
        let decode = server("x", host, weights);
        group(&[("prefill", server("x", "c", "00")), ("decode", decode)])
    };
    let both = [&replicated, &split("c", "00")];
    assert_eq!(facet(both, "settings"), differs);
    for name in ["host", "model", "engine"] {
        assert_eq!(facet(both, name), equal, "{name}");
    }
    // A single server, too, has a host and a model.
    let single = server("router", "c", "00");
    for name in ["host", "model"] {
        assert_eq!(facet([&single, &replicated], name), equal, "{name}");
    }
    // One role with another host or other weights is enough.
    assert_eq!(facet([&replicated, &split("d", "00")], "host"), other);
    assert_eq!(facet([&split("d", "00"), &replicated], "host"), other);
    assert_eq!(facet([&replicated, &split("c", "11")], "model"), other);
}
