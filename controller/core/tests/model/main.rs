//! The controller and its agents in a closed loop over model API servers, under scripts of faults,
//! users and Argo.
//!
//! The promises are checked at every write ([`ledger`]) and after everything has come to rest
//! ([`checks`]). A failing script is shrunken and printed. It then becomes a regression test in
//! [`kept`].

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::too_many_lines,
    reason = "a model that breaks is a test that fails"
)]

mod actor;
mod agent_process;
mod api_server;
mod argo;
mod checks;
mod copies;
mod ends;
mod faults;
mod gate;
mod hub_process;
mod kept;
mod ledger;
mod lies;
mod rebuilt;
mod removal;
mod reruns;
mod runs;
mod script;
mod servers;
mod shadows;
mod silence;
mod strategy;
mod users;
mod watch;
mod world;

use std::{
    io::{Write as _, stderr},
    process::exit,
};

use proptest::{
    prelude::ProptestConfig,
    test_runner::{RngAlgorithm, RngSeed, TestError, TestRunner},
};
use script::{Step, UserStep};
use strategy::{Theme, scripts};
use world::World;

/// The number of tests that draw scripts.
const TESTS: u32 = 14;

fn run(is_guarded: bool, script: &[Step]) {
    play(World::new(is_guarded), script);
}

fn play(mut world: World, script: &[Step]) {
    for step in script {
        world.step(step);
    }
    silence::check_told(&mut world);
    world.settle();
    checks::at_rest(&world);
    checks::let_all_end(&mut world);
    checks::at_rest(&world);
    for number in 0..3 {
        world.user(number, UserStep::Delete);
    }
    world.settle();
    checks::after_deletion(&mut world);
}

fn setting(name: &str, default: u32) -> u32 {
    std::env::var(name).map_or(default, |text| text.parse().expect("is a number"))
}

/// Ends the process with all tests that are under way: one failing script is enough to detect a
/// mutation.
fn end(told: &str) -> ! {
    // The failure is the same if its report cannot be written.
    let _ = writeln!(stderr(), "{told}");
    exit(101)
}

/// Scripts of all tests together if `ARGOSY_MODEL_SCRIPTS` is not set. `scripts/test.sh --all` sets
/// it to the number that it takes to detect every mutation.
const SCRIPTS: u32 = 2_002;

/// Runs this test's share of the scripts, drawn from `ARGOSY_MODEL_SEED`. The default seed is
/// fixed.
///
/// Every second script, by its length, runs with a controller that draws clusters: that a Workflow runs
/// once must not depend on the cluster that is chosen.
fn explore(is_guarded: bool, theme: Theme) {
    let seed = setting("ARGOSY_MODEL_SEED", 1);
    let config = ProptestConfig {
        cases: setting("ARGOSY_MODEL_SCRIPTS", SCRIPTS) / TESTS,
        failure_persistence: None,
        rng_algorithm: RngAlgorithm::XorShift,
        rng_seed: RngSeed::Fixed(u64::from(seed)),
        ..ProptestConfig::default()
    };
    let outcome = TestRunner::new(config).run(&scripts(theme), |script| {
        if draws_clusters(&script) {
            play(World::drawing(is_guarded), &script);
        } else {
            run(is_guarded, &script);
        }
        Ok(())
    });
    if let Err(TestError::Fail(why, script)) = outcome {
        let told = format!(
            "Failed with seed {seed}: {why}\nThe shrunken script, for kept.rs (guarded: {is_guarded}, drawing: {}): {script:?}",
            draws_clusters(&script)
        );
        if setting("ARGOSY_MODEL_FAIL_FAST", 0) != 0 {
            end(&told);
        }
        panic!("{told}");
    }
}

fn draws_clusters(script: &[Step]) -> bool {
    !script.len().is_multiple_of(2)
}

#[test]
fn unguarded_every_workflow_runs_once_and_is_shown_whatever_is_lost_late_or_restarted() {
    explore(
        false,
        Theme {
            ailing: true,
            ..Theme::default()
        },
    );
}

#[test]
fn unguarded_no_workflow_runs_twice_even_where_somebody_deletes_what_is_not_theirs() {
    explore(
        false,
        Theme {
            tampering: true,
            second_agents: true,
            ..Theme::default()
        },
    );
}

#[test]
fn guarded_every_workflow_runs_once_and_every_verb_is_carried_out_once() {
    explore(
        true,
        Theme {
            ailing: true,
            ..Theme::default()
        },
    );
}

#[test]
fn guarded_two_agents_of_one_cluster_start_and_control_a_run_once() {
    explore(
        true,
        Theme {
            second_agents: true,
            ..Theme::default()
        },
    );
}

#[test]
fn guarded_no_workflow_runs_twice_even_where_somebody_deletes_what_is_not_theirs() {
    explore(
        true,
        Theme {
            tampering: true,
            ..Theme::default()
        },
    );
}

#[test]
fn guarded_no_attempt_starts_twice_even_where_a_backup_is_put_back() {
    explore(
        true,
        Theme {
            restoring: true,
            second_agents: true,
            ..Theme::default()
        },
    );
}

#[test]
fn guarded_what_starts_anew_because_its_cluster_is_lost_starts_there_no_more() {
    explore(
        true,
        Theme {
            reruns: true,
            ..Theme::default()
        },
    );
}

#[test]
fn guarded_no_workflow_runs_twice_and_none_is_stuck_where_clusters_are_removed() {
    explore(
        true,
        Theme {
            removing: true,
            ..Theme::default()
        },
    );
}

#[test]
fn guarded_what_started_on_a_cluster_or_from_a_mailbox_that_is_no_more_starts_there_no_more() {
    explore(
        true,
        Theme {
            rebuilding: true,
            ..Theme::default()
        },
    );
}

#[test]
fn unguarded_nobody_but_argosy_says_where_a_workflow_runs() {
    explore(
        false,
        Theme {
            forging: true,
            ..Theme::default()
        },
    );
}

#[test]
fn guarded_nobody_but_argosy_says_where_a_workflow_runs() {
    explore(
        true,
        Theme {
            forging: true,
            ..Theme::default()
        },
    );
}

#[test]
fn guarded_a_member_that_lies_lies_about_its_own_runs_and_about_nothing_else() {
    explore(
        true,
        Theme {
            lying: true,
            ..Theme::default()
        },
    );
}

#[test]
fn unguarded_a_workflow_for_every_cluster_runs_once_on_each_and_is_the_sum_of_its_runs() {
    explore(
        false,
        Theme {
            everywhere: true,
            ..Theme::default()
        },
    );
}

#[test]
fn guarded_a_workflow_for_every_cluster_runs_once_on_each_and_is_the_sum_of_its_runs() {
    explore(
        true,
        Theme {
            everywhere: true,
            ..Theme::default()
        },
    );
}
