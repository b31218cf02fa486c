//! The part of a WorkflowTemplate that a Workflow uses with `templateRef`: one template, and those
//! that it uses in turn.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Value, json};

/// Maximum depth of the search for the names of other templates.
const DEEPEST: usize = 16;

/// Maximum number of templates that are used.
const MOST: usize = 256;

/// The `spec` of a template, reduced to those of its templates that have one of these names, and to
/// those that these use.
pub fn used(spec: &Value, names: &BTreeSet<Box<str>>) -> Value {
    let templates = spec.get("templates").and_then(Value::as_array);
    let pairs = templates.into_iter().flatten().filter_map(|template| {
        let name = template.get("name")?.as_str()?;
        Some((name, template))
    });
    let mut by_name: HashMap<&str, &Value> = pairs.collect();
    let mut open: Vec<&str> = names.iter().map(|name| &**name).collect();
    let mut parts = Vec::new();
    while let Some(name) = open.pop() {
        // Each is taken out, so it is visited once.
        if parts.len() < MOST
            && let Some(template) = by_name.remove(name)
        {
            collect_names(template, 0, &mut open);
            parts.push(template.clone());
        }
    }
    json!({ "templates": parts })
}

/// Collects the values of all fields `template`.
fn collect_names<'a>(value: &'a Value, depth: usize, found: &mut Vec<&'a str>) {
    if depth > DEEPEST {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                match value {
                    Value::String(name) if field == "template" => found.push(name),
                    _ => collect_names(value, depth + 1, found),
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                collect_names(item, depth + 1, found);
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
        let names = |name: &str| BTreeSet::from([name.into()]);
        let used = used(&spec, &names("main"));
        let found: Vec<&Value> = used["templates"]
            .as_array()
            .unwrap()
            .iter()
            .map(|t| &t["name"])
            .collect();
        assert_eq!(found, ["main", "inner"]);
        assert_eq!(used.as_object().unwrap().len(), 1);
        assert_eq!(super::used(&spec, &names("absent"))["templates"], json!([]));
        assert_eq!(super::used(&json!(null), &names("main"))["templates"], json!([]));
    }
}
