//! The reference page of the command line.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::builder::StyledStr;
use clap::{Arg, ArgAction, Command, CommandFactory};

use super::{cell, list};
use crate::args::Cli;

/// The heading of options that are listed once, for all commands.
const GLOBAL: &str = "Global options";

pub(super) fn page() -> String {
    let mut cli = Cli::command();
    cli.build();
    let mut page = String::from(
        "# The command line\n\nEvery command with its arguments and options, generated from the program. `benchtrail COMMAND \
         --help` prints the same. If an option can be repeated or takes a list, its value ends with `…`.\n\n",
    );
    let commands = cli
        .get_subcommands()
        .filter(|c| !c.is_hide_set() && c.get_name() != "help");
    let commands: Vec<&Command> = commands.collect();
    page.push_str("| command | what it does |\n|---|---|\n");
    for command in &commands {
        let name = command.get_name();
        let about = text(command.get_about());
        let _ = writeln!(page, "| [`{name}`](#{name}) | {} |", cell(&about));
    }
    let _ = write!(page, "\n## Options of every command\n\n");
    page.push_str(&table(
        commands[0]
            .get_arguments()
            .filter(|a| a.get_help_heading() == Some(GLOBAL)),
    ));
    if let Some(exit) = cli.get_after_long_help() {
        let exit = exit.to_string();
        let codes = exit.lines().skip(1).map(str::trim);
        page.push_str("\n## Exit codes\n\n| code | meaning |\n|---|---|\n");
        for line in codes {
            let (code, meaning) = line.split_once("  ").unwrap_or((line, ""));
            let _ = writeln!(page, "| {code} | {} |", cell(meaning));
        }
    }
    for command in commands {
        page.push_str(&section(command));
    }
    page
}

/// Returns the section of a command.
fn section(command: &Command) -> String {
    let name = command.get_name();
    let about = text(command.get_long_about().or(command.get_about()));
    let mut section = format!("\n## {name}\n\n{}\n\n", about.trim());
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").trim();
    let _ = write!(section, "```text\n{usage}\n```\n");
    let mut groups: BTreeMap<&str, Vec<&Arg>> = BTreeMap::new();
    let mut order: Vec<&str> = Vec::new();
    let own = command.get_arguments().filter(|a| {
        !a.is_hide_set()
            && !matches!(
                a.get_action(),
                ArgAction::Help | ArgAction::HelpLong | ArgAction::HelpShort
            )
    });
    for argument in own {
        let group = match argument.get_help_heading() {
            Some(GLOBAL) => continue,
            Some(heading) => heading,
            None if argument.is_positional() => "Arguments",
            None => "Options",
        };
        if !order.contains(&group) {
            order.push(group);
        }
        groups.entry(group).or_default().push(argument);
    }
    for group in order {
        let _ = write!(section, "\n### {name}: {}\n\n", group.to_lowercase());
        section.push_str(&table(groups[group].iter().copied()));
    }
    if let Some(examples) = command.get_after_long_help() {
        let examples = examples.to_string();
        let mut parts = examples.trim().splitn(2, "\n\n");
        let lines = parts.next().unwrap_or_default();
        let lines = lines.strip_prefix("Examples:\n").unwrap_or(lines);
        let lines: Vec<&str> = lines
            .lines()
            .map(|l| l.strip_prefix("  ").unwrap_or(l))
            .collect();
        let _ = write!(section, "\n```text\n{}\n```\n", lines.join("\n"));
        if let Some(more) = parts.next() {
            let _ = write!(section, "\n{}\n", more.trim());
        }
    }
    section
}

/// Returns a table of arguments.
fn table<'a>(arguments: impl Iterator<Item = &'a Arg>) -> String {
    let mut table = String::from("| argument | meaning | default |\n|---|---|---|\n");
    for argument in arguments {
        let takes = argument.get_action().takes_values();
        let mut meaning = text(argument.get_long_help().or(argument.get_help()));
        let mut default = argument
            .get_default_values()
            .iter()
            .map(|value| format!("`{}`", value.to_string_lossy()))
            .collect::<Vec<_>>()
            .join(", ");
        if !takes {
            default.clear();
        }
        // A default stated in the text goes into the column.
        if let Some((before, rest)) = meaning.clone().rsplit_once("[default: ")
            && let Some((said, after)) = rest.split_once(']')
        {
            default = said.to_owned();
            meaning = format!("{}{after}", before.trim_end());
            if !meaning.ends_with('.') && after.is_empty() {
                meaning.push('.');
            }
        }
        let values: Vec<String> = argument
            .get_possible_values()
            .iter()
            .filter(|value| !value.is_hide_set())
            .map(|value| value.get_name().to_owned())
            .collect();
        if takes && !values.is_empty() {
            let _ = write!(
                meaning,
                " One of {}.",
                list(values.iter().map(String::as_str))
            );
        }
        let aliases = argument.get_visible_aliases().unwrap_or_default();
        if !aliases.is_empty() {
            let aliases: Vec<String> = aliases.iter().map(|alias| format!("--{alias}")).collect();
            let _ = write!(
                meaning,
                " Also {}.",
                list(aliases.iter().map(String::as_str))
            );
        }
        if let Some(variable) = argument.get_env() {
            let _ = write!(
                meaning,
                " Also the variable `{}`.",
                variable.to_string_lossy()
            );
        }
        let required = if argument.is_required_set() && argument.is_positional() {
            "required".to_owned()
        } else {
            default
        };
        let _ = writeln!(
            table,
            "| {} | {} | {} |",
            form(argument, takes),
            cell(&meaning),
            cell(&required)
        );
    }
    table
}

/// Returns the written form of an argument.
fn form(argument: &Arg, takes: bool) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    let value = names
        .iter()
        .map(|name| name.as_str())
        .collect::<Vec<_>>()
        .join(" ");
    let many = match argument.get_action() {
        ArgAction::Append => "…",
        _ => "",
    };
    let many = if value.ends_with('…') { "" } else { many };
    if argument.is_positional() {
        return format!("`{value}{many}`");
    }
    let mut forms: Vec<String> = Vec::new();
    forms.extend(argument.get_short().map(|short| format!("`-{short}`")));
    if let Some(long) = argument.get_long() {
        forms.push(match takes {
            true => format!("`--{long} {value}{many}`"),
            false => format!("`--{long}`"),
        });
    }
    cell(&forms.join(", "))
}

/// Returns a help text as a sentence: the parser drops its final full stop.
fn text(styled: Option<&StyledStr>) -> String {
    let text = styled.map(ToString::to_string).unwrap_or_default();
    match text.trim_end() {
        "" => String::new(),
        text if text.ends_with(['.', ']', '?']) => text.to_owned(),
        text => format!("{text}."),
    }
}
