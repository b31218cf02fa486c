//! Four attackers with limited write access: a tenant and a policy author of the control cluster, a
//! member with all credentials of its agent, and a tenant of an execution cluster. Each tries
//! everything that its rights permit. No attack succeeds, and a correct Workflow still runs.

use anyhow::{Context as _, Result, ensure};
use argosy_api::{ManagedCluster, ManifestWork, WorkStatus, Workflow, names};
use argosy_tests::fleet::{Cluster, Fleet, GATE, LIMIT, NAMESPACE, PULL, PUSH, gated, one_step, waits_at};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    core::{ApiResource, DynamicObject, GroupVersionKind, Request},
};
use serde_json::{Value, json};

fn phase(workflow: &Workflow) -> &str {
    let phase = workflow.status.as_ref().and_then(|status| status.get("phase"));
    phase.and_then(Value::as_str).unwrap_or_default()
}

/// Asserts that a Workflow for `cluster` succeeds.
async fn goes_its_way(control: &Cluster, cluster: &str, name: &str) -> Result<()> {
    let good = control
        .create_workflow(&one_step(cluster, name, "true"))
        .await?
        .name_any();
    let end = control
        .workflow_when(&good, LIMIT, "ends", |run| {
            ["Succeeded", "Failed", "Error"].contains(&phase(run))
        })
        .await?;
    assert_eq!(phase(&end), "Succeeded");
    control.delete_workflow(&good).await
}

/// Lists nested to this depth.
fn nested(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

/// Creates a Workflow from text, because no tree of values can hold it. The API server accepts it.
async fn post_deep(cluster: &Cluster, client: &Client, name: &str, labels: &Value) -> Result<()> {
    delete(cluster, name).await?;
    let path = format!("/apis/argoproj.io/v1alpha1/namespaces/{NAMESPACE}/workflows");
    let request = Request::new(path).create(&PostParams::default(), deep(name, labels).into_bytes())?;
    client.request_text(request).await?;
    Ok(())
}

/// Deletes a Workflow that no tree of values can hold.
async fn delete(cluster: &Cluster, name: &str) -> Result<()> {
    cluster
        .kubectl(&["delete", "workflow", name, "--ignore-not-found"])
        .await?;
    Ok(())
}

fn deep(name: &str, labels: &Value) -> String {
    let metadata = json!({ "name": name, "namespace": NAMESPACE, "labels": labels });
    format!(
        r#"{{"apiVersion":"argoproj.io/v1alpha1","kind":"Workflow","metadata":{metadata},"spec":{{"suspend":true,"entrypoint":"main",
        "templates":[{{"name":"main","plugin":{{"deep":{}}}}}]}}}}"#,
        nested(140)
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_tenant_reaches_only_the_clusters_that_policies_select() -> Result<()> {
    let fleet = Fleet::using(&[PULL, PUSH]).await?;
    let (control, push) = (fleet.control()?, fleet.cluster(PUSH)?);
    let client = control
        .account("hostile-tenant", "argoproj.io", &["workflows"], false)
        .await?;
    let workflows: Api<Workflow> = Api::namespaced(client.clone(), NAMESPACE);
    let params = PostParams::default();
    let mut plain = one_step(PULL, "forged", "true");
    plain.labels_mut().clear();
    plain.spec["suspend"] = json!(true);

    // Claims on an existing object, in each way in which an object can be written.
    let victim = workflows.create(&params, &plain).await?;
    let name = victim.name_any();
    for more in [
        json!({ "started": true }),
        json!({ "retry": true }),
        json!({ "held": true }),
    ] {
        let mut claim =
            json!({ "cluster": PUSH, "attempt": 1, "uid": victim.uid(), "status": true, "guarded": true });
        for (key, value) in more.as_object().into_iter().flatten() {
            claim[key] = value.clone();
        }
        let marks = json!({ "metadata": {
            "annotations": { names::CLAIM_ANNOTATION: claim.to_string(), names::RUNS_ON_ANNOTATION: PUSH },
            "labels": { names::CLUSTER_LABEL: PUSH, names::ARGO_COMPLETED_LABEL: "true" },
        } });
        let mut applied = marks.clone();
        applied["apiVersion"] = json!("argoproj.io/v1alpha1");
        applied["kind"] = json!("Workflow");
        for (params, patch) in [
            (PatchParams::default(), Patch::Merge(&marks)),
            (
                PatchParams::apply("argosy-controller").force(),
                Patch::Apply(&applied),
            ),
        ] {
            if let Ok(written) = workflows.patch(&name, &params, &patch).await {
                assert!(
                    !written.annotations().contains_key(names::CLAIM_ANNOTATION),
                    "{more}"
                );
            }
        }
    }

    // A claim on a new object.
    let mut born = plain.clone();
    let claim =
        json!({ "cluster": PUSH, "attempt": 1, "uid": "", "started": true, "status": true, "guarded": true });
    born.annotations_mut()
        .insert(names::CLAIM_ANNOTATION.to_owned(), claim.to_string());
    born.labels_mut()
        .insert(names::ARGO_COMPLETED_LABEL.to_owned(), "true".to_owned());
    born.finalizers_mut().push(names::CONTROLLER_FINALIZER.to_owned());
    let born = workflows.create(&params, &born).await;

    // An unreadable object, and one that unpacks to a thousand times its size.
    let labels = json!({ names::KUBESTELLAR_CLUSTER_LABEL: PULL });
    post_deep(control, &client, "deep-of-tenant", &labels).await?;
    let packed = json!({ "status": { "compressedNodes": "H4sI".repeat(16_000) } });
    let _ = workflows
        .patch(&name, &PatchParams::default(), &Patch::Merge(&packed))
        .await;

    goes_its_way(control, PULL, "beside-tenant").await?;
    goes_its_way(control, PUSH, "beside-tenant").await?;
    let mut forged = vec![name];
    forged.extend(born.ok().map(|born| born.name_any()));
    for name in &forged {
        ensure!(push.workflow(name).await?.is_none(), "{name} is on {PUSH}");
        control.delete_workflow(name).await?;
    }
    delete(control, "deep-of-tenant").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_policy_author_stops_nobody_elses_workflows() -> Result<()> {
    let fleet = Fleet::using(&[PULL, PUSH]).await?;
    let control = fleet.control()?;
    let kinds = ["bindingpolicies", "customtransforms", "statuscollectors"];
    let client = control
        .account("hostile-author", "control.kubestellar.io", &kinds, true)
        .await?;
    let many: Vec<Value> = (0..2_000)
        .map(
            |number| json!({ "key": format!("hostile-{number}"), "operator": "NotIn", "values": ["a", "b"] }),
        )
        .collect();
    let policy = |selector: &Value| {
        json!({
            "clusterSelectors": [{}],
            "downsync": [{ "objectSelectors": [selector], "statusCollectors": ["hostile"], "wantSingletonReportedState": true }],
        })
    };
    let wide: Value = json!({ "matchLabels": { "hostile": "author" }, "matchExpressions": many });
    let bad: Value = json!({ "matchLabels": { "hostile": "author", "not a label!": "x".repeat(10_000) } });
    let expression =
        "[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, a + b + c > 0)))";
    let spec = |filter: &str| json!({ "filter": filter, "select": [{ "name": "x", "def": "obj.status" }], "limit": 1 });
    let transform =
        json!({ "apiGroup": "argoproj.io", "resource": "workflows", "remove": ["$..[?@..a == 1]", "$["] });
    let written = [
        ("BindingPolicy", "hostile-wide", policy(&wide)),
        ("BindingPolicy", "hostile-bad", policy(&bad)),
        (
            "StatusCollector",
            "hostile",
            spec(&format!("{expression} && {expression}")),
        ),
        ("StatusCollector", "hostile-long", spec(&"true && ".repeat(5_000))),
        ("CustomTransform", "hostile", transform),
    ];
    let api = |kind: &str| {
        let gvk = GroupVersionKind::gvk("control.kubestellar.io", "v1alpha1", kind);
        let plural = if kind == "BindingPolicy" {
            "bindingpolicies".to_owned()
        } else {
            format!("{}s", kind.to_lowercase())
        };
        Api::<DynamicObject>::all_with(client.clone(), &ApiResource::from_gvk_with_plural(&gvk, &plural))
    };
    for (kind, name, spec) in &written {
        let object = json!({ "apiVersion": "control.kubestellar.io/v1alpha1", "kind": kind, "metadata": { "name": name }, "spec": spec });
        // An object that the API server refuses does no harm.
        let _ = api(kind)
            .create(&PostParams::default(), &serde_json::from_value(object)?)
            .await;
    }
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    ensure!(
        secrets.list(&ListParams::default()).await.is_err(),
        "it reads Secrets"
    );
    let ended = async {
        goes_its_way(control, PULL, "beside-author").await?;
        goes_its_way(control, PUSH, "beside-author").await
    }
    .await;
    for (kind, name, _) in &written {
        let _ = api(kind).delete(name, &DeleteParams::default()).await;
    }
    ended
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_member_with_its_agents_credential_lies_about_nothing_but_its_own_runs() -> Result<()> {
    let fleet = Fleet::using(&[PULL, PUSH]).await?;
    let (control, pull) = (fleet.control()?, fleet.cluster(PULL)?);
    let client = pull.agents_client().await?;
    let own = control.gated_run(PULL, "members-own").await?;
    let theirs = control.gated_run(PUSH, "members-victim").await?;
    let uid = async |name: &str| {
        let workflow = control.workflow(name).await?.context("it is there")?;
        workflow.uid().context("it has a UID")
    };
    let (own_uid, victim) = (uid(&own).await?, uid(&theirs).await?);

    // Statements about the victim in the member's own mailbox, as ManifestWork and as report.
    let works: Api<ManifestWork> = Api::namespaced(client.clone(), PULL);
    let reports: Api<WorkStatus> = Api::namespaced(client.clone(), PULL);
    let work = names::work_name(&own_uid);
    let params = PatchParams::default();
    for patch in [
        json!({ "metadata": { "labels": { names::ORIGIN_UID_LABEL: victim } } }),
        json!({ "metadata": { "annotations": { names::ATTEMPT_ANNOTATION: "999" } } }),
        json!({ "metadata": { "labels": { names::ORIGIN_UID_LABEL: victim }, "annotations": { names::ATTEMPT_ANNOTATION: "999" } } }),
        json!({ "spec": { "workload": { "manifests": [] } } }),
    ] {
        let answer = works.patch(&work, &params, &Patch::Merge(&patch)).await;
        assert!(
            matches!(&answer, Err(kube::Error::Api(status)) if status.code == 422 || status.code == 403),
            "{patch}: {answer:?}"
        );
    }
    let report = json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "WorkStatus",
        "metadata": { "name": names::work_name(&victim), "namespace": PULL, "labels": { names::ORIGIN_UID_LABEL: victim } },
        "spec": { "sourceRef": { "group": "argoproj.io", "version": "v1alpha1", "resource": "workflows", "kind": "Workflow",
            "name": theirs, "namespace": NAMESPACE } },
        "status": { "phase": "Succeeded" }, "reported": { "attempt": 1, "outcome": "Finished" },
    });
    let _ = reports
        .patch(
            &names::work_name(&victim),
            &PatchParams::apply("hostile").force(),
            &Patch::Apply(&report),
        )
        .await;
    // Foreign mailboxes, Secrets, Workflows, labels.
    for namespace in [PUSH, NAMESPACE, "argosy", "default"] {
        let works: Api<ManifestWork> = Api::namespaced(client.clone(), namespace);
        ensure!(works.list(&ListParams::default()).await.is_err(), "{namespace}");
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        ensure!(secrets.list(&ListParams::default()).await.is_err(), "{namespace}");
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        ensure!(maps.list(&ListParams::default()).await.is_err(), "{namespace}");
    }
    let workflows: Api<Workflow> = Api::namespaced(client.clone(), NAMESPACE);
    ensure!(
        workflows.delete(&theirs, &DeleteParams::default()).await.is_err(),
        "it deletes Workflows"
    );
    let clusters: Api<ManagedCluster> = Api::all(client.clone());
    let drawing = json!({ "metadata": { "labels": { "name": PUSH } } });
    let _ = clusters
        .patch_status(PULL, &params, &Patch::Merge(&drawing))
        .await;
    let known = Api::<ManagedCluster>::all(control.client()).get(PULL).await?;
    assert_eq!(known.labels().get("name").map(String::as_str), Some(PULL));

    goes_its_way(control, PULL, "beside-member").await?;
    for (name, cluster) in [(&own, PULL), (&theirs, PUSH)] {
        let run = control.workflow(name).await?.context("it is there")?;
        assert_eq!(
            run.labels().get(names::CLUSTER_LABEL).map(String::as_str),
            Some(cluster)
        );
        ensure!(waits_at(&run, GATE), "{run:?}");
        control.argo(&["resume", name]).await?;
        let end = control
            .workflow_when(name, LIMIT, "ends", |run| {
                ["Succeeded", "Failed", "Error"].contains(&phase(run))
            })
            .await?;
        assert_eq!(phase(&end), "Succeeded", "{end:?}");
        control.delete_workflow(name).await?;
    }
    let _ = reports
        .delete(&names::work_name(&victim), &DeleteParams::default())
        .await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_tenant_of_an_execution_cluster_takes_no_runs_place() -> Result<()> {
    let fleet = Fleet::using(&[PULL, PUSH]).await?;
    let (control, pull) = (fleet.control()?, fleet.cluster(PULL)?);
    let client = pull
        .account("hostile-tenant", "argoproj.io", &["workflows"], false)
        .await?;
    let workflows: Api<Workflow> = Api::namespaced(client.clone(), NAMESPACE);
    let name = control.create_workflow(&gated(PULL, "copied")).await?.name_any();
    control
        .workflow_when(&name, LIMIT, "waits at its gate", |run| waits_at(run, GATE))
        .await?;

    let run = workflows.get(&name).await?;
    let mut copies = Vec::new();
    for (copy, phase) in [("failed", "Failed"), ("succeeded", "Succeeded"), ("bare", "")] {
        let mut other = run.clone();
        other.metadata.name = Some(format!("{name}-{copy}"));
        other.metadata.uid = None;
        other.metadata.resource_version = None;
        other.metadata.managed_fields = None;
        other.status = (!phase.is_empty())
            .then(|| json!({ "phase": phase, "finishedAt": "2026-11-24T10:00:00Z", "nodes": {} }));
        other
            .labels_mut()
            .insert(names::ARGO_COMPLETED_LABEL.to_owned(), "true".to_owned());
        copies.push(workflows.create(&PostParams::default(), &other).await?.name_any());
    }
    let resubmitted = pull.argo(&["resubmit", &name, "-o", "name"]).await?;
    let labels = json!({ names::ORIGIN_UID_LABEL: "x", names::CLUSTER_LABEL: PULL, names::ARGO_COMPLETED_LABEL: "true" });
    post_deep(pull, &client, "deep-of-neighbor", &labels).await?;

    goes_its_way(control, PULL, "beside-copies").await?;
    for copy in &copies {
        workflows.delete(copy, &DeleteParams::default()).await?;
        pull.gone(copy).await?;
    }
    goes_its_way(control, PULL, "beside-no-copies").await?;
    let shown = control.workflow(&name).await?.context("it is there")?;
    ensure!(waits_at(&shown, GATE), "{shown:?}");
    control.argo(&["resume", &name]).await?;
    let end = control
        .workflow_when(&name, LIMIT, "ends", |run| {
            ["Succeeded", "Failed", "Error"].contains(&phase(run))
        })
        .await?;
    assert_eq!(phase(&end), "Succeeded");
    let there = workflows.get(&name).await?;
    assert_eq!(phase(&there), "Succeeded", "the run itself has ended so");
    control.delete_workflow(&name).await?;
    pull.gone(&name).await?;
    workflows.delete(&resubmitted, &DeleteParams::default()).await?;
    pull.gone(&resubmitted).await?;
    delete(pull, "deep-of-neighbor").await
}
