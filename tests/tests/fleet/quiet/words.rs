//! The messages that users get from their tools: `kubectl`'s warnings, columns and Events.

use anyhow::{Context as _, Result};
use argosy_api::{BindingPolicy, conditions::binding_policy as types, names, workflow};
use argosy_tests::fleet::{CONTROL, Fleet, History, LIMIT, PULL, PUSH, until};
use kube::Api;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_run_that_is_edited_or_relabeled_goes_on_as_it_was_sent_and_its_user_is_told() -> Result<()> {
    let fleet = Fleet::using(&[CONTROL, PULL, PUSH]).await?;
    let control = fleet.control()?;
    let name = control.gated_run(PULL, "edited").await?;

    let edit = r#"[{ "op": "replace", "path": "/spec/entrypoint", "value": "bye" }]"#;
    let words = [
        "patch",
        "workflow",
        &name,
        "--type=json",
        "-p",
        edit,
        "--warnings-as-errors",
    ];
    let warned = control.kubectl(&words).await.err().context("nothing warns")?;
    let warned = format!("{warned:#}");
    assert!(
        warned.contains("a run is not changed") && warned.contains(PULL),
        "{warned}"
    );

    let listed = control.kubectl(&["get", "manifestworks", "-n", PULL]).await?;
    let line = listed
        .lines()
        .find(|line| line.contains(&name))
        .context("not listed")?;
    assert!(line.contains(workflow::KIND), "{listed}");

    let label = format!("{}={PUSH}", names::KUBESTELLAR_CLUSTER_LABEL);
    control
        .kubectl(&["label", "workflow", &name, &label, "--overwrite"])
        .await?;
    let selector = format!("--field-selector=reason=Stays,involvedObject.name={name}");
    let told = until(LIMIT, "an Event that it stays", async || {
        let told = control
            .kubectl(&["get", "events", &selector, "-o", "jsonpath={.items[*].message}"])
            .await?;
        Ok((!told.is_empty()).then_some(told))
    })
    .await?;
    assert!(told.contains(PULL) && told.contains(PUSH), "{told}");

    control.argo(&["resume", &name]).await?;
    assert_eq!(History::follow(control, &name, LIMIT).await?.end(), "Succeeded");
    assert_eq!(fleet.clusters_with_pods(&name).await?, [PULL]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn of_the_policies_of_the_samples_there_is_nothing_to_warn() -> Result<()> {
    let fleet = Fleet::using(&[]).await?;
    let policies: Api<BindingPolicy> = Api::all(fleet.control()?.client());
    for cluster in [PULL, PUSH] {
        let policy = policies.get(&format!("workflows-{cluster}")).await?;
        let status = policy.status.context("nobody has looked at it")?;
        assert_eq!(status.warnings, Vec::<String>::new());
        let ready = status.conditions.iter().find(|known| known.type_ == types::READY);
        assert_eq!(ready.map(|known| known.status.as_str()), Some("True"));
    }
    Ok(())
}
