//! `argosy logs -f` of a run whose policy shows pods only if they are asked for. Logs need kubelets: the
//! tests of the fleet read them.

use std::{path::Path, process::Stdio, sync::Arc};

use anyhow::{Context, Result};
use argosy_tests::testenv::{
    Fixture,
    admission::eventually,
    binaries::{argosy, binary},
    objects::create,
    s3::S3,
    signing::Signing,
    waiting::PATIENCE,
};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Api;
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStderr, Command},
    time::timeout,
};

use super::metrics::{begin, of_a_long_step, report, show, shows};

/// Name of the user who may read logs and write nothing.
const READER: &str = "reader";

/// Lets [`READER`] read logs, and what is needed for them.
async fn allow(fixture: &Fixture) -> Result<()> {
    let may = |group: &str, resources: &[&str]| json!({ "apiGroups": [group], "resources": resources, "verbs": ["get", "list", "watch"] });
    let role: Role = serde_json::from_value(json!({
        "metadata": { "name": READER },
        "rules": [
            may("argoproj.io", &["workflows"]),
            may("", &["pods", "pods/log", "configmaps", "secrets"]),
        ],
    }))?;
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": { "name": READER },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": READER },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": READER }],
    }))?;
    let (control, namespace) = (&fixture.control, &fixture.namespace);
    create(&Api::namespaced(control.clone(), namespace), &role).await?;
    create(&Api::namespaced(control.clone(), namespace), &binding).await?;
    Ok(())
}

/// Starts `argosy logs -f`. Returns the process and its standard error.
fn follow(kubeconfig: &Path, namespace: &str, name: &str) -> Result<(Child, Lines<BufReader<ChildStderr>>)> {
    let arguments = ["logs", "-f", "--no-prefix", name, "-n", namespace];
    let mut process = Command::new(binary("argosy")?)
        .args(arguments)
        .args(["--argo-namespace", namespace, "--kubeconfig"])
        .arg(kubeconfig)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let errors = process.stderr.take().context("its errors are piped")?;
    Ok((process, BufReader::new(errors).lines()))
}

#[tokio::test]
async fn who_may_ask_is_shown_the_pods_and_who_may_not_is_told_and_reads_what_is_archived() -> Result<()> {
    let (signing, _) = Signing::with_nodes("logs-asked").await?;
    let fixture = Fixture::on(Arc::clone(&signing.env), "logs-asked").await?;
    let (control, namespace) = (&signing.env.control, fixture.namespace.as_str());
    let s3 = S3::start().await?;
    s3.configure(&fixture.control, namespace).await?;
    // The key that the log of a played step has.
    s3.put("run", "land in sight\n").await?;
    let member = fixture.pull().await?;
    show(&fixture, &member, "asked").await?;
    allow(&fixture).await?;
    let run = begin(&fixture, &member, "run", "asked").await?;
    let reader = control.kubeconfig_restricted(READER)?;
    eventually("the reader has its rights", async || {
        let arguments = ["logs", "run", "-n", namespace, "--argo-namespace", namespace];
        Ok(argosy(&reader, &arguments).await?.code == Some(0))
    })
    .await?;

    let (process, mut errors) = follow(&reader, namespace, "run")?;
    let told = timeout(PATIENCE, errors.next_line()).await.context("no note")??;
    let told = told.context("it has ended")?;
    for words in ["you may not ask for the running pods", "cannot patch resource"] {
        assert!(told.contains(words), "{told}");
    }
    shows(&fixture, &run, false).await?;

    let (asking, _errors) = follow(control.kubeconfig(), namespace, "run")?;
    shows(&fixture, &run, true).await?;
    drop(asking);
    report(&fixture, &member, "run", of_a_long_step("run", "Succeeded")).await?;
    let ended = timeout(PATIENCE, process.wait_with_output()).await??;
    let output = String::from_utf8(ended.stdout)?;
    assert_eq!(
        (ended.status.code(), output.as_str()),
        (Some(0), "land in sight\n")
    );
    Ok(())
}
