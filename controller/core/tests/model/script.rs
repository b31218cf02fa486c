//! The steps of a script: those of the fleet and its users, and the faults.

use crate::actor::Fault;

/// The number of a process: 0 is the controller, 1 and 2 are the agents, 3 and 4 are second agents
/// of the same clusters, if they exist.
pub(crate) type Who = usize;

/// The place of objects. Every cluster has a `Wec` of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Space {
    Wds,
    Its,
    Wec,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The next event of a watch arrives.
    Deliver(Who, usize),
    /// All pending events of the watches arrive, before any answer.
    Flood(Who),
    /// A list is taken; it arrives as the watch's next event.
    Relist(Who, usize),
    Decide(Who, usize),
    Execute(Who, usize, Fault),
    /// A request whose sender has given up is carried out.
    Land(Who, usize),
    Settle(Who, usize),
    Retry(Who),
    /// An agent renews its Lease, if it can.
    Beat(Who),
    /// The process loses its memory and its unsent requests.
    Restart(Who),
    /// The process does all pending work, with one fault.
    CatchUp(Who, Fault),
    /// A watch becomes slower than everything else, or as fast as before.
    Lag(Who, usize),
    /// The process is cut off from a space, or reconnected.
    Cut(Who, Space),
    /// A second agent for the cluster starts, or ends.
    Second(usize),
    /// The clock of a process is ahead by this number of minutes from now on.
    Skew(Who, i8),
    /// The agent of a cluster loses the ITS, and this number of minutes passes.
    Lose(usize, u8),
    /// A cluster is marked as removed, or cut off if it is already marked.
    Remove(usize),
    /// Minutes pass.
    Wait(u8),
    /// Hours pass.
    Hours(u8),
    /// The API server of the ITS or of a cluster begins to answer requests about Workflows with an
    /// error, as with a failing webhook, or stops doing so.
    Ail(usize),
    /// A run advances by one step.
    Argo(usize, usize),
    /// Argo deletes a finished object.
    Expire(usize, usize),
    /// The control cluster's Argo processes a Workflow. It has not seen the last few versions.
    Local(usize, usize),
    /// The control cluster's Argo deletes a copy whose TTL is over.
    LocalExpire(usize),
    /// Somebody creates a Workflow of their own on a cluster, with one of the three names, or
    /// deletes it.
    Foreign(usize, usize),
    /// The webhook goes down, or comes back.
    Webhook,
    /// The webhook and the policies stop receiving updates, or receive them again.
    Stale,
    Policy(usize, PolicyStep),
    User(usize, UserStep),
    /// The same step on one of the runs of a Workflow that runs on every cluster.
    UserOfRun(usize, UserStep),
    /// The control cluster's garbage collector deletes objects whose owner is gone.
    CollectGarbage,
    Tamper(usize, usize, Tamper),
    /// Somebody on a cluster copies a run, or deletes a copy.
    Copy(usize, usize, CopyStep),
    /// Somebody writes about a Workflow into the mailbox of the first cluster.
    Lie(usize, Lie),
    /// A cluster is replaced by another one of the same name.
    Rebuild(usize),
    /// The mailbox of a cluster is lost and created anew.
    NewMailbox(usize),
    /// A backup of a space is taken. `Wec` is the first cluster.
    Backup(Space),
    /// The last backup is restored.
    Restore(Space, Restoration),
}

/// The way in which a backup is restored.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Restoration {
    /// Version numbers continue from where they were.
    pub(crate) numbers_go_on: bool,
    /// The watches of an ITS or WEC go on as if nothing had happened, until the processes list it for
    /// another reason: they compare its versions every few seconds only.
    pub(crate) is_unnoticed: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum PolicyStep {
    /// The policy is deleted, or created again.
    Toggle,
    /// The policy names the other clusters.
    Turn,
}

/// A user's step on one of three Workflows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum UserStep {
    /// With the value of the cluster label.
    Create(&'static str, Draft),
    Relabel(&'static str),
    /// `kubectl apply` of the file that it was created from.
    Reapply,
    /// A patch of `spec.suspend`.
    Suspend,
    /// Sets the suspend annotation; `Go` removes it.
    Pause,
    Go,
    /// `argo resume`: removes `spec.suspend`, and waiting steps continue.
    Resume,
    /// `argo resume --node-field-selector`.
    ResumeStep,
    Stop,
    Terminate,
    /// `argo retry`.
    Again,
    /// Removes the marks that hold and claim it.
    Tear,
    /// `kubectl get -o yaml | kubectl create` under the name of the next one.
    Copy,
    /// `argo resubmit`.
    Resubmit,
    /// The administrator's annotation with the room of a cluster.
    Room(&'static str),
    Forge(Forgery),
    Delete,
}

/// A forgery of Argosy's marks by somebody who may write Workflows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Forgery {
    /// A claim for `cluster2` with the object's UID that is marked as begun, or as a retry.
    Begun,
    Retry,
    /// The mark that it was held from birth.
    Held,
    /// A new object that looks as if the webhook had claimed it for `cluster2` and it had begun.
    Birth,
    /// A new object that looks held from birth and claimed for no cluster yet.
    HeldBirth,
    /// The labels and the attempt of another run, on an object that is not claimed.
    Labels,
}

/// A false statement of a member.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lie {
    /// A ManifestWork of another name has the label of the Workflow, and says that its attempt 999
    /// has begun.
    Decoy,
    /// The Workflow's ManifestWork says that the attempt has begun.
    Begun,
    /// It says that the attempt was never created and never will be.
    Withdrawn,
    /// It says that the object was deleted.
    Gone,
    /// The finalizer that delays its deletion is removed.
    Freed,
    /// A report of the Workflow, for the claimed attempt (0) or another, says that it has ended,
    /// successfully or not.
    Ended(u64, bool),
}

/// The content of a new Workflow.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub(crate) struct Draft {
    pub(crate) is_suspended: bool,
    /// It has the annotation that `kubectl apply` leaves.
    pub(crate) is_applied: bool,
    /// It has a step that waits to be resumed.
    pub(crate) waits: bool,
    /// Its last step fails the first time.
    pub(crate) fails: bool,
}

/// The steps that somebody on a cluster does with copies of runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CopyStep {
    /// `kubectl get -o yaml | kubectl create` under another name.
    Create,
    /// `argo resubmit`.
    Resubmit,
    /// The object is destroyed after it was reported, and a copy takes its name.
    Replace,
    Delete,
}

/// A step of somebody who acts without the right to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tamper {
    DeleteObject,
    /// Deleted with its finalizers, but only after its creation was recorded. Before that, the
    /// creation is unknown to everybody.
    DestroyObject,
    DeleteWork,
}

pub(crate) const SUSPENDED: Draft = Draft {
    is_suspended: true,
    is_applied: false,
    waits: false,
    fails: false,
};
