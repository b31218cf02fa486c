//! The agent's request for a certificate: its key, and the CertificateSigningRequest for it.
//!
//! The object is named after the key, so that it is found again. Not here: sending it and waiting
//! for the result.

use std::time::Duration;

use argosy_api::names;
use argosy_core::ClusterName;
use k8s_openapi::{
    ByteString,
    api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec},
};
use kube::api::ObjectMeta;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

use crate::runtime::x509::hexadecimal;

/// Generates an ECDSA key with the curve P-256, in PEM.
pub(super) fn new_key() -> Result<String, rcgen::Error> {
    Ok(KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?.serialize_pem())
}

/// Builds the request for `cluster` with a key, for a certificate that is valid for `duration`.
pub(super) fn signing_request(
    cluster: &ClusterName,
    key: &str,
    duration: Duration,
) -> Result<CertificateSigningRequest, rcgen::Error> {
    let key = KeyPair::from_pem(key)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let user = names::agent_user(cluster.as_str());
    params
        .distinguished_name
        .push(DnType::OrganizationName, names::AGENTS_GROUP);
    params.distinguished_name.push(DnType::CommonName, user);
    let request = params.serialize_request(&key)?.pem()?;
    let digest = hexadecimal(key.public_key_raw());
    Ok(CertificateSigningRequest {
        metadata: ObjectMeta {
            name: Some(format!(
                "argosy-agent-{cluster}-{}",
                digest.get(..16).unwrap_or_default()
            )),
            ..ObjectMeta::default()
        },
        spec: CertificateSigningRequestSpec {
            request: ByteString(request.into_bytes()),
            signer_name: names::CLIENT_SIGNER.to_owned(),
            usages: Some(vec!["digital signature".to_owned(), "client auth".to_owned()]),
            expiration_seconds: Some(i32::try_from(duration.as_secs()).unwrap_or(i32::MAX)),
            ..CertificateSigningRequestSpec::default()
        },
        status: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_named_after_its_key() {
        let day = Duration::from_hours(24);
        let (one, other) = (new_key().unwrap(), new_key().unwrap());
        let named = |key: &str| signing_request(&"a".into(), key, day).unwrap().metadata.name;
        assert_eq!(named(&one), named(&one));
        assert_ne!(named(&one), named(&other));
        assert!(named(&one).unwrap().starts_with("argosy-agent-a-"));
    }

    #[test]
    fn the_hub_finds_no_flaw_in_what_the_agent_asks_for() {
        let day = Duration::from_hours(24);
        let request = signing_request(&"cluster1".into(), &new_key().unwrap(), day).unwrap();
        let read = crate::hub::approval::read::request(&request);
        let subject = read.subject.unwrap();
        assert_eq!((subject.cluster.as_str(), subject.problem), ("cluster1", None));
        assert_eq!(read.expiration_seconds, Some(24 * 60 * 60));
    }
}
