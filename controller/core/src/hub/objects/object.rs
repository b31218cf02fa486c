//! An object of the WDS, as decisions see it.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use serde_json::{Map, Value, json};

use super::{DownsyncKey, kind::Kind};
use crate::{
    hub::properties::is_templated,
    index::{compact_json::CompactJson, compact_map::CompactMap, decode_error, fingerprint::Fingerprint},
    model::cron,
    policy::Modulation,
};

/// An object of the WDS.
#[derive(Debug)]
pub(super) struct ObjectView {
    pub(super) kind: Arc<Kind>,
    /// Empty if the object has none.
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) resource_version: String,
    pub(super) labels: CompactMap,
    /// The content from which ManifestWorks are made. It is kept only while a policy selects the
    /// object, because there may be many others.
    pub(super) content: Option<CompactJson>,
    /// Digest of the content as far as it can be sent; `None` while it does not matter.
    pub(super) digest: Option<Fingerprint>,
    /// Digest of the status; `None` if the object has no status or an empty one.
    pub(super) status: Option<Fingerprint>,
    pub(super) is_templated: bool,
    /// A CronWorkflow that fires on the control cluster, so it is not sent.
    pub(super) fires_here: bool,
    /// A Secret with a token of a ServiceAccount of the control cluster.
    pub(super) is_token: bool,
    /// The reason why the object cannot be sent, if there is one: a part of it could not be read,
    /// or is nested too deeply.
    pub(super) decode_error: Option<Box<str>>,
    pub(super) selection: Arc<Selection>,
    /// Digests of the last status that was written, and of the status that the API server stored
    /// for it. Such a difference is not written again.
    pub(super) wrote: Option<(Fingerprint, Option<Fingerprint>)>,
    pub(super) presence: Presence,
}

/// The wishes of the policies that select an object, by policy.
pub(super) type Selection = BTreeMap<String, Modulation>;

/// Knowledge about the existence of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// The object's watch reports it.
    There,
    /// A request found that the object does not exist. Only its watch decides that it is gone.
    Missing,
    /// The object's watch no longer reports it, because it was deleted or only deselected. A
    /// status, a label or a CombinedStatus of Argosy may be left.
    Leaving,
    /// Like `Leaving`, but the object has been read since, and exists.
    Left,
}

impl Presence {
    /// True if no watch reports the object.
    pub(super) fn is_unwatched(self) -> bool {
        matches!(self, Self::Leaving | Self::Left)
    }
}

impl ObjectView {
    /// The view of an object before the policies that select it are known, and the fields of it
    /// that could be sent.
    pub(super) fn new(kind: &Arc<Kind>, object: DynamicObject) -> (Self, Fields) {
        let DynamicObject {
            mut metadata,
            mut data,
            ..
        } = object;
        let decode_error = decode_error::take(&mut metadata).map(Into::into);
        let status = data.as_object_mut().and_then(|fields| fields.remove("status"));
        let view = Self {
            kind: Arc::clone(kind),
            namespace: metadata.namespace.as_deref().unwrap_or_default().into(),
            name: metadata.name.as_deref().unwrap_or_default().into(),
            is_templated: is_templated(metadata.annotations.as_ref()),
            fires_here: kind.is_cron() && cron::fires(&data),
            is_token: data
                .get("type")
                .is_some_and(|type_| type_ == "kubernetes.io/service-account-token"),
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
            labels: metadata.labels.as_ref().into_iter().flatten().collect(),
            digest: None,
            content: None,
            decode_error,
            status: digest_of_status(status.as_ref()),
            selection: Arc::default(),
            wrote: None,
            presence: Presence::There,
        };
        (view, Fields { metadata, data })
    }

    /// Keeps the content if a policy selects the object or, with `is_used`, a run needs it. The content of a Workflow is read when it
    /// is needed; only its digest is kept, because StatusCollectors depend on it.
    pub(super) fn keep(&mut self, fields: Fields, is_used: bool) {
        let is_run = self.kind.is_run();
        if (self.selection.is_empty() && !is_used) || (is_run && self.wanted().collectors.is_empty()) {
            return;
        }
        let content = fields.into_content(&self.kind);
        if !is_run && self.decode_error.is_none() {
            self.decode_error = decode_error::too_deep("it", &content, 0).map(Into::into);
        }
        if self.decode_error.is_some() {
            return;
        }
        self.digest = Some(Fingerprint::of(&content));
        self.content = (!is_run).then(|| CompactJson::new(&content));
    }

    /// True if the object is sent to the clusters of its policies.
    pub(super) fn travels(&self) -> bool {
        !self.kind.is_run() && !self.fires_here
    }

    /// The keys of the policies that select the object.
    pub(super) fn policy_keys(&self) -> impl Iterator<Item = DownsyncKey> {
        self.selection
            .keys()
            .flat_map(|name| DownsyncKey::of_policy(name))
    }

    /// The wishes of all policies together.
    pub(super) fn wanted(&self) -> Modulation {
        let mut wanted = Modulation::default();
        for of_policy in self.selection.values() {
            wanted.add(of_policy);
        }
        wanted
    }

    /// A title such as `deployments.apps team/web`.
    pub(super) fn title(&self) -> String {
        let kind = self.kind.name();
        if self.namespace.is_empty() {
            format!("{kind} {}", self.name)
        } else {
            format!("{kind} {}/{}", self.namespace, self.name)
        }
    }
}

/// The fields of an object that could be sent.
pub(super) struct Fields {
    metadata: ObjectMeta,
    data: Value,
}

impl Fields {
    fn into_content(self, kind: &Kind) -> Value {
        let mut metadata = self.metadata;
        // Fields that change with every write are not sent.
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

/// The digest of a status; `None` if the status is empty.
pub(super) fn digest_of_status(status: Option<&Value>) -> Option<Fingerprint> {
    let is_empty = |status: &Value| status.is_null() || status.as_object().is_some_and(Map::is_empty);
    status.filter(|status| !is_empty(status)).map(Fingerprint::of)
}
