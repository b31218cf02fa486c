//! How many requests there were: writes as API servers count them, whoever has sent them, and every request of controller
//! and agents as these count them themselves. And how often API servers have compared what they hold with what etcd holds
//! (KEP-2340: every five minutes, each resource), which takes seconds of processor time where there are many objects.
//!
//! Leases and what clusters say of themselves are written all the time, whether there are Workflows or not, and are left out;
//! so are Events and dry runs.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Result;
use kube::{
    Client,
    api::{GetParams, Request},
};
use tokio::time::timeout;

use super::exposition::{self, Histogram, Sample};

/// Requests by what they were.
pub(super) type Counts = BTreeMap<String, f64>;

const PATIENCE: Duration = Duration::from_secs(20);

/// What is written whatever the number of Workflows is.
const STEADY: [&str; 6] = [
    "leases",
    "managedclusters",
    "events",
    "clusterclaims",
    "secrets",
    "configmaps",
];

/// What API servers count.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Served {
    /// Writes, by verb and resource.
    pub(super) writes: Counts,
    /// Comparisons of what a server holds with what etcd holds, one for each resource.
    pub(super) consistency_checks: f64,
}

/// What the API servers have counted so far.
pub(super) async fn served(clients: &[Client]) -> Result<Served> {
    let mut served = Served::default();
    for client in clients {
        let request = Request::new("").get("metrics", &GetParams::default())?;
        served.take(&timeout(PATIENCE, client.request_text(request)).await??);
    }
    Ok(served)
}

impl Served {
    fn take(&mut self, text: &str) {
        add_writes(
            &mut self.writes,
            &exposition::parse(text, "apiserver_request_total{"),
        );
        let checks = exposition::parse(text, "apiserver_storage_consistency_checks_total{");
        self.consistency_checks += checks.iter().map(|sample| sample.value).sum::<f64>();
    }

    /// What was counted since `earlier`.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            writes: since(&self.writes, &earlier.writes),
            consistency_checks: self.consistency_checks - earlier.consistency_checks,
        }
    }

    /// Takes what `other` counts in.
    pub(super) fn add(&mut self, other: &Self) {
        add(&mut self.writes, &other.writes);
        self.consistency_checks += other.consistency_checks;
    }
}

fn add_writes(counts: &mut Counts, samples: &[Sample]) {
    for sample in samples {
        let verb = sample.label("verb");
        let is_write = matches!(verb, "POST" | "PUT" | "PATCH" | "APPLY" | "DELETE");
        let is_counted = sample.label("dry_run").is_empty()
            && GROUPS.iter().any(|group| sample.label("group").ends_with(group))
            && !STEADY.contains(&sample.label("resource"));
        if is_write && is_counted {
            let what = format!(
                "{verb} {}",
                slashed(sample.label("resource"), sample.label("subresource"))
            );
            *counts.entry(what).or_default() += sample.value;
        }
    }
}

/// Groups of what belongs to Workflows; the server itself writes in others.
const GROUPS: [&str; 3] = ["kubestellar.io", "open-cluster-management.io", "argoproj.io"];

fn slashed(resource: &str, subresource: &str) -> String {
    match subresource {
        "" => resource.to_owned(),
        subresource => format!("{resource}/{subresource}"),
    }
}

/// What a process of Argosy tells of itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    /// Its requests, by verb and resource.
    pub(super) requests: Counts,
    /// How long its stages took.
    pub(super) stages: BTreeMap<String, Histogram>,
}

/// Reads the metrics of processes at `addresses`, taken together; nothing, if one does not tell any.
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

/// What was counted since `earlier`, without what has not changed.
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

/// Takes what `other` counts in.
fn add(counts: &mut Counts, other: &Counts) {
    for (what, count) in other {
        *counts.entry(what.clone()).or_default() += count;
    }
}

impl Told {
    /// What was told since `earlier`.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let stages = self.stages.iter();
        Self {
            requests: since(&self.requests, &earlier.requests),
            stages: stages
                .map(|(stage, now)| (stage.clone(), now.since(earlier.stages.get(stage))))
                .collect(),
        }
    }

    /// Takes what `other` tells in.
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
