use std::collections::BTreeSet;

use super::*;

const DAY: Duration = Duration::from_hours(24);
const LIFETIME: Duration = Duration::from_hours(30 * 24);

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn hosts() -> Vec<String> {
    vec!["argosy-controller.argosy.svc".to_owned()]
}

fn renewed(known: Option<&Credentials>, now: Timestamp) -> Option<Credentials> {
    Credentials::renewed(known, &hosts(), LIFETIME, now).unwrap()
}

/// Returns true if `authority` has signed the serving certificate: it contains the CA's name, which
/// is unique.
fn is_trusted_by(credentials: &Credentials, authority: &Pair) -> bool {
    let name = format!("argosy-webhook-ca-{}", authority.since.as_millisecond());
    let shown = pem_bytes(&credentials.serving.certificate);
    shown.windows(name.len()).any(|window| window == name.as_bytes())
}

fn pem_bytes(pem: &str) -> Vec<u8> {
    use rustls::pki_types::{CertificateDer, pem::PemObject};
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap().to_vec()
}

#[test]
fn what_is_good_is_kept() {
    let first = renewed(None, start()).unwrap();
    assert!(renewed(Some(&first), start()).is_none());
    assert!(renewed(Some(&first), after(start(), DAY * 19)).is_none());
    assert_eq!(first.renew_at(), after(start(), DAY * 20));
}

#[test]
fn the_serving_pair_is_renewed_at_two_thirds_under_the_same_authority() {
    let first = renewed(None, start()).unwrap();
    let second = renewed(Some(&first), first.renew_at()).unwrap();
    assert_ne!(first.serving(), second.serving());
    assert_eq!(first.bundle(), second.bundle());
}

#[test]
fn other_names_need_another_pair() {
    let first = renewed(None, start()).unwrap();
    let other = Credentials::renewed(Some(&first), &["10.0.0.1".to_owned()], LIFETIME, start()).unwrap();
    assert_ne!(other.unwrap().serving(), first.serving());
}

#[test]
fn an_authority_is_published_before_it_signs_and_until_its_last_certificate_has_ended() {
    let mut credentials = renewed(None, start()).unwrap();
    let mut serving = BTreeSet::new();
    let mut bundles = BTreeSet::new();
    let end = after(start(), DAY * 400);
    let mut now = start();
    while now < end {
        let before = credentials.clone();
        if let Some(next) = renewed(Some(&credentials), now) {
            credentials = next;
        }
        assert!(credentials.renew_at() > now, "it would be renewed again at once");
        assert!(credentials.serving.until > now, "it shows what has ended");
        // An API server without the change must trust the new certificate, and one with the change
        // the old certificate.
        assert!(
            before
                .authorities
                .iter()
                .any(|authority| is_trusted_by(&credentials, authority))
        );
        assert!(
            credentials
                .authorities
                .iter()
                .any(|authority| is_trusted_by(&before, authority) && authority.until >= before.serving.until)
        );
        serving.insert(credentials.serving().0.to_owned());
        bundles.insert(credentials.bundle());
        now = credentials.renew_at();
    }
    assert!(serving.len() >= 20, "{} serving certificates", serving.len());
    assert!(bundles.len() >= 8, "{} bundles", bundles.len());
}

#[test]
fn what_has_wholly_ended_is_made_anew() {
    let first = renewed(None, start()).unwrap();
    let late = after(start(), DAY * 4000);
    let second = renewed(Some(&first), late).unwrap();
    assert_eq!(second.authorities.len(), 1);
    assert!(second.serving.until > late);
}
