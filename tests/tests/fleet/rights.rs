//! Argosy has exactly the rights that it uses, according to the audit logs of the fleet's API
//! servers from the other tests. So these tests run last (`scripts/test.sh`). On an unused fleet,
//! most rights would count as unused.

use anyhow::Result;
use argosy_tests::fleet::{Fleet, Right, asked};

/// Roles of which only the rights for the users' kinds of objects are used.
const OF_USERS: [&str; 4] = [
    "argosy-controller-objects",
    "argosy-controller-aggregated",
    "argosy-agent-objects",
    "argosy-agent-aggregated",
];

/// Rights that a fleet may leave unused: role, verbs, resources, and the occasion of their use.
const SELDOM: [(&str, &[&str], &[&str], &str); 22] = [
    (
        "argosy-tunnel",
        &["get"],
        &["services/proxy"],
        "recorded when the tunnel ends, which may be later",
    ),
    (
        "extension-apiserver-authentication-reader",
        &["get"],
        &["configmaps"],
        "a role of Kubernetes; Argosy lists and watches the one object",
    ),
    (
        "argosy-controller-approver",
        &["approve"],
        &["signers"],
        "asked by an admission plugin",
    ),
    (
        "argosy-controller",
        &["update"],
        &["bindingpolicies/finalizers"],
        "asked by an admission plugin, where it is on",
    ),
    (
        "argosy-controller",
        &["create"],
        &["leases"],
        "asked once for each Lease, and by the first replica",
    ),
    (
        "argosy-agent",
        &["create"],
        &["leases"],
        "asked once for each Lease, and by the first replica",
    ),
    (
        "argosy-controller",
        &["get"],
        &["leases"],
        "a cluster is lost, or the own Lease may be",
    ),
    ("argosy-agent", &["get"], &["leases"], "the own Lease may be lost"),
    (
        "argosy-controller",
        &["create", "delete"],
        &["workflows"],
        "runs on every cluster",
    ),
    (
        "argosy-controller",
        &["create", "patch", "delete"],
        &["combinedstatuses"],
        "a policy has StatusCollectors",
    ),
    (
        "argosy-controller",
        &["patch"],
        &["statuscollectors/status"],
        "a StatusCollector is wrong",
    ),
    (
        "argosy-controller",
        &["create"],
        &["namespaces"],
        "a CombinedStatus of a cluster-scoped object",
    ),
    (
        "argosy-controller",
        &["get"],
        &[
            "bindings",
            "combinedstatuses",
            "manifestworks",
            "workflows",
            "workstatuses",
            "workflowtemplates",
            "clusterworkflowtemplates",
        ],
        "a creation found one; a cluster reports more than is kept, or a place that a template may name",
    ),
    (
        "argosy-controller",
        &["update"],
        &[
            "secrets",
            "mutatingwebhookconfigurations",
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
        ],
        "a renewal, an upgrade",
    ),
    (
        "argosy-controller",
        &["patch", "create"],
        &["events"],
        "a notice is repeated",
    ),
    (
        "argosy-controller-nodes",
        &["patch", "delete"],
        &["nodes"],
        "a cluster becomes unreachable, or leaves the fleet",
    ),
    (
        "argosy-controller-nodes",
        &["create"],
        &["leases"],
        "asked once for each Lease",
    ),
    (
        "argosy-agent",
        &["create"],
        &["events"],
        "a CronWorkflow is taken back",
    ),
    (
        "argosy-agent",
        &["get"],
        &[
            "appliedmanifestworks",
            "workflows",
            "workstatuses",
            "clusterworkflowtemplates",
        ],
        "a creation found one; a Workflow refers to one",
    ),
    (
        "argosy-agent",
        &["create"],
        &["namespaces"],
        "an object's namespace is not there",
    ),
    (
        "argosy-agent",
        &["create", "patch", "delete"],
        &["clusterclaims"],
        "OCM's own agent tells of the cluster",
    ),
    (
        "argosy-agent",
        &["delete", "patch"],
        &["appliedmanifestworks", "appliedmanifestworks/status"],
        "a day after the end; ManifestWorks of others",
    ),
];

fn needs_request(right: &Right) -> bool {
    let is_seldom = SELDOM.iter().any(|(role, verbs, resources, _)| {
        right.role == *role
            && verbs.contains(&right.verb.as_str())
            && resources.contains(&right.resource.as_str())
    });
    !is_seldom && !OF_USERS.contains(&right.role.as_str())
}

#[tokio::test]
#[ignore = "needs a fleet on which all other tests have run: scripts/test.sh"]
async fn every_right_of_argosy_has_been_used() -> Result<()> {
    let fleet = Fleet::open().await?;
    let (mut rights, mut used) = (Vec::new(), Vec::new());
    for cluster in fleet.clusters() {
        let asked = asked(&fleet.audit_log(cluster))?;
        let here = cluster.rights().await?;
        assert!(!here.is_empty(), "no roles on {}", cluster.name);
        let is_used = |right: &&Right| asked.iter().any(|asked| right.allows(asked));
        used.extend(here.iter().filter(is_used).map(ToString::to_string));
        rights.extend(here);
    }
    // A role that exists on several clusters counts as used if it is used on one of them.
    let mut unused: Vec<String> = rights
        .iter()
        .filter(|right| needs_request(right))
        .map(ToString::to_string)
        .filter(|right| !used.contains(right))
        .collect();
    unused.dedup();
    assert!(unused.is_empty(), "never used:\n{}", unused.join("\n"));
    Ok(())
}

#[tokio::test]
#[ignore = "needs a fleet on which all other tests have run: scripts/test.sh"]
async fn no_verb_was_refused_on_a_resource_of_which_argosy_may_use_another() -> Result<()> {
    let fleet = Fleet::open().await?;
    let mut refused = Vec::new();
    for cluster in fleet.clusters() {
        let rights = cluster.rights().await?;
        let lacking = asked(&fleet.audit_log(cluster))?
            .into_iter()
            .filter(|asked| asked.is_refused && rights.iter().any(|right| right.is_about(asked)))
            .filter(|asked| !rights.iter().any(|right| right.allows(asked)));
        refused.extend(lacking.map(|asked| format!("{}: {asked}", cluster.name)));
    }
    assert!(refused.is_empty(), "refused:\n{}", refused.join("\n"));
    Ok(())
}
