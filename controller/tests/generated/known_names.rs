//! The pages about names: labels, annotations, finalizers, conditions and reasons, with the doc
//! comments of their declarations.
//!
//! The pages are read from the source, because only the doc comment describes the purpose of a
//! name. The parser supports only the form that `names.rs` and `conditions.rs` use: a constant
//! string with a comment of its own, inside or outside of a module.

use std::collections::BTreeMap;

use super::markdown::{code, head, prose, table};

const NAMES: &str = include_str!("../../api/src/names.rs");
const CONDITIONS: &str = include_str!("../../api/src/conditions.rs");

/// A constant string.
struct Name {
    constant: String,
    value: String,
    about: String,
}

/// The constants of a module. For constants outside of any module, `title` is empty.
#[derive(Default)]
struct Section {
    title: String,
    about: String,
    names: Vec<Name>,
}

pub(crate) fn names_page() -> String {
    let about = "Argosy reads and writes these names.\n\
                 The how-tos describe those that users write; the rest is Argosy's own: leave it alone.";
    let sections = read(NAMES);
    let mut by_kind: BTreeMap<&str, Vec<Name>> = BTreeMap::new();
    let mut kind = "";
    for name in sections.into_iter().flat_map(|section| section.names) {
        if !name.about.starts_with("See ") {
            kind = kind_of(&name.about);
        }
        by_kind.entry(kind).or_default().push(name);
    }
    let mut page = head("Labels, annotations, finalizers", about);
    for (kind, names) in &by_kind {
        page.extend(["\n## ", kind, "\n", &listing("name", names)]);
    }
    page
}

pub(crate) fn conditions_page() -> String {
    let about = "Conditions of a Workflow have type, status and message only (Argo's schema): there, the reason is the first word of the \
                 message.\n\
                 [Troubleshooting](../troubleshooting.md) says how to fix the causes.";
    let mut page = head("Conditions and reasons", about);
    for section in read(CONDITIONS) {
        let column = if section.title == "reason" {
            "reason"
        } else {
            "type"
        };
        let title = section
            .about
            .split(['.', ','])
            .next()
            .unwrap_or_default()
            .to_owned();
        let names = listing(column, &section.names);
        let about = section.about.strip_prefix(&title).unwrap_or_default();
        let about = about.trim_start_matches(['.', ',', ' ']);
        let about = if about.is_empty() {
            String::new()
        } else {
            format!("\n{}\n", prose(&capital(about)))
        };
        page.extend(["\n## ", &title, "\n", &about, &names]);
    }
    page
}

fn listing(column: &str, names: &[Name]) -> String {
    let rows = names.iter().map(|name| [code(&name.value), prose(&name.about)]);
    table([column, "what"], rows)
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().chain(letters).collect())
        .unwrap_or_default()
}

/// The kind of thing that has this name, derived from the first of these words in its description.
fn kind_of(about: &str) -> &'static str {
    const KINDS: [(&str, &str); 5] = [
        ("annotation", "Annotations"),
        ("field manager", "Field managers"),
        ("finalizer", "Finalizers"),
        ("label", "Labels"),
        ("taint", "Taints"),
    ];
    const OTHER: &str = "Other names";
    let about = about.to_lowercase();
    if ["prefix", "value", "name of", "namespace"]
        .iter()
        .any(|word| about.starts_with(word))
    {
        return OTHER;
    }
    let places = KINDS
        .iter()
        .filter_map(|(word, kind)| Some((about.find(word)?, *kind)));
    places.min().map_or(OTHER, |(_, kind)| kind)
}

/// The constants of a source file, with the links in their comments resolved.
fn read(source: &str) -> Vec<Section> {
    let mut sections = vec![Section::default()];
    let mut comment = Vec::new();
    let mut awaited: Option<String> = None;
    for line in source.lines().map(str::trim) {
        if line.starts_with("#[cfg(test)]") {
            break;
        }
        let section = sections.last_mut().expect("there is one at first");
        if let Some(said) = line.strip_prefix("///") {
            comment.push(said.trim());
            continue;
        }
        if let Some(title) = line.strip_prefix("pub mod ") {
            sections.push(Section {
                title: title.trim_end_matches([' ', '{']).to_owned(),
                about: comment.join(" "),
                names: Vec::new(),
            });
        } else if let Some(rest) = line.strip_prefix("pub const ")
            && let Some((constant, value)) = rest.split_once(": &str =")
        {
            let Some(value) = quoted(value) else {
                // rustfmt has put the value on a line of its own.
                awaited = Some(constant.to_owned());
                continue;
            };
            section.names.push(Name {
                constant: constant.to_owned(),
                value,
                about: comment.join(" "),
            });
        } else if let Some(constant) = awaited.take() {
            section.names.push(Name {
                constant,
                value: quoted(line).expect("a value follows its name"),
                about: comment.join(" "),
            });
        }
        comment.clear();
    }
    sections.retain(|section| !section.names.is_empty());
    link(&mut sections);
    sections
}

fn quoted(text: &str) -> Option<String> {
    Some(text.split('"').nth(1)?.to_owned())
}

/// Replaces links to constants by their values, and other links by their names.
fn link(sections: &mut [Section]) {
    let known: BTreeMap<String, String> = sections
        .iter()
        .flat_map(|section| &section.names)
        .map(|name| (name.constant.clone(), name.value.clone()))
        .collect();
    for name in sections.iter_mut().flat_map(|section| &mut section.names) {
        let mut parts = name.about.split("[`");
        let mut about = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (target, rest) = part.split_once("`]").expect("a link has an end");
            let target = target.rsplit("::").next().unwrap_or_default();
            let name = known.get(target).map_or(target, String::as_str);
            about.extend(["`", name, "`", rest]);
        }
        name.about = about;
    }
}

#[test]
fn constants_are_read_with_their_comments_and_links() {
    let source = "/// One.\npub const A: &str = \"a/b\";\n\n/// See\n/// [`A`].\npub const B: &str =\n    \"c\";\n/// Of x, y.\npub mod m {\n    \
                  /// All.\n    pub const ALL: [&str; 1] = [A];\n    /// Three.\n    pub const C: &str = \"C\";\n}\n";
    let sections = read(source);
    let told: Vec<Vec<(&str, &str)>> = sections
        .iter()
        .map(|section| {
            section
                .names
                .iter()
                .map(|name| (name.value.as_str(), name.about.as_str()))
                .collect()
        })
        .collect();
    assert_eq!(
        told,
        [vec![("a/b", "One."), ("c", "See `a/b`.")], vec![("C", "Three.")]]
    );
    assert_eq!(
        sections.last().map(|section| section.about.as_str()),
        Some("Of x, y.")
    );
}

#[test]
fn no_constant_is_left_out() {
    for source in [NAMES, CONDITIONS] {
        let declared = source.matches(": &str =").count();
        let read: usize = read(source).iter().map(|section| section.names.len()).sum();
        assert_eq!(read, declared);
    }
}
