//! StatusCollectors, and the CombinedStatus of each object and policy that names some.
//!
//! What a table costs to make is bounded, but may be a second, so that is no part of a decision: an action carries everything that
//! a table is made of ([`Combining`]), and is asked for anew only when some of that has changed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use argosy_api::{CombinedStatus, StatusCollector, StatusCollectorStatus, names};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::{
    Downsync, DownsyncAction, DownsyncKey, Object, Place, Policy, events::unseen::Spot, kind::KindName,
    upsync::place,
};
use crate::{
    ClusterName, OriginUid,
    collect::{Collector, Row, Subject, combined_status},
    digest::Digest,
    flaw,
};

/// A StatusCollector.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) generation: i64,
    compiled: Result<Arc<Collector>, Vec<String>>,
    status: Option<StatusCollectorStatus>,
}

/// A CombinedStatus as it is.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) namespace: String,
    /// The object that it is of.
    pub(super) of: Option<(OriginUid, Spot)>,
    says: Digest,
    /// Of what it was made, as long as it is as it was made then.
    pub(super) made_of: Option<Digest>,
}

/// Everything that a CombinedStatus is made of.
#[derive(Clone, Debug)]
pub struct Combining {
    /// The object.
    pub place: Place,
    /// The object's content; `None` where it is to be read first.
    pub content: Option<Arc<Value>>,
    policy: String,
    policy_uid: String,
    collectors: Vec<Arc<Collector>>,
    rows: Vec<(ClusterName, Option<Arc<Value>>, Option<Timestamp>)>,
    /// Of all this.
    pub digest: Digest,
    /// What is there.
    pub known: Option<There>,
}

/// A CombinedStatus that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct There {
    /// Its UID.
    pub uid: String,
    /// Its version.
    pub resource_version: String,
    /// The digest of what it says, see [`says`].
    pub says: Digest,
}

/// The digest of what a CombinedStatus says.
pub fn says(status: &CombinedStatus) -> Digest {
    let metadata = &status.metadata;
    Digest::of(&json!([status.results, metadata.labels, metadata.annotations]))
}

impl PartialEq for Combining {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest && self.known == other.known
    }
}

impl Combining {
    /// The CombinedStatus, given the object's content. Takes at most about a second for each collector.
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
        let rows: Vec<Row<'_>> = self
            .rows
            .iter()
            .map(|(cluster, status, last_returned)| Row {
                cluster,
                status: status.as_deref(),
                last_returned: *last_returned,
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
        let compiled = match flaw::take(&mut collector.metadata) {
            Some(flaw) => Err(vec![flaw]),
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

    /// The same with the status of a newer version, which is all that has changed.
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
    /// The view of an object. It is still made of the same if that is the version in which it was.
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

/// The object that a CombinedStatus is of: the UID stands in its name, the rest in its labels, or where that is too long for a
/// label, in annotations.
fn subject(metadata: &ObjectMeta) -> Option<(OriginUid, Spot)> {
    let (origin, _) = metadata.name.as_deref()?.split_once('.')?;
    let text = |key: &str| {
        let annotations = metadata.annotations.as_ref();
        let labels = metadata.labels.as_ref();
        let whole = annotations.and_then(|annotations| annotations.get(key));
        whole
            .or_else(|| labels.and_then(|labels| labels.get(key)))
            .map(String::as_str)
    };
    let spot = Spot {
        kind: KindName::new(
            text(names::COMBINED_GROUP_LABEL)?,
            text(names::COMBINED_RESOURCE_LABEL)?,
        ),
        namespace: text(names::COMBINED_NAMESPACE_LABEL)?.to_owned(),
        name: text(names::COMBINED_NAME_LABEL)?.to_owned(),
    };
    Some((origin.into(), spot))
}

/// The object and the policy that a CombinedStatus is of: KubeStellar makes its name of their UIDs.
pub(super) fn combined_key(name: &str) -> Option<DownsyncKey> {
    let (origin, policy) = name.split_once('.')?;
    Some(DownsyncKey::Combined(origin.into(), policy.to_owned()))
}

impl Downsync {
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

    /// Whether an object, which is to have no CombinedStatus, is known. What is not known yet looks like what is gone, and of what
    /// is gone the garbage collector takes it away.
    fn is_surely_unwanted(&self, origin: &OriginUid) -> bool {
        self.objects.contains_key(origin)
    }

    fn combining(&self, origin: &OriginUid, policy_uid: &str, known: Option<&Known>) -> Option<Combining> {
        let object = self.objects.get(origin)?;
        let (name, policy) = self
            .policies
            .iter()
            .find(|(_, policy)| policy.uid == policy_uid)?;
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
            .map(|(cluster, status, at)| {
                let status = status.as_deref().map(|status| Digest::of(status).to_string());
                json!([cluster.as_str(), status, at])
            })
            .collect();
        Some(Combining {
            place: place(origin, object),
            content: object.content.clone(),
            policy: name.clone(),
            policy_uid: policy_uid.to_owned(),
            collectors,
            rows,
            digest: Digest::of(&json!([content, versions, reports])),
            known: known.map(|known| There {
                uid: known.uid.clone(),
                resource_version: known.resource_version.clone(),
                says: known.says,
            }),
        })
    }

    /// One row for each cluster that the policy sends the object to; of a Workflow, for the one that runs it.
    fn rows(
        &self,
        origin: &OriginUid,
        object: &Object,
        policy: &Policy,
    ) -> Vec<(ClusterName, Option<Arc<Value>>, Option<Timestamp>)> {
        let clusters: BTreeSet<ClusterName> = if object.kind.is_run() {
            let claimed = object.labels.get(names::CLUSTER_LABEL);
            claimed.map(Into::into).into_iter().collect()
        } else {
            policy.clusters.clone()
        };
        let reports = self.reports.get(origin);
        let row = |cluster: ClusterName| {
            let report = reports.and_then(|reports| reports.get(&cluster));
            let (status, at) =
                report.map_or((None, None), |report| (report.status.clone(), report.changed_at));
            (cluster, status, at)
        };
        clusters.into_iter().map(row).collect()
    }

    /// The CombinedStatuses of an object.
    pub(super) fn combined_of(&self, origin: &OriginUid) -> BTreeSet<DownsyncKey> {
        let object = self.objects.get(origin);
        let selection = object.into_iter().flat_map(|object| object.selection.iter());
        selection
            .filter(|(_, wanted)| !wanted.collectors.is_empty())
            .filter_map(|(name, _)| self.policies.get(name))
            .map(|policy| DownsyncKey::Combined(origin.clone(), policy.uid.clone()))
            .collect()
    }

    /// Those that are there of an object, wanted or not.
    pub(super) fn combined_known(&self, origin: &OriginUid) -> BTreeSet<DownsyncKey> {
        let first = format!("{origin}.");
        let known = self.combined.range(first.clone()..);
        known
            .take_while(|(name, _)| name.starts_with(&first))
            .filter_map(|(name, _)| combined_key(name))
            .collect()
    }

    /// The StatusCollectors that a policy names and that cannot be used or are not there.
    pub(super) fn missing_collectors(&self, policy: &Policy) -> Option<BTreeSet<String>> {
        let named: BTreeSet<&String> = policy.rules.collectors().collect();
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

    /// Whether any policy may want the reports of Workflows.
    pub(super) fn collects_of_runs(&self) -> bool {
        let mut policies = self.policies.values();
        policies.any(|policy| policy.rules.collects_of_runs())
    }
}

/// The name of the CombinedStatus of an object and a policy.
pub(super) fn combined_name(origin: &OriginUid, policy_uid: &str) -> String {
    format!("{origin}.{policy_uid}")
}

/// All CombinedStatuses by name.
pub(super) type AllCombined = BTreeMap<String, Known>;
