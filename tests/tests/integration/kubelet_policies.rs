//! The admission policies for virtual Nodes, their Leases and shadow pods.

use anyhow::{Context, Result};
use argosy_api::names;
use argosy_tests::testenv::{objects::create, waiting::until};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, Pod},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::kubelet::{Lab, pod};

const SHADOW: &str = "may write only shadow pods";
const NOTHING: &str = "a shadow pod runs nothing";

fn dry_run() -> PostParams {
    PostParams {
        dry_run: true,
        ..PostParams::default()
    }
}

/// Asserts that a request was refused with these words.
#[track_caller]
fn assert_refused<T>(answer: kube::Result<T>, expected: &str, about: &str) {
    let text = answer.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(text.contains(expected), "{about}: {text}");
}

/// A lab, and Argosy's account in it.
async fn lab(name: &str) -> Result<(Lab, kube::Client)> {
    let lab = Lab::new(name).await?;
    let account = "system:serviceaccount:argosy:argosy-controller";
    let argosy = lab.signing.env.control.client_as(account).await?;
    Ok((lab, argosy))
}

#[tokio::test]
async fn argosys_account_makes_only_shadow_pods_which_run_nothing_and_nobody_else_makes_them() -> Result<()> {
    let (lab, argosy) = lab("kubelet-policies").await?;
    let node = names::virtual_node(&lab.member.cluster);
    let (as_argosy, as_tenant) = (Api::<Pod>::namespaced(argosy, &lab.fixture.namespace), lab.pods());
    let label = json!({ names::SHADOW_OF_LABEL: "0b5f9e5c-3a2c-4c57-9a43-0d3ffb6f6f0b" });
    let shadow = |changes: &Value| {
        let mut made = json!({
            "metadata": { "name": "made", "labels": label },
            "spec": {
                "nodeName": node, "automountServiceAccountToken": false,
                "containers": [{ "name": "main", "image": "argosy.dev/shadow" }],
            },
        });
        for (part, fields) in changes.as_object().into_iter().flatten() {
            for (field, value) in fields.as_object().into_iter().flatten() {
                made[part][field] = value.clone();
            }
        }
        pod(&made)
    };
    let container = |image: &str| json!([{ "name": "other", "image": image }]);
    as_argosy.create(&dry_run(), &shadow(&json!({}))?).await?;
    for (changes, expected) in [
        (json!({ "metadata": { "labels": {} } }), SHADOW),
        (json!({ "spec": { "nodeName": "node1" } }), SHADOW),
        (json!({ "spec": { "nodeName": null } }), SHADOW),
        (
            json!({ "spec": { "containers": container("busybox:1.36") } }),
            NOTHING,
        ),
        (
            json!({ "spec": { "initContainers": container("busybox:1.36") } }),
            NOTHING,
        ),
        (
            json!({ "spec": { "volumes": [{ "name": "a", "emptyDir": {} }] } }),
            NOTHING,
        ),
        (
            json!({ "spec": { "automountServiceAccountToken": true } }),
            NOTHING,
        ),
        (
            json!({ "spec": { "automountServiceAccountToken": null } }),
            NOTHING,
        ),
        (json!({ "spec": { "hostNetwork": true } }), NOTHING),
        (json!({ "spec": { "hostPID": true } }), NOTHING),
        (json!({ "spec": { "hostIPC": true } }), NOTHING),
    ] {
        let made = as_argosy.create(&dry_run(), &shadow(&changes)?).await;
        assert_refused(made, expected, &changes.to_string());
    }
    let made = as_tenant.create(&dry_run(), &shadow(&json!({}))?).await;
    assert_refused(made, "only argosy-controller makes shadow pods", "a tenant");

    let plain = shadow(&json!({ "metadata": { "name": "plain", "labels": {} } }))?;
    create(&as_tenant, &plain).await?;
    // The status of an object that policies select is written back to it.
    let params = PatchParams::default();
    let labeled = json!({ "metadata": { "labels": { names::SINGLETON_STATUS_LABEL: "true" } } });
    as_argosy.patch("plain", &params, &Patch::Merge(labeled)).await?;
    let status = Patch::Merge(json!({ "status": { "message": "from its cluster" } }));
    as_argosy.patch_status("plain", &params, &status).await?;
    let image = json!({ "spec": { "containers": [{ "name": "main", "image": "busybox:1.36" }] } });
    let changed = as_argosy.patch("plain", &params, &Patch::Strategic(image)).await;
    assert_refused(changed, SHADOW, "the image of a tenant's pod");
    let shown = lab.shadow.name_any();
    let another = json!("0b5f9e5c-3a2c-4c57-9a43-0d3ffb6f6f0c");
    for (pods, name, label, expected) in [
        (&as_tenant, shown.as_str(), another.clone(), "stays"),
        (&as_tenant, &shown, Value::Null, "stays"),
        (
            &as_tenant,
            "plain",
            another.clone(),
            "only argosy-controller makes shadow pods",
        ),
        (&as_argosy, &shown, Value::Null, SHADOW),
        (&as_argosy, "plain", another, SHADOW),
    ] {
        let patch = Patch::Merge(json!({ "metadata": { "labels": { names::SHADOW_OF_LABEL: label } } }));
        let changed = pods.patch(name, &PatchParams::default(), &patch).await;
        assert_refused(changed, expected, name);
    }
    Ok(())
}

#[tokio::test]
async fn argosys_account_writes_only_virtual_nodes_and_their_leases() -> Result<()> {
    const NODES: &str = "may write only virtual Nodes";
    const LEASES: &str = "may write only the Leases of virtual Nodes";
    let (lab, argosy) = lab("kubelet-nodes").await?;
    let control = &lab.fixture.control;
    let (nodes, leases) = (
        Api::<Node>::all(control.clone()),
        Api::<Lease>::namespaced(control.clone(), "kube-node-lease"),
    );
    let (as_argosy, leases_as_argosy) = (
        Api::<Node>::all(argosy.clone()),
        Api::<Lease>::namespaced(argosy, "kube-node-lease"),
    );
    let virtual_node = names::virtual_node(&lab.member.cluster);
    until(&nodes, &virtual_node, "the virtual Node is there", |_| true).await?;
    until(&leases, &virtual_node, "its Lease is there", |_| true).await?;

    let node = |name: &str, labels: Value| -> Result<Node> {
        let node = json!({ "metadata": { "name": name, "labels": labels } });
        Ok(serde_json::from_value(node)?)
    };
    let label = json!({ names::VIRTUAL_NODE_LABEL: "true" });
    for (name, labels) in [("argosy-unmarked", json!({})), ("node2", label.clone())] {
        let made = as_argosy.create(&dry_run(), &node(name, labels)?).await;
        assert_refused(made, NODES, name);
    }
    for name in ["node1", "argosy-unmarked"] {
        create(&nodes, &node(name, json!({}))?).await?;
        let patch = Patch::Merge(json!({ "metadata": { "labels": label } }));
        let marked = as_argosy.patch(name, &PatchParams::default(), &patch).await;
        assert_refused(marked, NODES, name);
        let deleted = as_argosy.delete(name, &DeleteParams::default()).await;
        assert_refused(deleted, NODES, name);
    }
    let patch = Patch::Merge(json!({ "metadata": { "labels": { names::VIRTUAL_NODE_LABEL: null } } }));
    let changed = as_argosy
        .patch(&virtual_node, &PatchParams::default(), &patch)
        .await;
    assert_refused(changed, NODES, &virtual_node);

    let lease: Lease = serde_json::from_value(json!({ "metadata": { "name": "node1" } }))?;
    let made = leases_as_argosy.create(&dry_run(), &lease).await;
    assert_refused(made, LEASES, "a new Lease");
    create(&leases, &lease).await?;
    let patch = Patch::Merge(json!({ "spec": { "holderIdentity": "argosy" } }));
    let renewed = leases_as_argosy
        .patch("node1", &PatchParams::default(), &patch)
        .await;
    assert_refused(renewed, LEASES, "the Lease of a kubelet");
    let renewed = leases_as_argosy
        .patch(&virtual_node, &PatchParams::default(), &patch)
        .await;
    renewed.context("its own Lease")?;
    Ok(())
}
