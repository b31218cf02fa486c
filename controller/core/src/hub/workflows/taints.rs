//! The taints by which OCM's placements exclude an unreachable or unavailable cluster.
//!
//! The rules are those of the taint controller of OCM's hub, for an ITS without that hub. Other
//! taints are left alone. Argosy's own placement does not read these taints: a Workflow waits for
//! its cluster.

use argosy_api::{managed_cluster::Taint, names};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The taints that a cluster with the condition `available` must have, or `None` if it has them
/// already.
pub(super) fn tainted(known: &[Taint], available: Option<&Condition>, now: Timestamp) -> Option<Vec<Taint>> {
    let wanted = match available.map(|condition| condition.status.as_str()) {
        Some("True") => None,
        Some("False") => Some(names::UNAVAILABLE_TAINT),
        _ => Some(names::UNREACHABLE_TAINT),
    };
    let unwanted = |taint: &Taint| {
        [names::UNAVAILABLE_TAINT, names::UNREACHABLE_TAINT]
            .iter()
            .any(|key| Some(*key) != wanted && is_ours(taint, key))
    };
    let mut taints: Vec<Taint> = known.iter().filter(|taint| !unwanted(taint)).cloned().collect();
    if let Some(key) = wanted
        && !taints.iter().any(|taint| is_ours(taint, key))
    {
        taints.push(Taint {
            key: key.to_owned(),
            effect: NO_SELECT.to_owned(),
            time_added: Some(Time(now)),
            ..Taint::default()
        });
    }
    (taints != known).then_some(taints)
}

const NO_SELECT: &str = "NoSelect";

/// A taint with the same key but another effect belongs to somebody else.
fn is_ours(taint: &Taint, key: &str) -> bool {
    taint.key == key && taint.value.is_empty() && taint.effect == NO_SELECT
}

#[cfg(test)]
mod tests {
    use argosy_api::conditions::condition;

    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_second(9).unwrap()
    }

    fn taint(key: &str) -> Taint {
        Taint {
            key: key.to_owned(),
            effect: NO_SELECT.to_owned(),
            time_added: Some(Time(now())),
            ..Taint::default()
        }
    }

    fn said(status: &str) -> Condition {
        let mut available = condition("ManagedClusterConditionAvailable", true, "Why", "because", now());
        status.clone_into(&mut available.status);
        available
    }

    #[test]
    fn the_taints_follow_the_availability_as_on_a_hub_of_ocm() {
        let (away, unwell) = (names::UNREACHABLE_TAINT, names::UNAVAILABLE_TAINT);
        let table = [
            (vec![], "", Some(vec![away])),
            (vec![], "Unknown", Some(vec![away])),
            (vec![], "False", Some(vec![unwell])),
            (vec![], "True", None),
            (vec![unwell], "Unknown", Some(vec![away])),
            (vec![away], "False", Some(vec![unwell])),
            (vec![away], "Unknown", None),
            (vec![unwell], "False", None),
            (vec![away, unwell], "True", Some(vec![])),
            (vec!["mine", away], "True", Some(vec!["mine"])),
        ];
        let taints = |keys: &Vec<&str>| keys.iter().map(|key| taint(key)).collect::<Vec<_>>();
        for (known, status, expected) in table {
            let available = (!status.is_empty()).then(|| said(status));
            assert_eq!(
                tainted(&taints(&known), available.as_ref(), now()),
                expected.as_ref().map(taints),
                "{known:?} {status}"
            );
        }
    }

    #[test]
    fn a_taint_of_that_key_with_another_effect_is_somebody_elses() {
        let other = Taint {
            effect: "PreferNoSelect".to_owned(),
            ..taint(names::UNREACHABLE_TAINT)
        };
        assert_eq!(
            tainted(std::slice::from_ref(&other), Some(&said("True")), now()),
            None
        );
        let both = vec![other.clone(), taint(names::UNREACHABLE_TAINT)];
        assert_eq!(tainted(&[other], None, now()), Some(both));
    }
}
