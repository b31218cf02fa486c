//! The end of the objects that Workflows have needed on their cluster.

use anyhow::{Context, Result};
use argosy_api::names;
use argosy_tests::testenv::{
    Fixture, TestEnv,
    mailbox::says,
    objects::create,
    waiting::{until, until_gone},
};
use kube::ResourceExt;

use super::dependencies::{ask, map, maps, needing, value};

#[tokio::test]
async fn what_was_sent_for_a_run_goes_after_its_end_and_what_the_cluster_had_before_stays() -> Result<()> {
    let linger = vec![("ARGOSY_DEPENDENCY_LINGER", "2s".to_owned())];
    let env = TestEnv::own_replicated("dependencies-left", linger).await?;
    let fixture = Fixture::on(env, "dependencies-left").await?;
    let member = fixture.pull().await?;
    ask(&fixture, &member).await?;
    let (here, there) = (maps(&fixture.control, &fixture), maps(&member.wec, &fixture));
    create(&there, &map("taken", "of the cluster")?).await?;
    let mut works = Vec::new();
    for name in ["settings", "taken"] {
        let sent = create(&here, &map(name, "of the control cluster")?).await?;
        works.push(names::work_name(&sent.uid().context("it has a UID")?));
    }
    let workflow = needing("needs", &member, &["settings", "taken"], &[]);
    create(&fixture.workflows(), &workflow).await?;
    until(&member.workflows(), "needs", "it begins", |_| true).await?;
    member.argo().start("needs").await?;
    for (work, is_applied) in works.iter().zip(["True", "False"]) {
        until(&member.works(), work, "it says if it is applied", |work| {
            says(work, "Applied", is_applied)
        })
        .await?;
    }
    let settings = there.get("settings").await?;
    assert_eq!(value(&settings), Some("of the control cluster"));

    member.argo().finish("needs", "Succeeded").await?;
    until_gone(&there, "settings", "it goes from the cluster").await?;
    for work in &works {
        until_gone(&member.works(), work, "it goes from the mailbox").await?;
    }
    let taken = there.get("taken").await?;
    assert_eq!(value(&taken), Some("of the cluster"));
    for name in ["settings", "taken"] {
        assert!(here.get_opt(name).await?.is_some(), "{name} was the user's");
    }
    Ok(())
}
