//! The name by which the program was called: `argosy`; `kubectl-argosy`, which kubectl runs for
//! `kubectl argosy`; or `kubectl_complete-argosy`, which kubectl runs for completions of it. All
//! are one program; the other names are links.
//!
//! Not here: the commands, and the scripts for shell completion of `argosy` itself (`completion`).

use std::{ffi::OsString, path::Path};

use clap::{Arg, Command, CommandFactory, FromArgMatches};

use super::Cli;

/// Name on the PATH that kubectl runs as the command `kubectl argosy`.
const PLUGIN: &str = "kubectl-argosy";

/// Name on the PATH that kubectl runs to complete the arguments of `kubectl argosy`.
const COMPLETER: &str = "kubectl_complete-argosy";

/// The purpose of a call.
#[derive(Debug)]
pub enum Invocation {
    /// A command.
    Command(Box<Cli>),
    /// Completions, as kubectl expects them on standard output.
    Completion(String),
}

/// Parses the command line, which starts with the program's name. Ends the process for `--help` and
/// for errors.
pub fn called(arguments: impl IntoIterator<Item = OsString>) -> Invocation {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let name = arguments
        .first()
        .and_then(|program| Path::new(program).file_stem()?.to_str())
        .unwrap_or_default();
    if name == COMPLETER {
        let words = arguments.iter().skip(1);
        let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
        return Invocation::Completion(complete(&words));
    }
    let mut command = Cli::command();
    if name == PLUGIN {
        command = command.bin_name("kubectl argosy");
    }
    let parsed = command.try_get_matches_from_mut(arguments);
    match parsed.and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches)) {
        Ok(cli) => Invocation::Command(Box::new(cli)),
        Err(error) => error.exit(),
    }
}

/// Returns the completions of the last word, one per line, and a directive for the shell. Does not
/// complete names from the fleet: requests to a cluster would make typing slow.
fn complete(words: &[String]) -> String {
    /// Cobra's `ShellCompDirectiveNoFileComp`, which kubectl passes on.
    const NO_FILES: &str = ":4";
    /// Cobra's `ShellCompDirectiveDefault`: names of files.
    const FILES: &str = ":0";

    let (begun, before) = words
        .split_last()
        .map_or(("", words), |(last, rest)| (last.as_str(), rest));
    let mut command = Cli::command();
    command.build();
    let mut current = &command;
    for word in before {
        current = current.find_subcommand(word).unwrap_or(current);
    }
    let takes_value = before.last().and_then(|flag| flag_of(current, flag));
    let takes_value = takes_value.filter(|flag| flag.get_action().takes_values());
    let candidates = match takes_value {
        Some(flag) => {
            let values = flag.get_possible_values();
            if values.is_empty() {
                return format!("{FILES}\n");
            }
            values.iter().map(|value| value.get_name().to_owned()).collect()
        }
        None if begun.starts_with('-') => flags(current),
        None => commands(current),
    };
    let fitting = candidates
        .into_iter()
        .filter(|candidate| candidate.starts_with(begun));
    let lines: Vec<String> = fitting.chain([NO_FILES.to_owned()]).collect();
    format!("{}\n", lines.join("\n"))
}

fn flag_of<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let is_it = |flag: &&Arg| {
        let long = flag
            .get_long()
            .is_some_and(|long| word.strip_prefix("--") == Some(long));
        long || flag.get_short().is_some_and(|short| *word == format!("-{short}"))
    };
    command.get_arguments().find(is_it)
}

fn flags(command: &Command) -> Vec<String> {
    let shown = command.get_arguments().filter(|flag| !flag.is_hide_set());
    shown
        .filter_map(|flag| Some(format!("--{}", flag.get_long()?)))
        .collect()
}

fn commands(command: &Command) -> Vec<String> {
    let shown = command.get_subcommands().filter(|known| !known.is_hide_set());
    shown.map(|known| known.get_name().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(words: &[&str]) -> Vec<String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        complete(&words).lines().map(ToOwned::to_owned).collect()
    }

    #[test]
    fn kubectl_runs_the_same_command_under_another_name() {
        for program in ["argosy", "/usr/local/bin/kubectl-argosy", "./kubectl-argosy"] {
            let arguments = [program, "get", "workflows"].map(OsString::from);
            let called = called(arguments);
            assert!(
                matches!(&called, Invocation::Command(cli) if matches!(cli.command, super::super::Command::Get(_))),
                "{program}: {called:?}"
            );
        }
    }

    #[test]
    fn a_shell_asks_for_completion_by_the_word_of_other_tools_and_by_the_former_one() {
        for word in ["completion", "completions"] {
            let called = called(["argosy", word, "bash"].map(OsString::from));
            assert!(
                matches!(&called, Invocation::Command(cli) if matches!(cli.command, super::super::Command::Completion(_))),
                "{word}: {called:?}"
            );
        }
        assert_eq!(completed(&["comp"]), ["completion", ":4"]);
    }

    #[test]
    fn help_is_about_the_command_that_was_typed() {
        let mut command = Cli::command().bin_name("kubectl argosy");
        let shown = command
            .try_get_matches_from_mut(["kubectl-argosy", "--help"])
            .unwrap_err();
        assert!(
            shown.to_string().contains("Usage: kubectl argosy <COMMAND>"),
            "{shown}"
        );
    }

    #[test]
    fn kubectl_is_told_which_commands_flags_and_values_may_follow() {
        assert_eq!(completed(&["ge"]), ["get", ":4"]);
        assert!(completed(&["get", ""]).contains(&"workflows".to_owned()));
        assert_eq!(
            completed(&["get", "workflows", "--all-n"]),
            ["--all-namespaces", ":4"]
        );
        assert_eq!(completed(&["get", "workflows", "-o", "j"]), ["json", ":4"]);
        assert_eq!(completed(&["get", "clusters", "--kubeconfig", ""]), [":0"]);
        assert_eq!(completed(&["get", "clusters", "--watch", "nothing"]), [":4"]);
    }

    #[test]
    fn what_kubectl_asks_is_answered_and_not_carried_out() {
        let arguments = ["kubectl_complete-argosy", "rel"].map(OsString::from);
        assert!(matches!(called(arguments), Invocation::Completion(answer) if answer == "release\n:4\n"));
    }
}
