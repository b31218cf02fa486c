//! The storage of the agent's certificate: one Secret of the WEC.

use std::fmt;

use argosy_api::names;
use argosy_core::Failure;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt, api::ObjectMeta};

use super::held::Content;
use crate::runtime::requests::{call, creating, found};

/// The Secret, with its version that was read or written last.
pub(super) struct Place {
    api: Api<Secret>,
    namespace: String,
    name: String,
    version: Option<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl Place {
    pub(super) fn new(wec: &Client, (namespace, name): &(String, String)) -> Self {
        Self {
            api: Api::namespaced(wec.clone(), namespace),
            namespace: namespace.clone(),
            name: name.clone(),
            version: None,
        }
    }

    pub(super) async fn read(&mut self) -> Result<Content, Failure> {
        let secret = found(call(self.api.get(&self.name)).await)?;
        self.version = secret.as_ref().and_then(ResourceExt::resource_version);
        Ok(secret.as_ref().map(Content::read).unwrap_or_default())
    }

    /// Writes the Secret only if it still has the version that was read or written last. If a
    /// second agent runs for a moment, its write is thus read first.
    pub(super) async fn write(&mut self, content: &Content) -> Result<(), Failure> {
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                resource_version: self.version.clone(),
                ..ObjectMeta::default()
            },
            data: Some(content.data()),
            ..Secret::default()
        };
        let params = creating(names::AGENT);
        let written = match &self.version {
            None => call(self.api.create(&params, &secret)).await,
            Some(_) => call(self.api.replace(&self.name, &params, &secret)).await,
        };
        self.version = written?.resource_version();
        Ok(())
    }
}
