//! `argosy why`: explains which policies and clusters select an object, why others do not, and what
//! happened to it.
//!
//! Not here: the explanation itself (`argosy_core::explain`).

mod kind;
mod read;
mod text;

use std::process::ExitCode;

use argosy_core::explain::Explanation;
use clap::{Args, ValueEnum};

use super::spaces::{Clients, Spaces};

/// Arguments of `why`.
#[derive(Debug, Args)]
pub struct WhyArgs {
    /// Name of a Workflow, or KIND/NAME of any other object, such as deployment/web or
    /// deployments.apps/web
    #[arg(value_name = "WORKFLOW")]
    object: String,
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
    let printed = match explain(args).await {
        Ok(explanation) => print_as(args.output, &explanation).map(|text| (text, explanation)),
        Err(error) => Err(error),
    };
    match printed {
        Ok((text, explanation)) => {
            print!("{text}");
            if explanation.verdict.is_sent() {
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

async fn explain(args: &WhyArgs) -> anyhow::Result<Explanation> {
    let Clients { wds, its } = args.spaces.connect().await?;
    let (kind, name) = kind::resolve(&wds, &args.object).await?;
    read::Reader { wds, its }
        .explain(&kind, &args.namespace, name)
        .await
}

fn print_as(output: Output, explanation: &Explanation) -> anyhow::Result<String> {
    Ok(match output {
        Output::Text => text::page(explanation),
        Output::Json => format!("{}\n", serde_json::to_string_pretty(explanation)?),
        Output::Yaml => serde_saphyr::to_string(explanation)?,
    })
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use crate::cli::{Cli, Command};

    #[test]
    fn the_command_line_is_consistent_and_a_name_is_enough() {
        Cli::command().debug_assert();
        let command = Cli::try_parse_from(["argosy", "why", "hello"]).unwrap().command;
        let Command::Why(args) = command else {
            panic!("{command:?}");
        };
        assert_eq!((args.object.as_str(), args.namespace.as_str()), ("hello", "argo"));
    }
}
