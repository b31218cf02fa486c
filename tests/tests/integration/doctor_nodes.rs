//! `argosy doctor` about a virtual Node: each link from the API server to the agent is really broken,
//! and the finding names it.

use anyhow::{Context, Result};
use argosy_api::names;
use argosy_tests::testenv::{
    admission::eventually,
    objects::{CONTROLLER_NAMESPACE, create, deployment},
};
use kube::{Api, Client};

use super::{doctor::Said, kubelet::Lab};

const REACHED: &str = "the controller reaches the agent for logs and Events";

/// The Deployment of a controller with virtual Nodes, which nothing runs: doctor asks it if there are
/// to be any.
async fn install(control: &Client) -> Result<()> {
    let mut controller = deployment(names::CONTROLLER_DEPLOYMENT)?;
    let pods = controller
        .spec
        .as_mut()
        .and_then(|spec| spec.template.spec.as_mut());
    let container = pods
        .and_then(|pods| pods.containers.first_mut())
        .context("a container")?;
    container.args = Some(vec!["--nodes".to_owned()]);
    create(
        &Api::namespaced(control.clone(), CONTROLLER_NAMESPACE),
        &controller,
    )
    .await?;
    Ok(())
}

/// Waits until the check of the Node has these findings, each with an outcome and words of its
/// message, and no others.
async fn until_said(lab: &Lab, expected: &[(&str, &str)]) -> Result<Said> {
    let (kubeconfig, cluster) = (lab.fixture.env.control.kubeconfig(), &lab.member.cluster);
    let check = format!("{cluster}/node");
    let mut last = None;
    let waited = eventually("doctor says it", async || {
        let said = Said::by(kubeconfig, &["--cluster", cluster]).await?;
        let count = said.findings.get(&check).map(Vec::len);
        let is_it = count == Some(expected.len())
            && expected
                .iter()
                .all(|(outcome, words)| said.has(&check, outcome, words));
        last = Some(said);
        Ok(is_it)
    });
    let waited = waited.await;
    let said = last.context("it has said nothing")?;
    waited.with_context(|| format!("{expected:?}; but: {:#?}", said.findings.get(&check)))?;
    Ok(said)
}

#[tokio::test]
async fn the_link_to_a_cluster_that_is_broken_is_named_and_none_if_all_hold() -> Result<()> {
    let lab = Lab::new("doctor-nodes").await?;
    install(&lab.fixture.control).await?;
    let (ready, endpoint) = (
        ("ok", "is ready"),
        ("ok", "the API server reaches the kubelet endpoint"),
    );
    let all_hold = [ready, endpoint, ("ok", REACHED)];
    until_said(&lab, &all_hold).await?;

    lab.member.agent()?.terminate()?;
    let since = format!(
        "the agent of cluster {} has no tunnel to the control cluster since 20",
        lab.member.cluster
    );
    let said = until_said(&lab, &[ready, endpoint, ("failed", &since)]).await?;
    assert_eq!(said.code, Some(1));
    lab.member.agent()?.start_again().await?;
    until_said(&lab, &all_hold).await?;

    // Without the endpoint, nobody can say if the agent is reached.
    lab.fixture.env.controller.kill()?;
    let unreached = "the API server does not reach the kubelet endpoint";
    let said = until_said(&lab, &[ready, ("failed", unreached)]).await?;
    assert_eq!(said.code, Some(1));
    Ok(())
}
