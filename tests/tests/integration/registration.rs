//! The objects that the controller registers at the API server: they are kept correct, and are
//! removed with Argosy.

use std::{
    collections::BTreeSet,
    fmt::Debug,
    fs,
    net::IpAddr,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use argosy_tests::testenv::{
    Fixture, TestEnv,
    admission::{eventually, is_held, unsuspended, until_guarded, until_held},
    binaries::{self, WebhookSettings},
    env::LONG,
    folder,
    objects::{self, create},
    waiting::{until, until_gone},
};
use k8s_openapi::api::{
    admissionregistration::v1::{
        MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    },
    core::v1::{Secret, Service},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

const POLICIES: [&str; 2] = ["argosy-hold", "argosy-create"];

/// Deletes `name` and waits until another object with this name exists.
async fn comes_back<K>(client: &Client, name: &str) -> Result<()>
where
    K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
        + Clone
        + DeserializeOwned
        + Serialize
        + Debug
        + Send
        + 'static,
{
    let api: Api<K> = Api::all(client.clone());
    let first = until(&api, name, "it is registered", |_| true).await?;
    api.delete(name, &DeleteParams::default()).await?;
    until(&api, name, "it is registered again", |again| {
        again.uid() != first.uid()
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn what_is_deleted_or_changed_by_hand_comes_back() -> Result<()> {
    let env = TestEnv::own_guarded("registration", LONG).await?;
    let fixture = Fixture::on(env, "registration").await?;
    let member = fixture.pull().await?;
    until_held(&fixture, &member).await?;
    comes_back::<MutatingWebhookConfiguration>(&fixture.control, "argosy").await?;
    for policy in POLICIES {
        comes_back::<ValidatingAdmissionPolicyBinding>(&fixture.control, policy).await?;
        comes_back::<ValidatingAdmissionPolicy>(&fixture.control, policy).await?;
    }
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(fixture.control.clone());
    let weaker = json!({ "spec": { "failurePolicy": "Ignore", "validations": [{ "expression": "true" }] } });
    let params = PatchParams::default();
    policies
        .patch("argosy-hold", &params, &Patch::Merge(weaker))
        .await?;
    until(&policies, "argosy-hold", "it is as strict as before", |policy| {
        let spec = policy.spec.clone().unwrap_or_default();
        spec.failure_policy.as_deref() == Some("Fail")
            && spec.validations.is_some_and(|validations| validations.len() > 1)
    })
    .await?;
    until_held(&fixture, &member).await?;
    fixture.dispatch("hello", &member).await?;
    until_guarded(&fixture, "hello").await
}

#[tokio::test]
async fn release_takes_away_what_is_registered_and_every_finalizer() -> Result<()> {
    let env = TestEnv::own_guarded("unregistration", LONG).await?;
    let fixture = Fixture::on(env.clone(), "unregistration").await?;
    let member = fixture.pull().await?;
    until_held(&fixture, &member).await?;
    fixture.dispatch("hello", &member).await?;
    until_guarded(&fixture, "hello").await?;
    env.controller.terminate()?;
    // As the tests' user, which the policies do not treat as Argosy.
    binaries::release_control(env.control.kubeconfig())?;
    let webhooks: Api<MutatingWebhookConfiguration> = Api::all(fixture.control.clone());
    assert!(webhooks.get_opt("argosy").await?.is_none());
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(fixture.control.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(fixture.control.clone());
    for name in POLICIES {
        assert!(policies.get_opt(name).await?.is_none(), "{name}");
        assert!(bindings.get_opt(name).await?.is_none(), "the binding of {name}");
    }
    let released = fixture.workflows().get("hello").await?;
    assert_eq!(released.finalizers(), [] as [String; 0]);
    fixture
        .workflows()
        .delete("hello", &DeleteParams::default())
        .await?;
    until_gone(&fixture.workflows(), "hello", "nothing holds it").await
}

#[tokio::test]
async fn behind_a_service_the_next_controller_shows_the_same_certificate() -> Result<()> {
    let settings = WebhookSettings::behind("webhook", LONG)?;
    let env = TestEnv::own_with("service", &settings).await?;
    let fixture = Fixture::on(env.clone(), "service").await?;
    let member = fixture.pull().await?;
    // No node routes to a Service, so the Service is an alias of this host.
    let service: Service = serde_json::from_value(json!({
        "metadata": { "name": "webhook" },
        "spec": { "type": "ExternalName", "externalName": "localhost" },
    }))?;
    let controllers = objects::CONTROLLER_NAMESPACE;
    create(&Api::namespaced(fixture.control.clone(), controllers), &service).await?;
    until_held(&fixture, &member).await?;

    let secrets: Api<Secret> = Api::namespaced(fixture.control.clone(), controllers);
    let webhooks: Api<MutatingWebhookConfiguration> = Api::all(fixture.control.clone());
    let (secret, webhook) = (
        secrets.get("argosy-webhook").await?,
        webhooks.get("argosy").await?,
    );
    let before = certificate_shown(settings.port, "webhook.argosy.svc", &bundle(&webhook)?)?;
    env.controller.restart().await?;
    until_held(&fixture, &member).await?;
    assert_eq!(
        certificate_shown(settings.port, "webhook.argosy.svc", &bundle(&webhook)?)?,
        before
    );
    assert_eq!(
        secrets.get("argosy-webhook").await?.resource_version(),
        secret.resource_version()
    );
    assert_eq!(
        webhooks.get("argosy").await?.resource_version(),
        webhook.resource_version()
    );

    // A Secret that is deleted or unreadable is created again, and the new authority is registered.
    let broken = json!({ "stringData": { "credentials.json": "{}" } });
    let params = PatchParams::default();
    secrets
        .patch("argosy-webhook", &params, &Patch::Merge(broken))
        .await?;
    let renewed = until(&webhooks, "argosy", "it trusts another authority", |renewed| {
        renewed.resource_version() != webhook.resource_version()
    })
    .await?;
    let after = certificate_shown(settings.port, "webhook.argosy.svc", &bundle(&renewed)?)?;
    assert_ne!(after, before);
    until_held(&fixture, &member).await
}

#[tokio::test]
async fn certificates_are_renewed_without_a_refused_request() -> Result<()> {
    let env = TestEnv::own_guarded("certificates", "6s").await?;
    let fixture = Fixture::on(env.clone(), "certificates").await?;
    let member = fixture.pull().await?;
    until_held(&fixture, &member).await?;
    let port = env.webhook_port.context("the stage has a webhook")?;
    let webhooks: Api<MutatingWebhookConfiguration> = Api::all(fixture.control.clone());
    let (mut shown, mut bundles) = (BTreeSet::new(), BTreeSet::new());
    let mut number = 0;
    // Two authorities have signed, and the first one is not trusted any more.
    eventually("certificates and authorities have changed", async || {
        let created = create(
            &fixture.workflows(),
            &unsuspended(&format!("run-{number}"), &member.cluster),
        )
        .await?;
        ensure!(is_held(&created), "run-{number} was not held");
        number += 1;
        let bundle = bundle(&webhooks.get("argosy").await?)?;
        shown.insert(certificate_shown(port, "127.0.0.1", &bundle)?);
        bundles.insert(bundle);
        Ok(shown.len() >= 6 && bundles.len() >= 3)
    })
    .await
}

fn bundle(webhook: &MutatingWebhookConfiguration) -> Result<Vec<u8>> {
    let webhook = webhook.webhooks.iter().flatten().next();
    let bundle = webhook.and_then(|webhook| webhook.client_config.ca_bundle.clone());
    Ok(bundle.context("the webhook has a CA bundle")?.0)
}

/// The certificate that a new connection receives. Fails if `bundle` does not verify it or if it is
/// not for `host`.
fn certificate_shown(port: u16, host: &str, bundle: &[u8]) -> Result<String> {
    let path = folder::create("bundle")?.join("ca.pem");
    fs::write(&path, bundle)?;
    let is_address = host.parse::<IpAddr>().is_ok();
    let verify = if is_address {
        "-verify_ip"
    } else {
        "-verify_hostname"
    };
    let output = Command::new("openssl")
        .args(["s_client", "-verify_return_error", verify, host, "-CAfile"])
        .arg(&path)
        .args(["-connect", &format!("127.0.0.1:{port}")])
        .stdin(Stdio::null())
        .output()
        .context("cannot run openssl")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "openssl: {}\n{text}",
        String::from_utf8_lossy(&output.stderr)
    );
    let (_, certificate) = text
        .split_once("-----BEGIN CERTIFICATE-----")
        .context("no certificate was shown")?;
    let (certificate, _) = certificate
        .split_once("-----END CERTIFICATE-----")
        .context("the certificate has no end")?;
    Ok(certificate.trim().to_owned())
}
