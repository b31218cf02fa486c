//! The conditions under which a claim is valid, and the fields of it that are believed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::*;

fn metadata(uid: &str, claim: &str) -> ObjectMeta {
    ObjectMeta {
        uid: Some(uid.to_owned()),
        annotations: Some([(names::CLAIM_ANNOTATION.to_owned(), claim.to_owned())].into()),
        ..ObjectMeta::default()
    }
}

#[test]
fn a_claim_survives_its_annotation() {
    let claim = Claim {
        wants_status: true,
        has_started: true,
        lost_after: Some(SignedDuration::from_mins(5)),
        lost: Some("cluster2".into()),
        run_of: Some("u9".into()),
        reported_by: Some("cluster1".into()),
        ..Claim::new(&"cluster1".into(), 3)
    };
    assert_eq!(
        Claim::of(&metadata("u1", &claim.to_annotation("u1"))),
        Some(claim)
    );
}

#[test]
fn a_claim_copied_onto_another_object_is_none() {
    let claim = Claim::new(&"cluster1".into(), 3);
    assert_eq!(Claim::of(&metadata("u2", &claim.to_annotation("u1"))), None);
}

/// An object that was created with this claim, with hold and controller finalizer.
fn born(claim: &str, owner: Option<&str>) -> ObjectMeta {
    ObjectMeta {
        name: Some("w".to_owned()),
        labels: Some([(names::ARGO_COMPLETED_LABEL.to_owned(), "true".to_owned())].into()),
        finalizers: Some(vec![names::CONTROLLER_FINALIZER.to_owned()]),
        owner_references: owner.map(|uid| {
            vec![OwnerReference {
                uid: uid.to_owned(),
                ..OwnerReference::default()
            }]
        }),
        ..metadata("u1", claim)
    }
}

#[test]
fn of_a_claim_without_uid_only_what_the_webhook_writes_is_believed() {
    let forged = r#"{"cluster":"c1","attempt":7,"uid":"","status":true,"started":true,"guarded":true,"retry":true,"lost":"c2","runOf":"u9","givenUp":true}"#;
    let believed = Claim {
        wants_status: true,
        is_guarded: true,
        born_as: Some(String::new()),
        ..Claim::new(&"c1".into(), 1)
    };
    assert_eq!(Claim::of(&born(forged, None)), Some(believed.clone()));
    assert_eq!(Claim::of(&born(forged, Some("u8"))), Some(believed.clone()));
    let run = Claim {
        run_of: Some("u9".into()),
        ..believed
    };
    assert_eq!(Claim::of(&born(forged, Some("u9"))), Some(run));
}

#[test]
fn of_a_claim_without_uid_whose_cluster_no_namespace_can_be_called_nothing_is_believed() {
    for cluster in [
        "a/b",
        "kube-system/manifestworks?x=",
        "..",
        "A",
        "-a",
        "a-",
        &"a".repeat(64),
    ] {
        let forged = json!({ "cluster": cluster, "attempt": 1, "uid": "" }).to_string();
        assert_eq!(Claim::of(&born(&forged, None)), None, "{cluster}");
        assert!(!is_held_from_birth(&born(&forged, None)), "{cluster}");
    }
}

#[test]
fn a_claim_that_says_more_than_at_birth_bears_the_uid() {
    let claim = Claim {
        born_as: Some("w".to_owned()),
        ..Claim::new(&"c1".into(), 1)
    };
    assert!(claim.to_annotation("u1").contains(r#""uid":"""#));
    let given_up = Claim {
        is_given_up: true,
        ..claim
    };
    let read = Claim::of(&metadata("u1", &given_up.to_annotation("u1"))).unwrap();
    assert!(read.is_given_up && read.born_as.is_none(), "{read:?}");
}

#[test]
fn an_object_is_held_from_birth_by_a_claim_without_uid_only() {
    let held = |uid: &str| format!(r#"{{"cluster":"","attempt":0,"uid":"{uid}","held":true}}"#);
    assert!(is_held_from_birth(&born(&held(""), None)));
    assert!(!is_held_from_birth(&born(&held("u1"), None)));
    assert!(!is_held_from_birth(&metadata("u1", &held(""))));
}

#[test]
fn a_released_claim_leaves_its_attempt_behind() {
    let released = metadata("u1", &Claim::released_annotation("u1", 4));
    assert_eq!(Claim::of(&released), None);
    assert_eq!(Claim::last_attempt(&released), 4);
}

#[test]
fn what_a_status_brings_along_is_of_the_cluster_that_the_claim_names() {
    let retry = Claim {
        is_retry: true,
        ..Claim::new(&"c1".into(), 2)
    };
    let of = |text: &str| Claim::reporter(&metadata("u1", text));
    assert_eq!(of(&retry.to_annotation("u1")), Some("c1".into()));
    assert_eq!(of(&Claim::new(&"c1".into(), 2).to_annotation("u1")), None);
    let held = born(&Claim::held_annotation(Some(&"c2".into())), None);
    assert_eq!(Claim::reporter(&held), Some("c2".into()));
    assert_eq!(Claim::reporter(&born(&Claim::held_annotation(None), None)), None);
}

#[test]
fn a_claim_that_cannot_be_read_is_none() {
    assert_eq!(Claim::of(&metadata("u1", "cluster1")), None);
}
