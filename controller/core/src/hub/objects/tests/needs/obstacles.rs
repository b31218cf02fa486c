//! A policy says why objects that its Workflows need are not on their clusters.

use super::*;

const SUBJECT: &str = "cluster1: configmaps team/settings, which Workflows need";

/// The ConfigMap `team/settings`, and a Workflow on `cluster1` that needs it.
fn needed() -> Spaces {
    let mut spaces = Spaces::asked_for("configmaps");
    spaces.put(object("ConfigMap", "settings", json!({ "data": { "a": "1" } })));
    spaces.run(workflow("w", "cluster1", with_config(&["settings"])));
    spaces
}

/// A CustomTransform of ConfigMaps that sets a property of the cluster.
fn setting(spaces: &mut Spaces, expression: &str) {
    let transform = spaces.next(json!({
        "metadata": { "name": "t", "generation": 1 },
        "spec": {
            "apiGroup": "", "resource": "configmaps",
            "set": [{ "path": "$.data.a", "expression": expression }],
        },
    }));
    spaces.learn(DownsyncInput::Transform(Change::Apply(read(transform))));
}

/// The agent reports on the ManifestWork of `uid`, of whose manifests each has this reason.
fn reported(spaces: &mut Spaces, uid: &str, status: &str, reasons: &[&str]) {
    let said = |reason: &str| {
        json!({
            "type": "Applied", "status": status, "reason": reason, "message": "it is in the way",
            "lastTransitionTime": "2026-11-21T09:00:00Z",
        })
    };
    let manifests = reasons
        .iter()
        .map(|reason| json!({ "resourceMeta": {}, "conditions": [said(reason)] }));
    let status = json!({
        "conditions": [said("AppliedManifestWorkFailed")],
        "resourceStatus": { "manifests": manifests.collect::<Vec<_>>() },
    });
    let address = ("cluster1".to_owned(), format!("argosy-{uid}"));
    let work = spaces.next(with(spaces.works[&address].clone(), json!({ "status": status })));
    spaces.works.insert(address, work.clone());
    spaces.learn(DownsyncInput::work(Change::Apply(read(work))));
}

impl Spaces {
    /// Errors or warnings of the policy two seconds later. Unlike with `pass`, only what the inputs
    /// have made dirty is decided.
    fn said(&mut self, what: &str) -> Vec<String> {
        self.now = self
            .now
            .saturating_add(jiff::SignedDuration::from_secs(2))
            .unwrap();
        let pending = std::mem::take(&mut self.pending);
        self.settle(pending);
        let said = self.status("p")[what].clone();
        serde_json::from_value(said).unwrap_or_default()
    }

    fn errors(&mut self) -> Vec<String> {
        self.said("errors")
    }
}

#[test]
fn a_transform_that_fails_for_an_object_that_workflows_need_is_said_until_it_does_not() {
    let mut spaces = needed();
    assert_eq!(spaces.errors(), [""; 0]);
    setting(&mut spaces, "cluster.zone");
    let errors = spaces.errors();
    assert_eq!(errors.len(), 1, "{errors:?}");
    let begin = format!("{SUBJECT}: CustomTransform t: spec.set[0]: at $['data']['a']: ");
    assert!(errors[0].starts_with(&begin), "{errors:?}");
    let status = spaces.status("p");
    assert_eq!(status["applied"], Value::Null, "it is no copy of the policy");
    assert_eq!(spaces.condition("p", "Synced"), "");
    setting(&mut spaces, "cluster.clusterName");
    assert_eq!(spaces.errors(), [""; 0]);
}

#[test]
fn an_object_that_cannot_be_read_whole_and_that_workflows_need_is_said_until_it_can() {
    let flawed = json!({ "metadata": { "annotations": { "argosy.dev/flaw": "no" } } });
    for is_first in [true, false] {
        let mut spaces = Spaces::asked_for("configmaps");
        let flawed = object("ConfigMap", "settings", flawed.clone());
        let run = workflow("w", "cluster1", with_config(&["settings"]));
        if is_first {
            spaces.run(run);
            spaces.put(flawed);
        } else {
            spaces.put(flawed);
            spaces.run(run);
        }
        assert_eq!(spaces.errors(), [format!("{SUBJECT}: is not sent: no")]);
        spaces.put(object("ConfigMap", "settings", json!({})));
        assert_eq!(spaces.errors(), [""; 0]);
    }
}

#[test]
fn an_object_that_workflows_need_and_that_may_not_be_read_is_said_until_it_may() {
    let mut spaces = Spaces::asked_for("configmaps");
    // Nobody needs it yet, so its content is not kept, and has to be read.
    spaces.put(object("ConfigMap", "settings", json!({})));
    let run = spaces.next(workflow("w", "cluster1", with_config(&["settings"])));
    let kind = Arc::new(kind_of(&run));
    spaces.objects.insert("w".to_owned(), run.clone());
    let seen = json!({ "metadata": run["metadata"] });
    let input = DownsyncInput::object(kind, Change::Apply(read(seen)));
    let mut dirty = spaces.index.apply(input, spaces.now);
    let (run, settings) = (
        DownsyncKey::Object("w".into()),
        DownsyncKey::Object("settings".into()),
    );
    let action = spaces.index.decide(&run, spaces.now).action.unwrap();
    spaces.index.started(&run);
    let answer = spaces.carry_out(&action);
    dirty.extend(spaces.index.succeeded(&run, answer, spaces.now));
    let action = spaces.index.decide(&settings, spaces.now).action.unwrap();
    let refused = Failure::Refused("it is forbidden".to_owned());
    spaces.index.started(&settings);
    dirty.extend(spaces.index.failed(&settings, &action, &refused, spaces.now));
    dirty.remove(&settings);
    spaces.settle(dirty);
    let error = "cannot be read or written on the control cluster: it is forbidden";
    assert_eq!(spaces.errors(), [format!("{SUBJECT}: {error}")]);
    spaces.settle([settings].into());
    assert_eq!(spaces.errors(), [""; 0]);
}

#[test]
fn a_refused_manifest_work_of_an_object_that_workflows_need_is_said_until_it_is_written() {
    let mut spaces = Spaces::asked_for("configmaps");
    spaces.run(workflow("w", "cluster1", with_config(&["settings"])));
    let settings = spaces.next(object("ConfigMap", "settings", json!({})));
    spaces.objects.insert("settings".to_owned(), settings.clone());
    let input = DownsyncInput::object(Arc::new(config_maps()), Change::Apply(read(settings)));
    spaces.index.apply(input, spaces.now);
    let copy = DownsyncKey::Copy("settings".into(), "cluster1".into());
    let action = spaces.index.decide(&copy, spaces.now).action.unwrap();
    let refused = Failure::Refused("etcdserver: request is too large".to_owned());
    spaces.index.started(&copy);
    let dirty = spaces.index.failed(&copy, &action, &refused, spaces.now);
    spaces.settle(dirty.into_iter().filter(|dirty| *dirty != copy).collect());
    let error = "the ITS refused the ManifestWork: etcdserver: request is too large";
    assert_eq!(spaces.errors(), [format!("{SUBJECT}: {error}")]);
    spaces.settle([copy].into());
    assert_eq!(spaces.errors(), [""; 0]);
}

#[test]
fn an_object_that_workflows_need_and_that_the_agent_cannot_apply_is_said_until_it_can() {
    let mut spaces = needed();
    reported(&mut spaces, "settings", "False", &["AppliedManifestFailed"]);
    let error = "AppliedManifestWorkFailed: it is in the way";
    assert_eq!(spaces.errors(), [format!("{SUBJECT}: {error}")]);
    reported(&mut spaces, "settings", "True", &["AppliedManifestComplete"]);
    assert_eq!(spaces.errors(), [""; 0]);
}

#[test]
fn an_object_of_another_owner_that_is_used_as_it_is_is_a_warning_and_a_namespace_is_none() {
    let mut spaces = needed();
    reported(&mut spaces, "team", "False", &["ForeignObject"]);
    assert_eq!(spaces.said("warnings"), [""; 0]);
    reported(&mut spaces, "settings", "False", &["ForeignObject"]);
    let warning = format!("{SUBJECT}, is there already and is used as it is");
    assert_eq!(spaces.said("warnings"), [warning]);
    assert_eq!(spaces.errors(), [""; 0]);
    let reasons = ["ForeignObject", "AppliedManifestFailed"];
    reported(&mut spaces, "settings", "False", &reasons);
    assert_eq!(spaces.errors().len(), 1, "the other manifest is not there");
    assert_eq!(spaces.said("warnings"), [""; 0]);
}

#[test]
fn what_workflows_need_no_more_is_not_said() {
    let run = || workflow("w", "cluster1", with_config(&["settings"]));
    let ends: [fn(&mut Spaces, Value); 4] = [
        |spaces, run| spaces.run(ended(run)),
        |spaces, _| spaces.delete(&kind_of(&json!({ "kind": "Workflow" })), "w"),
        |spaces, _| spaces.delete(&config_maps(), "settings"),
        |spaces, _| spaces.policy(asking("")),
    ];
    for end in ends {
        let mut spaces = needed();
        reported(&mut spaces, "settings", "False", &["AppliedManifestFailed"]);
        assert_eq!(spaces.errors().len(), 1);
        end(&mut spaces, run());
        assert_eq!(spaces.errors(), [""; 0]);
    }
}

#[test]
fn only_the_policies_whose_workflows_need_an_object_say_what_becomes_of_it() {
    let mut spaces = needed();
    let other = json!({ "metadata": { "name": "other", "uid": "other" }, "spec": { "downsync": [] } });
    spaces.policy(with(asking("configmaps"), other));
    reported(&mut spaces, "settings", "False", &["AppliedManifestFailed"]);
    assert_eq!(spaces.errors().len(), 1);
    assert_eq!(spaces.status("other")["errors"], Value::Null);

    // A copy of the policy counts as one, and is said once.
    let labels = json!({ "metadata": { "labels": { "app": "web" } } });
    spaces.put(object("ConfigMap", "settings", labels));
    let all = json!({ "apiGroup": null, "resources": ["workflows", "configmaps"] });
    spaces.policy(wanting(asking("configmaps"), all));
    reported(&mut spaces, "settings", "False", &["AppliedManifestFailed"]);
    let error = "cluster1: configmaps team/settings: AppliedManifestWorkFailed: it is in the way";
    assert_eq!(spaces.errors(), [error]);
}

#[test]
fn of_many_objects_that_workflows_need_some_are_said_and_the_rest_is_counted() {
    let mut spaces = Spaces::asked_for("configmaps");
    let names: Vec<String> = (0..12).map(|number| format!("c{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for name in &names {
        spaces.put(object("ConfigMap", name, json!({})));
    }
    for number in 0..100 {
        spaces.run(workflow(&format!("w{number}"), "cluster1", with_config(&names)));
    }
    for name in &names {
        reported(&mut spaces, name, "False", &["AppliedManifestFailed"]);
    }
    let errors = spaces.errors();
    assert_eq!(errors.len(), 11, "{errors:?}");
    assert_eq!(
        errors[10],
        "and 2 more objects that Workflows need are not on their clusters"
    );
}
