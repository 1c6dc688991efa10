//! The command line's grammar: every command, option and example that `--help` shows.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};

/// A benchmark with its trail: declare a study of LLM serving engines in one YAML file, rerun
/// only what changed, ask where a number came from, publish the report.
#[derive(Debug, Parser)]
#[command(name = "benchtrail", version, max_term_width = 100, after_long_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Options every command understands.
    #[command(flatten)]
    pub(crate) global: Global,
}

/// The exit codes, as `--help` prints them and `exit` returns them.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
    0  everything asked for is done and holds
    1  a cell is not ok, a gate failed, or what was asked for does not hold
    2  the command line or the experiment is wrong (the message says where)
    3  the store is damaged
    4  this machine lacks something that is needed
    5  nothing matches: no such stage, cell, artifact or number
  130  stopped by the user (Ctrl-C); what had finished is kept";

/// Options every command understands.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Folder of the store [default: `.benchtrail` in the project's folder].
    #[arg(
        long,
        global = true,
        env = "BENCHTRAIL_STORE",
        value_name = "DIR",
        help_heading = "Global options"
    )]
    pub(crate) store: Option<PathBuf>,
    /// Print JSON instead of text.
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,
}

/// Which experiment, in which form.
#[derive(Debug, Args)]
pub(crate) struct ExperimentArgs {
    /// The experiment's YAML file.
    pub(crate) experiment: PathBuf,
    /// Give a parameter another value.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_assignment)]
    pub(crate) set: Vec<(String, String)>,
    /// Use a profile of the experiment: a named set of parameter values and axes.
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Short for `--profile smoke`.
    #[arg(long, conflicts_with = "profile")]
    pub(crate) smoke: bool,
}

impl ExperimentArgs {
    /// Returns the profile asked for, by either option.
    pub(crate) fn profile(&self) -> Option<String> {
        if self.smoke { Some("smoke".to_owned()) } else { self.profile.clone() }
    }
}

/// Which cells to consider, and what to force.
#[derive(Debug, Args, Default)]
pub(crate) struct Selection {
    /// Execute only these stages or cells and what they need: `STAGE` or `STAGE[axis=label,…]`.
    #[arg(long, value_name = "CELLS")]
    pub(crate) only: Vec<String>,
    /// Execute this stage and everything below it again (measurements only with --fresh).
    #[arg(long, value_name = "STAGE")]
    pub(crate) from: Option<String>,
    /// Measure this stage again although its results are cached; the earlier ones are kept.
    #[arg(long, value_name = "STAGE")]
    pub(crate) fresh: Vec<String>,
    /// Take engines and measurements from the lock, whatever machine this is.
    #[arg(long)]
    pub(crate) locked: bool,
}

/// What benchtrail can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Execute what is missing of an experiment and render its report.
    #[command(after_long_help = "Examples:
  benchtrail run experiments/quickstart.yaml
  benchtrail run experiments/quickstart.yaml --smoke
  benchtrail run experiments/quickstart.yaml --set reps=5 --keep-going
  benchtrail run experiments/quickstart.yaml --fresh ladder     measure again, keep the old rows
  benchtrail run experiments/quickstart.yaml --only 'ladder[concurrency=8]'
  benchtrail run experiments/quickstart.yaml --locked           re-analyze on any machine")]
    Run(RunArgs),
    /// Show for every cell whether it is cached or must run, and why.
    #[command(after_long_help = "Examples:
  benchtrail plan experiments/quickstart.yaml
  benchtrail plan experiments/quickstart.yaml --set output_tokens=64
  benchtrail plan experiments/quickstart.yaml --cells --json
  benchtrail plan experiments/quickstart.yaml --dry-run      try analysis and report on made-up rows")]
    Plan(PlanArgs),
    /// Show what became of every cell, as the lock has it.
    #[command(after_long_help = "Examples:
  benchtrail status experiments/quickstart.yaml
  benchtrail status experiments/quickstart.yaml --cells")]
    Status(StatusArgs),
    /// List the artifacts of a stage.
    #[command(after_long_help = "Examples:
  benchtrail ls experiments/quickstart.yaml
  benchtrail ls experiments/quickstart.yaml results
  benchtrail ls experiments/quickstart.yaml 'ladder[concurrency=8,rep=1]'")]
    Ls(LsArgs),
    /// Show an artifact: a table, a record, a log.
    #[command(after_long_help = "Examples:
  benchtrail show experiments/quickstart.yaml results.efficiency
  benchtrail show experiments/quickstart.yaml 'ladder[configuration=batched,workload=short-decode,concurrency=8,rep=1].requests'
  benchtrail show b3:1f0c2a…                       any object, by the start of its digest
  benchtrail show b3:1f0c2a… --rows 4..20 --columns request_id,status
  benchtrail show b3:1f0c2a… --raw > requests.parquet")]
    Show(ShowArgs),
    /// Load a server at a URL once, without an experiment, and print the usual table.
    #[command(after_long_help = "Examples:
  benchtrail load --url http://127.0.0.1:8080 --concurrency 8 --requests 64
  benchtrail load --url http://127.0.0.1:8080 --rate 5 --requests 300 --slo ttft=200,tpot=40
  benchtrail load --url http://127.0.0.1:8080 --rate 1 --search 64 --slo ttft=200   highest rate that keeps it
  benchtrail load --url http://127.0.0.1:8080 --concurrency 8 --compat vllm         vLLM's figures of the rows
  benchtrail load --url http://127.0.0.1:8080 --constant 20 --prompt-words 100..400 --output-tokens 64
  benchtrail load --url http://127.0.0.1:8080 --workload shared-prefix --concurrency 16 --warmup 16
  benchtrail load --url http://127.0.0.1:8080 --burst --requests 32 --out rows     Parquet of every row
  benchtrail load --url http://127.0.0.1:8080 --api openai-chat --api-key-env OPENAI_API_KEY --json

The definition of every metric, and where other tools define it otherwise: docs/load.md")]
    Load(Box<LoadArgs>),
    /// Measure the error of the load generator itself on this machine.
    #[command(after_long_help = "Examples:
  benchtrail calibrate --quick
  benchtrail calibrate --out calibration
  benchtrail calibrate --concurrency 1,64,1024 --gap '5 ms,20 ms' --duration '5 s'
  benchtrail calibrate --rate 100,1000 --bound '1 ms,10 ms' --json
  benchtrail calibrate --quick --tls
  benchtrail calibrate --quick --url http://127.0.0.1:8080 --server-concurrency 1,8

What is compared with what, and what the columns mean: docs/load-accuracy.md")]
    Calibrate(CalibrateArgs),
    /// Ask the tables of an experiment a question in SQL.
    #[command(
        after_long_help = "Tables are named \"STAGE.OUTPUT\" (in double quotes, because of the dot), or OUTPUT alone where
one stage has it. A stage with axes has the rows of all its ok cells in one table, the axes as
columns. What a query may say: docs/sql.md.

Examples:
  benchtrail sql experiments/quickstart.yaml                list the tables
  benchtrail sql experiments/quickstart.yaml 'select * from \"results.cells\" limit 5'
  benchtrail sql experiments/quickstart.yaml \\
      'select configuration, concurrency, quantile((done_ns - sent_ns) / 1e6, 0.99) as p99_ms
       from \"ladder.requests\" group by configuration, concurrency'
  benchtrail sql experiments/quickstart.yaml 'select * from gates where not passed' --json
  benchtrail sql experiments/quickstart.yaml 'select * from cells' --parquet cells.parquet"
    )]
    Sql(SqlArgs),
    /// Tell where a number of a report came from, down to the raw request rows.
    #[command(after_long_help = "Examples:
  benchtrail why reports/quickstart/report.md:42
  benchtrail why reports/quickstart/report.md:42:17
  benchtrail why reports/quickstart/report.md 0.573 --json")]
    Why(WhyArgs),
    /// Recompute every number of a report from its artifacts and check every digest on the way.
    #[command(after_long_help = "Examples:
  benchtrail audit reports/quickstart/report.md
  benchtrail audit --foreign their-report.md --data their-tables --sarif findings.sarif

With --foreign the report need not be Benchtrail's: its numbers are held against each other and
against the tables of --data. Rules and what the confidences mean: docs/foreign-audit.md.")]
    Audit(AuditArgs),
    /// Write a finished study as a directory that others can check and reproduce.
    #[command(after_long_help = "Examples:
  benchtrail publish experiments/quickstart.yaml --author 'Ada Lovelace'
  benchtrail publish experiments/quickstart.yaml --author 'A. Lovelace' --author 'C. Babbage' --archive
  benchtrail publish experiments/quickstart.yaml --author 'Ada Lovelace' --key study.key --license CC0-1.0
  benchtrail publish experiments/quickstart.yaml --smoke --author 'Ada Lovelace' --out /tmp/smoke-bundle

Secrets and user names are searched for in everything that would become public; a finding refuses
the whole. What is meant to be public passes with `--allow RULE`. What a bundle holds:
docs/publish.md.")]
    Publish(PublishArgs),
    /// Check a published bundle: every byte, the signature, the lock, every number of its reports.
    #[command(after_long_help = "Examples:
  benchtrail verify published/quickstart
  benchtrail verify quickstart.tar.zst --key study.pub")]
    Verify(VerifyArgs),
    /// Execute the pure stages of a published bundle again and compare every byte.
    #[command(after_long_help = "Examples:
  benchtrail reproduce published/quickstart
  benchtrail reproduce quickstart.tar.zst --json

Nothing but the bundle is read: no engine, no network, no store. Measurements are taken as they
are; verify, analyze and report are executed from them.")]
    Reproduce(ReproduceArgs),
    /// Show what changed between two studies, and whether it exceeds the measured noise.
    #[command(after_long_help = "Examples:
  benchtrail diff old/quickstart.lock experiments/quickstart.yaml
  benchtrail diff published/before published/after --column output_throughput --threshold 2
  benchtrail diff baseline.tar.zst experiments/quickstart.yaml --gate       for CI: exit code 1 on a regression
  benchtrail diff experiments/quickstart.yaml             one study: what changed since its lock, as `plan` tells

A side is a lock, an experiment's YAML file (its lock), or a bundle. A result counts as changed if
its mean over repetitions moved by the threshold and the test's p, adjusted by Holm over all results,
is at most alpha. Without two repetitions on both sides there is no test, and `--gate` does not pass.")]
    Diff(DiffArgs),
    /// Make a pair of Ed25519 keys for signing bundles.
    #[command(after_long_help = "Examples:
  benchtrail keygen study                 writes study.key (keep it) and study.pub (give it away)")]
    Keygen(KeygenArgs),
    /// Check every object and reference of the store.
    #[command(after_long_help = "Examples:
  benchtrail fsck
  benchtrail fsck --subset 1/7        a seventh of the objects, for instance each day
  benchtrail fsck --repair            put damaged objects aside, so that the next run makes them again")]
    Fsck(FsckArgs),
    /// Remove what no lock reaches.
    #[command(after_long_help = "Examples:
  benchtrail gc --dry-run
  benchtrail gc
  benchtrail gc --locks ../other-study")]
    Gc(GcArgs),
    /// Tell what this machine has and lacks.
    #[command(after_long_help = "Examples:
  benchtrail doctor
  benchtrail doctor experiments/quickstart.yaml")]
    Doctor(DoctorArgs),
    /// Print the JSON Schema of experiments, for editors.
    #[command(after_long_help = "Examples:
  benchtrail schema > experiment.schema.json
  # first line of an experiment, for editors with a YAML language server:
  # yaml-language-server: $schema=../experiment.schema.json")]
    Schema,
}

/// Arguments of `run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Which experiment.
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
    /// Which cells.
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Go on with other cells when one fails; later stages see the ledger.
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// Threads for pure stages [default: the number of cores].
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// Where to write the report; figures and trace go beside it
    /// [default: `reports/NAME/report.md` in the project's folder].
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Write every event as one JSON line to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) events: Option<PathBuf>,
    /// Measure without trying verification, analysis and report on made-up rows first.
    #[arg(long)]
    pub(crate) no_dry_run: bool,
    /// Say nothing but the result.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Arguments of `plan`.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// Which experiment.
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
    /// Which cells.
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// A line for each cell instead of grouping cells of one stage that share a reason.
    #[arg(long)]
    pub(crate) cells: bool,
    /// Also execute verification, analysis and report over made-up rows, in a store that is thrown
    /// away, to find what is wrong with them before anything is measured.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Arguments of `status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Which experiment.
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
    /// A line for each cell, ok ones too.
    #[arg(long)]
    pub(crate) cells: bool,
}

/// Arguments of `ls`.
#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// Which experiment.
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
    /// Which stage or cells: `STAGE` or `STAGE[axis=label,…]` [default: all].
    pub(crate) cells: Option<String>,
}

/// Arguments of `show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// A digest (its start is enough), or an experiment's YAML file.
    pub(crate) source: String,
    /// In an experiment: `STAGE.OUTPUT`, `STAGE[axis=label,…].OUTPUT`; without an output, the record.
    pub(crate) what: Option<String>,
    /// Use a profile of the experiment.
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Short for `--profile smoke`.
    #[arg(long, conflicts_with = "profile")]
    pub(crate) smoke: bool,
    /// Which rows of a table, half-open: `FROM..TO` [default: the first 40].
    #[arg(long, value_name = "FROM..TO")]
    pub(crate) rows: Option<String>,
    /// Which columns of a table, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub(crate) columns: Vec<String>,
    /// Write the bytes as they are in the store.
    #[arg(long)]
    pub(crate) raw: bool,
}

/// Arguments of `load`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("arrivals"))]
pub(crate) struct LoadArgs {
    /// The server's URL, such as `http://127.0.0.1:8080` or `https://engine.example`.
    #[arg(long)]
    pub(crate) url: String,
    /// For https://: a PEM file with the only certificates to trust [default: those the operating
    /// system trusts].
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// The model's name in requests [default: the first one under /v1/models].
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// The API to speak.
    #[arg(long, value_name = "API", default_value = "openai-completions", value_parser = parse_api())]
    pub(crate) api: String,
    /// Ask for whole answers instead of streamed ones: there is no time to first token then.
    #[arg(long)]
    pub(crate) no_stream: bool,
    /// The environment variable that holds the API key; the key itself is stored nowhere.
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) api_key_env: Option<String>,
    /// A header sent with every request, for instance a route of a gateway; may be repeated.
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = parse_header)]
    pub(crate) headers: Vec<(String, String)>,

    /// So many clients, each sending its next request when its last is answered [default: 1].
    #[arg(long, value_name = "N", group = "arrivals", help_heading = "When requests arrive",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) concurrency: Option<u32>,
    /// Poisson arrivals, so many requests a second, whatever the server does.
    #[arg(long, value_name = "R", group = "arrivals", help_heading = "When requests arrive",
          value_parser = parse_rate, allow_negative_numbers = true)]
    pub(crate) rate: Option<f64>,
    /// Evenly spaced arrivals, so many requests a second, whatever the server does.
    #[arg(long, value_name = "R", group = "arrivals", help_heading = "When requests arrive",
          value_parser = parse_rate, allow_negative_numbers = true)]
    pub(crate) constant: Option<f64>,
    /// Every request at once.
    #[arg(long, group = "arrivals", help_heading = "When requests arrive")]
    pub(crate) burst: bool,
    /// A ladder of Poisson arrivals: rate and seconds of each step, as in `2:30,4:30,8:30`.
    #[arg(long, value_name = "R:S,…", value_delimiter = ',', value_parser = parse_step, group = "arrivals", help_heading = "When requests arrive")]
    pub(crate) steps: Vec<(f64, f64)>,
    /// Poisson arrivals whose rate changes evenly: from, to, and over how many seconds.
    #[arg(long, value_name = "FROM:TO:S", value_parser = parse_ramp, group = "arrivals", help_heading = "When requests arrive")]
    pub(crate) ramp: Option<(f64, f64, f64)>,
    /// Times and lengths of a recorded trace, JSON Lines or CSV; with --workload or --prompt-words
    /// only the times.
    #[arg(long, value_name = "FILE", group = "arrivals", help_heading = "When requests arrive")]
    pub(crate) trace: Option<String>,
    /// How many times faster than recorded the trace is replayed.
    #[arg(
        long,
        value_name = "X",
        default_value_t = 1.0,
        requires = "trace",
        help_heading = "When requests arrive"
    )]
    pub(crate) speed: f64,
    /// With --rate: gamma arrivals of this shape; 1 is Poisson, smaller comes in bursts.
    #[arg(long, value_name = "SHAPE", requires = "rate", help_heading = "When requests arrive")]
    pub(crate) burstiness: Option<f64>,
    /// How many requests are measured [default: 64; what fits into a ladder or ramp; all of a trace].
    #[arg(long, value_name = "N", help_heading = "When requests arrive",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests: Option<u64>,
    /// How many requests are sent and answered before, and not counted.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "When requests arrive")]
    pub(crate) warmup: u64,

    /// A workload by name: shipped, or `workloads/NAME.yaml` here [default: short-decode].
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with = "prompt_words",
        help_heading = "What a request asks for"
    )]
    pub(crate) workload: Option<String>,
    /// Prompts of so many random words, nothing in common between them: `N` or `A..B`, both ends in it.
    #[arg(long, value_name = "A..B", value_parser = parse_count, help_heading = "What a request asks for")]
    pub(crate) prompt_words: Option<(u32, u32)>,
    /// Prompts of so many tokens, made of random words: `N` or `A..B`. The server's own
    /// tokenizer counts, unless --tokenizer is given.
    #[arg(long, value_name = "A..B", value_parser = parse_count, conflicts_with_all = ["prompt_words", "workload"], help_heading = "What a request asks for")]
    pub(crate) prompt_tokens: Option<(u32, u32)>,
    /// A `tokenizer.json` that counts the tokens of --prompt-tokens.
    #[arg(long, value_name = "FILE", requires = "prompt_tokens", help_heading = "What a request asks for")]
    pub(crate) tokenizer: Option<String>,
    /// Output tokens asked for, `N` or `A..B`, end of sequence ignored where the API can be told
    /// so [default: as the workload says; 64 with --prompt-words or --prompt-tokens].
    #[arg(long, value_name = "N", value_parser = parse_count, help_heading = "What a request asks for")]
    pub(crate) output_tokens: Option<(u32, u32)>,
    /// Decides prompts and random arrivals.
    #[arg(long, value_name = "N", default_value_t = 164, help_heading = "What a request asks for")]
    pub(crate) seed: u64,

    /// For opening a connection.
    #[arg(long, value_name = "SPAN", value_parser = parse_span, default_value = "10 s", help_heading = "Time limits")]
    pub(crate) connect_timeout: String,
    /// From sending to the first byte of the answer's body.
    #[arg(long, value_name = "SPAN", value_parser = parse_span, default_value = "5 min", help_heading = "Time limits")]
    pub(crate) first_token_timeout: String,
    /// Between bytes of the answer's body.
    #[arg(long, value_name = "SPAN", value_parser = parse_span, default_value = "1 min", help_heading = "Time limits")]
    pub(crate) inter_token_timeout: String,
    /// From sending to the answer's end.
    #[arg(long, value_name = "SPAN", value_parser = parse_span, default_value = "1 h", help_heading = "Time limits")]
    pub(crate) timeout: String,
    /// No byte on any stream for so long ends the run as hung; `0 s` never does.
    #[arg(long, value_name = "SPAN", value_parser = parse_span, default_value = "1 min", help_heading = "Time limits")]
    pub(crate) heartbeat: String,

    /// From one sample beside the load to the next; samples are taken with --out.
    #[arg(long, value_name = "SPAN", value_parser = parse_span, default_value = "1 s", help_heading = "Beside the load")]
    pub(crate) telemetry_interval: String,
    /// Where GPUs are read: `auto`, `nvml`, `nvidia-smi` or `none`.
    #[arg(long, value_name = "WORD", default_value = "auto", value_parser = ["auto", "nvml", "nvidia-smi", "none"], help_heading = "Beside the load")]
    pub(crate) gpu: String,
    /// The server's process, if it runs on this machine: its process group is sampled.
    #[arg(long, value_name = "PID", help_heading = "Beside the load")]
    pub(crate) server_pid: Option<u32>,
    /// A silent server is hung only if no GPU drew so many watts on average meanwhile.
    #[arg(long, value_name = "WATTS", help_heading = "Beside the load")]
    pub(crate) hung_below: Option<f64>,
    /// Where llama.cpp tells its slots, for slots.parquet.
    #[arg(long, value_name = "PATH", help_heading = "Beside the load")]
    pub(crate) slots: Option<String>,
    /// Where SGLang tells its state, for server_info.parquet.
    #[arg(long, value_name = "PATH", help_heading = "Beside the load")]
    pub(crate) server_info: Option<String>,

    /// Search for the highest level that keeps --slo, from that of --concurrency, --rate or
    /// --constant up to this one; --requests [default: 400] is the most judged at one level, unless
    /// a rate needs more to show an overload.
    #[arg(long, value_name = "LEVEL", requires = "slo", help_heading = "Search")]
    pub(crate) search: Option<f64>,
    /// The share of requests that must keep --slo.
    #[arg(long, value_name = "SHARE", default_value_t = 0.95, requires = "search", help_heading = "Search")]
    pub(crate) attainment: f64,
    /// How far apart, relatively, the level kept and the level missed may be at the end.
    #[arg(long, value_name = "SHARE", default_value_t = 0.05, requires = "search", help_heading = "Search")]
    pub(crate) resolution: f64,
    /// The longest that requests may arrive in one probe of a rate.
    #[arg(long, value_name = "SPAN", default_value = "5 min", requires = "search", help_heading = "Search")]
    pub(crate) longest: String,

    /// Bounds in ms for goodput: any of `ttft`, `tpot`, `e2e`, as in `ttft=200,tpot=40`.
    #[arg(long, value_name = "BOUNDS", value_delimiter = ',', value_parser = parse_bound, help_heading = "Results")]
    pub(crate) slo: Vec<(String, f64)>,
    /// Print, too, what another tool's formulas make of the same rows.
    #[arg(long, value_name = "TOOL", value_parser = parse_tool(), conflicts_with = "search", help_heading = "Results")]
    pub(crate) compat: Option<String>,
    /// Where the server's Prometheus metrics are, for server_metrics.parquet.
    #[arg(long, value_name = "PATH", default_value = "/metrics", help_heading = "Results")]
    pub(crate) metrics: String,
    /// Write requests, chunks, cell, prompts and what is sampled beside the load as Parquet into this folder.
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub(crate) out: Option<PathBuf>,
    /// Say nothing but the result.
    #[arg(long, short, help_heading = "Results")]
    pub(crate) quiet: bool,
}

/// Arguments of `calibrate`.
#[derive(Debug, Args)]
pub(crate) struct CalibrateArgs {
    /// Closed loops of so many clients, separated by commas [default: 1,16,64,256].
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub(crate) concurrency: Vec<u32>,
    /// Constant arrivals of so many requests a second, separated by commas [default: 50,200].
    #[arg(long, value_name = "R,…", value_delimiter = ',')]
    pub(crate) rate: Vec<f64>,
    /// Gaps between tokens, separated by commas [default: 10 ms,50 ms].
    #[arg(long, value_name = "SPAN,…", value_delimiter = ',')]
    pub(crate) gap: Vec<String>,
    /// How long each point is measured, about [default: 3 s].
    #[arg(long, value_name = "SPAN")]
    pub(crate) duration: Option<String>,
    /// What |error| of TTFT and E2E may be: median and 99th percentile [default: 2 ms,20 ms].
    #[arg(long, value_name = "P50,P99", value_parser = parse_spans)]
    pub(crate) bound: Option<(String, String)>,
    /// A small grid, one second a point.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Let the reference server speak TLS, with a certificate made for it.
    #[arg(long)]
    pub(crate) tls: bool,
    /// Decides the prompts.
    #[arg(long, value_name = "N", default_value_t = 164)]
    pub(crate) seed: u64,
    /// Write calibration.parquet and instrument.json, with --url server_account.parquet, into this
    /// folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Say nothing but the result.
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// Compare times with the own account of a server that tells one (llama.cpp), such as
    /// `http://127.0.0.1:8080`.
    #[arg(long, help_heading = "A real server")]
    pub(crate) url: Option<String>,
    /// Closed loops of so many clients, separated by commas.
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "1",
        requires = "url",
        help_heading = "A real server"
    )]
    pub(crate) server_concurrency: Vec<u32>,
    /// Requests of each closed loop.
    #[arg(long, value_name = "N", default_value_t = 64, requires = "url", help_heading = "A real server")]
    pub(crate) server_requests: u64,
    /// For https://: a PEM file with the only certificates to trust [default: those the operating
    /// system trusts].
    #[arg(long, value_name = "FILE", requires = "url", help_heading = "A real server")]
    pub(crate) ca_file: Option<PathBuf>,
    /// The model's name in requests [default: the first one under /v1/models].
    #[arg(long, value_name = "NAME", requires = "url", help_heading = "A real server")]
    pub(crate) model: Option<String>,
    /// The API to speak.
    #[arg(long, value_name = "API", default_value = "openai-completions", value_parser = parse_api(), requires = "url", help_heading = "A real server")]
    pub(crate) api: String,
    /// The environment variable that holds the API key; the key itself is stored nowhere.
    #[arg(long, value_name = "VARIABLE", requires = "url", help_heading = "A real server")]
    pub(crate) api_key_env: Option<String>,
}

/// Arguments of `sql`.
#[derive(Debug, Args)]
pub(crate) struct SqlArgs {
    /// The experiment's YAML file.
    pub(crate) experiment: PathBuf,
    /// One SELECT [default: list the tables].
    pub(crate) query: Option<String>,
    /// Use a profile of the experiment.
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Short for `--profile smoke`.
    #[arg(long, conflicts_with = "profile")]
    pub(crate) smoke: bool,
    /// Which rows of the answer to show, half-open: `FROM..TO` [default: the first 40].
    #[arg(long, value_name = "FROM..TO")]
    pub(crate) rows: Option<String>,
    /// Print the answer as CSV: null is an empty field.
    #[arg(long, conflicts_with_all = ["rows", "json"])]
    pub(crate) csv: bool,
    /// Write the answer to a Parquet file, units in the fields' metadata.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rows", "csv"], requires = "query")]
    pub(crate) parquet: Option<PathBuf>,
}

/// Arguments of `why`.
#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// The report, with `:LINE` or `:LINE:COLUMN` to point at a place in it.
    pub(crate) report: String,
    /// The number as the report prints it.
    pub(crate) number: Option<String>,
}

/// Arguments of `audit`.
#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// The report.
    pub(crate) report: PathBuf,
    /// The report is not Benchtrail's: Markdown, or text extracted from another format.
    #[arg(long)]
    pub(crate) foreign: bool,
    /// Tables to hold the report against: a folder of CSV, TSV, JSON lines (.jsonl) or Parquet files.
    #[arg(long, value_name = "DIR", requires = "foreign")]
    pub(crate) data: Option<PathBuf>,
    /// Write the findings as SARIF 2.1.0 too.
    #[arg(long, value_name = "FILE", requires = "foreign")]
    pub(crate) sarif: Option<PathBuf>,
    /// Exit with 1 from this confidence on; lower ones are shown all the same.
    #[arg(long, value_name = "CONFIDENCE", value_enum, default_value_t = AtLeast::High, requires = "foreign")]
    pub(crate) at_least: AtLeast,
}

/// Confidence of a finding in a foreign report.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum AtLeast {
    /// To look at.
    Low,
    /// What the words are bound to is an inference; the arithmetic is not.
    Medium,
    /// Operands and result stand beside each other, or the form is broken.
    High,
}

/// Arguments of `publish`.
#[derive(Debug, Args)]
pub(crate) struct PublishArgs {
    /// Which experiment.
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
    /// Who is to be cited; once for each author.
    #[arg(long, value_name = "NAME", required = true)]
    pub(crate) author: Vec<String>,
    /// The license of the results, an SPDX identifier.
    #[arg(long, value_name = "ID", default_value = "CC-BY-4.0", value_parser = parse_license)]
    pub(crate) license: String,
    /// The directory to write; it must not exist [default: `published/NAME` in the project's folder].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Write `DIR.tar.zst` too.
    #[arg(long)]
    pub(crate) archive: bool,
    /// The private key to sign with, as `benchtrail keygen` makes it.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// A file that the study reads and that must not be copied, a data set for instance: the bundle
    /// names its digest alone.
    #[arg(long, value_name = "FILE")]
    pub(crate) leave_out: Vec<PathBuf>,
    /// Switch off a rule of the search for secrets; the bundle says so.
    #[arg(long, value_name = "RULE", value_parser = parse_rule())]
    pub(crate) allow: Vec<String>,
}

/// Arguments of `verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The bundle: a directory, or a `.tar.zst`.
    pub(crate) bundle: PathBuf,
    /// The public key that must have signed it.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
}

/// Arguments of `reproduce`.
#[derive(Debug, Args)]
pub(crate) struct ReproduceArgs {
    /// The bundle: a directory, or a `.tar.zst`.
    pub(crate) bundle: PathBuf,
    /// Threads [default: the number of cores].
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
}

/// Arguments of `diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The older study: a lock, an experiment's YAML file, or a bundle.
    pub(crate) a: PathBuf,
    /// The newer study.
    pub(crate) b: Option<PathBuf>,
    /// The profile, for sides that are YAML files.
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Short for `--profile smoke`.
    #[arg(long, conflicts_with = "profile")]
    pub(crate) smoke: bool,
    /// Columns of the tables of cells to compare [default: throughputs and the usual latencies].
    #[arg(long, value_name = "NAME")]
    pub(crate) column: Vec<String>,
    /// The smallest relative change that counts, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    pub(crate) threshold: f64,
    /// The largest Holm-adjusted p that counts.
    #[arg(long, value_name = "P", default_value_t = 0.05)]
    pub(crate) alpha: f64,
    /// The test over repetitions.
    #[arg(long, value_name = "TEST", default_value = "welch", value_parser = ["welch", "mann-whitney"])]
    pub(crate) test: String,
    /// Exit with 1 if a result got worse, or changed where nobody measured the noise.
    #[arg(long)]
    pub(crate) gate: bool,
}

/// Arguments of `keygen`.
#[derive(Debug, Args)]
pub(crate) struct KeygenArgs {
    /// The files' name without extension.
    #[arg(default_value = "benchtrail")]
    pub(crate) name: PathBuf,
}

/// Arguments of `fsck`.
#[derive(Debug, Args)]
pub(crate) struct FsckArgs {
    /// Check part N of T only.
    #[arg(long, value_name = "N/T")]
    pub(crate) subset: Option<String>,
    /// Put damaged objects aside and forget what refers to them.
    #[arg(long)]
    pub(crate) repair: bool,
}

/// Arguments of `gc`.
#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    /// Tell what would be removed; remove nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Further folders whose `*.lock` files keep what they reach.
    #[arg(long, value_name = "DIR")]
    pub(crate) locks: Vec<PathBuf>,
}

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Also check what this experiment needs.
    pub(crate) experiment: Option<PathBuf>,
}

fn parse_assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is not NAME=VALUE"))?;
    if name.is_empty() {
        return Err(format!("`{text}` names no parameter"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// Reads `NAME: VALUE`.
fn parse_header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("expected `NAME: VALUE`, such as `X-Route: blue`")?;
    let (name, value) = (name.trim().to_owned(), value.trim().to_owned());
    match load::header_problem(&name, &value) {
        Some((problem, remedy)) => Err(format!("{problem}: {remedy}")),
        None => Ok((name, value)),
    }
}

fn parse_api() -> PossibleValuesParser {
    PossibleValuesParser::new(load::Api::all().map(load::Api::word))
}

fn parse_tool() -> PossibleValuesParser {
    PossibleValuesParser::new(rows::compat::Tool::ALL.map(rows::compat::Tool::word))
}

fn parse_rule() -> PossibleValuesParser {
    PossibleValuesParser::new(bundle::RULES.iter().map(|rule| rule.name))
}

/// Reads an SPDX license identifier; which of them exist is not known here.
fn parse_license(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
    if !text.is_empty() && text.chars().all(plain) {
        Ok(text.to_owned())
    } else {
        Err(format!("`{text}` is no SPDX identifier such as CC-BY-4.0"))
    }
}

/// Reads `N` or `A..B`, both ends in it.
fn parse_count(text: &str) -> Result<(u32, u32), String> {
    let number = |part: &str| part.trim().parse::<u32>().ok();
    let ends = match text.split_once("..") {
        Some((from, to)) => number(from).zip(number(to)),
        None => number(text).map(|n| (n, n)),
    };
    match ends {
        Some((from, to)) if (1..=to).contains(&from) => Ok((from, to)),
        Some(_) => Err(format!("`{text}`: at least 1, and the smaller number first")),
        None => Err(format!("`{text}` is neither a number nor a range `A..B`")),
    }
}

/// Reads two spans of time, separated by a comma.
fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| "a number of requests a second above 0 is wanted".to_owned())
}

fn parse_span(text: &str) -> Result<String, String> {
    load::Span::parse(text).map(|_| text.to_owned())
}

fn parse_spans(text: &str) -> Result<(String, String), String> {
    let (first, second) = text.split_once(',').ok_or_else(|| format!("`{text}` is not `P50,P99`"))?;
    load::Span::parse(first)?;
    load::Span::parse(second)?;
    Ok((first.trim().to_owned(), second.trim().to_owned()))
}

fn parse_bound(text: &str) -> Result<(String, f64), String> {
    let (name, bound) = text.split_once('=').ok_or_else(|| format!("`{text}` is not METRIC=MILLISECONDS"))?;
    if !["ttft", "tpot", "e2e"].contains(&name) {
        return Err(format!("no bound can be set on `{name}`: there are ttft, tpot and e2e"));
    }
    let number = bound.strip_suffix("ms").unwrap_or(bound).trim().parse::<f64>().ok();
    let number = number.filter(|n| n.is_finite() && *n > 0.0);
    Ok((name.to_owned(), number.ok_or_else(|| format!("`{bound}` is no number of milliseconds above 0"))?))
}

fn parse_numbers<const N: usize>(text: &str, form: &str) -> Result<[f64; N], String> {
    let numbers: Vec<f64> = text.split(':').filter_map(|part| part.trim().parse().ok()).collect();
    let parts = text.split(':').count();
    numbers.try_into().ok().filter(|_| parts == N).ok_or_else(|| format!("`{text}` is not {form}"))
}

fn parse_step(text: &str) -> Result<(f64, f64), String> {
    parse_numbers(text, "RATE:SECONDS").map(|[rate, seconds]| (rate, seconds))
}

fn parse_ramp(text: &str) -> Result<(f64, f64, f64), String> {
    parse_numbers(text, "FROM:TO:SECONDS").map(|[from, to, seconds]| (from, to, seconds))
}
