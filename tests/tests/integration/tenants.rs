//! Artifact credentials of tenants: each namespace gets its own key on each cluster, from a Secret with
//! properties, and a key reaches only the objects of its namespace.

use anyhow::Result;
use argosy_api::{BindingPolicy, names};
use argosy_tests::testenv::{
    Fixture, Member,
    binaries::{Answer, argosy},
    objects::{self, create, create_namespace},
    s3::{S3, secret_key_of},
    waiting::until,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use super::dependencies::ask;

const TENANTS: [&str; 2] = ["tenant-a", "tenant-b"];

/// Sends the objects of both namespaces to the member.
async fn send(fixture: &Fixture, member: &Member) -> Result<()> {
    let policy: BindingPolicy = serde_json::from_value(json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy",
        "metadata": { "name": fixture.namespace },
        "spec": {
            "clusterSelectors": [{ "matchLabels": { "name": member.cluster } }],
            "downsync": [{
                "namespaces": TENANTS, "resources": ["secrets", "configmaps"],
                "objectSelectors": [{ "matchLabels": { "app": "artifacts" } }],
            }],
        },
    }))?;
    create(&Api::all(fixture.control.clone()), &policy).await?;
    Ok(())
}

/// The label that the policy selects.
fn selected() -> Value {
    json!({ "app": "artifacts" })
}

fn labeled(mut object: Value, labels: &Value) -> Value {
    object["metadata"]["labels"] = labels.clone();
    object
}

/// Creates the tenant's repository and its Secret, which contains only templates, with these labels on
/// the control cluster, and its keys for the member's cluster in the ITS.
async fn configure(fixture: &Fixture, member: &Member, s3: &S3, tenant: &str, labels: &Value) -> Result<()> {
    let its = Api::<Secret>::namespaced(fixture.control.clone(), names::PROPERTIES_NAMESPACE);
    let properties = json!({
        "metadata": { "name": format!("{}.{tenant}", member.cluster) },
        "stringData": { "access": tenant, "secret": secret_key_of(tenant) },
    });
    create(&its, &serde_json::from_value(properties)?).await?;
    let secret = json!({
        "metadata": { "name": "s3", "annotations": { names::EXPAND_TEMPLATES_ANNOTATION: "true" } },
        "stringData": { "access": "{{.access}}", "secret": "{{.secret}}" },
    });
    let secret = labeled(secret, labels);
    let secrets = Api::<Secret>::namespaced(fixture.control.clone(), tenant);
    create(&secrets, &serde_json::from_value(secret)?).await?;
    let maps = Api::<ConfigMap>::namespaced(fixture.control.clone(), tenant);
    let repository = labeled(s3.repository_of(tenant), labels);
    create(&maps, &serde_json::from_value(repository)?).await?;
    Ok(())
}

/// True if the Secret has the access key of the tenant.
fn is_key_of(secret: &Secret, tenant: &str) -> bool {
    let data = secret.data.iter().flatten();
    let mut access = data.filter(|(name, _)| *name == "access");
    access.any(|(_, value)| value.0 == tenant.as_bytes())
}

async fn checked(fixture: &Fixture, tenant: &str) -> Result<Answer> {
    let kubeconfig = fixture.env.servers.wecs[0].kubeconfig();
    argosy(kubeconfig, &["s3", "check", "-n", tenant]).await
}

#[tokio::test]
async fn each_tenant_gets_its_own_key_which_reads_no_object_of_another_one() -> Result<()> {
    let fixture = Fixture::new("tenants").await?;
    let member = fixture.pull().await?;
    let s3 = S3::start().await?;
    s3.add_tenants(&TENANTS).await?;
    let _ = create_namespace(&fixture.control, names::PROPERTIES_NAMESPACE).await;
    for tenant in TENANTS {
        create_namespace(&fixture.control, tenant).await?;
        create_namespace(&member.wec, tenant).await?;
    }
    send(&fixture, &member).await?;
    for tenant in TENANTS {
        configure(&fixture, &member, &s3, tenant, &selected()).await?;
        let there = Api::<Secret>::namespaced(member.wec.clone(), tenant);
        until(&there, "s3", "it has the key of its namespace", |secret| {
            is_key_of(secret, tenant)
        })
        .await?;
        let maps = Api::<ConfigMap>::namespaced(member.wec.clone(), tenant);
        until(&maps, "artifact-repositories", "it is there", |_| true).await?;
        let answer = checked(&fixture, tenant).await?;
        assert_eq!(answer.code, Some(0), "{answer:?}");
        assert!(answer.output.contains("was written and read back"), "{answer:?}");
    }
    // The repository of one tenant under the prefix of the other one.
    let maps = Api::<ConfigMap>::namespaced(fixture.control.clone(), TENANTS[0]);
    let other = Patch::Merge(s3.repository_of(TENANTS[1]));
    maps.patch("artifact-repositories", &PatchParams::default(), &other)
        .await?;
    let there = Api::<ConfigMap>::namespaced(member.wec.clone(), TENANTS[0]);
    until(&there, "artifact-repositories", "it has changed", |map| {
        let mut texts = map.data.iter().flatten();
        texts.any(|(_, text)| text.contains(TENANTS[1]))
    })
    .await?;
    let answer = checked(&fixture, TENANTS[0]).await?;
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert!(answer.output.contains("AccessDenied"), "{answer:?}");
    s3.put("tenant-b/log", "of tenant b").await?;
    assert!(s3.reads_as(TENANTS[1], "tenant-b/log").await?);
    assert!(!s3.reads_as(TENANTS[0], "tenant-b/log").await?);
    // Nothing of the keys is in an object that Argo or a log shows.
    let map = there.get("artifact-repositories").await?;
    assert!(!serde_json::to_string(&map)?.contains(&secret_key_of(TENANTS[0])));
    Ok(())
}

#[tokio::test]
async fn a_run_finds_the_repository_of_its_tenant_and_its_key_that_are_sent_because_it_needs_them()
-> Result<()> {
    let fixture = Fixture::new("tenants-needs").await?;
    let member = fixture.pull().await?;
    ask(&fixture, &member).await?;
    let s3 = S3::start().await?;
    let tenant = fixture.namespace.as_str();
    s3.add_tenants(&[tenant]).await?;
    let _ = create_namespace(&fixture.control, names::PROPERTIES_NAMESPACE).await;
    // No policy selects them.
    let labels = json!({ names::TRAVELS_LABEL: "true" });
    configure(&fixture, &member, &s3, tenant, &labels).await?;
    let mut workflow = objects::workflow("needs", &member.cluster);
    workflow.spec["archiveLogs"] = json!(true);
    create(&fixture.workflows(), &workflow).await?;

    until(&member.workflows(), "needs", "it begins", |_| true).await?;
    let secrets = Api::<Secret>::namespaced(member.wec.clone(), tenant);
    let key = secrets.get("s3").await?;
    assert!(is_key_of(&key, tenant), "{:?}", key.metadata);
    let answer = checked(&fixture, tenant).await?;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(answer.output.contains("was written and read back"), "{answer:?}");
    Ok(())
}
