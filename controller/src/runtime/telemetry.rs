//! Logs: to standard error, as text or JSON, filtered by a default and by `ARGOSY_LOG` in the syntax
//! of tracing-subscriber.
//!
//! A line describes its subject in fields with fixed names ([`FIELDS`]), in both formats: its own,
//! and those of the request that it was logged in (`about`). Messages are constant sentences. Not
//! here: traces, which start and end with the logs.

mod json;

use std::{fmt::Write, process::ExitCode};

use argosy_core::{ClusterName, Failure, LogFields, OriginUid};
use tracing::Span;
use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

use crate::runtime::traces;

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Plain text.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Names of the fields of log lines, with their meanings. The names are stable.
pub const FIELDS: &[(&str, &str)] = &[
    ("cluster", "name of the ManagedCluster"),
    ("kind", "kind of the object, or the kind that a watch watches"),
    ("namespace", "namespace of the object"),
    ("name", "name of the object"),
    (
        "uid",
        "UID of the object in the WDS, the same on every cluster; without its dashes, the id of its trace",
    ),
    ("attempt", "number of the attempt; absent if there is none"),
    (
        "engine",
        "the loop: workflows, objects, approvals, expiry, nodes, shadow_pods, agent_workflows or agent_objects",
    ),
    ("stage", "purpose of the request, as in argosy_stage_seconds"),
    ("action", "purpose of the request in words, with its object"),
    (
        "rule",
        "rule that decided about a Workflow, see [Rules](rules.md)",
    ),
    (
        "outcome",
        "reason why a request failed, in one word, as in argosy_failures_total",
    ),
    (
        "error",
        "error message, from Argosy, the API server or the S3 server",
    ),
    ("reason", "reason of an Event"),
    ("part", "part of the process"),
    ("address", "address that the process listens on"),
    ("hosts", "host names in a certificate"),
    ("label", "label that selects the watched objects"),
    ("count", "number of objects or writes"),
    ("holder", "replica that leads"),
    ("version", "resource version that an API server has returned"),
    ("newest", "highest resource version that was seen before"),
    ("wds", "name of the WDS"),
    ("repository", "the artifact repository"),
    (
        "offer",
        "place that the controller offers for the agent's tunnel, as NAMESPACE/NAME:PORT of a Service",
    ),
    ("hub", "address of the ITS"),
    ("end", "time when a certificate expires (RFC 3339)"),
    (
        "since",
        "time when another certificate was requested, or the cluster was registered (RFC 3339)",
    ),
    ("delay", "time until the next attempt"),
    (
        "credential",
        "credential that the agent used for the request: its certificate or a bootstrap token",
    ),
];

/// Lines that are logged if `ARGOSY_LOG` says nothing about their targets. kube-client logs every
/// failed request as an error, so an unreachable cluster would flood the log.
const DEFAULT_FILTER: &str = "info,kube_client=off,kube_runtime=warn";

/// The default filter with `asked`, whose part about a target replaces the default's.
fn filter(asked: &str) -> EnvFilter {
    EnvFilter::new(format!("{DEFAULT_FILTER},{asked}"))
}

/// Starts logging, and traces of `service` if they are enabled.
pub fn init(service: &'static str, format: LogFormat) {
    let asked = std::env::var("ARGOSY_LOG").unwrap_or_default();
    let registry = tracing_subscriber::registry().with(filter(&asked));
    match format {
        LogFormat::Text => registry.with(fmt::layer().with_writer(std::io::stderr)).init(),
        LogFormat::Json => registry.with(json::Lines).init(),
    }
    traces::start(service);
}

/// Returns the exit code of a service and logs its last error. Nothing may be logged or traced
/// after this.
pub fn exit_code(result: anyhow::Result<()>) -> ExitCode {
    let code = match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "ended");
            ExitCode::FAILURE
        }
    };
    traces::finish();
    code
}

/// Makes aws-lc-rs the crypto provider of rustls, before any TLS configuration is built.
pub fn install_crypto() {
    // An error means that a provider is installed already, which is fine.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

/// Creates a span whose log lines carry the fields of `subject`.
pub(crate) fn about(engine: &'static str, stage: &'static str, subject: &LogFields) -> Span {
    tracing::info_span!(
        "request",
        engine,
        stage,
        kind = Some(subject.kind.as_ref()).filter(|kind| !kind.is_empty()),
        cluster = subject.cluster.as_ref().map(ClusterName::as_str),
        namespace = subject.namespace.as_deref(),
        name = subject.name.as_deref(),
        uid = subject.uid.as_ref().map(OriginUid::as_str),
        attempt = Some(subject.attempt).filter(|attempt| *attempt > 0),
    )
}

/// Logs the reason that a request has failed.
pub(crate) fn report(failure: &Failure) {
    let outcome = failure.reason();
    match failure {
        Failure::Conflict => {
            tracing::debug!(outcome, "the object has changed in the meantime; deciding again");
        }
        Failure::Unreachable(error) => tracing::warn!(outcome, error, "unreachable"),
        Failure::Foreign(error)
        | Failure::Refused(error)
        | Failure::Missing(error)
        | Failure::Fenced(error)
        | Failure::Unserved(error)
        | Failure::NotFound { message: error, .. } => tracing::warn!(outcome, error, "refused"),
    }
}

/// Renders the reference of log lines in Markdown.
pub fn reference() -> String {
    let mut text = INTRODUCTION.to_owned();
    for (name, meaning) in FIELDS {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "| `{name}` | {meaning} |");
    }
    text
}

const INTRODUCTION: &str = "\
# Log lines

<!-- Made of controller/src/runtime/telemetry.rs by UPDATE=1 cargo test -p argosy --test generated -->

With `--log-format json`, the controller and the agent write one JSON object per line to standard error.
Each has `timestamp` (RFC 3339, UTC), `level` (ERROR, WARN, INFO, DEBUG, TRACE), `target` (the module) and `message`, a constant sentence.
The other fields have stable names:

| field | meaning |
| --- | --- |
";

#[cfg(test)]
mod tests {
    use super::filter;

    #[test]
    fn a_log_filter_adds_to_the_default_and_replaces_its_part_about_the_same_target() {
        for (asked, expected) in [
            ("", "kube_runtime=warn,kube_client=off,info"),
            (
                "argosy=debug",
                "kube_runtime=warn,kube_client=off,argosy=debug,info",
            ),
            ("warn", "kube_runtime=warn,kube_client=off,warn"),
            ("kube_client=debug", "kube_runtime=warn,kube_client=debug,info"),
        ] {
            assert_eq!(filter(asked).to_string(), expected, "{asked}");
        }
    }
}
