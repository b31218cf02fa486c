//! Checks the reference pages of the book, `docs/reference`.
//!
//! Not here: the list of metrics, which is defined in the code.

#![expect(
    clippy::expect_used,
    reason = "a page that cannot be generated is a test that fails"
)]

mod chart_values;
mod command_lines;
mod definitions;
mod known_names;
mod markdown;
mod shapes;
mod versions;

use std::path::{Path, PathBuf};

use crate::is_up_to_date;

/// A path in the checkout.
fn in_checkout(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

#[test]
fn the_book_describes_every_field_of_every_kind() {
    for (path, page) in definitions::pages() {
        is_up_to_date(path, &page);
    }
}

#[test]
fn the_book_describes_every_command_and_option() {
    is_up_to_date("docs/reference/commands.md", &command_lines::page());
}

#[test]
fn the_book_describes_every_field_of_the_json_that_commands_print() {
    is_up_to_date("docs/reference/json.md", &shapes::page());
}

#[test]
fn the_book_lists_every_label_annotation_and_finalizer() {
    is_up_to_date("docs/reference/names.md", &known_names::names_page());
}

#[test]
fn the_book_lists_every_condition_and_reason() {
    is_up_to_date("docs/reference/conditions.md", &known_names::conditions_page());
}

#[test]
fn the_book_lists_every_value_of_every_chart() {
    is_up_to_date("docs/reference/values.md", &chart_values::page());
}

#[test]
fn the_book_lists_the_versions_that_tests_run_with() {
    is_up_to_date("docs/reference/versions.md", &versions::page());
}
