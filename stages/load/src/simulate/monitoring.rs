//! Synthetic samples beside a load for a dry run, so that gates, tables and figures are tried before anything is
//! measured. The server's counters are left out, because synthetic counts would not match synthetic rows.

use artifacts::{Table, TableError};
use contract::{
    EngineEvent, EngineSource, GpuSample, HostSample, Member, ProcessRole, ProcessSample,
    ReadyProof, Request, RequestServer, Row, ServerHostSample, ServerStart, SlotSample,
};
use pipeline::stage::{Job, Json};

use crate::prompts::PromptSet;
use crate::servers::Rota;
use crate::telemetry::{Gpu, Telemetry};

/// The number of samples in each table.
const SAMPLES: i64 = 5;

/// Returns synthetic versions of the tables that a load beside the job's server may leave, for measured requests within
/// this window, ns.
///
/// # Errors
/// Never for rows as made here.
pub(super) fn made_up(
    job: &Job<'_>,
    telemetry: &Telemetry,
    (from, to): (i64, i64),
) -> Result<Vec<(&'static str, Table)>, TableError> {
    let interval_ms = telemetry.interval.duration().as_millis().to_string();
    let step = ((to - from) / (SAMPLES - 1)).max(1);
    let at: Vec<i64> = (0..SAMPLES).map(|i| from + i * step).collect();
    let mut tables = Vec::new();
    if telemetry.host {
        tables.push(("host_telemetry", host(&at, &interval_ms)?));
    }
    if telemetry.processes {
        tables.push(("process_telemetry", processes(&at, &interval_ms)?));
    }
    if telemetry.gpu != Gpu::None {
        tables.push(("gpu_telemetry", gpus(&at, &interval_ms)?));
    }
    let Some(server) = server(job) else {
        return Ok(tables);
    };
    // An exporter may report on a remote machine.
    let elsewhere = server["engine"]["source"] == EngineSource::Running.word();
    if telemetry.host && elsewhere {
        let samples = host_samples(&at).map(|sample| ServerHostSample::of("made-up", &sample));
        let rows: Vec<ServerHostSample> = samples.collect();
        tables.push(("server_host_telemetry", table(&rows, &interval_ms)?));
    }
    if telemetry.probes && server["endpoints"]["slots"].is_string() {
        let sample = |(at_ns, i): (&i64, i64)| SlotSample {
            at_ns: *at_ns,
            slot: 0,
            processing: Some(true),
            task: Some(i),
            context_tokens: Some(4096),
            prompt_tokens: Some(8),
            decoded_tokens: Some(i),
            remaining_tokens: None,
        };
        let rows: Vec<SlotSample> = at.iter().zip(0..).map(sample).collect();
        tables.push(("slots", table(&rows, &interval_ms)?));
    }
    let event = |(at_ns, i): (&i64, i64)| EngineEvent {
        at_ns: Some(*at_ns),
        seen_ns: *at_ns,
        line: i + 1,
        event: "made-up".to_owned(),
        field: Some("requests".to_owned()),
        value: Some(1.0),
        text: Some("1".to_owned()),
        member: None,
    };
    let rows: Vec<EngineEvent> = at.iter().zip(0..).map(event).collect();
    tables.push(("engine_events", table(&rows, &interval_ms)?));
    Ok(tables)
}

/// Returns synthetic tables of a load on a group of servers: its members, and the server of each request.
///
/// # Errors
/// Never for rows as made here.
pub(super) fn group(
    job: &Job<'_>,
    prompts: &PromptSet,
    requests: &[Request],
) -> Result<Vec<(&'static str, Table)>, TableError> {
    let server = server(job).unwrap_or_default();
    let Some(roles) = server["roles"].as_object() else {
        return Ok(Vec::new());
    };
    let loaded = server["loaded_role"].as_str().unwrap_or_default();
    let members: Vec<Member> = roles
        .iter()
        .flat_map(|(role, described)| {
            let count = described["count"].as_u64().unwrap_or(1);
            (0..count).map(move |number| Member {
                member: format!("{role}-{number}"),
                role: role.clone(),
                loaded: role == loaded,
                engine: "made-up".to_owned(),
                gpus: None,
            })
        })
        .collect();
    let names: Vec<&str> = members
        .iter()
        .filter(|member| member.loaded)
        .map(|member| member.member.as_str())
        .collect();
    let mut tables = vec![("members", Member::table(&members)?)];
    if !names.is_empty() {
        let rota = Rota::new(names.len(), prompts);
        let row = |request: &Request| RequestServer {
            request_id: request.request_id,
            server: names[rota.of(usize::try_from(request.request_id).unwrap_or_default())]
                .to_owned(),
        };
        let first = requests.iter().filter(|request| request.attempt == 1);
        let rows: Vec<RequestServer> = first.map(row).collect();
        tables.push(("request_servers", RequestServer::table(&rows)?));
    }
    Ok(tables)
}

/// Returns a synthetic table of the starts of the servers behind a load, without rows if they already run; none without a
/// server.
///
/// # Errors
/// Never for rows as made here.
pub(super) fn starts(
    job: &Job<'_>,
    group: &[(&'static str, Table)],
) -> Result<Option<(&'static str, Table)>, TableError> {
    let Some(server) = server(job) else {
        return Ok(None);
    };
    let members = group.iter().find(|(name, _)| *name == "members");
    let members = members.map_or(Ok(Vec::new()), |(_, table)| Member::read(table))?;
    let mut names: Vec<Option<String>> = members.into_iter().map(|m| Some(m.member)).collect();
    if names.is_empty() {
        names.push(None);
    }
    if server["engine"]["source"] == EngineSource::Running.word() {
        names.clear();
    }
    let row = |member| ServerStart {
        member,
        started_unix_ns: 0,
        healthy_s: Some(1.0),
        listed_s: Some(1.5),
        ready_s: 2.0,
        proof: ReadyProof::Token,
    };
    let rows: Vec<ServerStart> = names.into_iter().map(row).collect();
    Ok(Some(("server_starts", ServerStart::table(&rows)?)))
}

/// Returns the descriptor of the server that would be loaded.
fn server(job: &Job<'_>) -> Option<Json> {
    let cell = job.input_of_kind("serve")?.cells.first()?;
    let bytes = job.store.get(&cell.outputs.get("server")?.digest).ok()?;
    serde_json::from_slice(&bytes).ok()
}

fn table<R: Row>(rows: &[R], interval_ms: &str) -> Result<Table, TableError> {
    Table::with_metadata(R::columns(rows), &[("interval_ms", interval_ms)])
}

fn host_samples(at: &[i64]) -> impl Iterator<Item = HostSample> + '_ {
    let sample = |(at_ns, i): (&i64, i64)| HostSample {
        at_ns: *at_ns,
        cpu_busy: Some(0.5),
        cpu_wait: Some(0.0),
        cpu_steal: Some(0.0),
        load_1: Some(1.0),
        runnable: Some(2),
        memory_used_bytes: Some(1 << 30),
        memory_available_bytes: Some(1 << 30),
        swap_used_bytes: Some(0),
        network_received_bytes: Some(i),
        network_sent_bytes: Some(i),
        loopback_bytes: Some(1000 * i),
        disk_read_bytes: Some(i),
        disk_written_bytes: Some(i),
        frequency_mhz: Some(2000.0),
        temperature_c: Some(50.0),
        processors: Some(2),
        throttles: Some(0),
        memory_pressure: Some(0.0),
        page_cache_bytes: Some(1 << 20),
        network_errors: Some(0),
    };
    at.iter().zip(0..).map(sample)
}

fn host(at: &[i64], interval_ms: &str) -> Result<Table, TableError> {
    table(&host_samples(at).collect::<Vec<_>>(), interval_ms)
}

fn processes(at: &[i64], interval_ms: &str) -> Result<Table, TableError> {
    let sample = |(at_ns, i): (&i64, i64)| {
        [ProcessRole::Server, ProcessRole::Client].map(|role| ProcessSample {
            at_ns: *at_ns,
            role,
            pid: 1,
            name: "made-up".to_owned(),
            threads: 1,
            cpu: Some(0.5),
            cpu_ns: 10_000_000 * i,
            memory_bytes: 1 << 20,
            disk_read_bytes: Some(0),
            disk_written_bytes: Some(0),
            member: None,
        })
    };
    let rows: Vec<ProcessSample> = at.iter().zip(1..).flat_map(sample).collect();
    table(&rows, interval_ms)
}

fn gpus(at: &[i64], interval_ms: &str) -> Result<Table, TableError> {
    let sample = |(at_ns, i): (&i64, i64)| GpuSample {
        at_ns: *at_ns,
        gpu: 0,
        uuid: Some("GPU-made-up".to_owned()),
        name: Some("made-up GPU".to_owned()),
        power_w: Some(100.0),
        energy_j: Some(100.0 * i as f64),
        sm_clock_mhz: Some(1500.0),
        memory_clock_mhz: Some(2500.0),
        temperature_c: Some(50.0),
        sm_utilisation: Some(0.5),
        memory_utilisation: Some(0.5),
        memory_used_bytes: Some(1 << 30),
        memory_total_bytes: Some(1 << 34),
        throttle_reasons: Some(String::new()),
        compute_processes: Some(1),
        foreign_processes: Some(0),
    };
    let rows: Vec<GpuSample> = at.iter().zip(0..).map(sample).collect();
    table(&rows, interval_ms)
}
