//! Environments and servers side by side.

use pipeline::stage::Json;
use serde_json::json;

use crate::fixture::{Lab, coordinates, store_json, trace};

/// A study of three servers: two that agree in everything, and one that differs.
fn lab(apart: &Json) -> Lab {
    let mut lab = Lab::new();
    let serve = &mut lab.inputs[1].cells;
    let agreed =
        json!({"settings": {"parallel": 8, "cache": true}, "engine": {"name": "llama-cpp"}});
    serve[0]
        .outputs
        .insert("server".to_owned(), store_json(&lab.store, &agreed));
    let mut twin = serve[0].clone();
    twin.coordinates =
        coordinates(&[("configuration", artifacts::Scalar::Text("twin".to_owned()))]);
    serve[1]
        .outputs
        .insert("server".to_owned(), store_json(&lab.store, apart));
    serve.push(twin);
    lab.study.spec["stages"] =
        json!({"server": {"settings": {"parallel": "${configuration.slots}"}}});
    lab
}

#[test]
fn facets_stand_side_by_side_a_column_for_cells_that_agree() {
    let lab = lab(&json!({"settings": {"parallel": 1, "cache": false}}));
    let text = lab.render_text("{{ facets(\"server\") }}").unwrap();
    let head = text
        .lines()
        .next()
        .unwrap()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert_eq!(
        head,
        "| facet | configuration=batched\\|twin | configuration=serial | state |"
    );
    let cache = text
        .lines()
        .find(|l| l.contains("server.settings.cache"))
        .unwrap();
    assert!(cache.find("true") < cache.find("false"), "{text}");
}

#[test]
fn a_facet_is_planned_a_confound_or_unmatched() {
    let lab = lab(&json!({"settings": {"parallel": 1, "cache": false, "threads": 4}}));
    let text = lab.render_text("{{ facets(\"server\") }}").unwrap();
    let line = |facet: &str| {
        text.lines()
            .find(|l| l.contains(facet))
            .unwrap_or_default()
            .to_owned()
    };
    assert!(
        line("settings.parallel").ends_with("| planned   |"),
        "{text}"
    );
    assert!(line("settings.cache").ends_with("| confound  |"), "{text}");
    let threads = line("settings.threads");
    assert!(
        threads.contains("absent") && threads.ends_with("| unmatched |"),
        "{text}"
    );
    // If there is only one environment, nothing can differ.
    let machine = lab.render_text("{{ facets(\"machine\") }}").unwrap();
    assert!(
        machine.contains("host.cpu.model") && !machine.contains("state"),
        "{machine}"
    );
    let differences = lab
        .render_text(
            "{% for d in rows(\"environment\") %}{{ d.show(\"key\") }} {{ d.show(\"kind\") }}; {% endfor %}",
        )
        .unwrap();
    assert_eq!(
        differences.trim(),
        "settings.cache confound; settings.parallel planned; settings.threads unmatched;"
    );
}

#[test]
fn what_a_server_makes_of_planned_settings_follows_from_them() {
    let arguments = |slots: i64, other: &str| json!({"settings": {"parallel": slots}, "command": {"arguments": ["-np", slots, other]}, "parts": [{"n": 1}]});
    let states = |other: &str| {
        let mut lab = lab(&arguments(1, other));
        for cell in [0, 2] {
            let server = store_json(&lab.store, &arguments(8, "-x"));
            lab.inputs[1].cells[cell]
                .outputs
                .insert("server".to_owned(), server);
        }
        let text = lab.render_text("{{ facets(\"server\") }}").unwrap();
        assert!(text.contains("server.parts.0.n"), "{text}");
        let line = text
            .lines()
            .find(|l| l.contains("command.arguments"))
            .unwrap()
            .to_owned();
        assert!(line.contains("-np 8 -x"), "{line}");
        line.trim_end_matches('|')
            .trim()
            .rsplit(' ')
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(states("-x"), "follows");
    let mut lab = lab(&arguments(8, "-y"));
    let server = store_json(&lab.store, &arguments(8, "-x"));
    lab.inputs[1].cells[0]
        .outputs
        .insert("server".to_owned(), server.clone());
    lab.inputs[1].cells[2]
        .outputs
        .insert("server".to_owned(), server);
    assert!(
        lab.render_text("{{ facets(\"server\") }}")
            .unwrap()
            .contains("| confound |")
    );
}

#[test]
fn a_fact_that_server_and_environment_share_is_stated_once() {
    let lab = lab(&json!({"settings": {"parallel": 1}, "engine": {"name": "llama-cpp"}}));
    let text = lab.render_text("{{ facets(\"server\") }}").unwrap();
    assert!(!text.contains("engine"), "{text}");
    assert!(
        lab.render_text("{{ facets(\"machine\") }}")
            .unwrap()
            .contains("environment.engine")
    );
}

#[test]
fn facets_are_traced_to_a_table_of_the_report() {
    let lab = lab(&json!({"settings": {"parallel": 1}}));
    let templates = crate::fixture::Templates::one("{{ facets(\"server\") }}");
    let done = lab
        .render(&json!({"template": "t.md"}), &templates)
        .map_err(|f| f.reason)
        .unwrap();
    assert!(done.outputs.iter().any(|o| o.name == "facets-server"));
    assert!(
        trace(&done)
            .text("output")
            .unwrap()
            .contains(&Some("facets-server"))
    );
}

#[test]
fn facets_of_a_stage_that_is_not_needed_are_an_error() {
    let error = Lab::new()
        .render_text("{{ facets(\"elsewhere\") }}")
        .unwrap_err();
    assert!(
        error.contains("does not need a stage `elsewhere`"),
        "{error}"
    );
}

#[test]
fn a_reader_sees_which_settings_are_not_the_defaults_and_how_servers_were_launched() {
    let server = |slots: i64| {
        json!({
            "engine": {"name": "llama-cpp"}, "settings": {"parallel": slots, "cache": true},
            "command": {"program": ["server"], "arguments": ["-np", slots]},
        })
    };
    let mut lab = lab(&server(1));
    for cell in [0, 2] {
        let own = store_json(&lab.store, &server(8));
        lab.inputs[1].cells[cell]
            .outputs
            .insert("server".to_owned(), own);
    }
    let settings = json!({"parallel": {"default": 1}, "cache": {"default": true}});
    let engine = json!({"engine": {"name": "llama-cpp", "version": "1.2", "definition": {"settings": settings}}});
    let engine = store_json(&lab.store, &engine);
    lab.inputs[0].cells[0]
        .outputs
        .insert("environment".to_owned(), engine);
    let text = lab.render_text("{{ setup(\"server\") }}").unwrap();
    let line = text
        .lines()
        .find(|l| l.contains("Non-default settings"))
        .unwrap_or_default();
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    assert_eq!(
        cells,
        ["Non-default settings", "parallel: 8", "none", "planned"],
        "{text}"
    );
    let commands = "{% for c in rows(\"commands\") %}{{ c.show(\"server\") }}: {{ c.show(\"command\") }}\n{% endfor %}";
    let text = lab.render_text(commands).unwrap();
    assert!(
        text.contains("configuration=serial: server -np 1"),
        "{text}"
    );
    let machine = lab.render_text("{{ setup(\"machine\") }}").unwrap();
    assert!(machine.contains("| Engine version | 1.2"), "{machine}");
}

#[test]
fn the_version_that_a_server_reports_completes_an_engine_that_does_not_state_one() {
    let line = |versions: [&str; 3], facets: [&str; 3]| {
        let mut lab = lab(&json!({}));
        let engine = json!({"name": "llama-server", "version": "unknown"});
        let mut described = engine.clone();
        described["definition"] = json!({"settings": {}});
        let environment = json!({"engine": described, "facets": {"cpu": "a"}});
        let environment = store_json(&lab.store, &environment);
        lab.inputs[0].cells[0]
            .outputs
            .insert("environment".to_owned(), environment);
        for (cell, (version, cpu)) in versions.iter().zip(facets).enumerate() {
            let server = json!({"engine": engine, "version": version, "facets": {"cpu": cpu}});
            let server = store_json(&lab.store, &server);
            lab.inputs[1].cells[cell]
                .outputs
                .insert("server".to_owned(), server);
        }
        let machine = lab.render_text("{{ setup(\"machine\") }}").unwrap();
        let line = machine.lines().find(|l| l.contains("Engine version"));
        let cells = line.unwrap_or_default().split('|').nth(2);
        cells.unwrap_or_default().trim().to_owned()
    };
    let here = ["a"; 3];
    assert_eq!(line(["unknown"; 3], here), "unknown");
    assert_eq!(line(["b1", "b1", "unknown"], here), "b1");
    assert_eq!(line(["b2", "b1", "b2"], here), "b1, b2");
    // A server of another environment says nothing about this one.
    assert_eq!(line(["b2", "b1", "b2"], ["a", "b", "a"]), "b2");
}

#[test]
fn what_an_engine_from_an_axis_brings_with_it_is_no_confound() {
    let server = |version: &str, host: &str| {
        json!({
            "version": version, "endpoints": {"metrics": version}, "settings": {"x": version},
            "weather": host,
        })
    };
    let states = |engine: &str| {
        let mut lab = lab(&server("1", "a"));
        for cell in [0, 2] {
            let one = store_json(&lab.store, &server("2", "b"));
            lab.inputs[1].cells[cell]
                .outputs
                .insert("server".to_owned(), one);
        }
        lab.study.spec["stages"] = json!({
            "machine": {"settings": {"engine": engine}}, "server": {"needs": ["machine"]},
        });
        let text = lab.render_text("{{ facets(\"server\") }}").unwrap();
        let state = |facet: &str| {
            let line = text.lines().find(|l| l.contains(facet)).unwrap_or_default();
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            cells[cells.len() - 2].to_owned()
        };
        [
            "server.version",
            "endpoints.metrics",
            "settings.x",
            "weather",
        ]
        .map(state)
    };
    assert_eq!(
        states("${configuration.engine}"),
        ["follows", "follows", "follows", "confound"]
    );
    assert_eq!(states("llama-cpp"), ["confound"; 4]);
}

#[test]
fn a_role_that_only_some_sides_have_follows_from_the_plan_and_is_compared_where_it_exists() {
    let role = |weather: &str| json!({"count": 1, "server": {"api": "chat", "weather": weather}});
    let alone = json!({"roles": {"router": role("a")}, "command": {"arguments": []}});
    let states = |weather: [&str; 2]| {
        let mut lab = lab(&alone);
        for (cell, weather) in [0, 2].into_iter().zip(weather) {
            let roles = json!({
                "roles": {"router": role("a"), "replica": role(weather)},
                "command": {"arguments": ["--worker", "{url of replica-0}"]},
            });
            let server = store_json(&lab.store, &roles);
            lab.inputs[1].cells[cell]
                .outputs
                .insert("server".to_owned(), server);
        }
        let rows = "{% for d in rows(\"environment\") %}{{ d.show(\"key\") }} {{ d.show(\"kind\") }}; {% endfor %}";
        lab.render_text(rows).unwrap().trim().to_owned()
    };
    let planned =
        "command.arguments follows; roles.replica.count planned; roles.replica.server.api follows;";
    assert_eq!(
        states(["a", "a"]),
        format!("{planned} roles.replica.server.weather follows;")
    );
    assert_eq!(
        states(["a", "b"]),
        format!("{planned} roles.replica.server.weather confound;")
    );
}
