//! Which of several replicas leads, elected by a Lease as Kubernetes' own components do it (client-go, `leaderelection`).
//!
//! Who leads renews the Lease every retry period, and leads no longer than the renew deadline after the beginning of the last renewal that has
//! succeeded. Who follows takes the Lease when it was given back, or when it has not seen it change for as long as it lasts. Both
//! count on their own clock, which nobody sets: `now` is the time since the process began. As a follower sees a renewal after it
//! was begun, and a lease lasts longer than the renew deadline, no two lead at once, however their walls' clocks differ. Not here:
//! requests, and what who does not lead must not do (`argosy::leader`).

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};

use crate::{Change, reconcile::is_newer};

/// The durations of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    lease_duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

impl Terms {
    /// A lease lasts `lease_duration`; who could not renew it for `renew_deadline` leads no longer; tried is every `retry_period`.
    ///
    /// # Errors
    ///
    /// What is wrong with them, in words: each must be shorter than the one before.
    pub fn new(
        lease_duration: Duration,
        renew_deadline: Duration,
        retry_period: Duration,
    ) -> Result<Self, String> {
        if retry_period.is_zero() || retry_period >= renew_deadline || renew_deadline >= lease_duration {
            return Err(format!(
                "a lease of {lease_duration:?}, renewed within {renew_deadline:?} and tried every {retry_period:?}: the retry period must \
                 be shorter than the renew deadline, and that than the lease"
            ));
        }
        Ok(Self {
            lease_duration,
            renew_deadline,
            retry_period,
        })
    }

    /// How long after the beginning of the last renewal writes may begin.
    pub fn renew_deadline(&self) -> Duration {
        self.renew_deadline
    }

    /// How long after it nobody waits for the answer to a write any more: half-way between the renew deadline and the end of the lease,
    /// so that what is on the wire has arrived when somebody else may lead.
    pub fn answer_deadline(&self) -> Duration {
        (self.renew_deadline + self.lease_duration) / 2
    }

    /// How long a write may take to arrive that nobody waits for any more.
    pub fn arrival(&self) -> Duration {
        self.lease_duration.saturating_sub(self.answer_deadline())
    }

    /// How long after a failure it is tried again.
    pub fn retry_period(&self) -> Duration {
        self.retry_period
    }
}

/// One replica, and what it knows of the Lease.
#[derive(Clone, Debug)]
pub struct Candidate {
    identity: String,
    metadata: ObjectMeta,
    terms: Terms,
    /// `None` before it was listed.
    seen: Option<Seen>,
    /// Until when somebody else may lead, as far as was seen.
    taken_until: Duration,
    /// While it leads: when the last renewal that has succeeded began.
    renewed: Option<Duration>,
    /// Before this, nothing is tried.
    next_try: Duration,
}

#[derive(Clone, Debug)]
enum Seen {
    Absent,
    There(Box<Lease>),
}

/// What a candidate does next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Write the Lease: create it where it has no version, else replace exactly that version.
    Write(Box<Lease>),
    /// Wait for news of the Lease, and at most until this time, if there is one.
    Wait(Option<Duration>),
    /// It led and does so no longer.
    Lost,
}

impl Candidate {
    /// A replica called `identity`, which no other living one is called, for the Lease `name` in `namespace`.
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

    /// The durations.
    pub fn terms(&self) -> Terms {
        self.terms
    }

    /// Who holds the Lease, as far as it is known.
    pub fn holder(&self) -> Option<&str> {
        self.lease().and_then(holder)
    }

    /// Whether the Lease was listed.
    pub fn is_listed(&self) -> bool {
        self.seen.is_some()
    }

    /// Learns what a watch of this one Lease, or a read of it, has told at `now`.
    pub fn learn(&mut self, change: Change<Lease>, now: Duration) {
        match change {
            Change::Reset(mut live) => match live.pop() {
                Some(lease) => self.see(lease, now),
                None => self.seen = Some(Seen::Absent),
            },
            Change::Apply(lease) => self.see(*lease, now),
            Change::Delete(lease) => {
                // Another one may be there already, by an answer that was faster than the watch.
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
            // Any newer version counts as a renewal, whatever its times say: those are of a clock that may be set.
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

    /// What to do at `now`, which is `wall` on the clock of the wall.
    pub fn decide(&self, now: Duration, wall: Timestamp) -> Step {
        let Some(seen) = &self.seen else {
            return Step::Wait(None);
        };
        if let Some(renewed) = self.renewed {
            let deadline = renewed + self.terms.renew_deadline;
            let is_others = self.holder().is_some_and(|holder| holder != self.identity);
            if now >= deadline || is_others {
                return Step::Lost;
            }
            // A Lease that somebody has deleted, or given away, is put back at once.
            let is_ours = self.holder() == Some(&self.identity);
            let due = if is_ours { self.next_try } else { Duration::ZERO };
            return if now < due {
                Step::Wait(Some(due.min(deadline)))
            } else {
                Step::Write(Box::new(self.renewal(seen, wall)))
            };
        }
        let due = self.taken_until.max(self.next_try);
        if now < due {
            return Step::Wait(Some(due));
        }
        Step::Write(Box::new(self.renewal(seen, wall)))
    }

    /// A write that began at `began` was answered with `lease` at `now`: it leads.
    pub fn wrote(&mut self, lease: Lease, began: Duration, now: Duration) {
        self.see(lease, now);
        self.renewed = Some(began);
        self.next_try = now + self.terms.retry_period;
    }

    /// A write failed, or its outcome is not known.
    pub fn failed(&mut self, now: Duration) {
        self.next_try = now + self.terms.retry_period;
    }

    /// Until when writes may begin; `None` while it does not lead.
    pub fn leads_until(&self) -> Option<Duration> {
        self.renewed.map(|renewed| renewed + self.terms.renew_deadline)
    }

    /// The Lease as it is given back, so that another one leads at once; `None` where it is not ours to give.
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

    /// The Lease as this replica holds it from now on.
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
