//! The options of tools that load any HTTP server: each tool gives its letters meanings of its own.

use super::options::{left_out, nothing};
use super::{Given, Instead, Piece};

/// The tools.
const TOOLS: [&str; 6] = ["locust", "k6", "wrk", "hey", "oha", "ab"];

/// How many clients `hey` and `oha` have without an option.
const CLIENTS: u32 = 50;

/// What an option means.
#[derive(Clone, Copy)]
enum Meaning {
    /// This option of ours, with the same value.
    Ours(&'static str),
    /// This option of ours, with a value in seconds.
    Seconds(&'static str),
    /// Nothing that a load needs; with the rest of the sentence.
    Unneeded(&'static str),
    /// Something that a load does not do; with what to do.
    Other(&'static str),
    /// The method of the requests.
    Method,
    /// A header of the requests.
    Header,
}

use Meaning::{Header, Method, Other, Ours, Seconds, Unneeded};

const ALL_AT_ONCE: Meaning = Unneeded(": one process sends for all clients, and all start at once");

const A_SCRIPT: Meaning =
    Unneeded(": the script says what is sent; here `--workload NAME` or `--dataset FILE` does");

const A_BODY: Meaning = Other(
    "the body says what is sent; here `--workload NAME`, `--dataset FILE` or `--input-len N` does",
);

const A_TYPE: Meaning = Unneeded(": every request has the type of its API");

/// The options of each tool.
const OPTIONS: &[(&str, &str, Meaning)] = &[
    ("locust", "-u", Ours("--concurrency")),
    ("locust", "-t", Ours("--duration")),
    ("locust", "-r", ALL_AT_ONCE),
    ("locust", "-f", A_SCRIPT),
    ("k6", "-u", Ours("--concurrency")),
    ("k6", "-d", Ours("--duration")),
    ("k6", "-i", Ours("--requests")),
    ("k6", "-q", Ours("--quiet")),
    ("wrk", "-c", Ours("--concurrency")),
    ("wrk", "-d", Ours("--duration")),
    ("wrk", "-t", ALL_AT_ONCE),
    ("wrk", "-s", A_SCRIPT),
    ("wrk", "-H", Header),
    ("hey", "-n", Ours("--requests")),
    ("hey", "-c", Ours("--concurrency")),
    ("hey", "-z", Ours("--duration")),
    ("hey", "-q", Ours("--rate")),
    ("hey", "-t", Seconds("--timeout")),
    ("hey", "-m", Method),
    ("hey", "-H", Header),
    ("hey", "-d", A_BODY),
    ("hey", "-D", A_BODY),
    ("hey", "-T", A_TYPE),
    ("hey", "-A", A_TYPE),
    ("oha", "-n", Ours("--requests")),
    ("oha", "-c", Ours("--concurrency")),
    ("oha", "-z", Ours("--duration")),
    ("oha", "-q", Ours("--rate")),
    ("oha", "-t", Ours("--timeout")),
    ("oha", "-m", Method),
    ("oha", "-H", Header),
    ("oha", "-d", A_BODY),
    ("oha", "-D", A_BODY),
    ("oha", "-Z", A_BODY),
    ("oha", "-T", A_TYPE),
    ("ab", "-n", Ours("--requests")),
    ("ab", "-c", Ours("--concurrency")),
    ("ab", "-t", Seconds("--duration")),
    ("ab", "-s", Seconds("--timeout")),
    ("ab", "-H", Header),
    ("ab", "-p", A_BODY),
    ("ab", "-T", A_TYPE),
    (
        "ab",
        "-k",
        Unneeded(": connections are kept open between requests"),
    ),
    ("ab", "-q", Ours("--quiet")),
];

/// Returns whether a tool loads any HTTP server.
pub(super) fn is_one(tool: &str) -> bool {
    TOOLS.contains(&tool)
}

/// Returns what to write instead of an option of such a tool; `None` for an option that is not listed.
pub(super) fn of_option(tool: &str, one: &Given, given: &[Given]) -> Option<(Instead, String)> {
    let mut all = OPTIONS.iter();
    let (_, _, meaning) =
        all.find(|(of_tool, option, _)| *of_tool == tool && *option == one.option)?;
    let write = |ours: &str, value: &str| {
        let words = vec![ours.to_owned(), value.to_owned()];
        (Instead::Words(words), format!("`{ours}`"))
    };
    Some(match *meaning {
        Ours("--quiet") => (
            Instead::Words(vec!["--quiet".to_owned()]),
            "`--quiet`".to_owned(),
        ),
        // Its rate is that of each client.
        Ours("--rate") if tool == "hey" => {
            let clients = given.iter().find(|other| other.option == "-c");
            let clients = clients.and_then(Given::value);
            let clients = clients.map_or(Some(CLIENTS), |clients| clients.parse().ok())?;
            let rate = one.value()?.parse::<f64>().ok()? * f64::from(clients);
            let words = vec!["--rate".to_owned(), rate.to_string()];
            let why = format!("`--rate {rate}`: it is the rate of each of {clients} clients");
            (Instead::Words(words), why)
        }
        Ours(ours) => write(ours, one.value()?),
        Seconds(ours) => write(ours, &format!("{}s", one.value()?)),
        Unneeded(rest) => left_out(rest),
        Other(why) => nothing(why),
        Method if one.value() == Some("POST") => left_out(": every request is a POST"),
        Method => nothing("every request is a POST"),
        Header => header(one),
    })
}

/// Returns what to write instead of a header.
fn header(one: &Given) -> (Instead, String) {
    let value = one.values.join(" ");
    let name = value.split(':').next().unwrap_or_default().trim();
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    match () {
        () if is("content-type") || is("accept") => {
            left_out(": every request has the type of its API")
        }
        () if is("authorization") => nothing(
            "name the variable that holds the key, `--api-key-env MY_KEY`, so that it is not in your shell's history",
        ),
        () => {
            let words = vec!["--header".to_owned(), value];
            (Instead::Words(words), "`--header`".to_owned())
        }
    }
}

/// Makes clients beside a rate the most requests in flight, which they are in other tools.
pub(super) fn limit_a_rate(tool: &str, pieces: &mut Vec<Piece>) {
    let begins = |piece: &Piece, options: &[&str]| {
        let option = piece.words.first();
        option.is_some_and(|option| options.contains(&option.as_str()))
    };
    let rates = ["--rate", "--request-rate", "--constant"];
    if !pieces.iter().any(|piece| begins(piece, &rates)) {
        return;
    }
    let at = pieces
        .iter()
        .position(|piece| begins(piece, &["--concurrency"]));
    if let Some(at) = at {
        pieces[at].words[0] = "--max-concurrency".to_owned();
    } else if ["hey", "oha"].contains(&tool) {
        pieces.push(Piece {
            word: String::new(),
            aspects: &[],
            words: vec!["--max-concurrency".to_owned(), CLIENTS.to_string()],
        });
    }
}
