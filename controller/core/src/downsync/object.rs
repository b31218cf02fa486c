//! An object of the WDS as decisions see it.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use serde_json::{Map, Value, json};

use super::{DownsyncKey, kind::Kind};
use crate::{digest::Digest, flaw, pairs::Pairs, placement::Modulation, properties::is_templated};

/// An object of the WDS.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) kind: Arc<Kind>,
    /// Empty where it has none.
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) resource_version: String,
    pub(super) labels: Pairs,
    /// What is sent is made of it. Kept only while a policy selects the object: there may be many others.
    pub(super) content: Option<Arc<Value>>,
    /// Of the content as far as it can be sent, while it matters.
    pub(super) digest: Option<Digest>,
    /// Of its status; `None` where it has none or an empty one.
    pub(super) status: Option<Digest>,
    pub(super) is_templated: bool,
    /// Why it cannot be sent, if it cannot: a part of it could not be read, or is too deep to travel.
    pub(super) flaw: Option<Box<str>>,
    pub(super) selection: Arc<Selection>,
    /// The status that we last wrote and what the API server made of it. Such a difference is not written again.
    pub(super) wrote: Option<(Digest, Option<Digest>)>,
    pub(super) presence: Presence,
}

/// What the policies that select an object want of it, by policy.
pub(super) type Selection = BTreeMap<String, Modulation>;

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
    /// The view of an object, before anything is known of who selects it, and what of it could be sent.
    pub(super) fn new(kind: &Arc<Kind>, object: DynamicObject) -> (Self, Fields) {
        let DynamicObject {
            mut metadata,
            mut data,
            ..
        } = object;
        let flaw = flaw::take(&mut metadata).map(Into::into);
        let status = data.as_object_mut().and_then(|fields| fields.remove("status"));
        let view = Self {
            kind: Arc::clone(kind),
            namespace: metadata.namespace.as_deref().unwrap_or_default().into(),
            name: metadata.name.as_deref().unwrap_or_default().into(),
            is_templated: is_templated(metadata.annotations.as_ref()),
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
            labels: metadata.labels.as_ref().into_iter().flatten().collect(),
            digest: None,
            content: None,
            flaw,
            status: digest_of_status(status.as_ref()),
            selection: Arc::default(),
            wrote: None,
            presence: Presence::There,
        };
        (view, Fields { metadata, data })
    }

    /// Keeps the content if any policy selects the object. A Workflow is read when it is needed; whether it has changed matters to
    /// StatusCollectors only.
    pub(super) fn keep(&mut self, fields: Fields) {
        let is_run = self.kind.is_run();
        if self.selection.is_empty() || (is_run && self.wanted().collectors.is_empty()) {
            return;
        }
        let content = fields.into_content(&self.kind);
        if !is_run && self.flaw.is_none() {
            self.flaw = flaw::too_deep("it", &content, 0).map(Into::into);
        }
        if self.flaw.is_some() {
            return;
        }
        self.digest = Some(Digest::of(&content));
        self.content = (!is_run).then(|| Arc::new(content));
    }

    /// What the policies that select it say.
    pub(super) fn policy_keys(&self) -> impl Iterator<Item = DownsyncKey> {
        self.selection
            .keys()
            .flat_map(|name| DownsyncKey::of_policy(name))
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

/// What of an object could be sent.
pub(super) struct Fields {
    metadata: ObjectMeta,
    data: Value,
}

impl Fields {
    fn into_content(self, kind: &Kind) -> Value {
        let mut metadata = self.metadata;
        // What changes with every write is no part of what is sent.
        metadata.managed_fields = None;
        metadata.resource_version = None;
        metadata.generation = None;
        let mut content = match self.data {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        content.insert("apiVersion".to_owned(), json!(kind.api_version()));
        content.insert("kind".to_owned(), json!(kind.kind));
        content.insert("metadata".to_owned(), json!(metadata));
        Value::Object(content)
    }
}

/// The digest of a status, where there is anything in it.
pub(super) fn digest_of_status(status: Option<&Value>) -> Option<Digest> {
    let is_empty = |status: &Value| status.is_null() || status.as_object().is_some_and(Map::is_empty);
    status.filter(|status| !is_empty(status)).map(Digest::of)
}
