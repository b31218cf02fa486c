//! Evaluates a ManifestWork's feedback rules for the status of an object, as OCM does.
//!
//! Values are integers, strings and booleans. Any other value is an error, as with OCM's default
//! settings. Not here: the whole status, which Argosy's own ManifestWorks ask for (`report`).

use argosy_api::{
    conditions::{manifest_work as types, reason},
    manifest_status::{FeedbackValue, FieldValue},
    manifest_work::{FeedbackRule, StatusPath},
};
use serde_json::Value;

use super::{ids::GroupVersion, jsonpath::JsonPath};

/// The feedback values, and status, reason and message of the condition that is true if all values
/// could be read.
#[derive(Debug, PartialEq)]
pub(super) struct Feedback {
    pub(super) values: Vec<FeedbackValue>,
    pub(super) is_synced: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Feedback {
    /// Type of the condition.
    pub(super) const TYPE: &str = types::STATUS_FEEDBACK_SYNCED;

    /// The feedback that `rules` ask for about `object`, which was read in version `api`.
    pub(super) fn of(rules: &[FeedbackRule], object: &Value, api: &GroupVersion) -> Self {
        if rules.is_empty() {
            return Self {
                values: Vec::new(),
                is_synced: true,
                reason: reason::NO_FEEDBACK,
                message: String::new(),
            };
        }
        let (mut values, mut problems) = (Vec::new(), Vec::new());
        for rule in rules {
            for asked in asked(rule, object, api) {
                match asked.and_then(|path| value(&path, object, api)) {
                    Ok(Some(value)) => values.push(value),
                    Ok(None) => {}
                    Err(problem) => problems.push(problem),
                }
            }
        }
        let is_synced = problems.is_empty();
        Self {
            values,
            is_synced,
            reason: if is_synced {
                reason::FEEDBACK_SYNCED
            } else {
                reason::FEEDBACK_FAILED
            },
            message: problems.join("; "),
        }
    }
}

fn asked(rule: &FeedbackRule, object: &Value, api: &GroupVersion) -> Vec<Result<StatusPath, String>> {
    match rule.type_.as_str() {
        "JSONPaths" => rule.json_paths.iter().cloned().map(Ok).collect(),
        "WellKnownStatus" => {
            let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
            let paths = well_known(&api.to_string(), kind);
            if paths.is_empty() {
                return vec![Err(format!("there is no well-known status of {kind} in {api}"))];
            }
            paths
                .iter()
                .map(|(name, path)| {
                    Ok(StatusPath {
                        name: (*name).to_owned(),
                        path: (*path).to_owned(),
                        ..StatusPath::default()
                    })
                })
                .collect()
        }
        other => vec![Err(format!("unknown type {other:?} of a feedback rule"))],
    }
}

/// OCM's table of well-known statuses (`statusfeedback/rules`).
fn well_known(api: &str, kind: &str) -> &'static [(&'static str, &'static str)] {
    match (api, kind) {
        ("apps/v1", "Deployment") => &[
            ("ReadyReplicas", ".status.readyReplicas"),
            ("Replicas", ".status.replicas"),
            ("AvailableReplicas", ".status.availableReplicas"),
        ],
        ("apps/v1", "DaemonSet") => &[
            ("NumberReady", ".status.numberReady"),
            ("DesiredNumberScheduled", ".status.desiredNumberScheduled"),
            ("NumberAvailable", ".status.numberAvailable"),
        ],
        ("batch/v1", "Job") => &[
            (
                "JobComplete",
                r#".status.conditions[?(@.type=="Complete")].status"#,
            ),
            ("JobSucceeded", ".status.succeeded"),
        ],
        ("v1", "Pod") => &[
            ("PodReady", r#".status.conditions[?(@.type=="Ready")].status"#),
            ("PodPhase", ".status.phase"),
        ],
        _ => &[],
    }
}

/// The value at a path. `None` if there is no value yet.
fn value(asked: &StatusPath, object: &Value, api: &GroupVersion) -> Result<Option<FeedbackValue>, String> {
    let name = &asked.name;
    if !asked.version.is_empty() && asked.version != *api.version {
        return Err(format!(
            "{name} is requested for version {}, but the object has version {}",
            asked.version, api.version
        ));
    }
    let path = JsonPath::parse(&asked.path).map_err(|problem| format!("{name}: {problem}"))?;
    let found = path.find(object);
    let value = match found.as_slice() {
        [] | [Value::Null] => return Ok(None),
        [value] => *value,
        several => {
            let count = several.len();
            return Err(format!(
                "{name}: the path selects {count} values, but only one can be reported"
            ));
        }
    };
    let field_value = field_value(value)
        .ok_or_else(|| format!("{name}: only integers, strings and booleans can be reported"))?;
    Ok(Some(FeedbackValue {
        name: name.clone(),
        field_value,
    }))
}

fn field_value(value: &Value) -> Option<FieldValue> {
    let mut written = FieldValue::default();
    match value {
        Value::Number(number) => {
            "Integer".clone_into(&mut written.type_);
            written.integer = Some(number.as_i64()?);
        }
        Value::String(text) => {
            "String".clone_into(&mut written.type_);
            written.string = Some(text.clone());
        }
        Value::Bool(truth) => {
            "Boolean".clone_into(&mut written.type_);
            written.boolean = Some(*truth);
        }
        _ => return None,
    }
    Some(written)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn feedback(rules: Value, object: &Value) -> Feedback {
        let rules: Vec<FeedbackRule> = serde_json::from_value(rules).unwrap();
        let api = GroupVersion::parse(object["apiVersion"].as_str().unwrap());
        Feedback::of(&rules, object, &api)
    }

    fn values(feedback: &Feedback) -> Value {
        serde_json::to_value(&feedback.values).unwrap()
    }

    fn integer(name: &str, value: i64) -> Value {
        json!({ "name": name, "fieldValue": { "type": "Integer", "integer": value } })
    }

    fn text(name: &str, value: &str) -> Value {
        json!({ "name": name, "fieldValue": { "type": "String", "string": value } })
    }

    #[test]
    fn well_known_statuses_are_those_of_ocm() {
        let known = json!([{ "type": "WellKnownStatus" }]);
        for (object, written) in [
            (
                json!({ "apiVersion": "apps/v1", "kind": "Deployment", "status": { "replicas": 3, "readyReplicas": 1, "availableReplicas": 1 } }),
                json!([
                    integer("ReadyReplicas", 1),
                    integer("Replicas", 3),
                    integer("AvailableReplicas", 1)
                ]),
            ),
            (
                json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "status": { "numberReady": 1, "desiredNumberScheduled": 2 } }),
                json!([integer("NumberReady", 1), integer("DesiredNumberScheduled", 2)]),
            ),
            (
                json!({ "apiVersion": "batch/v1", "kind": "Job", "status": { "succeeded": 1, "conditions": [{ "type": "Complete", "status": "True" }] } }),
                json!([text("JobComplete", "True"), integer("JobSucceeded", 1)]),
            ),
            (
                json!({ "apiVersion": "v1", "kind": "Pod", "status": { "phase": "Running" } }),
                json!([text("PodPhase", "Running")]),
            ),
        ] {
            let feedback = feedback(known.clone(), &object);
            assert!(feedback.is_synced, "{feedback:?}");
            assert_eq!(values(&feedback), written);
        }
        let other = feedback(known, &json!({ "apiVersion": "v1", "kind": "ConfigMap" }));
        assert_eq!(other.reason, "StatusFeedbackSyncFailed");
    }

    #[test]
    fn paths_are_answered_with_integers_texts_and_truths_and_nothing_else() {
        let object = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "status": {
            "size": 3, "name": "x", "ok": false, "ratio": 0.5, "parts": [1], "more": { "a": 1 }, "none": null,
        } });
        for (path, written) in [
            (".status.size", json!([integer("it", 3)])),
            (".status.name", json!([text("it", "x")])),
            (
                ".status.ok",
                json!([{ "name": "it", "fieldValue": { "type": "Boolean", "boolean": false } }]),
            ),
            (".status.none", json!([])),
            (".status.missing", json!([])),
        ] {
            let rules = json!([{ "type": "JSONPaths", "jsonPaths": [{ "name": "it", "path": path }] }]);
            let feedback = feedback(rules, &object);
            assert_eq!(feedback.reason, "StatusFeedbackSynced", "{path}");
            assert_eq!(values(&feedback), written, "{path}");
        }
        for path in [
            ".status.ratio",
            ".status.parts",
            ".status.more",
            ".status[",
            ".status.*",
        ] {
            let rules = json!([{ "type": "JSONPaths", "jsonPaths": [
                { "name": "it", "path": path }, { "name": "size", "path": ".status.size" },
            ] }]);
            let feedback = feedback(rules, &object);
            assert!(!feedback.is_synced, "{path}");
            assert_eq!(values(&feedback), json!([integer("size", 3)]), "{path}");
        }
    }

    #[test]
    fn a_path_for_another_version_is_not_answered() {
        let object = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "status": { "size": 3 } });
        let rules = json!([{ "type": "JSONPaths", "jsonPaths": [{ "name": "it", "version": "v2", "path": ".status.size" }] }]);
        let feedback = feedback(rules, &object);
        assert!(!feedback.is_synced && feedback.values.is_empty());
    }

    #[test]
    fn nothing_asked_is_nothing_told() {
        let feedback = Feedback::of(&[], &json!({}), &GroupVersion::parse("v1"));
        assert_eq!(
            (feedback.is_synced, feedback.reason),
            (true, "NoStatusFeedbackSynced")
        );
    }
}
