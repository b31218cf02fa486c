//! Resolves the kind that a user names as `kubectl` does: by plural, singular, short name, or
//! lower-case kind, with or without its group. The core group comes first, then the others in the
//! API server's order. Of the versions that have the kind, the one that the group prefers is used.

use anyhow::{anyhow, bail};
use argosy_api::{Workflow, workflow};
use futures::future::join_all;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use kube::{Client, core::ApiResource};

use crate::runtime::requests::call;

/// A kind that the control cluster serves.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kind {
    /// Group, version and plural.
    pub(super) resource: ApiResource,
    /// True if its objects are namespaced.
    pub(super) is_namespaced: bool,
}

impl Kind {
    fn workflow() -> Self {
        Self {
            resource: ApiResource::erase::<Workflow>(&()),
            is_namespaced: true,
        }
    }

    /// Returns true if it is Argo's Workflow.
    pub(super) fn is_workflow(&self) -> bool {
        self.resource.group == workflow::GROUP && self.resource.plural == workflow::PLURAL
    }

    /// The plural with its group, for error messages.
    pub(super) fn name(&self) -> String {
        let dot = if self.resource.group.is_empty() { "" } else { "." };
        format!("{}{dot}{}", self.resource.plural, self.resource.group)
    }
}

/// The resources of one version of a group.
struct Served {
    group: String,
    version: String,
    resources: Vec<APIResource>,
}

/// Returns the kind and the name in `object`, which is the `NAME` of a Workflow or `KIND/NAME`.
pub(super) async fn resolve<'a>(wds: &Client, object: &'a str) -> anyhow::Result<(Kind, &'a str)> {
    let Some((kind, name)) = object.split_once('/') else {
        return Ok((Kind::workflow(), object));
    };
    if kind.is_empty() || name.is_empty() || name.contains('/') {
        bail!("{object} is not the name of an object; use the NAME of a Workflow, or KIND/NAME");
    }
    let kind = kind.to_lowercase();
    let (wanted, group) = match kind.split_once('.') {
        Some((wanted, group)) => (wanted, Some(group)),
        None => (kind.as_str(), None),
    };
    let groups = versions(wds, group).await?;
    let mut silent = Vec::new();
    // A kind may exist only in a version that its group does not prefer. Most are found without
    // requests for these.
    for versions in [preferred(&groups), others(&groups)] {
        let served = discover(wds, versions, &mut silent).await;
        if let Some(kind) = find(&served, wanted) {
            return Ok((kind, name));
        }
    }
    silent.sort();
    silent.dedup();
    let mut message = format!("the control cluster serves no kind {kind}");
    if !silent.is_empty() {
        message = format!("{message}; these API groups do not answer: {}", silent.join(", "));
    }
    Err(anyhow!(message))
}

/// Returns the first kind with that name.
fn find(served: &[Served], wanted: &str) -> Option<Kind> {
    served.iter().find_map(|group| {
        let mut resources = group.resources.iter();
        let resource = resources.find(|resource| is_called(resource, wanted))?;
        Some(Kind {
            resource: ApiResource {
                group: group.group.clone(),
                version: group.version.clone(),
                api_version: api_version(&group.group, &group.version),
                kind: resource.kind.clone(),
                plural: resource.name.clone(),
            },
            is_namespaced: resource.namespaced,
        })
    })
}

fn is_called(resource: &APIResource, wanted: &str) -> bool {
    let is_subresource = resource.name.contains('/');
    let mut short_names = resource.short_names.iter().flatten();
    !is_subresource
        && (resource.name == wanted
            || resource.singular_name == wanted
            || resource.kind.to_lowercase() == wanted
            || short_names.any(|short| short == wanted))
}

/// A group with its versions, the preferred one first.
type Versions = (String, Vec<String>);

/// Returns the groups that the control cluster serves, or only `group` if it is given.
async fn versions(wds: &Client, group: Option<&str>) -> anyhow::Result<Vec<Versions>> {
    let listed = call(wds.list_api_groups()).await;
    let listed =
        listed.map_err(|failure| anyhow!("cannot read the kinds of the control cluster: {failure}"))?;
    let core = (String::new(), vec!["v1".to_owned()]);
    let named = listed.groups.into_iter().map(|known| {
        let preferred = known.preferred_version.map(|version| version.version);
        let all = known.versions.into_iter().map(|version| version.version);
        let others = all.filter(|version| Some(version) != preferred.as_ref());
        (known.name, preferred.iter().cloned().chain(others).collect())
    });
    let groups = std::iter::once(core).chain(named);
    Ok(groups
        .filter(|(name, _)| group.is_none_or(|group| group == name))
        .collect())
}

/// Returns the preferred version of each group.
fn preferred(groups: &[Versions]) -> Vec<(String, String)> {
    let first = groups
        .iter()
        .filter_map(|(group, versions)| Some((group.clone(), versions.first()?.clone())));
    first.collect()
}

/// Returns the other versions of each group.
fn others(groups: &[Versions]) -> Vec<(String, String)> {
    let others = groups.iter().flat_map(|(group, versions)| {
        let versions = versions.iter().skip(1);
        versions.map(|version| (group.clone(), version.clone()))
    });
    others.collect()
}

/// Returns the resources of these versions. Groups that do not respond, such as those of an
/// aggregated API server that is down, are added to `silent`.
async fn discover(wds: &Client, versions: Vec<(String, String)>, silent: &mut Vec<String>) -> Vec<Served> {
    let asked = versions.into_iter().map(|(group, version)| async move {
        let answer = if group.is_empty() {
            call(wds.list_core_api_resources(&version)).await
        } else {
            call(wds.list_api_group_resources(&api_version(&group, &version))).await
        };
        match answer {
            Ok(list) => Ok(Served {
                group,
                version,
                resources: list.resources,
            }),
            Err(_) => Err(group),
        }
    });
    let mut served = Vec::new();
    for answer in join_all(asked).await {
        match answer {
            Ok(group) => served.push(group),
            Err(group) => silent.push(group),
        }
    }
    served
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(name: &str, singular: &str, kind: &str, short: &[&str]) -> APIResource {
        APIResource {
            name: name.to_owned(),
            singular_name: singular.to_owned(),
            kind: kind.to_owned(),
            namespaced: true,
            short_names: Some(short.iter().map(|short| (*short).to_owned()).collect()),
            ..APIResource::default()
        }
    }

    fn served() -> Vec<Served> {
        let group = |group: &str, resources: Vec<APIResource>| Served {
            group: group.to_owned(),
            version: "v1".to_owned(),
            resources,
        };
        let events = || resource("events", "event", "Event", &["ev"]);
        vec![
            group(
                "",
                vec![
                    resource("configmaps", "configmap", "ConfigMap", &["cm"]),
                    events(),
                ],
            ),
            group(
                "apps",
                vec![
                    resource("deployments/status", "", "Deployment", &[]),
                    // API servers before 1.27 list it without a singular name.
                    resource("deployments", "", "Deployment", &["deploy"]),
                ],
            ),
            group("events.k8s.io", vec![events()]),
        ]
    }

    #[test]
    fn a_kind_is_found_by_plural_singular_kind_or_short_name() {
        for name in ["configmaps", "configmap", "cm"] {
            let found = find(&served(), name).unwrap();
            assert_eq!(
                (found.name().as_str(), found.resource.api_version.as_str()),
                ("configmaps", "v1")
            );
        }
        for name in ["deployments", "deployment", "deploy"] {
            let found = find(&served(), name).unwrap();
            assert_eq!(found.name(), "deployments.apps", "{name}");
            assert_eq!(found.resource.api_version, "apps/v1");
        }
    }

    #[test]
    fn of_two_groups_the_first_has_the_name() {
        assert_eq!(find(&served(), "events").unwrap().name(), "events");
    }

    #[test]
    fn a_subresource_and_what_nobody_serves_are_no_kinds() {
        assert_eq!(find(&served(), "deployments/status"), None);
        assert_eq!(find(&served(), "widgets"), None);
    }

    #[test]
    fn the_version_that_a_group_prefers_is_asked_first_and_the_others_after_all_groups() {
        let versions = |group: &str, versions: &[&str]| {
            let versions = versions.iter().map(|version| (*version).to_owned()).collect();
            (group.to_owned(), versions)
        };
        let groups = [
            versions("", &["v1"]),
            versions("example.com", &["v2", "v1", "v1beta1"]),
        ];
        let shown = |versions: Vec<(String, String)>| {
            let shown = versions
                .iter()
                .map(|(group, version)| api_version(group, version));
            shown.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown(preferred(&groups)), "v1 example.com/v2");
        assert_eq!(shown(others(&groups)), "example.com/v1 example.com/v1beta1");
    }
}
