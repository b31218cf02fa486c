mod recording;

use argosy_api::{conditions::reason, issued::IssuedCertificate, names};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    Reconcile,
    model::json_patch::annotation_path,
    testing::{read, with},
};

const HOUR: i32 = 3600;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn index() -> Approvals {
    Approvals::new(SignedDuration::from_hours(48))
}

fn issued(sha256: &str, second: i64) -> IssuedCertificate {
    IssuedCertificate {
        requested_at: at(second),
        not_after: at(second + 1000),
        sha256: sha256.to_owned(),
    }
}

/// A cluster that is accepted and has the certificate `a1`.
fn cluster(more: Value) -> ManagedCluster {
    let recorded = serde_json::to_string(&[issued("a1", 1)]).unwrap();
    read(with(
        json!({
            "metadata": {
                "name": "a", "uid": "u-a", "resourceVersion": "5",
                "annotations": { names::CERTIFICATES_ANNOTATION: recorded },
            },
            "spec": { "hubAcceptsClient": true },
        }),
        more,
    ))
}

/// The request by which the agent of `a` joins.
fn joining() -> SigningRequest {
    SigningRequest {
        name: "csr-1".to_owned(),
        uid: "u-1".to_owned(),
        resource_version: "10".to_owned(),
        created: at(10),
        user: "system:serviceaccount:a:argosy-bootstrap".to_owned(),
        credentials: vec!["JTI=1".to_owned()],
        usages: vec!["digital signature".to_owned(), "client auth".to_owned()],
        expiration_seconds: Some(24 * HOUR),
        subject: Some(DistinguishedName {
            cluster: "a".into(),
            problem: None,
        }),
        state: State::Undecided,
    }
}

/// The request by which the agent of `a` renews its certificate.
fn renewing() -> SigningRequest {
    SigningRequest {
        user: "argosy.dev:agent:a".to_owned(),
        credentials: vec!["X509SHA256=a1".to_owned()],
        ..joining()
    }
}

fn apply(index: &mut Approvals, request: SigningRequest) {
    index.apply(ApprovalInput::Request(Change::Apply(Box::new(request))), at(20));
}

/// An index that has listed `clusters` and `requests`.
fn listed(clusters: Vec<ManagedCluster>, requests: Vec<SigningRequest>) -> Approvals {
    let mut index = index();
    index.apply(ApprovalInput::Cluster(Change::Reset(clusters)), at(20));
    index.apply(ApprovalInput::Request(Change::Reset(requests)), at(20));
    index
}

fn decided(index: &Approvals, key: &str) -> Option<(String, &'static str)> {
    match index.decide(&key.into(), at(20)).action? {
        ApprovalAction::Decide { name, verdict, .. } => Some((name, verdict.reason)),
        ApprovalAction::Record(_) => None,
    }
}

fn recorded(index: &Approvals) -> Option<Vec<IssuedCertificate>> {
    let Some(ApprovalAction::Record(patch)) = index.decide(&"a".into(), at(20)).action else {
        return None;
    };
    let recorded = patch.value_at(&annotation_path(names::CERTIFICATES_ANNOTATION))?;
    serde_json::from_str(recorded.as_str()?).ok()
}

#[track_caller]
fn check(what: &str, request: SigningRequest, more: Value, expected: &str) {
    let index = listed(vec![cluster(more)], vec![request]);
    let action = index.decide(&"a".into(), at(20)).action;
    let Some(ApprovalAction::Decide { verdict, .. }) = action else {
        panic!("{what}: {action:?}");
    };
    assert_eq!(verdict.reason, expected, "{what}: {}", verdict.message);
    let is_approval = [reason::AGENT_JOINS, reason::AGENT_RENEWS].contains(&expected);
    assert_eq!(verdict.is_approved, is_approval, "{what}");
}

#[test]
fn an_agent_begins_with_its_bootstrap_account_and_goes_on_with_its_certificate() {
    check("first", joining(), json!({}), reason::AGENT_JOINS);
    check("next", renewing(), json!({}), reason::AGENT_RENEWS);
}

#[test]
fn whoever_is_not_exactly_the_agent_or_its_bootstrap_account_is_a_foreign_requester() {
    for user in [
        "system:serviceaccount:b:argosy-bootstrap",
        "system:serviceaccount:a:argosy-bootstrap2",
        "system:serviceaccount:a:argosy-agent",
        "system:serviceaccount:a",
        "argosy-bootstrap",
        "argosy.dev:agent:b",
        "argosy.dev:agent:a2",
        "argosy.dev:agent:",
        "argosy.dev:agent:A",
        " argosy.dev:agent:a",
        "argosy.dev:agents",
        "kubernetes-admin",
        "",
    ] {
        let request = SigningRequest {
            user: user.to_owned(),
            ..renewing()
        };
        check(user, request, json!({}), reason::FOREIGN_REQUESTER);
    }
}

#[test]
fn a_certificate_that_is_not_recorded_for_the_cluster_gets_no_successor() {
    let many = vec!["X509SHA256=a1".to_owned(), "X509SHA256=b1".to_owned()];
    for credentials in [
        vec![],
        many,
        vec!["X509SHA256=b1".to_owned()],
        vec!["X509SHA256=".to_owned()],
        vec!["X509SHA256=a".to_owned()],
        vec!["X509SHA256=A1".to_owned()],
        vec!["a1".to_owned()],
        vec!["JTI=a1".to_owned()],
    ] {
        let shown = format!("{credentials:?}");
        let request = SigningRequest {
            credentials,
            ..renewing()
        };
        check(&shown, request, json!({}), reason::UNKNOWN_CERTIFICATE);
    }
    let forgotten = json!({ "metadata": { "annotations": { names::CERTIFICATES_ANNOTATION: "[]" } } });
    check("forgotten", renewing(), forgotten, reason::UNKNOWN_CERTIFICATE);
}

#[test]
fn usages_are_exactly_two() {
    let usages = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    for wrong in [
        usages(&[]),
        usages(&["client auth"]),
        usages(&["digital signature"]),
        usages(&["client auth", "digital signature", "server auth"]),
        usages(&["client auth", "digital signature", "key encipherment"]),
        usages(&["client auth", "client auth", "digital signature"]),
        usages(&["client auth", "cert sign"]),
        usages(&["any"]),
    ] {
        let shown = format!("{wrong:?}");
        let request = SigningRequest {
            usages: wrong,
            ..joining()
        };
        check(&shown, request, json!({}), reason::NOT_AN_AGENTS_REQUEST);
    }
}

#[test]
fn a_certificate_lasts_as_long_as_is_allowed_and_no_longer() {
    for (seconds, expected) in [
        (Some(600), reason::AGENT_JOINS),
        (Some(48 * HOUR), reason::AGENT_JOINS),
        (Some(48 * HOUR + 1), reason::LASTS_TOO_LONG),
        (Some(i32::MAX), reason::LASTS_TOO_LONG),
        (Some(0), reason::LASTS_TOO_LONG),
        (Some(-1), reason::LASTS_TOO_LONG),
        (None, reason::LASTS_TOO_LONG),
    ] {
        let request = SigningRequest {
            expiration_seconds: seconds,
            ..joining()
        };
        check(&format!("{seconds:?}"), request, json!({}), expected);
    }
}

#[test]
fn a_cluster_that_is_not_accepted_or_leaves_gets_none() {
    for request in [joining(), renewing()] {
        let refused = json!({ "spec": { "hubAcceptsClient": false } });
        check("not accepted", request.clone(), refused, reason::NOT_ACCEPTED);
        let leaving = json!({ "metadata": { "deletionTimestamp": at(1).to_string(), "finalizers": ["x"] } });
        check("leaving", request.clone(), leaving, reason::NOT_ACCEPTED);
        let index = listed(vec![], vec![request]);
        let unknown = ("csr-1".to_owned(), reason::UNKNOWN_CLUSTER);
        assert_eq!(decided(&index, "a"), Some(unknown));
    }
}

#[test]
fn a_request_that_asks_for_more_is_denied_with_its_flaw() {
    let request = SigningRequest {
        subject: Some(DistinguishedName {
            cluster: "a".into(),
            problem: Some("it has alternative names".to_owned()),
        }),
        ..joining()
    };
    check("problem", request, json!({}), reason::NOT_AN_AGENTS_REQUEST);
}

#[test]
fn what_names_no_agent_or_is_decided_is_left_alone() {
    let none = SigningRequest {
        subject: None,
        ..joining()
    };
    let over = SigningRequest {
        state: State::Over,
        ..joining()
    };
    let approved = SigningRequest {
        state: State::Approved,
        ..joining()
    };
    for request in [none, over, approved] {
        let index = listed(vec![cluster(json!({}))], vec![request]);
        assert_eq!(index.decide(&"a".into(), at(20)), Decision::rest());
    }
}

/// Requests drawn from a few values, so that each is valid often enough.
fn drawn() -> impl Strategy<Value = SigningRequest> {
    let users = prop_oneof![
        Just("system:serviceaccount:a:argosy-bootstrap"),
        Just("system:serviceaccount:b:argosy-bootstrap"),
        Just("argosy.dev:agent:a"),
        Just("argosy.dev:agent:b"),
    ];
    let credentials = proptest::collection::vec(
        prop_oneof![Just("X509SHA256=a1"), Just("X509SHA256=b1"), Just("JTI=1")],
        0..3,
    );
    let usages =
        proptest::sample::subsequence(vec!["client auth", "digital signature", "server auth"], 1..=3);
    let lasts = proptest::option::of(600..100 * HOUR);
    let subjects = (
        prop_oneof![Just("a"), Just("b")],
        proptest::option::weighted(0.2, Just("problem")),
    );
    (users, credentials, usages, lasts, subjects).prop_map(
        |(user, credentials, usages, expiration_seconds, (named, problem))| SigningRequest {
            user: user.to_owned(),
            credentials: credentials.into_iter().map(str::to_owned).collect(),
            usages: usages.into_iter().map(str::to_owned).collect(),
            expiration_seconds,
            subject: Some(DistinguishedName {
                cluster: named.into(),
                problem: problem.map(str::to_owned),
            }),
            ..joining()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2000, ..ProptestConfig::default() })]

    /// The index has two clusters, of which `b` is not accepted.
    #[test]
    fn approved_is_only_what_is_exactly_one_of_the_two_right_requests(request in drawn()) {
        let other = json!({
            "metadata": { "name": "b", "uid": "u-b", "annotations": {} }, "spec": { "hubAcceptsClient": false },
        });
        let index = listed(vec![cluster(json!({})), cluster(other)], vec![request.clone()]);
        let key = request.subject.as_ref().map(|subject| subject.cluster.clone()).unwrap();
        let action = index.decide(&key, at(20)).action;
        let is_approved = matches!(action, Some(ApprovalAction::Decide { verdict, .. }) if verdict.is_approved);
        let is_for_a = request.subject == joining().subject;
        let is_modest = is_for_a
            && request.usages == ["client auth", "digital signature"]
            && request.expiration_seconds.is_some_and(|seconds| seconds <= 48 * HOUR);
        let joins = request.user == joining().user;
        let renews = request.user == renewing().user && request.credentials == renewing().credentials;
        prop_assert_eq!(is_approved, is_modest && (joins || renews));
    }
}
