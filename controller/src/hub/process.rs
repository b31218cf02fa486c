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
    let wds = metrics.requests(Space::Wds);
    let wds = client::connect_nearby(args.wds_kubeconfig.as_deref(), wds, gate).await?;
    let its = match &args.its_kubeconfig {
        Some(path) => client::connect_nearby(Some(path), metrics.requests(Space::Its), gate).await?,
        None => wds.clone(),
    };
    tracing::info!(wds = args.wds_name, "starting");
    let namespace = args.namespace.clone();
    let mut admission = webhook_settings(args.webhook, &namespace, &readiness, &leadership, &metrics);
    let nodes = Nodes::prepare(&args.nodes, &its, admission.as_mut())?;
    let spaces = workflows::Spaces {
        wds: wds.clone(),
        its: its.clone(),
        wds_name: args.wds_name,
        is_guarded: admission.is_some(),
        argo_namespace: args.common.artifact_namespace.clone(),
        request_lifetime: args.common.request_lifetime,
        metrics: metrics.clone(),
    };
    let host = hosted_agents::Host {
        local: wds.clone(),
        its: its.clone(),
        hub: client::address(args.its_kubeconfig.as_deref().or(args.wds_kubeconfig.as_deref())).await?,
        namespace: args.namespace,
        trusts_secrets: args.trust_kubeconfig_secrets,
        artifact_namespace: args.common.artifact_namespace.clone(),
        lease_duration: args.common.lease_duration,
        request_lifetime: args.common.request_lifetime,
        conditions: args.common.manifest_work_conditions,
        metrics: metrics.clone(),
        gate: gate.clone(),
        tunnels: nodes.as_ref().map(|nodes| nodes.tunnels().clone()),
    };
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
    let standby = admission.is_some().then(|| {
        let (spaces, publisher) = (spaces.clone(), publisher.clone());
        workflows::run_standby(spaces, readiness.clone(), publisher)
    });
    let duty = LeaderOnly {
        leadership,
        stop: stop.clone(),
    };
    let limbs = vec![
        duty.limb("marks", webhook::guard_marks(wds.clone(), stop.clone())),
        duty.limb(
            objects::PART,
            objects::run(spaces.clone(), readiness.clone(), stop.clone()),
        ),
        duty.limb_after(
            workflows::PART,
            standby,
            workflows::run(spaces, readiness.clone(), publisher, stop.clone()),
        ),
        duty.limb("expiry", ttl::run(expiring, metrics.clone(), stop.clone())),
        duty.limb(
            "approver",
            approve(args.approver, approving, metrics.clone(), stop.clone()),
        ),
        duty.limb("agents", hosted_agents::run(host, stop.clone())),
        limb(
            webhook::PART,
            guard(admission, namespace, wds, snapshots, duty.clone()),
        ),
        duty.limb("artifacts", check(watchdog, stop.clone())),
        duty.limb(nodes::PART, showing),
    ];
    let parts = admin::Parts::new(readiness, metrics);
    let endpoints = admin::serve(args.common.admin_addr, parts, stop.clone());
    let work = election.hold(live(limbs, stop.clone()));
    ends_only_on_signal(Box::pin(work), endpoints, stop).await
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
    };
    leader::start_election(&args.leader_elect, post, &client, metrics, readiness)
}

async fn check(watchdog: Watchdog, stop: CancellationToken) {
    stop.run_until_cancelled(Box::pin(watchdog.run())).await;
}

/// A part of the process, with its name.
type Component = (&'static str, BoxFuture<'static, ()>);

fn limb(part: &'static str, life: impl Future<Output = ()> + Send + 'static) -> Component {
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
    fn limb(&self, part: &'static str, life: impl Future<Output = ()> + Send + 'static) -> Component {
        self.limb_after(part, None::<Ready<()>>, life)
    }

    /// Like [`LeaderOnly::limb`]; until then the part runs `standby`.
    fn limb_after(
        &self,
        part: &'static str,
        standby: Option<impl Future<Output = ()> + Send + 'static>,
        life: impl Future<Output = ()> + Send + 'static,
    ) -> Component {
        let duty = self.clone();
        limb(part, async move {
            let begins = match standby {
                Some(standby) => tokio::select! {
                    begins = duty.begins() => begins,
                    () = standby => return,
                },
                None => duty.begins().await,
            };
            if begins {
                life.await;
            }
        })
    }
}

/// Runs all parts until they have ended because of `stop`. The first part that ends by itself ends
/// the others.
async fn live(limbs: Vec<Component>, stop: CancellationToken) {
    let limbs = limbs.into_iter().map(async |(part, limb)| {
        limb.await;
        if stop.is_cancelled() {
            return Ok(());
        }
        tracing::error!(
            part,
            "a part of this process ended by itself, so the process ends"
        );
        Err(())
    });
    let _ = try_join_all(limbs).await;
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
    duty: LeaderOnly,
) {
    if let Some(settings) = settings {
        return webhook::run(settings, wds, snapshots, duty.stop).await;
    }
    if !duty.begins().await {
        return;
    }
    let stop = duty.stop;
    tracing::warn!(
        "there is no admission webhook (--webhook-service, --webhook-url): only Workflows that are created \
         with spec.suspend: true are dispatched, and a hold that somebody removes is restored only after \
         the write"
    );
    let withdrawn = webhook::withdraw(&wds, &namespace);
    stop.run_until_cancelled(withdrawn).await;
    stop.cancelled().await;
}
