//! Unreadable objects never block others from being listed, watched, decided, shown or released.
//! Each kind of writer creates dozens of random unreadable objects, every process is restarted over
//! them, and a correct Workflow still runs.

use anyhow::{Context, Result, ensure};
use argosy_api::{BindingPolicy, ManifestWork, WorkStatus, Workflow, names};
use argosy_tests::testenv::{
    Fixture, Member, TestEnv,
    binaries::{argosy, release, release_control},
    definitions::is_established,
    mailbox,
    objects::{create, phase, says},
    poison::{self, Writer, nested, outlines},
    waiting::{turn, until, until_gone},
};
use k8s_openapi::{
    api::core::v1::ConfigMap, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
    core::Request,
};
use serde_json::json;

/// A fixture with a separate controller, and a member with an agent.
async fn fixture(name: &str) -> Result<(Fixture, Member)> {
    let fixture = Fixture::on(TestEnv::own(name).await?, name).await?;
    let member = fixture.pull().await?;
    Ok((fixture, member))
}

fn writer(client: &Client, path: String, form: String) -> Writer {
    Writer {
        client: client.clone(),
        path,
        form,
    }
}

/// Labels of a Workflow that a policy sends to `member`, as JSON.
fn selected(member: &Member) -> String {
    format!(
        r#"{{"{}":"{}"}}"#,
        names::KUBESTELLAR_CLUSTER_LABEL,
        member.cluster
    )
}

/// Labels that look like those of the agent's own objects on the cluster.
fn marked(member: &Member) -> String {
    format!(
        r#"{{"{}":"x","{}":"{}"}}"#,
        names::ORIGIN_UID_LABEL,
        names::CLUSTER_LABEL,
        member.cluster
    )
}

/// A tenant of `client`'s API server, who writes Workflows with these labels (JSON).
fn tenant(client: &Client, namespace: &str, labels: &str) -> Vec<Writer> {
    let head = r#"{"apiVersion":"argoproj.io/v1alpha1","kind":"Workflow","metadata":{"name":"{name}""#;
    let path = format!("/apis/argoproj.io/v1alpha1/namespaces/{namespace}/workflows");
    let rests = [
        r#""spec":{"suspend":true,"entrypoint":"main","x":{poison}}"#,
        r#""spec":{"suspend":true},"status":{"x":{poison},"nodes":{"a":{"inputs":{poison}}}}"#,
        r#""spec":{"suspend":true,"templates":[{"name":"a","plugin":{"x":{poison}}}]},"status":{"conditions":[{"type":"A","x":{poison}}]}"#,
        r#""spec":{"arguments":{poison},"shutdown":{poison}},"status":{"phase":{poison},"storedTemplates":{poison}}"#,
    ];
    let form = |rest: &str| format!(r#"{head},"labels":{labels}{{managed}}}},{rest}}}"#);
    rests
        .iter()
        .map(|rest| writer(client, path.clone(), form(rest)))
        .collect()
}

/// A member, who writes reports of runs and objects, and ManifestWorks, into its own mailbox.
fn member_of_the_fleet(client: &Client, mailbox: &str) -> Vec<Writer> {
    let mut writers = Vec::new();
    for label in [names::ORIGIN_UID_LABEL, names::OBJECT_UID_LABEL] {
        let metadata = format!(
            r#""metadata":{{"name":"argosy-{{name}}","labels":{{"{label}":"{{name}}"}}{{managed}}}}"#
        );
        writers.push(writer(
            client,
            format!("/apis/control.kubestellar.io/v1alpha1/namespaces/{mailbox}/workstatuses"),
            format!(
                r#"{{"apiVersion":"control.kubestellar.io/v1alpha1","kind":"WorkStatus",{metadata},"spec":{{"sourceRef":{{"group":"","version":"v1","resource":"a","kind":"A","name":"a"}}}},"status":{{"phase":"Running","x":{{poison}}}},"reported":{{"attempt":1}}}}"#
            ),
        ));
    }
    // The last one has none of our labels.
    let labels = [
        format!(
            r#""{}":"{{name}}","{}":"poison""#,
            names::ORIGIN_UID_LABEL,
            names::ORIGIN_WDS_LABEL
        ),
        format!(
            r#""{}":"{{name}}","{}":"poison""#,
            names::OBJECT_UID_LABEL,
            names::ORIGIN_WDS_LABEL
        ),
        String::new(),
    ];
    for labels in labels {
        let prefix = if labels.is_empty() { "" } else { names::WORK_PREFIX };
        writers.push(writer(
            client,
            format!("/apis/work.open-cluster-management.io/v1/namespaces/{mailbox}/manifestworks"),
            format!(
                r#"{{"apiVersion":"work.open-cluster-management.io/v1","kind":"ManifestWork","metadata":{{"name":"{prefix}{{name}}","labels":{{{labels}}}{{managed}}}},"spec":{{"deleteOption":{{"ttlSecondsAfterFinished":1}},"workload":{{"manifests":[{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{{name}}","namespace":"nowhere"}},"data":{{poison}}}}]}}}}}}"#
            ),
        ));
    }
    writers
}

/// An author of policies, transforms and collectors. Fields in the schema are valid; the API server
/// drops the others.
fn author(client: &Client, prefix: &str) -> Vec<Writer> {
    let kinds = [
        (
            "BindingPolicy",
            "bindingpolicies",
            r#"{"clusterSelectors":[{"matchLabels":{"no":"cluster"}}],"x":{poison}}"#,
        ),
        (
            "CustomTransform",
            "customtransforms",
            r#"{"apiGroup":"nobody.example","resource":"nothing","remove":["$.a"],"x":{poison}}"#,
        ),
        (
            "StatusCollector",
            "statuscollectors",
            r#"{"filter":"true","limit":20,"x":{poison}}"#,
        ),
    ];
    let one = |(kind, plural, spec): (&str, &str, &str)| {
        writer(
            client,
            format!("/apis/control.kubestellar.io/v1alpha1/{plural}"),
            format!(
                r#"{{"apiVersion":"control.kubestellar.io/v1alpha1","kind":"{kind}","metadata":{{"name":"{prefix}-{{name}}"{{managed}}}},"spec":{spec}}}"#
            ),
        )
    };
    kinds.into_iter().map(one).collect()
}

/// Defines a kind that accepts any content on both sides. Every test has its own.
pub(super) async fn define_things(clients: [&Client; 2], group: &str) -> Result<()> {
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": { "name": format!("things.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced", "names": { "plural": "things", "kind": "Thing" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    }))?;
    for client in clients {
        let api = Api::all(client.clone());
        create(&api, &definition).await?;
        until(&api, &definition.name_any(), "it is served", is_established).await?;
    }
    Ok(())
}

/// Writers of objects of other kinds. All objects are selected by the policy `things` or, on a WEC,
/// marked as the agent's own.
fn others(client: &Client, group: &str, namespace: &str, labels: &str) -> Vec<Writer> {
    let thing = format!(
        r#"{{"apiVersion":"{group}/v1","kind":"Thing","metadata":{{"name":"{{name}}","labels":{labels}{{managed}}}},"spec":{{"x":{{poison}}}},"status":{{"y":{{poison}}}},"z":{{poison}}}}"#
    );
    let map = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{{name}}","labels":{labels}{{managed}}}},"data":{{"a":{{poison}}}}}}"#
    );
    vec![
        writer(
            client,
            format!("/apis/{group}/v1/namespaces/{namespace}/things"),
            thing,
        ),
        writer(client, format!("/api/v1/namespaces/{namespace}/configmaps"), map),
    ]
}

pub(super) async fn select_things(fixture: &Fixture, member: &Member, group: &str) -> Result<String> {
    let name = format!("{}-things", fixture.namespace);
    let clause = |group: &str, plural: &str| {
        json!({
            "apiGroup": group, "resources": [plural], "namespaces": [fixture.namespace],
            "objectSelectors": [{ "matchLabels": { "app": "things" } }], "wantSingletonReportedState": true,
        })
    };
    let policy: BindingPolicy = serde_json::from_value(json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy", "metadata": { "name": name },
        "spec": {
            "clusterSelectors": [{ "matchLabels": { "name": member.cluster } }],
            "downsync": [clause(group, "things"), clause("", "configmaps")],
        },
    }))?;
    create(&Api::all(fixture.control.clone()), &policy).await?;
    Ok(name)
}

/// Writes the objects of all writers, and fails if the API server accepts none of a writer.
async fn write(writers: &[Writer], prefix: &str) -> Result<()> {
    for (number, writer) in (0..).zip(writers) {
        let taken = writer.write(&format!("{prefix}{number}"), number).await?;
        ensure!(
            taken > 0,
            "{prefix}: nothing of {} was taken, so it tests nothing",
            writer.path
        );
    }
    Ok(())
}

/// Sends a correct ConfigMap and waits until it is on the cluster.
async fn send_map(fixture: &Fixture, member: &Member, name: &str) -> Result<()> {
    let map: ConfigMap = serde_json::from_value(json!({
        "metadata": { "name": name, "labels": { "app": "things" } }, "data": { "a": "1" },
    }))?;
    create(
        &Api::namespaced(fixture.control.clone(), &fixture.namespace),
        &map,
    )
    .await?;
    let there: Api<ConfigMap> = Api::namespaced(member.wec.clone(), &fixture.namespace);
    until(&there, name, "it is on the cluster", |_| true).await?;
    Ok(())
}

/// Lets each writer create unreadable objects.
async fn poison_everything(fixture: &Fixture, member: &Member, group: &str) -> Result<()> {
    let (control, wec, namespace) = (&fixture.control, &member.wec, fixture.namespace.as_str());
    write(&tenant(control, namespace, &selected(member)), "wds").await?;
    write(&member_of_the_fleet(control, &member.cluster), "its").await?;
    write(&tenant(wec, namespace, &marked(member)), "wec").await?;
    write(&author(control, namespace), "author").await?;
    write(&others(control, group, namespace, r#"{"app":"things"}"#), "other").await?;
    let applied = format!(r#"{{"{}":"{}"}}"#, names::CLUSTER_LABEL, member.cluster);
    write(&others(wec, group, namespace, &applied), "applied").await
}

/// Objects that cannot be sent say so, if they can have conditions.
async fn is_said(fixture: &Fixture, member: &Member, policy: &str) -> Result<()> {
    let runs = outlines::<Workflow>(&fixture.control, &fixture.namespace);
    for name in ["wds0-0", "wds0-1"] {
        until(&runs, name, "it says why it is not sent", |run| {
            poison::says(run, "NotDispatchable", "True", "Unreadable")
        })
        .await?;
    }
    let works = outlines::<ManifestWork>(&fixture.control, &member.cluster);
    for name in ["its4-0", "its4-1"] {
        until(&works, name, "its agent says it", |work| {
            poison::says(work, "Applied", "False", "Unreadable")
        })
        .await?;
    }
    let policies: Api<BindingPolicy> = Api::all(fixture.control.clone());
    let is_unsent = |error: &String| error.contains("is not sent: ") && error.contains("levels");
    until(&policies, policy, "the policy says it", |policy| {
        policy
            .status
            .as_ref()
            .is_some_and(|status| status.errors.iter().any(is_unsent))
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn whatever_anybody_writes_everything_else_goes_on() -> Result<()> {
    let _turn = turn().await;
    let (fixture, member) = fixture("poison").await?;
    let group = "poison.example";
    define_things([&fixture.control, &member.wec], group).await?;
    let policy = select_things(&fixture, &member, group).await?;
    fixture.dispatch("before", &member).await?;
    poison_everything(&fixture, &member, group).await?;
    // First while the objects are watched, then after restarts that list them.
    for name in ["watched", "listed", "again"] {
        fixture.round_trip(name, &member).await?;
        send_map(&fixture, &member, name).await?;
        fixture.env.controller.restart().await?;
        member.agent()?.restart().await?;
    }
    member.argo().finish("before", "Succeeded").await?;
    until(&fixture.workflows(), "before", "its end is shown", |workflow| {
        phase(workflow) == "Succeeded"
    })
    .await?;
    is_said(&fixture, &member, &policy).await?;
    let arguments = ["get", "workflows", "-n", &fixture.namespace];
    let listed = argosy(fixture.env.control.kubeconfig(), &arguments).await?;
    assert!(listed.output.contains("again"), "{listed:?}");
    Ok(())
}

#[tokio::test]
async fn a_workflow_that_is_too_deep_to_travel_is_not_sent_and_says_so() -> Result<()> {
    let (fixture, member) = fixture("poison-travel").await?;
    let tenant = tenant(&fixture.control, &fixture.namespace, &selected(&member));
    // The object adds two levels around it.
    for levels in [97, 98, 99, 105, 119, 120, 121, 122, 123, 124, 125, 126] {
        ensure!(
            tenant[0]
                .put(&format!("deep-{levels}"), &nested(levels), false)
                .await?
        );
    }
    for levels in [97, 98] {
        let name = format!("deep-{levels}");
        until(&member.workflows(), &name, "it is on its cluster", |_| true).await?;
    }
    let outlines = outlines::<Workflow>(&fixture.control, &fixture.namespace);
    for levels in [99, 105, 119, 120, 121, 122, 123, 124, 125, 126] {
        let name = format!("deep-{levels}");
        until(&outlines, &name, "it says why it is not sent", |run| {
            poison::says(run, "NotDispatchable", "True", "Unreadable")
        })
        .await?;
    }
    fixture.round_trip("good", &member).await?;
    for work in member.works().list(&ListParams::default()).await? {
        let of = work
            .annotations()
            .get(names::ORIGIN_NAME_ANNOTATION)
            .map(String::as_str);
        assert!(
            matches!(of, Some("deep-97" | "deep-98" | "good")),
            "{of:?} was sent"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_report_of_a_run_that_cannot_be_read_is_said_and_holds_up_no_other() -> Result<()> {
    let (fixture, member) = fixture("poison-report").await?;
    let (run, _) = fixture.dispatch("own", &member).await?;
    member.argo().start("own").await?;
    let work = names::work_name(&run.uid().context("it is there")?);
    until(&member.reports(), &work, "it is reported", |_| true).await?;
    member.agent()?.kill()?;
    member.reports().delete(&work, &DeleteParams::default()).await?;
    until_gone::<WorkStatus>(&member.reports(), &work, "it is gone").await?;
    let report = &member_of_the_fleet(&fixture.control, &member.cluster)[0];
    let form = report.form.replace(
        r#":"{name}"}"#,
        &format!(r#":"{}"}}"#, run.uid().unwrap_or_default()),
    );
    let report = writer(&fixture.control, report.path.clone(), form);
    let uid = run.uid().unwrap_or_default();
    ensure!(report.put(&uid, &nested(200), false).await?);
    until(&fixture.workflows(), "own", "it says what is wrong", |workflow| {
        says(workflow, "StatusComplete", "False", "ReportInvalid")
    })
    .await?;
    fixture.env.controller.restart().await?;
    member.agent()?.start_again().await?;
    fixture.round_trip("good", &member).await
}

#[tokio::test]
async fn what_cannot_be_read_is_released_like_anything_else() -> Result<()> {
    let (fixture, member) = fixture("poison-release").await?;
    fixture.dispatch("good", &member).await?;
    let held = |labels: String, finalizer: &str| format!(r#"{labels},"finalizers":["{finalizer}"]"#);
    let on_wec = held(marked(&member), names::AGENT_FINALIZER);
    let on_wds = held(selected(&member), names::CONTROLLER_FINALIZER);
    fixture.env.controller.kill()?;
    member.agent()?.kill()?;
    for (client, labels) in [(&member.wec, &on_wec), (&fixture.control, &on_wds)] {
        let tenant = &tenant(client, &fixture.namespace, labels)[0];
        ensure!(tenant.put("bad", &nested(200), false).await?);
        ensure!(tenant.put("late", "1", true).await?);
    }
    release(&member.cluster, &member.kubeconfig).await?;
    release_control(fixture.env.control.kubeconfig())?;
    for client in [&member.wec, &fixture.control] {
        let outlines = outlines::<Workflow>(client, &fixture.namespace);
        for name in ["good", "bad"] {
            let finalizers = outlines.get(name).await?.finalizers().to_vec();
            assert_eq!(finalizers, [] as [String; 0], "{name} is still held");
        }
    }
    Ok(())
}

#[tokio::test]
async fn manifest_works_whose_objects_nobody_can_read_leave_what_is_on_the_cluster() -> Result<()> {
    let (fixture, member) = fixture("poison-works").await?;
    let map = mailbox::config_map(&fixture.namespace, "kept", "1");
    let works = member.works();
    mailbox::send(&works, &mailbox::theirs("poison-kept", &[map])?).await?;
    let there: Api<ConfigMap> = Api::namespaced(member.wec.clone(), &fixture.namespace);
    until(&there, "kept", "it is applied", |_| true).await?;
    until(&works, "poison-kept", "that is said", mailbox::is_applied).await?;
    // The same ManifestWork with unreadable content.
    let deep: serde_json::Value = (0..116).fold(json!(1), |inner, _| json!([inner]));
    let change = json!({ "spec": { "workload": { "manifests": [{
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "namespace": fixture.namespace, "name": "kept" }, "x": deep,
    }] } } });
    let request = Request::new(format!(
        "/apis/work.open-cluster-management.io/v1/namespaces/{}/manifestworks",
        member.cluster
    ));
    let request = request.patch("poison-kept", &PatchParams::default(), &Patch::Merge(&change))?;
    fixture.control.request_text(request).await?;
    until(
        &outlines::<ManifestWork>(&fixture.control, &member.cluster),
        "poison-kept",
        "its agent says it",
        |work| poison::says(work, "Applied", "False", "Unreadable"),
    )
    .await?;
    member.agent()?.restart().await?;
    fixture.round_trip("good", &member).await?;
    assert!(there.get_opt("kept").await?.is_some(), "it was deleted");
    Ok(())
}
