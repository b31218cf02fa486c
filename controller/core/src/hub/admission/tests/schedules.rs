//! The warning about CronWorkflows whose Workflows no policy selects.

use super::*;
use crate::policy::Labels;

fn labels(labels: &[(&str, &str)]) -> Labels {
    let owned = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    owned.collect()
}

/// Policies for objects of any kind: by label, by two labels, for CronWorkflows alone, one that
/// sends copies, and one for Workflows alone.
fn schedules() -> Admission {
    let any = json!([{}]);
    let by = |labels: Value| json!({ "objectSelectors": [{ "matchLabels": labels }] });
    let of = |name: &str, clause: Value, annotations: Value| -> (String, std::sync::Arc<Rules>) {
        let policy = json!({
            "metadata": { "name": name, "annotations": annotations },
            "spec": { "clusterSelectors": any, "downsync": [clause] },
        });
        let policy: BindingPolicy = serde_json::from_value(policy).unwrap();
        (name.to_owned(), Rules::compile(&policy, &mut Vec::new()).into())
    };
    let mut crons = by(json!({ "only": "crons" }));
    crons["resources"] = json!(["cronworkflows"]);
    let mut runs = by(json!({ "run": "anywhere" }));
    runs["resources"] = json!(["workflows"]);
    let policies = [
        of(
            "a",
            by(json!({ "kubestellar.io/cluster": "cluster1" })),
            json!({}),
        ),
        of("b", by(json!({ "app": "x", "tier": "y" })), json!({})),
        of("c", crons, json!({})),
        of(
            "d",
            by(json!({ "each": "cluster" })),
            json!({ "argosy.dev/cron": "each-cluster" }),
        ),
        of("e", runs, json!({})),
    ];
    let none = std::iter::empty();
    Admission {
        table: Table::of(policies.into_iter(), none),
        ..Admission::default()
    }
}

#[track_caller]
fn warning(own: &[(&str, &str)], of_workflows: &[(&str, &str)]) -> Option<String> {
    let answer = schedules().review_schedule(&Schedule {
        namespace: "argo".to_owned(),
        name: "nightly".to_owned(),
        labels: labels(own),
        of_workflows: labels(of_workflows),
    });
    assert_eq!(answer.patch, Vec::<Value>::new());
    assert!(answer.warnings.len() <= 1);
    answer.warnings.into_iter().next()
}

#[test]
fn a_schedule_whose_workflows_nobody_selects_gets_a_warning_with_the_label() {
    const HERE: &str = "selects this CronWorkflow, but no policy selects the Workflows that it creates, so they run on the control cluster; ";
    let on_one = ("kubestellar.io/cluster", "cluster1");
    for (own, of_workflows, expected) in [
        (
            &[on_one, ("other", "label")][..],
            &[][..],
            Some((
                "a",
                r#"add kubestellar.io/cluster: "cluster1" to spec.workflowMetadata.labels"#,
            )),
        ),
        (&[on_one], &[on_one], None),
        (&[on_one], &[("run", "anywhere")], None),
        (
            &[on_one],
            &[("kubestellar.io/cluster", "cluster2")],
            Some((
                "a",
                r#"add kubestellar.io/cluster: "cluster1" to spec.workflowMetadata.labels"#,
            )),
        ),
        (
            &[("app", "x"), ("tier", "y")],
            &[("app", "x")],
            Some(("b", r#"add tier: "y" to spec.workflowMetadata.labels"#)),
        ),
        (
            &[("only", "crons")],
            &[],
            Some((
                "c",
                "add a label by which a policy selects Workflows to spec.workflowMetadata.labels",
            )),
        ),
        (&[("each", "cluster")], &[], None),
        (&[("nobody", "selects")], &[], None),
        (&[], &[on_one], None),
    ] {
        let expected = expected.map(|(name, fix)| format!("argosy: BindingPolicy {name} {HERE}{fix}"));
        assert_eq!(warning(own, of_workflows), expected, "{own:?} {of_workflows:?}");
    }
}

#[test]
fn a_policy_for_argos_own_label_of_a_cron_workflow_selects_its_workflows() {
    let clause = json!({ "objectSelectors": [{ "matchLabels": { "workflows.argoproj.io/cron-workflow": "nightly" } }] });
    let policy = json!({ "metadata": { "name": "p" }, "spec": { "clusterSelectors": [{}], "downsync": [
        clause, { "resources": ["cronworkflows"], "objectNames": ["nightly"] },
    ] } });
    let policy: BindingPolicy = serde_json::from_value(policy).unwrap();
    let rules = Rules::compile(&policy, &mut Vec::new()).into();
    let admission = Admission {
        table: Table::of([("p".to_owned(), rules)].into_iter(), std::iter::empty()),
        ..Admission::default()
    };
    let schedule = |name: &str| Schedule {
        namespace: "argo".to_owned(),
        name: name.to_owned(),
        ..Schedule::default()
    };
    let warnings = |name: &str| admission.review_schedule(&schedule(name)).warnings;
    assert_eq!(warnings("nightly"), Vec::<String>::new());
}

#[test]
fn long_and_odd_names_are_shortened_in_the_warning() {
    let long = "x".repeat(10_000);
    let said = warning(&[("app", "x"), ("tier", "y"), ("\u{202e}", &long)], &[]).unwrap();
    assert!(said.len() < 1000, "{said}");
}
