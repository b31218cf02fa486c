//! Workflows that wait for room, and whose specifications are not in memory.

use super::*;
use crate::hub::workflows::tests::demand::{of_template, template};

/// A Workflow of the template `train` that the webhook has held.
fn of_train(number: usize, status: &Value) -> Value {
    with(
        of_template("both", &json!({ "name": "train" })),
        json!({
            "metadata": {
                "name": format!("w{number}"), "uid": format!("u{number}"),
                "labels": { names::ARGO_COMPLETED_LABEL: "true" },
                "annotations": { names::CLAIM_ANNOTATION: r#"{"cluster":"","attempt":0,"held":true,"uid":""}"# },
                "finalizers": [names::CONTROLLER_FINALIZER],
            },
            "status": status,
        }),
    )
}

impl Fleet {
    /// A fleet that keeps one specification in memory, with three Workflows that wait, of which each
    /// asks for four processors.
    fn with_little_memory() -> (Self, Value) {
        let mut fleet = Self::new();
        fleet.policy(best(&json!({ names::WHEN_FULL_ANNOTATION: "wait" })));
        fleet.template(template("train", &json!({ "cpu": "4" })));
        fleet.cluster_is("cluster2", unreachable());
        fleet.has_free(0);
        fleet.workflow(of_train(1, &Value::Null));
        let Some(HubAction::PatchWorkflow { patch, .. }) = fleet.decided(1) else {
            panic!("it says that it waits");
        };
        let status = patch.value_at("/status").unwrap();
        fleet.hub.config.workflow_budget = 1;
        let first = fleet.next(of_train(1, status));
        fleet.learn(HubInput::workflow(Change::Apply(Box::new(read(first.clone())))));
        // As `argo submit` writes it.
        let stored = json!({ "storedTemplates": { "namespaced/train/main": { "name": "main" } } });
        fleet.workflow(of_train(2, &with(status.clone(), stored)));
        fleet.workflow(of_train(3, status));
        (fleet, first)
    }

    /// The pods of others leave so many processors of the first cluster.
    fn has_free(&mut self, cpus: u64) {
        let claim = json!({ "cpu": { "foreign": (8 - cpus).to_string() } });
        self.cluster_is(
            "cluster1",
            json!({ "status": {
                "allocatable": { "cpu": "8", "memory": "64Gi" },
                "clusterClaims": [{ "name": names::ROOM_CLAIM, "value": claim.to_string() }],
            } }),
        );
    }

    fn decided(&self, number: usize) -> Option<HubAction> {
        self.hub.decide(&subject(number), now()).action
    }

    fn is_read(&self, number: usize) -> bool {
        matches!(self.decided(number), Some(HubAction::ReadWorkflow { .. }))
    }

    fn is_claimed(&self, number: usize) -> bool {
        let action = self.decided(number);
        matches!(
            action,
            Some(HubAction::PatchWorkflow {
                purpose: Purpose::Claim,
                ..
            })
        )
    }
}

#[test]
fn one_that_waits_is_read_once_there_is_room_for_what_it_asks_for_or_its_template_changes() {
    let (mut fleet, _) = Fleet::with_little_memory();
    fleet.has_free(2);
    assert!((1..=2).all(|number| !fleet.is_read(number)));
    assert!(fleet.hub.workflows[&WorkflowKey::new("argo", "w2")].brings_status);
    fleet.template(template("train", &json!({ "cpu": "1" })));
    assert!((1..=2).all(|number| fleet.is_read(number)));
    let (mut fleet, _) = Fleet::with_little_memory();
    fleet.has_free(4);
    assert!(fleet.is_read(1));
}

#[test]
fn while_one_that_waits_is_read_nobody_takes_the_room_that_it_is_read_for() {
    let (mut fleet, first) = Fleet::with_little_memory();
    fleet.has_free(4);
    assert!(fleet.is_claimed(3), "it is in memory, and its turn, too");
    let read_first = fleet.decided(1).unwrap();
    fleet.hub.requested(&subject(1), &read_first, now());
    assert!(!fleet.is_read(2) && !fleet.is_claimed(3));
    let answer = HubInput::workflow(Change::Apply(Box::new(read(first))));
    fleet.hub.succeeded(&subject(1), answer, now());
    assert!(fleet.is_claimed(1), "{:#?}", fleet.decided(1));
}

#[test]
fn a_read_without_an_answer_keeps_no_room() {
    let (mut fleet, _) = Fleet::with_little_memory();
    fleet.has_free(4);
    let read_first = fleet.decided(1).unwrap();
    fleet.hub.requested(&subject(1), &read_first, now());
    let cluster = ClusterName::from("cluster1");
    assert_eq!(fleet.hub.loads[&cluster].runs, 1);
    let unanswered = Failure::Unreachable("timeout".to_owned());
    fleet.hub.failed(&subject(1), &read_first, &unanswered, now());
    assert_eq!(fleet.hub.loads[&cluster].runs, 0);
    assert!(fleet.is_read(1) && fleet.is_read(2) && fleet.is_claimed(3));
}
