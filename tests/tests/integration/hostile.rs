//! A malicious member of the fleet. With its real certificate it reaches no other mailbox.
//! Everything that it writes into its own mailbox is ignored or reported, while the Workflows of
//! others continue.

use std::fmt::Debug;

use anyhow::{Context, Result};
use argosy_api::{ManagedCluster, ManifestWork, WorkStatus, names};
use argosy_tests::testenv::{
    Fixture, Member,
    objects::{condition, says},
    server::client_of,
    signing::{Signing, identity, kept_kubeconfig},
    waiting::until,
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        authorization::v1::{SelfSubjectRulesReview, SelfSubjectRulesReviewSpec},
        coordination::v1::Lease,
        core::v1::{ConfigMap, Secret},
    },
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchParams},
    core::{ApiResource, DynamicObject},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A member whose agent was ended, a client with its certificate, and a neighbor whose agent runs.
pub(super) struct TestEnv {
    signing: std::sync::Arc<Signing>,
    pub(super) fixture: Fixture,
    pub(super) hostile: Member,
    pub(super) neighbor: Member,
    pub(super) client: Client,
}

impl TestEnv {
    pub(super) async fn new(name: &str) -> Result<Self> {
        let signing = Signing::shared().await?;
        let fixture = Fixture::on(signing.env.clone(), name).await?;
        let mut hostile = signing.register(&fixture, "hostile").await?;
        let bootstrap = signing.bootstrap(&hostile).await?;
        fixture
            .start_agent_with_certificate(&mut hostile, &bootstrap)
            .await?;
        let secret = until(
            &identity(&fixture, &hostile),
            names::IDENTITY_SECRET,
            "it has a certificate",
            |secret: &Secret| {
                secret
                    .data
                    .as_ref()
                    .is_some_and(|data| data.contains_key(names::KUBECONFIG_KEY))
            },
        )
        .await?;
        let client = client_of(&kept_kubeconfig(&secret)?).await?;
        let mut neighbor = signing.register(&fixture, "neighbor").await?;
        fixture.start_agent(&mut neighbor, 15).await?;
        Ok(Self {
            signing,
            fixture,
            hostile,
            neighbor,
            client,
        })
    }

    pub(super) async fn write(&self, report: &Value) -> Result<DynamicObject, kube::Error> {
        let api: Api<DynamicObject> = Api::namespaced_with(
            self.client.clone(),
            &self.hostile.cluster,
            &ApiResource::erase::<WorkStatus>(&()),
        );
        let report: DynamicObject =
            serde_json::from_value(report.clone()).map_err(kube::Error::SerdeError)?;
        let name = report.name_any();
        let params = PatchParams::apply("hostile").force();
        api.patch(&name, &params, &Patch::Apply(&report)).await
    }

    pub(super) fn report(&self, uid: &str, more: &Value) -> Value {
        let mut report = json!({
            "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "WorkStatus",
            "metadata": {
                "name": names::work_name(uid), "namespace": self.hostile.cluster, "labels": { names::ORIGIN_UID_LABEL: uid },
            },
            "spec": { "sourceRef": {
                "group": "argoproj.io", "version": "v1alpha1", "resource": "workflows", "kind": "Workflow", "name": "x", "namespace": "y",
            } },
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            report[key] = value.clone();
        }
        report
    }

    /// The number of the hostile member's reports that were ignored for this reason.
    async fn ignored(&self, reason: &str) -> Result<u64> {
        let metrics = self.signing.env.controller.metrics().await?;
        let series = format!(
            "argosy_ignored_reports_total{{cluster=\"{}\",reason=\"{reason}\"}} ",
            self.hostile.cluster
        );
        let count = metrics.lines().find_map(|line| line.strip_prefix(&series));
        Ok(count.map_or(Ok(0), str::parse)?)
    }
}

fn is_forbidden<T: Debug>(answer: Result<T, kube::Error>) -> bool {
    matches!(answer, Err(kube::Error::Api(status)) if status.code == 403)
}

/// True if the client has no access at all to objects of a kind in a namespace.
async fn is_closed<K>(client: &Client, namespace: &str) -> bool
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), namespace, &ApiResource::erase::<K>(&()));
    let name = "argosy-any";
    let object = DynamicObject::new(name, &ApiResource::erase::<K>(&()));
    let merge = Patch::Merge(json!({ "metadata": { "labels": { "a": "b" } } }));
    let status = Patch::Merge(json!({ "status": {} }));
    is_forbidden(api.get(name).await)
        && is_forbidden(api.list(&ListParams::default()).await)
        && is_forbidden(api.watch(&WatchParams::default(), "0").await.map(|_| ()))
        && is_forbidden(api.create(&PostParams::default(), &object).await)
        && is_forbidden(api.patch(name, &PatchParams::default(), &merge).await)
        && is_forbidden(api.patch_status(name, &PatchParams::default(), &status).await)
        && is_forbidden(api.delete(name, &DeleteParams::default()).await)
}

/// The client's rights in a namespace, except those that every user has about itself and the
/// server.
async fn rights(client: &Client, namespace: &str) -> Result<Vec<String>> {
    let review = SelfSubjectRulesReview {
        spec: SelfSubjectRulesReviewSpec {
            namespace: Some(namespace.to_owned()),
        },
        ..SelfSubjectRulesReview::default()
    };
    let review = Api::<SelfSubjectRulesReview>::all(client.clone())
        .create(&PostParams::default(), &review)
        .await?;
    let everybodys = ["authorization.k8s.io", "authentication.k8s.io"];
    let mut rights = Vec::new();
    for rule in review.status.context("it is answered")?.resource_rules {
        let (groups, resources) = (
            rule.api_groups.unwrap_or_default(),
            rule.resources.unwrap_or_default(),
        );
        let names = rule.resource_names.unwrap_or_default().join(",");
        for group in groups
            .iter()
            .filter(|group| !everybodys.contains(&group.as_str()))
        {
            for resource in &resources {
                rights.push(format!("{group}/{resource} [{names}] {}", rule.verbs.join(",")));
            }
        }
    }
    rights.sort();
    rights.dedup();
    Ok(rights)
}

#[tokio::test]
async fn an_agent_reaches_its_own_mailbox_and_its_own_cluster_and_nothing_else() -> Result<()> {
    let env = TestEnv::new("hostile-rights").await?;
    let (client, own, other) = (&env.client, &env.hostile.cluster, &env.neighbor.cluster);
    for namespace in [
        other.as_str(),
        "default",
        "argosy",
        env.fixture.namespace.as_str(),
    ] {
        assert!(is_closed::<ManifestWork>(client, namespace).await, "{namespace}");
        assert!(is_closed::<Lease>(client, namespace).await, "{namespace}");
        assert!(is_closed::<Secret>(client, namespace).await, "{namespace}");
        assert!(is_closed::<ConfigMap>(client, namespace).await, "{namespace}");
        assert!(
            is_closed::<argosy_api::Workflow>(client, namespace).await,
            "{namespace}"
        );
    }
    assert!(
        is_closed::<Secret>(client, own).await,
        "not even its own mailbox's"
    );
    let clusters: Api<ManagedCluster> = Api::all(client.clone());
    let merge = |change: Value| Patch::Merge(change);
    let params = PatchParams::default();
    assert!(is_forbidden(clusters.get(other).await));
    assert!(is_forbidden(clusters.list(&ListParams::default()).await));
    assert!(is_forbidden(
        clusters
            .patch_status(other, &params, &merge(json!({ "status": {} })))
            .await
    ));
    let drawing = json!({ "metadata": { "labels": { "name": other } } });
    assert!(is_forbidden(
        clusters.patch(own, &params, &merge(drawing.clone())).await
    ));
    // Fields outside of the status are dropped.
    clusters.patch_status(own, &params, &merge(drawing)).await?;
    let known = env.fixture.clusters().get(own).await?;
    assert_eq!(known.labels().get("name"), Some(own));

    let everywhere = [
        format!("cluster.open-cluster-management.io/managedclusters [{own}] get,list,watch"),
        format!("cluster.open-cluster-management.io/managedclusters/status [{own}] patch"),
        "certificates.k8s.io/certificatesigningrequests [] create,get".to_owned(),
    ];
    let works = "work.open-cluster-management.io/manifestworks";
    let in_mailbox = [
        format!("{works} [] get,list,watch,patch"),
        format!("{works}/status [] patch"),
        "control.kubestellar.io/workstatuses [] get,list,watch,create,patch,delete".to_owned(),
        "coordination.k8s.io/leases [] create,patch".to_owned(),
    ];
    let sorted = |rights: Vec<&String>| {
        let mut rights: Vec<String> = rights.into_iter().cloned().collect();
        rights.sort();
        rights
    };
    assert_eq!(
        rights(client, own).await?,
        sorted(everywhere.iter().chain(&in_mailbox).collect())
    );
    assert_eq!(rights(client, other).await?, sorted(everywhere.iter().collect()));
    assert_eq!(
        rights(client, "kube-system").await?,
        sorted(everywhere.iter().collect())
    );
    Ok(())
}

#[tokio::test]
async fn what_a_member_reports_of_others_runs_or_other_attempts_is_counted_and_nothing_else() -> Result<()> {
    let env = TestEnv::new("hostile-forged").await?;
    let (theirs, _) = env.fixture.dispatch("theirs", &env.neighbor).await?;
    env.hostile.agent()?.kill()?;
    let forged =
        json!({ "status": { "phase": "Succeeded" }, "reported": { "attempt": 1, "outcome": "Finished" } });
    env.write(&env.report(&theirs.uid().context("it is there")?, &forged))
        .await?;
    let own = env.fixture.submit("own", &env.hostile).await?;
    let old = json!({ "status": { "phase": "Failed" }, "reported": { "attempt": 7, "outcome": "Finished" } });
    until(
        &env.hostile.works(),
        &argosy_tests::testenv::fixture::work_name(&own),
        "it is sent",
        |_| true,
    )
    .await?;
    env.write(&env.report(&own.uid().context("it is there")?, &old))
        .await?;
    // After this, all effects of both writes have happened.
    env.fixture.round_trip("sentinel", &env.neighbor).await?;
    let theirs = env.fixture.workflows().get("theirs").await?;
    assert_eq!(argosy_tests::testenv::objects::phase(&theirs), "Pending");
    let own = env.fixture.workflows().get("own").await?;
    assert_eq!(argosy_tests::testenv::objects::phase(&own), "Pending");
    assert!(env.ignored("foreign").await? >= 1);
    assert!(env.ignored("other_attempt").await? >= 1);
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_a_report_is_said_and_holds_up_no_other() -> Result<()> {
    let env = TestEnv::new("hostile-malformed").await?;
    let (own, _) = env.fixture.dispatch("own", &env.hostile).await?;
    env.hostile.argo().start("own").await?;
    until(&env.fixture.workflows(), "own", "it runs", |workflow| {
        argosy_tests::testenv::objects::phase(workflow) == "Running"
    })
    .await?;
    env.hostile.agent()?.kill()?;
    let uid = own.uid().context("it is there")?;
    let oversized = "x".repeat(1_200_000);
    for status in [
        json!({ "phase": "Succeeded", "nodes": "many" }),
        json!({ "phase": { "of": "the moon" } }),
        json!({ "phase": "Succeeded", "message": oversized }),
    ] {
        // A valid report in between.
        let sound = json!({ "status": { "phase": "Running" }, "reported": { "attempt": 1 } });
        env.write(&env.report(&uid, &sound)).await?;
        until(&env.fixture.workflows(), "own", "nothing is wrong", |workflow| {
            condition(workflow, "StatusComplete", "False").is_none()
        })
        .await?;
        env.write(&env.report(&uid, &json!({ "status": status, "reported": { "attempt": 1 } })))
            .await?;
        let said = until(
            &env.fixture.workflows(),
            "own",
            "it says what is wrong",
            |workflow| says(workflow, "StatusComplete", "False", "ReportInvalid"),
        )
        .await?;
        assert_eq!(argosy_tests::testenv::objects::phase(&said), "Running");
    }
    assert!(env.ignored("invalid").await? >= 3);
    // Checked by the API server itself.
    for reported in [
        json!({ "attempt": "many" }),
        json!({ "attempt": 1, "labels": ["a"] }),
        json!("all"),
    ] {
        let refused = env
            .write(&env.report("other", &json!({ "reported": reported })))
            .await;
        assert!(
            matches!(&refused, Err(kube::Error::Api(status)) if status.message.contains("reported")),
            "{refused:?}"
        );
    }
    env.fixture.round_trip("sentinel", &env.neighbor).await
}

#[tokio::test]
async fn an_object_that_nobody_can_read_stops_no_watch() -> Result<()> {
    let env = TestEnv::new("hostile-unreadable").await?;
    env.hostile.agent()?.kill()?;
    // In UTC, this is the year 10000.
    let late = "9999-12-31T23:59:59.000000-23:59";
    let leases: Api<Lease> = Api::namespaced(env.client.clone(), &env.hostile.cluster);
    let renewal = Patch::Merge(json!({ "spec": { "renewTime": late } }));
    let written = leases
        .patch_metadata(names::CLUSTER_LEASE, &PatchParams::default(), &renewal)
        .await;
    written.context("the API server takes it")?;
    // The hostile member cannot even read its own object.
    let leases: Api<Lease> = Api::namespaced(env.fixture.clusters().into_client(), &env.hostile.cluster);
    let read = leases.get(names::CLUSTER_LEASE).await;
    assert!(
        matches!(read, Err(kube::Error::SerdeError(_))),
        "it can be read, so it tests nothing: {read:?}"
    );
    assert_eq!(env.signing.env.controller.ask("/readyz").await?.0, 200);
    // Renewals of the other Leases are still observed.
    env.fixture.round_trip("before", &env.neighbor).await?;
    until(
        &env.fixture.clusters(),
        &env.hostile.cluster,
        "its lease is nobody's",
        |cluster| {
            let conditions = argosy_tests::testenv::fixture::conditions(cluster);
            conditions
                .get("ManagedClusterConditionAvailable")
                .is_some_and(|(status, _)| status == "Unknown")
        },
    )
    .await?;
    env.fixture.round_trip("after", &env.neighbor).await
}
