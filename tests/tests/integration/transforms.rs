//! CustomTransforms on the way to a cluster. They affect every Workflow, so the tests use a
//! separate environment.

use anyhow::Result;
use argosy_api::{CustomTransform, CustomTransformSpec};
use argosy_tests::testenv::{
    Fixture, TestEnv,
    objects::{self, create},
    waiting::until,
};
use kube::{Api, ResourceExt};
use serde_json::json;

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
