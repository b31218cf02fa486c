//! The controller as a process: the wiring of `argosy-controller`.

use std::future::Ready;

use argosy_api::names;
use futures::future::{BoxFuture, try_join_all};
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    artifacts::watchdog::Watchdog,
    hub::{
        approval,
        args::{ApproverArgs, ControllerArgs, WebhookArgs},
        hosted_agents,
        nodes::{self, Nodes},
        objects, ttl,
        webhook::{self, Snapshots},
        workflows,
    },
    runtime::{
        admin::{self, Readiness},
        client,
        leader::{self, Election, Leadership, LeaseSettings, gate::Gate},
        metrics::{Metrics, Space},
        shutdown::{self, ends_only_on_signal},
    },
};

/// Runs until a signal. If any part ends by itself, the process ends.
pub async fn run(args: ControllerArgs) -> anyhow::Result<()> {
    let stop = shutdown::on_signal()?;
    let metrics = Metrics::default();
    let readiness = Readiness::of(parts(&args.webhook));
    let (election, leadership) = start_election(&args, &metrics, &readiness).await?;
    let gate = leadership.gate();
    let (wds, its) = connect(&args, &metrics, gate).await?;
    tracing::info!(wds = args.wds_name, "starting");
    let namespace = args.namespace.clone();
    let spaces = spaces(&args, (&wds, &its), &metrics);
    let mut host = host(&args, (&wds, &its), gate, &metrics).await?;
    let mut admission = webhook_settings(args.webhook, &namespace, &readiness, &leadership, &metrics);
    let nodes = Nodes::prepare(&args.nodes, &its, admission.as_mut())?;
    host.tunnels = nodes.as_ref().map(|nodes| nodes.tunnels().clone());
    let (expiring, approving) = (its.clone(), its.clone());
    let watchdog = Watchdog {
        wds: wds.clone(),
        its,
        namespace: args.common.artifact_namespace,
    };
    let (publisher, snapshots) = watch::channel(None);
    let showing = nodes::run(
        nodes,
        (wds.clone(), watchdog.its.clone()),
        namespace.clone(),
        snapshots.clone(),
        metrics.clone(),
        stop.clone(),
    );
    let leader_only = LeaderOnly {
        leadership,
        stop: stop.clone(),
    };
    let components = vec![
        leader_only.component("marks", webhook::guard_marks(wds.clone(), stop.clone())),
        leader_only.component(
            objects::PART,
            objects::run(spaces.clone(), readiness.clone(), stop.clone()),
        ),
        leader_only.for_workflows(spaces, &readiness, publisher),
        leader_only.component("expiry", ttl::run(expiring, metrics.clone(), stop.clone())),
        leader_only.component(
            "approver",
            approve(args.approver, approving, metrics.clone(), stop.clone()),
        ),
        leader_only.component("agents", hosted_agents::run(host, stop.clone())),
        component(
            webhook::PART,
            guard(admission, namespace, wds, snapshots, leader_only.clone()),
        ),
        leader_only.component("artifacts", check(watchdog, stop.clone())),
        leader_only.component(nodes::PART, showing),
    ];
    let parts = admin::Parts::new(readiness, metrics);
    let endpoints = admin::serve(args.common.admin_addr, parts, stop.clone());
    let work = election.hold(live(components, stop.clone()));
    ends_only_on_signal(Box::pin(work), endpoints, stop).await
}

/// Connects to WDS and ITS, which may be one API server.
async fn connect(args: &ControllerArgs, metrics: &Metrics, gate: &Gate) -> anyhow::Result<(Client, Client)> {
    let wds = metrics.requests(Space::Wds);
    let wds = client::connect_nearby(args.wds_kubeconfig.as_deref(), wds, gate).await?;
    let its = match &args.its_kubeconfig {
        Some(path) => client::connect_nearby(Some(path), metrics.requests(Space::Its), gate).await?,
        None => wds.clone(),
    };
    Ok((wds, its))
}

/// The spaces of WDS and ITS, and the settings of the loops on them.
fn spaces(args: &ControllerArgs, (wds, its): (&Client, &Client), metrics: &Metrics) -> workflows::Spaces {
    workflows::Spaces {
        wds: wds.clone(),
        its: its.clone(),
        wds_name: args.wds_name.clone(),
        is_guarded: args.webhook.is_wanted(),
        argo_namespace: args.common.artifact_namespace.clone(),
        dependency_linger: args.dependency_linger,
        request_lifetime: args.common.request_lifetime,
        metrics: metrics.clone(),
    }
}

/// The settings of the agents that this process hosts, without tunnels.
async fn host(
    args: &ControllerArgs,
    (wds, its): (&Client, &Client),
    gate: &Gate,
    metrics: &Metrics,
) -> anyhow::Result<hosted_agents::Host> {
    let kubeconfig = args.its_kubeconfig.as_deref().or(args.wds_kubeconfig.as_deref());
    Ok(hosted_agents::Host {
        local: wds.clone(),
        its: its.clone(),
        hub: client::address(kubeconfig).await?,
        namespace: args.namespace.clone(),
        trusts_secrets: args.trust_kubeconfig_secrets,
        artifact_namespace: args.common.artifact_namespace.clone(),
        lease_duration: args.common.lease_duration,
        request_lifetime: args.common.request_lifetime,
        conditions: args.common.manifest_work_conditions,
        metrics: metrics.clone(),
        gate: gate.clone(),
        tunnels: None,
    })
}

/// Returns the parts that must be ready before the leader is known: every replica serves the
/// webhook.
fn parts(webhook: &WebhookArgs) -> &'static [&'static str] {
    if webhook.is_wanted() {
        &[webhook::PART, workflows::PART]
    } else {
        &[]
    }
}

/// Makes this process a candidate. The Lease is written with a separate client, without the gate.
async fn start_election(
    args: &ControllerArgs,
    metrics: &Metrics,
    readiness: &Readiness,
) -> anyhow::Result<(Election, Leadership)> {
    let wds = metrics.requests(Space::Wds);
    let client = client::connect_nearby(args.wds_kubeconfig.as_deref(), wds, &Gate::open()).await?;
    let post = LeaseSettings {
        namespace: args.namespace.clone(),
        lease: names::controller_lease(&args.wds_name),
        manager: names::CONTROLLER,
        parts: &[workflows::PART, objects::PART],
        longest_turn: leader::LONGEST_TURN,
    };
    leader::start_election(&args.leader_elect, post, &client, metrics, readiness)
}

async fn check(watchdog: Watchdog, stop: CancellationToken) {
    stop.run_until_cancelled(Box::pin(watchdog.run())).await;
}

/// A part of the process, with its name.
type Component = (&'static str, BoxFuture<'static, ()>);

fn component(part: &'static str, life: impl Future<Output = ()> + Send + 'static) -> Component {
    (part, Box::pin(life))
}

/// Starts the parts that only the leader runs.
#[derive(Clone)]
struct LeaderOnly {
    leadership: Leadership,
    stop: CancellationToken,
}

impl LeaderOnly {
    /// Waits for leadership. Returns true if this process leads now, false if it must stop.
    async fn begins(&self) -> bool {
        self.stop
            .run_until_cancelled(self.leadership.begins())
            .await
            .is_some()
    }

    /// Creates a part that starts when the process leads.
    fn component(&self, part: &'static str, life: impl Future<Output = ()> + Send + 'static) -> Component {
        self.component_after(part, None::<Ready<()>>, life)
    }

    /// The part that decides about Workflows. Until the process leads, its webhook knows them, if it has
    /// one.
    fn for_workflows(
        &self,
        spaces: workflows::Spaces,
        readiness: &Readiness,
        publisher: webhook::Publisher,
    ) -> Component {
        let standby = spaces
            .is_guarded
            .then(|| workflows::run_standby(spaces.clone(), readiness.clone(), publisher.clone()));
        let leading = workflows::run(spaces, readiness.clone(), publisher, self.stop.clone());
        self.component_after(workflows::PART, standby, leading)
    }

    /// Like [`LeaderOnly::component`]; until then the part runs `standby`.
    fn component_after(
        &self,
        part: &'static str,
        standby: Option<impl Future<Output = ()> + Send + 'static>,
        life: impl Future<Output = ()> + Send + 'static,
    ) -> Component {
        let leader_only = self.clone();
        component(part, async move {
            let begins = match standby {
                Some(standby) => tokio::select! {
                    begins = leader_only.begins() => begins,
                    () = standby => return,
                },
                None => leader_only.begins().await,
            };
            if begins {
                life.await;
            }
        })
    }
}

/// Runs all parts until they have ended because of `stop`. The first part that ends by itself ends
/// the others.
async fn live(components: Vec<Component>, stop: CancellationToken) {
    let components = components.into_iter().map(async |(part, component)| {
        component.await;
        if stop.is_cancelled() {
            return Ok(());
        }
        tracing::error!(
            part,
            "a part of this process ended by itself, so the process ends"
        );
        Err(())
    });
    let _ = try_join_all(components).await;
}

fn webhook_settings(
    args: WebhookArgs,
    namespace: &str,
    readiness: &Readiness,
    leadership: &Leadership,
    metrics: &Metrics,
) -> Option<webhook::Settings> {
    Some(webhook::Settings {
        leadership: leadership.clone(),
        readiness: readiness.clone(),
        reviews: metrics.reviews(),
        address: args.webhook_addr,
        place: args.webhook_service.or(args.webhook_url)?,
        namespace: namespace.to_owned(),
        argo_account: args.argo_service_account,
        certificate_lifetime: args.webhook_certificate_lifetime,
        tunnel: None,
    })
}

/// Decides on the certificates of agents, if that is enabled.
async fn approve(args: ApproverArgs, its: Client, metrics: Metrics, stop: CancellationToken) {
    if args.approve_agents {
        approval::run(its, args.longest_agent_certificate, metrics, stop).await;
    } else {
        stop.cancelled().await;
    }
}

/// Runs the webhook, if it is configured; otherwise removes the webhook of an earlier controller.
async fn guard(
    settings: Option<webhook::Settings>,
    namespace: String,
    wds: Client,
    snapshots: Snapshots,
    leader_only: LeaderOnly,
) {
    if let Some(settings) = settings {
        return webhook::run(settings, wds, snapshots, leader_only.stop).await;
    }
    if !leader_only.begins().await {
        return;
    }
    let stop = leader_only.stop;
    tracing::warn!(
        "there is no admission webhook (--webhook-service, --webhook-url): only Workflows that are created \
         with spec.suspend: true are dispatched, and a hold that somebody removes is restored only after \
         the write"
    );
    let withdrawn = webhook::withdraw(&wds, &namespace);
    stop.run_until_cancelled(withdrawn).await;
    stop.cancelled().await;
}
