//! What has not started moves, but only when the old place has promised never to start it.

use std::time::Duration;

use anyhow::Result;
use argosy_api::{Workflow, names};
use argosy_tests::lab::{
    Member, Scene, argo,
    objects::{self, create, phase, says},
    scene::work_name,
    waiting::{until, until_gone},
};
use kube::ResourceExt;

async fn send_to(scene: &Scene, name: &str, member: &Member) -> Result<Workflow> {
    argo::edit(&scene.workflows(), name, |workflow| {
        workflow.labels_mut().insert(
            names::KUBESTELLAR_CLUSTER_LABEL.to_owned(),
            member.cluster.clone(),
        );
    })
    .await
}

#[tokio::test]
async fn a_workflow_that_could_not_start_moves_when_its_label_changes() -> Result<()> {
    let scene = Scene::new("moving-blocked").await?;
    let (old, new) = (scene.pull().await?, scene.push().await?);
    let foreign = create(&old.workflows(), &objects::workflow("hello", "somebody")).await?;
    let workflow = scene.submit("hello", &old).await?;
    until(&scene.workflows(), "hello", "it is stuck", |workflow| {
        says(workflow, "Dispatched", "False", "ForeignObject")
    })
    .await?;
    send_to(&scene, "hello", &new).await?;
    let moved = until(&new.workflows(), "hello", "it is on the new cluster", |_| true).await?;
    assert_eq!(moved.annotations()[names::ATTEMPT_ANNOTATION], "2");
    until_gone(
        &old.works(),
        &work_name(&workflow),
        "nothing is left in the old mailbox",
    )
    .await?;
    assert_eq!(old.workflows().get("hello").await?.uid(), foreign.uid());
    until(&scene.workflows(), "hello", "it says where it is", |workflow| {
        says(workflow, "Dispatched", "True", "Claimed")
            && workflow.labels().get(names::CLUSTER_LABEL) == Some(&new.cluster)
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_move_waits_for_an_agent_that_is_away_and_says_so() -> Result<()> {
    let scene = Scene::new("moving-away").await?;
    let (old, new) = (scene.pull().await?, scene.push().await?);
    old.agent()?.kill()?;
    let workflow = scene.submit("hello", &old).await?;
    until(
        &old.works(),
        &work_name(&workflow),
        "it waits in the old mailbox",
        |_| true,
    )
    .await?;
    send_to(&scene, "hello", &new).await?;
    let waiting = until(
        &scene.workflows(),
        "hello",
        "it says what it waits for",
        |workflow| says(workflow, "Dispatched", "False", "Moving"),
    )
    .await?;
    let message = objects::condition(&waiting, "Dispatched", "False").unwrap_or_default();
    assert!(
        message.contains(&old.cluster) && message.contains(&new.cluster),
        "{message}"
    );
    scene.round_trip("sentinel", &new).await?;
    assert!(
        new.workflows().get_opt("hello").await?.is_none(),
        "it started before the old agent had answered"
    );

    old.agent()?.start_again().await?;
    until(&new.workflows(), "hello", "it is on the new cluster", |_| true).await?;
    until_gone(
        &old.works(),
        &work_name(&workflow),
        "nothing is left in the old mailbox",
    )
    .await?;
    assert!(old.workflows().get_opt("hello").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_label_changed_in_the_moment_of_sending_ends_on_one_cluster() -> Result<()> {
    let scene = Scene::new("moving-race").await?;
    let (old, new) = (scene.pull().await?, scene.push().await?);
    for round in 0..10 {
        let name = format!("hello-{round}");
        scene.submit(&name, &old).await?;
        // A different moment each time: before, while and after the claim is written and the object created.
        tokio::time::sleep(Duration::from_millis(2 * round)).await;
        send_to(&scene, &name, &new).await?;
    }
    for round in 0..10 {
        let name = format!("hello-{round}");
        let (on_old, on_new) = (old.workflows(), new.workflows());
        let there = tokio::select! {
            object = until(&on_old, &name, "it is on the old cluster", |_| true) => object.map(|_| &old),
            object = until(&on_new, &name, "it is on the new cluster", |_| true) => object.map(|_| &new),
        }?;
        there.argo().finish(&name, "Succeeded").await?;
        until(&scene.workflows(), &name, "its end is shown", |workflow| {
            phase(workflow) == "Succeeded"
        })
        .await?;
    }
    for member in [&old, &new] {
        scene
            .round_trip(&format!("sentinel-{}", member.cluster), member)
            .await?;
    }
    for round in 0..10 {
        let name = format!("hello-{round}");
        let places = [
            old.workflows().get_opt(&name).await?,
            new.workflows().get_opt(&name).await?,
        ];
        assert_eq!(
            places.iter().flatten().count(),
            1,
            "{name} was created on both clusters"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_workflow_whose_cluster_loses_its_label_goes_back_to_waiting() -> Result<()> {
    let scene = Scene::new("moving-nowhere").await?;
    let old = scene.pull().await?;
    create(&old.workflows(), &objects::workflow("hello", "somebody")).await?;
    let workflow = scene.submit("hello", &old).await?;
    until(&scene.workflows(), "hello", "it is stuck", |workflow| {
        says(workflow, "Dispatched", "False", "ForeignObject")
    })
    .await?;
    argo::edit(&scene.workflows(), "hello", |workflow| {
        workflow.labels_mut().remove(names::KUBESTELLAR_CLUSTER_LABEL);
    })
    .await?;
    until_gone(
        &old.works(),
        &work_name(&workflow),
        "nothing is left in the old mailbox",
    )
    .await?;
    let free = until(&scene.workflows(), "hello", "it is let go", |workflow| {
        workflow.finalizers().is_empty()
    })
    .await?;
    assert!(!free.labels().contains_key(names::ARGO_COMPLETED_LABEL));
    assert_eq!(free.spec["suspend"], true, "nothing starts it here");
    Ok(())
}
