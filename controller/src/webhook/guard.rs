//! The admission policies, which the API server evaluates by itself: what may not happen while no webhook answers.
//!
//! They look at nothing but Workflows that bear marks of ours and creations that a policy selects, and no expression fails on a field
//! that is not there: with failurePolicy Fail, an expression that fails would stand in the way of objects that are not ours.

use argosy_api::{names, workflow};
use k8s_openapi::{
    api::admissionregistration::v1::{
        MatchResources, NamedRuleWithOperations, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
        ValidatingAdmissionPolicyBindingSpec, ValidatingAdmissionPolicySpec, Validation, Variable,
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement},
};

use super::{
    CREATE_POLICY, HOLD_POLICY, MARKS_POLICY,
    configuration::{condition, metadata, strings},
    ourselves::{Ourselves, literal},
};

/// Keeps a claimed Workflow held, claimed, and there while it runs. `argo_account` is the user name of the WDS's own
/// workflow-controller.
pub(super) fn hold(ourselves: &Ourselves, argo_account: &str) -> ValidatingAdmissionPolicy {
    let is_claimed = LabelSelectorRequirement {
        key: names::CLUSTER_LABEL.to_owned(),
        operator: "Exists".to_owned(),
        values: None,
    };
    let selector = LabelSelector {
        match_expressions: Some(vec![is_claimed]),
        match_labels: None,
    };
    let conditions = vec![
        condition("not-ours", ourselves.is_not_asking()),
        condition("is-claimed", is_claimed_by_argosy()),
    ];
    let mut policy = policy(HOLD_POLICY, &["UPDATE", "DELETE"], selector, conditions);
    if let Some(spec) = &mut policy.spec {
        spec.variables = Some(variables());
        spec.validations = Some(hold_validations(argo_account));
    }
    policy
}

/// Lets nobody but Argosy say where a Workflow runs, and keeps one held that is held from its birth. A creation may bear what was copied
/// from another object; that names the UID of the other, and is not believed.
pub(super) fn marks(ourselves: &Ourselves) -> ValidatingAdmissionPolicy {
    let bears = |object: &str, mark: &str| {
        format!(
            "({object} != null && has({object}.metadata.annotations) && '{mark}' in {object}.metadata.annotations)"
        )
    };
    let of_object = MARKS.iter().map(|mark| bears("object", mark));
    let of_either: Vec<String> = of_object
        .chain([bears("oldObject", names::CLAIM_ANNOTATION)])
        .collect();
    let conditions = vec![
        condition("not-ours", ourselves.is_not_asking()),
        condition("bears-marks", of_either.join(" || ")),
    ];
    let mut policy = policy(
        MARKS_POLICY,
        &["CREATE", "UPDATE"],
        LabelSelector::default(),
        conditions,
    );
    if let Some(spec) = &mut policy.spec {
        spec.variables = Some(variables());
        spec.validations = Some(mark_validations());
    }
    policy
}

/// What only Argosy writes on a Workflow, and the webhook never in an update.
const MARKS: [&str; 3] = [
    names::CLAIM_ANNOTATION,
    names::RUNS_ON_ANNOTATION,
    names::PASSED_ON_ANNOTATION,
];

fn mark_validations() -> Vec<Validation> {
    let unchanged = MARKS.map(|mark| {
        format!(
            "(!('{mark}' in variables.annotations) || ('{mark}' in variables.oldAnnotations && \
             variables.annotations['{mark}'] == variables.oldAnnotations['{mark}']))"
        )
    });
    let claim = names::CLAIM_ANNOTATION;
    let is_held = |of: &str| {
        let (labels, finalizers) = match of {
            "old" => ("oldLabels", "oldFinalizers"),
            _ => ("labels", "finalizers"),
        };
        format!(
            "('{completed}' in variables.{labels} && variables.{labels}['{completed}'] == 'true' && \
             '{finalizer}' in variables.{finalizers})",
            completed = names::ARGO_COMPLETED_LABEL,
            finalizer = names::CONTROLLER_FINALIZER,
        )
    };
    vec![
        validation(
            format!("request.operation == 'CREATE' || ({})", unchanged.join(" && ")),
            &format!(
                "only Argosy writes the annotations {}: take them out of what is written here. A Workflow runs on the clusters \
                 that BindingPolicies select for it",
                MARKS.join(", ")
            ),
        ),
        validation(
            format!(
                "request.operation != 'CREATE' || !('{claim}' in variables.annotations) || {} || \
                 variables.annotations['{claim}'].matches('{OF_ANOTHER}')",
                is_held("new")
            ),
            &format!(
                "only Argosy writes the annotation {claim}: take it out of what is created here, or try again when \
                 argosy-controller runs, whose webhook takes it off"
            ),
        ),
        validation(
            format!(
                "request.operation == 'CREATE' || !('{claim}' in variables.oldAnnotations) || \
                 variables.oldAnnotations['{claim}'].matches('{OF_ANOTHER}') || !{} || ({} && \
                 '{claim}' in variables.annotations)",
                is_held("old"),
                is_held("new"),
            ),
            &format!(
                "this Workflow is held for a cluster: its label {}: \"true\", its finalizer {} and its annotation {claim} keep it from \
                 running here. Take off the label that its BindingPolicy selects, and Argosy hands it back",
                names::ARGO_COMPLETED_LABEL,
                names::CONTROLLER_FINALIZER,
            ),
        ),
    ]
}

/// RE2: a claim that names a UID, which no object has that is about to be created. The end of the text is the last field of the claim itself,
/// not of anything in it, and a claim with two UIDs is none.
const OF_ANOTHER: &str = r#","uid":"[^"]+"[}]$"#;

/// Lets no Workflow that `exact_selection` selects be created unheld. The condition leaves out what only a validation may read,
/// the namespace.
pub(super) fn create(
    ourselves: &Ourselves,
    selection: &str,
    exact_selection: &str,
) -> ValidatingAdmissionPolicy {
    let conditions = vec![
        condition("not-ours", ourselves.is_not_asking()),
        condition("is-selected", selection.to_owned()),
    ];
    let mut policy = policy(CREATE_POLICY, &["CREATE"], LabelSelector::default(), conditions);
    if let Some(spec) = &mut policy.spec {
        let is_not_selected = if selection == exact_selection {
            String::new()
        } else {
            format!("!({exact_selection}) || ")
        };
        let expression = format!(
            "{is_not_selected}(has(object.spec) && has(object.spec.suspend) && object.spec.suspend == true) || \
             (has(object.metadata.labels) && '{completed}' in object.metadata.labels && \
             object.metadata.labels['{completed}'] == 'true') || \
             (has(object.status) && has(object.status.phase) && object.status.phase in {FINAL})",
            completed = names::ARGO_COMPLETED_LABEL,
        );
        let message = "a BindingPolicy selects this Workflow, but Argosy's webhook does not answer and nothing else holds it \
                       here, so it would run on the control cluster. Try again, or set spec.suspend: true";
        spec.validations = Some(vec![validation(expression, message)]);
    }
    policy
}

/// Puts the policy of this name into effect.
pub(super) fn binding(policy: &str) -> ValidatingAdmissionPolicyBinding {
    ValidatingAdmissionPolicyBinding {
        metadata: metadata(policy),
        spec: Some(ValidatingAdmissionPolicyBindingSpec {
            policy_name: Some(policy.to_owned()),
            validation_actions: strings(&["Deny"]),
            ..ValidatingAdmissionPolicyBindingSpec::default()
        }),
    }
}

/// The phases that Argo never leaves by itself, as CEL.
const FINAL: &str = "['Succeeded', 'Failed', 'Error']";

/// `argo resubmit` copies the label and the claim onto an object that may be nobody's but the local Argo's; it has neither
/// our finalizer nor the UID in the claim.
fn is_claimed_by_argosy() -> String {
    format!(
        "has(oldObject.metadata.labels) && '{label}' in oldObject.metadata.labels && \
         ((has(oldObject.metadata.finalizers) && '{finalizer}' in oldObject.metadata.finalizers) || \
         (has(oldObject.metadata.annotations) && '{claim}' in oldObject.metadata.annotations && \
         has(oldObject.metadata.uid) && oldObject.metadata.annotations['{claim}'].contains(oldObject.metadata.uid)))",
        label = names::CLUSTER_LABEL,
        finalizer = names::CONTROLLER_FINALIZER,
        claim = names::CLAIM_ANNOTATION,
    )
}

/// Labels, annotations and finalizers of both objects, empty where there are none. A deletion has no new object.
fn variables() -> Vec<Variable> {
    let variable = |name: &str, object: &str, field: &str, empty: &str| Variable {
        name: name.to_owned(),
        expression: format!(
            "{object} != null && has({object}.metadata.{field}) ? {object}.metadata.{field} : {empty}"
        ),
    };
    vec![
        variable("labels", "object", "labels", "{}"),
        variable("oldLabels", "oldObject", "labels", "{}"),
        variable("annotations", "object", "annotations", "{}"),
        variable("oldAnnotations", "oldObject", "annotations", "{}"),
        variable("finalizers", "object", "finalizers", "[]"),
        variable("oldFinalizers", "oldObject", "finalizers", "[]"),
    ]
}

fn hold_validations(argo_account: &str) -> Vec<Validation> {
    let stays = |map: &str, old: &str, key: &str| {
        format!(
            "(!('{key}' in variables.{old}) || \
             ('{key}' in variables.{map} && variables.{map}['{key}'] == variables.{old}['{key}']))"
        )
    };
    let completed = names::ARGO_COMPLETED_LABEL;
    let finalizer = names::CONTROLLER_FINALIZER;
    vec![
        validation(
            format!(
                "request.operation == 'DELETE' || !('{completed}' in variables.oldLabels) || \
                 variables.oldLabels['{completed}'] != 'true' || \
                 ('{completed}' in variables.labels && variables.labels['{completed}'] == 'true')"
            ),
            &format!(
                "this Workflow runs on another cluster, and its label {completed}: \"true\" keeps the control cluster's Argo \
                 from running it here as well. Argosy's webhook, which would carry this request out, does not answer: try again \
                 when argosy-controller runs"
            ),
        ),
        validation(
            format!(
                "request.operation == 'DELETE' || ({} && {} && {} && (!('{verbs}' in variables.oldAnnotations) || '{verbs}' in variables.annotations))",
                stays("labels", "oldLabels", names::CLUSTER_LABEL),
                stays("annotations", "oldAnnotations", names::CLAIM_ANNOTATION),
                stays("annotations", "oldAnnotations", names::RUNS_ON_ANNOTATION),
                verbs = names::VERBS_ANNOTATION,
            ),
            &format!(
                "label {} and annotation {} say where this Workflow runs; only Argosy changes them. To run it elsewhere, delete \
                 it and create it anew",
                names::CLUSTER_LABEL,
                names::CLAIM_ANNOTATION
            ),
        ),
        validation(
            format!(
                "request.userInfo.username != {} || (has(oldObject.status) && has(oldObject.status.phase) && \
                 oldObject.status.phase in {FINAL}) || (request.operation == 'UPDATE' && has(object.status) && has(oldObject.status) && \
                 object.status == oldObject.status)",
                literal(argo_account)
            ),
            "this Workflow runs on another cluster: the control cluster's workflow-controller may neither change nor delete it \
             before it has ended",
        ),
        validation(
            format!(
                "request.operation == 'DELETE' || !('{finalizer}' in variables.oldFinalizers) || \
                 '{finalizer}' in variables.finalizers"
            ),
            &format!(
                "argosy-controller takes the finalizer {finalizer} off when the other cluster has let go of the run. If Argosy \
                 is gone for good, run `argosy release`"
            ),
        ),
    ]
}

fn policy(
    name: &str,
    operations: &[&str],
    selector: LabelSelector,
    conditions: Vec<k8s_openapi::api::admissionregistration::v1::MatchCondition>,
) -> ValidatingAdmissionPolicy {
    let rule = NamedRuleWithOperations {
        api_groups: strings(&[workflow::GROUP]),
        api_versions: strings(&["*"]),
        operations: strings(operations),
        resources: strings(&[workflow::PLURAL]),
        scope: Some("Namespaced".to_owned()),
        resource_names: None,
    };
    ValidatingAdmissionPolicy {
        metadata: metadata(name),
        spec: Some(ValidatingAdmissionPolicySpec {
            failure_policy: Some("Fail".to_owned()),
            match_conditions: Some(conditions),
            match_constraints: Some(MatchResources {
                match_policy: Some("Equivalent".to_owned()),
                namespace_selector: Some(LabelSelector::default()),
                object_selector: Some(selector),
                resource_rules: Some(vec![rule]),
                exclude_resource_rules: None,
            }),
            ..ValidatingAdmissionPolicySpec::default()
        }),
        status: None,
    }
}

fn validation(expression: String, message: &str) -> Validation {
    Validation {
        expression,
        message: Some(message.to_owned()),
        reason: Some("Forbidden".to_owned()),
        message_expression: None,
    }
}
