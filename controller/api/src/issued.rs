//! The certificates of a cluster's agent, as recorded on its ManagedCluster
//! ([`names::CERTIFICATES_ANNOTATION`]).
//!
//! The agent may not write that annotation: it may write only the status. Not here: the choice of
//! the certificates that are recorded and removed (`argosy_core::hub::approval`).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{ManagedCluster, names};

/// One certificate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IssuedCertificate {
    /// Time of the request: creation of the CertificateSigningRequest, on the clock of the ITS. The
    /// certificate's `notBefore` is earlier, because signers allow for clock skew.
    pub requested_at: Timestamp,
    /// End of the certificate's validity.
    pub not_after: Timestamp,
    /// SHA-256 of the certificate (DER) in hexadecimal. An API server uses it as the credential ID
    /// of the certificate's user.
    pub sha256: String,
}

/// The recorded certificates, the oldest first. An annotation that cannot be parsed records none.
pub fn certificates(cluster: &ManagedCluster) -> Vec<IssuedCertificate> {
    let annotations = cluster.metadata.annotations.as_ref();
    let text = annotations.and_then(|known| known.get(names::CERTIFICATES_ANNOTATION));
    let mut known: Vec<IssuedCertificate> = text
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    known.sort();
    known
}

/// The latest end of validity of the recorded certificates. It need not be that of the certificate
/// that was requested last.
pub fn last_end(cluster: &ManagedCluster) -> Option<Timestamp> {
    certificates(cluster).iter().map(|known| known.not_after).max()
}

/// The time at which a user last requested another certificate ([`names::ROTATE_CERTIFICATE`]). An
/// invalid time requests none.
pub fn rotation_wish(cluster: &ManagedCluster) -> Option<Timestamp> {
    let annotations = cluster.metadata.annotations.as_ref()?;
    annotations.get(names::ROTATE_CERTIFICATE)?.parse().ok()
}

/// A certificate that was requested before this time is to be replaced: a user requested another
/// one, or it was issued to an earlier cluster with this name, so that it is not recorded and
/// cannot be renewed.
pub fn replaced_before(cluster: &ManagedCluster) -> Option<Timestamp> {
    let registered = cluster.metadata.creation_timestamp.as_ref();
    rotation_wish(cluster).max(registered.map(|time| time.0))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;

    use super::*;

    fn with(annotation: &str, text: &str) -> ManagedCluster {
        let object = json!({ "metadata": { "name": "a", "annotations": { annotation: text } }, "spec": {} });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn the_record_is_read_oldest_first_and_nonsense_records_nothing() {
        let text = r#"[{"requestedAt":"2026-01-02T00:00:00Z","notAfter":"2026-01-03T00:00:00Z","sha256":"b"},
            {"requestedAt":"2026-01-01T00:00:00Z","notAfter":"2026-01-02T00:00:00Z","sha256":"a"}]"#;
        let known = certificates(&with(names::CERTIFICATES_ANNOTATION, text));
        let digests: Vec<&str> = known.iter().map(|known| known.sha256.as_str()).collect();
        assert_eq!(digests, ["a", "b"]);
        let short = text.replace("2026-01-03", "2026-01-01");
        let end = last_end(&with(names::CERTIFICATES_ANNOTATION, &short));
        assert_eq!(
            end,
            "2026-01-02T00:00:00Z".parse().ok(),
            "of the one asked for first"
        );
        for nonsense in ["", "{}", "[{\"sha256\":\"a\"}]", "no"] {
            assert!(certificates(&with(names::CERTIFICATES_ANNOTATION, nonsense)).is_empty());
        }
    }

    #[test]
    fn a_wish_is_a_time() {
        let wish = rotation_wish(&with(names::ROTATE_CERTIFICATE, "2026-01-01T00:00:00Z"));
        assert_eq!(wish, "2026-01-01T00:00:00Z".parse().ok());
        assert_eq!(rotation_wish(&with(names::ROTATE_CERTIFICATE, "now")), None);
    }

    #[test]
    fn what_was_issued_before_the_cluster_was_registered_is_replaced() {
        let before = |wish: &str| {
            let mut cluster = with(names::ROTATE_CERTIFICATE, wish);
            cluster.metadata.creation_timestamp = Some(Time("2026-01-02T00:00:00Z".parse().unwrap()));
            replaced_before(&cluster).unwrap().to_string()
        };
        assert_eq!(before("never"), "2026-01-02T00:00:00Z");
        assert_eq!(before("2026-01-01T00:00:00Z"), "2026-01-02T00:00:00Z");
        assert_eq!(before("2026-01-03T00:00:00Z"), "2026-01-03T00:00:00Z");
        assert_eq!(replaced_before(&with("other", "")), None);
    }
}
