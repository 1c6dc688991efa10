//! `token-accounting`: do the accounts of output tokens agree?

use artifacts::counted;
use contract::ServerCounter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, TypedGate, each, some};
use crate::scrapes;
use crate::study::{Cell, Stage};

pub(crate) struct TokenAccounting;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The server's counter of generated tokens. By default, the one in the engine's definition, if
    /// the stage also needs the serve stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    counter: Option<String>,
    /// The largest difference, in tokens, between the rise of the counter and the sum over the
    /// rows, warm-up included.
    #[serde(default)]
    counter_tolerance: u32,
}

impl TypedGate for TokenAccounting {
    type Parameters = Parameters;
    const NAME: &'static str = "token-accounting";
    const SUMMARY: &'static str = "\
        The counts of output tokens agree: the server's usage, its timings, the chunks and the server's own counter.\n\n\
        The gate fails if an ok row has no count, if usage and timings disagree, if a row has more chunks than \
        tokens, or if no count tells how many tokens several events without text have. It names rows with reasoning tokens of which no text came: TPOT and decode rates leave these tokens out.\n\n\
        It also compares the sum over the rows with the rise of the server's counter, if you or the engine's \
        definition name one. This needs a scrape of every server before the first request and after the last; \
        otherwise, the gate does not judge the cell. If some rows are not ok, the gate leaves the counter out. It \
        fails if the counter falls, because a server restarted.";
    const SEVERITY: Severity = Severity::Fail;
    const CELLS_ALONE: bool = true;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        each(stage, &|cell, rows| {
            let ok: Vec<_> = rows.measured().filter(|r| r.is_ok()).collect();
            let (mut wrong, bad) = wrong_rows(&ok);
            let settled = rows.requests.iter().all(|r| r.is_ok() || r.superseded);
            let total: Option<i64> = rows
                .requests
                .iter()
                .filter(|r| !r.superseded)
                .map(|r| r.output_tokens)
                .sum();
            let counter = parameters.counter.clone().or_else(|| named(cell, rows));
            let rise = counter.as_ref().map_or(ServerCounter::Unknown, |name| {
                scrapes::rise(cell, rows, name)
            });
            let counter = counter.unwrap_or_default();
            let mut unseen = false;
            let mut accounts = format!(
                "{} in {}",
                counted(total_of(&ok), "token"),
                counted(ok.len(), "ok row")
            );
            let hidden = ok.iter().filter(|r| r.hidden_tokens() > 0).count();
            if hidden > 0 {
                accounts.push_str(&format!(
                    "; {} with reasoning of which no text came: TPOT leaves it out",
                    counted(hidden, "row")
                ));
            }
            match (rise, total) {
                (ServerCounter::Rose(rise), Some(total)) if settled => {
                    accounts.push_str(&format!("; {total} with warm-up, {counter} rose by {rise}"));
                    if (rise - total as f64).abs() > f64::from(parameters.counter_tolerance) {
                        wrong.push(format!(
                            "the rows sum to {total} with warm-up, the server's counter rose by {rise}"
                        ));
                    }
                }
                (ServerCounter::Rose(_), _) => {
                    accounts.push_str("; the counter cannot be compared: not every row is ok");
                }
                (ServerCounter::BeganAnew, _) => wrong.push(format!(
                    "the server's counter {counter} fell between two scrapes: a server began anew"
                )),
                (ServerCounter::Unknown, _) if counter.is_empty() => {
                    accounts.push_str("; the server's counter is unknown");
                }
                (ServerCounter::Unknown, _) => {
                    unseen = true;
                    accounts.push_str(&format!(
                        "; the counter {counter} was not scraped from every server before the \
                         first request and after the last"
                    ));
                }
            }
            let observed = if wrong.is_empty() {
                accounts
            } else {
                wrong.join("; ")
            };
            if ok.is_empty() {
                return Assessment::not_judged("no ok row", "accounts that agree");
            }
            if wrong.is_empty() && unseen {
                return Assessment::not_judged(observed, "accounts that agree");
            }
            Assessment::new(wrong.is_empty(), observed, "accounts that agree").evidence(some(&bad))
        })
    }
}

/// Returns what is wrong with the accounts of single rows, and these rows.
fn wrong_rows(ok: &[&contract::Request]) -> (Vec<String>, Vec<i64>) {
    let mut wrong = Vec::new();
    let mut bad: Vec<i64> = Vec::new();
    let mut note = |ids: Vec<i64>, what: &str| {
        if !ids.is_empty() {
            wrong.push(format!("{} {what}", counted(ids.len(), "row")));
            bad.extend(ids);
        }
    };
    let ids = |keep: &dyn Fn(&contract::Request) -> bool| -> Vec<i64> {
        ok.iter()
            .filter(|r| keep(r))
            .map(|r| r.request_id)
            .collect()
    };
    note(ids(&|r| r.output_tokens.is_none()), "without a count");
    note(
        ids(&|r| r.tokens_agree == Some(false)),
        "where usage and timings disagree",
    );
    note(
        ids(&|r| r.silent_events > Some(0)),
        "with events without text of which no count tells the tokens",
    );
    // A chunk carries at least one token, whatever its text; a hidden token has no chunk.
    let more_chunks = |r: &contract::Request, without: i64| {
        r.chunks
            .zip(r.output_tokens)
            .is_some_and(|(c, n)| c > n - without)
    };
    note(ids(&|r| more_chunks(r, 0)), "with more chunks than tokens");
    note(
        ids(&|r| !more_chunks(r, 0) && more_chunks(r, r.hidden_tokens())),
        "with more chunks than tokens besides reasoning, of which no text came",
    );
    (wrong, bad)
}

/// Returns the counter that the definition of the cell's engine names. Without a definition, returns llama.cpp's if it
/// was scraped.
fn named(cell: &Cell<'_>, rows: &contract::CellRows) -> Option<String> {
    let server = cell.server.as_ref();
    let name = server.and_then(|s| s.descriptor["counters"]["generated-tokens"].as_str());
    if let Some(name) = name {
        return Some(name.to_owned());
    }
    let names = rows.server_metrics.as_ref()?.text("name").ok()?;
    names
        .contains(&Some(LLAMA_CPP))
        .then(|| LLAMA_CPP.to_owned())
}

const LLAMA_CPP: &str = "llamacpp:tokens_predicted_total";

fn total_of(ok: &[&contract::Request]) -> i64 {
    ok.iter().filter_map(|r| r.output_tokens).sum()
}
