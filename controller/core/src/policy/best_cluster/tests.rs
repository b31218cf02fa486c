use proptest::prelude::*;

use super::*;

/// A cluster with this number of runs that ask for nothing, and with this room.
fn load(runs: u64, size: &str, most: impl Into<Option<u64>>) -> Load {
    let mut load = Load {
        room: Room {
            size: amounts(size),
            runs: most.into(),
            ..Room::default()
        },
        ..Load::default()
    };
    let asked = Arc::new(Demand::unknown().typical);
    for _ in 0..runs {
        load.reserve(&asked);
    }
    load
}

fn amounts(text: &str) -> Amounts {
    Amounts::parse(text).unwrap()
}

/// The demand of one pod.
fn pod(asked: &str) -> Demand {
    Demand {
        largest: amounts(asked),
        typical: amounts(asked),
        ..Demand::default()
    }
}

fn chosen_for(demand: &Demand, loads: &[Load]) -> Option<(usize, bool)> {
    let loads = loads.iter().enumerate();
    let loads: Loads = loads.map(|(number, load)| (name(number), load.clone())).collect();
    let best = best(loads.keys(), &loads, Candidate::new(demand, None))?;
    Some((best.cluster.as_str().parse().unwrap(), best.left == Left::Enough))
}

fn chosen(loads: &[Load]) -> usize {
    chosen_for(&Demand::unknown(), loads).unwrap().0
}

/// Names in the order of the numbers.
fn name(number: usize) -> ClusterName {
    format!("{number:04}").as_str().into()
}

#[test]
fn the_cluster_with_the_fewest_runs_for_its_size_is_chosen() {
    for (loads, expected) in [
        (&[load(0, "cpu=4", None), load(0, "cpu=4", None)][..], 0),
        (&[load(1, "cpu=4", None), load(0, "cpu=4", None)], 1),
        // Twice the size, twice the runs.
        (&[load(0, "cpu=4", None), load(0, "cpu=8", None)], 1),
        (&[load(1, "cpu=4", None), load(2, "cpu=8", None)], 1),
        (&[load(1, "cpu=4", None), load(3, "cpu=8", None)], 0),
        // A cluster of which nobody says the size is as small as the smallest.
        (&[load(0, "", None), load(0, "cpu=8", None)], 0),
        (
            &[load(1, "", None), load(3, "cpu=8", None), load(2, "cpu=4", None)],
            0,
        ),
        (&[load(3, "", None), load(2, "", None)], 1),
        // A cluster without room is the last resort, and one that its administrator has closed comes
        // after one without nodes.
        (&[load(0, "cpu=4", 0), load(90, "cpu=1m", None)], 1),
        (&[load(5, "cpu=4", 5), load(90, "cpu=4", 100)], 1),
        (&[load(0, "cpu=0", None), load(90, "cpu=1m", None)], 1),
        (&[load(5, "cpu=4", 5), load(0, "cpu=0", None)], 1),
        (&[load(5, "cpu=4", 5), load(4, "cpu=4", 4)], 1),
        // The resource that is scarcest decides.
        (
            &[
                load(1, "cpu=8,memory=1Gi", None),
                load(1, "cpu=4,memory=8Gi", None),
            ],
            1,
        ),
    ] {
        assert_eq!(chosen(loads), expected, "{loads:?}");
    }
    let demand = Demand::unknown();
    assert_eq!(
        best([].iter(), &Loads::new(), Candidate::new(&demand, None)),
        None
    );
}

#[test]
fn a_cluster_without_a_resource_or_with_too_small_nodes_is_never_chosen() {
    let gpu = || load(0, "cpu=4,nvidia.com/gpu=2", None);
    let small_nodes = || {
        let mut load = load(0, "cpu=100", None);
        load.room.largest = amounts("cpu=4");
        load
    };
    for (demand, loads, expected) in [
        (
            pod("nvidia.com/gpu=1"),
            vec![load(0, "cpu=100", None), gpu()],
            Some(1),
        ),
        (
            pod("nvidia.com/gpu=1"),
            vec![load(0, "cpu=100,nvidia.com/gpu=0", None)],
            None,
        ),
        // Nobody says what the cluster has.
        (pod("nvidia.com/gpu=1"), vec![load(0, "", None)], Some(0)),
        (pod("nvidia.com/gpu=4"), vec![gpu()], None),
        (
            pod("cpu=8"),
            vec![small_nodes(), load(0, "cpu=16", None)],
            Some(1),
        ),
        (pod("cpu=8"), vec![small_nodes()], None),
        (pod("cpu=4"), vec![small_nodes()], Some(0)),
        // Nodes are added when they are needed.
        (pod("cpu=8"), vec![load(0, "cpu=0", None)], Some(0)),
        // The pods together may ask for more than there is at a time.
        (
            Demand {
                largest: amounts("cpu=1"),
                typical: amounts("cpu=50"),
                ..Demand::default()
            },
            vec![load(0, "cpu=8", None)],
            Some(0),
        ),
    ] {
        let chosen = chosen_for(&demand, &loads).map(|(number, _)| number);
        assert_eq!(chosen, expected, "{demand:?} {loads:?}");
    }
    let reason = |demand: &str, load: &Load| load.unfit(&pod(demand)).unwrap().to_string();
    assert_eq!(
        reason("nvidia.com/gpu=1", &load(0, "cpu=1", None)),
        "has no nvidia.com/gpu"
    );
    assert_eq!(
        reason("cpu=8", &small_nodes()),
        "has at most 4 cpu for a pod, and one asks for 8"
    );
}

#[test]
fn there_is_room_until_the_cluster_is_reserved_or_its_limit_is_reached() {
    for (load, expected) in [
        (load(9, "cpu=1", None), true),
        (load(10, "cpu=1", None), false),
        (load(9, "cpu=1", 9), false),
        (load(0, "cpu=0", None), false),
        // Nothing is known.
        (load(90, "", None), true),
        (load(90, "", 90), false),
    ] {
        assert_eq!(
            chosen_for(&Demand::unknown(), std::slice::from_ref(&load)),
            Some((0, expected)),
            "{load:?}"
        );
    }
}

#[test]
fn a_cluster_that_says_no_size_of_what_is_asked_for_has_room_up_to_its_number_of_runs() {
    let nothing = Demand::default();
    let cpu = Demand::unknown();
    for (demand, load, expected) in [
        (&nothing, load(90, "cpu=4", None), true),
        (&nothing, load(90, "cpu=4", 90), false),
        (&nothing, load(90, "", None), true),
        (&cpu, load(90, "nvidia.com/gpu=8", None), true),
        (&cpu, load(90, "nvidia.com/gpu=8", 90), false),
    ] {
        let loads = std::slice::from_ref(&load);
        assert_eq!(chosen_for(demand, loads), Some((0, expected)), "{load:?}");
        let loads: Loads = [(name(0), load)].into();
        let ordered = order(loads.keys(), &loads, Candidate::new(demand, None));
        let percents: Vec<_> = ordered.iter().map(|one| (one.cluster, one.percent)).collect();
        assert_eq!(
            percents,
            [(&name(0), None)],
            "a part of an unknown size is not shown"
        );
    }
    let without_size = |runs| load(runs, "nvidia.com/gpu=8", None);
    for (loads, expected) in [
        ([without_size(3), without_size(2)], 1),
        // Room that is known is better than room that is not, and that is better than none.
        ([without_size(0), load(8, "cpu=1", None)], 1),
        ([load(10, "cpu=1", None), without_size(90)], 1),
    ] {
        assert_eq!(chosen_for(&cpu, &loads), Some((expected, true)), "{loads:?}");
    }
}

#[test]
fn what_is_given_back_is_exactly_what_was_reserved() {
    let odd: Vec<String> = (0..16)
        .map(|number| format!("a.example/r{number:02}=1"))
        .collect();
    let odd = odd.join(",");
    for (first, second, third) in [
        // A sequence may have any length.
        ("cpu=18446744073709551", "cpu=1", "cpu=2"),
        // The sum has no place for more resources.
        (odd.as_str(), "cpu=1", "cpu=2"),
    ] {
        let mut load = Load::default();
        let reserve = |load: &mut Load, asked: &str| load.reserve(&Arc::new(amounts(asked)));
        let (one, two) = (reserve(&mut load, first), reserve(&mut load, second));
        load.release(&one);
        assert_eq!(load.reserved, *two, "{first}");
        let three = reserve(&mut load, third);
        load.release(&two);
        assert_eq!(load.reserved, *three, "{first}");
        load.release(&three);
        assert_eq!(
            (load.reserved.to_string(), load.runs),
            (String::new(), 0),
            "{first}"
        );
    }
}

#[test]
fn a_cluster_whose_gpus_others_use_is_full_and_not_without_gpus() {
    let mut full = load(0, "cpu=8,gpu=4", None);
    full.room.foreign = amounts("cpu=2,gpu=4");
    let demand = pod("cpu=1,gpu=1");
    assert_eq!(full.unfit(&demand), None);
    assert_eq!(chosen_for(&demand, std::slice::from_ref(&full)), Some((0, false)));
    assert_eq!(
        chosen_for(&pod("cpu=6"), std::slice::from_ref(&full)),
        Some((0, true))
    );
    assert_eq!(
        chosen_for(&pod("cpu=7"), std::slice::from_ref(&full)),
        Some((0, false))
    );
    full.room.foreign = amounts("cpu=2,gpu=3");
    assert_eq!(chosen_for(&demand, &[full]), Some((0, true)));
}

#[test]
fn a_run_reserves_at_most_what_its_cluster_has_and_its_own_reservation_does_not_count() {
    let mut load = load(0, "cpu=4,memory=1Gi", None);
    let asked = Arc::new(amounts("cpu=1000,memory=1Mi,nvidia.com/gpu=1"));
    let own = load.reserve(&asked);
    assert_eq!((own.to_string().as_str(), load.runs), ("cpu=4,memory=1Mi", 1));
    let loads: Loads = [(name(0), load.clone())].into();
    let demand = pod("cpu=4");
    let reservation = Reservation {
        cluster: name(0),
        asked,
        amounts: Arc::clone(&own),
    };
    for (own, expected) in [(None, false), (Some(&reservation), true)] {
        let best = best(loads.keys(), &loads, Candidate::new(&demand, own)).unwrap();
        assert_eq!(best.left == Left::Enough, expected);
    }
    load.release(&own);
    assert_eq!((load.reserved, load.runs), (Amounts::default(), 0));
}

#[test]
fn pods_of_runs_count_once_as_what_is_reserved_or_as_what_their_cluster_says_if_that_is_more() {
    // Each of the runs has reserved 100m.
    for (runs, used, expected) in [
        (4, "", "4 runs, cpu 400m of 4"),
        (4, "cpu=300m", "4 runs, cpu 400m of 4"),
        // All of them were claimed since the cluster has said this.
        (4, "cpu=0", "4 runs, cpu 400m of 4"),
        (4, "cpu=2,nvidia.com/gpu=1", "4 runs, cpu 2 of 4"),
        (0, "cpu=2", "0 runs, cpu 2 of 4"),
    ] {
        let (mut one, other) = (load(runs, "cpu=4", None), load(5, "cpu=4", None));
        one.room.used = amounts(used);
        assert_eq!(one.to_string(), expected, "{used}");
        let percent = if used.starts_with("cpu=2") { 50 } else { 10 };
        assert_eq!(one.percent(), Some(percent), "{used}");
        assert_eq!(
            chosen(&[one, other]),
            usize::from(used.starts_with("cpu=2")),
            "{used}"
        );
    }
    // One that is chosen anew does not stand in its own way, and takes nothing from others.
    let mut load = load(0, "cpu=4", None);
    let asked = Arc::new(amounts("cpu=2"));
    let own = Reservation {
        cluster: name(0),
        amounts: load.reserve(&asked),
        asked,
    };
    for (used, expected) in [("", 0), ("cpu=1", 1000), ("cpu=3", 3000)] {
        load.room.used = amounts(used);
        assert_eq!(load.taken(CPU, 2000), expected, "{used} {own:?}");
    }
}

#[test]
fn a_load_is_told_with_its_runs_and_its_room() {
    for (load, expected) in [
        (load(1, "cpu=8,nvidia.com/gpu=1", None), "1 run, cpu 100m of 8"),
        (
            load(3, "cpu=1500m,memory=4Gi", 20),
            "3 runs of 20, cpu 300m of 1500m, memory 600Mi of 4Gi",
        ),
        (load(0, "", None), "0 runs, size unknown"),
    ] {
        assert_eq!(load.to_string(), expected);
    }
}

#[test]
fn the_reserved_part_is_that_of_the_scarcest_resource_and_not_of_one_that_the_cluster_lacks() {
    for (load, expected) in [
        (load(10, "cpu=4,memory=16Gi", None), Some(25)),
        (load(10, "cpu=4,hugepages-1Gi=0,nvidia.com/gpu=0", None), Some(25)),
        (load(0, "cpu=4", None), Some(0)),
        (load(10, "cpu=0", None), None),
        (load(10, "", None), None),
    ] {
        assert_eq!(load.percent(), expected, "{load:?}");
    }
}

/// Gives out `number` Workflows one after the other, and returns the number of each cluster.
fn spread(sizes: &[u64], number: u64) -> Vec<u64> {
    let load = |size: &u64| load(0, &format!("cpu={size}"), None);
    let mut loads: Vec<Load> = sizes.iter().map(load).collect();
    let asked = Arc::new(Demand::unknown().typical);
    for _ in 0..number {
        let best = chosen(&loads);
        loads[best].reserve(&asked);
    }
    loads.iter().map(|load| load.runs).collect()
}

#[test]
fn a_thousand_workflows_spread_over_clusters_as_their_sizes() {
    let equal = spread(&[8; 10], 1000);
    assert!(equal.iter().all(|runs| *runs == 100), "{equal:?}");
    let unequal = spread(&[10, 20, 40, 80], 1500);
    assert_eq!(unequal, [100, 200, 400, 800]);
}

fn loads() -> impl Strategy<Value = Vec<Load>> {
    let one = (
        0_u64..40,
        proptest::option::of(0_u64..9000),
        proptest::option::of(0_u64..40),
    );
    let load = |(runs, cpu, most): (u64, Option<u64>, Option<u64>)| {
        load(
            runs,
            &cpu.map(|cpu| format!("cpu={cpu}m")).unwrap_or_default(),
            most,
        )
    };
    prop::collection::vec(one.prop_map(load), 1..8)
}

proptest! {
    /// More room never makes a cluster lose, and one run more never makes it win.
    #[test]
    fn a_choice_stays_when_the_chosen_cluster_gets_more_room(loads in loads(), more in 1_u64..9000) {
        // The size of a cluster of which nobody says it is taken from the others.
        let loads: Vec<Load> = loads.into_iter().filter(|load| !load.room.is_unknown()).collect();
        prop_assume!(!loads.is_empty());
        let best = chosen(&loads);
        let mut larger = loads.clone();
        larger[best].room.size.add(&amounts(&format!("cpu={more}m")));
        larger[best].room.runs = larger[best].room.runs.map(|most| most + more);
        prop_assert_eq!(chosen(&larger), best);
        for other in (0..loads.len()).filter(|other| *other != best) {
            let mut fuller = loads.clone();
            fuller[other].reserve(&Arc::new(amounts("cpu=1")));
            prop_assert_eq!(chosen(&fuller), best);
        }
    }

    /// The comparison is an order, so the result does not depend on the sequence of comparisons, and
    /// a cluster that cannot run the Workflow changes nothing.
    #[test]
    fn the_order_of_the_clusters_and_those_that_are_unfit_change_nothing(loads in loads(), turn in 0_usize..8) {
        let demand = pod("cpu=1m,gpu=1");
        let fitting: Vec<Load> = loads.into_iter().map(|mut load| {
            load.room.size.add(&amounts("gpu=100000"));
            load
        }).collect();
        let runs = |loads: &[Load]| {
            let (best, has_room) = chosen_for(&demand, loads).unwrap();
            let rank = Rank::of(&loads[best], &name(best), Candidate::new(&demand, None), None);
            let share = rank.share.map(|(taken, size)| taken * 1_000_000 / size.max(1));
            (rank.last, share, rank.runs, has_room)
        };
        let mut turned = fitting.clone();
        turned.rotate_left(turn % fitting.len());
        turned.push(load(0, "cpu=100", None));
        prop_assert_eq!(runs(&turned), runs(&fitting));
    }

    /// The choice looks at the fitness of few clusters, and at the loads in their order. It is the
    /// choice of whoever looks at everything.
    #[test]
    fn the_choice_is_that_of_a_full_comparison(
        loads in loads(), gpus in prop::collection::vec(0_u64..3, 8), skipped in prop::collection::vec(any::<bool>(), 8), turn in 0_usize..8
    ) {
        let demand = pod("cpu=1m,gpu=1");
        let candidate = Candidate::new(&demand, None);
        let sized = loads.into_iter().zip(gpus).map(|(mut load, gpus)| {
            if !load.room.is_unknown() {
                load.room.size.set("gpu", gpus);
            }
            load
        });
        let loads: Loads = sized.enumerate().map(|(number, load)| (name(number), load)).collect();
        let mut names: Vec<ClusterName> = (0..9).map(name).collect();
        let mut skipped = skipped.into_iter();
        names.retain(|_| !skipped.next().unwrap_or(false));
        let middle = turn % names.len().max(1);
        names.rotate_left(middle);
        let nothing = Load::default();
        let load = |cluster: &ClusterName| loads.get(cluster).unwrap_or(&nothing);
        let fit: Vec<&ClusterName> = names.iter().filter(|name| load(name).unfit(&demand).is_none()).collect();
        let rooms = fit.iter().map(|name| &load(name).room).filter(|room| !room.is_unknown());
        let unknown = rooms.filter(|room| room.size.get(CPU) != Some(0)).min_by_key(|room| room.size.get(CPU).unwrap_or(u64::MAX));
        let rank = |name: &ClusterName| {
            Rank::of(load(name), name, candidate, unknown.filter(|_| load(name).room.is_unknown()))
        };
        let mut ordered = fit;
        ordered.sort_by(|one, other| rank(one).compare(rank(other)));
        let expected = ordered.first().map(|best| Best {
            cluster: best,
            next: ordered.get(1).copied(),
            left: rank(best).left(),
        });
        prop_assert_eq!(best(names.iter(), &loads, candidate), expected);
        let order = order(names.iter(), &loads, candidate);
        prop_assert_eq!(order.iter().map(|one| one.cluster).collect::<Vec<_>>(), ordered);
        prop_assert_eq!(order.first().map(|first| first.left), expected.map(|best| best.left));
    }
}

#[test]
fn a_cluster_that_is_drawn_is_any_of_those_that_admit_the_workflow_and_no_other() {
    let demand = pod("cpu=2");
    let all = [
        load(0, "cpu=8", None),
        load(3, "cpu=8", None),
        load(0, "cpu=1", None),
        load(2, "cpu=8", 2),
        load(0, "cpu=2", None),
    ];
    // The third cluster is too small. Without those that have room, the one without a further run is left.
    for (clusters, expected, left) in [
        (0..5, vec!["0000", "0001", "0004"], Left::Enough),
        (2..4, vec!["0003"], Left::NoRun),
    ] {
        let loads: Loads = clusters
            .map(|number| (name(number), all[number].clone()))
            .collect();
        let draw = |number| {
            let candidate = Candidate {
                demand: &demand,
                own: None,
                drawn: Some(number),
            };
            let best = best(loads.keys(), &loads, candidate).unwrap();
            assert_eq!(best.left, left);
            best.cluster.to_string()
        };
        let drawn: std::collections::BTreeSet<String> = (0..64).map(draw).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), expected);
    }
}

#[test]
fn up_to_a_hundred_clusters_that_can_run_a_workflow_are_counted() {
    for (fit, expected) in [
        (1, "1"),
        (100, "100"),
        (101, "more than 100"),
        (300, "more than 100"),
    ] {
        let sizes = (0..fit).map(|_| "cpu=4,gpu=1").chain(["cpu=4"; 3]);
        let loads: Loads = sizes
            .enumerate()
            .map(|(number, size)| (name(number), load(0, size, None)))
            .collect();
        assert_eq!(count_fit(loads.keys(), &loads, &pod("cpu=1,gpu=1")), expected);
    }
}
