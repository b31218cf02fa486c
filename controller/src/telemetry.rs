//! Logs: to standard error, as text or JSON, filtered by `ARGOSY_LOG` in the syntax of tracing-subscriber.
//!
//! A line carries what it is about in fields of fixed names ([`FIELDS`]), in both formats: those of its own, and those of the request that
//! it was written in (`about`). Messages are constant sentences. Not here: traces, which begin and end with the logs.

mod json;

use std::{fmt::Write, process::ExitCode};

use argosy_core::{ClusterName, Failure, OriginUid, Subject};
use tracing::Span;
use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

use crate::traces;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Names of the fields of log lines, and what they mean. They stay what they are.
pub const FIELDS: &[(&str, &str)] = &[
    ("cluster", "name of the ManagedCluster that it is about"),
    (
        "kind",
        "kind of the object that it is about; of a watch, what it watches",
    ),
    ("namespace", "namespace of the object"),
    ("name", "name of the object"),
    (
        "uid",
        "UID of the object in the WDS, the same on every cluster; without its dashes, the id of its trace",
    ),
    (
        "attempt",
        "number of the attempt at a run; absent where there is none",
    ),
    (
        "engine",
        "the loop: workflows, objects, expiry, agent_workflows or agent_objects",
    ),
    ("stage", "what the request was to do, as in argosy_stage_seconds"),
    ("action", "the same in words, with what it concerns"),
    (
        "outcome",
        "why a request failed, in one word, as in argosy_failures_total",
    ),
    ("error", "what went wrong, in the words of whoever found out"),
    ("reason", "reason of an Event"),
    ("part", "the part of the process that it is about"),
    ("address", "address that is listened on"),
    ("hosts", "names that a certificate is for"),
    ("label", "the only label that is watched"),
    ("count", "how many"),
    ("holder", "which replica leads"),
    ("version", "version number of an API server's store"),
    ("newest", "the newest version that was seen before"),
    ("wds", "name of the WDS"),
    ("repository", "the artifact repository"),
    ("hub", "address of the ITS"),
    ("end", "when a certificate ends (RFC 3339)"),
    ("since", "when something was wished for (RFC 3339)"),
    ("delay", "until it is tried again"),
    (
        "credential",
        "by what the agent has asked: its certificate or a bootstrap token",
    ),
];

/// Starts logs, and traces of `service` where they are wanted. kube-client logs every failed request as an error, which a dead cluster
/// would flood the log with.
pub fn init(service: &'static str, format: LogFormat) {
    let filter =
        std::env::var("ARGOSY_LOG").unwrap_or_else(|_| "info,kube_client=off,kube_runtime=warn".to_owned());
    let registry = tracing_subscriber::registry().with(EnvFilter::new(filter));
    match format {
        LogFormat::Text => registry.with(fmt::layer().with_writer(std::io::stderr)).init(),
        LogFormat::Json => registry.with(json::Lines).init(),
    }
    traces::start(service);
}

/// The exit code of a service, with its last error in the log. Nothing is logged or traced after this.
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

/// Makes aws-lc-rs the one provider of cryptography, before any TLS configuration is built.
pub fn install_crypto() {
    // An error says that one is installed already, which is as good.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

/// What is logged within says that it is about `subject`.
pub(crate) fn about(engine: &'static str, stage: &'static str, subject: &Subject) -> Span {
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

/// Says why a request has failed.
pub(crate) fn report(failure: &Failure) {
    let outcome = failure.reason();
    match failure {
        Failure::Conflict => tracing::debug!(outcome, "changed meanwhile, deciding anew"),
        Failure::Unreachable(error) => tracing::warn!(outcome, error, "unreachable"),
        Failure::Foreign(error)
        | Failure::Refused(error)
        | Failure::Missing(error)
        | Failure::Fenced(error)
        | Failure::Unserved(error)
        | Failure::NotFound { message: error, .. } => tracing::warn!(outcome, error, "refused"),
    }
}

/// The reference of log lines, in Markdown.
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

<!-- Made of controller/src/telemetry.rs by UPDATE=1 cargo test -p argosy --test generated -->

With `--log-format json` controller and agent write one JSON object a line to standard error. Each has `timestamp` (RFC 3339, UTC),
`level` (ERROR, WARN, INFO, DEBUG, TRACE), `target` (the module) and `message`, a constant sentence. What it is about is beside them, in
fields that keep their names:

| field | what it is |
| --- | --- |
";
