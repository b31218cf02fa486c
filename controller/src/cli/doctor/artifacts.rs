//! Checks of the artifact repositories: requests to the control cluster's, and the agents' reports
//! about the others.

use argosy_api::ManagedCluster;
use kube::Client;

use super::{super::s3::verdict, finding::Judgment};
use crate::artifacts::{self, Problem, watchdog::CONTROL_CLUSTER};

/// Checks the control cluster's repository. Writes to it only if `writes` is true.
pub(super) async fn control(wds: &Client, namespace: &str, writes: bool) -> Judgment {
    if writes {
        let checked = artifacts::check(wds, namespace, CONTROL_CLUSTER).await;
        return judge(checked.map(|repository| format!("{repository} was written and read back")));
    }
    let looked = async {
        let bucket = artifacts::open(wds, namespace).await?;
        bucket.look().await?;
        Ok(format!(
            "{} answers (use --write to test writing, too)",
            bucket.repository()
        ))
    };
    judge(looked.await)
}

fn judge(looked: Result<String, Problem>) -> Judgment {
    match looked {
        Ok(message) => Judgment::ok(message),
        Err(problem @ Problem::NotConfigured(_)) => Judgment::failed(
            problem.to_string(),
            "configure artifactRepository in Argo's ConfigMap workflow-controller-configmap, with its Secret \
            in the same namespace",
        ),
        Err(Problem::Unreadable(message)) => Judgment::skipped(message).unanswered(),
        Err(problem @ Problem::Unreachable { .. }) => Judgment::failed(
            problem.to_string(),
            "check the address, the keys and the bucket, and if this machine can reach it (argosy s3 check \
            shows the reports of the agents)",
        ),
    }
}

/// Checks the reports of the agent and of the controller about a cluster's repository.
pub(super) fn member(cluster: &ManagedCluster) -> Judgment {
    match verdict(cluster) {
        Ok(message) => Judgment::ok(message),
        Err(message) => Judgment::failed(
            message,
            "configure the artifactRepository of the control cluster in the cluster's Argo, too; argosy s3 \
            check shows both",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::finding::Outcome, *};
    use crate::artifacts::Repository;

    #[test]
    fn what_is_to_be_done_depends_on_what_is_wrong_with_the_bucket() {
        let configured = judge(Err(Problem::NotConfigured("there is none".to_owned())));
        assert_eq!(configured.outcome, Outcome::Failed);
        assert!(
            configured.fix.starts_with("configure artifactRepository"),
            "{configured:?}"
        );
        let forbidden = judge(Err(Problem::Unreadable("forbidden".to_owned())));
        assert!(forbidden.is_unasked, "{forbidden:?}");
        let repository = Repository {
            endpoint: "http://s3:9000".to_owned(),
            bucket: "b".to_owned(),
            prefix: String::new(),
        };
        let away = judge(Err(Problem::Unreachable {
            repository,
            message: "timeout".to_owned(),
        }));
        assert_eq!(away.message, "http://s3:9000/b: timeout");
        assert!(away.fix.starts_with("check the address"), "{away:?}");
    }
}
