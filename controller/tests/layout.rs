//! Checks the layout of the code. Rooms (the top-level modules of a crate) lie on floors, and
//! arrows (paths from one room into another) must point downwards. `ARCHITECTURE.md` draws the
//! layout. Also checks the words of comments.

#![allow(
    clippy::expect_used,
    reason = "a test fails by panicking, and so do functions beside it"
)]

#[path = "layout/circles.rs"]
mod circles;
#[path = "layout/lengths.rs"]
mod lengths;
#[path = "layout/words.rs"]
mod words;

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The largest number of rooms that a crate may have.
const MOST_ROOMS: usize = 10;

/// Rooms of `argosy-core` by floor, the ground floor first.
const CORE: [&[&str]; 6] = [
    &["index"],
    &["cel", "model", "election"],
    &["policy"],
    &["agent"],
    &["hub"],
    &["explain"],
];

/// Rooms of `argosy`.
const SHELL: [&[&str]; 6] = [
    &["runtime"],
    &["artifacts"],
    &["agent"],
    &["hub"],
    &["cli"],
    &["programs"],
];

/// The start of the tests in a file.
const TESTS: &str = "#[cfg(test)]\nmod tests";

/// True if a file contains tests or tools of tests only.
fn is_test(inside: &Path) -> bool {
    let parts = inside.with_extension("");
    parts.iter().any(|part| part == "tests" || part == "testing")
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder can be read");
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.expect("it can be listed").path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// The rooms that the text after `crate::` names: one, or those at the top of a group in braces.
fn rooms_named(path: &str) -> Vec<String> {
    let name = |text: &str| -> String {
        let is_of_name = |letter: char| letter.is_alphanumeric() || letter == '_';
        text.trim_start()
            .chars()
            .take_while(|&letter| is_of_name(letter))
            .collect()
    };
    let Some(group) = path.strip_prefix('{') else {
        return vec![name(path)];
    };
    let (mut depth, mut rooms) = (0_u32, vec![name(group)]);
    for (index, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => rooms.push(name(&group[index + 1..])),
            _ => {}
        }
    }
    rooms.retain(|room| !room.is_empty());
    rooms
}

/// The arrows of a crate that do not point to a lower floor, each with the file that contains it.
fn arrows_upwards(source: &Path, floors: &[&[&str]]) -> Vec<String> {
    let floor = |room: &str| floors.iter().position(|rooms| rooms.contains(&room));
    let mut upwards = Vec::new();
    for file in sources(source) {
        let inside = file.strip_prefix(source).expect("it lies inside");
        let is_test = is_test(inside);
        let first = inside.iter().next().expect("it has a name").to_string_lossy();
        let room = first.trim_end_matches(".rs");
        let Some(own) = floor(room).filter(|_| !is_test) else {
            assert!(is_test || ["lib", "bin"].contains(&room), "{room} is on no floor");
            continue;
        };
        let text = fs::read_to_string(&file).expect("it can be read");
        let code = text.split(TESTS).next().expect("it begins");
        let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        let code = code.collect::<Vec<_>>().join("\n");
        for (index, crate_) in code.match_indices("crate::") {
            for named in rooms_named(&code[index + crate_.len()..]) {
                if named != room && floor(&named).is_some_and(|floor| floor >= own) {
                    upwards.push(format!("{} uses {named}", inside.display()));
                }
            }
        }
    }
    upwards
}

#[test]
fn no_crate_has_more_rooms_than_a_reader_can_keep_in_mind() {
    for floors in [CORE, SHELL] {
        let rooms = floors.iter().map(|rooms| rooms.len()).sum::<usize>();
        assert!(rooms <= MOST_ROOMS, "{rooms} rooms");
    }
}

#[test]
fn every_arrow_between_rooms_points_downwards() {
    let controller = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert_eq!(arrows_upwards(&controller.join("core/src"), &CORE), [""; 0]);
    assert_eq!(arrows_upwards(&controller.join("src"), &SHELL), [""; 0]);
}

#[test]
fn no_files_depend_on_each_other_in_a_circle() {
    let controller = Path::new(env!("CARGO_MANIFEST_DIR"));
    for source in ["core/src", "src"] {
        let files = circles::read(&controller.join(source));
        assert_eq!(circles::circles(&files), Vec::<Vec<String>>::new(), "{source}");
    }
}

#[test]
fn no_file_uses_a_rule_about_workflows_but_the_table_of_rules() {
    let controller = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = circles::read(&controller.join("core/src"));
    let rules = circles::rules(&files, "hub/workflows/decide");
    assert!(rules.len() > 8, "{rules:?}");
    assert_eq!(circles::users(&files, &rules, "hub/workflows/decide"), [""; 0]);
}

#[test]
fn arrows_are_seen_in_paths_and_in_groups() {
    assert_eq!(rooms_named("hub::workflows::Hub;"), ["hub"]);
    let group = "{\n    Change, agent::{self, process},\n    model::claim::Claim,\n};";
    assert_eq!(rooms_named(group), ["Change", "agent", "model"]);
}
