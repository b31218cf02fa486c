//! The resources that a user states for a Workflow (`argosy.dev/requests`), where the specification
//! does not tell them: amounts that a step computes, or templates that only the cluster has.
//!
//! Not here: their effect on the demand (`Demand::with`).

use argosy_api::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::model::amounts::Amounts;

/// Maximum length of the annotation in bytes.
const LONGEST: usize = 512;

/// The annotation of a Workflow.
pub(crate) fn requests(metadata: &ObjectMeta) -> Option<&str> {
    let annotations = metadata.annotations.as_ref()?;
    annotations.get(names::REQUESTS_ANNOTATION).map(String::as_str)
}

/// The stated amounts; `None` if there are none, or if they cannot be read.
pub(crate) fn stated(requests: Option<&str>) -> Option<Amounts> {
    read(requests?).ok()
}

/// The reason why the stated amounts cannot be read. The Workflow must not be sent then: its user has
/// asked for something that nobody knows.
pub(crate) fn unreadable(requests: Option<&str>) -> Option<String> {
    let error = read(requests?).err()?;
    let name = names::REQUESTS_ANNOTATION;
    Some(format!(
        "the annotation {name} cannot be read: {error}; write it as cpu=8,memory=32Gi,nvidia.com/gpu=1"
    ))
}

fn read(requests: &str) -> Result<Amounts, String> {
    if requests.len() > LONGEST {
        return Err(format!(
            "it has {} bytes, and {LONGEST} is the most",
            requests.len()
        ));
    }
    let amounts = Amounts::parse(requests)?;
    if amounts.is_empty() {
        return Err("it is empty".to_owned());
    }
    Ok(amounts)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::demand::{Demand, Referred};

    /// Largest pod, typical amounts and widest level.
    fn demand(requests: Option<&str>) -> [String; 3] {
        let container = json!({ "resources": { "requests": { "cpu": "2", "memory": "1Gi" } } });
        let pods = json!({ "name": "many", "template": "pod", "withSequence": { "count": 3 } });
        let spec = json!({ "entrypoint": "main", "templates": [
            { "name": "main", "steps": [[pods]] },
            { "name": "pod", "container": container },
        ] });
        let demand = Demand::of(&spec, &Referred::default()).with(requests);
        [demand.largest, demand.typical, demand.widest].map(|amounts| amounts.to_string())
    }

    #[test]
    fn stated_amounts_replace_those_of_the_same_resource_and_leave_the_others() {
        let estimated = ["cpu=2,memory=1Gi", "cpu=6,memory=3Gi", "cpu=6,memory=3Gi"];
        assert_eq!(demand(None), estimated);
        let gpu = "cpu=6,memory=3Gi,nvidia.com/gpu=1";
        assert_eq!(demand(Some("nvidia.com/gpu=1")), ["cpu=2,memory=1Gi", gpu, gpu]);
        let more = "cpu=64,memory=3Gi";
        assert_eq!(demand(Some("cpu=64")), ["cpu=2,memory=1Gi", more, more]);
        // No pod requests more than all together.
        let less = "cpu=1,memory=3Gi";
        assert_eq!(demand(Some("cpu=1")), ["cpu=1,memory=1Gi", less, less]);
    }

    #[test]
    fn amounts_that_cannot_be_read_are_named_and_change_nothing() {
        let long = format!("cpu={}", "1".repeat(LONGEST));
        for (requests, expected) in [
            ("cpu", "\"cpu\" is not RESOURCE=QUANTITY"),
            ("cpu=much", "\"cpu=much\" is not RESOURCE=QUANTITY"),
            ("cpu=-1", "\"cpu=-1\" is not RESOURCE=QUANTITY"),
            ("a b=1", "\"a b=1\" is not RESOURCE=QUANTITY"),
            ("", "it is empty"),
            (" , ", "it is empty"),
            (&long, "it has 516 bytes, and 512 is the most"),
        ] {
            let told = unreadable(Some(requests)).unwrap();
            assert!(told.contains(expected), "{requests}: {told}");
            assert_eq!(demand(Some(requests)), demand(None), "{requests}");
        }
        assert_eq!(unreadable(None), None);
        assert_eq!(unreadable(Some("cpu=8, memory=32Gi,nvidia.com/gpu=1,")), None);
    }
}
