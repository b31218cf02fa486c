use proptest::prelude::*;

use super::*;

fn load(runs: u64, cpu: impl Into<Option<u64>>, most: impl Into<Option<u64>>) -> Load {
    Load {
        runs,
        room: Room {
            cpu: cpu.into(),
            runs: most.into(),
        },
    }
}

fn chosen(loads: &[Load]) -> usize {
    let loads = loads.iter().enumerate();
    let loads: BTreeMap<ClusterName, Load> = loads.map(|(number, load)| (name(number), *load)).collect();
    let best = best(|| loads.keys(), &loads).unwrap();
    best.as_str().parse().unwrap()
}

/// Names in the order of the numbers.
fn name(number: usize) -> ClusterName {
    format!("{number:04}").as_str().into()
}

#[test]
fn the_cluster_with_the_fewest_runs_for_its_size_is_chosen() {
    for (loads, expected) in [
        (&[load(0, 4000, None), load(0, 4000, None)][..], 0),
        (&[load(1, 4000, None), load(0, 4000, None)], 1),
        // Twice the size, twice the runs.
        (&[load(0, 4000, None), load(0, 8000, None)], 1),
        (&[load(1, 4000, None), load(2, 8000, None)], 1),
        (&[load(1, 4000, None), load(3, 8000, None)], 0),
        // A cluster of which nobody says the size is as small as the smallest.
        (&[load(0, None, None), load(0, 8000, None)], 0),
        (
            &[load(0, None, None), load(0, 8000, None), load(0, 4000, None)],
            1,
        ),
        (&[load(3, None, None), load(2, None, None)], 1),
        // A cluster without room is the last resort.
        (&[load(0, 4000, 0), load(90, 1, None)], 1),
        (&[load(5, 4000, 5), load(90, 4000, 100)], 1),
        (&[load(0, 0, None), load(90, 1, None)], 1),
        (&[load(5, 4000, 5), load(4, 4000, 4)], 1),
    ] {
        assert_eq!(chosen(loads), expected, "{loads:?}");
    }
    assert_eq!(best(|| [].iter(), &BTreeMap::new()), None);
}

#[test]
fn a_load_is_told_with_its_runs_and_its_size() {
    for (load, expected) in [
        (load(1, 8000, None), "1 run on 8 CPU"),
        (load(3, 1500, 20), "3 runs of 20 on 1500m CPU"),
        (load(0, None, None), "0 runs, size unknown"),
    ] {
        assert_eq!(load.to_string(), expected);
    }
}

/// Gives out `number` Workflows one after the other, and returns the number of each cluster.
fn spread(sizes: &[u64], number: u64) -> Vec<u64> {
    let mut loads: Vec<Load> = sizes.iter().map(|size| load(0, *size, None)).collect();
    for _ in 0..number {
        let best = chosen(&loads);
        loads[best].runs += 1;
    }
    loads.iter().map(|load| load.runs).collect()
}

#[test]
fn a_thousand_workflows_spread_over_clusters_as_their_sizes() {
    let equal = spread(&[8000; 10], 1000);
    assert!(equal.iter().all(|runs| *runs == 100), "{equal:?}");
    let unequal = spread(&[1000, 2000, 4000, 8000], 1500);
    assert_eq!(unequal, [100, 200, 400, 800]);
}

fn loads() -> impl Strategy<Value = Vec<Load>> {
    let one = (
        0_u64..40,
        proptest::option::of(0_u64..9000),
        proptest::option::of(0_u64..40),
    );
    prop::collection::vec(one.prop_map(|(runs, cpu, most)| load(runs, cpu, most)), 1..8)
}

proptest! {
    /// More room never makes a cluster lose, and one run more never makes it win.
    #[test]
    fn a_choice_stays_when_the_chosen_cluster_gets_more_room(loads in loads(), more in 1_u64..9000) {
        // The size of a cluster of which nobody says it is taken from the others.
        let sized = |load: Load| Load { room: Room { cpu: load.room.cpu.or(Some(1)), ..load.room }, ..load };
        let loads: Vec<Load> = loads.into_iter().map(sized).collect();
        let best = chosen(&loads);
        let mut larger = loads.clone();
        larger[best].room.cpu = larger[best].room.cpu.map(|cpu| cpu + more);
        larger[best].room.runs = larger[best].room.runs.map(|most| most + more);
        prop_assert_eq!(chosen(&larger), best);
        for other in (0..loads.len()).filter(|other| *other != best) {
            let mut fuller = loads.clone();
            fuller[other].runs += more;
            prop_assert_eq!(chosen(&fuller), best);
        }
    }

    /// The comparison is an order, so the result does not depend on the sequence of comparisons.
    #[test]
    fn nothing_is_better_than_the_best(loads in loads()) {
        let best = loads[chosen(&loads)];
        let sizes = loads.iter().filter_map(|load| load.room.cpu.filter(|cpu| *cpu > 0));
        let unknown = sizes.min().unwrap_or(1);
        for load in &loads {
            prop_assert_ne!(load.compare(best, unknown), Ordering::Less);
        }
    }
}
