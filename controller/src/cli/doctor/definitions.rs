//! Checks that the CustomResourceDefinitions of the control cluster exist, are established, and
//! have all fields that this version writes. The API server silently drops a field that a
//! definition lacks.

use argosy_api::{crds, workflow};
use futures::future::join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use super::finding::Judgment;
use crate::runtime::requests::{call, found};

/// The source of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// This version of Argosy.
    Ours,
    /// Open Cluster Management, perhaps in another version.
    Ocm,
}

impl Origin {
    fn fix(self) -> &'static str {
        match self {
            Self::Ours => "argosy crds | kubectl apply --server-side --force-conflicts -f -",
            Self::Ocm => {
                "if no hub of Open Cluster Management installs it: argosy crds --ocm | kubectl apply \
                --server-side -f -"
            }
        }
    }
}

/// Checks Argosy's definitions on the WDS and those of Open Cluster Management on the ITS.
pub(super) async fn check(wds: &Client, its: &Client) -> Vec<Judgment> {
    let ours = crds::kubestellar()
        .into_iter()
        .map(|wanted| (wanted, Origin::Ours, wds));
    let theirs = crds::open_cluster_management()
        .into_iter()
        .map(|wanted| (wanted, Origin::Ocm, its));
    let asked = ours.chain(theirs).map(async |(wanted, origin, client)| {
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        match found(call(api.get(&wanted.name_any())).await) {
            Ok(there) => judge(&wanted, there.as_ref(), origin),
            Err(failure) => Some(Judgment::unasked("read CustomResourceDefinitions", &failure)),
        }
    });
    let asked = join_all(asked).await;
    let count = asked.len();
    // A user who may not read one may read none, so one such finding is enough.
    let (unasked, told): (Vec<_>, Vec<_>) = asked
        .into_iter()
        .flatten()
        .partition(|judgment| judgment.is_unasked);
    let wrong: Vec<Judgment> = told.into_iter().chain(unasked.into_iter().take(1)).collect();
    if wrong.is_empty() {
        let message = format!("{count} CustomResourceDefinitions are established and have this version");
        return vec![Judgment::ok(message)];
    }
    wrong
}

/// Returns the problem of a definition, if any.
fn judge(
    wanted: &CustomResourceDefinition,
    there: Option<&CustomResourceDefinition>,
    origin: Origin,
) -> Option<Judgment> {
    let name = wanted.name_any();
    let Some(there) = there else {
        return Some(Judgment::failed(format!("{name} is not installed"), origin.fix()));
    };
    if !is_established(there) {
        return Some(Judgment::failed(
            format!("{name} is not established"),
            format!("kubectl describe crd {name} shows the reason"),
        ));
    }
    let lacking = lacking(wanted, there)?;
    let message = format!("{name} lacks {lacking}, so it has another version than this command");
    Some(match origin {
        Origin::Ours => Judgment::failed(message, origin.fix()),
        // An older OCM definition has fewer fields; OCM's own agents do not need the others.
        Origin::Ocm => Judgment::warning(message, "upgrade Open Cluster Management"),
    })
}

/// Returns true if the API server serves the definition.
pub(super) fn is_established(definition: &CustomResourceDefinition) -> bool {
    let status = definition.status.as_ref();
    let mut conditions = status
        .iter()
        .filter_map(|status| status.conditions.as_ref())
        .flatten();
    conditions.any(|known| known.type_ == "Established" && known.status == "True")
}

/// Returns the first missing version or field.
fn lacking(wanted: &CustomResourceDefinition, there: &CustomResourceDefinition) -> Option<String> {
    let wanted = wanted.spec.versions.first()?;
    let Some(there) = there
        .spec
        .versions
        .iter()
        .find(|known| known.name == wanted.name && known.served)
    else {
        return Some(format!("the version {}", wanted.name));
    };
    let [wanted, there] = [wanted, there].map(|version| {
        let schema = version
            .schema
            .as_ref()
            .and_then(|schema| schema.open_api_v3_schema.as_ref());
        serde_json::to_value(schema).unwrap_or_default()
    });
    lacking_field(&wanted, &there, "").map(|path| format!("the field {}", path.trim_start_matches('.')))
}

fn lacking_field(wanted: &Value, there: &Value, path: &str) -> Option<String> {
    if there.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true)) {
        return None;
    }
    let fields = wanted.get("properties").and_then(Value::as_object);
    let missing = fields.into_iter().flatten().find_map(|(name, schema)| {
        let path = format!("{path}.{name}");
        match there.get("properties").and_then(|fields| fields.get(name)) {
            None => Some(path),
            Some(there) => lacking_field(schema, there, &path),
        }
    });
    missing.or_else(|| {
        ["items", "additionalProperties"].iter().find_map(|inner| {
            let wanted = wanted.get(inner).filter(|inner| inner.is_object())?;
            lacking_field(wanted, there.get(inner)?, path)
        })
    })
}

/// Checks that Argo's Workflow is defined.
pub(super) async fn argo(wds: &Client) -> Judgment {
    let name = format!("{}.{}", workflow::PLURAL, workflow::GROUP);
    let api: Api<CustomResourceDefinition> = Api::all(wds.clone());
    let fix = "install Argo Workflows' CustomResourceDefinitions on the control cluster";
    match found(call(api.get(&name)).await) {
        Ok(Some(there)) if is_established(&there) => Judgment::ok(format!("{name} is established")),
        Ok(Some(_)) => Judgment::failed(format!("{name} is not established"), fix),
        Ok(None) => Judgment::failed(format!("{name} is not installed"), fix),
        Err(failure) => Judgment::unasked("read CustomResourceDefinitions", &failure),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::finding::Outcome, *};

    fn established(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
        let status = json!({ "conditions": [{ "type": "Established", "status": "True" }], "acceptedNames": {} , "storedVersions": [] });
        let mut value = serde_json::to_value(&definition).unwrap();
        value["status"] = status;
        definition = serde_json::from_value(value).unwrap();
        definition
    }

    fn without_field(
        definition: &CustomResourceDefinition,
        pointer: &str,
        name: &str,
    ) -> CustomResourceDefinition {
        let mut value = serde_json::to_value(definition).unwrap();
        let schema = &mut value["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let fields = schema.pointer_mut(pointer).unwrap();
        assert!(fields.as_object_mut().unwrap().remove(name).is_some());
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn every_definition_is_of_its_own_version_and_one_without_a_field_is_not() {
        for wanted in crds::kubestellar()
            .into_iter()
            .chain(crds::open_cluster_management())
        {
            assert_eq!(
                judge(&wanted, Some(&established(wanted.clone())), Origin::Ours),
                None
            );
        }
        let policy = &crds::kubestellar()[0];
        let clause = "/properties/spec/properties/downsync/items/properties";
        let old = established(without_field(policy, clause, "wantMultiWECReportedState"));
        let judgment = judge(policy, Some(&old), Origin::Ours).unwrap();
        assert_eq!(judgment.outcome, Outcome::Failed);
        assert!(
            judgment
                .message
                .contains("the field spec.downsync.wantMultiWECReportedState"),
            "{judgment:?}"
        );
        assert_eq!(
            judge(policy, Some(&old), Origin::Ocm).unwrap().outcome,
            Outcome::Warning
        );
    }

    #[test]
    fn a_definition_that_is_missing_or_not_served_is_told_from_one_that_is_old() {
        let policy = &crds::kubestellar()[0];
        assert!(
            judge(policy, None, Origin::Ours)
                .unwrap()
                .message
                .ends_with("is not installed")
        );
        assert!(
            judge(policy, Some(policy), Origin::Ours)
                .unwrap()
                .message
                .ends_with("is not established")
        );
        let mut other = established(policy.clone());
        other.spec.versions[0].served = false;
        let judgment = judge(policy, Some(&other), Origin::Ours).unwrap();
        assert!(
            judgment.message.contains("lacks the version v1alpha1"),
            "{judgment:?}"
        );
    }
}
