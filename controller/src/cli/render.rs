//! `argosy render`: what would be sent of the objects in files, after the CustomTransforms in them. Needs no cluster.
//!
//! Not here: where an object would go, and the marks that a claim adds.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use argosy_api::CustomTransform;
use argosy_core::transforms::Transforms;
use clap::{Args, ValueEnum};
use kube::{
    ResourceExt,
    core::{ApiResource, GroupVersionKind},
};
use serde_json::Value;

/// What to render.
#[derive(Debug, Args)]
pub struct RenderArgs {
    /// File with objects and CustomTransforms, YAML or JSON, any number of documents; - for standard input. Can be repeated
    #[arg(short = 'f', long = "filename", required = true)]
    files: Vec<PathBuf>,
    /// How the objects are printed
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// How objects are printed.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Output {
    /// Documents of YAML
    #[default]
    Yaml,
    /// One List as JSON
    Json,
}

/// What came of the input.
#[derive(Debug, Default, PartialEq)]
struct Rendered {
    objects: Vec<Value>,
    warnings: Vec<String>,
    errors: Vec<String>,
}

/// Prints the objects, and what is to be said about them.
#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "standard output and standard error are what this command is for"
)]
pub(super) fn run(args: &RenderArgs) -> anyhow::Result<ExitCode> {
    let mut documents = Vec::new();
    for file in &args.files {
        documents.extend(read(file)?);
    }
    let Rendered {
        objects,
        warnings,
        errors,
    } = render(documents);
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

fn read(file: &Path) -> anyhow::Result<Vec<Value>> {
    let is_stdin = file == Path::new("-");
    let name = if is_stdin {
        "standard input".to_owned()
    } else {
        file.display().to_string()
    };
    let text = if is_stdin {
        io::read_to_string(io::stdin())
    } else {
        fs::read_to_string(file)
    };
    let text = text.with_context(|| format!("cannot read {name}"))?;
    serde_saphyr::from_multiple(&text).with_context(|| format!("{name} is no YAML"))
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

/// The objects among the documents, in their order, as they would be sent.
fn render(documents: Vec<Value>) -> Rendered {
    let mut rendered = Rendered::default();
    let mut transforms = Transforms::default();
    let mut objects = Vec::new();
    for document in documents.into_iter().flat_map(items) {
        match document.get("kind").and_then(Value::as_str) {
            Some("CustomTransform") => learn(&mut transforms, document, &mut rendered.errors),
            // What decides where objects go is not sent.
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
        let refused = transforms.apply_to(&kind.group, &kind.plural, &mut object);
        rendered.warnings.extend(refused);
        rendered.objects.push(object);
    }
    rendered
}

/// The objects of a List, or the document itself.
fn items(mut document: Value) -> Vec<Value> {
    let is_list = document.get("kind").and_then(Value::as_str) == Some("List");
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

/// Group and plural of an object, which is guessed as `kubectl` would without a cluster.
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
mod tests {
    use serde_json::json;

    use super::*;

    fn transform(name: &str, resource: &str, remove: &[&str]) -> Value {
        json!({
            "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "CustomTransform", "metadata": { "name": name },
            "spec": { "apiGroup": "argoproj.io", "resource": resource, "remove": remove },
        })
    }

    fn workflow() -> Value {
        json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
            "metadata": { "name": "w", "uid": "u1", "labels": { "team": "a" } },
            "spec": { "suspend": true, "entrypoint": "main" }, "status": { "phase": "Running" },
        })
    }

    #[test]
    fn a_workflow_is_rendered_as_it_would_be_sent_whatever_the_order_of_the_documents() {
        let remove = transform("unlabel", "workflows", &["$.metadata.labels.team"]);
        let sent = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
            "metadata": { "name": "w", "labels": {} }, "spec": { "entrypoint": "main" },
        });
        for documents in [vec![remove.clone(), workflow()], vec![workflow(), remove]] {
            let rendered = render(documents);
            assert_eq!(rendered.objects, std::slice::from_ref(&sent));
            assert_eq!((rendered.warnings, rendered.errors), (Vec::new(), Vec::new()));
        }
    }

    #[test]
    fn other_kinds_keep_what_is_theirs_and_transforms_go_by_group_and_resource() {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s", "resourceVersion": "5" }, "data": { "a": "Yg==" },
        });
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": [secret, transform("t", "secrets", &["$.data"])] });
        let rendered = render(vec![list]);
        let kept = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" }, "data": { "a": "Yg==" } });
        assert_eq!(rendered.objects, [kept]);
    }

    #[test]
    fn what_cannot_be_used_is_said_and_the_rest_is_rendered() {
        let documents = vec![
            transform("bad", "workflows", &["spec.suspend", "$.spec.a", "$.spec.a"]),
            json!({ "metadata": { "name": "nothing" } }),
            workflow(),
        ];
        let rendered = render(documents);
        assert_eq!(rendered.objects.len(), 1);
        assert!(
            rendered.errors[0].starts_with("CustomTransform bad: "),
            "{rendered:?}"
        );
        assert!(
            rendered
                .errors
                .iter()
                .any(|error| error.contains("no apiVersion")),
            "{rendered:?}"
        );
        assert!(
            rendered
                .warnings
                .iter()
                .any(|warning| warning.contains("repeats")),
            "{rendered:?}"
        );
    }
}
