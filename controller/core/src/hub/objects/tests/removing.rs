//! A cluster that left the fleet. Its copies stay until its agent is cut off, and then they are
//! released. Nothing new is sent to it.

use super::*;

fn marked(spaces: &mut Spaces, reason: &str, status: &str) {
    let condition = json!({
        "type": "ManagedClusterConditionAvailable", "status": status, "reason": reason, "message": "m",
        "lastTransitionTime": "2026-11-21T09:00:00Z",
    });
    let cluster = with(
        managed("cluster1", json!({ "fleet": "a" })),
        json!({
            "metadata": { "annotations": { "argosy.dev/removed": "2026-11-21T10:00:00Z" } },
            "status": { "conditions": [condition] },
        }),
    );
    let cluster = spaces.next(cluster);
    spaces.learn(DownsyncInput::Cluster(Change::Apply(read(cluster))));
}

#[test]
fn copies_are_released_and_dropped_once_the_agent_is_cut_off_and_not_made_again() {
    let mut spaces = Spaces::new();
    spaces.is_slow = true;
    spaces.policy(policy("both", &json!({ "fleet": "a" })));
    spaces.write(&config_maps(), settings());
    assert_eq!(spaces.sent(), ["cluster1/c1", "cluster2/c1"]);
    marked(&mut spaces, "LeaseRenewed", "True");
    assert_eq!(
        spaces.sent(),
        ["cluster1/c1", "cluster2/c1"],
        "its agent would delete what it sees going"
    );
    let writes = spaces.log.len();
    marked(&mut spaces, "ClusterRemoved", "Unknown");
    assert_eq!(spaces.sent(), ["cluster2/c1"]);
    let of_works: Vec<&String> = spaces.log[writes..]
        .iter()
        .filter(|line| line.contains("ManifestWork"))
        .collect();
    assert!(
        of_works[0].ends_with("release the ManifestWork for cluster1"),
        "{of_works:?}"
    );
    assert!(
        of_works[1].ends_with("delete the ManifestWork for cluster1"),
        "{of_works:?}"
    );
    spaces.write(&config_maps(), with(settings(), json!({ "data": { "a": "2" } })));
    assert_eq!(spaces.sent(), ["cluster2/c1"]);
}
