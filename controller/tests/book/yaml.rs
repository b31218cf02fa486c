//! Checks the YAML of the book: it parses, objects of our kinds match their definitions, Workflows
//! fit Argo's type, and values exist in their chart.
//!
//! A block marked `yaml values=CHART` holds values of a chart, one marked `yaml part` a piece of an
//! object.

use std::fs;

use argosy_api::{Workflow, crds};
use serde_json::Value;

use crate::{
    in_checkout, none,
    page::{Block, Page, pages},
};

/// The schema of one of our kinds.
fn schema(api_version: &str, kind: &str) -> Option<Value> {
    let all = [
        crds::kubestellar(),
        crds::open_cluster_management(),
        crds::agent(),
    ]
    .concat();
    let of = |group: &str, version: &str| format!("{group}/{version}") == api_version;
    let definition = all.into_iter().find(|known| known.spec.names.kind == kind)?;
    let version = definition
        .spec
        .versions
        .iter()
        .find(|version| of(&definition.spec.group, &version.name));
    let version = version.unwrap_or_else(|| panic!("{kind} is not of {api_version}"));
    let schema = version.schema.as_ref()?.open_api_v3_schema.as_ref()?;
    Some(serde_json::to_value(schema).expect("a schema is JSON"))
}

/// Adds everything that the schema does not allow: unknown fields, missing fields, wrong types,
/// wrong values.
fn faults(path: &str, value: &Value, schema: &Value, found: &mut Vec<String>) {
    let is = |field: &str| schema.get(field).and_then(Value::as_bool) == Some(true);
    if value.is_null() || is("x-kubernetes-int-or-string") {
        return;
    }
    let type_ = schema.get("type").and_then(Value::as_str).unwrap_or_default();
    let fits = match type_ {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64(),
        "number" => value.is_number(),
        _ => true,
    };
    if !fits {
        found.push(format!("{path}: {value} is no {type_}"));
        return;
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
        && !allowed.contains(value)
    {
        found.push(format!("{path}: {value} is none of {allowed:?}"));
    }
    for (place, item) in value.as_array().into_iter().flatten().enumerate() {
        let items = schema.get("items").unwrap_or(&Value::Null);
        faults(&format!("{path}[{place}]"), item, items, found);
    }
    let Some(fields) = value.as_object() else { return };
    let required = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    for name in required
        .filter_map(Value::as_str)
        .filter(|name| !fields.contains_key(*name))
    {
        found.push(format!("{path}.{name} is missing"));
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, field) in fields {
        let known = properties
            .and_then(|known| known.get(name))
            .or(schema.get("additionalProperties"));
        match known {
            Some(known) => faults(&format!("{path}.{name}"), field, known, found),
            None if is("x-kubernetes-preserve-unknown-fields") || type_.is_empty() => {}
            None => found.push(format!("{path}.{name} is not known")),
        }
    }
}

fn object_faults(object: &Value) -> Vec<String> {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (api_version, kind) = (text("/apiVersion"), text("/kind"));
    if api_version.is_empty() || kind.is_empty() {
        return vec!["it has no apiVersion or no kind; is it `yaml part` or `yaml values=CHART`?".to_owned()];
    }
    if kind == "Workflow" {
        let parsed = serde_json::from_value::<Workflow>(object.clone());
        return parsed.err().iter().map(ToString::to_string).collect();
    }
    let mut found = Vec::new();
    if let Some(schema) = schema(api_version, kind) {
        let mut rest = object.clone();
        if let Some(fields) = rest.as_object_mut() {
            for known in ["apiVersion", "kind", "metadata"] {
                fields.remove(known);
            }
        }
        faults(kind, &rest, &schema, &mut found);
    }
    found
}

/// Adds the keys that a chart does not define. An empty map in the chart accepts any key.
fn unknown_values(path: &str, written: &Value, known: &Value, found: &mut Vec<String>) {
    let (Some(written), Some(known)) = (written.as_object(), known.as_object()) else {
        return;
    };
    for (key, value) in written {
        match known.get(key) {
            Some(known) => unknown_values(&format!("{path}.{key}"), value, known, found),
            None if known.is_empty() => {}
            None => found.push(format!("{path}.{key} is not known")),
        }
    }
}

fn block_faults(block: &Block) -> Vec<String> {
    let documents: Vec<Value> = match serde_saphyr::from_multiple(&block.code) {
        Ok(documents) => documents,
        Err(error) => return vec![error.to_string()],
    };
    match block.info.strip_prefix("yaml").map(str::trim) {
        Some("") => documents.iter().flat_map(object_faults).collect(),
        Some("part") | None => Vec::new(),
        Some(info) => {
            let chart = info
                .strip_prefix("values=")
                .unwrap_or_else(|| panic!("{}: {info}", block.place));
            let values = fs::read_to_string(in_checkout(&format!("charts/{chart}/values.yaml")));
            let values =
                serde_saphyr::from_str(&values.expect("the chart is there")).expect("values are YAML");
            let mut found = Vec::new();
            for document in &documents {
                unknown_values(&format!("charts/{chart}"), document, &values, &mut found);
            }
            found
        }
    }
}

fn yaml(pages: &[Page]) -> impl Iterator<Item = Block> {
    let blocks = pages.iter().flat_map(Page::blocks);
    blocks.filter(|block| block.info.starts_with("yaml"))
}

#[test]
fn every_yaml_of_the_book_is_what_the_definitions_and_charts_allow() {
    let pages = pages();
    let found: Vec<String> = yaml(&pages)
        .flat_map(|block| {
            let faults = block_faults(&block).into_iter();
            faults
                .map(move |fault| format!("{}: {fault}", block.place))
                .collect::<Vec<_>>()
        })
        .collect();
    none(&found);
    assert!(yaml(&pages).count() > 10, "hardly any YAML was found");
}

#[test]
fn what_a_definition_does_not_allow_is_found() {
    let bad = [
        "```yaml\napiVersion: control.kubestellar.io/v1alpha1\nkind: BindingPolicy\nspec: {clusterSelector: []}\n```\n",
        "```yaml\napiVersion: control.kubestellar.io/v1alpha1\nkind: BindingPolicy\nspec: {downsync: [{createOnly: 1}]}\n```\n",
        "```yaml\napiVersion: control.kubestellar.io/v1alpha1\nkind: CustomTransform\nspec: {apiGroup: a}\n```\n",
        "```yaml\na: [\n```\n",
        "```yaml\nmetadata: {}\n```\n",
        "```yaml values=argosy\nwebhook: {enable: true}\n```\n",
    ];
    for text in bad {
        let faults: Vec<String> = yaml(&[Page::of(text)])
            .flat_map(|block| block_faults(&block))
            .collect();
        assert!(!faults.is_empty(), "{text} was taken");
    }
}
