//! Clients of API servers: from a kubeconfig file, from the text of one, or from the pod's service
//! account.

mod connector;
mod consistency;
mod narrow;
#[cfg(test)]
mod sent;
pub mod switch;
mod validation;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use axum::{
    body::{Bytes, HttpBody},
    http::{Request, Response, Uri},
};
use kube::{
    Client, Config,
    client::{Body, ClientBuilder},
    config::{KubeConfigOptions, Kubeconfig},
};
use rustls::pki_types::{
    CertificateDer,
    pem::{self, PemObject},
};
use tower::{BoxError, Service, util::MapRequestLayer};

pub use self::narrow::{LARGE_PAGE, SMALL_PAGE, is_too_long};
use self::{consistency::most_recent, narrow::Narrow, validation::unvalidated};
use crate::runtime::{leader::gate::Gate, metrics::Counted};

/// Reason that there is no client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file or text is not a usable kubeconfig.
    #[error("cannot use the kubeconfig {origin}")]
    Kubeconfig {
        /// Path or Secret it comes from.
        origin: String,
        /// The cause.
        #[source]
        source: kube::config::KubeconfigError,
    },
    /// The kubeconfig of a Secret contains a field that is not allowed there.
    #[error("cannot use the kubeconfig {origin}: {problem}")]
    Refused {
        /// The Secret.
        origin: String,
        /// The field, and the field to use instead.
        problem: String,
    },
    /// There is neither a kubeconfig nor a service account.
    #[error("no kubeconfig was given, and the process does not run in a pod with a service account")]
    InCluster(#[source] kube::config::InClusterError),
    /// There is no kubeconfig in any of the usual places, and no service account.
    #[error("no kubeconfig was found: set KUBECONFIG or use --kubeconfig")]
    Infer(#[source] kube::config::InferConfigError),
    /// The file with authorities cannot be read, or has none.
    #[error("cannot read certificates from {path}")]
    Authority {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: pem::Error,
    },
    /// The configuration refers to something unusable, such as an unreadable certificate.
    #[error("cannot create a client for {server}")]
    Client {
        /// Address of the API server.
        server: String,
        /// The cause.
        #[source]
        source: kube::Error,
    },
}

/// Creates a client from the kubeconfig at `path`, or without one from the pod's service account.
pub async fn connect(path: Option<&Path>) -> Result<Client, Error> {
    build(configure(path).await?, None)
}

/// Like [`connect`], with counted requests and with writes that go through a gate.
pub async fn connect_counted(path: Option<&Path>, counted: Counted, gate: &Gate) -> Result<Client, Error> {
    build(configure(path).await?, Some((counted, gate)))
}

/// Like [`connect_counted`], without compression, for an API server on the local network: for a
/// long list, compression would cost both sides more time than the link.
pub async fn connect_nearby(path: Option<&Path>, counted: Counted, gate: &Gate) -> Result<Client, Error> {
    let mut config = configure(path).await?;
    config.disable_compression = true;
    build(config, Some((counted, gate)))
}

/// Like [`connect`], without a read timeout, for logs that are followed. Dead links are noticed by
/// TCP keepalive.
pub async fn connect_streaming(path: Option<&Path>) -> Result<Client, Error> {
    build_streaming(configure(path).await?)
}

/// Like [`connect_streaming`], from a kubeconfig that was found in `origin`.
pub async fn connect_streaming_with(kubeconfig: Kubeconfig, origin: &str) -> Result<Client, Error> {
    build_streaming(from_kubeconfig(kubeconfig, origin.to_owned()).await?)
}

/// The address that [`connect`] connects to, as OCM's agents write it.
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

/// Creates a client from a kubeconfig that was found in `origin`. Also returns its server's
/// address, see [`address`].
pub async fn connect_to(kubeconfig: Kubeconfig, origin: &str) -> Result<(Client, String), Error> {
    let config = from_kubeconfig(kubeconfig, origin.to_owned()).await?;
    let server = written(&config);
    Ok((build(config, None)?, server))
}

/// Creates a client of the server at `url`, without credentials and without a read timeout. The
/// server's certificate is verified against the authorities in the PEM file `authority`, or without
/// one against those of the system.
pub fn connect_url(url: Uri, authority: Option<&Path>) -> Result<Client, Error> {
    let mut config = Config::new(url);
    config.root_cert = authority.map(authorities_in).transpose()?;
    build_streaming(config)
}

fn authorities_in(path: &Path) -> Result<Vec<Vec<u8>>, Error> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    match read {
        Ok(found) if !found.is_empty() => Ok(found.iter().map(|one| one.to_vec()).collect()),
        Ok(_) => Err(pem::Error::NoItemsFound),
        Err(error) => Err(error),
    }
    .map_err(|source| Error::Authority {
        path: path.to_owned(),
        source,
    })
}

/// Creates a client as a user at a terminal expects it: from the kubeconfig at `path`, else from
/// `KUBECONFIG` or the home directory, else from the pod's service account.
pub async fn connect_as_user(path: Option<&Path>) -> Result<Client, Error> {
    match path {
        Some(path) => connect(Some(path)).await,
        None => build(Config::infer().await.map_err(Error::Infer)?, None),
    }
}

/// Creates a client from a kubeconfig that was found in `origin`, with counted requests and with
/// writes that go through a gate.
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

/// Read timeout of a connection. On a quiet watch, an API server sends a bookmark about once a
/// minute. The timeout also bounds a list, or the start of a watch, that is never answered.
const LONGEST_SILENCE: Duration = Duration::from_mins(2);

/// Disables the client's own retries, which last minutes: the engine retries with a fresh decision.
fn build(mut config: Config, through: Option<(Counted, &Gate)>) -> Result<Client, Error> {
    config.read_timeout = Some(LONGEST_SILENCE);
    build_with(config, through)
}

fn build_streaming(mut config: Config) -> Result<Client, Error> {
    config.read_timeout = None;
    config.disable_compression = true;
    build_with(config, None)
}

/// `uri` with another query; `None` if that is no valid one.
fn with_query(uri: &Uri, query: &str) -> Option<Uri> {
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(format!("{}?{query}", uri.path()).parse().ok()?);
    Uri::from_parts(parts).ok()
}

fn build_with(mut config: Config, through: Option<(Counted, &Gate)>) -> Result<Client, Error> {
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(5));
    config.reset_reader_on_write = true;
    config.write_timeout = Some(Duration::from_secs(20));
    let server = config.cluster_url.to_string();
    let client = if connector::serves(&config) {
        connector::builder(&config, connector::UNUSED).map(|builder| finish(builder, through))
    } else {
        ClientBuilder::try_from(config).map(|builder| finish(builder, through))
    };
    client.map_err(|source| Error::Client { server, source })
}

fn finish<S, B>(builder: ClientBuilder<S>, through: Option<(Counted, &Gate)>) -> Client
where
    S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    match through {
        // The gate is the outermost layer, so that refused writes are not counted as requests.
        Some((counted, gate)) => builder
            .with_layer(&Narrow::default())
            .with_layer(&MapRequestLayer::new(unvalidated))
            .with_layer(&MapRequestLayer::new(most_recent))
            .with_layer(&counted)
            .with_layer(gate)
            .build(),
        None => builder.with_layer(&MapRequestLayer::new(most_recent)).build(),
    }
}
