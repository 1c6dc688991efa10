//! The tables of a load with several generators.

use std::path::Path;

use artifacts::{Table, TableError};
use contract::{Chunk, Generator, Phase, Request, RequestGenerator, Row as _};

use super::GeneratorsChoice;
use super::deal::Deal;
use crate::arrival::Arrival;
use crate::client_health::ClientHealth;
use crate::measure::Health;
use crate::prompts::PromptSet;
use crate::run::LoadSpec;
use crate::sample::Sample;
use crate::sheet::{Sheet, TableFile};
use crate::summary::Distribution;
use crate::tables::measured_lag;
use crate::tally::Tally;

/// The rows of each generator, while they are written.
pub(crate) struct ByGenerator {
    deal: Deal,
    each: Vec<One>,
    hosts: Vec<Option<String>>,
    sheet: Sheet<RequestGenerator>,
}

/// The counts of one generator.
struct One {
    tally: Tally,
    lags: Sample,
    requests: i64,
    ok: i64,
}

impl ByGenerator {
    /// Begins the tables, if there are several generators.
    ///
    /// # Errors
    /// If a file cannot be made.
    pub(crate) fn of(spec: &LoadSpec, folder: &Path) -> Result<Option<Self>, TableError> {
        let count = spec.generators.count;
        if !spec.generators.are_others() {
            return Ok(None);
        }
        let one = |_| One {
            tally: Tally::default(),
            lags: Sample::new(folder.to_owned()),
            requests: 0,
            ok: 0,
        };
        Ok(Some(Self {
            deal: Deal::new(count, &spec.arrival, &spec.prompts),
            each: (0..count).map(one).collect(),
            hosts: (0..count as usize)
                .map(|place| Some(spec.generators.host(place)?.name.clone()))
                .collect(),
            sheet: Sheet::create(folder, &[])?,
        }))
    }

    /// Returns the health of each generator, from rows in memory that are sorted by request and attempt.
    pub(crate) fn fared(
        spec: &LoadSpec,
        health: &[Option<Health>],
        clock_bounds_ns: &[Option<i64>],
        requests: &[Request],
        chunks: &[Chunk],
    ) -> Vec<ClientHealth> {
        let deal = Deal::new(spec.generators.count, &spec.arrival, &spec.prompts);
        let one = |(place, health): (usize, &Option<Health>)| {
            let own = |id: i64| deal.of(usize::try_from(id).unwrap_or_default()) == place;
            let requests: Vec<Request> = requests
                .iter()
                .filter(|row| own(row.request_id))
                .cloned()
                .collect();
            let chunks = chunks.iter().filter(|chunk| own(chunk.request_id));
            let tally = Tally::of(&requests, &chunks.copied().collect::<Vec<_>>());
            let sent = requests.iter().any(Request::is_measured);
            let bound = clock_bounds_ns.get(place).copied().flatten();
            let bound_ms = bound.map(|ns| ns as f64 / 1e6);
            sent.then_some(ClientHealth::of(health.as_ref()?, &tally).on_a_clock_within(bound_ms))
        };
        health.iter().enumerate().filter_map(one).collect()
    }

    /// Enters an attempt with its chunks; they come in the order of requests.
    ///
    /// # Errors
    /// If the disk refuses.
    pub(crate) fn add(&mut self, row: &Request, chunks: &[Chunk]) -> std::io::Result<()> {
        let place = self
            .deal
            .of(usize::try_from(row.request_id).unwrap_or_default());
        let one = &mut self.each[place];
        one.tally.add(row, chunks);
        measured_lag(row).map_or(Ok(()), |lag| one.lags.push(lag))?;
        if row.is_measured() {
            one.requests += 1;
            one.ok += i64::from(row.is_ok());
        }
        if row.attempt > 1 {
            return Ok(());
        }
        let dealt = RequestGenerator {
            request_id: row.request_id,
            generator: place as i64,
        };
        self.sheet.push(dealt).map_err(std::io::Error::other)
    }

    /// Completes the tables; returns them with the health of each generator.
    ///
    /// # Errors
    /// If the disk refuses.
    pub(crate) fn finish(
        self,
        health: &[Option<Health>],
        clock_bounds_ns: &[Option<i64>],
        folder: &Path,
    ) -> std::io::Result<(Vec<TableFile>, Vec<ClientHealth>)> {
        let mut rows = Vec::new();
        let mut all = Vec::new();
        for (place, (one, health)) in self.each.into_iter().zip(health).enumerate() {
            let clock_bound_ms = clock_bounds_ns
                .get(place)
                .and_then(|bound| Some((*bound)? as f64 / 1e6));
            let fared = health.as_ref().map(|health| {
                ClientHealth::of(health, &one.tally).on_a_clock_within(clock_bound_ms)
            });
            let lags = one.lags.distribution()?;
            let (from, to) = one.tally.window().unzip();
            rows.push(Generator {
                generator: place as i64,
                host: self.hosts[place].clone(),
                clock_bound: clock_bound_ms,
                clients: self.deal.clients(place).map(i64::from),
                requests: one.requests,
                ok: one.ok,
                window_from_ns: from,
                window_to_ns: to,
                client_cpu_ns: health.as_ref().and_then(|h| i64::try_from(h.cpu_ns).ok()),
                ..row(fared.as_ref(), lags.as_ref())
            });
            // A generator without requests cannot be the bottleneck, and may have no ticks.
            all.extend(fared.filter(|_| one.requests > 0));
        }
        let mut sheet = Sheet::<Generator>::create(folder, &[]).map_err(std::io::Error::other)?;
        rows.into_iter()
            .try_for_each(|row| sheet.push(row))
            .map_err(std::io::Error::other)?;
        let tables = vec![
            sheet.finish().map_err(std::io::Error::other)?,
            self.sheet.finish().map_err(std::io::Error::other)?,
        ];
        Ok((tables, all))
    }
}

/// Returns the row of a generator's health.
fn row(fared: Option<&ClientHealth>, lags: Option<&Distribution>) -> Generator {
    let lags = |read: fn(&Distribution) -> f64| lags.map(read);
    let mut row = Generator {
        send_lag_p50: lags(|lag| lag.p50),
        send_lag_p99: lags(|lag| lag.p99),
        send_lag_max: lags(|lag| lag.max),
        ..Generator::default()
    };
    if let Some(health) = fared {
        let wake = |place: usize| health.wake_lag_ms.map(|lag| lag[place]);
        row.probes = i64::try_from(health.probes).ok();
        (row.wake_lag_p50, row.wake_lag_p99, row.wake_lag_max) = (wake(0), wake(1), wake(2));
        row.read_wait_p99 = health.read_wait_ms.map(|wait| wait[1]);
        row.write_time_p99 = health.write_time_ms.map(|time| time[1]);
        row.client_busy = health.busy;
        row.run_queue_wait = health.run_queue_wait;
        row.preemptions = health.preemptions;
        row.chunks_per_read = health.chunks_per_read;
        row.chunk_rate = health.chunk_rate;
        row.stamp_error_bound = health.stamp_error_bound_ms;
        row.client_verdict = health.verdict;
    }
    row
}

/// Returns simulated tables of a load with several generators, for a dry run.
///
/// # Errors
/// Never for the rows made here.
pub(crate) fn made_up(
    choice: &GeneratorsChoice,
    arrival: &Arrival,
    prompts: &PromptSet,
    requests: &[Request],
    health: &ClientHealth,
) -> Result<Vec<(&'static str, Table)>, TableError> {
    let generators = choice.count();
    let hosts: &[String] = match choice {
        GeneratorsChoice::Count(_) => &[],
        GeneratorsChoice::On(on) => &on.hosts,
    };
    let deal = Deal::new(generators, arrival, prompts);
    let place = |row: &Request| deal.of(usize::try_from(row.request_id).unwrap_or_default());
    let dealt: Vec<RequestGenerator> = requests
        .iter()
        .filter(|row| row.attempt == 1)
        .map(|row| RequestGenerator {
            request_id: row.request_id,
            generator: place(row) as i64,
        })
        .collect();
    let rows: Vec<Generator> = (0..generators as usize)
        .map(|generator| {
            let own = || {
                let measured = requests.iter().filter(|row| row.phase == Phase::Measured);
                measured.filter(|row| place(row) == generator)
            };
            Generator {
                generator: generator as i64,
                host: hosts.get(generator % hosts.len().max(1)).cloned(),
                clock_bound: (!hosts.is_empty()).then_some(0.1),
                clients: deal.clients(generator).map(i64::from),
                requests: own().count() as i64,
                ok: own().filter(|row| row.is_ok()).count() as i64,
                ..row(Some(health), None)
            }
        })
        .collect();
    Ok(vec![
        ("generators", Generator::table(&rows)?),
        ("request_generators", RequestGenerator::table(&dealt)?),
    ])
}
