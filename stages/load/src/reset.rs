//! Empties the server's prompt cache before a cell, because the remains of an earlier cell would answer for this one.
//!
//! A server's statement that it emptied its cache proves nothing. So a prompt of our own is sent twice, and the second
//! time must show among the server's counters of cached tokens. Then the cache is emptied, and the prompt is sent
//! again; none of it may be cached then. Finally the cache is emptied again, so that it does not contain our prompt
//! either. Each of the three requests asks for one token. A member of a group that generates only together with others gets
//! no prompt: it may end if it is asked alone.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use apis::{Adapter as _, Delivery, Generation, Sampling};
use contract::{Api, CacheReset, Counters, OutputMode};
use net::{Answer, Ask, Site};
use pipeline::stage::{Control, Failure};
use serde_json::json;

use crate::files::Monitoring;
use crate::get::{Endpoint, LIMIT};
use crate::run::Target;
use crate::scrape::parse;

/// A server may refuse while it ends requests of an earlier cell. It counts a request only after it has answered it.
const PATIENCE: Duration = Duration::from_secs(5);

const LOOK: Duration = Duration::from_millis(20);

/// The longest wait for the answer to our own prompt.
const ANSWER: Duration = Duration::from_mins(1);

/// How often our sentence is repeated in a prompt. The result is about 200 tokens, which fill complete blocks of a
/// cache and fit into a small context.
const SENTENCES: usize = 16;

/// The result of emptying the cache, and why no more is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Emptied {
    pub(crate) how: CacheReset,
    /// Why the result is not proven; `None` if it is.
    pub(crate) doubt: Option<String>,
    /// Whether a server whose cache is off gives the same result. Then the doubt is recorded, and not a warning of each cell.
    pub(crate) is_usual: bool,
}

/// Empties the cache of a server, or of each member of a group; `None` if none can do so. The result of a group is that
/// of its worst member.
///
/// # Errors
/// If the cell is stopped meanwhile.
pub(crate) fn empty_caches(
    target: &Target,
    monitoring: &Monitoring,
    control: &Control,
) -> Result<Option<Emptied>, Failure> {
    if monitoring.members.is_empty() {
        let path = monitoring.reset_cache.as_deref();
        return empty_cache(target, path, Some(&monitoring.counters), control);
    }
    let mut worst: Option<Emptied> = None;
    for member in &monitoring.members {
        let of_member = Target {
            base_url: member.base_url.clone(),
            model: member.model.clone(),
            metrics: member.metrics.clone(),
            api: member.api,
            path: match member.api {
                Api::OpenaiCompletions => member.endpoints.completions.clone(),
                Api::OpenaiChat => member.endpoints.chat.clone(),
                _ => None,
            },
            ..target.clone()
        };
        let path = member.endpoints.reset_cache.as_deref();
        let counters = (!member.generates_with_others).then_some(&member.counters);
        let Some(emptied) = empty_cache(&of_member, path, counters, control)? else {
            continue;
        };
        let emptied = Emptied {
            doubt: emptied
                .doubt
                .map(|doubt| format!("{}: {doubt}", member.name)),
            ..emptied
        };
        if worst
            .as_ref()
            .is_none_or(|worst| severity(worst.how) < severity(emptied.how))
        {
            worst = Some(emptied);
        }
    }
    Ok(worst)
}

fn severity(how: CacheReset) -> u8 {
    match how {
        CacheReset::Proven => 0,
        CacheReset::NoHits => 1,
        CacheReset::Unproven => 2,
        CacheReset::Failed => 3,
    }
}

/// Empties the cache of a server; `None` if the server cannot do so. Without counters, the server gets no prompt.
///
/// # Errors
/// If the cell is stopped meanwhile.
fn empty_cache(
    target: &Target,
    path: Option<&str>,
    counters: Option<&Counters>,
    control: &Control,
) -> Result<Option<Emptied>, Failure> {
    let Some(path) = path else {
        return Ok(None);
    };
    control.progress(0, None, "emptying the server's cache");
    let with = |how, doubt: Option<String>| {
        let is_usual = how == CacheReset::NoHits;
        Ok(Some(Emptied {
            how,
            doubt,
            is_usual,
        }))
    };
    let site = match site(target) {
        Ok(site) => site,
        Err(why) => return with(CacheReset::Failed, Some(why)),
    };
    let cache = Cache { site, path, target };
    let counted = match counters {
        Some(counters) => cache.counted(counters),
        None => Err(
            "it generates only together with other members, so no prompt can prove it".to_owned(),
        ),
    };
    // This happens before emptying, so that existing cache content proves the counters.
    let hits = match &counted {
        Ok(counted) => counted.twice(control)?,
        Err(why) => Err(why.clone()),
    };
    if let Err(why) = cache.empty(control)? {
        return with(CacheReset::Failed, Some(why));
    }
    let left = match (&counted, hits) {
        (Ok(counted), Ok(hits)) if hits <= 0.0 => {
            // A server that caches prompts has counted the second one. Without the counter, nothing is known.
            if let Some(doubt) = counted.lacks_counter() {
                return Ok(Some(Emptied {
                    how: CacheReset::Unproven,
                    doubt: Some(doubt),
                    is_usual: true,
                }));
            }
            let doubt = "a prompt sent twice was computed twice, so the server seems not to \
                cache prompts";
            return with(CacheReset::NoHits, Some(doubt.to_owned()));
        }
        (Ok(counted), Ok(_)) => counted.once(control)?,
        (_, Err(why)) => Err(why),
        (Err(why), _) => Err(why.clone()),
    };
    match left {
        Ok(left) if left <= 0.0 => match cache.empty(control)? {
            Ok(()) => with(CacheReset::Proven, None),
            Err(why) => with(CacheReset::Failed, Some(why)),
        },
        Ok(left) => {
            let doubt =
                format!("{path} was called, and {left} tokens of a prompt were still cached");
            with(CacheReset::Failed, Some(doubt))
        }
        Err(why) => with(CacheReset::Unproven, Some(why)),
    }
}

fn site(target: &Target) -> Result<Site, String> {
    let peer = target.peer().map_err(|e| e.to_string())?;
    peer.site(target.api_key.as_ref())
        .map_err(|e| e.to_string())
}

/// Returns whether a server answers that it did not empty its cache. vLLM does so with HTTP 200 while requests hold blocks.
fn denies(answer: &Answer) -> bool {
    answer
        .json()
        .is_ok_and(|body| body["success"] == json!(false))
}

struct Cache<'a> {
    site: Site,
    path: &'a str,
    target: &'a Target,
}

/// The server's counters around our own prompt.
struct Counted<'a> {
    endpoint: Endpoint,
    prompt_tokens: &'a str,
    cached: &'a str,
    ask: (String, serde_json::Value),
    site: &'a Site,
}

impl Cache<'_> {
    /// Asks the server to empty its cache. The inner error is the reason why it did not.
    fn empty(&self, control: &Control) -> Result<Result<(), String>, Failure> {
        let until = Instant::now() + PATIENCE;
        loop {
            control.check()?;
            let refusal = match self.site.ask(&Ask::post(self.path, &json!({})), LIMIT) {
                Ok(answer) if (200..300).contains(&answer.status) && !denies(&answer) => {
                    return Ok(Ok(()));
                }
                Ok(answer) => answer.summary(),
                Err(error) => format!("{}: {error}", self.path),
            };
            if Instant::now() >= until {
                return Ok(Err(self.site.mask(&refusal)));
            }
            std::thread::sleep(LOOK);
        }
    }

    fn counted<'a>(&'a self, counters: &'a Counters) -> Result<Counted<'a>, String> {
        let name = |name: &'a Option<String>, what: &str| {
            let unnamed = || format!("the engine's definition names no counter of {what}");
            name.as_deref().ok_or_else(unnamed)
        };
        let metrics = self.target.metrics.clone();
        let metrics = metrics.ok_or("the server has no metrics")?;
        Ok(Counted {
            endpoint: Endpoint {
                site: self.site.clone(),
                path: metrics,
            },
            prompt_tokens: name(&counters.prompt_tokens, "prompt tokens")?,
            cached: name(&counters.cached_prompt_tokens, "cached tokens")?,
            ask: own_prompt(self.target),
            site: &self.site,
        })
    }
}

impl Counted<'_> {
    /// Sends our prompt twice; returns the number of cached tokens of the second one.
    fn twice(&self, control: &Control) -> Result<Result<f64, String>, Failure> {
        match self.once(control)? {
            Ok(_) => self.once(control),
            Err(why) => Ok(Err(why)),
        }
    }

    /// Sends our prompt; returns the number of its cached tokens.
    fn once(&self, control: &Control) -> Result<Result<f64, String>, Failure> {
        let before = match self.read() {
            Ok(before) => before,
            Err(why) => return Ok(Err(why)),
        };
        let (path, body) = &self.ask;
        let mut watch = || control.check();
        match self
            .site
            .ask_while(&Ask::post(path, body), ANSWER, &mut watch)?
        {
            Ok(answer) if answer.status == 200 => {}
            Ok(answer) => return Ok(Err(self.site.mask(&answer.summary()))),
            Err(error) => return Ok(Err(format!("{path}: {error}"))),
        }
        let until = Instant::now() + PATIENCE;
        loop {
            control.check()?;
            match self.read() {
                // One answer contains both counters, but the server may not update them at the same moment.
                Ok(after) if after.0 > before.0 => {
                    std::thread::sleep(LOOK);
                    let settled = self.read().map(|settled| settled.1 - before.1);
                    return Ok(settled);
                }
                Ok(_) if Instant::now() >= until => {
                    let why = format!("`{}` did not rise with a prompt", self.prompt_tokens);
                    return Ok(Err(why));
                }
                Ok(_) => std::thread::sleep(LOOK),
                Err(why) => return Ok(Err(why)),
            }
        }
    }

    /// Returns why the number of cached tokens is unknown, if the server has no such counter.
    fn lacks_counter(&self) -> Option<String> {
        let text = self.endpoint.text("text/plain").ok()?;
        let samples = parse(&text, 0).ok()?.rows;
        let name = self.cached;
        (!samples.iter().any(|sample| sample.name == name)).then(|| {
            format!(
                "the server has no counter `{name}`: either its cache is off, or the engine's definition names the wrong \
                 counter in `counters.cached-prompt-tokens`"
            )
        })
    }

    /// Returns the total number of prompt tokens, and how many of them were cached. A counter may appear only once it has
    /// counted something.
    fn read(&self) -> Result<(f64, f64), String> {
        let samples = parse(&self.endpoint.text("text/plain")?, 0)?.rows;
        let sum = |name: &str| -> f64 {
            let named = samples.iter().filter(|sample| sample.name == name);
            named.map(|sample| sample.value).sum()
        };
        Ok((sum(self.prompt_tokens), sum(self.cached)))
    }
}

/// Returns the path and body of a request for one token after a prompt that no workload uses.
fn own_prompt(target: &Target) -> (String, serde_json::Value) {
    let sentence = "Benchtrail looks whether this sentence is still in the cache. ";
    let greedy = Sampling {
        temperature: 0.0,
        top_p: None,
        seed: None,
    };
    let body = target.api.body(&Generation {
        model: &target.model,
        prompt: &sentence.repeat(SENTENCES),
        texts: &[],
        output_tokens: 1,
        output_mode: OutputMode::Cap,
        system: None,
        history: &[],
        schema: None,
        sampling: &greedy,
        delivery: Delivery::Whole,
        images: &[],
        extra: &BTreeMap::new(),
    });
    let path = target.path.clone();
    (
        path.unwrap_or_else(|| target.api.path(false).to_owned()),
        body,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    /// How a stub reacts when its cache should be emptied.
    #[derive(Clone, Copy, PartialEq)]
    enum Does {
        Empties,
        SaysSo,
        Refuses,
        RefusesWith200,
        CachesNothing,
    }

    /// A stub, not an engine: a cache of whole prompts of 100 tokens, with counters.
    struct Stub {
        url: String,
        held: Arc<Mutex<Vec<String>>>,
        prompts: Arc<AtomicUsize>,
    }

    impl Stub {
        fn new(does: Does) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let (held, prompts) = (
                Arc::new(Mutex::new(Vec::new())),
                Arc::new(AtomicUsize::new(0)),
            );
            let (cache, count) = (held.clone(), prompts.clone());
            std::thread::spawn(move || {
                let mut cached = 0;
                for stream in listener.incoming() {
                    let mut stream = stream.unwrap();
                    let (path, body) = request(&mut stream);
                    let mut cache = cache.lock().unwrap();
                    let (status, answer) = match path.as_str() {
                        "/metrics" => {
                            let tokens = 100 * count.load(Ordering::SeqCst);
                            (200, format!("t{{a=\"1\"}} {tokens}\nc {cached}\n"))
                        }
                        "/reset" if does == Does::Refuses => (400, "busy".to_owned()),
                        "/reset" if does == Does::RefusesWith200 => {
                            (200, r#"{"success": false}"#.to_owned())
                        }
                        "/reset" => {
                            if does == Does::Empties {
                                cache.clear();
                            }
                            (200, String::new())
                        }
                        _ => {
                            count.fetch_add(1, Ordering::SeqCst);
                            if cache.contains(&body) && does != Does::CachesNothing {
                                cached += 99;
                            }
                            cache.push(body);
                            (200, "{}".to_owned())
                        }
                    };
                    let length = answer.len();
                    let head = format!(
                        "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
                    );
                    let _ = stream.write_all((head + &answer).as_bytes());
                }
            });
            Self { url, held, prompts }
        }

        fn empty(&self, counters: &Counters) -> Option<Emptied> {
            let mut target = Target::new(&self.url, "m", Api::OpenaiCompletions);
            target.metrics = Some("/metrics".to_owned());
            empty_cache(&target, Some("/reset"), Some(counters), &Control::quiet()).unwrap()
        }
    }

    fn request(stream: &mut std::net::TcpStream) -> (String, String) {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let length = head.lines().find_map(|line| {
            let line = line.to_lowercase();
            line.strip_prefix("content-length: ")?.parse().ok()
        });
        let mut body = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut body).unwrap();
        let path = head.split(' ').nth(1).unwrap().to_owned();
        (path, String::from_utf8(body).unwrap())
    }

    fn counters() -> Counters {
        Counters {
            prompt_tokens: Some("t".to_owned()),
            cached_prompt_tokens: Some("c".to_owned()),
            ..Counters::default()
        }
    }

    #[test]
    fn counters_prove_that_a_cache_was_emptied_and_nothing_is_left_in_it() {
        let stub = Stub::new(Does::Empties);
        let emptied = stub.empty(&counters()).unwrap();
        assert_eq!((emptied.how, emptied.doubt), (CacheReset::Proven, None));
        assert_eq!(stub.prompts.load(Ordering::SeqCst), 3);
        assert!(stub.held.lock().unwrap().is_empty());
    }

    #[test]
    fn a_server_that_only_says_it_emptied_its_cache_is_found_out() {
        let emptied = Stub::new(Does::SaysSo).empty(&counters()).unwrap();
        assert_eq!(emptied.how, CacheReset::Failed);
        assert_eq!(
            emptied.doubt.unwrap(),
            "/reset was called, and 99 tokens of a prompt were still cached"
        );
    }

    #[test]
    fn a_refusal_of_the_server_is_reported_with_its_answer() {
        let emptied = Stub::new(Does::Refuses)
            .empty(&Counters::default())
            .unwrap();
        assert_eq!(emptied.how, CacheReset::Failed);
        assert_eq!(emptied.doubt.unwrap(), "/reset answered 400: `busy`");
        let emptied = Stub::new(Does::RefusesWith200)
            .empty(&Counters::default())
            .unwrap();
        assert_eq!(emptied.how, CacheReset::Failed);
        assert_eq!(
            emptied.doubt.unwrap(),
            "/reset answered 200: `{\"success\": false}`"
        );
    }

    #[test]
    fn a_counter_that_the_server_does_not_have_proves_nothing() {
        let misnamed = Counters {
            cached_prompt_tokens: Some("hits".to_owned()),
            ..counters()
        };
        let emptied = Stub::new(Does::Empties).empty(&misnamed).unwrap();
        assert_eq!(emptied.how, CacheReset::Unproven);
        let doubt = emptied.doubt.as_deref().unwrap();
        assert!(doubt.contains("has no counter `hits`"), "{doubt}");
        assert!(emptied.is_usual);
    }

    #[test]
    fn every_member_of_a_group_is_emptied_and_the_worst_result_is_reported() {
        let member = |name: &str, stub: &Stub, path: Option<&str>| contract::LiveMember {
            name: name.to_owned(),
            base_url: stub.url.clone(),
            metrics: Some("/metrics".to_owned()),
            counters: counters(),
            endpoints: contract::Endpoints {
                reset_cache: path.map(str::to_owned),
                ..contract::Endpoints::default()
            },
            ..contract::LiveMember::default()
        };
        let stubs = [Does::Empties, Does::Empties, Does::SaysSo].map(Stub::new);
        let [one, two, wrong] = &stubs;
        let target = Target::new("http://127.0.0.1:1", "m", Api::OpenaiCompletions);
        let empty = |members: Vec<contract::LiveMember>| {
            let monitoring = Monitoring {
                members,
                ..Monitoring::new(crate::telemetry::Telemetry::none())
            };
            empty_caches(&target, &monitoring, &Control::quiet()).unwrap()
        };
        let (a, b) = (
            member("a-0", one, Some("/reset")),
            member("b-0", two, Some("/reset")),
        );
        let good = empty(vec![member("router-0", wrong, None), a.clone(), b]).unwrap();
        assert_eq!((good.how, good.doubt), (CacheReset::Proven, None));
        for stub in [one, two] {
            assert_eq!(stub.prompts.load(Ordering::SeqCst), 3);
            assert!(stub.held.lock().unwrap().is_empty());
        }
        let prompts = || one.prompts.load(Ordering::SeqCst);
        let worker = contract::LiveMember {
            generates_with_others: true,
            ..a.clone()
        };
        let before = prompts();
        let unproven = empty(vec![worker]).unwrap();
        assert_eq!((unproven.how, prompts()), (CacheReset::Unproven, before));
        assert!(unproven.doubt.unwrap().contains("only together"));
        let bad = empty(vec![member("c-0", wrong, Some("/reset")), a]).unwrap();
        assert_eq!(bad.how, CacheReset::Failed);
        assert!(bad.doubt.unwrap().starts_with("c-0: /reset was called"));
        assert_eq!(empty(vec![member("router-0", wrong, None)]), None);
    }

    #[test]
    fn without_counters_a_reset_is_only_the_servers_word() {
        let stub = Stub::new(Does::Empties);
        let emptied = stub.empty(&Counters::default()).unwrap();
        assert_eq!(emptied.how, CacheReset::Unproven);
        assert!(emptied.doubt.unwrap().contains("names no counter"));
        assert_eq!(stub.prompts.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn where_nothing_is_cached_nothing_is_to_be_proven() {
        let emptied = Stub::new(Does::CachesNothing).empty(&counters()).unwrap();
        assert_eq!(emptied.how, CacheReset::NoHits);
    }

    #[test]
    fn a_server_without_such_an_endpoint_is_left_alone() {
        let target = Target::new("http://127.0.0.1:1", "m", Api::OpenaiCompletions);
        let emptied = empty_cache(&target, None, Some(&counters()), &Control::quiet());
        assert_eq!(emptied.unwrap(), None);
    }
}
