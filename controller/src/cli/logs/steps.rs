//! The steps of a run, and the location of their logs. Pure.
//!
//! Argo keeps the log of a container as an output artifact of its node, named after the container
//! (`main-logs`), if `archiveLogs` is set and the node has ended
//! (`docs/configure-archive-logs.md`).

use argosy_api::{Workflow, names, workflow};
use argosy_core::model::{claim::Claim, control::Nodes};
use kube::ResourceExt;
use serde_json::Value;

/// A step that runs or ran in a pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    /// Argo's node ID.
    pub(super) id: String,
    /// Prefix of its lines: its name as in `argo get`, or its path in the Workflow if several steps
    /// have the same name.
    pub(super) shown: String,
    /// Argo's phase; empty before the start.
    pub(super) phase: String,
    /// Location of the log of the requested container.
    pub(super) log: Option<Place>,
    /// Containers whose log was kept.
    pub(super) containers: Vec<String>,
    path: String,
    display: String,
    template: String,
    full: String,
    started: String,
}

/// Location of an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    /// Bucket, if it is not the repository's.
    pub(super) bucket: Option<String>,
    /// Key in the bucket; empty if the artifact is not in S3.
    pub(super) key: String,
}

impl Step {
    /// Returns true if the step has ended.
    pub(super) fn has_ended(&self) -> bool {
        matches!(
            self.phase.as_str(),
            "Succeeded" | "Failed" | "Error" | "Skipped" | "Omitted"
        )
    }

    /// Returns true if the step never had a pod.
    pub(super) fn was_left_out(&self) -> bool {
        matches!(self.phase.as_str(), "Skipped" | "Omitted")
    }

    fn is_called(&self, name: &str) -> bool {
        [&self.display, &self.path, &self.full, &self.id, &self.template]
            .iter()
            .any(|known| *known == name)
    }
}

/// Returns the steps of a run in the order of their starts, with the logs of `container`; `None` if
/// Argo keeps the nodes in a database. `name` selects steps by their displayed name, path, ID or
/// template.
pub(super) fn steps(workflow: &Workflow, container: &str, name: Option<&str>) -> Option<Vec<Step>> {
    let Some(status) = &workflow.status else {
        return Some(Vec::new());
    };
    let nodes = Nodes::of(status)?;
    let is_pod = |node: &Value| node.get("type").and_then(Value::as_str) == Some("Pod");
    let mut steps: Vec<Step> = nodes
        .ids()
        .filter_map(|id| nodes.get(id))
        .filter(|node| is_pod(node))
        .map(|node| step(&workflow.name_any(), &node, container))
        .collect();
    steps.retain(|step| name.is_none_or(|name| step.is_called(name)));
    steps.sort_by(|one, other| (&one.started, &one.full).cmp(&(&other.started, &other.full)));
    let shown: Vec<String> = steps.iter().map(|step| step.shown.clone()).collect();
    for step in &mut steps {
        if shown.iter().filter(|name| **name == step.shown).count() > 1 {
            step.shown.clone_from(&step.path);
        }
    }
    Some(steps)
}

fn step(workflow: &str, node: &Value, container: &str) -> Step {
    let text = |field: &str| text(node, field).to_owned();
    let full = text("name");
    let artifacts = || {
        let artifacts = node.pointer("/outputs/artifacts").and_then(Value::as_array);
        artifacts.into_iter().flatten().filter_map(|artifact| {
            let container = artifact.get("name")?.as_str()?.strip_suffix("-logs")?;
            Some((container.to_owned(), artifact))
        })
    };
    let wanted = artifacts().find(|(known, _)| known == container);
    // The only step of a Workflow without steps has the Workflow's name.
    let path = full
        .strip_prefix(workflow)
        .unwrap_or(&full)
        .trim_start_matches('.');
    Step {
        id: text("id"),
        shown: text("displayName"),
        phase: text("phase"),
        log: wanted.map(|(_, artifact)| place(artifact)),
        containers: artifacts().map(|(container, _)| container).collect(),
        path: if path.is_empty() { workflow } else { path }.to_owned(),
        display: text("displayName"),
        template: text("templateName"),
        started: text("startedAt"),
        full,
    }
}

fn place(artifact: &Value) -> Place {
    let s3 = artifact.get("s3").unwrap_or(&Value::Null);
    Place {
        bucket: Some(text(s3, "bucket").to_owned()).filter(|bucket| !bucket.is_empty()),
        key: text(s3, "key").to_owned(),
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a hint on reading the logs of running steps.
pub(super) fn where_live(workflow: &Workflow, running: &[&Step], container: &str) -> String {
    let steps: Vec<&str> = running.iter().map(|step| step.shown.as_str()).collect();
    let (name, namespace) = (workflow.name_any(), workflow.namespace().unwrap_or_default());
    let (condition, with) = match Claim::of(&workflow.metadata) {
        Some(claim) => (
            " if the control cluster has virtual Nodes",
            format!(" with a kubeconfig of {}", claim.cluster),
        ),
        None => ("", String::new()),
    };
    format!(
        "these steps have not ended: {}; argosy logs -f {name} -n {namespace} prints their logs while they \
         run{condition}, and so does{with}: kubectl logs --namespace {namespace} --selector {}={name} \
         --container {container} --prefix --follow",
        steps.join(", "),
        names::ARGO_WORKFLOW_LABEL,
    )
}

/// Returns the reason that no log of the run was kept, as far as the Workflow shows it.
pub(super) fn why_none(workflow: &Workflow) -> String {
    let asked = workflow.spec.get("archiveLogs").and_then(Value::as_bool);
    let status = workflow.status.as_ref();
    let repository = status.and_then(|status| status.pointer("/artifactRepositoryRef/artifactRepository"));
    let kept = repository.map(|repository| repository.get("archiveLogs") == Some(&Value::Bool(true)));
    if asked == Some(false) {
        return "spec.archiveLogs of the Workflow is false".to_owned();
    }
    let how = "set spec.archiveLogs: true in the Workflow, annotate its BindingPolicy with argosy.dev/archive-logs: \"true\", or set \
               archiveLogs: true in the artifactRepository of its cluster's Argo";
    match (asked, kept) {
        (None, Some(false)) => format!("archiving of logs is not enabled; {how}"),
        (None, None) => format!("archiving of logs seems not to be enabled; {how}"),
        _ if !workflow::is_final(workflow::phase(status)) => {
            "Argo archives the log of a step when the step has ended".to_owned()
        }
        _ => {
            "archiving of logs is enabled, but Argo has archived none; the messages of the steps (argo get) \
            may have the reason"
                .to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(nodes: &Value) -> Workflow {
        serde_json::from_value(json!({
            "metadata": { "name": "hello", "namespace": "argo" },
            "status": { "phase": "Running", "nodes": nodes },
        }))
        .unwrap()
    }

    fn node(name: &str, display: &str, started: &str, artifacts: &Value) -> Value {
        json!({
            "id": format!("id-of-{name}"), "name": name, "displayName": display, "templateName": "work", "type": "Pod",
            "phase": "Succeeded", "startedAt": started, "outputs": { "artifacts": artifacts },
        })
    }

    fn log(key: &str) -> Value {
        json!([{ "name": "main-logs", "s3": { "key": key } }, { "name": "result", "s3": { "key": "other" } }])
    }

    fn shown(steps: &[Step]) -> Vec<&str> {
        steps.iter().map(|step| step.shown.as_str()).collect()
    }

    #[test]
    fn a_step_that_runs_is_read_with_follow_or_on_its_cluster() {
        let claim = Claim::new(&"cluster1".into(), 1).to_annotation("u1");
        let mut workflow: Workflow = serde_json::from_value(json!({
            "metadata": { "namespace": "argo", "name": "hello", "uid": "u1", "annotations": { names::CLAIM_ANNOTATION: claim } },
            "status": { "nodes": { "a": { "type": "Pod", "name": "hello.a", "displayName": "a", "phase": "Running" } } },
        }))
        .unwrap();
        let running = steps(&workflow, "main", None).unwrap();
        let said = where_live(&workflow, &running.iter().collect::<Vec<_>>(), "main");
        for part in [
            "have not ended: a; argosy logs -f hello -n argo prints their logs while they run if the control",
            "and so does with a kubeconfig of cluster1: kubectl logs --namespace argo",
        ] {
            assert!(said.contains(part), "{said}");
        }
        workflow.metadata.annotations = None;
        let said = where_live(&workflow, &[], "main");
        assert!(
            said.contains("while they run, and so does: kubectl logs"),
            "{said}"
        );
    }

    #[test]
    fn steps_come_in_the_order_of_their_starts_and_say_where_their_logs_are() {
        let run = run(&json!({
            "hello": { "type": "DAG", "name": "hello" },
            "a": node("hello.second", "second", "2026-01-01T00:00:02Z", &log("k2")),
            "b": node("hello.first", "first", "2026-01-01T00:00:01Z", &log("k1")),
        }));
        let steps = steps(&run, "main", None).unwrap();
        assert_eq!(shown(&steps), ["first", "second"]);
        let place = Place {
            bucket: None,
            key: "k1".to_owned(),
        };
        assert_eq!(steps[0].log, Some(place));
        assert_eq!(steps[0].containers, ["main"]);
    }

    #[test]
    fn steps_that_are_called_alike_are_shown_with_their_paths() {
        let run = run(&json!({
            "a": node("hello[0].work(0:x)", "work", "", &json!([])),
            "b": node("hello.left.work", "work", "", &json!([])),
            "c": node("hello", "hello", "", &json!([])),
        }));
        let all = steps(&run, "main", None).unwrap();
        assert_eq!(shown(&all), ["hello", "left.work", "[0].work(0:x)"]);
        for (name, expected) in [
            ("left.work", vec!["work"]),
            ("id-of-hello.left.work", vec!["work"]),
            ("hello", vec!["hello"]),
            ("nobody", vec![]),
        ] {
            assert_eq!(
                shown(&steps(&run, "main", Some(name)).unwrap()),
                expected,
                "{name}"
            );
        }
        assert_eq!(
            steps(&run, "main", Some("work")).unwrap().len(),
            3,
            "by the template"
        );
    }

    #[test]
    fn the_log_of_another_container_is_found_by_its_name_and_a_foreign_bucket_is_told() {
        let artifacts = json!([{ "name": "sidecar-logs", "s3": { "key": "k", "bucket": "other" } }]);
        let run = run(&json!({ "a": node("hello", "hello", "", &artifacts) }));
        let main = &steps(&run, "main", None).unwrap()[0];
        assert_eq!(
            (main.log.clone(), main.containers.clone()),
            (None, vec!["sidecar".to_owned()])
        );
        let place = Place {
            bucket: Some("other".to_owned()),
            key: "k".to_owned(),
        };
        assert_eq!(steps(&run, "sidecar", None).unwrap()[0].log, Some(place));
    }

    #[test]
    fn nodes_in_a_database_are_no_steps_and_a_run_that_has_not_begun_has_none() {
        let mut run = run(&json!({}));
        run.status = Some(json!({ "offloadNodeStatusVersion": "fnv:1" }));
        assert_eq!(steps(&run, "main", None), None);
        run.status = None;
        assert_eq!(steps(&run, "main", None), Some(Vec::new()));
    }

    #[test]
    fn why_there_is_no_log_is_read_from_who_was_to_ask_for_it() {
        let why = |spec: Value, status: Value| {
            let mut run = run(&json!({}));
            (run.spec, run.status) = (spec, Some(status));
            why_none(&run)
        };
        let by = |kept: bool| json!({ "artifactRepositoryRef": { "artifactRepository": { "archiveLogs": kept } }, "phase": "Failed" });
        let off = why(json!({ "archiveLogs": false }), by(true));
        assert_eq!(off, "spec.archiveLogs of the Workflow is false");
        assert!(
            why(json!({}), by(false))
                .starts_with("archiving of logs is not enabled; set spec.archiveLogs: true")
        );
        assert!(
            why(json!({}), json!({ "phase": "Failed" })).starts_with("archiving of logs seems not to be")
        );
        let running = why(json!({ "archiveLogs": true }), json!({ "phase": "Running" }));
        assert_eq!(running, "Argo archives the log of a step when the step has ended");
        assert!(why(json!({}), by(true)).starts_with(
            "archiving of logs is enabled, but Argo has archived \
            none"
        ));
    }
}
