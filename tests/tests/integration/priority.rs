//! The priority of requests in the control cluster's API server (API priority and fairness), as the
//! chart sets it. Not here: the effect of a priority, which is Kubernetes' own.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use argosy_tests::testenv::{Fixture, admission::eventually, charts, objects::CONTROLLER_NAMESPACE};
use k8s_openapi::api::flowcontrol::v1::FlowSchema;
use kube::{Api, Client, api::ListParams, client::Body};

/// The header in which an API server tells the FlowSchema of a request, also of one that it refuses.
const FLOW_SCHEMA: &str = "x-kubernetes-pf-flowschema-uid";

/// The UID of the FlowSchema of a request by `user`.
async fn flow_schema(client: &Client, user: &str, groups: &[&str], path: &str) -> Result<String> {
    let mut request = axum::http::Request::get(path).header("Impersonate-User", user);
    for group in groups {
        request = request.header("Impersonate-Group", *group);
    }
    let answer = client.send(request.body(Body::empty())?).await?;
    let schema = answer
        .headers()
        .get(FLOW_SCHEMA)
        .context("no FlowSchema is told")?;
    Ok(schema.to_str()?.to_owned())
}

#[tokio::test]
async fn leases_the_controller_and_agents_have_the_priorities_of_the_chart() -> Result<()> {
    let fixture = Fixture::new("priority").await?;
    let client = &fixture.control;
    let values = r#"clusters=[{"name":"c1","mode":"pull","token":true}]"#;
    charts::apply(&fixture.env.control, &["priority.yaml"], values)?;

    let schemas = Api::<FlowSchema>::all(client.clone());
    let controller = format!("system:serviceaccount:{CONTROLLER_NAMESPACE}:argosy-controller");
    let lease = "/apis/coordination.k8s.io/v1/namespaces/c1/leases/managed-cluster-lease";
    let works = "/apis/work.open-cluster-management.io/v1/namespaces/c1/manifestworks";
    let (agents, accounts) = ("argosy.dev:agents", "system:serviceaccounts");
    let certified = ("argosy.dev:agent:c1", agents);
    let token = ("system:serviceaccount:c1:argosy-agent", accounts);
    let another = ("system:serviceaccount:c1:somebody", accounts);
    let ours = (controller.as_str(), accounts);
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
