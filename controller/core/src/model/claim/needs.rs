//! The resources that a run reserves: first those that its specification tells, later perhaps those
//! that its pods request.
//!
//! A specification that is known in full tells the average over all levels of the run, which is the
//! better measure of what a cluster still has before it: the pods of one moment are a level that is
//! wider or narrower. Only pods show items that are computed during the run, and templates that only
//! the cluster has. So what is told before the run counts until its pods request more than it
//! explains. Not here: the estimate (`model::demand`), and the sum of reservations
//! (`policy::best_cluster`).

use std::sync::{Arc, LazyLock};

use crate::model::{amounts::Amounts, demand::Demand};

/// Maximum length of amounts in bytes, as text.
const LONGEST: usize = 512;

/// The resources of a run of which nothing is known. Most runs share them.
static UNKNOWN: LazyLock<Arc<Amounts>> = LazyLock::new(|| Arc::new(Demand::unknown().typical));

/// The resources that a run reserves, if more is known than that it has a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The reserved amounts.
    reserved: Arc<Amounts>,
    /// The amounts that the specification tells for its widest level. Absent once the pods have
    /// requested more.
    widest: Option<Amounts>,
}

impl Needs {
    /// The resources to store for a run of this demand.
    pub(crate) fn of(demand: &Demand) -> Option<Arc<Self>> {
        let needs = Self {
            reserved: Arc::new(demand.typical.clone()),
            widest: Some(demand.widest.clone()).filter(|widest| widest.to_string().len() <= LONGEST),
        };
        is_stored(&demand.typical).then(|| Arc::new(needs))
    }

    /// Reads the fields of a claim.
    pub(super) fn read(reserved: Option<&str>, widest: Option<&str>) -> Option<Arc<Self>> {
        let needs = Self {
            reserved: amounts(reserved)?,
            widest: amounts(widest).map(Arc::unwrap_or_clone),
        };
        Some(Arc::new(needs))
    }

    /// The fields of a claim.
    pub(super) fn to_texts(&self) -> (String, Option<String>) {
        let widest = self.widest.as_ref();
        (self.reserved.to_string(), widest.map(ToString::to_string))
    }

    /// The resources to store once a cluster has reported what the pods of the run request. Without
    /// pods, as between two steps, the known ones stay.
    pub(crate) fn once_told(known: Option<&Arc<Self>>, reported: Option<&str>) -> Option<Arc<Self>> {
        let Some(told) = amounts(reported) else {
            return known.cloned();
        };
        let explains = |widest: &Amounts| told.within(widest) == *told;
        if let Some(known) = known.filter(|known| known.widest.as_ref().is_some_and(explains)) {
            return Some(Arc::clone(known));
        }
        let needs = Self {
            reserved: told,
            widest: None,
        };
        is_stored(&needs.reserved).then(|| Arc::new(needs))
    }

    /// The amounts that a run reserves.
    pub(crate) fn reserved(known: Option<&Arc<Self>>) -> Arc<Amounts> {
        Arc::clone(known.map_or(&*UNKNOWN, |needs| &needs.reserved))
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
                "cpu=2,memory=1Gi,nvidia.com/gpu=1",
            ),
            // The items are computed during the run.
            (
                "{{inputs.parameters.n}}",
                "cpu=40,memory=20Gi",
                "cpu=40,memory=20Gi",
            ),
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
            [mean, mean, many, many, "cpu=2", "cpu=2"]
        );
    }
}
