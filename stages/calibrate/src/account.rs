//! Compares a real server's own account of its work with what this client measured: the table `server_account`.
//!
//! Some servers report with each answer how long they worked on it (llama.cpp's `timings`). The part of the client's
//! measurement that the server does not account for is the server's queue, its HTTP layer, the connection and this
//! client. If no other client uses the server and it does not queue, this is a check of the client.

use artifacts::{Table, TableError};
use contract::{Api, Phase, Request, RequestStatus, Row as _, ServerAccountRow};
use load::{
    Distribution, LoadError, LoadSpec, Origin, Settings, Target, e2e_beyond_server, run_load,
    ttft_beyond_server,
};
use pipeline::stage::Control;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::grid::too_many_clients;
use crate::point::ended_well;

/// The requests to a real server, to compare times with those that it reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(extend("x-form" = "{concurrency: [1, 8], requests: 64}"))]
pub struct Account {
    /// The numbers of clients, one closed loop after the other; by default, one client, and as many
    /// as the server has slots.
    pub concurrency: Vec<u32>,
    /// Requests of each closed loop, without the warm-up.
    #[schemars(range(min = 1))]
    pub requests: u64,
    /// Words of a prompt.
    #[schemars(range(min = 1))]
    pub words: u32,
    /// Tokens of an answer.
    #[schemars(range(min = 2))]
    pub tokens: u32,
    /// The API to use; by default the one the server's definition names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<Api>,
}

impl Default for Account {
    fn default() -> Self {
        Self {
            concurrency: Vec::new(),
            requests: 64,
            words: 64,
            tokens: 32,
            api: None,
        }
    }
}

impl Account {
    /// Returns the numbers of clients for a server with this many slots.
    pub fn levels(&self, slots: Option<u32>) -> Vec<u32> {
        if !self.concurrency.is_empty() {
            return self.concurrency.clone();
        }
        std::iter::once(1)
            .chain(slots.filter(|slots| *slots > 1))
            .collect()
    }

    /// Returns the problems: the setting and the reason.
    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        let mut at_least = |setting, value: u64, least: u64| {
            if value < least {
                problems.push((
                    setting,
                    format!("{setting} must be at least {least}, got {value}"),
                ));
            }
        };
        for clients in &self.concurrency {
            at_least("concurrency", u64::from(*clients), 1);
        }
        at_least("requests", self.requests, 1);
        at_least("words", u64::from(self.words), 1);
        at_least("tokens", u64::from(self.tokens), 2);
        problems.extend(too_many_clients(&self.concurrency));
        problems
    }

    /// Returns the settings of a load by this many clients. If the API allows it, answers run to their last token: a
    /// step in which an answer stops by itself is in the server's account but yields no token.
    pub(super) fn load(&self, clients: u32, api: Api) -> Result<Settings, LoadError> {
        serde_json::from_value(json!({
            "workload": {
                "prompts": {"words": {"length": self.words}},
                "output": {"tokens": self.tokens, "mode": if api.can_be_exact() { "exact" } else { "cap" }},
            },
            "arrival": {"closed-loop": {"clients": clients}},
            "requests": self.requests,
            "warmup": u64::from(clients).min(self.requests),
        }))
        .map_err(|e| LoadError::new(format!("the settings of a closed loop: {e}")))
    }
}

/// The result of one closed loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Accounted {
    /// The number of clients.
    pub concurrency: u32,
    /// Measured requests.
    pub requests: u64,
    /// Answered requests.
    pub answered: u64,
    /// Answers with equally many output tokens by usage and by the server's timings.
    pub tokens_agree: u64,
    /// Answers with different counts. The remaining answers lack one of the two.
    pub tokens_disagree: u64,
    /// TTFT − the server's time for the prompt, ms; `None` if the server does not report it.
    pub ttft: Option<Distribution>,
    /// E2E latency − the server's time for prompt and generation, ms; `None` if the server does not report it.
    pub e2e: Option<Distribution>,
}

impl Accounted {
    /// Counts the rows of a closed loop.
    pub(super) fn of(concurrency: u32, rows: &[Request]) -> Self {
        let measured = || {
            rows.iter()
                .filter(|r| r.phase == Phase::Measured && !r.superseded)
        };
        let answered = || measured().filter(|r| r.status == RequestStatus::Ok);
        let beyond = |column: fn(&Request) -> Option<f64>| {
            Distribution::of(answered().filter_map(column).collect())
        };
        let agree =
            |agree: bool| answered().filter(|r| r.tokens_agree == Some(agree)).count() as u64;
        Self {
            concurrency,
            requests: measured().count() as u64,
            answered: answered().count() as u64,
            tokens_agree: agree(true),
            tokens_disagree: agree(false),
            ttft: beyond(ttft_beyond_server),
            e2e: beyond(e2e_beyond_server),
        }
    }

    /// Returns the distributions that exist, with their metrics.
    pub fn distributions(&self) -> impl Iterator<Item = (&'static str, &Distribution)> {
        let both = [
            ("ttft_beyond_server", &self.ttft),
            ("e2e_beyond_server", &self.e2e),
        ];
        both.into_iter()
            .filter_map(|(name, distribution)| Some((name, distribution.as_ref()?)))
    }
}

/// Loads a server with one closed loop after another and compares.
///
/// # Errors
/// If the server cannot be reached, does not answer or falls silent, or the run is stopped.
pub fn account(
    account: &Account,
    slots: Option<u32>,
    target: &Target,
    origin: &Origin,
    control: &Control,
) -> Result<Vec<Accounted>, LoadError> {
    let mut loops = Vec::new();
    for clients in account.levels(slots) {
        let spec = LoadSpec::new(account.load(clients, target.api)?, origin.clone())
            .map_err(|e| LoadError::new(e.to_string()))?;
        let result = run_load(&spec, target, control)?;
        ended_well(&result.ending, &target.base_url)?;
        let accounted = Accounted::of(clients, &result.requests);
        if accounted.answered == 0 {
            let first = result
                .requests
                .iter()
                .find_map(|r| r.error.clone())
                .unwrap_or_default();
            return Err(LoadError::new(format!(
                "{} answered no request; the first error: {first}",
                target.base_url
            )));
        }
        loops.push(accounted);
    }
    Ok(loops)
}

/// The reason why there is no table of a server's account.
pub(crate) const NO_TIMINGS: &str = "absent: the server's answers report no timings";

/// Returns the table `server_account`, with a row for each closed loop and metric; `None` if the server reports no
/// timings.
///
/// # Errors
/// Never for the values used here.
pub fn account_table(loops: &[Accounted]) -> Result<Option<Table>, TableError> {
    let rows: Vec<ServerAccountRow> = loops
        .iter()
        .flat_map(|one| {
            one.distributions()
                .map(move |(metric, distribution)| account_row(one, metric, distribution))
        })
        .collect();
    if rows.is_empty() {
        return Ok(None);
    }
    let columns = ServerAccountRow::columns(&rows);
    Table::with_metadata(columns, &[("keys", "concurrency,metric")]).map(Some)
}

fn account_row(one: &Accounted, metric: &str, distribution: &Distribution) -> ServerAccountRow {
    let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    ServerAccountRow {
        concurrency: i64::from(one.concurrency),
        metric: metric.to_owned(),
        n: count(distribution.n as u64),
        mean: distribution.mean,
        p50: distribution.p50,
        p90: distribution.p90,
        p99: distribution.p99,
        min: distribution.min,
        max: distribution.max,
        requests: count(one.requests),
        answered: count(one.answered),
        tokens_agree: count(one.tokens_agree),
        tokens_disagree: count(one.tokens_disagree),
    }
}
