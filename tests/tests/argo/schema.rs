//! Every path of Argo's schema to a reference is searched, and no path to data of the user is.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use argosy_core::model::dependencies::Dependencies;
use serde_json::{Value, json};

use super::walk::{REPOSITORY, Reference, SPEC, Schema, Shape, is_account, is_made_by_the_run, short};

/// Types and fields that sound as if they named an object, and do not name one that a Workflow
/// needs, with the reason.
const NO_REFERENCES: [(&str, &str); 11] = [
    ("CephFSVolumeSource.secretFile", "a path on the node"),
    ("EphemeralVolumeSource.volumeClaimTemplate", "made by the run"),
    ("ImageVolumeSource.reference", "an image"),
    ("PreferredSchedulingTerm.preference", "labels of nodes"),
    ("ResourceRequirements.claims", "entries of the same pod"),
    ("ResourceTemplate.setOwnerReference", "a switch"),
    ("Template.automountServiceAccountToken", "a switch"),
    (
        "VolumeProjection.serviceAccountToken",
        "a token of the pod's own account",
    ),
    ("WorkflowSpec.automountServiceAccountToken", "a switch"),
    ("WorkflowSpec.volumeClaimGC", "a strategy"),
    ("WorkflowSpec.volumeClaimTemplates", "made by the run"),
];

/// One value for each path of the schema.
struct Paths<'a> {
    schema: &'a Schema,
    /// The types from the root to here, so that a type is not inside itself.
    open: Vec<&'a str>,
    /// Values that name the object `found`, by path.
    naming: BTreeMap<String, Value>,
    /// Values that contain data of the user or templates of new objects, by path.
    baited: BTreeMap<String, Value>,
}

impl<'a> Paths<'a> {
    fn of(schema: &'a Schema, root: &'a str) -> Self {
        let mut paths = Self {
            schema,
            open: Vec::new(),
            naming: BTreeMap::new(),
            baited: BTreeMap::new(),
        };
        paths.open(root, String::new(), &|value| value);
        paths
    }

    fn open(&mut self, of: &'a str, path: String, wrap: &dyn Fn(Value) -> Value) {
        if let Some(reference) = Reference::of(of) {
            self.naming.insert(path, wrap(reference.example("found")));
            return;
        }
        if is_made_by_the_run(of) {
            self.baited.insert(path, wrap(bait()));
            return;
        }
        if self.open.contains(&of) {
            return;
        }
        self.open.push(of);
        for (name, schema) in self.schema.fields(of) {
            let path = format!("{path}.{name}");
            let inside = |value| wrap(json!({ name: value }));
            if is_account(name) {
                self.naming.insert(path.clone(), inside(json!("found")));
            }
            self.field(schema, path, &inside);
        }
        self.open.pop();
    }

    fn field(&mut self, schema: &'a Value, path: String, wrap: &dyn Fn(Value) -> Value) {
        match self.schema.shape(schema) {
            Shape::Type(of) => self.open(of, path, wrap),
            Shape::List(items) => self.field(items, path + "[]", &|value| wrap(json!([value]))),
            Shape::Map(values) => match self.schema.shape(values) {
                // The user may choose a key that is the name of a field.
                Shape::Type(_) => {
                    for key in ["any", "labels", "secretRef", "podSpecPatch"] {
                        self.field(values, format!("{path}.<{key}>"), &|value| {
                            wrap(json!({ key: value }))
                        });
                    }
                }
                _ => drop(self.baited.insert(path, wrap(bait()))),
            },
            Shape::Data => drop(self.baited.insert(path, wrap(bait()))),
            Shape::Text | Shape::Other => {}
        }
    }
}

/// Data that looks like references.
fn bait() -> Value {
    json!({
        "artifactRepositoryRef": { "configMap": "bait" },
        "claimName": "bait",
        "configMap": { "name": "bait" },
        "configMapKeyRef": { "name": "bait" },
        "imagePullSecrets": [{ "name": "bait" }],
        "manifest": "bait",
        "podSpecPatch": "bait",
        "secretKeyRef": { "name": "bait" },
        "secretName": "bait",
        "serviceAccountName": "bait",
        "templateRef": { "name": "bait" },
    })
}

fn found(value: &Value) -> (BTreeSet<String>, BTreeSet<String>) {
    let found = Dependencies::of_template(value, "team");
    (
        found.named.keys().map(ToString::to_string).collect(),
        found.unknown,
    )
}

#[test]
fn every_path_of_the_schema_to_a_reference_is_searched() -> Result<()> {
    let schema = Schema::read()?;
    for (root, least) in [(SPEC, 600), (REPOSITORY, 10)] {
        let paths = Paths::of(&schema, root);
        assert!(
            paths.naming.len() > least,
            "{} paths of {root}",
            paths.naming.len()
        );
        for (path, value) in &paths.naming {
            let wanted = schema.references(root, value);
            assert_eq!(wanted.len(), 1, "{path}");
            assert_eq!(found(value), (wanted, BTreeSet::new()), "{path}");
        }
    }
    Ok(())
}

#[test]
fn no_path_of_the_schema_to_data_of_the_user_is_searched() -> Result<()> {
    let schema = Schema::read()?;
    let paths = Paths::of(&schema, SPEC);
    for part in ["plugin", "withItems", "labels", "cache", "volumeClaimTemplates"] {
        let is_there = paths.baited.keys().any(|path| path.contains(part));
        assert!(is_there, "{part} is not among {} paths", paths.baited.len());
    }
    let searched = paths
        .baited
        .iter()
        .filter(|(_, value)| found(value) != Default::default());
    let searched: Vec<&String> = searched.map(|(path, _)| path).collect();
    assert_eq!(searched, [""; 0]);
    Ok(())
}

#[test]
fn every_type_and_field_of_the_schema_that_sounds_like_a_reference_is_known() -> Result<()> {
    let schema = Schema::read()?;
    let mut seen = BTreeSet::new();
    let mut open = vec![SPEC, REPOSITORY];
    let mut strange = BTreeSet::new();
    while let Some(of) = open.pop() {
        if Reference::of(of).is_some() || is_made_by_the_run(of) || !seen.insert(of) {
            continue;
        }
        for (name, field) in schema.fields(of) {
            let mut shape = schema.shape(field);
            while let Shape::List(inner) | Shape::Map(inner) = shape {
                shape = schema.shape(inner);
            }
            let target = if let Shape::Type(target) = shape {
                target
            } else {
                ""
            };
            let is_known = Reference::of(target).is_some() || is_account(name);
            if !is_known && sounds_like_a_reference(&format!("{name} {}", short(target))) {
                strange.insert(format!("{}.{name}", short(of)));
            }
            open.extend((!target.is_empty()).then_some(target));
        }
    }
    let excluded = NO_REFERENCES.map(|(place, _)| place.to_owned());
    assert_eq!(strange, excluded.into());
    Ok(())
}

fn sounds_like_a_reference(text: &str) -> bool {
    let text = text.to_lowercase();
    let parts = ["secret", "configmap", "serviceaccount", "claim", "reference"];
    parts.iter().any(|part| text.contains(part))
}
