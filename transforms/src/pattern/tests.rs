//! Tables of patterns, texts and limits.

use std::time::{Duration, Instant};

use super::*;

fn is_match(pattern: &str, text: &str, part: Part) -> bool {
    matches(pattern, text, part, &mut Work::new(1_000_000)).unwrap()
}

#[test]
fn match_takes_the_whole_text_and_search_any_part_of_it() {
    for (pattern, text, whole, any) in [
        ("b", "abc", false, true),
        ("a.c", "abc", true, true),
        ("a|abc", "abc", true, true),
        ("a.c", "a\nc", false, false),
        ("a.*", "a\u{2028}b", true, true),
        ("", "abc", false, true),
        ("", "", true, true),
        ("^a", "a", false, false),
        ("^a", "^a", true, true),
        ("[0-9]{2,3}", "1234", false, true),
        (r"\p{Lu}\p{Ll}+", "Ärger", true, true),
        (r"busybox:1\.3[0-9]", "busybox:1.36", true, true),
        ("A", "a", false, false),
        ("*", "*", false, false),
    ] {
        assert_eq!(
            is_match(pattern, text, Part::Whole),
            whole,
            "match {text:?} {pattern}"
        );
        assert_eq!(
            is_match(pattern, text, Part::Any),
            any,
            "search {text:?} {pattern}"
        );
    }
}

#[test]
fn patterns_that_are_long_or_large_are_refused() {
    assert!(check(&"a".repeat(LONGEST)).is_ok());
    assert!(check(&"a".repeat(LONGEST + 1)).unwrap_err().contains("257 bytes"));
    for pattern in ["(a{100}){100}", "((a{99}){99}){99}", r"\p{L}{500}"] {
        let started = Instant::now();
        assert_eq!(
            check(pattern),
            Err("it is too large; repeat less".to_owned()),
            "{pattern}"
        );
        assert!(started.elapsed() < Duration::from_secs(1), "{pattern}");
    }
    for pattern in ["[b-a]", "a{3,2}", "a{99999999999}"] {
        assert!(check(pattern).is_err(), "{pattern}");
    }
}

#[test]
fn a_pattern_costs_the_same_for_each_object_whatever_the_thread_has_kept() {
    let left = |pattern: &str| {
        let mut work = Work::new(TO_COMPILE + 100);
        let first = matches(pattern, "aaa", Part::Any, &mut work);
        (
            first,
            matches(pattern, "aa", Part::Any, &mut work),
            work.spend(100 - 5 * PER_BYTE),
            work.spend(1),
        )
    };
    let expected = (Ok(true), Ok(true), Ok(()), Err(OutOfWork));
    assert_eq!(left("a"), expected);
    assert_eq!(left("a"), expected);
    for number in 0..=KEPT {
        assert!(check(&format!("b{number}")).is_ok());
    }
    assert!(KNOWN.with_borrow(HashMap::len) <= KEPT);
    assert_eq!(left("a"), expected);
}

#[test]
fn many_patterns_in_turn_are_compiled_once_each() {
    let patterns: Vec<String> = (0..2 * KEPT)
        .map(|number| format!(r"\p{{L}}{{3}}{number}"))
        .collect();
    assert!(patterns.iter().all(|pattern| check(pattern).is_ok()));
    let mut work = Work::new(crate::MAX_WORK);
    let started = Instant::now();
    for _ in 0..100 {
        for pattern in &patterns {
            assert_eq!(matches(pattern, "a", Part::Whole, &mut work), Ok(false));
        }
    }
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "took {:?}",
        started.elapsed()
    );
}

#[test]
fn match_and_search_compile_a_pattern_separately_and_both_cost() {
    let mut work = Work::new(2 * TO_COMPILE);
    assert_eq!(matches("a", "", Part::Whole, &mut work), Ok(false));
    assert_eq!(matches("a", "", Part::Any, &mut work), Ok(false));
    assert_eq!(work.spend(1), Err(OutOfWork));
}

#[test]
fn a_pattern_of_a_megabyte_is_not_read_however_often_it_is_used() {
    let long = "a".repeat(1_000_000);
    let mut work = Work::new(crate::MAX_WORK);
    let started = Instant::now();
    for _ in 0..5000 {
        assert_eq!(matches(&long, "a", Part::Any, &mut work), Ok(false));
    }
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "took {:?}",
        started.elapsed()
    );
}

#[test]
fn the_costliest_patterns_end_soon() {
    let text = "ab1".repeat(100_000);
    for pattern in [
        r"(\p{L}|\p{N})*x",
        "(a|b|1|a1|b1|ab){1,60}x",
        "(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)x",
        "[ab1]*[b1]{200}x",
        ".{1,200}.{1,200}x",
    ] {
        let started = Instant::now();
        let mut work = Work::new(crate::MAX_WORK);
        // As many texts as the work allows.
        while matches(pattern, text.get(..10_000).unwrap(), Part::Any, &mut work).is_ok() {}
        assert!(
            started.elapsed() < Duration::from_secs(5),
            "{pattern} took {:?}",
            started.elapsed()
        );
    }
}
