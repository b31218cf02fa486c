//! Markdown for generated pages: tables whose cells show any text literally.

/// Appears at the head of every generated page, below its title.
const ORIGIN: &str =
    "<!-- Generated from the code; UPDATE=1 cargo test -p argosy --test generated writes it anew. -->";

/// The beginning of a page.
pub(crate) fn head(title: &str, about: &str) -> String {
    format!("# {title}\n\n{ORIGIN}\n\n{about}\n")
}

/// Prose on one line. Characters that Markdown or HTML would read as markup are escaped, except in
/// code between backticks.
pub(crate) fn prose(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ").replace('|', "\\|");
    let parts = text.split('`').enumerate();
    let shown = parts.map(|(place, part)| {
        if place % 2 == 0 {
            part.replace('<', "&lt;").replace('*', "\\*")
        } else {
            part.to_owned()
        }
    });
    shown.collect::<Vec<_>>().join("`")
}

/// A code span. An empty text stays empty.
pub(crate) fn code(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    format!("`{}`", text.replace('|', "\\|"))
}

/// A table, or nothing if there are no rows. The cells are already Markdown.
pub(crate) fn table<const COLUMNS: usize>(
    columns: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let body: String = rows.into_iter().map(|cells| line(&cells)).collect();
    if body.is_empty() {
        return String::new();
    }
    let heads = line(&columns.map(str::to_owned));
    let rule = line(&columns.map(|_| "---".to_owned()));
    format!("\n{heads}{rule}{body}")
}

#[test]
fn a_cell_shows_what_would_be_markup_elsewhere() {
    assert_eq!(
        prose("a <b> is\n  `<c>` or *d*|e"),
        "a &lt;b> is `<c>` or \\*d\\*\\|e"
    );
    assert_eq!(code("a|b"), "`a\\|b`");
    assert_eq!(code(""), "");
}
