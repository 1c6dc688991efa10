//! Readiness: the health endpoint answers, the model list contains the model, and one token was
//! generated. All three are required, and no step waits for a fixed time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use contract::Api;
use engines::Engine;
use net::{Answer, Ask, HttpError, Site, TlsError};
use pipeline::Json;
use serde_json::json;

use crate::start::Readiness;

const POLL: Duration = Duration::from_millis(25);
const PROBE_LIMIT: Duration = Duration::from_secs(10);
/// How long a server that was already running may answer every request for a token with 500.
const FAILING_LIMIT: Duration = match cfg!(test) {
    true => Duration::from_millis(300),
    false => Duration::from_secs(10),
};

/// How long a server that was just started may list other models, before it counts as another server.
const OTHER_LIMIT: Duration = match cfg!(test) {
    true => Duration::from_millis(300),
    false => Duration::from_secs(5),
};

/// The reason why a server did not become ready.
#[derive(Debug, PartialEq)]
pub(crate) enum NotReady<E> {
    /// It was not ready in time; holds how far it came.
    Late(String),
    /// It answers, but not as the requested server would.
    Wrong(String),
    /// It does not serve the model.
    OtherModel(String),
    /// It runs but lacks a path, if it was just started also at the end of its time; holds the key of the definition that
    /// names the path, and the answer.
    NoPath(&'static str, String),
    /// It refuses access (401, 403).
    Refused(String),
    /// It is not trustworthy or does not speak TLS. Waiting does not help.
    Untrusted(TlsError),
    /// The caller's watch ended the wait.
    Ended(E),
}

impl<E> NotReady<E> {
    /// Returns what to do about an engine that Benchtrail started.
    pub(crate) fn remedy_at_start(&self, engine: &Engine) -> Option<String> {
        match self {
            // Without the list, nothing proves that the started engine answers.
            Self::NoPath("models", _) => Some(
                "write the path of its list of models; if it has none, write `endpoints: {models: null}` and \
                 `launch: {named-as-given: true}`"
                    .to_owned(),
            ),
            Self::NoPath(key, _) => Some(path_remedy(key, engine)),
            Self::OtherModel(_) => Some(
                "let the engine serve the model under the name that `{model-name}` stands for, with an argument of its \
                 definition, or write the engine's name for it as `served-name` in the model's definition"
                    .to_owned(),
            ),
            Self::Refused(_) => Some(
                "start it without a key, with its arguments or variables: Benchtrail sends none to a server that it starts"
                    .to_owned(),
            ),
            Self::Late(_) | Self::Wrong(_) | Self::Untrusted(_) | Self::Ended(_) => None,
        }
    }
}

/// Returns what to do if a server lacks the path that a key of its definition names.
pub(crate) fn path_remedy(key: &str, engine: &Engine) -> String {
    let api = engine.api.word();
    match key {
        "health" => {
            "write the path of its health check, or `endpoints: {health: null}` if it has none"
                .to_owned()
        }
        "models" => {
            "write the path of its list of models, or `endpoints: {models: null}` if it has none"
                .to_owned()
        }
        _ => format!(
            "it does not speak `{api}` there: correct `api:` in the engine's definition, or the path in `endpoints:`"
        ),
    }
}

/// A server that is ready.
#[derive(Debug, PartialEq)]
pub(crate) struct Ready {
    /// The name the model is served under.
    pub(crate) model: String,
    /// When its health check answered; none without one.
    pub(crate) healthy: Option<Instant>,
    /// When its list of models named the model; none if the list was not asked for.
    pub(crate) listed: Option<Instant>,
}

/// The server that the wait is for.
pub(crate) struct Wanted<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) site: &'a Site,
    /// The names under which the model may be served, most likely first.
    pub(crate) models: &'a [String],
    pub(crate) limit: Duration,
    pub(crate) proof: Readiness,
    pub(crate) stage_of_life: Life,
}

/// The state of a server when the wait begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// It was just started: what is missing may still come.
    Starting,
    /// It was already running: a missing path will not appear.
    Running,
}

/// What was seen since the watch over a wait was last called.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seen<'a> {
    /// Nothing new.
    Nothing,
    /// The server answered the request for a token with 500. One that cannot load its model may answer so for ever.
    Failing(&'a str),
    /// The server is not ready yet, for this reason.
    NotYet(&'a str),
}

/// Ends the wait with an error, if there is a reason. It is called repeatedly.
pub(crate) type Watch<'a, E> = dyn FnMut(Seen<'_>) -> Result<(), E> + 'a;

/// Says now and then that a server is still awaited.
pub(crate) struct Notices {
    next: Duration,
}

impl Notices {
    /// Begins with the first notice after 5 s. The time between two notices grows.
    pub(crate) fn new() -> Self {
        Self {
            next: Duration::from_secs(5),
        }
    }

    /// Returns whether to say it now, after this time.
    pub(crate) fn is_due(&mut self, waited: Duration) -> bool {
        let is_due = waited >= self.next;
        if is_due {
            self.next = 2 * waited;
        }
        is_due
    }
}

/// Waits until the server has generated one token, or gives the proof that is asked for.
pub(crate) fn wait<E>(wanted: &Wanted<'_>, watch: &mut Watch<'_, E>) -> Result<Ready, NotReady<E>> {
    let deadline = Instant::now() + wanted.limit;
    let endpoints = &wanted.engine.endpoints;
    let mut ready = Ready {
        model: wanted.models.first().cloned().unwrap_or_default(),
        healthy: None,
        listed: None,
    };
    if let Some(health) = &endpoints.health {
        poll(wanted, ("health", health), None, deadline, watch)?;
        ready.healthy = Some(Instant::now());
    }
    if wanted.proof == Readiness::Health {
        return match &endpoints.health {
            Some(_) => Ok(ready),
            None => Err(NotReady::Wrong(
                "`ready: health` needs a health check, but its definition has none".to_owned(),
            )),
        };
    }
    if let Some(path) = &endpoints.models {
        ready.model = await_model(wanted, path, deadline, watch)?;
        ready.listed = Some(Instant::now());
    }
    if wanted.proof == Readiness::Models {
        return Ok(ready);
    }
    let (path, body) = one_token(wanted.engine, &ready.model).map_err(NotReady::Wrong)?;
    let key = match wanted.engine.api {
        Api::OpenaiCompletions => "completions",
        Api::OpenaiChat => "chat",
        _ => "api",
    };
    let answer = poll(wanted, (key, &path), Some(&body), deadline, watch)?;
    if generated(wanted.engine.api, &answer) {
        return Ok(ready);
    }
    let start = answer.start();
    // A proxy may stream whatever was asked for.
    let what = match start.trim_start().starts_with("data:") {
        true => "answered with a stream of events, although the request did not ask for one",
        false => "answered without a generated token",
    };
    Err(NotReady::Wrong(format!("{path} {what}: `{start}`")))
}

/// Repeats the request until the answer is 200. A redirect is permanent, and so is a client error (4xx) other than 404, 408
/// and 429. A server that was already running may answer with 500 for [`FAILING_LIMIT`]. `key` is the definition's name for
/// the path.
fn poll<E>(
    wanted: &Wanted<'_>,
    (key, path): (&'static str, &str),
    body: Option<&Json>,
    deadline: Instant,
    watch: &mut Watch<'_, E>,
) -> Result<Answer, NotReady<E>> {
    let ask = body.map_or_else(|| Ask::get(path), |body| Ask::post(path, body));
    let mut failing: Option<Instant> = None;
    loop {
        watch(Seen::Nothing).map_err(NotReady::Ended)?;
        let left = deadline.saturating_duration_since(Instant::now());
        // The first token may be slow if weights are loaded at the first request.
        let limit = if body.is_some() {
            left
        } else {
            left.min(PROBE_LIMIT)
        };
        let answer = wanted
            .site
            .ask_while(&ask, limit, &mut || watch(Seen::Nothing));
        let answer = answer.map_err(NotReady::Ended)?;
        if !matches!(&answer, Ok(answer) if answer.status == 500) {
            failing = None;
        }
        // A server answers 404 also to a request that names a model it does not have.
        let names_model =
            |answer: &Answer| body.is_some() && answer.summary().to_lowercase().contains("model");
        let lacks_path =
            matches!(&answer, Ok(answer) if answer.status == 404 && !names_model(answer));
        let seen = match answer {
            Ok(answer) if answer.status == 200 => return Ok(answer),
            Ok(answer) => {
                let reason = answer.summary();
                match answer.status {
                    404 | 405 if wanted.stage_of_life == Life::Running => {
                        return Err(NotReady::NoPath(key, reason));
                    }
                    300..400 => return Err(NotReady::Wrong(format!("{reason}, a redirect"))),
                    404 | 408 | 429 => reason,
                    401 | 403 => return Err(NotReady::Refused(reason)),
                    400..500 => return Err(NotReady::Wrong(reason)),
                    500 if body.is_some() => {
                        watch(Seen::Failing(&reason)).map_err(NotReady::Ended)?;
                        let since = *failing.get_or_insert_with(Instant::now);
                        if wanted.stage_of_life == Life::Running && since.elapsed() > FAILING_LIMIT
                        {
                            return Err(NotReady::Wrong(reason));
                        }
                        reason
                    }
                    _ => reason,
                }
            }
            Err(HttpError::Tls(error)) => return Err(NotReady::Untrusted(error)),
            Err(error) => format!("{path}: {error}"),
        };
        if Instant::now() + POLL >= deadline {
            return Err(match lacks_path {
                true => NotReady::NoPath(key, seen),
                false => NotReady::Late(seen),
            });
        }
        watch(Seen::NotYet(&seen)).map_err(NotReady::Ended)?;
        std::thread::sleep(POLL);
    }
}

/// Repeats the request for the list of models until the list names the model. A server that was just started may fill its list
/// later, such as one whose workers register with it. It is another server if it lists other models for [`OTHER_LIMIT`].
fn await_model<E>(
    wanted: &Wanted<'_>,
    path: &str,
    deadline: Instant,
    watch: &mut Watch<'_, E>,
) -> Result<String, NotReady<E>> {
    let mut others: Option<(String, Instant)> = None;
    loop {
        let answer = poll(wanted, ("models", path), None, deadline, watch)?;
        let reason = match listed(wanted, &answer)? {
            Listed::Model(name) => return Ok(name),
            Listed::Nothing(reason) if wanted.stage_of_life == Life::Starting => {
                others = None;
                reason
            }
            Listed::Others(reason) if wanted.stage_of_life == Life::Starting => {
                let first = others.take().filter(|(before, _)| *before == reason);
                let since = first.map_or_else(Instant::now, |(_, since)| since);
                if since.elapsed() > OTHER_LIMIT {
                    return Err(NotReady::OtherModel(reason));
                }
                others = Some((reason.clone(), since));
                reason
            }
            Listed::Nothing(reason) | Listed::Others(reason) => {
                return Err(NotReady::OtherModel(reason));
            }
        };
        if Instant::now() + POLL >= deadline {
            return Err(NotReady::Late(reason));
        }
        std::thread::sleep(POLL);
    }
}

/// What a list of models says about the model.
enum Listed {
    /// It names the model, under this name.
    Model(String),
    /// It is empty; holds the reason for a message.
    Nothing(String),
    /// It names only other models; holds the reason for a message.
    Others(String),
}

fn listed<E>(wanted: &Wanted<'_>, answer: &Answer) -> Result<Listed, NotReady<E>> {
    let list = answer
        .json()
        .map_err(|e| NotReady::Wrong(format!("the model list is {e}")))?;
    let served: Vec<&str> = list["data"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|m| m["id"].as_str())
        .collect();
    match wanted
        .models
        .iter()
        .find(|name| served.contains(&name.as_str()))
    {
        Some(name) => Ok(Listed::Model(name.clone())),
        None => {
            let mut names: Vec<&str> = wanted.models.iter().map(String::as_str).collect();
            names.dedup();
            let names = pipeline::suggest::either(&names);
            Ok(if served.is_empty() {
                let reason = "the server at this address lists no model, and so not";
                Listed::Nothing(format!("{reason} {names}"))
            } else {
                let served = wanted.site.mask(&served.join("`, `"));
                let reason = format!("the server at this address serves `{served}`, not {names}");
                Listed::Others(reason)
            })
        }
    }
}

/// Returns the path and the body of a request for one token.
fn one_token(engine: &Engine, model: &str) -> Result<(String, Json), String> {
    let prompt = &engine.ready.prompt;
    let messages = json!([{"role": "user", "content": prompt}]);
    let ollama = json!({"num_predict": 1, "temperature": 0});
    let body = match engine.api {
        Api::OpenaiCompletions => {
            json!({"model": model, "prompt": prompt, "max_tokens": 1, "temperature": 0})
        }
        Api::OpenaiChat => {
            json!({"model": model, "messages": messages, "max_tokens": 1, "temperature": 0})
        }
        Api::LlamaCppCompletion => json!({"prompt": prompt, "n_predict": 1, "temperature": 0}),
        Api::TgiGenerate => {
            json!({"inputs": prompt, "parameters": {"max_new_tokens": 1, "details": true}})
        }
        Api::SglangGenerate => {
            json!({"text": prompt, "sampling_params": {"max_new_tokens": 1, "temperature": 0}})
        }
        Api::OllamaGenerate => {
            json!({"model": model, "prompt": prompt, "stream": false, "options": ollama})
        }
        Api::OllamaChat => {
            json!({"model": model, "messages": messages, "stream": false, "options": ollama})
        }
        Api::OpenaiResponses => {
            json!({"model": model, "input": prompt, "max_output_tokens": 16, "store": false})
        }
        Api::AnthropicMessages => json!({"model": model, "messages": messages, "max_tokens": 1}),
        Api::OpenaiEmbeddings => json!({"model": model, "input": prompt}),
        Api::Rerank => json!({"model": model, "query": prompt, "documents": [prompt]}),
    };
    let path = match engine.api {
        Api::OpenaiCompletions => engine.endpoints.completions.clone(),
        Api::OpenaiChat => engine.endpoints.chat.clone(),
        api => Some(api.path(false).to_owned()),
    };
    let path = path.ok_or_else(|| format!("the API {} needs its endpoint", engine.api.word()))?;
    Ok((path, body))
}

/// Returns whether the server's own count shows that a token was generated. Without a count, the
/// answer must contain a choice or a text.
fn generated(api: Api, answer: &Answer) -> bool {
    let Ok(body) = answer.json() else {
        return false;
    };
    let (count, text) = match api {
        Api::OpenaiCompletions | Api::OpenaiChat => {
            let count = &body["usage"]["completion_tokens"];
            (
                count,
                body["choices"].as_array().is_some_and(|c| !c.is_empty()),
            )
        }
        Api::LlamaCppCompletion => (&body["tokens_predicted"], body["content"].is_string()),
        Api::TgiGenerate => {
            let count = &body["details"]["generated_tokens"];
            (count, body["generated_text"].is_string())
        }
        Api::SglangGenerate => {
            let count = &body["meta_info"]["completion_tokens"];
            (count, body["text"].is_string())
        }
        Api::OllamaGenerate => (&body["eval_count"], body["response"].is_string()),
        Api::OllamaChat => (&body["eval_count"], body["message"]["content"].is_string()),
        Api::OpenaiResponses | Api::AnthropicMessages => {
            let said = [&body["output"], &body["content"]];
            (
                &body["usage"]["output_tokens"],
                said.into_iter().any(Json::is_array),
            )
        }
        Api::OpenaiEmbeddings => (&Json::Null, body["data"].is_array()),
        Api::Rerank => (&Json::Null, body["results"].is_array()),
    };
    count.as_u64().map_or(text, |count| count >= 1)
}

/// Reads the limits of the running server. Returns them by name (null if the server does not report
/// one), with a warning for each limit that differs from the settings.
pub(crate) fn limits(
    engine: &Engine,
    site: &Site,
    settings: &BTreeMap<String, Json>,
) -> (BTreeMap<String, Json>, Vec<String>) {
    let mut values = BTreeMap::new();
    let mut warnings = Vec::new();
    for (name, limit) in &engine.limits {
        let value = match site.ask(&Ask::get(&limit.path), PROBE_LIMIT) {
            Ok(a) if a.status == 200 => {
                let value = a
                    .json()
                    .ok()
                    .and_then(|j| j.pointer(&limit.pointer).cloned());
                masked(value.unwrap_or_default(), site)
            }
            _ => Json::Null,
        };
        let promised = limit.promised(|name| settings.get(name));
        if value.is_null() {
            warnings.push(format!(
                "the server does not report its limit `{name}` ({})",
                limit.path
            ));
        } else if let Some(promised) = promised.filter(|p| value.as_u64() != Some(*p)) {
            warnings.push(format!(
                "the settings request {name} = {promised}, but the server reports {value}"
            ));
        }
        values.insert(name.replace('-', "_"), value);
    }
    (values, warnings)
}

/// Returns a value from the server in a form that may be stored.
pub(crate) fn masked(value: Json, site: &Site) -> Json {
    match value {
        Json::String(text) => site.mask(&text).into(),
        Json::Array(values) => values
            .into_iter()
            .map(|value| masked(value, site))
            .collect(),
        Json::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (site.mask(&name), masked(value, site)))
            .collect(),
        plain => plain,
    }
}

/// Returns the limits by name as the settings imply them; null if they do not.
pub(crate) fn promised(
    engine: &Engine,
    settings: &BTreeMap<String, Json>,
) -> BTreeMap<String, Json> {
    let limits = engine.limits.iter();
    limits
        .map(|(name, limit)| {
            (
                name.replace('-', "_"),
                limit.promised(|name| settings.get(name)).into(),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use net::ApiKey;

    /// A stub, not an engine: answers each path with the scripted statuses and bodies, then repeats
    /// the last one.
    struct Stub {
        url: String,
    }

    type Script = Vec<(&'static str, Vec<(u16, &'static str)>)>;

    impl Stub {
        fn new(mut script: Script) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    let mut stream = stream.unwrap();
                    let mut head = Vec::new();
                    let mut byte = [0];
                    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
                        head.push(byte[0]);
                    }
                    let head = String::from_utf8(head).unwrap();
                    let path = head.split(' ').nth(1).unwrap();
                    let answers = script.iter_mut().find(|(p, _)| *p == path);
                    let (status, body) =
                        answers.map_or(
                            (404, ""),
                            |(_, a)| if a.len() > 1 { a.remove(0) } else { a[0] },
                        );
                    let _ = write!(
                        stream,
                        "HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                        body.len()
                    );
                    // Read the request body before closing, or the answer is lost.
                    let length = head.lines().find_map(|l| {
                        l.to_lowercase()
                            .strip_prefix("content-length: ")?
                            .parse()
                            .ok()
                    });
                    let mut body = vec![0; length.unwrap_or(0)];
                    let _ = stream.read_exact(&mut body);
                }
            });
            Self { url }
        }
    }

    const MODELS: &str = r#"{"data":[{"id":"tiny"}]}"#;
    const TOKEN: &str = r#"{"choices":[{"text":"a"}],"usage":{"completion_tokens":1}}"#;

    fn engine() -> Engine {
        Engine::from_json(&json!({
            "title": "stub", "version": "1",
            "launch": {"program": {"installed": "none"}, "arguments": ["{port}"]},
            "settings": {
                "context": {"type": "integer", "default": 4096, "flags": ["{}"]},
                "parallel": {"type": "integer", "default": 8, "flags": ["{}"]},
            },
            "limits": {
                "context-per-slot": {"path": "/props", "pointer": "/n_ctx", "setting": "context", "divided-by": "parallel"},
            },
        }))
        .unwrap()
    }

    fn site(stub: &Stub) -> Site {
        Site::find(&stub.url, None, None).unwrap()
    }

    fn wait_for(script: Script, limit: Duration) -> Result<String, NotReady<()>> {
        wait_as(Life::Starting, script, limit)
    }

    fn wait_as(
        stage_of_life: Life,
        script: Script,
        limit: Duration,
    ) -> Result<String, NotReady<()>> {
        ready(stage_of_life, script, limit).map(|ready| ready.model)
    }

    fn ready(stage_of_life: Life, script: Script, limit: Duration) -> Result<Ready, NotReady<()>> {
        let stub = Stub::new(script);
        let models = ["tiny".to_owned()];
        let wanted = Wanted {
            engine: &engine(),
            site: &site(&stub),
            models: &models,
            limit,
            proof: Readiness::Token,
            stage_of_life,
        };
        wait(&wanted, &mut |_| Ok(()))
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_server_that_is_loading_is_waited_for() {
        let script = vec![
            (
                "/health",
                vec![(503, "Loading"), (503, "Loading"), (200, "")],
            ),
            ("/v1/models", vec![(503, "Loading"), (200, MODELS)]),
            ("/v1/completions", vec![(200, TOKEN)]),
        ];
        assert_eq!(wait_for(script, LONG), Ok("tiny".to_owned()));
    }

    #[test]
    fn the_steps_to_readiness_are_told_in_their_order() {
        let before = Instant::now();
        let script = vec![
            ("/health", vec![(503, "Loading"), (200, "")]),
            ("/v1/models", vec![(200, MODELS)]),
            ("/v1/completions", vec![(200, TOKEN)]),
        ];
        let ready = ready(Life::Starting, script, LONG).unwrap();
        let (healthy, listed) = (ready.healthy.unwrap(), ready.listed.unwrap());
        assert!(before <= healthy && healthy <= listed && listed <= Instant::now());
    }

    #[test]
    fn a_healthy_server_that_generates_nothing_is_not_ready() {
        let none = r#"{"choices":[{"text":""}],"usage":{"completion_tokens":0}}"#;
        let script = vec![
            ("/health", vec![(200, "")]),
            ("/v1/models", vec![(200, MODELS)]),
            ("/v1/completions", vec![(200, none)]),
        ];
        assert!(
            matches!(wait_for(script, LONG), Err(NotReady::Wrong(e)) if e.contains("without a generated token"))
        );
    }

    #[test]
    fn a_server_that_always_streams_is_not_ready_and_the_reason_says_so() {
        let script = vec![
            ("/health", vec![(200, "")]),
            ("/v1/models", vec![(200, MODELS)]),
            (
                "/v1/completions",
                vec![(200, "data: {}\n\ndata: [DONE]\n\n")],
            ),
        ];
        assert!(
            matches!(wait_for(script, LONG), Err(NotReady::Wrong(e)) if e.contains("with a stream of events"))
        );
    }

    #[test]
    fn a_running_server_that_only_fails_is_not_waited_for_and_one_that_also_loads_is() {
        let script = |tokens| {
            vec![
                ("/health", vec![(200, "")]),
                ("/v1/models", vec![(200, MODELS)]),
                ("/v1/completions", tokens),
            ]
        };
        let fails = wait_as(Life::Running, script(vec![(500, "broken")]), LONG);
        assert!(
            matches!(&fails, Err(NotReady::Wrong(e)) if e.contains("broken")),
            "{fails:?}"
        );
        let mut tokens = [(500, "busy"), (503, "Loading")].repeat(20);
        tokens.push((200, TOKEN));
        let loads = wait_as(Life::Running, script(tokens), LONG);
        assert_eq!(loads, Ok("tiny".to_owned()));
    }

    #[test]
    fn a_wait_says_why_and_its_notices_become_rarer() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
        let site = Site::find(&format!("http://{}", free.unwrap()), None, None).unwrap();
        let models = ["tiny".to_owned()];
        let wanted = Wanted {
            engine: &engine(),
            site: &site,
            models: &models,
            limit: Duration::from_millis(200),
            proof: Readiness::Token,
            stage_of_life: Life::Running,
        };
        let mut reasons = Vec::new();
        let late: Result<Ready, NotReady<()>> = wait(&wanted, &mut |seen| {
            if let Seen::NotYet(reason) = seen {
                reasons.push(reason.to_owned());
            }
            Ok(())
        });
        assert!(matches!(late, Err(NotReady::Late(_))), "{late:?}");
        let first = reasons.first().unwrap();
        assert!(first.contains("refused"), "{first}");
        let mut notices = Notices::new();
        let due = (0..120).filter(|s| notices.is_due(Duration::from_secs(*s)));
        assert_eq!(due.collect::<Vec<_>>(), [5, 10, 20, 40, 80]);
    }

    #[test]
    fn a_redirect_is_refused_at_once() {
        let script = vec![
            ("/health", vec![(200, "")]),
            ("/v1/models", vec![(301, "")]),
        ];
        let Err(NotReady::Wrong(reason)) = wait_for(script, LONG) else {
            panic!("it was taken")
        };
        assert_eq!(reason, "/v1/models answered 301 without a body, a redirect");
    }

    const OTHER: &str = r#"{"data":[{"id":"other"}]}"#;

    #[test]
    fn a_server_of_another_model_is_refused() {
        let script = || {
            vec![
                ("/health", vec![(200, "")]),
                ("/v1/models", vec![(200, OTHER)]),
            ]
        };
        for life in [Life::Starting, Life::Running] {
            let Err(NotReady::OtherModel(reason)) = wait_as(life, script(), LONG) else {
                panic!("it was taken")
            };
            assert_eq!(
                reason,
                "the server at this address serves `other`, not `tiny`"
            );
        }
    }

    #[test]
    fn a_server_that_was_just_started_may_list_its_model_later() {
        let none = r#"{"data":[]}"#;
        let script = |list| {
            vec![
                ("/health", vec![(200, "")]),
                ("/v1/models", list),
                ("/v1/completions", vec![(200, TOKEN)]),
            ]
        };
        let list = || vec![(200, none), (200, OTHER), (200, none), (200, MODELS)];
        assert_eq!(wait_for(script(list()), LONG), Ok("tiny".to_owned()));
        let Err(NotReady::Late(reason)) =
            wait_for(script(vec![(200, none)]), Duration::from_millis(200))
        else {
            panic!("it was taken")
        };
        assert!(reason.contains("lists no model"), "{reason}");
        assert!(matches!(
            wait_as(Life::Running, script(list()), LONG),
            Err(NotReady::OtherModel(_))
        ));
    }

    #[test]
    fn a_server_without_models_is_refused_and_a_name_is_listed_once() {
        let stub = Stub::new(vec![
            ("/health", vec![(200, "")]),
            (
                "/v1/models",
                vec![(200, r#"{"object":"list","data":null}"#)],
            ),
        ]);
        let models = ["tiny".to_owned(), "tiny".to_owned()];
        let wanted = Wanted {
            engine: &engine(),
            site: &site(&stub),
            models: &models,
            limit: LONG,
            proof: Readiness::Token,
            stage_of_life: Life::Running,
        };
        let ready: Result<Ready, NotReady<()>> = wait(&wanted, &mut |_| Ok(()));
        assert_eq!(
            ready,
            Err(NotReady::OtherModel(
                "the server at this address lists no model, and so not `tiny`".to_owned()
            ))
        );
    }

    #[test]
    fn the_time_limit_tells_how_far_it_came() {
        let script = vec![("/health", vec![(503, "Loading model")])];
        let Err(NotReady::Late(reason)) = wait_for(script, Duration::from_millis(200)) else {
            panic!("it was taken")
        };
        assert_eq!(reason, "/health answered 503: `Loading model`");
    }

    #[test]
    fn a_path_that_is_missing_until_the_end_is_named_by_its_key() {
        let missing = ("/health", vec![(404, "not found")]);
        let late = wait_for(vec![missing], Duration::from_millis(200));
        assert!(
            matches!(&late, Err(NotReady::NoPath("health", e)) if e.contains("404")),
            "{late:?}"
        );
        // The path may appear while the server starts.
        let script = vec![
            ("/health", vec![(404, "not found"), (200, "")]),
            ("/v1/models", vec![(200, MODELS)]),
            ("/v1/completions", vec![(200, TOKEN)]),
        ];
        assert_eq!(wait_for(script, LONG), Ok("tiny".to_owned()));
    }

    #[test]
    fn a_request_the_server_refuses_for_good_is_not_repeated_until_the_limit() {
        let script = vec![
            ("/health", vec![(200, "")]),
            ("/v1/models", vec![(200, MODELS)]),
            ("/v1/completions", vec![(401, "no key")]),
        ];
        assert!(matches!(wait_for(script, LONG), Err(NotReady::Refused(e)) if e.contains("401")));
    }

    #[test]
    fn a_key_that_the_server_repeats_is_in_no_limit() {
        let stub = Stub::new(vec![(
            "/props",
            vec![(200, r#"{"n_ctx":["for sk-123",{"sk-123":4}]}"#)],
        )]);
        let site = Site::find(&stub.url, None, ApiKey::new("sk-123")).unwrap();
        let (values, _) = limits(&engine(), &site, &BTreeMap::new());
        assert_eq!(
            values["context_per_slot"],
            json!(["for [API key]", {"[API key]": 4}])
        );
    }

    #[test]
    fn a_limit_that_is_not_the_promised_one_is_a_warning() {
        let settings = BTreeMap::from([
            ("context".to_owned(), json!(4096)),
            ("parallel".to_owned(), json!(8)),
        ]);
        let kept = Stub::new(vec![("/props", vec![(200, r#"{"n_ctx":512}"#)])]);
        let (values, warnings) = limits(&engine(), &site(&kept), &settings);
        assert_eq!(
            (values["context_per_slot"].clone(), warnings.len()),
            (json!(512), 0)
        );
        let broken = Stub::new(vec![("/props", vec![(200, r#"{"n_ctx":4096}"#)])]);
        let (_, warnings) = limits(&engine(), &site(&broken), &settings);
        assert_eq!(
            warnings,
            ["the settings request context-per-slot = 512, but the server reports 4096"]
        );
    }
}
