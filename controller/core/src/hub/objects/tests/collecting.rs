//! StatusCollectors, and the CombinedStatus of each object and policy that names some.

use super::*;

fn collecting(name: &str, clusters: &Value) -> Value {
    wanting(policy(name, clusters), json!({ "statusCollectors": ["ready"] }))
}

impl Spaces {
    fn collector(&mut self, select: &str) {
        let generation = self.version + 1;
        let collector = self.next(json!({
            "metadata": { "name": "ready", "uid": "collector", "generation": generation },
            "spec": { "select": [
                { "name": "cluster", "def": "inventory.name" }, { "name": "ready", "def": select },
            ], "limit": 20 },
        }));
        self.collectors.insert("ready".to_owned(), collector.clone());
        self.learn(DownsyncInput::Collector(Change::Apply(read(collector))));
    }

    /// The cells of the only table, such as `cluster1 2`.
    fn table(&self, name: &str) -> Vec<String> {
        let rows = self.combined[name]["results"][0]["rows"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let cell = |row: &Value, index: usize| {
            let cell = &row["columns"][index];
            let text = cell["string"].as_str().or(cell["float"].as_str());
            text.unwrap_or("-").to_owned()
        };
        rows.iter()
            .map(|row| format!("{} {}", cell(row, 0), cell(row, 1)))
            .collect()
    }
}

const NAME: &str = "d1.policy-p";

fn fleet() -> Spaces {
    let mut spaces = Spaces::new();
    spaces.collector("returned.status.readyReplicas");
    spaces.policy(collecting("p", &json!({ "fleet": "a" })));
    spaces.write(&deployments(), web());
    spaces
}

#[test]
fn each_cluster_that_the_object_goes_to_has_a_row_that_follows_its_reports() {
    let mut spaces = fleet();
    assert_eq!(spaces.table(NAME).len(), 2);
    spaces.report("cluster1", "d1", &json!({ "readyReplicas": 2 }));
    assert_eq!(spaces.table(NAME)[0], "cluster1 2");
    // KubeStellar, too, writes the error into the cell of a cluster that has reported nothing.
    assert!(spaces.table(NAME)[1].starts_with("cluster2 found no matching overload"));
    spaces.cluster("cluster2", json!({ "fleet": "b" }));
    assert_eq!(spaces.table(NAME), ["cluster1 2"]);
    assert_eq!(
        spaces.combined[NAME]["metadata"]["labels"]["status.kubestellar.io/binding-policy"],
        "p"
    );
    assert_eq!(
        spaces.work("cluster1", "d1")["metadata"]["annotations"]["argosy.dev/want-status"],
        "true"
    );
}

#[test]
fn nothing_is_made_anew_of_the_same() {
    let mut spaces = fleet();
    spaces.report("cluster1", "d1", &json!({ "readyReplicas": 2 }));
    let writes = spaces.log.len();
    spaces.write(
        &deployments(),
        with(web(), json!({ "status": { "replicas": 1 } })),
    );
    spaces.report("cluster1", "d1", &json!({ "readyReplicas": 2 }));
    let known = spaces.index.combined.len();
    let made: Vec<_> = spaces.log[writes..]
        .iter()
        .filter(|line| line.contains("combinedstatus"))
        .collect();
    assert_eq!((known, made.len()), (1, 0), "{made:?}");
}

#[test]
fn a_changed_collector_makes_the_tables_anew_and_one_that_somebody_edits_is_put_back() {
    let mut spaces = fleet();
    spaces.report("cluster1", "d1", &json!({ "readyReplicas": 2, "replicas": 3 }));
    spaces.collector("returned.status.replicas");
    assert_eq!(spaces.table(NAME)[0], "cluster1 3");
    let mut edited = spaces.next(spaces.combined[NAME].clone());
    edited["results"] = json!([]);
    spaces.combined.insert(NAME.to_owned(), edited.clone());
    spaces.learn(DownsyncInput::Combined(Change::Apply(read(edited))));
    assert_eq!(spaces.table(NAME)[0], "cluster1 3");
}

#[test]
fn it_goes_when_the_policy_no_longer_asks_or_is_gone_or_no_longer_selects_the_object() {
    for change in ["collectors", "policy", "label"] {
        let mut spaces = fleet();
        assert_eq!(spaces.combined.len(), 1);
        match change {
            "collectors" => spaces.policy(policy("p", &json!({ "fleet": "a" }))),
            "policy" => spaces.delete_policy("p"),
            _ => spaces.write(
                &deployments(),
                with(web(), json!({ "metadata": { "labels": { "app": "db" } } })),
            ),
        }
        assert!(spaces.combined.is_empty(), "{change}");
    }
}

#[test]
fn a_collector_that_is_missing_or_cannot_be_used_is_said() {
    let mut spaces = Spaces::new();
    spaces.policy(collecting("p", &json!({ "fleet": "a" })));
    spaces.write(&deployments(), web());
    assert_eq!(
        spaces.condition("p", "StatusCollectorsAvailable"),
        "False ReconcileError"
    );
    assert!(spaces.combined.is_empty());
    spaces.collector("returned.status.(");
    spaces.pass(2);
    assert_eq!(
        spaces.condition("p", "StatusCollectorsAvailable"),
        "False ReconcileError"
    );
    assert_eq!(
        spaces.collectors["ready"]["status"]["errors"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    spaces.collector("returned.status.readyReplicas");
    spaces.pass(2);
    assert_eq!(
        spaces.condition("p", "StatusCollectorsAvailable"),
        "True ReconcileSuccess"
    );
    assert_eq!(spaces.collectors["ready"]["status"]["errors"], Value::Null);
    assert_eq!(spaces.combined.len(), 1);
}

/// A fleet with a Workflow that runs on `cluster2`, and a collector of `select`.
fn running(select: &str) -> Spaces {
    let runs = kind("argoproj.io", "workflows", "Workflow", true, false);
    let mut spaces = Spaces::new();
    spaces.collector(select);
    spaces.learn(DownsyncInput::Kinds(vec![runs.clone()]));
    spaces.policy(collecting("p", &json!({ "fleet": "a" })));
    let labels = json!({ "app": "web", "argosy.dev/cluster": "cluster2" });
    let workflow = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
        "metadata": { "namespace": "argo", "name": "w", "uid": "w1", "labels": labels },
    });
    spaces.write(&runs, workflow);
    spaces
}

impl Spaces {
    /// The agent of `cluster2` reports on the Workflow.
    fn run_report(&mut self, status: &Value, are_nodes_packed: bool) {
        let mut report = work_status("cluster2", "w1", status);
        report["metadata"]["labels"] = json!({ "argosy.dev/origin-uid": "w1" });
        report["reported"] = json!({ "attempt": 1, "areNodesPacked": are_nodes_packed });
        let report = self.next(report);
        self.learn(DownsyncInput::run_report(Change::Apply(read(report))));
    }
}

#[test]
fn of_a_workflow_with_packed_nodes_the_row_is_made_of_its_nodes() {
    let mut spaces = running("returned.status.nodes.size()");
    let nodes: serde_json::Map<_, _> = (0..200)
        .map(|number| (format!("n{number}"), json!({ "displayName": "x".repeat(100) })))
        .collect();
    let mut status = json!({ "phase": "Running", "nodes": nodes });
    assert!(crate::model::control::transit::pack(&mut status));
    spaces.run_report(&status, true);
    assert_eq!(spaces.table("w1.policy-p"), ["cluster2 200"]);
    status["compressedNodes"] = json!("H4sI");
    spaces.run_report(&status, true);
    let row = &spaces.table("w1.policy-p")[0];
    assert!(row.starts_with("cluster2 found no matching overload"), "{row}");
}

#[test]
fn of_a_workflow_the_cluster_that_runs_it_has_a_row() {
    let mut spaces = running("returned.status.phase");
    assert!(spaces.index.wanted_kinds().run_reports);
    spaces.run_report(&json!({ "phase": "Running" }), false);
    assert_eq!(spaces.table("w1.policy-p"), ["cluster2 Running"]);
    spaces.policy(policy("p", &json!({ "fleet": "a" })));
    assert!(!spaces.index.wanted_kinds().run_reports);
    spaces.report("cluster1", "d1", &json!({ "readyReplicas": 2 }));
    spaces.learn(DownsyncInput::RunReportsUnwatched);
    let kept: Vec<_> = spaces.index.reports.keys().map(OriginUid::as_str).collect();
    assert_eq!(kept, ["d1"], "reports of Workflows are forgotten, and no others");
}

#[test]
fn a_table_whose_report_was_dropped_for_lack_of_memory_reads_it_in_the_lane_of_its_cluster() {
    let mut spaces = fleet();
    spaces.report("cluster1", "d1", &json!({ "readyReplicas": 2 }));
    let (origin, cluster) = (OriginUid::from("d1"), ClusterName::from("cluster1"));
    let reports = spaces.index.reports.get_mut(&origin).unwrap();
    reports.get_mut(&cluster).unwrap().shed();
    let policy = spaces.policies["p"]["metadata"]["uid"]
        .as_str()
        .unwrap()
        .to_owned();
    let read = spaces.index.decide_combined(&origin, &policy).unwrap();
    assert!(matches!(read, DownsyncAction::ReadReport { .. }), "{read}");
    assert_eq!(crate::Action::lane(&read), Some("cluster1"));
}
