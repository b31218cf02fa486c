//! The CombinedStatus that contains the tables.

use argosy_api::{NamedStatusCombination, StatusCombinationRow, names};
use proptest::prelude::*;
use serde_json::json;

use super::{Results, row};
use crate::hub::objects::collect::{Subject, combined_status, label_value};

const DEPLOYMENT: Subject<'static> = Subject {
    group: "apps",
    version: "v1",
    kind: "Deployment",
    resource: "deployments",
    namespace: Some("shop"),
    name: "front",
    uid: "uid-1",
};

fn table(name: &str, rows: Vec<StatusCombinationRow>) -> Results {
    Results {
        combination: NamedStatusCombination {
            name: name.to_owned(),
            rows,
            ..NamedStatusCombination::default()
        },
        ..Results::default()
    }
}

#[test]
fn name_place_labels_and_owner_are_those_of_kubestellar() {
    let tables = vec![table("b", Vec::new()), table("a", Vec::new())];
    let written = serde_json::to_value(combined_status(&DEPLOYMENT, "policy", "uid-2", tables)).unwrap();
    let expected = json!({
        "apiVersion": "control.kubestellar.io/v1alpha1",
        "kind": "CombinedStatus",
        "metadata": {
            "name": "uid-1.uid-2",
            "namespace": "shop",
            "labels": {
                "status.kubestellar.io/api-group": "apps",
                "status.kubestellar.io/resource": "deployments",
                "status.kubestellar.io/namespace": "shop",
                "status.kubestellar.io/name": "front",
                "status.kubestellar.io/binding-policy": "policy",
            },
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "Deployment", "name": "front", "uid": "uid-1" }],
        },
        "results": [{ "name": "a", "columnNames": [] }, { "name": "b", "columnNames": [] }],
    });
    assert_eq!(written, expected);
}

#[test]
fn that_of_a_cluster_scoped_object_lies_in_the_namespace_for_reports() {
    let role = Subject {
        group: "",
        kind: "Node",
        resource: "nodes",
        namespace: None,
        name: "system:node:one",
        ..DEPLOYMENT
    };
    let metadata = combined_status(&role, "policy", "uid-2", Vec::new()).metadata;
    assert_eq!(metadata.namespace.as_deref(), Some("kubestellar-report"));
    assert_eq!(metadata.owner_references.unwrap()[0].api_version, "v1");
    let (labels, annotations) = (metadata.labels.unwrap(), metadata.annotations.unwrap());
    assert_eq!(
        (
            &*labels[names::COMBINED_GROUP_LABEL],
            &*labels[names::COMBINED_NAMESPACE_LABEL]
        ),
        ("", "")
    );
    assert!(labels[names::COMBINED_NAME_LABEL].starts_with("system-node-one-"));
    assert_eq!(annotations[names::COMBINED_NAME_LABEL], "system:node:one");
    assert_eq!(annotations.len(), 1);
}

#[test]
fn what_is_left_out_is_counted_in_an_annotation() {
    let whole = table("whole", vec![row([json!(1)])]);
    let limited = Results {
        rows_left_out: 7,
        ..table("limited", vec![row([json!(1)])])
    };
    let large = |name: &str| table(name, (0..70).map(|_| row([json!("x".repeat(9_000))])).collect());
    let tables = vec![large("large-1"), limited, whole, large("large-2")];
    let combined = combined_status(&DEPLOYMENT, "policy", "uid-2", tables);
    let annotation = &combined.metadata.annotations.as_ref().unwrap()[names::LEFT_OUT_ANNOTATION];
    let counts: serde_json::Value = serde_json::from_str(annotation).unwrap();
    let expected = json!({ "large-2": { "rows": 70, "errors": 0 }, "limited": { "rows": 7, "errors": 0 } });
    assert_eq!(counts, expected);
    let rows: Vec<usize> = combined.results.iter().map(|table| table.rows.len()).collect();
    assert_eq!(rows, [70, 0, 1, 1]);
    assert!(serde_json::to_string(&combined).unwrap().len() < 1_200_000);
}

#[test]
fn what_is_a_label_value_stays_as_it_is() {
    for text in ["", "a", "A.b_c-9", &"x".repeat(63)] {
        assert_eq!(label_value(text), text);
    }
    let long = "policy".repeat(20);
    assert_eq!(label_value(&long), label_value(&long));
    assert_ne!(label_value(&long), label_value(&format!("{long}s")));
    assert!(label_value(&long).starts_with("policypolicy"));
}

proptest! {
    #[test]
    fn every_text_becomes_a_legal_label_value(text in ".{0,100}") {
        let value = label_value(&text);
        let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        prop_assert!(value.len() <= 63 && value.bytes().all(is_legal));
        let edges = [value.bytes().next(), value.bytes().last()];
        prop_assert!(edges.into_iter().flatten().all(|byte| byte.is_ascii_alphanumeric()));
    }
}
