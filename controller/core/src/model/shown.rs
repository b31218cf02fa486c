//! The pods of a Workflow that are shown on the control cluster: the policy annotation
//! [`names::PODS_ANNOTATION`].
//!
//! Not here: the pods themselves (`hub::shadow_pods`).

use std::collections::BTreeMap;

use argosy_api::names;

/// The pods of a Workflow that are shown, from none to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shown {
    /// None.
    Off,
    /// Those of a Workflow that somebody watches.
    Asked,
    /// Also those that have run for ten seconds.
    Long,
    /// All that run.
    All,
}

impl Shown {
    /// Parses the value of the annotation.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "off" => Self::Off,
            "asked" => Self::Asked,
            "long" => Self::Long,
            "all" => Self::All,
            _ => return None,
        })
    }
}

/// Returns the pods that a policy with these annotations shows, if it says so.
///
/// # Errors
///
/// The error in the annotations, as a sentence for the policy's status.
pub(crate) fn asked(annotations: Option<&BTreeMap<String, String>>) -> Result<Option<Shown>, String> {
    let Some(value) = annotations.and_then(|annotations| annotations.get(names::PODS_ANNOTATION)) else {
        return Ok(None);
    };
    Shown::parse(value).map(Some).ok_or_else(|| {
        format!(
            "annotation {}: {value} is not known; the values are off, asked, long and all",
            names::PODS_ANNOTATION
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_value_is_an_error_that_names_the_known_ones() {
        let annotated = |value: &str| BTreeMap::from([(names::PODS_ANNOTATION.to_owned(), value.to_owned())]);
        assert_eq!(asked(None), Ok(None));
        assert_eq!(asked(Some(&BTreeMap::new())), Ok(None));
        for (value, shown) in [
            ("off", Shown::Off),
            ("asked", Shown::Asked),
            ("long", Shown::Long),
            ("all", Shown::All),
        ] {
            assert_eq!(asked(Some(&annotated(value))), Ok(Some(shown)));
        }
        let error = asked(Some(&annotated("some"))).unwrap_err();
        assert!(
            error.contains("some is not known") && error.contains("off, asked, long and all"),
            "{error}"
        );
        assert!(Shown::All > Shown::Long && Shown::Asked > Shown::Off);
    }
}
