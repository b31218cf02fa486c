//! The CustomResourceDefinitions generated from the types, for `argosy crds` and the charts.
//!
//! Here are only additions that the derive macro does not support: fields at the top level of a
//! WorkStatus and of a CombinedStatus.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use kube::{
    CustomResourceExt, Resource,
    core::schema::{OptionalEnum, StructuralSchemaRewriter},
};
use schemars::{JsonSchema, generate::SchemaSettings, transform::AddNullable};

use crate::{
    AppliedManifestWork, Binding, BindingPolicy, CustomTransform, ManagedCluster, ManifestWork,
    NamedStatusCombination, Reported, StatusCollector, combined_status::CombinedStatusOutline,
    work_status::WorkStatusOutline,
};

/// The CRDs of KubeStellar's group.
pub fn kubestellar() -> Vec<CustomResourceDefinition> {
    vec![
        BindingPolicy::crd(),
        Binding::crd(),
        CustomTransform::crd(),
        StatusCollector::crd(),
        combined_status(),
        work_status(),
    ]
}

/// The CRDs of Open Cluster Management that an ITS needs if OCM is not installed.
pub fn open_cluster_management() -> Vec<CustomResourceDefinition> {
    vec![ManagedCluster::crd(), ManifestWork::crd()]
}

/// The CRDs that a WEC needs.
pub fn agent() -> Vec<CustomResourceDefinition> {
    vec![AppliedManifestWork::crd()]
}

/// Adds `status` and `reported` beside `spec`. Both are atomic: they are always written as a whole,
/// and with one managed field each, `managedFields` does not grow with the number of nodes.
fn work_status() -> CustomResourceDefinition {
    let mut crd = WorkStatusOutline::crd();
    if let Some(schema) = schema_of(&mut crd) {
        let properties = schema.properties.get_or_insert_default();
        properties.insert("status".to_owned(), any_object());
        let mut reported = generated::<Reported>();
        if let Some(reported) = &mut reported {
            reported.x_kubernetes_map_type = Some("atomic".to_owned());
        }
        properties.extend(reported.map(|reported| ("reported".to_owned(), reported)));
    }
    crd
}

/// Replaces `spec` by `results`.
fn combined_status() -> CustomResourceDefinition {
    let mut crd = CombinedStatusOutline::crd();
    if let Some(schema) = schema_of(&mut crd) {
        schema.required = None;
        schema.title = Some(CombinedStatusOutline::kind(&()).into_owned());
        let properties = schema.properties.get_or_insert_default();
        properties.remove("spec");
        let results = generated::<Vec<NamedStatusCombination>>().map(|results| JSONSchemaProps {
            description: Some(
                "One for each StatusCollector that the policy names for the object.".to_owned(),
            ),
            ..results
        });
        properties.extend(results.map(|results| ("results".to_owned(), results)));
    }
    crd
}

/// The schema of a definition with one version.
fn schema_of(crd: &mut CustomResourceDefinition) -> Option<&mut JSONSchemaProps> {
    let version = crd.spec.versions.first_mut()?;
    version.schema.as_mut()?.open_api_v3_schema.as_mut()
}

fn any_object() -> JSONSchemaProps {
    JSONSchemaProps {
        description: Some("The object's status as it was when last seen.".to_owned()),
        type_: Some("object".to_owned()),
        x_kubernetes_preserve_unknown_fields: Some(true),
        x_kubernetes_map_type: Some("atomic".to_owned()),
        ..JSONSchemaProps::default()
    }
}

/// The schema of the output of commands that print `T`; optional fields are not required.
pub fn printed<T: JsonSchema>() -> Option<JSONSchemaProps> {
    structural::<T>(SchemaSettings::openapi3().for_serialize())
}

fn generated<T: JsonSchema>() -> Option<JSONSchemaProps> {
    structural::<T>(SchemaSettings::openapi3())
}

/// Uses the settings of kube's derive macro, because the schema must be structural (KEP-1185).
fn structural<T: JsonSchema>(settings: SchemaSettings) -> Option<JSONSchemaProps> {
    let generator = settings
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        })
        .with_transform(AddNullable::default())
        .with_transform(StructuralSchemaRewriter)
        .with_transform(OptionalEnum)
        .into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    if let Some(object) = schema.as_object_mut() {
        object.remove("title");
    }
    serde_json::from_value(schema).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_work_status_has_its_state_beside_its_spec() {
        let crd = work_status();
        let schema = crd.spec.versions[0]
            .schema
            .as_ref()
            .unwrap()
            .open_api_v3_schema
            .as_ref()
            .unwrap();
        let properties = schema.properties.as_ref().unwrap();
        assert_eq!(
            properties["status"].x_kubernetes_map_type.as_deref(),
            Some("atomic")
        );
        let reported = properties["reported"].properties.as_ref().unwrap();
        assert!(reported.contains_key("attempt") && reported.contains_key("outcome"));
        assert!(crd.spec.versions[0].subresources.is_none());
    }

    #[test]
    fn a_combined_status_has_its_results_in_the_place_of_a_spec() {
        let mut crd = combined_status();
        assert!(crd.spec.versions[0].subresources.is_none());
        let schema = schema_of(&mut crd).unwrap();
        assert_eq!(schema.required, None);
        let properties = schema.properties.as_ref().unwrap();
        assert!(!properties.contains_key("spec"));
        assert_eq!(properties["results"].type_.as_deref(), Some("array"));
        let written = serde_json::to_value(&properties["results"]).unwrap();
        let cell = &written["items"]["properties"]["rows"]["items"]["properties"]["columns"]["items"];
        let any = &cell["properties"]["object"]["x-kubernetes-preserve-unknown-fields"];
        assert_eq!(any, &serde_json::Value::Bool(true));
        assert_eq!(cell["properties"]["float"]["type"], "string");
    }

    #[test]
    fn every_definition_has_a_description_and_a_category_or_a_short_name() {
        for crd in kubestellar() {
            let name = crd.metadata.name.clone().unwrap();
            let schema = crd.spec.versions[0]
                .schema
                .as_ref()
                .unwrap()
                .open_api_v3_schema
                .as_ref()
                .unwrap();
            assert!(schema.description.is_some(), "{name} has no description");
            assert!(
                !crd.spec.names.short_names.unwrap_or_default().is_empty(),
                "{name} has no short name"
            );
            assert!(
                !crd.spec.names.categories.unwrap_or_default().is_empty(),
                "{name} has no category"
            );
        }
    }
}
