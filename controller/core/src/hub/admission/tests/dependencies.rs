//! The warning about objects whose names are computed, so that nobody can send them before the run.

use super::*;

fn warnings(asked: Option<&str>, spec: &Value) -> Vec<String> {
    let one = json!([{ "matchLabels": { "name": "cluster1" } }]);
    let mut policy = policy(&one, &json!({ "objectSelectors": [{}] }));
    if let Some(asked) = asked {
        let annotations = policy.annotations_mut();
        annotations.insert(names::DEPENDENCIES_ANNOTATION.to_owned(), asked.to_owned());
    }
    let rules = Rules::compile(&policy, &mut Vec::new());
    let labels = [("name".to_owned(), "cluster1".to_owned())];
    let cluster = ("cluster1".into(), std::sync::Arc::new(labels.into()));
    let admission = Admission {
        table: Table::of(
            [("p".to_owned(), rules.into())].into_iter(),
            [cluster].into_iter(),
        ),
        ..Admission::default()
    };
    let mut workflow = workflow(&json!({}));
    workflow["spec"] = spec.clone();
    let request = Request {
        namespace: "argo".to_owned(),
        name: "w".to_owned(),
        old: None,
        new: serde_json::from_value(workflow).unwrap(),
        is_edited: false,
    };
    admission.review(&request).warnings
}

#[test]
fn a_user_is_warned_of_objects_that_are_not_sent_because_their_names_are_computed() {
    let named = |name: &str| json!({ "configMap": { "name": name } });
    let computed = "{{workflow.parameters.map}}";
    let spec = |names: &[&str]| {
        let volumes: Vec<Value> = names.iter().map(|name| named(name)).collect();
        json!({ "entrypoint": "main", "volumes": volumes })
    };
    let told = "argosy: ConfigMap {{workflow.parameters.map}} is not sent with the Workflow, because its name is \
                computed during the run";
    assert_eq!(warnings(Some("configmaps"), &spec(&[computed])), [told]);
    // Nobody would send it, or its name is known.
    for (asked, names) in [
        (None, [computed]),
        (Some("secrets"), [computed]),
        (Some("configmaps"), ["settings"]),
    ] {
        assert_eq!(warnings(asked, &spec(&names)), [""; 0], "{asked:?} {names:?}");
    }
    let many: Vec<String> = (0..20).map(|number| format!("{{{{x{number:02}}}}}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(warnings(Some("configmaps"), &spec(&many)).len(), 3);
}
