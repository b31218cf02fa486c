//! The priority of requests in the control cluster's API server (API priority and fairness), as the
//! chart sets it, and its effect on Leases. Not here: the burst of Workflows itself (`flood`).

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use argosy_tests::testenv::{
    Fixture,
    admission::eventually,
    charts,
    objects::{CONTROLLER_NAMESPACE, create, create_namespace},
    server::Server,
};
use axum::http::{Method, StatusCode};
use k8s_openapi::api::{
    admissionregistration::v1::ValidatingWebhookConfiguration, flowcontrol::v1::FlowSchema,
};
use kube::{
    Api, Client,
    api::{GetParams, ListParams, Request},
    client::Body,
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};

/// The header in which an API server tells the FlowSchema of a request, also of one that it refuses.
const FLOW_SCHEMA: &str = "x-kubernetes-pf-flowschema-uid";

/// Groups of agents with a certificate, and of service accounts.
const AGENTS: &str = "argosy.dev:agents";
const ACCOUNTS: &str = "system:serviceaccounts";

/// A cluster with an agent of each kind.
const VALUES: &str = r#"clusters=[{"name":"c1","mode":"pull","token":true}]"#;

/// A request of `user`, who is in these groups.
fn request(
    user: &str,
    groups: &[&str],
    method: Method,
    path: &str,
    body: Body,
) -> Result<axum::http::Request<Body>> {
    let mut request = axum::http::Request::builder().method(method).uri(path);
    request = request
        .header("Impersonate-User", user)
        .header("Content-Type", "application/json");
    for group in groups {
        request = request.header("Impersonate-Group", *group);
    }
    Ok(request.body(body)?)
}

/// The UID of the FlowSchema of a request by `user`.
async fn flow_schema(client: &Client, user: &str, groups: &[&str], path: &str) -> Result<String> {
    let request = request(user, groups, Method::GET, path, Body::empty())?;
    let answer = client.send(request).await?;
    let schema = answer
        .headers()
        .get(FLOW_SCHEMA)
        .context("no FlowSchema is told")?;
    Ok(schema.to_str()?.to_owned())
}

/// Creates an object as `user`, and returns the status code of the answer.
async fn post(client: &Client, user: &str, group: &str, path: &str, object: &Value) -> Result<StatusCode> {
    let groups = [group, "system:authenticated"];
    let body = Body::from(serde_json::to_vec(object)?);
    let request = request(user, &groups, Method::POST, path, body)?;
    Ok(client.send(request).await?.status())
}

/// Creates a Lease of `c1` as `user`.
async fn post_lease(client: &Client, user: &str, group: &str) -> Result<StatusCode> {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "generateName": "lease-" }, "spec": {},
    });
    let path = "/apis/coordination.k8s.io/v1/namespaces/c1/leases";
    post(client, user, group, path, &lease).await
}

#[tokio::test]
async fn leases_the_controller_and_agents_have_the_priorities_of_the_chart() -> Result<()> {
    let fixture = Fixture::new("priority").await?;
    let client = &fixture.control;
    charts::apply(&fixture.env.control, &["priority.yaml"], VALUES)?;

    let schemas = Api::<FlowSchema>::all(client.clone());
    let controller = format!("system:serviceaccount:{CONTROLLER_NAMESPACE}:argosy-controller");
    let lease = "/apis/coordination.k8s.io/v1/namespaces/c1/leases/managed-cluster-lease";
    let works = "/apis/work.open-cluster-management.io/v1/namespaces/c1/manifestworks";
    let certified = ("argosy.dev:agent:c1", AGENTS);
    let token = ("system:serviceaccount:c1:argosy-agent", ACCOUNTS);
    let another = ("system:serviceaccount:c1:somebody", ACCOUNTS);
    let ours = (controller.as_str(), ACCOUNTS);
    for ((user, group), path, expected) in [
        (certified, lease, "argosy-leases"),
        (token, lease, "argosy-leases"),
        (ours, lease, "argosy-leases"),
        (another, lease, "service-accounts"),
        (certified, works, "argosy-agents"),
        (certified, "/version", "argosy-agents"),
        (token, works, "argosy-agents"),
        (ours, works, "argosy-controller"),
        (another, works, "service-accounts"),
    ] {
        let groups = [group, "system:authenticated"];
        eventually(
            &format!("{path} of {user} has the priority {expected}"),
            async || {
                let list = schemas.list(&ListParams::default()).await?;
                let names: BTreeMap<_, _> = list
                    .into_iter()
                    .map(|schema| (schema.metadata.uid, schema.metadata.name))
                    .collect();
                let found = flow_schema(client, user, &groups, path).await?;
                Ok(names.get(&Some(found)).and_then(Option::as_deref) == Some(expected))
            },
        )
        .await?;
    }
    Ok(())
}

/// Makes the API server carry out creations of ConfigMaps in the namespace `flooded` until its own
/// timeout: it asks a webhook there that accepts connections and never answers.
async fn stall(client: &Client) -> Result<TcpListener> {
    create_namespace(client, "flooded").await?;
    let silent = TcpListener::bind("127.0.0.1:0").await?;
    let webhook: ValidatingWebhookConfiguration = serde_json::from_value(json!({
        "metadata": { "name": "silent" },
        "webhooks": [{
            "name": "silent.argosy.test",
            "clientConfig": { "url": format!("https://{}", silent.local_addr()?) },
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"],
            }],
            "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "flooded" } },
            "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 30,
        }],
    }))?;
    create(&Api::all(client.clone()), &webhook).await?;
    Ok(silent)
}

/// Sends many such creations at a time as `user`, without end.
fn flood(client: &Client, user: &'static str, group: &'static str) -> JoinSet<()> {
    let mut flood = JoinSet::new();
    for _ in 0..100 {
        let client = client.clone();
        flood.spawn(async move {
            let object = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "generateName": "flood-" },
            });
            let path = "/api/v1/namespaces/flooded/configmaps";
            while post(&client, user, group, path, &object).await.is_ok() {}
        });
    }
    flood
}

/// The number of requests that wait in a priority level.
async fn waiting(client: &Client, level: &str) -> Result<u64> {
    let dump = Request::new("/debug/api_priority_and_fairness")
        .get("dump_priority_levels", &GetParams::default())?;
    let dump = client.request_text(dump).await?;
    let mut rows = dump.lines().map(|row| row.split(',').map(str::trim));
    let place = rows
        .next()
        .and_then(|mut names| names.position(|name| name == "WaitingRequests"));
    let place = place.with_context(|| dump.clone())?;
    for mut row in rows {
        if row.next() == Some(level) {
            return Ok(row.nth(place - 1).with_context(|| dump.clone())?.parse()?);
        }
    }
    bail!("there is no level {level}: {dump}")
}

#[tokio::test]
async fn leases_are_renewed_while_an_agent_and_an_account_flood_the_api_server() -> Result<()> {
    let fixture = Fixture::new("flooded").await?;
    let server = Server::start_narrow(&fixture.env.servers.store, &fixture.namespace).await?;
    let client = server.client().await?;
    charts::apply(&server, &["priority.yaml"], VALUES)?;
    create_namespace(&client, "c1").await?;
    let _silent = stall(&client).await?;

    let agent = ("argosy.dev:agent:c2", AGENTS);
    let account = ("system:serviceaccount:c1:somebody", ACCOUNTS);
    let _floods = [agent, account].map(|(user, group)| flood(&client, user, group));
    let levels = ["argosy-agents", "workload-low"];
    for level in levels {
        eventually(&format!("requests wait in the level {level}"), async || {
            Ok(waiting(&client, level).await? > 0)
        })
        .await?;
    }
    // Without a priority of their own, Leases would wait, too.
    eventually("the API server refuses another account", async || {
        let status = post_lease(&client, "system:serviceaccount:c1:another", ACCOUNTS).await?;
        Ok(status == StatusCode::TOO_MANY_REQUESTS)
    })
    .await?;

    let controller = format!("system:serviceaccount:{CONTROLLER_NAMESPACE}:argosy-controller");
    for (user, group) in [
        ("argosy.dev:agent:c1", AGENTS),
        agent,
        ("system:serviceaccount:c1:argosy-agent", ACCOUNTS),
        (&controller, ACCOUNTS),
    ] {
        let status = post_lease(&client, user, group).await?;
        ensure!(status == StatusCode::CREATED, "{user}: {status}");
        for level in levels {
            ensure!(
                waiting(&client, level).await? > 0,
                "{user}: the level {level} is not full"
            );
        }
    }
    Ok(())
}
