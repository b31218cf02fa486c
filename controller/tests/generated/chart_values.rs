//! The page about chart values: every value with its default and the comment beside it.
//!
//! Order and comments are read from the lines of `values.yaml`, the values from the same file
//! parsed as YAML. A test compares the two.

use std::fs;

use serde_json::Value;

use super::{
    in_checkout,
    markdown::{code, head, prose, table},
};

struct Row {
    path: String,
    default: String,
    about: String,
}

pub(crate) fn page() -> String {
    let about = "A value that a chart does not know is refused (`values.schema.json`).";
    let mut page = head("Chart values", about);
    for chart in charts() {
        let text = fs::read_to_string(in_checkout(&format!("charts/{chart}/values.yaml")))
            .expect("a chart has values");
        let rows = rows(&text).into_iter();
        let rows = rows.map(|row| [code(&row.path), code(&row.default), prose(&row.about)]);
        let table = table(["value", "default", "what"], rows);
        page.extend(["\n## ", &chart, "\n", &table]);
    }
    page
}

/// Names of the folders in `charts` that have a `values.yaml`.
fn charts() -> Vec<String> {
    let folders = fs::read_dir(in_checkout("charts")).expect("there are charts");
    let names = folders.filter_map(|folder| folder.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names
        .filter(|name| in_checkout(&format!("charts/{name}/values.yaml")).exists())
        .collect();
    names.sort();
    names
}

fn rows(text: &str) -> Vec<Row> {
    let known: Value = serde_saphyr::from_str(text).expect("values are YAML");
    let mut rows: Vec<Row> = Vec::new();
    let mut comment = Vec::new();
    let mut above: Vec<(usize, &str)> = Vec::new();
    // Column of the comment beside the previous line; the comment may continue on the next line.
    let mut column = None;
    for line in text.lines() {
        let content = line.trim_start();
        let depth = line.len() - content.len();
        if let Some(said) = content.strip_prefix('#') {
            match rows.last_mut() {
                Some(row) if column == Some(depth) => row.about = format!("{} {}", row.about, said.trim()),
                _ => comment.push(said.trim()),
            }
            continue;
        }
        column = line.find(" #").map(|place| place + 1);
        let about = comment.join(" ");
        comment.clear();
        let Some((key, rest)) = content.split_once(':') else {
            continue;
        };
        above.retain(|(outer, _)| *outer < depth);
        above.push((depth, key));
        let path: Vec<&str> = above.iter().map(|(_, key)| *key).collect();
        // Elements of a list look like keys, too.
        let Some(value) = known.pointer(&format!("/{}", path.join("/"))) else {
            continue;
        };
        let (written, beside) = rest.split_once(" #").unwrap_or((rest, ""));
        let default = match (written.trim(), value) {
            ("", Value::Object(_)) => String::new(),
            ("", value) => value.to_string(),
            (written, _) => written.to_owned(),
        };
        rows.push(Row {
            path: path.join("."),
            default,
            about: format!("{about} {}", beside.trim()).trim().to_owned(),
        });
    }
    rows.retain(|row| !(row.default.is_empty() && row.about.is_empty()));
    rows
}

/// The paths of all values that are not maps, and of empty maps.
fn leaves(path: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, below) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                leaves(&format!("{path}{dot}{key}"), below, found);
            }
        }
        _ => found.push(path.to_owned()),
    }
}

#[test]
fn no_value_of_a_chart_is_left_out() {
    for chart in charts() {
        let text = fs::read_to_string(in_checkout(&format!("charts/{chart}/values.yaml"))).unwrap();
        let mut wanted = Vec::new();
        leaves("", &serde_saphyr::from_str(&text).unwrap(), &mut wanted);
        let told = rows(&text);
        for path in wanted {
            let is_told = |row: &Row| {
                let inner = path.strip_prefix(&row.path);
                inner
                    .is_some_and(|rest| rest.is_empty() || (rest.starts_with('.') && !row.default.is_empty()))
            };
            assert!(told.iter().any(is_told), "{chart}: {path}");
        }
    }
}

#[test]
fn a_comment_above_or_beside_a_value_is_about_it() {
    let text =
        "# The image.\nimage:\n  tag: \"\"   # empty: the version\n\nlist: []\n# - a: 1\n\nother: {a: 1}\n";
    let rows = rows(text);
    let told: Vec<[&str; 3]> = rows
        .iter()
        .map(|row| [row.path.as_str(), row.default.as_str(), row.about.as_str()])
        .collect();
    assert_eq!(
        told,
        [
            ["image", "", "The image."],
            ["image.tag", "\"\"", "empty: the version"],
            ["list", "[]", ""],
            ["other", "{a: 1}", ""],
        ]
    );
}
