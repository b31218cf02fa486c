//! Objects that others write, each read by itself: what cannot be read of one is its own flaw, and neither fails the list that it is in
//! nor stops the watch.
//!
//! An API server checks types, but not all that it takes can be read here: the year 10000, a number that is too large, lists in lists in
//! lists, or anything, where a definition describes no fields. An object is taken as text, is measured, and only then read; where
//! that fails, its parts are read by themselves (`parts`). Not here: what follows from a part that is missing, which the
//! indexes say by the mark of `argosy_core::flaw`.

mod parts;
mod readable;

use std::{borrow::Cow, fmt::Debug};

use argosy_core::flaw;
use kube::{Resource, core::ObjectMeta};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::value::RawValue;

pub use readable::Readable;

/// An object, or as much of it as could be read, and what was wrong with it.
#[derive(Clone, Debug)]
pub struct Tolerant<K> {
    object: K,
    flaw: Option<String>,
}

/// What is read whatever somebody has written. Only that may be followed by a watch.
pub trait Unfailing: Resource + DeserializeOwned {}

impl<K: Readable> Unfailing for Tolerant<K> {}

impl<K: Readable> Tolerant<K> {
    /// The object, marked where it is not whole. Says in the log what is wrong with it.
    pub fn into_object(self) -> K {
        let Self { mut object, flaw } = self;
        if let Some(flaw) = &flaw {
            let metadata = object.meta();
            tracing::warn!(
                kind = %object.title(),
                namespace = metadata.namespace,
                name = metadata.name,
                error = flaw,
                "an object cannot be read, and is taken without what is wrong with it"
            );
        }
        flaw::mark(object.meta_mut(), flaw);
        object
    }

    /// What could not be read.
    pub fn flaw(&self) -> Option<&str> {
        self.flaw.as_deref()
    }
}

impl<'de, K: Readable> Deserialize<'de> for Tolerant<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // As text, so that what is well-formed is parsed once, and not by way of a tree.
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let flaw = match parts::excess(text.get(), K::LEVELS) {
            Some(excess) => excess,
            None => match serde_json::from_str(text.get()) {
                Ok(object) => return Ok(Self { object, flaw: None }),
                Err(error) => error.to_string(),
            },
        };
        let (object, dropped) = parts::read(text.get());
        // Times of managed fields decide nothing.
        let flaw = (!dropped.is_empty()).then(|| format!("{} cannot be read: {flaw}", dropped.join(", ")));
        Ok(Self { object, flaw })
    }
}

impl<K: Serialize> Serialize for Tolerant<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.object.serialize(serializer)
    }
}

impl<K> From<K> for Tolerant<K> {
    fn from(object: K) -> Self {
        Self { object, flaw: None }
    }
}

impl<K: Resource> Resource for Tolerant<K> {
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
