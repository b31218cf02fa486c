//! The name of the pod of a node, as Argo computes it (`GeneratePodName` in
//! `workflow/util/pod_name.go`; the same in 3.5 to 4.0). A status does not contain it.

use argosy_api::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

/// Maximum length of the part before the hash, in bytes: a name has 253, and the hash 10.
const LONGEST_PREFIX: usize = 242;

/// The format of the names of pods of one Workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodNames {
    /// The ID of the node.
    V1,
    /// Names of Workflow and template, and a hash of the node's name.
    V2,
}

impl PodNames {
    /// The format that Argo has recorded on a Workflow, or else its default.
    pub(crate) fn of(metadata: &ObjectMeta) -> Self {
        let annotations = metadata.annotations.as_ref();
        let format = annotations.and_then(|known| known.get(names::ARGO_POD_NAME_FORMAT_ANNOTATION));
        match format.map(String::as_str) {
            Some("v1") => Self::V1,
            _ => Self::V2,
        }
    }

    /// The name of the pod of a node of `workflow`. `None` if Argo gives no node of the Workflow such
    /// an ID: clusters write IDs, and a pod of another Workflow could be meant.
    pub(crate) fn name(self, workflow: &str, id: &str, node: &Value) -> Option<String> {
        let text = |pointer: &str| node.pointer(pointer).and_then(Value::as_str);
        let name = text("/name").unwrap_or_default();
        match self {
            Self::V1 => return is_id_of(workflow, id).then(|| id.to_owned()),
            Self::V2 if name == workflow => return Some(workflow.to_owned()),
            Self::V2 => {}
        }
        let template = text("/templateRef/template").or_else(|| text("/templateName"));
        let mut prefix = workflow.to_owned();
        if let Some(template) = template.filter(|template| !template.is_empty()) {
            prefix = format!("{prefix}-{template}");
        }
        let mut end = LONGEST_PREFIX.min(prefix.len());
        while !prefix.is_char_boundary(end) {
            end -= 1;
        }
        prefix.truncate(end);
        Some(format!("{prefix}-{}", fnv1a(name.as_bytes())))
    }
}

/// True for the name of the Workflow, alone or with a hash.
fn is_id_of(workflow: &str, id: &str) -> bool {
    let rest = id.strip_prefix(workflow);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// The FNV-1a hash with 32 bits.
fn fnv1a(bytes: &[u8]) -> u32 {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(16_777_619);
    bytes.iter().fold(2_166_136_261, step)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_those_of_argo() {
        // The hashes were printed by Go's hash/fnv.
        for (format, workflow, node, expected) in [
            (
                PodNames::V2,
                "hello",
                json!({ "name": "hello.a", "templateName": "work" }),
                "hello-work-2039115930",
            ),
            (
                PodNames::V2,
                "wf",
                json!({ "name": "wf.steps[0].print(1:x)" }),
                "wf-185427564",
            ),
            (
                PodNames::V2,
                "hello",
                json!({ "name": "hello", "templateName": "main" }),
                "hello",
            ),
            (
                PodNames::V2,
                "hello",
                json!({ "name": "hello.a", "templateName": "", "templateRef": { "name": "t", "template": "there" } }),
                "hello-there-2039115930",
            ),
            (
                PodNames::V1,
                "hello",
                json!({ "name": "hello.a", "templateName": "work" }),
                "hello-123",
            ),
        ] {
            let name = format.name(workflow, "hello-123", &node);
            assert_eq!(name.as_deref(), Some(expected));
        }
        let long = "t".repeat(300);
        let name = PodNames::V2.name("hello", "i", &json!({ "name": "hello.a", "templateName": long }));
        assert_eq!(name.unwrap().len(), LONGEST_PREFIX + "-2039115930".len());
    }

    #[test]
    fn an_id_that_is_a_pod_name_begins_with_the_name_of_the_workflow() {
        for (id, is_name) in [
            ("hello", true),
            ("hello-123", true),
            ("hell", false),
            ("hello2-123", false),
            ("other-123", false),
        ] {
            let name = PodNames::V1.name("hello", id, &json!({ "name": "hello" }));
            assert_eq!(name.is_some(), is_name, "{id}");
        }
    }

    #[test]
    fn the_format_is_the_one_on_the_workflow() {
        let of = |format: &str| {
            let annotation = (
                names::ARGO_POD_NAME_FORMAT_ANNOTATION.to_owned(),
                format.to_owned(),
            );
            PodNames::of(&ObjectMeta {
                annotations: Some([annotation].into()),
                ..ObjectMeta::default()
            })
        };
        assert_eq!(
            (of("v1"), of("v2"), of("v9")),
            (PodNames::V1, PodNames::V2, PodNames::V2)
        );
        assert_eq!(PodNames::of(&ObjectMeta::default()), PodNames::V2);
    }
}
