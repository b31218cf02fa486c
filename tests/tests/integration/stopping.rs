//! Termination as a kubelet requests it.

use anyhow::Result;
use argosy_tests::testenv::{Fixture, TestEnv};

#[tokio::test]
async fn controller_and_agent_end_cleanly_when_they_are_asked_to() -> Result<()> {
    let env = TestEnv::own("stopping").await?;
    let fixture = Fixture::on(env.clone(), "stopping").await?;
    // One agent with its own process and one that the controller hosts. Both end with their
    // process.
    let (pulled, _pushed) = (fixture.pull().await?, fixture.push().await?);
    let agent = pulled.agent()?.terminate()?;
    assert!(agent.success(), "the agent ended with {agent}");
    let controller = env.controller.terminate()?;
    assert!(controller.success(), "the controller ended with {controller}");
    Ok(())
}
