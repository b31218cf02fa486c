//! The ManifestWork of a Workflow: its content and its name.
//!
//! It is a function of the Workflow, its claim and the transforms. The object in it is created once
//! on the cluster and never updated, which OCM calls `CreateOnly`.

use std::collections::BTreeMap;

use argosy_api::{
    ManifestWork, ManifestWorkSpec,
    conditions::reason,
    manifest_work::{ManifestConfig, ManifestsTemplate, ResourceIdentifier, UpdateStrategy},
    names, workflow,
};
use serde_json::{Value, json};

use super::{Cluster, WorkflowIndex, view::WorkflowView};
use crate::{
    WorkflowKey,
    hub::{properties::expand, transforms::Target},
    model::claim::Claim,
};

impl WorkflowIndex {
    /// The ManifestWork of a claimed Workflow. It is created with the agent's finalizer, so its
    /// deletion waits until the agent confirms that nothing of it is left.
    ///
    /// With `is_withdrawal` it only asks the agent to promise that it will never create this
    /// attempt. It then contains only the name of the object and nothing that would run, because
    /// the claim that is given up may be one that no policy has allowed.
    pub(super) fn manifest_work(
        &self,
        key: &WorkflowKey,
        view: &WorkflowView,
        claim: &Claim,
        is_withdrawal: bool,
    ) -> ManifestWork {
        let mut manifest = if is_withdrawal {
            bare(key)
        } else {
            self.manifest(key, view, claim).object
        };
        mark(&mut manifest, view, claim);
        let spec = ManifestWorkSpec {
            workload: ManifestsTemplate {
                manifests: vec![manifest],
            },
            manifest_configs: vec![ManifestConfig {
                resource_identifier: ResourceIdentifier {
                    group: workflow::GROUP.to_owned(),
                    resource: workflow::PLURAL.to_owned(),
                    namespace: key.namespace.to_string(),
                    name: key.name.to_string(),
                },
                update_strategy: Some(UpdateStrategy {
                    type_: "CreateOnly".to_owned(),
                    ..UpdateStrategy::default()
                }),
                ..ManifestConfig::default()
            }],
            ..ManifestWorkSpec::default()
        };
        let mut work = ManifestWork::new(&names::work_name(view.uid.as_str()), spec);
        let metadata = &mut work.metadata;
        metadata.namespace = Some(claim.cluster.to_string());
        metadata.finalizers = Some(vec![names::AGENT_FINALIZER.to_owned()]);
        metadata.labels = Some(strings([
            (names::ORIGIN_UID_LABEL, view.uid.as_str()),
            (names::ORIGIN_WDS_LABEL, &self.config.wds_name),
        ]));
        metadata.annotations = Some(self.notes(key, view, claim, is_withdrawal));
        work
    }

    /// The annotations of the ManifestWork: facts about the attempt that the agent needs besides
    /// the object.
    fn notes(
        &self,
        key: &WorkflowKey,
        view: &WorkflowView,
        claim: &Claim,
        is_withdrawal: bool,
    ) -> BTreeMap<String, String> {
        let attempt = claim.attempt.to_string();
        let mut annotations = strings([
            (names::ORIGIN_NAMESPACE_ANNOTATION, &*key.namespace),
            (names::ORIGIN_NAME_ANNOTATION, &*key.name),
            (names::ATTEMPT_ANNOTATION, &attempt),
        ]);
        annotations.extend(
            self.control(view, claim)
                .to_annotation()
                .map(|control| (names::CONTROL_ANNOTATION.to_owned(), control)),
        );
        if let Some(after) = claim.lost_after {
            annotations.insert(
                names::LOST_AFTER_ANNOTATION.to_owned(),
                after.as_secs().to_string(),
            );
        }
        if self.has_started(view, claim) {
            annotations.insert(names::STARTED_ANNOTATION.to_owned(), "true".to_owned());
        }
        let cluster = self.clusters.get(&claim.cluster);
        if let Some(starter) = cluster.and_then(Cluster::starter) {
            annotations.insert(names::CLUSTER_ID_ANNOTATION.to_owned(), starter.to_owned());
        }
        let asked = self.table().asked(&view.placement, &claim.cluster);
        if !asked.is_empty() {
            annotations.insert(names::NEEDS_ANNOTATION.to_owned(), asked.to_string());
        }
        if is_withdrawal {
            annotations.insert(names::WITHDRAW_ANNOTATION.to_owned(), attempt);
        }
        annotations
    }

    /// The reason why a Workflow cannot be sent to its cluster, with a message: an error of a
    /// transform or a template.
    pub(super) fn unsendable(
        &self,
        key: &WorkflowKey,
        view: &WorkflowView,
        claim: &Claim,
    ) -> Option<(&'static str, String)> {
        let (group, resource) = (workflow::GROUP, workflow::PLURAL);
        if !view.is_templated && !self.transforms.may_fail(group, resource) {
            return None;
        }
        let (reason, errors) = self.manifest(key, view, claim).obstacle?;
        Some((reason, errors.join("; ")))
    }

    /// The object to create, and the errors of the transforms and templates.
    pub(super) fn manifest(&self, key: &WorkflowKey, view: &WorkflowView, claim: &Claim) -> Manifest {
        let metadata = json!({
            "name": &*key.name,
            "namespace": &*key.namespace,
            "labels": view.labels.to_map(),
            "annotations": view.annotations.to_map(),
        });
        let mut object = object(metadata, view.spec());
        let obstacle = self.transform(&mut object, view, claim).err();
        let initial = view.brings_to(&claim.cluster);
        if let Some(fields) = object.as_object_mut().filter(|_| !initial.is_empty()) {
            fields.insert("status".to_owned(), Value::Object(initial));
        }
        Manifest { object, obstacle }
    }

    /// Applies the transforms, then the templates.
    fn transform(&self, object: &mut Value, view: &WorkflowView, claim: &Claim) -> Result<(), Obstacle> {
        let (group, resource) = (workflow::GROUP, workflow::PLURAL);
        let cluster = self.clusters.get(&claim.cluster);
        let are_read = view.is_templated || self.transforms.read_properties(group, resource);
        let properties = self.properties.as_ref().zip(cluster).filter(|_| are_read);
        let properties = properties.map(|(properties, cluster)| properties.of(&claim.cluster, cluster));
        let target = cluster.map(|cluster| Target {
            labels: &cluster.labels,
            properties: properties.as_ref(),
        });
        let effect = self.transforms.apply_to(group, resource, object, target.as_ref());
        let obstacles = effect.obstacles();
        if !obstacles.is_empty() {
            return Err((reason::TRANSFORM_INVALID, obstacles));
        }
        if !view.is_templated {
            return Ok(());
        }
        if self.properties.is_none() {
            let unknown = "the properties of the clusters are not known yet".to_owned();
            return Err((reason::TEMPLATE_INVALID, vec![unknown]));
        }
        properties.map_or(Ok(()), |properties| {
            expand(object, group, &properties).map_err(|errors| (reason::TEMPLATE_INVALID, errors))
        })
    }
}

/// The object of a ManifestWork.
pub(super) struct Manifest {
    pub(super) object: Value,
    /// The reason why it must not be sent.
    obstacle: Option<Obstacle>,
}

/// Reason of a condition, and a sentence for each error.
type Obstacle = (&'static str, Vec<String>);

/// An object with this key and nothing else.
fn bare(key: &WorkflowKey) -> Value {
    object(
        json!({ "name": &*key.name, "namespace": &*key.namespace }),
        json!({}),
    )
}

fn object(metadata: Value, spec: Value) -> Value {
    let version = format!("{}/{}", workflow::GROUP, workflow::VERSION);
    let fields = [
        ("apiVersion", Value::String(version)),
        ("kind", Value::from(workflow::KIND)),
        ("metadata", metadata),
        ("spec", spec),
    ];
    Value::Object(
        fields
            .map(|(field, value)| (field.to_owned(), value))
            .into_iter()
            .collect(),
    )
}

/// Marks an object as an attempt of a Workflow.
fn mark(object: &mut Value, view: &WorkflowView, claim: &Claim) {
    let attempt = claim.attempt.to_string();
    let labels = [
        (names::CLUSTER_LABEL, claim.cluster.as_str()),
        (names::ORIGIN_UID_LABEL, view.uid.as_str()),
    ];
    add(object, "labels", &labels);
    add(object, "annotations", &[(names::ATTEMPT_ANNOTATION, &attempt)]);
}

fn strings<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

/// Adds to `metadata.labels` or `metadata.annotations`, even if a transform has removed or replaced
/// the field.
fn add(object: &mut Value, field: &str, pairs: &[(&str, &str)]) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let map = metadata.entry(field).or_insert_with(|| json!({}));
    if !map.is_object() {
        *map = json!({});
    }
    if let Some(map) = map.as_object_mut() {
        map.extend(pairs.iter().map(|(key, value)| ((*key).to_owned(), json!(value))));
    }
}
