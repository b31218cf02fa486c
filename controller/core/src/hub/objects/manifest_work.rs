//! The ManifestWork of an object for a cluster: the object after the built-in rules, the
//! CustomTransforms and the templates.

use std::collections::BTreeMap;

use argosy_api::{
    ManifestWork, ManifestWorkSpec,
    manifest_work::{
        DeleteOption, ManifestConfig, ManifestsTemplate, ResourceIdentifier, ServerSideApply, UpdateStrategy,
    },
    names,
};
use serde_json::{Map, Value, json};

use super::{ObjectIndex, ObjectView, executor_binding, needs::is_namespaces};
use crate::{
    ClusterName, OriginUid,
    hub::{
        properties::{expand, expand_secret},
        transforms::Target,
    },
    policy::Modulation,
};

/// The prefix of the labels of a namespace that say which pods it admits (Pod Security Admission).
const POD_SECURITY: &str = "pod-security.kubernetes.io/";

impl ObjectIndex {
    /// The ManifestWork of an object for a cluster, or the errors of the transforms and templates
    /// that cannot be applied there. `None` if the object has not been read yet. The ManifestWork is created with
    /// OCM's finalizer, so that any agent, Argosy's or OCM's, deletes the object first.
    pub(super) fn manifest_work(
        &self,
        origin: &OriginUid,
        object: &ObjectView,
        cluster: &ClusterName,
    ) -> Option<Result<ManifestWork, Vec<String>>> {
        let manifest = match self.manifest(origin, object, cluster)? {
            Ok(manifest) => manifest,
            Err(errors) => return Some(Err(errors)),
        };
        let kind = &object.kind;
        let is_dependency = !self.is_selected_for(object, cluster);
        let wanted = if is_dependency {
            Modulation::default()
        } else {
            object.wanted()
        };
        let mut manifests = vec![(identifier(object), manifest)];
        if is_dependency || self.is_needed(object, cluster) {
            executor_binding::add(object, !is_dependency, &mut manifests);
        }
        let (identifiers, manifests): (Vec<_>, Vec<_>) = manifests.into_iter().unzip();
        let spec = ManifestWorkSpec {
            manifest_configs: identifiers
                .into_iter()
                .map(|resource_identifier| ManifestConfig {
                    resource_identifier,
                    update_strategy: Some(strategy(wanted.create_only)),
                    ..ManifestConfig::default()
                })
                .collect(),
            workload: ManifestsTemplate { manifests },
            // With a namespace, all objects in it would be deleted.
            delete_option: (is_dependency && is_namespaces(&kind.name())).then(|| DeleteOption {
                propagation_policy: "Orphan".to_owned(),
                ..DeleteOption::default()
            }),
            ..ManifestWorkSpec::default()
        };
        let mut work = ManifestWork::new(&names::work_name(origin.as_str()), spec);
        let metadata = &mut work.metadata;
        metadata.namespace = Some(cluster.to_string());
        metadata.finalizers = Some(vec![names::MANIFEST_WORK_FINALIZER.to_owned()]);
        metadata.labels = Some(BTreeMap::from([
            (names::OBJECT_UID_LABEL.to_owned(), origin.to_string()),
            (names::ORIGIN_WDS_LABEL.to_owned(), self.config.wds_name.clone()),
        ]));
        metadata.annotations = Some(self.work_annotations(object, wanted.wants_status(), is_dependency));
        Some(Ok(work))
    }

    /// The annotations of an object's ManifestWork.
    fn work_annotations(
        &self,
        object: &ObjectView,
        wants_status: bool,
        is_dependency: bool,
    ) -> BTreeMap<String, String> {
        let kind = &object.kind;
        let resource = format!("{}/{}/{}", kind.group, kind.version, kind.resource);
        let mut annotations = BTreeMap::from([
            (names::ORIGIN_RESOURCE_ANNOTATION.to_owned(), resource),
            (names::ORIGIN_NAME_ANNOTATION.to_owned(), object.name.to_string()),
        ]);
        if let Some(space) = self.namespaces.space() {
            annotations.insert(names::ORIGIN_SPACE_ANNOTATION.to_owned(), space.to_owned());
        }
        if kind.is_namespaced {
            annotations.insert(
                names::ORIGIN_NAMESPACE_ANNOTATION.to_owned(),
                object.namespace.to_string(),
            );
        }
        if wants_status {
            annotations.insert(names::WANT_STATUS_ANNOTATION.to_owned(), "true".to_owned());
        }
        if is_dependency {
            annotations.insert(names::DEPENDENCY_ANNOTATION.to_owned(), "true".to_owned());
        }
        annotations
    }

    fn manifest(
        &self,
        origin: &OriginUid,
        object: &ObjectView,
        cluster: &ClusterName,
    ) -> Option<Result<Value, Vec<String>>> {
        let mut manifest = object.content.as_ref()?.value();
        if is_namespaces(&object.kind.name()) && !self.is_selected_for(object, cluster) {
            manifest = bare_namespace(&manifest);
        }
        if object.kind.is_service_account()
            && !self.is_selected_for(object, cluster)
            && let Some(account) = manifest.as_object_mut()
        {
            // They name tokens of the control cluster.
            account.remove("secrets");
        }
        let mut manifest = match self.transformed(object, manifest, cluster) {
            Ok(manifest) => manifest,
            Err(errors) => return Some(Err(errors)),
        };
        if let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) {
            let labels = metadata.entry("labels").or_insert_with(|| json!({}));
            // A transform may have put any value here.
            if !labels.is_object() {
                *labels = json!({});
            }
            if let Some(labels) = labels.as_object_mut() {
                labels.insert(names::OBJECT_UID_LABEL.to_owned(), json!(origin.as_str()));
            }
        }
        Some(Ok(manifest))
    }

    /// True if a CustomTransform or a template may change the object.
    pub(super) fn is_transformed(&self, object: &ObjectView) -> bool {
        let kind = &object.kind;
        object.is_templated || self.transforms.are_bound_to(&kind.group, &kind.resource)
    }

    /// The manifest of an object after the CustomTransforms and the templates, or the errors of those
    /// that cannot be applied for the cluster.
    pub(super) fn transformed(
        &self,
        object: &ObjectView,
        mut manifest: Value,
        cluster: &ClusterName,
    ) -> Result<Value, Vec<String>> {
        let (group, resource) = (&object.kind.group, &object.kind.resource);
        let known = self.clusters.get(cluster);
        let are_read = object.is_templated || self.transforms.read_properties(group, resource);
        let properties = known
            .filter(|_| are_read)
            .map(|known| self.properties.of(cluster, known));
        let target = known.map(|known| Target {
            labels: &known.labels,
            properties: properties.as_ref(),
        });
        let effect = self
            .transforms
            .apply_to(group, resource, &mut manifest, target.as_ref());
        let obstacles = if object.kind.is_secret() {
            effect.obstacles_of_secret()
        } else {
            effect.obstacles()
        };
        if !obstacles.is_empty() {
            return Err(obstacles);
        }
        if object.is_templated
            && let Some(mut properties) = properties
        {
            if object.kind.is_secret() {
                properties.extend(self.properties.secret(cluster, &object.namespace));
                expand_secret(&mut manifest, &properties)?;
            } else {
                expand(&mut manifest, group, &properties)?;
            }
        }
        Ok(manifest)
    }
}

fn identifier(object: &ObjectView) -> ResourceIdentifier {
    ResourceIdentifier {
        group: object.kind.group.clone(),
        resource: object.kind.resource.clone(),
        namespace: object.namespace.to_string(),
        name: object.name.to_string(),
    }
}

/// A namespace as runs need it: with the labels that say which pods it admits.
fn bare_namespace(namespace: &Value) -> Value {
    let metadata = &namespace["metadata"];
    let labels = metadata["labels"].as_object().into_iter().flatten();
    let labels: Map<String, Value> = labels
        .filter(|(label, _)| label.starts_with(POD_SECURITY))
        .map(|(label, value)| (label.clone(), value.clone()))
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": { "name": metadata["name"], "labels": labels },
    })
}

fn strategy(create_only: bool) -> UpdateStrategy {
    if create_only {
        return UpdateStrategy {
            type_: "CreateOnly".to_owned(),
            server_side_apply: None,
        };
    }
    UpdateStrategy {
        type_: "ServerSideApply".to_owned(),
        server_side_apply: Some(ServerSideApply {
            force: true,
            field_manager: names::APPLIER.to_owned(),
            ignore_fields: Vec::new(),
        }),
    }
}
