//! When a certificate is replaced: in good time before its end, or because somebody wishes it.
//!
//! Pure; time is an argument.

use jiff::{SignedDuration, Timestamp};

use crate::x509::Certificate;

/// Parts of a hundred of its life after which a certificate is replaced, at the earliest and at the latest.
const EARLIEST: i64 = 60;
const LATEST: i64 = 80;

/// When a certificate is replaced that was asked for at `requested_at`; it may begin earlier, as signers allow for clocks that are
/// apart. Drawn from the certificate itself: agents that began at the same moment do not ask at the same moment, and one that is
/// started again asks no earlier.
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

/// Whether a certificate that was asked for at `requested_at`, because of the wish `answered` if there was one, is to be replaced
/// because of `wish`. The clock of who wishes may be ahead of the hub's, so a wish that was answered is none, whatever its time.
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
        // It begins five minutes before it was asked for.
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
        // Of somebody whose clock is ahead.
        assert!(!is_wished(Some(at(99)), at(10), Some(at(99))));
    }
}
