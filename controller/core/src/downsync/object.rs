//! An object of the WDS as decisions see it.

use std::{collections::BTreeMap, sync::Arc};

use kube::core::DynamicObject;
use serde_json::{Map, Value, json};

use super::kind::Kind;
use crate::{
    digest::Digest,
    placement::{Labels, Modulation},
    properties::is_templated,
};

/// An object of the WDS.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) kind: Arc<Kind>,
    /// Empty where it has none.
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) resource_version: String,
    pub(super) labels: Labels,
    /// What is sent is made of it. Kept only while a policy selects the object: there may be many others.
    pub(super) content: Option<Arc<Value>>,
    /// Of the content as far as it can be sent.
    pub(super) digest: Digest,
    /// Of its status; `None` where it has none or an empty one.
    pub(super) status: Option<Digest>,
    pub(super) is_templated: bool,
    /// What the policies that select it want, by policy.
    pub(super) selection: BTreeMap<String, Modulation>,
    /// The status that we last wrote and what the API server made of it. Such a difference is not written again.
    pub(super) wrote: Option<(Digest, Option<Digest>)>,
    pub(super) presence: Presence,
}

/// What is known of whether an object is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// Its watch tells of it.
    There,
    /// A request found that it is not there. Only its watch says that it is gone.
    Missing,
    /// Its watch no longer tells of it, whether it was deleted or only deselected, and something of ours may still be on it.
    Leaving,
    /// The same, and it was read since: it is there.
    Left,
}

impl Presence {
    /// Whether no watch tells of it.
    pub(super) fn is_unwatched(self) -> bool {
        matches!(self, Self::Leaving | Self::Left)
    }
}

impl Object {
    /// The view of an object, before anything is known of who selects it.
    pub(super) fn new(kind: &Arc<Kind>, object: DynamicObject) -> Self {
        let metadata = object.metadata;
        let mut content = Map::new();
        content.insert("apiVersion".to_owned(), json!(kind.api_version()));
        content.insert("kind".to_owned(), json!(kind.kind));
        let mut sent = metadata.clone();
        // What changes with every write is no part of what is sent.
        sent.managed_fields = None;
        sent.resource_version = None;
        sent.generation = None;
        content.insert("metadata".to_owned(), json!(sent));
        let mut status = None;
        if let Value::Object(fields) = object.data {
            for (field, value) in fields {
                if field == "status" {
                    status = digest_of_status(Some(&value));
                } else {
                    content.insert(field, value);
                }
            }
        }
        let content = Value::Object(content);
        Self {
            kind: Arc::clone(kind),
            namespace: metadata.namespace.as_deref().unwrap_or_default().into(),
            name: metadata.name.as_deref().unwrap_or_default().into(),
            is_templated: is_templated(metadata.annotations.as_ref()),
            resource_version: metadata.resource_version.unwrap_or_default(),
            labels: metadata.labels.unwrap_or_default(),
            digest: Digest::of(&content),
            content: Some(Arc::new(content)),
            status,
            selection: BTreeMap::new(),
            wrote: None,
            presence: Presence::There,
        }
    }

    /// What all policies together want.
    pub(super) fn wanted(&self) -> Modulation {
        let mut wanted = Modulation::default();
        for of_policy in self.selection.values() {
            wanted.add(of_policy);
        }
        wanted
    }

    /// `deployments.apps team/web`.
    pub(super) fn title(&self) -> String {
        let kind = self.kind.name();
        if self.namespace.is_empty() {
            format!("{kind} {}", self.name)
        } else {
            format!("{kind} {}/{}", self.namespace, self.name)
        }
    }
}

/// The digest of a status, where there is anything in it.
pub(super) fn digest_of_status(status: Option<&Value>) -> Option<Digest> {
    let is_empty = |status: &Value| status.is_null() || status.as_object().is_some_and(Map::is_empty);
    status.filter(|status| !is_empty(status)).map(Digest::of)
}
