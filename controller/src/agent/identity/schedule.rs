//! Schedule of a certificate's replacement: in good time before its end, or after a rotation
//! request.
//!
//! Pure; time is an argument.

use jiff::{SignedDuration, Timestamp};

use crate::runtime::x509::Certificate;

/// Percentages of its life between which a certificate is replaced.
const EARLIEST: i64 = 60;
const LATEST: i64 = 80;

/// Time at which a certificate is replaced that was requested at `requested_at`. Its validity may
/// start earlier, because signers allow for clock skew. The time is derived from the certificate's
/// digest: agents that started together do not renew together, and a restarted agent does not renew
/// earlier.
pub(super) fn renew_at(certificate: &Certificate, requested_at: Timestamp) -> Timestamp {
    let draw = certificate
        .sha256
        .get(..4)
        .and_then(|text| u16::from_str_radix(text, 16).ok());
    let begin = certificate.not_before.max(requested_at);
    let life = certificate.not_after.duration_since(begin).as_secs();
    let range = life * (LATEST - EARLIEST) / 100;
    let drawn = range * i64::from(draw.unwrap_or_default()) / i64::from(u16::MAX);
    let after = SignedDuration::from_secs(life * EARLIEST / 100 + drawn);
    begin.saturating_add(after).unwrap_or(certificate.not_after)
}

/// Returns true if a certificate must be replaced because of `wish`. It was requested at
/// `requested_at`, when the rotation request `answered` was known, if any. The clock of the person
/// who sets `wish` may be ahead of the hub's, so an answered one counts as done, whatever its time.
pub(super) fn is_wished(
    wish: Option<Timestamp>,
    requested_at: Timestamp,
    answered: Option<Timestamp>,
) -> bool {
    wish.is_some_and(|wish| wish > requested_at && Some(wish) != answered)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn certificate(sha256: &str) -> Certificate {
        Certificate {
            sha256: sha256.to_owned(),
            common_name: String::new(),
            not_before: at(1000),
            not_after: at(2000),
        }
    }

    #[test]
    fn a_certificate_is_replaced_between_sixty_and_eighty_percent_of_its_life() {
        let renew_at = |sha256: &str, requested_at| renew_at(&certificate(sha256), at(requested_at));
        assert_eq!(renew_at("0000abcd", 1000), at(1600));
        assert_eq!(renew_at("ffffabcd", 1000), at(1800));
        assert_eq!(renew_at("8000abcd", 1000), at(1700));
        assert_eq!(renew_at("", 1000), at(1600));
        // Its validity starts five minutes before the request.
        assert_eq!(renew_at("0000abcd", 1300), at(1720));
        assert_eq!(renew_at("0000abcd", 700), at(1600));
    }

    #[test]
    fn a_wish_counts_once_and_only_for_what_is_older() {
        assert!(is_wished(Some(at(11)), at(10), None));
        assert!(is_wished(Some(at(11)), at(10), Some(at(5))));
        assert!(!is_wished(Some(at(10)), at(10), None));
        assert!(!is_wished(Some(at(9)), at(10), None));
        assert!(!is_wished(None, at(10), None));
        // The clock of the person who set it was ahead.
        assert!(!is_wished(Some(at(99)), at(10), Some(at(99))));
    }
}
