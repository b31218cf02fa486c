//! Checks of the Deployments of the control cluster: Argosy's controller, and the
//! workflow-controller of its own Argo.

use argosy_api::names;
use argosy_core::{Failure, model::cluster_info::deployed_version};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, Client, ResourceExt};

use super::{super::version::VERSION, finding::Judgment};
use crate::runtime::requests::{call, found};

/// Returns the controller's Deployment, if there is one.
pub(super) async fn controller(wds: &Client, namespace: &str) -> Result<Option<Deployment>, Failure> {
    let api: Api<Deployment> = Api::namespaced(wds.clone(), namespace);
    found(call(api.get(names::CONTROLLER_DEPLOYMENT)).await)
}

/// Checks Argosy's controller.
pub(super) async fn check_controller(wds: &Client, namespace: &str) -> Judgment {
    match controller(wds, namespace).await {
        Ok(deployment) => judge_controller(deployment.as_ref(), namespace, VERSION),
        Err(failure) => Judgment::unasked("read the controller's Deployment", &failure),
    }
}

fn judge_controller(deployment: Option<&Deployment>, namespace: &str, ours: &str) -> Judgment {
    let name = names::CONTROLLER_DEPLOYMENT;
    let Some(deployment) = deployment else {
        return Judgment::failed(
            format!("there is no Deployment {namespace}/{name}"),
            "install the chart argosy, or set the controller's namespace with --namespace",
        );
    };
    if ready(deployment) == 0 {
        return Judgment::failed(
            format!("Deployment {namespace}/{name} has no ready pod"),
            format!(
                "kubectl --namespace {namespace} describe pods; kubectl --namespace {namespace} logs deployment/{name}"
            ),
        );
    }
    match deployed_version(deployment) {
        Some(theirs) if !is_build_of(&theirs, ours) => Judgment::warning(
            format!("the controller is ready, but has version {theirs}; this command has version {ours}"),
            "use the argosy command of the controller's version, or upgrade the chart argosy",
        ),
        Some(theirs) => Judgment::ok(format!("the controller is ready, version {theirs}")),
        None => Judgment::ok(
            "the controller is ready; its version is unknown, because the tag of its image \
            is not a version",
        ),
    }
}

/// Returns true if a version is `ours`, or a build of it (`0.1.0-1a2b3c`).
fn is_build_of(version: &str, ours: &str) -> bool {
    let version = version.trim_start_matches('v');
    version.split(['-', '+']).next() == Some(ours)
}

/// Returns true if the controller's flags enable the webhook.
pub(super) fn wants_webhook(deployment: &Deployment) -> bool {
    has_flag(deployment, |flag| {
        ["--webhook-service", "--webhook-url"].contains(&flag)
    })
}

/// Returns true if the controller's flags enable virtual Nodes.
pub(super) fn wants_nodes(deployment: &Deployment) -> bool {
    has_flag(deployment, |flag| flag == "--nodes")
}

fn has_flag(deployment: &Deployment, is_it: impl Fn(&str) -> bool) -> bool {
    let pods = deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.template.spec.as_ref());
    let mut arguments = pods
        .into_iter()
        .flat_map(|pods| &pods.containers)
        .filter_map(|container| container.args.as_ref())
        .flatten();
    arguments.any(|argument| is_it(argument.split('=').next().unwrap_or_default()))
}

/// Returns the Deployment of the workflow-controller, if there is one.
pub(super) async fn workflow_controller(
    wds: &Client,
    namespace: &str,
) -> Result<Option<Deployment>, Failure> {
    let api: Api<Deployment> = Api::namespaced(wds.clone(), namespace);
    for name in names::ARGO_DEPLOYMENTS {
        if let Some(deployment) = found(call(api.get(name)).await)? {
            return Ok(Some(deployment));
        }
    }
    Ok(None)
}

/// Checks the workflow-controller. Without one, the control cluster runs no Workflows itself.
pub(super) async fn check_argo(wds: &Client, namespace: &str) -> Judgment {
    match workflow_controller(wds, namespace).await {
        Ok(Some(deployment)) => judge_argo(&deployment, namespace),
        Ok(None) => Judgment::skipped(format!(
            "there is no workflow-controller in namespace {namespace}, so the control cluster itself runs no \
            Workflows"
        )),
        Err(failure) => Judgment::unasked("read the workflow-controller's Deployment", &failure),
    }
}

fn judge_argo(deployment: &Deployment, namespace: &str) -> Judgment {
    let name = deployment.name_any();
    let version = deployed_version(deployment).unwrap_or_else(|| "of unknown version".to_owned());
    let wanted = deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.replicas)
        .unwrap_or(1);
    if wanted == 0 {
        return Judgment::skipped(format!("Deployment {namespace}/{name} is scaled to 0"));
    }
    if ready(deployment) == 0 {
        return Judgment::warning(
            format!(
                "Deployment {namespace}/{name} has no ready pod; Workflows on other clusters do not need it"
            ),
            format!("kubectl --namespace {namespace} logs deployment/{name}"),
        );
    }
    Judgment::ok(format!("the local workflow-controller is ready, {version}"))
}

/// Returns the number of ready pods.
pub(super) fn ready(deployment: &Deployment) -> i32 {
    let status = deployment.status.as_ref();
    status
        .and_then(|status| status.ready_replicas)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::finding::Outcome, *};

    fn deployment(tag: &str, ready: i32, replicas: i32, args: &[&str]) -> Deployment {
        serde_json::from_value(json!({
            "metadata": { "name": "argosy-controller" },
            "spec": { "replicas": replicas, "selector": {}, "template": { "spec": { "containers": [
                { "name": "controller", "image": format!("localhost/argosy:{tag}"), "args": args },
            ] } } },
            "status": { "readyReplicas": ready },
        }))
        .unwrap()
    }

    #[test]
    fn a_controller_is_there_ready_and_of_our_version_or_it_is_said() {
        let judge = |deployment: Option<&Deployment>| judge_controller(deployment, "argosy", "0.1.0");
        assert_eq!(judge(None).outcome, Outcome::Failed);
        assert_eq!(
            judge(Some(&deployment("0.1.0", 0, 1, &[]))).outcome,
            Outcome::Failed
        );
        let other = judge(Some(&deployment("v0.2.0", 1, 1, &[])));
        assert_eq!(other.outcome, Outcome::Warning);
        assert!(other.message.contains("version v0.2.0"), "{other:?}");
        for tag in ["0.1.0", "v0.1.0", "0.1.0-1a2b3c", "latest"] {
            assert_eq!(
                judge(Some(&deployment(tag, 1, 1, &[]))).outcome,
                Outcome::Ok,
                "{tag}"
            );
        }
    }

    #[test]
    fn a_local_argo_that_is_down_is_no_failure() {
        assert_eq!(
            judge_argo(&deployment("v3.7.15", 1, 1, &[]), "argo").outcome,
            Outcome::Ok
        );
        assert_eq!(
            judge_argo(&deployment("v3.7.15", 0, 1, &[]), "argo").outcome,
            Outcome::Warning
        );
        assert_eq!(
            judge_argo(&deployment("v3.7.15", 0, 0, &[]), "argo").outcome,
            Outcome::Skipped
        );
    }

    #[test]
    fn the_flags_of_a_controller_say_whether_it_serves_a_webhook() {
        assert!(wants_webhook(&deployment(
            "a",
            1,
            1,
            &["--wds-name=wds1", "--webhook-service=argosy/argosy-controller"]
        )));
        assert!(!wants_webhook(&deployment("a", 1, 1, &["--wds-name=wds1"])));
    }
}
