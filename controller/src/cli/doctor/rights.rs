//! Checks the rights of an agent at the hub with access reviews of the API server, so independent
//! of roles and bindings.

use argosy_api::names;
use argosy_core::Failure;
use futures::future::try_join_all;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::{Api, Client, api::PostParams};

use super::finding::Judgment;
use crate::runtime::requests::call;

/// Verb, group and resource of a right.
type Right = (&'static str, &'static str, &'static str);

const WORKS: &str = "work.open-cluster-management.io";
const KUBESTELLAR: &str = "control.kubestellar.io";
const CLUSTERS: &str = "cluster.open-cluster-management.io";
const LEASES: &str = "coordination.k8s.io";

/// Rights that every agent needs in its mailbox. The rest of its role is for OCM's clients.
const IN_MAILBOX: [Right; 10] = [
    ("list", WORKS, "manifestworks"),
    ("watch", WORKS, "manifestworks"),
    ("patch", WORKS, "manifestworks"),
    ("patch", WORKS, "manifestworks/status"),
    ("list", KUBESTELLAR, "workstatuses"),
    ("watch", KUBESTELLAR, "workstatuses"),
    ("create", KUBESTELLAR, "workstatuses"),
    ("patch", KUBESTELLAR, "workstatuses"),
    ("create", LEASES, "leases"),
    ("patch", LEASES, "leases"),
];

/// Rights that every agent needs on its own ManagedCluster.
const ON_CLUSTER: [Right; 2] = [
    ("get", CLUSTERS, "managedclusters"),
    ("patch", CLUSTERS, "managedclusters/status"),
];

/// A user of an API server.
struct Subject {
    user: String,
    groups: Vec<String>,
}

impl Subject {
    fn account(namespace: &str, name: &str) -> Self {
        Self {
            user: format!("system:serviceaccount:{namespace}:{name}"),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".to_owned(),
            ],
        }
    }

    fn certificate(cluster: &str) -> Self {
        Self {
            user: format!("{}{cluster}", names::AGENT_USER_PREFIX),
            groups: vec![names::AGENTS_GROUP.to_owned(), "system:authenticated".to_owned()],
        }
    }
}

/// Returns the possible users of an agent. A hosted agent uses the account of the controller in
/// `namespace`.
fn subjects(cluster: &str, namespace: &str, is_hosted: bool) -> Vec<Subject> {
    if is_hosted {
        return vec![Subject::account(namespace, names::CONTROLLER)];
    }
    vec![
        Subject::certificate(cluster),
        Subject::account(cluster, names::AGENT_ACCOUNT),
    ]
}

/// Checks that a possible user of the agent has every right.
pub(super) async fn check(its: &Client, cluster: &str, namespace: &str, is_hosted: bool) -> Judgment {
    let mut lacks = Vec::new();
    for subject in subjects(cluster, namespace, is_hosted) {
        match lacking(its, cluster, &subject).await {
            Ok(lacking) => lacks.push((subject.user, lacking)),
            Err(failure) => {
                return Judgment::unasked(
                    "check the permissions of the agent (SubjectAccessReview)",
                    &failure,
                );
            }
        }
    }
    judge(&lacks, is_hosted)
}

async fn lacking(its: &Client, cluster: &str, subject: &Subject) -> Result<Vec<String>, Failure> {
    let in_mailbox = IN_MAILBOX.map(|right| (right, Some(cluster), None));
    let on_cluster = ON_CLUSTER.map(|right| (right, None, Some(cluster)));
    let asked = in_mailbox
        .into_iter()
        .chain(on_cluster)
        .map(async |(right, namespace, name)| {
            let (verb, _, resource) = right;
            let is_allowed = may(its, subject, right, namespace, name).await?;
            Ok((!is_allowed).then(|| format!("{verb} {resource}")))
        });
    let lacking: Vec<Option<String>> = try_join_all(asked).await?;
    Ok(lacking.into_iter().flatten().collect())
}

async fn may(
    its: &Client,
    subject: &Subject,
    (verb, group, resource): Right,
    namespace: Option<&str>,
    name: Option<&str>,
) -> Result<bool, Failure> {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let asked = ResourceAttributes {
        group: Some(group.to_owned()),
        resource: Some(resource.to_owned()),
        subresource: Some(subresource.to_owned()).filter(|subresource| !subresource.is_empty()),
        verb: Some(verb.to_owned()),
        namespace: namespace.map(ToOwned::to_owned),
        name: name.map(ToOwned::to_owned),
        ..ResourceAttributes::default()
    };
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(subject.user.clone()),
            groups: Some(subject.groups.clone()),
            resource_attributes: Some(asked),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let api: Api<SubjectAccessReview> = Api::all(its.clone());
    let answer = call(api.create(&PostParams::default(), &review)).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// Judges the user with the fewest missing rights, because that is the intended one.
fn judge(lacks: &[(String, Vec<String>)], is_hosted: bool) -> Judgment {
    match lacks.iter().min_by_key(|(_, lacking)| lacking.len()) {
        Some((user, lacking)) if lacking.is_empty() => {
            Judgment::ok(format!("{user} has all permissions of an agent on the hub"))
        }
        Some((user, lacking)) => Judgment::failed(
            format!("{user} may not {}", lacking.join(", ")),
            if is_hosted {
                "list the cluster with mode push in the values of the chart argosy, which creates the role \
                and its binding; on a separate ITS, they must exist there"
            } else {
                "argosy cluster join NAME creates the role and its binding, and so does the chart argosy, if \
                its values list the cluster; on a separate ITS, they must exist there"
            },
        ),
        None => Judgment::skipped("no user to check"),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::finding::Outcome, *};

    #[test]
    fn an_agent_is_whoever_of_its_identities_lacks_least() {
        let lacks = |user: &str, lacking: &[&str]| {
            (
                user.to_owned(),
                lacking
                    .iter()
                    .map(|right| (*right).to_owned())
                    .collect::<Vec<_>>(),
            )
        };
        let token = judge(
            &[lacks("certificate", &["list a", "get b"]), lacks("token", &[])],
            false,
        );
        assert_eq!(token.outcome, Outcome::Ok);
        assert!(token.message.starts_with("token has all"), "{token:?}");
        let lacking = [
            lacks("certificate", &["list a", "get b"]),
            lacks("token", &["get b"]),
        ];
        let none = judge(&lacking, false);
        assert_eq!(
            (none.outcome, none.message.as_str()),
            (Outcome::Failed, "token may not get b")
        );
        assert!(none.fix.contains("cluster join"), "{none:?}");
        // `argosy cluster join` would create the rights of an agent that does not exist.
        let hosted = judge(&lacking, true);
        assert!(!hosted.fix.contains("cluster join"), "{hosted:?}");
    }

    #[test]
    fn the_agent_of_a_hosted_cluster_is_the_controller() {
        let users = |is_hosted| {
            subjects("one", "argosy", is_hosted)
                .into_iter()
                .map(|subject| subject.user)
        };
        assert_eq!(
            users(true).collect::<Vec<_>>(),
            ["system:serviceaccount:argosy:argosy-controller"]
        );
        assert_eq!(
            users(false).collect::<Vec<_>>(),
            ["argosy.dev:agent:one", "system:serviceaccount:one:argosy-agent"]
        );
    }
}
