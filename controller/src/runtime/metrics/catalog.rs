//! The list of every metric of Argosy: name, kind, labels and meaning.
//!
//! Metrics are registered by their entry here, so that name and help are written once;
//! `docs/reference/metrics.md` is generated from it, too. Not here: the code that counts.

use std::fmt::{self, Write};

use prometheus_client::registry::{Metric, Registry, Unit};

/// One metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Described {
    /// Name as in a query: with the unit and, for a counter, `_total`. For a histogram, without
    /// `_bucket`, `_sum` and `_count`.
    pub name: &'static str,
    /// Kind of the metric.
    pub kind: Kind,
    /// Processes that expose it.
    pub teller: Teller,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// One sentence without a full stop.
    pub help: &'static str,
}

/// Kinds of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, until the process ends.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Distribution of durations, by upper bounds.
    Histogram,
    /// Always 1; its labels carry the information.
    Info,
}

/// Processes that expose a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Teller {
    /// The controller and the agent.
    Both,
    /// The controller.
    Controller,
    /// The agent, or the controller for the agents that it hosts.
    Agent,
}

macro_rules! metrics {
    ($($constant:ident: $kind:ident of $teller:ident, $name:literal, [$($label:literal),*], $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $constant: Described = Described {
                name: $name,
                kind: Kind::$kind,
                teller: Teller::$teller,
                labels: &[$($label),*],
                help: $help,
            };
        )*

        /// All metrics, in the order of the reference.
        pub const ALL: &[Described] = &[$($constant),*];
    };
}

metrics! {
    BUILD: Info of Both, "argosy_build_info", ["version"], "Version of Argosy";
    LEADER: Gauge of Both, "argosy_leader", [],
        "1 if this process is the leader of its Deployment, else 0";
    REQUESTS: Counter of Both, "argosy_requests_total", ["space", "verb", "resource", "code"],
        "Requests to API servers that were answered or given up; code 0 means no answer";
    SENT: Counter of Both, "argosy_sent_bytes_total", ["space", "verb", "resource"],
        "Size of the request bodies sent to API servers";
    REQUEST_DURATION: Histogram of Both, "argosy_request_duration_seconds", ["space", "verb", "resource"],
        "Time until an API server began to answer; for a watch, until the watch began";
    WATCH_LISTS: Counter of Both, "argosy_watch_lists_total", ["kind"],
        "Lists at the start or restart of watches";
    WATCH_ERRORS: Counter of Both, "argosy_watch_errors_total", ["kind"],
        "Errors of watches; each watch is retried";
    KEYS: Gauge of Both, "argosy_keys", ["engine", "state"],
        "Keys of a loop with pending work: queued, running or delayed";
    OLDEST_KEY: Gauge of Both, "argosy_oldest_key_seconds", ["engine"],
        "Time that the first key in a loop's queue has waited; 0 if the queue is empty";
    WAIT: Histogram of Both, "argosy_wait_seconds", ["engine"],
        "Time from the event about a key to the resulting request";
    STAGE: Histogram of Both, "argosy_stage_seconds", ["engine", "stage"],
        "Time from the event about a key to the answer of the resulting request";
    TURN: Histogram of Both, "argosy_turn_seconds", ["engine"],
        "Time that a loop processed events and decided before it waited again";
    FAILURES: Counter of Both, "argosy_failures_total", ["engine", "reason"],
        "Failed requests of a loop by reason; each is decided again after a delay";
    HELD_BACK: Counter of Both, "argosy_held_back_total", ["engine"],
        "Keys that did not settle and were slowed down, because another client undoes the writes";
    ORPHANS: Gauge of Both, "argosy_orphans", ["engine"],
        "Orphans: objects of unknown origin, which are left alone; counted once a minute";
    CLUSTERS: Gauge of Controller, "argosy_clusters", ["state"],
        "Clusters of the inventory by state: available, unreachable or joining";
    CLUSTER_AVAILABLE: Gauge of Controller, "argosy_cluster_available", ["cluster"],
        "1 if the agent of a cluster of the inventory renews its lease, else 0";
    WORKFLOWS: Gauge of Controller, "argosy_workflows", ["cluster", "phase"],
        "Workflows in the WDS that are claimed for a cluster of the inventory, by phase";
    WAITING: Gauge of Controller, "argosy_waiting_workflows", [],
        "Workflows that wait on the control cluster until a cluster has room";
    ROOM: Gauge of Controller, "argosy_cluster_room", ["cluster", "resource"],
        "Room for runs on a cluster of the inventory: CPU in cores, memory in bytes, and up to 8 extended \
        resources such as nvidia.com/gpu by number; absent if it is not known";
    RESERVED: Gauge of Controller, "argosy_cluster_reserved", ["cluster", "resource"],
        "Sum of the requests of unfinished runs that are claimed for a cluster of the inventory: CPU in cores, \
        memory in bytes, and the same extended resources by number";
    CHOICES: Counter of Controller, "argosy_choices_total", ["outcome", "cluster"],
        "Choices of one of several clusters for a Workflow by outcome: chosen, waiting until a cluster has \
        room, or no_cluster if none can be chosen; a Workflow that waits counts again once its cluster is \
        chosen";
    NOTICES: Counter of Controller, "argosy_notices_total", ["type", "reason"],
        "Events on Workflows, such as Dispatched, or, with type Warning, the reason why a Workflow cannot be \
        sent";
    IGNORED: Counter of Controller, "argosy_ignored_reports_total", ["cluster", "reason"],
        "Ignored WorkStatuses: invalid, foreign (the Workflow is not claimed for the cluster) or \
        other_attempt";
    REVIEWS: Histogram of Controller, "argosy_webhook_review_seconds", ["outcome"],
        "Time that the admission webhook took for a review, by outcome: answered, unready, busy or malformed";
    CERTIFICATE: Gauge of Controller, "argosy_webhook_certificate_expiration_timestamp_seconds", [],
        "Unix time when the admission webhook's certificate expires; absent if there is none";
    TUNNELS: Gauge of Controller, "argosy_tunnels", [],
        "Open tunnels of agents, over which logs are read";
    CLUSTER_TUNNEL: Gauge of Controller, "argosy_cluster_tunnel", ["cluster"],
        "1 if the agent of a cluster of the inventory has an open tunnel, else 0; absent if it offers none";
    SHADOW_PODS: Gauge of Controller, "argosy_shadow_pods", ["state"],
        "Pods of other clusters by state: shown on the control cluster, left_out because their Workflow, their \
        cluster or all clusters have too many, or refused by the API server, for example by a quota";
    KUBELET_REQUESTS: Counter of Controller, "argosy_kubelet_requests_total", ["outcome"],
        "Requests for logs of shadow pods by outcome: opened, malformed, unknown, forbidden, busy, \
        unavailable or refused_by_agent";
    KUBELET_STREAMS: Gauge of Controller, "argosy_kubelet_streams", [],
        "Logs of shadow pods that are being read";
    LEASE: Gauge of Agent, "argosy_lease_renewal_timestamp_seconds", ["cluster"],
        "Unix time of the last renewal of the cluster's lease; absent before the first renewal";
    AGENT_CERTIFICATE: Gauge of Agent, "argosy_agent_certificate_expiration_timestamp_seconds", [],
        "Unix time when the agent's certificate for the ITS expires; absent if the agent uses a kubeconfig, \
        and 0 before the first certificate";
    CERTIFICATE_REQUESTS: Counter of Agent, "argosy_agent_certificate_requests_total", ["outcome"],
        "Requests for a certificate for the ITS by outcome: issued, denied, unanswered, or failed if a \
        renewal failed before or after the request";
    CPU: Counter of Both, "process_cpu_seconds_total", [], "CPU time in user and system mode";
    RESIDENT: Gauge of Both, "process_resident_memory_bytes", [], "Resident memory";
    RESIDENT_MAX: Gauge of Both, "process_resident_memory_max_bytes", [], "Maximum resident memory since the \
        start";
    VIRTUAL: Gauge of Both, "process_virtual_memory_bytes", [], "Virtual memory";
    OPEN_FILES: Gauge of Both, "process_open_fds", [], "Open file descriptors";
    MOST_FILES: Gauge of Both, "process_max_fds", [], "Maximum number of open file descriptors";
    STARTED: Gauge of Both, "process_start_time_seconds", [], "Unix time when the process started";
}

impl Described {
    /// Registers `metric` under this name. The format adds the unit and `_total` to the name
    /// itself.
    pub(super) fn register(&self, registry: &mut Registry, metric: impl Metric) {
        let stem = self.stem();
        for (suffix, unit) in [("_seconds", Unit::Seconds), ("_bytes", Unit::Bytes)] {
            if let Some(stem) = stem.strip_suffix(suffix) {
                return registry.register_with_unit(stem, self.help, unit, metric);
            }
        }
        registry.register(stem, self.help, metric);
    }

    /// The name without the suffix that the format adds.
    pub(super) fn stem(&self) -> &'static str {
        let suffix = match self.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        };
        self.name.strip_suffix(suffix).unwrap_or(self.name)
    }
}

/// Renders the reference of all metrics in Markdown.
pub fn reference() -> String {
    let mut text = INTRODUCTION.to_owned();
    for metric in ALL {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        // Writing into a String cannot fail.
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {} |",
            metric.name,
            metric.kind,
            labels.join(", "),
            metric.teller,
            metric.help
        );
    }
    text
}

const INTRODUCTION: &str = "\
# Metrics

<!-- Made of controller/src/runtime/metrics/catalog.rs by UPDATE=1 cargo test -p argosy --test generated -->

The controller and the agent serve these metrics at `/metrics` of their admin address, in the OpenMetrics text format.
A histogram has three series, with `_bucket`, `_sum` and `_count`.
Labels have few values, and none ever names an object other than a cluster:

- `space` is wds, its or wec.
- `verb`, and `resource` of requests, are as RBAC names them; `resource` of clusters is as containers request it.
- `engine` is the loop: workflows, objects, expiry, approvals, nodes, shadow_pods, agent_workflows or agent_objects.
- `cluster` is a cluster of the inventory, whose series are removed with it.

| name | type | labels | reported by | meaning |
| --- | --- | --- | --- | --- |
";

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        })
    }
}

impl fmt::Display for Teller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Both => "both",
            Self::Controller => "controller",
            Self::Agent => "agent",
        })
    }
}
