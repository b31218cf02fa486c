//! What the fleet has done so far, written down as it happens, and what must never happen.

use std::collections::{BTreeMap, BTreeSet};

use argosy_api::{names, workflow};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{
    api_server::{ApiServer, Kind, is_deleting, text},
    faults::is_foreign,
    runs::parent_of,
    servers::{CLUSTERS, LEASE, LOST_AFTER, annotation, label, selects},
};

/// Origin, attempt and number of a verb.
pub(crate) type VerbKey = (String, u64, u64);

#[derive(Default)]
pub(crate) struct Ledger {
    /// UIDs of the runs that were created, by UID of their Workflow and cluster.
    pub(crate) runs: BTreeMap<(String, String), BTreeSet<String>>,
    /// The run of a Workflow that was started on a cluster.
    started_runs: BTreeMap<(String, String), String>,
    /// Creations on WECs by origin: cluster and attempt.
    pub(crate) starts: BTreeMap<String, Vec<(&'static str, u64)>>,
    /// UIDs of the objects that agents have created.
    pub(crate) created: BTreeSet<String>,
    /// Clusters that have taken the name of another one, and mailboxes that were made anew.
    pub(crate) rebuilt: BTreeSet<&'static str>,
    pub(crate) new_mailboxes: BTreeSet<&'static str>,
    /// Attempts that were started on a cluster that is no more, by origin.
    pub(crate) lost_runs: BTreeSet<(String, u64)>,
    /// Pods on WECs by origin and node.
    pods: BTreeMap<(String, String), usize>,
    /// Nodes that users wanted to run again.
    reset_nodes: BTreeMap<(String, String), usize>,
    /// Retries that were accepted, by origin.
    pub(crate) retries: BTreeMap<String, usize>,
    /// New claims because a cluster was lost, by origin.
    reruns: BTreeMap<String, usize>,
    /// When the Lease of a cluster was renewed last.
    pub(crate) renewed: BTreeMap<&'static str, Timestamp>,
    /// How long that had been ago when the controller last read it.
    pub(crate) read: BTreeMap<String, SignedDuration>,
    /// Verbs that were accepted.
    pub(crate) verbs: BTreeSet<VerbKey>,
    /// Verbs that were carried out, or overtaken, and why.
    pub(crate) done: BTreeMap<VerbKey, String>,
    /// The last state of a run on its cluster: attempt and status.
    pub(crate) last: BTreeMap<String, (u64, Value)>,
    /// Workflows that started on the control cluster.
    pub(crate) local: BTreeSet<String>,
    /// Workflows that nothing has held at some time, so that they could start there.
    pub(crate) free: BTreeSet<String>,
    /// Workflows that have been shown in a final phase.
    pub(crate) ended: BTreeSet<String>,
    /// Origins that a person has tampered with in a WEC or a mailbox.
    pub(crate) tampered: BTreeSet<String>,
    /// The clusters that each Workflow has asked for, by origin.
    asked: BTreeMap<String, BTreeSet<String>>,
    /// A policy was changed at some time.
    pub(crate) had_policy_changed: bool,
    /// A space was put back to what it was; what is known of attempts may be lost.
    pub(crate) was_restored: bool,
    /// Two agents served one cluster at some time.
    pub(crate) had_two_agents: bool,
    /// The versions that were checked last, by origin.
    wds: BTreeMap<String, Value>,
    objects: BTreeMap<String, Value>,
    wds_checked: usize,
    wec_checked: [usize; CLUSTERS.len()],
}

pub(crate) fn attempt(object: &Value) -> u64 {
    annotation(object, names::ATTEMPT_ANNOTATION)
        .parse()
        .unwrap_or_default()
}

/// The attempt that a Workflow of the WDS is claimed for.
pub(crate) fn claimed_attempt(object: &Value) -> u64 {
    noted(object, names::CLAIM_ANNOTATION)["attempt"]
        .as_u64()
        .unwrap_or_default()
}

/// A field of a JSON annotation.
pub(crate) fn noted(object: &Value, key: &str) -> Value {
    serde_json::from_str(annotation(object, key)).unwrap_or_default()
}

pub(crate) fn phase(object: &Value) -> &str {
    text(object, "/status/phase")
}

fn is_held(object: &Value) -> bool {
    label(object, names::ARGO_COMPLETED_LABEL) == "true"
}

fn is_suspended(object: &Value) -> bool {
    object["spec"]["suspend"] == true
}

pub(crate) fn is_claimed(object: &Value) -> bool {
    !label(object, names::CLUSTER_LABEL).is_empty()
}

pub(crate) fn has_finalizer(object: &Value, name: &str) -> bool {
    let finalizers = object["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|list| list.iter().any(|one| one == name))
}

/// Whether a claim was made for this very object: it names its UID, or was there before that, and names it.
pub(crate) fn is_own(claim: &Value, object: &Value) -> bool {
    let named = claim["name"].as_str().unwrap_or_default();
    let is_born = claim["uid"] == "" && (named.is_empty() || claim["name"] == object["metadata"]["name"]);
    is_born || claim["uid"] == object["metadata"]["uid"]
}

/// Claimed, and not a copy of such a one, of which nobody knows.
pub(crate) fn is_ours(object: &Value) -> bool {
    let claim = noted(object, names::CLAIM_ANNOTATION);
    is_claimed(object) && is_own(&claim, object) && has_finalizer(object, names::CONTROLLER_FINALIZER)
}

impl Ledger {
    /// An object is created on a WEC. One attempt starts once; another one only for a retry, because nothing moves that
    /// has started.
    pub(crate) fn note_start(&mut self, object: &Value, wec: usize) {
        let origin = label(object, names::ORIGIN_UID_LABEL);
        self.created.insert(text(object, "/metadata/uid").to_owned());
        let starts = self.starts.entry(origin.to_owned()).or_default();
        let start = (CLUSTERS[wec], attempt(object));
        let name = text(object, "/metadata/name");
        assert!(
            !starts.contains(&start),
            "{name}: an attempt was started twice: {start:?}"
        );
        starts.push(start);
        if let Some(parent) = self.wds.get(origin).and_then(parent_of) {
            let place = (parent, CLUSTERS[wec].to_owned());
            let first = self
                .started_runs
                .entry(place)
                .or_insert_with(|| origin.to_owned());
            assert!(
                self.was_restored || first == origin,
                "{name} is the second run of its Workflow on {}",
                CLUSTERS[wec]
            );
        }
        let is_ambiguous = self
            .asked
            .get(origin)
            .is_some_and(|asked| asked.iter().eq(["any"]));
        assert!(
            !is_ambiguous || self.had_policy_changed,
            "{name} was started although two clusters match"
        );
        let is_selected = self
            .asked
            .get(origin)
            .is_some_and(|asked| asked.iter().any(|asked| selects(asked, CLUSTERS[wec])));
        assert!(
            is_selected || self.had_policy_changed,
            "{name} was started on {}, which no policy selects for it",
            CLUSTERS[wec]
        );
        let retries = self.retries.get(origin).copied().unwrap_or_default();
        let allowed = 1 + retries + self.reruns.get(origin).copied().unwrap_or_default();
        assert!(
            self.was_restored || starts.len() <= allowed,
            "{name} was started more than once: {starts:?}"
        );
        let claimed = self.wds.get(origin).map_or(0, claimed_attempt);
        assert!(
            self.was_restored || start.1 >= claimed,
            "{name} was started in attempt {}, after attempt {claimed} was claimed",
            start.1
        );
        assert!(
            self.free.contains(origin) || !self.local.contains(origin),
            "{name} was started on the control cluster before"
        );
    }

    /// Whether an object of a WEC is the one that an agent created, and no copy of it.
    pub(crate) fn is_run(&self, object: &Value) -> bool {
        self.created.contains(text(object, "/metadata/uid"))
    }

    /// A pod starts on a WEC. Those of copies are their own.
    pub(crate) fn note_pod(&mut self, object: &Value, node: &str) {
        if !self.is_run(object) {
            return;
        }
        let origin = label(object, names::ORIGIN_UID_LABEL);
        let key = (origin.to_owned(), node.to_owned());
        let pods = self.pods.entry(key.clone()).or_default();
        *pods += 1;
        let resets = self.reset_nodes.get(&key).copied().unwrap_or_default();
        let allowed = 1 + resets + self.reruns.get(origin).copied().unwrap_or_default();
        assert!(
            self.was_restored || self.tampered.contains(origin) || *pods <= allowed,
            "{} ran {pods} times: {object:#}",
            key.1
        );
    }

    pub(crate) fn pods(&self, object: &Value, node: &str) -> usize {
        let origin = label(object, names::ORIGIN_UID_LABEL).to_owned();
        let pods = self.pods.get(&(origin, node.to_owned()));
        pods.copied().unwrap_or_default()
    }

    /// A pod starts on the control cluster, which has seen an older version perhaps.
    pub(crate) fn note_local_start(&mut self, uid: &str) {
        let newest = &self.wds[uid];
        assert!(
            self.free.contains(uid)
                || !(is_held(newest) || is_claimed(newest) || self.starts.contains_key(uid)),
            "it was started on the control cluster: {newest:#}"
        );
        self.local.insert(uid.to_owned());
    }

    /// A user's write was accepted; `after` is what it became.
    pub(crate) fn note_verbs(&mut self, before: &Value, after: &Value) {
        let uid = text(after, "/metadata/uid").to_owned();
        let last = |object: &Value| noted(object, names::VERBS_ANNOTATION)["last"].as_u64();
        let number = last(after).unwrap_or_default();
        if number <= last(before).unwrap_or_default() {
            return;
        }
        let attempt = noted(after, names::CLAIM_ANNOTATION)["attempt"].as_u64();
        self.verbs
            .insert((uid.clone(), attempt.unwrap_or_default(), number));
        if workflow::is_final(phase(before)) {
            *self.retries.entry(uid.clone()).or_default() += 1;
            let nodes = before["status"]["nodes"].as_object();
            for (node, _) in nodes.into_iter().flatten() {
                if after["status"]["nodes"].get(node).is_none() {
                    *self.reset_nodes.entry((uid.clone(), node.clone())).or_default() += 1;
                }
            }
        }
    }

    /// Checks every version that a Workflow of the WDS has had since the last check.
    pub(crate) fn read_wds(&mut self, wds: &ApiServer, is_guarded: bool) {
        for event in &wds.log[self.wds_checked..] {
            if event.kind != Kind::Workflow {
                continue;
            }
            let uid = text(&event.object, "/metadata/uid").to_owned();
            let asked = label(&event.object, names::KUBESTELLAR_CLUSTER_LABEL).to_owned();
            self.asked.entry(uid.clone()).or_default().insert(asked);
            let before = self.wds.insert(uid.clone(), event.object.clone());
            self.note_run(&uid, &event.object);
            let is_free =
                !is_claimed(&event.object) && !is_held(&event.object) && !is_suspended(&event.object);
            if is_free
                || (is_claimed(&event.object) && !is_held(&event.object) && !is_suspended(&event.object))
            {
                self.free.insert(uid.clone());
            }
            if workflow::is_final(phase(&event.object)) {
                self.ended.insert(uid.clone());
            }
            if !is_deleting(&event.object) {
                check_hold(&event.object, is_guarded);
                if let Some(before) = before {
                    self.note_rerun(&before, &event.object);
                    let has_runs = self.runs.keys().any(|(parent, _)| *parent == uid);
                    if !self.starts.contains_key(&uid) && !has_runs {
                        check_first_sight(&before, &event.object);
                    }
                }
            }
        }
        self.wds_checked = wds.log.len();
    }

    /// A Workflow is claimed anew because its cluster is lost, which it must be.
    fn note_rerun(&mut self, before: &Value, after: &Value) {
        let lost = noted(after, names::CLAIM_ANNOTATION)["lost"].clone();
        let is_new = claimed_attempt(after) > claimed_attempt(before)
            && noted(before, names::CLAIM_ANNOTATION)["cluster"] == lost;
        if !is_new || lost.is_null() {
            return;
        }
        let age = lost.as_str().and_then(|lost| self.read.get(lost));
        assert!(
            age.is_some_and(|age| *age >= LOST_AFTER + LEASE),
            "{lost} was taken for lost when its Lease was {age:?} old"
        );
        assert!(
            !workflow::is_final(phase(before)),
            "started anew after its end: {before:#}"
        );
        *self
            .reruns
            .entry(text(after, "/metadata/uid").to_owned())
            .or_default() += 1;
    }

    /// Checks every version that an object of a WEC has had since the last check.
    pub(crate) fn read_wec(&mut self, number: usize, wec: &ApiServer) {
        for event in &wec.log[self.wec_checked[number]..] {
            let origin = label(&event.object, names::ORIGIN_UID_LABEL);
            if event.kind != Kind::Workflow {
                continue;
            }
            if is_foreign(&event.object) {
                let untouched = event.is_deletion || event.object["spec"] == json!({});
                assert!(
                    untouched && event.object.get("status").is_none(),
                    "{:#}",
                    event.object
                );
                continue;
            }
            if !self.created.contains(text(&event.object, "/metadata/uid")) {
                continue;
            }
            let attempt = attempt(&event.object);
            // What is left of an earlier attempt on a cluster that was lost says nothing.
            if self.last.get(origin).is_none_or(|(last, _)| *last <= attempt) {
                self.last
                    .insert(origin.to_owned(), (attempt, event.object["status"].clone()));
            }
            let uid = text(&event.object, "/metadata/uid").to_owned();
            let applied = |object: &Value| {
                let applied = noted(object, names::CONTROL_ANNOTATION);
                applied["verb"].as_u64().unwrap_or_default()
            };
            let before = self.objects.insert(uid, event.object.clone());
            let known = before.as_ref().map_or(0, applied);
            let why = noted(&event.object, names::CONTROL_ANNOTATION)["overtaken"].clone();
            for verb in known + 1..=applied(&event.object) {
                let why = why.as_str().unwrap_or_default().to_owned();
                self.done.insert((origin.to_owned(), attempt, verb), why);
            }
            if let Some(before) = before {
                let goes_on = workflow::is_final(phase(&before)) && !workflow::is_final(phase(&event.object));
                assert!(
                    !goes_on || applied(&event.object) == known + 1,
                    "it was retried, and not by one verb: {:#}",
                    event.object
                );
                assert!(
                    applied(&event.object) >= known,
                    "what was carried out was forgotten: {:#}",
                    event.object
                );
                assert_eq!(
                    before["spec"]["entrypoint"], event.object["spec"]["entrypoint"],
                    "it was written over"
                );
            }
        }
        self.wec_checked[number] = wec.log.len();
    }

    /// The WDS was put back: what its objects were before does not count.
    pub(crate) fn forget_versions(&mut self, wds: &ApiServer) {
        self.was_restored = true;
        for object in wds.list(Kind::Workflow) {
            let uid = text(object, "/metadata/uid").to_owned();
            self.wds.insert(uid, object.clone());
        }
    }
}

/// A claimed Workflow is held from its claim on: by the label, or where nothing guards that, by `spec.suspend` while the
/// label is put back. One whose claim was given up is held by `spec.suspend`.
fn check_hold(object: &Value, is_guarded: bool) {
    let claim = noted(object, names::CLAIM_ANNOTATION);
    if is_ours(object) {
        assert!(
            is_held(object) || (!is_guarded && is_suspended(object)),
            "claimed and not held: {object:#}"
        );
        assert_ne!(phase(object), "", "held and without a phase: {object:#}");
        assert!(claim.is_object(), "held and without a claim: {object:#}");
        if is_guarded {
            assert!(
                !has_finalizer(object, names::ARGO_ARTIFACT_GC_FINALIZER),
                "{object:#}"
            );
            assert!(object.pointer("/status/synchronization").is_none(), "{object:#}");
            assert_eq!(annotation(object, names::ARGO_LAST_SEEN_ANNOTATION), "");
        }
    }
}

/// Only what was held at first sight is claimed, and what is given up stays held.
fn check_first_sight(before: &Value, after: &Value) {
    if !is_ours(before) && is_ours(after) {
        let claim = noted(before, names::CLAIM_ANNOTATION);
        let is_born = is_held(before) && (claim["held"] == true || claim["uid"] == "");
        assert!(
            is_born || is_suspended(before),
            "claimed although nothing held it: {before:#}"
        );
        assert!(!workflow::is_final(phase(before)), "{before:#}");
        let has_pods = workflow::has_pod_nodes(before.get("status"));
        assert!(
            is_born || !has_pods,
            "claimed although it had started: {before:#}"
        );
    }
    if is_ours(before) && !is_ours(after) {
        assert!(is_suspended(after), "released and not suspended: {after:#}");
        assert!(
            !workflow::is_final(phase(before)),
            "released after its end: {before:#}"
        );
    }
}
