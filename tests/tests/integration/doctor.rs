//! `argosy doctor`: every link of the chain is really broken, and the check of that link reports
//! it.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use anyhow::{Context, Result, ensure};
use argosy_api::names;
use argosy_tests::testenv::{
    Fixture, Member, TestEnv,
    admission::{eventually, until_held},
    binaries::{WebhookSettings, argosy},
    charts, definitions,
    env::LONG,
    fixture::conditions,
    mailbox,
    objects::{self, CONTROLLER_NAMESPACE, create, create_namespace, kubeconfig_secret},
    s3::S3,
    server::Server,
    waiting::until,
};
use k8s_openapi::{
    api::{
        admissionregistration::v1::{
            MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
        },
        apps::v1::Deployment,
        core::v1::{Namespace, Node, Service},
        rbac::v1::{ClusterRole, ClusterRoleBinding},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::{Value, json};

/// The findings by check. The name of a cluster and a slash precede a check of that cluster.
pub(super) struct Said {
    pub(super) code: Option<i32>,
    pub(super) findings: BTreeMap<String, Vec<(String, String)>>,
}

impl Said {
    pub(super) async fn by(kubeconfig: &Path, rest: &[&str]) -> Result<Self> {
        let mut arguments = vec!["doctor", "-o", "json"];
        arguments.extend(rest);
        let answer = argosy(kubeconfig, &arguments).await?;
        let list: Vec<Value> = serde_json::from_str(&answer.output).with_context(|| format!("{answer:?}"))?;
        let mut findings: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        for finding in list {
            let text = |field: &str| finding[field].as_str().unwrap_or_default().to_owned();
            let check = format!("{}/{}", text("cluster"), text("check"));
            let known = findings
                .entry(check.trim_start_matches('/').to_owned())
                .or_default();
            known.push((text("outcome"), text("message")));
        }
        Ok(Self {
            code: answer.code,
            findings,
        })
    }

    /// True if `check` has this outcome, with a message that contains `words`.
    pub(super) fn has(&self, check: &str, outcome: &str, words: &str) -> bool {
        let found = self.findings.get(check).into_iter().flatten();
        found
            .into_iter()
            .any(|(known, message)| known == outcome && message.contains(words))
    }

    #[track_caller]
    fn assert(&self, check: &str, outcome: &str, words: &str) {
        assert!(
            self.has(check, outcome, words),
            "{check}: {outcome} {words}; but: {:#?}",
            self.findings
        );
    }
}

async fn deployment(client: &Client, namespace: &str, name: &str, tag: &str, ready: i32) -> Result<()> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    if api.get_opt(name).await?.is_none() {
        let mut deployment = objects::deployment(name)?;
        let pods = deployment
            .spec
            .as_mut()
            .and_then(|spec| spec.template.spec.as_mut());
        let container = pods
            .and_then(|pods| pods.containers.first_mut())
            .context("a container")?;
        container.image = Some(format!("localhost/{name}:{tag}"));
        create(&api, &deployment).await?;
    }
    let status = json!({ "status": { "replicas": 2, "readyReplicas": ready } });
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(status))
        .await?;
    Ok(())
}

async fn add_node(wec: &Client, is_cordoned: bool) -> Result<()> {
    let mut node = Node::default();
    node.metadata.name = Some("one".to_owned());
    node.spec.get_or_insert_default().unschedulable = Some(is_cordoned);
    let nodes: Api<Node> = Api::all(wec.clone());
    create(&nodes, &node).await?;
    let amounts = json!({ "cpu": "4", "memory": "16Gi" });
    let status = json!({ "status": { "capacity": amounts, "allocatable": amounts } });
    nodes
        .patch_status("one", &PatchParams::default(), &Patch::Merge(status))
        .await?;
    Ok(())
}

async fn wec(env: &TestEnv, name: &str) -> Result<(Server, Client)> {
    let server = Server::start(&env.servers.store, name).await?;
    let client = server.client().await?;
    definitions::install_for_agent(&client).await?;
    Ok((server, client))
}

/// A fleet of one healthy cluster. Its API server, S3 server and agent live as long as this value.
struct Fleet {
    env: Arc<TestEnv>,
    fixture: Fixture,
    member: Member,
    s3: S3,
    _wec: Server,
}

impl Fleet {
    async fn new(name: &str) -> Result<Self> {
        let env = TestEnv::own_with(name, &WebhookSettings::behind("webhook", LONG)?).await?;
        let control = env.control.client().await?;
        // No node routes to a Service, so the Service is an alias of this host.
        let service: Service = serde_json::from_value(json!({
            "metadata": { "name": "webhook" },
            "spec": { "type": "ExternalName", "externalName": "localhost" },
        }))?;
        create(&Api::namespaced(control.clone(), CONTROLLER_NAMESPACE), &service).await?;
        charts::apply(&env.control, &["members.yaml"], &format!(r#"wdsName="{name}""#))?;
        let s3 = S3::start().await?;
        create_namespace(&control, "argo").await?;
        s3.configure(&control, "argo").await?;
        let version = env!("CARGO_PKG_VERSION");
        deployment(&control, CONTROLLER_NAMESPACE, "argosy-controller", version, 1).await?;
        deployment(&control, "argo", "workflow-controller", "v3.7.15", 1).await?;

        let fixture = Fixture::on(env.clone(), name).await?;
        let (server, client) = wec(&env, &format!("{name}-wec")).await?;
        definitions::install_argo(&client).await?;
        create_namespace(&client, name).await?;
        s3.configure(&client, name).await?;
        deployment(&client, name, "workflow-controller", "v3.7.15", 1).await?;
        add_node(&client, false).await?;
        let mut member = fixture.join("good", &server).await?;
        fixture.start_agent(&mut member, 3).await?;
        until_held(&fixture, &member).await?;
        let is_described = |cluster: &_| conditions(cluster).contains_key("ArtifactRepositoryReady");
        until(
            &fixture.clusters(),
            &member.cluster,
            "it is described",
            is_described,
        )
        .await?;
        Ok(Self {
            env,
            fixture,
            member,
            s3,
            _wec: server,
        })
    }

    async fn said(&self, rest: &[&str]) -> Result<Said> {
        Said::by(self.env.control.kubeconfig(), rest).await
    }

    /// Creates a CronWorkflow on the control cluster.
    async fn create_schedule(&self) -> Result<()> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("argoproj.io", "v1alpha1", "CronWorkflow"));
        let api = Api::namespaced_with(self.fixture.control.clone(), &self.fixture.namespace, &kind);
        let spec = json!({ "schedules": ["0 0 * * *"], "workflowSpec": { "entrypoint": "main" } });
        create(
            &api,
            &DynamicObject::new("nightly", &kind).data(json!({ "spec": spec })),
        )
        .await?;
        Ok(())
    }

    async fn patch<K>(&self, api: Api<K>, name: &str, patch: Value) -> Result<()>
    where
        K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
    {
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }
}

#[tokio::test]
async fn where_everything_holds_nothing_failed_and_where_the_controller_is_gone_what_it_keeps_is_missed()
-> Result<()> {
    let fleet = Fleet::new("doctor").await?;
    let well = fleet.said(&["--write"]).await?;
    let is_well = |(outcome, _): &(String, String)| matches!(outcome.as_str(), "ok" | "skipped");
    assert!(
        well.findings.values().flatten().all(is_well),
        "{:#?}",
        well.findings
    );
    assert_eq!(well.code, Some(0));
    well.assert("webhook", "ok", "trusts its CA");
    well.assert("webhook-answers", "ok", "answers");
    well.assert("artifacts", "ok", "was written and read back");
    well.assert("doctor-good/argo", "ok", "v3.7.15");
    well.assert("doctor-good/kubeconfig", "skipped", "pull");

    // From here on, no controller restores the objects that the test breaks.
    fleet.env.controller.kill()?;
    let (env, control) = (&fleet.env, &fleet.fixture.control);
    let gone = fleet.said(&[]).await?;
    assert_eq!(gone.code, Some(1));
    gone.assert("webhook-answers", "failed", "does not answer");
    let webhooks: Api<MutatingWebhookConfiguration> = Api::all(control.clone());
    let mut other = webhooks.get("argosy").await?;
    let entry = other
        .webhooks
        .as_mut()
        .and_then(|webhooks| webhooks.first_mut())
        .context("a webhook")?;
    // The environment's own certificate is a valid CA that did not sign the webhook's certificate.
    let kubeconfig = kube::config::Kubeconfig::read_from(env.control.kubeconfig())?;
    let known = kubeconfig
        .clusters
        .first()
        .and_then(|known| known.cluster.as_ref());
    let data = known
        .and_then(|known| known.certificate_authority_data.clone())
        .context("a CA")?;
    entry.client_config.ca_bundle = Some(serde_json::from_value(json!(data))?);
    webhooks
        .replace("argosy", &kube::api::PostParams::default(), &other)
        .await?;
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(control.clone());
    let weaker = json!({ "spec": { "validationActions": ["Audit"] } });
    fleet.patch(bindings, "argosy-hold", weaker).await?;
    create(
        &Api::all(control.clone()),
        &objects::policy("unseen", "doctor", "nobody")?,
    )
    .await?;
    deployment(control, CONTROLLER_NAMESPACE, "argosy-controller", "", 0).await?;
    deployment(control, "argo", "workflow-controller", "", 0).await?;
    definitions::install_argo_cron(control).await?;
    fleet.create_schedule().await?;
    let broken = fleet.said(&[]).await?;
    broken.assert("webhook", "failed", "trusts another CA");
    broken.assert("admission-policies", "failed", "argosy-hold has no effect");
    broken.assert("policies", "failed", "has not processed BindingPolicy unseen");
    broken.assert("controller", "failed", "has no ready pod");
    broken.assert("local-argo", "warning", "has no ready pod");
    broken.assert("schedules", "warning", "so nobody fires 1 CronWorkflows");

    webhooks.delete("argosy", &DeleteParams::default()).await?;
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(control.clone());
    for policy in ["argosy-create", "argosy-members"] {
        policies.delete(policy, &DeleteParams::default()).await?;
    }
    fleet.s3.kill()?;
    let bare = fleet.said(&[]).await?;
    bare.assert("webhook", "failed", "argosy is missing");
    bare.assert("webhook-answers", "skipped", "no webhook");
    bare.assert("admission-policies", "failed", "argosy-create is missing");
    bare.assert("members-policy", "failed", "argosy-members is missing");
    bare.assert("artifacts", "failed", &fleet.s3.endpoint);

    let definitions: Api<CustomResourceDefinition> = Api::all(control.clone());
    let gone = ["workflows.argoproj.io", "customtransforms.control.kubestellar.io"];
    for name in gone {
        definitions.delete(name, &DeleteParams::default()).await?;
    }
    let older = json!([{ "op": "remove", "path":
        "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/downsync/items/properties/statusCollectors" }]);
    let older: Patch<()> = Patch::Json(serde_json::from_value(older)?);
    let name = "bindingpolicies.control.kubestellar.io";
    definitions.patch(name, &PatchParams::default(), &older).await?;
    let undefined = fleet.said(&[]).await?;
    undefined.assert("argo", "failed", "workflows.argoproj.io is not");
    undefined.assert(
        "definitions",
        "failed",
        "customtransforms.control.kubestellar.io is not",
    );
    undefined.assert(
        "definitions",
        "failed",
        "lacks the field spec.downsync.statusCollectors",
    );

    env.control.kill()?;
    let away = fleet.said(&[]).await?;
    assert_eq!(away.code, Some(2));
    away.assert("control-cluster", "skipped", "cannot reach the control cluster");
    assert_eq!(away.findings.len(), 1, "nothing else can be looked at");
    Ok(())
}

#[tokio::test]
async fn what_is_wrong_with_a_cluster_is_said_of_that_cluster() -> Result<()> {
    let fleet = Fleet::new("doctor-clusters").await?;
    let (fixture, control) = (&fleet.fixture, &fleet.fixture.control);
    let nobody = fleet.said(&["--cluster", "nobody"]).await?;
    assert_eq!(nobody.code, Some(1));
    nobody.assert("clusters", "failed", "there is no ManagedCluster nobody");

    // A cluster without Argo, without an artifact repository, and with its only node cordoned.
    let (server, client) = wec(&fleet.env, "doctor-ill").await?;
    add_node(&client, true).await?;
    let mut ill = fixture.join("ill", &server).await?;
    fixture.start_agent(&mut ill, 3).await?;
    let is_described = |cluster: &_| conditions(cluster).contains_key("ArtifactRepositoryReady");
    until(&fixture.clusters(), &ill.cluster, "it is described", is_described).await?;
    let only_ill = ["--cluster", ill.cluster.as_str(), "--stuck-after", "1s"];
    let said = fleet.said(&only_ill).await?;
    assert_eq!(said.code, Some(1));
    let of_ill = |check: &str| format!("{}/{check}", ill.cluster);
    said.assert(&of_ill("argo"), "failed", "install Argo Workflows there");
    said.assert(&of_ill("artifacts"), "failed", "NotConfigured");
    said.assert(&of_ill("capacity"), "failed", "no node that takes pods");
    said.assert(&of_ill("agent"), "ok", "its agent has version");
    assert!(
        !said
            .findings
            .keys()
            .any(|check| check.starts_with(&fleet.member.cluster)),
        "of that cluster only"
    );

    ill.agent()?.kill()?;
    create(
        &ill.works(),
        &mailbox::theirs("unheard", &[mailbox::config_map("default", "unheard", "1")])?,
    )
    .await?;
    let claims =
        json!({ "status": { "clusterClaims": [{ "name": names::AGENT_VERSION_CLAIM, "value": "0.0.1" }] } });
    let clusters = fixture.clusters();
    clusters
        .patch_status(&ill.cluster, &PatchParams::default(), &Patch::Merge(claims))
        .await?;
    fleet
        .patch(
            clusters,
            &ill.cluster,
            json!({ "spec": { "hubAcceptsClient": false } }),
        )
        .await?;
    create(
        &Api::namespaced(control.clone(), CONTROLLER_NAMESPACE),
        &kubeconfig_secret(&ill.cluster, b"- no kubeconfig".to_vec()),
    )
    .await?;
    eventually("everything that was broken is told", async || {
        let said = fleet.said(&only_ill).await?;
        ensure!(said.code == Some(1), "{:#?}", said.findings);
        Ok([
            ("lease", "failed", "LeaseExpired"),
            ("accepted", "failed", "has not accepted"),
            ("agent", "warning", "has version 0.0.1"),
            ("kubeconfig", "failed", "contains no valid kubeconfig"),
            ("works", "failed", "unheard: no report for"),
        ]
        .iter()
        .all(|(check, outcome, words)| said.has(&of_ill(check), outcome, words)))
    })
    .await?;
    let namespaces: Api<Namespace> = Api::all(control.clone());
    namespaces.delete(&ill.cluster, &DeleteParams::default()).await?;
    fleet
        .said(&only_ill)
        .await?
        .assert(&of_ill("mailbox"), "failed", "is being deleted");
    Ok(())
}

#[tokio::test]
async fn an_agent_without_rights_at_the_hub_is_told_what_it_lacks() -> Result<()> {
    let env = TestEnv::shared().await?;
    let hub = Server::start_restricted(&env.servers.store, "doctor-rights").await?;
    let client = hub.client().await?;
    definitions::install_on_control(&client).await?;
    create(&Api::all(client.clone()), &objects::managed_cluster("one")).await?;
    create_namespace(&client, "one").await?;
    let none = Said::by(hub.kubeconfig(), &[]).await?;
    none.assert("one/rights", "failed", "may not list manifestworks");
    none.assert("webhook", "warning", "without a webhook");
    none.assert(
        "controller",
        "failed",
        "there is no Deployment argosy/argosy-controller",
    );
    none.assert("one/lease", "failed", "never renewed");

    let every = ["get", "list", "watch", "create", "patch"];
    let role: ClusterRole = serde_json::from_value(json!({
        "metadata": { "name": "agent" },
        "rules": [
            { "apiGroups": ["work.open-cluster-management.io", "control.kubestellar.io", "coordination.k8s.io"], "resources": ["*"], "verbs": every },
            { "apiGroups": ["cluster.open-cluster-management.io"], "resources": ["managedclusters"], "resourceNames": ["one"], "verbs": ["get"] },
        ],
    }))?;
    create(&Api::all(client.clone()), &role).await?;
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": { "name": "agent" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "agent" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "argosy.dev:agent:one" }],
    }))?;
    create(&Api::all(client.clone()), &binding).await?;
    // Authorizers receive roles some moments later.
    eventually("one right is lacking", async || {
        let said = Said::by(hub.kubeconfig(), &[]).await?;
        Ok(said.has(
            "one/rights",
            "failed",
            "argosy.dev:agent:one may not patch managedclusters/status",
        ))
    })
    .await?;
    let status = json!({ "apiGroups": ["cluster.open-cluster-management.io"], "resources": ["managedclusters/status"], "verbs": ["patch"] });
    let more: Patch<()> = Patch::Json(serde_json::from_value(
        json!([{ "op": "add", "path": "/rules/-", "value": status }]),
    )?);
    let roles: Api<ClusterRole> = Api::all(client);
    roles.patch("agent", &PatchParams::default(), &more).await?;
    eventually("nothing is lacking", async || {
        let said = Said::by(hub.kubeconfig(), &[]).await?;
        Ok(said.has("one/rights", "ok", "argosy.dev:agent:one has all permissions"))
    })
    .await?;

    let unprivileged = Said::by(&hub.kubeconfig_restricted("nobody")?, &[]).await?;
    assert_eq!(unprivileged.code, Some(2), "{:#?}", unprivileged.findings);
    unprivileged.assert("webhook", "skipped", "is forbidden");
    Ok(())
}
