//! Circles of files: files that need each other, by `use` lines, or by methods of a type whose
//! `impl` blocks lie in several of them. A module and its own children do not count.
//!
//! Not here: code that a macro generates, and paths that stand in an expression.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use super::{TESTS, is_test, sources};

/// Code by module path, such as `hub/workflows/claim`.
pub(crate) type Files = BTreeMap<String, String>;

/// The code below a folder, without tests and comments.
pub(crate) fn read(source: &Path) -> Files {
    let mut files = Files::new();
    for file in sources(source) {
        let inside = file.strip_prefix(source).expect("it lies inside");
        if is_test(inside) {
            continue;
        }
        let name = inside.with_extension("").to_string_lossy().into_owned();
        let text = fs::read_to_string(&file).expect("it can be read");
        files.insert(name, code(&text));
    }
    files
}

fn code(text: &str) -> String {
    let text = text.split(TESTS).next().unwrap_or_default();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The files that the rules of a table lie in: those of the functions that its `rule(…)` entries name.
pub(crate) fn rules(files: &Files, table: &str) -> BTreeSet<String> {
    let folder = table.rsplit_once('/').map_or("", |(folder, _)| folder);
    let code = files.get(table).map(String::as_str).unwrap_or_default();
    let entries = code.split("rule(\n").skip(1);
    let decisions = entries.filter_map(|entry| entry.lines().nth(1)?.trim().split_once("::"));
    decisions
        .map(|(module, _)| format!("{folder}/{module}"))
        .collect()
}

/// The files other than `table` that use one of these files, with the one that they use.
pub(crate) fn users(files: &Files, rules: &BTreeSet<String>, table: &str) -> Vec<String> {
    let arrows = arrows(files).into_iter().filter(|(file, _)| file != table);
    let found = arrows.flat_map(|(file, others)| {
        let others = others.into_iter().filter(|other| rules.contains(other));
        others.map(move |other| format!("{file} uses {other}"))
    });
    found.collect()
}

/// The files of each circle.
pub(crate) fn circles(files: &Files) -> Vec<Vec<String>> {
    let arrows = arrows(files);
    let all: BTreeMap<&str, BTreeSet<&str>> = files
        .keys()
        .map(|file| (file.as_str(), reached(&arrows, file)))
        .collect();
    let reaches = |from: &str, to: &str| all.get(from).is_some_and(|found| found.contains(to));
    let in_circle = |file: &&str| reaches(file, file);
    let circle = |file: &str| -> Vec<String> {
        let around = all
            .keys()
            .filter(|other| reaches(file, other) && reaches(other, file));
        around.map(|other| (*other).to_owned()).collect()
    };
    let found: BTreeSet<_> = all.keys().copied().filter(in_circle).map(circle).collect();
    found.into_iter().collect()
}

/// The files that can be reached from a file along arrows.
fn reached<'a>(arrows: &'a BTreeMap<String, BTreeSet<String>>, from: &'a str) -> BTreeSet<&'a str> {
    let (mut seen, mut left) = (BTreeSet::new(), vec![from]);
    while let Some(file) = left.pop() {
        let next = arrows.get(file).into_iter().flatten().map(String::as_str);
        left.extend(next.filter(|next| seen.insert(*next)));
    }
    seen
}

fn arrows(files: &Files) -> BTreeMap<String, BTreeSet<String>> {
    let methods = methods(files);
    let mut arrows = BTreeMap::<String, BTreeSet<String>>::new();
    for (file, code) in files {
        let used = used(file, code)
            .into_iter()
            .filter_map(|path| owner(files, &path));
        let called = called(file, code, &methods);
        let others = used
            .chain(called)
            .filter(|other| other != file && !is_inside(file, other) && !is_inside(other, file));
        arrows.entry(file.clone()).or_default().extend(others);
    }
    arrows
}

fn is_inside(child: &str, parent: &str) -> bool {
    child
        .strip_prefix(parent)
        .is_some_and(|rest| rest.starts_with('/'))
}

/// The file of the module in which the item at `path` lies.
fn owner(files: &Files, path: &[String]) -> Option<String> {
    let lengths = (1..=path.len()).rev();
    let mut modules = lengths.map(|length| path.iter().take(length).cloned().collect::<Vec<_>>().join("/"));
    modules.find(|module| files.contains_key(module))
}

/// The paths that the `use` lines of a file name, from the root of the crate.
fn used(file: &str, code: &str) -> Vec<Vec<String>> {
    let own: Vec<String> = file
        .split('/')
        .filter(|part| !["lib", "main"].contains(part))
        .map(str::to_owned)
        .collect();
    let mut paths = Vec::new();
    for (index, _) in code.match_indices("use ") {
        let before = code[..index].rsplit('\n').next().unwrap_or_default().trim();
        if !before.is_empty() && !before.starts_with("pub") {
            continue;
        }
        let tree = code[index + 4..].split(';').next().unwrap_or_default();
        for path in expanded(tree) {
            let mut parts = path.split("::").map(str::trim).peekable();
            let mut base = match parts.peek() {
                Some(&"crate") => Vec::new(),
                Some(&("super" | "self")) => own.clone(),
                _ => continue,
            };
            while let Some(part) = parts.next_if(|part| ["crate", "super", "self"].contains(part)) {
                if part == "super" {
                    base.pop();
                }
            }
            base.extend(parts.map(str::to_owned));
            paths.push(base);
        }
    }
    paths
}

/// `a::{b, c::d}` as `a::b` and `a::c::d`.
fn expanded(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((prefix, rest)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        return vec![path.to_owned()];
    };
    let (mut depth, mut begin, mut parts) = (0_u32, 0, Vec::new());
    for (index, letter) in rest.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            '}' | ',' if depth == 0 => {
                parts.push(&rest[begin..index]);
                begin = index + 1;
            }
            _ => {}
        }
    }
    let parts = parts.into_iter().filter(|part| !part.trim().is_empty());
    parts
        .flat_map(|part| expanded(&format!("{prefix}{}", part.trim())))
        .collect()
}

/// Files by type, the folder that the type's files share, and method.
type Methods = BTreeMap<(String, String), BTreeMap<String, BTreeSet<String>>>;

/// The folder of a room's type: `hub/workflows` for `hub/workflows`, `hub/workflows/claim` and
/// `hub/workflows/fan_out/runs`.
fn room(file: &str) -> String {
    file.split('/').take(2).collect::<Vec<_>>().join("/")
}

fn methods(files: &Files) -> Methods {
    let mut methods = Methods::new();
    for (file, code) in files {
        for (type_, block) in impls(code) {
            let known = methods.entry((type_, room(file))).or_default();
            for (index, _) in block.match_indices("fn ") {
                known
                    .entry(word(&block[index + 3..]))
                    .or_default()
                    .insert(file.clone());
            }
        }
    }
    methods
}

/// The `impl` blocks of a file, by the type that they are for.
fn impls(code: &str) -> Vec<(String, &str)> {
    let mut found = Vec::new();
    for (index, _) in code.match_indices("impl") {
        if index > 0 && !code[..index].ends_with('\n') {
            continue;
        }
        let Some((head, _)) = code[index..].split_once('{') else {
            continue;
        };
        let of = head.rsplit(" for ").next().unwrap_or_default();
        let of = of.trim_start_matches("impl").trim_start();
        let of = if of.starts_with('<') {
            of.split_once("> ").map_or("", |(_, of)| of)
        } else {
            of
        };
        let end = code[index..].find("\n}").map_or(code.len(), |end| index + end);
        found.push((word(of), &code[index..end]));
    }
    found
}

fn word(text: &str) -> String {
    let is_of_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.trim_start()
        .chars()
        .take_while(|&letter| is_of_word(letter))
        .collect()
}

/// The files whose methods a file calls on `self` or on the index of a rule.
fn called(file: &str, code: &str, methods: &Methods) -> BTreeSet<String> {
    let mut own: BTreeSet<String> = impls(code).into_iter().map(|(type_, _)| type_).collect();
    own.extend(code.contains("Case<'_>").then(|| "WorkflowIndex".to_owned()));
    let compact: String = code.split_whitespace().collect();
    let mut found = BTreeSet::new();
    for type_ in own {
        let Some(known) = methods.get(&(type_, room(file))) else {
            continue;
        };
        for receiver in ["self.", "index."] {
            for (index, _) in compact.match_indices(receiver) {
                let rest = &compact[index + receiver.len()..];
                let name = word(rest);
                if rest[name.len()..].starts_with('(') {
                    found.extend(known.get(&name).into_iter().flatten().cloned());
                }
            }
        }
    }
    found
}

#[test]
fn circles_are_seen_by_use_lines_and_by_methods() {
    let files = |parts: &[(&str, &str)]| -> Files {
        let parts = parts
            .iter()
            .map(|(name, code)| ((*name).to_owned(), (*code).to_owned()));
        parts.collect()
    };
    let by_use = files(&[
        ("a/b", "use super::c::{self, D};"),
        ("a/c", "use crate::a::b::E;"),
        ("a", "use b::E;"),
    ]);
    assert_eq!(circles(&by_use), [["a/b".to_owned(), "a/c".to_owned()]]);
    let by_method = files(&[
        ("a/b/c", "impl Index {\n    fn one(&self) { self\n .two() }\n}"),
        ("a/b/d", "impl Index {\n    fn two(&self) { self.one() }\n}"),
    ]);
    assert_eq!(circles(&by_method), [["a/b/c".to_owned(), "a/b/d".to_owned()]]);
    let child = files(&[
        ("a", "use self::b::C;"),
        ("a/b", "use super::D;"),
        ("e", "use crate::a::D;"),
    ]);
    assert_eq!(circles(&child), Vec::<Vec<String>>::new());
}

#[test]
fn a_file_that_uses_a_rule_is_seen_and_the_table_of_rules_may() {
    let files: Files = [
        ("a/b/table", "use super::one;\nconst T: [Rule; 1] = [\n    rule(\n        \"one\",\n        one::rule,\n    ),\n];"),
        ("a/b/one", "impl Index {\n    fn first(&self) {}\n}"),
        ("a/b/two", "impl Index {\n    fn second(&self) { self.first() }\n}"),
    ]
    .map(|(name, code)| (name.to_owned(), code.to_owned()))
    .into();
    let rules = rules(&files, "a/b/table");
    assert_eq!(rules, BTreeSet::from(["a/b/one".to_owned()]));
    assert_eq!(users(&files, &rules, "a/b/table"), ["a/b/two uses a/b/one"]);
}
