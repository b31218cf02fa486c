//! What a script is made of: the steps of the fleet, of its users, and of whatever goes wrong.

use crate::actor::Fault;

/// Which process: 0 is the controller, 1 and 2 the agents, 3 and 4 a second agent for the same cluster, where there is one.
pub(crate) type Who = usize;

/// Where objects are. Every cluster has a `Wec` of its own.
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
    /// All that the watches have to tell arrives, before any answer.
    Flood(Who),
    /// A list is taken; it arrives as the watch's next event.
    Relist(Who, usize),
    Decide(Who, usize),
    Execute(Who, usize, Fault),
    Settle(Who, usize),
    Retry(Who),
    /// An agent renews its Lease, if it can.
    Beat(Who),
    /// The process loses its memory; its unsent requests with it.
    Restart(Who),
    /// The process does all it can, but for one fault.
    CatchUp(Who, Fault),
    /// A watch is slower than everything else from now on, or no longer.
    Lag(Who, usize),
    /// The process cannot reach a space any more, or can again.
    Cut(Who, Space),
    /// A second agent for the cluster starts, or ends.
    Second(usize),
    /// The clock of a process is so many minutes ahead from now on.
    Skew(Who, i8),
    /// The agent of a cluster cannot reach the ITS any more, for so many minutes at first.
    Lose(usize, u8),
    /// A cluster is marked as removed; one that is marked is cut off.
    Remove(usize),
    /// Minutes go by.
    Wait(u8),
    /// A run goes on by one step.
    Argo(usize, usize),
    /// Argo deletes a finished object.
    Expire(usize, usize),
    /// The control cluster's Argo processes a Workflow, of which it has seen all but the last few versions.
    Local(usize, usize),
    /// The control cluster's Argo deletes a copy whose time to live is over.
    LocalExpire(usize),
    /// Somebody has a Workflow of his own on a cluster, of the name of one of the three; or no longer.
    Foreign(usize, usize),
    /// Nobody answers for the webhook, or somebody does again.
    Webhook,
    /// The webhook and the policies get no newer knowledge from now on, or do again.
    Stale,
    Policy(usize, PolicyStep),
    User(usize, UserStep),
    /// The same to one of the runs of a Workflow that runs on every cluster.
    UserOfRun(usize, UserStep),
    /// The control cluster deletes what its owner has left behind.
    CollectGarbage,
    Tamper(usize, usize, Tamper),
    /// Somebody on a cluster copies what runs there, or deletes a copy.
    Copy(usize, usize, CopyStep),
    /// Another cluster takes the name of one, which is no more.
    Rebuild(usize),
    /// The mailbox of a cluster is lost, and made anew.
    NewMailbox(usize),
    /// A backup of a space is taken; of `Wec` none is.
    Backup(Space),
    /// The last backup is put back; whether numbers of versions go on from where they were.
    Restore(Space, bool),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum PolicyStep {
    /// Deleted, or created anew.
    Toggle,
    /// It names the other clusters.
    Turn,
}

/// What a user does to one of three Workflows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum UserStep {
    /// With the label's value.
    Create(&'static str, Draft),
    Relabel(&'static str),
    /// `kubectl apply` of the file that it was created from.
    Reapply,
    /// A patch of `spec.suspend`.
    Suspend,
    /// The annotation is set, or taken off.
    Pause,
    Go,
    /// `argo resume`: `spec.suspend` is taken off, and waiting steps go on.
    Resume,
    /// `argo resume --node-field-selector`.
    ResumeStep,
    Stop,
    Terminate,
    /// `argo retry`.
    Again,
    /// What holds and claims it is taken off.
    Tear,
    /// `kubectl get -o yaml | kubectl create` under the name of the next one.
    Copy,
    /// `argo resubmit`.
    Resubmit,
    Forge(Forgery),
    Delete,
}

/// What somebody writes in Argosy's words who may write Workflows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Forgery {
    /// A claim for `cluster2`, with the object's UID: begun, or a retry.
    Begun,
    Retry,
    /// That it was held from its birth on.
    Held,
    /// A new object with the looks of one that the webhook has claimed for `cluster2`, which has begun.
    Birth,
    /// The same that is held, and claimed for none yet.
    HeldBirth,
}

/// How a Workflow is written.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub(crate) struct Draft {
    pub(crate) is_suspended: bool,
    /// `kubectl apply` leaves what was applied on the object.
    pub(crate) is_applied: bool,
    /// It has a step that waits to be resumed.
    pub(crate) waits: bool,
    /// Its last step fails the first time.
    pub(crate) fails: bool,
}

/// What somebody on a cluster does with copies of what runs there.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CopyStep {
    /// `kubectl get -o yaml | kubectl create` under another name.
    Create,
    /// `argo resubmit`.
    Resubmit,
    /// The object is destroyed, once it was reported, and a copy of it has its name.
    Replace,
    Delete,
}

/// What somebody does who should not.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tamper {
    DeleteObject,
    /// With its finalizers, once anything says that it was created. Before, nobody can know.
    DestroyObject,
    DeleteWork,
}

pub(crate) const SUSPENDED: Draft = Draft {
    is_suspended: true,
    is_applied: false,
    waits: false,
    fails: false,
};
