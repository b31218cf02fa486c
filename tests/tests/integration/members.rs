//! A member writes into its mailbox with its real credentials. The admission policy
//! `argosy-members` permits exactly the writes of its agent, for Workflows and for other objects. A
//! forgery that bypasses the policy neither attracts a Workflow nor causes a deletion.

use std::fmt::Debug;

use anyhow::{Context, Result, ensure};
use argosy_api::{
    BindingPolicy, ManagedCluster, ManifestWork, WorkStatus, Workflow, conditions::managed_cluster, names,
};
use argosy_tests::testenv::{
    admission::{eventually, refusal},
    fixture::work_name,
    mailbox,
    objects::{create, deployment, phase, says},
    server::client_of,
    waiting::{until, until_gone},
};
use k8s_openapi::api::{apps::v1::Deployment, coordination::v1::Lease};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::hostile::TestEnv;

fn is_confined<T: Debug>(answer: &kube::Result<T>) -> bool {
    refusal(answer).is_some_and(|message| message.contains("'argosy-members'"))
}

async fn merge(works: &Api<ManifestWork>, name: &str, change: &Value) -> kube::Result<ManifestWork> {
    let params = PatchParams::default();
    works.patch(name, &params, &Patch::Merge(change)).await
}

/// The credentials of a member: the certificate of its agent, and the token of its account.
async fn credentials(env: &TestEnv) -> Result<[Client; 2]> {
    let account = format!(
        "system:serviceaccount:{}:{}",
        env.hostile.cluster,
        names::AGENT_ACCOUNT
    );
    let account = env.fixture.env.control.kubeconfig_restricted(&account)?;
    Ok([env.client.clone(), client_of(&account).await?])
}

#[tokio::test]
async fn a_member_changes_nothing_of_a_manifest_work_but_its_finalizers_and_its_status() -> Result<()> {
    let env = TestEnv::new("members-works").await?;
    let (own, _) = env.fixture.dispatch("own", &env.hostile).await?;
    env.hostile.agent()?.kill()?;
    let name = work_name(&own);
    let metadata = |field: &str, value: Value| json!({ "metadata": { field: value } });
    let forgeries = [
        metadata("labels", json!({ names::ORIGIN_UID_LABEL: "another" })),
        metadata("labels", json!({ names::ORIGIN_UID_LABEL: null })),
        metadata("labels", json!({ names::ORIGIN_WDS_LABEL: null })),
        metadata("labels", json!({ "more": "1" })),
        metadata("annotations", json!({ names::ATTEMPT_ANNOTATION: "999" })),
        metadata("annotations", json!({ names::ATTEMPT_ANNOTATION: null })),
        metadata("annotations", json!({ names::STARTED_ANNOTATION: "true" })),
        metadata("annotations", json!({ "more": "1" })),
        metadata(
            "ownerReferences",
            json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "b" }]),
        ),
        metadata(
            "finalizers",
            json!([names::AGENT_FINALIZER, "somebody.example/else"]),
        ),
        json!({ "spec": { "workload": { "manifests": [] } } }),
        json!({ "spec": { "deleteOption": { "ttlSecondsAfterFinished": 1 } } }),
        json!({ "metadata": { "labels": { "more": "1" } }, "status": { "conditions": [] } }),
    ];
    for client in credentials(&env).await? {
        let works: Api<ManifestWork> = Api::namespaced(client, &env.hostile.cluster);
        let before = works.get(&name).await?;
        eventually("the policy argosy-members is in effect", async || {
            Ok(is_confined(
                &merge(&works, &name, &metadata("labels", json!({ "more": "0" }))).await,
            ))
        })
        .await?;
        for forgery in &forgeries {
            let answer = merge(&works, &name, forgery).await;
            assert!(is_confined(&answer), "{forgery}: {answer:?}");
        }
        // Another verb in the controller's name is refused, too.
        let applied = json!({
            "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
            "metadata": { "name": name, "labels": { "more": "1" } },
        });
        let params = PatchParams::apply("argosy-controller").force();
        let answer = works.patch(&name, &params, &Patch::Apply(&applied)).await;
        assert!(is_confined(&answer), "{answer:?}");
        // The agent's own writes pass.
        for finalizers in [
            json!([names::AGENT_FINALIZER, names::MANIFEST_WORK_FINALIZER]),
            json!([names::AGENT_FINALIZER]),
        ] {
            merge(&works, &name, &metadata("finalizers", finalizers)).await?;
        }
        let told = json!({ "metadata": { "labels": { "more": "1" } }, "status": { "conditions": [] } });
        works
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(&told))
            .await?;
        let after = works.get(&name).await?;
        assert_eq!(
            (after.labels(), after.annotations()),
            (before.labels(), before.annotations())
        );
        assert_eq!(json!(after.spec), json!(before.spec));
    }
    Ok(())
}

#[tokio::test]
async fn a_member_tells_facts_of_its_cluster_and_does_not_say_that_it_is_reachable_or_accepted() -> Result<()>
{
    let env = TestEnv::new("members-cluster").await?;
    let name = env.hostile.cluster.clone();
    let all: Api<ManagedCluster> = Api::all(env.fixture.control.clone());
    let is_available = |cluster: &ManagedCluster| {
        let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
        conditions
            .into_iter()
            .any(|known| known.type_ == managed_cluster::AVAILABLE && known.status == "True")
    };
    until(&all, &name, "it is reachable", is_available).await?;
    env.hostile.agent()?.kill()?;
    for client in credentials(&env).await? {
        let clusters: Api<ManagedCluster> = Api::all(client);
        // The hub writes, too, because the agent no longer renews its Lease.
        let write = async |change: &dyn Fn(&mut Vec<Value>)| {
            let there = clusters.get(&name).await?;
            let there = json!(there.status.unwrap_or_default().conditions);
            let mut conditions = there.as_array().cloned().unwrap_or_default();
            change(&mut conditions);
            let change = json!({ "status": { "conditions": conditions } });
            let params = PatchParams::default();
            clusters
                .patch_status(&name, &params, &Patch::Merge(&change))
                .await
        };
        let add = |conditions: &mut Vec<Value>, type_: &str| {
            conditions.push(json!({
                "type": type_, "status": "True", "reason": "Told", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }));
        };
        let is_hubs = |known: &Value| known["type"] == managed_cluster::AVAILABLE;
        let accepted = |conditions: &mut Vec<Value>| add(conditions, managed_cluster::HUB_ACCEPTED);
        eventually("the policy argosy-members is in effect", async || {
            Ok(is_confined(&write(&accepted).await))
        })
        .await?;
        for (what, change) in [
            ("accepts itself", &accepted as &dyn Fn(&mut Vec<Value>)),
            ("says nothing", &|conditions| {
                conditions.retain(|known| !is_hubs(known));
            }),
            ("says more", &|conditions| {
                for known in conditions.iter_mut().filter(|known| is_hubs(known)) {
                    known["reason"] = json!("Told");
                }
            }),
        ] {
            let answer = write(change).await;
            assert!(is_confined(&answer), "{what}: {answer:?}");
        }
        eventually("the agent's own conditions pass", async || {
            Ok(write(&|conditions| add(conditions, "OfTheAgent")).await.is_ok())
        })
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_member_reports_under_the_names_of_objects_and_renews_one_lease() -> Result<()> {
    let env = TestEnv::new("members-reports").await?;
    env.hostile.agent()?.kill()?;
    let metadata = |more: Value| {
        let mut report = env.report("u1", &json!({ "reported": { "attempt": 1 } }));
        for (field, value) in more.as_object().into_iter().flatten() {
            report["metadata"][field] = value.clone();
        }
        report
    };
    let owner = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "b" }]);
    for forged in [
        metadata(json!({ "name": "another" })),
        metadata(json!({ "name": "argosy-u2" })),
        metadata(json!({ "labels": {} })),
        metadata(json!({ "labels": { names::ORIGIN_UID_LABEL: "u1", names::OBJECT_UID_LABEL: "u1" } })),
        metadata(json!({ "labels": { names::OBJECT_UID_LABEL: "u2" } })),
        metadata(json!({ "finalizers": ["somebody.example/else"] })),
        metadata(json!({ "ownerReferences": owner })),
    ] {
        let answer = env.write(&forged).await;
        assert!(is_confined(&answer), "{forged}: {answer:?}");
    }
    env.write(&metadata(json!({}))).await?;
    let reports: Api<WorkStatus> = Api::namespaced(env.client.clone(), &env.hostile.cluster);
    let turned =
        json!({ "metadata": { "labels": { names::ORIGIN_UID_LABEL: null, names::OBJECT_UID_LABEL: "u1" } } });
    let answer = reports
        .patch("argosy-u1", &PatchParams::default(), &Patch::Merge(&turned))
        .await;
    assert!(is_confined(&answer), "{answer:?}");
    reports.delete("argosy-u1", &DeleteParams::default()).await?;

    for client in credentials(&env).await? {
        let leases: Api<Lease> = Api::namespaced(client, &env.hostile.cluster);
        let apply = async |name: &str, metadata: Value| {
            let mut lease = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata,
                "spec": { "holderIdentity": names::AGENT },
            });
            lease["metadata"]["name"] = json!(name);
            let params = PatchParams::apply(names::AGENT).force();
            leases.patch(name, &params, &Patch::Apply(&lease)).await
        };
        for (name, metadata) in [
            ("another", json!({})),
            ("argosy-agent-1", json!({})),
            (
                names::CLUSTER_LEASE,
                json!({ "finalizers": ["somebody.example/else"] }),
            ),
        ] {
            let answer = apply(name, metadata).await;
            assert!(is_confined(&answer), "{name}: {answer:?}");
        }
        apply(names::CLUSTER_LEASE, json!({})).await?;
    }
    Ok(())
}

#[tokio::test]
async fn objects_go_to_a_member_and_their_statuses_come_back_with_an_agent_s_rights() -> Result<()> {
    let env = TestEnv::new("members-objects").await?;
    let (fixture, member) = (&env.fixture, &env.hostile);
    let policy: BindingPolicy = serde_json::from_value(json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy",
        "metadata": { "name": format!("{}-objects", fixture.namespace) },
        "spec": {
            "clusterSelectors": [{ "matchLabels": { "name": member.cluster } }],
            "downsync": [{
                "namespaces": [fixture.namespace], "resources": ["deployments"],
                "objectSelectors": [{ "matchLabels": { "app": "web" } }], "wantSingletonReportedState": true,
            }],
        },
    }))?;
    create(&Api::all(fixture.control.clone()), &policy).await?;
    let here: Api<Deployment> = Api::namespaced(fixture.control.clone(), &fixture.namespace);
    let there: Api<Deployment> = Api::namespaced(member.wec.clone(), &fixture.namespace);
    let web = create(&here, &deployment("web")?).await?;
    until(&there, "web", "it is on the cluster", |_| true).await?;
    let ready =
        |ready: i32| json!({ "status": { "replicas": 2, "readyReplicas": ready, "observedGeneration": 1 } });
    for count in [1, 2] {
        there
            .patch_status("web", &PatchParams::default(), &Patch::Merge(ready(count)))
            .await?;
        until(&here, "web", "its status comes back", |web: &Deployment| {
            web.status.as_ref().and_then(|status| status.ready_replicas) == Some(count)
        })
        .await?;
    }
    let name = names::work_name(&web.uid().context("it is there")?);
    let work = until(&member.works(), &name, "it is applied", mailbox::is_applied).await?;
    ensure!(
        work.finalizers()
            .contains(&names::MANIFEST_WORK_FINALIZER.to_owned()),
        "{work:?}"
    );
    here.delete("web", &DeleteParams::default()).await?;
    until_gone(&there, "web", "it is gone from the cluster").await?;
    until_gone(&member.works(), &name, "its ManifestWork is gone").await?;
    until_gone(&member.reports(), &name, "its report is gone").await
}

/// A ManifestWork of another name in the mailbox of the hostile member. It says that attempt 999 of
/// the Workflow of `own` has begun. Such a label is possible only without the policy.
async fn decoy(env: &TestEnv, own: &ManifestWork) -> Result<ManifestWork> {
    let mut decoy = mailbox::theirs("decoy", &[])?;
    decoy.metadata.labels.clone_from(&own.metadata.labels);
    decoy.metadata.annotations = Some([(names::ATTEMPT_ANNOTATION.to_owned(), "999".to_owned())].into());
    create(&env.hostile.works(), &decoy).await?;
    let begun = json!({ "status": { "conditions": [{
        "type": "Applied", "status": "True", "reason": "Created", "message": "it was created",
        "lastTransitionTime": "2026-11-21T09:00:00Z",
    }] } });
    let works: Api<ManifestWork> = Api::namespaced(env.client.clone(), &env.hostile.cluster);
    let params = PatchParams::default();
    Ok(works
        .patch_status("decoy", &params, &Patch::Merge(&begun))
        .await?)
}

#[tokio::test]
async fn a_manifest_work_that_only_says_whose_it_is_draws_nothing_and_has_nothing_deleted() -> Result<()> {
    let env = TestEnv::new("members-decoy").await?;
    let (theirs, run) = env.fixture.dispatch("theirs", &env.neighbor).await?;
    env.neighbor.argo().start("theirs").await?;
    let workflows = env.fixture.workflows();
    until(&workflows, "theirs", "it runs", |workflow| {
        phase(workflow) == "Running"
    })
    .await?;
    let own = env.neighbor.works().get(&work_name(&theirs)).await?;
    let forged = decoy(&env, &own).await?;
    // After this, all of its effects would have happened.
    env.fixture.round_trip("sentinel", &env.neighbor).await?;
    let shown = workflows.get("theirs").await?;
    assert_eq!(
        shown.labels().get(names::CLUSTER_LABEL),
        Some(&env.neighbor.cluster)
    );
    assert_eq!(phase(&shown), "Running");
    let work = env.neighbor.works().get(&work_name(&theirs)).await?;
    assert_eq!(work.metadata.deletion_timestamp, None);
    assert_eq!(env.neighbor.workflows().get("theirs").await?.uid(), run.uid());
    let there = env.hostile.works().get("decoy").await?;
    assert_eq!(
        there.resource_version(),
        forged.resource_version(),
        "it was touched"
    );
    let drawn: Vec<Workflow> = env
        .hostile
        .workflows()
        .list(&ListParams::default().labels(&format!("{}={}", names::CLUSTER_LABEL, env.hostile.cluster)))
        .await?
        .items;
    assert!(drawn.is_empty(), "{drawn:?}");
    env.neighbor.argo().finish("theirs", "Succeeded").await?;
    until(&workflows, "theirs", "its end is shown", |workflow| {
        phase(workflow) == "Succeeded"
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_workflow_says_that_the_label_of_its_manifest_work_is_gone_until_it_is_back() -> Result<()> {
    let env = TestEnv::new("members-label").await?;
    let (fixture, member) = (&env.fixture, &env.neighbor);
    let (own, _) = fixture.dispatch("own", member).await?;
    let (name, uid) = (work_name(&own), own.uid().context("it is there")?);
    let label = |value: Option<&str>| json!({ "metadata": { "labels": { names::ORIGIN_UID_LABEL: value } } });
    merge(&member.works(), &name, &label(None)).await?;
    let workflows = fixture.workflows();
    let says_so = |workflow: &Workflow| says(workflow, "Dispatched", "False", "ForeignObject");
    until(&workflows, "own", "it says what is missing", says_so).await?;
    merge(&member.works(), &name, &label(Some(&uid))).await?;
    until(&workflows, "own", "nothing is wrong", |workflow| {
        says(workflow, "Dispatched", "True", "Claimed")
    })
    .await?;
    workflows.delete("own", &DeleteParams::default()).await?;
    until_gone(&workflows, "own", "it ends").await?;
    until_gone(&member.workflows(), "own", "so does the run").await
}
