//! The webhook's certificates: an authority of its own, and the pair that the server shows, signed by it.
//!
//! Pure: who keeps them and when they are renewed is elsewhere; time is an argument. A new authority is published a while
//! before it signs, and an old one until it ends, so that a renewal never meets an API server that does not trust it yet.

use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use serde::{Deserialize, Serialize};

/// An authority lives this many times as long as what it signs.
const AUTHORITY_LIVES: u32 = 4;

/// Part of the serving certificate's lifetime for which a new authority is published before it signs.
const PUBLISHED_BEFORE: u32 = 6;

/// How far the clocks of this host and of the API server may be apart.
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

/// Everything that the webhook's TLS needs. Has no `Debug`, because it holds keys.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Credentials {
    hosts: Vec<String>,
    serving: Pair,
    /// The oldest first.
    authorities: Vec<Pair>,
}

impl Credentials {
    /// When the serving certificate ends.
    pub(super) fn ends_at(&self) -> Timestamp {
        self.serving.until
    }

    /// What is to replace `known` at `now`; `None` while it is good.
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

    /// When something of it is due.
    pub(super) fn renew_at(&self) -> Timestamp {
        let ends = self.authorities.iter().map(|authority| authority.until);
        let due = self.authorities.last().map(Pair::due);
        ends.chain(due).fold(self.serving.due(), Timestamp::min)
    }

    /// PEM of the certificate and of the key that the server shows.
    pub(super) fn serving(&self) -> (&str, &str) {
        (&self.serving.certificate, &self.serving.key)
    }

    /// PEM of every authority that is or will be in use.
    pub(super) fn bundle(&self) -> String {
        self.authorities
            .iter()
            .map(|authority| authority.certificate.as_str())
            .collect()
    }
}

impl Pair {
    /// After two thirds of its life.
    fn due(&self) -> Timestamp {
        let life = Duration::try_from(self.until.duration_since(self.since)).unwrap_or_default();
        after(self.since, life * 2 / 3)
    }
}

/// The newest authority that has been published long enough; at first there is only one.
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

/// What an issuer is known by, made again from the moment of its birth.
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
