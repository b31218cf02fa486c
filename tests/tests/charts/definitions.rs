//! The definitions that the chart argosy-crds renders.

use anyhow::Result;
use argosy_api::crds;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;

use super::helm::{objects, render};

/// The sorted names of the rendered definitions. Each must stay when the chart is uninstalled.
fn rendered(flags: &[&str]) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for object in objects(&render("argosy-crds", flags)?)? {
        let definition: CustomResourceDefinition = serde_json::from_value(object)?;
        let name = definition.name_any();
        assert_eq!(
            definition
                .annotations()
                .get("helm.sh/resource-policy")
                .map(String::as_str),
            Some("keep"),
            "{name}"
        );
        names.push(name);
    }
    names.sort();
    Ok(names)
}

fn names(definitions: &[CustomResourceDefinition]) -> Vec<String> {
    let mut names: Vec<String> = definitions.iter().map(ResourceExt::name_any).collect();
    names.sort();
    names
}

#[test]
fn a_hub_gets_kubestellars_definitions_and_ocms_unless_ocm_is_there() -> Result<()> {
    let mut all = crds::kubestellar();
    all.extend(crds::open_cluster_management());
    assert_eq!(rendered(&[])?, names(&all));
    assert_eq!(rendered(&["--set", "ocm=false"])?, names(&crds::kubestellar()));
    Ok(())
}

#[test]
fn a_cluster_that_runs_workflows_gets_what_its_agent_needs() -> Result<()> {
    assert_eq!(
        rendered(&["--set", "hub=false,agent=true"])?,
        names(&crds::agent())
    );
    assert_eq!(
        rendered(&["--set", "hub=false,agent=true,ocm=false"])?,
        Vec::<String>::new()
    );
    Ok(())
}

#[test]
fn the_chart_renders_the_definitions_as_the_types_generate_them() -> Result<()> {
    let generated = [
        crds::kubestellar(),
        crds::open_cluster_management(),
        crds::agent(),
    ]
    .concat();
    let rendered = objects(&render("argosy-crds", &["--set", "agent=true"])?)?;
    assert_eq!(rendered.len(), generated.len());
    for definition in generated {
        let name = definition.name_any();
        let spec = serde_json::to_value(&definition.spec)?;
        let same = rendered
            .iter()
            .find(|object| object["metadata"]["name"] == name.as_str());
        assert_eq!(same.map(|object| &object["spec"]), Some(&spec), "{name}");
    }
    Ok(())
}
