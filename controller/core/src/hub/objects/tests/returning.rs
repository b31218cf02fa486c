//! The status that comes back to an object of the WDS.

use super::*;

fn singleton(name: &str, clusters: &Value) -> Value {
    wanting(
        policy(name, clusters),
        json!({ "wantSingletonReportedState": true }),
    )
}

fn multi(name: &str, clusters: &Value) -> Value {
    wanting(
        policy(name, clusters),
        json!({ "wantMultiWECReportedState": true }),
    )
}

fn shown(spaces: &Spaces) -> (Value, Vec<String>) {
    let object = &spaces.objects["d1"];
    let labels = object["metadata"]["labels"].as_object().unwrap().keys();
    let marks = labels.filter_map(|label| label.strip_prefix("managed-by.kubestellar.io/"));
    (object["status"].clone(), marks.map(ToOwned::to_owned).collect())
}

fn status(ready: i64) -> Value {
    json!({ "replicas": 2, "readyReplicas": ready })
}

#[test]
fn the_status_of_the_one_cluster_comes_back_with_its_label_and_follows() {
    let mut spaces = Spaces::new();
    spaces.policy(singleton("p", &json!({ "name": "cluster1" })));
    spaces.write(&deployments(), web());
    assert_eq!(shown(&spaces), (Value::Null, vec![]));
    spaces.report("cluster1", "d1", &status(1));
    assert_eq!(shown(&spaces), (status(1), vec!["singletonstatus".to_owned()]));
    spaces.report("cluster1", "d1", &status(2));
    assert_eq!(shown(&spaces).0, status(2));
    assert_eq!(
        spaces.manifest("cluster1", "d1")["metadata"]["labels"],
        json!({ "app": "web", "argosy.dev/object-uid": "d1" })
    );
}

#[test]
fn a_status_that_somebody_has_written_over_is_put_back() {
    let mut spaces = Spaces::new();
    spaces.policy(singleton("p", &json!({ "name": "cluster1" })));
    spaces.write(&deployments(), web());
    spaces.report("cluster1", "d1", &status(2));
    let over = with(
        spaces.objects["d1"].clone(),
        json!({ "status": { "readyReplicas": 7 } }),
    );
    spaces.write(&deployments(), over);
    assert_eq!(shown(&spaces).0, status(2));
}

#[test]
fn it_is_taken_back_when_nobody_wants_it_or_there_is_not_one_cluster() {
    for change in ["flag", "policy", "second cluster", "no cluster", "report"] {
        let mut spaces = Spaces::new();
        spaces.policy(singleton("p", &json!({ "name": "cluster1" })));
        spaces.write(&deployments(), web());
        spaces.report("cluster1", "d1", &status(2));
        match change {
            "flag" => spaces.policy(policy("p", &json!({ "name": "cluster1" }))),
            "policy" => spaces.delete_policy("p"),
            "second cluster" => spaces.policy(singleton("p", &json!({ "fleet": "a" }))),
            "no cluster" => spaces.policy(singleton("p", &json!({ "name": "cluster7" }))),
            _ => spaces.learn(DownsyncInput::report(Change::Reset(Vec::new()))),
        }
        assert_eq!(shown(&spaces), (json!({}), vec![]), "{change}");
    }
}

#[test]
fn a_status_that_is_not_ours_is_left_alone() {
    let mut spaces = Spaces::new();
    spaces.policy(policy("p", &json!({ "name": "cluster1" })));
    spaces.write(&deployments(), with(web(), json!({ "status": status(1) })));
    assert_eq!(shown(&spaces), (status(1), vec![]));
}

#[test]
fn a_cluster_that_reports_no_status_changes_nothing() {
    let mut spaces = Spaces::new();
    spaces.policy(singleton("p", &json!({ "name": "cluster1" })));
    spaces.write(&deployments(), web());
    spaces.report("cluster1", "d1", &status(2));
    spaces.report("cluster1", "d1", &Value::Null);
    assert_eq!(shown(&spaces).0, status(2));
}

#[test]
fn only_policies_that_ask_for_a_status_count() {
    let mut spaces = Spaces::new();
    spaces.policy(singleton("p", &json!({ "name": "cluster1" })));
    spaces.policy(policy("q", &json!({ "fleet": "a" })));
    spaces.write(&deployments(), web());
    assert_eq!(spaces.sent(), ["cluster1/d1", "cluster2/d1"]);
    spaces.report("cluster1", "d1", &status(2));
    assert_eq!(shown(&spaces).0, status(2));
}

#[test]
fn several_clusters_for_a_singleton_are_said_on_the_policy() {
    let mut spaces = Spaces::new();
    spaces.policy(singleton("p", &json!({ "fleet": "a" })));
    spaces.write(&deployments(), web());
    spaces.report("cluster1", "d1", &status(2));
    spaces.pass(2);
    assert_eq!(shown(&spaces), (Value::Null, vec![]));
    let said = spaces.status("p")["errors"][0].as_str().unwrap().to_owned();
    assert!(
        said.starts_with("Singleton reported status return is requested but"),
        "{said}"
    );
    assert!(said.contains(r#""NumWECs":2"#), "{said}");
}

#[test]
fn an_aggregate_comes_back_where_it_is_asked_for_and_one_reporting_cluster_is_shown_as_it_is() {
    let mut spaces = Spaces::new();
    spaces.policy(multi("p", &json!({ "fleet": "a" })));
    spaces.write(&deployments(), web());
    spaces.report("cluster1", "d1", &status(1));
    assert_eq!(shown(&spaces), (status(1), vec!["singletonstatus".to_owned()]));
    spaces.report("cluster2", "d1", &status(2));
    let (aggregate, marks) = shown(&spaces);
    assert_eq!(
        (&aggregate["replicas"], &aggregate["readyReplicas"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(marks, ["multiwecstatus"]);
}

#[test]
fn a_kind_without_status_subresource_gets_label_and_status_in_one_write() {
    let things = kind("example.com", "things", "Thing", true, false);
    let mut spaces = Spaces::new();
    spaces.learn(DownsyncInput::Kinds(vec![things.clone()]));
    spaces.policy(singleton("p", &json!({ "name": "cluster1" })));
    let thing = json!({
        "apiVersion": "example.com/v1", "kind": "Thing",
        "metadata": { "namespace": "team", "name": "web", "uid": "d1", "labels": { "app": "web" } },
    });
    spaces.write(&things, thing);
    let writes = spaces.log.len();
    spaces.report("cluster1", "d1", &json!({ "phase": "Up" }));
    assert_eq!(
        shown(&spaces),
        (json!({ "phase": "Up" }), vec!["singletonstatus".to_owned()])
    );
    assert_eq!(spaces.log.len(), writes + 1);
}

#[test]
fn namespaces_and_definitions_keep_their_own_status() {
    let mut spaces = Spaces::new();
    spaces.policy(singleton("p", &json!({ "name": "cluster1" })));
    let team = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "team", "uid": "d1", "labels": { "app": "web" } } });
    spaces.write(&namespaces(), team);
    spaces.report("cluster1", "d1", &json!({ "phase": "Terminating" }));
    assert_eq!(shown(&spaces), (Value::Null, vec![]));
}

#[test]
fn of_a_cluster_that_reports_too_much_what_matters_is_read_again() {
    let mut spaces = Spaces::new();
    spaces.policy(singleton("p", &json!({ "name": "cluster1" })));
    spaces.report("cluster1", "d1", &status(2));
    let noise = json!({ "message": "x".repeat(1_000_000) });
    let bytes = |spaces: &Spaces| spaces.index.kept[&ClusterName::from("cluster1")].bytes();
    for number in 0..20 {
        spaces.report("cluster1", &format!("nobody-{number}"), &noise);
        assert!(bytes(&spaces) <= crate::REPORT_BUDGET);
    }
    let kept = spaces.index.reports.values().flat_map(BTreeMap::values);
    assert!(kept.filter(|report| report.status.is_some()).count() < 10);
    spaces.write(&deployments(), web());
    assert_eq!(shown(&spaces), (status(2), vec!["singletonstatus".to_owned()]));
}

#[test]
fn a_report_that_is_gone_is_forgotten_only_in_the_version_that_was_asked_for() {
    let mut spaces = Spaces::new();
    spaces.report("cluster1", "d1", &status(2));
    let (origin, cluster) = (OriginUid::from("d1"), ClusterName::from("cluster1"));
    let report = spaces.index.reports.get_mut(&origin).unwrap();
    let known = report.get_mut(&cluster).unwrap();
    known.shed();
    let version = known.resource_version.clone();
    for (version, is_kept) in [("0", true), (version.as_str(), false)] {
        spaces.learn(DownsyncInput::ReportGone {
            cluster: cluster.clone(),
            origin: origin.clone(),
            version: version.to_owned(),
        });
        assert_eq!(spaces.index.reports.contains_key(&origin), is_kept, "{version}");
    }
}

#[test]
fn a_status_of_more_than_a_mebibyte_is_none() {
    let mut spaces = Spaces::new();
    spaces.policy(singleton("p", &json!({ "name": "cluster1" })));
    spaces.write(&deployments(), web());
    spaces.report("cluster1", "d1", &json!({ "message": "x".repeat(1024 * 1024) }));
    assert_eq!(shown(&spaces).0, Value::Null);
}
