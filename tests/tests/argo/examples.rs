//! All examples of Argo: the objects that each of them names, as a committed table, and the lists of
//! those that run on the fleet (`argosy_tests::argo::Lists`).
//!
//! `UPDATE=1` writes the table (`tests/fixtures/argo-dependencies.txt`); review it as a diff.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::Path,
};

use anyhow::Result;
use argosy_core::model::dependencies::{Dependencies, Necessity};
use argosy_tests::argo::{Example, Lists, examples};

use super::walk::{SPEC, Schema};

/// The objects that each example names, if it names any: optional ones with `?`, and unknown
/// references after `!`.
fn names(examples: &[Example]) -> BTreeMap<&str, String> {
    let names = examples.iter().filter_map(|example| {
        let found = Dependencies::of_template(example.spec()?, "argo");
        let named = found.named.iter().map(|(dependency, necessity)| match necessity {
            Necessity::Required => dependency.to_string(),
            Necessity::Optional => format!("{dependency}?"),
        });
        let unknown = found.unknown.iter().map(|phrase| format!("!{phrase}"));
        let all: Vec<String> = named.chain(unknown).collect();
        (!all.is_empty()).then(|| (example.title.as_str(), all.join(", ")))
    });
    names.collect()
}

#[test]
fn the_objects_that_argos_examples_name_are_those_of_the_table() -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/argo-dependencies.txt");
    let examples = examples()?;
    let lines = names(&examples)
        .into_iter()
        .map(|(title, names)| format!("{title}: {names}\n"));
    let found: String = lines.collect();
    if env::var_os("UPDATE").is_some() {
        fs::write(&path, &found)?;
    }
    assert_eq!(found, fs::read_to_string(&path)?);
    Ok(())
}

#[test]
fn the_schema_finds_the_same_objects_in_argos_examples() -> Result<()> {
    let schema = Schema::read()?;
    let examples = examples()?;
    let specs = examples
        .iter()
        .filter_map(|example| Some((&example.title, example.spec()?)));
    let specs: Vec<_> = specs.collect();
    assert!(specs.len() > 180, "only {} examples", specs.len());
    for (title, spec) in specs {
        let found = Dependencies::of_template(spec, "argo");
        let found: BTreeSet<String> = found.named.keys().map(ToString::to_string).collect();
        assert_eq!(found, schema.references(SPEC, spec), "{title}");
    }
    Ok(())
}

#[test]
fn each_example_that_names_something_runs_on_the_fleet_or_is_left_out_for_a_reason() -> Result<()> {
    let (examples, lists) = (examples()?, Lists::read()?);
    let names = names(&examples);
    let runnable = examples.iter().filter(|example| example.is_runnable());
    let titles = runnable.map(|example| example.title.as_str());
    let expected: BTreeSet<&str> = titles.filter(|title| names.contains_key(title)).collect();

    let listed = [&lists.short, &lists.long].into_iter().flatten();
    let mut found = BTreeSet::new();
    for title in listed.chain(lists.left_out.keys()) {
        assert!(found.insert(title.as_str()), "{title} is listed twice");
    }
    assert_eq!(found, expected);
    assert_eq!(lists.short.len(), 15);
    Ok(())
}
