//! The environment's files: one folder per test process. It is kept, so that its logs can be read, until
//! the next run removes it.

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use anyhow::{Context, Result};

const PREFIX: &str = "argosy-lab-";

/// Creates a new, empty folder of this process.
pub fn create(name: &str) -> Result<PathBuf> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    if count == 0 {
        clear_abandoned();
    }
    let own = env::temp_dir().join(format!("{PREFIX}{}", std::process::id()));
    let folder = own.join(format!("{count}-{name}"));
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

/// Removes the folders of processes that have ended. A folder that cannot be removed does no harm.
fn clear_abandoned() {
    let Ok(entries) = fs::read_dir(env::temp_dir()) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else {
            continue;
        };
        if !Path::new("/proc").join(pid).exists() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
