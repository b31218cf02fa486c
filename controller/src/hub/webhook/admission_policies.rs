//! The admission policies, which the API server evaluates itself: they refuse forbidden changes
//! while no webhook responds.
//!
//! They cover only Workflows with Argosy's marks, and creations that a policy selects. No
//! expression fails on a missing field: with failurePolicy Fail, a failing expression would block
//! objects of others.

use std::collections::BTreeSet;

use argosy_api::{names, workflow};
use argosy_core::model::hold::INITIAL;
use k8s_openapi::{
    api::admissionregistration::v1::{
        MatchCondition, MatchResources, NamedRuleWithOperations, ValidatingAdmissionPolicy,
        ValidatingAdmissionPolicyBinding, ValidatingAdmissionPolicyBindingSpec,
        ValidatingAdmissionPolicySpec, Validation, Variable,
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement},
};

use super::{
    CREATE_POLICY, HOLD_POLICY, MARKS_POLICY,
    configuration::{condition, metadata, names_a_cluster, strings},
    own_accounts::{Ourselves, literal},
};

/// The policy that keeps a claimed Workflow held and claimed, and prevents its deletion while it
/// runs. `argo_account` is the user name of the WDS's own workflow-controller.
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

/// The policy that lets only Argosy write where a Workflow runs, keeps a Workflow held that was
/// created held, and lets none start here with a status that another cluster has reported. A
/// created object may have a copied claim; it contains the UID of the original, so it has no
/// effect.
pub(super) fn marks(ourselves: &Ourselves) -> ValidatingAdmissionPolicy {
    let bears = |object: &str, mark: &str| {
        format!(
            "({object} != null && has({object}.metadata.annotations) && '{mark}' in {object}.metadata.annotations)"
        )
    };
    let of_object = MARKS.iter().map(|mark| bears("object", mark));
    let copied = format!(
        "(request.operation == 'CREATE' && has(object.metadata.labels) && '{}' in object.metadata.labels)",
        names::CLUSTER_LABEL
    );
    let of_either: Vec<String> = of_object
        .chain([bears("oldObject", names::CLAIM_ANNOTATION), copied])
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

/// Annotations that only Argosy writes on a Workflow, and that the webhook never writes in an
/// update.
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
                "only Argosy may write the annotations {}: remove them from the object that you write. \
                 BindingPolicies select the cluster of a Workflow",
                MARKS.join(", ")
            ),
        ),
        validation(
            format!(
                "request.operation != 'CREATE' || !('{claim}' in variables.annotations) || ({} && \
                 !variables.annotations['{claim}'].matches('{OF_A_RUN}')) || \
                 variables.annotations['{claim}'].matches('{OF_ANOTHER}')",
                is_held("new")
            ),
            &format!(
                "only Argosy may write the annotation {claim}: remove it from the object that you create, or \
                 try again when argosy-controller runs, because its webhook removes the annotation"
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
                "this Workflow is held for a cluster: its label {}: \"true\", its finalizer {} and its annotation {claim} prevent it from \
                 running on the control cluster. Remove {} and every other label that its BindingPolicy selects, then Argosy hands it back",
                names::ARGO_COMPLETED_LABEL,
                names::CONTROLLER_FINALIZER,
                names::KUBESTELLAR_CLUSTER_LABEL,
            ),
        ),
        begins_with_nothing(),
    ]
}

/// A copy of a run on another cluster may contain steps, outputs and templates that only its
/// cluster has reported, and the Argo here would continue with them. The webhook removes them, or
/// sends them back to that cluster.
fn begins_with_nothing() -> Validation {
    let (cluster, completed) = (names::CLUSTER_LABEL, names::ARGO_COMPLETED_LABEL);
    let brought: Vec<String> = INITIAL
        .iter()
        .map(|field| format!("has(object.status.{field})"))
        .collect();
    validation(
        format!(
            "request.operation != 'CREATE' || !('{cluster}' in variables.labels) || \
             ('{completed}' in variables.labels && variables.labels['{completed}'] == 'true') || !has(object.status) || \
             (has(object.status.phase) && object.status.phase in {FINAL}) || !({})",
            brought.join(" || ")
        ),
        &format!(
            "this is a copy of a Workflow that ran on another cluster (label {cluster}); its status has \
             steps, outputs or templates that only that cluster has reported, and Argosy's webhook has not \
             checked them: remove the status (argo resubmit without --memoized), or try again when \
             argosy-controller runs"
        ),
    )
}

/// RE2 that matches a claim with a UID. An object that is about to be created has none, so the
/// claim belongs to another object. The end of the text must be the last field of the claim itself,
/// not of a nested value, and a claim with two UIDs is invalid.
const OF_ANOTHER: &str = r#","uid":"[^"]+"[}]$"#;

/// RE2 that matches a claim of a run, which only the controller creates, or a claim with escapes,
/// whose fields may parse differently from how they look.
const OF_A_RUN: &str = r#"\\\\|"runOf""#;

/// The policy that refuses the creation of an unheld Workflow that names a cluster, or for which
/// one of the expressions `selected` is true. There are as many expressions as the BindingPolicies
/// need.
pub(super) fn create(ourselves: &Ourselves, selected: &[String]) -> ValidatingAdmissionPolicy {
    let conditions = vec![condition("not-ours", ourselves.is_not_asking())];
    let mut policy = policy(CREATE_POLICY, &["CREATE"], LabelSelector::default(), conditions);
    if let Some(spec) = &mut policy.spec {
        spec.validations = Some(unheld_of(selected));
    }
    policy
}

fn unheld_of(selected: &[String]) -> Vec<Validation> {
    let selected = selected.iter().map(|selected| unheld(selected, SELECTED));
    std::iter::once(unheld(&names_a_cluster(), NAMED))
        .chain(selected)
        .collect()
}

const NAMED: &str = "the label kubestellar.io/cluster of this Workflow names a cluster, but Argosy's webhook \
                     does not answer and nothing else holds the Workflow, so it would run on the control \
                     cluster. Try again, or set spec.suspend: true; to run it on the control cluster, \
                     remove the label or set it to local";

const SELECTED: &str = "a BindingPolicy selects this Workflow, but Argosy's webhook does not answer and \
                        nothing else holds the Workflow, so it would run on the control cluster. Try again, \
                        or set spec.suspend: true";

/// Refuses a selected Workflow that is not held. All validations must pass, so each may cover a
/// part of the selection.
fn unheld(selected: &str, message: &str) -> Validation {
    let expression = format!(
        "(has(object.spec) && has(object.spec.suspend) && object.spec.suspend == true) || \
         (has(object.metadata.labels) && '{completed}' in object.metadata.labels && \
         object.metadata.labels['{completed}'] == 'true') || \
         (has(object.status) && has(object.status.phase) && object.status.phase in {FINAL}) || !({selected})",
        completed = names::ARGO_COMPLETED_LABEL,
    );
    validation(expression, message)
}

/// Returns true if `policy` refuses every unheld Workflow that names a cluster or is selected.
pub(super) fn refuses(policy: &ValidatingAdmissionPolicy, selected: &[String]) -> bool {
    let expressions = |validations: &[Validation]| -> BTreeSet<String> {
        let expressions = validations.iter().map(|one| one.expression.clone());
        expressions.collect()
    };
    let known = policy.spec.as_ref().and_then(|spec| spec.validations.as_deref());
    expressions(known.unwrap_or_default()).is_superset(&expressions(&unheld_of(selected)))
}

/// The binding that puts the policy of this name into effect.
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

/// The phases that Argo never leaves by itself, as a CEL list.
const FINAL: &str = "['Succeeded', 'Failed', 'Error']";

/// CEL: Argosy has claimed the old object. `argo resubmit` copies label and claim to an object that
/// may belong to the local Argo only; it has neither Argosy's finalizer nor the UID in the claim.
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

/// CEL variables with labels, annotations and finalizers of both objects, empty if absent. A
/// deletion has no new object.
pub(super) fn variables() -> Vec<Variable> {
    vec![
        variable("labels", "object", "labels", "{}"),
        variable("oldLabels", "oldObject", "labels", "{}"),
        variable("annotations", "object", "annotations", "{}"),
        variable("oldAnnotations", "oldObject", "annotations", "{}"),
        variable("finalizers", "object", "finalizers", "[]"),
        variable("oldFinalizers", "oldObject", "finalizers", "[]"),
    ]
}

/// A CEL variable with a field of the metadata of `object`, which may be absent.
pub(super) fn variable(name: &str, object: &str, field: &str, empty: &str) -> Variable {
    Variable {
        name: name.to_owned(),
        expression: format!(
            "{object} != null && has({object}.metadata.{field}) ? {object}.metadata.{field} : {empty}"
        ),
    }
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
                "this Workflow runs on another cluster, and its label {completed}: \"true\" prevents the \
                 control cluster's Argo from running it, too. Argosy's webhook, which would pass this \
                 request on to the run, does not answer: try again when argosy-controller runs"
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
                "label {} and annotation {} record where this Workflow runs; only Argosy may change them. To \
                 run it elsewhere, delete it and create it again",
                names::CLUSTER_LABEL,
                names::CLAIM_ANNOTATION
            ),
        ),
        validation(
            format!(
                "request.userInfo.username != {} || (has(oldObject.status) && has(oldObject.status.phase) && \
                 oldObject.status.phase in {FINAL}) || (request.operation == 'UPDATE' && has(object.status) && {STATUS_STAYS})",
                literal(argo_account)
            ),
            "this Workflow runs on another cluster: the control cluster's workflow-controller may neither \
             change nor delete it before the run has ended",
        ),
        passes_on(),
        validation(
            format!(
                "request.operation == 'DELETE' || !('{finalizer}' in variables.oldFinalizers) || \
                 '{finalizer}' in variables.finalizers"
            ),
            &format!(
                "argosy-controller removes the finalizer {finalizer} when the other cluster has released the \
                 run. If Argosy is gone for good, run `argosy release`"
            ),
        ),
    ]
}

/// CEL: the status is unchanged.
const STATUS_STAYS: &str = "(has(object.status) ? has(oldObject.status) && object.status == oldObject.status : !has(oldObject.status))";

/// `argo resume` and `argo node set` write the status, which belongs to the run: the webhook
/// restores it and records the verb. Without the webhook, the controller would restore it, and the
/// verb would be lost.
fn passes_on() -> Validation {
    let verbs = names::VERBS_ANNOTATION;
    validation(
        format!(
            "request.operation == 'DELETE' || {STATUS_STAYS} || ('{verbs}' in variables.annotations && \
             (!('{verbs}' in variables.oldAnnotations) || variables.annotations['{verbs}'] != variables.oldAnnotations['{verbs}']))"
        ),
        "the status of this Workflow is the status of its run on another cluster. Argosy's webhook, which \
         would pass this request on to the run, does not answer: try again when argosy-controller runs",
    )
}

fn policy(
    name: &str,
    operations: &[&str],
    selector: LabelSelector,
    conditions: Vec<MatchCondition>,
) -> ValidatingAdmissionPolicy {
    let rule = rule(workflow::GROUP, workflow::PLURAL, operations);
    policy_of(name, vec![rule], selector, conditions)
}

/// A rule for requests about objects of a kind.
pub(super) fn rule(group: &str, plural: &str, operations: &[&str]) -> NamedRuleWithOperations {
    NamedRuleWithOperations {
        api_groups: strings(&[group]),
        api_versions: strings(&["*"]),
        operations: strings(operations),
        resources: strings(&[plural]),
        scope: Some("Namespaced".to_owned()),
        resource_names: None,
    }
}

/// A policy with failurePolicy Fail.
pub(super) fn policy_of(
    name: &str,
    rules: Vec<NamedRuleWithOperations>,
    selector: LabelSelector,
    conditions: Vec<MatchCondition>,
) -> ValidatingAdmissionPolicy {
    ValidatingAdmissionPolicy {
        metadata: metadata(name),
        spec: Some(ValidatingAdmissionPolicySpec {
            failure_policy: Some("Fail".to_owned()),
            match_conditions: Some(conditions),
            match_constraints: Some(MatchResources {
                match_policy: Some("Equivalent".to_owned()),
                namespace_selector: Some(LabelSelector::default()),
                object_selector: Some(selector),
                resource_rules: Some(rules),
                exclude_resource_rules: None,
            }),
            ..ValidatingAdmissionPolicySpec::default()
        }),
        status: None,
    }
}

pub(super) fn validation(expression: String, message: &str) -> Validation {
    Validation {
        expression,
        message: Some(message.to_owned()),
        reason: Some("Forbidden".to_owned()),
        message_expression: None,
    }
}
