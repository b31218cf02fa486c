//! What the agent, or the executor of a ManifestWork, may not do on the cluster: said in the API server's words.

use anyhow::{Context, Result};
use argosy_tests::lab::{
    Member, Scene, definitions,
    mailbox::{condition, config_map, is_applied, says, send, theirs, value},
    objects::{create, create_namespace},
    server::Server,
    waiting::until,
};
use k8s_openapi::api::{
    core::v1::ConfigMap,
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{Api, Client};
use serde_json::json;

/// ConfigMaps may be read and written one by one, but not listed; Secrets may not be touched.
async fn restrict(admin: &Client, user: &str) -> Result<()> {
    let every = ["get", "list", "watch", "create", "patch", "update", "delete"];
    let role: ClusterRole = serde_json::from_value(json!({
        "metadata": { "name": user },
        "rules": [
            { "apiGroups": ["argoproj.io"], "resources": ["workflows"], "verbs": every },
            { "apiGroups": ["work.open-cluster-management.io"], "resources": ["*"], "verbs": every },
            { "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": every },
            { "apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"] },
            { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch"] },
            { "nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*", "/version"], "verbs": ["get"] },
        ],
    }))?;
    create(&Api::all(admin.clone()), &role).await?;
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": { "name": user },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
    }))?;
    create(&Api::all(admin.clone()), &binding).await?;
    Ok(())
}

/// A cluster of its own where the agent is `restricted`, with its API server and a client of somebody who may do anything.
async fn stage(scene: &Scene) -> Result<(Server, Client, Member)> {
    let name = format!("{}-wec", scene.namespace);
    let server = Server::start_restricted(&scene.stage.servers.store, &name).await?;
    let admin = server.client().await?;
    definitions::install_for_agent(&admin).await?;
    definitions::install_argo(&admin).await?;
    create_namespace(&admin, &scene.namespace).await?;
    restrict(&admin, "restricted").await?;
    let mut member = scene
        .register("rbac", &server.kubeconfig_restricted("restricted")?)
        .await?;
    create_namespace(&scene.control, &member.cluster).await?;
    scene.start_agent(&mut member, 30).await?;
    Ok((server, admin, member))
}

#[tokio::test]
async fn what_is_forbidden_is_said_and_what_is_allowed_is_done() -> Result<()> {
    let scene = Scene::new("applying-rights").await?;
    let (_server, admin, member) = stage(&scene).await?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "namespace": scene.namespace, "name": "s" },
    });
    let manifests = [secret, config_map(&scene.namespace, "c", "1")];
    send(&member.works(), &theirs("half", &manifests)?).await?;
    let half = until(&member.works(), "half", "it says what is forbidden", |work| {
        says(work, "Applied", "False") && condition(work, Some(1), "Applied").is_some()
    })
    .await?;
    let (.., message) = condition(&half, Some(0), "Applied").context("it says something")?;
    assert!(
        message.contains("\"restricted\" cannot get resource \"secrets\""),
        "{message}"
    );
    assert_eq!(
        condition(&half, Some(1), "Applied")
            .map(|(status, ..)| status)
            .as_deref(),
        Some("True")
    );
    let (watched, reason, message) =
        condition(&half, Some(1), "Watched").context("it says that it cannot watch")?;
    assert_eq!((watched.as_str(), reason.as_str()), ("False", "Forbidden"));
    assert!(
        message.contains("cannot list resource \"configmaps\""),
        "{message}"
    );
    let maps: Api<ConfigMap> = Api::namespaced(admin.clone(), &scene.namespace);
    assert_eq!(value(&maps.get("c").await?, "a"), Some("1"));
    Ok(())
}

#[tokio::test]
async fn an_executor_has_nothing_applied_that_they_may_not_apply_themselves() -> Result<()> {
    let scene = Scene::new("applying-executor").await?;
    let (_server, admin, member) = stage(&scene).await?;
    let maps: Api<ConfigMap> = Api::namespaced(admin.clone(), &scene.namespace);
    let mut delegated = theirs("delegated", &[config_map(&scene.namespace, "d", "1")])?;
    delegated.spec.executor = serde_json::from_value(json!({ "subject": {
        "type": "ServiceAccount", "serviceAccount": { "namespace": scene.namespace, "name": "deployer" },
    } }))?;
    send(&member.works(), &delegated).await?;
    let refused = until(&member.works(), "delegated", "it says who may not", |work| {
        says(work, "Applied", "False")
    })
    .await?;
    let (.., message) = condition(&refused, None, "Applied").context("it says something")?;
    assert!(message.contains("deployer is not allowed to"), "{message}");
    assert!(maps.get_opt("d").await?.is_none());
    let role: ClusterRole = serde_json::from_value(json!({
        "metadata": { "name": "deployer" },
        "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"] }],
    }))?;
    create(&Api::all(admin.clone()), &role).await?;
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": { "name": "deployer" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "deployer" },
        "subjects": [{ "kind": "ServiceAccount", "namespace": scene.namespace, "name": "deployer" }],
    }))?;
    create(&Api::all(admin.clone()), &binding).await?;
    until(
        &member.works(),
        "delegated",
        "it is applied once they may",
        is_applied,
    )
    .await?;
    assert_eq!(value(&maps.get("d").await?, "a"), Some("1"));
    Ok(())
}
