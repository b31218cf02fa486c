//! The resources that a run reserves: first those of its specification, later perhaps the requests of
//! its pods.
//!
//! The specification gives the average over all levels of the run. That is the better measure of the
//! rest of the run, because the pods of one moment belong to one level, which is wider or narrower. But
//! only pods show items that are computed during the run, and templates that only the cluster has. So
//! the specification counts unless the pods request more than it explains. Then the requests of the
//! pods count, but never less than the specification, because a member writes the report. For the same
//! reason they count only on the cluster that has reported them.
//! Not here: the estimate (`model::demand`), and the sum of reservations (`policy::best_cluster`).

use std::sync::{Arc, LazyLock};

use crate::model::{amounts::Amounts, demand::Demand};

/// Maximum length of amounts in bytes, as text.
const LONGEST: usize = 512;

/// The resources of a run of which nothing is known. Most runs share them.
static UNKNOWN: LazyLock<Arc<Amounts>> = LazyLock::new(|| Arc::new(Demand::unknown().typical));

/// The resources that a run reserves, if more is known than that it has a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The amounts of the specification. A run never reserves less, whatever its cluster reports.
    typical: Arc<Amounts>,
    /// The amounts that the specification tells for its widest level; `None` if it tells nothing.
    widest: Option<Amounts>,
    /// The amounts that it reserves because its pods request more than the specification tells.
    pods: Option<Arc<Amounts>>,
}

impl Needs {
    /// The resources to store for a run of this demand.
    pub(crate) fn of(demand: &Demand) -> Option<Arc<Self>> {
        let needs = Self {
            typical: Arc::new(demand.typical.clone()),
            widest: Some(demand.widest.clone()).filter(|widest| widest.to_string().len() <= LONGEST),
            pods: None,
        };
        is_stored(&demand.typical).then(|| Arc::new(needs))
    }

    /// Reads the fields of a claim.
    pub(super) fn read(typical: Option<&str>, widest: Option<&str>, pods: Option<&str>) -> Option<Arc<Self>> {
        let (typical, pods) = (amounts(typical), amounts(pods));
        if typical.is_none() && pods.is_none() {
            return None;
        }
        let needs = Self {
            typical: typical.unwrap_or_else(|| Arc::clone(&UNKNOWN)),
            widest: amounts(widest).map(Arc::unwrap_or_clone),
            pods,
        };
        Some(Arc::new(needs))
    }

    /// The fields of a claim: `needs`, `widest` and `pods`.
    pub(super) fn to_texts(&self) -> [Option<String>; 3] {
        let typical = Some(&*self.typical).filter(|typical| is_stored(typical));
        [typical, self.widest.as_ref(), self.pods.as_deref()].map(|amounts| amounts.map(ToString::to_string))
    }

    /// The resources to store once a cluster has reported what the pods of the run request. Without
    /// pods, as between two steps, the known ones stay.
    pub(crate) fn once_told(known: Option<&Arc<Self>>, reported: Option<&str>) -> Option<Arc<Self>> {
        let Some(told) = amounts(reported) else {
            return known.cloned();
        };
        let typical = known.map_or(&*UNKNOWN, |known| &known.typical);
        let widest = known.and_then(|known| known.widest.as_ref());
        let most = widest.unwrap_or(typical);
        let pods = (told.within(most) != *told).then(|| {
            let mut pods = Arc::unwrap_or_clone(told);
            pods.raise(typical);
            Arc::new(pods)
        });
        let pods = pods.filter(|pods| pods.to_string().len() <= LONGEST);
        if known.map(|known| &known.pods) == Some(&pods) || (known.is_none() && pods.is_none()) {
            return known.cloned();
        }
        let needs = Self {
            typical: Arc::clone(typical),
            widest: widest.cloned(),
            pods,
        };
        (needs.pods.is_some() || is_stored(typical)).then(|| Arc::new(needs))
    }

    /// The resources to store for a rerun on another cluster: those of the specification.
    pub(crate) fn elsewhere(known: Option<&Arc<Self>>) -> Option<Arc<Self>> {
        let known = known?;
        if known.pods.is_none() {
            return Some(Arc::clone(known));
        }
        let needs = Self {
            pods: None,
            ..Self::clone(known)
        };
        is_stored(&needs.typical).then(|| Arc::new(needs))
    }

    /// The amounts that a run reserves.
    pub(crate) fn reserved(known: Option<&Arc<Self>>) -> Arc<Amounts> {
        let reserved = known.map(|needs| needs.pods.as_ref().unwrap_or(&needs.typical));
        Arc::clone(reserved.unwrap_or(&UNKNOWN))
    }
}

/// Reads amounts in a claim, also in the report of a cluster.
pub(crate) fn amounts(text: Option<&str>) -> Option<Arc<Amounts>> {
    let text = text.filter(|text| text.len() <= LONGEST)?;
    Amounts::parse(text).ok().map(Arc::new)
}

/// True if these amounts are stored: they are not those of a run of which nothing is known.
fn is_stored(amounts: &Amounts) -> bool {
    *amounts != **UNKNOWN && amounts.to_string().len() <= LONGEST
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::demand::Referred;

    /// The amounts after each report, of a run with two levels: one pod, then `width` pods.
    fn reserved(width: &str, reports: &[Option<&str>]) -> Vec<String> {
        let container = json!({ "resources": { "requests": { "cpu": "2", "memory": "1Gi" } } });
        let pods = json!({ "name": "many", "template": "pod", "withSequence": { "count": width } });
        let spec = json!({ "entrypoint": "main", "templates": [
            { "name": "main", "steps": [[{ "name": "one", "template": "pod" }], [pods]] },
            { "name": "pod", "container": container },
        ] });
        let mut known = Needs::of(&Demand::of(&spec, &Referred::default()));
        let after = reports.iter().map(|report| {
            known = Needs::once_told(known.as_ref(), *report);
            Needs::reserved(known.as_ref()).to_string()
        });
        after.collect()
    }

    #[test]
    fn the_specification_counts_until_pods_request_more_than_it_explains() {
        let mean = "cpu=4,memory=2Gi";
        for (width, report, expected) in [
            ("3", "cpu=2,memory=1Gi", mean),
            ("3", "cpu=6,memory=3Gi", mean),
            ("3", "cpu=6001m,memory=3Gi", "cpu=6001m,memory=3Gi"),
            (
                "3",
                "cpu=2,memory=1Gi,nvidia.com/gpu=1",
                "cpu=4,memory=2Gi,nvidia.com/gpu=1",
            ),
            // The items are computed during the run.
            (
                "{{inputs.parameters.n}}",
                "cpu=40,memory=20Gi",
                "cpu=40,memory=20Gi",
            ),
            // A cluster cannot lower what the specification tells.
            ("3", "cpu=0", mean),
            ("3", "cpu=0,nvidia.com/gpu=1", "cpu=4,memory=2Gi,nvidia.com/gpu=1"),
        ] {
            assert_eq!(reserved(width, &[Some(report)]), [expected], "{width} {report}");
        }
        let many = "cpu=40,memory=20Gi";
        assert_eq!(
            reserved(
                "3",
                &[
                    None,
                    Some("cpu=2"),
                    Some(many),
                    None,
                    Some("cpu=2"),
                    Some("cpu=much")
                ]
            ),
            [mean, mean, many, many, mean, mean]
        );
    }
}
