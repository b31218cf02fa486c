//! The Workflows of samples/workflows, as files that users apply, and those of tests/workflows.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use argosy_api::{Workflow, names};

/// A file with a Workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The cluster that it is for.
    pub cluster: String,
    /// Name of the file without its extension.
    pub name: String,
    /// The file.
    pub file: PathBuf,
}

/// Every sample for the cluster, by name. Fails if there is none.
pub fn samples(cluster: &str) -> Result<Vec<Sample>> {
    let folder = format!("../samples/workflows/{cluster}");
    Ok(files(Path::new(&folder), cluster)?.collect())
}

/// The Workflows of tests/workflows by name, for no cluster: one for each feature of Argo.
pub fn features() -> Result<Vec<Sample>> {
    let all = files(Path::new("workflows"), "")?;
    Ok(all.filter(|sample| sample.name != REFERRED).collect())
}

/// The template that another Workflow refers to.
const REFERRED: &str = "referred";

fn files(folder: &Path, cluster: &str) -> Result<impl Iterator<Item = Sample>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut samples = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("{}", folder.display()))? {
        let file = entry?.path();
        let name = file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        samples.push(Sample {
            cluster: cluster.to_owned(),
            name,
            file,
        });
    }
    ensure!(!samples.is_empty(), "{} has no samples", folder.display());
    samples.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(samples.into_iter())
}

impl Sample {
    /// The sample with this name for the cluster.
    pub fn find(cluster: &str, name: &str) -> Result<Self> {
        let found = samples(cluster)?.into_iter().find(|sample| sample.name == name);
        found.with_context(|| format!("there is no sample {name} for {cluster}"))
    }

    /// The Workflow of the file.
    pub fn workflow(&self) -> Result<Workflow> {
        let context = || format!("{}", self.file.display());
        let text = fs::read_to_string(&self.file).with_context(context)?;
        serde_saphyr::from_str(&text).with_context(context)
    }

    /// The Workflow as submitted directly to a cluster: not suspended, and without the label of a
    /// cluster.
    pub fn direct(&self) -> Result<Workflow> {
        let mut workflow = self.workflow()?;
        if let Some(labels) = &mut workflow.metadata.labels {
            labels.remove(names::KUBESTELLAR_CLUSTER_LABEL);
        }
        if let Some(spec) = workflow.spec.as_object_mut() {
            spec.remove("suspend");
        }
        Ok(workflow)
    }
}
