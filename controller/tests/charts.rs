//! Checks the charts against the code: the flags of the programs that they run, and the metrics
//! that alerts and the dashboard query. The output of helm is committed as golden files;
//! `tests/tests/charts` tests them with helm.

#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do functions beside it"
)]

use std::{fs, net::SocketAddr, path::Path};

use argosy::{
    agent::args::{AgentArgs, AgentCommand},
    cli::Cli,
    hub::args::ControllerArgs,
};
use clap::Parser;
use serde_json::Value;

#[path = "charts/expression.rs"]
mod expression;
#[path = "charts/metrics.rs"]
mod metrics;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every container in the golden files of `chart`.
fn containers(chart: &str) -> Vec<Value> {
    let folder = format!("tests/goldens/charts/{chart}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(&folder);
    let mut containers = Vec::new();
    for file in fs::read_dir(path).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".values.yaml") {
            continue;
        }
        let objects: Vec<Value> = serde_saphyr::from_multiple(&read(&format!("{folder}/{name}"))).unwrap();
        for object in objects {
            let found = object["spec"]["template"]["spec"]["containers"]
                .as_array()
                .cloned();
            containers.extend(found.unwrap_or_default());
        }
    }
    containers
}

/// The command line of a container.
fn command_line(container: &Value) -> Vec<String> {
    let words = [&container["command"], &container["args"]].map(|words| words.as_array().cloned());
    let words = words.into_iter().flatten().flatten();
    words.map(|word| word.as_str().unwrap().to_owned()).collect()
}

/// The port that a container opens under this name.
fn port(container: &Value, name: &str) -> Option<u64> {
    let ports = container["ports"].as_array()?;
    ports.iter().find(|port| port["name"] == name)?["containerPort"].as_u64()
}

#[track_caller]
fn opens(container: &Value, name: &str, address: SocketAddr) {
    assert!(address.ip().is_unspecified(), "{name} listens on {address}");
    assert_eq!(port(container, name), Some(address.port().into()), "{name}");
}

#[test]
fn the_controller_and_its_release_take_the_flags_that_the_chart_gives() {
    let (mut controllers, mut releases) = (0, 0);
    for container in containers("argosy") {
        let words = command_line(&container);
        if words[0] == "argosy" {
            Cli::try_parse_from(&words).unwrap_or_else(|error| panic!("{words:?}: {error}"));
            releases += 1;
            continue;
        }
        let args =
            ControllerArgs::try_parse_from(&words).unwrap_or_else(|error| panic!("{words:?}: {error}"));
        opens(&container, "admin", args.common.admin_addr);
        match args.webhook.webhook_service {
            Some(_) => opens(&container, "webhook", args.webhook.webhook_addr),
            None => assert_eq!(port(&container, "webhook"), None),
        }
        controllers += 1;
    }
    assert!(
        controllers > 1 && releases > 1,
        "{controllers} controllers, {releases} releases"
    );
}

#[test]
fn the_agent_and_its_release_take_the_flags_that_the_chart_gives() {
    let (mut agents, mut releases) = (0, 0);
    for container in containers("argosy-agent") {
        let words = command_line(&container);
        match AgentArgs::try_parse_from(&words)
            .unwrap_or_else(|error| panic!("{words:?}: {error}"))
            .command
        {
            AgentCommand::Run(args) => {
                opens(&container, "admin", args.common.admin_addr);
                agents += 1;
            }
            AgentCommand::Release(_) => releases += 1,
        }
    }
    assert!(agents > 1 && releases > 1, "{agents} agents, {releases} releases");
}
