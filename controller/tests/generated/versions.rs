//! The page about the versions that the tests run with, read from the files that pin them.

use std::fs;

use super::{
    in_checkout,
    markdown::{code, head, table},
};

const ABOUT: &str = "The tests of this checkout build and run these versions; nothing else is promised.\n\
                     KubeStellar itself is not run: its API and its behavior are those of 0.30, as told in [Compatibility](../compatibility.md).";

/// Name, folder of `scripts/toolchain` that pins it, Go module, and the tests that run it.
const PINNED: [(&str, &str, &str, &str); 9] = [
    (
        "Kubernetes",
        "fleet",
        "k8s.io/kubernetes",
        "integration and end to end, on the control cluster and all others",
    ),
    (
        "etcd",
        "fleet",
        "go.etcd.io/etcd/server/v3",
        "integration and end to end",
    ),
    (
        "Argo Workflows 3",
        "argo",
        "github.com/argoproj/argo-workflows/v3",
        "end to end, with its UI",
    ),
    (
        "Argo Workflows 4",
        "argo4",
        "github.com/argoproj/argo-workflows/v4",
        "end to end, without its UI (`--argo 4`)",
    ),
    (
        "OCM's work agent",
        "fleet",
        "open-cluster-management.io/ocm",
        "integration",
    ),
    (
        "OCM's work agent, of the line that KubeStellar installs",
        "ocm10",
        "open-cluster-management.io/ocm",
        "integration, where asked for",
    ),
    (
        "S3 server (versitygw)",
        "s3",
        "github.com/versity/versitygw",
        "end to end",
    ),
    (
        "image registry (go-containerregistry)",
        "registry",
        "github.com/google/go-containerregistry",
        "end to end",
    ),
    ("helm", "fleet", "helm.sh/helm/v3", "charts, end to end"),
];

pub(crate) fn page() -> String {
    let mut rows: Vec<[String; 3]> = PINNED
        .iter()
        .map(|(what, folder, module, tests)| {
            [
                (*what).to_owned(),
                code(&go_module(folder, module)),
                (*tests).to_owned(),
            ]
        })
        .collect();
    let rust = pinned("rust-toolchain.toml", "channel = ");
    let mdbook = pinned("scripts/lib/toolchain.sh", "TOOLCHAIN_MDBOOK=");
    let deny = pinned("scripts/lib/toolchain.sh", "TOOLCHAIN_DENY=");
    rows.push(["Rust".to_owned(), code(&rust), "all".to_owned()]);
    rows.push(["mdBook".to_owned(), code(&mdbook), "this book".to_owned()]);
    rows.push([
        "cargo-deny".to_owned(),
        code(&deny),
        "licenses and sources of dependencies".to_owned(),
    ]);
    format!(
        "{}{}",
        head("Versions", ABOUT),
        table(["what", "version", "run by the tests"], rows)
    )
}

/// The version of a module in a `go.mod`.
fn go_module(folder: &str, module: &str) -> String {
    let pins = fs::read_to_string(in_checkout(&format!("scripts/toolchain/{folder}/go.mod")))
        .expect("the part is pinned");
    let lines = pins.lines().map(str::split_ascii_whitespace);
    let mut versions = lines.filter_map(|mut words| (words.next() == Some(module)).then(|| words.next())?);
    let version = versions
        .find(|word| word.starts_with('v'))
        .expect("the module has a version");
    version.trim_start_matches('v').to_owned()
}

/// The text after `key` at the beginning of a line.
fn pinned(path: &str, key: &str) -> String {
    let text = fs::read_to_string(in_checkout(path)).expect("the file is there");
    let value = text.lines().find_map(|line| line.strip_prefix(key));
    value.expect("the version is pinned").trim_matches('"').to_owned()
}
