//! Tests of whole pages.

use argosy_api::{BindingPolicy, ManagedCluster, ManifestWork, WorkStatus, Workflow};
use argosy_core::explain::{ClusterMatch, History, ObjectAttributes, QueuePlace, explain};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

fn read<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

fn policy(name: &str, cluster: &str, more: &Value) -> BindingPolicy {
    let mut clause = json!({ "objectSelectors": [{ "matchLabels": { "kubestellar.io/cluster": cluster } }] });
    let fields = more.as_object().unwrap().clone();
    clause.as_object_mut().unwrap().extend(fields);
    read(json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy", "metadata": { "name": name },
        "spec": { "clusterSelectors": [{ "matchLabels": { "name": cluster } }], "downsync": [clause] },
    }))
}

fn cluster(name: &str, available: &str) -> ManagedCluster {
    let condition = json!({
        "type": "ManagedClusterConditionAvailable", "status": available, "reason": "Told",
        "message": "as the agent says", "lastTransitionTime": "2026-11-21T09:00:00Z",
    });
    read(json!({
        "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
        "metadata": { "name": name, "labels": { "name": name } },
        "spec": {}, "status": { "conditions": [condition] },
    }))
}

/// The page of the Workflow `argo/hello` with the label of `cluster1`, with or without a claim.
fn page_of(status: &Value, claim: Option<&str>, policies: &[BindingPolicy]) -> String {
    let annotations = claim.map(|claim| json!({ "argosy.dev/claim": claim }));
    let run: Workflow = read(json!({
        "metadata": {
            "namespace": "argo", "name": "hello", "uid": "u1", "labels": { "kubestellar.io/cluster": "cluster1" },
            "annotations": annotations,
        },
        "spec": { "suspend": true }, "status": status,
    }));
    let work: ManifestWork = read(json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {
            "namespace": "cluster1", "name": "argosy-u1", "annotations": { "argosy.dev/attempt": "1" },
        },
        "spec": {},
        "status": { "conditions": [{
            "type": "Applied", "status": "True", "reason": "Created", "message": "the object is on the cluster",
            "lastTransitionTime": "2026-11-21T09:01:00Z",
        }] },
    }));
    let report: WorkStatus = read(json!({
        "metadata": {
            "namespace": "cluster1", "name": "argosy-u1", "creationTimestamp": "2026-11-21T09:02:00Z",
        },
        "status": { "phase": "Running" }, "reported": { "attempt": 1 },
    }));
    let course = match claim {
        Some(_) => History::of_workflow(&run, &[work], &[report]),
        None => History::of_workflow(&run, &[], &[]),
    };
    let course = History {
        queued_behind: QueuePlace::of(&run).map(|_| 2),
        ..course
    };
    let labels = run.metadata.labels.clone().unwrap();
    let subject = ObjectAttributes {
        group: "argoproj.io",
        resource: "workflows",
        namespace: "argo",
        name: "hello",
        labels: &labels,
        namespace_labels: None,
    };
    let clusters = [cluster("cluster1", "True"), cluster("cluster2", "Unknown")];
    page(&explain(
        subject,
        Some(&run),
        &argosy_core::explain::Referred::default(),
        policies,
        &clusters,
        None,
        course,
    ))
}

#[test]
fn a_workflow_that_runs_has_a_page_with_everything_about_it() {
    let claim = json!({ "cluster": "cluster1", "attempt": 1, "uid": "u1", "started": true }).to_string();
    let dispatched =
        json!({ "type": "Dispatched", "status": "True", "message": "Claimed: sent to cluster1, attempt 1" });
    let status = json!({ "phase": "Running", "conditions": [dispatched] });
    let wants = json!({ "wantSingletonReportedState": true, "statusCollectors": ["a"] });
    let policies = [
        policy("first", "cluster1", &wants),
        policy("second", "cluster2", &json!({})),
    ];
    let expected = "\
argo/hello runs on cluster1 (attempt 1): policy first, clause 0

POLICIES (1 of 2 select it)
  first   clause 0 selects it: the status of its cluster comes back; status collectors a
  second  clause 0: objectSelectors[0] requires kubestellar.io/cluster=cluster2; the object has
          kubestellar.io/cluster=cluster1

CLUSTERS (1 of 2 match)
  cluster1  matches first: clusterSelectors[0]
            can be reached, since 2026-11-21T09:00:00Z
  cluster2  not first: clusterSelectors[0] requires name=cluster1; the cluster has name=cluster2

CONDITIONS
  Dispatched=True  Claimed: sent to cluster1, attempt 1

MAILBOXES
  cluster1  ManifestWork argosy-u1 (attempt 1)
            Applied=True since 2026-11-21T09:01:00Z: Created: the object is on the cluster
            WorkStatus (attempt 1): Running, written 2026-11-21T09:02:00Z
";
    assert_eq!(page_of(&status, Some(&claim), &policies), expected);
}

#[test]
fn one_that_waits_for_room_is_told_how_many_come_before_it() {
    let waits = json!({ "type": "Dispatched", "status": "False", "message": "NoRoom: none has room" });
    let page = page_of(&json!({ "conditions": [waits] }), None, &[]);
    let sentence = "\n  - 2 Workflows of its namespace come before it in the queue\n";
    assert!(page.contains(sentence), "{page}");
    for (before, expected) in [
        (0, "it is the first one"),
        (1, "1 Workflow of its namespace comes"),
    ] {
        assert!(queue(before).starts_with(expected), "{}", queue(before));
    }
}

#[test]
fn what_steps_wait_for_follows_the_verdict_and_does_nothing_to_a_terminal() {
    let claim = json!({ "cluster": "cluster1", "attempt": 1, "uid": "u1", "started": true }).to_string();
    let waits = |name: &str, message: &str| json!({ "displayName": name, "type": "Pod", "phase": "Pending", "message": message });
    let mut nodes: serde_json::Map<String, Value> = (0..11)
        .map(|number| {
            (
                format!("hello-{number}"),
                waits(&format!("s{number:02}"), "ErrImagePull: \u{1b}[2Jno"),
            )
        })
        .collect();
    nodes.insert(
        "hello".to_owned(),
        json!({ "displayName": "hello", "type": "DAG", "phase": "Running" }),
    );
    let hostile = json!({ "type": "Dispatched", "status": "True", "message": "Claimed: \u{9b}2J" });
    let status = json!({ "phase": "Running", "nodes": nodes, "conditions": [hostile] });
    let page = page_of(&status, Some(&claim), &[policy("first", "cluster1", &json!({}))]);
    let lines: Vec<&str> = page.lines().collect();
    assert_eq!(lines[2], "STEPS THAT WAIT");
    assert_eq!(lines[3], "  s00  ErrImagePull: \u{fffd}[2Jno");
    assert_eq!(lines[13], "  … and 1 more");
    assert!(
        page.contains("  Dispatched=True  Claimed: \u{fffd}2J\n"),
        "{page}"
    );
    assert!(!page.contains(['\u{1b}', '\u{9b}']), "{page:?}");
}

#[test]
fn of_many_policies_that_do_not_select_it_the_nearest_ten_are_shown_and_the_rest_is_counted() {
    let far = (0..30).map(|index| {
        policy(
            &format!("far{index:02}"),
            "cluster1",
            &json!({ "apiGroup": "apps" }),
        )
    });
    let near = policy("near", "cluster9", &json!({}));
    let policies: Vec<BindingPolicy> = far.chain([near]).collect();
    let page = page_of(&Value::Null, None, &policies);
    let lines: Vec<&str> = page.lines().collect();
    assert_eq!(lines[0], "argo/hello is not sent: no policy selects it");
    assert_eq!(lines[1], "  - it is suspended, so it waits");
    assert_eq!(lines[3], "POLICIES (0 of 31 select it)");
    assert!(
        lines[4].starts_with("  near   clause 0: objectSelectors[0] requires "),
        "{page}"
    );
    assert_eq!(
        lines[6],
        "  far00  clause 0: apiGroup requires apps; the object is of argoproj.io"
    );
    assert_eq!(
        lines.last(),
        Some(&"  … and 21 more that do not select it either (-o json shows all)")
    );
    assert!(
        !page.contains("CLUSTERS"),
        "what does not matter is left out: {page}"
    );
    assert!(!page.contains("far09"), "{page}");
}

#[test]
fn a_policy_says_what_in_it_cannot_be_used_and_an_empty_one_that_it_is_empty() {
    let near = json!([{ "matchExpressions": [{ "key": "a", "operator": "Near" }] }]);
    let broken = policy("broken", "cluster1", &json!({ "objectSelectors": near }));
    let mut empty = policy("empty", "cluster1", &json!({}));
    empty.spec.downsync.clear();
    let page = page_of(&Value::Null, None, &[broken, empty]);
    assert!(
        page.contains("  broken  clause 0: objectSelectors[0] cannot be used: "),
        "{page}"
    );
    assert!(
        page.contains("\n          problem: spec.downsync[0].objectSelectors[0] cannot be used"),
        "{page}"
    );
    assert!(
        page.contains("\n  empty   spec.downsync is empty, which selects nothing\n"),
        "{page}"
    );
}

#[test]
fn no_line_is_longer_than_a_terminal_unless_a_word_is() {
    let long = "x".repeat(60);
    let labels: Value = (0..8)
        .map(|index| (format!("key{index}"), json!(long)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let policies = [policy(
        "long",
        "cluster1",
        &json!({ "objectSelectors": [{ "matchLabels": labels }, { "matchLabels": labels }] }),
    )];
    let page = page_of(&Value::Null, None, &policies);
    for line in page.lines() {
        assert!(line.chars().count() <= WIDTH, "{line}");
    }
    let mut wide = Page::default();
    wide.paragraph(2, "- ", &format!("a {} b", "y".repeat(200)));
    assert_eq!(wide.text, format!("  - a\n    {}\n    b\n", "y".repeat(200)));
}

#[test]
fn a_cluster_that_matches_says_that_it_is_cordoned_or_excluded_and_which_one_comes_first() {
    let mut answer = ClusterAnswer {
        name: "cluster1".to_owned(),
        reachability: Reachability::Reachable {
            since: "2026-11-21T09:00:00Z".parse().unwrap(),
        },
        is_cordoned: true,
        load: None,
        place: None,
        percent_with_it: None,
        room_left: None,
        excluded_by: None,
        unfit: None,
        policies: vec![ClusterMatch {
            policy: "first".to_owned(),
            selector: Some(0),
            failing: Vec::new(),
        }],
    };
    let reached = "can be reached, since 2026-11-21T09:00:00Z";
    let cordoned = "takes NO new Workflows: it is cordoned";
    assert_eq!(cluster_lines(&answer, true, false)[1..], [reached, cordoned]);
    assert_eq!(cluster_lines(&answer, false, false)[1..], [reached]);
    answer.is_cordoned = false;
    answer.excluded_by = Some("argosy.dev/run-on=cluster2".to_owned());
    let excluded = "is NOT chosen: the Workflow has the label argosy.dev/run-on=cluster2";
    assert_eq!(cluster_lines(&answer, true, false)[1..], [reached, excluded]);
    answer.excluded_by = None;
    answer.load = Some("1 run, cpu 1 of 8".to_owned());
    let first = "comes FIRST: has 1 run, cpu 1 of 8, 25 % with this Workflow";
    let little = "comes 2., with too LITTLE room: has 1 run, cpu 1 of 8, 125 % with this Workflow";
    let full = "is FULL, its administrator allows no more runs: has 1 run, cpu 1 of 8";
    let (enough, too_little) = (Some(RoomLeft::Enough), Some(RoomLeft::TooLittle));
    for (place, percent, room_left, is_claimed, expected) in [
        (Some(1), Some(25), enough, false, first),
        (Some(2), Some(125), too_little, false, little),
        (Some(1), Some(25), Some(RoomLeft::NoRun), false, full),
        (Some(2), None, enough, false, "comes 2.: has 1 run, cpu 1 of 8"),
        (
            Some(1),
            None,
            enough,
            true,
            "would come first now: has 1 run, cpu 1 of 8",
        ),
        (
            Some(2),
            None,
            enough,
            true,
            "would come 2. now: has 1 run, cpu 1 of 8",
        ),
        (None, None, None, false, "has 1 run, cpu 1 of 8"),
    ] {
        (answer.place, answer.percent_with_it, answer.room_left) = (place, percent, room_left);
        assert_eq!(cluster_lines(&answer, true, is_claimed)[1..], [reached, expected]);
    }
}
