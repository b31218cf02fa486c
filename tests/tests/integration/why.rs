//! `argosy why`: its answers and its exit codes.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result};
use argosy_api::BindingPolicy;
use argosy_tests::testenv::{
    Fixture,
    binaries::{Answer, argosy},
    definitions::is_established,
    fake_argo,
    fixture::work_name,
    mailbox,
    objects::{self, create, says},
    waiting::{self, until},
};
use k8s_openapi::{
    api::{core::v1::ConfigMap, rbac::v1::ClusterRole},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams},
    core::{ApiResource, DynamicObject},
};
use serde_json::{Value, json};

/// Runs `argosy why` for an object of the fixture's namespace.
async fn why(fixture: &Fixture, object: &str, more: &[&str]) -> Result<Answer> {
    let arguments = [&["why", object, "--namespace", &fixture.namespace], more].concat();
    argosy(fixture.env.control.kubeconfig(), &arguments).await
}

fn first_line(answer: &Answer) -> &str {
    answer.output.lines().next().unwrap_or_default()
}

/// The text without its line breaks and columns.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn path(path: &Path) -> Result<&str> {
    path.to_str().context("a path of the lab is text")
}

#[tokio::test]
async fn of_a_workflow_that_runs_it_says_where_and_why_and_how_far_it_is() -> Result<()> {
    let fixture = Fixture::new("why-sent").await?;
    let member = fixture.pull().await?;
    let (workflow, _) = fixture.dispatch("hello", &member).await?;
    member.argo().start("hello").await?;
    until(&fixture.workflows(), "hello", "it is shown to run", |workflow| {
        objects::phase(workflow) == "Running"
    })
    .await?;
    until(
        &member.works(),
        &work_name(&workflow),
        "it is said to be applied",
        |work| mailbox::says(work, "Applied", "True"),
    )
    .await?;
    let answer = why(&fixture, "hello", &[]).await?;
    let cluster = &member.cluster;
    assert_eq!(
        first_line(&answer),
        format!("why-sent/hello runs on {cluster} (attempt 1): policy {cluster}, clause 0"),
        "{answer:?}"
    );
    assert_eq!(answer.code, Some(0));
    let text = words(&answer.output);
    for part in [
        "clause 0 selects it: the status of its cluster comes back".to_owned(),
        format!("{cluster} matches {cluster}: clusterSelectors[0] can be reached, since 20"),
        "Dispatched=True Claimed: ".to_owned(),
        format!("{cluster} ManifestWork {} (attempt 1)", work_name(&workflow)),
        "Applied=True since 20".to_owned(),
        "WorkStatus (attempt 1): Running, written 20".to_owned(),
    ] {
        assert!(text.contains(&part), "{part} is not in:\n{}", answer.output);
    }
    assert!(!text.contains("NOT READ"), "{}", answer.output);

    let answer = why(&fixture, "wf/hello", &["--output", "json"]).await?;
    let told: Value = serde_json::from_str(&answer.output)?;
    assert_eq!(told["verdict"]["standing"], "Sent");
    assert_eq!(told["course"]["claim"]["cluster"], *cluster);
    assert_eq!(told["course"]["claim"]["hasStarted"], true);
    assert_eq!(told["course"]["copies"][0]["report"]["phase"], "Running");
    Ok(())
}

#[tokio::test]
async fn of_a_workflow_whose_steps_wait_it_says_for_what() -> Result<()> {
    let fixture = Fixture::new("why-waiting").await?;
    let member = fixture.pull().await?;
    fixture.dispatch("hello", &member).await?;
    let mut status = fake_argo::running("hello");
    let step = &mut status["nodes"]["hello-1"];
    step["phase"] = json!("Pending");
    step["message"] = json!("ErrImagePull: pull access denied for nosuch\u{1b}[2J");
    member.argo().report("hello", status).await?;
    until(&fixture.workflows(), "hello", "it is shown to run", |workflow| {
        objects::phase(workflow) == "Running"
    })
    .await?;
    let page = why(&fixture, "hello", &[]).await?.output;
    let section = "\nSTEPS THAT WAIT\n  first  ErrImagePull: pull access denied for nosuch\u{fffd}[2J\n";
    assert!(page.contains(section), "{page}");
    let answer = why(&fixture, "hello", &["--output", "json"]).await?;
    let told: Value = serde_json::from_str(&answer.output)?;
    assert_eq!(told["course"]["waiting"]["steps"][0]["name"], "first");
    Ok(())
}

#[tokio::test]
async fn of_a_workflow_that_no_policy_selects_it_says_what_the_nearest_wants() -> Result<()> {
    let fixture = Fixture::new("why-unselected").await?;
    let cluster = format!("{}-pull", fixture.namespace);
    let policies: Api<BindingPolicy> = Api::all(fixture.control.clone());
    create(
        &policies,
        &objects::policy(&cluster, &fixture.namespace, &cluster)?,
    )
    .await?;
    create(&fixture.workflows(), &objects::workflow("hello", "nowhere")).await?;
    let answer = why(&fixture, "hello", &[]).await?;
    assert_eq!(
        first_line(&answer),
        "why-unselected/hello is not sent: no policy selects it",
        "{answer:?}"
    );
    assert_eq!(answer.code, Some(1));
    let wish = format!(
        "{cluster} clause 0: objectSelectors[0] requires kubestellar.io/cluster={cluster}; the object has \
         kubestellar.io/cluster=nowhere"
    );
    let text = words(&answer.output);
    assert!(text.contains(&wish), "{wish} is not in:\n{}", answer.output);
    Ok(())
}

#[tokio::test]
async fn of_a_workflow_for_several_clusters_it_says_which_and_what_to_do() -> Result<()> {
    let fixture = Fixture::new("why-ambiguous").await?;
    let control = fixture.env.control.kubeconfig();
    let one = fixture.register("one", control).await?;
    let two = fixture.register("two", control).await?;
    let both = json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy",
        "metadata": { "name": "why-ambiguous-both" },
        "spec": {
            "clusterSelectors": [
                { "matchLabels": { "name": one.cluster } }, { "matchLabels": { "name": two.cluster } },
            ],
            "downsync": [{ "namespaces": [fixture.namespace], "resources": ["workflows"] }],
        },
    });
    let both: BindingPolicy = serde_json::from_value(both)?;
    let policies: Api<BindingPolicy> = Api::all(fixture.control.clone());
    create(&policies, &both).await?;
    // If it were claimed before that, it would stay on its cluster.
    until(
        &policies,
        "why-ambiguous-both",
        "the controller knows it",
        |policy| policy.status.is_some(),
    )
    .await?;
    fixture.submit("hello", &one).await?;
    until(
        &fixture.workflows(),
        "hello",
        "it says that it is ambiguous",
        |workflow| says(workflow, "Ambiguous", "True", "SeveralClusters"),
    )
    .await?;
    let answer = why(&fixture, "hello", &[]).await?;
    assert_eq!(
        first_line(&answer),
        "why-ambiguous/hello is not sent: several clusters match: why-ambiguous-one, why-ambiguous-two",
        "{answer:?}"
    );
    assert_eq!(answer.code, Some(1));
    let text = words(&answer.output);
    for part in [
        "policy why-ambiguous-both matches why-ambiguous-one, why-ambiguous-two: narrow its clusterSelectors",
        "argosy.dev/runs=best-cluster",
        "matches why-ambiguous-both: clusterSelectors[1]",
        "Ambiguous=True SeveralClusters: ",
    ] {
        assert!(text.contains(part), "{part} is not in:\n{}", answer.output);
    }
    Ok(())
}

#[tokio::test]
async fn of_a_workflow_that_cannot_be_sent_it_says_what_is_missing() -> Result<()> {
    let fixture = Fixture::new("why-unsent").await?;
    let member = fixture.register("one", fixture.env.control.kubeconfig()).await?;
    fixture.submit("hello", &member).await?;
    until(
        &fixture.workflows(),
        "hello",
        "it says what is missing",
        |workflow| says(workflow, "Dispatched", "False", "MailboxMissing"),
    )
    .await?;
    let answer = why(&fixture, "hello", &[]).await?;
    let cluster = &member.cluster;
    assert_eq!(
        first_line(&answer),
        format!(
            "why-unsent/hello is claimed for {cluster} (attempt 1), but not sent: policy {cluster}, clause 0"
        ),
        "{answer:?}"
    );
    assert!(
        answer.output.contains("\n  - MailboxMissing: "),
        "{}",
        answer.output
    );
    assert_eq!(answer.code, Some(1));
    Ok(())
}

#[tokio::test]
async fn an_object_that_is_not_there_is_an_error_that_says_where_one_of_its_name_is() -> Result<()> {
    let fixture = Fixture::new("why-missing").await?;
    create(
        &fixture.workflows(),
        &objects::workflow("why-missing-run", "nowhere"),
    )
    .await?;
    let control = fixture.env.control.kubeconfig();
    let elsewhere = argosy(control, &["why", "why-missing-run"]).await?;
    assert_eq!(elsewhere.code, Some(2));
    assert_eq!(
        elsewhere.errors,
        "argosy: workflows.argoproj.io argo/why-missing-run does not exist; there is one in why-missing \
         (use --namespace)\n"
    );
    let table = [
        (
            "nothing",
            "workflows.argoproj.io why-missing/nothing does not exist",
        ),
        (
            "clusterrole/nothing",
            "clusterroles.rbac.authorization.k8s.io nothing does not exist",
        ),
        ("widgets/nothing", "the control cluster serves no kind widgets"),
        (
            "deployments.batch/nothing",
            "the control cluster serves no kind deployments.batch",
        ),
        (
            "cm/",
            "cm/ is not the name of an object; use the NAME of a Workflow, or KIND/NAME",
        ),
    ];
    for (object, sentence) in table {
        let answer = why(&fixture, object, &[]).await?;
        // Other tests use the same API server, so a group may be there that does not answer yet.
        let said = match answer.errors.split_once("; these API groups do not answer: ") {
            Some((said, _)) => format!("{said}\n"),
            None => answer.errors,
        };
        assert_eq!(said, format!("argosy: {sentence}\n"));
        assert_eq!((answer.code, answer.output.as_str()), (Some(2), ""), "{object}");
    }
    Ok(())
}

#[tokio::test]
async fn objects_of_other_kinds_are_found_as_kubectl_finds_them() -> Result<()> {
    let fixture = Fixture::new("why-kinds").await?;
    let member = fixture.register("one", fixture.env.control.kubeconfig()).await?;
    let policy = json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy",
        "metadata": { "name": "why-kinds" },
        "spec": {
            "clusterSelectors": [{ "matchLabels": { "name": member.cluster } }],
            "downsync": [
                {
                    "apiGroup": "", "resources": ["configmaps"], "objectNames": ["why-kinds"], "createOnly": true,
                    "namespaceSelectors": [{ "matchLabels": { "kubernetes.io/metadata.name": fixture.namespace } }],
                },
                { "resources": ["clusterroles"], "objectNames": ["why-kinds"], "namespaceSelectors": [{}] },
            ],
        },
    });
    let policy: BindingPolicy = serde_json::from_value(policy)?;
    create(&Api::all(fixture.control.clone()), &policy).await?;
    let mut settings = ConfigMap::default();
    settings.metadata.name = Some("why-kinds".to_owned());
    create(
        &Api::namespaced(fixture.control.clone(), &fixture.namespace),
        &settings,
    )
    .await?;
    let mut role = ClusterRole::default();
    role.metadata.name = Some("why-kinds".to_owned());
    create(&Api::all(fixture.control.clone()), &role).await?;
    let table = [
        ("cm", "configmaps why-kinds/why-kinds", "clause 0"),
        ("configmap", "configmaps why-kinds/why-kinds", "clause 0"),
        ("configmaps", "configmaps why-kinds/why-kinds", "clause 0"),
        (
            "clusterrole",
            "clusterroles.rbac.authorization.k8s.io why-kinds",
            "clause 1",
        ),
        (
            "clusterroles.rbac.authorization.k8s.io",
            "clusterroles.rbac.authorization.k8s.io why-kinds",
            "clause 1",
        ),
    ];
    for (kind, object, clause) in table {
        let answer = why(&fixture, &format!("{kind}/why-kinds"), &[]).await?;
        let line = first_line(&answer);
        assert!(line.starts_with(&format!("{object} ")), "{kind}: {answer:?}");
        let end = format!("{}: policy why-kinds, {clause}", member.cluster);
        assert!(line.ends_with(&end), "{kind}: {answer:?}");
        assert_eq!(answer.code, Some(0), "{kind}");
    }
    Ok(())
}

#[tokio::test]
async fn a_kind_is_found_that_is_served_only_in_a_version_its_group_does_not_prefer() -> Result<()> {
    let fixture = Fixture::new("why-versions").await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(fixture.control.clone());
    for (plural, kind, version) in [("settled", "Settled", "v1"), ("trials", "Trial", "v1beta1")] {
        let name = format!("{plural}.why.example.com");
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": name },
            "spec": {
                "group": "why.example.com", "scope": "Namespaced",
                "names": { "plural": plural, "kind": kind, "singular": kind.to_lowercase() },
                "versions": [{ "name": version, "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                } } }],
            },
        });
        create(&definitions, &serde_json::from_value(definition)?).await?;
        until(&definitions, &name, "it is served", is_established).await?;
    }
    let kind = ApiResource {
        group: "why.example.com".to_owned(),
        version: "v1beta1".to_owned(),
        api_version: "why.example.com/v1beta1".to_owned(),
        kind: "Trial".to_owned(),
        plural: "trials".to_owned(),
    };
    let mut trial = DynamicObject::new("one", &kind);
    trial.metadata.namespace = Some(fixture.namespace.clone());
    let trials: Api<DynamicObject> = Api::namespaced_with(fixture.control.clone(), &fixture.namespace, &kind);
    // An API server serves a definition a moment after it is established.
    let deadline = tokio::time::Instant::now() + waiting::PATIENCE;
    while let Err(error) = trials.create(&PostParams::default(), &trial).await {
        anyhow::ensure!(
            tokio::time::Instant::now() < deadline,
            "it cannot be created: {error}"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for name in ["trials", "trial", "trials.why.example.com"] {
        let answer = why(&fixture, &format!("{name}/one"), &[]).await?;
        assert_eq!(
            first_line(&answer),
            "trials.why.example.com why-versions/one is not sent: no policy selects it",
            "{answer:?}"
        );
    }
    for plural in ["settled", "trials"] {
        let name = format!("{plural}.why.example.com");
        definitions.delete(&name, &DeleteParams::default()).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_cluster_that_lacks_the_definitions_is_an_error_that_says_which() -> Result<()> {
    let fixture = Fixture::new("why-definitions").await?;
    let member = fixture.pull().await?;
    let (workflow, _) = fixture.dispatch("hello", &member).await?;
    assert!(workflow.uid().is_some());
    let wec = path(&member.kubeconfig)?;
    let on_wec = argosy(&member.kubeconfig, &["why", "hello", "-n", &fixture.namespace]).await?;
    assert_eq!(
        on_wec.errors,
        "argosy: the BindingPolicies of the control cluster cannot be read: their definition is not installed (see \
         argosy crds)\n"
    );
    let wrong_its = why(&fixture, "hello", &["--its-kubeconfig", wec]).await?;
    assert_eq!(
        wrong_its.errors,
        "argosy: the ManagedClusters of the ITS cannot be read: their definition is not installed (see argosy crds \
         --ocm; use --its-kubeconfig for a separate ITS)\n"
    );
    assert_eq!((on_wec.code, wrong_its.code), (Some(2), Some(2)));
    Ok(())
}
