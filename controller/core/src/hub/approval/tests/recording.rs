//! The order in which requests are decided on, and the certificates that are recorded for them.

use super::*;

#[test]
fn nothing_is_decided_before_clusters_and_requests_were_listed() {
    let mut index = index();
    apply(&mut index, joining());
    assert_eq!(index.decide(&"a".into(), at(20)), Decision::rest());
    index.apply(ApprovalInput::Request(Change::Reset(vec![joining()])), at(20));
    assert_eq!(index.decide(&"a".into(), at(20)), Decision::rest());
    let dirty = index.apply(
        ApprovalInput::Cluster(Change::Reset(vec![cluster(json!({}))])),
        at(20),
    );
    assert_eq!(dirty, ["a".into()].into());
    assert_eq!(
        decided(&index, "a"),
        Some(("csr-1".to_owned(), reason::AGENT_JOINS))
    );
}

#[test]
fn one_request_of_a_cluster_is_approved_at_a_time_the_oldest_first() {
    let second = SigningRequest {
        name: "csr-0".to_owned(),
        uid: "u-2".to_owned(),
        created: at(11),
        ..joining()
    };
    let mut index = listed(vec![cluster(json!({}))], vec![second, joining()]);
    assert_eq!(
        decided(&index, "a"),
        Some(("csr-1".to_owned(), reason::AGENT_JOINS))
    );
    apply(
        &mut index,
        SigningRequest {
            state: State::Approved,
            resource_version: "12".to_owned(),
            ..joining()
        },
    );
    assert_eq!(
        decided(&index, "a"),
        Some(("csr-0".to_owned(), reason::ANOTHER_PENDING))
    );
    apply(
        &mut index,
        SigningRequest {
            state: State::Over,
            resource_version: "13".to_owned(),
            ..joining()
        },
    );
    assert_eq!(
        decided(&index, "a"),
        Some(("csr-0".to_owned(), reason::AGENT_JOINS))
    );
}

#[test]
fn what_was_issued_is_recorded_before_the_next_request_is_looked_at() {
    let first = SigningRequest {
        state: State::Issued(issued("a2", 10)),
        ..joining()
    };
    let next = SigningRequest {
        name: "csr-2".to_owned(),
        uid: "u-2".to_owned(),
        credentials: vec!["X509SHA256=a2".to_owned()],
        ..renewing()
    };
    let mut index = listed(vec![cluster(json!({}))], vec![first, next]);
    let both = vec![issued("a1", 1), issued("a2", 10)];
    assert_eq!(recorded(&index), Some(both.clone()));
    let text = serde_json::to_string(&both).unwrap();
    let annotations = json!({ names::CERTIFICATES_ANNOTATION: text });
    let known = cluster(json!({ "metadata": { "resourceVersion": "6", "annotations": annotations } }));
    index.succeeded(
        &"a".into(),
        ApprovalInput::Cluster(Change::Apply(Box::new(known))),
        at(20),
    );
    assert_eq!(
        decided(&index, "a"),
        Some(("csr-2".to_owned(), reason::AGENT_RENEWS))
    );
}

#[test]
fn what_has_ended_or_was_issued_for_more_is_not_recorded_and_the_newest_eight_are() {
    let request = |name: &str, problem: Option<&str>, certificate| SigningRequest {
        name: name.to_owned(),
        uid: name.to_owned(),
        subject: Some(DistinguishedName {
            cluster: "a".into(),
            problem: problem.map(str::to_owned),
        }),
        state: State::Issued(certificate),
        ..joining()
    };
    let index = listed(
        vec![cluster(json!({}))],
        vec![
            request("flawed", Some("more"), issued("b", 10)),
            request("ended", None, issued("c", -2000)),
        ],
    );
    assert_eq!(index.decide(&"a".into(), at(20)), Decision::rest());
    let many = (1..=9).map(|n| request(&format!("r{n}"), None, issued(&format!("d{n}"), 1 + n)));
    let index = listed(vec![cluster(json!({}))], many.collect());
    let kept: Vec<String> = recorded(&index)
        .unwrap()
        .into_iter()
        .map(|known| known.sha256)
        .collect();
    assert_eq!(kept, ["d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9"]);
}

#[test]
fn a_record_is_begun_where_the_cluster_has_no_annotations() {
    let bare: ManagedCluster = read(json!({
        "metadata": { "name": "a", "uid": "u-a", "resourceVersion": "5" }, "spec": { "hubAcceptsClient": true },
    }));
    let request = SigningRequest {
        state: State::Issued(issued("a2", 10)),
        ..joining()
    };
    let index = listed(vec![bare], vec![request]);
    let Some(ApprovalAction::Record(patch)) = index.decide(&"a".into(), at(20)).action else {
        panic!("nothing is recorded");
    };
    let annotations = patch.value_at("/metadata/annotations").unwrap();
    let text = annotations[names::CERTIFICATES_ANNOTATION].as_str().unwrap();
    assert!(text.contains("\"a2\""), "{text}");
}

#[test]
fn an_answer_that_is_older_than_the_end_of_its_request_brings_nothing_back() {
    let mut index = listed(vec![cluster(json!({}))], vec![joining()]);
    index.started(&"a".into());
    index.apply(
        ApprovalInput::Request(Change::Delete(Box::new(joining()))),
        at(20),
    );
    let approved = SigningRequest {
        state: State::Approved,
        ..joining()
    };
    index.succeeded(
        &"a".into(),
        ApprovalInput::Request(Change::Apply(Box::new(approved))),
        at(20),
    );
    let other = SigningRequest {
        name: "csr-2".to_owned(),
        uid: "u-2".to_owned(),
        ..joining()
    };
    apply(&mut index, other);
    assert_eq!(
        decided(&index, "a"),
        Some(("csr-2".to_owned(), reason::AGENT_JOINS))
    );
}

#[test]
fn nothing_is_recorded_or_approved_of_a_cluster_that_left_the_fleet() {
    let signed = SigningRequest {
        state: State::Issued(issued("a2", 15)),
        ..joining()
    };
    let removed =
        json!({ "metadata": { "annotations": { names::REMOVED_ANNOTATION: "1970-01-01T00:00:18Z" } } });
    let index = listed(vec![cluster(removed.clone())], vec![signed]);
    assert_eq!(recorded(&index), None);
    let index = listed(vec![cluster(removed)], vec![renewing()]);
    assert_eq!(
        decided(&index, "a"),
        Some(("csr-1".to_owned(), reason::NOT_ACCEPTED))
    );
}

#[test]
fn what_was_issued_to_a_cluster_of_the_name_before_is_not_recorded() {
    let signed = SigningRequest {
        state: State::Issued(issued("a2", 15)),
        ..joining()
    };
    let made = |time: &str| json!({ "metadata": { "creationTimestamp": time } });
    let index = listed(vec![cluster(made("1970-01-01T00:00:11Z"))], vec![signed.clone()]);
    assert_eq!(recorded(&index), None);
    let index = listed(vec![cluster(made("1970-01-01T00:00:10Z"))], vec![signed]);
    assert!(recorded(&index).is_some());
}
