//! Which certificates are recorded of a cluster: an annotation of its ManagedCluster.

use std::collections::BTreeSet;

use argosy_api::{
    ManagedCluster,
    issued::{IssuedCertificate, certificates},
    names,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Member, SigningRequest, State};
use crate::patch::{JsonPatch, annotation_path};

/// What is recorded, the oldest first.
#[derive(Debug)]
pub(super) struct Ledger(Vec<IssuedCertificate>);

/// So many certificates are recorded at most. An agent has one, and for a while its successor; one that asks for more without end
/// forgets its own oldest ones.
const MOST: usize = 8;

impl Ledger {
    pub(super) fn of(cluster: &ManagedCluster) -> Self {
        Self(certificates(cluster))
    }

    /// Whether the credential that an API server names is a certificate that is recorded.
    pub(super) fn knows(&self, credential: &str) -> bool {
        let digest = credential.strip_prefix(names::CERTIFICATE_CREDENTIAL_PREFIX);
        digest.is_some_and(|digest| self.0.iter().any(|known| known.sha256 == digest))
    }

    /// What is to be recorded, if that has something of `issued` that is not: the newest of all that have not ended.
    fn with(&self, issued: BTreeSet<&IssuedCertificate>, now: Timestamp) -> Option<Vec<IssuedCertificate>> {
        let mut all = issued;
        all.extend(&self.0);
        let live: Vec<IssuedCertificate> = all
            .into_iter()
            .filter(|known| known.not_after > now)
            .cloned()
            .collect();
        let newest = live.get(live.len().saturating_sub(MOST)..).unwrap_or_default();
        let is_new = newest.iter().any(|known| !self.0.contains(known));
        is_new.then(|| newest.to_vec())
    }
}

impl Member {
    /// The patch that records what was issued; none where that is recorded.
    pub(super) fn record<'a>(
        &self,
        requests: impl Iterator<Item = &'a SigningRequest>,
        now: Timestamp,
    ) -> Option<JsonPatch> {
        if self.is_removed {
            return None;
        }
        let issued = requests.filter_map(|request| match (&request.subject, &request.state) {
            // Of a cluster that had the name before.
            _ if request.created < self.created => None,
            // What somebody has approved by hand for more than an agent is none of an agent's certificates.
            (Some(subject), State::Issued(issued)) if subject.flaw.is_none() => Some(issued),
            _ => None,
        });
        let wanted = self.ledger.with(issued.collect(), now)?;
        let text = serde_json::to_string(&wanted).ok()?;
        let patch = JsonPatch::guarded(&self.uid, &self.resource_version);
        Some(if self.has_annotations {
            patch.set(&annotation_path(names::CERTIFICATES_ANNOTATION), text)
        } else {
            patch.set(
                "/metadata/annotations",
                json!({ names::CERTIFICATES_ANNOTATION: Value::String(text) }),
            )
        })
    }
}
