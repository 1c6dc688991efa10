//! The commands, with the examples that `--help` shows.

use clap::{Parser, Subcommand};

use super::{
    AuditArgs, CalibrateArgs, CompletionsArgs, DiffArgs, DoctorArgs, ExploreArgs, FsckArgs, GcArgs,
    Global, HistoryArgs, InitArgs, KeygenArgs, ListArgs, LoadArgs, LsArgs, ManArgs, PlanArgs,
    PowerArgs, PublishArgs, ReportArgs, ReproduceArgs, RunArgs, SchemaArgs, ShowArgs, SqlArgs,
    StatusArgs, VerifyArgs, WhyArgs,
};

/// A benchmark with its trail: declare a study of LLM serving engines in one YAML file, rerun only
/// what changed, trace every number, publish the report.
#[derive(Debug, Parser)]
#[command(name = "benchtrail", version, max_term_width = 100, after_long_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Options of every command.
    #[command(flatten)]
    pub(crate) global: Global,
}

/// The exit codes, as `--help` prints them and `exit` returns them.
const EXIT_CODES: &str = "\
Exit codes:
    0  success
    1  a cell is not ok, a gate failed, or a check found a problem
    2  the command line or the experiment is invalid (the message says where)
    3  the store is damaged
    4  this machine lacks something that the command needs
    5  nothing matches: no such stage, cell, artifact or number
    6  undecidable: the data cannot answer (`diff --gate`)
  130  interrupted (Ctrl-C); finished cells are kept";

/// The commands of `benchtrail`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write a short study that runs, as a file to change.
    #[command(after_long_help = "Examples:
  benchtrail init my-study                                  asks in a terminal; `--yes` takes the defaults
  benchtrail init my-study --engine vllm --model Qwen/Qwen3-0.6B --clients 1,8,64
  benchtrail init my-study --workloads short-decode,shared-prefix --rates 1,2,4 --repetitions 5
  benchtrail init endpoint --from-url http://127.0.0.1:8000
  benchtrail init again --from-load rows                    from what `load --out rows` has loaded")]
    Init(InitArgs),
    /// List what an experiment can name: engines, models, workloads, gates, operators, templates, APIs.
    #[command(after_long_help = "Examples:
  benchtrail list engines
  benchtrail list engines vllm                              one of them in full
  benchtrail list gates row-status
  benchtrail list workloads --json

Definitions in this folder (`engines/NAME.yaml` and so on) are listed, too.")]
    List(ListArgs),
    /// Execute the missing cells of an experiment and render its report.
    #[command(after_long_help = "Examples:
  benchtrail run experiments/quickstart.yaml
  benchtrail run experiments/quickstart.yaml --smoke
  benchtrail run experiments/quickstart.yaml --set reps=5 --keep-going
  benchtrail run experiments/quickstart.yaml --fresh ladder     measure again, keep old rows
  benchtrail run experiments/quickstart.yaml --only 'ladder[concurrency=8]'
  benchtrail run experiments/quickstart.yaml --locked           analyze again on any machine")]
    Run(RunArgs),
    /// Show whether each cell is cached or must run, and why.
    #[command(after_long_help = "Examples:
  benchtrail plan experiments/quickstart.yaml
  benchtrail plan experiments/quickstart.yaml --set output_tokens=64
  benchtrail plan experiments/quickstart.yaml --cells --json
  benchtrail plan experiments/quickstart.yaml --dry-run      try analysis and report on made-up rows")]
    Plan(PlanArgs),
    /// Simulate an experiment's comparisons: how often a verdict would be wrong, and what it would find.
    #[command(after_long_help = "Examples:
  benchtrail power experiments/quickstart.yaml
  benchtrail power experiments/quickstart.yaml --set blocks=8 --effect 5
  benchtrail power experiments/quickstart.yaml --noise 2 --studies 10000 --json

Nothing is measured. The cells, blocks, families and margins are the experiment's own, and the same
operators judge the simulated cells that judge measured ones. For what is simulated, see
docs/statistics.md.")]
    Power(PowerArgs),
    /// Show the status of every cell, as recorded in the lock.
    #[command(after_long_help = "Examples:
  benchtrail status experiments/quickstart.yaml
  benchtrail status experiments/quickstart.yaml --cells")]
    Status(StatusArgs),
    /// List the artifacts of a stage.
    #[command(after_long_help = "Examples:
  benchtrail ls experiments/quickstart.yaml
  benchtrail ls experiments/quickstart.yaml results
  benchtrail ls experiments/quickstart.yaml 'ladder[block=1,concurrency=8]'")]
    Ls(LsArgs),
    /// Show an artifact: a table, a record or a log.
    #[command(after_long_help = "Examples:
  benchtrail show experiments/quickstart.yaml results.efficiency
  benchtrail show experiments/quickstart.yaml 'ladder[block=1,configuration=batched,workload=short-decode,concurrency=8].requests'
  benchtrail show b3:1f0c2a…                       any object, by its first digits
  benchtrail show b3:1f0c2a… --rows 4..20 --columns request_id,status
  benchtrail show b3:1f0c2a… --raw > requests.parquet")]
    Show(ShowArgs),
    /// Load the server at a URL once, without an experiment, and print the results.
    #[command(after_long_help = "Examples:
  benchtrail load --url http://127.0.0.1:8080 --concurrency 8 --requests 64
  benchtrail load --url http://127.0.0.1:8080 --rate 5 --requests 300 --slo ttft=200,tpot=40
  benchtrail load --url http://127.0.0.1:8080 --rate 1 --search 64 --slo ttft=200   highest rate that meets it
  benchtrail load --url http://127.0.0.1:8080 --concurrency 8 --compat vllm         also vLLM's figures
  benchtrail load --url http://127.0.0.1:8080 --constant 20 --prompt-words 100..400 --output-tokens 64
  benchtrail load --url http://127.0.0.1:8080 --workload shared-prefix --concurrency 16 --warmup 16
  benchtrail load --url http://127.0.0.1:8080 --burst --requests 32 --out rows     every row as Parquet
  benchtrail load --url http://127.0.0.1:8080 --api openai-chat --api-key-env OPENAI_API_KEY --json

For the definition of every metric, and how other tools differ, see docs/load.md.")]
    Load(Box<LoadArgs>),
    /// Measure the error of the load generator itself on this machine.
    #[command(after_long_help = "Examples:
  benchtrail calibrate --quick
  benchtrail calibrate --out calibration
  benchtrail calibrate --concurrency 1,64,1024 --gap '5 ms,20 ms' --duration '5 s'
  benchtrail calibrate --rate 100,1000 --bound '1 ms,10 ms' --json
  benchtrail calibrate --quick --tls
  benchtrail calibrate --quick --url http://127.0.0.1:8080 --server-concurrency 1,8

For what is compared and what the columns mean, see docs/load-accuracy.md.")]
    Calibrate(CalibrateArgs),
    /// Query the tables of an experiment in SQL.
    #[command(
        after_long_help = "Name a table \"STAGE.OUTPUT\" (in double quotes, because of the dot), or just OUTPUT if only one stage
has it. For a stage with axes, the table holds the rows of all its ok cells, with the axes as
columns. For what a query may contain, see docs/sql.md.

Examples:
  benchtrail sql experiments/quickstart.yaml                list the tables
  benchtrail sql experiments/quickstart.yaml 'select * from \"results.cells\" limit 5'
  benchtrail sql experiments/quickstart.yaml \\
      'select configuration, concurrency, quantile((done_ns - sent_ns) / 1e6, 0.99) as p99_ms
       from \"ladder.requests\" group by configuration, concurrency'
  benchtrail sql experiments/quickstart.yaml \"select * from gates where outcome = 'fail'\" --json
  benchtrail sql experiments/quickstart.yaml 'select * from cells' --parquet cells.parquet"
    )]
    Sql(SqlArgs),
    /// Trace a number of a report back to the raw request rows.
    #[command(after_long_help = "Examples:
  benchtrail why reports/quickstart/report.md:42
  benchtrail why reports/quickstart/report.md:42:17
  benchtrail why reports/quickstart/report.md 0.573 --json")]
    Why(WhyArgs),
    /// Look at studies in a browser: grid, cells, requests, and the tree of every number.
    #[command(after_long_help = "Examples:
  benchtrail explore                                          every study of the project
  benchtrail explore experiments/quickstart.yaml --smoke
  benchtrail explore quickstart.tar.zst                       a published bundle
  benchtrail explore experiments/quickstart.yaml --export quickstart.html
  benchtrail explore --listen 0.0.0.0:7311                    for other machines; needs the token it prints

This measures nothing and changes nothing. For the views and the API, see docs/explore.md.")]
    Explore(ExploreArgs),
    /// Recompute every number of a report from its artifacts, and check every digest on the way.
    #[command(after_long_help = "Examples:
  benchtrail audit reports/quickstart/report.md
  benchtrail audit --foreign README.md docs/results.md --sarif findings.sarif
  benchtrail audit --foreign their-report.md --data results.csv runs.parquet --page sources.html

With --foreign, you audit reports that Benchtrail did not make. Without data, the audit checks arithmetic
written out, totals, relations between columns, sentences that one table can answer, and the form. With
--data, it also traces every number to the cell or the simple derivation that yields it. The exit code is 1
if there is a finding, and 2 if a document could not be audited: its format is not read, or no table was
read in it and no data was given. See docs/foreign-audit.md.")]
    Audit(AuditArgs),
    /// Write the report of a run of `load`, or that of a finished study again.
    #[command(after_long_help = "Examples:
  benchtrail load http://127.0.0.1:8000 --concurrency 1,8,64 --out rows
  benchtrail report rows                                    writes rows/report.md, which `why` can follow
  benchtrail report experiments/quickstart.yaml --out again.md
  benchtrail report quickstart.tar.zst --out theirs.md

Of a folder that `load --out` wrote, this also writes the study of its rows, `study.yaml`: a file to change.
Nothing is measured.")]
    Report(ReportArgs),
    /// Write a finished study as a directory that others can check and reproduce.
    #[command(after_long_help = "Examples:
  benchtrail publish experiments/quickstart.yaml --author 'Ada Lovelace'
  benchtrail publish experiments/quickstart.yaml --author 'A. Lovelace' --author 'C. Babbage' --archive
  benchtrail publish experiments/quickstart.yaml --author 'Ada Lovelace' --key study.key --license CC0-1.0
  benchtrail publish experiments/quickstart.yaml --smoke --author 'Ada Lovelace' --out /tmp/smoke-bundle

Before writing a bundle, `publish` searches it for secrets and user names. If it finds any, it writes
nothing. If a finding is meant to be public, pass `--allow RULE`. For the contents of a bundle, see
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

This reads only the bundle. It needs no engine, no network and no store. Measurements are taken as
they are; the verify, analyze and report stages are executed from them.")]
    Reproduce(ReproduceArgs),
    /// Show what changed between two studies, and whether it exceeds the measured noise.
    #[command(after_long_help = "Examples:
  benchtrail diff old/quickstart.lock experiments/quickstart.yaml
  benchtrail diff published/before published/after --column output_throughput --threshold 2
  benchtrail diff baseline.tar.zst experiments/quickstart.yaml --gate       for CI: exits with 0, 1 or 6
  benchtrail diff experiments/quickstart.yaml             one study: what changed since its lock

Each study is a lock, an experiment's YAML file (meaning its lock), or a bundle. A result counts as
changed if its mean over the launches moved by at least the threshold, and the p of the test,
adjusted by Holm over all results, is at most alpha. A test needs three launches in each study.
`--gate` judges each column over all coordinates.")]
    Diff(DiffArgs),
    /// Show how a figure changed over the commits of a study's lock, with change points.
    #[command(after_long_help = "Examples:
  benchtrail history experiments/regression.yaml results.means.output_throughput_mean
  benchtrail history experiments/regression.yaml results.cells.ttft_ms_p50 --where clients=8
  benchtrail history experiments/regression.yaml results.cells.ttft_ms_p50 --figure ttft.svg --csv

The lock must be committed, and the store must still have the results that older locks name (`gc` keeps those
of earlier runs of this store). Nothing is measured. Several rows with the same labels, such as blocks, are
shown by their median. A change point is a description of the series, not a test: see docs/diff.md.")]
    History(HistoryArgs),
    /// Create a pair of Ed25519 keys for signing bundles.
    #[command(after_long_help = "Examples:
  benchtrail keygen study                 writes study.key (secret) and study.pub (public)")]
    Keygen(KeygenArgs),
    /// Check every object and reference in the store.
    #[command(after_long_help = "Examples:
  benchtrail fsck
  benchtrail fsck --subset 1/7        a seventh of the objects, for instance daily
  benchtrail fsck --repair            quarantine damaged objects, so that the next run remakes them")]
    Fsck(FsckArgs),
    /// Remove objects that no lock reaches.
    #[command(after_long_help = "Examples:
  benchtrail gc --dry-run
  benchtrail gc
  benchtrail gc --locks ../other-study")]
    Gc(GcArgs),
    /// Show what this machine has and lacks.
    #[command(after_long_help = "Examples:
  benchtrail doctor
  benchtrail doctor experiments/quickstart.yaml")]
    Doctor(DoctorArgs),
    /// Print a completion script for a shell.
    #[command(after_long_help = "Examples:
  benchtrail completions bash > ~/.local/share/bash-completion/completions/benchtrail
  benchtrail completions zsh > ~/.zfunc/_benchtrail          `fpath` must have that folder
  benchtrail completions fish > ~/.config/fish/completions/benchtrail.fish")]
    Completions(CompletionsArgs),
    /// Print the manual page, or write one for each command.
    #[command(after_long_help = "Examples:
  benchtrail man | man -l -
  benchtrail man --out ~/.local/share/man/man1             one page for each command")]
    Man(ManArgs),
    /// Print the JSON Schema of experiments, or the columns of the tables, as JSON.
    #[command(after_long_help = "Examples:
  benchtrail schema > experiment.schema.json
  benchtrail schema tables      the columns of every table
  # first line of an experiment, for editors with a YAML language server:
  # yaml-language-server: $schema=../experiment.schema.json")]
    Schema(SchemaArgs),
}
