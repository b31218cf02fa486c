//! Uninstalling an agent.

use anyhow::Result;
use argosy_api::names;
use argosy_tests::lab::{Scene, binaries, objects::phase};
use kube::{ResourceExt, api::DeleteParams};

#[tokio::test]
async fn release_lets_every_object_of_the_cluster_go_and_no_other() -> Result<()> {
    let scene = Scene::new("release").await?;
    let (member, neighbour) = (scene.pull().await?, scene.join_pull("neighbour", 30).await?);
    scene.dispatch("one", &member).await?;
    member.argo().start("one").await?;
    scene.dispatch("two", &member).await?;
    scene.dispatch("theirs", &neighbour).await?;
    member.agent()?.kill()?;
    binaries::release(&member.cluster, &member.kubeconfig)?;
    for name in ["one", "two"] {
        assert_eq!(
            member.workflows().get(name).await?.finalizers(),
            [] as [String; 0],
            "{name} is still held"
        );
    }
    assert_eq!(
        phase(&member.workflows().get("one").await?),
        "Running",
        "it goes on running"
    );
    assert_eq!(
        neighbour.workflows().get("theirs").await?.finalizers(),
        [names::AGENT_FINALIZER]
    );
    member.workflows().delete("one", &DeleteParams::default()).await?;
    assert!(
        member.workflows().get_opt("one").await?.is_none(),
        "nothing holds it"
    );
    Ok(())
}
