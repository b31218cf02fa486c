//! The part of a WorkflowTemplate that a Workflow uses with `templateRef`: one template, and those
//! that it uses in turn.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// Maximum depth of the search for the names of other templates.
const DEEPEST: usize = 16;

/// The `spec` of a template, reduced to its template `name` and those that this one uses.
pub fn used(spec: &Value, name: &str) -> Value {
    let templates = spec.get("templates").and_then(Value::as_array);
    let named = |name: &str| {
        let mut templates = templates.into_iter().flatten();
        templates.find(|template| template.get("name").and_then(Value::as_str) == Some(name))
    };
    let mut known = BTreeSet::new();
    let mut open = vec![name];
    let mut parts = Vec::new();
    while let Some(name) = open.pop() {
        if known.insert(name)
            && let Some(template) = named(name)
        {
            names(template, 0, &mut open);
            parts.push(template.clone());
        }
    }
    json!({ "templates": parts })
}

/// Collects the values of all fields `template`.
fn names<'a>(value: &'a Value, depth: usize, found: &mut Vec<&'a str>) {
    if depth > DEEPEST {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                match value {
                    Value::String(name) if field == "template" => found.push(name),
                    _ => names(value, depth + 1, found),
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                names(item, depth + 1, found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_templates_that_are_reached_are_used() {
        let step = |template: &str| json!([[{ "name": "s", "template": template }]]);
        let spec = json!({
            "volumes": [{ "secret": { "secretName": "of-the-whole" } }],
            "templates": [
                { "name": "main", "steps": step("inner") },
                { "name": "inner", "dag": { "tasks": [{ "name": "t", "template": "main" }] } },
                { "name": "other", "serviceAccountName": "x" },
            ],
        });
        let used = used(&spec, "main");
        let names: Vec<&Value> = used["templates"]
            .as_array()
            .unwrap()
            .iter()
            .map(|t| &t["name"])
            .collect();
        assert_eq!(names, ["main", "inner"]);
        assert_eq!(used.as_object().unwrap().len(), 1);
        assert_eq!(super::used(&spec, "absent")["templates"], json!([]));
        assert_eq!(super::used(&json!(null), "main")["templates"], json!([]));
    }
}
