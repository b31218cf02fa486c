//! A Workflow that has not started moves, but only after the old cluster has promised never to
//! start it.

use std::time::Duration;

use anyhow::Result;
use argosy_api::{Workflow, names};
use argosy_tests::testenv::{
    Fixture, Member, fake_argo,
    fixture::work_name,
    objects::{self, create, phase, says},
    waiting::{until, until_gone},
};
use kube::ResourceExt;

async fn send_to(fixture: &Fixture, name: &str, member: &Member) -> Result<Workflow> {
    fake_argo::edit(&fixture.workflows(), name, |workflow| {
        workflow.labels_mut().insert(
            names::KUBESTELLAR_CLUSTER_LABEL.to_owned(),
            member.cluster.clone(),
        );
    })
    .await
}

#[tokio::test]
async fn a_workflow_that_could_not_start_moves_when_its_label_changes() -> Result<()> {
    let fixture = Fixture::new("moving-blocked").await?;
    let (old, new) = (fixture.pull().await?, fixture.push().await?);
    let foreign = create(&old.workflows(), &objects::workflow("hello", "somebody")).await?;
    let workflow = fixture.submit("hello", &old).await?;
    until(&fixture.workflows(), "hello", "it is stuck", |workflow| {
        says(workflow, "Dispatched", "False", "ForeignObject")
    })
    .await?;
    send_to(&fixture, "hello", &new).await?;
    let moved = until(&new.workflows(), "hello", "it is on the new cluster", |_| true).await?;
    assert_eq!(moved.annotations()[names::ATTEMPT_ANNOTATION], "2");
    until_gone(
        &old.works(),
        &work_name(&workflow),
        "nothing is left in the old mailbox",
    )
    .await?;
    assert_eq!(old.workflows().get("hello").await?.uid(), foreign.uid());
    until(&fixture.workflows(), "hello", "it says where it is", |workflow| {
        says(workflow, "Dispatched", "True", "Claimed")
            && workflow.labels().get(names::CLUSTER_LABEL) == Some(&new.cluster)
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_move_waits_for_an_agent_that_is_away_and_says_so() -> Result<()> {
    let fixture = Fixture::new("moving-away").await?;
    let (old, new) = (fixture.pull().await?, fixture.push().await?);
    old.agent()?.kill()?;
    let workflow = fixture.submit("hello", &old).await?;
    until(
        &old.works(),
        &work_name(&workflow),
        "it waits in the old mailbox",
        |_| true,
    )
    .await?;
    send_to(&fixture, "hello", &new).await?;
    let waiting = until(
        &fixture.workflows(),
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
    fixture.round_trip("sentinel", &new).await?;
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
    let fixture = Fixture::new("moving-race").await?;
    let (old, new) = (fixture.pull().await?, fixture.push().await?);
    for round in 0..10 {
        let name = format!("hello-{round}");
        fixture.submit(&name, &old).await?;
        // A different moment each time: before, during and after the claim and the creation of the
        // object.
        tokio::time::sleep(Duration::from_millis(2 * round)).await;
        send_to(&fixture, &name, &new).await?;
    }
    for round in 0..10 {
        let name = format!("hello-{round}");
        let (on_old, on_new) = (old.workflows(), new.workflows());
        let there = tokio::select! {
            object = until(&on_old, &name, "it is on the old cluster", |_| true) => object.map(|_| &old),
            object = until(&on_new, &name, "it is on the new cluster", |_| true) => object.map(|_| &new),
        }?;
        there.argo().finish(&name, "Succeeded").await?;
        until(&fixture.workflows(), &name, "its end is shown", |workflow| {
            phase(workflow) == "Succeeded"
        })
        .await?;
    }
    for member in [&old, &new] {
        fixture
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
    let fixture = Fixture::new("moving-nowhere").await?;
    let old = fixture.pull().await?;
    create(&old.workflows(), &objects::workflow("hello", "somebody")).await?;
    let workflow = fixture.submit("hello", &old).await?;
    until(&fixture.workflows(), "hello", "it is stuck", |workflow| {
        says(workflow, "Dispatched", "False", "ForeignObject")
    })
    .await?;
    fake_argo::edit(&fixture.workflows(), "hello", |workflow| {
        workflow.labels_mut().remove(names::KUBESTELLAR_CLUSTER_LABEL);
    })
    .await?;
    until_gone(
        &old.works(),
        &work_name(&workflow),
        "nothing is left in the old mailbox",
    )
    .await?;
    let free = until(&fixture.workflows(), "hello", "it is let go", |workflow| {
        workflow.finalizers().is_empty()
    })
    .await?;
    assert!(!free.labels().contains_key(names::ARGO_COMPLETED_LABEL));
    assert_eq!(free.spec["suspend"], true, "nothing starts it here");
    Ok(())
}
