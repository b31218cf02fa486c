//! Files with objects, in YAML or JSON.

use std::{fs, io, path::Path};

use anyhow::Context;
use serde_json::Value;

/// The documents of a file, or of standard input if its name is `-`.
pub(super) fn read(file: &Path) -> anyhow::Result<Vec<Value>> {
    let is_stdin = file == Path::new("-");
    let name = if is_stdin {
        "standard input".to_owned()
    } else {
        file.display().to_string()
    };
    let text = if is_stdin {
        io::read_to_string(io::stdin())
    } else {
        fs::read_to_string(file)
    };
    let text = text.with_context(|| format!("cannot read {name}"))?;
    serde_saphyr::from_multiple(&text).with_context(|| format!("{name} is not valid YAML"))
}
