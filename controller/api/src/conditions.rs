//! Condition types and reasons, and the two shapes a condition has.
//!
//! Kubernetes conditions (`metav1.Condition`) stand on ManagedClusters, ManifestWorks and policies. Argo's
//! Workflow conditions have type, status and message only, so there a reason is the first word of the message.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Condition types on a WDS Workflow. All of them are ours; Argo's own types are left alone.
pub mod workflow {
    /// The Workflow is claimed for a cluster and its ManifestWork is there.
    pub const DISPATCHED: &str = "Dispatched";
    /// The Workflow is selected but may have run here already, or cannot be read whole, so it is not sent.
    pub const NOT_DISPATCHABLE: &str = "NotDispatchable";
    /// More than one cluster could take the Workflow, so it is not sent.
    pub const AMBIGUOUS: &str = "Ambiguous";
    /// Whether the agent of the claimed cluster is alive.
    pub const CLUSTER_REACHABLE: &str = "ClusterReachable";

    /// Whether the whole status of the run can be shown.
    pub const STATUS_COMPLETE: &str = "StatusComplete";

    /// Whether what the user asked of the run could be done.
    pub const CONTROL_APPLIED: &str = "ControlApplied";

    /// All types that Argosy owns on a Workflow.
    pub const ALL: [&str; 6] = [
        DISPATCHED,
        NOT_DISPATCHABLE,
        AMBIGUOUS,
        CLUSTER_REACHABLE,
        STATUS_COMPLETE,
        CONTROL_APPLIED,
    ];
}

/// Condition types on a ManifestWork, set by the agent.
pub mod manifest_work {
    /// OCM: the manifests are on the cluster.
    pub const APPLIED: &str = "Applied";
    /// OCM: the objects of the manifests exist on the cluster.
    pub const AVAILABLE: &str = "Available";
    /// The agent promises never to create this attempt.
    pub const WITHDRAWN: &str = "Withdrawn";
    /// OCM, of one manifest: the values that were asked of its object's status are in the ManifestWork's.
    pub const STATUS_FEEDBACK_SYNCED: &str = "StatusFeedbackSynced";
    /// OCM, by a condition rule: the object, or each object with such a rule, has done what it is there for, and is not applied any more.
    pub const COMPLETE: &str = "Complete";
    /// OCM, by a condition rule: of the whole, true where any object says so.
    pub const PROGRESSING: &str = "Progressing";
    /// Of one manifest: `False` where the agent may not watch the kind, so that it looks only now and then.
    pub const WATCHED: &str = "Watched";
}

/// Condition types on a BindingPolicy, as KubeStellar names them.
pub mod binding_policy {
    /// Whether the policy can be used, and selects clusters and anything to send.
    pub const READY: &str = "Ready";
    /// Whether everything that it selects is on its clusters; absent where that is nothing but Workflows.
    pub const SYNCED: &str = "Synced";
    /// Whether the StatusCollectors that it names are there; absent where it names none.
    pub const COLLECTORS_AVAILABLE: &str = "StatusCollectorsAvailable";
}

/// Condition types on a ManagedCluster.
pub mod managed_cluster {
    /// OCM: the cluster's agent renews its lease.
    pub const AVAILABLE: &str = "ManagedClusterConditionAvailable";
    /// OCM: the hub's administrator has accepted the cluster. Only OCM's hub writes it.
    pub const HUB_ACCEPTED: &str = "HubAcceptedManagedCluster";
    /// OCM: the cluster's agent has joined.
    pub const JOINED: &str = "ManagedClusterJoined";
    /// The cluster's artifact repository points at a bucket that can be written and read.
    pub const ARTIFACT_REPOSITORY_READY: &str = "ArtifactRepositoryReady";
    /// That bucket is the one which the control cluster's argo-server reads from.
    pub const ARTIFACT_REPOSITORY_SHARED: &str = "ArtifactRepositoryShared";
    /// The cluster serves Argo's Workflow API.
    pub const ARGO_READY: &str = "ArgoReady";
}

/// Condition types on a CertificateSigningRequest, as Kubernetes names them.
pub mod signing_request {
    /// It is to be signed.
    pub const APPROVED: &str = "Approved";
    /// It is not to be signed.
    pub const DENIED: &str = "Denied";
    /// The signer could not sign it.
    pub const FAILED: &str = "Failed";
}

/// Reasons, the machine-readable word of a condition or Event.
pub mod reason {
    /// The claim stands; the ManifestWork is in the mailbox or about to be.
    pub const CLAIMED: &str = "Claimed";
    /// The Workflow was sent to a cluster.
    pub const DISPATCHED: &str = "Dispatched";
    /// The run is reported for the first time.
    pub const STARTED: &str = "Started";
    /// The object is on the cluster.
    pub const CREATED: &str = "Created";
    /// The attempt ended and its outcome is recorded.
    pub const FINISHED: &str = "Finished";
    /// Somebody deleted the object on its cluster before it had ended.
    pub const DELETED_ON_CLUSTER: &str = "DeletedOnCluster";
    /// No BindingPolicy selects the Workflow.
    pub const NO_POLICY: &str = "NoPolicy";
    /// The selecting policies match no ManagedCluster.
    pub const NO_CLUSTER: &str = "NoCluster";
    /// Several ManagedClusters match.
    pub const SEVERAL_CLUSTERS: &str = "SeveralClusters";
    /// The Workflow has a run for every cluster that its policies match.
    pub const EVERY_CLUSTER: &str = "EveryCluster";
    /// The Workflow is for more clusters than it can have runs.
    pub const TOO_MANY_CLUSTERS: &str = "TooManyClusters";
    /// Another Workflow has the name that a run of this one is to have.
    pub const NAME_TAKEN: &str = "NameTaken";
    /// What was asked of the Workflow can only be asked of its runs, one by one.
    pub const ASK_THE_RUNS: &str = "AskTheRuns";
    /// The Workflow was not held when it was first seen.
    pub const NOT_HELD: &str = "NotHeld";
    /// The Workflow has run or ended on the control cluster.
    pub const ALREADY_STARTED: &str = "AlreadyStarted";
    /// The cluster has no mailbox namespace in the ITS.
    pub const MAILBOX_MISSING: &str = "MailboxMissing";
    /// The API server refused a write.
    pub const REFUSED: &str = "Refused";
    /// The Workflow waits until its former cluster has confirmed that it never started there.
    pub const MOVING: &str = "Moving";
    /// The cluster's lease is not renewed.
    pub const LEASE_EXPIRED: &str = "LeaseExpired";
    /// The cluster never renewed a lease.
    pub const NEVER_JOINED: &str = "NeverJoined";
    /// The ManagedCluster is gone from the ITS.
    pub const CLUSTER_GONE: &str = "ClusterGone";
    /// The cluster was taken out of the fleet.
    pub const CLUSTER_REMOVED: &str = "ClusterRemoved";
    /// Every cluster that could take the Workflow is cordoned.
    pub const CLUSTER_CORDONED: &str = "ClusterCordoned";
    /// The cluster was lost, and the Workflow starts anew on another one.
    pub const RERUN: &str = "Rerun";
    /// The lease is renewed in time.
    pub const LEASE_RENEWED: &str = "LeaseRenewed";
    /// The cluster does not serve Argo's Workflow API.
    pub const ARGO_MISSING: &str = "ArgoMissing";
    /// The cluster serves Argo's Workflow API.
    pub const ARGO_PRESENT: &str = "ArgoPresent";
    /// The target namespace does not exist on the cluster.
    pub const NAMESPACE_MISSING: &str = "NamespaceMissing";
    /// A WorkflowTemplate or ClusterWorkflowTemplate that the run refers to is not on the cluster.
    pub const TEMPLATE_MISSING: &str = "TemplateMissing";
    /// A template in the object cannot be expanded for its cluster.
    pub const TEMPLATE_INVALID: &str = "TemplateInvalid";
    /// An object of the same name that is not ours is in the way.
    pub const FOREIGN_OBJECT: &str = "ForeignObject";
    /// The object on the cluster belongs to another attempt.
    pub const OTHER_ATTEMPT: &str = "OtherAttempt";
    /// The attempt was sent to another cluster that had this name, and may have started there.
    pub const OTHER_CLUSTER: &str = "OtherCluster";
    /// The manifest is not what this agent carries out.
    pub const UNSUPPORTED_MANIFEST: &str = "UnsupportedManifest";
    /// The attempt was never created and never will be.
    pub const NEVER_CREATED: &str = "NeverCreated";
    /// The attempt was created before the withdrawal was seen.
    pub const ALREADY_CREATED: &str = "AlreadyCreated";
    /// Everything is as it should be.
    pub const READY: &str = "Ready";
    /// Something in the object's specification cannot be used.
    pub const INVALID: &str = "Invalid";
    /// Every object is on its clusters.
    pub const APPLIED: &str = "Applied";
    /// Some objects are on their way to their clusters.
    pub const APPLYING: &str = "Applying";
    /// Some objects cannot be brought to their clusters.
    pub const FAILING: &str = "Failing";
    /// Something of the object cannot be read, or is nested too deep to be sent on.
    pub const UNREADABLE: &str = "Unreadable";
    /// Nothing matches.
    pub const NOTHING_SELECTED: &str = "NothingSelected";
    /// The artifact repository is not configured.
    pub const NOT_CONFIGURED: &str = "NotConfigured";
    /// The bucket cannot be written and read back.
    pub const UNREACHABLE: &str = "Unreachable";
    /// The artifact repository of a cluster is not the one of the control cluster.
    pub const DIFFERENT_BUCKET: &str = "DifferentBucket";
    /// The last report of a run is lost, so that only its end is known.
    pub const REPORT_LOST: &str = "ReportLost";
    /// What the cluster reports of a run cannot be the status of a Workflow.
    pub const REPORT_INVALID: &str = "ReportInvalid";
    /// The run had gone on before what was asked of it arrived, or was taken back before it began.
    pub const OVERTAKEN: &str = "Overtaken";
    /// OCM, of a ManifestWork: all manifests are applied.
    pub const WORK_COMPLETE: &str = "AppliedManifestWorkComplete";
    /// OCM, of a ManifestWork: a manifest is not applied.
    pub const WORK_FAILED: &str = "AppliedManifestWorkFailed";
    /// OCM, of one manifest: it is applied.
    pub const MANIFEST_COMPLETE: &str = "AppliedManifestComplete";
    /// OCM, of one manifest: it is not applied.
    pub const MANIFEST_FAILED: &str = "AppliedManifestFailed";
    /// OCM, of a ManifestWork: all objects exist.
    pub const RESOURCES_AVAILABLE: &str = "ResourcesAvailable";
    /// OCM, of a ManifestWork: an object is missing.
    pub const RESOURCES_NOT_AVAILABLE: &str = "ResourcesNotAvailable";
    /// OCM, of one manifest: its object exists.
    pub const RESOURCE_AVAILABLE: &str = "ResourceAvailable";
    /// OCM, of one manifest: its object does not exist.
    pub const RESOURCE_NOT_AVAILABLE: &str = "ResourceNotAvailable";
    /// OCM: nothing was asked of the object's status.
    pub const NO_FEEDBACK: &str = "NoStatusFeedbackSynced";
    /// OCM: all that was asked of the object's status is there.
    pub const FEEDBACK_SYNCED: &str = "StatusFeedbackSynced";
    /// OCM: something that was asked of the object's status cannot be told.
    pub const FEEDBACK_FAILED: &str = "StatusFeedbackSyncFailed";
    /// OCM: what the reasons of all conditions begin with that come of condition rules.
    pub const CONDITION_RULE: &str = "ConditionRule";
    /// OCM: a condition rule was evaluated.
    pub const CONDITION_RULE_EVALUATED: &str = "ConditionRuleEvaluated";
    /// OCM: a condition rule cannot be evaluated.
    pub const CONDITION_RULE_INVALID: &str = "ConditionRuleInvalid";
    /// OCM: an expression of a condition rule failed.
    pub const CONDITION_RULE_EXPRESSION_ERROR: &str = "ConditionRuleExpressionError";
    /// OCM: a condition rule could not be evaluated for a reason that is not its own.
    pub const CONDITION_RULE_INTERNAL_ERROR: &str = "ConditionRuleInternalError";
    /// OCM, of a ManifestWork: made of the conditions that rules gave its manifests.
    pub const CONDITION_RULES_AGGREGATED: &str = "ConditionRulesAggregated";
    /// OCM, of a ManifestWork: of some objects it is not known whether they are available.
    pub const RESOURCES_STATUS_UNKNOWN: &str = "ResourcesStatusUnknown";
    /// The API server does not let the agent list the kind.
    pub const FORBIDDEN: &str = "Forbidden";
    /// The node status lies in the cluster's SQL database and cannot be read from here.
    pub const NODES_OFFLOADED: &str = "NodesOffloaded";
    /// A request for a certificate: the first one, asked for with the cluster's bootstrap account.
    pub const AGENT_JOINS: &str = "AgentJoins";
    /// A request for a certificate: asked for with one that was issued for the cluster.
    pub const AGENT_RENEWS: &str = "AgentRenews";
    /// A request for a certificate that asks for more than the identity of one agent, or is malformed.
    pub const NOT_AN_AGENTS_REQUEST: &str = "NotAnAgentsRequest";
    /// A request for a certificate that lasts longer than is allowed, or says nothing about it.
    pub const LASTS_TOO_LONG: &str = "LastsTooLong";
    /// A request for a certificate by somebody who is neither the agent that it names nor the bootstrap account of its cluster.
    pub const FOREIGN_REQUESTER: &str = "ForeignRequester";
    /// A request for a certificate of a cluster that is not in the inventory.
    pub const UNKNOWN_CLUSTER: &str = "UnknownCluster";
    /// A request for a certificate of a cluster that is not accepted.
    pub const NOT_ACCEPTED: &str = "NotAccepted";
    /// A request for a certificate that was not made with one that is recorded for the cluster.
    pub const UNKNOWN_CERTIFICATE: &str = "UnknownCertificate";
    /// A request for a certificate while another one of the cluster is approved and not signed yet.
    pub const ANOTHER_PENDING: &str = "AnotherPending";
}

/// A condition of an Argo Workflow: type, status and message, nothing else (Argo's schema).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowCondition {
    /// One of [`workflow`] for ours.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// `Reason: sentence`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl WorkflowCondition {
    /// A condition whose message begins with its reason.
    pub fn new(type_: &str, status: bool, reason: &str, message: &str) -> Self {
        Self {
            type_: type_.to_owned(),
            status: truth(status).to_owned(),
            message: format!("{reason}: {message}"),
        }
    }
}

/// A Kubernetes condition that began at `now`.
pub fn condition(type_: &str, status: bool, reason: &str, message: &str, now: Timestamp) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status: truth(status).to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: Time(now),
        observed_generation: None,
    }
}

/// Puts `condition` in place of the one of its type and says whether anything but the time differs. The time
/// of the last transition is kept while the status stays (Kubernetes API conventions).
pub fn set_condition(conditions: &mut Vec<Condition>, mut condition: Condition) -> bool {
    let Some(known) = conditions.iter_mut().find(|known| known.type_ == condition.type_) else {
        conditions.push(condition);
        return true;
    };
    if known.status == condition.status {
        condition.last_transition_time = known.last_transition_time.clone();
    }
    let changed = *known != condition;
    *known = condition;
    changed
}

fn truth(status: bool) -> &'static str {
    if status { "True" } else { "False" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn setting_the_same_condition_again_changes_nothing_and_keeps_its_time() {
        let mut conditions = vec![condition("Ready", true, "Ready", "all well", at(1))];
        assert!(!set_condition(
            &mut conditions,
            condition("Ready", true, "Ready", "all well", at(2))
        ));
        assert_eq!(conditions[0].last_transition_time, Time(at(1)));
    }

    #[test]
    fn a_new_message_is_a_change_but_not_a_transition() {
        let mut conditions = vec![condition("Ready", true, "Ready", "all well", at(1))];
        assert!(set_condition(
            &mut conditions,
            condition("Ready", true, "Ready", "still well", at(2))
        ));
        assert_eq!(conditions[0].last_transition_time, Time(at(1)));
    }

    #[test]
    fn a_new_status_is_a_transition() {
        let mut conditions = vec![condition("Ready", true, "Ready", "all well", at(1))];
        assert!(set_condition(
            &mut conditions,
            condition("Ready", false, "Broken", "no", at(2))
        ));
        assert_eq!(conditions[0].last_transition_time, Time(at(2)));
    }
}
