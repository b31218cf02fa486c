//! The language of comments and pages, as far as a program can see it.

use std::{fs, path::Path};

use super::sources;

/// A sentence that begins with one of these has no noun as its subject.
const RELATIVES: [&str; 6] = ["What", "Whether", "How", "Who", "Where", "Which"];

/// One doc comment line in so many may begin like that, as a question does.
const AT_MOST_ONE_IN: usize = 50;

/// Lines of the README.
const LONGEST_README: usize = 120;

fn begins_with_relative(line: &str) -> bool {
    let first = line.split(|letter: char| !letter.is_alphanumeric()).next();
    first.is_some_and(|first| RELATIVES.contains(&first))
}

#[test]
fn comments_begin_with_nouns_and_not_with_what_or_whether() {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = ["controller", "transforms", "tests"];
    let files = folders.iter().flat_map(|folder| sources(&checkout.join(folder)));
    let (mut all, mut found) = (0, Vec::new());
    for file in files {
        let text = fs::read_to_string(&file).expect("it can be read");
        let lines = text.lines().map(str::trim_start);
        let docs = lines.filter_map(|line| line.strip_prefix("/// ").or(line.strip_prefix("//! ")));
        for line in docs {
            all += 1;
            if begins_with_relative(line) {
                found.push(format!("{}: {line}", file.display()));
            }
        }
    }
    assert!(all > 1000, "only {all} lines were found");
    assert!(
        found.len() * AT_MOST_ONE_IN <= all,
        "{} of {all}: {found:#?}",
        found.len()
    );
}

#[test]
fn the_readme_can_be_read_in_one_go() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let text = fs::read_to_string(readme).expect("it can be read");
    assert!(text.lines().count() <= LONGEST_README, "{}", text.lines().count());
}

#[test]
fn a_relative_is_a_whole_word() {
    assert!(begins_with_relative("Whether it is there."));
    assert!(begins_with_relative("What's left."));
    assert!(!begins_with_relative("However, it is there."));
}
