//! A run whose tables are written while it goes, in bounded memory. Two things grow with the number of requests: the
//! eight bytes of each prompt's position in its file and, in an open loop, the eight bytes of its time.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use apis::Delivery;
use artifacts::{Digest, Table, TableError, TableWriter};
use contract::{
    Chunk, Counters, EventPattern, Exporter, LiveElsewhere, LiveMember, Member, Phase, Request,
    RequestServer, Row, ServerStart,
};
use pipeline::stage::Control;
use serde_json::Value;

use crate::client_health::ClientHealth;
use crate::companions::companions;
use crate::drive::{Driven, drive};
use crate::generators::ByGenerator;
use crate::ordered::{Ordered, Rows, WAITING_BYTES};
use crate::prompts::PromptSet;
use crate::rescue::rescue;
use crate::run::{
    CellFacts, Ending, LoadError, LoadSpec, LoadedServer, Target, facts, file_length, read_from,
};
use crate::sample::Sample;
use crate::servers::Rota;
use crate::sheet::{Sheet, TableFile};
use crate::summary::Distribution;
use crate::tables::{cell_table, measured_lag};
use crate::tally::Tally;
use crate::telemetry::{Telemetry, find_program};

/// The settings for sampling beside a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Monitoring {
    /// The sampled sources, and the interval.
    pub telemetry: Telemetry,
    /// The leader of the server's process group, if it runs on this machine.
    pub server_pid: Option<i64>,
    /// The path of llama.cpp's slots, if the server has them.
    pub slots: Option<String>,
    /// The path of a document about the server's state, if it has one.
    pub server_info: Option<String>,
    /// How lines of the server's log are parsed, by name.
    pub log_events: Vec<(String, EventPattern)>,
    /// Texts that mark a line of the server's log as an error.
    pub log_errors: Vec<String>,
    /// The path that empties the server's prompt cache, if it has one.
    pub reset_cache: Option<String>,
    /// The names of the server's counters.
    pub counters: Counters,
    /// Exporters with data about the server and its machine, by name.
    pub exporters: BTreeMap<String, Exporter>,
    /// The members of a group of servers, if the load goes to one.
    pub members: Vec<LiveMember>,
    /// The sampler of the server's host, if that is not this machine.
    pub elsewhere: Option<LiveElsewhere>,
    /// The starts of the servers that Benchtrail started; `None` without a study, which starts none.
    pub starts: Option<Vec<ServerStart>>,
    /// The path of the program `nvidia-smi`; by default found on the search path.
    pub nvidia_smi: Option<PathBuf>,
}

/// The results of one of several servers in the measured phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerCount {
    /// The server's name.
    pub server: String,
    /// The number of requests that were to go to it.
    pub requests: u64,
    /// The number of them that were answered completely.
    pub ok: u64,
}

impl Monitoring {
    /// Samples several servers about which nothing is known but their names. The target's metrics path then applies to
    /// each server.
    pub fn apart(&mut self, target: &mut Target) {
        let metrics = match target.servers.is_empty() {
            true => return,
            false => target.metrics.take(),
        };
        let member = |server: &LoadedServer| LiveMember {
            name: server.name.clone(),
            role: "server".to_owned(),
            loaded: true,
            engine: "not known".to_owned(),
            base_url: server.base_url.clone(),
            metrics: metrics.clone(),
            model: target.model.clone(),
            api: target.api,
            ..LiveMember::default()
        };
        self.members = target.servers.iter().map(member).collect();
    }

    /// Samples what the settings request, without knowledge of the server.
    #[expect(
        clippy::disallowed_methods,
        reason = "programs are looked up on the search path"
    )]
    pub fn new(telemetry: Telemetry) -> Self {
        Self {
            telemetry,
            server_pid: None,
            slots: None,
            server_info: None,
            log_events: Vec::new(),
            log_errors: Vec::new(),
            reset_cache: None,
            counters: Counters::default(),
            exporters: BTreeMap::new(),
            members: Vec::new(),
            elsewhere: None,
            starts: None,
            nvidia_smi: find_program("nvidia-smi", std::env::var_os("PATH").as_deref()),
        }
    }
}

/// The output of a run, with its rows in files.
#[derive(Debug)]
pub struct LoadFiles {
    /// How it ended.
    pub ending: Ending,
    /// The complete tables: `requests`, `chunks`, `cell`, `prompts`, and those sampled beside the load that exist.
    pub tables: Vec<TableFile>,
    /// The server's log from the time of the run, if it can be read.
    pub engine_log: Option<String>,
    /// Facts of the run.
    pub cell: CellFacts,
    /// Counts over its rows.
    pub tally: Tally,
    /// The counts of each of several servers; empty if there is only one.
    pub servers: Vec<ServerCount>,
    /// How many processes sent it.
    pub generators: u32,
    /// Facts for the record, such as why a table is absent.
    pub observations: BTreeMap<String, Value>,
    /// Doubts about the result.
    pub warnings: Vec<String>,
}

/// Sends the load to a server and writes every table into a folder, which should contain nothing else. After the last
/// attempt has ended, `watch` receives each attempt with its chunks, in the order of requests.
///
/// # Errors
/// As [`run_load`](crate::run_load), and if the folder cannot be written. If rows were measured, the error then names
/// another folder, with their tables.
pub fn run_load_into(
    spec: &LoadSpec,
    target: &Target,
    monitoring: &Monitoring,
    folder: &Path,
    control: &Control,
    watch: &mut dyn FnMut(&Request, &[Chunk]) -> io::Result<()>,
) -> Result<LoadFiles, LoadError> {
    let mut ordered = Ordered::new(folder.to_owned(), WAITING_BYTES);
    run_in_order(
        spec,
        target,
        monitoring,
        folder,
        control,
        &mut ordered,
        watch,
    )
    .map_err(|error| rescue(error, &ordered))
}

fn run_in_order(
    spec: &LoadSpec,
    target: &Target,
    monitoring: &Monitoring,
    folder: &Path,
    control: &Control,
    ordered: &mut Ordered,
    watch: &mut dyn FnMut(&Request, &[Chunk]) -> io::Result<()>,
) -> Result<LoadFiles, LoadError> {
    let logs = logs(target, monitoring);
    let (prompts, prompt_set) = write_prompts(&spec.prompts, folder).map_err(unwritten(folder))?;
    let mut driven = drive(
        spec,
        target,
        control,
        folder,
        |start| companions(start, target, monitoring, folder, &logs),
        &mut |request, chunks| ordered.push(&Rows { request, chunks }),
    )?;
    let mut sheets = Sheets::create(spec, target, folder)?;
    ordered
        .each(&mut |mut rows| {
            rows.chunks.sort_by_key(|chunk| chunk.at_ns);
            if let Some(in_flight) = &driven.in_flight {
                in_flight.enter(&mut rows.request);
            }
            sheets.count(&rows)?;
            watch(&rows.request, &rows.chunks)?;
            sheets.push(rows)
        })
        .map_err(unwritten(folder))?;
    let Written {
        mut tables,
        tables_by_name,
        tally,
        lags,
        health,
        servers,
    } = sheets.finish(&driven, folder)?;
    driven.tables.extend(tables_by_name);
    if !monitoring.members.is_empty() {
        let members = monitoring.members.iter().map(row_of).collect();
        let members = write_rows::<Member>(members, folder).map_err(unwritten(folder))?;
        driven.tables.push(members);
    }
    if let Some(starts) = monitoring.starts.clone() {
        let starts = write_rows::<ServerStart>(starts, folder).map_err(unwritten(folder))?;
        driven.tables.push(starts);
    }
    driven.tables.sort_by_key(|table| table.name);
    let cell = facts(spec, target, &tally, &driven, health);
    let row = cell_table(&cell, &spec.prompts, &tally, lags.as_ref(), &prompt_set);
    tables.push(write_cell(&row.map_err(unwritten(folder))?, folder)?);
    tables.push(prompts);
    tables.append(&mut driven.tables);
    let mask = |text: String| {
        target
            .api_key
            .as_ref()
            .map_or(text.clone(), |key| key.mask(&text))
    };
    Ok(LoadFiles {
        ending: driven.ending,
        tables,
        engine_log: logged(&logs).map(mask),
        cell,
        warnings: driven
            .warnings
            .into_iter()
            .map(mask)
            .chain(tally.doubts(spec.delivery == Delivery::Streamed))
            .collect(),
        tally,
        servers,
        generators: spec.generators.count.max(1),
        observations: driven.observations,
    })
}

/// The error of a table that cannot be written into a folder.
fn unwritten<E: std::error::Error + 'static>(folder: &Path) -> impl Fn(E) -> LoadError {
    move |e| {
        let reason = e.to_string();
        // The writer of tables puts `External:` before the disk's error.
        let reason = reason.trim_start_matches("External: ");
        let folder = folder.display();
        LoadError::caused(
            format!("cannot write the tables into {folder}: {reason}"),
            &e,
        )
    }
}

/// Writes the table with the one row of the cell.
fn write_cell(table: &Table, folder: &Path) -> Result<TableFile, LoadError> {
    let path = folder.join("cell.parquet");
    let bytes = table.to_parquet().map_err(unwritten(folder))?;
    std::fs::write(&path, bytes).map_err(unwritten(folder))?;
    Ok(TableFile {
        name: "cell",
        path,
        rows: 1,
    })
}

/// The tables of a load while its rows are written, and what is counted on the way.
struct Sheets<'a> {
    requests: Sheet<Request>,
    chunks: Sheet<Chunk>,
    turns: Option<InTurn<'a>>,
    by_generator: Option<ByGenerator>,
    tally: Tally,
    lags: Sample,
}

/// The tables of a load, and what was counted while they were written.
struct Written {
    /// The tables `requests` and `chunks`.
    tables: Vec<TableFile>,
    /// Tables that come after those of every load, in the order of their names.
    tables_by_name: Vec<TableFile>,
    tally: Tally,
    lags: Option<Distribution>,
    health: Option<ClientHealth>,
    servers: Vec<ServerCount>,
}

impl<'a> Sheets<'a> {
    fn create(spec: &LoadSpec, target: &'a Target, folder: &Path) -> Result<Self, LoadError> {
        Ok(Self {
            requests: Sheet::create(folder, &[]).map_err(unwritten(folder))?,
            chunks: Sheet::create(folder, &[]).map_err(unwritten(folder))?,
            turns: InTurn::of(spec, target, folder).map_err(unwritten(folder))?,
            by_generator: ByGenerator::of(spec, folder).map_err(unwritten(folder))?,
            tally: Tally::default(),
            lags: Sample::new(folder.to_owned()),
        })
    }

    fn count(&mut self, rows: &Rows) -> io::Result<()> {
        self.tally.add(&rows.request, &rows.chunks);
        measured_lag(&rows.request).map_or(Ok(()), |lag| self.lags.push(lag))
    }

    fn push(&mut self, rows: Rows) -> io::Result<()> {
        if let Some(turns) = &mut self.turns {
            turns.add(&rows.request).map_err(io::Error::other)?;
        }
        if let Some(by_generator) = &mut self.by_generator {
            by_generator.add(&rows.request, &rows.chunks)?;
        }
        self.requests.push(rows.request).map_err(io::Error::other)?;
        rows.chunks
            .into_iter()
            .try_for_each(|chunk| self.chunks.push(chunk))
            .map_err(io::Error::other)
    }

    fn finish(self, driven: &Driven, folder: &Path) -> Result<Written, LoadError> {
        let mut tables_by_name = Vec::new();
        let health = match self.by_generator {
            None => {
                let own = driven.health.first().and_then(Option::as_ref);
                own.map(|health| ClientHealth::of(health, &self.tally))
            }
            Some(by_generator) => {
                let finished = by_generator.finish(&driven.health, &driven.clock_bounds_ns, folder);
                let (tables, each) = finished.map_err(unwritten(folder))?;
                tables_by_name.extend(tables);
                ClientHealth::worst_of(&each, &self.tally)
            }
        };
        let mut servers = Vec::new();
        if let Some(turns) = self.turns {
            servers = turns.counts;
            tables_by_name.push(turns.sheet.finish().map_err(unwritten(folder))?);
        }
        Ok(Written {
            tables: vec![
                self.requests.finish().map_err(unwritten(folder))?,
                self.chunks.finish().map_err(unwritten(folder))?,
            ],
            tables_by_name,
            tally: self.tally,
            lags: self.lags.distribution().map_err(unwritten(folder))?,
            health,
            servers,
        })
    }
}

/// The server of each request, recorded while the rows of a load on several servers are written.
struct InTurn<'a> {
    rota: Rota,
    target: &'a Target,
    counts: Vec<ServerCount>,
    sheet: Sheet<RequestServer>,
}

impl<'a> InTurn<'a> {
    /// Creates the table if there are several servers, or a group of servers with one that is loaded.
    fn of(spec: &LoadSpec, target: &'a Target, folder: &Path) -> Result<Option<Self>, TableError> {
        if target.servers.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self {
            rota: Rota::new(target.servers.len(), &spec.prompts),
            target,
            counts: target
                .servers
                .iter()
                .map(|server| ServerCount {
                    server: server.name.clone(),
                    ..ServerCount::default()
                })
                .collect(),
            sheet: Sheet::create(folder, &[])?,
        }))
    }

    /// Adds a request once for all its attempts.
    fn add(&mut self, request: &Request) -> Result<(), TableError> {
        let place = usize::try_from(request.request_id).unwrap_or_default();
        let server = self.rota.of(place);
        if request.phase == Phase::Measured && !request.superseded {
            self.counts[server].requests += 1;
            self.counts[server].ok += u64::from(request.is_ok());
        }
        if request.attempt > 1 {
            return Ok(());
        }
        self.sheet.push(RequestServer {
            request_id: request.request_id,
            server: self.target.servers[server].name.clone(),
        })
    }
}

/// The number of prompts passed to the writer at once.
const PROMPTS: usize = 2048;

/// Writes the prompt set in parts; returns its file and digest.
pub(crate) fn write_prompts(set: &PromptSet, folder: &Path) -> io::Result<(TableFile, Digest)> {
    let part = |prompts: &[_]| set.table_of(prompts).map_err(io::Error::other);
    let empty = part(&[])?;
    let columns = empty
        .names()
        .iter()
        .map(|name| empty.column(name))
        .collect::<Result<Vec<_>, _>>();
    let columns = columns.map_err(io::Error::other)?;
    let schema = empty.batch().schema();
    let mut notes: Vec<(&str, &str)> = schema
        .metadata()
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    notes.sort_unstable();
    let path = folder.join("prompts.parquet");
    let mut writer =
        TableWriter::create_with_metadata(&path, &columns, &notes).map_err(io::Error::other)?;
    let warmup = set.count(Phase::Warmup);
    let all = warmup + set.count(Phase::Measured);
    for places in [warmup..all, 0..warmup] {
        for from in places.clone().step_by(PROMPTS) {
            let prompts = (from..places.end.min(from + PROMPTS)).map(|place| set.at(place));
            writer
                .write(&part(&prompts.collect::<io::Result<Vec<_>>>()?)?)
                .map_err(io::Error::other)?;
        }
    }
    let rows = writer.finish().map_err(io::Error::other)?;
    let digest = Digest::of_file(&path)?;
    Ok((
        TableFile {
            name: "prompts",
            path,
            rows,
        },
        digest,
    ))
}

/// One log of the server, or of a group's member, from the position where reading starts.
pub(crate) struct LogPart<'a> {
    pub(crate) member: Option<&'a LiveMember>,
    pub(crate) path: &'a Path,
    pub(crate) from: u64,
}

/// Returns the logs that can be read, each from its present end.
fn logs<'a>(target: &'a Target, monitoring: &'a Monitoring) -> Vec<LogPart<'a>> {
    let own = target.log.as_deref().map(|path| (None, path));
    let members = monitoring.members.iter();
    let members = members.filter_map(|member| Some((Some(member), member.log_path.as_deref()?)));
    let all = own.into_iter().chain(members);
    let part = |(member, path)| LogPart {
        member,
        path,
        from: file_length(path),
    };
    all.map(part).collect()
}

/// Returns the logged text. A group's text has a line with each member's name before its log.
fn logged(parts: &[LogPart<'_>]) -> Option<String> {
    let texts = parts.iter().filter_map(|part| {
        let text = read_from(part.path, part.from).ok()?;
        Some(match part.member {
            Some(member) => format!("== {}\n{text}", member.name),
            None => text,
        })
    });
    texts.reduce(|mut all, text| {
        if !all.ends_with('\n') {
            all.push('\n');
        }
        all + &text
    })
}

/// Returns the row of a member of a group.
fn row_of(member: &LiveMember) -> Member {
    Member {
        member: member.name.clone(),
        role: member.role.clone(),
        loaded: member.loaded,
        engine: member.engine.clone(),
        gpus: member.gpus.clone(),
    }
}

/// Writes a table whose rows are known before the load.
fn write_rows<R: Row>(rows: Vec<R>, folder: &Path) -> Result<TableFile, TableError> {
    let mut sheet = Sheet::<R>::create(folder, &[])?;
    rows.into_iter().try_for_each(|row| sheet.push(row))?;
    sheet.finish()
}
