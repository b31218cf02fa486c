//! The room that a cluster has for runs: its size, and the number of runs that it may have.
//!
//! The size is the sum of what the nodes have for pods, as the agent reports it. Pods of others take a
//! part of it, if the agent counts pods. The administrator's annotation [`names::ROOM_ANNOTATION`]
//! replaces both, resource by resource. A member reports its nodes itself, so
//! without the annotation it can draw Workflows to itself, within the policies that match it. Not
//! here: the pods (`agent::pod_tally`), and the number of runs that it has (`policy::best_cluster`).

use std::collections::BTreeMap;

use argosy_api::{ManagedCluster, conditions::managed_cluster as types, managed_cluster::Resources, names};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::{Deserialize, Serialize};

use super::amounts::{Amounts, CPU, MEMORY, quantity};

/// Maximum length of the annotation and of the claim in bytes.
const LONGEST: usize = 1024;

/// Resources of nodes that pods do not ask for as a rule.
const NOT_ASKED_FOR: [&str; 3] = ["pods", "hugepages-1Gi", "hugepages-2Mi"];

/// Room of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// The amounts for pods. A resource that is absent is not known.
    pub(crate) size: Amounts,
    /// The part of it that pods of others request.
    pub(crate) foreign: Amounts,
    /// For each resource the most that one pod can get, if that is known. It is absent for resources
    /// in the annotation, because nodes of that size may be added when they are needed.
    pub(crate) largest: Amounts,
    /// The requests of the pods of runs, if the agent counts pods.
    pub(crate) used: Amounts,
    /// Maximum number of unfinished runs.
    pub(crate) runs: Option<u64>,
    /// The agent says that the cluster does not serve Argo's Workflows.
    pub(crate) lacks_argo: bool,
}

/// The requests of the unfinished pods of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Those of scheduled pods that do not belong to our runs.
    pub(crate) foreign: Amounts,
    /// Those of pods of our runs, scheduled or not.
    pub(crate) own: Amounts,
}

impl Usage {
    /// True if an amount differs by more than 2 % of what the nodes have.
    pub fn has_moved(&self, told: &Self, allocatable: &Resources) -> bool {
        let sizes = Amounts::of(allocatable);
        let differs = |now: &Amounts, then: &Amounts| {
            now.iter().chain(then.iter()).any(|(name, _)| {
                let of = |amounts: &Amounts| amounts.get(name).unwrap_or_default();
                u128::from(of(now).abs_diff(of(then))) * 50 > u128::from(of(&sizes))
            })
        };
        differs(&self.foreign, &told.foreign) || differs(&self.own, &told.own)
    }
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
    /// The sum of the requests of pods of our runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    own: Option<Quantity>,
}

impl RoomClaim {
    /// The claim of an agent that knows the largest nodes, and the requests of pods if it counts them.
    pub fn new(largest: &Resources, usage: Option<&Usage>) -> Self {
        let mut claim = Self::default();
        let is_told = |name: &str| !NOT_ASKED_FOR.contains(&name);
        for (name, amount) in largest.iter().filter(|(name, _)| is_told(name)) {
            claim.0.entry(name.clone()).or_default().node = Some(amount.clone());
        }
        let told = |amounts: &Amounts| -> Resources {
            let positive = amounts.iter().filter(|(_, amount)| *amount > 0);
            let text = |(name, amount): (&str, u64)| (name.to_owned(), Quantity(quantity(name, amount)));
            positive.map(text).collect()
        };
        for (name, amount) in usage.iter().flat_map(|usage| told(&usage.foreign)) {
            claim.0.entry(name).or_default().foreign = Some(amount);
        }
        for (name, amount) in usage.iter().flat_map(|usage| told(&usage.own)) {
            claim.0.entry(name).or_default().own = Some(amount);
        }
        claim
    }

    /// The value of the claim. `None` if there is nothing to say. If a claim has no space for all
    /// resources, CPU and memory are told first.
    pub fn to_text(mut self) -> Option<String> {
        loop {
            let text = serde_json::to_string(&self).ok()?;
            if text.len() <= LONGEST {
                return (!self.0.is_empty()).then_some(text);
            }
            let is_other = |name: &&String| ![CPU, MEMORY].contains(&name.as_str());
            let last = self.0.keys().rfind(is_other).cloned();
            self.0.remove(&last?);
        }
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
        let mut foreign = claim.amounts(|resource| resource.foreign.as_ref());
        foreign.retain(|name| told.get(name).is_none());
        // A cluster that may grow has more of everything then than without any node.
        if !told.is_empty() {
            size.retain_positive();
        }
        size.replace(&told);
        let mut largest = claim.amounts(|resource| resource.node.as_ref());
        largest.retain(|name| told.get(name).is_none());
        // A cluster without nodes may grow to any node, but a node is never larger than its cluster.
        largest.lower_to(&size);
        let conditions = status.into_iter().flat_map(|status| &status.conditions);
        let mut ready = conditions
            .into_iter()
            .filter(|known| known.type_ == types::ARGO_READY);
        Self {
            lacks_argo: ready.any(|ready| ready.status == "False"),
            size,
            foreign,
            largest,
            used: claim.amounts(|resource| resource.own.as_ref()),
            runs,
        }
    }

    /// The amounts for runs.
    pub(crate) fn for_runs(&self) -> Amounts {
        let mut amounts = self.size.clone();
        amounts.lower(&self.foreign);
        amounts
    }

    /// The amount of a resource for runs, if it is known.
    pub(crate) fn amount_for_runs(&self, name: &str) -> Option<u64> {
        let size = self.size.get(name)?;
        Some(size.saturating_sub(self.foreign.get(name).unwrap_or_default()))
    }

    /// True if a Workflow may fit that `other` can never run. Runs that end and pods of others do not
    /// matter.
    pub(crate) fn exceeds(&self, other: &Self) -> bool {
        let is_larger = |one: &Amounts, other: &Amounts| {
            one.iter()
                .any(|(name, amount)| other.get(name).is_none_or(|other| amount > other))
        };
        let is_freed = other
            .largest
            .iter()
            .any(|(name, _)| self.largest.get(name).is_none());
        is_freed
            || (other.lacks_argo && !self.lacks_argo)
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

    fn quantities(text: &str) -> Resources {
        let amounts = Amounts::parse(text).unwrap();
        let text = |(name, amount): (&str, u64)| (name.to_owned(), Quantity(quantity(name, amount)));
        amounts.iter().map(text).collect()
    }

    fn usage(foreign: &str, own: &str) -> Usage {
        Usage {
            foreign: Amounts::parse(foreign).unwrap(),
            own: Amounts::parse(own).unwrap(),
        }
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
            (None, json!({ "cpu": "0", "memory": "0" }), "cpu=0,memory=0", None),
            (
                Some("runs=1"),
                json!({ "cpu": "0", "memory": "0" }),
                "cpu=0,memory=0",
                Some(1),
            ),
            (Some("cpu=8"), json!({ "cpu": "0", "memory": "0" }), "cpu=8", None),
            (Some("cpu=0"), json!({ "cpu": "4", "memory": "0" }), "cpu=0", None),
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
        let claim = RoomClaim::new(
            &quantities("cpu=4,memory=8Gi,pods=110"),
            Some(&usage("cpu=1,gpu=1", "cpu=2")),
        );
        let claim = claim.to_text().unwrap();
        assert_eq!(
            claim,
            r#"{"cpu":{"node":"4","foreign":"1","own":"2"},"gpu":{"foreign":"1"},"memory":{"node":"8Gi"}}"#
        );
        let allocatable = json!({ "cpu": "8", "memory": "16Gi" });
        for (annotation, size, largest) in [
            (None, "cpu=7,memory=16Gi", "cpu=4,memory=8Gi"),
            (Some("cpu=100"), "cpu=100,memory=16Gi", "memory=8Gi"),
        ] {
            let room = Room::of(&cluster(annotation, &allocatable, &claim));
            assert_eq!(
                (
                    room.for_runs().to_string().as_str(),
                    room.largest.to_string().as_str()
                ),
                (size, largest)
            );
            assert_eq!(room.used.to_string(), "cpu=2");
        }
    }

    #[test]
    fn nonsense_in_a_claim_changes_nothing() {
        let allocatable = json!({ "cpu": "8", "memory": "16Gi" });
        let deep = format!("{}1{}", r#"{"cpu":"#.repeat(150), "}".repeat(150));
        let many: Vec<String> = (0..60)
            .map(|number| format!(r#""r{number}":{{"node":"9"}}"#))
            .collect();
        let huge = format!(
            r#"{{"cpu":{{"node":"1","foreign":"8","note":"{}"}}}}"#,
            "x".repeat(5_000_000)
        );
        for claim in [
            "",
            "{",
            "[]",
            "null",
            r#"{"cpu":7}"#,
            r#"{"cpu":{"node":"much","foreign":"-5","own":"1e99"}}"#,
            r#"{"c\"pu":{"foreign":"8","own":"8"}}"#,
            r#"{"cpu":{"foreign":"8"},"own":"1"}"#,
            &" ".repeat(2000),
            &deep,
            &huge,
            &format!("{{{}}}", many.join(",")),
        ] {
            let room = Room::of(&cluster(None, &allocatable, claim));
            let told = (
                room.for_runs().to_string(),
                room.largest.is_empty(),
                room.used.is_empty(),
            );
            let shown: String = claim.chars().take(60).collect();
            assert_eq!(told, ("cpu=8,memory=16Gi".to_owned(), true, true), "{shown}");
        }
    }

    #[test]
    fn fields_that_a_later_agent_adds_to_a_claim_are_passed_over() {
        let claim = r#"{"cpu":{"foreign":"3","later":7},"own":{"cpu":"1"}}"#;
        let room = Room::of(&cluster(None, &json!({ "cpu": "8" }), claim));
        assert_eq!(
            (room.for_runs().to_string(), room.used.is_empty()),
            ("cpu=5".to_owned(), true)
        );
    }

    #[test]
    fn pods_that_ask_for_more_than_there_is_leave_nothing() {
        for (foreign, size) in [("8", "cpu=0"), ("9e9", "cpu=0"), ("7999m", "cpu=1m")] {
            let claim = format!(r#"{{"cpu":{{"foreign":"{foreign}"}}}}"#);
            let room = Room::of(&cluster(None, &json!({ "cpu": "8" }), &claim));
            assert_eq!(room.for_runs().to_string(), size, "{foreign}");
            assert_eq!(room.amount_for_runs(CPU), room.for_runs().get(CPU), "{foreign}");
        }
    }

    #[test]
    fn a_usage_is_told_again_if_an_amount_moves_by_more_than_two_percent_of_the_nodes() {
        let allocatable = quantities("cpu=100,memory=100Gi,nvidia.com/gpu=8");
        let told = usage("cpu=10,memory=1Gi", "cpu=5");
        for (foreign, own, has_moved) in [
            ("cpu=10,memory=1Gi", "cpu=5", false),
            ("cpu=12,memory=3Gi", "cpu=3", false),
            ("cpu=12001m,memory=1Gi", "cpu=5", true),
            ("cpu=7900m,memory=1Gi", "cpu=5", true),
            ("cpu=10,memory=1Gi", "cpu=8", true),
            ("cpu=10,memory=1Gi", "", true),
            ("cpu=10,memory=1Gi,nvidia.com/gpu=1", "cpu=5", true),
            ("cpu=10,memory=1Gi,example.com/other=1", "cpu=5", true),
        ] {
            let now = usage(foreign, own);
            assert_eq!(now.has_moved(&told, &allocatable), has_moved, "{foreign} {own}");
            assert_eq!(told.has_moved(&now, &allocatable), has_moved, "{foreign} {own}");
        }
    }

    #[test]
    fn a_claim_without_space_for_all_resources_tells_cpu_and_memory() {
        let many: Vec<String> = (0..14)
            .map(|number| format!("{}/r{number:02}=1", "a".repeat(60)))
            .collect();
        let text = format!("cpu=4,memory=8Gi,{}", many.join(","));
        let claim = RoomClaim::new(&quantities(&text), Some(&usage(&text, &text)));
        let claim = claim.to_text().unwrap();
        assert!(claim.len() <= LONGEST, "{claim}");
        for told in [
            r#""cpu":{"node":"4","foreign":"4","own":"4"}"#,
            r#""memory":{"node":"8Gi""#,
            "/r00",
        ] {
            assert!(claim.contains(told), "{claim}");
        }
        assert!(!claim.contains("/r13"), "{claim}");
        assert_eq!(RoomClaim::default().to_text(), None);
    }
}
