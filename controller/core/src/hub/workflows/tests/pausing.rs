//! Pauses between the writes that only show the progress of a run.

use super::*;

impl Fleet {
    /// Shows the report, with a write that takes so many milliseconds.
    #[track_caller]
    pub(super) fn show(&mut self, object: Value, took: i64) {
        let subject = HubKey::Workflow(key());
        let action = self.decide().expect("a status is shown");
        self.hub.requested(&subject, &action, now());
        let HubAction::PatchWorkflow {
            patch,
            purpose: Purpose::Mirror,
            ..
        } = action
        else {
            panic!("expected a status, not {action:#?}");
        };
        let mut there = with(object, json!({ "metadata": { "resourceVersion": "" } }));
        json_patch::patch(&mut there, &read::<json_patch::Patch>(patch.to_value())).unwrap();
        let answer = HubInput::wrote(&patch, read(self.next(there)));
        self.hub.succeeded(&subject, answer, milliseconds(took));
    }

    /// The decision so many milliseconds later.
    pub(super) fn decide_at(&self, milliseconds_later: i64) -> Decision<HubAction> {
        self.hub
            .decide(&HubKey::Workflow(key()), milliseconds(milliseconds_later))
    }
}

pub(super) fn milliseconds(later: i64) -> Timestamp {
    now().saturating_add(SignedDuration::from_millis(later)).unwrap()
}

/// A fleet that shows attempt 1 as running, after a write that took so many milliseconds.
fn shown_within(took: i64) -> Fleet {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.work(started("cluster1", 1));
    fleet.report(report("cluster1", 1, json!({ "phase": "Running" })));
    fleet.show(claimed("cluster1", 1), took);
    fleet
}

fn shown() -> Fleet {
    shown_within(25)
}

#[test]
fn mere_progress_waits_in_proportion_to_the_last_write_and_a_second_after_its_start_at_most() {
    for (took, end) in [(10, 410), (25, 1000), (800, 1600)] {
        let mut fleet = shown_within(took);
        fleet.report(report(
            "cluster1",
            1,
            json!({ "phase": "Running", "progress": "1/2" }),
        ));
        let waiting = fleet.decide_at(took + 1);
        assert_eq!(
            (waiting.action, waiting.requeue_at),
            (None, Some(milliseconds(end))),
            "{took}"
        );
        assert!(fleet.decide_at(end - 1).action.is_none(), "{took}");
        assert!(fleet.decide_at(end).action.is_some(), "{took}");
    }
}

#[test]
fn a_new_phase_an_end_and_a_suspension_are_shown_at_once() {
    for (what, status, reported) in [
        ("a new phase", json!({ "phase": "Error" }), json!({})),
        (
            "an end",
            json!({ "phase": "Running", "progress": "1/2" }),
            json!({ "outcome": "Deleted" }),
        ),
        (
            "a suspension",
            json!({ "phase": "Running", "progress": "1/2" }),
            json!({ "isSuspended": true }),
        ),
    ] {
        let mut fleet = shown();
        let changed = report("cluster1", 1, status);
        fleet.report(with(changed, json!({ "reported": reported })));
        assert!(fleet.decide_at(26).action.is_some(), "{what}");
    }
}

#[test]
fn a_controller_that_has_just_started_shows_progress_at_once() {
    let running = json!({ "status": { "phase": "Running" } });
    let mut fleet = Fleet::of(with(claimed("cluster1", 1), running));
    fleet.work(started("cluster1", 1));
    fleet.report(report(
        "cluster1",
        1,
        json!({ "phase": "Running", "progress": "1/2" }),
    ));
    assert!(fleet.decide_at(0).action.is_some());
}
