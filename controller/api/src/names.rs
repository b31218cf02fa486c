//! Every label, annotation, finalizer, field manager and object name that Argosy reads or writes.
//!
//! All such strings are declared here. Not here: their effect on decisions (`argosy-core`).

/// Label: the cluster that a Workflow is claimed for. On the WDS Workflow, and on the objects that
/// the agent has created or applied in the WEC.
pub const CLUSTER_LABEL: &str = "argosy.dev/cluster";

/// Label: UID of the WDS object. On ManifestWork, WorkStatus, AppliedManifestWork and the object in
/// the WEC.
pub const ORIGIN_UID_LABEL: &str = "argosy.dev/origin-uid";

/// Annotation on a ManifestWork: namespace of the WDS object.
pub const ORIGIN_NAMESPACE_ANNOTATION: &str = "argosy.dev/origin-namespace";

/// Annotation on a ManifestWork: name of the WDS object.
pub const ORIGIN_NAME_ANNOTATION: &str = "argosy.dev/origin-name";

/// Label on a ManifestWork: the WDS of its object, as KubeStellar's transport writes it.
pub const ORIGIN_WDS_LABEL: &str = "transport.kubestellar.io/originWdsName";

/// Annotation on the WDS Workflow: the claim as JSON (`cluster`, `attempt`, `uid` …).
pub const CLAIM_ANNOTATION: &str = "argosy.dev/claim";

/// Annotation on a WDS Workflow that a policy selects and that was seen without a hold, or that has
/// run on the control cluster: its UID. It is not sent, even if its user changes it, because its
/// run may have begun on the control cluster. Invalid on a copy.
pub const SEEN_UNHELD_ANNOTATION: &str = "argosy.dev/seen-unheld";

/// Annotation on a BindingPolicy: `"true"` makes the admission webhook set `spec.archiveLogs` of
/// the Workflows that it selects, unless their users have set it.
pub const ARCHIVE_LOGS_ANNOTATION: &str = "argosy.dev/archive-logs";

/// Annotation on a BindingPolicy: [`EACH_CLUSTER`] sends the selected CronWorkflows to every
/// matching cluster if they are suspended on the control cluster; the clusters' Argo fires them
/// there. Without the annotation, they stay on the control cluster.
pub const CRON_ANNOTATION: &str = "argosy.dev/cron";

/// Value of [`CRON_ANNOTATION`].
pub const EACH_CLUSTER: &str = "each-cluster";

/// Annotation on a BindingPolicy: the kinds of objects that its Workflows need and that are sent to
/// the cluster of each while it runs, as a list of `templates`, `configmaps`, `secrets` and
/// `serviceaccounts`. Their namespace is created there, too.
pub const DEPENDENCIES_ANNOTATION: &str = "argosy.dev/dependencies";

/// Label on a Secret: `"true"` allows that it is sent to the clusters of Workflows that need it, if
/// their policy asks for Secrets.
pub const TRAVELS_LABEL: &str = "argosy.dev/travels";

/// Annotation on a BindingPolicy: [`EVERY_CLUSTER`] runs the selected Workflows on every matching
/// cluster, where each run is a Workflow of its own; [`BEST_CLUSTER`] runs each of them on one of
/// these clusters.
pub const RUNS_ANNOTATION: &str = "argosy.dev/runs";

/// Value of [`RUNS_ANNOTATION`], and the cluster that such a Workflow is claimed for. A
/// ManagedCluster with that name takes no Workflows.
pub const EVERY_CLUSTER: &str = "every-cluster";

/// Value of [`RUNS_ANNOTATION`] that runs the selected Workflows on one cluster each, the one with
/// the most room.
pub const BEST_CLUSTER: &str = "best-cluster";

/// Annotation on a BindingPolicy that chooses one of several clusters: `send` (default) sends a
/// Workflow to the best cluster even if that is full, and `wait` keeps it until a cluster has room.
pub const WHEN_FULL_ANNOTATION: &str = "argosy.dev/when-full";

/// Annotation on a ManagedCluster: the room for runs, whatever its nodes have, as
/// `cpu=QUANTITY,memory=QUANTITY,nvidia.com/gpu=NUMBER,runs=NUMBER`. Agents may not write it.
pub const ROOM_ANNOTATION: &str = "argosy.dev/room";

/// Annotation on a Workflow: the resources that its pods request at a time, as
/// `cpu=QUANTITY,memory=QUANTITY,nvidia.com/gpu=NUMBER`. Each of them replaces the estimate for the
/// choice of a cluster.
pub const REQUESTS_ANNOTATION: &str = "argosy.dev/requests";

/// Label on a run of a Workflow that runs on every cluster: name of that Workflow, shortened if it is
/// too long for a label.
pub const RUN_OF_LABEL: &str = "argosy.dev/run-of";

/// Label on a run of a Workflow that runs on every cluster: the only cluster that the run may be sent
/// to. The label also applies to a copy of the run.
pub const RUN_ON_LABEL: &str = "argosy.dev/run-on";

/// Annotation on a Workflow that runs on every cluster: the created runs (JSON: `uid` of the Workflow,
/// and by cluster the `uid` of the run and the `phase` in which it has ended).
pub const RUNS_ON_ANNOTATION: &str = "argosy.dev/runs-on";

/// Annotation on a run of a Workflow that runs on every cluster: requests for that Workflow that were
/// propagated to the run (JSON: `suspend`, `shutdown`).
pub const PASSED_ON_ANNOTATION: &str = "argosy.dev/passed-on";

/// Annotation on a BindingPolicy: `rerun` lets a Workflow start again on another cluster when its
/// own is lost, see [`LOST_AFTER_ANNOTATION`]. The lost run may have continued, so its steps may
/// run twice.
pub const ON_LOST_ANNOTATION: &str = "argosy.dev/on-lost";

/// Annotation on a BindingPolicy: the time after the expiry of its lease at which a cluster counts
/// as lost (`10m`, `1h 30m`; 5 minutes by default). On a ManifestWork: the same time in seconds;
/// its agent starts no run if its last renewal is older.
pub const LOST_AFTER_ANNOTATION: &str = "argosy.dev/lost-after";

/// Annotation: the attempt, a decimal number from 1 up. On ManifestWork, WorkStatus,
/// AppliedManifestWork and the object in the WEC.
pub const ATTEMPT_ANNOTATION: &str = "argosy.dev/attempt";

/// Annotation on a WDS Workflow, written by its user: `"true"` suspends the run on its cluster,
/// like `spec.suspend` if webhook and admission policies guard the hold.
pub const SUSPEND_ANNOTATION: &str = "argosy.dev/suspend";

/// Annotation on a WDS Workflow: the verbs recorded by the webhook (JSON).
pub const VERBS_ANNOTATION: &str = "argosy.dev/verbs";

/// Annotation on a ManifestWork: the requests for the run. On the object in the WEC: the requests
/// that were carried out (JSON).
pub const CONTROL_ANNOTATION: &str = "argosy.dev/control";

/// Annotation on a ManifestWork: the number of an attempt that the controller asks the agent never
/// to create. The agent confirms with the condition `Withdrawn`.
pub const WITHDRAW_ANNOTATION: &str = "argosy.dev/withdraw";

/// Annotation on the object in the WEC: namespace and name under which the agent created it
/// (`argo/w`). On a copy, they differ from those of the copy.
pub const BORN_AS_ANNOTATION: &str = "argosy.dev/born-as";

/// Annotation on WorkStatus and AppliedManifestWork: UID of the object in the WEC that runs the
/// attempt.
pub const RUN_UID_ANNOTATION: &str = "argosy.dev/run-uid";

/// Annotation on a WorkStatus: time of its last write, if it was written more than once (RFC 3339).
pub const WRITTEN_AT_ANNOTATION: &str = "argosy.dev/written-at";

/// Annotation on a ManifestWork: `"true"` if the attempt had started before this ManifestWork was
/// created, so that it is not started again.
pub const STARTED_ANNOTATION: &str = "argosy.dev/started";

/// Annotation on a ManifestWork: the [`CLUSTER_ID_CLAIM`] of the only cluster that may start the
/// attempt; empty until its agent has reported.
pub const CLUSTER_ID_ANNOTATION: &str = "argosy.dev/cluster-id";

/// Annotation on an AppliedManifestWork: the end of the run, in case the ITS loses it (JSON:
/// `phase`, `message`, `startedAt`, `finishedAt` and `progress` of its status, the number of its
/// last `verb`, and the `digest` of its last report).
pub const ENDING_ANNOTATION: &str = "argosy.dev/ending";

/// Annotation on an AppliedManifestWork: outcome of the attempt, `Finished` or `Deleted`.
pub const OUTCOME_ANNOTATION: &str = "argosy.dev/outcome";

/// Annotation on an AppliedManifestWork: time at which its ManifestWork was released (RFC 3339).
pub const RELEASED_ANNOTATION: &str = "argosy.dev/released-at";

/// Finalizer on a claimed WDS Workflow; removed when none of its objects is left in the ITS.
pub const CONTROLLER_FINALIZER: &str = "argosy.dev/controller";

/// Finalizer on a ManifestWork and on the object in the WEC; the agent removes it when the hub has
/// the last status.
pub const AGENT_FINALIZER: &str = "argosy.dev/agent";

/// Field manager of the controller.
pub const CONTROLLER: &str = "argosy-controller";

/// Field manager of the agent.
pub const AGENT: &str = "argosy-agent";

/// Label on a Secret with key `kubeconfig`: the cluster whose agent the controller hosts (push).
pub const WEC_KUBECONFIG_LABEL: &str = "argosy.dev/wec-kubeconfig";

/// Annotation on a Secret with the kubeconfig of a cluster: the `instanceID` of the cluster's Argo,
/// if it has one.
pub const ARGO_INSTANCE_ANNOTATION: &str = "argosy.dev/argo-instance-id";

/// The Secret key that holds a kubeconfig.
pub const KUBECONFIG_KEY: &str = "kubeconfig";

/// Name of the Lease in a mailbox namespace that the cluster's agent renews, the same as in OCM.
pub const CLUSTER_LEASE: &str = "managed-cluster-lease";

/// OCM's label on objects of a cluster: the cluster's name. OCM's hub does not see a Lease without
/// it.
pub const OCM_CLUSTER_LABEL: &str = "open-cluster-management.io/cluster-name";

/// Name of the cluster claim by which an agent reports the artifact repository of its cluster.
pub const ARTIFACT_REPOSITORY_CLAIM: &str = "artifactrepository.argosy.dev";

/// Name of the cluster claim by which an agent reports the version of Argo Workflows on its
/// cluster.
pub const ARGO_VERSION_CLAIM: &str = "argoversion.argosy.dev";

/// Name of the cluster claim by which an agent reports the room of its cluster, as JSON: for each
/// resource the most that one node has for pods (`node`), and if the agent counts pods, the requests of
/// scheduled pods that do not belong to its runs (`foreign`), and of pods that do (`own`). The sum of all
/// nodes is in `status.allocatable`.
pub const ROOM_CLAIM: &str = "room.argosy.dev";

/// Name of the cluster claim by which an agent reports its own version.
pub const AGENT_VERSION_CLAIM: &str = "agentversion.argosy.dev";

/// Name of the cluster claim that identifies a cluster: UID of the namespace `kube-system`
/// (KEP-2149).
pub const CLUSTER_ID_CLAIM: &str = "id.k8s.io";

/// Name of OCM's cluster claim with the version of Kubernetes.
pub const VERSION_CLAIM: &str = "kubeversion.open-cluster-management.io";

/// Taint on a ManagedCluster whose agent reports that the cluster is unhealthy (OCM).
pub const UNAVAILABLE_TAINT: &str = "cluster.open-cluster-management.io/unavailable";

/// Taint on a ManagedCluster whose agent does not report (OCM).
pub const UNREACHABLE_TAINT: &str = "cluster.open-cluster-management.io/unreachable";

/// Taint on a ManagedCluster: it takes no new Workflows. With the value [`DRAIN`], Workflows that
/// have not started there are taken back as well.
pub const CORDONED_TAINT: &str = "argosy.dev/cordoned";

/// Value of [`CORDONED_TAINT`].
pub const DRAIN: &str = "drain";

/// Annotation on a ManagedCluster: the time at which it was removed from the fleet (RFC 3339). Once
/// its agent has stopped renewing its lease, the controller gives up the runs there and releases
/// the objects in its mailbox.
pub const REMOVED_ANNOTATION: &str = "argosy.dev/removed";

/// Annotation on the Lease of a cluster: the digest of the token with which its agent dials the
/// controller. Annotation on a ManagedCluster, written by the controller:
/// the place that its agent dials, as the Service `NAMESPACE/NAME:PORT` or as a URL.
pub const TUNNEL_ANNOTATION: &str = "argosy.dev/tunnel";

/// Value of [`TUNNEL_ANNOTATION`] on the Lease of a cluster whose agent answers no requests about pods.
pub const NO_TUNNEL: &str = "none";

/// Annotation on a ManagedCluster: [`NODE_OFF`] if the cluster is to have no virtual Node, so that
/// nothing of its pods is served on the control cluster, whatever its agent offers.
pub const NODE_ANNOTATION: &str = "argosy.dev/node";

/// Value of [`NODE_ANNOTATION`] with which a cluster has no virtual Node.
pub const NODE_OFF: &str = "off";

/// Label on a virtual Node: `"true"`.
pub const VIRTUAL_NODE_LABEL: &str = "argosy.dev/virtual";

/// Taint on a virtual Node while the agent of its cluster is unreachable.
pub const UNREACHABLE_NODE_TAINT: &str = "argosy.dev/unreachable";

/// Label on a virtual Node: `"true"` if the agent of its cluster is reachable, else `"false"`.
pub const REACHABLE_LABEL: &str = "argosy.dev/reachable";

/// Prefix of the name of a virtual Node; the name of its cluster follows.
pub const NODE_PREFIX: &str = "argosy-";

/// Label on a shadow pod: UID of the Workflow in the WDS whose pod it shows.
pub const SHADOW_OF_LABEL: &str = "argosy.dev/shadow-of";

/// Annotation on a BindingPolicy: the pods of its Workflows that are shown as shadow pods on the
/// control cluster: `off`, `asked` (those of watched Workflows, see [`WATCHED_UNTIL_ANNOTATION`]),
/// `long` (also those that have run for ten seconds) or `all`.
pub const PODS_ANNOTATION: &str = "argosy.dev/pods";

/// Annotation on a WDS Workflow, written by its user: a time (RFC 3339). Until then, all of its
/// running pods are shown.
pub const WATCHED_UNTIL_ANNOTATION: &str = "argosy.dev/watched-until";

/// Prefix of every label and annotation of Argosy.
pub const PREFIX: &str = "argosy.dev/";

/// Label by which KubeStellar's users choose the cluster of a Workflow.
pub const KUBESTELLAR_CLUSTER_LABEL: &str = "kubestellar.io/cluster";

/// Value of [`KUBESTELLAR_CLUSTER_LABEL`] that means the control cluster itself.
pub const KUBESTELLAR_LOCAL_CLUSTER: &str = "local";

/// Label on a WDS object whose status is being returned, as KubeStellar's status controller writes
/// it.
pub const SINGLETON_STATUS_LABEL: &str = "managed-by.kubestellar.io/singletonstatus";

/// Prefix of the labels, annotations and finalizers of Argo's controllers and servers.
pub const ARGO_PREFIX: &str = "workflows.argoproj.io/";

/// Argo's label that makes a workflow-controller skip an object: the hold.
pub const ARGO_COMPLETED_LABEL: &str = "workflows.argoproj.io/completed";

/// Argo's label with the phase, used by its lists and filters.
pub const ARGO_PHASE_LABEL: &str = "workflows.argoproj.io/phase";

/// Argo's label for its archive; never mirrored.
pub const ARGO_ARCHIVING_LABEL: &str = "workflows.argoproj.io/workflow-archiving-status";

/// Argo's label naming the controller instance that owns an object; the agent sets that of its
/// cluster. Never mirrored.
pub const ARGO_INSTANCE_LABEL: &str = "workflows.argoproj.io/controller-instanceid";

/// Argo's annotation by which a controller recognizes stale reads; never mirrored.
pub const ARGO_LAST_SEEN_ANNOTATION: &str = "workflows.argoproj.io/last-seen-version";

/// Argo's annotation with the format of pod names; its UI and CLI compute pod names from it.
pub const ARGO_POD_NAME_FORMAT_ANNOTATION: &str = "workflows.argoproj.io/pod-name-format";

/// Argo's label on a Workflow that `argo resubmit` has copied from another one.
pub const ARGO_RESUBMITTED_LABEL: &str = "workflows.argoproj.io/resubmitted-from-workflow";

/// Argo's label on a Workflow that a CronWorkflow has created: name of the CronWorkflow.
pub const ARGO_CRON_LABEL: &str = "workflows.argoproj.io/cron-workflow";

/// Argo's label on a pod: name of its Workflow.
pub const ARGO_WORKFLOW_LABEL: &str = "workflows.argoproj.io/workflow";

/// Argo's annotation on a pod: ID of its node.
pub const ARGO_NODE_ID_ANNOTATION: &str = "workflows.argoproj.io/node-id";

/// Names of the Deployment of Argo's workflow-controller: in Argo's own manifests, and in its Helm
/// chart with the release name `argo-workflows`.
pub const ARGO_DEPLOYMENTS: [&str; 2] = ["workflow-controller", "argo-workflows-workflow-controller"];

/// Name of the Deployment of Argosy's controller.
pub const CONTROLLER_DEPLOYMENT: &str = "argosy-controller";

/// Kubernetes' recommended label with the version of the deployed software.
pub const VERSION_LABEL: &str = "app.kubernetes.io/version";

/// Argo's finalizer for artifact garbage collection; it makes the local controller process a held
/// object.
pub const ARGO_ARTIFACT_GC_FINALIZER: &str = "workflows.argoproj.io/artifact-gc";

/// Label on everything that is derived from a WDS object other than a Workflow: that object's UID.
/// On its ManifestWorks and WorkStatuses, and on the object in the WEC.
pub const OBJECT_UID_LABEL: &str = "argosy.dev/object-uid";

/// Annotation on the ManifestWork of an object other than a Workflow: group, version and plural of the
/// WDS object (`apps/v1/deployments`, `/v1/configmaps`).
pub const ORIGIN_RESOURCE_ANNOTATION: &str = "argosy.dev/origin-resource";

/// Annotation on the ManifestWork of an object other than a Workflow: UID of the namespace
/// `kube-system` of the WDS, which identifies its API server. A WDS that was recreated under the same
/// name does not remove objects that the former one has sent.
pub const ORIGIN_SPACE_ANNOTATION: &str = "argosy.dev/origin-space";

/// Annotation on the ManifestWork of an object other than a Workflow: `"true"` requests a WorkStatus of
/// the object from the agent.
pub const WANT_STATUS_ANNOTATION: &str = "argosy.dev/want-status";

/// Annotation on the ManifestWork of a Workflow: the kinds of objects that are sent because it needs
/// them, as in [`DEPENDENCIES_ANNOTATION`]. The agent creates the Workflow when those that it names
/// are on the cluster.
pub const NEEDS_ANNOTATION: &str = "argosy.dev/needs";

/// Annotation on the ManifestWork of an object other than a Workflow: `"true"` if no policy selects its
/// object for the cluster, and only Workflows need it there. An object of another owner is then used as
/// it is.
pub const DEPENDENCY_ANNOTATION: &str = "argosy.dev/dependency";

/// Annotation on an object in a WEC: digest of the manifest from which it was applied.
pub const APPLIED_ANNOTATION: &str = "argosy.dev/applied";

/// Annotation on an object in a WEC: name of the ManifestWork from which it was applied.
pub const MANIFEST_WORK_ANNOTATION: &str = "argosy.dev/manifest-work";

/// Annotation on an object in a WEC: `"true"` if it existed before, so that it stays when its
/// ManifestWork is deleted.
pub const ADOPTED_ANNOTATION: &str = "argosy.dev/adopted";

/// Label on a Namespace of a WEC that was created because an object needed it: name of the
/// ManagedCluster.
pub const MADE_FOR_LABEL: &str = "argosy.dev/made-for";

/// ClusterRole of the agent's chart with the rights of Argo's executor. The ServiceAccounts that runs
/// need are bound to it.
pub const EXECUTOR_ROLE: &str = "argosy-workflow-executor";

/// Field manager with which objects other than Workflows are applied. OCM requires the prefix
/// `work-agent`.
pub const APPLIER: &str = "work-agent-argosy";

/// Field manager with which an object is applied if its ManifestWork names none, the same as in
/// OCM.
pub const WORK_AGENT: &str = "work-agent";

/// OCM's label on a ManifestWork of a ManifestWorkReplicaSet: name of the latter.
pub const REPLICA_SET_LABEL: &str = "work.open-cluster-management.io/manifestworkreplicaset";

/// Kubernetes' finalizer on an object that is deleted without its dependents (`--cascade=orphan`).
pub const ORPHAN_FINALIZER: &str = "orphan";

/// OCM's finalizer on a ManifestWork: its objects are still to be deleted on the cluster.
pub const MANIFEST_WORK_FINALIZER: &str = "cluster.open-cluster-management.io/manifest-work-cleanup";

/// OCM's finalizer on an AppliedManifestWork: its objects are still to be deleted.
pub const APPLIED_MANIFEST_WORK_FINALIZER: &str =
    "cluster.open-cluster-management.io/applied-manifest-work-cleanup";

/// Annotation on a WDS object, written by its user: `"true"` expands the templates in its strings
/// for each cluster.
pub const EXPAND_TEMPLATES_ANNOTATION: &str = "control.kubestellar.io/expand-templates";

/// Label on a WDS object whose status is an aggregate of the statuses of several clusters.
pub const MULTI_STATUS_LABEL: &str = "managed-by.kubestellar.io/multiwecstatus";

/// Namespace of the ITS with one ConfigMap per cluster: the properties that templates may use. Its
/// Secrets (`CLUSTER` and `CLUSTER.NAMESPACE`) have properties for templates in Secrets.
pub const PROPERTIES_NAMESPACE: &str = "customization-properties";

/// Namespace of the WDS for the CombinedStatuses of cluster-scoped objects.
pub const REPORT_NAMESPACE: &str = "kubestellar-report";

/// Labels on a CombinedStatus: the object that it is about, and the policy.
pub const COMBINED_GROUP_LABEL: &str = "status.kubestellar.io/api-group";
/// See [`COMBINED_GROUP_LABEL`].
pub const COMBINED_RESOURCE_LABEL: &str = "status.kubestellar.io/resource";
/// See [`COMBINED_GROUP_LABEL`].
pub const COMBINED_NAMESPACE_LABEL: &str = "status.kubestellar.io/namespace";
/// See [`COMBINED_GROUP_LABEL`].
pub const COMBINED_NAME_LABEL: &str = "status.kubestellar.io/name";
/// See [`COMBINED_GROUP_LABEL`].
pub const COMBINED_POLICY_LABEL: &str = "status.kubestellar.io/binding-policy";

/// Annotation on a Binding: the number of objects that are left out because they are too many. On a
/// CombinedStatus: results that are left out because of a collector's `limit`, or for lack of
/// space. JSON, by collector: `{"a":{"rows":37,"errors":0}}`.
pub const LEFT_OUT_ANNOTATION: &str = "argosy.dev/left-out";

/// ServiceAccount in a mailbox namespace with whose token a cluster's agent connects to the ITS.
pub const AGENT_ACCOUNT: &str = "argosy-agent";

/// Secret in a mailbox namespace with a token of that account, if the cluster was registered with
/// one.
pub const AGENT_TOKEN_SECRET: &str = "argosy-agent-token";

/// Prefix of the user name of an agent, which is also the common name of its certificate; the name
/// of its cluster follows.
pub const AGENT_USER_PREFIX: &str = "argosy.dev:agent:";

/// The group of every agent with a certificate: the organization of its certificate.
pub const AGENTS_GROUP: &str = "argosy.dev:agents";

/// Name of the service account in a mailbox namespace with which an agent without a certificate
/// requests one.
pub const BOOTSTRAP_ACCOUNT: &str = "argosy-bootstrap";

/// Name of the Secret next to an agent whose kubeconfig (see [`KUBECONFIG_KEY`]) has a token of
/// that account.
pub const BOOTSTRAP_SECRET: &str = "argosy-bootstrap-kubeconfig";

/// Name of the Secret in which an agent keeps its certificate and key.
pub const IDENTITY_SECRET: &str = "argosy-its-identity";

/// Annotation on a ManagedCluster: a time; a certificate of its agent that was requested before
/// that time is replaced (RFC 3339).
pub const ROTATE_CERTIFICATE: &str = "argosy.dev/rotate-certificate";

/// Annotation on a ManagedCluster, written by the controller: the certificates of its agent.
/// The agent may request the next one only with one of these.
pub const CERTIFICATES_ANNOTATION: &str = "argosy.dev/certificates";

/// Kubernetes' signer of certificates that an API server accepts from clients.
pub const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// Key of a request's credential ID in the `extra` of its user (Kubernetes 1.32).
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// Prefix of the credential ID of a client certificate; the SHA-256 of the certificate in
/// hexadecimal follows.
pub const CERTIFICATE_CREDENTIAL_PREFIX: &str = "X509SHA256=";

/// Name of the Lease with which the controllers of a WDS elect a leader, in their namespace of the
/// WDS.
pub fn controller_lease(wds_name: &str) -> String {
    format!("{CONTROLLER}-{wds_name}")
}

/// Name of the Lease with which the agents of `cluster` elect a leader, in their namespace of the
/// WEC.
pub fn agent_lease(cluster: &str) -> String {
    format!("{AGENT}-{cluster}")
}

/// Name of the virtual Node of `cluster`.
pub fn virtual_node(cluster: &str) -> String {
    format!("{NODE_PREFIX}{cluster}")
}

/// The user name of the agent of `cluster`.
pub fn agent_user(cluster: &str) -> String {
    format!("{AGENT_USER_PREFIX}{cluster}")
}

/// The user name of the service account with which the agent of `cluster` requests its first
/// certificate.
pub fn bootstrap_user(cluster: &str) -> String {
    format!("system:serviceaccount:{cluster}:{BOOTSTRAP_ACCOUNT}")
}

/// Prefix of the name of the ManifestWork, WorkStatus and AppliedManifestWork of a WDS object; the
/// object's UID follows.
pub const WORK_PREFIX: &str = "argosy-";

/// Name of the ManifestWork, WorkStatus and AppliedManifestWork of a WDS object. It is derived from
/// the object's UID, so that every write can be repeated, and a new object with the same name gets
/// another one.
pub fn work_name(origin_uid: &str) -> String {
    format!("{WORK_PREFIX}{origin_uid}")
}
