//! As many policies as a large fleet has. Everything that they select is guarded while the webhook
//! does not answer. If an API server has no room for all of them, a condition says so.

use anyhow::Result;
use argosy_api::{BindingPolicy, Workflow, conditions::binding_policy as types, names};
use argosy_tests::testenv::{
    Fixture, TestEnv,
    admission::{eventually, is_held, refusal, try_unsuspended, unsuspended},
    binaries::argosy,
    env::LONG,
    objects::create,
    supervisor,
    waiting::{turn, until},
};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use kube::{Api, api::PostParams};
use serde_json::{Value, json};

fn policy(name: &str, clause: &Value) -> Result<BindingPolicy> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy", "metadata": { "name": name },
        "spec": { "clusterSelectors": [{ "matchLabels": { "name": name } }], "downsync": [clause] },
    }))?)
}

/// A Workflow that only the policy of that number selects.
fn selected_by(number: usize) -> Workflow {
    let name = cluster(number);
    if number.is_multiple_of(2) {
        return unsuspended("selected", &name);
    }
    let mut selected = unsuspended("selected", names::KUBESTELLAR_LOCAL_CLUSTER);
    let label = (format!("example.com/{name}"), name);
    selected.metadata.labels.get_or_insert_default().extend([label]);
    selected
}

/// A policy that selects by label: even ones share a label with different values, odd ones have a
/// label of their own.
fn by_label(number: usize) -> Result<BindingPolicy> {
    let name = cluster(number);
    let own = format!("example.com/{name}");
    let key = if number.is_multiple_of(2) {
        names::KUBESTELLAR_CLUSTER_LABEL
    } else {
        &own
    };
    let selector = json!({ "matchLabels": { key: name } });
    policy(
        &name,
        &json!({ "resources": ["workflows"], "objectSelectors": [selector] }),
    )
}

fn cluster(number: usize) -> String {
    format!("many-{number}")
}

/// All expressions of the registered policy, concatenated.
fn said(policy: &ValidatingAdmissionPolicy) -> String {
    let spec = policy.spec.iter();
    let validations = spec.flat_map(|spec| spec.validations.iter().flatten());
    validations.map(|one| one.expression.as_str()).collect()
}

#[tokio::test]
#[ignore = "takes minutes on two processors: scripts/test.sh --all"]
async fn what_each_of_a_thousand_policies_selects_is_guarded_while_the_controller_is_down() -> Result<()> {
    let _turn = turn().await;
    let env = TestEnv::own_guarded("many-policies", LONG).await?;
    let fixture = Fixture::on(env, "many").await?;
    let policies: Api<BindingPolicy> = Api::all(fixture.control.clone());
    let registered: Api<ValidatingAdmissionPolicy> = Api::all(fixture.control.clone());
    let all: Vec<String> = (0..1000)
        .map(|number| format!("\"{}\"", cluster(number)))
        .collect();
    let registering = async {
        stream::iter((0..1000).map(by_label))
            .map(async |policy| create(&policies, &policy?).await)
            .buffer_unordered(8)
            .try_collect::<Vec<_>>()
            .await?;
        let says_all = |policy: &ValidatingAdmissionPolicy| {
            let said = said(policy);
            all.iter().all(|name| said.contains(name))
        };
        until(&registered, "argosy-create", "it says what all select", says_all).await
    };
    supervisor::beside(&[&fixture.env.controller], registering).await?;
    fixture.env.controller.kill()?;

    let workflows = fixture.workflows();
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    for number in 0..1000 {
        let selected = selected_by(number);
        // The API server may still use an earlier version of the policy.
        eventually("the policy argosy-create is in effect", async || {
            let refused = workflows.create(&dry_run, &selected).await;
            Ok(refusal(&refused).is_some_and(|message| message.contains("argosy-create")))
        })
        .await?;
    }
    let free = unsuspended("free", names::KUBESTELLAR_LOCAL_CLUSTER);
    assert!(!is_held(&create(&workflows, &free).await?));
    Ok(())
}

#[tokio::test]
#[ignore = "takes minutes on two processors: scripts/test.sh --all"]
async fn a_policy_that_the_admission_policy_has_no_room_for_says_so_and_the_doctor_too() -> Result<()> {
    let env = TestEnv::own_guarded("long-policies", LONG).await?;
    let fixture = Fixture::on(env, "long").await?;
    let policies: Api<BindingPolicy> = Api::all(fixture.control.clone());
    let names = |count: usize| -> Vec<String> { (0..count).map(|number| format!("n{number:059}")).collect() };
    let of = |name: &str, count| {
        policy(
            name,
            &json!({ "resources": ["workflows"], "namespaces": names(count), "objectNames": [name] }),
        )
    };
    create(&policies, &by_label(0)?).await?;
    create(&policies, &of("large", 9_600)?).await?;
    create(&policies, &of("larger", 11_500)?).await?;
    let guarded = |policy: &BindingPolicy| {
        let mut conditions = policy.status.iter().flat_map(|status| &status.conditions);
        conditions
            .find(|known| known.type_ == types::GUARDED)
            .map(|known| known.reason.clone())
    };
    let larger = until(&policies, "larger", "it says that it is not guarded", |policy| {
        guarded(policy).is_some()
    })
    .await?;
    assert_eq!(guarded(&larger).as_deref(), Some("SelectionTooLong"));
    for name in ["large", "many-0"] {
        assert_eq!(guarded(&policies.get(name).await?), None, "{name}");
    }
    let answer = argosy(fixture.env.control.kubeconfig(), &["doctor", "-o", "json"]).await?;
    assert!(
        answer
            .output
            .contains("does not guard the Workflows of 1 BindingPolicies, such as larger"),
        "{answer:?}"
    );

    let registered: Api<ValidatingAdmissionPolicy> = Api::all(fixture.control.clone());
    until(&registered, "argosy-create", "it guards the others", |policy| {
        let said = said(policy);
        let last = format!("n{:059}", 9_599);
        ["many-0", "large", &last]
            .iter()
            .all(|name| said.contains(&format!("\"{name}\"")))
    })
    .await?;
    fixture.env.controller.kill()?;
    eventually("the policy argosy-create is in effect", async || {
        Ok(refusal(&try_unsuspended(&fixture.workflows(), "many-0").await).is_some())
    })
    .await
}
