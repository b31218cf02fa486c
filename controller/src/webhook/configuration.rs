//! The MutatingWebhookConfiguration: about what the API server asks the webhook, and how.
//!
//! Every field that an API server would fill in is given, so that what stands there can be compared with what is wanted.

use argosy_api::{names, workflow};
use k8s_openapi::{
    ByteString,
    api::admissionregistration::v1::{
        MatchCondition, MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations, ServiceReference,
        WebhookClientConfig,
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::api::ObjectMeta;

use super::{PATH, Place, WEBHOOK, ourselves::Ourselves};

/// The name that the API server gives when the webhook fails.
const NAME: &str = "workflows.argosy.dev";

/// The API server waits this long; then a policy decides alone.
const TIMEOUT_SECONDS: i32 = 3;

/// The configuration for what `selection` selects, trusting the authorities in `bundle` (PEM).
pub(super) fn configuration(
    place: &Place,
    ourselves: &Ourselves,
    selection: &str,
    bundle: &str,
) -> MutatingWebhookConfiguration {
    let webhook = MutatingWebhook {
        name: NAME.to_owned(),
        admission_review_versions: vec!["v1".to_owned()],
        client_config: client_config(place, bundle),
        // The policies refuse what may not happen without an answer, and only that.
        failure_policy: Some("Ignore".to_owned()),
        match_conditions: Some(vec![
            condition("not-ours", ourselves.is_not_asking()),
            condition("concerns-argosy", concerns_argosy(selection)),
        ]),
        match_policy: Some("Equivalent".to_owned()),
        namespace_selector: Some(LabelSelector::default()),
        object_selector: Some(LabelSelector::default()),
        // Asked again, it would compare with the same old object, and take back the verb that it has recorded.
        reinvocation_policy: Some("Never".to_owned()),
        rules: Some(vec![RuleWithOperations {
            api_groups: strings(&[workflow::GROUP]),
            api_versions: strings(&["*"]),
            operations: strings(&["CREATE", "UPDATE"]),
            resources: strings(&[workflow::PLURAL]),
            scope: Some("Namespaced".to_owned()),
        }]),
        side_effects: "None".to_owned(),
        timeout_seconds: Some(TIMEOUT_SECONDS),
    };
    MutatingWebhookConfiguration {
        metadata: metadata(WEBHOOK),
        webhooks: Some(vec![webhook]),
    }
}

/// A policy decides about a creation only; from then on it is the claim that counts.
fn concerns_argosy(selection: &str) -> String {
    let is_created = format!("(request.operation == 'CREATE' && ({selection}))");
    let is_claimed = |object: &str| {
        let (label, annotation) = (names::CLUSTER_LABEL, names::CLAIM_ANNOTATION);
        format!(
            "({object} != null && ((has({object}.metadata.labels) && '{label}' in {object}.metadata.labels) || \
             (has({object}.metadata.annotations) && '{annotation}' in {object}.metadata.annotations)))"
        )
    };
    format!(
        "{is_created} || {} || {}",
        is_claimed("object"),
        is_claimed("oldObject")
    )
}

fn client_config(place: &Place, bundle: &str) -> WebhookClientConfig {
    let (service, url) = match place {
        Place::Service {
            namespace,
            name,
            port,
        } => {
            let service = ServiceReference {
                namespace: namespace.clone(),
                name: name.clone(),
                path: Some(PATH.to_owned()),
                port: Some(i32::from(*port)),
            };
            (Some(service), None)
        }
        Place::Url { url, .. } => (None, Some(format!("{url}{PATH}"))),
    };
    WebhookClientConfig {
        ca_bundle: Some(ByteString(bundle.as_bytes().to_vec())),
        service,
        url,
    }
}

/// Metadata of what is registered.
pub(super) fn metadata(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some([("app.kubernetes.io/part-of".to_owned(), "argosy".to_owned())].into()),
        ..ObjectMeta::default()
    }
}

/// A condition under which a request is looked at.
pub(super) fn condition(name: &str, expression: String) -> MatchCondition {
    MatchCondition {
        name: name.to_owned(),
        expression,
    }
}

/// A list of strings as the API has it.
#[expect(clippy::unnecessary_wraps, reason = "an optional list is how the API has it")]
pub(super) fn strings(texts: &[&str]) -> Option<Vec<String>> {
    Some(texts.iter().map(|text| (*text).to_owned()).collect())
}
