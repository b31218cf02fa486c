//! The location of etcd, kube-apiserver and the work agents of Open Cluster Management.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use anyhow::{Context, Result, ensure};

/// Path of the binary `name`: in the folder of `ARGOSY_TOOLCHAIN` or, without that, in the one of
/// `scripts/toolchain.sh`.
pub fn binary(name: &str) -> Result<PathBuf> {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    if FOLDER.get().is_none() {
        let _ = FOLDER.set(folder()?);
    }
    let folder = FOLDER.get().context("the folder is known")?;
    let path = folder.join(name);
    ensure!(
        path.exists(),
        "{} is missing; run scripts/toolchain.sh ensure etcd kubernetes helm s3 ocm ocm10",
        path.display()
    );
    Ok(path)
}

fn folder() -> Result<PathBuf> {
    if let Some(folder) = env::var_os("ARGOSY_TOOLCHAIN") {
        return Ok(folder.into());
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/toolchain.sh");
    let output = Command::new(&script)
        .arg("path")
        .output()
        .with_context(|| format!("cannot run {}", script.display()))?;
    ensure!(
        output.status.success(),
        "{} path failed: {}",
        script.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?.trim().into())
}
