//! The applier's identifiers for kinds and objects of a cluster. Not here: the kinds that a cluster
//! serves (`rest_mapper`).

use std::{fmt, sync::Arc};

/// A group version, the unit of API discovery.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersion {
    /// Name of the group; empty for the core group.
    pub group: Arc<str>,
    /// Version, such as `v1`.
    pub version: Arc<str>,
}

impl GroupVersion {
    /// Parses an object's `apiVersion`.
    pub fn parse(api_version: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self {
            group: group.into(),
            version: version.into(),
        }
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.version)
        } else {
            write!(f, "{}/{}", self.group, self.version)
        }
    }
}

/// A kind in one version, named by its plural. Watches are per resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// Group and version of the kind.
    pub api: GroupVersion,
    /// Lower-case plural.
    pub plural: Arc<str>,
}

impl Resource {
    /// The kind `plural` of `api`.
    pub fn new(api: GroupVersion, plural: &str) -> Self {
        Self {
            api,
            plural: plural.into(),
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.api, self.plural)
    }
}

/// An object of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Kind of the object.
    pub resource: Resource,
    /// Empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Name of the object.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// The object `namespace/name` of a kind.
    pub fn new(resource: Resource, namespace: &str, name: &str) -> Self {
        Self {
            resource,
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.resource.plural)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}
