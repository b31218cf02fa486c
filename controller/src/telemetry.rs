//! Logs: to standard error, as text or JSON, filtered by `ARGOSY_LOG` in the syntax of tracing-subscriber.

use std::process::ExitCode;

use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts logging. kube-client logs every failed request as an error, which a dead cluster would flood the log with.
pub fn init(format: LogFormat) {
    let filter =
        std::env::var("ARGOSY_LOG").unwrap_or_else(|_| "info,kube_client=off,kube_runtime=warn".to_owned());
    let registry = tracing_subscriber::registry().with(EnvFilter::new(filter));
    match format {
        LogFormat::Text => registry.with(fmt::layer().with_writer(std::io::stderr)).init(),
        LogFormat::Json => registry
            .with(fmt::layer().json().with_writer(std::io::stderr))
            .init(),
    }
}

/// The exit code of a service, with its last error in the log.
pub fn exit_code(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Makes aws-lc-rs the one provider of cryptography, before any TLS configuration is built.
pub fn install_crypto() {
    // An error says that one is installed already, which is as good.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}
