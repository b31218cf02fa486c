//! Demand of Workflows whose templates are objects of the control cluster.

use kube::core::DynamicObject;

use super::*;
use crate::hub::template_demand::ObservedTemplate;

/// A template of the namespace `argo` with one pod that asks for this.
pub(super) fn template(name: &str, requests: &Value) -> Value {
    let pod = json!({ "name": "main", "container": { "resources": { "requests": requests } } });
    json!({
        "metadata": { "namespace": "argo", "name": name, "uid": name },
        "spec": { "entrypoint": "main", "templates": [pod] },
    })
}

/// A held Workflow that is a template.
pub(super) fn of_template(cluster: &str, reference: &Value) -> Value {
    let mut workflow = held(cluster);
    workflow["spec"] = json!({ "suspend": true, "workflowTemplateRef": reference });
    workflow
}

impl Fleet {
    pub(super) fn template(&mut self, object: Value) -> BTreeSet<HubKey> {
        let is_cluster_scoped = object["metadata"].get("namespace").is_none();
        let object: DynamicObject = read(self.next(object));
        let change = Change::Apply(Box::new(ObservedTemplate::from(object)));
        self.learn(if is_cluster_scoped {
            HubInput::ClusterTemplate(change)
        } else {
            HubInput::Template(change)
        })
    }

    fn chooses_best(&mut self) {
        let annotations = json!({ "metadata": { "annotations": { "argosy.dev/runs": "best-cluster" } } });
        let change = self.change(with(policy("both", json!({})), annotations));
        self.learn(HubInput::Policy(change));
    }

    fn has(&mut self, name: &str, allocatable: &Value) {
        let change = self.change(with(
            cluster(name),
            json!({ "status": { "allocatable": allocatable } }),
        ));
        self.learn(HubInput::Cluster(change));
    }
}

/// Cluster and demand in the claim that an object has, or that is decided for it.
fn claim_in(annotations: &Value) -> (String, Option<String>) {
    let claim: Value = serde_json::from_str(annotations["argosy.dev/claim"].as_str().unwrap()).unwrap();
    let text = |field: &str| claim.get(field).and_then(Value::as_str).map(ToOwned::to_owned);
    (text("cluster").unwrap(), text("needs"))
}

#[test]
fn a_workflow_goes_where_the_pods_of_its_template_fit_and_reserves_what_they_ask_for() {
    let gpu = json!({ "cpu": "2", "nvidia.com/gpu": 1 });
    let mut of_cluster = template("shared", &gpu);
    of_cluster["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("namespace");
    for (reference, expected) in [
        (
            json!({ "name": "train" }),
            ("cluster2", Some("cpu=2,memory=200Mi,nvidia.com/gpu=1")),
        ),
        (
            json!({ "name": "shared", "clusterScope": true }),
            ("cluster2", Some("cpu=2,memory=200Mi,nvidia.com/gpu=1")),
        ),
        // Nothing is known of a template that is missing.
        (json!({ "name": "shared" }), ("cluster1", None)),
    ] {
        let mut fleet = Fleet::new();
        fleet.chooses_best();
        fleet.has("cluster1", &json!({ "cpu": "64" }));
        fleet.has("cluster2", &json!({ "cpu": "4", "nvidia.com/gpu": "4" }));
        fleet.template(template("train", &gpu));
        fleet.template(of_cluster.clone());
        fleet.workflow(of_template("both", &reference));
        let patch = fleet.patch(Purpose::Claim);
        let (cluster, needs) = claim_in(patch.value_at("/metadata/annotations").unwrap());
        assert_eq!((cluster.as_str(), needs.as_deref()), expected);
    }
}

#[test]
fn a_workflow_goes_where_the_resources_are_that_its_user_states_and_reserves_them() {
    let mut fleet = Fleet::with_guard(true);
    fleet.chooses_best();
    fleet.has("cluster1", &json!({ "cpu": "64" }));
    fleet.has("cluster2", &json!({ "cpu": "4", "nvidia.com/gpu": "4" }));
    let stated = |cluster| {
        let requests = json!({ "argosy.dev/requests": "nvidia.com/gpu=2" });
        with(held(cluster), json!({ "metadata": { "annotations": requests } }))
    };
    let needs = Some("cpu=100m,memory=200Mi,nvidia.com/gpu=2");
    fleet.workflow(stated("both"));
    let patch = fleet.patch(Purpose::Claim);
    let (cluster, reserved) = claim_in(patch.value_at("/metadata/annotations").unwrap());
    assert_eq!((cluster.as_str(), reserved.as_deref()), ("cluster2", needs));
    // The webhook claims one that names a cluster with the same amounts.
    let born = fleet.create(stated("cluster1"));
    let (cluster, reserved) = claim_in(&born["metadata"]["annotations"]);
    assert_eq!((cluster.as_str(), reserved.as_deref()), ("cluster1", needs));
}

#[test]
fn the_webhook_claims_a_workflow_with_what_its_template_asks_for() {
    let mut fleet = Fleet::with_guard(true);
    fleet.template(template("train", &json!({ "cpu": "2" })));
    let born = fleet.create(of_template("cluster1", &json!({ "name": "train" })));
    let (cluster, needs) = claim_in(&born["metadata"]["annotations"]);
    assert_eq!(
        (cluster.as_str(), needs.as_deref()),
        ("cluster1", Some("cpu=2,memory=200Mi"))
    );
}

#[test]
fn a_workflow_that_fits_nowhere_is_decided_again_when_its_template_changes_and_a_claimed_one_is_not() {
    let mut fleet = Fleet::new();
    fleet.chooses_best();
    fleet.has("cluster1", &json!({ "cpu": "4" }));
    fleet.has("cluster2", &json!({ "cpu": "4" }));
    fleet.template(template("train", &json!({ "nvidia.com/gpu": 1 })));
    fleet.workflow(of_template("both", &json!({ "name": "train" })));
    assert_eq!(
        fleet.conditions(Purpose::Explain),
        ["Dispatched=False NoClusterFits"]
    );
    assert!(
        fleet
            .template(template("train", &json!({ "cpu": "1" })))
            .contains(&HubKey::Workflow(key()))
    );
    fleet.patch(Purpose::Claim);
    // The same template again.
    assert_eq!(
        fleet.template(template("train", &json!({ "cpu": "1" }))),
        BTreeSet::new()
    );
    fleet.workflow(claimed("both", 1));
    assert_eq!(
        fleet.template(template("train", &json!({ "cpu": "2" }))),
        BTreeSet::new()
    );
}

#[test]
fn nothing_is_decided_before_the_templates_were_listed() {
    let mut hub = WorkflowIndex::new(HubConfig {
        wds_name: "wds1".to_owned(),
        is_guarded: false,
        request_lifetime: crate::index::reconciler::REQUEST_LIFETIME,
        report_budget: crate::REPORT_BUDGET,
        workflow_budget: crate::WORKFLOW_BUDGET,
    });
    for input in [
        HubInput::workflow(Change::Reset(Vec::new())),
        HubInput::Policy(Change::Reset(Vec::new())),
        HubInput::Transform(Change::Reset(Vec::new())),
        HubInput::Namespace(Change::Reset(Vec::new())),
        HubInput::Cluster(Change::Reset(Vec::new())),
        HubInput::Lease(Change::Reset(Vec::new())),
        HubInput::work(Change::Reset(Vec::new())),
        HubInput::report(Change::Reset(Vec::new())),
    ] {
        hub.apply(input, now());
    }
    assert_eq!(hub.unlisted(), ["workflowtemplates", "clusterworkflowtemplates"]);
    hub.apply(HubInput::Template(Change::Reset(Vec::new())), now());
    assert!(!hub.is_synced());
    hub.apply(HubInput::ClusterTemplate(Change::Reset(Vec::new())), now());
    assert!(hub.is_synced());
}
