//! Checks that every test that the security page names exists.

use std::fs;

use crate::{in_checkout, none, page::pages};

/// Returns true if the file of this test module has a test with this name.
fn is_there(module: &str, test: &str) -> bool {
    let file = module.replace("::", "/");
    let candidates = ["integration", "fleet"].map(|suite| format!("tests/tests/{suite}/{file}.rs"));
    let mut texts = candidates
        .iter()
        .filter_map(|path| fs::read_to_string(in_checkout(path)).ok());
    texts.any(|text| text.contains(&format!("async fn {test}(")))
}

#[test]
fn every_test_that_the_security_page_names_is_there() {
    let pages = pages();
    let security = pages.iter().find(|page| page.path.ends_with("security.md"));
    let text = security.expect("the book has a security page").text();
    let named: Vec<_> = text
        .split('`')
        .filter_map(|word| word.rsplit_once("::"))
        .filter(|(_, test)| test.contains('_'))
        .collect();
    assert!(named.len() > 10, "the page names tests: {named:?}");
    let unknown = named.iter().filter(|(module, test)| !is_there(module, test));
    none(
        &unknown
            .map(|(module, test)| format!("{module}::{test}"))
            .collect::<Vec<_>>(),
    );
}
