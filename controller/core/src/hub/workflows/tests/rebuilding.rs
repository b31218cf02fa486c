//! The annotations of a ManifestWork for an agent whose cluster may have been replaced, or may have
//! lost its records.

use super::*;

fn identified(name: &str, id: &str) -> Value {
    let claims = json!([{ "name": "id.k8s.io", "value": id }]);
    with(cluster(name), json!({ "status": { "clusterClaims": claims } }))
}

fn away(cluster: Value) -> Value {
    let mut cluster = cluster;
    cluster["status"]["conditions"][0]["status"] = json!("Unknown");
    cluster
}

fn fleet_of(cluster: Value) -> Fleet {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.cluster(cluster);
    fleet
}

impl Fleet {
    fn cluster(&mut self, object: Value) -> BTreeSet<HubKey> {
        let change = self.change(object);
        self.learn(HubInput::Cluster(change))
    }

    #[track_caller]
    fn sent(&self, annotation: &str) -> Option<String> {
        let (_, work) = self.created();
        work.metadata.annotations.unwrap().remove(annotation)
    }
}

#[test]
fn a_manifest_work_that_is_made_again_says_that_its_attempt_has_started() {
    let has_started =
        json!({ "cluster": "cluster1", "attempt": 1, "uid": "u1", "status": true, "started": true });
    let claim = json!({ "metadata": { "annotations": { "argosy.dev/claim": has_started.to_string() } } });
    let fleet = Fleet::of(with(claimed("cluster1", 1), claim));
    assert_eq!(fleet.sent("argosy.dev/started").as_deref(), Some("true"));
    // The claim does not record the start yet.
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    assert_eq!(fleet.sent("argosy.dev/started"), None);
    fleet.report(report("cluster1", 1, json!({ "phase": "Running" })));
    assert_eq!(fleet.sent("argosy.dev/started").as_deref(), Some("true"));
}

#[test]
fn a_manifest_work_names_the_cluster_that_is_heard_of() {
    let id = "argosy.dev/cluster-id";
    assert_eq!(fleet_of(cluster("cluster1")).sent(id), None);
    let here = identified("cluster1", "id1");
    assert_eq!(fleet_of(here.clone()).sent(id).as_deref(), Some("id1"));
    assert_eq!(fleet_of(away(here)).sent(id).as_deref(), Some(""));
}

#[test]
fn what_was_sent_while_no_cluster_was_heard_of_is_for_the_one_that_comes() {
    let mut fleet = fleet_of(away(identified("cluster1", "id1")));
    let open = json!({ "metadata": { "annotations": { "argosy.dev/cluster-id": "" } } });
    fleet.work(with(work("cluster1", 1), open));
    assert!(!matches!(fleet.decide(), Some(HubAction::ControlWork { .. })));
    fleet.cluster(away(identified("cluster1", "id2")));
    let dirty = fleet.cluster(identified("cluster1", "id2"));
    assert!(dirty.contains(&HubKey::Workflow(key())));
    let Some(HubAction::ControlWork { patch, .. }) = fleet.decide() else {
        panic!("the cluster is named")
    };
    assert_eq!(
        patch.value_at("/metadata/annotations/argosy.dev~1cluster-id"),
        Some(&json!("id2"))
    );
}

#[test]
fn a_cluster_that_is_named_stays_named_when_another_one_takes_its_name() {
    let mut fleet = fleet_of(identified("cluster1", "id1"));
    let named = json!({ "metadata": { "annotations": { "argosy.dev/cluster-id": "id1" } } });
    fleet.work(with(work("cluster1", 1), named));
    fleet.cluster(identified("cluster1", "id2"));
    fleet.rests();
}
