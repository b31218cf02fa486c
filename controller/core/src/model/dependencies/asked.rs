//! The kinds of dependencies that a policy sends to the clusters of its Workflows: the policy
//! annotation [`names::DEPENDENCIES_ANNOTATION`].
//!
//! Not here: the objects (`hub::objects`).

use std::{collections::BTreeMap, fmt};

use argosy_api::names;

use super::DependencyKind;

/// A set of kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asked(u8);

/// The values of the annotation, each with its kinds. PersistentVolumeClaims have none: the copy of
/// a claim would be an empty volume.
const VALUES: [(&str, &[DependencyKind]); 4] = [
    (
        "templates",
        &[
            DependencyKind::WorkflowTemplate,
            DependencyKind::ClusterWorkflowTemplate,
        ],
    ),
    ("configmaps", &[DependencyKind::ConfigMap]),
    ("secrets", &[DependencyKind::Secret]),
    ("serviceaccounts", &[DependencyKind::ServiceAccount]),
];

impl Asked {
    /// The kinds that a policy with these annotations sends.
    ///
    /// # Errors
    ///
    /// The error in the annotations, as a sentence for the policy's status.
    pub(crate) fn of(annotations: Option<&BTreeMap<String, String>>) -> Result<Self, String> {
        let text = annotations.and_then(|annotations| annotations.get(names::DEPENDENCIES_ANNOTATION));
        let mut asked = Self::default();
        let values = text.into_iter().flat_map(|text| text.split(','));
        for value in values.map(str::trim).filter(|value| !value.is_empty()) {
            let Some((_, kinds)) = VALUES.iter().find(|(name, _)| *name == value) else {
                return Err(format!(
                    "annotation {}: {value:.40} is not known; the values are templates, configmaps, secrets and serviceaccounts",
                    names::DEPENDENCIES_ANNOTATION
                ));
            };
            for kind in *kinds {
                asked.0 |= bit(*kind);
            }
        }
        Ok(asked)
    }

    /// The kinds in a list that [`fmt::Display`] has written. Values of a later version are left
    /// out.
    pub(crate) fn listed(text: &str) -> Self {
        let mut asked = Self::default();
        let values = text
            .split(',')
            .filter_map(|value| VALUES.iter().find(|(name, _)| *name == value));
        for kind in values.flat_map(|(_, kinds)| *kinds) {
            asked.0 |= bit(*kind);
        }
        asked
    }

    /// True if nothing is asked for.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True if objects of the kind are asked for.
    pub fn has(self, kind: DependencyKind) -> bool {
        self.0 & bit(kind) != 0
    }

    /// True if objects of the kind with this name are asked for.
    pub(crate) fn lists(self, kind: &str) -> bool {
        let mut kinds = VALUES.iter().flat_map(|(_, kinds)| *kinds);
        kinds.any(|known| self.has(*known) && known.to_string() == kind)
    }

    /// The kinds that a run keeps although its policies no longer ask for them. A Secret is sent only as
    /// long as a policy consents.
    #[must_use]
    pub(crate) fn kept(self) -> Self {
        Self(self.0 & !bit(DependencyKind::Secret))
    }

    /// The kinds of both sets.
    #[must_use]
    pub(crate) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = VALUES
            .iter()
            .filter(|(_, kinds)| kinds.iter().any(|kind| self.has(*kind)));
        for (index, (value, _)) in values.enumerate() {
            f.write_str(if index == 0 { "" } else { "," })?;
            f.write_str(value)?;
        }
        Ok(())
    }
}

fn bit(kind: DependencyKind) -> u8 {
    1 << kind as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_asks_for_the_kinds_of_its_list_or_has_an_error() {
        use DependencyKind::{ConfigMap, PersistentVolumeClaim, Secret, ServiceAccount, WorkflowTemplate};

        let asked = |value: &str| {
            let annotations = BTreeMap::from([(names::DEPENDENCIES_ANNOTATION.to_owned(), value.to_owned())]);
            let asked = Asked::of(Some(&annotations))?;
            let kinds = [
                WorkflowTemplate,
                ConfigMap,
                Secret,
                ServiceAccount,
                PersistentVolumeClaim,
            ];
            Ok::<_, String>(kinds.map(|kind| u8::from(asked.has(kind))))
        };
        assert_eq!(Asked::of(None), Ok(Asked::default()));
        assert!(Asked::default().is_empty());
        assert_eq!(asked(""), Ok([0, 0, 0, 0, 0]));
        assert_eq!(asked("templates"), Ok([1, 0, 0, 0, 0]));
        assert_eq!(asked("configmaps, secrets"), Ok([0, 1, 1, 0, 0]));
        assert_eq!(
            asked("templates,configmaps,secrets,serviceaccounts,"),
            Ok([1, 1, 1, 1, 0])
        );
        let error = asked("configmaps,volumes").unwrap_err();
        assert!(
            error.contains("volumes is not known; the values are templates,"),
            "{error}"
        );
    }
}
