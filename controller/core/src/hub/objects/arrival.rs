//! The arrival of a copy on its cluster, and the reason why it has not arrived.
//!
//! Not here: the sentences in the status of policies (`sync_summary`, `needs::obstacles`).

use std::fmt;

use super::{ObjectIndex, ObjectView, work::Unapplied};
use crate::{ClusterName, OriginUid, model::cron::FIRES_HERE};

/// Maximum number of sentences about one subject in a status; more are only counted.
pub(super) const MOST: usize = 10;

/// The reason why a copy is not on its cluster. It becomes text only if it is said.
#[derive(Debug)]
pub(super) enum Obstacle<'a> {
    /// The object could not be read or written on the control cluster.
    Unread(&'a str),
    /// The object itself cannot be sent.
    NotSent(&'a str),
    /// Transforms and templates that cannot be applied.
    Content(&'a [String]),
    /// The ManifestWork could not be written.
    Refused(&'a str),
    /// The agent could not apply it.
    Unapplied(&'a Unapplied),
}

impl fmt::Display for Obstacle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unread(failure) => {
                write!(f, "cannot be read or written on the control cluster: {failure}")
            }
            Self::NotSent(why) => write!(f, "is not sent: {why}"),
            Self::Content(errors) => f.write_str(&errors.join("; ")),
            Self::Refused(failure) => f.write_str(failure),
            Self::Unapplied(failure) => f.write_str(&failure.message),
        }
    }
}

impl ObjectIndex {
    /// True if the agent has applied a copy, false if it is on its way, or the reason why it is not
    /// there.
    pub(super) fn arrival<'a>(
        &'a self,
        origin: &OriginUid,
        object: &'a ObjectView,
        cluster: &ClusterName,
    ) -> Result<bool, Obstacle<'a>> {
        let address = (origin.clone(), cluster.clone());
        if let Some(decode_error) = &object.decode_error {
            return Err(Obstacle::NotSent(decode_error));
        }
        if object.fires_here {
            return Err(Obstacle::NotSent(FIRES_HERE));
        }
        if let Some(errors) = self.content_errors.get(&address) {
            return Err(Obstacle::Content(errors));
        }
        if let Some(failure) = self.send_failures.get(&address) {
            return Err(Obstacle::Refused(failure));
        }
        let work = self.works.get(origin).and_then(|works| works.get(cluster));
        match work.and_then(|work| work.applied.as_ref()) {
            Some(Ok(())) => Ok(true),
            Some(Err(failure)) => Err(Obstacle::Unapplied(failure)),
            None => Ok(false),
        }
    }
}
