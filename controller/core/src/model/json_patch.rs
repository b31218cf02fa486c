//! JSON patches (RFC 6902) as data. Each is guarded by the version of the object that the decision
//! was based on.

use serde::Serialize;
use serde_json::{Value, json};

use crate::index::weight::of_tree;

/// The path of an annotation (RFC 6901).
pub(crate) fn annotation_path(annotation: &str) -> String {
    format!(
        "/metadata/annotations/{}",
        annotation.replace('~', "~0").replace('/', "~1")
    )
}

/// Operations of a JSON patch, in order.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct JsonPatch(Vec<Value>);

impl JsonPatch {
    /// A patch of exactly this version of exactly this object. Because the patch writes both
    /// fields, the API server answers 409 Conflict if either differs. It would answer a failed
    /// `test` with 422, which also means an invalid patch.
    pub fn guarded(uid: &str, resource_version: &str) -> Self {
        Self(vec![
            json!({ "op": "replace", "path": "/metadata/uid", "value": uid }),
            json!({ "op": "replace", "path": "/metadata/resourceVersion", "value": resource_version }),
        ])
    }

    /// Sets `path` to `value`, replacing any existing value. The parent must exist.
    #[must_use]
    pub fn set(mut self, path: &str, value: impl Into<Value>) -> Self {
        // The macro `json` would copy the value, which may be a status of a thousand nodes.
        let fields = [
            ("op", json!("add")),
            ("path", json!(path)),
            ("value", value.into()),
        ];
        let operation = fields.map(|(name, value)| (name.to_owned(), value));
        self.0.push(Value::Object(operation.into_iter().collect()));
        self
    }

    /// Removes `path`, which must exist.
    #[must_use]
    pub fn remove(mut self, path: &str) -> Self {
        self.0.push(json!({ "op": "remove", "path": path }));
        self
    }

    /// The patch as it is sent.
    pub fn to_value(&self) -> Value {
        Value::Array(self.0.clone())
    }

    /// Maximum number of bytes of memory that the patch takes.
    pub(crate) fn weight(&self) -> usize {
        self.0.iter().map(of_tree).sum()
    }

    /// The value to which the patch sets `path`, if it does.
    pub fn value_at(&self, path: &str) -> Option<&Value> {
        self.0
            .iter()
            .rev()
            .find(|operation| operation.get("path").and_then(Value::as_str) == Some(path))?
            .get("value")
    }
}
