//! `argosy events`: the Events of a run, from its cluster, through the API server, the controller and
//! the tunnel.

use anyhow::{Context, Result};
use argosy_api::names;
use argosy_tests::testenv::{admission::eventually, binaries::argosy, objects::create};
use k8s_openapi::api::{
    core::v1::{Event, Pod},
    rbac::v1::{Role, RoleBinding},
};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::kubelet::Lab;

/// Name of the pod of a tenant, and of the message about it.
const TENANTS: &str = "tenants";

impl Lab {
    async fn event(&self, kind: &str, name: &str, uid: &str, second: u8, message: &str) -> Result<()> {
        let namespace = &self.fixture.namespace;
        let event: Event = serde_json::from_value(json!({
            "metadata": { "name": message, "namespace": namespace },
            "involvedObject": { "kind": kind, "name": name, "namespace": namespace, "uid": uid },
            "type": "Warning", "reason": "Tested", "message": message, "count": 2,
            "source": { "component": "tests" },
            "lastTimestamp": format!("2026-01-01T00:00:0{second}Z"),
        }))?;
        create(&Api::namespaced(self.member.wec.clone(), namespace), &event).await?;
        Ok(())
    }

    /// Events of the run, of its pod, and of a tenant's pod in the same namespace.
    async fn events(&self) -> Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.member.wec.clone(), &self.fixture.namespace);
        let pod = pods.get(&self.shadow.name_any()).await?;
        let run = self.member.workflows().get("hello").await?;
        // It has the run's label, which anybody may write.
        let tenants: Pod = serde_json::from_value(json!({
            "metadata": { "name": TENANTS, "labels": { names::ARGO_WORKFLOW_LABEL: "hello" } },
            "spec": { "containers": [{ "name": "main", "image": "busybox:1.36" }] },
        }))?;
        let tenants = create(&pods, &tenants).await?;
        let uid = |uid: Option<String>| uid.context("no UID");
        self.event("Pod", &pod.name_any(), &uid(pod.uid())?, 2, "of-the-pod")
            .await?;
        self.event("Workflow", "hello", &uid(run.uid())?, 1, "of-the-run")
            .await?;
        // The name of the pod with another UID, and another pod.
        self.event("Pod", &pod.name_any(), &uid(tenants.uid())?, 3, TENANTS)
            .await?;
        self.event("Pod", TENANTS, &uid(tenants.uid())?, 3, "of-a-tenant")
            .await
    }

    /// Gives the right to read Workflows, and no other, to `user`. Returns its kubeconfig.
    async fn reader(&self, user: &str) -> Result<std::path::PathBuf> {
        let namespace = &self.fixture.namespace;
        let role: Role = serde_json::from_value(json!({
            "metadata": { "name": user },
            "rules": [{ "apiGroups": ["argoproj.io"], "resources": ["workflows"], "verbs": ["get"] }],
        }))?;
        create(&Api::namespaced(self.fixture.control.clone(), namespace), &role).await?;
        let binding: RoleBinding = serde_json::from_value(json!({
            "metadata": { "name": user },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user },
            "subjects": [{ "kind": "User", "name": user }],
        }))?;
        create(
            &Api::namespaced(self.fixture.control.clone(), namespace),
            &binding,
        )
        .await?;
        self.signing.env.control.kubeconfig_restricted(user)
    }
}

#[tokio::test]
async fn the_events_of_a_run_are_shown_and_no_others_and_only_to_those_who_may_reach_nodes() -> Result<()> {
    let lab = Lab::new("events-run").await?;
    lab.events().await?;
    let control = lab.signing.env.control.kubeconfig();
    let arguments = ["events", "hello", "--namespace", "events-run"];
    let mut shown = String::new();
    // Through the agent, whose tunnel may not be open yet.
    let waited = eventually("the agent answers", async || {
        let answer = argosy(control, &arguments).await?;
        shown = format!("{}{}", answer.output, answer.errors);
        Ok(answer.code == Some(0))
    });
    waited
        .await
        .with_context(|| format!("the last answer was: {shown}"))?;
    let lines: Vec<Vec<&str>> = shown
        .lines()
        .map(|line| line.split_whitespace().skip(1).collect())
        .collect();
    let pod = format!("pod/{}", lab.shadow.name_any());
    assert_eq!(lines.len(), 3, "{shown}");
    assert_eq!(lines[1], ["Warning", "Tested", "workflow/hello", "of-the-run"]);
    assert_eq!(lines[2], ["Warning", "Tested", &pod, "of-the-pod"]);

    let list = argosy(control, &[&arguments[..], &["-o", "json"]].concat()).await?;
    let list: Value = serde_json::from_str(&list.output)?;
    assert_eq!(list[1]["message"], "of-the-pod", "{list}");
    assert_eq!(list[1]["lastSeen"], "2026-01-01T00:00:02Z", "{list}");

    let tenant = lab.reader("events-reader").await?;
    let refused = argosy(&tenant, &arguments).await?;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.errors.contains("you may not get nodes/proxy"),
        "{refused:?}"
    );

    let agent = lab.signing.forged(&format!(
        "/O=argosy.dev:agents/CN={}",
        names::agent_user(&lab.member.cluster)
    ))?;
    let api_server = lab
        .signing
        .forged("/O=system:masters/CN=kube-apiserver-kubelet-client")?;
    for (account, path, expected, words) in [
        (
            None,
            "/events/events-run/hello",
            401,
            "a client certificate is required",
        ),
        (
            Some(&agent),
            "/events/events-run/hello",
            403,
            "may not use nodes/proxy",
        ),
        (
            Some(&api_server),
            "/events/events-run/absent",
            400,
            "there is no Workflow",
        ),
        (
            Some(&api_server),
            "/events/events-run/..%2Fx",
            400,
            "not a request",
        ),
    ] {
        let (status, text) = lab.ask(account.map(std::path::PathBuf::as_path), path).await?;
        assert_eq!(status, expected, "{account:?}, {path}: {text}");
        assert!(text.contains(words), "{account:?}, {path}: {text}");
    }
    Ok(())
}
