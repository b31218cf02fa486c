//! `argosy cluster accept`.

use std::process::ExitCode;

use serde_json::json;

use super::Named;

#[expect(clippy::print_stdout, reason = "standard output is what this command is for")]
pub(super) async fn run(args: &Named) -> anyhow::Result<ExitCode> {
    let clients = args.spaces.connect().await?;
    clients
        .change(&args.name, |_| json!({ "spec": { "hubAcceptsClient": true } }))
        .await?;
    println!("{}: accepted; its agent can now get a certificate", args.name);
    Ok(ExitCode::SUCCESS)
}
