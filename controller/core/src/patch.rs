//! JSON patches (RFC 6902) as data, each guarded by the version of the object that it was decided on.

use serde_json::{Value, json};

/// The path of an annotation (RFC 6901).
pub(crate) fn annotation_path(annotation: &str) -> String {
    format!(
        "/metadata/annotations/{}",
        annotation.replace('~', "~0").replace('/', "~1")
    )
}

/// Operations of a JSON patch, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPatch(Vec<Value>);

impl JsonPatch {
    /// A patch of exactly this version of exactly this object. Writing both fields makes the API server answer 409
    /// Conflict when either differs; a `test` would make it answer 422, which also means a broken patch.
    pub fn guarded(uid: &str, resource_version: &str) -> Self {
        Self(vec![
            json!({ "op": "replace", "path": "/metadata/uid", "value": uid }),
            json!({ "op": "replace", "path": "/metadata/resourceVersion", "value": resource_version }),
        ])
    }

    /// Sets `path` to `value`, whatever was there. The parent must exist.
    #[must_use]
    pub fn set(mut self, path: &str, value: impl Into<Value>) -> Self {
        self.0
            .push(json!({ "op": "add", "path": path, "value": value.into() }));
        self
    }

    /// Removes `path`, which must exist.
    #[must_use]
    pub fn remove(mut self, path: &str) -> Self {
        self.0.push(json!({ "op": "remove", "path": path }));
        self
    }

    /// The patch on the wire.
    pub fn to_value(&self) -> Value {
        Value::Array(self.0.clone())
    }

    /// The value that the patch sets `path` to, if it does.
    pub fn value_at(&self, path: &str) -> Option<&Value> {
        self.0
            .iter()
            .rev()
            .find(|operation| operation.get("path").and_then(Value::as_str) == Some(path))?
            .get("value")
    }
}
