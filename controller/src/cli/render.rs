//! `argosy render`: prints the objects in files as they would be sent, after the CustomTransforms
//! in these files, and with templates expanded from the properties of a cluster. Needs no cluster.
//!
//! Not here: the placement of an object, and the marks of a claim.

mod cluster_properties;

use std::{collections::BTreeMap, path::PathBuf, process::ExitCode};

use argosy_api::{CustomTransform, names};
use argosy_core::hub::transforms::Transforms;
use argosy_transforms::template::{self, Dialect};
use clap::{Args, ValueEnum};
use kube::{
    ResourceExt,
    core::{ApiResource, GroupVersionKind},
};
use serde_json::Value;

use super::documents;

/// Arguments of `render`.
#[derive(Debug, Args)]
pub struct RenderArgs {
    /// File with objects and CustomTransforms, in YAML or JSON, with one or more documents; - for
    /// standard input. Can be repeated
    #[arg(short = 'f', long = "filename", required = true)]
    files: Vec<PathBuf>,
    /// File with CustomTransforms; its other objects are ignored. Can be repeated
    #[arg(short, long)]
    transforms: Vec<PathBuf>,
    /// File with the properties of a cluster, for the templates of annotated objects: a map of
    /// strings, a ManagedCluster, the ConfigMap of that name in customization-properties, or
    /// several of them; later ones win. Can be repeated
    #[arg(long)]
    cluster_properties: Vec<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// Output format.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Output {
    /// YAML documents
    #[default]
    Yaml,
    /// One JSON List
    Json,
}

/// The result.
#[derive(Debug, Default, PartialEq)]
struct Rendered {
    objects: Vec<Value>,
    warnings: Vec<String>,
    errors: Vec<String>,
}

/// Prints the objects, the warnings and the errors.
#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "standard output and standard error are what this command is for"
)]
pub(super) fn run(args: &RenderArgs) -> anyhow::Result<ExitCode> {
    let mut documents = read_all(&args.files)?;
    let transforms = read_all(&args.transforms)?.into_iter().flat_map(items);
    documents.extend(transforms.filter(is_transform));
    let mut rendered = Rendered::default();
    let properties = match args.cluster_properties.as_slice() {
        [] => None,
        files => Some(cluster_properties::collect(read_all(files)?, &mut rendered)),
    };
    render(documents, properties.as_ref(), &mut rendered);
    let Rendered {
        objects,
        warnings,
        errors,
    } = rendered;
    print!("{}", print_as(args.output, &objects)?);
    for warning in &warnings {
        eprintln!("warning: {warning}");
    }
    for error in &errors {
        eprintln!("error: {error}");
    }
    Ok(if errors.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn read_all(files: &[PathBuf]) -> anyhow::Result<Vec<Value>> {
    let mut documents = Vec::new();
    for file in files {
        documents.extend(documents::read(file)?);
    }
    Ok(documents)
}

fn print_as(output: Output, objects: &[Value]) -> anyhow::Result<String> {
    Ok(match output {
        Output::Yaml => {
            let documents: Result<Vec<String>, _> = objects.iter().map(serde_saphyr::to_string).collect();
            documents?.join("---\n")
        }
        Output::Json => {
            let list = serde_json::json!({ "apiVersion": "v1", "kind": "List", "items": objects });
            format!("{}\n", serde_json::to_string_pretty(&list)?)
        }
    })
}

/// Renders the objects of the documents, in their order, as for a cluster with these properties.
fn render(documents: Vec<Value>, properties: Option<&BTreeMap<String, String>>, rendered: &mut Rendered) {
    let mut transforms = Transforms::default();
    let mut objects = Vec::new();
    for document in documents.into_iter().flat_map(items) {
        match kind(&document) {
            Some("CustomTransform") => learn(&mut transforms, document, &mut rendered.errors),
            // A BindingPolicy only decides the placement and is not sent.
            Some("BindingPolicy") => {}
            _ => objects.push(document),
        }
    }
    for name in transforms.names() {
        let Some(status) = transforms.wanted_status(name) else {
            continue;
        };
        let says = |sentence: &String| format!("CustomTransform {name}: {sentence}");
        rendered.errors.extend(status.errors.iter().map(says));
        rendered.warnings.extend(status.warnings.iter().map(says));
    }
    for mut object in objects {
        let Some(kind) = kind_of(&object) else {
            rendered
                .errors
                .push("an object has no apiVersion or no kind".to_owned());
            continue;
        };
        // Must be read before the transforms remove the annotation.
        let has_templates = asks_for_templates(&object);
        let refused = transforms.apply_to(&kind.group, &kind.plural, &mut object);
        rendered.warnings.extend(refused);
        if has_templates {
            expand(&mut object, &kind, properties, rendered);
        }
        rendered.objects.push(object);
    }
}

/// Expands the templates of an object, or warns that there are no properties.
fn expand(
    object: &mut Value,
    kind: &ApiResource,
    properties: Option<&BTreeMap<String, String>>,
    rendered: &mut Rendered,
) {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let name = text("/metadata/name").unwrap_or("without a name");
    let subject = match text("/metadata/namespace") {
        Some(namespace) => format!("{} {namespace}/{name}", kind.kind),
        None => format!("{} {name}", kind.kind),
    };
    let Some(properties) = properties else {
        rendered.warnings.push(format!(
            "{subject} has templates, which are printed unchanged; expand them with --cluster-properties"
        ));
        return;
    };
    let errors = template::expand(object, properties, Dialect::of_group(&kind.group));
    let sentences = errors.iter().map(|error| format!("{subject} {error}"));
    rendered.errors.extend(sentences);
}

fn asks_for_templates(object: &Value) -> bool {
    let annotations = object.pointer("/metadata/annotations");
    let asked = annotations.and_then(|all| all.get(names::EXPAND_TEMPLATES_ANNOTATION));
    asked.and_then(Value::as_str) == Some("true")
}

fn kind(document: &Value) -> Option<&str> {
    document.get("kind").and_then(Value::as_str)
}

fn is_transform(document: &Value) -> bool {
    kind(document) == Some("CustomTransform")
}

/// Returns the objects of a List, or the document itself.
fn items(mut document: Value) -> Vec<Value> {
    let is_list = kind(&document) == Some("List");
    match document.get_mut("items") {
        Some(Value::Array(items)) if is_list => std::mem::take(items),
        _ => vec![document],
    }
}

fn learn(transforms: &mut Transforms, document: Value, errors: &mut Vec<String>) {
    match serde_json::from_value::<CustomTransform>(document) {
        Ok(transform) if transform.name_any().is_empty() => {
            errors.push("a CustomTransform has no name".to_owned());
        }
        Ok(transform) => drop(transforms.apply(transform)),
        Err(error) => errors.push(format!("a CustomTransform cannot be read: {error}")),
    }
}

/// Returns group and plural of an object. The plural is guessed as `kubectl` does without a
/// cluster.
fn kind_of(object: &Value) -> Option<ApiResource> {
    let text = |field: &str| {
        object
            .get(field)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    };
    let (group, version) = text("apiVersion")?
        .split_once('/')
        .unwrap_or(("", text("apiVersion")?));
    Some(ApiResource::from_gvk(&GroupVersionKind::gvk(
        group,
        version,
        text("kind")?,
    )))
}

#[cfg(test)]
mod tests;
