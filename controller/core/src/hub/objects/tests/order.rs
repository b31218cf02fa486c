//! The same copies are sent, whatever the order in which objects, policies and clusters change.

use proptest::prelude::*;

use super::*;

/// One action of a user.
#[derive(Clone, Debug)]
enum Step {
    Object(u8, bool, u8),
    Gone(u8),
    Policy(u8, u8, bool),
    NoPolicy(u8),
    Cluster(u8, u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4u8, any::<bool>(), 0..3u8).prop_map(|(object, label, data)| Step::Object(object, label, data)),
        1 => (0..4u8).prop_map(Step::Gone),
        3 => (0..3u8, 0..3u8, any::<bool>()).prop_map(|(policy, clusters, only)| Step::Policy(policy, clusters, only)),
        1 => (0..3u8).prop_map(Step::NoPolicy),
        2 => (0..2u8, 0..2u8).prop_map(|(cluster, fleet)| Step::Cluster(cluster, fleet)),
    ]
}

fn object(index: u8, label: bool, data: u8) -> Value {
    let uid = format!("c{index}");
    let more = json!({
        "metadata": { "name": uid, "uid": uid, "labels": { "app": if label { "web" } else { "db" } } },
        "data": { "a": data.to_string() },
    });
    with(settings(), more)
}

fn policy_of(index: u8, clusters: u8, only: bool) -> Value {
    let clusters =
        [json!({ "fleet": "a" }), json!({ "name": "cluster1" }), json!({})][usize::from(clusters)].clone();
    wanting(
        policy(&format!("p{index}"), &clusters),
        json!({ "createOnly": only }),
    )
}

impl Spaces {
    fn take(&mut self, step: &Step) {
        match step {
            Step::Object(index, label, data) => self.write(&config_maps(), object(*index, *label, *data)),
            Step::Gone(index) => {
                let uid = format!("c{index}");
                if self.objects.contains_key(&uid) {
                    self.delete(&config_maps(), &uid);
                }
            }
            Step::Policy(index, clusters, only) => self.policy(policy_of(*index, *clusters, *only)),
            Step::NoPolicy(index) => {
                let name = format!("p{index}");
                if self.policies.contains_key(&name) {
                    self.delete_policy(&name);
                }
            }
            Step::Cluster(index, fleet) => {
                let fleet = ["a", "b"][usize::from(*fleet)];
                self.cluster(&format!("cluster{}", index + 1), json!({ "fleet": fleet }));
            }
        }
    }

    /// The copies that are sent, without versions and UIDs.
    fn outcome(&self) -> Vec<(String, Value)> {
        let works = self.works.iter();
        works
            .map(|((cluster, name), work)| {
                let asked = json!([work["spec"], work["metadata"]["annotations"]]);
                (format!("{cluster}/{name}"), asked)
            })
            .collect()
    }
}

/// A controller that starts now, with the objects as they are.
fn anew(spaces: &Spaces) -> Spaces {
    let mut fresh = Spaces::new();
    let clusters: Vec<(ClusterName, Value)> = spaces
        .index
        .clusters
        .iter()
        .map(|(name, cluster)| (name.clone(), json!(*cluster.labels)))
        .collect();
    for (name, labels) in clusters {
        fresh.cluster(name.as_str(), labels);
    }
    for policy in spaces.policies.values() {
        fresh.policy(policy.clone());
    }
    for object in spaces.objects.values() {
        fresh.write(&config_maps(), object.clone());
    }
    fresh
}

proptest! {
    #[test]
    fn the_same_objects_are_sent_alike_whatever_came_before(steps in prop::collection::vec(step(), 1..40)) {
        let mut spaces = Spaces::new();
        for step in &steps {
            spaces.take(step);
        }
        prop_assert_eq!(spaces.outcome(), anew(&spaces).outcome());
    }
}
