//! Leftovers on objects that were deselected or deleted while no controller was running.

use super::*;

impl Spaces {
    /// Starts a new index with the stored objects. Watches report only objects with the label that
    /// policies ask for. The kinds are learned before everything else or after it.
    fn restart(&mut self, are_kinds_first: bool) {
        self.forget();
        let kinds = || DownsyncInput::Kinds(vec![config_maps(), deployments(), namespaces()]);
        let report = self.next(work_status("cluster1", "d1", &json!({ "replicas": 2 })));
        if are_kinds_first {
            self.learn(kinds());
        }
        for input in self.lists(&[report]) {
            self.learn(input);
        }
        if !are_kinds_first {
            assert_eq!(self.sent(), ["cluster1/d1"], "nothing is known of kinds yet");
            self.learn(kinds());
        }
        let wanted: Vec<Arc<Kind>> = self
            .index
            .wanted_kinds()
            .iter()
            .map(|(_, wanted)| Arc::clone(&wanted.kind))
            .collect();
        for kind in wanted {
            let told = self.objects.values().filter(|object| {
                object["kind"] == *kind.kind && object["metadata"]["labels"]["app"] == "web"
            });
            let told = told.map(|object| read(object.clone())).collect();
            self.learn(DownsyncInput::object(kind, Change::Reset(told)));
        }
    }
}

/// A Deployment that has a status from Argosy and a CombinedStatus.
fn reported() -> Spaces {
    let mut spaces = Spaces::new();
    let collector = spaces.next(json!({
        "metadata": { "name": "s", "uid": "s", "generation": 1 },
        "spec": { "select": [{ "name": "cluster", "def": "inventory.name" }], "limit": 20 },
    }));
    spaces.collectors.insert("s".to_owned(), collector.clone());
    spaces.learn(DownsyncInput::Collector(Change::Apply(read(collector))));
    spaces.policy(wanting(
        policy("p", &json!({ "name": "cluster1" })),
        json!({ "wantSingletonReportedState": true, "statusCollectors": ["s"] }),
    ));
    spaces.write(&deployments(), web());
    spaces.report("cluster1", "d1", &json!({ "replicas": 2 }));
    assert_eq!(spaces.objects["d1"]["status"]["replicas"], 2);
    assert_eq!(spaces.combined.len(), 1);
    spaces
}

fn assert_nothing_is_left(spaces: &Spaces, what: &str) {
    let object = &spaces.objects["d1"];
    let marks: Vec<_> = object["metadata"]["labels"]
        .as_object()
        .unwrap()
        .keys()
        .filter(|label| *label != "app")
        .collect();
    assert_eq!((marks, &object["status"]), (Vec::new(), &json!({})), "{what}");
    assert!(spaces.combined.is_empty(), "{what}");
    assert!(spaces.sent().is_empty(), "{what}");
    assert!(spaces.index.objects.is_empty(), "{what}");
}

#[test]
fn what_was_deselected_meanwhile_is_rid_of_what_is_ours() {
    for are_kinds_first in [true, false] {
        let mut spaces = reported();
        let object = with(
            spaces.objects["d1"].clone(),
            json!({ "metadata": { "labels": { "app": "db" } } }),
        );
        let object = spaces.next(object);
        spaces.objects.insert("d1".to_owned(), object);
        spaces.restart(are_kinds_first);
        assert_nothing_is_left(&spaces, "label");
    }
}

#[test]
fn what_lost_its_policy_meanwhile_is_rid_of_what_is_ours() {
    for are_kinds_first in [true, false] {
        let mut spaces = reported();
        spaces.policies.clear();
        spaces.restart(are_kinds_first);
        assert_nothing_is_left(&spaces, "policy");
    }
}

#[test]
fn what_has_a_combined_status_only_is_found_by_that() {
    let mut spaces = reported();
    spaces.policies.clear();
    spaces.works.clear();
    spaces.restart(true);
    assert_nothing_is_left(&spaces, "combined status");
}

#[test]
fn what_was_deleted_meanwhile_is_read_once_and_forgotten() {
    let mut spaces = reported();
    spaces.objects.clear();
    spaces.restart(true);
    let reads = spaces.log.iter().filter(|line| line.contains("read")).count();
    assert_eq!(reads, 1, "{:#?}", spaces.log);
    assert!(spaces.sent().is_empty());
    assert!(spaces.index.objects.is_empty());
}

#[test]
fn what_may_not_be_read_is_asked_for_once_and_forgotten() {
    for are_kinds_first in [true, false] {
        let mut spaces = reported();
        spaces.policies.clear();
        spaces.refuses_reads = true;
        spaces.restart(are_kinds_first);
        let reads = spaces.log.iter().filter(|line| line.contains("read")).count();
        assert_eq!(reads, 1, "{:#?}", spaces.log);
        assert!(spaces.sent().is_empty());
        assert!(spaces.combined.is_empty());
        assert!(spaces.index.objects.is_empty());
        assert!(spaces.index.object_failures.is_empty());
    }
}

#[test]
fn what_is_still_selected_or_of_another_api_server_is_left_as_it_is() {
    let mut spaces = reported();
    let before = spaces.objects["d1"].clone();
    spaces.restart(true);
    assert_eq!(spaces.objects["d1"], before);
    assert_eq!((spaces.sent().len(), spaces.combined.len()), (1, 1));
    let mut spaces = reported();
    spaces.policies.clear();
    spaces.combined.clear();
    for work in spaces.works.values_mut() {
        work["metadata"]["annotations"]["argosy.dev/origin-space"] = json!("another");
    }
    let before = spaces.objects["d1"].clone();
    spaces.restart(true);
    assert_eq!(spaces.objects["d1"], before);
    assert_eq!(spaces.sent(), ["cluster1/d1"]);
}
