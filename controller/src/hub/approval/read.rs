//! Converts a CertificateSigningRequest for the index.

use argosy_api::{conditions::signing_request as types, issued::IssuedCertificate, names};
use argosy_core::hub::approval::{SigningRequest, State};
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestStatus};
use kube::ResourceExt;

use super::content;
use crate::runtime::x509::Certificate;

/// Reads the fields of the API server and of the requester.
pub(crate) fn request(request: &CertificateSigningRequest) -> SigningRequest {
    let spec = &request.spec;
    let created = request.creation_timestamp().map_or(Timestamp::MIN, |time| time.0);
    let is_for_client = spec.signer_name == names::CLIENT_SIGNER;
    let extra = spec.extra.as_ref();
    SigningRequest {
        name: request.name_any(),
        uid: request.uid().unwrap_or_default(),
        resource_version: request.resource_version().unwrap_or_default(),
        created,
        user: spec.username.clone().unwrap_or_default(),
        credentials: extra
            .and_then(|extra| extra.get(names::CREDENTIAL_ID))
            .cloned()
            .unwrap_or_default(),
        usages: spec.usages.clone().unwrap_or_default(),
        expiration_seconds: spec.expiration_seconds,
        subject: is_for_client.then(|| content::subject(&spec.request.0)).flatten(),
        state: state(request.status.as_ref(), created),
    }
}

fn state(status: Option<&CertificateSigningRequestStatus>, requested_at: Timestamp) -> State {
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let is = |type_: &str| {
        conditions
            .unwrap_or_default()
            .iter()
            .any(|known| known.type_ == type_)
    };
    let certificate = status.and_then(|status| status.certificate.as_ref());
    let certificate = certificate.filter(|certificate| !certificate.0.is_empty());
    if is(types::DENIED) || is(types::FAILED) {
        return State::Over;
    }
    match (is(types::APPROVED), certificate) {
        (false, None) => State::Undecided,
        (false, Some(_)) => State::Over,
        (true, None) => State::Approved,
        (true, Some(certificate)) => match Certificate::read(&certificate.0) {
            None => State::Over,
            Some(certificate) => State::Issued(IssuedCertificate {
                requested_at,
                not_after: certificate.not_after,
                sha256: certificate.sha256,
            }),
        },
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};
    use serde_json::{Value, json};

    use super::*;
    use crate::hub::approval::content::tests::{Asked, pem};

    fn signing_request(status: &Value) -> CertificateSigningRequest {
        let request = k8s_openapi::ByteString(pem(&Asked::default()).into_bytes());
        serde_json::from_value(json!({
            "metadata": {
                "name": "r", "uid": "u", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {
                "request": request, "signerName": names::CLIENT_SIGNER, "usages": ["client auth"],
                "username": "argosy.dev:agent:a", "expirationSeconds": 600,
                "extra": { names::CREDENTIAL_ID: ["X509SHA256=1"], "other": ["2"] },
            },
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn a_request_is_read_with_what_the_api_server_knows_of_its_user() {
        let read = request(&signing_request(&json!({})));
        assert_eq!(read.user, "argosy.dev:agent:a");
        assert_eq!(read.credentials, ["X509SHA256=1"]);
        assert_eq!(read.usages, ["client auth"]);
        assert_eq!(read.expiration_seconds, Some(600));
        assert_eq!(read.created, "2026-01-01T00:00:00Z".parse().unwrap());
        let subject = read.subject.unwrap();
        assert_eq!((subject.cluster.as_str(), subject.problem), ("a", None));
    }

    #[test]
    fn a_request_to_another_signer_names_no_agent() {
        let mut other = signing_request(&json!({}));
        "kubernetes.io/kube-apiserver-client-kubelet".clone_into(&mut other.spec.signer_name);
        assert_eq!(request(&other).subject, None);
    }

    #[test]
    fn its_state_is_what_has_become_of_it() {
        let signed = CertificateParams::default()
            .self_signed(&KeyPair::generate().unwrap())
            .unwrap();
        let certificate = k8s_openapi::ByteString(signed.pem().into_bytes());
        let said = |type_: &str| json!([{ "type": type_, "status": "True" }]);
        let unreadable = k8s_openapi::ByteString(b"no".to_vec());
        for (status, expected) in [
            (json!({}), State::Undecided),
            (json!({ "conditions": [] }), State::Undecided),
            (json!({ "conditions": said("Approved") }), State::Approved),
            (json!({ "conditions": said("Denied") }), State::Over),
            (json!({ "conditions": said("Failed") }), State::Over),
            (json!({ "certificate": certificate }), State::Over),
            (
                json!({ "conditions": said("Approved"), "certificate": unreadable }),
                State::Over,
            ),
        ] {
            assert_eq!(request(&signing_request(&status)).state, expected, "{status}");
        }
        let status = json!({ "conditions": said("Approved"), "certificate": certificate });
        let State::Issued(issued) = request(&signing_request(&status)).state else {
            panic!("it is issued");
        };
        assert_eq!(issued.sha256, crate::runtime::x509::hexadecimal(signed.der()));
        assert_eq!(issued.requested_at, "2026-01-01T00:00:00Z".parse().unwrap());
    }
}
