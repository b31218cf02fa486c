//! Artifact locations, and the part of them that may be shown for a run if only its cluster reports
//! them.
//!
//! argo-server opens an artifact at the location in its node (`server/artifacts`). A bare key is
//! looked up in the repository of the Workflow or of the step's template. Any other location is
//! opened as it is, with Secrets of the Workflow's namespace. So a reported location is shown only
//! if it is a bare key, or if the control cluster has named the same place: in the Workflow, in a
//! template, or in Argo's configuration. A place is a location without the key of the object.
//!
//! Not here: the sources of the names (`hub/workflows/artifacts`), and packed nodes (`packed`).

mod holders;
mod packed;
mod place;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

pub(crate) use holders::is_alike;
use holders::{each_holder, shape_artifacts};
pub(crate) use packed::Packing;
use place::{Place, is_kind, place};

/// Text fields of an artifact that are not part of its location.
const TEXTS: [&str; 6] = ["name", "path", "from", "fromExpression", "globalName", "subPath"];

/// Boolean fields of an artifact that are not part of its location.
const TRUTHS: [&str; 4] = ["archiveLogs", "deleted", "optional", "recurseMode"];

/// The ConfigMap in which Argo looks up the repository of a namespace.
const REPOSITORIES: &str = "artifact-repositories";

/// Limit on the places of one status that can be named. Runs have a handful.
const MOST: usize = 64;

/// Limit on the places that one Workflow or template names.
const MOST_NAMED: usize = 256;

/// Places that were named on the control cluster, each as the SHA-256 of its description without
/// keys. Digests are used because whoever names a place chooses the length of the description.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Named(BTreeSet<[u8; 32]>);

/// The locations in a status that are shown only if the control cluster has named them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Elsewhere {
    /// Number of artifacts at each place that can be named; 0 for a ConfigMap with repositories.
    pub(crate) places: BTreeMap<Box<str>, u32>,
    /// Number of artifacts at places that nobody can have named. Their locations are already
    /// removed.
    pub(crate) nameless: u32,
    /// The same for packed nodes, if they have such places.
    pub(crate) packing: Option<Packing>,
}

impl Named {
    /// Adds the places that the specification of a Workflow or template names. A place with a
    /// parameter that Argo substitutes names nothing, because the cluster would report the
    /// substituted value.
    pub(crate) fn learn(&mut self, spec: &Value) {
        match spec {
            Value::Array(items) => items.iter().for_each(|item| self.learn(item)),
            Value::Object(fields) => {
                for (name, field) in fields {
                    match (name.as_str(), field) {
                        ("artifacts", Value::Array(artifacts)) => {
                            for artifact in artifacts {
                                self.on_location(artifact);
                            }
                        }
                        ("archiveLocation" | "artifactPaths", _) => self.on_location(field),
                        ("artifactRepositoryRef", _) => {
                            if let Some(name) = field.get("configMap").and_then(Value::as_str) {
                                self.add(&config_map(name));
                            }
                        }
                        _ => self.learn(field),
                    }
                }
            }
            _ => {}
        }
    }

    /// Adds the place of an artifact or of a repository.
    pub(crate) fn on_location(&mut self, location: &Value) {
        for (kind, value) in location.as_object().into_iter().flatten() {
            if let Place::At(place) = place(kind, value)
                && !place.contains("{{")
            {
                self.add(&place);
            }
        }
    }

    fn add(&mut self, place: &str) {
        if self.0.len() < MOST_NAMED && place.len() <= place::LONGEST {
            self.0.insert(digest(place));
        }
    }

    /// Number of places.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Keeps at most `most` places.
    pub(crate) fn keep(&mut self, most: usize) {
        while self.0.len() > most {
            self.0.pop_last();
        }
    }

    /// Adds the places of `other`.
    pub(crate) fn extend(&mut self, other: &Self) {
        self.0.extend(&other.0);
    }

    /// True if the place is named.
    pub(crate) fn has(&self, place: &str) -> bool {
        self.0.contains(&digest(place))
    }
}

impl Elsewhere {
    /// True if it has no location that would have to be named.
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty() && self.nameless == 0 && self.packing.is_none()
    }

    /// All places, including those of packed nodes.
    pub(crate) fn places(&self) -> impl Iterator<Item = &str> {
        let packed = self.packing.iter().flat_map(|packing| &packing.places);
        self.places.keys().chain(packed).map(AsRef::as_ref)
    }

    /// The number of artifacts that are shown without a location. For packed nodes it is all or
    /// none.
    pub(crate) fn withheld(&self, named: &Named) -> u32 {
        let places = self.places.iter().filter(|(place, _)| !named.has(place));
        let packed = self
            .packing
            .as_ref()
            .filter(|packing| !packing.are_named(named))
            .map_or(0, |packing| packing.artifacts);
        places
            .map(|(_, artifacts)| artifacts)
            .fold(self.nameless.saturating_add(packed), |sum, artifacts| {
                sum.saturating_add(*artifacts)
            })
    }

    /// Bytes of memory.
    pub(crate) fn size(&self) -> usize {
        let places: usize = self.places.keys().map(|place| place.len()).sum();
        places + self.packing.as_ref().map_or(0, Packing::size)
    }

    fn add(&mut self, place: String) -> bool {
        let known = self.places.len();
        match self.places.get_mut(place.as_str()) {
            Some(artifacts) => *artifacts = artifacts.saturating_add(1),
            None if known == MOST => return false,
            None => {
                self.places.insert(place.into(), 1);
            }
        }
        true
    }
}

/// Removes from a status the locations that nobody can have named. Returns the remaining places,
/// and true if anything was removed.
pub(crate) fn sanitize(status: &mut Value) -> (Elsewhere, bool) {
    let mut sanitizer = Sanitizer::default();
    sanitizer.visit(status);
    let repository = status
        .get("artifactRepositoryRef")
        .and_then(|known| known.get("configMap"));
    if let Some(name) = repository.and_then(Value::as_str)
        && name != REPOSITORIES
        && name.len() <= 253
    {
        sanitizer.elsewhere.places.insert(config_map(name).into(), 0);
    }
    let Sanitizer {
        mut elsewhere,
        has_changed,
    } = sanitizer;
    let has_repacked = packed::sanitize(status, &mut elsewhere);
    (elsewhere, has_changed || has_repacked)
}

/// Removes from a status that [`sanitize`] has processed the locations that nobody has named.
pub(crate) fn restrict(status: &mut Value, elsewhere: &Elsewhere, named: &Named) {
    each_holder(status, &mut |holder| {
        holder.retain(|kind, value| match place(kind, value) {
            Place::At(place) => named.has(&place),
            Place::Ours | Place::Nowhere => true,
        });
    });
    if let Some(packing) = elsewhere
        .packing
        .as_ref()
        .filter(|packing| packing.are_named(named))
    {
        packing.unfold(status);
    }
}

/// The repository that is shown for a run: the reported one if the control cluster has named it,
/// otherwise `own`, that of the control cluster. A reported repository is never just dropped,
/// because argo-server ignores its own configuration only if the reference says so (`default`).
pub(crate) fn repository(shown: &Value, namespace: [&str; 2], named: &Named, own: Option<&Value>) -> Value {
    let field = |name: &str| shown.get(name).and_then(Value::as_str).unwrap_or_default();
    let map = field("configMap");
    let is_ours = namespace.contains(&field("namespace")) && !field("namespace").is_empty();
    let is_named = map == REPOSITORIES || named.has(&config_map(map));
    if !map.is_empty() && is_ours && is_named {
        let fields = ["configMap", "key", "namespace"].into_iter();
        let fields = fields.filter_map(|name| {
            Some((
                name.to_owned(),
                shown.get(name).filter(|field| field.is_string())?.clone(),
            ))
        });
        let mut kept: Map<String, Value> = fields.collect();
        kept.extend(inline(shown, named).map(|inline| ("artifactRepository".to_owned(), inline.clone())));
        return Value::Object(kept);
    }
    let mut ours = json!({ "default": true });
    if let (Some(fields), Some(repository)) = (ours.as_object_mut(), inline(shown, named).or(own)) {
        fields.insert("artifactRepository".to_owned(), repository.clone());
    }
    ours
}

/// The repository inside a reference, if it is named.
fn inline<'a>(shown: &'a Value, named: &Named) -> Option<&'a Value> {
    let repository = shown.get("artifactRepository")?;
    let mut kinds = repository
        .as_object()?
        .iter()
        .filter(|(name, _)| *name != "archiveLogs");
    let is_named = |kind: &str, value: &Value| match place(kind, value) {
        Place::At(place) => named.has(&place),
        Place::Ours | Place::Nowhere => false,
    };
    match (kinds.next(), kinds.next()) {
        (Some((kind, value)), None) => is_named(kind, value).then_some(repository),
        _ => None,
    }
}

fn digest(place: &str) -> [u8; 32] {
    Sha256::digest(place).into()
}

fn config_map(name: &str) -> String {
    format!("configmap {name}")
}

/// Removes locations from artifacts, and counts the artifacts at each place.
#[derive(Default)]
struct Sanitizer {
    elsewhere: Elsewhere,
    has_changed: bool,
}

impl Sanitizer {
    fn visit(&mut self, status: &mut Value) {
        let mut has_changed = shape_artifacts(status);
        each_holder(status, &mut |holder| has_changed |= self.sanitize(holder));
        self.has_changed |= has_changed;
    }

    /// Reduces an artifact, or the archive location of a template, to fields that Argo knows and to
    /// one location at most. With two, Argo would check one for completeness and open the other.
    /// Returns true if anything was removed.
    fn sanitize(&mut self, holder: &mut Map<String, Value>) -> bool {
        let (before, mut is_less) = (holder.len(), false);
        let places = holder
            .iter()
            .filter(|(name, value)| is_kind(name) && !value.is_null())
            .count();
        if let Some(gc) = holder.get_mut("artifactGC") {
            // The cluster decides which account collects artifacts, and with which Pod settings.
            let strategy = gc
                .get("strategy")
                .filter(|strategy| strategy.is_string())
                .cloned();
            let mended = strategy.map_or(Value::Null, |strategy| json!({ "strategy": strategy }));
            is_less |= *gc != mended;
            *gc = mended;
        }
        let mut is_lost = false;
        holder.retain(|name, value| {
            if is_kind(name) && !value.is_null() {
                let is_kept = places == 1
                    && match place(name, value) {
                        Place::Ours => true,
                        Place::At(place) => self.elsewhere.add(place),
                        Place::Nowhere => false,
                    };
                is_lost |= !is_kept;
                return is_kept;
            }
            let is_known = is_known(name, value);
            is_lost |= !is_known && !value.is_null();
            is_known
        });
        self.elsewhere.nameless = self.elsewhere.nameless.saturating_add(u32::from(is_lost));
        is_less || holder.len() != before
    }
}

/// True for a field of an artifact that is not part of its location.
fn is_known(name: &str, value: &Value) -> bool {
    (TEXTS.contains(&name) && value.is_string())
        || (TRUTHS.contains(&name) && value.is_boolean())
        || match name {
            "mode" => is_small(value),
            "archive" => value.as_object().is_some_and(is_archive),
            "artifactGC" => value.get("strategy").is_some(),
            _ => false,
        }
}

/// True if Go reads this as a 32-bit number.
fn is_small(value: &Value) -> bool {
    value.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
}

/// True for a valid archive strategy of an artifact, with its compression level.
fn is_archive(archive: &Map<String, Value>) -> bool {
    let is_way = |way: &Value| {
        let mut fields = way.as_object().into_iter().flat_map(Map::values);
        way.is_object() && fields.all(|level| level.is_null() || is_small(level))
    };
    archive.values().all(|way| way.is_null() || is_way(way))
}

#[cfg(test)]
mod tests;
