//! The ManifestWork of an object for a cluster: the object after the built-in rules, the
//! CustomTransforms and the templates.

use std::collections::BTreeMap;

use argosy_api::{
    ManifestWork, ManifestWorkSpec,
    manifest_work::{ManifestConfig, ManifestsTemplate, ResourceIdentifier, ServerSideApply, UpdateStrategy},
    names,
};
use serde_json::{Value, json};

use super::{ObjectIndex, ObjectView};
use crate::{
    ClusterName, OriginUid,
    hub::{
        properties::{expand, expand_secret},
        transforms::Target,
    },
};

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
        let wanted = object.wanted();
        let spec = ManifestWorkSpec {
            workload: ManifestsTemplate {
                manifests: vec![manifest],
            },
            manifest_configs: vec![ManifestConfig {
                resource_identifier: ResourceIdentifier {
                    group: kind.group.clone(),
                    resource: kind.resource.clone(),
                    namespace: object.namespace.to_string(),
                    name: object.name.to_string(),
                },
                update_strategy: Some(strategy(wanted.create_only)),
                ..ManifestConfig::default()
            }],
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
        if wanted.wants_status() {
            annotations.insert(names::WANT_STATUS_ANNOTATION.to_owned(), "true".to_owned());
        }
        metadata.annotations = Some(annotations);
        Some(Ok(work))
    }

    fn manifest(
        &self,
        origin: &OriginUid,
        object: &ObjectView,
        cluster: &ClusterName,
    ) -> Option<Result<Value, Vec<String>>> {
        let mut manifest = object.content.as_ref()?.value();
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
            return Some(Err(obstacles));
        }
        if object.is_templated
            && let Some(mut properties) = properties
        {
            let expanded = if object.kind.is_secret() {
                properties.extend(self.properties.secret(cluster, &object.namespace));
                expand_secret(&mut manifest, &properties)
            } else {
                expand(&mut manifest, group, &properties)
            };
            if let Err(errors) = expanded {
                return Some(Err(errors));
            }
        }
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
