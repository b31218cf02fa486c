//! Writes that nobody waits for, and reports that only show progress.

use std::time::Duration;

use super::*;
use crate::Priority;

const REPORTED: Priority = Priority::Low(Duration::from_secs(30));
const UNREPORTED: Priority = Priority::Low(Duration::from_secs(5));
const AT_ONCE: Priority = Priority::Low(Duration::ZERO);

impl Cluster {
    /// The kind of the next action, and its priority.
    fn next_step(&self) -> (&'static str, Priority) {
        let decision = self.agent.decide(&origin(), self.now);
        let action = decision.action.expect("something is to be done");
        (crate::Action::stage(&action), decision.priority)
    }

    /// Writes the report that is decided, which takes so many milliseconds.
    #[track_caller]
    fn tell(&mut self, took: i64) {
        let action = self.decide();
        let Some(action @ AgentAction::WriteStatus { .. }) = action else {
            panic!("expected a report, not {action:#?}");
        };
        self.agent.requested(&origin(), &action, self.now);
        self.now += SignedDuration::from_millis(took);
        let AgentAction::WriteStatus { status } = action else {
            return;
        };
        let status = Box::new(self.next(serde_json::to_value(*status).unwrap()));
        let input = AgentInput::work_status(Change::Apply(status));
        self.agent.succeeded(&origin(), input, self.now);
    }
}

fn progress(phase: &str, progress: &str) -> Value {
    with(object(1, phase), json!({ "status": { "progress": progress } }))
}

#[test]
fn conditions_record_and_finalizer_of_a_run_that_the_hub_knows_wait() {
    let mut cluster = Cluster::of(work(1));
    cluster.object(object(1, ""));
    assert_eq!(cluster.next_step(), ("conditions", UNREPORTED));
    cluster.object(object(1, "Running"));
    assert_eq!(cluster.next_step(), ("report", Priority::Normal));
    cluster.report();
    assert_eq!(cluster.next_step(), ("conditions", REPORTED));
    cluster.object(object(1, "Succeeded"));
    assert_eq!(cluster.next_step(), ("report", Priority::Normal));
    cluster.report();
    assert_eq!(cluster.next_step(), ("record", REPORTED));
    cluster.keep_record();
    assert_eq!(cluster.next_step(), ("let_go", AT_ONCE));
}

#[test]
fn on_demand_a_run_that_the_hub_knows_gets_no_conditions_unless_somebody_waits_for_them() {
    let mut cluster = Cluster::of(work(1));
    cluster.agent.config.conditions_on_demand = true;
    cluster.object(object(1, ""));
    assert_eq!(cluster.next_step(), ("conditions", UNREPORTED));
    cluster.object(object(1, "Running"));
    assert_eq!(cluster.next_step(), ("report", Priority::Normal));
    cluster.report();
    cluster.rests();
    cluster.object(object(1, "Succeeded"));
    cluster.report();
    cluster.keep_record();
    assert_eq!(cluster.next_step(), ("let_go", AT_ONCE));
    let withdrawn = json!({ "metadata": { "annotations": { "argosy.dev/withdraw": "1" } } });
    let mut cluster = Cluster::of(work(1));
    cluster.agent.config.conditions_on_demand = true;
    cluster.object(object(1, "Running"));
    cluster.report();
    cluster.rests();
    cluster.work(with(work(1), withdrawn));
    assert_eq!(cluster.next_step(), ("conditions", Priority::Normal));
}

#[test]
fn they_do_not_wait_if_somebody_waits_for_them() {
    let failed = json!({ "status": { "conditions": [{
        "type": "Applied", "status": "False", "reason": "NamespaceMissing", "message": "",
        "lastTransitionTime": "2026-11-21T09:00:00Z",
    }] } });
    for (work, object, expected) in [
        (asked_back(1), object(1, "Running"), "conditions"),
        (with(work(1), failed), object(1, "Running"), "conditions"),
        (work(1), deleting(object(1, "Succeeded")), "record"),
        (deleting(work(1)), deleting(object(1, "Succeeded")), "record"),
    ] {
        let mut cluster = Cluster::of(work);
        cluster.object(object);
        cluster.report();
        assert_eq!(cluster.next_step(), (expected, Priority::Normal));
    }
}

#[test]
fn a_condition_that_is_written_late_says_since_when_the_object_exists() {
    let mut cluster = Cluster::of(work(1));
    let created = json!({ "metadata": { "creationTimestamp": "2026-11-21T09:59:00Z" } });
    cluster.object(with(object(1, ""), created));
    let Some(AgentAction::Conditions { conditions, .. }) = cluster.decide() else {
        panic!("expected conditions");
    };
    for condition in conditions {
        assert_eq!(
            condition.last_transition_time.0.to_string(),
            "2026-11-21T09:59:00Z"
        );
    }
}

#[test]
fn a_report_of_mere_progress_waits_in_proportion_to_the_last_write_and_the_newest_is_sent() {
    for (took, pause) in [(25, 1000), (100, 2900)] {
        let mut cluster = Cluster::of(applied(1));
        cluster.object(progress("Running", "0/9"));
        cluster.tell(took);
        cluster.object(progress("Running", "1/9"));
        let end = cluster.now + SignedDuration::from_millis(pause);
        assert_eq!(
            cluster.agent.decide(&origin(), cluster.now),
            Decision::requeue_at(end)
        );
        cluster.wait_milliseconds(pause - 1);
        assert_eq!(cluster.decide(), None);
        cluster.object(progress("Running", "2/9"));
        assert_eq!(cluster.decide(), None);
        cluster.wait_milliseconds(1);
        cluster.tell(0);
        cluster.rests();
    }
}

#[test]
fn the_conditions_of_a_run_whose_status_changes_all_the_time_are_written() {
    let mut cluster = Cluster::of(work(1));
    cluster.object(progress("Running", "0/9"));
    cluster.tell(50);
    cluster.object(progress("Running", "1/9"));
    assert_eq!(cluster.next_step(), ("conditions", REPORTED));
}

#[test]
fn a_change_of_phase_an_end_and_the_answer_to_a_request_do_not_wait() {
    let carried_out = json!({ "metadata": { "annotations": { "argosy.dev/control": r#"{"verb":7}"# } } });
    let suspended = json!({ "spec": { "suspend": true } });
    for (before, after) in [
        ("Pending", object(1, "Running")),
        ("Running", object(1, "Succeeded")),
        ("Running", deleting(object(1, "Running"))),
        ("Running", with(object(1, "Running"), suspended)),
        ("Running", with(object(1, "Running"), carried_out)),
    ] {
        let mut cluster = Cluster::of(applied(1));
        cluster.object(object(1, before));
        cluster.tell(50);
        cluster.object(after.clone());
        assert!(
            matches!(cluster.decide(), Some(AgentAction::WriteStatus { .. })),
            "{before}: {after}"
        );
    }
}

#[test]
fn an_agent_that_has_just_started_reports_progress_at_once() {
    let mut cluster = Cluster::running("Running");
    cluster.object(progress("Running", "1/9"));
    assert!(matches!(cluster.decide(), Some(AgentAction::WriteStatus { .. })));
}
