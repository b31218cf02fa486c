//! The kubelet endpoint of the controller: its answers to the API server, and to everybody else. The
//! tests of the fleet read logs.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result, ensure};
use argosy_api::names;
use argosy_tests::testenv::{
    Fixture, Member,
    admission::eventually,
    objects::create,
    signing::Signing,
    toolchain,
    waiting::{until, until_gone},
};
use axum::http::Request;
use k8s_openapi::api::{
    core::v1::{Node, Pod},
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{DeleteParams, ListParams, LogParams, Patch, PatchParams},
    client::Body,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use tokio::{process::Command, time::timeout};

/// Name of the Node of the pod, which does not exist, so that the API server of the cluster says so.
const ABSENT: &str = "absent-node";

/// A control cluster with virtual Nodes, a cluster with an agent, and a run with one pod, which no
/// kubelet has started.
pub(super) struct Lab {
    pub(super) signing: Signing,
    pub(super) fixture: Fixture,
    pub(super) member: Member,
    port: u16,
    pub(super) shadow: Pod,
}

impl Lab {
    pub(super) async fn new(name: &str) -> Result<Self> {
        Self::of(Signing::with_nodes(name).await?, name).await
    }

    async fn of((signing, port): (Signing, u16), name: &str) -> Result<Self> {
        let fixture = Fixture::on(signing.env.clone(), name).await?;
        let member = fixture.pull().await?;
        fixture.dispatch("hello", &member).await?;
        let object = member.argo().start("hello").await?;
        let shadow = shadow_pod(&fixture).await?;
        let pod = pod(&json!({
            "metadata": {
                "name": shadow.name_any(),
                "labels": { names::ARGO_WORKFLOW_LABEL: "hello" },
                "ownerReferences": [{
                    "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "hello",
                    "uid": object.uid(), "controller": true,
                }],
            },
            "spec": {
                "nodeName": ABSENT,
                "containers": [{ "name": "main", "image": "busybox:1.36" }],
            },
        }))?;
        create(&Api::namespaced(member.wec.clone(), name), &pod).await?;
        Ok(Self {
            signing,
            fixture,
            member,
            port,
            shadow,
        })
    }

    /// Status and text of the answer to a request of the account in the kubeconfig at `path`, or of
    /// nobody, to the kubelet endpoint.
    pub(super) async fn ask(&self, account: Option<&Path>, path: &str) -> Result<(u16, String)> {
        self.send(account, Request::get(path).body(Body::empty())?).await
    }

    async fn send(&self, account: Option<&Path>, request: Request<Body>) -> Result<(u16, String)> {
        let response = self.endpoint(account).await?.send(request).await?;
        let status = response.status().as_u16();
        let text = axum::body::to_bytes(axum::body::Body::new(response.into_body()), 1 << 20).await?;
        Ok((status, String::from_utf8(text.to_vec())?))
    }

    async fn endpoint(&self, account: Option<&Path>) -> Result<Client> {
        let path = account.unwrap_or(self.signing.env.control.kubeconfig());
        let mut kubeconfig = Kubeconfig::read_from(path)?;
        for cluster in kubeconfig
            .clusters
            .iter_mut()
            .filter_map(|named| named.cluster.as_mut())
        {
            cluster.server = Some(format!("https://127.0.0.1:{}", self.port));
            cluster.certificate_authority = None;
            cluster.insecure_skip_tls_verify = Some(true);
        }
        let options = KubeConfigOptions::default();
        Ok(Client::try_from(
            Config::from_custom_kubeconfig(kubeconfig, &options).await?,
        )?)
    }

    fn log_path(&self) -> String {
        format!(
            "/containerLogs/{}/{}/main",
            self.fixture.namespace,
            self.shadow.name_any()
        )
    }

    /// The path that tells if the agent answers.
    fn tunnel_path(&self) -> String {
        format!("/tunnel/{}", self.member.cluster)
    }

    /// Number of requests that the endpoint has refused with 403.
    async fn refused(&self) -> Result<u64> {
        let text = self.signing.env.controller.metrics().await?;
        let series = r#"argosy_kubelet_requests_total{outcome="forbidden"} "#;
        let count = text.lines().find_map(|line| line.strip_prefix(series));
        Ok(count.map_or(Ok(0), str::parse)?)
    }

    pub(super) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.fixture.control.clone(), &self.fixture.namespace)
    }
}

pub(super) fn pod(value: &Value) -> Result<Pod> {
    Ok(serde_json::from_value(value.clone())?)
}

async fn shadow_pod(fixture: &Fixture) -> Result<Pod> {
    let pods: Api<Pod> = Api::namespaced(fixture.control.clone(), &fixture.namespace);
    let mut found = None;
    eventually("the running pod has a shadow pod", async || {
        let listed = pods
            .list(&ListParams::default().labels(names::SHADOW_OF_LABEL))
            .await?;
        found = listed.items.into_iter().find(|pod| {
            let status = pod.status.as_ref();
            status.and_then(|status| status.phase.as_deref()) == Some("Running")
        });
        Ok(found.is_some())
    })
    .await?;
    found.context("it was found")
}

#[tokio::test]
async fn only_an_account_that_may_reach_kubelets_reads_a_log() -> Result<()> {
    let lab = Lab::new("kubelet-accounts").await?;
    let (log, tunnel) = (lab.log_path(), lab.tunnel_path());
    let signing = &lab.signing;
    let api_server = signing.forged("/O=system:masters/CN=kube-apiserver-kubelet-client")?;
    let agent = signing.forged(&format!(
        "/O=argosy.dev:agents/CN={}",
        names::agent_user(&lab.member.cluster)
    ))?;
    let stranger = signing.signed_by_stranger("/O=system:masters/CN=kube-apiserver-kubelet-client")?;
    let api_server = Some(api_server.as_path());
    for (account, path, expected, words) in [
        (None, log.as_str(), 401, "a client certificate is required"),
        (None, "/metrics", 200, ""),
        (None, "/metrics/resource", 200, ""),
        (None, "/stats/summary", 200, "{\"node\":{},\"pods\":[]}"),
        (None, "/pods", 401, "a client certificate is required"),
        (None, "/healthz", 200, "ok"),
        (Some(agent.as_path()), &log, 403, "may not use nodes/proxy"),
        (None, &tunnel, 401, "a client certificate is required"),
        (
            Some(agent.as_path()),
            "/containerLogs/kubelet-accounts/absent/main",
            403,
            "may not use nodes/proxy",
        ),
        (
            Some(agent.as_path()),
            "/events/kubelet-accounts/absent",
            403,
            "may not use nodes/proxy",
        ),
        (Some(agent.as_path()), &tunnel, 403, "may not use nodes/proxy"),
        (api_server, "/tunnel/absent", 500, "absent is not in the fleet"),
        (api_server, "/tunnel/..%2Fx", 400, "not a request"),
        (
            api_server,
            "/containerLogs/kubelet-accounts/absent/main",
            400,
            "there is no shadow pod",
        ),
        (
            api_server,
            "/containerLogs/kubelet-accounts/..%2Fx/main",
            400,
            "not a request",
        ),
        (api_server, "/exec/kubelet-accounts/hello/main", 405, ""),
    ] {
        let (status, text) = lab.ask(account, path).await?;
        assert_eq!(status, expected, "{account:?}, {path}: {text}");
        assert!(text.contains(words), "{account:?}, {path}: {text}");
    }
    // Through the agent, whose tunnel may not be open yet.
    eventually("the agent answers", async || {
        let (status, text) = lab.ask(api_server, &log).await?;
        Ok(status == 400 && text.contains(ABSENT))
    })
    .await?;
    assert_eq!(lab.ask(api_server, &tunnel).await?, (200, "ok".to_owned()));
    let refused = lab.ask(Some(&stranger), &log).await.err();
    let refused = refused.context("an unknown authority has no connection")?;
    assert!(format!("{refused:#}").contains("alert"), "{refused:#}");
    Ok(())
}

/// Lets the user of the certificate of `cluster` read kubelets, as `kubectl logs` and no more needs.
async fn let_read_kubelets(lab: &Lab) -> Result<()> {
    let control = lab.signing.env.control.client().await?;
    let role: ClusterRole = serde_json::from_value(json!({
        "metadata": { "name": "reads-kubelets" },
        "rules": [{ "apiGroups": [""], "resources": ["nodes/proxy"], "verbs": ["get"] }],
    }))?;
    create(&Api::all(control.clone()), &role).await?;
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": { "name": "reads-kubelets" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reads-kubelets" },
        "subjects": [{
            "apiGroup": "rbac.authorization.k8s.io", "kind": "User",
            "name": names::agent_user(&lab.member.cluster),
        }],
    }))?;
    create(&Api::all(control), &binding).await?;
    Ok(())
}

#[tokio::test]
async fn only_an_account_that_may_write_to_kubelets_opens_a_session() -> Result<()> {
    let lab = Lab::of(Signing::with_sessions("kubelet-exec").await?, "kubelet-exec").await?;
    let api_server = lab
        .signing
        .forged("/O=system:masters/CN=kube-apiserver-kubelet-client")?;
    let agent = lab.signing.forged(&format!(
        "/O=argosy.dev:agents/CN={}",
        names::agent_user(&lab.member.cluster)
    ))?;
    let ask = async |account: Option<&Path>, kind: &str, container: &str| {
        let path = format!(
            "/{kind}/{}/{}{container}",
            lab.fixture.namespace,
            lab.shadow.name_any()
        );
        let request = Request::post(path)
            .header("Connection", "Upgrade")
            .header("Upgrade", "SPDY/3.1");
        lab.send(account, request.body(Body::empty())?).await
    };
    let kinds = [("exec", "/main"), ("attach", "/main"), ("portForward", "")];
    let refused = async |words: &str, account: Option<&Path>, status: u16| {
        for (kind, container) in kinds {
            let (answered, text) = ask(account, kind, container).await?;
            ensure!(
                answered == status && text.contains(words),
                "{kind}: {answered}: {text}"
            );
        }
        anyhow::Ok(())
    };
    refused("a client certificate is required", None, 401).await?;
    refused("may not use nodes/proxy", Some(&agent), 403).await?;
    // Nor does one that may only read.
    let_read_kubelets(&lab).await?;
    eventually("it may read the log", async || {
        Ok(lab.ask(Some(&agent), &lab.log_path()).await?.0 != 403)
    })
    .await?;
    refused("may not use nodes/proxy", Some(&agent), 403).await?;
    // The agent decides about those of the API server.
    eventually("the agent answers", async || {
        let (_, text) = ask(Some(&api_server), "exec", "/main").await?;
        Ok(text.contains("this agent serves logs and Events only"))
    })
    .await
}

/// Waits until the answer to a request for the log of `pod` contains `words`.
async fn said(pods: &Api<Pod>, pod: &str, words: &str) -> Result<()> {
    let mut last = String::new();
    let params = LogParams {
        container: Some("main".to_owned()),
        ..LogParams::default()
    };
    let waited = eventually(words, async || {
        last = match pods.logs(pod, &params).await {
            Ok(log) => format!("a log: {log}"),
            Err(error) => error.to_string(),
        };
        Ok(last.contains(words))
    });
    waited
        .await
        .with_context(|| format!("the last answer was: {last}"))
}

#[tokio::test]
async fn the_api_server_gets_the_agents_words_and_after_its_end_the_reason() -> Result<()> {
    let lab = Lab::new("kubelet-words").await?;
    let pods = lab.pods();
    let name = lab.shadow.name_any();
    said(&pods, &name, ABSENT).await?;
    lab.member.agent()?.terminate()?;
    let expected = format!(
        "the agent of cluster {} has no tunnel to the control cluster since 20",
        lab.member.cluster
    );
    said(&pods, &name, &expected).await?;
    let api_server = lab
        .signing
        .forged("/O=system:masters/CN=kube-apiserver-kubelet-client")?;
    let (status, text) = lab.ask(Some(&api_server), &lab.tunnel_path()).await?;
    assert_eq!(status, 500, "{text}");
    assert!(text.contains(&expected), "{text}");
    lab.member.agent()?.start_again().await?;
    said(&pods, &name, ABSENT).await?;
    // The shadow pod goes with its Workflow, and the Node with its cluster.
    lab.fixture
        .workflows()
        .delete("hello", &DeleteParams::default())
        .await?;
    until_gone(&pods, &name, "its Workflow is deleted").await?;
    lab.fixture
        .clusters()
        .delete(&lab.member.cluster, &DeleteParams::default())
        .await?;
    let nodes: Api<Node> = Api::all(lab.fixture.control.clone());
    until_gone(
        &nodes,
        &names::virtual_node(&lab.member.cluster),
        "its cluster is gone",
    )
    .await
}

#[tokio::test]
async fn a_cluster_whose_node_is_turned_off_is_not_shown_and_not_asked() -> Result<()> {
    let lab = Lab::new("kubelet-off").await?;
    let (pods, clusters) = (lab.pods(), lab.fixture.clusters());
    let nodes: Api<Node> = Api::all(lab.fixture.control.clone());
    let (name, cluster) = (lab.shadow.name_any(), lab.member.cluster.as_str());
    let node = names::virtual_node(cluster);
    said(&pods, &name, ABSENT).await?;
    let turn = async |value: Option<&str>| {
        let patch = json!({ "metadata": { "annotations": { names::NODE_ANNOTATION: value } } });
        clusters
            .patch(cluster, &PatchParams::default(), &Patch::Merge(patch))
            .await
    };
    turn(Some(names::NODE_OFF)).await?;
    until_gone(&pods, &name, "its cluster is not shown").await?;
    until_gone(&nodes, &node, "it is turned off").await?;
    until(&clusters, cluster, "the offer is withdrawn", |cluster| {
        !cluster.annotations().contains_key(names::TUNNEL_ANNOTATION)
    })
    .await?;
    let api_server = lab
        .signing
        .forged("/O=system:masters/CN=kube-apiserver-kubelet-client")?;
    let (status, text) = lab.ask(Some(&api_server), "/events/kubelet-off/hello").await?;
    assert_eq!(status, 500, "{text}");
    assert!(text.contains("its virtual Node is turned off"), "{text}");
    turn(None).await?;
    until(&nodes, &node, "it is turned on again", |_| true).await?;
    said(&pods, &name, ABSENT).await
}

#[tokio::test]
async fn the_api_server_asks_for_sessions_by_post_however_its_client_asks() -> Result<()> {
    let lab = Lab::new("kubelet-sessions").await?;
    let (namespace, pod) = (lab.fixture.namespace.as_str(), lab.shadow.name_any());
    let mut refused = lab.refused().await?;
    for websockets in ["true", "false"] {
        for arguments in [
            &["exec", &pod, "-c", "main", "--", "id"][..],
            &["attach", &pod, "-c", "main"],
            &["port-forward", &pod, ":80"],
        ] {
            let asked = Command::new(toolchain::binary("kubectl")?)
                .arg("--kubeconfig")
                .arg(lab.signing.env.control.kubeconfig())
                .args(["--namespace", namespace])
                .args(arguments)
                .env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets)
                .env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets)
                .kill_on_drop(true)
                .output();
            let asked = timeout(Duration::from_mins(1), asked).await??;
            // The endpoint counts the sessions that it refuses, and no request by another method. An API
            // server does not pass on the reason to a WebSocket.
            let text = String::from_utf8_lossy(&asked.stderr);
            assert!(!asked.status.success(), "{arguments:?}, {websockets}: {text}");
            let (before, now) = (refused, lab.refused().await?);
            assert!(now > before, "{arguments:?}, {websockets}: {text}");
            refused = now;
        }
    }
    // With the right to `get` `nodes/proxy`, and with that to `create` it.
    let path = format!(
        "/api/v1/nodes/{}/proxy/exec/{namespace}/{pod}/main?command=id&output=1",
        names::virtual_node(&lab.member.cluster)
    );
    for (method, expected) in [("GET", 405), ("POST", 403)] {
        let request = Request::builder().method(method).uri(&path);
        let request = request
            .header("connection", "Upgrade")
            .header("upgrade", "SPDY/3.1")
            .body(Body::empty())?;
        let answer = lab.fixture.control.send(request).await?;
        assert_eq!(answer.status().as_u16(), expected, "{method}");
    }
    Ok(())
}
