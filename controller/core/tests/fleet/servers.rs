//! The API servers of the fleet, and what must never happen on them.

use std::collections::{BTreeMap, BTreeSet};

use argosy_api::{names, workflow};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api_server::{ApiServer, Kind, is_deleting, text};

pub(crate) const CLUSTERS: [&str; 2] = ["cluster1", "cluster2"];

pub(crate) struct Servers {
    /// WDS and ITS.
    pub(crate) control: ApiServer,
    pub(crate) wecs: Vec<ApiServer>,
    pub(crate) now: Timestamp,
    /// Creations on WECs by origin: cluster and attempt.
    pub(crate) starts: BTreeMap<String, Vec<(&'static str, String)>>,
    /// Origins that a person has tampered with in a WEC or a mailbox.
    pub(crate) tampered: BTreeSet<String>,
    checked: usize,
}

pub(crate) fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"]["labels"]
        .get(key)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"]["annotations"]
        .get(key)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

impl Servers {
    pub(crate) fn new() -> Self {
        let mut control = ApiServer::new("control");
        for name in CLUSTERS {
            let cluster = json!({ "metadata": { "name": name, "labels": { "name": name } }, "spec": {} });
            let lease = json!({
                "metadata": { "namespace": name, "name": names::CLUSTER_LEASE },
                "spec": { "renewTime": "2026-11-21T10:00:00.000000Z", "leaseDurationSeconds": 30 },
            });
            control.create(Kind::Cluster, cluster).expect("is new");
            control.create(Kind::Lease, lease).expect("is new");
        }
        for (policy, clusters) in [
            ("cluster1", json!({ "name": "cluster1" })),
            ("cluster2", json!({ "name": "cluster2" })),
            ("any", json!({})),
        ] {
            let policy = json!({
                "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy", "metadata": { "name": policy },
                "spec": {
                    "clusterSelectors": [{ "matchLabels": clusters }],
                    "downsync": [{
                        "apiGroup": "argoproj.io", "resources": ["workflows"], "wantSingletonReportedState": true,
                        "objectSelectors": [{ "matchLabels": { names::KUBESTELLAR_CLUSTER_LABEL: policy } }],
                    }],
                },
            });
            control.create(Kind::Policy, policy).expect("is new");
        }
        let wecs = CLUSTERS.iter().map(|name| ApiServer::new(name)).collect();
        let now = "2026-11-21T10:00:00Z".parse().expect("is a time");
        Self {
            control,
            wecs,
            now,
            starts: BTreeMap::new(),
            tampered: BTreeSet::new(),
            checked: 0,
        }
    }

    /// An object is created on a WEC: the first and only time for its origin, because nothing moves that has started.
    pub(crate) fn note_start(&mut self, object: &Value, wec: usize) {
        let starts = self
            .starts
            .entry(label(object, names::ORIGIN_UID_LABEL).to_owned())
            .or_default();
        starts.push((
            CLUSTERS[wec],
            annotation(object, names::ATTEMPT_ANNOTATION).to_owned(),
        ));
        assert_eq!(
            starts.len(),
            1,
            "{} was started more than once: {starts:?}",
            text(object, "/metadata/name")
        );
    }

    /// Checks every version that a Workflow of the WDS has had since the last check.
    pub(crate) fn check_holds(&mut self) {
        for event in &self.control.log[self.checked..] {
            if event.kind == Kind::Workflow && !is_deleting(&event.object) {
                check_hold(&event.object);
            }
        }
        self.checked = self.control.log.len();
    }
}

/// A claimed Workflow is held by the label from its claim on; one whose claim was given up by `spec.suspend`.
fn check_hold(object: &Value) {
    let claim = annotation(object, names::CLAIM_ANNOTATION);
    let is_claimed = !label(object, names::CLUSTER_LABEL).is_empty();
    if is_claimed {
        assert_eq!(
            label(object, names::ARGO_COMPLETED_LABEL),
            "true",
            "claimed and not held: {object:#}"
        );
        assert_ne!(
            text(object, "/status/phase"),
            "",
            "held and without a phase: {object:#}"
        );
        assert!(!claim.is_empty(), "held and without a claim: {object:#}");
    } else if !claim.is_empty() {
        assert_eq!(
            object["spec"]["suspend"], true,
            "released and not suspended: {object:#}"
        );
        assert!(
            !workflow::is_final(text(object, "/status/phase")),
            "released after its end: {object:#}"
        );
    }
}
