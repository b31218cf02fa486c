//! Counts requests: writes of any sender, as API servers count them, and all requests of controller
//! and agents, as these count them. Also counts the comparisons between API server and etcd
//! (KEP-2340: every five minutes, each resource), which take seconds of processor time if there are
//! many objects.
//!
//! Leases and the status of clusters are written all the time, with or without Workflows, and are
//! left out. So are dry runs. Events are counted apart.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Result;
use kube::{
    Client,
    api::{GetParams, Request},
};
use tokio::time::timeout;

use super::exposition::{self, Histogram, Sample};

/// Number of requests by verb and resource.
pub(super) type Counts = BTreeMap<String, f64>;

const PATIENCE: Duration = Duration::from_secs(20);

/// Resources that are written independently of the number of Workflows.
const STEADY: [&str; 6] = [
    "leases",
    "managedclusters",
    "events",
    "clusterclaims",
    "secrets",
    "configmaps",
];

/// Counters of API servers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Served {
    /// Writes, by verb and resource.
    pub(super) writes: Counts,
    /// Writes of Events.
    pub(super) events: f64,
    /// Comparisons of a server's cache with etcd, one per resource.
    pub(super) consistency_checks: f64,
}

/// Reads the counters of the API servers.
pub(super) async fn served(clients: &[Client]) -> Result<Served> {
    let mut served = Served::default();
    for client in clients {
        let request = Request::new("").get("metrics", &GetParams::default())?;
        served.take(&timeout(PATIENCE, client.request_text(request)).await??);
    }
    Ok(served)
}

/// Number of requests that an API server has answered, of all clients, by verb and resource.
pub(super) async fn answered(client: &Client) -> Result<Counts> {
    let request = Request::new("").get("metrics", &GetParams::default())?;
    let text = timeout(PATIENCE, client.request_text(request)).await??;
    let mut counts = Counts::new();
    for sample in exposition::parse(&text, "apiserver_request_total{") {
        let resource = slashed(sample.label("resource"), sample.label("subresource"));
        let what = format!("{} {resource}", sample.label("verb"));
        *counts.entry(what).or_default() += sample.value;
    }
    Ok(counts)
}

impl Served {
    fn take(&mut self, text: &str) {
        let requests = exposition::parse(text, "apiserver_request_total{");
        add_writes(&mut self.writes, &requests);
        let events = requests
            .iter()
            .filter(|sample| is_write(sample) && sample.label("resource") == "events");
        self.events += events.map(|sample| sample.value).sum::<f64>();
        let checks = exposition::parse(text, "apiserver_storage_consistency_checks_total{");
        self.consistency_checks += checks.iter().map(|sample| sample.value).sum::<f64>();
    }

    /// The counts since `earlier`.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            writes: since(&self.writes, &earlier.writes),
            events: self.events - earlier.events,
            consistency_checks: self.consistency_checks - earlier.consistency_checks,
        }
    }

    /// Adds the counts of `other`.
    pub(super) fn add(&mut self, other: &Self) {
        add(&mut self.writes, &other.writes);
        self.events += other.events;
        self.consistency_checks += other.consistency_checks;
    }
}

fn add_writes(counts: &mut Counts, samples: &[Sample]) {
    for sample in samples {
        let verb = sample.label("verb");
        let is_counted = sample.label("dry_run").is_empty()
            && GROUPS.iter().any(|group| sample.label("group").ends_with(group))
            && !STEADY.contains(&sample.label("resource"));
        if is_write(sample) && is_counted {
            let what = format!(
                "{verb} {}",
                slashed(sample.label("resource"), sample.label("subresource"))
            );
            *counts.entry(what).or_default() += sample.value;
        }
    }
}

fn is_write(sample: &Sample) -> bool {
    matches!(
        sample.label("verb"),
        "POST" | "PUT" | "PATCH" | "APPLY" | "DELETE"
    )
}

/// API groups of the objects that belong to Workflows. The server itself writes in others.
const GROUPS: [&str; 3] = ["kubestellar.io", "open-cluster-management.io", "argoproj.io"];

fn slashed(resource: &str, subresource: &str) -> String {
    match subresource {
        "" => resource.to_owned(),
        subresource => format!("{resource}/{subresource}"),
    }
}

/// The metrics that a process of Argosy exports.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    /// Its requests, by verb and resource.
    pub(super) requests: Counts,
    /// The times of its stages.
    pub(super) stages: BTreeMap<String, Histogram>,
}

/// The metrics of the processes at `addresses`, summed. `None` if one exports none.
pub(super) async fn told(addresses: &[String]) -> Option<Told> {
    let client = reqwest::Client::builder().timeout(PATIENCE).build().ok()?;
    let mut samples = Vec::new();
    for address in addresses {
        let answer = client.get(address).send().await.ok()?.error_for_status().ok()?;
        samples.extend(exposition::parse(&answer.text().await.ok()?, "argosy_"));
    }
    (!samples.is_empty()).then(|| Told {
        requests: own_requests(&samples),
        stages: exposition::histograms(&samples, "argosy_stage_seconds", "stage"),
    })
}

fn own_requests(samples: &[Sample]) -> Counts {
    let mut counts = Counts::new();
    for sample in samples
        .iter()
        .filter(|sample| sample.name == "argosy_requests_total")
    {
        let resource = sample.label("resource");
        let first = resource.split('/').next().unwrap_or_default();
        if !STEADY.contains(&first) {
            let what = format!("{} {resource}", sample.label("verb"));
            *counts.entry(what).or_default() += sample.value;
        }
    }
    counts
}

/// The counts since `earlier`, without unchanged ones.
fn since(now: &Counts, earlier: &Counts) -> Counts {
    now.iter()
        .map(|(what, count)| {
            (
                what.clone(),
                count - earlier.get(what).copied().unwrap_or_default(),
            )
        })
        .filter(|(_, count)| *count > 0.0)
        .collect()
}

/// Adds the counts of `other`.
fn add(counts: &mut Counts, other: &Counts) {
    for (what, count) in other {
        *counts.entry(what.clone()).or_default() += count;
    }
}

impl Told {
    /// The change since `earlier`.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let stages = self.stages.iter();
        Self {
            requests: since(&self.requests, &earlier.requests),
            stages: stages
                .map(|(stage, now)| (stage.clone(), now.since(earlier.stages.get(stage))))
                .collect(),
        }
    }

    /// Adds the metrics of `other`.
    pub(super) fn add(&mut self, other: &Self) {
        add(&mut self.requests, &other.requests);
        for (stage, more) in &other.stages {
            self.stages.entry(stage.clone()).or_default().add(more);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"apiserver_request_total{code="201",component="apiserver",dry_run="",group="argoproj.io",resource="workflows",scope="resource",subresource="",verb="POST",version="v1alpha1"} 7
apiserver_request_total{code="201",dry_run="All",group="argoproj.io",resource="workflows",subresource="",verb="POST"} 3
apiserver_request_total{code="200",dry_run="",group="argoproj.io",resource="workflows",subresource="",verb="LIST"} 9
apiserver_request_total{code="200",dry_run="",group="work.open-cluster-management.io",resource="manifestworks",subresource="status",verb="PATCH"} 2
apiserver_request_total{code="200",dry_run="",group="cluster.open-cluster-management.io",resource="managedclusters",subresource="status",verb="PATCH"} 2
apiserver_request_total{code="201",dry_run="",group="",resource="events",subresource="",verb="POST"} 6
apiserver_request_total{code="200",dry_run="",group="coordination.k8s.io",resource="leases",subresource="",verb="PUT"} 5
apiserver_storage_consistency_checks_total{group="argoproj.io",resource="workflows",status="success"} 2
apiserver_storage_consistency_checks_total{group="",resource="pods",status="error"} 1
argosy_requests_total{space="its",verb="patch",resource="manifestworks",code="200"} 4
argosy_requests_total{space="its",verb="patch",resource="manifestworks",code="409"} 1
argosy_requests_total{space="its",verb="update",resource="leases",code="200"} 4
"#;

    #[test]
    fn of_writes_only_those_count_that_workflows_cause() {
        let mut served = Served::default();
        served.take(TEXT);
        let wanted = [("PATCH manifestworks/status", 2.0), ("POST workflows", 7.0)];
        assert_eq!(
            served.writes,
            wanted.map(|(what, count)| (what.to_owned(), count)).into()
        );
        assert_eq!(format!("{}", served.events), "6");
    }

    #[test]
    fn consistency_checks_of_all_resources_count() {
        let (mut once, mut twice) = (Served::default(), Served::default());
        once.take(TEXT);
        twice.add(&once);
        twice.take(TEXT);
        assert_eq!(
            [once.consistency_checks, twice.consistency_checks].map(|checks| format!("{checks}")),
            ["3", "6"]
        );
        assert_eq!(twice.since(&once), once);
    }

    #[test]
    fn requests_of_all_outcomes_count() {
        let counts = own_requests(&exposition::parse(TEXT, "argosy_"));
        assert_eq!(counts, [("patch manifestworks".to_owned(), 5.0)].into());
        assert_eq!(since(&counts, &counts), Counts::new());
    }
}
