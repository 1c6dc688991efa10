//! A load that generators send from hosts that OpenSSH reaches. Real OpenSSH servers on the loopback address act as the
//! hosts. If the server is not installed, the tests say so and end.

use std::fs;

use load::reference::{Behaviour, ReferenceServer};
use serde_json::Value;

use crate::ssh::{Sshd, await_silence};
use crate::support::Project;

const STUDY: &str = "study.yaml";
const NAMES: [&str; 2] = ["ada", "bob"];

/// Makes a project whose load is sent from two hosts; `None` if the OpenSSH server is not installed.
fn lab(url: &str, requests: u32) -> Option<(Project, Vec<Sshd>)> {
    let hosts: Vec<Sshd> = NAMES.iter().map(|_| Sshd::start()).collect::<Option<_>>()?;
    let project = Project::new();
    let named = NAMES.iter().zip(&hosts).map(|(name, host)| {
        let there = host.there().display().to_string();
        format!("  {name}: {{ssh: box-{name}, folder: {there}}}\n")
    });
    let named: String = named.collect();
    let text = format!(
        "experiment: study\nseed: 1\nhosts:\n{named}engines:\n  elsewhere:\n    title: Elsewhere\n    version: \"1\"\n    \
         endpoints: {{health: null}}\n    launch: {{program: {{running: {url}}}}}\nmodels:\n  reference:\n    \
         title: Reference\n    weights: {{named: {{id: reference}}}}\nstages:\n  machine: {{kind: provision, \
         engine: elsewhere, model: reference}}\n  server: {{kind: serve, needs: [machine]}}\n  steps: {{kind: \
         load, needs: [server], workload: short-decode, arrival: {{constant: {{rate: 100}}}}, \
         requests: {requests}, warmup: 2, generators: {{hosts: [bob, ada], config: ssh_config}}}}\n"
    );
    fs::write(project.path().join(STUDY), text).expect("a file");
    let configs = NAMES.iter().zip(&hosts).map(|(name, host)| {
        let config = fs::read_to_string(host.file("ssh_config")).expect("a file");
        config.replace("Host box", &format!("Host box-{name}"))
    });
    let config: String = configs.collect();
    fs::write(project.path().join("ssh_config"), config).expect("a file");
    Some((project, hosts))
}

#[test]
fn a_load_from_two_hosts_is_one_artifact_that_names_them_and_bounds_their_clocks() {
    let server = ReferenceServer::start(Behaviour::default()).expect("a free port");
    let Some((project, hosts)) = lab(&server.url(), 40) else {
        return;
    };
    let commands = project.run(["plan", STUDY, "--commands"]).ok().stdout;
    assert!(commands.contains("ssh box-ada benchtrail"), "{commands}");
    let refused = project
        .command(["run", STUDY, "--no-dry-run"])
        .env_remove("BENCHTRAIL_TRUST")
        .output()
        .expect("the binary starts");
    assert!(!refused.status.success(), "nobody consented");
    assert!(server.truth(0).is_empty());
    project.run(["run", STUDY, "--trust"]).ok();
    let ask = |query: &str| -> Vec<Value> {
        let answer = project.run(["sql", STUDY, query, "--json"]).ok().json();
        let rows = answer.get("rows").unwrap_or(&answer);
        rows.as_array().expect("rows").clone()
    };
    let generators = ask("select host, requests from \"steps.generators\" order by generator");
    assert_eq!(generators.len(), 2, "{generators:?}");
    for (row, host) in generators.iter().zip(["bob", "ada"]) {
        let said = row.to_string();
        assert!(said.contains(host) && said.contains("20"), "{said}");
    }
    let within = ask(
        "select count(*) as n from \"steps.generators\" g, \"steps.cell\" c where g.clock_bound > 0 and \
         g.clock_bound <= c.stamp_error_bound",
    );
    assert!(within[0].to_string().contains('2'), "{within:?}");
    let in_order = ask(
        "select count(*) as n from \"steps.requests\" r join \"steps.request_generators\" g using (request_id) \
         where r.phase = 'measured' and g.generator = (r.request_id - 2) % 2 and r.status = 'ok'",
    );
    assert!(in_order[0].to_string().contains("40"), "{in_order:?}");
    hosts.iter().for_each(|host| await_silence(&host.there()));
}

#[test]
fn a_study_of_several_generators_is_traced_published_and_reproduced_like_any_other() {
    let server = ReferenceServer::start(Behaviour::default()).expect("a free port");
    let project = Project::new();
    let prompts = (0..40).map(|i| {
        format!(
            "{{\"prompt\": \"Question {i}: why does the number {i} matter here, and to whom?\"}}\n"
        )
    });
    fs::write(
        project.path().join("data.jsonl"),
        prompts.collect::<String>(),
    )
    .expect("a file");
    let url = server.url();
    let text = format!(
        "experiment: study\nseed: 1\nengines:\n  elsewhere:\n    title: Elsewhere\n    version: \"1\"\n    \
         endpoints: {{health: null}}\n    launch: {{program: {{running: {url}}}}}\nmodels:\n  reference:\n    \
         title: Reference\n    weights: {{named: {{id: reference}}}}\nworkloads:\n  data: {{prompts: {{dataset: \
         {{file: data.jsonl}}}}, output: {{tokens: 8}}}}\naxes:\n  what: [data, shared-prefix, short-sessions]\n\
         stages:\n  machine: {{kind: provision, engine: elsewhere, model: reference}}\n  server: {{kind: serve, \
         needs: [machine]}}\n  steps: {{kind: load, needs: [server], over: [what], workload: \"${{what}}\", arrival: \
         {{constant: {{rate: 60}}}}, requests: 12, warmup: 2, cancel: {{after: 1 ms, share: 0.3}}, generators: 2}}\n  checks: \
         {{kind: verify, needs: [server, steps], gates: [{{gate: census}}]}}\n  \
         results: {{kind: analyze, needs: [steps, checks], tables: {{cells: {{operator: cell-summary}}}}}}\n  report: \
         {{kind: report, needs: [machine, server, steps, checks, results]}}\n"
    );
    fs::write(project.path().join(STUDY), text).expect("a file");
    project.run(["run", STUDY]).ok();
    for what in ["data", "shared-prefix", "short-sessions"] {
        let output = format!("steps[what={what}].generators");
        let rows = project.run(["show", STUDY, &output]).ok().stdout;
        assert!(rows.contains("2 rows"), "{what}: {rows}");
    }
    let path = "reports/study/report.md";
    let audited = project.run(["audit", path]).ok().stdout;
    assert!(audited.contains("everything holds"), "{audited}");
    project
        .run(["publish", STUDY, "--out", "bundle", "--author", "A"])
        .ok();
    for arguments in [["verify", "bundle"], ["reproduce", "bundle"]] {
        project.run(arguments).ok();
    }
    let same = project.run(["diff", "bundle", STUDY]).ok().stdout;
    assert!(same.contains("= the recipes are the same"), "{same}");
}

#[test]
fn a_host_that_is_lost_fails_the_load_and_leaves_nothing_behind() {
    let server = ReferenceServer::start(Behaviour::default()).expect("a free port");
    let Some((project, mut hosts)) = lab(&server.url(), 100_000) else {
        return;
    };
    let url = server.url();
    let run = std::thread::scope(|scope| {
        let run = scope.spawn(|| project.run(["run", STUDY, "--trust", "--no-dry-run"]));
        while server.truth(0).len() < 50 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        hosts[0].lose();
        run.join().expect("it ends")
    });
    assert_eq!(run.code, Some(1), "{url}: {}{}", run.stdout, run.stderr);
    let said = format!("{}{}", run.stdout, run.stderr);
    assert!(said.contains("generator 1 of 2"), "{said}");
    hosts.iter().for_each(|host| await_silence(&host.there()));
}
