//! A run from a command line, without an experiment: its settings in the words of an experiment, and the server at a
//! URL.

use std::path::{Path, PathBuf};

use net::{ApiKey, TlsError};
use serde_json::{Map, Value, json};

use crate::models::{ModelsError, list_models};
use crate::run::{LoadedServer, Target};
use crate::settings::{Settings, WorkloadChoice};
use crate::wire::{Address, AddressError};
use crate::workload::{Count, Output, OutputMode, PromptSource, Range};
use contract::Api;

/// The default number of requests, unless there are more clients.
const REQUESTS: u64 = 64;

/// The default number of requests of each probe of a search.
const REQUESTS_OF_A_PROBE: u64 = 400;

/// When requests arrive.
#[derive(Clone, Debug)]
pub enum DirectArrival {
    /// When a client becomes free.
    ClosedLoop {
        /// Clients, each with one request at a time.
        clients: u32,
    },
    /// At exponential gaps.
    Poisson {
        /// Requests per second.
        rate: f64,
    },
    /// At gamma gaps.
    Gamma {
        /// Requests per second.
        rate: f64,
        /// The shape; 1 is Poisson.
        burstiness: f64,
    },
    /// At equal gaps.
    Constant {
        /// Requests per second.
        rate: f64,
    },
    /// At one rate after another: requests per second, seconds.
    Steps(Vec<(f64, f64)>),
    /// At a rate that changes evenly.
    Ramp {
        /// Requests per second at the start.
        from: f64,
        /// Requests per second at the end.
        to: f64,
        /// How long the change takes.
        seconds: f64,
    },
    /// As in a recording.
    Trace {
        /// The file.
        file: String,
        /// How many times faster than recorded.
        speed: f64,
    },
    /// All at once.
    Burst,
}

/// The source of the prompts.
#[derive(Clone, Debug)]
pub enum DirectPrompts {
    /// Random words, this many.
    Words(u32, u32),
    /// Random words of this many tokens.
    Tokens {
        /// The fewest.
        from: u32,
        /// The most.
        to: u32,
        /// A `tokenizer.json`. Without it, the server counts.
        tokenizer: Option<String>,
    },
    /// A workload by name.
    Named(String),
    /// The prompts of a file, as [`dataset_prompts`](crate::dataset_prompts) finds them.
    Dataset(Value),
    /// Prompts with the lengths of the arrivals' trace, or the shipped workload `short-decode`.
    Default,
}

/// The search for the highest level that meets the bounds.
#[derive(Clone, Debug)]
pub struct DirectSearch {
    /// The highest level to try.
    pub up_to: f64,
    /// The share of requests that must meet the bounds.
    pub attainment: f64,
    /// How close the levels that meet and miss the bounds must come.
    pub resolution: f64,
    /// The longest probe.
    pub longest: String,
    /// Bounds by metric, in ms.
    pub bounds: Vec<(String, f64)>,
}

/// A run as the command line requests it. Time spans are texts such as `10 s`.
#[derive(Clone, Debug)]
pub struct DirectLoad {
    /// When requests arrive.
    pub arrival: DirectArrival,
    /// The source of the prompts.
    pub prompts: DirectPrompts,
    /// The number of output tokens to request; by default the workload's.
    pub output_tokens: Option<(u32, u32)>,
    /// Measured requests; by default a fixed number, or the number that the arrivals determine.
    pub requests: Option<u64>,
    /// How long new requests are begun, such as `30 s`.
    pub duration: Option<String>,
    /// The most requests in flight for open arrivals.
    pub max_in_flight: Option<u32>,
    /// The processes that send.
    pub generators: u32,
    /// Requests before the measured ones.
    pub warmup: u64,
    /// Whether answers are streamed.
    pub streamed: bool,
    /// The limit for connecting.
    pub connect_timeout: String,
    /// The limit for the first token.
    pub first_token_timeout: String,
    /// The limit between tokens.
    pub inter_token_timeout: String,
    /// The limit for a whole request.
    pub total_timeout: String,
    /// How long all streams may be silent.
    pub heartbeat: String,
    /// The sampling interval.
    pub telemetry_interval: String,
    /// The source of GPU samples.
    pub gpu: String,
    /// The power below which a silent server counts as hung.
    pub hung_below_w: Option<f64>,
    /// The search, if requested.
    pub search: Option<DirectSearch>,
}

impl DirectLoad {
    /// Returns the stage that an experiment would declare.
    pub fn stage(&self) -> Value {
        let mut stage = json!({
            "kind": "load",
            "workload": self.workload(),
            "arrival": self.arrival(),
            "warmup": self.warmup,
            "delivery": if self.streamed { "streamed" } else { "whole" },
            "timeouts": {
                "connect": self.connect_timeout,
                "first-token": self.first_token_timeout,
                "inter-token": self.inter_token_timeout,
                "total": self.total_timeout,
            },
            "heartbeat": self.heartbeat,
            "telemetry": { "interval": self.telemetry_interval, "gpu": self.gpu },
        });
        if let Some(watts) = self.hung_below_w {
            stage["telemetry"]["hung-below-w"] = json!(watts);
        }
        if let Some(search) = &self.search {
            let bounds: Map<String, Value> = search
                .bounds
                .iter()
                .map(|(name, ms)| (format!("{}-ms", name.replace('_', "-")), json!(ms)))
                .collect();
            stage["search"] = json!({
                "up-to": search.up_to, "bounds": bounds,
                "attainment": search.attainment, "resolution": search.resolution,
                "longest": search.longest,
            });
        }
        if let Some(duration) = &self.duration {
            stage["duration"] = json!(duration);
        }
        if let Some(most) = self.max_in_flight {
            stage["max-in-flight"] = json!(most);
        }
        if self.generators > 1 {
            stage["generators"] = json!(self.generators);
        }
        if let Some(requests) = self.requests.or_else(|| self.default_requests()) {
            stage["requests"] = json!(requests);
        }
        stage
    }

    /// Sets the number of output tokens in checked settings, which already contain the workload.
    pub fn apply_output(&self, settings: &mut Settings) {
        if let (Some((from, to)), Some(WorkloadChoice::Inline(workload))) =
            (self.output_tokens, &mut settings.workload)
        {
            workload.output = Output {
                tokens: if from == to {
                    Count::Fixed(from)
                } else {
                    Count::Range(Range { from, to })
                },
                mode: OutputMode::Exact,
                // As in vLLM and SGLang, an option is for all requests.
                replaces_recorded: workload.prompts.has_lengths(),
            };
            if let PromptSource::Mixture(parts) = &mut workload.prompts {
                for part in parts {
                    part.output = None;
                }
            }
        }
    }

    /// Steps, ramps, traces and durations determine the number of requests themselves.
    fn default_requests(&self) -> Option<u64> {
        match (&self.arrival, &self.search) {
            (_, None) if self.duration.is_some() => None,
            (
                DirectArrival::Steps(_) | DirectArrival::Ramp { .. } | DirectArrival::Trace { .. },
                _,
            ) => None,
            (_, Some(_)) => Some(REQUESTS_OF_A_PROBE),
            // Each client needs a request to send.
            (DirectArrival::ClosedLoop { clients }, None) => {
                Some(REQUESTS.max(u64::from(*clients)))
            }
            (_, None) => Some(REQUESTS),
        }
    }

    fn arrival(&self) -> Value {
        match &self.arrival {
            DirectArrival::ClosedLoop { clients } => {
                json!({ "closed-loop": { "clients": clients } })
            }
            DirectArrival::Poisson { rate } => json!({ "poisson": { "rate": rate } }),
            DirectArrival::Gamma { rate, burstiness } => {
                json!({ "gamma": { "rate": rate, "burstiness": burstiness } })
            }
            DirectArrival::Constant { rate } => json!({ "constant": { "rate": rate } }),
            DirectArrival::Steps(levels) => {
                let levels = levels
                    .iter()
                    .map(|(rate, seconds)| json!({ "rate": rate, "seconds": seconds }));
                json!({ "steps": { "levels": levels.collect::<Vec<_>>() } })
            }
            DirectArrival::Ramp { from, to, seconds } => {
                json!({ "ramp": { "from": from, "to": to, "seconds": seconds } })
            }
            DirectArrival::Trace { file, speed } => {
                json!({ "trace": { "file": file, "speed": speed } })
            }
            DirectArrival::Burst => json!("burst"),
        }
    }

    fn workload(&self) -> Value {
        let generated = |prompts: Value| {
            json!({
                "prompts": prompts,
                "output": { "tokens": 64, "mode": "exact" },
                "sampling": { "temperature": 0, "seed": 1 },
            })
        };
        match (&self.prompts, &self.arrival) {
            (
                DirectPrompts::Tokens {
                    from,
                    to,
                    tokenizer,
                },
                _,
            ) => {
                let length = json!({ "tokens": { "from": from, "to": to } });
                let mut workload = generated(json!({ "words": { "length": length } }));
                workload["tokenizer"] = match tokenizer {
                    Some(file) => json!({ "file": file }),
                    None => json!({ "server": {} }),
                };
                workload
            }
            (DirectPrompts::Words(from, to), _) => {
                generated(json!({ "words": { "length": { "from": from, "to": to } } }))
            }
            (DirectPrompts::Dataset(prompts), _) => generated(prompts.clone()),
            (DirectPrompts::Named(name), _) => json!(name),
            (DirectPrompts::Default, DirectArrival::Trace { file, .. }) => {
                generated(json!({ "trace": { "file": file } }))
            }
            (DirectPrompts::Default, _) => json!("short-decode"),
        }
    }
}

/// A server as the command line names it.
#[derive(Clone, Debug)]
pub struct DirectServer<'a> {
    /// Its base URL. Users of other tools end it with `/v1`.
    pub url: &'a str,
    /// A file with the only trusted certificates.
    pub ca_file: Option<&'a Path>,
    /// The model; by default the first that the server lists.
    pub model: Option<&'a str>,
    /// The API of the requests.
    pub api: Api,
    /// The key that it requires.
    pub api_key: Option<ApiKey>,
    /// The path of its Prometheus metrics, if they are sampled.
    pub metrics: Option<&'a str>,
    /// Additional headers of every request.
    pub headers: &'a [(String, String)],
}

/// Why the server at a URL cannot be loaded.
#[derive(Debug)]
pub enum TargetError {
    /// The URL is not a base URL: the user's mistake.
    Url(AddressError),
    /// The URL is that of an endpoint: the user's mistake.
    Endpoint {
        /// As given.
        url: String,
        /// The right base URL.
        base: String,
    },
    /// The URL's host has no address.
    Host(String),
    /// The server cannot be trusted, or does not speak TLS.
    Tls(String, TlsError),
    /// No server takes connections there.
    Unreachable(String, String),
    /// The server does not name a model, and neither does the user.
    NoModel(String, ModelsError),
    /// One of several servers does not list the model that the first serves.
    OtherModels {
        /// The server.
        url: String,
        /// The model of the first.
        model: String,
        /// The models that it lists.
        listed: Vec<String>,
    },
    /// Two of several servers are the same: the user's mistake.
    Twice(String),
    /// Two of several servers have different schemes: the user's mistake.
    Schemes(String, String),
}

impl std::fmt::Display for TargetError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Url(error) => write!(f, "{error}"),
            Self::Host(message) => f.write_str(message),
            Self::Endpoint { url, .. } => {
                write!(f, "{url}: give the server's base URL, without an endpoint")
            }
            Self::Tls(url, error) => write!(f, "{url}: TLS: {}", error.reason),
            Self::Unreachable(url, error) => write!(f, "cannot connect to {url}: {error}"),
            Self::NoModel(url, error) => write!(f, "{url} does not list its models: {error}"),
            Self::OtherModels { url, model, listed } => {
                let listed = listed.join(", ");
                write!(
                    f,
                    "{url} lists the models {listed}, and not `{model}` as the first server does"
                )
            }
            Self::Twice(url) => write!(f, "{url} is given twice"),
            Self::Schemes(one, other) => write!(
                f,
                "{one} and {other} have different schemes, and servers that are loaded together need the same one"
            ),
        }
    }
}

impl std::error::Error for TargetError {}

impl DirectServer<'_> {
    /// Returns the target of the requests, after checking that a server exists there.
    ///
    /// # Errors
    /// If no server exists there, or it cannot be loaded.
    pub fn target(self) -> Result<Target, TargetError> {
        let base_url = base_of(self.url)?;
        let models = list_models(&base_url, self.ca_file, self.api_key.as_ref());
        let model = match (models, self.model) {
            (Err(ModelsError::Url(error)), _) => return Err(TargetError::Url(error)),
            (Err(ModelsError::Host(message)), _) => return Err(TargetError::Host(message)),
            (Err(ModelsError::Tls(error)), _) => return Err(TargetError::Tls(base_url, error)),
            (Err(ModelsError::Unreachable(error)), _) => {
                return Err(TargetError::Unreachable(base_url, error));
            }
            (_, Some(model)) => model.to_owned(),
            (Ok(models), None) => models.into_iter().next().unwrap_or_default(),
            (Err(_), None) if !needs_model(self.api) => String::new(),
            (Err(error), None) => return Err(TargetError::NoModel(base_url, error)),
        };
        Ok(Target {
            ca_file: self.ca_file.map(PathBuf::from),
            headers: self.headers.to_vec(),
            api_key: self.api_key,
            metrics: self.metrics.map(str::to_owned),
            ..Target::new(base_url, model, self.api)
        })
    }
}

/// Returns the target of requests that go to several servers in turn, after checking that all of them exist and serve
/// the same model. If one answer is enough, the first server gives it.
///
/// # Errors
/// If a server cannot be loaded, or the servers differ; with the URL concerned.
pub fn target_in_turn(
    first: &DirectServer<'_>,
    further: &[&str],
) -> Result<Target, (String, TargetError)> {
    let at = |url: &str| {
        let url = url.to_owned();
        move |error: TargetError| (url, error)
    };
    let target_of = |url: &str| -> Result<(String, Address), (String, TargetError)> {
        let base = base_of(url).map_err(at(url))?;
        let address = Address::parse(&base).map_err(|e| at(url)(TargetError::Url(e)))?;
        Ok((base, address))
    };
    let (base, address) = target_of(first.url)?;
    let mut servers = vec![LoadedServer {
        name: base.clone(),
        base_url: base.clone(),
    }];
    for url in further {
        let (other, to) = target_of(url)?;
        if to.scheme != address.scheme {
            return Err(at(url)(TargetError::Schemes(base, other)));
        }
        if servers.iter().any(|server| server.base_url == other) {
            return Err(at(url)(TargetError::Twice(other)));
        }
        servers.push(LoadedServer {
            name: other.clone(),
            base_url: other,
        });
    }
    let given = first.model;
    let target = first.clone().target().map_err(at(first.url))?;
    let lists = |url: &str| list_models(url, first.ca_file, first.api_key.as_ref());
    for (url, server) in further.iter().zip(&servers[1..]) {
        let one = DirectServer {
            url,
            model: Some(&target.model),
            ..first.clone()
        };
        one.target().map_err(at(url))?;
        // A model that the user names need not be listed, for example a LoRA adapter.
        let binding = given.is_none() || lists(&base).is_ok_and(|all| all.contains(&target.model));
        if let Ok(listed) = lists(&server.base_url)
            && binding
            && !listed.contains(&target.model)
        {
            return Err(at(url)(TargetError::OtherModels {
                url: server.base_url.clone(),
                model: target.model.clone(),
                listed,
            }));
        }
    }
    Ok(target.in_turn(servers))
}

/// Returns whether a text is the URL of a server.
pub fn is_address(url: &str) -> bool {
    Address::parse(url).is_ok()
}

/// Users of other tools give the base of the OpenAI API, but our paths already begin with `/v1`.
fn base_of(url: &str) -> Result<String, TargetError> {
    let url = url.trim_end_matches('/');
    let endpoint = ENDPOINTS.iter().find_map(|end| url.strip_suffix(end));
    match endpoint {
        Some(base) if base.rsplit('/').next() != Some("") => Err(TargetError::Endpoint {
            url: url.to_owned(),
            base: base.strip_suffix("/v1").unwrap_or(base).to_owned(),
        }),
        _ => Ok(url.strip_suffix("/v1").unwrap_or(url).to_owned()),
    }
}

/// Endpoints of inference servers. Users sometimes give one of them instead of the base URL.
const ENDPOINTS: [&str; 20] = [
    "/chat/completions",
    "/completions",
    "/completion",
    "/v1/responses",
    "/v1/messages",
    "/v1/embeddings",
    "/v1/rerank",
    "/v1/models",
    "/v1/chat",
    "/generate",
    "/generate_stream",
    "/api/chat",
    "/api/tags",
    "/tokenize",
    "/metrics",
    "/health",
    "/healthz",
    "/get_server_info",
    "/docs",
    "/openapi.json",
];

fn needs_model(api: Api) -> bool {
    matches!(
        api,
        Api::OpenaiCompletions
            | Api::OpenaiChat
            | Api::OllamaGenerate
            | Api::OllamaChat
            | Api::OpenaiResponses
            | Api::AnthropicMessages
            | Api::OpenaiEmbeddings
            | Api::Rerank
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> DirectLoad {
        let span = || "1 s".to_owned();
        DirectLoad {
            arrival: DirectArrival::ClosedLoop { clients: 2 },
            prompts: DirectPrompts::Default,
            output_tokens: None,
            requests: None,
            duration: None,
            max_in_flight: None,
            generators: 1,
            warmup: 0,
            streamed: true,
            connect_timeout: span(),
            first_token_timeout: span(),
            inter_token_timeout: span(),
            total_timeout: span(),
            heartbeat: span(),
            telemetry_interval: span(),
            gpu: "none".to_owned(),
            hung_below_w: None,
            search: None,
        }
    }

    #[test]
    fn arrivals_that_say_how_many_requests_there_are_get_no_default() {
        assert_eq!(plain().stage()["requests"], 64);
        let steps = DirectArrival::Steps(vec![(1.0, 2.0)]);
        let steps = DirectLoad {
            arrival: steps,
            ..plain()
        };
        assert!(steps.stage().get("requests").is_none());
        let asked = DirectLoad {
            requests: Some(7),
            ..steps
        };
        assert_eq!(asked.stage()["requests"], 7);
        let timed = DirectLoad {
            duration: Some("30 s".to_owned()),
            max_in_flight: Some(8),
            ..plain()
        };
        let stage = timed.stage();
        assert!(stage.get("requests").is_none());
        assert_eq!(
            (&stage["duration"], &stage["max-in-flight"]),
            (&json!("30 s"), &json!(8))
        );
    }

    #[test]
    fn prompts_are_as_long_as_the_trace_says_unless_others_are_asked_for() {
        let trace = || DirectArrival::Trace {
            file: "t.jsonl".to_owned(),
            speed: 1.0,
        };
        let load = DirectLoad {
            arrival: trace(),
            ..plain()
        };
        assert_eq!(
            load.stage()["workload"]["prompts"]["trace"]["file"],
            "t.jsonl"
        );
        let words = DirectLoad {
            prompts: DirectPrompts::Words(3, 4),
            ..load
        };
        let length = &words.stage()["workload"]["prompts"]["words"]["length"];
        assert_eq!(*length, json!({ "from": 3, "to": 4 }));
    }

    #[test]
    fn the_base_of_a_url_is_found_and_an_endpoint_refused() {
        assert_eq!(base_of("http://a/v1/").unwrap(), "http://a");
        assert_eq!(base_of("http://a").unwrap(), "http://a");
        let error = base_of("http://a/v1/chat/completions").unwrap_err();
        assert!(matches!(error, TargetError::Endpoint { base, .. } if base == "http://a"));
        for endpoint in [
            "/v1/models",
            "/generate",
            "/api/chat",
            "/v1/embeddings/",
            "/metrics",
        ] {
            let error = base_of(&format!("http://a/route{endpoint}")).unwrap_err();
            assert!(
                matches!(error, TargetError::Endpoint { base, .. } if base == "http://a/route")
            );
        }
        // A host or a route may have such a name.
        for base in [
            "http://metrics",
            "http://a/v1/inference",
            "http://a/generate/llama",
        ] {
            assert_eq!(base_of(base).unwrap(), base);
        }
    }
}
