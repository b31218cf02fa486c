//! One review: the bytes that an API server posts, and the bytes that it gets.
//!
//! Whoever reaches the port may post, so nothing becomes a tree before it was weighed, and only what a review looks at does: of a
//! Workflow its metadata, four fields of the specification, and the status where it is written anew.

use std::fmt;

use argosy_api::Workflow;
use argosy_core::{
    admission::{Admission, Answer, Request},
    control::unpacked_weight,
    weight::weight,
};
use k8s_openapi::ByteString;
use kube::core::ObjectMeta;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

/// What the trees of one review may weigh. The largest status that etcd takes weighs some 25 MiB, and two that Argo has packed take 100.
pub(super) const HEAVIEST: usize = 128 << 20;

/// What is looked at of a specification.
const SPEC: [&str; 4] = ["suspend", "shutdown", "arguments", "archiveLogs"];

/// What is read of an AdmissionReview, and nothing else, so that little can be wrong with it.
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
    #[serde(default)]
    namespace: String,
    /// Empty while the API server has yet to generate it.
    #[serde(default)]
    name: String,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    old_object: Option<&'a RawValue>,
}

/// What is looked at of a Workflow, as text.
struct Texts<'a> {
    metadata: Option<&'a str>,
    /// `None` where it is no object.
    spec: Option<[Option<&'a str>; SPEC.len()]>,
    status: Option<&'a str>,
}

/// Both Workflows of a review. A status that is the same in both is in neither.
struct Pair<'a> {
    new: Texts<'a>,
    old: Option<Texts<'a>>,
}

/// The answer as it is sent: the request is always allowed.
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
    /// The review in `body`; an error says why it is none.
    pub(super) fn read(body: &'a [u8]) -> Result<Self, String> {
        serde_json::from_slice(body).map_err(|error| format!("this is not an AdmissionReview: {error}"))
    }

    /// Bytes of memory that [`Review::answer`] takes at most; more than [`HEAVIEST`] is not looked at, and takes none.
    pub(super) fn weight(&self) -> usize {
        let pair = self.pair().ok().flatten();
        pair.map(|pair| pair.weight())
            .filter(|weight| *weight <= HEAVIEST)
            .unwrap_or_default()
    }

    /// The answer to it.
    ///
    /// A Workflow that cannot be read is let through: to refuse it is the business of the API server and of the admission policies,
    /// and whatever else is in it is none of ours.
    pub(super) fn answer(self, admission: &Admission) -> Result<Vec<u8>, String> {
        let answer = match self.workflows() {
            Ok(None) => Answer::default(),
            Ok(Some((new, old))) => admission.review(&Request {
                namespace: self.request.namespace,
                name: self.request.name,
                old,
                new,
            }),
            Err(error) => {
                let Asked { namespace, name, .. } = &self.request;
                tracing::warn!(
                    kind = "Workflow",
                    namespace,
                    name,
                    error,
                    "a Workflow cannot be read; it is let through as it is"
                );
                let warning = format!("Argosy cannot read this Workflow and leaves it as it is: {error}");
                Answer {
                    warnings: vec![warning],
                    ..Answer::default()
                }
            }
        };
        let reviewed = Reviewed {
            api_version: self.api_version,
            kind: self.kind,
            response: response(self.request.uid, answer),
        };
        serde_json::to_vec(&reviewed).map_err(|error| error.to_string())
    }

    /// The new Workflow and the old one.
    fn workflows(&self) -> Result<Option<(Workflow, Option<Workflow>)>, String> {
        let Some(pair) = self.pair().map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        let weight = pair.weight();
        if weight > HEAVIEST {
            return Err(format!(
                "it may take {weight} bytes of memory, and {HEAVIEST} is the most"
            ));
        }
        let read = || {
            let old = pair.old.as_ref().map(Texts::workflow).transpose()?;
            serde_json::Result::Ok(Some((pair.new.workflow()?, old)))
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
        Ok(Some(Pair { new, old }))
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
            status: known(status),
        })
    }

    fn weight(&self) -> usize {
        let texts = [self.metadata, self.status].into_iter();
        let texts = texts.chain(self.spec.into_iter().flatten()).flatten();
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
            let fields = SPEC.into_iter().zip(texts).filter_map(read);
            fields.collect::<serde_json::Result<_>>().map(Value::Object)
        });
        Ok(Workflow {
            metadata: metadata.unwrap_or_default(),
            spec: spec.transpose()?.unwrap_or_default(),
            status,
            ..Workflow::default()
        })
    }
}

/// The texts of some fields of an object; the others are passed over.
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

fn response(uid: String, answer: Answer) -> Response {
    let Answer { patch, warnings } = answer;
    // Values always become JSON.
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
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(body: &[u8]) -> Result<Vec<u8>, String> {
        Review::read(body)?.answer(&Admission::default())
    }

    fn asked(request: &Value) -> Result<Value, String> {
        let review =
            json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request });
        let answered = answer(review.to_string().as_bytes())?;
        Ok(serde_json::from_slice(&answered).unwrap())
    }

    #[test]
    fn what_no_policy_selects_is_allowed_without_a_patch() {
        let workflow = json!({ "metadata": { "generateName": "a-" }, "spec": {} });
        let answered =
            asked(&json!({ "uid": "u1", "operation": "CREATE", "oldObject": null, "object": workflow }));
        let wanted = json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": { "uid": "u1", "allowed": true },
        });
        assert_eq!(answered, Ok(wanted));
    }

    #[test]
    fn a_workflow_that_cannot_be_read_is_let_through_with_a_warning() {
        let odd = json!({ "metadata": { "labels": ["a"] }, "spec": {} });
        let answered = asked(&json!({ "uid": "u1", "object": odd })).unwrap();
        assert_eq!(answered["response"]["allowed"], true);
        let warning = answered["response"]["warnings"][0].as_str().unwrap();
        assert!(
            warning.starts_with("Argosy cannot read this Workflow"),
            "{warning}"
        );
    }

    #[test]
    fn what_is_no_review_gets_an_error_that_says_so() {
        for bad in [
            "",
            "[]",
            "{}",
            r#"{"apiVersion":"v1","kind":"AdmissionReview","request":{}}"#,
        ] {
            let error = answer(bad.as_bytes()).unwrap_err();
            assert!(error.starts_with("this is not an AdmissionReview"), "{error}");
        }
    }

    /// A review of this, read.
    fn read(old: Option<&Value>, new: &Value) -> Result<(Workflow, Option<Workflow>), String> {
        let request = json!({ "uid": "u1", "object": new, "oldObject": old });
        let review = json!({ "apiVersion": "v1", "kind": "AdmissionReview", "request": request }).to_string();
        let read = Review::read(review.as_bytes())?.workflows();
        read.map(Option::unwrap)
    }

    #[test]
    fn of_a_workflow_only_what_a_review_looks_at_is_read() {
        let new = json!({
            "metadata": { "name": "a", "labels": { "b": "c" } },
            "spec": { "templates": [{ "name": "main" }], "suspend": null, "arguments": { "parameters": [] } },
            "status": { "phase": "Running" }, "else": [0],
        });
        let (read_new, old) = read(None, &new).unwrap();
        assert_eq!(old, None);
        assert_eq!(read_new.metadata.name.as_deref(), Some("a"));
        assert_eq!(
            read_new.spec,
            json!({ "suspend": null, "arguments": { "parameters": [] } })
        );
        assert_eq!(read_new.status, Some(json!({ "phase": "Running" })));
        let (odd, _) = read(None, &json!({ "metadata": {}, "spec": true, "status": null })).unwrap();
        assert_eq!((odd.spec, odd.status), (Value::Null, None));
    }

    #[test]
    fn a_status_that_nobody_writes_is_not_read() {
        let mut old = json!({ "metadata": { "labels": {} }, "spec": {}, "status": { "nodes": { "a": {} } } });
        let mut new = old.clone();
        new["metadata"]["labels"]["b"] = json!("c");
        let statuses = |old: &Value, new: &Value| {
            let (new, old) = read(Some(old), new).unwrap();
            (old.unwrap().status, new.status)
        };
        assert_eq!(statuses(&old, &new), (None, None));
        new["status"]["phase"] = json!("Error");
        let (before, after) = statuses(&old, &new);
        assert_eq!(
            (before.unwrap(), after.unwrap()),
            (old["status"].take(), new["status"].take())
        );
    }

    #[test]
    fn what_would_take_too_much_memory_is_let_through_unread() {
        let zeros = json!(vec![0; 1 << 20]);
        let harmless = read(None, &json!({ "metadata": {}, "spec": { "templates": zeros } })).unwrap();
        assert_eq!(harmless.0.spec, json!({}));
        for heavy in [
            json!({ "metadata": {}, "spec": { "arguments": zeros } }),
            json!({ "metadata": {}, "status": zeros }),
            json!({ "metadata": { "name": zeros } }),
        ] {
            let error = read(None, &heavy).unwrap_err();
            assert!(error.contains("is the most"), "{error}");
            let answered = asked(&json!({ "uid": "u1", "object": heavy })).unwrap();
            assert_eq!(answered["response"]["allowed"], true);
        }
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let deep: Box<RawValue> = serde_json::from_str(&deep).unwrap();
        let body = format!(
            r#"{{"apiVersion":"v1","kind":"A","request":{{"uid":"u1","object":{{"status":{deep}}}}}}}"#
        );
        assert!(Review::read(body.as_bytes()).unwrap().workflows().is_err());
    }
}
