//! A simulation of the choice of a cluster (`argosy.dev/runs: best-cluster`), with the real choice and
//! with rules of other systems beside it.
//!
//! The rules of other systems are models of what their sources say, not measurements of them. The
//! bound is the larger one of all work divided by all capacity, and the end of the longest Workflow
//! if nothing waits; no chooser reaches it. The simulation is deterministic.
//!
//! `cargo test -p argosy-core --test simulation -- --nocapture` prints the table.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test, whose table is printed"
)]

mod choosers;
mod draw;
mod fleet;

use argosy_core::explain::dry_run::Choice;
use choosers::{BestCluster, Chooser, FewestRuns, Karmada, MultiKueue, RoundRobin};
use draw::{Arrival, Draw, cluster};
use fleet::{Outcome, run};
use serde_json::json;

const SEEDS: std::ops::RangeInclusive<u64> = 1..=10;

/// Further rules are only printed, for this seed.
const PRINTED: std::ops::RangeInclusive<u64> = 1..=1;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn print(draw: &Draw, name: &str, outcome: &Outcome) {
    println!(
        "seed {:2}  {:12}  {name:34}  end / bound {:6.2}  mean turnaround {:8.0} s  p95 of waiting {:7.0} s",
        draw.seed,
        draw.arrival.name(),
        outcome.end / draw.bound,
        outcome.mean_turnaround,
        outcome.p95_wait,
    );
}

/// Our outcome and round robin's; further ones are printed.
fn compare(draw: &Draw) -> (Outcome, Outcome) {
    let ours = run(draw, &mut BestCluster::new(draw));
    print(draw, "best-cluster", &ours);
    let round_robin = run(draw, &mut RoundRobin::default());
    print(draw, "round robin", &round_robin);
    if PRINTED.contains(&draw.seed) {
        let others: [(&str, &mut dyn Chooser); 3] = [
            ("fewest runs", &mut FewestRuns),
            ("Karmada's rule (a model of it)", &mut Karmada::default()),
            (
                "MultiKueue's rule (a model of it)",
                &mut MultiKueue::new(draw.seed),
            ),
        ];
        for (name, chooser) in others {
            print(draw, name, &run(draw, chooser));
        }
    }
    (ours, round_robin)
}

#[test]
fn ten_thousand_workflows_at_once_end_close_to_the_bound() {
    let mut of_bound = Vec::new();
    let mut of_round_robin = Vec::new();
    for seed in SEEDS {
        let draw = Draw::new(seed, 10_000, 100, Arrival::AtOnce);
        let (ours, round_robin) = compare(&draw);
        of_bound.push(ours.end / draw.bound);
        of_round_robin.push(ours.end / round_robin.end);
    }
    let (of_bound, of_round_robin) = (median(of_bound), median(of_round_robin));
    println!("median: {of_bound:.2} of the bound, {of_round_robin:.2} of round robin");
    assert!(of_bound <= 1.35, "{of_bound}");
    assert!(of_round_robin <= 0.4, "{of_round_robin}");
}

#[test]
fn at_seventy_percent_load_hardly_anything_waits() {
    let of_round_robin = SEEDS.map(|seed| {
        let draw = Draw::new(seed, 6_000, 100, Arrival::Load(0.7));
        let (ours, round_robin) = compare(&draw);
        ours.mean_turnaround / round_robin.mean_turnaround
    });
    let of_round_robin = median(of_round_robin.collect());
    println!("median: {of_round_robin:.2} of round robin's turnaround");
    assert!(of_round_robin <= 0.6, "{of_round_robin}");
}

#[test]
fn a_thousand_at_once_over_ten_equal_clusters_are_a_hundred_each() {
    let clusters: Vec<_> = (0..10).map(|number| cluster(number, 32.0, 0.0, 0)).collect();
    let mut choice = Choice::new(&clusters);
    let demand =
        Choice::demand(&json!({ "entrypoint": "main", "templates": [{ "name": "main", "container": {} }] }));
    let mut counts = [0_u32; 10];
    for _ in 0..1000 {
        let chosen = choice.choose(&demand).unwrap();
        counts[chosen] += 1;
        choice.claim(chosen, &demand);
    }
    assert!(
        counts.iter().all(|count| (99..=101).contains(count)),
        "{counts:?}"
    );
}

#[test]
fn workflows_with_a_gpu_go_only_where_there_is_one() {
    // Every third cluster has GPUs, and all of them are small.
    let clusters: Vec<_> = (0..30)
        .map(|number| {
            cluster(
                number,
                8.0 + 8.0 * f64::from(u32::try_from(number % 7).unwrap()),
                0.0,
                if number.is_multiple_of(3) { 2 } else { 0 },
            )
        })
        .collect();
    let mut choice = Choice::new(&clusters);
    let spec = |limits: serde_json::Value| json!({ "entrypoint": "main", "templates": [{ "name": "main", "container": { "resources": { "limits": limits } } }] });
    let gpu = Choice::demand(&spec(json!({ "nvidia.com/gpu": 1 })));
    let plain = Choice::demand(&spec(json!({ "cpu": 1 })));
    for number in 0..3000 {
        let demand = if number % 5 == 0 { &gpu } else { &plain };
        let chosen = choice.choose(demand).unwrap();
        assert!(
            number % 5 != 0 || chosen.is_multiple_of(3),
            "cluster {chosen} has no GPU"
        );
        choice.claim(chosen, demand);
    }
}
