//! The kinds that can be parsed: the maximum nesting of each, and the object that replaces an
//! unreadable one.

use argosy_api::{
    AppliedManifestWork, AppliedManifestWorkSpec, Binding, BindingPolicy, BindingPolicySpec, BindingSpec,
    CombinedStatus, CustomTransform, CustomTransformSpec, ManagedCluster, ManagedClusterSpec, ManifestWork,
    ManifestWorkSpec, StatusCollector, StatusCollectorSpec, WorkStatus, Workflow,
    status_collector::DEFAULT_LIMIT,
};
use k8s_openapi::{
    api::{
        admissionregistration::v1::{
            MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
        },
        apps::v1::Deployment,
        certificates::v1::CertificateSigningRequest,
        coordination::v1::Lease,
        core::v1::{ConfigMap, Event, Namespace, Node, Pod, Secret},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Resource,
    core::{DynamicObject, ObjectMeta, PartialObjectMeta, PartialObjectMetaExt},
};
use serde::de::DeserializeOwned;

/// A kind that always has an object, even if nothing of it can be parsed.
pub trait Readable: Resource + DeserializeOwned {
    /// Maximum nesting of lists and maps. It is higher than that of sent objects, which are wrapped
    /// in others on their way.
    const LEVELS: usize = 110;

    /// Returns an object without content.
    fn empty() -> Self;

    /// The kind in messages.
    fn title(&self) -> String;
}

macro_rules! readable {
    ($($kind:ty: $empty:expr $(, $levels:literal)?;)*) => {
        $(impl Readable for $kind {
            $(const LEVELS: usize = $levels;)?

            fn empty() -> Self {
                $empty
            }

            fn title(&self) -> String {
                <$kind as Resource>::kind(&()).into_owned()
            }
        })*
    };
}

readable! {
    AppliedManifestWork: Self::new("", AppliedManifestWorkSpec::default());
    Binding: Self::new("", BindingSpec::default());
    BindingPolicy: Self::new("", BindingPolicySpec::default());
    CertificateSigningRequest: Self::default();
    // It may contain an object of another kind.
    CombinedStatus: Self::default(), 124;
    ConfigMap: Self::default();
    CustomResourceDefinition: Self::default();
    CustomTransform: Self::new("", CustomTransformSpec::default());
    Deployment: Self::default();
    Event: Self::default();
    Lease: Self::default();
    ManagedCluster: Self::new("", ManagedClusterSpec::default());
    // It contains another object four levels deep.
    ManifestWork: Self::new("", ManifestWorkSpec::default()), 118;
    MutatingWebhookConfiguration: Self::default();
    Namespace: Self::default();
    Node: Self::default();
    Pod: Self::default();
    Secret: Self::default();
    StatusCollector: Self::new("", StatusCollectorSpec {
        filter: None,
        group_by: Vec::new(),
        combined_fields: Vec::new(),
        select: Vec::new(),
        limit: DEFAULT_LIMIT,
    });
    ValidatingAdmissionPolicy: Self::default();
    ValidatingAdmissionPolicyBinding: Self::default();
    WorkStatus: Self::default();
    Workflow: Self::default();
}

impl Readable for DynamicObject {
    fn empty() -> Self {
        Self {
            types: None,
            metadata: ObjectMeta::default(),
            data: serde_json::Value::Null,
        }
    }

    fn title(&self) -> String {
        self.types
            .as_ref()
            .map(|types| types.kind.clone())
            .unwrap_or_default()
    }
}

impl<K: Resource> Readable for PartialObjectMeta<K> {
    fn empty() -> Self {
        ObjectMeta::default().into_response_partial()
    }

    fn title(&self) -> String {
        self.types
            .as_ref()
            .map(|types| types.kind.clone())
            .unwrap_or_default()
    }
}
