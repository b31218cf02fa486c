//! `argosy cluster remove`: deletes the rights of the agent, at once. Then the controller gives up
//! its runs and releases the objects in the mailbox, and finally the mailbox and the ManagedCluster
//! are deleted. Every step can be repeated.

use std::{
    io::{BufRead, IsTerminal, Write},
    process::ExitCode,
};

use anyhow::{anyhow, bail};
use argosy_api::{ManagedCluster, ManifestWork, issued::last_end, names};
use clap::Args;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch},
    core::PartialObjectMeta,
};
use serde_json::{Value, json};

use super::{
    COMMAND, Claimed, Clients, Patience, Spaces, counted, is_removed,
    mailbox::{self, Standing, api_of, cluster_roles, tunnel_binding},
    some_of, wait,
};
use crate::runtime::{
    lenient::Lenient,
    requests::{call, found, list, patching},
};

/// Arguments of `remove`.
#[derive(Debug, Args)]
pub struct RemoveArgs {
    /// Name of the cluster
    name: String,
    /// Remove the cluster even if Workflows on it have not ended
    #[arg(long)]
    force: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
    /// Namespace of the controller, with the kubeconfigs of clusters whose agent it hosts
    #[arg(long, short, default_value = "argosy")]
    namespace: String,
    #[command(flatten)]
    patience: Patience,
    #[command(flatten)]
    spaces: Spaces,
}

#[expect(clippy::print_stdout, reason = "standard output is what this command is for")]
pub(super) async fn run(args: &RemoveArgs) -> anyhow::Result<ExitCode> {
    let (name, clients) = (&args.name, args.spaces.connect().await?);
    if *name == args.namespace {
        bail!("{name} is the namespace of the controller, not the mailbox of a cluster");
    }
    let known = clients.known_cluster(name).await?;
    let is_left = is_left(&clients, name, known.as_ref()).await?;
    if is_left && !known.as_ref().is_some_and(is_removed) {
        if !may_be_removed(args, &clients).await? {
            return Ok(ExitCode::FAILURE);
        }
        match &known {
            Some(cluster) => mark(&clients, cluster).await?,
            None => mailbox::apply(&clients.its, &removed(name)).await?,
        }
    }
    if is_left {
        tell_of(name, known.as_ref());
    }
    cut_off(&clients, args).await?;
    println!("{name}: its agent has no permissions any more");
    let look = async || waits_for(&clients, name).await;
    let is_released = !is_left || wait(&args.patience, look).await?;
    if !is_released {
        println!(
            "{name}: the removal is not complete; check that the controller runs, and run this command \
            again"
        );
        return Ok(ExitCode::FAILURE);
    }
    if !delete_mailbox(&clients, args).await? {
        return Ok(ExitCode::FAILURE);
    }
    delete(
        api_of(
            &clients.its,
            "cluster.open-cluster-management.io/v1",
            "ManagedCluster",
            "",
        ),
        name,
    )
    .await?;
    println!("{name}: removed from the fleet");
    Ok(ExitCode::SUCCESS)
}

/// Returns true if the controller still has to give up or release something of the cluster. If only
/// the ManagedCluster was deleted, Workflows still wait for the cluster; its mailbox may exist or
/// not.
async fn is_left(clients: &Clients, name: &str, known: Option<&ManagedCluster>) -> anyhow::Result<bool> {
    if known.is_some() {
        return Ok(true);
    }
    match mailbox::standing(&clients.its, name).await? {
        Standing::Mailbox => Ok(true),
        Standing::Foreign => bail!(
            "there is no ManagedCluster {name}, and namespace {name} is not labeled as a mailbox, so it does \
            not belong to Argosy"
        ),
        Standing::Missing => {
            let claimed = clients.unfinished(name).await?;
            Ok(claimed.iter().any(|one| !one.claim.is_given_up))
        }
    }
}

/// Prints hints for the person who removes a cluster.
#[expect(clippy::print_stdout, reason = "standard output is what this command is for")]
fn tell_of(name: &str, known: Option<&ManagedCluster>) {
    let Some(cluster) = known else {
        println!(
            "{name}: its ManagedCluster was deleted already, so the end of its agent's certificate is \
             unknown; do not reuse the name before the controller's --longest-agent-certificate has passed"
        );
        return;
    };
    if let Some(end) = last_end(cluster) {
        println!("{name}: a certificate of its agent is valid until {end}; do not reuse the name before");
    }
    if let Some(release) = cluster.annotations().get(HELM_RELEASE) {
        println!(
            "{name}: was created by Helm release {release}; remove it from the value clusters there, or the \
            next upgrade registers it again"
        );
    }
}

/// Helm's annotation with the name of the release.
const HELM_RELEASE: &str = "meta.helm.sh/release-name";

/// Builds the ManagedCluster of a cluster in removal, for the case that only the ManagedCluster was
/// deleted.
fn removed(name: &str) -> Value {
    json!({
        "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
        "metadata": { "name": name, "annotations": { names::REMOVED_ANNOTATION: Timestamp::now().to_string() } },
        "spec": { "hubAcceptsClient": false },
    })
}

/// Asks for confirmation, unless that is disabled.
#[expect(clippy::print_stderr, reason = "this is a command, not a service")]
async fn may_be_removed(args: &RemoveArgs, clients: &Clients) -> anyhow::Result<bool> {
    let name = &args.name;
    let left = clients.unfinished(name).await?;
    if !left.is_empty() && !args.force {
        bail!(
            "{} on {name} not ended: {}; drain the cluster, or give them up with --force",
            counted(left.len(), "Workflow"),
            some_of(&left)
        );
    }
    if args.yes {
        return Ok(true);
    }
    if !std::io::stdin().is_terminal() {
        bail!("standard input is not a terminal, so the command cannot ask for confirmation; use --yes");
    }
    eprint!(
        "This removes {name} from the fleet and gives up {} there. Type the name of the cluster: ",
        counted(left.len(), "Workflow")
    );
    std::io::stderr().flush()?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim() == name)
}

/// Marks the cluster as removed. From now on nothing is sent there, no certificate is issued, and
/// no recorded one can be renewed.
async fn mark(clients: &Clients, cluster: &ManagedCluster) -> anyhow::Result<()> {
    let name = cluster.name_any();
    let patch = json!({
        "metadata": { "annotations": {
            names::REMOVED_ANNOTATION: Timestamp::now().to_string(),
            names::CERTIFICATES_ANNOTATION: Value::Null,
            names::ROTATE_CERTIFICATE: Value::Null,
        } },
        "spec": { "hubAcceptsClient": false },
    });
    let written = call(
        clients
            .clusters()
            .patch(&name, &patching(COMMAND), &Patch::Merge(&patch)),
    )
    .await;
    written
        .map(|_| ())
        .map_err(|failure| anyhow!("cannot write ManagedCluster {name}: {failure}"))
}

/// Deletes all credentials and rights of the cluster's agent, and its Lease, so that nothing waits
/// for it to expire.
async fn cut_off(clients: &Clients, args: &RemoveArgs) -> anyhow::Result<()> {
    let (name, its) = (args.name.as_str(), &clients.its);
    let (rbac, core) = ("rbac.authorization.k8s.io/v1", "v1");
    let (agents, bootstraps) = cluster_roles(name);
    for role in [&agents, &bootstraps] {
        delete(api_of(its, rbac, "ClusterRoleBinding", ""), role).await?;
        delete(api_of(its, rbac, "ClusterRole", ""), role).await?;
    }
    // The second account is that of an agent that the controller hosts.
    for account in [names::AGENT_ACCOUNT, names::CONTROLLER] {
        delete(api_of(its, rbac, "RoleBinding", name), account).await?;
        delete(api_of(its, rbac, "Role", name), account).await?;
    }
    delete(
        api_of(its, rbac, "RoleBinding", &args.namespace),
        &tunnel_binding(name),
    )
    .await?;
    for account in [names::BOOTSTRAP_ACCOUNT, names::AGENT_ACCOUNT] {
        delete(api_of(its, core, "ServiceAccount", name), account).await?;
    }
    delete(api_of(its, core, "Secret", name), names::AGENT_TOKEN_SECRET).await?;
    let secrets: Api<Lenient<PartialObjectMeta<Secret>>> =
        Api::namespaced(clients.wds.clone(), &args.namespace);
    let hosted = ListParams::default().labels(&format!("{}={name}", names::WEC_KUBECONFIG_LABEL));
    let hosted = found(list(secrets.list(&hosted)).await);
    let hosted = hosted.map_err(|failure| anyhow!("cannot list Secrets in {}: {failure}", args.namespace))?;
    for secret in hosted.into_iter().flatten() {
        delete(
            api_of(&clients.wds, core, "Secret", &args.namespace),
            &secret.name_any(),
        )
        .await?;
    }
    delete(
        api_of(its, "coordination.k8s.io/v1", "Lease", name),
        names::CLUSTER_LEASE,
    )
    .await
}

async fn delete(api: Api<kube::core::DynamicObject>, name: &str) -> anyhow::Result<()> {
    found(call(api.delete(name, &DeleteParams::background())).await)
        .map(|_| ())
        .map_err(|failure| anyhow!("cannot delete {name}: {failure}"))
}

/// Describes the remaining work of the controller.
async fn waits_for(clients: &Clients, name: &str) -> anyhow::Result<Option<String>> {
    let runs = clients.unfinished(name).await?;
    let runs: Vec<Claimed> = runs.into_iter().filter(|one| !one.claim.is_given_up).collect();
    if !runs.is_empty() {
        return Ok(Some(format!(
            "{} not given up or started elsewhere yet: {}",
            counted(runs.len(), "Workflow"),
            some_of(&runs)
        )));
    }
    let works = ours(clients, name).await?;
    Ok((works > 0).then(|| {
        format!(
            "{} in the mailbox not released yet",
            counted(works, "ManifestWork")
        )
    }))
}

/// Returns the number of ManifestWorks of control clusters in the mailbox.
async fn ours(clients: &Clients, name: &str) -> anyhow::Result<usize> {
    let works: Api<Lenient<PartialObjectMeta<ManifestWork>>> = Api::namespaced(clients.its.clone(), name);
    let listed = list(works.list(&ListParams::default())).await;
    let listed = listed.map_err(|failure| anyhow!("cannot list ManifestWorks of {name}: {failure}"))?;
    let is_ours = |labels: &std::collections::BTreeMap<String, String>| {
        [names::ORIGIN_UID_LABEL, names::OBJECT_UID_LABEL]
            .iter()
            .any(|label| labels.contains_key(*label))
    };
    Ok(listed.iter().filter(|work| is_ours(work.labels())).count())
}

/// Deletes the namespace, if it is a mailbox. Returns false if it still exists after the timeout.
#[expect(clippy::print_stdout, reason = "standard output is what this command is for")]
async fn delete_mailbox(clients: &Clients, args: &RemoveArgs) -> anyhow::Result<bool> {
    let name = args.name.as_str();
    match mailbox::standing(&clients.its, name).await? {
        Standing::Missing => return Ok(true),
        Standing::Foreign => {
            println!("{name}: its namespace is not labeled as a mailbox, so it is not deleted");
            return Ok(true);
        }
        Standing::Mailbox => {}
    }
    delete(api_of(&clients.its, "v1", "Namespace", ""), name).await?;
    let look = async || {
        let is_gone = mailbox::standing(&clients.its, name).await? == Standing::Missing;
        Ok((!is_gone).then(|| format!("namespace {name} not deleted yet")))
    };
    if wait(&args.patience, look).await? {
        return Ok(true);
    }
    println!(
        "{name}: its namespace is not deleted yet; an object in it has a finalizer that is not from \
        Argosy"
    );
    Ok(false)
}
