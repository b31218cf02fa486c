//! CustomTransforms on the way to a cluster. They affect every Workflow, so the tests use a
//! separate environment.

use std::path::Path;

use anyhow::{Context, Result};
use argosy_api::{CustomTransform, CustomTransformSpec, Workflow};
use argosy_tests::testenv::{
    Fixture, TestEnv,
    binaries::argosy,
    objects::{self, create},
    waiting::until,
};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

#[tokio::test]
async fn a_broken_path_is_reported_and_the_rest_of_the_transform_applies() -> Result<()> {
    let fixture = Fixture::on(TestEnv::own("transforms").await?, "transforms").await?;
    let member = fixture.pull().await?;
    let transforms: Api<CustomTransform> = Api::all(fixture.control.clone());
    let remove = [
        "$.spec.priority",
        "$.spec[",
        "$.metadata.name",
        r#"$.metadata.labels["team"]"#,
    ];
    let spec = CustomTransformSpec {
        api_group: "argoproj.io".to_owned(),
        resource: "workflows".to_owned(),
        remove: remove.map(str::to_owned).to_vec(),
        ..CustomTransformSpec::default()
    };
    create(&transforms, &CustomTransform::new("mine", spec.clone())).await?;
    let told = until(&transforms, "mine", "it says what is wrong", |transform| {
        transform.status.is_some()
    })
    .await?;
    let errors = told.status.unwrap_or_default().errors;
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(errors[0].contains("spec.remove[1]"), "{errors:?}");
    assert!(errors[1].contains("spec.remove[2]"), "{errors:?}");

    let mut workflow = objects::workflow("hello", &member.cluster);
    workflow.spec["priority"] = json!(7);
    workflow.spec["parallelism"] = json!(3);
    workflow.labels_mut().insert("team".to_owned(), "blue".to_owned());
    create(&fixture.workflows(), &workflow).await?;
    let object = until(
        &member.workflows(),
        "hello",
        "the object is on the cluster",
        |_| true,
    )
    .await?;
    assert_eq!(
        (&object.spec["priority"], &object.spec["parallelism"]),
        (&json!(null), &json!(3))
    );
    assert!(!object.labels().contains_key("team"));

    create(&transforms, &CustomTransform::new("second", spec)).await?;
    for name in ["mine", "second"] {
        until(&transforms, name, "it warns of the other", |transform| {
            transform
                .status
                .as_ref()
                .is_some_and(|status| !status.warnings.is_empty())
        })
        .await?;
    }
    Ok(())
}

fn conditions(workflow: &Workflow) -> String {
    workflow
        .status
        .as_ref()
        .and_then(|status| status.get("conditions"))
        .map_or_else(String::new, Value::to_string)
}

async fn label(fixture: &Fixture, cluster: &str, region: &str) -> Result<()> {
    let patch = Patch::Merge(json!({ "metadata": { "labels": { "region": region } } }));
    fixture
        .clusters()
        .patch(cluster, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_workflow_gets_the_values_of_its_cluster_and_waits_while_they_cannot_be_computed() -> Result<()> {
    let fixture = Fixture::on(TestEnv::own("overrides").await?, "overrides").await?;
    let members = [fixture.pull().await?, fixture.push().await?];
    label(&fixture, &members[0].cluster, "eu").await?;
    let transforms: Api<CustomTransform> = Api::all(fixture.control.clone());
    let spec = json!({
        "apiGroup": "argoproj.io", "resource": "workflows",
        "objectSelectors": [{ "matchLabels": { "mirrored": "true" } }],
        "set": [
            { "path": "$.spec.templates[*].container.image", "expression": "cluster.region + '.example/' + value" },
            { "path": "$.spec.priority", "value": null },
            { "path": "$.spec.nodeSelector", "value": { "pool": "batch" } },
        ],
    });
    let transform = CustomTransform::new("mirror", serde_json::from_value(spec.clone())?);
    let stored = create(&transforms, &transform).await?;
    assert_eq!(
        json!(stored.spec)["set"],
        spec["set"],
        "the schema keeps any value, also null"
    );

    for member in &members {
        let mut workflow = objects::workflow(&member.cluster, &member.cluster);
        workflow
            .labels_mut()
            .insert("mirrored".to_owned(), "true".to_owned());
        create(&fixture.workflows(), &workflow).await?;
    }
    let image = |object: &Workflow| object.spec["templates"][0]["container"]["image"].clone();
    let original = image(&objects::workflow("x", "x"));
    let original = original.as_str().context("an image")?;
    let [east, west] = &members;
    let object = until(&east.workflows(), &east.cluster, "it was sent", |_| true).await?;
    assert_eq!(image(&object), format!("eu.example/{original}"));
    assert_eq!(object.spec["nodeSelector"], json!({ "pool": "batch" }));

    until(
        &fixture.workflows(),
        &west.cluster,
        "it says why it waits",
        |workflow| conditions(workflow).contains("TransformInvalid: "),
    )
    .await?;
    fixture.round_trip("sentinel", west).await?;
    assert!(west.workflows().get_opt(&west.cluster).await?.is_none());
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("overrides.json");
    std::fs::write(
        &file,
        serde_json::to_vec(&fixture.workflows().get(&west.cluster).await?)?,
    )?;
    let file = file.to_str().context("a path")?;
    let rendered = async |cluster: &str| {
        let arguments = ["render", "-f", file, "--cluster", cluster];
        argosy(fixture.env.control.kubeconfig(), &arguments).await
    };
    let shown = rendered(&east.cluster).await?;
    assert!(
        shown.code == Some(0) && shown.output.contains("image: eu.example/"),
        "{shown:?}"
    );
    let shown = rendered(&west.cluster).await?;
    assert!(
        shown.code == Some(1)
            && shown
                .errors
                .contains("is not sent: CustomTransform mirror: spec.set[0]"),
        "{shown:?}"
    );
    label(&fixture, &west.cluster, "us").await?;
    let object = until(&west.workflows(), &west.cluster, "it was sent", |_| true).await?;
    assert_eq!(image(&object), format!("us.example/{original}"));
    Ok(())
}
