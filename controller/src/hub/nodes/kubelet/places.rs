//! Limits for everybody who asks: streams in all, of one cluster, and of one namespace of a cluster,
//! and checks of one account at a time, so that nobody takes the room of all others.
//!
//! Nobody waits for a place. Not here: the limit of a tunnel, which the agent knows too
//! (`runtime::tunnel`).

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, PoisonError},
};

use argosy_core::ClusterName;

use super::account::Account;

/// Maximum number of logs and sessions that are open at a time, of all clusters.
const STREAMS: usize = 1024;

/// Maximum number of them of one cluster, its agent hosted or not.
const OF_CLUSTER: usize = 64;

/// Maximum number of them in one namespace of a cluster: more than the shadow pods of one Workflow, all
/// of whose logs may be followed at a time.
const OF_NAMESPACE: usize = 56;

/// Maximum number of requests of one account that are checked at a time. All users of an API server
/// are one account.
const CHECKS: usize = 64;

/// Counts by key. Clones share them.
struct Counts<K>(Arc<Mutex<HashMap<K, usize>>>);

impl<K> Clone for Counts<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

/// A place of a key. A drop frees it.
struct Taken<K: Eq + Hash> {
    counts: Counts<K>,
    key: K,
}

impl<K: Clone + Eq + Hash> Counts<K> {
    /// Takes a place; `None` if all `most` are taken.
    fn take(&self, key: &K, most: usize) -> Option<Taken<K>> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(key.clone()).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        drop(counts);
        Some(Taken {
            counts: self.clone(),
            key: key.clone(),
        })
    }
}

impl<K: Eq + Hash> Drop for Taken<K> {
    fn drop(&mut self) {
        let mut counts = self.counts.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

/// All places. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Places {
    all: Counts<()>,
    clusters: Counts<ClusterName>,
    namespaces: Counts<(ClusterName, String)>,
    checks: Counts<Account>,
}

/// The place of a log or session. A drop frees it.
#[expect(dead_code, reason = "it is only dropped")]
pub(super) struct Place(Taken<()>, Taken<ClusterName>, Taken<(ClusterName, String)>);

/// The place of a check. A drop frees it.
#[expect(dead_code, reason = "it is only dropped")]
pub(super) struct Check(Taken<Account>);

/// All places are taken, as a user reads it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Full(String);

impl Full {
    fn of(most: usize, kind: &str) -> Self {
        Self(format!(
            "{most} logs and sessions of {kind} are open at the moment; close some and try again"
        ))
    }
}

impl Places {
    /// A place for a log or session of a pod in a namespace of a cluster.
    pub(super) fn take(&self, cluster: &ClusterName, namespace: &str) -> Result<Place, Full> {
        let all = self.all.take(&(), STREAMS);
        let all = all.ok_or_else(|| Full::of(STREAMS, "other clusters"))?;
        let of_cluster = self.clusters.take(cluster, OF_CLUSTER);
        let of_cluster = of_cluster.ok_or_else(|| Full::of(OF_CLUSTER, &format!("cluster {cluster}")))?;
        let key = (cluster.clone(), namespace.to_owned());
        let of_namespace = self.namespaces.take(&key, OF_NAMESPACE);
        let of_namespace = of_namespace.ok_or_else(|| {
            let kind = format!("namespace {namespace} of cluster {cluster}");
            Full::of(OF_NAMESPACE, &kind)
        })?;
        Ok(Place(all, of_cluster, of_namespace))
    }

    /// A place for the check of a request of `account`.
    pub(super) fn check(&self, account: &Account) -> Result<Check, Full> {
        let taken = self.checks.take(account, CHECKS);
        taken.map(Check).ok_or_else(|| {
            let user = &account.user;
            Full(format!(
                "{CHECKS} requests of {user} are checked at the moment; try again"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal<T>(result: Result<T, Full>) -> String {
        result.err().map(|full| full.to_string()).unwrap_or_default()
    }

    #[test]
    fn no_namespace_takes_all_places_of_a_cluster_and_no_cluster_all_places() {
        let (places, cluster) = (Places::default(), ClusterName::from("cluster1"));
        let mut taken = Vec::new();
        for (namespace, most, refused) in [
            ("a", OF_NAMESPACE, "of namespace"),
            ("b", OF_CLUSTER - OF_NAMESPACE, "of cluster"),
        ] {
            for _ in 0..most {
                taken.push(places.take(&cluster, namespace).ok().unwrap());
            }
            let text = refusal(places.take(&cluster, namespace));
            assert!(text.contains(refused), "{text}");
        }
        let text = refusal(places.take(&cluster, "e"));
        assert!(
            text.starts_with("64 logs and sessions of cluster cluster1"),
            "{text}"
        );
        assert!(places.take(&"cluster2".into(), "a").is_ok());
        taken.pop();
        assert!(places.take(&cluster, "e").is_ok());
    }

    #[test]
    fn a_place_is_free_again_after_a_refusal_and_nothing_of_it_is_remembered() {
        let (places, cluster) = (Places::default(), ClusterName::from("cluster1"));
        let taken: Vec<_> = (0..OF_NAMESPACE).map(|_| places.take(&cluster, "a")).collect();
        assert!(places.take(&cluster, "a").is_err());
        drop(taken);
        assert!(places.all.0.lock().unwrap().is_empty());
        assert!(places.clusters.0.lock().unwrap().is_empty());
        assert!(places.namespaces.0.lock().unwrap().is_empty());
    }

    #[test]
    fn an_account_that_asks_too_much_at_a_time_delays_no_other() {
        let places = Places::default();
        let account = |user: &str| Account {
            user: user.to_owned(),
            groups: Vec::new(),
        };
        let taken: Vec<_> = (0..CHECKS).map(|_| places.check(&account("agent"))).collect();
        assert!(refusal(places.check(&account("agent"))).contains("of agent are checked"));
        assert!(places.check(&account("kube-apiserver")).is_ok());
        drop(taken);
        assert!(places.check(&account("agent")).is_ok());
    }
}
