//! The artifact repositories: the control cluster's, which is asked, and the others, of which their agents tell.

use argosy_api::ManagedCluster;
use kube::Client;

use super::{super::s3::verdict, finding::Judgement};
use crate::artifacts::{self, Problem, watchdog::CONTROL_CLUSTER};

/// Looks at the control cluster's, without writing unless `writes` says so.
pub(super) async fn control(wds: &Client, namespace: &str, writes: bool) -> Judgement {
    if writes {
        let checked = artifacts::check(wds, namespace, CONTROL_CLUSTER).await;
        return judge(checked.map(|repository| format!("{repository} was written and read back")));
    }
    let looked = async {
        let bucket = artifacts::open(wds, namespace).await?;
        bucket.look().await?;
        Ok(format!(
            "{} answers (--write tries to write, too)",
            bucket.repository()
        ))
    };
    judge(looked.await)
}

fn judge(looked: Result<String, Problem>) -> Judgement {
    match looked {
        Ok(message) => Judgement::ok(message),
        Err(problem @ Problem::NotConfigured(_)) => Judgement::failed(
            problem.to_string(),
            "configure artifactRepository in Argo's ConfigMap workflow-controller-configmap, with its Secret beside it",
        ),
        Err(Problem::Unreadable(message)) => Judgement::skipped(message).unanswered(),
        Err(problem @ Problem::Unreachable { .. }) => Judgement::failed(
            problem.to_string(),
            "look at address, keys and bucket; is it reachable from here? (the controller's own look is argosy s3 check)",
        ),
    }
}

/// Looks at what the agent and the controller say of a cluster's.
pub(super) fn member(cluster: &ManagedCluster) -> Judgement {
    match verdict(cluster) {
        Ok(message) => Judgement::ok(message),
        Err(message) => Judgement::failed(
            message,
            "give the cluster's Argo the artifactRepository of the control cluster; argosy s3 check shows both",
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
            configured.mend.starts_with("configure artifactRepository"),
            "{configured:?}"
        );
        let forbidden = judge(Err(Problem::Unreadable("forbidden".to_owned())));
        assert!(forbidden.is_unasked, "{forbidden:?}");
        let repository = Repository {
            endpoint: "http://s3:9000".to_owned(),
            bucket: "b".to_owned(),
        };
        let away = judge(Err(Problem::Unreachable {
            repository,
            message: "timeout".to_owned(),
        }));
        assert_eq!(away.message, "http://s3:9000/b: timeout");
        assert!(away.mend.starts_with("look at address"), "{away:?}");
    }
}
