//! Checks that every link of the book, and of the files at the root of the checkout, has a target
//! that exists.

use std::{
    collections::BTreeSet,
    path::{Component, Path, PathBuf},
};

use crate::{
    in_checkout, none,
    page::{Link, Page, pages},
};

/// Resolves a link of the file at `from`. Both paths are relative to the checkout. `None` if the
/// target lies outside of the checkout.
fn resolve(from: &str, target: &str) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    let folder = Path::new(from).parent().unwrap_or(Path::new(""));
    for part in folder.join(target).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::ParentDir if path.pop() => {}
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

/// The error in a link. `None` if there is none.
fn fault(page: &Page, link: &Link) -> Option<String> {
    let target = link.target.as_str();
    let says = |what: &str| Some(format!("{}: {target} {what}", link.place));
    if target.starts_with("https://") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let resolved = if path.is_empty() {
        Some(PathBuf::from(&page.path))
    } else {
        resolve(&page.path, path)
    };
    let Some(resolved) = resolved.as_deref().and_then(Path::to_str) else {
        return says("leads out of the checkout");
    };
    if !in_checkout(resolved).exists() {
        return says("is not there");
    }
    let names_heading =
        || Page::read(resolved).is_some_and(|other| other.anchors().iter().any(|known| known == anchor));
    if anchor.is_empty() || names_heading() {
        return None;
    }
    says("names no heading")
}

fn faults(pages: &[Page]) -> Vec<String> {
    let links = pages
        .iter()
        .flat_map(|page| page.links().into_iter().map(move |link| (page, link)));
    links.filter_map(|(page, link)| fault(page, &link)).collect()
}

#[test]
fn every_link_of_the_book_leads_to_a_page_and_a_heading() {
    none(&faults(&pages()));
}

#[test]
fn every_link_of_the_files_at_the_root_leads_somewhere() {
    let names = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];
    let files: Vec<Page> = names.into_iter().filter_map(Page::read).collect();
    assert_eq!(files.len(), names.len());
    none(&faults(&files));
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let broken = [
        "nowhere.md",
        "objects.md#nothing",
        "../../README.md",
        "#nothing",
        "pictures/none.svg",
    ];
    for target in broken {
        let text =
            format!("[a]({target}) [b](objects.md) [c](objects.md#on-the-cluster) [d](../README.md)\n");
        let faults = faults(&[Page::of(&text)]);
        assert_eq!(faults.len(), 1, "{target}: {faults:?}");
    }
}

#[test]
fn the_summary_names_every_page() {
    let named: BTreeSet<String> = pages().into_iter().map(|page| page.path).collect();
    let mut folders = vec![PathBuf::from("docs")];
    let mut missing = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(in_checkout(folder.to_str().unwrap())).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md")
                && !named.contains(path.to_str().unwrap())
            {
                missing.push(format!("{} is not in SUMMARY.md", path.display()));
            }
        }
    }
    none(&missing);
}
