//! The MutatingWebhookConfiguration: the requests that the API server sends to the webhook.
//!
//! It sets every field that an API server would default, so that the live object can be compared
//! with the wanted one.

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

use super::{PATH, Place, WEBHOOK, own_accounts::Ourselves};

/// The names that the API server reports if a webhook fails.
const NAME: &str = "workflows.argosy.dev";
const OF_SCHEDULES: &str = "cronworkflows.argosy.dev";

/// Timeout of the API server; afterwards the policies decide alone, and refuse a Workflow that is to
/// be dispatched. This is the default of Kubernetes: a review takes milliseconds, but a machine that
/// is short of processor time may not start it for seconds.
const TIMEOUT_SECONDS: i32 = 10;

/// Builds the configuration for Workflows that match `selection` and for CronWorkflows, trusting
/// the CAs in `bundle` (PEM).
pub(super) fn configuration(
    place: &Place,
    ourselves: &Ourselves,
    selection: &str,
    bundle: &str,
) -> MutatingWebhookConfiguration {
    let not_ours = || condition("not-ours", ourselves.is_not_asking());
    let concerns_argosy = condition("concerns-argosy", concerns_argosy(selection));
    let is_edited = condition("is-edited", is_edited());
    let webhook = |name, resource, conditions| webhook(name, resource, conditions, place, bundle);
    MutatingWebhookConfiguration {
        metadata: metadata(WEBHOOK),
        webhooks: Some(vec![
            webhook(NAME, workflow::PLURAL, vec![not_ours(), concerns_argosy]),
            webhook(OF_SCHEDULES, workflow::CRON_PLURAL, vec![not_ours(), is_edited]),
        ]),
    }
}

/// A webhook for creations and changes of a resource of Argo.
fn webhook(
    name: &str,
    resource: &str,
    conditions: Vec<MatchCondition>,
    place: &Place,
    bundle: &str,
) -> MutatingWebhook {
    MutatingWebhook {
        name: name.to_owned(),
        admission_review_versions: vec!["v1".to_owned()],
        client_config: client_config(place, bundle),
        // The policies refuse forbidden changes without an answer of the webhook, and only those.
        failure_policy: Some("Ignore".to_owned()),
        match_conditions: Some(conditions),
        match_policy: Some("Equivalent".to_owned()),
        namespace_selector: Some(LabelSelector::default()),
        object_selector: Some(LabelSelector::default()),
        // A second call would compare with the same old object, and remove the verb that the first
        // one recorded.
        reinvocation_policy: Some("Never".to_owned()),
        rules: Some(vec![RuleWithOperations {
            api_groups: strings(&[workflow::GROUP]),
            api_versions: strings(&["*"]),
            operations: strings(&["CREATE", "UPDATE"]),
            resources: strings(&[resource]),
            scope: Some("Namespaced".to_owned()),
        }]),
        side_effects: "None".to_owned(),
        timeout_seconds: Some(TIMEOUT_SECONDS),
    }
}

/// CEL: the object is new, or its specification or labels have changed. Argo writes the status of a
/// CronWorkflow each time that it fires.
fn is_edited() -> String {
    let labels = |object: &str| format!("(has({object}.metadata.labels) ? {object}.metadata.labels : {{}})");
    format!(
        "oldObject == null || object.spec != oldObject.spec || {} != {}",
        labels("object"),
        labels("oldObject")
    )
}

/// CEL: the request concerns Argosy. A policy, or the name of a cluster, decides only about a
/// creation; afterwards the claim decides.
fn concerns_argosy(selection: &str) -> String {
    let named = names_a_cluster();
    let is_created = format!("(request.operation == 'CREATE' && ({named} || {selection}))");
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

/// CEL: the label of `object` names a cluster other than this one.
pub(super) fn names_a_cluster() -> String {
    format!(
        "(has(object.metadata.labels) && '{label}' in object.metadata.labels && \
         object.metadata.labels['{label}'] != '{local}')",
        label = names::KUBESTELLAR_CLUSTER_LABEL,
        local = names::KUBESTELLAR_LOCAL_CLUSTER,
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

/// Metadata of registered objects.
pub(super) fn metadata(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some([("app.kubernetes.io/part-of".to_owned(), "argosy".to_owned())].into()),
        ..ObjectMeta::default()
    }
}

/// A match condition of requests.
pub(super) fn condition(name: &str, expression: String) -> MatchCondition {
    MatchCondition {
        name: name.to_owned(),
        expression,
    }
}

/// A list of strings as an optional field of the API.
#[expect(clippy::unnecessary_wraps, reason = "an optional list is how the API has it")]
pub(super) fn strings(texts: &[&str]) -> Option<Vec<String>> {
    Some(texts.iter().map(|text| (*text).to_owned()).collect())
}
