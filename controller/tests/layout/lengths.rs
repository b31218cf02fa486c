//! The lengths of files. Clippy checks those of functions (`clippy.toml`).

use std::{fs, path::Path};

use super::{TESTS, is_test, sources};

/// Lines of half of the files and of all but one in twenty, without the tests in them; and of the longest
/// file with its tests.
const MEDIAN: usize = 150;
const NEARLY_ALL: usize = 400;
const LONGEST: usize = 600;

/// The files below these folders of the checkout, each with its number of lines up to `end`, the longest
/// last.
fn lengths(folders: &[&str], end: Option<&str>) -> Vec<(usize, String)> {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let files = folders.iter().flat_map(|folder| sources(&checkout.join(folder)));
    let mut lengths: Vec<_> = files
        .map(|file| {
            let text = fs::read_to_string(&file).expect("it can be read");
            let text = end.and_then(|end| text.split(end).next()).unwrap_or(&text);
            let inside = file.strip_prefix(&checkout).expect("it lies inside");
            (text.lines().count(), inside.display().to_string())
        })
        .collect();
    lengths.sort();
    lengths
}

#[test]
fn most_files_can_be_read_in_one_go() {
    let programs = lengths(
        &[
            "controller/src",
            "controller/api/src",
            "controller/core/src",
            "transforms/src",
        ],
        Some(TESTS),
    );
    let is_program = |(_, file): &(usize, String)| !is_test(Path::new(file));
    let programs: Vec<_> = programs.into_iter().filter(is_program).collect();
    let of = |part: usize| {
        programs
            .get(programs.len() * part / 100)
            .expect("there are files")
    };
    assert!(of(50).0 <= MEDIAN, "{:?}", of(50));
    assert!(of(95).0 <= NEARLY_ALL, "{:?}", of(95));
}

#[test]
fn no_file_is_long() {
    let all = lengths(&["controller", "transforms", "tests"], None);
    let long = all.iter().filter(|(lines, _)| *lines > LONGEST);
    assert_eq!(long.collect::<Vec<_>>(), Vec::<&(usize, String)>::new());
}
