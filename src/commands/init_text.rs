//! The file that `init` writes.

use std::fmt::Write as _;

use serde_json::Value;

use super::init::{Levels, Model, Server, Wish, has_burst, model_title};

/// The columns that a study averages and compares.
const COLUMNS: &str = "[output_throughput, ttft_ms_p50, tpot_ms_p50]";

/// Returns the text of the study's file.
pub(super) fn text(wish: &Wish) -> String {
    let mut text = format!(
        "# {}: what runs, over which axes. Every key: docs/yaml-keys.md of Benchtrail, or `benchtrail schema`\nexperiment: {}\nseed: 7\n",
        wish.name, wish.name
    );
    let mut add = |line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    let block = match &wish.server {
        Server::Started { engines, .. } => match engines.as_slice() {
            [_] => "each block launches the server again and measures everything once",
            _ => "each block launches every engine once, in random order",
        },
        Server::Running { .. } => "each block measures everything once; the server keeps running",
    };
    add(&format!(
        "design: {{blocks: {}}}    # {block}",
        wish.repetitions
    ));
    definitions(&wish.server, &mut add);
    let over = axes(wish, &mut add);
    add("stages:");
    servers(wish, &over, &mut add);
    add("  ladder:");
    add("    kind: load");
    add("    needs: [server]");
    add(&format!("    over: [{}]", over.join(", ")));
    add(&match wish.workloads.as_slice() {
        [one] => format!("    workload: {one}"),
        _ => "    workload: ${workload}".to_owned(),
    });
    add(&match &wish.levels {
        Levels::Clients(_) => "    arrival: {closed-loop: {clients: \"${clients}\"}}".to_owned(),
        Levels::Rates(rates) if has_burst(rates) => "    arrival: ${rate.arrival}".to_owned(),
        Levels::Rates(_) => "    arrival: {poisson: {rate: \"${rate}\"}}".to_owned(),
        Levels::As(arrival) => format!("    arrival: {arrival}"),
    });
    add(&format!("    {}", wish.extent));
    add("  checks: {kind: verify, needs: [server, ladder]}    # the usual gates");
    evaluation(wish, &over, &mut add);
    text
}

/// Writes the stages that start the servers.
fn servers(wish: &Wish, over: &[&str], add: &mut dyn FnMut(&str)) {
    match &wish.server {
        Server::Started { engines, model } => {
            let model = match model {
                Model::Defined(name) => name.as_str(),
                Model::Named(_) => "served",
            };
            match engines.as_slice() {
                [engine] => {
                    add(&format!(
                        "  machine: {{kind: provision, engine: {engine}, model: {model}}}"
                    ));
                    add(
                        "  server: {kind: serve, needs: [machine]}    # `settings: {…}` configures the engine",
                    );
                }
                _ => {
                    add(&format!(
                        "  machine: {{kind: provision, over: [engine], engine: \"${{engine}}\", model: {model}}}"
                    ));
                    add(
                        "  server: {kind: serve, needs: [machine], over: [engine], settings: \"${engine.settings}\"}",
                    );
                }
            }
        }
        Server::Running { .. } => {
            add("  machine: {kind: provision, engine: there, model: served}");
            let server = "  server: {kind: serve, needs: [machine]}    # it is already running";
            match over.is_empty() {
                true => add(server),
                // Cells that differ only in the load have the same prompts.
                false => add(&format!(
                    "{server}; switch its prompt cache off, because the levels send the same prompts"
                )),
            }
        }
    }
}

/// Writes the stages after the load: tables, a comparison of two engines, and the report.
fn evaluation(wish: &Wish, over: &[&str], add: &mut dyn FnMut(&str)) {
    let pair = match &wish.server {
        Server::Started { engines, .. } => match engines.as_slice() {
            [a, b] => Some((a, b)),
            _ => None,
        },
        Server::Running { .. } => None,
    };
    let checks = if pair.is_some() {
        "checks, pairs"
    } else {
        "checks"
    };
    if pair.is_some() {
        add("  pairs:    # whether both engines did the same work under the same conditions");
        add("    kind: verify");
        add("    needs: [machine, server, ladder]");
        add("    gates:");
        add("      - {gate: same-prompts, across: engine, severity: warn}");
        add("      - {gate: comparability, across: engine, severity: warn}");
        add("      - {gate: balanced-conditions, across: engine, severity: warn}");
    }
    add("  results:");
    add("    kind: analyze");
    add(&format!("    needs: [ladder, {checks}]"));
    add("    tables:");
    add("      cells: {operator: cell-summary}");
    add(&format!(
        "      means: {{operator: aggregate, from: cells, over: [block], columns: {COLUMNS}}}"
    ));
    if let Some((a, b)) = pair {
        let by: Vec<&str> = over
            .iter()
            .copied()
            .filter(|axis| *axis != "engine")
            .collect();
        add("      comparison:");
        add("        operator: paired-comparison");
        add("        from: cells");
        add(&format!("        by: [{}]", by.join(", ")));
        add(&format!("        pair: {{axis: engine, a: {a}, b: {b}}}"));
        add(&format!("        columns: {COLUMNS}"));
    }
    add(&format!(
        "  report: {{kind: report, needs: [machine, server, ladder, {checks}, results]}}"
    ));
}

/// Writes the definitions for the server.
fn definitions(server: &Server, add: &mut dyn FnMut(&str)) {
    let mut served = |id: &str| {
        add("models:");
        add(&format!(
            "  served: {{title: {}, weights: {{named: {{id: {}}}}}}}",
            quoted(model_title(id)),
            quoted(id)
        ));
    };
    match server {
        Server::Started {
            model: Model::Named(id),
            ..
        } => served(id),
        Server::Started {
            model: Model::Defined(_),
            ..
        } => {}
        Server::Running {
            urls,
            api,
            key,
            model,
        } => {
            served(model);
            let key = key
                .as_ref()
                .map_or_else(String::new, |key| format!(", api-key-env: {key}"));
            add("engines:");
            add(&format!(
                "  there: {{extends: openai, api: {api}, launch: {{program: {{running: {}}}{key}}}}}",
                match urls.as_slice() {
                    [url] => quoted(url),
                    urls => {
                        let all: Vec<String> = urls.iter().map(|url| quoted(url)).collect();
                        format!("[{}]", all.join(", "))
                    }
                }
            ));
        }
    }
}

/// Writes the axes, and returns their names.
fn axes(wish: &Wish, add: &mut dyn FnMut(&str)) -> Vec<&'static str> {
    let mut over = Vec::new();
    let list = |items: Vec<String>| items.join(", ");
    let mut lines = Vec::new();
    if let Server::Started { engines, .. } = &wish.server
        && engines.len() > 1
    {
        over.push("engine");
        lines.push(
            "  engine:    # `benchtrail list engines NAME` shows the settings of an engine"
                .to_owned(),
        );
        lines.extend(
            engines
                .iter()
                .map(|engine| format!("    - {engine}: {{settings: {{}}}}")),
        );
    }
    if wish.workloads.len() > 1 {
        over.push("workload");
        lines.push(format!("  workload: [{}]", wish.workloads.join(", ")));
    }
    match &wish.levels {
        Levels::Clients(levels) => {
            over.push("clients");
            let levels = list(levels.iter().map(u32::to_string).collect());
            lines.push(format!(
                "  clients: [{levels}]    # a client sends its next request when the previous one is answered"
            ));
        }
        Levels::Rates(levels) if has_burst(levels) => {
            over.push("rate");
            lines.push(
                "  rate:    # requests per second, whether or not the server keeps up; `inf` sends all at once".to_owned(),
            );
            lines.extend(levels.iter().map(|rate| match rate.is_finite() {
                true => format!("    \"{rate}\": {{arrival: {{poisson: {{rate: {rate}}}}}}}"),
                false => "    inf: {arrival: burst}".to_owned(),
            }));
        }
        Levels::Rates(levels) => {
            over.push("rate");
            let levels = list(levels.iter().map(f64::to_string).collect());
            lines.push(format!(
                "  rate: [{levels}]    # requests per second, whether or not the server keeps up"
            ));
        }
        Levels::As(_) => {}
    }
    if !lines.is_empty() {
        add("axes:");
        lines.iter().for_each(|line| add(line));
    }
    over
}

/// Quotes a text for YAML within braces. It stays as it is: what a server tells is never a placeholder. Characters that
/// nobody sees in an editor, or that turn the text round, are written as their escapes.
pub(super) fn quoted(text: &str) -> String {
    // JSON text is valid YAML text.
    let json = Value::from(text.replace("${", "$${")).to_string();
    let mut quoted = String::new();
    for c in json.chars() {
        match pipeline::place::is_hidden(c) {
            true => {
                let _never_fails = write!(quoted, "\\U{:08x}", u32::from(c));
            }
            false => quoted.push(c),
        }
    }
    quoted
}
