//! The pages about CustomResourceDefinitions: every field with its type and description, read from
//! the schemas that the API server receives.

use argosy_api::crds;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use super::markdown::{code, head, prose, table};

/// Path and text of each page.
pub(crate) fn pages() -> [(&'static str, String); 3] {
    [
        (
            "docs/reference/policies.md",
            page(
                "Kinds of the control cluster",
                "The KubeStellar group: what users of the control cluster write (BindingPolicy, CustomTransform, StatusCollector), and \
                 what Argosy writes for them to read. `argosy crds` prints the definitions.",
                &crds::kubestellar(),
            ),
        ),
        (
            "docs/reference/inventory.md",
            page(
                "Kinds of the inventory",
                "Open Cluster Management's group, as far as Argosy reads and writes it. `argosy crds --ocm` prints the definitions, for \
                 an inventory that no hub of OCM has brought them to.",
                &crds::open_cluster_management(),
            ),
        ),
        (
            "docs/reference/records.md",
            page(
                "Kinds of an execution cluster",
                "The agent keeps these records on its cluster. `argosy crds --agent` prints the definition.",
                &crds::agent(),
            ),
        ),
    ]
}

fn page(title: &str, about: &str, definitions: &[CustomResourceDefinition]) -> String {
    let sections: String = definitions.iter().map(section).collect();
    format!("{}{sections}", head(title, about))
}

fn section(definition: &CustomResourceDefinition) -> String {
    let names = &definition.spec.names;
    let version = definition
        .spec
        .versions
        .first()
        .expect("a definition has a version");
    let schema = version
        .schema
        .as_ref()
        .and_then(|known| known.open_api_v3_schema.as_ref());
    let schema = serde_json::to_value(schema.expect("a version has a schema")).expect("a schema is JSON");
    let short: Vec<String> = names
        .short_names
        .iter()
        .flatten()
        .map(|name| code(name))
        .collect();
    let short = if short.is_empty() {
        String::new()
    } else {
        format!(", short {}", short.join(", "))
    };
    let mut rows = Vec::new();
    fields("", &schema, "required", &mut rows);
    format!(
        "\n## {}\n\n{}\n\n`{}/{}`, {}, plural `{}`{short}.\n{}",
        names.kind,
        prose(text(&schema, "description")),
        definition.spec.group,
        version.name,
        definition.spec.scope.to_lowercase(),
        names.plural,
        table(["field", "type", "what"], rows)
    )
}

/// Adds a row for each field below `path`, in the order of the schema. A required field is marked
/// with the word `must`.
pub(crate) fn fields(path: &str, schema: &Value, must: &str, rows: &mut Vec<[String; 3]>) {
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let properties = schema.get("properties").and_then(Value::as_object);
    // Each object of Kubernetes has these.
    let is_object = path.is_empty() && properties.is_some_and(|all| all.contains_key("apiVersion"));
    for (name, property) in properties.into_iter().flatten() {
        if is_object && ["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
            continue;
        }
        let here = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        let mut about = prose(text(property, "description"));
        if let Some(values) = property.get("enum").and_then(Value::as_array) {
            let values: Vec<String> = values.iter().filter_map(Value::as_str).map(code).collect();
            about = format!("{about} One of {}.", values.join(", "));
        }
        if let Some(default) = property.get("default") {
            about = format!("{about} Default: {}.", code(&default.to_string()));
        }
        let is_required = required.contains(&name.as_str());
        let type_ = type_of(property);
        rows.push([
            code(&here),
            if is_required {
                format!("{type_}, {must}")
            } else {
                type_
            },
            about.trim().to_owned(),
        ]);
        let (suffix, inner) = inner(property);
        fields(&format!("{here}{suffix}"), inner, must, rows);
    }
}

/// The suffix that a path needs to reach the elements of a field (`[]`, `.KEY`), and the schema of
/// these elements.
fn inner(schema: &Value) -> (String, &Value) {
    let deeper = [("[]", "items"), (".KEY", "additionalProperties")];
    let found = deeper
        .into_iter()
        .find_map(|(sign, field)| Some((sign, schema.get(field)?)));
    match found {
        Some((sign, below)) => {
            let (more, last) = inner(below);
            (format!("{sign}{more}"), last)
        }
        None => (String::new(), schema),
    }
}

fn type_of(schema: &Value) -> String {
    let is = |field: &str| schema.get(field).and_then(Value::as_bool) == Some(true);
    match text(schema, "type") {
        "array" => {
            let items = schema.get("items").map(type_of);
            format!("list of {}", items.as_deref().unwrap_or("anything"))
        }
        "object" => match schema.get("additionalProperties") {
            Some(values) => format!("map of {}", type_of(values)),
            None if is("x-kubernetes-preserve-unknown-fields") => "any object".to_owned(),
            None => "object".to_owned(),
        },
        "" if is("x-kubernetes-int-or-string") => "integer or string".to_owned(),
        "" => "anything".to_owned(),
        simple => match text(schema, "format") {
            "date-time" => "time".to_owned(),
            _ => simple.to_owned(),
        },
    }
}

fn text<'a>(schema: &'a Value, field: &str) -> &'a str {
    schema.get(field).and_then(Value::as_str).unwrap_or_default()
}
