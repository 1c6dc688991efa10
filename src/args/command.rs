//! The commands, with the examples that `--help` shows.

use std::ffi::OsString;

use clap::{Arg, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use super::{
    AttachArgs, AuditArgs, CalibrateArgs, CompletionsArgs, DiffArgs, DoctorArgs, ExploreArgs,
    FsckArgs, GcArgs, Global, HistoryArgs, InitArgs, KeygenArgs, ListArgs, LoadArgs, LsArgs,
    ManArgs, PlanArgs, PowerArgs, PublishArgs, PullArgs, PushArgs, ReportArgs, ReproduceArgs,
    RunArgs, SchemaArgs, ShowArgs, SqlArgs, StatusArgs, StopArgs, VerifyArgs, WhyArgs,
};

/// A benchmark with its trail: declare a study of LLM serving engines in one YAML file, rerun only
/// what changed, trace every number and publish the report.
#[derive(Debug, Parser)]
#[command(name = "benchtrail", bin_name = "benchtrail", version, max_term_width = 100, after_long_help = EXIT_CODES)]
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
    5  not found: no such stage, cell, artifact or number
    6  undecidable: the data do not allow a decision (`diff --gate`)
  130  interrupted (Ctrl-C); finished cells are kept";

/// The commands of `benchtrail`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write a short experiment that runs and that you can edit.
    #[command(after_long_help = "Examples:
  # Ask questions; with --yes, accept the defaults:
  benchtrail init my-study
  benchtrail init my-study --engine vllm --model Qwen/Qwen3-0.6B --clients 1,8,64
  benchtrail init which --engine vllm,sglang --model Qwen/Qwen3-0.6B --clients 16
  benchtrail init my-study --workloads short-decode,shared-prefix --rates 1,2,4
  benchtrail init endpoint --from-url http://127.0.0.1:8000
  # The same load that wrote the folder `rows`:
  benchtrail init again --from-load rows
  # A study that imports result files of vLLM, SGLang, GuideLLM or AIPerf:
  benchtrail init last-month --from-results results")]
    Init(InitArgs),
    /// List what an experiment can name: engines, models, workloads, gates, operators, templates, APIs.
    #[command(after_long_help = "Examples:
  benchtrail list engines
  benchtrail list engines vllm            # one engine in full
  benchtrail list gates row-status
  benchtrail list workloads --json

The list includes definitions in this folder, such as `engines/NAME.yaml`.")]
    List(ListArgs),
    /// Execute the missing cells of an experiment and render its report.
    #[command(after_long_help = "Examples:
  benchtrail run experiments/quickstart.yaml
  benchtrail run experiments/quickstart.yaml --smoke
  benchtrail run experiments/quickstart.yaml --set blocks=8 --keep-going
  # Measure a stage again; its old rows stay:
  benchtrail run experiments/quickstart.yaml --fresh ladder
  benchtrail run experiments/quickstart.yaml --only 'ladder[concurrency=8]'
  # Analyze and report again, on any machine:
  benchtrail run experiments/quickstart.yaml --locked
  # Continue after you log out:
  benchtrail run experiments/quickstart.yaml --detach")]
    Run(RunArgs),
    /// Show a run that was started with `run --detach`, until it ends or you press Ctrl-C.
    #[command(after_long_help = "Examples:
  benchtrail attach experiments/quickstart.yaml
  # Wait for the run, and print its result:
  benchtrail attach experiments/quickstart.yaml --json

Ctrl-C stops the display, not the run. When the run ends, this command prints its result and \
returns its exit code.")]
    Attach(AttachArgs),
    /// End a run that was started with `run --detach`, as Ctrl-C would.
    #[command(after_long_help = "Examples:
  benchtrail stop experiments/quickstart.yaml
  benchtrail stop experiments/quickstart.yaml --profile nightly

The run stops its engines, cancels its jobs, keeps what is complete, and writes its lock. This \
command waits until that is done. The next run continues from there.")]
    Stop(StopArgs),
    /// Show whether each cell is cached or must run, and why.
    #[command(after_long_help = "Examples:
  benchtrail plan experiments/quickstart.yaml
  benchtrail plan experiments/quickstart.yaml --set output_tokens=64
  benchtrail plan experiments/quickstart.yaml --cells --json
  # Test analysis and report on synthetic rows:
  benchtrail plan experiments/quickstart.yaml --dry-run")]
    Plan(PlanArgs),
    /// Simulate an experiment's comparisons: how often they err, and which effects they find.
    #[command(after_long_help = "Examples:
  benchtrail power experiments/quickstart.yaml
  benchtrail power experiments/quickstart.yaml --set blocks=8 --effect 5
  benchtrail power experiments/quickstart.yaml --noise 2 --studies 10000 --json

Nothing is measured. The simulation uses the experiment's own cells, blocks, families and margins, \
and the same operators as a real run. docs/operating-characteristics.md describes \
what is simulated.")]
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
  benchtrail show experiments/quickstart.yaml \\
      'ladder[block=1,configuration=batched,workload=short-decode,concurrency=8].requests'
  benchtrail show b3:1f0c2a…              # any object, by its first digits
  benchtrail show b3:1f0c2a… --rows 4..20 --columns request_id,status
  benchtrail show b3:1f0c2a… --raw > requests.parquet")]
    Show(ShowArgs),
    /// Load the server at a URL once, without an experiment, and print the results.
    #[command(after_long_help = "Examples:
  benchtrail load http://127.0.0.1:8000 --concurrency 8 --requests 64
  benchtrail load http://127.0.0.1:8000 --rate 5 --requests 300 --slo ttft=200,tpot=40
  # Several levels, with a figure and every row as Parquet in the folder `rows`:
  benchtrail load http://127.0.0.1:8000 --concurrency 1,8,64 --out rows
  # The highest rate at which 95 % of the requests meet the bound:
  benchtrail load http://127.0.0.1:8000 --rate 1 --search 64 --slo ttft=200
  # Prompts of 512 tokens, answers of 128:
  benchtrail load http://127.0.0.1:8000 --input-len 512 --output-len 128
  benchtrail load http://127.0.0.1:8000 --workload shared-prefix --concurrency 16
  # Also the figures that vLLM would print:
  benchtrail load http://127.0.0.1:8000 --concurrency 8 --compat vllm
  benchtrail load https://engine.example --api openai-chat --api-key-env MY_KEY --json

docs/coming-from.md lists the options of vLLM, SGLang, GuideLLM and AIPerf with their equivalents. \
docs/load.md defines every metric.")]
    Load(Box<LoadArgs>),
    /// Measure the load generator's own error on this machine.
    #[command(after_long_help = "Examples:
  benchtrail calibrate --quick
  benchtrail calibrate --out calibration
  benchtrail calibrate --concurrency 1,64,1024 --gap '5 ms,20 ms' --duration '5 s'
  benchtrail calibrate --rate 100,1000 --bound '1 ms,10 ms' --json
  benchtrail calibrate --quick --tls
  benchtrail calibrate --quick --url http://127.0.0.1:8080 --server-concurrency 1,8

docs/load-accuracy.md explains the method and the columns.")]
    Calibrate(CalibrateArgs),
    /// Query the tables of an experiment in SQL.
    #[command(after_long_help = "Examples:
  benchtrail sql experiments/quickstart.yaml            # list the tables
  benchtrail sql experiments/quickstart.yaml 'select * from \"results.cells\" limit 5'
  benchtrail sql experiments/quickstart.yaml \\
      'select configuration, concurrency,
              quantile((done_ns - sent_ns) / 1e6, 0.99) as p99_ms
       from \"ladder.requests\" group by configuration, concurrency'
  benchtrail sql experiments/quickstart.yaml \\
      \"select * from gates where outcome = 'fail'\" --json
  benchtrail sql experiments/quickstart.yaml 'select * from cells' \\
      --parquet cells.parquet

Write a table as \"STAGE.OUTPUT\", with double quotes because of the dot. If only one stage has \
that output, you can write just OUTPUT. The table of a stage with axes holds the rows of all ok \
cells and has the axes as columns. docs/sql.md describes the SQL that a query may use.")]
    Sql(SqlArgs),
    /// Trace a number of a report back to the raw request rows.
    #[command(after_long_help = "Examples:
  # The numbers on a line, each with its place; then one of them:
  benchtrail why reports/quickstart/report.md:23
  benchtrail why reports/quickstart/report.md:23:29
  benchtrail why reports/quickstart/report.md 0.573 --json")]
    Why(WhyArgs),
    /// Explore studies in a browser: grid, cells, requests, and the tree behind every number.
    #[command(after_long_help = "Examples:
  benchtrail explore                      # every study of the project
  benchtrail explore experiments/quickstart.yaml --smoke
  benchtrail explore quickstart.tar.zst   # a published bundle
  benchtrail explore experiments/quickstart.yaml --export quickstart.html
  # From other machines, with the token that it prints:
  benchtrail explore --listen 0.0.0.0:7311

`explore` measures nothing and changes nothing. docs/explore.md describes the views and the API.")]
    Explore(ExploreArgs),
    /// Recompute every number of a report from its artifacts, and check every digest on the way.
    #[command(after_long_help = "Examples:
  benchtrail audit reports/quickstart/report.md
  benchtrail audit --foreign README.md docs/results.md --sarif findings.sarif
  benchtrail audit --foreign their-report.md --data results.csv runs.parquet \\
      --page sources.html

The exit code is 1 if a number does not hold or something is missing. It is 3 if the bytes of an \
artifact or a record in the store have changed.

With --foreign, you audit reports that Benchtrail did not make. The audit checks written-out \
arithmetic, totals, relations between columns, sentences that one table can answer, and the structure. \
With --data, it also traces every number to a cell or to a simple computation over cells. The exit \
code is 1 if there is a finding. It is 2 if Benchtrail cannot read a document's format, or if the \
document has no table and you gave no data. See docs/foreign-audit.md.")]
    Audit(AuditArgs),
    /// Write the report of a `load --out` folder, or write the report of a finished study again.
    #[command(after_long_help = "Examples:
  benchtrail load http://127.0.0.1:8000 --concurrency 1,8,64 --out rows
  benchtrail report rows                  # write rows/report.md, for use with `why`
  benchtrail report experiments/quickstart.yaml  # reports/quickstart/report.md again
  benchtrail report quickstart.tar.zst --out theirs/report.md

For a folder that `load --out` wrote, Benchtrail also writes `study.yaml`: an experiment over its \
rows that you can edit. Nothing is measured.")]
    Report(ReportArgs),
    /// Write a finished study as a directory that others can check and reproduce.
    #[command(after_long_help = "Examples:
  benchtrail publish experiments/quickstart.yaml --author 'Ada Lovelace'
  # Two authors, and also an archive:
  benchtrail publish experiments/quickstart.yaml \\
      --author 'Ada Lovelace' --author 'Charles Babbage' --archive
  benchtrail publish experiments/quickstart.yaml --author 'Ada Lovelace' \\
      --key study.key --license CC0-1.0
  benchtrail publish experiments/quickstart.yaml --smoke --author 'Ada Lovelace' \\
      --out /tmp/smoke-bundle

Before `publish` writes a bundle, it searches the contents for secrets and user names. If it finds \
any, it writes nothing. To publish a finding on purpose, pass `--allow RULE`. docs/publish.md \
describes the contents of a bundle.")]
    Publish(PublishArgs),
    /// Check a published bundle: every byte, the signature, the lock, and every number of its reports.
    #[command(after_long_help = "Examples:
  benchtrail verify published/quickstart
  benchtrail verify quickstart.tar.zst --key study.pub")]
    Verify(VerifyArgs),
    /// Execute the pure stages of a published bundle again and compare every byte.
    #[command(after_long_help = "Examples:
  benchtrail reproduce published/quickstart
  benchtrail reproduce quickstart.tar.zst --json

`reproduce` reads only the bundle. It needs no engine, no network and no store. It takes the \
measurements as they are, and executes the verify, analyze and report stages on them.")]
    Reproduce(ReproduceArgs),
    /// Show what changed between two studies, and whether it exceeds the measured noise.
    #[command(after_long_help = "Examples:
  benchtrail diff old/quickstart.lock experiments/quickstart.yaml
  benchtrail diff published/before published/after --column output_throughput
  # For CI, with exit code 0, 1 or 6:
  benchtrail diff baseline.tar.zst experiments/quickstart.yaml --gate
  # One study: what changed since its lock:
  benchtrail diff experiments/quickstart.yaml

A study is a lock, an experiment's YAML file (Benchtrail then reads its lock), a bundle, or a folder \
that `load --out` wrote. A result counts as changed if its mean over the launches moved by at least \
the threshold, and if the Holm-adjusted p value of the test is at most alpha. A test needs three \
launches in each study. `--gate` judges each column over all coordinates.")]
    Diff(DiffArgs),
    /// Show how a figure changed over the commits of a study's lock, with change points.
    #[command(after_long_help = "Examples:
  benchtrail history experiments/quickstart.yaml results.ladder.output_throughput_mean
  benchtrail history experiments/quickstart.yaml results.cells.ttft_ms_p50 \\
      --where concurrency=8
  benchtrail history experiments/quickstart.yaml results.cells.ttft_ms_p50 \\
      --figure ttft.svg --csv

The lock must be committed. The store must still have the tables that older locks name; `gc` keeps \
measurements, but removes tables that only older locks name. Nothing is measured. Rows with the \
same labels, such as blocks, are shown as their median. A change point needs six commits, and its \
level lasts for three. See docs/diff.md.")]
    History(HistoryArgs),
    /// Create an Ed25519 key pair for signing bundles.
    #[command(after_long_help = "Examples:
  # Write study.key (secret) and study.pub (public):
  benchtrail keygen study")]
    Keygen(KeygenArgs),
    /// Copy the results that locks name to a store that several machines share.
    #[command(after_long_help = "Examples:
  benchtrail push /mnt/team/store
  benchtrail push /mnt/team/store experiments/quickstart.yaml --smoke
  # Check what the store has, and replace damaged objects:
  benchtrail push /mnt/team/store --verify

Objects that the store already has are not copied again, so an interrupted push continues where it \
stopped. If somebody else has measured the same cell, both results are kept, and `push` reports this. \
docs/sharing.md explains how a team shares a store.")]
    Push(PushArgs),
    /// Copy the results that locks name, or all of a study, from a shared store.
    #[command(after_long_help = "Examples:
  benchtrail pull /mnt/team/store         # what the locks of this project name
  benchtrail pull /mnt/team/store experiments/quickstart.yaml --smoke
  # All results of a study, without a lock:
  benchtrail pull /mnt/team/store --study quickstart

Every byte is checked. Results of others are marked as theirs: `run` uses their measurements only \
if the lock names them or the policy `reuse` permits it. See docs/sharing.md.")]
    Pull(PullArgs),
    /// Check every object and reference in the store.
    #[command(after_long_help = "Examples:
  benchtrail fsck
  # Hash one seventh of the objects, for example daily:
  benchtrail fsck --subset 1/7
  # Move damaged objects to quarantine; the next run makes them again:
  benchtrail fsck --repair")]
    Fsck(FsckArgs),
    /// Remove objects that nothing needs; measurements stay without `--measurements`.
    #[command(after_long_help = "Examples:
  benchtrail gc --dry-run
  benchtrail gc
  benchtrail gc --locks ../other-study
  benchtrail gc --remote s3://lab/team --grace '7 d' --dry-run
  # Condemn results now; run it again after the grace period to remove them:
  benchtrail gc --remote s3://lab/team --grace '7 d'

In a shared store, `gc` removes results that no pushed lock names. See docs/sharing.md.")]
    Gc(GcArgs),
    /// Show what this machine has and lacks.
    #[command(after_long_help = "Examples:
  benchtrail doctor
  # Check also the engines, weights and API keys that an experiment needs:
  benchtrail doctor experiments/quickstart.yaml")]
    Doctor(DoctorArgs),
    /// Print a completion script for a shell.
    #[command(after_long_help = "Examples:
  benchtrail completions bash > ~/.local/share/bash-completion/completions/benchtrail
  benchtrail completions fish > ~/.config/fish/completions/benchtrail.fish
  # The variable `fpath` of zsh must contain this folder:
  benchtrail completions zsh > ~/.zfunc/_benchtrail")]
    Completions(CompletionsArgs),
    /// Print the manual page, or write one for each command.
    #[command(after_long_help = "Examples:
  benchtrail man | man -l -
  # One page for each command:
  benchtrail man --out ~/.local/share/man/man1")]
    Man(ManArgs),
    /// Print the JSON Schema of experiments, or the columns of the tables, as JSON.
    #[command(after_long_help = "Examples:
  benchtrail schema > experiment.schema.json
  benchtrail schema tables                # the columns of every table

For completion in an editor with a YAML language server, write this as the first line of an \
experiment:

    # yaml-language-server: $schema=../experiment.schema.json")]
    Schema(SchemaArgs),
}

/// Reads the command line.
///
/// A negative number is always parsed as an option's value, so that the option can report which values it accepts.
///
/// # Errors
/// If it is not a valid command line.
pub(crate) fn parse(
    words: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<Cli, clap::Error> {
    let mut command = with_negative_values(Cli::command());
    let mut matches = command.try_get_matches_from_mut(words)?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

fn with_negative_values(command: clap::Command) -> clap::Command {
    let takes = |argument: Arg| match argument.get_action().takes_values() {
        true => argument.allow_negative_numbers(true),
        false => argument,
    };
    command
        .mut_args(takes)
        .mut_subcommands(with_negative_values)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Returns each command's name with the text after its options.
    fn after() -> Vec<(String, String)> {
        let cli = Cli::command();
        cli.get_subcommands()
            .filter_map(|command| {
                let text = command.get_after_long_help()?.to_string();
                Some((command.get_name().to_owned(), text))
            })
            .collect()
    }

    /// Returns the words of each example, as a shell splits them; redirections and pipes are removed.
    fn examples(text: &str) -> Vec<Vec<String>> {
        let cut = |line: &str| {
            let end = [" > ", " | "]
                .iter()
                .filter_map(|sign| line.find(sign))
                .min();
            line[..end.unwrap_or(line.len())].to_owned()
        };
        let script: Vec<String> = text
            .lines()
            .filter(|l| l.starts_with("  "))
            .map(cut)
            .collect();
        let function = "benchtrail() { printf '%s\\0' benchtrail \"$@\"; printf '\\1'; }\n";
        let split = std::process::Command::new("sh")
            .args(["-euc", &(function.to_owned() + &script.join("\n"))])
            .output()
            .expect("a shell");
        assert!(
            split.status.success(),
            "{}",
            String::from_utf8_lossy(&split.stderr)
        );
        let split = String::from_utf8(split.stdout).expect("UTF-8");
        split
            .split_terminator('\u{1}')
            .map(|words| words.split_terminator('\0').map(str::to_owned).collect())
            .collect()
    }

    #[test]
    fn every_example_of_a_help_text_is_a_valid_command_line_over_files_and_parameters_that_exist() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        for (name, text) in after() {
            let examples = examples(&text);
            assert!(!examples.is_empty(), "{name}");
            for words in examples {
                if let Err(error) = parse(&words) {
                    panic!("{words:?}: {error}");
                }
                let study = words.iter().find(|word| word.starts_with("experiments/"));
                let Some(study) = study else { continue };
                let study = std::fs::read_to_string(root.join(study)).expect(study);
                for (option, value) in words.iter().zip(&words[1..]) {
                    let parameter = value.split('=').next().unwrap_or_default();
                    assert!(
                        option != "--set"
                            || study.contains(&format!("\n  {parameter}:\n    type:")),
                        "{words:?}: no parameter {parameter}"
                    );
                }
            }
        }
    }

    /// Messages of the language's own parsers say nothing that a user could do.
    #[test]
    fn no_option_answers_a_wrong_value_in_the_words_of_the_language() {
        let mut cli = Cli::command();
        cli.build();
        let mut asked = 0;
        for command in cli.get_subcommands() {
            for argument in command
                .get_arguments()
                .filter(|a| a.get_action().takes_values())
            {
                let Some(long) = argument.get_long() else {
                    continue;
                };
                let words = [
                    "benchtrail",
                    command.get_name(),
                    &format!("--{long}"),
                    "\u{1f}x",
                ]
                .map(OsString::from);
                let Err(error) = parse(words) else { continue };
                let message = error.to_string();
                for foreign in [
                    "invalid float literal",
                    "invalid digit",
                    "cannot parse",
                    "in string",
                ] {
                    assert!(
                        !message.contains(foreign),
                        "{} --{long}: {message}",
                        command.get_name()
                    );
                }
                asked += 1;
            }
        }
        assert!(asked > 60, "{asked}");
    }

    /// A paragraph is one line, so that it fits every terminal; an example is short enough for the usual terminals.
    #[test]
    fn no_line_of_a_help_text_is_broken_twice() {
        for (name, text) in after() {
            let lines: Vec<&str> = text.lines().collect();
            for (line, next) in lines.iter().zip(&lines[1..]) {
                let ends = line.is_empty() || next.is_empty() || next.starts_with(' ');
                assert!(ends, "{name}: the paragraph is broken after {line:?}");
            }
            for line in lines.iter().filter(|line| line.starts_with(' ')) {
                assert!(line.chars().count() <= 90, "{name}: {line}");
            }
        }
    }

    #[test]
    fn a_negative_number_is_answered_by_the_option_it_was_given_to() {
        let refusal = |words: &[&str]| {
            let all = ["benchtrail"].iter().chain(words).copied();
            parse(all.map(OsString::from)).unwrap_err().to_string()
        };
        for words in [
            &["init", "x", "--clients", "-1"][..],
            &["init", "x", "--rates", "-2.5"],
            &["init", "x", "--requests", "-8"],
            &["load", "http://127.0.0.1:1", "--concurrency", "-4"],
            &["load", "http://127.0.0.1:1", "--num-prompts", "-4"],
        ] {
            let message = refusal(words);
            assert!(message.contains("invalid value '-"), "{words:?}: {message}");
            assert!(!message.contains("'-- -"), "{words:?}: {message}");
        }
        let message = refusal(&["init", "x", "--requests", "many"]);
        assert!(
            message.contains("expected a whole number from 1"),
            "{message}"
        );
    }
}
