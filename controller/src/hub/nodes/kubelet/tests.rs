use argosy_api::names;
use argosy_core::model::claim::Claim;
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::json;

use super::{
    account::Account,
    admit::{Shown, is_name},
    logs::options,
    sessions::{Kind, query},
};

mod endpoint;

#[test]
fn only_the_options_of_a_log_are_passed_on_and_only_in_their_form() {
    for (query, expected) in [
        ("", ""),
        ("follow=true&tailLines=10", "&follow=true&tailLines=10"),
        (
            "timestamps=1&limitBytes=60&sinceSeconds=5&previous=false",
            "&timestamps=1&limitBytes=60&sinceSeconds=5&previous=false",
        ),
        (
            "sinceTime=2026-01-01T00%3A00%3A00Z",
            "&sinceTime=2026-01-01T00%3A00%3A00Z",
        ),
        ("follow=maybe&tailLines=-1&tailLines=", ""),
        ("container=other&insecureSkipTLSVerifyBackend=true&pretty=1", ""),
        ("sinceTime=a%26b=c d", ""),
        ("follow", ""),
    ] {
        assert_eq!(options(query), expected, "{query}");
    }
}

#[test]
fn names_are_those_of_objects() {
    for good in ["a", "hello-world-x7k2p-main-123", "a.b"] {
        assert!(is_name(good), "{good}");
    }
    for bad in ["", "..", ".", "a/b", "A", "a b", "a%2fb", &"a".repeat(254)] {
        assert!(!is_name(bad), "{bad}");
    }
}

#[test]
fn a_shadow_pod_names_its_cluster_and_its_workflow_and_no_other_pod_does() {
    let pod = |labels: serde_json::Value, node: &str| -> Pod {
        serde_json::from_value(json!({
            "metadata": { "labels": labels }, "spec": { "nodeName": node, "containers": [] },
        }))
        .unwrap()
    };
    let label = json!({ "argosy.dev/shadow-of": "u" });
    assert!(Shown::of(&pod(label.clone(), "argosy-cluster1")).is_some());
    assert_eq!(Shown::of(&pod(label, "node1")), None);
    assert_eq!(Shown::of(&pod(json!({}), "argosy-cluster1")), None);
    assert_eq!(Shown::of(&Pod::default()), None);
}

#[test]
fn the_cluster_of_a_run_is_that_of_its_claim_and_only_of_one_that_was_made_for_it() {
    let workflow = |uid: &str, claim: String| -> ObjectMeta {
        serde_json::from_value(json!({
            "uid": uid, "annotations": { names::CLAIM_ANNOTATION: claim },
        }))
        .unwrap()
    };
    let claimed = |cluster: &str| Claim::new(&cluster.into(), 1).to_annotation("u");
    let shown = Shown::sent(&workflow("u", claimed("cluster1"))).unwrap();
    assert_eq!(shown.cluster.as_str(), "cluster1");
    assert_eq!(Shown::sent(&workflow("u", claimed(names::EVERY_CLUSTER))), None);
    // Copied from another Workflow.
    assert_eq!(Shown::sent(&workflow("v", claimed("cluster1"))), None);
    assert_eq!(Shown::sent(&ObjectMeta::default()), None);
}

#[test]
fn the_account_of_a_certificate_is_its_common_name_with_its_organizations() {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, "kube-apiserver-kubelet-client");
    params
        .distinguished_name
        .push(DnType::OrganizationName, "kubeadm:cluster-admins");
    let certificate = params.self_signed(&key).unwrap();
    let account = Account::read(certificate.der()).unwrap();
    assert_eq!(account.user, "kube-apiserver-kubelet-client");
    assert_eq!(account.groups, ["kubeadm:cluster-admins"]);
    assert_eq!(Account::read(b"not a certificate"), None);
}

#[test]
fn the_query_of_a_session_is_that_of_an_api_server_and_nothing_else_is_passed_on() {
    for (kind, container, asked, expected) in [
        (
            Kind::Exec,
            Some("main"),
            "command=sh&command=-c&command=a%20b&input=1&output=1&error=1&tty=1",
            "container=main&command=sh&command=-c&command=a%20b&stdin=true&stdout=true&stderr=true&tty=true",
        ),
        (
            Kind::Exec,
            Some("main"),
            "container=other&stdin=true&input=0",
            "container=main",
        ),
        (
            Kind::Attach,
            Some("main"),
            "command=sh&output=1",
            "container=main&stdout=true",
        ),
        (Kind::PortForward, None, "port=22&command=sh&uid=u", ""),
    ] {
        assert_eq!(query(kind, container, asked), expected, "{kind:?} {asked}");
    }
}
