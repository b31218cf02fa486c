//! Checks the content of a certificate request (PKCS #10): it must ask for the identity of one
//! agent, and nothing else.
//!
//! Pure. The signer copies subject and alternative names of a request into the certificate
//! unchanged, so every part of the request must be checked here. The signer also uses another
//! parser, so finally the request is compared, byte for byte, with the only one that an agent
//! writes. The checks before that give a precise reason for a refusal.

use argosy_api::names;
use argosy_core::hub::approval::DistinguishedName;
use x509_parser::{
    asn1_rs::Tag,
    certification_request::X509CertificationRequest,
    oid_registry::{
        OID_EC_P256, OID_KEY_TYPE_EC_PUBLIC_KEY, OID_SIG_ECDSA_WITH_SHA256, OID_X509_COMMON_NAME,
        OID_X509_ORGANIZATION_NAME, Oid,
    },
    pem::parse_x509_pem,
    prelude::FromDer,
    x509::{X509Name, X509Version},
};

const BEGIN: &str = "-----BEGIN CERTIFICATE REQUEST-----";
const END: &str = "-----END CERTIFICATE REQUEST-----";

/// Returns the agent that the request in `pem` names; `None` if it names none, or cannot be parsed.
pub(super) fn subject(pem: &[u8]) -> Option<DistinguishedName> {
    let (_, block) = parse_x509_pem(pem).ok()?;
    let (rest, request) = X509CertificationRequest::from_der(&block.contents).ok()?;
    let names = request.certification_request_info.subject.iter_common_name();
    let clusters = names.filter_map(|name| name.as_str().ok()?.strip_prefix(names::AGENT_USER_PREFIX));
    let cluster = clusters.last()?;
    let problem = problem(pem, &block.contents, rest, &request, cluster);
    Some(DistinguishedName {
        cluster: cluster.into(),
        problem: problem.map(str::to_owned),
    })
}

fn problem(
    pem: &[u8],
    der: &[u8],
    rest: &[u8],
    request: &X509CertificationRequest<'_>,
    cluster: &str,
) -> Option<&'static str> {
    let content = &request.certification_request_info;
    let checks = [
        (
            is_one_block(pem) && rest.is_empty() && content.version == X509Version::V1,
            "spec.request must be one block of PEM with one request, and nothing else",
        ),
        (
            is_agent(&content.subject, cluster),
            "its subject must be one organization, argosy.dev:agents, and one common name, and nothing else",
        ),
        (
            content.attributes().is_empty(),
            "it must have no attributes, such as a request for alternative names",
        ),
        (
            is_p256(request),
            "its key must be an ECDSA key with the curve P-256",
        ),
        (
            request.verify_signature().is_ok(),
            "it must be signed with the key that it contains",
        ),
        (
            written(request, cluster) == der,
            "it must be encoded exactly as an agent of Argosy encodes it",
        ),
    ];
    checks
        .into_iter()
        .find_map(|(holds, problem)| (!holds).then_some(problem))
}

/// Returns true if the text is one PEM block without headers. Parsers differ about text around
/// blocks, and about headers.
fn is_one_block(pem: &[u8]) -> bool {
    let body = std::str::from_utf8(pem)
        .ok()
        .and_then(|text| text.trim_ascii_end().strip_prefix(BEGIN)?.strip_suffix(END));
    body.is_some_and(|body| {
        body.chars()
            .all(|known| known.is_ascii_alphanumeric() || matches!(known, '+' | '/' | '=' | '\n'))
    })
}

fn is_agent(subject: &X509Name<'_>, cluster: &str) -> bool {
    let name = names::agent_user(cluster);
    let wanted = [
        (OID_X509_COMMON_NAME, name.as_str()),
        (OID_X509_ORGANIZATION_NAME, names::AGENTS_GROUP),
    ];
    let parts: Vec<_> = subject
        .iter_rdn()
        .map(|part| part.iter().collect::<Vec<_>>())
        .collect();
    let has = |(type_, text): &(Oid<'_>, &str)| {
        parts.iter().any(|part| match part.as_slice() {
            [only] => {
                let value = only.attr_value();
                only.attr_type() == type_
                    && [Tag::Utf8String, Tag::PrintableString].contains(&value.tag())
                    && value.data == text.as_bytes()
            }
            _ => false,
        })
    };
    parts.len() == wanted.len() && wanted.iter().all(has)
}

fn is_p256(request: &X509CertificationRequest<'_>) -> bool {
    let key = &request.certification_request_info.subject_pki.algorithm;
    let curve = key.parameters.as_ref().and_then(|curve| curve.as_oid().ok());
    key.algorithm == OID_KEY_TYPE_EC_PUBLIC_KEY
        && curve.is_some_and(|curve| curve == OID_EC_P256)
        && request.signature_algorithm.algorithm == OID_SIG_ECDSA_WITH_SHA256
}

/// Encodes the request that an agent of `cluster` writes (DER), with the key and the signature of
/// `request`.
fn written(request: &X509CertificationRequest<'_>, cluster: &str) -> Vec<u8> {
    const SEQUENCE: u8 = 0x30;
    const SET: u8 = 0x31;
    const UTF8: u8 = 0x0c;
    const BITS: u8 = 0x03;
    const VERSION: [u8; 3] = [0x02, 1, 0];
    const ORGANIZATION: [u8; 5] = [0x06, 3, 0x55, 4, 10];
    const COMMON_NAME: [u8; 5] = [0x06, 3, 0x55, 4, 3];
    /// `id-ecPublicKey` with `prime256v1`.
    const P256: [u8; 21] = [
        0x30, 19, 0x06, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 0x06, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7,
    ];
    /// `ecdsa-with-SHA256`.
    const ECDSA: [u8; 12] = [0x30, 10, 0x06, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
    const NO_ATTRIBUTES: [u8; 2] = [0xa0, 0];
    let part = |type_: &[u8], text: &str| {
        let value = encoded(UTF8, &[text.as_bytes()]);
        encoded(SET, &[&encoded(SEQUENCE, &[type_, &value])])
    };
    let bits = |bits: &[u8]| encoded(BITS, &[&[0], bits]);
    let group = part(&ORGANIZATION, names::AGENTS_GROUP);
    let name = part(&COMMON_NAME, &names::agent_user(cluster));
    let subject = encoded(SEQUENCE, &[&group, &name]);
    let key = &request.certification_request_info.subject_pki.subject_public_key;
    let key = encoded(SEQUENCE, &[&P256, &bits(&key.data)]);
    let content = encoded(SEQUENCE, &[&VERSION, &subject, &key, &NO_ATTRIBUTES]);
    encoded(
        SEQUENCE,
        &[&content, &ECDSA, &bits(&request.signature_value.data)],
    )
}

/// Encodes a DER value: the tag, the length in its shortest form, and the content.
fn encoded(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = content.len().to_be_bytes();
    let significant = length.iter().skip_while(|byte| **byte == 0);
    let mut value = vec![tag];
    match u8::try_from(content.len()) {
        Ok(short) if short < 0x80 => value.push(short),
        _ => {
            let count = significant.clone().count();
            value.push(0x80 | u8::try_from(count).unwrap_or_default());
            value.extend(significant);
        }
    }
    value.extend(content);
    value
}

#[cfg(test)]
pub(super) mod tests;
