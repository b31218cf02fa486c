use proptest::prelude::*;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, DnValue, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType,
};

use super::*;

/// The parts of a request; by default exactly those that an agent of `a` writes.
pub(in crate::hub::approval) struct Asked {
    subject: Vec<(DnType, &'static str)>,
    names: Vec<&'static str>,
    algorithm: &'static rcgen::SignatureAlgorithm,
    change: fn(&mut CertificateParams),
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            subject: vec![
                (DnType::OrganizationName, "argosy.dev:agents"),
                (DnType::CommonName, "argosy.dev:agent:a"),
            ],
            names: vec![],
            algorithm: &rcgen::PKCS_ECDSA_P256_SHA256,
            change: |_| {},
        }
    }
}

pub(in crate::hub::approval) fn pem(asked: &Asked) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    for (type_, text) in &asked.subject {
        params.distinguished_name.push(type_.clone(), *text);
    }
    params.subject_alt_names = asked
        .names
        .iter()
        .map(|name| SanType::DnsName((*name).try_into().unwrap()))
        .collect();
    (asked.change)(&mut params);
    let key = KeyPair::generate_for(asked.algorithm).unwrap();
    params.serialize_request(&key).unwrap().pem().unwrap()
}

#[track_caller]
fn check_flawed(what: &str, pem: &str, expected: &str) {
    let subject = subject(pem.as_bytes()).unwrap_or_else(|| panic!("{what}: it names an agent"));
    let problem = subject
        .problem
        .unwrap_or_else(|| panic!("{what}: nothing is wrong with it"));
    assert!(problem.contains(expected), "{what}: {problem}");
}

fn named(subject: &[(DnType, &'static str)]) -> Asked {
    Asked {
        subject: subject.to_vec(),
        ..Asked::default()
    }
}

const GROUP: (DnType, &str) = (DnType::OrganizationName, "argosy.dev:agents");
const AGENT: (DnType, &str) = (DnType::CommonName, "argosy.dev:agent:a");

type Change = fn(&mut CertificateParams);

#[test]
fn what_an_agent_asks_for_has_no_flaw() {
    let subject = subject(pem(&Asked::default()).as_bytes()).unwrap();
    assert_eq!((subject.cluster.as_str(), subject.problem), ("a", None));
}

#[test]
fn nor_has_it_where_the_name_of_the_cluster_is_long() {
    const LONG: &str = "argosy.dev:agent:a12345678901234567890123456789012345678901234567890123456789012";
    let subject = subject(pem(&named(&[GROUP, (DnType::CommonName, LONG)])).as_bytes()).unwrap();
    assert_eq!((subject.cluster.as_str().len(), subject.problem), (63, None));
}

#[test]
fn the_same_in_other_bytes_is_a_flaw() {
    check_flawed("name before group", &pem(&named(&[AGENT, GROUP])), "encoded");
    let printable = Asked {
        change: |params| {
            let name = DnValue::PrintableString("argosy.dev:agent:a".try_into().unwrap());
            params.distinguished_name.push(DnType::CommonName, name);
        },
        ..Asked::default()
    };
    check_flawed("another kind of text", &pem(&printable), "encoded");
}

#[test]
fn a_request_that_names_no_agent_is_none_of_ours() {
    for name in ["kubernetes-admin", "argosy.dev:agent", "xargosy.dev:agent:a", ""] {
        let other = named(&[GROUP, (DnType::CommonName, name)]);
        assert_eq!(subject(pem(&other).as_bytes()), None, "{name}");
    }
    assert_eq!(subject(pem(&named(&[GROUP])).as_bytes()), None);
    assert_eq!(subject(b"no request"), None);
}

#[test]
fn more_or_less_than_one_group_and_one_name_is_a_flaw() {
    let unit = (DnType::OrganizationalUnitName, "argosy.dev:agents");
    // From this attribute of a subject, an API server takes the UID of the user (Kubernetes 1.33).
    let uid = (DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]), "1");
    let masters = (DnType::OrganizationName, "system:masters");
    for (what, parts) in [
        ("no group", vec![AGENT]),
        ("another group", vec![masters, AGENT]),
        ("a unit for a group", vec![unit.clone(), AGENT]),
        ("a unit besides", vec![GROUP, AGENT, unit]),
        ("a UID besides", vec![GROUP, AGENT, uid]),
        (
            "a group that begins like ours",
            vec![(DnType::OrganizationName, "argosy.dev:agents2"), AGENT],
        ),
    ] {
        check_flawed(what, &pem(&named(&parts)), "subject");
    }
}

/// `rcgen` writes each attribute once, so these requests were created with `openssl req -subj`.
#[test]
fn a_second_group_or_name_is_a_flaw() {
    let groups = include_str!("two-groups.pem");
    let names = include_str!("two-names.pem");
    let one_part = include_str!("one-part.pem");
    for (what, text) in [
        ("system:masters besides", groups),
        ("kubernetes-admin before", names),
        ("both in one part", one_part),
    ] {
        check_flawed(what, text, "subject");
    }
}

#[test]
fn alternative_names_usages_and_the_like_are_flaws() {
    let with_names = Asked {
        names: vec!["kubernetes.default.svc"],
        ..Asked::default()
    };
    check_flawed("alternative names", &pem(&with_names), "attributes");
    let changes: [(&str, Change); 3] = [
        ("key usage", |params| {
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        }),
        ("server", |params| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        }),
        ("no authority", |params| params.is_ca = IsCa::ExplicitNoCa),
    ];
    for (what, change) in changes {
        let asked = Asked {
            change,
            ..Asked::default()
        };
        check_flawed(what, &pem(&asked), "attributes");
    }
}

#[test]
fn another_kind_of_key_is_a_flaw() {
    for algorithm in [&rcgen::PKCS_ED25519, &rcgen::PKCS_ECDSA_P384_SHA384] {
        let asked = Asked {
            algorithm,
            ..Asked::default()
        };
        check_flawed("key", &pem(&asked), "P-256");
    }
}

#[test]
fn what_stands_around_the_request_is_a_flaw() {
    let good = pem(&Asked::default());
    let other = pem(&named(&[GROUP, (DnType::CommonName, "argosy.dev:agent:b")]));
    let with_header = good.replacen(BEGIN, &format!("{BEGIN}\nSubject: b\n"), 1);
    // One of the two libraries cannot parse a header at all.
    assert!(subject(with_header.as_bytes()).is_none_or(|subject| subject.problem.is_some()));
    for (what, text) in [
        ("two", format!("{good}{other}")),
        ("twice", format!("{good}{good}")),
        ("text before", format!("text\n{good}")),
        ("a line before", format!("\n{good}")),
        ("text after", format!("{good}text\n")),
        (
            "another label",
            good.replace("CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"),
        ),
    ] {
        check_flawed(what, &text, "one block");
    }
}

#[test]
fn bytes_after_the_request_are_a_flaw() {
    let (_, block) = parse_x509_pem(pem(&Asked::default()).as_bytes()).unwrap();
    let mut der = block.contents;
    der.extend([5, 0]);
    check_flawed("two more bytes", &encode(&der), "one block");
}

fn encode(der: &[u8]) -> String {
    let text = serde_json::to_value(k8s_openapi::ByteString(der.to_vec())).unwrap();
    format!("{BEGIN}\n{}\n{END}\n", text.as_str().unwrap())
}

#[test]
fn a_request_that_is_signed_with_another_key_is_flawed() {
    let (_, mine) = parse_x509_pem(pem(&Asked::default()).as_bytes()).unwrap();
    let name = |text: &'static str| named(&[GROUP, (DnType::CommonName, text)]);
    let (_, theirs) = parse_x509_pem(pem(&name("argosy.dev:agent:b")).as_bytes()).unwrap();
    // The name of one request under the signature of the other.
    let at = |der: &[u8]| {
        der.windows(18)
            .position(|part| part.starts_with(b"argosy.dev:agent:"))
            .unwrap()
    };
    let mut forged = theirs.contents.clone();
    forged[at(&theirs.contents) + 17] = mine.contents[at(&mine.contents) + 17];
    let text = encode(&forged);
    assert_eq!(subject(text.as_bytes()).unwrap().cluster.as_str(), "a");
    check_flawed("forged", &text, "signed");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Any changed bit makes a request invalid or flawed, because the request is signed.
    #[test]
    fn no_byte_of_a_request_can_be_changed(place in any::<prop::sample::Index>(), bit in 0..8_u32) {
        let (_, good) = parse_x509_pem(pem(&Asked::default()).as_bytes()).unwrap();
        let mut der = good.contents;
        let place = place.index(der.len());
        der[place] ^= 1 << bit;
        let read = subject(encode(&der).as_bytes());
        prop_assert!(read.as_ref().is_none_or(|subject| subject.problem.is_some()), "{place}: {read:?}");
    }

    /// Arbitrary bytes never make the parser panic.
    #[test]
    fn anything_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let read = subject(&bytes);
        prop_assert_eq!(read, None);
        prop_assert!(subject(encode(&bytes).as_bytes()).is_none_or(|subject| subject.problem.is_some()));
    }
}
