//! Objects that are reduced to a view while they are parsed: a page of whole objects, as trees of
//! JSON, would take ten times the memory of the views, and fragment the heap. Not here: the content
//! of a view.

use std::{borrow::Cow, fmt::Debug, marker::PhantomData};

use kube::{Resource, core::ObjectMeta};
use serde::{Deserialize, Deserializer};

use crate::runtime::lenient::{Lenient, Readable, Unfailing};

/// The view of an object of kind `K`, and the metadata that a watch needs: namespace, name, UID and
/// version.
#[derive(Clone, Debug)]
pub struct Projected<K, V> {
    metadata: ObjectMeta,
    view: V,
    of: PhantomData<fn() -> K>,
}

impl<K, V> Projected<K, V> {
    /// Returns the view.
    pub fn into_view(self) -> V {
        self.view
    }
}

impl<'de, K, V> Deserialize<'de> for Projected<K, V>
where
    K: Readable,
    V: From<K>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Lenient::<K>::deserialize(deserializer)?.into_object();
        let whole = object.meta();
        let metadata = ObjectMeta {
            namespace: whole.namespace.clone(),
            name: whole.name.clone(),
            uid: whole.uid.clone(),
            resource_version: whole.resource_version.clone(),
            ..ObjectMeta::default()
        };
        Ok(Self {
            metadata,
            view: object.into(),
            of: PhantomData,
        })
    }
}

impl<K: Readable, V: From<K>> Unfailing for Projected<K, V> {}

impl<K: Resource, V> Resource for Projected<K, V> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn metadata_api() -> bool {
        K::metadata_api()
    }

    fn kind(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(dynamic)
    }

    fn group(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::group(dynamic)
    }

    fn version(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::version(dynamic)
    }

    fn plural(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(dynamic)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::{ObjectList, PartialObjectMeta};
    use serde_json::json;

    use super::*;

    /// The number of keys.
    #[derive(Clone, Debug, PartialEq)]
    struct Keys(usize);

    impl From<ConfigMap> for Keys {
        fn from(object: ConfigMap) -> Self {
            Self(object.data.map_or(0, |data| data.len()))
        }
    }

    #[test]
    fn a_list_becomes_what_is_kept_and_can_still_be_followed() {
        let item = json!({
            "metadata": { "name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7", "labels": { "c": "d" } },
            "data": { "x": "1", "y": "2" },
        });
        let list = json!({ "apiVersion": "v1", "kind": "ConfigMapList", "metadata": {}, "items": [item] })
            .to_string();
        let list: ObjectList<Projected<ConfigMap, Keys>> = serde_json::from_str(&list).unwrap();
        let metadata = list.items[0].meta();
        assert_eq!(
            (metadata.uid.as_deref(), metadata.resource_version.as_deref()),
            (Some("u"), Some("7"))
        );
        assert_eq!(metadata.labels, None);
        assert_eq!(list.items[0].clone().into_view(), Keys(2));
    }

    #[test]
    fn an_api_is_asked_for_metadata_alone_where_the_kind_is_metadata_alone() {
        assert!(Projected::<PartialObjectMeta<ConfigMap>, Keys>::metadata_api());
        assert!(!Projected::<ConfigMap, Keys>::metadata_api());
    }
}
