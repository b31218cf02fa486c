//! Clients of API servers: from a kubeconfig file, from the text of one, or from the pod's service account.

pub mod switch;

use std::{path::Path, time::Duration};

use kube::{
    Client, Config,
    client::ClientBuilder,
    config::{KubeConfigOptions, Kubeconfig},
};

use crate::{leader::gate::Gate, metrics::Counted};

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file or text is not a usable kubeconfig.
    #[error("cannot use the kubeconfig {origin}")]
    Kubeconfig {
        /// Path or Secret it comes from.
        origin: String,
        /// What is wrong with it.
        #[source]
        source: kube::config::KubeconfigError,
    },
    /// The kubeconfig of a Secret would do what no Secret may.
    #[error("cannot use the kubeconfig {origin}: {flaw}")]
    Refused {
        /// The Secret.
        origin: String,
        /// Which field, and what to write instead.
        flaw: String,
    },
    /// There is neither a kubeconfig nor a service account.
    #[error("no kubeconfig was given and this is not a pod with a service account")]
    InCluster(#[source] kube::config::InClusterError),
    /// There is no kubeconfig in any of the usual places, and no service account.
    #[error("found no kubeconfig: set KUBECONFIG or use --kubeconfig")]
    Infer(#[source] kube::config::InferConfigError),
    /// The configuration names something that cannot be used, such as a certificate that cannot be read.
    #[error("cannot make a client for {server}")]
    Client {
        /// Address of the API server.
        server: String,
        /// What is wrong.
        #[source]
        source: kube::Error,
    },
}

/// A client from the kubeconfig at `path`, or from the pod's service account when there is none.
pub async fn connect(path: Option<&Path>) -> Result<Client, Error> {
    build(configure(path).await?, None)
}

/// The same, whose requests are counted, and whose writes go through a gate.
pub async fn connect_counted(path: Option<&Path>, counted: Counted, gate: &Gate) -> Result<Client, Error> {
    build(configure(path).await?, Some((counted, gate)))
}

/// The same, for an API server that is as near as this one's own: nothing is compressed. Of a long list, that would take both sides
/// more time than the link.
pub async fn connect_nearby(path: Option<&Path>, counted: Counted, gate: &Gate) -> Result<Client, Error> {
    let mut config = configure(path).await?;
    config.disable_compression = true;
    build(config, Some((counted, gate)))
}

/// The address that [`connect`] dials, as OCM's agents write it.
pub async fn address(path: Option<&Path>) -> Result<String, Error> {
    Ok(written(&configure(path).await?))
}

fn written(config: &Config) -> String {
    config.cluster_url.to_string().trim_end_matches('/').to_owned()
}

async fn configure(path: Option<&Path>) -> Result<Config, Error> {
    let Some(path) = path else {
        return Config::incluster().map_err(Error::InCluster);
    };
    let origin = path.display().to_string();
    let kubeconfig = Kubeconfig::read_from(path).map_err(|source| Error::Kubeconfig {
        origin: origin.clone(),
        source,
    })?;
    from_kubeconfig(kubeconfig, origin).await
}

/// A client from a kubeconfig that was found in `origin`, and the address that it dials, see [`address`].
pub async fn connect_to(kubeconfig: Kubeconfig, origin: &str) -> Result<(Client, String), Error> {
    let config = from_kubeconfig(kubeconfig, origin.to_owned()).await?;
    let server = written(&config);
    Ok((build(config, None)?, server))
}

/// A client as a user at a terminal expects it: from the kubeconfig at `path`, else from `KUBECONFIG` or the home
/// directory, else from the pod's service account.
pub async fn connect_as_user(path: Option<&Path>) -> Result<Client, Error> {
    match path {
        Some(path) => connect(Some(path)).await,
        None => build(Config::infer().await.map_err(Error::Infer)?, None),
    }
}

/// A client from a kubeconfig that was found in `origin`, whose requests are counted, and whose writes go through a gate.
pub async fn connect_with(
    kubeconfig: Kubeconfig,
    origin: &str,
    counted: Counted,
    gate: &Gate,
) -> Result<Client, Error> {
    build(
        from_kubeconfig(kubeconfig, origin.to_owned()).await?,
        Some((counted, gate)),
    )
}

async fn from_kubeconfig(kubeconfig: Kubeconfig, origin: String) -> Result<Config, Error> {
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|source| Error::Kubeconfig { origin, source })
}

/// The engine retries with a fresh decision, so the client's own retries, which last minutes, are off.
fn build(mut config: Config, through: Option<(Counted, &Gate)>) -> Result<Client, Error> {
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(5));
    // Longer than a silent watch lasts; it bounds a list or the start of a watch that is never answered, too.
    config.read_timeout = Some(Duration::from_secs(40));
    config.reset_reader_on_write = true;
    config.write_timeout = Some(Duration::from_secs(20));
    let server = config.cluster_url.to_string();
    let builder = ClientBuilder::try_from(config).map_err(|source| Error::Client { server, source })?;
    Ok(match through {
        // What is refused is no request.
        Some((counted, gate)) => builder.with_layer(&counted).with_layer(gate).build(),
        None => builder.build(),
    })
}
