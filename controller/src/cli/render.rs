//! `argosy render`: prints the objects in files as they would be sent, after CustomTransforms, and
//! with templates expanded from the properties of a cluster. Needs no cluster, unless it is asked
//! for one of the fleet.
//!
//! Not here: the placement of an object, and the marks of a claim.

mod cluster_properties;
mod fleet;

use std::{path::PathBuf, process::ExitCode};

use argosy_api::{CustomTransform, names};
use argosy_core::hub::transforms::{Target, Transforms};
use argosy_transforms::template::{self, Dialect};
use clap::{Args, ValueEnum};
use kube::{
    ResourceExt,
    core::{ApiResource, GroupVersionKind},
};
use serde_json::Value;

use super::{documents, spaces::Spaces};
use cluster_properties::Facts;

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
    /// Cluster of the fleet for which the objects are printed: its labels and properties are read
    /// from the ITS, and the CustomTransforms from the control cluster; those in files replace
    /// those of the same name
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    #[command(flatten)]
    spaces: Spaces,
    /// File with the properties of a cluster, for templates and for transforms that depend on the
    /// cluster: a map of strings, a ManagedCluster, the ConfigMap or the Secret of that name in
    /// customization-properties, or several of them; later ones win. Can be repeated
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
pub(super) async fn run(args: &RenderArgs) -> anyhow::Result<ExitCode> {
    let mut documents = read_all(&args.files)?;
    let transforms = read_all(&args.transforms)?.into_iter().flat_map(items);
    documents.extend(transforms.filter(is_transform));
    let mut rendered = Rendered::default();
    let mut of_cluster = Vec::new();
    if let Some(name) = &args.cluster {
        let fleet = fleet::read_fleet(&args.spaces, name).await?;
        // Those in files come later and replace them.
        documents.splice(0..0, fleet.transforms);
        of_cluster = fleet.cluster;
    }
    of_cluster.extend(read_all(&args.cluster_properties)?);
    let is_given = args.cluster.is_some() || !args.cluster_properties.is_empty();
    let facts = is_given.then(|| cluster_properties::collect(of_cluster, &mut rendered));
    render(documents, facts.as_ref(), &mut rendered);
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

/// Renders the objects of the documents, in their order, as for this cluster.
fn render(documents: Vec<Value>, cluster: Option<&Facts>, rendered: &mut Rendered) {
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
        transform(&mut object, &kind, &transforms, cluster, rendered);
        if has_templates {
            expand(&mut object, &kind, cluster, rendered);
        }
        rendered.objects.push(object);
    }
}

/// Applies the transforms to an object, and reports those that could not be applied.
fn transform(
    object: &mut Value,
    kind: &ApiResource,
    transforms: &Transforms,
    cluster: Option<&Facts>,
    rendered: &mut Rendered,
) {
    let target = cluster.map(|cluster| Target {
        labels: &cluster.labels,
        properties: Some(&cluster.properties),
    });
    let effect = transforms.apply_to(&kind.group, &kind.plural, object, target.as_ref());
    let subject = subject(object, kind);
    rendered.warnings.extend(effect.refused);
    let undecided = effect.undecided.iter().map(|name| {
        format!("CustomTransform {name} depends on the cluster and is not applied to {subject}; name one with --cluster or --cluster-properties")
    });
    rendered.warnings.extend(undecided);
    let errors = effect.errors.iter();
    let errors = errors.map(|error| format!("{subject} is not sent: {error}"));
    rendered.errors.extend(errors);
}

/// Expands the templates of an object, or warns that there are no properties.
fn expand(object: &mut Value, kind: &ApiResource, cluster: Option<&Facts>, rendered: &mut Rendered) {
    let subject = subject(object, kind);
    let Some(cluster) = cluster else {
        rendered.warnings.push(format!(
            "{subject} has templates, which are printed unchanged; expand them with --cluster or --cluster-properties"
        ));
        return;
    };
    let errors = if kind.group.is_empty() && kind.kind == "Secret" {
        let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str);
        let properties = cluster.for_secret(namespace.unwrap_or_default());
        template::expand_secret(object, &properties)
    } else {
        template::expand(object, &cluster.properties, Dialect::of_group(&kind.group))
    };
    let sentences = errors.iter().map(|error| format!("{subject} {error}"));
    rendered.errors.extend(sentences);
}

fn subject(object: &Value, kind: &ApiResource) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let name = text("/metadata/name").unwrap_or("without a name");
    match text("/metadata/namespace") {
        Some(namespace) => format!("{} {namespace}/{name}", kind.kind),
        None => format!("{} {name}", kind.kind),
    }
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
