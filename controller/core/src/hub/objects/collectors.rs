//! StatusCollectors, and the CombinedStatus of each object and policy that names some.
//!
//! The cost of a table is bounded, but building it may take a second, so no decision builds one. An
//! action carries all inputs of the tables ([`Combining`]), and is requested again only if one of
//! the inputs has changed.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use argosy_api::{CombinedStatus, StatusCollector, StatusCollectorStatus, names};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::{
    DownsyncAction, DownsyncKey, ObjectIndex, ObjectView, Place, PolicyView, kind::KindName,
    object_ref::ObjectRef, status::place,
};
use crate::{
    ClusterName, OriginUid,
    hub::objects::collect::{Collector, Row, Subject, combined_status},
    index::{
        decode_error,
        fingerprint::Fingerprint,
        store::versioned,
        weight::{READ, of_tree},
    },
    model::control::transit,
};

versioned!(Entry, Known);

/// A StatusCollector.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) generation: i64,
    compiled: Result<Arc<Collector>, Vec<String>>,
    status: Option<StatusCollectorStatus>,
}

/// A stored CombinedStatus.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) namespace: String,
    /// The object that it describes.
    pub(super) of: Option<(OriginUid, ObjectRef)>,
    says: Fingerprint,
    /// Digest of its inputs, as long as it is stored as it was built from them.
    pub(super) made_of: Option<Fingerprint>,
}

/// All inputs of a CombinedStatus.
#[derive(Clone, Debug)]
pub struct Combining {
    /// The object.
    pub place: Place,
    /// The object's content; `None` if it has yet to be read.
    pub content: Option<Arc<Value>>,
    policy: String,
    policy_uid: String,
    collectors: Vec<Arc<Collector>>,
    rows: Vec<Returned>,
    /// Digest of all inputs.
    pub digest: Fingerprint,
    /// The stored CombinedStatus, if there is one.
    pub known: Option<There>,
}

/// The report of a cluster.
#[derive(Clone, Debug)]
struct Returned {
    cluster: ClusterName,
    status: Option<Arc<Value>>,
    are_nodes_packed: bool,
    at: Option<Timestamp>,
}

impl Returned {
    /// The status with its nodes as Argo wrote them; `None` if they cannot be unpacked.
    fn status(&self) -> Option<Cow<'_, Value>> {
        let status = self.status.as_deref()?;
        if !self.are_nodes_packed {
            return Some(Cow::Borrowed(status));
        }
        let mut status = status.clone();
        transit::unpack(&mut status).ok()?;
        Some(Cow::Owned(status))
    }
}

/// A stored CombinedStatus, as far as a write needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct There {
    /// Its UID.
    pub uid: String,
    /// Its resource version.
    pub resource_version: String,
    /// The digest of its content, see [`says`].
    pub says: Fingerprint,
}

/// The digest of the content of a CombinedStatus.
pub fn says(status: &CombinedStatus) -> Fingerprint {
    let metadata = &status.metadata;
    Fingerprint::of(&json!([status.results, metadata.labels, metadata.annotations]))
}

impl PartialEq for Combining {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest && self.known == other.known
    }
}

impl Combining {
    /// Maximum memory of the inputs in bytes, without those that the index keeps as well.
    pub(super) fn weight(&self) -> usize {
        self.content.as_deref().map_or(READ, of_tree)
    }

    /// The lane in which statuses are unpacked one after the other, because unpacked nodes take up to
    /// 32 MiB. It is no cluster's, so that reads do not hold it up.
    pub(super) fn lane(&self) -> Option<&str> {
        let is_packed = self.rows.iter().any(|row| row.are_nodes_packed);
        is_packed.then_some("unpack nodes")
    }

    /// The CombinedStatus, given the object's content. Takes at most about a second per collector.
    pub fn combine(&self, content: &Value) -> CombinedStatus {
        let Place {
            kind,
            namespace,
            name,
            uid,
        } = &self.place;
        let subject = Subject {
            group: &kind.group,
            version: &kind.version,
            kind: &kind.kind,
            resource: &kind.resource,
            namespace: kind.is_namespaced.then_some(namespace),
            name,
            uid: uid.as_str(),
        };
        let statuses: Vec<_> = self.rows.iter().map(Returned::status).collect();
        let rows: Vec<Row<'_>> = self
            .rows
            .iter()
            .zip(&statuses)
            .map(|(row, status)| Row {
                cluster: &row.cluster,
                status: status.as_deref(),
                last_returned: row.at,
            })
            .collect();
        let results = self.collectors.iter();
        let results = results
            .map(|collector| collector.evaluate(content, &rows))
            .collect();
        combined_status(&subject, &self.policy, &self.policy_uid, results)
    }
}

impl Entry {
    /// Compiles a collector.
    pub(super) fn compile(mut collector: StatusCollector) -> Self {
        let compiled = match decode_error::take(&mut collector.metadata) {
            Some(decode_error) => Err(vec![decode_error]),
            None => Collector::compile(&collector).map(Arc::new),
        };
        Self {
            compiled,
            uid: collector.metadata.uid.unwrap_or_default(),
            resource_version: collector.metadata.resource_version.unwrap_or_default(),
            generation: collector.metadata.generation.unwrap_or_default(),
            status: collector.status,
        }
    }

    /// Takes over the status and the resource version of a newer version of the same generation.
    pub(super) fn told(&mut self, collector: StatusCollector) {
        self.resource_version = collector.metadata.resource_version.unwrap_or_default();
        self.status = collector.status;
    }

    fn wanted_status(&self) -> Option<StatusCollectorStatus> {
        let (errors, warnings) = match &self.compiled {
            Ok(collector) => (Vec::new(), collector.warnings().to_vec()),
            Err(errors) => (errors.clone(), Vec::new()),
        };
        let wanted = StatusCollectorStatus {
            observed_generation: self.generation,
            errors,
            warnings,
        };
        (self.status.as_ref() != Some(&wanted)).then_some(wanted)
    }
}

impl Known {
    /// The view of an object. The digest of its inputs stays if the resource version is the same as
    /// before.
    pub(super) fn new(status: &CombinedStatus, before: Option<&Self>) -> Self {
        let metadata = &status.metadata;
        let resource_version = metadata.resource_version.clone().unwrap_or_default();
        let made_of = before
            .filter(|before| before.resource_version == resource_version)
            .and_then(|before| before.made_of);
        Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            namespace: metadata.namespace.clone().unwrap_or_default(),
            of: subject(metadata),
            says: says(status),
            resource_version,
            made_of,
        }
    }
}

/// The object that a CombinedStatus describes. Its UID is part of the name. The rest is in labels,
/// or in annotations if a value is too long for a label.
fn subject(metadata: &ObjectMeta) -> Option<(OriginUid, ObjectRef)> {
    let (origin, _) = metadata.name.as_deref()?.split_once('.')?;
    let text = |key: &str| {
        let annotations = metadata.annotations.as_ref();
        let labels = metadata.labels.as_ref();
        let whole = annotations.and_then(|annotations| annotations.get(key));
        whole
            .or_else(|| labels.and_then(|labels| labels.get(key)))
            .map(String::as_str)
    };
    let spot = ObjectRef {
        kind: KindName::new(
            text(names::COMBINED_GROUP_LABEL)?,
            text(names::COMBINED_RESOURCE_LABEL)?,
        ),
        namespace: text(names::COMBINED_NAMESPACE_LABEL)?.to_owned(),
        name: text(names::COMBINED_NAME_LABEL)?.to_owned(),
    };
    Some((origin.into(), spot))
}

/// The key of a CombinedStatus. As in KubeStellar, its name consists of the UIDs of the object and
/// of the policy.
pub(super) fn combined_key(name: &str) -> Option<DownsyncKey> {
    let (origin, policy) = name.split_once('.')?;
    Some(DownsyncKey::Combined(origin.into(), policy.to_owned()))
}

impl ObjectIndex {
    pub(super) fn decide_collector(&self, name: &str) -> Option<DownsyncAction> {
        let status = self.collectors.get(name)?.wanted_status()?;
        Some(DownsyncAction::CollectorStatus {
            name: name.to_owned(),
            status,
        })
    }

    pub(super) fn decide_combined(&self, origin: &OriginUid, policy_uid: &str) -> Option<DownsyncAction> {
        let name = combined_name(origin, policy_uid);
        let known = self.combined.get(&name);
        let object = self.objects.get(origin);
        if let Some(read) = object.and_then(|object| self.read_report(origin, object)) {
            return Some(read);
        }
        let wanted = self.combining(origin, policy_uid, known);
        match (wanted, known) {
            (Some(wanted), Some(known)) if known.made_of == Some(wanted.digest) => None,
            (Some(wanted), _) => Some(DownsyncAction::Combine(Box::new(wanted))),
            (None, Some(known)) if self.is_surely_unwanted(origin) => Some(DownsyncAction::DeleteCombined {
                namespace: known.namespace.clone(),
                name,
                uid: known.uid.clone(),
            }),
            (None, _) => None,
        }
    }

    /// True if the object is known, so that it is certain to need no CombinedStatus. An object that
    /// is not known yet looks like one that is gone, and the garbage collector deletes the
    /// CombinedStatuses of objects that are gone.
    fn is_surely_unwanted(&self, origin: &OriginUid) -> bool {
        self.objects.contains_key(origin)
    }

    fn combining(&self, origin: &OriginUid, policy_uid: &str, known: Option<&Known>) -> Option<Combining> {
        let object = self.objects.get(origin)?;
        let (name, policy) = self
            .policies
            .iter()
            .find(|(_, policy)| policy.uid() == policy_uid)?;
        let wanted = &object.selection.get(name)?.collectors;
        let collectors: Vec<Arc<Collector>> = wanted
            .iter()
            .filter_map(|name| self.collectors.get(name)?.compiled.as_ref().ok().cloned())
            .collect();
        if collectors.is_empty() || (object.content.is_none() && !object.kind.is_run()) {
            return None;
        }
        let rows = self.rows(origin, object, policy);
        let versions: Vec<Value> = wanted
            .iter()
            .filter_map(|name| self.collectors.get(name))
            .map(|entry| json!([entry.uid, entry.generation]))
            .collect();
        let content = if object.kind.is_run() {
            json!(object.resource_version)
        } else {
            json!(object.digest.map(|digest| digest.to_string()))
        };
        let reports: Vec<Value> = rows
            .iter()
            .map(|row| {
                let status = row.status.as_deref();
                let status = status.map(|status| Fingerprint::of(status).to_string());
                json!([row.cluster.as_str(), status, row.are_nodes_packed, row.at])
            })
            .collect();
        Some(Combining {
            place: place(origin, object),
            content: object.content.as_ref().map(|content| Arc::new(content.value())),
            policy: name.clone(),
            policy_uid: policy_uid.to_owned(),
            collectors,
            rows,
            digest: Fingerprint::of(&json!([content, versions, reports])),
            known: known.map(|known| There {
                uid: known.uid.clone(),
                resource_version: known.resource_version.clone(),
                says: known.says,
            }),
        })
    }

    /// One row for each cluster that the policy sends the object to. A Workflow has only the row of
    /// the cluster that runs it.
    fn rows(&self, origin: &OriginUid, object: &ObjectView, policy: &PolicyView) -> Vec<Returned> {
        let is_run = object.kind.is_run();
        let clusters: BTreeSet<ClusterName> = if is_run {
            let claimed = object.labels.get(names::CLUSTER_LABEL);
            claimed.map(Into::into).into_iter().collect()
        } else {
            policy.clusters.clone()
        };
        let reports = self.reports.get(origin);
        let row = |cluster: ClusterName| {
            let report = reports.and_then(|reports| reports.get(&cluster));
            Returned {
                status: report.and_then(|report| report.status.clone()),
                // Only Workflows have nodes.
                are_nodes_packed: is_run && report.is_some_and(|report| report.are_nodes_packed),
                at: report.and_then(|report| report.changed_at),
                cluster,
            }
        };
        clusters.into_iter().map(row).collect()
    }

    /// The keys of the CombinedStatuses that an object is to have.
    pub(super) fn combined_of(&self, origin: &OriginUid) -> BTreeSet<DownsyncKey> {
        let object = self.objects.get(origin);
        let selection = object.into_iter().flat_map(|object| object.selection.iter());
        selection
            .filter(|(_, wanted)| !wanted.collectors.is_empty())
            .filter_map(|(name, _)| self.policies.get(name))
            .map(|policy| DownsyncKey::Combined(origin.clone(), policy.uid().to_owned()))
            .collect()
    }

    /// The keys of the CombinedStatuses that exist for an object, wanted or not.
    pub(super) fn combined_known(&self, origin: &OriginUid) -> BTreeSet<DownsyncKey> {
        let first = format!("{origin}.");
        let known = self.combined.range(first.clone()..);
        known
            .take_while(|(name, _)| name.starts_with(&first))
            .filter_map(|(name, _)| combined_key(name))
            .collect()
    }

    /// The StatusCollectors that a policy names and that are missing or unusable; `None` if it
    /// names none.
    pub(super) fn missing_collectors(&self, policy: &PolicyView) -> Option<BTreeSet<String>> {
        let named: BTreeSet<&String> = policy.rules().collectors().collect();
        let is_missing = |name: &&&String| {
            self.collectors
                .get(**name)
                .is_none_or(|entry| entry.compiled.is_err())
        };
        (!named.is_empty()).then(|| {
            named
                .iter()
                .filter(is_missing)
                .map(|name| (*name).clone())
                .collect()
        })
    }

    /// True if any policy may need the reports of Workflows.
    pub(super) fn collects_of_runs(&self) -> bool {
        let mut policies = self.policies.values();
        policies.any(|policy| policy.rules().collects_of_runs())
    }
}

/// The name of the CombinedStatus of an object and a policy.
pub(super) fn combined_name(origin: &OriginUid, policy_uid: &str) -> String {
    format!("{origin}.{policy_uid}")
}

/// All CombinedStatuses by name.
pub(super) type AllCombined = BTreeMap<String, Known>;
