//! Actions that the agent, or the executor of a ManifestWork, has no right to do on the cluster.
//! They are reported with the API server's message.

use anyhow::{Context, Result};
use argosy_api::{BindingPolicy, names};
use argosy_tests::testenv::{
    Fixture, Member, definitions,
    mailbox::{condition, config_map, is_applied, says, send, theirs, value},
    objects::{self, create, create_namespace},
    server::Server,
    waiting::until,
};
use k8s_openapi::api::{
    core::v1::{ConfigMap, Namespace, Secret, ServiceAccount},
    rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use super::dependencies::says_what_is_missing;

/// The verbs of a controller.
const EVERY: [&str; 7] = ["get", "list", "watch", "create", "patch", "update", "delete"];

/// Permits reading and writing single ConfigMaps, but no listing, and no access to Secrets.
async fn restrict(admin: &Client, user: &str) -> Result<()> {
    let rules = json!([
        { "apiGroups": ["argoproj.io"], "resources": ["workflows"], "verbs": EVERY },
        { "apiGroups": ["work.open-cluster-management.io"], "resources": ["*"], "verbs": EVERY },
        { "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": EVERY },
        { "apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"] },
        { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch"] },
        { "nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*", "/version"], "verbs": ["get"] },
    ]);
    grant(admin, user, user, &rules).await
}

/// Gives a user these rights, by a ClusterRole and a binding of this name.
async fn grant(admin: &Client, name: &str, user: &str, rules: &Value) -> Result<()> {
    let role: ClusterRole = serde_json::from_value(json!({ "metadata": { "name": name }, "rules": rules }))?;
    create(&Api::all(admin.clone()), &role).await?;
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
    }))?;
    create(&Api::all(admin.clone()), &binding).await?;
    Ok(())
}

/// A separate cluster on which the agent is `restricted`. Returns its API server, a client with all
/// rights, and the member.
async fn env(fixture: &Fixture) -> Result<(Server, Client, Member)> {
    let name = format!("{}-wec", fixture.namespace);
    let server = Server::start_restricted(&fixture.env.servers.store, &name).await?;
    let admin = server.client().await?;
    definitions::install_for_agent(&admin).await?;
    definitions::install_argo(&admin).await?;
    create_namespace(&admin, &fixture.namespace).await?;
    restrict(&admin, "restricted").await?;
    let mut member = fixture
        .register("rbac", &server.kubeconfig_restricted("restricted")?)
        .await?;
    create_namespace(&fixture.control, &member.cluster).await?;
    fixture.start_agent(&mut member, 30).await?;
    Ok((server, admin, member))
}

#[tokio::test]
async fn what_is_forbidden_is_said_and_what_is_allowed_is_done() -> Result<()> {
    let fixture = Fixture::new("applying-rights").await?;
    let (_server, admin, member) = env(&fixture).await?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "namespace": fixture.namespace, "name": "s" },
    });
    let manifests = [secret, config_map(&fixture.namespace, "c", "1")];
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
    let maps: Api<ConfigMap> = Api::namespaced(admin.clone(), &fixture.namespace);
    assert_eq!(value(&maps.get("c").await?, "a"), Some("1"));
    Ok(())
}

#[tokio::test]
async fn an_executor_has_nothing_applied_that_they_may_not_apply_themselves() -> Result<()> {
    let fixture = Fixture::new("applying-executor").await?;
    let (_server, admin, member) = env(&fixture).await?;
    let maps: Api<ConfigMap> = Api::namespaced(admin.clone(), &fixture.namespace);
    let mut delegated = theirs("delegated", &[config_map(&fixture.namespace, "d", "1")])?;
    delegated.spec.executor = serde_json::from_value(json!({ "subject": {
        "type": "ServiceAccount", "serviceAccount": { "namespace": fixture.namespace, "name": "deployer" },
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
        "subjects": [{ "kind": "ServiceAccount", "namespace": fixture.namespace, "name": "deployer" }],
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

#[tokio::test]
async fn an_executor_has_no_namespace_made_that_they_may_not_make_themselves() -> Result<()> {
    let fixture = Fixture::new("applying-executor-namespace").await?;
    let (_server, admin, member) = env(&fixture).await?;
    let may = |name: &str, group: &str, resource: &str| -> Result<(ClusterRole, ClusterRoleBinding)> {
        let role = serde_json::from_value(json!({
            "metadata": { "name": name },
            "rules": [{ "apiGroups": [group], "resources": [resource], "verbs": ["*"] }],
        }))?;
        let binding = serde_json::from_value(json!({
            "metadata": { "name": name },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name },
            "subjects": [
                { "kind": "ServiceAccount", "namespace": fixture.namespace, "name": "deployer" },
                { "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "restricted" },
            ],
        }))?;
        Ok((role, binding))
    };
    let grant = async |(role, binding): (ClusterRole, ClusterRoleBinding)| -> Result<()> {
        create(&Api::all(admin.clone()), &role).await?;
        create(&Api::all(admin.clone()), &binding).await?;
        Ok(())
    };
    grant(may("deployer-of-maps", "", "configmaps")?).await?;
    // Of the two subjects, only the agent gets this right.
    let (role, mut binding) = may("maker-of-namespaces", "", "namespaces")?;
    let subjects = binding.subjects.take();
    binding.subjects = subjects.map(|subjects| subjects.into_iter().skip(1).collect());
    grant((role, binding)).await?;
    let made = format!("{}-made", fixture.namespace);
    let mut delegated = theirs("delegated-into", &[config_map(&made, "d", "1")])?;
    delegated.spec.executor = serde_json::from_value(json!({ "subject": {
        "type": "ServiceAccount", "serviceAccount": { "namespace": fixture.namespace, "name": "deployer" },
    } }))?;
    send(&member.works(), &delegated).await?;
    let refused = until(&member.works(), "delegated-into", "it says who may not", |work| {
        says(work, "Applied", "False")
    })
    .await?;
    let (.., message) = condition(&refused, None, "Applied").context("it says something")?;
    assert!(
        message.contains(&format!("deployer is not allowed to create namespaces {made}")),
        "{message}"
    );
    let namespaces: Api<Namespace> = Api::all(admin.clone());
    assert!(namespaces.get_opt(&made).await?.is_none());
    grant(may("deployer-of-namespaces", "", "namespaces")?).await?;
    until(
        &member.works(),
        "delegated-into",
        "it is applied once they may",
        is_applied,
    )
    .await?;
    assert!(namespaces.get_opt(&made).await?.is_some());
    Ok(())
}

#[tokio::test]
async fn a_run_does_not_begin_while_the_agent_may_not_read_what_a_policy_sends_for_it() -> Result<()> {
    let fixture = Fixture::new("applying-needs").await?;
    let (_server, admin, member) = env(&fixture).await?;
    let policies: Api<BindingPolicy> = Api::all(fixture.control.clone());
    let asking = json!({ "metadata": { "annotations": { names::DEPENDENCIES_ANNOTATION: "secrets" } } });
    let (parameters, patch) = (PatchParams::default(), Patch::Merge(asking));
    policies.patch(&member.cluster, &parameters, &patch).await?;
    let secret: Secret = serde_json::from_value(json!({
        "metadata": { "name": "key", "labels": { names::TRAVELS_LABEL: "true" } }, "stringData": { "a": "1" },
    }))?;
    create(
        &Api::namespaced(fixture.control.clone(), &fixture.namespace),
        &secret,
    )
    .await?;
    let mut workflow = objects::workflow("needs", &member.cluster);
    workflow.spec["templates"][0]["container"]["envFrom"] = json!([{ "secretRef": { "name": "key" } }]);
    create(&fixture.workflows(), &workflow).await?;
    let message = says_what_is_missing(&fixture).await?;
    assert!(
        message.contains("Secret key, which the agent") && message.contains("is not allowed to read"),
        "{message}"
    );
    assert!(member.workflows().get_opt("needs").await?.is_none());

    let rules = json!([{ "apiGroups": [""], "resources": ["secrets", "namespaces"], "verbs": EVERY }]);
    grant(&admin, "secrets", "restricted", &rules).await?;
    until(&member.workflows(), "needs", "it begins with the right", |_| true).await?;
    Ok(())
}

#[tokio::test]
async fn a_run_does_not_begin_before_its_service_account_has_the_rights_of_the_executor() -> Result<()> {
    let fixture = Fixture::new("applying-executor-role").await?;
    let (_server, admin, member) = env(&fixture).await?;
    let rules = json!([
        { "apiGroups": [""], "resources": ["serviceaccounts", "namespaces"], "verbs": EVERY },
        { "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["rolebindings"], "verbs": ["get"] },
    ]);
    grant(&admin, "accounts", "restricted", &rules).await?;
    let account: ServiceAccount = serde_json::from_value(json!({ "metadata": { "name": "default" } }))?;
    for client in [&fixture.control, &admin] {
        create(&Api::namespaced(client.clone(), &fixture.namespace), &account).await?;
    }
    let policies: Api<BindingPolicy> = Api::all(fixture.control.clone());
    let asking =
        json!({ "metadata": { "annotations": { names::DEPENDENCIES_ANNOTATION: "serviceaccounts" } } });
    let (parameters, patch) = (PatchParams::default(), Patch::Merge(asking));
    policies.patch(&member.cluster, &parameters, &patch).await?;
    create(&fixture.workflows(), &objects::workflow("needs", &member.cluster)).await?;
    let message = says_what_is_missing(&fixture).await?;
    let binding = format!("{}-default", names::EXECUTOR_ROLE);
    let said = format!("RoleBinding {binding} of ServiceAccount default has not arrived");
    assert!(message.contains(&said), "{message}");
    assert!(member.workflows().get_opt("needs").await?.is_none());

    let rules = json!([
        { "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["rolebindings"], "verbs": EVERY },
        { "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["bind"] },
    ]);
    grant(&admin, "bindings", "restricted", &rules).await?;
    until(&member.workflows(), "needs", "it begins with the rights", |_| {
        true
    })
    .await?;
    let bindings: Api<RoleBinding> = Api::namespaced(admin.clone(), &fixture.namespace);
    assert!(bindings.get_opt(&binding).await?.is_some());
    Ok(())
}
