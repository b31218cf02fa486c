//! The labels and annotations that a cluster may return to the control cluster.
//!
//! Both sides apply this filter: the agent, so that it reports no others, and the controller,
//! because a cluster may report anything. Not here: the rule that existing keys are not overwritten
//! (`hub::workflows::claim`).

use argosy_api::names;

/// Key domains, with their subdomains, that programs of the control cluster interpret: those of
/// Argosy and KubeStellar, and those by which `kubectl apply` and Argo CD identify their objects,
/// which they would then change or delete.
const DOMAINS: [&str; 4] = [
    "argosy.dev",
    "kubestellar.io",
    "kubectl.kubernetes.io",
    "argocd.argoproj.io",
];

/// Other keys. Argo CD identifies its objects by the first one by default. With the others, Argo
/// holds, counts, archives, resumes or skips a Workflow.
const KEYS: [&str; 8] = [
    "app.kubernetes.io/instance",
    names::ARGO_COMPLETED_LABEL,
    names::ARGO_PHASE_LABEL,
    names::ARGO_ARCHIVING_LABEL,
    names::ARGO_INSTANCE_LABEL,
    names::ARGO_LAST_SEEN_ANNOTATION,
    names::ARGO_CRON_LABEL,
    names::ARGO_RESUBMITTED_LABEL,
];

/// True if the control cluster may show this label or annotation of a run.
pub(crate) fn may_return(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let is_theirs = DOMAINS.iter().any(|of| {
        let below = domain.strip_suffix(of);
        below.is_some_and(|below| below.is_empty() || below.ends_with('.'))
    });
    !is_theirs && !KEYS.contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_brings_back_nothing_that_programs_of_the_control_cluster_go_by() {
        for key in [
            "argosy.dev/claim",
            "argosy.dev/cluster",
            "kubestellar.io/cluster",
            "managed-by.kubestellar.io/singletonstatus",
            "control.kubestellar.io/expand-templates",
            "kubectl.kubernetes.io/last-applied-configuration",
            "argocd.argoproj.io/tracking-id",
            "app.kubernetes.io/instance",
            "workflows.argoproj.io/completed",
            "workflows.argoproj.io/phase",
            "workflows.argoproj.io/workflow-archiving-status",
            "workflows.argoproj.io/controller-instanceid",
            "workflows.argoproj.io/last-seen-version",
            "workflows.argoproj.io/cron-workflow",
            "workflows.argoproj.io/resubmitted-from-workflow",
        ] {
            assert!(!may_return(key), "{key}");
        }
    }

    #[test]
    fn a_cluster_brings_back_what_argo_and_the_run_have_added() {
        for key in [
            "team",
            "app.kubernetes.io/name",
            "workflows.argoproj.io/pod-name-format",
            "workflows.argoproj.io/cluster-workflow-template",
            "notargosy.dev/claim",
            "argosy.dev",
        ] {
            assert!(may_return(key), "{key}");
        }
    }
}
