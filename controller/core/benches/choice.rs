//! What the choice of one of many clusters costs: `cargo bench -p argosy-core --bench choice`.
//!
//! Each decision reserves its cluster, so that the next one finds other loads, as in a burst.

use std::time::Instant;

use argosy_api::ManagedCluster;
use argosy_core::explain::dry_run::Choice;
use serde_json::json;

/// Decisions for each number of clusters.
const DECISIONS: usize = 10_000;

#[expect(clippy::unwrap_used, reason = "what is read was written here")]
fn cluster(number: usize) -> ManagedCluster {
    serde_json::from_value(json!({
        "metadata": { "name": format!("cluster{number:05}") }, "spec": {},
        "status": { "allocatable": {
            "cpu": (32 << (number % 4)).to_string(), "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "110",
            "nvidia.com/gpu": (number % 3).to_string(),
        } },
    }))
    .unwrap()
}

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn main() {
    println!("clusters  p50       p99       longest   (of {DECISIONS} decisions, each with its reservation)");
    let pod = json!({ "requests": { "cpu": "2", "memory": "4Gi" }, "limits": { "nvidia.com/gpu": 1 } });
    let spec =
        json!({ "entrypoint": "main", "templates": [{ "name": "main", "container": { "resources": pod } }] });
    let demand = Choice::demand(&spec);
    for clusters in [10, 100, 1_000] {
        let inventory: Vec<ManagedCluster> = (0..clusters).map(cluster).collect();
        let mut choice = Choice::new(&inventory);
        let mut times = Vec::with_capacity(DECISIONS);
        for _ in 0..DECISIONS {
            let started = Instant::now();
            if let Some(chosen) = choice.choose(&demand) {
                choice.claim(chosen, &demand);
            }
            times.push(started.elapsed());
        }
        times.sort_unstable();
        let at = |part: usize| times.get(DECISIONS * part / 1000).copied().unwrap_or_default();
        println!(
            "{clusters:>8}  {:>8.1?}  {:>8.1?}  {:>8.1?}",
            at(500),
            at(990),
            at(999)
        );
    }
}
