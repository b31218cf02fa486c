//! The parts of a status that contain artifact locations, and the shapes they must have so that
//! Argo reads them in the same way.

use serde_json::{Map, Value};

/// Removes values from artifact lists that are not artifacts, and fields with a similar name: in
/// packed nodes, Go matches field names regardless of case (`encoding/json`). Returns true if
/// anything was removed.
pub(super) fn shape_artifacts(status: &mut Value) -> bool {
    let mut has_changed = false;
    let mut shape = |lists: &mut Map<String, Value>| {
        has_changed |= drop_alike(lists, &["artifacts"]);
        match lists.get_mut("artifacts") {
            None | Some(Value::Null) => {}
            Some(Value::Array(artifacts)) => {
                let before = artifacts.len();
                artifacts.retain(Value::is_object);
                has_changed |= artifacts.len() != before;
            }
            Some(_) => {
                lists.remove("artifacts");
                has_changed = true;
            }
        }
    };
    let mut are_alike = false;
    if let Some(outputs) = status.get_mut("outputs").and_then(Value::as_object_mut) {
        shape(outputs);
    }
    for node in fields_of(status, "nodes") {
        let Some(node) = node.as_object_mut() else {
            continue;
        };
        are_alike |= drop_alike(node, &["inputs", "outputs"]);
        for side in ["inputs", "outputs"] {
            if let Some(lists) = node.get_mut(side).and_then(Value::as_object_mut) {
                shape(lists);
            }
        }
    }
    has_changed || are_alike
}

/// Removes fields whose names Go would take for one of `names`.
fn drop_alike(fields: &mut Map<String, Value>, names: &[&str]) -> bool {
    let before = fields.len();
    fields
        .retain(|name, _| names.contains(&name.as_str()) || !names.iter().any(|known| is_alike(name, known)));
    fields.len() != before
}

/// True if Go takes one name for the other: it ignores case, also for two characters outside ASCII
/// that fold to ASCII letters.
pub(crate) fn is_alike(name: &str, known: &str) -> bool {
    let fold = |sign: char| match sign {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    };
    name.chars().map(fold).eq(known.chars().map(fold))
}

/// Calls `each` with everything in a status that contains a location: the artifacts of its outputs
/// and nodes, and the archive locations of templates.
pub(super) fn each_holder(status: &mut Value, each: &mut impl FnMut(&mut Map<String, Value>)) {
    if let Some(outputs) = status.get_mut("outputs") {
        each_artifact(outputs, each);
    }
    for node in fields_of(status, "nodes") {
        for side in ["inputs", "outputs"] {
            if let Some(lists) = node.get_mut(side) {
                each_artifact(lists, each);
            }
        }
    }
    for template in fields_of(status, "storedTemplates") {
        each_archive(template, each);
    }
    if let Some(spec) = status.get_mut("storedWorkflowTemplateSpec") {
        if let Some(templates) = spec.get_mut("templates").and_then(Value::as_array_mut) {
            for template in templates {
                each_archive(template, each);
            }
        }
        if let Some(defaults) = spec.get_mut("templateDefaults") {
            each_archive(defaults, each);
        }
    }
}

fn each_artifact(lists: &mut Value, each: &mut impl FnMut(&mut Map<String, Value>)) {
    let artifacts = lists.get_mut("artifacts").and_then(Value::as_array_mut);
    for artifact in artifacts.into_iter().flatten() {
        if let Some(artifact) = artifact.as_object_mut() {
            each(artifact);
        }
    }
}

fn each_archive(template: &mut Value, each: &mut impl FnMut(&mut Map<String, Value>)) {
    let Some(template) = template.as_object_mut() else {
        return;
    };
    match template.get_mut("archiveLocation") {
        None => {}
        Some(Value::Object(location)) => each(location),
        Some(_) => drop(template.remove("archiveLocation")),
    }
}

fn fields_of<'a>(status: &'a mut Value, name: &str) -> impl Iterator<Item = &'a mut Value> {
    let fields = status.get_mut(name).and_then(Value::as_object_mut);
    fields.into_iter().flat_map(|fields| fields.values_mut())
}
