//! The content of the agent's Secret: its certificate with everything that is needed to use it, and
//! the key of the pending request, so that a restarted agent continues that request.
//!
//! Pure. Anyone who may read the Secret can act as the agent.

use std::collections::BTreeMap;

use argosy_api::names;
use argosy_core::ClusterName;
use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::config::Kubeconfig;
use serde_json::{Value, json};

use crate::runtime::{kubeconfig::from_secret, x509::Certificate};

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const NEXT_KEY: &str = "next.key";
const CLUSTER: &str = "cluster-name";
const REQUESTED_AT: &str = "requested-at";
const ANSWERED: &str = "answered-wish";

/// A certificate with its key and data. It has no `Debug`, because it contains a key.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Held {
    /// Name of the ManagedCluster.
    pub(super) cluster: String,
    /// PEM.
    pub(super) certificate: String,
    /// PEM.
    pub(super) key: String,
    /// Kubeconfig for the ITS with certificate and key; YAML.
    pub(super) kubeconfig: String,
    /// Time of the request for the certificate, on the clock of the ITS.
    pub(super) requested_at: Timestamp,
    /// The rotation request that was known at that time.
    pub(super) answered: Option<Timestamp>,
}

/// The content of the Secret.
#[derive(Clone, Default)]
pub(super) struct Content {
    pub(super) held: Option<Held>,
    /// PEM.
    pub(super) next_key: Option<String>,
}

impl Content {
    /// Parses the Secret. Parts that cannot be parsed are absent.
    pub(super) fn read(secret: &Secret) -> Self {
        let data = secret.data.as_ref();
        let text = |key: &str| {
            let bytes = data?.get(key)?;
            String::from_utf8(bytes.0.clone()).ok()
        };
        let held = || {
            Some(Held {
                cluster: text(CLUSTER)?,
                certificate: text(CERTIFICATE)?,
                key: text(KEY)?,
                kubeconfig: text(names::KUBECONFIG_KEY)?,
                requested_at: text(REQUESTED_AT)?.parse().ok()?,
                answered: text(ANSWERED).and_then(|text| text.parse().ok()),
            })
        };
        Self {
            held: held(),
            next_key: text(NEXT_KEY),
        }
    }

    pub(super) fn data(&self) -> BTreeMap<String, ByteString> {
        let mut data = BTreeMap::new();
        let mut put = |key: &str, text: &str| {
            data.insert(key.to_owned(), ByteString(text.as_bytes().to_vec()));
        };
        if let Some(held) = &self.held {
            put(CLUSTER, &held.cluster);
            put(CERTIFICATE, &held.certificate);
            put(KEY, &held.key);
            put(names::KUBECONFIG_KEY, &held.kubeconfig);
            put(REQUESTED_AT, &held.requested_at.to_string());
            if let Some(answered) = held.answered {
                put(ANSWERED, &answered.to_string());
            }
        }
        if let Some(key) = &self.next_key {
            put(NEXT_KEY, key);
        }
        data
    }
}

impl Held {
    /// Returns the certificate if it belongs to the agent of `cluster` and has not expired at
    /// `now`.
    pub(super) fn valid(&self, cluster: &ClusterName, now: Timestamp) -> Option<Certificate> {
        let certificate = Certificate::read(self.certificate.as_bytes())?;
        let is_ours = self.cluster == cluster.as_str()
            && certificate.common_name == names::agent_user(cluster.as_str())
            && certificate.not_after > now;
        is_ours.then_some(certificate)
    }

    /// The hub of the certificate, see [`hub_of`].
    pub(super) fn hub(&self) -> Option<Value> {
        hub_of(&from_secret(&self.kubeconfig, "of the certificate").ok()?)
    }
}

/// The cluster entry of a kubeconfig's current context, with its CA inlined.
pub(crate) fn hub_of(kubeconfig: &Kubeconfig) -> Option<Value> {
    let current = kubeconfig.current_context.as_deref()?;
    let context = kubeconfig.contexts.iter().find(|known| known.name == current)?;
    let name = &context.context.as_ref()?.cluster;
    let entry = kubeconfig.clusters.iter().find(|known| known.name == *name)?;
    let mut cluster = entry.cluster.clone()?;
    cluster.other.clear();
    // The CA file is beside the bootstrap kubeconfig, which may disappear.
    if let Some(path) = cluster.certificate_authority.take()
        && cluster.certificate_authority_data.is_none()
    {
        let text = serde_json::to_value(ByteString(std::fs::read(path).ok()?)).ok()?;
        cluster.certificate_authority_data = text.as_str().map(str::to_owned);
    }
    serde_json::to_value(cluster).ok()
}

/// Creates a kubeconfig for `hub` with a client certificate; YAML.
pub(super) fn kubeconfig(hub: &Value, certificate: &str, key: &str) -> Option<String> {
    let data = |text: &str| serde_json::to_value(ByteString(text.as_bytes().to_vec())).ok();
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "its",
        "clusters": [{ "name": "its", "cluster": hub }],
        "users": [{
            "name": "agent",
            "user": { "client-certificate-data": data(certificate)?, "client-key-data": data(key)? },
        }],
        "contexts": [{ "name": "its", "context": { "cluster": "its", "user": "agent" } }],
    });
    serde_saphyr::to_string(&kubeconfig).ok()
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};

    use super::*;

    fn held(common_name: &str) -> Held {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.not_before = date_time_ymd(2026, 1, 1);
        params.not_after = date_time_ymd(2026, 1, 2);
        let key = KeyPair::generate().unwrap();
        let hub = json!({ "server": "https://10.0.0.1:6443", "certificate-authority-data": "Y2E=" });
        let (certificate, key) = (params.self_signed(&key).unwrap().pem(), key.serialize_pem());
        Held {
            cluster: "a".to_owned(),
            kubeconfig: kubeconfig(&hub, &certificate, &key).unwrap(),
            certificate,
            key,
            requested_at: "2026-01-01T00:00:01Z".parse().unwrap(),
            answered: "2025-12-31T00:00:00Z".parse().ok(),
        }
    }

    fn noon() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn what_is_kept_is_read_again_and_half_of_it_is_nothing() {
        let content = Content {
            held: Some(held("argosy.dev:agent:a")),
            next_key: Some("k".to_owned()),
        };
        let mut secret = Secret {
            data: Some(content.data()),
            ..Secret::default()
        };
        let read = Content::read(&secret);
        assert!(read.held == content.held);
        assert_eq!(read.next_key, content.next_key);
        secret.data.as_mut().unwrap().remove(KEY);
        let read = Content::read(&secret);
        assert!(read.held.is_none());
        assert_eq!(read.next_key.as_deref(), Some("k"));
        assert!(Content::read(&Secret::default()).held.is_none());
    }

    #[test]
    fn a_certificate_of_another_cluster_or_that_has_ended_is_not_used() {
        let mine = held("argosy.dev:agent:a");
        assert!(mine.valid(&"a".into(), noon()).is_some());
        assert!(mine.valid(&"b".into(), noon()).is_none());
        let end = "2026-01-02T00:00:00Z".parse().unwrap();
        assert!(mine.valid(&"a".into(), end).is_none());
        assert!(held("argosy.dev:agent:b").valid(&"a".into(), noon()).is_none());
    }

    #[test]
    fn the_kubeconfig_leads_where_the_bootstrap_kubeconfig_led() {
        let authority = std::env::temp_dir().join(format!("argosy-authority-{}", std::process::id()));
        std::fs::write(&authority, "ca").unwrap();
        let bootstrap = json!({
            "current-context": "b",
            "clusters": [
                { "name": "x", "cluster": { "server": "https://10.0.0.2:6443" } },
                { "name": "y", "cluster": { "server": "https://10.0.0.1:6443", "certificate-authority": authority } },
            ],
            "users": [{ "name": "u", "user": { "token": "t" } }],
            "contexts": [
                { "name": "a", "context": { "cluster": "x", "user": "u" } },
                { "name": "b", "context": { "cluster": "y", "user": "u" } },
            ],
        });
        let hub = hub_of(&serde_json::from_value(bootstrap).unwrap()).unwrap();
        std::fs::remove_file(authority).unwrap();
        let expected = json!({ "server": "https://10.0.0.1:6443", "certificate-authority-data": "Y2E=" });
        assert_eq!(hub, expected);
        let text = kubeconfig(&hub, "certificate", "key").unwrap();
        assert!(!text.contains("token"), "{text}");
        assert_eq!(hub_of(&Kubeconfig::from_yaml(&text).unwrap()), Some(expected));
    }
}
