//! Parses the objects that others write one by one. An unreadable field of one object fails neither
//! its list nor the watch.
//!
//! An API server checks types, but it accepts values that cannot be parsed here: the year 10000, a
//! number that is too large, deeply nested lists, or anything at all if a definition describes no
//! fields. An object is received as text, measured, and only then parsed. If that fails, its parts
//! are parsed one by one (`parts`). Not here: the consequences of a missing part. The indexes
//! recognize it by the mark of `argosy_core::index::decode_error`.

mod parts;
mod readable;

use std::{borrow::Cow, fmt::Debug};

use argosy_core::index::decode_error;
use kube::{Resource, core::ObjectMeta};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::value::RawValue;

pub use readable::Readable;

/// An object as far as it could be parsed, and its error, if any.
#[derive(Clone, Debug)]
pub struct Lenient<K> {
    object: K,
    decode_error: Option<String>,
}

/// A type whose deserialization never fails. Only such types can be watched.
pub trait Unfailing: Resource + DeserializeOwned {}

impl<K: Readable> Unfailing for Lenient<K> {}

impl<K: Readable> Lenient<K> {
    /// Returns the object, marked if it is incomplete. Logs the error.
    pub fn into_object(self) -> K {
        let Self {
            mut object,
            decode_error,
        } = self;
        if let Some(decode_error) = &decode_error {
            let metadata = object.meta();
            tracing::warn!(
                kind = %object.title(),
                namespace = metadata.namespace,
                name = metadata.name,
                error = decode_error,
                "a part of an object cannot be read; Argosy uses the object without this part"
            );
        }
        decode_error::mark(object.meta_mut(), decode_error);
        object
    }

    /// The error.
    pub fn decode_error(&self) -> Option<&str> {
        self.decode_error.as_deref()
    }
}

impl<'de, K: Readable> Deserialize<'de> for Lenient<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The text is read first, so that a well-formed object is parsed once and without a tree of
        // values.
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let decode_error = match parts::excess(text.get(), K::LEVELS) {
            Some(excess) => excess,
            None => match serde_json::from_str(text.get()) {
                Ok(object) => {
                    return Ok(Self {
                        object,
                        decode_error: None,
                    });
                }
                Err(error) => error.to_string(),
            },
        };
        let (object, dropped) = parts::read(text.get());
        // No error is reported if only times of managed fields were dropped: they decide nothing.
        let decode_error =
            (!dropped.is_empty()).then(|| format!("{} cannot be read: {decode_error}", dropped.join(", ")));
        Ok(Self { object, decode_error })
    }
}

impl<K: Serialize> Serialize for Lenient<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.object.serialize(serializer)
    }
}

impl<K> From<K> for Lenient<K> {
    fn from(object: K) -> Self {
        Self {
            object,
            decode_error: None,
        }
    }
}

impl<K: Resource> Resource for Lenient<K> {
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
        self.object.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.object.meta_mut()
    }
}

#[cfg(test)]
mod tests;
