//! The room that a cluster has for runs: its size, and the number of runs that it may have.
//!
//! The size is the sum of what the nodes have for pods, as the agent reports it, without what pods of
//! others ask for, if that is reported; the agents of this version do not report it. The administrator's annotation [`names::ROOM_ANNOTATION`] replaces it, resource
//! by resource. A member reports its nodes itself, so without the annotation it can draw Workflows to
//! itself, within the policies that match it. Not here: the number of runs that it has
//! (`policy::best_cluster`).

use std::collections::BTreeMap;

use argosy_api::{ManagedCluster, managed_cluster::Resources, names};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::{Deserialize, Serialize};

use super::amounts::Amounts;

/// Maximum length of the annotation and of the claim in bytes.
const LONGEST: usize = 1024;

/// Room of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// What it has for runs. A resource that is absent is not known.
    pub(crate) size: Amounts,
    /// For each resource the most that one pod can get, if that is known. It is absent for resources
    /// in the annotation, because nodes of that size may be added when they are needed.
    pub(crate) largest: Amounts,
    /// Maximum number of unfinished runs.
    pub(crate) runs: Option<u64>,
}

/// The claim [`names::ROOM_CLAIM`], as JSON: an entry for each resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoomClaim(BTreeMap<String, ResourceClaim>);

/// The entry of one resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct ResourceClaim {
    /// The most that one node has for pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<Quantity>,
    /// The sum of the requests of pods that do not belong to our runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    foreign: Option<Quantity>,
}

impl RoomClaim {
    /// The claim of an agent that knows the largest nodes, and the requests of the pods of others.
    pub fn new(largest: &Resources, foreign: &Resources) -> Self {
        let mut claim = Self::default();
        for (name, amount) in largest {
            claim.0.entry(name.clone()).or_default().node = Some(amount.clone());
        }
        for (name, amount) in foreign {
            claim.0.entry(name.clone()).or_default().foreign = Some(amount.clone());
        }
        claim
    }

    /// The value of the claim. `None` if there is nothing to say, or too much for a claim.
    pub fn to_text(&self) -> Option<String> {
        let text = serde_json::to_string(self).ok()?;
        (!self.0.is_empty() && text.len() <= LONGEST).then_some(text)
    }

    fn read(text: &str) -> Self {
        let text = Some(text).filter(|text| text.len() <= LONGEST);
        text.and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    }

    fn amounts(&self, of: impl Fn(&ResourceClaim) -> Option<&Quantity>) -> Amounts {
        let known = self.0.iter();
        let known = known.filter_map(|(name, claim)| Some((name.clone(), of(claim)?.clone())));
        Amounts::of(&known.collect())
    }
}

impl Room {
    /// The room of a cluster. An annotation that cannot be read leaves no room, so that a mistake
    /// does not fill a cluster.
    pub fn of(cluster: &ManagedCluster) -> Self {
        let annotations = cluster.metadata.annotations.as_ref();
        let annotation = annotations.and_then(|annotations| annotations.get(names::ROOM_ANNOTATION));
        let (told, runs) = match annotation.map(|text| Self::parse(text)) {
            None => Default::default(),
            Some(Ok(told)) => told,
            Some(Err(_)) => (Amounts::default(), Some(0)),
        };
        let status = cluster.status.as_ref();
        let mut size = status
            .map(|status| Amounts::of(&status.allocatable))
            .unwrap_or_default();
        let claims = status.into_iter().flat_map(|status| &status.cluster_claims);
        let claim = claims.into_iter().find(|claim| claim.name == names::ROOM_CLAIM);
        let claim = claim
            .map(|claim| RoomClaim::read(&claim.value))
            .unwrap_or_default();
        let foreign = claim.amounts(|resource| resource.foreign.as_ref());
        size.lower(&foreign);
        size.replace(&told);
        let mut largest = claim.amounts(|resource| resource.node.as_ref());
        largest.retain(|name| told.get(name).is_none());
        Self { size, largest, runs }
    }

    /// True if there may be room for a run for which `other` has none.
    pub(crate) fn exceeds(&self, other: &Self) -> bool {
        let has_more_runs = match (self.runs, other.runs) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(runs), Some(others)) => runs > others,
        };
        let is_larger = |one: &Amounts, other: &Amounts| {
            one.iter()
                .any(|(name, amount)| other.get(name).is_none_or(|other| amount > other))
        };
        let is_freed = other
            .largest
            .iter()
            .any(|(name, _)| self.largest.get(name).is_none());
        has_more_runs
            || is_freed
            || is_larger(&self.size, &other.size)
            || is_larger(&self.largest, &other.largest)
            || (self.is_unknown() && !other.is_unknown())
    }

    /// True if nobody says which resources it has.
    pub(crate) fn is_unknown(&self) -> bool {
        self.size.is_empty()
    }

    /// Reads the annotation: amounts, and the maximum number of runs.
    ///
    /// # Errors
    ///
    /// The part that cannot be read.
    fn parse(text: &str) -> Result<(Amounts, Option<u64>), String> {
        if text.len() > LONGEST {
            return Err(format!("it is longer than {LONGEST} bytes"));
        }
        let is_runs = |part: &&str| part.split('=').next().is_some_and(|name| name.trim() == "runs");
        let (runs, amounts): (Vec<&str>, Vec<&str>) = text.split(',').partition(is_runs);
        let runs = runs.last().map(|part| {
            let number = part
                .split_once('=')
                .and_then(|(_, number)| number.trim().parse().ok());
            number.ok_or_else(|| format!("{part:?} is not runs=NUMBER"))
        });
        Ok((Amounts::parse(&amounts.join(","))?, runs.transpose()?))
    }

    /// The error in the annotation of a cluster, if there is one.
    pub fn problem(cluster: &ManagedCluster) -> Option<String> {
        let text = cluster
            .metadata
            .annotations
            .as_ref()?
            .get(names::ROOM_ANNOTATION)?;
        Self::parse(text).err()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::read;

    fn cluster(room: Option<&str>, allocatable: &Value, claim: &str) -> ManagedCluster {
        let annotations: Value =
            room.map_or_else(|| json!({}), |room| json!({ names::ROOM_ANNOTATION: room }));
        read(json!({
            "metadata": { "name": "cluster1", "annotations": annotations }, "spec": {},
            "status": {
                "allocatable": allocatable,
                "clusterClaims": [{ "name": names::ROOM_CLAIM, "value": claim }],
            },
        }))
    }

    #[test]
    fn the_annotation_wins_over_the_nodes_and_one_that_cannot_be_read_leaves_no_room() {
        for (annotation, cpu, size, runs) in [
            (None, json!({ "cpu": "3800m" }), "cpu=3800m", None),
            (None, json!({ "cpu": "nonsense" }), "", None),
            (None, json!({ "cpu": "-4" }), "", None),
            (
                Some("cpu=100,runs=20"),
                json!({ "cpu": "4", "memory": "1Gi" }),
                "cpu=100,memory=1Gi",
                Some(20),
            ),
            (Some(" runs = 5 "), json!({ "cpu": "4" }), "cpu=4", Some(5)),
            (Some("cpu=0"), json!({ "cpu": "4" }), "cpu=0", None),
            (Some("nvidia.com/gpu=8"), json!({}), "nvidia.com/gpu=8", None),
            (Some(""), json!({ "cpu": "4" }), "cpu=4", None),
            (Some("cpu=much"), json!({ "cpu": "4" }), "cpu=4", Some(0)),
            (Some("memory"), json!({ "cpu": "4" }), "cpu=4", Some(0)),
            (Some("runs=-1"), json!({ "cpu": "4" }), "cpu=4", Some(0)),
        ] {
            let cluster = cluster(annotation, &cpu, "");
            let room = Room::of(&cluster);
            assert_eq!(
                (room.size.to_string().as_str(), room.runs),
                (size, runs),
                "{annotation:?} {cpu}"
            );
            assert_eq!(room.is_unknown(), size.is_empty());
            assert_eq!(
                Room::problem(&cluster).is_some(),
                runs == Some(0),
                "{annotation:?}"
            );
        }
    }

    #[test]
    fn pods_of_others_take_room_and_the_largest_node_limits_a_pod_unless_the_cluster_grows() {
        let quantities = |text: &str| -> Resources {
            let amounts = Amounts::parse(text).unwrap();
            let text = |(name, amount): (&str, u64)| {
                (
                    name.to_owned(),
                    Quantity(crate::model::amounts::quantity(name, amount)),
                )
            };
            amounts.iter().map(text).collect()
        };
        let claim = RoomClaim::new(&quantities("cpu=4,memory=8Gi"), &quantities("cpu=1,gpu=1"));
        let claim = claim.to_text().unwrap();
        let allocatable = json!({ "cpu": "8", "memory": "16Gi" });
        for (annotation, size, largest) in [
            (None, "cpu=7,memory=16Gi", "cpu=4,memory=8Gi"),
            (Some("cpu=100"), "cpu=100,memory=16Gi", "memory=8Gi"),
        ] {
            let room = Room::of(&cluster(annotation, &allocatable, &claim));
            assert_eq!(
                (room.size.to_string().as_str(), room.largest.to_string().as_str()),
                (size, largest)
            );
        }
        for claim in [
            "",
            "{",
            "[]",
            r#"{"cpu":{"node":"much","foreign":"-5"}}"#,
            &" ".repeat(2000),
        ] {
            let room = Room::of(&cluster(None, &allocatable, claim));
            assert_eq!(
                (room.size.to_string().as_str(), room.largest.is_empty()),
                ("cpu=8,memory=16Gi", true),
                "{claim}"
            );
        }
    }
}
