//! Events that come late, in another order, or not at all: nothing is lost or left behind.

use super::*;

fn gone_marks(spaces: &Spaces, uid: &str) -> Value {
    json!([
        spaces.objects[uid]["metadata"]["labels"],
        spaces.objects[uid]["status"]
    ])
}

fn sent_web(singleton: bool) -> Spaces {
    let mut spaces = Spaces::new();
    spaces.policy(wanting(
        policy("p", &json!({ "name": "cluster1" })),
        json!({ "wantSingletonReportedState": singleton }),
    ));
    spaces.write(&deployments(), web());
    spaces
}

#[test]
fn a_404_about_the_kind_withdraws_nothing() {
    let mut spaces = sent_web(true);
    assert_eq!(spaces.sent(), ["cluster1/d1"]);
    let key = DownsyncKey::Object("d1".into());
    spaces.index.started(&key);
    // The input that the shell derives from any 404 (`found()`).
    let dirty = spaces
        .index
        .succeeded(&key, DownsyncInput::ObjectGone("d1".into()), spaces.now);
    spaces.settle(dirty);
    assert_eq!(spaces.sent(), ["cluster1/d1"]);
}

#[test]
fn a_deleted_policy_stays_deleted_whatever_answers_come_late() {
    let mut spaces = sent_web(false);
    let object = spaces.policies["p"].clone();
    let key = DownsyncKey::Policy("p".to_owned());
    spaces.index.started(&key);
    spaces.delete_policy("p");
    assert!(spaces.sent().is_empty());
    let late = DownsyncInput::Policy(Change::Apply(read(object)));
    let dirty = spaces.index.succeeded(&key, late, spaces.now);
    spaces
        .policies
        .insert("p".to_owned(), policy("p", &json!({ "name": "cluster1" })));
    spaces.settle(dirty);
    assert!(spaces.sent().is_empty(), "{:?}", spaces.sent());
}

#[test]
fn what_loses_its_label_loses_our_status_too() {
    let mut spaces = sent_web(true);
    spaces.report("cluster1", "d1", &json!({ "replicas": 2 }));
    let object = spaces.objects["d1"].clone();
    assert_eq!(object["status"]["replicas"], 2);
    let mut unlabeled = spaces.next(object);
    unlabeled["metadata"]["labels"]
        .as_object_mut()
        .unwrap()
        .remove("app");
    spaces.objects.insert("d1".to_owned(), unlabeled.clone());
    spaces.learn(DownsyncInput::object(
        Arc::new(deployments()),
        Change::Delete(read(unlabeled)),
    ));
    assert!(spaces.sent().is_empty());
    assert_eq!(gone_marks(&spaces, "d1"), json!([{}, {}]));
}

#[test]
fn what_no_policy_selects_any_more_loses_our_status() {
    let mut spaces = sent_web(true);
    spaces.report("cluster1", "d1", &json!({ "replicas": 2 }));
    let object = spaces.policies.remove("p").unwrap();
    let mut dirty = spaces
        .index
        .apply(DownsyncInput::Policy(Change::Delete(read(object))), spaces.now);
    // The shell ends the watch at once. Its input may come before the first of the two writes, or
    // between them.
    dirty.extend(
        spaces
            .index
            .apply(DownsyncInput::Unwatched(deployments().name()), spaces.now),
    );
    spaces.settle(dirty);
    assert_eq!(gone_marks(&spaces, "d1"), json!([{ "app": "web" }, {}]));
}

#[test]
fn a_status_that_is_pruned_as_a_whole_is_not_written_again() {
    let mut spaces = sent_web(true);
    let report = spaces.next(work_status("cluster1", "d1", &json!({ "phase": "Ready" })));
    let report = read(report);
    let now = spaces.now;
    spaces
        .index
        .apply(DownsyncInput::report(Change::Apply(report)), now);
    let key = DownsyncKey::Object("d1".into());
    let mut writes = 0;
    while let Some(DownsyncAction::PatchObject {
        place,
        patch,
        is_status,
    }) = spaces.index.decide(&key, now).action
    {
        writes += 1;
        assert!(writes < 10, "it is written again and again");
        spaces.index.started(&key);
        let action = DownsyncAction::PatchObject {
            place: place.clone(),
            patch: patch.clone(),
            is_status,
        };
        let answer = if is_status {
            // The API server prunes the status, so nothing changes, not even the version.
            let object = spaces.objects["d1"].clone();
            DownsyncInput::wrote_status(Arc::clone(&place.kind), status_in(&patch).unwrap(), read(object))
        } else {
            spaces.carry_out(&action)
        };
        spaces.index.succeeded(&key, answer, now);
    }
}

#[test]
fn the_wrong_number_of_clusters_is_said_by_every_policy_that_asks() {
    let mut spaces = Spaces::new();
    let single = json!({ "wantSingletonReportedState": true });
    spaces.policy(wanting(
        policy("a", &json!({ "name": "cluster1" })),
        single.clone(),
    ));
    spaces.policy(wanting(policy("b", &json!({ "fleet": "b" })), single));
    spaces.write(&deployments(), web());
    spaces.pass(2);
    assert_eq!(spaces.status("a")["errors"], json!(null));
    spaces.now = spaces
        .now
        .saturating_add(jiff::SignedDuration::from_secs(5))
        .unwrap();
    spaces.cluster("cluster2", json!({ "fleet": "b" }));
    let at_once = spaces.status("a")["errors"].clone();
    spaces.pass(5);
    let in_the_end = spaces.status("a")["errors"].clone();
    assert_eq!(at_once, in_the_end);
}

#[test]
fn a_kind_that_may_be_read_again_is_no_error_any_more() {
    let mut spaces = Spaces::new();
    spaces.policy(policy("p", &json!({ "name": "cluster1" })));
    spaces.pass(5);
    let kind = config_maps().name();
    spaces.learn(DownsyncInput::Unreadable(
        kind,
        "configmaps is forbidden".to_owned(),
    ));
    spaces.pass(5);
    spaces.now = spaces
        .now
        .saturating_add(jiff::SignedDuration::from_secs(5))
        .unwrap();
    spaces.learn(DownsyncInput::object(
        Arc::new(config_maps()),
        Change::Reset(Vec::new()),
    ));
    assert_eq!(spaces.status("p")["errors"], json!(null));
}

#[test]
fn an_event_that_changes_nothing_about_who_is_selected_does_not_look_at_all_that_is() {
    let runs = kind("argoproj.io", "workflows", "Workflow", true, false);
    let mut spaces = Spaces::new();
    spaces.policy(policy("p", &json!({ "name": "cluster1" })));
    let mut workflow = json!({
        "apiVersion": "argoproj.io/v1", "kind": "Workflow",
        "metadata": { "namespace": "team", "name": "w", "uid": "w", "labels": { "app": "web", "phase": "Pending" } },
    });
    spaces.write(&runs, workflow.clone());
    workflow["metadata"]["labels"]["phase"] = json!("Running");
    let changed = Change::Apply(read(spaces.next(workflow)));
    let dirty = spaces
        .index
        .apply(DownsyncInput::object(Arc::new(runs), changed), spaces.now);
    assert_eq!(dirty, [DownsyncKey::Object("w".into())].into());
}

#[test]
fn a_control_cluster_that_was_made_anew_takes_nothing_back_of_what_its_namesake_has_sent() {
    let spaces = sent_web(false);
    let works: Vec<ManifestWork> = spaces.works.values().map(|work| read(work.clone())).collect();
    let mut fresh = Spaces::new();
    let system = json!({ "metadata": { "name": "kube-system", "uid": "another" } });
    fresh.learn(DownsyncInput::Namespace(Change::Reset(vec![read(system)])));
    fresh.works = spaces.works.clone();
    fresh.learn(DownsyncInput::work(Change::Reset(works)));
    assert_eq!(fresh.sent(), ["cluster1/d1"]);
    assert_eq!(fresh.index.orphans().count(), 1);
}

#[test]
fn a_binding_that_was_deleted_is_made_again_whatever_answers_come_late() {
    let mut spaces = sent_web(false);
    spaces.pass(10);
    let key = DownsyncKey::Binding("p".to_owned());
    let binding = spaces.bindings.remove("p").unwrap();
    spaces.index.started(&key);
    let gone = DownsyncInput::Binding(Change::Delete(read(binding.clone())));
    spaces.index.apply(gone, spaces.now);
    let late = DownsyncInput::Binding(Change::Apply(read(binding)));
    spaces.now = spaces
        .now
        .saturating_add(jiff::SignedDuration::from_secs(10))
        .unwrap();
    let dirty = spaces.index.succeeded(&key, late, spaces.now);
    spaces.settle(dirty);
    spaces.pass(10);
    assert!(spaces.bindings.contains_key("p"));
}

#[test]
fn an_edited_policy_withdraws_copies_of_kinds_that_are_not_served() {
    let spaces = sent_web(false);
    let works: Vec<ManifestWork> = spaces.works.values().map(|work| read(work.clone())).collect();
    let mut fresh = Spaces::new();
    fresh.policy(policy("p", &json!({ "name": "cluster1" })));
    fresh.index.listed.remove(&deployments().name());
    fresh.learn(DownsyncInput::Kinds(vec![config_maps(), namespaces()]));
    fresh.works = spaces.works.clone();
    fresh.learn(DownsyncInput::work(Change::Reset(works)));
    assert_eq!(fresh.sent(), ["cluster1/d1"]);
    fresh.policy(wanting(
        policy("p", &json!({ "name": "cluster1" })),
        json!({ "apiGroup": "", "resources": ["configmaps"] }),
    ));
    let at_once = fresh.sent();
    fresh.pass(10);
    assert_eq!(at_once, fresh.sent());
}

#[test]
fn our_own_mark_sends_nothing_anew() {
    let mut spaces = sent_web(true);
    spaces.log.clear();
    spaces.report("cluster1", "d1", &json!({ "replicas": 2 }));
    let changes: Vec<_> = spaces
        .log
        .iter()
        .filter(|line| line.contains("ManifestWork"))
        .collect();
    assert!(changes.is_empty(), "{changes:?}");
}

/// An index that has learned policy `p` and StatusCollector `s`, with which `p` collects; and `s`.
fn collecting() -> (Spaces, Value) {
    let mut spaces = Spaces::new();
    let collector = json!({
        "metadata": { "name": "s", "uid": "s", "generation": 1, "resourceVersion": "500" },
        "spec": { "select": [{ "name": "n", "def": "inventory.name" }], "limit": 10 },
    });
    spaces.collectors.insert("s".to_owned(), collector.clone());
    spaces.policy(wanting(
        policy("p", &json!({ "name": "cluster1" })),
        json!({ "statusCollectors": ["s"] }),
    ));
    spaces.learn(DownsyncInput::Collector(Change::Apply(read(collector.clone()))));
    (spaces, collector)
}

#[test]
fn a_deleted_collector_stays_deleted_whatever_answers_come_late() {
    let (mut spaces, collector) = collecting();
    let key = DownsyncKey::Collector("s".to_owned());
    spaces.index.started(&key);
    spaces.learn(DownsyncInput::Collector(Change::Delete(read(collector))));
    let late = spaces.collectors["s"].clone();
    spaces.index.succeeded(
        &key,
        DownsyncInput::Collector(Change::Apply(read(late))),
        spaces.now,
    );
    assert!(spaces.index.collectors.is_empty());
}

#[test]
fn a_status_that_may_not_be_written_is_said() {
    let mut spaces = sent_web(true);
    spaces.pass(5);
    let report = spaces.next(work_status("cluster1", "d1", &json!({ "phase": "Ready" })));
    let report = read(report);
    let now = spaces.now;
    spaces
        .index
        .apply(DownsyncInput::report(Change::Apply(report)), now);
    let key = DownsyncKey::Object("d1".into());
    let action = spaces.index.decide(&key, now).action.unwrap();
    spaces.index.started(&key);
    let failure = Failure::Refused("deployments is forbidden".to_owned());
    let mut dirty = spaces.index.failed(&key, &action, &failure, spaces.now);
    assert!(dirty.remove(&key));
    spaces.now = now.saturating_add(jiff::SignedDuration::from_secs(5)).unwrap();
    spaces.settle([DownsyncKey::Policy("p".to_owned())].into());
    assert_ne!(spaces.status("p")["errors"], json!(null));
    // It is not wanted any more.
    spaces.policy(policy("p", &json!({ "name": "cluster1" })));
    spaces.pass(5);
    assert_eq!(spaces.status("p")["errors"], json!(null));
    // Another try of it fails, which was sent before that.
    spaces.index.started(&key);
    spaces.index.failed(&key, &action, &failure, spaces.now);
    assert!(spaces.index.object_failures.is_empty());
}

#[test]
fn a_combined_status_that_was_deleted_is_made_again_whatever_answers_come_late() {
    let (mut spaces, _) = collecting();
    spaces.write(&deployments(), web());
    let (name, status) = spaces.combined.pop_first().unwrap();
    let made_of = spaces.index.combined[&name].made_of.unwrap();
    let key = collectors::combined_key(&name).unwrap();
    spaces.index.started(&key);
    let now = spaces.now;
    spaces
        .index
        .apply(DownsyncInput::Combined(Change::Delete(read(status.clone()))), now);
    let late = DownsyncInput::WroteCombined(made_of, Box::new(read(status)));
    let dirty = spaces.index.succeeded(&key, late, now);
    spaces.settle(dirty);
    assert!(spaces.combined.contains_key(&name));
}
