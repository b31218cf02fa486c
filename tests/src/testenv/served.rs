//! A Service of a control cluster whose one endpoint is a server of this process. So `services/proxy`
//! of the API server leads to it, without a kubelet and without kube-proxy.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    path::Path,
};

use anyhow::{Context, Result};
use axum::Router;
use axum_server::tls_rustls::RustlsConfig;
use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::task::JoinSet;

use super::{objects::create, server};

/// Name of the port of the Service.
pub const PORT: &str = "webhook";

/// A server with TLS behind a Service. A drop closes the listener and leaves the objects.
#[derive(Debug)]
pub struct Served {
    address: SocketAddr,
    _serving: JoinSet<std::io::Result<()>>,
}

impl Served {
    /// Serves `router` behind the new Service `name` in `namespace`.
    pub async fn start(client: &Client, namespace: &str, name: &str, router: Router) -> Result<Self> {
        // API servers take no endpoint on a loopback address.
        let listener = TcpListener::bind((own_address()?, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (certificate, key) = server::certificate_files()?;
        let tls = RustlsConfig::from_pem_file(certificate, key).await?;
        let serving = axum_server::from_tcp_rustls(listener, tls)?.serve(router.into_make_service());
        register(client, namespace, name, address).await?;
        Ok(Self {
            address,
            _serving: JoinSet::from_iter([serving]),
        })
    }

    /// Serves `router` on the loopback address, behind no Service.
    pub async fn direct(router: Router) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (certificate, key) = server::certificate_files()?;
        let tls = RustlsConfig::from_pem_file(certificate, key).await?;
        let serving = axum_server::from_tcp_rustls(listener, tls)?.serve(router.into_make_service());
        Ok(Self {
            address,
            _serving: JoinSet::from_iter([serving]),
        })
    }

    /// File with the certificate that every server of this kind has.
    pub fn certificate() -> Result<&'static Path> {
        Ok(server::certificate_files()?.0)
    }

    /// Its address, without the API server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// An address of this machine that other machines can reach.
///
/// # Errors
///
/// The machine has only loopback addresses.
pub fn own_address() -> Result<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    // Nothing is sent: this only chooses the route to an address for documentation (RFC 5737).
    socket
        .connect("198.51.100.1:9")
        .context("this machine has only loopback addresses, which API servers take for no endpoint")?;
    Ok(socket.local_addr()?.ip())
}

/// Creates the Service `name` in `namespace`, whose one endpoint is `address`. The proxy of an API
/// server reads Endpoints, and only those with a Pod that has the same address.
///
/// # Errors
///
/// The API server refused an object.
pub async fn register(client: &Client, namespace: &str, name: &str, address: SocketAddr) -> Result<()> {
    let ip = address.ip().to_string();
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": { "containers": [{ "name": "main", "image": "argosy" }] },
    }))?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    create(&pods, &pod).await?;
    let status = json!({ "status": { "phase": "Running", "podIP": ip, "podIPs": [{ "ip": ip }] } });
    let params = PatchParams::default();
    pods.patch_status(name, &params, &Patch::Merge(status)).await?;
    let service: Service = serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": { "ports": [{ "name": PORT, "port": 443 }] },
    }))?;
    create(&Api::namespaced(client.clone(), namespace), &service).await?;
    let pod = json!({ "kind": "Pod", "namespace": namespace, "name": name });
    let endpoints: Endpoints = serde_json::from_value(json!({
        "metadata": { "name": name },
        "subsets": [{
            "addresses": [{ "ip": ip, "targetRef": pod }],
            "ports": [{ "name": PORT, "port": address.port() }],
        }],
    }))?;
    create(&Api::namespaced(client.clone(), namespace), &endpoints).await?;
    Ok(())
}
