//! One ManifestWork for each object and cluster: created, changed, withdrawn.

use super::*;

fn both() -> Value {
    policy("both", &json!({ "fleet": "a" }))
}

#[test]
fn an_object_goes_to_every_cluster_that_a_policy_matches() {
    let mut spaces = Spaces::new();
    spaces.policy(both());
    spaces.write(&config_maps(), settings());
    assert_eq!(spaces.sent(), ["cluster1/c1", "cluster2/c1"]);
    let work = spaces.work("cluster1", "c1");
    assert_eq!(
        work["metadata"]["finalizers"],
        json!(["cluster.open-cluster-management.io/manifest-work-cleanup"])
    );
    assert_eq!(
        work["metadata"]["annotations"]["argosy.dev/origin-resource"],
        "/v1/configmaps"
    );
    let expected = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": { "a": "1" },
        "metadata": { "namespace": "team", "name": "settings", "labels": { "app": "web", "argosy.dev/object-uid": "c1" } },
    });
    assert_eq!(spaces.manifest("cluster1", "c1"), expected);
    let strategy = &work["spec"]["manifestConfigs"][0]["updateStrategy"];
    assert_eq!(strategy["type"], "ServerSideApply");
    assert_eq!(strategy["serverSideApply"]["fieldManager"], "work-agent-argosy");
}

#[test]
fn a_change_of_the_object_changes_its_copies_and_a_change_of_its_status_writes_nothing() {
    let mut spaces = Spaces::new();
    spaces.policy(both());
    spaces.write(&deployments(), web());
    let writes = spaces.log.len();
    spaces.write(
        &deployments(),
        with(web(), json!({ "status": { "replicas": 1 } })),
    );
    assert_eq!(spaces.log.len(), writes, "{:#?}", spaces.log);
    spaces.write(&deployments(), with(web(), json!({ "spec": { "replicas": 3 } })));
    assert_eq!(spaces.manifest("cluster2", "d1")["spec"]["replicas"], 3);
    let changed = &spaces.log[writes..];
    assert_eq!(changed.len(), 2, "{changed:#?}");
}

#[test]
fn what_no_longer_matches_is_taken_back_and_nothing_else() {
    for change in ["label", "deletion", "policy", "clause", "cluster"] {
        let mut spaces = Spaces::new();
        spaces.policy(both());
        spaces.write(&config_maps(), settings());
        let other = json!({ "metadata": { "name": "other", "uid": "c2" } });
        spaces.write(&config_maps(), with(settings(), other));
        let left: &[&str] = match change {
            "label" => {
                spaces.write(
                    &config_maps(),
                    with(settings(), json!({ "metadata": { "labels": { "app": "db" } } })),
                );
                &["cluster1/c2", "cluster2/c2"]
            }
            "deletion" => {
                spaces.delete(&config_maps(), "c1");
                &["cluster1/c2", "cluster2/c2"]
            }
            "policy" => {
                spaces.delete_policy("both");
                &[]
            }
            "clause" => {
                spaces.policy(wanting(both(), json!({ "objectNames": ["other"] })));
                &["cluster1/c2", "cluster2/c2"]
            }
            _ => {
                spaces.cluster("cluster2", json!({ "fleet": "b" }));
                &["cluster1/c1", "cluster1/c2"]
            }
        };
        assert_eq!(spaces.sent(), left, "{change}");
    }
}

#[test]
fn several_policies_over_one_object_make_one_copy_and_the_last_to_go_takes_it_back() {
    let mut spaces = Spaces::new();
    spaces.policy(policy("one", &json!({ "name": "cluster1" })));
    spaces.policy(both());
    spaces.write(&config_maps(), settings());
    assert_eq!(spaces.sent(), ["cluster1/c1", "cluster2/c1"]);
    spaces.delete_policy("both");
    assert_eq!(spaces.sent(), ["cluster1/c1"]);
    spaces.delete_policy("one");
    assert!(spaces.sent().is_empty());
}

#[test]
fn what_was_deleted_while_nobody_looked_is_taken_back_once_its_kind_is_listed() {
    let mut spaces = Spaces::new();
    spaces.policy(both());
    spaces.write(&config_maps(), settings());
    let works: Vec<ManifestWork> = spaces.works.values().cloned().map(read).collect();
    let mut later = Spaces::new();
    later.index.listed.clear();
    later.policy(both());
    later.works = spaces.works.clone();
    later.learn(DownsyncInput::work(Change::Reset(works)));
    assert_eq!(later.sent(), ["cluster1/c1", "cluster2/c1"]);
    let none = Change::Reset(Vec::new());
    later.learn(DownsyncInput::object(Arc::new(config_maps()), none));
    assert!(later.sent().is_empty());
}

#[test]
fn what_is_out_there_stays_while_its_kind_cannot_be_seen() {
    let mut spaces = Spaces::new();
    spaces.policy(both());
    spaces.write(&config_maps(), settings());
    // An API server that has just started does not serve its custom kinds yet.
    spaces.learn(DownsyncInput::Kinds(vec![deployments()]));
    spaces.learn(DownsyncInput::Unwatched(config_maps().name()));
    assert_eq!(spaces.sent(), ["cluster1/c1", "cluster2/c1"]);
    // The deletion of a policy withdraws its copies all the same.
    spaces.delete_policy("both");
    assert!(spaces.sent().is_empty());
}

#[test]
fn a_copy_that_is_being_deleted_is_waited_for() {
    let mut spaces = Spaces::new();
    spaces.policy(policy("one", &json!({ "name": "cluster1" })));
    spaces.write(&config_maps(), settings());
    let work = spaces.work("cluster1", "c1");
    let deleting = spaces.next(with(
        work,
        json!({ "metadata": { "deletionTimestamp": "2026-11-21T10:00:00Z" } }),
    ));
    let writes = spaces.log.len();
    spaces.learn(DownsyncInput::work(Change::Apply(read(deleting.clone()))));
    spaces.write(&config_maps(), with(settings(), json!({ "data": { "a": "2" } })));
    assert_eq!(spaces.log.len(), writes, "{:#?}", spaces.log);
    spaces.works.clear();
    let gone = spaces.next(deleting);
    spaces.learn(DownsyncInput::work(Change::Delete(read(gone))));
    assert_eq!(spaces.manifest("cluster1", "c1")["data"]["a"], "2");
}

#[test]
fn a_copy_that_somebody_has_changed_or_deleted_is_put_back() {
    let mut spaces = Spaces::new();
    spaces.policy(policy("one", &json!({ "name": "cluster1" })));
    spaces.write(&config_maps(), settings());
    let mut work = spaces.work("cluster1", "c1");
    work["spec"]["workload"]["manifests"][0]["data"]["a"] = json!("tampered");
    let work = spaces.next(work);
    spaces
        .works
        .insert(("cluster1".to_owned(), "argosy-c1".to_owned()), work.clone());
    spaces.learn(DownsyncInput::work(Change::Apply(read(work.clone()))));
    assert_eq!(spaces.manifest("cluster1", "c1")["data"]["a"], "1");
    spaces.works.clear();
    let gone = spaces.next(work);
    spaces.learn(DownsyncInput::work(Change::Delete(read(gone))));
    assert_eq!(spaces.sent(), ["cluster1/c1"]);
}

#[test]
fn create_only_counts_where_any_clause_asks_for_it() {
    let mut spaces = Spaces::new();
    spaces.policy(wanting(both(), json!({ "createOnly": true })));
    spaces.policy(policy("one", &json!({ "name": "cluster1" })));
    spaces.write(&config_maps(), settings());
    let strategy = |spaces: &Spaces| {
        spaces.work("cluster1", "c1")["spec"]["manifestConfigs"][0]["updateStrategy"].clone()
    };
    assert_eq!(strategy(&spaces), json!({ "type": "CreateOnly" }));
    spaces.policy(both());
    assert_eq!(strategy(&spaces)["type"], "ServerSideApply");
}

#[test]
fn an_object_that_is_selected_later_is_read_then() {
    let mut spaces = Spaces::new();
    spaces.write(&config_maps(), settings());
    assert!(
        spaces
            .index
            .objects
            .values()
            .all(|object| object.content.is_none())
    );
    spaces.policy(both());
    assert_eq!(spaces.sent(), ["cluster1/c1", "cluster2/c1"]);
    spaces.delete_policy("both");
    assert!(
        spaces
            .index
            .objects
            .values()
            .all(|object| object.content.is_none())
    );
}

#[test]
fn a_workflow_is_counted_and_not_sent_from_here() {
    let runs = kind("argoproj.io", "workflows", "Workflow", true, false);
    let mut spaces = Spaces::new();
    spaces.policy(both());
    let workflow = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
        "metadata": { "namespace": "argo", "name": "w", "uid": "w1", "labels": { "app": "web" } },
    });
    spaces.write(&runs, workflow);
    spaces.pass(2);
    spaces.pass(4);
    assert!(spaces.sent().is_empty());
    assert_eq!(spaces.status("both")["objects"], 1);
    assert_eq!(
        spaces.bindings["both"]["spec"]["workload"]["namespaceScope"][0]["name"],
        "w"
    );
}

#[test]
fn what_every_cluster_makes_for_itself_stays() {
    let mut spaces = Spaces::new();
    spaces.policy(both());
    let root = json!({ "metadata": { "name": "kube-root-ca.crt", "uid": "c9" } });
    spaces.write(&config_maps(), with(settings(), root));
    assert!(spaces.sent().is_empty());
}

#[test]
fn what_cannot_be_read_whole_is_said_and_what_is_out_there_stays_until_it_can() {
    let unreadable = || {
        with(
            settings(),
            json!({ "metadata": { "annotations": { "argosy.dev/flaw": "no" } } }),
        )
    };
    let nested = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    let deep = |levels: usize| with(settings(), json!({ "data": { "a": nested(levels) } }));
    for (bad, said) in [
        (unreadable(), "cluster1: configmaps team/settings is not sent: no".to_owned()),
        (
            deep(99),
            "cluster1: configmaps team/settings is not sent: it is nested in 101 levels; at most 100 can be sent to a cluster"
                .to_owned(),
        ),
    ] {
        let mut spaces = Spaces::new();
        spaces.policy(policy("p", &json!({ "name": "cluster1" })));
        spaces.write(&config_maps(), bad.clone());
        assert_eq!(spaces.sent(), [""; 0]);
        spaces.pass(2);
        assert_eq!(spaces.status("p")["errors"], json!([said]));
        assert_eq!(spaces.condition("p", "Synced"), "False Failing");
        spaces.write(&config_maps(), deep(98));
        assert_eq!(spaces.sent(), ["cluster1/c1"]);
        let sent = spaces.manifest("cluster1", "c1");
        assert_eq!(sent["metadata"].get("annotations"), None);
        spaces.pass(2);
        assert_eq!(spaces.status("p")["errors"], Value::Null);
        spaces.write(&config_maps(), bad);
        spaces.pass(2);
        assert_eq!(spaces.manifest("cluster1", "c1"), sent);
        assert_eq!(spaces.status("p")["errors"], json!([said]));
    }
}
