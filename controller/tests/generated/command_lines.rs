//! The page about command lines: every command, argument and environment variable of the three
//! binaries, read from their clap definitions.

use argosy::{agent::args::AgentArgs, cli::Cli, hub::args::ControllerArgs};
use clap::{Arg, Command, CommandFactory};

use super::markdown::{code, head, prose, table};

const ABOUT: &str = "Three binaries in one image. Every option of `argosy-controller` and `argosy-agent` can be given as an environment \
                     variable, too; the command line wins. One that cannot be understood ends with 2, whatever the \
                     command. `ARGOSY_LOG` adds to the lines that they log (`info,kube_client=off,kube_runtime=warn`), in the \
                     syntax of tracing-subscriber (`argosy=debug`).";

pub(crate) fn page() -> String {
    let mut text = head("Command lines", ABOUT);
    for mut command in [Cli::command(), ControllerArgs::command(), AgentArgs::command()] {
        command.build();
        add(&mut text, &mut command);
    }
    text
}

/// Adds a command and its subcommands.
fn add(text: &mut String, command: &mut Command) {
    let name = command.get_bin_name().unwrap_or(command.get_name()).to_owned();
    let about = command.get_long_about().or(command.get_about());
    let about: Vec<String> = about
        .map(ToString::to_string)
        .unwrap_or_default()
        .split("\n\n")
        .map(|paragraph| sentence(&prose(paragraph)))
        .collect();
    let aliases: Vec<String> = command.get_visible_aliases().map(code).collect();
    let aliases = if aliases.is_empty() {
        String::new()
    } else {
        format!("\n\nAlso {}.", aliases.join(", "))
    };
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    let about = about.join("\n\n");
    text.extend([
        "\n## ",
        &name,
        "\n\n",
        &about,
        &aliases,
        "\n\n```text\n",
        usage,
        "\n```\n",
    ]);
    let arguments = command.get_arguments().filter(|argument| is_ours(argument));
    text.push_str(&table(
        ["argument", "what", "default", "environment"],
        arguments.map(|argument| {
            let environment = argument.get_env().map(|name| name.to_string_lossy().into_owned());
            [
                code(&written(argument)),
                meaning(argument),
                code(&default(argument)),
                code(&environment.unwrap_or_default()),
            ]
        }),
    ));
    for subcommand in command.get_subcommands_mut() {
        if subcommand.get_name() != "help" {
            add(text, subcommand);
        }
    }
}

fn is_ours(argument: &Arg) -> bool {
    !argument.is_hide_set() && !["help", "version"].contains(&argument.get_id().as_str())
}

/// The argument as a user types it.
fn written(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    let values: Vec<&str> = names.iter().map(clap::builder::Str::as_str).collect();
    let flags: Vec<String> = argument
        .get_short()
        .map(|short| format!("-{short}"))
        .into_iter()
        .chain(argument.get_long().map(|long| format!("--{long}")))
        .collect();
    let takes_values = argument.get_action().takes_values();
    match (flags.is_empty(), takes_values) {
        (true, _) => values.join(" "),
        (false, true) => format!("{} {}", flags.join(", "), values.join(" ")),
        (false, false) => flags.join(", "),
    }
}

fn meaning(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let paragraphs = help.split("\n\n").map(|paragraph| sentence(&prose(paragraph)));
    let mut about = paragraphs.collect::<Vec<_>>().join(" ");
    let possible = argument.get_possible_values();
    if argument.get_action().takes_values() && !possible.is_empty() {
        let values: Vec<String> = possible
            .iter()
            .map(|value| {
                let help = value
                    .get_help()
                    .map(|help| format!(" ({})", prose(&help.to_string())));
                format!("{}{}", code(value.get_name()), help.unwrap_or_default())
            })
            .collect();
        about = format!("{about} One of {}.", values.join(", "));
    }
    if argument.is_required_set() {
        about.push_str(" Required.");
    }
    about
}

/// Restores the full stop that clap removes from the first paragraph of a description.
fn sentence(text: &str) -> String {
    let is_ended = text.is_empty() || text.ends_with(['.', ':', '?', '!']);
    format!("{text}{}", if is_ended { "" } else { "." })
}

fn default(argument: &Arg) -> String {
    if !argument.get_action().takes_values() {
        return String::new();
    }
    let values = argument.get_default_values().iter();
    let values: Vec<_> = values.map(|value| value.to_string_lossy().into_owned()).collect();
    values.join(" ")
}
