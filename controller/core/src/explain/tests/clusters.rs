//! The clusters that match, the reasons why others do not, and their reachability.

use super::*;

fn answer(cluster: &ManagedCluster, selectors: &Value) -> ClusterAnswer {
    let policy = policy("p", selectors, &json!([{ "resources": ["*"] }]));
    ClusterAnswer::new(cluster, &[&CompiledPolicy::new(&policy)])
}

#[test]
fn a_cluster_is_matched_by_the_first_selector_that_does() {
    let selectors = json!([{ "matchLabels": { "name": "other" } }, { "matchLabels": { "name": "c1" } }, {}]);
    let answer = answer(&cluster("c1", "True"), &selectors);
    assert_eq!(answer.policies[0].selector, Some(1));
    assert_eq!(answer.policies[0].failing, [] as [String; 0]);
    assert!(answer.is_matched() && answer.is_matched_by("p") && !answer.is_matched_by("q"));
}

#[test]
fn a_cluster_that_does_not_match_says_why_for_each_selector() {
    let selectors = json!([
        { "matchLabels": { "name": "other" } },
        { "matchExpressions": [{ "key": "region", "operator": "In", "values": ["eu", "us"] }] },
    ]);
    let answer = answer(&cluster("c1", "True"), &selectors);
    assert!(!answer.is_matched());
    assert_eq!(
        answer.policies[0].failing,
        [
            "clusterSelectors[0] requires name=other; the cluster has name=c1",
            "clusterSelectors[1] requires region in (eu, us); the cluster has no such label",
        ]
    );
}

#[test]
fn a_policy_without_cluster_selectors_matches_no_cluster_and_says_so() {
    let answer = answer(&cluster("c1", "True"), &json!([]));
    assert_eq!(
        answer.policies[0].failing,
        ["clusterSelectors is empty, which matches no cluster"]
    );
}

#[test]
fn a_cluster_says_since_when_it_can_or_cannot_be_reached() {
    let since = "2026-11-21T09:00:00Z".parse().unwrap();
    let state = |available| answer(&cluster("c1", available), &json!([{}]));
    assert_eq!(state("True").reachability, Reachability::Reachable { since });
    let unreachable = Reachability::Unreachable {
        since,
        reason: "Told".to_owned(),
        message: "as the agent says".to_owned(),
    };
    for available in ["False", "Unknown"] {
        assert_eq!(state(available).reachability, unreachable);
        assert!(!state(available).is_reachable());
    }
    let mut unknown = cluster("c1", "True");
    unknown.status = None;
    let answer = answer(&unknown, &json!([{}]));
    assert_eq!(answer.reachability, Reachability::NotKnown);
    assert!(
        !answer.is_reachable(),
        "as the controller takes it for a choice among several"
    );
}

#[test]
fn the_schema_of_whether_a_cluster_can_be_reached_has_what_is_printed() {
    let schema = schemars::schema_for!(Reachability);
    let properties = schema.get("properties").unwrap();
    let since = "2026-11-21T09:00:00Z".parse().unwrap();
    let unreachable = Reachability::Unreachable {
        since,
        reason: "Told".to_owned(),
        message: "as the agent says".to_owned(),
    };
    let mut states = Vec::new();
    let mut fields = BTreeSet::new();
    for reachability in [
        Reachability::Reachable { since },
        unreachable,
        Reachability::NotKnown,
    ] {
        let printed = serde_json::to_value(reachability).unwrap();
        states.push(printed["state"].clone());
        fields.extend(printed.as_object().unwrap().keys().cloned());
    }
    assert_eq!(properties["state"]["enum"], Value::Array(states));
    let told: BTreeSet<String> = properties.as_object().unwrap().keys().cloned().collect();
    assert_eq!(told, fields);
}

/// The clusters of a Workflow with these labels and this claim, of which a policy chooses the best.
fn chosen_for(own: &Labels, claim: Option<&Value>) -> Vec<ClusterAnswer> {
    chosen_among(["cpu=8,memory=16Gi"; 2], own, claim)
}

/// The same with this room of each of the clusters.
fn chosen_among(rooms: [&str; 2], own: &Labels, claim: Option<&Value>) -> Vec<ClusterAnswer> {
    let mut policy = for_clusters("best", &["c1", "c2"]);
    policy.metadata.annotations = Some(labels(&[("argosy.dev/runs", "best-cluster")]));
    let [first, second] = rooms;
    let clusters = [("c1", first), ("c2", second)].map(|(name, room)| {
        let mut cluster = cluster(name, "True");
        let annotations = [("argosy.dev/room".to_owned(), room.to_owned())];
        cluster.metadata.annotations = Some(annotations.into());
        cluster
    });
    let container = json!({ "resources": { "requests": { "cpu": "2", "memory": "1Gi" } } });
    let run: Workflow = read(json!({
        "metadata": {
            "namespace": "argo", "name": "w", "uid": "u1", "labels": own,
            "annotations": claim.map(|claim| json!({ "argosy.dev/claim": claim.to_string() })),
        },
        "spec": {
            "suspend": true, "entrypoint": "main", "templates": [{ "name": "main", "container": container }],
        },
    }));
    let mut unfinished = Unfinished::default();
    unfinished.count(&run.metadata);
    let explanation = explain(
        run_subject(own, None),
        Some(&run),
        &Referred::default(),
        &[policy],
        &clusters,
        Some(&unfinished),
        History::of_workflow(&run, &[], &[]),
    );
    explanation.clusters
}

#[test]
fn the_cluster_that_would_be_chosen_comes_first_and_one_that_cannot_run_it_has_no_place() {
    for (rooms, expected) in [
        (["cpu=8"; 2], [("c1", Some(1)), ("c2", Some(2))]),
        (["cpu=8", "cpu=16"], [("c2", Some(1)), ("c1", Some(2))]),
        (["cpu=1", "cpu=8"], [("c2", Some(1)), ("c1", None)]),
    ] {
        let clusters = chosen_among(rooms, &Labels::new(), None);
        let places = clusters
            .iter()
            .map(|cluster| (cluster.name.as_str(), cluster.place));
        assert_eq!(places.collect::<Vec<_>>(), expected, "{rooms:?}");
    }
}

#[test]
fn a_cluster_tells_its_room_for_the_workflow_whether_it_is_claimed_or_not() {
    let claim = json!({ "cluster": "c1", "attempt": 1, "uid": "u1", "needs": "cpu=2,memory=1Gi" });
    let capped = ["cpu=8,runs=0", "cpu=8"];
    let (full, enough) = (Some(RoomLeft::NoRun), Some(RoomLeft::Enough));
    for claim in [None, Some(&claim)] {
        let clusters = chosen_among(capped, &Labels::new(), claim);
        let left = clusters
            .iter()
            .map(|cluster| (cluster.name.as_str(), cluster.room_left));
        assert_eq!(
            left.collect::<Vec<_>>(),
            [("c2", enough), ("c1", full)],
            "{claim:?}"
        );
    }
}

#[test]
fn the_reservation_of_a_claimed_workflow_counts_once() {
    let percents = |claim: Option<&Value>| {
        let clusters = chosen_for(&Labels::new(), claim).into_iter();
        let percents: BTreeMap<String, Option<u64>> = clusters
            .map(|cluster| (cluster.name, cluster.percent_with_it))
            .collect();
        [percents["c1"], percents["c2"]]
    };
    let claim = json!({ "cluster": "c1", "attempt": 1, "uid": "u1", "needs": "cpu=2,memory=1Gi" });
    for claim in [None, Some(&claim)] {
        assert_eq!(percents(claim), [Some(25), Some(25)], "{claim:?}");
    }
}

#[test]
fn a_cluster_that_a_label_of_the_workflow_excludes_names_the_label() {
    for (label, expected) in [
        ("argosy.dev/run-on", "argosy.dev/run-on=c2"),
        ("kubestellar.io/cluster", "kubestellar.io/cluster=c2"),
    ] {
        let clusters = chosen_for(&labels(&[(label, "c2")]), None).into_iter();
        let excluded: BTreeMap<String, Option<String>> = clusters
            .map(|cluster| (cluster.name, cluster.excluded_by))
            .collect();
        assert_eq!(excluded["c1"].as_deref(), Some(expected));
        assert_eq!(excluded["c2"], None);
    }
    let clusters = chosen_for(&Labels::new(), None);
    assert!(clusters.iter().all(|cluster| cluster.excluded_by.is_none()));
}
