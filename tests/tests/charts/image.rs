//! The image: the content that the Dockerfile and scripts/lib/images.sh (which needs no builder)
//! give it, and the programs that the charts run from it. The image is not built here.

use std::{collections::BTreeSet, fs};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{
    goldens,
    helm::{checkout, objects, read},
};

/// Names of the programs of crate argosy.
fn programs() -> Result<BTreeSet<String>> {
    let files = fs::read_dir(checkout("controller/src/bin"))?;
    let names = files.map(|file| {
        Ok(file?
            .path()
            .file_stem()
            .context("a name")?
            .to_string_lossy()
            .into_owned())
    });
    names.collect()
}

/// The rest of the first line that begins with `word`.
fn after<'a>(text: &'a str, word: &str) -> Result<&'a str> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(word));
    line.with_context(|| format!("no line begins with {word}"))
}

#[test]
fn the_image_holds_the_programs_that_the_scripts_put_into_theirs() -> Result<()> {
    let dockerfile = read("Dockerfile")?;
    let installed: BTreeSet<String> = dockerfile
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("target/release/"))
        .map(str::to_owned)
        .collect();
    assert_eq!(installed, programs()?);
    let scripts = read("scripts/lib/argosy.sh")?;
    let listed = after(&scripts, "ARGOSY_PROGRAMS=(")?.trim_end_matches(')');
    assert_eq!(
        listed.split(' ').map(str::to_owned).collect::<BTreeSet<_>>(),
        installed
    );
    // The first program is the default of the image.
    let first = listed.split(' ').next().unwrap_or_default();
    assert_eq!(
        after(&dockerfile, "ENTRYPOINT ")?,
        format!("[\"/usr/local/bin/{first}\"]")
    );
    ensure!(
        dockerfile.contains("COPY --from=build /out/ /usr/local/bin/"),
        "where they lie"
    );
    ensure!(
        read("scripts/lib/images.sh")?.contains("$root/usr/local/bin/${item##*/}"),
        "where they lie"
    );
    Ok(())
}

#[test]
fn the_image_has_the_user_of_the_charts_and_the_compiler_of_the_checkout() -> Result<()> {
    let dockerfile = read("Dockerfile")?;
    let user = after(&read("scripts/lib/images.sh")?, "local user=")?
        .split(' ')
        .next()
        .unwrap_or_default()
        .to_owned();
    assert_eq!(after(&dockerfile, "USER ")?, format!("{user}:{user}"));
    for case in goldens::cases()? {
        for line in goldens::rendered(&case)?.lines() {
            if let Some((_, number)) = line.split_once("runAsUser: ") {
                assert_eq!(number, user, "{case}");
            }
        }
    }
    let channel = read("rust-toolchain.toml")?;
    let channel = after(&channel, "channel = ")?.trim_matches('"');
    ensure!(
        dockerfile.contains(&format!("FROM rust:{channel}-")),
        "another compiler"
    );
    Ok(())
}

#[test]
fn the_image_is_built_with_the_settings_of_the_checkout() -> Result<()> {
    ensure!(
        read(".dockerignore")?.lines().any(|line| line == "!.cargo"),
        "the builder gets no .cargo/config.toml"
    );
    Ok(())
}

#[test]
fn the_charts_run_nothing_that_the_image_does_not_hold() -> Result<()> {
    let programs = programs()?;
    let mut run = BTreeSet::new();
    for case in goldens::cases()? {
        for object in objects(&goldens::rendered(&case)?)? {
            let containers = object["spec"]["template"]["spec"]["containers"].as_array();
            for container in containers.into_iter().flatten() {
                let program = container["command"][0].as_str().unwrap_or_default().to_owned();
                ensure!(programs.contains(&program), "{case} runs {program:?}");
                run.insert(program);
            }
        }
    }
    assert_eq!(run, programs, "not all are run by a chart");
    Ok(())
}

#[test]
fn the_charts_are_of_the_version_of_the_programs() -> Result<()> {
    let manifest = read("Cargo.toml")?;
    let version = after(&manifest, "version = ")?.trim_matches('"');
    for chart in super::helm::CHARTS {
        let chart: Value = serde_saphyr::from_str(&read(&format!("charts/{chart}/Chart.yaml"))?)?;
        assert_eq!(chart["version"], version);
        assert_eq!(chart["appVersion"], version);
    }
    Ok(())
}
