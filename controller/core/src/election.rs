//! Leader election between replicas with a Lease, as in Kubernetes' own components (client-go,
//! `leaderelection`).
//!
//! The leader renews the Lease every retry period. It leads no longer than the renew deadline after
//! the start of its last successful renewal. A follower acquires the Lease when the leader has
//! released it, or when the follower has not seen it change for the duration of the lease. Both use
//! their own monotonic clock: `now` is the time since the start of the process. A follower sees a
//! renewal only after its start, and a lease is valid for longer than the renew deadline. Two
//! replicas therefore never lead at once, even if their wall clocks differ.
//!
//! Unlike client-go's leader, one that is past its renew deadline may still renew, for example because
//! its API server did not answer for some seconds: it leads again if nobody else held the Lease in
//! between, which the API server checks by the version of the Lease. Not here: requests, and the
//! restrictions on replicas that do not lead (`argosy::runtime::leader`).

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};

use crate::{Change, index::reconciler::is_newer};

/// The time after the renew deadline in which a replica may lead again. It is shorter than the time for which
/// an unanswered request may still arrive (`--request-lifetime`, 70 s), so that what an API server carries out
/// after a stall arrives while the indexes expect it.
const LONGEST_LAPSE: Duration = Duration::from_secs(30);

/// The durations of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    lease_duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

impl Terms {
    /// `lease_duration` is the time for which a lease is valid, `renew_deadline` the time that a
    /// leader keeps leading without a successful renewal, and `retry_period` the interval between
    /// attempts.
    ///
    /// # Errors
    ///
    /// The violated rule as a sentence: each duration must be shorter than the one before.
    pub fn new(
        lease_duration: Duration,
        renew_deadline: Duration,
        retry_period: Duration,
    ) -> Result<Self, String> {
        if retry_period.is_zero() || retry_period >= renew_deadline || renew_deadline >= lease_duration {
            return Err(format!(
                "lease duration {lease_duration:?}, renew deadline {renew_deadline:?}, retry period {retry_period:?}: the retry period \
                 must be shorter than the renew deadline, and the renew deadline shorter than the lease duration"
            ));
        }
        Ok(Self {
            lease_duration,
            renew_deadline,
            retry_period,
        })
    }

    /// The time after the start of the last renewal in which writes may start.
    pub fn renew_deadline(&self) -> Duration {
        self.renew_deadline
    }

    /// The time after the start of the last renewal at which the leader stops waiting for responses
    /// to writes. It is half-way between the renew deadline and the end of the lease, so that
    /// requests in flight have arrived before another replica may lead.
    pub fn answer_deadline(&self) -> Duration {
        (self.renew_deadline + self.lease_duration) / 2
    }

    /// The time that a write may take to arrive after the leader has stopped waiting for its
    /// response.
    pub fn arrival(&self) -> Duration {
        self.lease_duration.saturating_sub(self.answer_deadline())
    }

    /// The time after a failure at which the next attempt starts.
    pub fn retry_period(&self) -> Duration {
        self.retry_period
    }
}

/// One replica and its view of the Lease.
#[derive(Clone, Debug)]
pub struct Candidate {
    identity: String,
    metadata: ObjectMeta,
    terms: Terms,
    /// `None` before the first list.
    seen: Option<Seen>,
    /// The time until which another replica may lead, as far as it was observed.
    taken_until: Duration,
    /// Set once the replica has led: the start of the last successful renewal.
    renewed: Option<Duration>,
    /// The earliest time of the next attempt.
    next_try: Duration,
}

#[derive(Clone, Debug)]
enum Seen {
    Absent,
    There(Box<Lease>),
}

/// The next step of a candidate.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Write the Lease: create it if it has no version, otherwise replace exactly that version.
    Write(Box<Lease>),
    /// Wait for a change of the Lease, and at most until this time, if there is one.
    Wait(Option<Duration>),
    /// The replica has led and will not lead again.
    Lost,
}

impl Candidate {
    /// A candidate for the Lease `name` in `namespace`. No other live replica may have the same
    /// `identity`.
    pub fn new(identity: &str, namespace: &str, name: &str, terms: Terms) -> Self {
        Self {
            identity: identity.to_owned(),
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            terms,
            seen: None,
            taken_until: Duration::ZERO,
            renewed: None,
            next_try: Duration::ZERO,
        }
    }

    /// The durations of the election.
    pub fn terms(&self) -> Terms {
        self.terms
    }

    /// The holder of the Lease, as far as it is known.
    pub fn holder(&self) -> Option<&str> {
        self.lease().and_then(holder)
    }

    /// Returns true once the Lease was listed.
    pub fn is_listed(&self) -> bool {
        self.seen.is_some()
    }

    /// Applies a watch event or the result of a read of this one Lease at `now`.
    pub fn learn(&mut self, change: Change<Lease>, now: Duration) {
        match change {
            Change::Reset(mut live) => match live.pop() {
                Some(lease) => self.see(lease, now),
                None => self.seen = Some(Seen::Absent),
            },
            Change::Apply(lease) => self.see(*lease, now),
            Change::Delete(lease) => {
                // A new Lease may exist already, if the response to its creation was faster than
                // the watch.
                if self
                    .lease()
                    .is_none_or(|known| known.metadata.uid == lease.metadata.uid)
                {
                    self.seen = Some(Seen::Absent);
                }
            }
        }
    }

    fn see(&mut self, lease: Lease, now: Duration) {
        if let Some(known) = self.lease() {
            let (known, new) = (&known.metadata, &lease.metadata);
            let version = known.resource_version.as_deref().unwrap_or_default();
            let is_known = new.resource_version.as_deref() == Some(version);
            // Any newer version counts as a renewal, whatever times it contains: they are from a
            // wall clock, which may be wrong.
            if known.uid == new.uid && (is_known || !is_newer(new.resource_version.as_deref(), version)) {
                return;
            }
        }
        self.taken_until = match holder(&lease) {
            Some(other) if other != self.identity => now + self.duration_of(&lease),
            _ => now,
        };
        self.seen = Some(Seen::There(Box::new(lease)));
    }

    /// Returns the next step at `now`, at which the wall clock shows `wall`.
    pub fn decide(&self, now: Duration, wall: Timestamp) -> Step {
        let Some(seen) = &self.seen else {
            return Step::Wait(None);
        };
        if let Some(deadline) = self.leads_until() {
            let is_ours = self.holder() == Some(&self.identity);
            let is_late = now >= deadline;
            // Since the deadline, another replica may have held a Lease that is gone, or that nobody holds.
            let is_lost = !is_ours && (is_late || self.holder().is_some());
            if is_lost || now >= deadline + LONGEST_LAPSE {
                return Step::Lost;
            }
            // A Lease that was deleted or released by hand is restored at once.
            let due = if is_ours { self.next_try } else { Duration::ZERO };
            if now >= due {
                return Step::Write(Box::new(self.renewal(seen, wall)));
            }
            let end = if is_late {
                deadline + LONGEST_LAPSE
            } else {
                deadline
            };
            return Step::Wait(Some(due.min(end)));
        }
        let due = self.taken_until.max(self.next_try);
        if now < due {
            return Step::Wait(Some(due));
        }
        Step::Write(Box::new(self.renewal(seen, wall)))
    }

    /// Records a successful write that started at `started`: its response `lease` arrived at `now`,
    /// and the replica leads.
    pub fn wrote(&mut self, lease: Lease, started: Duration, now: Duration) {
        self.see(lease, now);
        self.renewed = Some(started);
        self.next_try = now + self.terms.retry_period;
    }

    /// Records a write that failed, or whose result is unknown.
    pub fn failed(&mut self, now: Duration) {
        self.next_try = now + self.terms.retry_period;
    }

    /// The time until which writes may start; `None` if the replica has never led.
    pub fn leads_until(&self) -> Option<Duration> {
        self.renewed.map(|renewed| renewed + self.terms.renew_deadline)
    }

    /// The Lease for its release, which lets another replica lead at once. `None` if this replica
    /// does not hold it.
    pub fn release(&self, wall: Timestamp) -> Option<Lease> {
        let known = self
            .lease()
            .filter(|known| holder(known) == Some(&self.identity))?;
        self.renewed?;
        let mut lease = known.clone();
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        spec.renew_time = Some(MicroTime(wall));
        Some(lease)
    }

    fn lease(&self) -> Option<&Lease> {
        match self.seen.as_ref()? {
            Seen::Absent => None,
            Seen::There(lease) => Some(lease),
        }
    }

    fn duration_of(&self, lease: &Lease) -> Duration {
        let seconds = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
        let seconds = seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .filter(|seconds| *seconds > 0);
        seconds.map_or(self.terms.lease_duration, Duration::from_secs)
    }

    /// The Lease with this replica as its holder from now on.
    fn renewal(&self, seen: &Seen, wall: Timestamp) -> Lease {
        let now = Some(MicroTime(wall));
        let (metadata, former) = match seen {
            Seen::Absent => (self.metadata.clone(), LeaseSpec::default()),
            Seen::There(lease) => (lease.metadata.clone(), lease.spec.clone().unwrap_or_default()),
        };
        let was_ours = former.holder_identity.as_deref() == Some(&self.identity);
        let is_new = matches!(seen, Seen::Absent);
        let transitions = former.lease_transitions.unwrap_or_default();
        let seconds = self.terms.lease_duration.as_secs();
        Lease {
            metadata,
            spec: Some(LeaseSpec {
                holder_identity: Some(self.identity.clone()),
                lease_duration_seconds: i32::try_from(seconds).ok(),
                acquire_time: former.acquire_time.filter(|_| was_ours).or_else(|| now.clone()),
                renew_time: now,
                lease_transitions: Some(transitions + i32::from(!was_ours && !is_new)),
                ..former
            }),
        }
    }
}

fn holder(lease: &Lease) -> Option<&str> {
    let holder = lease.spec.as_ref()?.holder_identity.as_deref()?;
    (!holder.is_empty()).then_some(holder)
}

#[cfg(test)]
mod tests;
