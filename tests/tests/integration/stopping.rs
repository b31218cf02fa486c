//! Ending as a kubelet asks for it.

use anyhow::Result;
use argosy_tests::lab::{Scene, Stage};

#[tokio::test]
async fn controller_and_agent_end_cleanly_when_they_are_asked_to() -> Result<()> {
    let stage = Stage::own("stopping").await?;
    let scene = Scene::on(stage.clone(), "stopping").await?;
    // One agent of its own, one that the controller hosts: both end with their process.
    let (pulled, _pushed) = (scene.pull().await?, scene.push().await?);
    let agent = pulled.agent()?.terminate()?;
    assert!(agent.success(), "the agent ended with {agent}");
    let controller = stage.controller.terminate()?;
    assert!(controller.success(), "the controller ended with {controller}");
    Ok(())
}
