//! Shadow pods over the model's API servers. Their loop lives in the controller's process, so
//! everything that a script does to the controller happens to it, too.
//!
//! Promised: none outlives its Workflow, none is created for a policy that shows none, and a short
//! step costs no write.
//!
//! Not here: logs, and the limits on the number of shadow pods (the table tests of the index).

use std::{collections::BTreeSet, sync::Arc};

use argosy_api::{Workflow, names, workflow};
use argosy_core::{
    Change, Failure,
    hub::shadow_pods::{
        ObservedShadow, ObservedWatched, ShadowPodAction, ShadowPodIndex, ShadowPodInput, ShadowPodKey, Shown,
    },
};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::{
    actor::{
        Fault::{Answer, Late, None as Works},
        Process,
    },
    api_server::{ApiServer, Kind, text},
    ledger::Ledger,
    run,
    script::{Space, Step, UserStep},
    servers::{CLUSTERS, Servers, annotation, label},
    users::PLAIN,
    watch::{Watch, any, apply, found, json_of, typed},
    world::World,
};

/// The pods that each policy of the model shows; the others say nothing.
pub(crate) const POLICIES: [(&str, &str); 2] = [("cluster1", "all"), ("cluster2", "off")];

/// Time that a step must run before it is shown without being asked for.
const LONG: SignedDuration = SignedDuration::from_secs(10);

/// True if the Workflow has the labels that the watch selects.
fn is_watched(object: &Value) -> bool {
    let cluster = label(object, names::CLUSTER_LABEL);
    !cluster.is_empty()
        && cluster != names::EVERY_CLUSTER
        && !workflow::is_final(label(object, names::ARGO_PHASE_LABEL))
}

/// A watch with labels deletes an object that has lost them.
fn watched(change: Change<Value>) -> Change<ObservedWatched> {
    let change = match change {
        Change::Apply(object) if !is_watched(&object) => Change::Delete(object),
        Change::Reset(live) => Change::Reset(live.into_iter().filter(is_watched).collect()),
        change => change,
    };
    typed::<Workflow>(change).map(ObservedWatched::from)
}

impl Process for ShadowPodIndex {
    fn start(_: usize, _: &Servers) -> Self {
        Self::new(Shown::Long)
    }

    fn watches(_: usize) -> Vec<Watch<Self>> {
        vec![
            Watch::new(Kind::Workflow, Space::Wds, any, |change| {
                ShadowPodInput::Workflow(watched(change))
            }),
            Watch::new(Kind::Pod, Space::Wds, any, |change| {
                ShadowPodInput::Pod(typed::<Pod>(change).map(ObservedShadow::from))
            }),
            Watch::new(Kind::Node, Space::Wds, any, |change| {
                ShadowPodInput::Node(typed(change))
            }),
        ]
    }

    fn space(_: &ShadowPodAction) -> Space {
        Space::Wds
    }

    fn execute(
        key: &ShadowPodKey,
        action: &ShadowPodAction,
        _: usize,
        servers: &mut Servers,
    ) -> Result<ShadowPodInput, Failure> {
        let Servers { wds, ledger, now, .. } = servers;
        let written = |pod: Value| ShadowPodInput::Pod(apply::<Pod>(pod).map(ObservedShadow::from));
        let key = match (key, action) {
            (_, ShadowPodAction::Read { workflow, ids, .. }) => {
                let there = found(wds.get(Kind::Workflow, &workflow.namespace, &workflow.name))?;
                let seen = there.map(|there| {
                    let there = serde_json::from_value::<Workflow>(there).expect("a Workflow decodes");
                    Box::new(ObservedWatched::read(there, ids))
                });
                return Ok(ShadowPodInput::Read(workflow.clone(), seen));
            }
            (ShadowPodKey::Pod(key), _) => key,
            (ShadowPodKey::Workflow(key), _) => panic!("{action} is no action for Workflow {key}"),
        };
        let gone = || ShadowPodInput::Gone(key.clone());
        match action {
            ShadowPodAction::Create(pod) => {
                let pod = json_of(pod);
                ledger.check_creation(&pod, wds, *now);
                Ok(written(wds.create(Kind::Pod, pod)?))
            }
            ShadowPodAction::Run(_, patch) | ShadowPodAction::End(_, patch) => {
                let patched = found(wds.merge(Kind::Pod, &key.namespace, &key.name, patch))?;
                Ok(patched.map_or_else(gone, written))
            }
            ShadowPodAction::Delete(named) => {
                found(wds.delete(Kind::Pod, &key.namespace, &key.name, Some(&named.uid)))?;
                Ok(gone())
            }
            ShadowPodAction::Read { .. } => unreachable!("it was read above"),
        }
    }
}

/// The virtual Node of a cluster.
pub(crate) fn node(cluster: &str) -> Value {
    json!({ "metadata": { "name": names::virtual_node(cluster), "labels": { names::VIRTUAL_NODE_LABEL: "true" } } })
}

impl World {
    /// Does to the loop of shadow pods what `step` does to the controller.
    pub(crate) fn step_shadows(&mut self, step: &Step) {
        let is_controller = |who: usize| who.is_multiple_of(2 * CLUSTERS.len() + 1);
        let Self { shadows, servers, .. } = self;
        match *step {
            Step::Deliver(who, watch) if is_controller(who) => {
                shadows.deliver(watch, servers);
            }
            Step::Flood(who) if is_controller(who) => shadows.flood(servers),
            Step::Relist(who, watch) if is_controller(who) => shadows.relist(watch, servers),
            Step::Decide(who, choice) if is_controller(who) => {
                shadows.decide(choice, servers);
            }
            Step::Execute(who, choice, fault) if is_controller(who) => {
                shadows.execute(choice, fault, servers);
            }
            Step::Land(who, choice) if is_controller(who) => shadows.land(choice, servers),
            Step::Settle(who, choice) if is_controller(who) => {
                shadows.settle(choice, servers);
            }
            Step::Retry(who) if is_controller(who) => {
                shadows.retry();
            }
            Step::Restart(who) if is_controller(who) => self.restart_shadows(),
            Step::CatchUp(who, fault) if is_controller(who) => {
                shadows.catch_up(fault, servers);
            }
            Step::Lag(who, watch) if is_controller(who) => shadows.lag(watch),
            Step::Cut(who, space) if is_controller(who) => shadows.cut(space),
            Step::Skew(who, minutes) if is_controller(who) => {
                shadows.skew = SignedDuration::from_mins(i64::from(minutes));
                servers.ledger.most_ahead = servers.ledger.most_ahead.max(shadows.skew);
                self.restart_shadows();
            }
            _ => {}
        }
    }

    /// Restarts the loop, which knows no policies until the controller publishes them again.
    pub(crate) fn restart_shadows(&mut self) {
        self.shadows.restart(&self.servers);
        self.told = None;
    }

    /// Passes on the policies that the controller has published.
    pub(crate) fn tell_shadows(&mut self) {
        let newest = &self.servers.admission;
        if self.told.as_ref().is_none_or(|told| !Arc::ptr_eq(told, newest)) {
            self.told = Some(Arc::clone(newest));
            let policies = ShadowPodInput::Policies(Arc::clone(newest));
            self.shadows.learn(policies, &self.servers);
        }
    }

    pub(crate) fn shadow_pods(&self) -> Vec<&Value> {
        self.servers.wds.list(Kind::Pod).collect()
    }
}

impl Ledger {
    /// Records that a step of a run runs.
    pub(crate) fn note_running(&mut self, object: &Value, node: &str, now: jiff::Timestamp) {
        let origin = label(object, names::ORIGIN_UID_LABEL).to_owned();
        self.running_since.entry((origin, node.to_owned())).or_insert(now);
    }

    /// Checks a shadow pod that is created now.
    fn check_creation(&self, pod: &Value, wds: &ApiServer, now: jiff::Timestamp) {
        let origin = label(pod, names::SHADOW_OF_LABEL);
        let versions = wds
            .log
            .iter()
            .filter(|event| event.kind == Kind::Workflow && text(&event.object, "/metadata/uid") == origin);
        let policies: BTreeSet<&str> = versions
            .map(|event| label(&event.object, names::KUBESTELLAR_CLUSTER_LABEL))
            .collect();
        let only = |shown: &str| {
            let is_of = |policy: &&str| POLICIES.contains(&(policy, shown));
            policies.iter().all(is_of)
        };
        assert!(
            self.had_policy_changed || self.was_restored || !only("off"),
            "its policy shows no pods: {pod:#}"
        );
        let shows_all = policies.iter().any(|policy| POLICIES.contains(&(policy, "all")));
        let step = (
            origin.to_owned(),
            annotation(pod, names::ARGO_NODE_ID_ANNOTATION).to_owned(),
        );
        let Some(begin) = self.running_since.get(&step) else {
            return;
        };
        assert!(
            shows_all || now + self.most_ahead >= *begin + LONG,
            "a short step is shown, which began at {begin}: {pod:#}"
        );
    }
}

/// No shadow pod outlives its Workflow.
pub(crate) fn check_at_rest(world: &World) {
    let workflows = world.workflows();
    for pod in world.shadow_pods() {
        let origin = label(pod, names::SHADOW_OF_LABEL);
        assert!(
            workflows.iter().any(|one| text(one, "/metadata/uid") == origin),
            "it outlives its Workflow: {pod:#}"
        );
    }
}

/// A run on `cluster`, for a Workflow with this cluster label, whose first step has begun.
fn running(policy: &'static str, cluster: usize) -> Vec<Step> {
    vec![
        Step::User(0, UserStep::Create(policy, PLAIN)),
        Step::CatchUp(0, Works),
        Step::Beat(cluster + 1),
        Step::CatchUp(cluster + 1, Works),
        Step::Argo(cluster, 0),
        Step::CatchUp(cluster + 1, Works),
        Step::CatchUp(0, Works),
    ]
}

fn world(script: &[Step]) -> World {
    let mut world = World::new(true);
    for step in script {
        world.step(step);
    }
    world
}

#[test]
fn a_step_is_shown_at_once_after_ten_seconds_or_never_as_its_policy_says() {
    for (policy, cluster, at_once, later) in [("cluster1", 0, 1, 1), ("best", 0, 0, 1), ("cluster2", 1, 0, 0)]
    {
        let mut world = world(&running(policy, cluster));
        let shown = world.shadow_pods().len();
        assert_eq!(shown, at_once, "{policy}, at once");
        world.step(&Step::Wait(1));
        world.step(&Step::CatchUp(0, Works));
        let pods = world.shadow_pods();
        assert_eq!(pods.len(), later, "{policy}, after a minute");
        for pod in pods {
            assert_eq!(text(pod, "/status/phase"), "Running", "{pod:#}");
        }
    }
}

#[test]
fn a_shadow_pod_goes_with_its_workflow_whatever_is_lost_late_or_restarted() {
    for end in [
        vec![
            Step::User(0, UserStep::Delete),
            Step::CatchUp(1, Works),
            Step::CatchUp(0, Answer),
        ],
        vec![
            Step::Restart(0),
            Step::User(0, UserStep::Delete),
            Step::CatchUp(1, Works),
        ],
        vec![
            Step::User(0, UserStep::Delete),
            Step::CatchUp(1, Works),
            Step::Deliver(0, 0),
            Step::Restart(0),
        ],
        vec![
            Step::CatchUp(0, Late),
            Step::User(0, UserStep::Delete),
            Step::Restart(0),
        ],
    ] {
        let mut script = running("cluster1", 0);
        script.extend(end);
        run(true, &script);
    }
    // Its creation lands after its Workflow is gone.
    let mut script = running("cluster1", 0);
    script.pop();
    script.extend([
        Step::CatchUp(0, Late),
        Step::User(0, UserStep::Delete),
        Step::CatchUp(1, Works),
        Step::Restart(0),
    ]);
    run(true, &script);
}
