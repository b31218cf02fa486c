//! One review: parses the bytes that an API server posts, and builds the response.
//!
//! Anyone who reaches the port may post, so everything is weighed before it is parsed into a tree,
//! and only the needed parts are: of a Workflow its metadata, four fields of the specification, at its
//! creation also those that say what it asks for, and the status if it changes. The other fields of
//! the specification are only compared.

use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
};

use argosy_api::Workflow;
use argosy_core::{
    hub::admission::{Admission, Answer, Request},
    index::weight::weight,
    model::control::unpacked_weight,
};
use k8s_openapi::ByteString;
use kube::core::ObjectMeta;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

use super::schedule::{self, Resource};

/// Maximum weight of the trees of one review. The largest status that etcd accepts weighs some 25
/// MiB, and two that Argo has compressed weigh 100.
pub(super) const HEAVIEST: usize = 128 << 20;

/// The fields of a specification that are parsed.
const SPEC: [&str; 4] = ["suspend", "shutdown", "arguments", "archiveLogs"];

/// The fields that say what a Workflow asks for. They are parsed at its creation.
const DEMAND: [&str; 4] = ["entrypoint", "parallelism", "templates", "workflowTemplateRef"];

/// Maximum length in bytes of the fields that say what a Workflow asks for. Of a longer one that is not
/// known.
const LONGEST_DEMAND: usize = 256 << 10;

/// The needed fields of an AdmissionReview. Others are ignored, so that they cannot fail to parse.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Review<'a> {
    api_version: String,
    kind: String,
    #[serde(borrow)]
    request: Asked<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked<'a> {
    uid: String,
    /// The resource for which the webhook is registered.
    resource: Option<Resource>,
    #[serde(default)]
    namespace: String,
    /// Empty if the API server has not generated the name yet.
    #[serde(default)]
    name: String,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    old_object: Option<&'a RawValue>,
}

/// The needed parts of a Workflow, as text.
struct Texts<'a> {
    metadata: Option<&'a str>,
    /// `None` if it is no object.
    spec: Option<[Option<&'a str>; SPEC.len()]>,
    /// Empty unless it is created.
    demand: [Option<&'a str>; DEMAND.len()],
    /// The whole specification.
    whole_spec: Option<&'a str>,
    status: Option<&'a str>,
}

/// Both Workflows of a review. A status that is equal in both is dropped from both.
struct Pair<'a> {
    new: Texts<'a>,
    old: Option<Texts<'a>>,
    /// True if the specifications differ in a field that is not parsed.
    is_edited: bool,
}

/// The response: the request is always allowed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Reviewed {
    api_version: String,
    kind: String,
    response: Response,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    uid: String,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<ByteString>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

impl<'a> Review<'a> {
    /// Parses the review in `body`; an error explains why it is invalid.
    pub(super) fn read(body: &'a [u8]) -> Result<Self, String> {
        serde_json::from_slice(body).map_err(|error| format!("this is not an AdmissionReview: {error}"))
    }

    /// Maximum bytes of memory that [`Review::answer`] takes. A review beyond [`HEAVIEST`] is not
    /// parsed, and takes none.
    pub(super) fn weight(&self) -> usize {
        if let Some(object) = self.schedule() {
            return Some(schedule::weight_of(object))
                .filter(|weight| *weight <= HEAVIEST)
                .unwrap_or_default();
        }
        let pair = self.pair().ok().flatten();
        pair.map(|pair| pair.weight())
            .filter(|weight| *weight <= HEAVIEST)
            .unwrap_or_default()
    }

    /// Builds the response.
    ///
    /// A Workflow that cannot be parsed is allowed: refusing it is up to the API server and the
    /// admission policies, and other errors in it do not concern Argosy.
    pub(super) fn answer(self, admission: &Admission) -> Result<Vec<u8>, String> {
        if let Some(object) = self.schedule() {
            let Asked { namespace, name, .. } = &self.request;
            let is_light = schedule::weight_of(object) <= HEAVIEST;
            let schedule = is_light
                .then(|| schedule::read(object, namespace, name))
                .flatten();
            let answer = schedule.map(|schedule| admission.review_schedule(&schedule));
            return self.respond(answer.unwrap_or_default());
        }
        let answer = match self.workflows() {
            Ok(None) => Answer::default(),
            Ok(Some((new, old, is_edited))) => admission.review(&Request {
                namespace: self.request.namespace.clone(),
                name: self.request.name.clone(),
                old,
                new,
                is_edited,
            }),
            Err(error) => {
                let Asked { namespace, name, .. } = &self.request;
                tracing::warn!(
                    kind = "Workflow",
                    namespace,
                    name,
                    error,
                    "a Workflow cannot be read; the webhook admits it unchanged"
                );
                let warning = format!("Argosy cannot read this Workflow and leaves it unchanged: {error}");
                Answer {
                    warnings: vec![warning],
                    ..Answer::default()
                }
            }
        };
        self.respond(answer)
    }

    fn respond(self, answer: Answer) -> Result<Vec<u8>, String> {
        let reviewed = Reviewed {
            api_version: self.api_version,
            kind: self.kind,
            response: response(self.request.uid, answer),
        };
        serde_json::to_vec(&reviewed).map_err(|error| error.to_string())
    }

    /// The CronWorkflow, if the review is about one.
    fn schedule(&self) -> Option<&'a RawValue> {
        let resource = self.request.resource.as_ref()?;
        self.request.object.filter(|_| resource.is_schedule())
    }

    /// Returns the new and the old Workflow, and true if the unparsed fields of their
    /// specifications differ.
    fn workflows(&self) -> Result<Option<(Workflow, Option<Workflow>, bool)>, String> {
        let Some(pair) = self.pair().map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        let weight = pair.weight();
        if weight > HEAVIEST {
            return Err(format!(
                "it may take {weight} bytes of memory; the limit is {HEAVIEST}"
            ));
        }
        let read = || {
            let old = pair.old.as_ref().map(Texts::workflow).transpose()?;
            serde_json::Result::Ok(Some((pair.new.workflow()?, old, pair.is_edited)))
        };
        read().map_err(|error| error.to_string())
    }

    fn pair(&self) -> serde_json::Result<Option<Pair<'a>>> {
        let Some(new) = self.request.object else {
            return Ok(None);
        };
        let mut new = Texts::of(new)?;
        let mut old = self.request.old_object.map(Texts::of).transpose()?;
        if let Some(old) = &mut old
            && old.status == new.status
        {
            (old.status, new.status) = (None, None);
        }
        if old.is_none() {
            new.demand = new.demand()?;
        }
        let is_edited = old
            .as_ref()
            .is_some_and(|old| old.whole_spec != new.whole_spec && old.unread() != new.unread());
        Ok(Some(Pair { new, old, is_edited }))
    }
}

impl Pair<'_> {
    fn weight(&self) -> usize {
        [Some(&self.new), self.old.as_ref()]
            .into_iter()
            .flatten()
            .map(Texts::weight)
            .fold(0, usize::saturating_add)
    }
}

impl<'a> Texts<'a> {
    fn of(object: &'a RawValue) -> serde_json::Result<Self> {
        let [metadata, spec, status] = fields(object.get(), ["metadata", "spec", "status"])?;
        let known = |text: Option<&'a str>| text.filter(|text| *text != "null");
        let spec = spec.filter(|text| text.starts_with('{'));
        Ok(Self {
            metadata: known(metadata),
            spec: spec.map(|text| fields(text, SPEC)).transpose()?,
            demand: [None; DEMAND.len()],
            whole_spec: spec,
            status: known(status),
        })
    }

    /// The fields that say what it asks for; empty if they are too long.
    fn demand(&self) -> serde_json::Result<[Option<&'a str>; DEMAND.len()]> {
        let found = self.whole_spec.map(|spec| fields(spec, DEMAND)).transpose()?;
        let length = |texts: &[Option<&str>]| texts.iter().flatten().map(|text| text.len()).sum::<usize>();
        let short = found.filter(|texts| length(texts) <= LONGEST_DEMAND);
        Ok(short.unwrap_or_default())
    }

    /// A digest of the fields of the specification that are not parsed. An API server writes fields
    /// in the order of their names, so equal fields have equal digests; only a warning depends on
    /// it.
    fn unread(&self) -> Option<u64> {
        let spec = self.whole_spec?;
        Unread
            .deserialize(&mut serde_json::Deserializer::from_str(spec))
            .ok()
    }

    fn weight(&self) -> usize {
        let texts = [self.metadata, self.status].into_iter();
        let texts = texts.chain(self.spec.into_iter().flatten());
        let texts = texts.chain(self.demand).flatten();
        let status = self.status.filter(|text| text.starts_with('{'));
        let packed = status.and_then(|text| fields(text, ["compressedNodes"]).ok());
        let packed = packed.and_then(|[packed]| packed).map_or(0, unpacked_weight);
        texts.map(weight).fold(packed, usize::saturating_add)
    }

    fn workflow(&self) -> serde_json::Result<Workflow> {
        let metadata = self
            .metadata
            .map(serde_json::from_str::<ObjectMeta>)
            .transpose()?;
        let status = self.status.map(serde_json::from_str).transpose()?;
        let read = |(name, text): (&str, Option<&str>)| {
            text.map(|text| serde_json::from_str::<Value>(text).map(|value| (name.to_owned(), value)))
        };
        let spec = self.spec.map(|texts| {
            // One that cannot be read says nothing. The Workflow must be held all the same.
            let demand = DEMAND.into_iter().zip(self.demand).filter_map(read);
            let fields = SPEC.into_iter().zip(texts).filter_map(read);
            fields
                .chain(demand.flatten().map(Ok))
                .collect::<serde_json::Result<_>>()
                .map(Value::Object)
        });
        Ok(Workflow {
            metadata: metadata.unwrap_or_default(),
            spec: spec.transpose()?.unwrap_or_default(),
            status,
            ..Workflow::default()
        })
    }
}

/// Returns the texts of some fields of an object, and skips the others.
fn fields<'a, const N: usize>(
    object: &'a str,
    names: [&'static str; N],
) -> serde_json::Result<[Option<&'a str>; N]> {
    Fields(names).deserialize(&mut serde_json::Deserializer::from_str(object))
}

struct Fields<const N: usize>([&'static str; N]);

impl<'de, const N: usize> DeserializeSeed<'de> for Fields<N> {
    type Value = [Option<&'de str>; N];

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, const N: usize> Visitor<'de> for Fields<N> {
    type Value = [Option<&'de str>; N];

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut texts = [None; N];
        while let Some(name) = map.next_key::<String>()? {
            let place = self.0.iter().position(|wanted| *wanted == name);
            match place.and_then(|place| texts.get_mut(place)) {
                Some(text) => *text = Some(map.next_value::<&RawValue>()?.get()),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(texts)
    }
}

/// Folds the fields of a specification that are not parsed into a digest.
struct Unread;

impl<'de> DeserializeSeed<'de> for Unread {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u64, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Unread {
    type Value = u64;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<u64, A::Error> {
        let mut hasher = DefaultHasher::new();
        while let Some(name) = map.next_key::<String>()? {
            let text = map.next_value::<&RawValue>()?.get();
            if !SPEC.contains(&name.as_str()) {
                (name, text).hash(&mut hasher);
            }
        }
        Ok(hasher.finish())
    }
}

fn response(uid: String, answer: Answer) -> Response {
    let Answer { patch, warnings } = answer;
    // Values can always be serialized.
    let patch = Some(patch)
        .filter(|patch| !patch.is_empty())
        .and_then(|patch| serde_json::to_vec(&patch).ok());
    Response {
        uid,
        allowed: true,
        patch_type: patch.is_some().then_some("JSONPatch"),
        patch: patch.map(ByteString),
        warnings,
    }
}

#[cfg(test)]
mod tests;
