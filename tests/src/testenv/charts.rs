//! The objects of Argosy's charts on a cluster, except those that need a kubelet.

use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use super::{objects::CONTROLLER_NAMESPACE, server::Server, toolchain};

/// Renders some templates of the chart `argosy`, with values in the form of `--set-json`, and
/// applies them.
pub fn apply(server: &Server, templates: &[&str], values: &str) -> Result<()> {
    apply_of("argosy", server, templates, values)
}

/// Like [`apply`], of the chart `argosy-agent`: the rights of an agent.
pub fn apply_agent(server: &Server, values: &str) -> Result<()> {
    apply_of("argosy-agent", server, &["rbac.yaml", "pull.yaml"], values)
}

fn apply_of(chart: &str, server: &Server, templates: &[&str], values: &str) -> Result<()> {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../charts")
        .join(chart);
    let mut helm = Command::new(toolchain::binary("helm")?);
    helm.arg("template")
        .arg(chart)
        .args(["--namespace", CONTROLLER_NAMESPACE, "--set-json", values]);
    for template in templates {
        helm.args(["--show-only", &format!("templates/{template}")]);
    }
    let rendered = helm.output().context("cannot run helm")?;
    ensure!(
        rendered.status.success(),
        "helm: {}",
        String::from_utf8_lossy(&rendered.stderr)
    );
    let mut kubectl = Command::new(toolchain::binary("kubectl")?)
        .arg("--kubeconfig")
        .arg(server.kubeconfig())
        .args(["apply", "--server-side", "--force-conflicts", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run kubectl")?;
    let mut input = kubectl.stdin.take().context("its input is piped")?;
    input.write_all(&rendered.stdout)?;
    drop(input);
    let applied = kubectl.wait_with_output()?;
    ensure!(
        applied.status.success(),
        "kubectl: {}",
        String::from_utf8_lossy(&applied.stderr)
    );
    Ok(())
}
