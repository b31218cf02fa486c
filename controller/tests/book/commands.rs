//! Checks the command lines of the book. A line that begins with one of our binaries is parsed by
//! the clap definition of that binary. For helm, the chart and its values must exist. For scripts,
//! the file must exist.
//!
//! Not here: kubectl and argo, because their definitions are not in this repository.

use std::fs;

use argosy::{agent::args::AgentArgs, cli::Cli, hub::args::ControllerArgs};
use clap::{Command, CommandFactory, error::ErrorKind};
use serde_json::Value;

use crate::{
    in_checkout, none,
    page::{Page, pages},
};

/// The clap definition that parses a line, and the words of the line from the binary's name on.
fn definition(words: &[String]) -> Option<(Command, &[String])> {
    let (first, rest) = words.split_first()?;
    match first.as_str() {
        "argosy" => Some((Cli::command(), words)),
        "argosy-controller" => Some((ControllerArgs::command(), words)),
        "argosy-agent" => Some((AgentArgs::command(), words)),
        "kubectl" if rest.first().is_some_and(|word| word == "argosy") => Some((Cli::command(), rest)),
        _ => None,
    }
}

/// Splits a block of shell code into commands, each a list of words without redirections. Continued
/// lines are joined and comments are dropped. A pipe, `&&` and `;` separate commands.
fn commands(code: &str) -> Vec<Vec<String>> {
    let code = code.replace("\\\n", " ");
    let lines = code.lines().map(|line| line.trim().trim_start_matches("$ "));
    lines.flat_map(split).collect()
}

fn split(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    for letter in line.chars().chain([' ']) {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, '|' | ';' | '&') => {
                end_word(&mut commands, &mut word);
                commands.push(Vec::new());
            }
            (None, letter) if letter.is_whitespace() => end_word(&mut commands, &mut word),
            (None, letter) => word.get_or_insert_default().push(letter),
        }
    }
    let without_redirections = |words: Vec<String>| {
        let mut kept = Vec::new();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            if word == ">" || word == "<" || word == "2>" || word == ">>" {
                words.next();
            } else {
                kept.push(word);
            }
        }
        kept
    };
    let commands = commands.into_iter().map(without_redirections);
    commands.filter(|words| !words.is_empty()).collect()
}

fn end_word(commands: &mut [Vec<String>], word: &mut Option<String>) {
    if let (Some(command), Some(word)) = (commands.last_mut(), word.take()) {
        command.push(word);
    }
}

/// The error in a command. `None` if there is none, or if the command is not one of ours.
fn fault(words: &[String]) -> Option<String> {
    if let Some((definition, words)) = definition(words) {
        let error = definition.try_get_matches_from(words).err()?;
        let is_answer = [ErrorKind::DisplayHelp, ErrorKind::DisplayVersion].contains(&error.kind());
        return (!is_answer).then(|| error.to_string());
    }
    let first = words.first()?;
    if first.starts_with("scripts/") {
        return (!in_checkout(first).is_file()).then(|| "there is no such script".to_owned());
    }
    if first == "helm" { helm_fault(words) } else { None }
}

fn helm_fault(words: &[String]) -> Option<String> {
    const VERBS: [&str; 4] = ["install", "upgrade", "uninstall", "template"];
    // Skips the arguments of helm's own options, such as the name of a context.
    let verb = words.iter().find(|word| VERBS.contains(&word.as_str()));
    let Some(verb) = verb else {
        return Some("this test knows no such command of helm".to_owned());
    };
    let Some(chart) = words.iter().find(|word| word.starts_with("charts/")) else {
        let takes_chart = verb != "uninstall";
        return takes_chart.then(|| "no chart below charts/ is named".to_owned());
    };
    let Ok(values) = fs::read_to_string(in_checkout(chart).join("values.yaml")) else {
        return Some(format!("there is no {chart}"));
    };
    let values: Value = serde_saphyr::from_str(&values).expect("values are YAML");
    let mut pairs = words.windows(2);
    pairs.find_map(|pair| match pair {
        [flag, settings] if flag == "--set" || flag == "--set-string" => {
            settings.split(',').find_map(|setting| unknown(setting, &values))
        }
        [flag, setting] if flag == "--set-json" => {
            let (_, value) = setting.split_once('=')?;
            let broken = serde_json::from_str::<Value>(value).err();
            broken
                .map(|error| error.to_string())
                .or_else(|| unknown(setting, &values))
        }
        _ => None,
    })
}

/// An error if the chart has no such value.
fn unknown(setting: &str, values: &Value) -> Option<String> {
    let (path, _) = setting.split_once('=')?;
    let path = path.split('[').next().unwrap_or_default();
    let pointer = format!("/{}", path.replace('.', "/"));
    let is_known = values.pointer(&pointer).is_some();
    (!is_known).then(|| format!("the chart has no value {path}"))
}

/// An error if the prose names a subcommand that does not exist, such as `argosy why`.
fn unknown_subcommand(words: &[String]) -> Option<String> {
    let (mut command, words) = definition(words)?;
    for word in words.iter().skip(1) {
        if !command.has_subcommands() || word.starts_with('-') {
            break;
        }
        let Some(next) = command.find_subcommand(word) else {
            return Some(format!("{} has no subcommand {word}", command.get_name()));
        };
        command = next.clone();
    }
    None
}

#[test]
fn every_command_line_of_the_book_is_one_that_is_taken() {
    let mut faults = Vec::new();
    let mut looked_at = 0;
    for block in pages().iter().flat_map(Page::blocks) {
        if block.info != "sh" {
            continue;
        }
        for words in commands(&block.code) {
            looked_at += usize::from(definition(&words).is_some());
            let place = &block.place;
            faults.extend(fault(&words).map(|fault| format!("{place}: {}\n  {fault}", words.join(" "))));
        }
    }
    none(&faults);
    assert!(looked_at > 20, "only {looked_at} command lines were found");
}

#[test]
fn every_command_that_the_prose_calls_by_name_is_there() {
    let mut faults = Vec::new();
    for page in pages() {
        for (place, code) in page.spans() {
            let found = commands(&code).iter().find_map(|words| unknown_subcommand(words));
            faults.extend(found.map(|fault| format!("{place}: `{code}`: {fault}")));
        }
    }
    none(&faults);
}

#[test]
fn a_block_is_read_as_a_shell_reads_it() {
    let code =
        "# no\n$ argosy why hello \\\n  -n 'team a' # why\ncat x.yaml | argosy render -f - > out.yaml\n";
    assert_eq!(
        commands(code),
        [
            vec!["argosy", "why", "hello", "-n", "team a"],
            vec!["cat", "x.yaml"],
            vec!["argosy", "render", "-f", "-"],
        ]
    );
}

#[test]
fn a_command_that_is_not_taken_is_found() {
    let bad = [
        "argosy whence hello",
        "argosy why",
        "kubectl argosy get nothing",
        "argosy-agent run --cluster-name one",
        "scripts/nothing.sh",
        "helm install argosy charts/nothing",
        "helm install argosy charts/argosy --set webhook.enable=false",
        "helm install argosy charts/argosy --set-json 'clusters=[{]'",
    ];
    for line in bad {
        assert!(
            commands(line).iter().any(|words| fault(words).is_some()),
            "{line} was taken"
        );
    }
    let good = [
        "argosy get wf -A",
        "kubectl get pods",
        "helm install argosy charts/argosy --set webhook.enabled=false",
    ];
    for line in good {
        for words in commands(line) {
            assert_eq!(fault(&words), None, "{line}");
        }
    }
    assert!(unknown_subcommand(&["argosy".to_owned(), "whence".to_owned()]).is_some());
}
