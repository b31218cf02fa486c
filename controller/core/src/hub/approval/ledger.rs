//! The certificates that are recorded for a cluster, in an annotation of its ManagedCluster.

use std::collections::BTreeSet;

use argosy_api::{
    ManagedCluster,
    issued::{IssuedCertificate, certificates},
    names,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Member, SigningRequest, State};
use crate::model::json_patch::{JsonPatch, annotation_path};

/// The recorded certificates, oldest first.
#[derive(Debug)]
pub(super) struct Ledger(Vec<IssuedCertificate>);

/// Maximum number of recorded certificates. An agent has one, and for a while its successor. If an
/// agent asks for more without end, its own oldest certificates are forgotten.
const MOST: usize = 8;

impl Ledger {
    pub(super) fn of(cluster: &ManagedCluster) -> Self {
        Self(certificates(cluster))
    }

    /// True if a credential, as the API server names it, is a recorded certificate.
    pub(super) fn knows(&self, credential: &str) -> bool {
        let digest = credential.strip_prefix(names::CERTIFICATE_CREDENTIAL_PREFIX);
        digest.is_some_and(|digest| self.0.iter().any(|known| known.sha256 == digest))
    }

    /// The newest of all unexpired certificates, to be recorded; `None` if all of them are recorded
    /// already.
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
    /// The patch that records the issued certificates; `None` if they are recorded already.
    pub(super) fn record<'a>(
        &self,
        requests: impl Iterator<Item = &'a SigningRequest>,
        now: Timestamp,
    ) -> Option<JsonPatch> {
        if self.is_removed {
            return None;
        }
        let issued = requests.filter_map(|request| match (&request.subject, &request.state) {
            // Issued to a former cluster of this name.
            _ if request.created < self.created => None,
            // Somebody may have approved by hand a request for more than an agent's identity; the
            // certificate is not an agent's.
            (Some(subject), State::Issued(issued)) if subject.problem.is_none() => Some(issued),
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
