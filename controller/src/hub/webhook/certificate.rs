//! The webhook's certificates: its own certificate authority (CA), and the serving pair, which the
//! CA signs.
//!
//! Pure; time is an argument. A new CA is published a while before it signs, and an old one until
//! it expires, so that no API server receives a certificate that it does not trust yet. Not here:
//! the storage and the schedule (`credentials`).

use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use serde::{Deserialize, Serialize};

/// The lifetime of a CA in lifetimes of a serving certificate.
const AUTHORITY_LIVES: u32 = 4;

/// A new CA is published for this fraction (1/6) of a serving certificate's lifetime before it
/// signs.
const PUBLISHED_BEFORE: u32 = 6;

/// Maximum clock skew between this host and the API server.
const CLOCK_SKEW: Duration = Duration::from_hours(1);

/// A certificate and its key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Pair {
    /// PEM.
    certificate: String,
    /// PEM.
    key: String,
    since: Timestamp,
    until: Timestamp,
}

/// Everything that the webhook's TLS needs. It has no `Debug`, because it contains keys.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Credentials {
    hosts: Vec<String>,
    serving: Pair,
    /// The CAs, the oldest first.
    authorities: Vec<Pair>,
}

impl Credentials {
    /// End of the serving certificate.
    pub(super) fn ends_at(&self) -> Timestamp {
        self.serving.until
    }

    /// Returns the replacement of `known` at `now`; `None` while nothing is due.
    pub(super) fn renewed(
        known: Option<&Self>,
        hosts: &[String],
        lifetime: Duration,
        now: Timestamp,
    ) -> Result<Option<Self>, rcgen::Error> {
        let mut authorities: Vec<Pair> = known.map(|known| known.authorities.clone()).unwrap_or_default();
        authorities.retain(|authority| authority.until > now);
        if authorities.last().is_none_or(|newest| newest.due() <= now) {
            authorities.push(authority(lifetime * AUTHORITY_LIVES, now)?);
        }
        let serving = known
            .filter(|known| known.hosts == hosts)
            .map(|known| &known.serving);
        let serving = match serving.filter(|serving| serving.due() > now) {
            Some(serving) => serving.clone(),
            None => sign(signer(&authorities, lifetime, now)?, hosts, lifetime, now)?,
        };
        let renewed = Self {
            hosts: hosts.to_vec(),
            serving,
            authorities,
        };
        Ok(Some(renewed).filter(|renewed| Some(renewed) != known))
    }

    /// Time of the next renewal of any part.
    pub(super) fn renew_at(&self) -> Timestamp {
        let ends = self.authorities.iter().map(|authority| authority.until);
        let due = self.authorities.last().map(Pair::due);
        ends.chain(due).fold(self.serving.due(), Timestamp::min)
    }

    /// Certificate and key of the server, in PEM.
    pub(super) fn serving(&self) -> (&str, &str) {
        (&self.serving.certificate, &self.serving.key)
    }

    /// Every CA that is or will be in use, in PEM.
    pub(super) fn bundle(&self) -> String {
        self.authorities
            .iter()
            .map(|authority| authority.certificate.as_str())
            .collect()
    }
}

impl Pair {
    /// Time of renewal: after two thirds of the lifetime.
    fn due(&self) -> Timestamp {
        let life = Duration::try_from(self.until.duration_since(self.since)).unwrap_or_default();
        after(self.since, life * 2 / 3)
    }
}

/// Returns the newest CA that has been published long enough; at first there is only one.
fn signer(authorities: &[Pair], lifetime: Duration, now: Timestamp) -> Result<&Pair, rcgen::Error> {
    let is_known = |authority: &&Pair| after(authority.since, lifetime / PUBLISHED_BEFORE) <= now;
    let known = authorities.iter().rev().find(is_known);
    known
        .or(authorities.first())
        .ok_or(rcgen::Error::CouldNotParseCertificate)
}

fn authority(lifetime: Duration, now: Timestamp) -> Result<Pair, rcgen::Error> {
    let key = KeyPair::generate()?;
    let until = after(now, lifetime);
    let mut params = authority_params(now);
    set_validity(&mut params, now, until);
    Ok(Pair {
        certificate: params.self_signed(&key)?.pem(),
        key: key.serialize_pem(),
        since: now,
        until,
    })
}

/// Builds the identity of a CA from its time of creation, so that it can be rebuilt.
fn authority_params(since: Timestamp) -> CertificateParams {
    let mut params = CertificateParams::default();
    let name = format!("argosy-webhook-ca-{}", since.as_millisecond());
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn sign(
    authority: &Pair,
    hosts: &[String],
    lifetime: Duration,
    now: Timestamp,
) -> Result<Pair, rcgen::Error> {
    let issuer = Issuer::new(
        authority_params(authority.since),
        KeyPair::from_pem(&authority.key)?,
    );
    let key = KeyPair::generate()?;
    let until = after(now, lifetime).min(authority.until);
    let mut params = CertificateParams::new(hosts)?;
    params
        .distinguished_name
        .push(DnType::CommonName, "argosy-webhook");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params, now, until);
    Ok(Pair {
        certificate: params.signed_by(&key, &issuer)?.pem(),
        key: key.serialize_pem(),
        since: now,
        until,
    })
}

fn set_validity(params: &mut CertificateParams, since: Timestamp, until: Timestamp) {
    let date = |at: Timestamp| {
        let seconds = u64::try_from(at.as_second()).unwrap_or_default();
        date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds)
    };
    params.not_before = date(since.saturating_sub(CLOCK_SKEW).unwrap_or(since));
    params.not_after = date(until);
}

fn after(at: Timestamp, duration: Duration) -> Timestamp {
    at.saturating_add(duration).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
