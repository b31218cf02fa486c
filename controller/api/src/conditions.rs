//! Condition types and reasons, and the two forms of conditions.
//!
//! ManagedClusters, ManifestWorks and policies have Kubernetes conditions (`metav1.Condition`).
//! Argo's Workflow conditions have only type, status and message, so the reason is the first word
//! of the message.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Condition types on a WDS Workflow. All of them are ours; Argo's own types are left alone.
pub mod workflow {
    /// The Workflow is claimed for a cluster and its ManifestWork exists.
    pub const DISPATCHED: &str = "Dispatched";
    /// The Workflow is selected but not sent, because it may have run on the control cluster
    /// already, or cannot be read completely.
    pub const NOT_DISPATCHABLE: &str = "NotDispatchable";
    /// More than one cluster matches the Workflow, so it is not sent.
    pub const AMBIGUOUS: &str = "Ambiguous";
    /// `True` if the agent of the claimed cluster renews its lease.
    pub const CLUSTER_REACHABLE: &str = "ClusterReachable";

    /// `True` if the whole status of the run can be shown.
    pub const STATUS_COMPLETE: &str = "StatusComplete";

    /// `True` if the user's requests for the run could be carried out.
    pub const CONTROL_APPLIED: &str = "ControlApplied";

    /// The run starts no further step; the message names who has suspended it.
    pub const SUSPENDED: &str = "Suspended";

    /// All types that Argosy owns on a Workflow.
    pub const ALL: [&str; 7] = [
        DISPATCHED,
        NOT_DISPATCHABLE,
        AMBIGUOUS,
        CLUSTER_REACHABLE,
        STATUS_COMPLETE,
        CONTROL_APPLIED,
        SUSPENDED,
    ];
}

/// Condition types on a ManifestWork, set by the agent.
pub mod manifest_work {
    /// OCM: the manifests are on the cluster.
    pub const APPLIED: &str = "Applied";
    /// OCM: the objects of the manifests exist on the cluster.
    pub const AVAILABLE: &str = "Available";
    /// The agent guarantees that it never creates this attempt.
    pub const WITHDRAWN: &str = "Withdrawn";
    /// `False` if the cluster's API server has not completed the agent's requests for ten seconds.
    pub const ANSWERED: &str = "Answered";
    /// OCM, of one manifest: the requested values of its object's status are in the status of the
    /// ManifestWork.
    pub const STATUS_FEEDBACK_SYNCED: &str = "StatusFeedbackSynced";
    /// OCM, by a condition rule: the object, or each object with such a rule, has completed its
    /// task and is not applied any more.
    pub const COMPLETE: &str = "Complete";
    /// OCM, by a condition rule; of the ManifestWork: `True` if any object is progressing.
    pub const PROGRESSING: &str = "Progressing";
    /// Of one manifest: `False` if the agent may not watch the kind and polls it instead.
    pub const WATCHED: &str = "Watched";
}

/// Condition types on a BindingPolicy, as KubeStellar names them.
pub mod binding_policy {
    /// `True` if the policy is valid, has a clause, and matches clusters, even if no object matches
    /// at present.
    pub const READY: &str = "Ready";
    /// `True` if all selected objects are on their clusters; absent if only Workflows are selected.
    pub const SYNCED: &str = "Synced";
    /// `True` if the StatusCollectors that the policy names exist; absent if it names none.
    pub const COLLECTORS_AVAILABLE: &str = "StatusCollectorsAvailable";
    /// `False` if the policy's selection does not fit into the admission policy `argosy-create`;
    /// absent otherwise. The admission webhook still holds the selected Workflows.
    pub const GUARDED: &str = "Guarded";
}

/// Condition types on a ManagedCluster.
pub mod managed_cluster {
    /// OCM: the cluster's agent renews its lease.
    pub const AVAILABLE: &str = "ManagedClusterConditionAvailable";
    /// OCM: the hub's administrator has accepted the cluster. Only OCM's hub writes this condition.
    pub const HUB_ACCEPTED: &str = "HubAcceptedManagedCluster";
    /// OCM: the cluster's agent has joined.
    pub const JOINED: &str = "ManagedClusterJoined";
    /// The cluster's artifact repository refers to a bucket that can be written and read.
    pub const ARTIFACT_REPOSITORY_READY: &str = "ArtifactRepositoryReady";
    /// The bucket is the one from which the control cluster's argo-server reads.
    pub const ARTIFACT_REPOSITORY_SHARED: &str = "ArtifactRepositoryShared";
    /// The cluster serves Argo's Workflow API.
    pub const ARGO_READY: &str = "ArgoReady";
    /// The agent counts the requests of the cluster's pods; absent if its chart has another
    /// `capacity` than `pods`.
    pub const PODS_COUNTED: &str = "PodsCounted";
}

/// Condition types on a CertificateSigningRequest, as Kubernetes names them.
pub mod signing_request {
    /// The request is to be signed.
    pub const APPROVED: &str = "Approved";
    /// The request is not to be signed.
    pub const DENIED: &str = "Denied";
    /// The signer could not sign the request.
    pub const FAILED: &str = "Failed";
}

/// Reasons, the machine-readable word of a condition or Event.
pub mod reason {
    /// The Workflow is claimed, and its ManifestWork is in the mailbox or about to be created.
    pub const CLAIMED: &str = "Claimed";
    /// The Workflow was sent to a cluster.
    pub const DISPATCHED: &str = "Dispatched";
    /// The run is reported for the first time.
    pub const STARTED: &str = "Started";
    /// The labels of a run have changed, and it stays on the cluster where it has started.
    pub const STAYS: &str = "Stays";
    /// The object is on the cluster.
    pub const CREATED: &str = "Created";
    /// The copy of a CronWorkflow on a cluster is removed.
    pub const TAKEN_BACK: &str = "TakenBack";
    /// The attempt ended and its outcome is recorded.
    pub const FINISHED: &str = "Finished";
    /// The object was deleted on its cluster before it had ended.
    pub const DELETED_ON_CLUSTER: &str = "DeletedOnCluster";
    /// No BindingPolicy selects the Workflow.
    pub const NO_POLICY: &str = "NoPolicy";
    /// The selecting policies match no ManagedCluster.
    pub const NO_CLUSTER: &str = "NoCluster";
    /// None of the matched ManagedClusters can ever run the Workflow: each lacks a resource that it
    /// asks for, or is too small for one of its pods.
    pub const NO_CLUSTER_FITS: &str = "NoClusterFits";
    /// None of the matched ManagedClusters has room for the Workflow now, or others wait for that room
    /// first.
    pub const NO_ROOM: &str = "NoRoom";
    /// An annotation of a selecting policy has an unknown value, so it is not known on which clusters
    /// the Workflow is to run.
    pub const POLICY_UNREADABLE: &str = "PolicyUnreadable";
    /// Several ManagedClusters match.
    pub const SEVERAL_CLUSTERS: &str = "SeveralClusters";
    /// The Workflow has a run on every cluster that its policies match.
    pub const EVERY_CLUSTER: &str = "EveryCluster";
    /// The Workflow matches more clusters than it can have runs.
    pub const TOO_MANY_CLUSTERS: &str = "TooManyClusters";
    /// Another Workflow has the name of a run of this one.
    pub const NAME_TAKEN: &str = "NameTaken";
    /// The request can only be made for the runs of the Workflow, one by one.
    pub const ASK_THE_RUNS: &str = "AskTheRuns";
    /// A user requested it on the control cluster.
    pub const ASKED: &str = "Asked";
    /// It was done on the cluster itself, not at the request of the control cluster.
    pub const ON_CLUSTER: &str = "OnCluster";
    /// The Workflow was not held when it was first seen.
    pub const NOT_HELD: &str = "NotHeld";
    /// The Workflow has run or ended on the control cluster.
    pub const ALREADY_STARTED: &str = "AlreadyStarted";
    /// The cluster has no mailbox namespace in the ITS.
    pub const MAILBOX_MISSING: &str = "MailboxMissing";
    /// The API server rejected a write.
    pub const REFUSED: &str = "Refused";
    /// The API server cannot execute a request, or does not respond in time.
    pub const UNANSWERED: &str = "Unanswered";
    /// The Workflow waits until its former cluster has confirmed that it never started there.
    pub const MOVING: &str = "Moving";
    /// The cluster's lease is not renewed.
    pub const LEASE_EXPIRED: &str = "LeaseExpired";
    /// The cluster never renewed a lease.
    pub const NEVER_JOINED: &str = "NeverJoined";
    /// The ManagedCluster was deleted from the ITS.
    pub const CLUSTER_GONE: &str = "ClusterGone";
    /// The cluster was removed from the fleet.
    pub const CLUSTER_REMOVED: &str = "ClusterRemoved";
    /// Every matching cluster is cordoned.
    pub const CLUSTER_CORDONED: &str = "ClusterCordoned";
    /// The cluster was lost, and the Workflow starts again on another one.
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
    /// An object that the run needs, and that its policy sends, is not on the cluster.
    pub const DEPENDENCY_MISSING: &str = "DependencyMissing";
    /// A template in the object cannot be expanded for its cluster.
    pub const TEMPLATE_INVALID: &str = "TemplateInvalid";
    /// A CustomTransform cannot be applied to the object for its cluster.
    pub const TRANSFORM_INVALID: &str = "TransformInvalid";
    /// An object with the same name exists that is not ours.
    pub const FOREIGN_OBJECT: &str = "ForeignObject";
    /// The object on the cluster belongs to another attempt.
    pub const OTHER_ATTEMPT: &str = "OtherAttempt";
    /// The attempt was sent to another cluster with the same name, and may have started there.
    pub const OTHER_CLUSTER: &str = "OtherCluster";
    /// The agent does not support the manifest.
    pub const UNSUPPORTED_MANIFEST: &str = "UnsupportedManifest";
    /// The attempt was never created and never will be.
    pub const NEVER_CREATED: &str = "NeverCreated";
    /// The attempt was created before the agent saw the request to withdraw it.
    pub const ALREADY_CREATED: &str = "AlreadyCreated";
    /// There is no problem.
    pub const READY: &str = "Ready";
    /// A part of the object's specification is invalid.
    pub const INVALID: &str = "Invalid";
    /// The selection of the policies is longer than an API server accepts.
    pub const SELECTION_TOO_LONG: &str = "SelectionTooLong";
    /// Every object is on its clusters.
    pub const APPLIED: &str = "Applied";
    /// Some objects are still being sent to their clusters.
    pub const APPLYING: &str = "Applying";
    /// Some objects cannot be applied on their clusters.
    pub const FAILING: &str = "Failing";
    /// A part of the object cannot be read, or is nested too deeply to be sent.
    pub const UNREADABLE: &str = "Unreadable";
    /// No object or cluster matches.
    pub const NOTHING_SELECTED: &str = "NothingSelected";
    /// No API serves any of the kinds that the policy names.
    pub const NOT_SERVED: &str = "NotServed";
    /// The artifact repository is not configured.
    pub const NOT_CONFIGURED: &str = "NotConfigured";
    /// The bucket cannot be written or read back.
    pub const UNREACHABLE: &str = "Unreachable";
    /// The artifact repository of a cluster is not the one of the control cluster.
    pub const DIFFERENT_BUCKET: &str = "DifferentBucket";
    /// The last report of a run is lost, so that only its end is known.
    pub const REPORT_LOST: &str = "ReportLost";
    /// The reported state of a run is not a valid status of a Workflow.
    pub const REPORT_INVALID: &str = "ReportInvalid";
    /// Some artifacts of a run are shown without their locations, because only the run's cluster
    /// reports these.
    pub const LOCATIONS_WITHHELD: &str = "LocationsWithheld";
    /// The run had continued before the request arrived, or was withdrawn before it began.
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
    /// OCM: no values of the object's status are requested.
    pub const NO_FEEDBACK: &str = "NoStatusFeedbackSynced";
    /// OCM: all requested values of the object's status are present.
    pub const FEEDBACK_SYNCED: &str = "StatusFeedbackSynced";
    /// OCM: a requested value of the object's status cannot be reported.
    pub const FEEDBACK_FAILED: &str = "StatusFeedbackSyncFailed";
    /// OCM: the prefix of the reasons of all conditions from condition rules.
    pub const CONDITION_RULE: &str = "ConditionRule";
    /// OCM: a condition rule was evaluated.
    pub const CONDITION_RULE_EVALUATED: &str = "ConditionRuleEvaluated";
    /// OCM: a condition rule cannot be evaluated.
    pub const CONDITION_RULE_INVALID: &str = "ConditionRuleInvalid";
    /// OCM: an expression of a condition rule failed.
    pub const CONDITION_RULE_EXPRESSION_ERROR: &str = "ConditionRuleExpressionError";
    /// OCM: a condition rule could not be evaluated for a reason that is not in the rule.
    pub const CONDITION_RULE_INTERNAL_ERROR: &str = "ConditionRuleInternalError";
    /// OCM, of a ManifestWork: aggregated from the conditions of its manifests that rules have set.
    pub const CONDITION_RULES_AGGREGATED: &str = "ConditionRulesAggregated";
    /// OCM, of a ManifestWork: the availability of some objects is unknown.
    pub const RESOURCES_STATUS_UNKNOWN: &str = "ResourcesStatusUnknown";
    /// The API server does not allow the agent to list the kind.
    pub const FORBIDDEN: &str = "Forbidden";
    /// The node status is in the cluster's SQL database and cannot be read by Argosy.
    pub const NODES_OFFLOADED: &str = "NodesOffloaded";
    /// A certificate request: the first one, made with the cluster's bootstrap account.
    pub const AGENT_JOINS: &str = "AgentJoins";
    /// A certificate request: made with a certificate that was issued for the cluster.
    pub const AGENT_RENEWS: &str = "AgentRenews";
    /// A certificate request for more than the identity of one agent, or a malformed one.
    pub const NOT_AN_AGENTS_REQUEST: &str = "NotAnAgentsRequest";
    /// A certificate request with a longer lifetime than allowed, or without a lifetime.
    pub const LASTS_TOO_LONG: &str = "LastsTooLong";
    /// A certificate request by a user who is neither the agent named in it nor the bootstrap
    /// account of its cluster.
    pub const FOREIGN_REQUESTER: &str = "ForeignRequester";
    /// A certificate request for a cluster that is not in the inventory.
    pub const UNKNOWN_CLUSTER: &str = "UnknownCluster";
    /// A certificate request for a cluster that is not accepted.
    pub const NOT_ACCEPTED: &str = "NotAccepted";
    /// A certificate request that was not made with one of the certificates recorded for the
    /// cluster.
    pub const UNKNOWN_CERTIFICATE: &str = "UnknownCertificate";
    /// A certificate request while another one of the cluster is approved but not signed yet.
    pub const ANOTHER_PENDING: &str = "AnotherPending";
}

/// A condition of an Argo Workflow: only type, status and message (Argo's schema).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowCondition {
    /// The condition type, one of Argo's or of Argosy's.
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

    /// True if a condition of a Workflow, as JSON, has this type and this reason, with which its message
    /// begins.
    pub fn is(condition: &Value, type_: &str, reason: &str) -> bool {
        let text = |field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default();
        let rest = text("message").strip_prefix(reason);
        text("type") == type_ && rest.is_some_and(|rest| rest.starts_with(':'))
    }
}

/// A Kubernetes condition with the transition time `now`.
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

/// Sets the condition of its type, and returns true if anything but the time has changed. The time
/// of the last transition is kept if the status is the same (Kubernetes API conventions).
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
