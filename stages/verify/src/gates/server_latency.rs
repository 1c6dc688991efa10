//! `server-latency`: does the server's own measurement of latency agree with the client's?

use artifacts::counted;
use contract::{CellRows, Request, ServerCounter};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, TypedGate, each, show};
use crate::scrapes;
use crate::study::{Cell, Stage};

pub(crate) struct ServerLatency;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The histogram or summary of whole latencies in seconds, without `_sum` and `_count`. By default, a name that ends
    /// in `e2e_request_latency_seconds`, as those of vLLM, SGLang, LMDeploy and TensorRT-LLM do, or `tgi_request_duration`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metric: Option<String>,
    /// The largest share of the client's mean latency that may lie outside of the server's measurement.
    #[serde(default = "quarter")]
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    outside: f64,
}

fn quarter() -> f64 {
    0.25
}

/// How the names of latencies end, by engine.
const LATENCIES: [&str; 2] = ["e2e_request_latency_seconds", "tgi_request_duration"];

/// The share of the requests by which the counts may differ: answers that end within the last scrape.
const COUNTS_DIFFER: f64 = 0.02;

/// The share by which the server's mean may exceed the client's: two clocks run at different speeds, and a server may
/// stamp the end of an answer after it was sent.
const CLOCKS_DIFFER: f64 = 0.01;

impl TypedGate for ServerLatency {
    type Parameters = Parameters;
    const NAME: &'static str = "server-latency";
    const SUMMARY: &'static str = "\
        The latency that the server measured agrees with the latency that the client measured. This is a bound, not a \
        test.\n\n\
        A server's metrics have the sum and the number of the latencies of its requests. The gate compares their rise \
        during the cell with the rows:\n\n\
        - If the server counts more requests than the client sent, it has other clients.\n\
        - If the server's mean is higher than the client's, the stamps of one of them are wrong, because the client \
        sends first and receives last.\n\
        - If the server's mean is much lower, requests wait where the server does not measure: in its HTTP process, \
        in a proxy, in the network, or in the client. A mean over the server's histogram then understates what users \
        wait.\n\n\
        The share outside of the server's measurement was 0.4 to 9 % in 80 cells with vLLM 0.20.2, and 0.4 to 19 % in \
        40 cells with SGLang 0.5.12. With LMDeploy 0.18.0, it was 2 to 13 % in 20 cells with up to 16 clients, and 13 \
        to 39 % in 10 cells with 128.";
    const SEVERITY: Severity = Severity::Warn;
    const CELLS_ALONE: bool = true;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        let expected = format!(
            "at most {} % of the latency outside of the server's measurement",
            show(100.0 * parameters.outside)
        );
        each(
            stage,
            &|cell, rows| match measured(cell, rows, parameters.metric.as_deref()) {
                Ok(server) => compared(&server, rows, parameters.outside, &expected),
                Err(why) => Assessment::not_judged(why, expected.as_str()),
            },
        )
    }
}

/// What the server measured of the requests of a cell.
struct Measured {
    /// The number of requests.
    count: f64,
    /// The sum of their latencies, s.
    sum: f64,
}

/// Returns what the server measured, or why it is not known.
fn measured(cell: &Cell<'_>, rows: &CellRows, metric: Option<&str>) -> Result<Measured, String> {
    let Some(table) = &rows.server_metrics else {
        return Err("the server's metrics were not scraped".to_owned());
    };
    let metric = match metric {
        Some(metric) => metric.to_owned(),
        None => {
            let names = table.text("name").map_err(|e| e.to_string())?;
            let mut names = names.into_iter().flatten();
            let of_latency = |name: &str| LATENCIES.iter().any(|end| name.ends_with(end));
            names
                .find_map(|n| n.strip_suffix("_count").filter(|n| of_latency(n)))
                .map(str::to_owned)
                .ok_or("the server's metrics have no whole latencies: name them in `metric`")?
        }
    };
    let rise = |part: &str| {
        let name = format!("{metric}_{part}");
        match scrapes::rise(cell, rows, &name) {
            ServerCounter::Rose(rise) => Ok(rise),
            ServerCounter::BeganAnew => Err(format!(
                "{name} fell between two scrapes: a server began anew"
            )),
            ServerCounter::Unknown => Err(format!(
                "{name} was not scraped before the first request and after the last"
            )),
        }
    };
    Ok(Measured {
        count: rise("count")?,
        sum: rise("sum")?,
    })
}

fn compared(server: &Measured, rows: &CellRows, outside: f64, expected: &str) -> Assessment {
    let sent: Vec<&Request> = rows
        .requests
        .iter()
        .filter(|r| r.sent_ns.is_some())
        .collect();
    let answered: Vec<&Request> = sent.iter().copied().filter(|r| r.is_ok()).collect();
    let near = |n: usize| (server.count - n as f64).abs() <= (COUNTS_DIFFER * n as f64).floor();
    let (count, all) = (server.count, sent.len());
    if count > all as f64 && !near(all) {
        let observed = format!(
            "the server counts {count} requests, the client sent {all}: the server has other clients, or several \
             members of a group count the same request"
        );
        return Assessment::new(false, observed, expected);
    }
    // A server may count failed requests, or only those that it answered.
    let Some(same) = [answered, sent].into_iter().find(|set| near(set.len())) else {
        let observed = format!(
            "the server counts {count} requests, the client sent {all}: the means are not of the same requests"
        );
        return Assessment::not_judged(observed, expected);
    };
    let latencies: Option<Vec<f64>> = same
        .iter()
        .map(|r| Some((r.done_ns? - r.sent_ns?) as f64 / 1e9))
        .collect();
    let Some(latencies) = latencies.filter(|l| count > 0.0 && l.iter().sum::<f64>() > 0.0) else {
        return Assessment::not_judged("no request with a latency", expected);
    };
    let client = latencies.iter().sum::<f64>() / latencies.len() as f64;
    let server = server.sum / count;
    let share = 1.0 - server / client;
    let means = format!(
        "mean of {}: {} ms by the server, {} ms by the client",
        counted(latencies.len(), "request"),
        show(1e3 * server),
        show(1e3 * client)
    );
    if share < -CLOCKS_DIFFER {
        let observed = format!(
            "{means}. The server cannot have measured more: the stamps of one of them are wrong"
        );
        return Assessment::new(false, observed, expected);
    }
    let share = share.max(0.0);
    let mut observed = format!("{means}; {} % outside", show(100.0 * share));
    if share > outside {
        observed.push_str(
            ". Requests wait where the server does not measure: in its HTTP process, a proxy, the network or the client",
        );
    }
    Assessment::new(share <= outside, observed, expected)
}

#[cfg(test)]
mod tests;
