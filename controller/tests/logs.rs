//! Checks that log lines keep their names: every field is in the list, and every message is a
//! constant sentence.

#![expect(
    clippy::unwrap_used,
    reason = "clippy does not see that a function beside a test is part of it"
)]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use argosy::runtime::telemetry::FIELDS;

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// The text between the parentheses of each call of one of `macros`.
fn calls(text: &str, macros: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for name in macros {
        for (start, _) in text.match_indices(name) {
            let rest = &text[start + name.len()..];
            let mut depth = 1;
            let end = rest.find(|letter| {
                depth += match letter {
                    '(' => 1,
                    ')' => -1,
                    _ => 0,
                };
                depth == 0
            });
            found.push(rest[..end.unwrap()].to_owned());
        }
    }
    found
}

/// The arguments of a call. A comma inside a string literal or inside brackets does not separate
/// arguments.
fn arguments(call: &str) -> Vec<String> {
    let (mut arguments, mut depth, mut quoted) = (vec![String::new()], 0, false);
    for letter in call.chars() {
        match letter {
            '"' => quoted = !quoted,
            '(' | '[' | '{' if !quoted => depth += 1,
            ')' | ']' | '}' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                arguments.push(String::new());
                continue;
            }
            _ => {}
        }
        arguments.last_mut().unwrap().push(letter);
    }
    let trimmed = arguments.iter().map(|argument| argument.trim().to_owned());
    trimmed.filter(|argument| !argument.is_empty()).collect()
}

fn field(argument: &str) -> &str {
    let name = argument.split('=').next().unwrap_or_default().trim();
    name.trim_start_matches(['%', '?'])
}

#[test]
fn every_field_of_every_line_is_one_of_the_list() {
    let listed: BTreeSet<&str> = FIELDS.iter().map(|(name, _)| *name).collect();
    let mut used = BTreeSet::new();
    let macros = [
        "tracing::error!(",
        "tracing::warn!(",
        "tracing::info!(",
        "tracing::debug!(",
        "tracing::info_span!(",
    ];
    for path in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let text = fs::read_to_string(&path).unwrap();
        for call in calls(&text, &macros) {
            let arguments = arguments(&call);
            let is_text = |argument: &&String| argument.starts_with('"');
            let sentence = arguments.iter().find(is_text).unwrap_or_else(|| panic!("{call}"));
            assert!(
                !sentence.contains('{'),
                "{}: {sentence} is not constant",
                path.display()
            );
            for argument in arguments.iter().filter(|argument| !argument.starts_with('"')) {
                let name = field(argument);
                assert!(
                    listed.contains(name),
                    "{}: {name} is not in telemetry::FIELDS",
                    path.display()
                );
                used.insert(name.to_owned());
            }
        }
    }
    let used: BTreeSet<&str> = used.iter().map(String::as_str).collect();
    assert_eq!(used, listed, "a field that nothing uses");
}
