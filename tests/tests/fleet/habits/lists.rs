//! Listing and deleting, as users type it: `kubectl get`, `argo list` with each of its filters,
//! `argo get` and `argo delete` of dispatched runs.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use argosy_api::{Workflow, names};
use argosy_tests::fleet::{
    CONTROL, Cluster, Fleet, GATE, History, LIMIT, PULL, PUSH, gated, one_step, waits_at,
};
use kube::ResourceExt as _;
use serde_json::Value;

/// The label by which these tests find only their own runs.
const MARK: &str = "fleet-test";

/// The runs that a cluster's test lists.
struct Listed<'a> {
    control: &'a Cluster,
    cluster: &'a str,
    /// Label selector for these runs.
    selector: String,
    /// Name of the run that waits at its gate.
    waiting: String,
    /// Name of the run that has ended.
    ended: String,
}

impl<'a> Listed<'a> {
    async fn new(control: &'a Cluster, cluster: &'a str) -> Result<Self> {
        let mark = format!("lists-{cluster}-{}", std::process::id());
        let marked = |mut workflow: Workflow| {
            workflow.labels_mut().insert(MARK.to_owned(), mark.clone());
            workflow
        };
        let waiting = marked(gated(cluster, "list-waiting"));
        let waiting = control.create_workflow(&waiting).await?.name_any();
        let ended = marked(one_step(cluster, "list-ended", "echo listed"));
        let ended = control.create_workflow(&ended).await?.name_any();
        control
            .workflow_when(&waiting, LIMIT, "waits at its gate", |run| waits_at(run, GATE))
            .await?;
        assert_eq!(History::follow(control, &ended, LIMIT).await?.end(), "Succeeded");
        Ok(Self {
            control,
            cluster,
            selector: format!("{MARK}={mark}"),
            waiting,
            ended,
        })
    }

    /// Names of these runs that `argo list` shows with this filter.
    async fn filtered(&self, filter: &[&str]) -> Result<BTreeSet<String>> {
        let list = ["list", "-o", "name", "-l", &self.selector];
        let names = self.control.argo(&[&list[..], filter].concat()).await?;
        let names = names.lines().filter(|line| *line != "No workflows found");
        Ok(names.map(ToOwned::to_owned).collect())
    }

    async fn assert_filters(&self) -> Result<()> {
        let Self { waiting, ended, .. } = self;
        let by_name = format!("metadata.name={ended}");
        let (all, none): (_, [&String; 0]) = ([waiting, ended], []);
        let filters: [(&[&str], &[&String]); 11] = [
            (&[], &all),
            (&["--status", "Running"], &[waiting]),
            (&["--status", "Succeeded"], &[ended]),
            (&["--status", "Running,Succeeded"], &all),
            (&["--prefix", "list-waiting-"], &[waiting]),
            (&["--field-selector", &by_name], &[ended]),
            (&["--since", "1h"], &all),
            (&["--older", "1h"], &none),
            (&["--resubmitted"], &none),
            // By the label of the hold, as the README describes.
            (&["--completed"], &all),
            (&["--running"], &none),
        ];
        for (filter, expected) in filters {
            let expected: BTreeSet<String> = expected.iter().map(|name| (*name).clone()).collect();
            assert_eq!(self.filtered(filter).await?, expected, "{filter:?}");
        }
        Ok(())
    }

    async fn assert_tables(&self) -> Result<()> {
        let Self {
            control,
            cluster,
            selector,
            ..
        } = self;
        let columns = [
            "get",
            "wf",
            "-l",
            selector,
            "-L",
            names::CLUSTER_LABEL,
            "--no-headers",
        ];
        let by_kubectl = control.kubectl(&columns).await?;
        let by_argo = control.argo(&["list", "-l", selector, "--no-headers"]).await?;
        for (name, phase) in [(&self.waiting, "Running"), (&self.ended, "Succeeded")] {
            for table in [&by_kubectl, &by_argo] {
                let row = row(table, name)?;
                assert_eq!(row.get(1), Some(&phase), "{table}");
                assert!(!table.contains("Suspended"), "{table}");
            }
            assert_eq!(row(&by_kubectl, name)?.last(), Some(cluster), "{by_kubectl}");
        }
        let phase = format!("{selector},{}=Running", names::ARGO_PHASE_LABEL);
        let running = control
            .kubectl(&["get", "wf", "-l", &phase, "-o", "name"])
            .await?;
        assert_eq!(running, format!("workflow.argoproj.io/{}", self.waiting));
        let place = format!("{selector},{}={cluster}", names::CLUSTER_LABEL);
        let placed = control
            .kubectl(&["get", "wf", "-l", &place, "-o", "name"])
            .await?;
        assert_eq!(placed.lines().count(), 2, "{placed}");
        Ok(())
    }

    async fn assert_shown(&self) -> Result<()> {
        let Self { waiting, ended, .. } = self;
        let shown = self.control.argo(&["get", waiting]).await?;
        assert_eq!(field(&shown, "Status"), Some("Running (Suspended)"), "{shown}");
        assert!(shown.lines().any(|line| line.contains(GATE)), "{shown}");
        let shown = self.control.argo(&["get", ended]).await?;
        assert_eq!(field(&shown, "Status"), Some("Succeeded"), "{shown}");
        assert_eq!(field(&shown, "Progress"), Some("1/1"), "{shown}");
        assert!(field(&shown, "Duration").is_some(), "{shown}");
        let shown: Value = serde_json::from_str(&self.control.argo(&["get", ended, "-o", "json"]).await?)?;
        assert_eq!(shown["status"]["phase"], "Succeeded");
        Ok(())
    }

    /// Resubmits the ended run, and deletes all runs by their label.
    async fn assert_deleted(&self, wec: &Cluster) -> Result<()> {
        let Self { control, ended, .. } = self;
        let again = control.argo(&["resubmit", ended, "-o", "name"]).await?;
        let resubmitted = self.filtered(&["--resubmitted"]).await?;
        assert_eq!(resubmitted, BTreeSet::from([again.clone()]));
        assert_eq!(History::follow(control, &again, LIMIT).await?.end(), "Succeeded");
        let told = control.argo(&["delete", "-l", &self.selector]).await?;
        for name in [&self.waiting, ended, &again] {
            let line = format!("Workflow '{name}' deleted");
            assert!(told.lines().any(|told| told == line), "{told}");
            control.gone(name).await?;
            wec.gone(name).await?;
        }
        assert_eq!(self.filtered(&[]).await?, BTreeSet::new());
        Ok(())
    }
}

/// The words of the table row of this Workflow.
fn row<'a>(table: &'a str, name: &str) -> Result<Vec<&'a str>> {
    let mut rows = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.find(|row| row.first() == Some(&name))
        .with_context(|| format!("{name} is not in {table}"))
}

/// The value of a field in the output of `argo get`.
fn field<'a>(shown: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = shown.lines().filter_map(|line| line.split_once(':'));
    fields.find_map(|(field, value)| (field == name).then(|| value.trim()))
}

async fn assert_lists_tell(cluster: &str) -> Result<()> {
    let fleet = Fleet::using(&[CONTROL, cluster]).await?;
    let listed = Listed::new(fleet.control()?, cluster).await?;
    tokio::try_join!(
        listed.assert_filters(),
        listed.assert_tables(),
        listed.assert_shown()
    )?;
    listed.assert_deleted(fleet.cluster(cluster)?).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn lists_with_every_filter_tell_of_runs_on_the_cluster_that_pulls() -> Result<()> {
    assert_lists_tell(PULL).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn lists_with_every_filter_tell_of_runs_on_the_cluster_that_is_pushed_to() -> Result<()> {
    assert_lists_tell(PUSH).await
}
