//! `argosy why`: explains which policies and clusters select an object, why others do not, and what
//! happened to it.
//!
//! Not here: the explanation itself (`argosy_core::explain`).

mod file;
mod kind;
mod read;
mod templates;
mod text;

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::spaces::{Clients, Spaces};

/// Arguments of `why`.
#[derive(Debug, Args)]
pub struct WhyArgs {
    /// Name of a Workflow, or KIND/NAME of any other object, such as deployment/web or
    /// deployments.apps/web
    #[arg(value_name = "WORKFLOW", required_unless_present = "filename")]
    object: Option<String>,
    /// File with a Workflow that does not exist yet (YAML or JSON; - for standard input): print
    /// where it would be sent, without creating it
    #[arg(long, short, value_name = "FILE", conflicts_with = "object")]
    filename: Option<PathBuf>,
    /// Print how many of so many Workflows such as the one in the file each cluster would get
    #[arg(long, value_name = "NUMBER", requires = "filename", conflicts_with = "object", value_parser = clap::value_parser!(u64).range(1..=MOST))]
    count: Option<u64>,
    /// Namespace of the object
    #[arg(long, short, default_value = "argo")]
    namespace: String,
    #[command(flatten)]
    spaces: Spaces,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// Output format.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Output {
    /// Lines for people
    #[default]
    Text,
    /// A JSON object with every policy and cluster
    Json,
    /// A YAML object with every policy and cluster
    Yaml,
}

/// Maximum of `--count`.
const MOST: u64 = 100_000;

/// Exit code for an object that is not sent.
const NOT_SENT: u8 = 1;

/// Exit code for an object that cannot be explained.
const UNEXPLAINED: u8 = 2;

/// Explains an object. Exits with 0 if it is, was or will be sent, with 1 if it is not, and with 2
/// if that is unknown.
#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "standard output and standard error are what this command is for"
)]
pub(super) async fn run(args: &WhyArgs) -> ExitCode {
    match answer(args).await {
        Ok((text, is_sent)) => {
            print!("{text}");
            if is_sent {
                ExitCode::SUCCESS
            } else {
                ExitCode::from(NOT_SENT)
            }
        }
        Err(error) => {
            eprintln!("argosy: {error:#}");
            ExitCode::from(UNEXPLAINED)
        }
    }
}

/// The text to print. True if the object is, was or will be sent.
async fn answer(args: &WhyArgs) -> anyhow::Result<(String, bool)> {
    let Clients { wds, its } = args.spaces.connect().await?;
    let reader = read::Reader { wds, its };
    let explanation = match (&args.filename, &args.object) {
        (Some(file), _) => {
            let run = file::read(file, &args.namespace)?;
            if let Some(count) = args.count {
                let distribution = reader.distribute(run, count).await?;
                let text = print_as(args.output, &distribution, text::distribution)?;
                return Ok((text, distribution.not_sent == 0));
            }
            reader.explain_planned(run).await?
        }
        (None, object) => {
            let object = object.as_deref().unwrap_or_default();
            let (kind, name) = kind::resolve(&reader.wds, object).await?;
            reader.explain(&kind, &args.namespace, name).await?
        }
    };
    let text = print_as(args.output, &explanation, text::page)?;
    Ok((text, explanation.verdict.is_sent()))
}

fn print_as<T: Serialize>(output: Output, answer: &T, text: impl Fn(&T) -> String) -> anyhow::Result<String> {
    Ok(match output {
        Output::Text => text(answer),
        Output::Json => format!("{}\n", serde_json::to_string_pretty(answer)?),
        Output::Yaml => serde_saphyr::to_string(answer)?,
    })
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use crate::cli::{Cli, Command};

    #[test]
    fn either_an_object_or_a_file_is_explained() {
        for (args, is_fine) in [
            (&["why", "-f", "w.yaml"][..], true),
            (&["why", "-f", "w.yaml", "--count", "10"], true),
            (&["why"], false),
            (&["why", "hello", "-f", "w.yaml"], false),
            (&["why", "hello", "--count", "10"], false),
            (&["why", "-f", "w.yaml", "--count", "0"], false),
        ] {
            let parsed = Cli::try_parse_from(["argosy"].iter().chain(args));
            assert_eq!(parsed.is_ok(), is_fine, "{args:?}");
        }
    }

    #[test]
    fn the_command_line_is_consistent_and_a_name_is_enough() {
        Cli::command().debug_assert();
        let command = Cli::try_parse_from(["argosy", "why", "hello"]).unwrap().command;
        let Command::Why(args) = command else {
            panic!("{command:?}");
        };
        assert_eq!(
            (args.object.as_deref(), args.namespace.as_str()),
            (Some("hello"), "argo")
        );
    }
}
