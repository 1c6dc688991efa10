//! Checks that the types cannot express: the parts of a definition must agree with one another.

use std::collections::BTreeSet;

use contract::{AT_SIDE_PORT, Api, Exporter, Limit, Telling};
use net::ApiKey;
use pipeline::suggest::remedy;
use pipeline::{Json, Library, Problem};
use regex_lite::Regex;

use crate::command::{PLACEHOLDERS, placeholders};
use crate::engine::{Engine, Program};
use crate::model::{Model, Weights};
use crate::package::Package;
use crate::settings::{Setting, SettingType};

impl Engine {
    /// Reads a definition and checks it for contradictions.
    ///
    /// # Errors
    /// The first wrong type or unknown key, or every contradiction.
    pub fn from_json(definition: &Json) -> Result<Self, Vec<Problem>> {
        let engine: Self = serde_json::from_value(definition.clone())
            .map_err(|e| vec![Problem::at(&[], e.to_string())])?;
        let problems = engine.problems();
        if problems.is_empty() {
            Ok(engine)
        } else {
            Err(problems)
        }
    }

    /// Returns the engines of a library. A wrong definition is left out, because it is reported where it is used.
    pub fn all(library: &dyn Library) -> Vec<Self> {
        let names = library.names("engines");
        let definitions = names
            .iter()
            .filter_map(|name| library.find("engines", name));
        definitions
            .filter_map(|definition| Self::from_json(&definition).ok())
            .collect()
    }

    fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (name, setting) in &self.settings {
            problems.extend(self.setting_problems(name, setting));
        }
        for (name, limit) in &self.limits {
            problems.extend(self.limit_problems(name, limit));
        }
        if let Some(name) = &self.usage.absent_cached_is_zero_with
            && self
                .settings
                .get(name)
                .is_none_or(|s| s.kind != SettingType::Boolean)
        {
            problems.push(Problem::at(
                &["usage", "absent-cached-is-zero-with"],
                format!("unknown boolean setting `{name}`"),
            ));
        }
        problems.extend(self.prompt_cache_problem());
        problems.extend(self.log_problems());
        problems.extend(self.telling_problems());
        problems.extend(self.launch_problems());
        problems.extend(self.packages.iter().flat_map(package_problems));
        problems
    }

    fn setting_problems(&self, name: &str, setting: &Setting) -> Vec<Problem> {
        let mut problems = Vec::new();
        let at = |key: &str, message: String| Problem::at(&["settings", name, key], message);
        if let Err(phrase) = setting.check(&setting.default) {
            problems.push(at("default", format!("the default of `{name}` {phrase}")));
        }
        if self.is_worker() {
            // A worker reads its settings itself.
            return problems;
        }
        let boolean = setting.kind == SettingType::Boolean;
        if boolean && !setting.flags.is_empty() {
            problems.push(
                at("flags", format!("`{name}` is boolean but has `flags`"))
                    .hint("a boolean takes `when-true` and `when-false`"),
            );
        }
        if let Some(name) = setting
            .environment
            .keys()
            .find(|name| !ApiKey::is_variable(name))
        {
            problems.push(at(
                "environment",
                format!("`{name}` cannot be the name of an environment variable"),
            ));
        }
        if setting.kind == SettingType::List {
            if !setting.flags.is_empty() || !setting.environment.is_empty() {
                problems.push(
                    at("flags", format!("`{name}` is a list but has `flags`"))
                        .hint("a list is added to the arguments as it is"),
                );
            }
            return problems;
        }
        let sets = setting.environment.values().any(|form| form.contains("{}"));
        if sets && setting.flags.is_empty() {
            return problems;
        }
        if boolean && setting.when_true.is_empty() && setting.when_false.is_empty() {
            problems.push(at(
                "when-true",
                format!("the boolean `{name}` adds no argument, whether true or false"),
            ));
        }
        if !boolean && !setting.flags.iter().any(|f| f.contains("{}")) {
            problems.push(
                at(
                    "flags",
                    format!("the flags of `{name}` never contain its value"),
                )
                .hint("write `{}` where the value goes, for example [\"--threads\", \"{}\"]"),
            );
        }
        problems
    }

    fn limit_problems(&self, name: &str, limit: &Limit) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (key, setting) in [
            ("setting", &limit.setting),
            ("divided-by", &limit.divided_by),
            ("undivided-with", &limit.undivided_with),
        ] {
            if let Some(setting) = setting.as_ref().filter(|s| !self.settings.contains_key(*s)) {
                let problem = Problem::at(
                    &["limits", name, key],
                    format!("unknown setting `{setting}`"),
                );
                let hint = remedy(
                    setting,
                    "settings",
                    self.settings.keys().map(String::as_str),
                );
                problems.push(problem.hint(hint));
            }
        }
        if !limit.pointer.starts_with('/') {
            let message = format!("`{}` is not a JSON pointer", limit.pointer);
            problems.push(
                Problem::at(&["limits", name, "pointer"], message)
                    .hint("a JSON pointer begins with `/`"),
            );
        }
        problems
    }

    fn prompt_cache_problem(&self) -> Option<Problem> {
        let cache = self.prompt_cache.as_ref()?;
        let name = cache.setting.as_ref()?;
        let Some(setting) = self.settings.get(name) else {
            // The settings of a running server are those that `facts` declares.
            if matches!(self.launch.program, Program::Running(_)) && !cache.off.is_null() {
                return None;
            }
            let message = format!("unknown setting `{name}`");
            let names = self.settings.keys().map(String::as_str);
            let problem = Problem::at(&["prompt-cache", "setting"], message);
            return Some(problem.hint(remedy(name, "settings", names)));
        };
        let at_off = |message: String| Problem::at(&["prompt-cache", "off"], message);
        if cache.off.is_null() {
            let message = format!("the value of `{name}` that switches the cache off is missing");
            return Some(at_off(message).hint("write, for example, `off: false`"));
        }
        let phrase = setting.check(&cache.off).err()?;
        Some(at_off(format!("the setting `{name}` {phrase}")))
    }

    fn peer_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (name, peers) in &self.launch.peers {
            let mut add = |message: &str, hint: &str| {
                let at = ["launch", "peers", name.as_str(), "each"];
                problems.push(Problem::at(&at, message).hint(hint));
            };
            let says_where = |text: &String| text.contains("{url}") || text.contains("{port}");
            // Servers that find each other need no arguments. They only start first.
            if !peers.each.is_empty() && !peers.each.iter().any(says_where) {
                add(
                    "the arguments for each member do not contain its address",
                    "write `{url}`, or `{host}` and `{port}`; or `each: []` if the servers find each other",
                );
            }
            if peers.join.is_some() && peers.each.len() != 1 {
                add(
                    "members that share one argument take one text each",
                    "leave one text in `each`, or remove `join`",
                );
            }
        }
        problems
    }

    /// Returns the problems with the server's probes and with what is declared for one that already
    /// runs.
    fn telling_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (name, probe) in &self.probe {
            if !probe.pointer.starts_with('/') {
                let message = format!("`{}` is not a JSON pointer", probe.pointer);
                problems.push(
                    Problem::at(&["probe", name, "pointer"], message)
                        .hint("a JSON pointer begins with `/`"),
                );
            }
        }
        let running = matches!(self.launch.program, Program::Running(_));
        if !running && !self.facts.is_empty() {
            let message =
                "`facts` are for a server that is already running (`launch.program.running`)";
            problems.push(
                Problem::at(&["facts"], message)
                    .hint("Benchtrail reads the machine and sets the settings of what it starts"),
            );
        }
        let wrong = match running {
            true => address_problem,
            false => own_address_problem,
        };
        for (name, exporter) in &self.exporters {
            if let Some((message, hint)) = wrong(exporter) {
                let problem = Problem::at(&["exporters", name, "url"], message);
                problems.push(match hint {
                    Some(hint) => problem.hint(hint),
                    None => problem,
                });
            }
        }
        problems
    }

    /// Returns whether it generates inside the process of a load cell, without a server.
    pub fn is_worker(&self) -> bool {
        matches!(
            self.launch.program,
            Program::Worker(_) | Program::WorkerFile(_)
        )
    }

    fn log_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (name, failure) in &self.log.failures {
            if let Err(e) = Regex::new(&failure.line) {
                let message = format!("`{}` is not a regular expression: {e}", failure.line);
                problems.push(Problem::at(&["log", "failures", name, "line"], message));
            }
        }
        for (name, event) in &self.log.events {
            let mut groups = Vec::new();
            for (key, text) in std::iter::once(("line", &event.line))
                .chain(event.fields.iter().map(|text| ("fields", text)))
            {
                let mut add = |message: String| {
                    problems.push(Problem::at(&["log", "events", name, key], message));
                };
                match Regex::new(text) {
                    Ok(regex) => {
                        let named: Vec<String> =
                            regex.capture_names().flatten().map(str::to_owned).collect();
                        if key == "fields" && named.is_empty() {
                            add(format!("`{text}` has no named group, so it has no result"));
                        }
                        groups.extend(named);
                    }
                    Err(e) => add(format!("`{text}` is not a regular expression: {e}")),
                }
            }
            let has_time = groups.iter().any(|group| group == "time");
            if has_time != event.time.is_some() {
                let message = if has_time {
                    format!("`{name}` has a group `time` but does not give its format")
                } else {
                    format!("`{name}` gives a time format but has no group `time`")
                };
                problems.push(Problem::at(&["log", "events", name, "time"], message).hint(
                    "a time needs both `time: \"%Y-%m-%d %H:%M:%S\"` and a group `(?<time>…)`",
                ));
            }
        }
        problems
    }

    fn launch_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let name = self.launch.api_key_env.as_ref();
        if name.is_some_and(|name| !ApiKey::is_variable(name)) {
            // The value is not repeated: it may be the key itself, pasted by mistake.
            let message = "`api-key-env` must be the name of an environment variable";
            problems.push(
                Problem::at(&["launch", "api-key-env"], message)
                    .hint("write the name of the variable that holds the key, not the key"),
            );
        }
        if let Some(header) = &self.launch.api_key_header {
            let at = |message: &str| Problem::at(&["launch", "api-key-header"], message);
            if self.launch.api_key_env.is_none() {
                let message = "`api-key-header` has no effect without `api-key-env`";
                problems.push(at(message).hint("name the variable that holds the key"));
            }
            if !ApiKey::can_be_in(header) {
                problems.push(
                    at("this header cannot carry the key alone")
                        .hint("write the header that the server expects, such as `X-Api-Key`; without it, the key is sent as `Authorization: Bearer`"),
                );
            }
        }
        problems.extend(self.peer_problems());
        match &self.launch.program {
            Program::Packaged(path) => {
                if self.packages.is_empty() {
                    problems.push(in_launch("program", "a packaged program needs `packages`"));
                }
                if !is_inside(path) {
                    problems.push(in_launch(
                        "program",
                        "the path of a packaged program must stay inside the packages",
                    ));
                }
                problems.extend(self.start_problems());
            }
            Program::Python(_) | Program::Installed(_) => problems.extend(self.start_problems()),
            Program::Worker(_) | Program::WorkerFile(_) => {
                if self.launch.ca_file.is_some() || self.launch.api_key_env.is_some() {
                    problems.push(in_launch(
                        "program",
                        "a worker is not a server, so it has neither `ca-file` nor `api-key-env`",
                    ));
                }
            }
            Program::Running(urls) => problems.extend(self.running_problems(urls.all())),
        }
        problems
    }

    /// Returns the problems with servers that already run.
    fn running_problems(&self, urls: &[String]) -> Vec<Problem> {
        let mut problems = Vec::new();
        let example = (urls.first()).map_or("127.0.0.1:8000", |url| url.trim_start_matches('/'));
        let no_scheme = format!(
            "a running server needs an `http://` or `https://` URL, such as `http://{example}`"
        );
        let mut add = |key, message: &str| problems.push(in_launch(key, message));
        let secure = urls.iter().any(|url| url.starts_with("https://"));
        let plain = urls.iter().any(|url| url.starts_with("http://"));
        let is_url = |url: &String| url.starts_with("http://") || url.starts_with("https://");
        if urls.is_empty() || !urls.iter().all(is_url) {
            add("program", &no_scheme);
        }
        if urls.iter().any(|url| has_credentials(url)) {
            add("program", CREDENTIALS);
        }
        if urls.iter().any(|url| url.contains(['?', '#'])) {
            add(
                "program",
                "a server's URL has no `?` and no `#`: they could hold a secret, which would be stored",
            );
        }
        if let Some(url) = urls.iter().find(|url| url.contains('$')) {
            let message = format!(
                "`{url}`: environment variables are not read; declare a parameter, and write `${{NAME}}`"
            );
            add("program", &message);
        }
        if let Some((base, path)) = urls.iter().find_map(|url| self.base_of(url)) {
            let message = format!(
                "the URL of a running server is its base, and `{path}` is added to it: write `{base}`"
            );
            add("program", &message);
        }
        if secure && plain {
            add(
                "program",
                "servers that are loaded together need the same scheme: all `http://`, or all `https://`",
            );
        }
        let distinct: BTreeSet<&str> = urls.iter().map(|url| url.trim_end_matches('/')).collect();
        if distinct.len() < urls.len() {
            add("program", "a URL is given twice; write each server once");
        }
        if self.launch.ca_file.is_some() && !secure {
            add(
                "ca-file",
                "`ca-file` has no effect without an `https://` URL",
            );
        }
        if !self.settings.is_empty() || !self.launch.arguments.is_empty() {
            add(
                "program",
                "a running server takes neither arguments nor settings, because \
                 Benchtrail does not start it",
            );
        }
        problems
    }

    /// Returns the base of a URL that ends with the path of the API or with the beginning of it, from `/v1` on; and that
    /// path.
    fn base_of<'a>(&'a self, url: &'a str) -> Option<(&'a str, &'a str)> {
        let path = match self.api {
            Api::OpenaiCompletions => self.endpoints.completions.as_deref()?,
            Api::OpenaiChat => self.endpoints.chat.as_deref()?,
            api => api.path(false),
        };
        if !path.starts_with("/v1/") {
            return None;
        }
        let ends = path.match_indices('/').map(|(at, _)| at).skip(1);
        let url = url.trim_end_matches('/');
        let mut bases = ends
            .chain([path.len()])
            .filter_map(|end| url.strip_suffix(&path[..end]))
            .filter(|base| !base.ends_with('/'));
        Some((bases.next()?, path))
    }

    /// Returns the problems with a server that Benchtrail starts.
    fn start_problems(&self) -> Vec<Problem> {
        let launch = &self.launch;
        let mut problems = Vec::new();
        let mut add = |key, message| problems.push(in_launch(key, message));
        if launch.ca_file.is_some() {
            add(
                "ca-file",
                "a server that Benchtrail starts speaks plain HTTP on this machine",
            );
        }
        if launch.api_key_env.is_some() {
            add(
                "api-key-env",
                "a server that Benchtrail starts is reachable only from this machine and gets no key",
            );
        }
        let mut texts = launch.arguments.iter().chain(launch.environment.values());
        if !texts.any(|text| text.contains("{port}")) {
            add(
                "arguments",
                "neither the arguments nor the environment contain `{port}`, so the server could \
                 not be reached",
            );
        }
        problems.extend(self.placeholder_problems());
        // A server that knows the model only by its path proves it only with the first token. A router proves it with
        // the servers behind it.
        let proves_otherwise = launch.named_as_given || !launch.peers.is_empty();
        if self.endpoints.models.is_none() && !proves_otherwise {
            problems.push(Problem::at(
                &["endpoints", "models"],
                "a model list is needed to prove that this is the server that Benchtrail started",
            ));
        }
        problems
    }

    fn placeholder_problems(&self) -> Vec<Problem> {
        let launch = &self.launch;
        let environment: Vec<String> = launch.environment.values().cloned().collect();
        let places: [(&str, &[String], &[&str]); 4] = [
            ("arguments", &launch.arguments, &[]),
            ("environment", &environment, &[]),
            (
                "revision-arguments",
                &launch.revision_arguments,
                &["revision"],
            ),
            ("draft-arguments", &launch.draft_arguments, &["draft"]),
        ];
        let mut problems = Vec::new();
        for (key, texts, more) in places {
            for name in texts.iter().flat_map(|text| placeholders(text)) {
                if PLACEHOLDERS.contains(&name) || more.contains(&name) {
                    continue;
                }
                let hint = match name {
                    "revision" => "put it into `revision-arguments`, which are left out where \
                                   the model pins no revision"
                        .to_owned(),
                    "draft" => "put it into `draft-arguments`, which are left out where the \
                                provision stage names no draft model"
                        .to_owned(),
                    _ => remedy(name, "placeholders", PLACEHOLDERS),
                };
                let message = format!("unknown placeholder `{{{name}}}`");
                problems.push(in_launch(key, &message).hint(hint));
            }
        }
        problems
    }
}

/// The mistake of a URL that would be stored with a secret.
const CREDENTIALS: &str = "a URL with a user name or a password is refused, because it would be stored: for the server, \
                           name the environment variable that holds its API key in `launch.api-key-env`";

/// Returns whether a URL has a user name or a password.
fn has_credentials(url: &str) -> bool {
    let authority = url.split(['/', '?', '#']).nth(2).unwrap_or_default();
    authority.contains('@')
}

fn in_launch(key: &str, message: &str) -> Problem {
    Problem::at(&["launch", key], message)
}

impl Model {
    /// Reads a definition and checks it for contradictions.
    ///
    /// # Errors
    /// The first wrong type or unknown key, or every contradiction.
    pub fn from_json(definition: &Json) -> Result<Self, Vec<Problem>> {
        let model: Self = serde_json::from_value(definition.clone())
            .map_err(|e| vec![Problem::at(&[], e.to_string())])?;
        let mut problems = Vec::new();
        match &model.weights {
            Weights::Packaged(weights) => {
                problems.extend(package_problems(&weights.package));
                if !is_inside(&weights.path) {
                    let message = "the path of the weights must stay inside the package";
                    problems.push(Problem::at(&["weights", "packaged", "path"], message));
                }
            }
            Weights::Local(weights) => {
                if weights.path.is_empty() {
                    let message = "the path of the weights is empty";
                    problems.push(Problem::at(&["weights", "local", "path"], message));
                }
            }
            Weights::Named(_) => {}
        }
        if problems.is_empty() {
            Ok(model)
        } else {
            Err(problems)
        }
    }
}

/// Returns whether a relative path has only plain parts.
fn is_inside(path: &str) -> bool {
    let parts = std::path::Path::new(path).components();
    !path.is_empty()
        && parts
            .into_iter()
            .all(|p| matches!(p, std::path::Component::Normal(_)))
}

fn package_problems(package: &Package) -> Vec<Problem> {
    let mut problems = Vec::new();
    if package.files.is_empty() {
        let message = format!(
            "the package `{}` has no `files`, so it would not be pinned",
            package.name
        );
        problems.push(Problem::at(&["packages"], message));
    }
    // Name and version become a line of a requirements file, so they must not smuggle in anything
    // more.
    let plain = |text: &str| {
        !text.is_empty()
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"._-+!".contains(&b))
    };
    if !plain(&package.name) || package.name.starts_with('-') || !plain(&package.version) {
        let message = format!(
            "`{}=={}` is not a package name and version",
            package.name, package.version
        );
        problems.push(Problem::at(&["packages"], message));
    }
    problems
}

/// Returns what is wrong with the address of an exporter beside a running server, and the remedy.
fn address_problem(exporter: &Exporter) -> Option<(String, Option<String>)> {
    let url = &exporter.url;
    if has_credentials(url) {
        return Some((CREDENTIALS.to_owned(), None));
    }
    let http = url.starts_with("http://") || url.starts_with("https://");
    (!http || url.contains('{')).then(|| {
        let hint = "write it in full, for example `http://10.0.0.5:9100/metrics`";
        (format!("`{url}` is not an address"), Some(hint.to_owned()))
    })
}

/// Returns the same for an engine that Benchtrail starts. It has one address beside its own, and Benchtrail samples the
/// machine by itself.
fn own_address_problem(exporter: &Exporter) -> Option<(String, Option<String>)> {
    let own = exporter.path_at_side_port().is_some() && exporter.tells == Telling::Metrics;
    (!own).then(|| {
        let message = "an exporter of an engine that Benchtrail starts is the engine's second port";
        let hint = format!(
            "write `{{url: \"{AT_SIDE_PORT}/metrics\", tells: metrics}}`; Benchtrail samples the machine by itself. Other \
             addresses are for a server that is already running (`launch.program.running`)"
        );
        (message.to_owned(), Some(hint))
    })
}
