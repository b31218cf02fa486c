//! Checks the names in the book: labels, annotations, conditions, environment variables and metrics
//! must exist in the code.

use std::fs;

use crate::{
    in_checkout, none,
    page::{Page, pages},
};
use argosy_api::conditions;

/// The words of `text` that begin with `prefix` and continue with letters that `is_part` accepts.
fn words<'a>(text: &'a str, prefix: &str, is_part: impl Fn(char) -> bool) -> Vec<&'a str> {
    let found = text.match_indices(prefix);
    found
        .filter(|(at, _)| {
            let before = text.get(..*at).and_then(|before| before.chars().next_back());
            before.is_none_or(|letter| !letter.is_alphanumeric() && letter != '.' && letter != '_')
        })
        .filter_map(|(at, _)| {
            let rest = text.get(at..)?;
            let end = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
            Some(rest.get(..end)?.trim_end_matches(['.', '-', '_', '/']))
        })
        .collect()
}

/// The text of all files in which one of our names may be declared.
fn sources() -> String {
    let mut text = String::new();
    let mut folders = vec![
        in_checkout("charts"),
        in_checkout("controller/api/src"),
        in_checkout("controller/src"),
    ];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder of the checkout").flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                text.push_str(&fs::read_to_string(entry.path()).unwrap_or_default());
            }
        }
    }
    text
}

#[test]
fn every_label_and_annotation_of_ours_in_the_book_is_known_to_the_code() {
    let sources = sources();
    let mut unknown = Vec::new();
    for page in pages() {
        for word in words(page.text(), "argosy.dev/", |letter| {
            letter.is_ascii_alphanumeric() || "./-".contains(letter)
        }) {
            if word != "argosy.dev"
                && !sources.contains(&format!("{word}\""))
                && !sources.contains(&format!("{word}:"))
            {
                unknown.push(format!("{}: {word}", page.path));
            }
        }
    }
    none(&unknown);
}

#[test]
fn every_environment_variable_of_ours_in_the_book_is_known_to_the_code() {
    let sources = sources();
    let mut unknown = Vec::new();
    for page in pages() {
        for word in words(page.text(), "ARGOSY_", |letter| {
            letter.is_ascii_uppercase() || letter == '_'
        }) {
            // Variables of the local fleet's scripts do not occur in the Rust code.
            let is_of_scripts =
                fs::read_to_string(in_checkout("scripts/lib/fleet.sh")).is_ok_and(|text| text.contains(word));
            if !sources.contains(&format!("{word}\"")) && !is_of_scripts {
                unknown.push(format!("{}: {word}", page.path));
            }
        }
    }
    none(&unknown);
}

#[test]
fn every_condition_of_a_workflow_is_spoken_of_where_troubles_are() {
    let page = Page::read("docs/troubleshooting.md").unwrap();
    let silent: Vec<String> = conditions::workflow::ALL
        .iter()
        .filter(|type_| !page.text().contains(**type_))
        .map(|type_| format!("troubleshooting.md does not speak of {type_}"))
        .collect();
    none(&silent);
}

#[test]
fn every_condition_and_reason_in_the_book_is_known_to_the_code() {
    let source = fs::read_to_string(in_checkout("controller/api/src/conditions.rs")).unwrap();
    let is_known = |word: &str| source.contains(&format!("\"{word}\""));
    let mut unknown = Vec::new();
    let mut looked_at = 0;
    for page in pages() {
        let spans = page.spans();
        for (number, (place, code)) in spans.iter().enumerate() {
            let Some(type_) = code.strip_suffix("=False").or(code.strip_suffix("=True")) else {
                continue;
            };
            // If a reason is named, it follows its condition on the same line.
            let next = spans.get(number + 1).filter(|(other, _)| other == place);
            let is_reason = |word: &&str| {
                word.starts_with(|first: char| first.is_uppercase()) && word.chars().all(char::is_alphabetic)
            };
            let reason = next.map(|(_, code)| code.as_str()).filter(is_reason);
            for word in [type_].into_iter().chain(reason) {
                looked_at += 1;
                if !is_known(word) {
                    unknown.push(format!("{place}: {word}"));
                }
            }
        }
    }
    none(&unknown);
    assert!(
        looked_at > 50,
        "only {looked_at} conditions and reasons were found"
    );
}

#[test]
fn every_metric_in_the_book_is_in_its_list() {
    let list = Page::read("docs/reference/metrics.md").expect("the list is generated");
    let known = words(list.text(), "argosy_", |letter| {
        letter.is_ascii_lowercase() || letter == '_'
    });
    let mut unknown = Vec::new();
    for page in pages() {
        for word in words(page.text(), "argosy_", |letter| {
            letter.is_ascii_lowercase() || letter == '_'
        }) {
            let base = ["_total", "_bucket", "_sum", "_count"]
                .iter()
                .find_map(|suffix| word.strip_suffix(suffix));
            if !known.contains(&word) && base.is_none_or(|base| !known.contains(&base)) {
                unknown.push(format!("{}: {word}", page.path));
            }
        }
    }
    none(&unknown);
}

#[test]
fn a_word_ends_where_its_letters_do() {
    let text = "see argosy.dev/claim, my.argosy.dev/no and `argosy.dev/runs-on`.";
    let is_part = |letter: char| letter.is_ascii_lowercase() || "./-".contains(letter);
    assert_eq!(
        words(text, "argosy.dev/", is_part),
        ["argosy.dev/claim", "argosy.dev/runs-on"]
    );
}
