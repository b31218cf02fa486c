//! An explanation says of policies, clusters and the choice among them what the controller's compiled table says.

use std::sync::Arc;

use argosy_api::names;
use proptest::prelude::*;

use super::{super::labels::is_empty, *};
use crate::{
    ClusterName, WorkflowKey,
    placement::{Placement, Rules, Table},
};

/// The controller's answer for a Workflow `namespace/name`.
fn placed(
    key: &WorkflowKey,
    own: &Labels,
    of_namespace: Option<&Labels>,
    policies: &[BindingPolicy],
    clusters: &[ManagedCluster],
) -> Placement {
    let rules = policies.iter().map(|policy| {
        let rules = Rules::compile(policy, &mut Vec::new());
        (policy.name_any(), Arc::new(rules))
    });
    let labels = clusters
        .iter()
        .map(|cluster| (cluster_name(cluster), Arc::new(cluster.labels().clone())));
    let unreachable = clusters.iter().filter(|cluster| {
        let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
        conditions.clone().any(|known| known.status != "True")
    });
    let namespaces: std::collections::BTreeMap<String, Arc<Labels>> = of_namespace
        .map(|labels| (key.namespace.to_string(), Arc::new(labels.clone())))
        .into_iter()
        .collect();
    Table::new(rules, labels, unreachable.map(cluster_name).collect())
        .with_namespaces(&namespaces)
        .place(key, own)
}

fn cluster_name(cluster: &ManagedCluster) -> ClusterName {
    cluster.name_any().as_str().into()
}

fn drawn_labels() -> impl Strategy<Value = Labels> {
    prop::collection::btree_map("[ab]", "[xy]", 0..3)
}

/// Those of a Workflow, which may be for one cluster only.
fn own_labels() -> impl Strategy<Value = Labels> {
    let only = prop::option::weighted(0.2, "c[0-4]");
    (drawn_labels(), only).prop_map(|(mut labels, only)| {
        labels.extend(only.map(|only| (names::RUN_ON_LABEL.to_owned(), only)));
        labels
    })
}

fn selector() -> impl Strategy<Value = Value> {
    let operator = prop::sample::select(vec!["In", "NotIn", "Exists", "DoesNotExist", "Near"]);
    let values = prop::option::of(prop::collection::vec("[xy]", 0..3));
    let requirement = (operator, "[ab]", values).prop_map(|(operator, key, values)| {
        let mut requirement = json!({ "key": key, "operator": operator });
        if let Some(values) = values {
            requirement["values"] = json!(values);
        }
        requirement
    });
    let expressions = prop::collection::vec(requirement, 0..2);
    (drawn_labels(), expressions)
        .prop_map(|(labels, expressions)| json!({ "matchLabels": labels, "matchExpressions": expressions }))
}

fn clause() -> impl Strategy<Value = Value> {
    let group = prop::sample::select(vec![
        json!(null),
        json!(""),
        json!("argoproj.io"),
        json!("argoproj.io"),
    ]);
    let names = |pattern: &'static str| prop::collection::vec(pattern, 0..3);
    (
        group,
        prop::sample::subsequence(vec!["pods", "workflows", "*"], 0..3),
        names("[nm*]"),
        names("[vw*]"),
        prop::collection::vec(selector(), 0..3),
        prop::collection::vec(selector(), 0..2),
    )
        .prop_map(|(group, resources, namespaces, names, objects, of_namespaces)| {
            json!({
                "apiGroup": group, "resources": resources, "namespaces": namespaces, "objectNames": names,
                "objectSelectors": objects, "namespaceSelectors": of_namespaces,
            })
        })
}

/// A policy without its name.
fn drawn_policy() -> impl Strategy<Value = BindingPolicy> {
    let clusters = prop::collection::vec(selector(), 0..3);
    let reruns = prop::sample::select(vec![
        json!({}),
        json!({}),
        json!({ names::ON_LOST_ANNOTATION: "rerun" }),
        json!({ names::RUNS_ANNOTATION: names::EVERY_CLUSTER }),
    ]);
    (clusters, prop::collection::vec(clause(), 0..3), reruns).prop_map(|(clusters, clauses, annotations)| {
        let mut policy = policy("", &json!(clusters), &json!(clauses));
        policy.metadata.annotations = read(annotations);
        policy
    })
}

fn drawn_policies() -> impl Strategy<Value = Vec<BindingPolicy>> {
    prop::collection::vec(drawn_policy(), 0..4).prop_map(|mut policies| {
        for (index, policy) in policies.iter_mut().enumerate() {
            policy.metadata.name = Some(format!("p{index}"));
        }
        policies
    })
}

fn drawn_clusters() -> impl Strategy<Value = Vec<ManagedCluster>> {
    let one = (drawn_labels(), prop::sample::select(vec!["True", "Unknown"]));
    prop::collection::vec(one, 0..4).prop_map(|drawn| {
        let clusters = drawn.into_iter().enumerate();
        let made = clusters.map(|(index, (labels, available))| {
            let mut cluster = cluster(&format!("c{index}"), available);
            cluster.metadata.labels = Some(labels);
            cluster
        });
        made.collect()
    })
}

/// A Workflow that may be sent.
fn suspended(own: &Labels) -> Workflow {
    read(json!({
        "metadata": { "namespace": "n", "name": "w", "uid": "u1", "labels": own }, "spec": { "suspend": true },
    }))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_explained_is_what_the_controller_does(
        own in own_labels(),
        of_namespace in drawn_labels(),
        policies in drawn_policies(),
        clusters in drawn_clusters(),
    ) {
        let subject = Subject { namespace: "n", ..run_subject(&own, Some(&of_namespace)) };
        let run = suspended(&own);
        let told = explain(subject, Some(&run), &policies, &clusters, Course::default());
        let placed = placed(&WorkflowKey::new("n", "w"), &own, Some(&of_namespace), &policies, &clusters);

        let selecting = told.policies.iter().filter(|policy| policy.selects);
        let selecting: BTreeSet<String> = selecting.map(|policy| policy.name.clone()).collect();
        prop_assert_eq!(&selecting, &placed.policies);
        for policy in &told.policies {
            prop_assert_eq!(policy.selects, policy.selecting().next().is_some());
            for clause in policy.clauses.iter().filter_map(|clause| clause.failing.as_ref()) {
                prop_assert!(!clause.sentences.is_empty(), "{clause:?} gives no reason");
            }
        }

        let matched = told.clusters.iter().filter(|cluster| cluster.is_matched());
        let matched: BTreeSet<ClusterName> = matched.map(|cluster| cluster.name.as_str().into()).collect();
        let may_go = |cluster: &&ClusterName| own.get(names::RUN_ON_LABEL).is_none_or(|only| only == cluster.as_str());
        let matched: BTreeSet<ClusterName> = matched.iter().filter(may_go).cloned().collect();
        prop_assert_eq!(&matched, &placed.clusters);
        for cluster in told.clusters.iter().flat_map(|cluster| &cluster.policies) {
            prop_assert_eq!(cluster.selector.is_none(), !cluster.failing.is_empty());
        }

        let sentence = &told.verdict.sentence;
        if let Some(cluster) = placed.choice() {
            prop_assert_eq!(told.verdict.standing, Standing::WillBeSent);
            let begin = if cluster.as_str() == names::EVERY_CLUSTER {
                "n/w will run on every cluster that matches: ".to_owned()
            } else {
                format!("n/w will be sent to {cluster}: ")
            };
            prop_assert!(sentence.starts_with(&begin), "{sentence}");
        } else {
            prop_assert_eq!(told.verdict.standing, Standing::NotSent, "{}", sentence);
        }
    }

    /// Without the labels of its namespace. An empty selector is left out: what it does then is KubeStellar's rule for objects
    /// without namespace, and has a table.
    #[test]
    fn labels_of_a_namespace_that_are_not_known_match_no_selector(own in drawn_labels(), policies in drawn_policies()) {
        let has_empty = |policy: &BindingPolicy| {
            let mut clauses = policy.spec.downsync.iter().flat_map(|clause| &clause.namespace_selectors);
            clauses.any(is_empty)
        };
        prop_assume!(!policies.iter().any(has_empty));
        let subject = Subject { namespace: "n", ..run_subject(&own, None) };
        let told = explain(subject, None, &policies, &[], Course::default());
        let selecting = told.policies.iter().filter(|policy| policy.selects);
        let selecting: BTreeSet<String> = selecting.map(|policy| policy.name.clone()).collect();
        let placed = placed(&WorkflowKey::new("n", "w"), &own, None, &policies, &[]);
        prop_assert_eq!(selecting, placed.policies);
    }
}
