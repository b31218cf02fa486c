//! Which kind a user means, found as `kubectl` finds it: by plural, by singular, by short name, or by kind in lower case, with or
//! without its group; the core group first, then the others in the order in which the API server lists them.

use anyhow::{anyhow, bail};
use argosy_api::{Workflow, workflow};
use futures::future::join_all;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use kube::{Client, core::ApiResource};

use crate::outcome::call;

/// A kind that the control cluster serves.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kind {
    /// Group, version and plural.
    pub(super) resource: ApiResource,
    /// Whether its objects lie in namespaces.
    pub(super) is_namespaced: bool,
}

impl Kind {
    fn workflow() -> Self {
        Self {
            resource: ApiResource::erase::<Workflow>(&()),
            is_namespaced: true,
        }
    }

    /// Whether it is Argo's Workflow.
    pub(super) fn is_workflow(&self) -> bool {
        self.resource.group == workflow::GROUP && self.resource.plural == workflow::PLURAL
    }

    /// The plural with its group, as error messages name it.
    pub(super) fn name(&self) -> String {
        let dot = if self.resource.group.is_empty() { "" } else { "." };
        format!("{}{dot}{}", self.resource.plural, self.resource.group)
    }
}

/// The resources of one group in its preferred version.
struct Served {
    group: String,
    version: String,
    resources: Vec<APIResource>,
}

/// The kind and the name of `object`, which is `NAME` of a Workflow or `KIND/NAME`.
pub(super) async fn resolve<'a>(wds: &Client, object: &'a str) -> anyhow::Result<(Kind, &'a str)> {
    let Some((kind, name)) = object.split_once('/') else {
        return Ok((Kind::workflow(), object));
    };
    if kind.is_empty() || name.is_empty() || name.contains('/') {
        bail!("{object} is no object; write the NAME of a Workflow, or KIND/NAME");
    }
    let kind = kind.to_lowercase();
    let (wanted, group) = match kind.split_once('.') {
        Some((wanted, group)) => (wanted, Some(group)),
        None => (kind.as_str(), None),
    };
    let (served, silent) = discover(wds, group).await?;
    if let Some(kind) = find(&served, wanted) {
        return Ok((kind, name));
    }
    let mut message = format!("the control cluster serves no kind {kind}");
    if !silent.is_empty() {
        message = format!(
            "{message}; not asked, because they do not answer: {}",
            silent.join(", ")
        );
    }
    Err(anyhow!(message))
}

/// The first kind that goes by that name.
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

/// What the control cluster serves, of `group` alone if that is named; and the groups that do not answer, as those of an
/// aggregated API server that is down.
async fn discover(wds: &Client, group: Option<&str>) -> anyhow::Result<(Vec<Served>, Vec<String>)> {
    let listed = call(wds.list_api_groups()).await;
    let listed =
        listed.map_err(|failure| anyhow!("cannot ask the control cluster for its kinds: {failure}"))?;
    let core = [(String::new(), "v1".to_owned())];
    let named = listed.groups.into_iter().filter_map(|known| {
        let version = known
            .preferred_version
            .or_else(|| known.versions.first().cloned())?;
        Some((known.name, version.version))
    });
    let groups = core
        .into_iter()
        .chain(named)
        .filter(|(name, _)| group.is_none_or(|group| group == name));
    let asked = groups.map(|(group, version)| async move {
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
    let (mut served, mut silent) = (Vec::new(), Vec::new());
    for answer in join_all(asked).await {
        match answer {
            Ok(group) => served.push(group),
            Err(group) => silent.push(group),
        }
    }
    Ok((served, silent))
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
                    // As servers before 1.27 list it.
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
}
