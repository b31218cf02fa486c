//! The clusters of Workflows that are not created: `argosy why -f FILE --count NUMBER`.
//!
//! The choice is the one of the controller, with a reservation for each Workflow, as if they were
//! created at the same time. Not here: the explanation of one Workflow ([`super::explain`]).

use std::{collections::BTreeMap, sync::Arc};

use argosy_api::{BindingPolicy, ManagedCluster, Workflow, names};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{CompiledPolicy, Referred, Unfinished, cluster_answers, loads, place, present};
pub use crate::model::demand::Demand;
use crate::{
    ClusterName,
    hub::workflows::will_be_claimed,
    model::{amounts::Amounts, claim::Needs},
    policy::{Candidate, Loads, ObjectAttributes, best_cluster::best},
};

/// The clusters of a number of equal Workflows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Distribution {
    /// The resources that each of them asks for, on average over its levels, as in
    /// `cpu=2,memory=4Gi`.
    pub asks: String,
    /// Number of Workflows by the name of the cluster; `every-cluster` stands for each one that
    /// matches.
    pub clusters: BTreeMap<String, u64>,
    /// Number of Workflows that are not sent.
    pub not_sent: u64,
    /// The load of each of these clusters afterwards.
    pub loads: BTreeMap<String, String>,
}

/// The specification that decides, as if the webhook held the Workflow: it is suspended.
pub fn held(mut run: Workflow) -> Workflow {
    if let Some(spec) = run.spec.as_object_mut() {
        spec.insert("suspend".to_owned(), true.into());
    }
    run
}

/// Places `count` Workflows such as `run`, one after the other. `referred` has the templates that they
/// refer to.
pub fn distribute(
    subject: ObjectAttributes<'_>,
    run: &Workflow,
    referred: &Referred,
    policies: &[BindingPolicy],
    clusters: &[ManagedCluster],
    unfinished: Option<&Unfinished>,
    count: u64,
) -> Distribution {
    let policies: Vec<CompiledPolicy> = policies.iter().map(CompiledPolicy::new).collect();
    let present = present(subject, clusters);
    let selecting: Vec<&CompiledPolicy> = policies.iter().collect();
    let (placement, fleet) = place(
        subject,
        &policies,
        &present,
        &cluster_answers(&present, &selecting),
    );
    let demand = Demand::of_workflow(run, referred);
    let asked = Needs::reserved(Needs::of(&demand).as_ref());
    let mut loads = loads(&present, unfinished);
    let mut distribution = Distribution {
        asks: asked.to_string(),
        ..Distribution::default()
    };
    let candidate = Candidate::new(&demand, None);
    for number in 0..count {
        let Ok(chosen) = will_be_claimed(run, &placement, &fleet, &loads, candidate) else {
            distribution.not_sent = count - number;
            break;
        };
        let name = chosen.cluster.to_string();
        *distribution.clusters.entry(name.clone()).or_default() += 1;
        if name == names::EVERY_CLUSTER {
            continue;
        }
        if let Some(load) = loads.get_mut(&chosen.cluster) {
            load.reserve(&asked);
            distribution.loads.insert(name, load.to_string());
        }
    }
    distribution
}

/// The choice of one of these clusters for Workflows without policies, for simulations and
/// benchmarks. Clusters are named by their numbers.
#[derive(Debug)]
pub struct Choice {
    names: Vec<ClusterName>,
    loads: Loads,
}

/// A Workflow that was claimed in a [`Choice`].
#[derive(Debug)]
pub struct Claimed {
    needs: Option<Arc<Needs>>,
    /// The amounts that it has reserved.
    reserved: Arc<Amounts>,
}

impl Choice {
    /// The choice among clusters without runs. They must be in the order of their names.
    pub fn new(clusters: &[ManagedCluster]) -> Self {
        let present: Vec<&ManagedCluster> = clusters.iter().collect();
        let loads = loads(&present, None);
        Self {
            names: loads.keys().cloned().collect(),
            loads,
        }
    }

    /// The resources that a Workflow of this specification asks for.
    pub fn demand(spec: &Value) -> Demand {
        Demand::of(spec, &Referred::default())
    }

    /// The best cluster; `None` if none can run the Workflow.
    pub fn choose(&self, demand: &Demand) -> Option<usize> {
        let candidate = Candidate::new(demand, None);
        let best = best(self.names.iter(), &self.loads, candidate)?;
        self.names.binary_search(best.cluster).ok()
    }

    /// Claims a cluster.
    pub fn claim(&mut self, cluster: usize, demand: &Demand) -> Claimed {
        let needs = Needs::of(demand);
        let asked = Needs::reserved(needs.as_ref());
        let load = self.names.get(cluster).and_then(|name| self.loads.get_mut(name));
        let reserved = load.map_or_else(Arc::default, |load| load.reserve(&asked));
        Claimed { needs, reserved }
    }

    /// The pods of a run request so much, as its cluster reports it: `cpu=2,memory=4Gi`.
    pub fn run(&mut self, cluster: usize, claimed: &mut Claimed, requests: &str) {
        let name = self.names.get(cluster);
        let load = name.and_then(|name| self.loads.get_mut(name));
        let Some(load) = load else { return };
        claimed.needs = Needs::once_told(claimed.needs.as_ref(), Some(requests));
        load.release(&claimed.reserved);
        claimed.reserved = load.reserve(&Needs::reserved(claimed.needs.as_ref()));
    }

    /// Ends a run.
    pub fn end(&mut self, cluster: usize, claimed: &Claimed) {
        let name = self.names.get(cluster);
        if let Some(load) = name.and_then(|name| self.loads.get_mut(name)) {
            load.release(&claimed.reserved);
        }
    }
}
