//! The server of `load` and similar commands, from their arguments.

use std::path::Path;

use contract::{Api, Word as _};
use load::{
    AddressError, ApiKey, DirectServer, ModelsError, Refusal, Target, TargetError, is_address,
    list_models, meant_address, target_in_turn,
};
use pipeline::language::has_known_key;
use pipeline::suggest::remedy;

use crate::effect_text::to_copy;
use crate::exit::Stop;
use crate::terminal::{complain, in_line};

/// A server named by arguments.
pub(super) struct Server<'a> {
    pub(super) url: &'a str,
    /// Additional servers that get requests in turn.
    pub(super) further: Vec<&'a str>,
    pub(super) ca_file: Option<&'a Path>,
    pub(super) model: Option<&'a str>,
    pub(super) api: &'a str,
    pub(super) api_key_env: Option<&'a str>,
    /// The path of its Prometheus metrics, if they should be sampled.
    pub(super) metrics: Option<&'a str>,
    /// Headers added to every request.
    pub(super) headers: &'a [(String, String)],
}

impl Server<'_> {
    /// Returns the target of requests, after checking that a server answers there.
    pub(super) fn target(&self) -> Result<Target, Stop> {
        self.refuse_a_key_in_a_url()?;
        let api_key = self
            .api_key_env
            .map(|variable| {
                ApiKey::from_environment(variable).map_err(|why| {
                    let remedy = ApiKey::remedy(variable, &format!("`export {variable}=…`"));
                    match ApiKey::is_variable(variable) {
                        true => Stop::machine(why).hint(remedy),
                        false => Stop::usage(why).hint(remedy),
                    }
                })
            })
            .transpose()?;
        let server = DirectServer {
            url: self.url,
            ca_file: self.ca_file,
            model: self.model,
            api: Api::parse(self.api).expect("the parser admits only words of APIs"),
            api_key,
            metrics: self.metrics,
            headers: self.headers,
        };
        let target = target_in_turn(&server, &self.further)
            .map_err(|(url, error)| self.explain(&url, &error))?;
        self.warn_of_an_unlisted_model(&target);
        Ok(target)
    }

    /// Fails if a URL contains a key: URLs are printed and stored.
    fn refuse_a_key_in_a_url(&self) -> Result<(), Stop> {
        let mut urls = std::iter::once(&self.url).chain(&self.further);
        // The errors of a wrong address have better remedies, such as that for a password before the host.
        if urls.any(|url| has_known_key(url) && (is_address(url) || !url.contains('@'))) {
            let message = "the URL contains what looks like a key or a token, and would be stored with the results";
            return Err(Stop::usage(message).hint(
                "leave the key out; `--api-key-env VARIABLE` sends it, or use the address of a proxy that adds it",
            ));
        }
        Ok(())
    }

    /// Warns of a model that the server does not list: some servers answer for any name.
    fn warn_of_an_unlisted_model(&self, target: &Target) {
        let Some(model) = self.model else {
            return;
        };
        let listed = list_models(&target.base_url, self.ca_file, target.api_key.as_ref());
        if let Ok(models) = listed
            && !models.is_empty()
            && !models.iter().any(|listed| listed == model)
        {
            complain(&format!(
                "warning: the server does not list the model `{model}`; it lists {}",
                in_line(&models.join(", "))
            ));
        }
    }

    /// Returns the error for a server that rejects every request, with its meaning.
    pub(super) fn refusal(&self, target: &Target, refusal: &Refusal) -> Stop {
        let stop = Stop::failed(format!(
            "{} refuses every request, so no more were sent: {refusal}",
            target.place()
        ));
        let api = target.api.word();
        stop.hint(if matches!(refusal.http_status, Some(401 | 403)) {
            self.key_remedy().to_owned()
        } else if refusal.http_status == Some(404) {
            let listed = list_models(&target.base_url, self.ca_file, target.api_key.as_ref());
            match listed {
                Ok(models) if !models.contains(&target.model) => {
                    let names = remedy(&target.model, "models", models.iter().map(String::as_str));
                    let names = in_line(&names);
                    format!("the server does not list the model `{}`; {names}", target.model)
                }
                _ => format!(
                    "the server may not speak {api}; --api chooses another one, and --model another model"
                ),
            }
        } else if matches!(refusal.http_status, Some(300..=399)) {
            "the server redirects: give the URL that it redirects to".to_owned()
        } else if let Some(hint) = of_server(&refusal.words) {
            hint.to_owned()
        } else {
            format!("does the server speak {api}? use --api for another API, or --no-stream for \
                whole answers")
        })
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the remedy names the variable that other tools read, if it is set"
    )]
    fn key_remedy(&self) -> &'static str {
        match self.api_key_env {
            Some(_) => "check the key in the environment variable of --api-key-env",
            None if std::env::var_os("OPENAI_API_KEY").is_some() => {
                "Benchtrail reads no key unless you name its variable: `--api-key-env OPENAI_API_KEY`"
            }
            None => "use --api-key-env to name the environment variable that holds the API key",
        }
    }

    /// Adds the remedy.
    fn explain(&self, url: &str, error: &TargetError) -> Stop {
        match error {
            TargetError::Url(_) if is_experiment(url) => Stop::usage(format!(
                "{url} is an experiment, and `load` loads a server at a URL"
            ))
            .hint(format!("benchtrail run {}", to_copy(url))),
            TargetError::Url(AddressError::Credentials { .. }) => Stop::usage(error).hint(
                "leave out the name and the password; `--api-key-env VARIABLE` or `--header` sends what the server asks \
                 for",
            ),
            TargetError::Url(AddressError::Unwanted { shown, .. }) => {
                Stop::usage(error).hint(format!("give the server's base URL: {shown}"))
            }
            TargetError::Url(_) if url == "help" => {
                Stop::usage(error).hint("`benchtrail load --help` describes the options")
            }
            TargetError::Url(_)
                if url.starts_with("::") && url.trim_start_matches(':').parse::<u16>().is_ok() =>
            {
                Stop::usage(error).hint(format!("write http://[{url}]:PORT"))
            }
            TargetError::Url(_) if url.trim_start_matches(':').parse::<u16>().is_ok() => {
                let port = url.trim_start_matches(':');
                // A small number after a level is rather the next level.
                let levels = match port.parse::<u16>() {
                    Ok(0..1024) if port == url => "; several levels of an option are separated by commas: 1,8,64",
                    _ => "",
                };
                Stop::usage(error).hint(format!("write http://127.0.0.1:{port}{levels}"))
            }
            TargetError::Url(AddressError::NoBrackets { meant, .. }) => {
                Stop::usage(error).hint(format!("write {meant}"))
            }
            TargetError::Url(_) if meant_address(url).is_some() => {
                let meant = meant_address(url).unwrap_or_default();
                Stop::usage(error).hint(format!("write {meant}"))
            }
            TargetError::Url(_) if url.trim() != url && is_address(url.trim()) => {
                Stop::usage(error).hint(format!("leave out the space around it: {}", url.trim()))
            }
            TargetError::Url(_) if !url.contains("://") && is_address(&format!("http://{url}")) => {
                Stop::usage(error).hint(format!("write http://{url}"))
            }
            TargetError::Url(_) => {
                Stop::usage(error).hint("write it as http://HOST:PORT or https://HOST:PORT")
            }
            TargetError::Endpoint { base, .. } => {
                let scheme = if base.contains("://") { "" } else { "http://" };
                Stop::usage(error)
                    .hint(format!("give {scheme}{base}; `--api` chooses the endpoint"))
            }
            TargetError::Host(_) => Stop::failed(error).hint("correct the host's name in the URL"),
            TargetError::Tls(_, tls) => Stop::failed(error).hint(&tls.remedy),
            TargetError::Unreachable(..) if has_no_port(url) => {
                let port = if url.starts_with("https") { 443 } else { 80 };
                Stop::failed(error).hint(format!(
                    "the URL names no port, so it means port {port}: add the server's port, as in \
                     http://127.0.0.1:8000, or start the server"
                ))
            }
            TargetError::Unreachable(..) => {
                Stop::failed(error).hint("start the server, or correct the host and port in the URL")
            }
            TargetError::OtherModels { .. } => Stop::usage(error).hint(
                "load servers of one model; --model names one that all of them list",
            ),
            TargetError::Twice(_) => Stop::usage(error).hint("give each server once"),
            TargetError::Schemes(..) => {
                Stop::usage(error).hint("give all of them as http:// or all as https://")
            }
            TargetError::NoModel(_, why) => Stop::failed(error).hint(match why {
                ModelsError::Status(401 | 403, _) => self.key_remedy(),
                ModelsError::Status(300..=399, _) => "use the URL that it redirects to",
                ModelsError::Status(429 | 502..=504, _) => {
                    "wait until the server is ready and not overloaded, or name the model with --model"
                }
                // A proxy may answer 500 to a request without a key.
                ModelsError::Status(500.., _) if self.api_key_env.is_none() => {
                    "is the URL the base of an inference server? If so, --api-key-env names the environment variable \
                     that holds its API key, if it needs one, and --model names the model"
                }
                _ => "is the URL the base of an inference server? If so, name the model with --model",
            }),
        }
    }
}

/// Returns the remedy for a rejected request that the server itself explains.
fn of_server(words: &str) -> Option<&'static str> {
    const TOO_LONG: [&str; 5] = [
        "context length",
        "context size",
        "context window",
        "max_model_len",
        "too long",
    ];
    let words = words.to_lowercase();
    if TOO_LONG.iter().any(|phrase| words.contains(phrase)) {
        return Some(
            "give shorter prompts (--prompt-words, --input-len) or fewer output tokens (--output-tokens), or start \
             the server with a longer context",
        );
    }
    if words.contains("ignore_eos") {
        return Some(
            "the server cannot ignore the end of a sequence: choose a --workload whose output is a cap, without `mode: exact` \
             and without --output-tokens, such as single-chat",
        );
    }
    words.contains("chat template").then_some(
        "the model has no chat template: use --api openai-completions, or give the server a template",
    )
}

/// Returns whether a URL leaves the port to its scheme.
fn has_no_port(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    let after_brackets = authority.rsplit(']').next().unwrap_or_default();
    !after_brackets.contains(':')
}

/// Returns whether the argument given as a URL is an experiment.
fn is_experiment(given: &str) -> bool {
    (given.ends_with(".yaml") || given.ends_with(".yml")) && !given.contains("://")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_a_url_is_refused_and_not_repeated() {
        let key = format!("sk-proj-{}", "a1B2".repeat(8));
        let with = |url: &str, further: &str| {
            let server = Server {
                url,
                further: vec![further],
                ca_file: None,
                model: None,
                api: "openai-chat",
                api_key_env: None,
                metrics: None,
                headers: &[],
            };
            server.refuse_a_key_in_a_url().err()
        };
        let plain = "http://127.0.0.1:8000/v1/team-a/sk-learn-models";
        let secret = format!("https://gateway.test/{key}/v1");
        for (url, further) in [(secret.as_str(), plain), (plain, secret.as_str())] {
            let stop = with(url, further).expect("a key is refused");
            assert!(!format!("{stop:?}").contains(&key), "{stop:?}");
        }
        assert!(with(plain, "http://[::1]:8000").is_none());
        // Other errors explain these.
        assert!(with("http://ada:hunter2@host", plain).is_none());
    }

    #[test]
    fn the_words_of_a_server_that_explains_itself_choose_the_remedy() {
        let too_long =
            "HTTP 400: This model's maximum context length is 64 tokens. However, you requested 90";
        assert!(of_server(too_long).is_some_and(|hint| hint.contains("--output-tokens")));
        let llama = "HTTP 400: the request exceeds the available context size";
        assert!(of_server(llama).is_some_and(|hint| hint.contains("shorter prompts")));
        let template =
            "HTTP 400: you must provide a chat template if the tokenizer does not define one.";
        assert!(of_server(template).is_some_and(|hint| hint.contains("openai-completions")));
        let strict = "HTTP 422: Unexpected keys in the request: {'ignore_eos'}";
        assert!(of_server(strict).is_some_and(|hint| hint.contains("single-chat")));
        assert_eq!(of_server("HTTP 422: field required"), None);
    }
}
