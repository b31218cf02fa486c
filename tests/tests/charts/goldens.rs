//! The charts render to their golden files with the values beside each golden. `UPDATE=1` rewrites
//! the goldens; a reader then checks the diff.

use std::{env, fs};

use anyhow::{Context, Result, ensure};

use super::helm::{checkout, render};

/// `CHART/CASE` of every values file.
pub(super) fn cases() -> Result<Vec<String>> {
    let mut cases = Vec::new();
    for chart in fs::read_dir(checkout("tests/goldens/charts"))? {
        let chart = chart?;
        for file in fs::read_dir(chart.path())? {
            let name = file?.file_name().into_string().unwrap_or_default();
            if let Some(case) = name.strip_suffix(".values.yaml") {
                cases.push(format!("{}/{case}", chart.file_name().to_string_lossy()));
            }
        }
    }
    cases.sort();
    ensure!(!cases.is_empty(), "there are no files of values");
    Ok(cases)
}

/// The rendered output of a case.
pub(super) fn rendered(case: &str) -> Result<String> {
    let (chart, _) = case.split_once('/').context("a case is CHART/NAME")?;
    let values = format!("tests/goldens/charts/{case}.values.yaml");
    render(chart, &["--values", &values])
}

#[test]
fn the_charts_render_as_their_goldens() -> Result<()> {
    for case in cases()? {
        let path = checkout(&format!("tests/goldens/charts/{case}.yaml"));
        let rendered = rendered(&case)?;
        if env::var_os("UPDATE").is_some() {
            fs::write(&path, &rendered)?;
        }
        let golden = fs::read_to_string(&path).unwrap_or_default();
        let differs = || {
            let lines = golden.lines().zip(rendered.lines()).enumerate();
            lines
                .filter(|(_, (golden, rendered))| golden != rendered)
                .map(|(number, (golden, rendered))| {
                    format!("line {}: {golden:?} is now {rendered:?}", number + 1)
                })
                .next()
        };
        ensure!(
            golden == rendered,
            "{case} renders otherwise than its golden ({}); if it is meant to, UPDATE=1 cargo test -p argosy-tests --test charts",
            differs().unwrap_or_else(|| "one is longer".to_owned())
        );
    }
    Ok(())
}

#[test]
fn every_golden_has_its_values() -> Result<()> {
    let cases = cases()?;
    for chart in fs::read_dir(checkout("tests/goldens/charts"))? {
        let chart = chart?;
        for file in fs::read_dir(chart.path())? {
            let name = file?.file_name().into_string().unwrap_or_default();
            let case = name.trim_end_matches(".yaml").trim_end_matches(".values");
            let case = format!("{}/{case}", chart.file_name().to_string_lossy());
            ensure!(
                cases.contains(&case),
                "{name} of {case} belongs to no file of values"
            );
        }
    }
    Ok(())
}
