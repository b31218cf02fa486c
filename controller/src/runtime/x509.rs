//! Parses certificates as far as Argosy needs it: their validity, and their identity for an API
//! server.
//!
//! Pure. Not here: requests for certificates (`hub/approval`), and trust in a certificate, which
//! its API server decides.

use std::fmt::Write;

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use x509_parser::{parse_x509_certificate, pem::parse_x509_pem};

/// A certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    /// SHA-256 of its DER, in hexadecimal.
    pub(crate) sha256: String,
    /// Common name of its subject; empty if it has none.
    pub(crate) common_name: String,
    /// Start of its validity.
    pub(crate) not_before: Timestamp,
    /// End of its validity.
    pub(crate) not_after: Timestamp,
}

impl Certificate {
    /// Parses the first certificate of a PEM text, which is the leaf certificate.
    pub(crate) fn read(pem: &[u8]) -> Option<Self> {
        let (_, pem) = parse_x509_pem(pem).ok()?;
        if pem.label != "CERTIFICATE" {
            return None;
        }
        let (_, certificate) = parse_x509_certificate(&pem.contents).ok()?;
        let common_name = certificate.subject().iter_common_name().last();
        let common_name = common_name.and_then(|name| name.as_str().ok());
        let at = |time: i64| Timestamp::from_second(time).ok();
        Some(Self {
            sha256: hexadecimal(&pem.contents),
            common_name: common_name.unwrap_or_default().to_owned(),
            not_before: at(certificate.validity().not_before.timestamp())?,
            not_after: at(certificate.validity().not_after.timestamp())?,
        })
    }
}

/// The SHA-256 digest of `bytes` in hexadecimal.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        // Writing into a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn a_certificate_tells_whose_it_is_and_how_long_it_lasts() {
        let mut params = CertificateParams::default();
        params.distinguished_name.remove(DnType::CommonName);
        params.distinguished_name.push(DnType::CommonName, "somebody");
        params.not_before = date_time_ymd(2026, 1, 1);
        params.not_after = date_time_ymd(2026, 1, 2);
        let signed = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let read = Certificate::read(signed.pem().as_bytes()).unwrap();
        assert_eq!(read.common_name, "somebody");
        assert_eq!(read.not_before, "2026-01-01T00:00:00Z".parse().unwrap());
        assert_eq!(read.not_after, "2026-01-02T00:00:00Z".parse().unwrap());
        assert_eq!(read.sha256, hexadecimal(signed.der()));
    }

    #[test]
    fn what_is_no_certificate_is_not_read() {
        let key = KeyPair::generate().unwrap().serialize_pem();
        for text in [
            "",
            "no",
            key.as_str(),
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        ] {
            assert_eq!(Certificate::read(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_digest_is_written_as_an_api_server_writes_it() {
        // printf abc | sha256sum
        assert_eq!(
            hexadecimal(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
