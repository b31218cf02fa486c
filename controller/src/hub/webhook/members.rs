//! The admission policy of the ITS that limits a member of the fleet to the writes of its agent:
//! finalizers and status of ManifestWorks, reports under their own names, one Lease, and the facts on its
//! ManagedCluster, but not the conditions by which the hub says that it is accepted and reachable.
//!
//! RBAC roles restrict namespaces and kinds, but neither fields nor names. Without the policy, an
//! agent's credential suffices to relabel a ManifestWork and to influence decisions about the
//! Workflows of others. Not here: the content of a status, which a member may invent for its own
//! runs.

use argosy_api::{ManagedCluster, ManifestWork, WorkStatus, conditions::managed_cluster, names};
use k8s_openapi::{
    api::{
        admissionregistration::v1::{
            NamedRuleWithOperations, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, Validation,
            Variable,
        },
        coordination::v1::Lease,
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::Resource;

use super::{
    MEMBERS_POLICY,
    admission_policies::{binding, policy_of, rule, validation, variable, variables},
    configuration::condition,
};

/// Builds the policy and its binding.
pub fn members() -> (ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding) {
    let operations = ["CREATE", "UPDATE"];
    let rules = vec![
        rule(&ManifestWork::group(&()), &ManifestWork::plural(&()), &operations),
        rule(&WorkStatus::group(&()), &WorkStatus::plural(&()), &operations),
        rule(&Lease::group(&()), &Lease::plural(&()), &operations),
        NamedRuleWithOperations {
            scope: Some("Cluster".to_owned()),
            ..rule(
                &ManagedCluster::group(&()),
                &format!("{}/status", ManagedCluster::plural(&())),
                &["UPDATE"],
            )
        },
    ];
    let conditions = vec![condition("of-an-agent", is_agent())];
    let mut policy = policy_of(MEMBERS_POLICY, rules, LabelSelector::default(), conditions);
    if let Some(spec) = &mut policy.spec {
        let owners = |name: &str, object: &str| variable(name, object, "ownerReferences", "[]");
        let mut variables = variables();
        variables.extend([owners("owners", "object"), owners("oldOwners", "oldObject")]);
        variables.extend([of_hub("ofHub", "object"), of_hub("oldOfHub", "oldObject")]);
        spec.variables = Some(variables);
        let mut validations = work_validations();
        validations.extend(report_validations());
        validations.extend(other_validations());
        spec.validations = Some(validations);
    }
    (policy, binding(MEMBERS_POLICY))
}

/// Renders both as YAML, for the chart.
pub fn members_yaml() -> anyhow::Result<String> {
    let (policy, binding) = members();
    let documents = [
        serde_saphyr::to_string(&policy)?,
        serde_saphyr::to_string(&binding)?,
    ];
    Ok(documents.join("---\n"))
}

/// A CEL variable with the conditions of a ManagedCluster that only the hub writes.
fn of_hub(name: &str, object: &str) -> Variable {
    let (available, accepted) = (managed_cluster::AVAILABLE, managed_cluster::HUB_ACCEPTED);
    Variable {
        name: name.to_owned(),
        expression: format!(
            "{object} != null && has({object}.status) && has({object}.status.conditions) ? \
             {object}.status.conditions.filter(known, known.type in ['{available}', '{accepted}']) : []"
        ),
    }
}

/// CEL: an agent makes the request, with a certificate or with the token of its account in its
/// mailbox, which has the name of its ManagedCluster.
fn is_agent() -> String {
    format!(
        "(has(request.userInfo.groups) && '{group}' in request.userInfo.groups) || \
         request.userInfo.username == 'system:serviceaccount:' + \
         (request.resource.resource == '{clusters}' ? request.name : request.namespace) + ':{account}'",
        clusters = ManagedCluster::plural(&()),
        group = names::AGENTS_GROUP,
        account = names::AGENT_ACCOUNT,
    )
}

/// CEL: the request is about another kind, or `expression` is true.
fn of_kind(plural: &str, expression: &str) -> String {
    format!("request.resource.resource != '{plural}' || ({expression})")
}

fn work_validations() -> Vec<Validation> {
    let works = ManifestWork::plural(&());
    let (ours, ocms) = (names::AGENT_FINALIZER, names::MANIFEST_WORK_FINALIZER);
    vec![
        validation(
            of_kind(
                &works,
                "request.operation == 'UPDATE' && variables.labels == variables.oldLabels && \
                 variables.annotations == variables.oldAnnotations && variables.owners == variables.oldOwners && \
                 has(object.spec) == has(oldObject.spec) && (!has(object.spec) || object.spec == oldObject.spec)",
            ),
            "an agent may change only the finalizers and the status of a ManifestWork",
        ),
        validation(
            of_kind(
                &works,
                &format!(
                    "variables.finalizers.all(name, name in variables.oldFinalizers || name == '{ocms}') && \
                     variables.oldFinalizers.all(name, name in variables.finalizers || name in ['{ours}', '{ocms}'])"
                ),
            ),
            &format!(
                "an agent may change only these finalizers of a ManifestWork: it may remove {ours}, and may \
                add or remove {ocms}"
            ),
        ),
    ]
}

fn report_validations() -> Vec<Validation> {
    let reports = WorkStatus::plural(&());
    let labels = format!("['{}', '{}']", names::ORIGIN_UID_LABEL, names::OBJECT_UID_LABEL);
    vec![
        validation(
            of_kind(
                &reports,
                &format!(
                    "{labels}.exists_one(label, label in variables.labels) && {labels}.all(label, \
                     !(label in variables.labels) || object.metadata.name == '{prefix}' + variables.labels[label])",
                    prefix = names::WORK_PREFIX,
                ),
            ),
            &format!(
                "a WorkStatus describes one object: it must have either the label {} or the label {}, and \
                its name must be {} followed by the value of that label",
                names::ORIGIN_UID_LABEL,
                names::OBJECT_UID_LABEL,
                names::WORK_PREFIX,
            ),
        ),
        validation(
            of_kind(
                &reports,
                &format!(
                    "{labels}.all(label, !(label in variables.oldLabels) || (label in variables.labels && \
                     variables.labels[label] == variables.oldLabels[label]))"
                ),
            ),
            "the label of a WorkStatus that identifies its object must not be changed",
        ),
    ]
}

/// Validations of the Lease and of owner references. If ITS and control cluster are one API server,
/// the control cluster's agent may have its own namespace there, with the Lease of its leader
/// election.
fn other_validations() -> Vec<Validation> {
    let (lease, mailbox) = (names::CLUSTER_LEASE, names::OCM_CLUSTER_LABEL);
    vec![
        validation(
            of_kind(
                &Lease::plural(&()),
                &format!(
                    "object.metadata.name == '{lease}' || !has(namespaceObject.metadata.labels) || \
                     !('{mailbox}' in namespaceObject.metadata.labels)"
                ),
            ),
            &format!("in its mailbox, an agent may write only the Lease {lease}"),
        ),
        validation(
            format!(
                "request.resource.resource == '{works}' || (variables.finalizers == variables.oldFinalizers && \
                 variables.owners == variables.oldOwners)",
                works = ManifestWork::plural(&()),
            ),
            "an agent may not change finalizers or owners of its reports and its Lease",
        ),
        validation(
            of_kind(
                &ManagedCluster::plural(&()),
                "variables.ofHub == variables.oldOfHub",
            ),
            &format!(
                "an agent may not change the conditions {} and {} of its ManagedCluster",
                managed_cluster::AVAILABLE,
                managed_cluster::HUB_ACCEPTED,
            ),
        ),
    ]
}
