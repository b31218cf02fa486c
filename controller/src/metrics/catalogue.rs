//! Every metric that Argosy tells, in one list: what it is called, what kind it is, its labels and what it means.
//!
//! Metrics are registered by their entry here, so that name and help are written once; `docs/reference/metrics.md` is made
//! of the same. Not here: how they are counted.

use std::fmt::{self, Write};

use prometheus_client::registry::{Metric, Registry, Unit};

/// One metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Described {
    /// As it is queried: with unit and, of a counter, `_total`. A histogram has `_bucket`, `_sum` and `_count` of it.
    pub name: &'static str,
    /// What kind of metric it is.
    pub kind: Kind,
    /// Which processes tell it.
    pub teller: Teller,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// One sentence without a full stop.
    pub help: &'static str,
}

/// Kinds of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, until the process ends.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Durations by upper bounds.
    Histogram,
    /// Always 1; its labels say it.
    Info,
}

/// Which processes tell a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Teller {
    /// Controller and agent.
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
    BUILD: Info of Both, "argosy_build_info", ["version"], "Which Argosy this is";
    LEADER: Gauge of Both, "argosy_leader", [],
        "Whether this process leads, of those of its Deployment: 1 or 0";
    REQUESTS: Counter of Both, "argosy_requests_total", ["space", "verb", "resource", "code"],
        "Requests to API servers that were answered or given up; code 0 is no answer";
    SENT: Counter of Both, "argosy_sent_bytes_total", ["space", "verb", "resource"],
        "Bodies of requests to API servers";
    REQUEST_DURATION: Histogram of Both, "argosy_request_duration_seconds", ["space", "verb", "resource"],
        "Time until an API server began to answer; of a watch, until it began";
    WATCH_LISTS: Counter of Both, "argosy_watch_lists_total", ["kind"],
        "Lists with which watches began, or began anew";
    WATCH_ERRORS: Counter of Both, "argosy_watch_errors_total", ["kind"],
        "Errors of watches, each of which is tried again";
    KEYS: Gauge of Both, "argosy_keys", ["engine", "state"],
        "Keys of a loop that something is to be done about: queued, running or delayed";
    OLDEST_KEY: Gauge of Both, "argosy_oldest_key_seconds", ["engine"],
        "How long the first key in a loop's queue has waited; 0 where none waits";
    WAIT: Histogram of Both, "argosy_wait_seconds", ["engine"],
        "From the news about a key to the request that it led to";
    STAGE: Histogram of Both, "argosy_stage_seconds", ["engine", "stage"],
        "From the news about a key to the answer of the request that it led to";
    TURN: Histogram of Both, "argosy_turn_seconds", ["engine"],
        "How long a loop learnt and decided before it waited again";
    FAILURES: Counter of Both, "argosy_failures_total", ["engine", "reason"],
        "Requests of a loop that failed, by what follows from it; each is decided anew after a delay";
    HELD_BACK: Counter of Both, "argosy_held_back_total", ["engine"],
        "Keys that did not settle and were slowed down, because something undoes what is written";
    ORPHANS: Gauge of Both, "argosy_orphans", ["engine"],
        "Objects whose origin is unknown, which are left alone; counted once a minute";
    CLUSTERS: Gauge of Controller, "argosy_clusters", ["state"],
        "Clusters of the inventory by state: available, unreachable or joining";
    CLUSTER_AVAILABLE: Gauge of Controller, "argosy_cluster_available", ["cluster"],
        "Whether the agent of a cluster of the inventory renews its lease";
    WORKFLOWS: Gauge of Controller, "argosy_workflows", ["cluster", "phase"],
        "Workflows in the WDS that are claimed for a cluster of the inventory, by phase";
    NOTICES: Counter of Controller, "argosy_notices_total", ["type", "reason"],
        "What was worth an Event on a Workflow, such as Dispatched or, of type Warning, why it cannot be sent";
    IGNORED: Counter of Controller, "argosy_ignored_reports_total", ["cluster", "reason"],
        "WorkStatuses that do not count: invalid, foreign (the Workflow is not claimed for the cluster) or other_attempt";
    REVIEWS: Histogram of Controller, "argosy_webhook_review_seconds", ["outcome"],
        "Time that the admission webhook took for a review: answered, unready, busy or malformed";
    CERTIFICATE: Gauge of Controller, "argosy_webhook_certificate_expiration_timestamp_seconds", [],
        "When the admission webhook's certificate ends, in Unix time; absent without one";
    LEASE: Gauge of Agent, "argosy_lease_renewal_timestamp_seconds", ["cluster"],
        "When the cluster's lease was renewed last, in Unix time; absent before the first renewal";
    AGENT_CERTIFICATE: Gauge of Agent, "argosy_agent_certificate_expiration_timestamp_seconds", [],
        "When the agent's certificate for the ITS ends, in Unix time; absent where a kubeconfig was given, and 0 before the first";
    CERTIFICATE_REQUESTS: Counter of Agent, "argosy_agent_certificate_requests_total", ["outcome"],
        "Requests for a certificate for the ITS by what came of them: issued, denied or unanswered; failed where a renewal did before or after";
    CPU: Counter of Both, "process_cpu_seconds_total", [], "Processor time in user and system mode";
    RESIDENT: Gauge of Both, "process_resident_memory_bytes", [], "Resident memory";
    RESIDENT_MAX: Gauge of Both, "process_resident_memory_max_bytes", [], "The most resident memory since the start";
    VIRTUAL: Gauge of Both, "process_virtual_memory_bytes", [], "Virtual memory";
    OPEN_FILES: Gauge of Both, "process_open_fds", [], "Open file descriptors";
    MOST_FILES: Gauge of Both, "process_max_fds", [], "The most file descriptors that may be open";
    STARTED: Gauge of Both, "process_start_time_seconds", [], "When the process started, in Unix time";
}

impl Described {
    /// Puts `metric` into `registry` under this name. The format wants unit and `_total` apart from the name.
    pub(super) fn register(&self, registry: &mut Registry, metric: impl Metric) {
        let stem = self.stem();
        for (suffix, unit) in [("_seconds", Unit::Seconds), ("_bytes", Unit::Bytes)] {
            if let Some(stem) = stem.strip_suffix(suffix) {
                return registry.register_with_unit(stem, self.help, unit, metric);
            }
        }
        registry.register(stem, self.help, metric);
    }

    /// The name without what the format adds by itself.
    pub(super) fn stem(&self) -> &'static str {
        let suffix = match self.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        };
        self.name.strip_suffix(suffix).unwrap_or(self.name)
    }
}

/// The reference of all metrics, in Markdown.
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

<!-- Made of controller/src/metrics/catalogue.rs by UPDATE=1 cargo test -p argosy --test generated -->

Controller and agent tell these at `/metrics` of their admin address, in the OpenMetrics text format. A histogram has a series with
`_bucket`, `_sum` and `_count` each. Labels have few values: `space` is wds, its or wec; `verb` and `resource` are as RBAC names them;
`engine` is the loop (workflows, objects, expiry, approvals, agent_workflows, agent_objects); `cluster` is a cluster of the inventory, whose
series go when it goes. No label ever names an object.

| name | type | labels | told by | what it is |
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
