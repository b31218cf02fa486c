//! Every label, annotation, finalizer, field manager and object name that Argosy reads or writes.
//!
//! The only place with such strings. What they mean for a decision is said in `argosy-core`.

/// Label: the cluster that a Workflow is claimed for. On the WDS Workflow and on the object in the WEC, as on whatever else its agent
/// has applied there.
pub const CLUSTER_LABEL: &str = "argosy.dev/cluster";

/// Label: UID of the WDS object. On ManifestWork, WorkStatus, AppliedManifestWork and the object in the WEC.
pub const ORIGIN_UID_LABEL: &str = "argosy.dev/origin-uid";

/// Annotation on a ManifestWork: namespace of the WDS object.
pub const ORIGIN_NAMESPACE_ANNOTATION: &str = "argosy.dev/origin-namespace";

/// Annotation on a ManifestWork: name of the WDS object.
pub const ORIGIN_NAME_ANNOTATION: &str = "argosy.dev/origin-name";

/// Label on a ManifestWork: the WDS it comes from, as KubeStellar's transport writes it.
pub const ORIGIN_WDS_LABEL: &str = "transport.kubestellar.io/originWdsName";

/// Annotation on the WDS Workflow: the claim as JSON (`cluster`, `attempt`, `uid` …).
pub const CLAIM_ANNOTATION: &str = "argosy.dev/claim";

/// Annotation on a BindingPolicy: `"true"` makes the admission webhook set `spec.archiveLogs` of the Workflows it selects,
/// where their users have not said otherwise.
pub const ARCHIVE_LOGS_ANNOTATION: &str = "argosy.dev/archive-logs";

/// Annotation on a BindingPolicy: [`EVERY_CLUSTER`] runs the Workflows that it selects on every cluster that it matches, each run
/// being a Workflow of its own.
pub const RUNS_ANNOTATION: &str = "argosy.dev/runs";

/// Value of [`RUNS_ANNOTATION`], and the cluster that such a Workflow is claimed for. A ManagedCluster of that name takes no
/// Workflows.
pub const EVERY_CLUSTER: &str = "every-cluster";

/// Label on a run of such a Workflow: name of the Workflow, shortened where that is too long for a label.
pub const RUN_OF_LABEL: &str = "argosy.dev/run-of";

/// Label on a run of such a Workflow: the one cluster that it may go to. On a copy of it, the same.
pub const RUN_ON_LABEL: &str = "argosy.dev/run-on";

/// Annotation on such a Workflow: the runs that were created (JSON: `uid` of the Workflow, and by cluster the `uid` of the run and
/// the `phase` it has ended in).
pub const RUNS_ON_ANNOTATION: &str = "argosy.dev/runs-on";

/// Annotation on a run of such a Workflow: what was asked of the Workflow and passed on to the run (JSON: `suspend`, `shutdown`).
pub const PASSED_ON_ANNOTATION: &str = "argosy.dev/passed-on";

/// Annotation on a BindingPolicy: `rerun` lets a Workflow start anew on another cluster when its own is lost, see
/// [`LOST_AFTER_ANNOTATION`]. The run that was lost may have gone on, so its steps may run twice.
pub const ON_LOST_ANNOTATION: &str = "argosy.dev/on-lost";

/// Annotation on a BindingPolicy: how long after the end of its lease a cluster counts as lost (`10m`, `1h 30m`; 5 minutes by
/// default). On a ManifestWork: the same in seconds; its agent starts nothing once its last renewal is older than that.
pub const LOST_AFTER_ANNOTATION: &str = "argosy.dev/lost-after";

/// Annotation: the attempt, a decimal number from 1 up. On ManifestWork, WorkStatus, AppliedManifestWork and
/// the object in the WEC.
pub const ATTEMPT_ANNOTATION: &str = "argosy.dev/attempt";

/// Annotation on a WDS Workflow, written by its user: `"true"` suspends the run on its cluster, as `spec.suspend` does where
/// webhook and admission policies guard the hold.
pub const SUSPEND_ANNOTATION: &str = "argosy.dev/suspend";

/// Annotation on a WDS Workflow: the verbs that the webhook has recorded (JSON).
pub const VERBS_ANNOTATION: &str = "argosy.dev/verbs";

/// Annotation on a ManifestWork: what is asked of the run; on the object in the WEC: what was carried out (JSON).
pub const CONTROL_ANNOTATION: &str = "argosy.dev/control";

/// Annotation on a ManifestWork: the controller asks the agent never to create this attempt (its number). The
/// agent answers with the condition `Withdrawn`.
pub const WITHDRAW_ANNOTATION: &str = "argosy.dev/withdraw";

/// Annotation on the object in the WEC: namespace and name that its agent created it under (`argo/w`). On a copy it names another object.
pub const BORN_AS_ANNOTATION: &str = "argosy.dev/born-as";

/// Annotation on WorkStatus and AppliedManifestWork: UID of the object in the WEC that the attempt is run by.
pub const RUN_UID_ANNOTATION: &str = "argosy.dev/run-uid";

/// Annotation on a ManifestWork: `"true"` where the attempt had started before this ManifestWork was made, so that it is not started again.
pub const STARTED_ANNOTATION: &str = "argosy.dev/started";

/// Annotation on a ManifestWork: the one cluster that may start the attempt, by its [`CLUSTER_ID_CLAIM`]; empty until its agent is heard of.
pub const CLUSTER_ID_ANNOTATION: &str = "argosy.dev/cluster-id";

/// Annotation on an AppliedManifestWork: what the run ended with (JSON: `phase`, `message`, `startedAt`, `finishedAt` and
/// `progress` of its status, the number of its last `verb`, and the `digest` of its last report), should the ITS lose that.
pub const ENDING_ANNOTATION: &str = "argosy.dev/ending";

/// Annotation on an AppliedManifestWork: how the attempt ended, see [`crate::Outcome`].
pub const OUTCOME_ANNOTATION: &str = "argosy.dev/outcome";

/// Annotation on an AppliedManifestWork: when its ManifestWork was released (RFC 3339).
pub const RELEASED_ANNOTATION: &str = "argosy.dev/released-at";

/// Finalizer on a claimed WDS Workflow; goes when nothing of it is left in the ITS.
pub const CONTROLLER_FINALIZER: &str = "argosy.dev/controller";

/// Finalizer on a ManifestWork and on the object in the WEC; the agent lets go when the hub has the last status.
pub const AGENT_FINALIZER: &str = "argosy.dev/agent";

/// Field manager of the controller.
pub const CONTROLLER: &str = "argosy-controller";

/// Field manager of the agent.
pub const AGENT: &str = "argosy-agent";

/// Label on a Secret with key `kubeconfig`: the cluster whose agent the controller hosts (push).
pub const WEC_KUBECONFIG_LABEL: &str = "argosy.dev/wec-kubeconfig";

/// The Secret key that holds a kubeconfig.
pub const KUBECONFIG_KEY: &str = "kubeconfig";

/// Name of the Lease in a mailbox namespace that says that the cluster's agent is alive, as OCM names it.
pub const CLUSTER_LEASE: &str = "managed-cluster-lease";

/// OCM's label on what belongs to a cluster: its name. OCM's hub sees no Lease without it.
pub const OCM_CLUSTER_LABEL: &str = "open-cluster-management.io/cluster-name";

/// Name of the cluster claim by which an agent reports the artifact repository of its cluster.
pub const ARTIFACT_REPOSITORY_CLAIM: &str = "artifactrepository.argosy.dev";

/// Name of the cluster claim by which an agent tells which version of Argo Workflows its cluster runs.
pub const ARGO_VERSION_CLAIM: &str = "argoversion.argosy.dev";

/// Name of the cluster claim by which an agent tells its own version.
pub const AGENT_VERSION_CLAIM: &str = "agentversion.argosy.dev";

/// Name of the cluster claim that tells clusters apart: UID of the namespace `kube-system` (KEP-2149).
pub const CLUSTER_ID_CLAIM: &str = "id.k8s.io";

/// Name of OCM's cluster claim with the version of Kubernetes.
pub const VERSION_CLAIM: &str = "kubeversion.open-cluster-management.io";

/// Taint on a ManagedCluster whose agent says that the cluster is not well (OCM).
pub const UNAVAILABLE_TAINT: &str = "cluster.open-cluster-management.io/unavailable";

/// Taint on a ManagedCluster of whose agent nothing is heard (OCM).
pub const UNREACHABLE_TAINT: &str = "cluster.open-cluster-management.io/unreachable";

/// Taint on a ManagedCluster: it takes no Workflow that is not there already. With the value [`DRAIN`], what has not started there is
/// taken back as well.
pub const CORDONED_TAINT: &str = "argosy.dev/cordoned";

/// Value of [`CORDONED_TAINT`].
pub const DRAIN: &str = "drain";

/// Annotation on a ManagedCluster: it was taken out of the fleet (RFC 3339, since when). Once its agent has stopped renewing its lease,
/// the controller gives up what runs there and releases what lies in its mailbox.
pub const REMOVED_ANNOTATION: &str = "argosy.dev/removed";

/// Prefix of every label and annotation of Argosy.
pub const PREFIX: &str = "argosy.dev/";

/// Label by which KubeStellar's users name the cluster of a Workflow.
pub const KUBESTELLAR_CLUSTER_LABEL: &str = "kubestellar.io/cluster";

/// Value of [`KUBESTELLAR_CLUSTER_LABEL`] that means the control cluster itself.
pub const KUBESTELLAR_LOCAL_CLUSTER: &str = "local";

/// Label on a WDS object whose status is being returned, as KubeStellar's status controller writes it.
pub const SINGLETON_STATUS_LABEL: &str = "managed-by.kubestellar.io/singletonstatus";

/// Prefix of what Argo's controllers and servers put on objects.
pub const ARGO_PREFIX: &str = "workflows.argoproj.io/";

/// Argo's label that makes a workflow-controller skip an object: the hold.
pub const ARGO_COMPLETED_LABEL: &str = "workflows.argoproj.io/completed";

/// Argo's label with the phase, used by its lists and filters.
pub const ARGO_PHASE_LABEL: &str = "workflows.argoproj.io/phase";

/// Argo's label for its archive; never mirrored.
pub const ARGO_ARCHIVING_LABEL: &str = "workflows.argoproj.io/workflow-archiving-status";

/// Argo's label naming the controller instance that owns an object; never mirrored.
pub const ARGO_INSTANCE_LABEL: &str = "workflows.argoproj.io/controller-instanceid";

/// Argo's annotation by which a controller recognises stale reads; never mirrored.
pub const ARGO_LAST_SEEN_ANNOTATION: &str = "workflows.argoproj.io/last-seen-version";

/// Argo's annotation with the way pod names are made; its UI and CLI compute pod names from it.
pub const ARGO_POD_NAME_FORMAT_ANNOTATION: &str = "workflows.argoproj.io/pod-name-format";

/// Argo's label on a Workflow that `argo resubmit` has made of another one.
pub const ARGO_RESUBMITTED_LABEL: &str = "workflows.argoproj.io/resubmitted-from-workflow";

/// Argo's label on a Workflow that a CronWorkflow has created: its name.
pub const ARGO_CRON_LABEL: &str = "workflows.argoproj.io/cron-workflow";

/// Argo's label on a pod: name of its Workflow.
pub const ARGO_WORKFLOW_LABEL: &str = "workflows.argoproj.io/workflow";

/// Argo's annotation on a pod: ID of its node.
pub const ARGO_NODE_ID_ANNOTATION: &str = "workflows.argoproj.io/node-id";

/// Names of the Deployment of Argo's workflow-controller: Argo's own manifests', and that of its Helm chart in a release called
/// `argo-workflows`.
pub const ARGO_DEPLOYMENTS: [&str; 2] = ["workflow-controller", "argo-workflows-workflow-controller"];

/// Name of the Deployment of Argosy's controller.
pub const CONTROLLER_DEPLOYMENT: &str = "argosy-controller";

/// Kubernetes' recommended label with the version of what is deployed.
pub const VERSION_LABEL: &str = "app.kubernetes.io/version";

/// Argo's finalizer for artifact garbage collection; makes the local controller process a held object.
pub const ARGO_ARTIFACT_GC_FINALIZER: &str = "workflows.argoproj.io/artifact-gc";

/// Label on everything that is made of an object of the WDS that is no Workflow: that object's UID. On its ManifestWorks and
/// WorkStatuses, and on the object in the WEC.
pub const OBJECT_UID_LABEL: &str = "argosy.dev/object-uid";

/// Annotation on such a ManifestWork: group, version and plural of the WDS object (`apps/v1/deployments`, `/v1/configmaps`).
pub const ORIGIN_RESOURCE_ANNOTATION: &str = "argosy.dev/origin-resource";

/// Annotation on such a ManifestWork: UID of the namespace `kube-system` of the WDS, which says which API server that is. A WDS that
/// was made anew under the name of another one takes nothing back of what that has sent.
pub const ORIGIN_SPACE_ANNOTATION: &str = "argosy.dev/origin-space";

/// Annotation on such a ManifestWork: `"true"` asks the agent for a WorkStatus of the object.
pub const WANT_STATUS_ANNOTATION: &str = "argosy.dev/want-status";

/// Annotation on an object in a WEC: the digest of the manifest that it was applied from.
pub const APPLIED_ANNOTATION: &str = "argosy.dev/applied";

/// Annotation on an object in a WEC: name of the ManifestWork that it was applied from.
pub const MANIFEST_WORK_ANNOTATION: &str = "argosy.dev/manifest-work";

/// Annotation on an object in a WEC: `"true"` where it was there before, so that it stays when its ManifestWork goes.
pub const ADOPTED_ANNOTATION: &str = "argosy.dev/adopted";

/// Label on a Namespace of a WEC that was made because an object needed it: name of the ManagedCluster.
pub const MADE_FOR_LABEL: &str = "argosy.dev/made-for";

/// Field manager that an object of another kind than Workflow is applied with. OCM asks for the prefix `work-agent`.
pub const APPLIER: &str = "work-agent-argosy";

/// Field manager that an object is applied with where its ManifestWork names none, as OCM's agent does.
pub const WORK_AGENT: &str = "work-agent";

/// OCM's label on a ManifestWork that its ManifestWorkReplicaSets keep: name of that.
pub const REPLICA_SET_LABEL: &str = "work.open-cluster-management.io/manifestworkreplicaset";

/// Kubernetes' finalizer on an object that is deleted while what it owns stays (`--cascade=orphan`).
pub const ORPHAN_FINALIZER: &str = "orphan";

/// OCM's finalizer on a ManifestWork: its objects are still to be deleted on the cluster.
pub const MANIFEST_WORK_FINALIZER: &str = "cluster.open-cluster-management.io/manifest-work-cleanup";

/// OCM's finalizer on an AppliedManifestWork: its objects are still to be deleted.
pub const APPLIED_MANIFEST_WORK_FINALIZER: &str =
    "cluster.open-cluster-management.io/applied-manifest-work-cleanup";

/// Annotation on a WDS object, written by its user: `"true"` expands the templates in its strings for each cluster.
pub const EXPAND_TEMPLATES_ANNOTATION: &str = "control.kubestellar.io/expand-templates";

/// Label on a WDS object whose status is an aggregate of several clusters'.
pub const MULTI_STATUS_LABEL: &str = "managed-by.kubestellar.io/multiwecstatus";

/// Namespace of the ITS with a ConfigMap for each cluster: the properties that templates may name.
pub const PROPERTIES_NAMESPACE: &str = "customization-properties";

/// Namespace of the WDS for the CombinedStatuses of cluster-scoped objects.
pub const REPORT_NAMESPACE: &str = "kubestellar-report";

/// Labels on a CombinedStatus: which object it is of, and by which policy.
pub const COMBINED_GROUP_LABEL: &str = "status.kubestellar.io/api-group";
/// See [`COMBINED_GROUP_LABEL`].
pub const COMBINED_RESOURCE_LABEL: &str = "status.kubestellar.io/resource";
/// See [`COMBINED_GROUP_LABEL`].
pub const COMBINED_NAMESPACE_LABEL: &str = "status.kubestellar.io/namespace";
/// See [`COMBINED_GROUP_LABEL`].
pub const COMBINED_NAME_LABEL: &str = "status.kubestellar.io/name";
/// See [`COMBINED_GROUP_LABEL`].
pub const COMBINED_POLICY_LABEL: &str = "status.kubestellar.io/binding-policy";

/// Annotation on a Binding: how many objects it does not name, because they are too many. On a CombinedStatus: what is not in its results because of a collector's `limit`, or for want of room. JSON, by
/// collector: `{"a":{"rows":37,"errors":0}}`.
pub const LEFT_OUT_ANNOTATION: &str = "argosy.dev/left-out";

/// ServiceAccount in a mailbox namespace whose token a cluster's agent dials the ITS with.
pub const AGENT_ACCOUNT: &str = "argosy-agent";

/// Secret in a mailbox namespace with a token of that account, where the cluster was registered with one.
pub const AGENT_TOKEN_SECRET: &str = "argosy-agent-token";

/// What the user name of an agent begins with; its cluster's name follows. The common name of its certificate.
pub const AGENT_USER_PREFIX: &str = "argosy.dev:agent:";

/// The group that every agent with a certificate is in: the organization of its certificate.
pub const AGENTS_GROUP: &str = "argosy.dev:agents";

/// Name of the service account in a mailbox namespace by which an agent that has no certificate yet asks for one.
pub const BOOTSTRAP_ACCOUNT: &str = "argosy-bootstrap";

/// Name of the Secret beside an agent whose kubeconfig (see [`KUBECONFIG_KEY`]) has a token of that account.
pub const BOOTSTRAP_SECRET: &str = "argosy-bootstrap-kubeconfig";

/// Name of the Secret in which an agent keeps its certificate and key.
pub const IDENTITY_SECRET: &str = "argosy-its-identity";

/// Annotation on a ManagedCluster: its agent is to have a certificate that was asked for later than this (RFC 3339).
pub const ROTATE_CERTIFICATE: &str = "argosy.dev/rotate-certificate";

/// Annotation on a ManagedCluster, written by the controller: the certificates of its agent, see [`crate::issued`]. Only with one of
/// these may it ask for the next.
pub const CERTIFICATES_ANNOTATION: &str = "argosy.dev/certificates";

/// The signer of Kubernetes whose certificates an API server takes for its clients'.
pub const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// What an API server calls the credential of a request in the `extra` of its user (Kubernetes 1.32).
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// What the credential of a client certificate begins with; the SHA-256 of the certificate follows, in hexadecimal.
pub const CERTIFICATE_CREDENTIAL_PREFIX: &str = "X509SHA256=";

/// Name of the Lease by which the controllers of a WDS choose which of them leads, in their namespace of the WDS.
pub fn controller_lease(wds_name: &str) -> String {
    format!("{CONTROLLER}-{wds_name}")
}

/// Name of the Lease by which the agents of `cluster` choose which of them leads, in their namespace of the WEC.
pub fn agent_lease(cluster: &str) -> String {
    format!("{AGENT}-{cluster}")
}

/// The user name of the agent of `cluster`.
pub fn agent_user(cluster: &str) -> String {
    format!("{AGENT_USER_PREFIX}{cluster}")
}

/// The user name of the service account by which the agent of `cluster` asks for its first certificate.
pub fn bootstrap_user(cluster: &str) -> String {
    format!("system:serviceaccount:{cluster}:{BOOTSTRAP_ACCOUNT}")
}

/// Name of the ManifestWork, WorkStatus and AppliedManifestWork of a WDS object: derived from its UID, so that
/// every write can be repeated and a new object of the same name is another one.
pub fn work_name(origin_uid: &str) -> String {
    format!("argosy-{origin_uid}")
}
