//! A record of everything that the fleet has done so far, and checks of what must never happen.

use std::collections::{BTreeMap, BTreeSet};

use argosy_api::{names, workflow};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{
    api_server::{ApiServer, Kind, is_deleting, text},
    faults::is_foreign,
    lies::LIAR,
    runs::parent_of,
    servers::{CLUSTERS, LEASE, LOST_AFTER, annotation, label, selects},
};

/// Origin, attempt and number of a verb.
pub(crate) type VerbKey = (String, u64, u64);

#[derive(Default)]
pub(crate) struct Ledger {
    /// UIDs of the created runs, by UID of their Workflow and cluster.
    pub(crate) runs: BTreeMap<(String, String), BTreeSet<String>>,
    /// The run of a Workflow that was started on a cluster.
    started_runs: BTreeMap<(String, String), String>,
    /// Creations on WECs by origin: cluster and attempt.
    pub(crate) starts: BTreeMap<String, Vec<(&'static str, u64)>>,
    /// UIDs of the objects that agents have created.
    pub(crate) created: BTreeSet<String>,
    /// Clusters that were replaced by another one of the same name, and mailboxes that were created
    /// anew.
    pub(crate) rebuilt: BTreeSet<&'static str>,
    pub(crate) new_mailboxes: BTreeSet<&'static str>,
    /// Attempts that were started on a cluster that does not exist any more, by origin.
    pub(crate) lost_runs: BTreeSet<(String, u64)>,
    /// Attempts that some version of their Workflow has marked as started, by origin.
    pub(crate) noted_starts: BTreeSet<(String, u64)>,
    /// Ends that runs have had, or that a member has reported, by origin: attempt and phase.
    pub(crate) ends: BTreeMap<String, BTreeSet<(u64, String)>>,
    /// Pods on WECs by origin and node.
    pods: BTreeMap<(String, String), usize>,
    /// Nodes that users wanted to run again.
    reset_nodes: BTreeMap<(String, String), usize>,
    /// Retries that were accepted, by origin.
    pub(crate) retries: BTreeMap<String, usize>,
    /// New claims because a cluster was lost, by origin.
    reruns: BTreeMap<String, usize>,
    /// The last renewal of each cluster's Lease.
    pub(crate) renewed: BTreeMap<&'static str, Timestamp>,
    /// The age of that renewal when the controller last read the Lease.
    pub(crate) read: BTreeMap<String, SignedDuration>,
    /// Verbs that were accepted.
    pub(crate) verbs: BTreeSet<VerbKey>,
    /// Verbs that were carried out or overtaken, and the reason.
    pub(crate) done: BTreeMap<VerbKey, String>,
    /// The last state of a run on its cluster: attempt and status.
    pub(crate) last: BTreeMap<String, (u64, Value)>,
    /// Workflows that started on the control cluster.
    pub(crate) local: BTreeSet<String>,
    /// Workflows that nothing held at some time, so that they could start on the control cluster.
    pub(crate) free: BTreeSet<String>,
    /// Workflows that had Pod nodes while nothing claimed them and that were not held from birth.
    pub(crate) with_pods: BTreeSet<String>,
    /// Workflows that were shown in a final phase.
    pub(crate) ended: BTreeSet<String>,
    /// Origins that a person has tampered with in a WEC or a mailbox.
    pub(crate) tampered: BTreeSet<String>,
    /// Origins that a member has lied about.
    pub(crate) lied: BTreeSet<String>,
    /// By UID of a copy, the cluster that has reported the status that the copy carries.
    pub(crate) copied: BTreeMap<String, String>,
    /// The clusters that each Workflow has asked for, by origin.
    asked: BTreeMap<String, BTreeSet<String>>,
    /// The time at which each step was first seen to run on its cluster, by origin and node.
    pub(crate) running_since: BTreeMap<(String, String), Timestamp>,
    /// The most by which the controller's clock was ever ahead.
    pub(crate) most_ahead: SignedDuration,
    /// A policy was changed at some time.
    pub(crate) had_policy_changed: bool,
    /// A space was restored from a backup, so knowledge of attempts may be lost.
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

/// True if the user has named another cluster for the Workflow.
pub(crate) fn names_a_cluster(object: &Value) -> bool {
    !["", names::KUBESTELLAR_LOCAL_CLUSTER].contains(&label(object, names::KUBESTELLAR_CLUSTER_LABEL))
}

/// True if the Workflow was held from birth and is claimed for no cluster.
pub(crate) fn waits(object: &Value) -> bool {
    is_held(object) && !is_claimed(object) && noted(object, names::CLAIM_ANNOTATION)["held"] == true
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

/// True if a claim was made for exactly this object: it names the UID of the object, or it was made
/// before the object had a UID and names the object.
pub(crate) fn is_own(claim: &Value, object: &Value) -> bool {
    let named = claim["name"].as_str().unwrap_or_default();
    let is_born = claim["uid"] == "" && (named.is_empty() || claim["name"] == object["metadata"]["name"]);
    is_born || claim["uid"] == object["metadata"]["uid"]
}

/// True if the Workflow is claimed, and is neither an unknown copy of a claimed one nor merely
/// labeled by its user.
pub(crate) fn is_ours(object: &Value) -> bool {
    let claim = noted(object, names::CLAIM_ANNOTATION);
    let is_for_any = claim["cluster"] != "" && is_claimed(object);
    is_for_any && is_own(&claim, object) && has_finalizer(object, names::CONTROLLER_FINALIZER)
}

impl Ledger {
    /// Records that an object is created on a WEC. An attempt starts once. Only a retry starts
    /// another one, because a started Workflow never moves.
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
        let brings = object
            .pointer("/status/nodes")
            .is_some_and(|nodes| *nodes != json!({}));
        // A member may have promised never to create what it runs.
        let is_lied = self.lied.contains(origin);
        let is_true = |(cluster, _): &&(&str, u64)| !is_lied || *cluster != LIAR;
        let last = starts.iter().rev().find(is_true).map(|(cluster, _)| *cluster);
        let reporter = last.or_else(|| self.copied.get(origin).map(String::as_str));
        assert!(
            !brings || self.was_restored || reporter.is_none_or(|reporter| reporter == CLUSTERS[wec]),
            "{name} begins on {} with what {reporter:?} has reported: {object:#}",
            CLUSTERS[wec]
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
            self.was_restored || starts.iter().filter(is_true).count() <= allowed,
            "{name} was started more than once: {starts:?}"
        );
        let claimed = self.wds.get(origin).map_or(0, claimed_attempt);
        assert!(
            self.was_restored || start.1 >= claimed || !is_true(&&start),
            "{name} was started in attempt {}, after attempt {claimed} was claimed",
            start.1
        );
        assert!(
            self.free.contains(origin) || !self.local.contains(origin),
            "{name} was started on the control cluster before"
        );
    }

    /// True if an object of a WEC is the one that an agent created, not a copy.
    pub(crate) fn is_run(&self, object: &Value) -> bool {
        self.created.contains(text(object, "/metadata/uid"))
    }

    /// Records that a pod starts on a WEC. Pods of copies are not counted.
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
            self.was_restored
                || self.tampered.contains(origin)
                || self.lied.contains(origin)
                || *pods <= allowed,
            "{} ran {pods} times: {object:#}",
            key.1
        );
    }

    pub(crate) fn pods(&self, object: &Value, node: &str) -> usize {
        let origin = label(object, names::ORIGIN_UID_LABEL).to_owned();
        let pods = self.pods.get(&(origin, node.to_owned()));
        pods.copied().unwrap_or_default()
    }

    /// Records that a pod starts on the control cluster, perhaps based on an older version.
    pub(crate) fn note_local_start(&mut self, uid: &str) {
        let newest = &self.wds[uid];
        assert!(
            self.free.contains(uid)
                || !(is_held(newest) || is_claimed(newest) || self.starts.contains_key(uid)),
            "it was started on the control cluster: {newest:#}"
        );
        self.local.insert(uid.to_owned());
    }

    /// Records the verbs of an accepted user's write. `after` is the stored version.
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

    /// Checks every version that the Workflows of the WDS have had since the last check.
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
            let is_new = before.is_none() && is_guarded && !workflow::is_final(phase(&event.object));
            assert!(
                !is_new || !is_free || !names_a_cluster(&event.object),
                "it names a cluster, and may start here: {:#}",
                event.object
            );
            if is_free
                || (is_claimed(&event.object) && !is_held(&event.object) && !is_suspended(&event.object))
            {
                self.free.insert(uid.clone());
            }
            if workflow::is_final(phase(&event.object)) {
                self.ended.insert(uid.clone());
            }
            let claim = noted(&event.object, names::CLAIM_ANNOTATION);
            let is_unclaimed = !is_claimed(&event.object) && claim["held"] != true;
            if is_unclaimed && workflow::has_pod_nodes(event.object.get("status")) {
                self.with_pods.insert(uid.clone());
            }
            if noted(&event.object, names::CLAIM_ANNOTATION)["started"] == true {
                self.noted_starts
                    .insert((uid.clone(), claimed_attempt(&event.object)));
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

    /// Records that a Workflow is claimed again because its cluster is lost, and checks that it is
    /// lost.
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

    /// Checks every version that the objects of a WEC have had since the last check.
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
            self.note_end(origin, attempt, phase(&event.object));
            // A leftover of an earlier attempt on a lost cluster does not count.
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

    /// The cluster was restored, so earlier versions of its objects do not count.
    pub(crate) fn forget_objects(&mut self, wec: &ApiServer) {
        for object in wec.list(Kind::Workflow) {
            self.objects
                .insert(text(object, "/metadata/uid").to_owned(), object.clone());
        }
    }

    /// The WDS was restored, so earlier versions of its objects do not count.
    pub(crate) fn forget_versions(&mut self, wds: &ApiServer) {
        self.was_restored = true;
        for object in wds.list(Kind::Workflow) {
            let uid = text(object, "/metadata/uid").to_owned();
            self.wds.insert(uid, object.clone());
        }
    }
}

/// A claimed Workflow is held from its claim on: by the label or, without a guard, by
/// `spec.suspend` while the label is restored. A Workflow whose claim was given up is held by
/// `spec.suspend`.
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

/// Only a Workflow that was held at first sight is claimed, and one whose claim is given up stays
/// held.
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
    if waits(before) && !is_held(after) {
        assert!(is_suspended(after), "handed back and not suspended: {after:#}");
        assert_eq!(phase(after), "", "handed back with a phase: {after:#}");
    }
    if is_ours(before) && !is_ours(after) {
        assert!(is_suspended(after), "released and not suspended: {after:#}");
        assert!(
            !workflow::is_final(phase(before)),
            "released after its end: {before:#}"
        );
    }
}
