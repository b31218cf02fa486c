//! Checks of the text of a path before it is parsed.
//!
//! Owned here: checks for two gaps of the parser. First, it recurses per level of nesting, and
//! tries three alternatives at every level of a broken nested function call; its own limit of 128
//! levels bounds the stack but not the time. Second, it accepts blanks as part of an unquoted name
//! (`$.a b`, `@. a`). Not here: all other syntax.

/// Maximum number of parentheses and brackets that may be open at once.
pub const MAX_NESTING: usize = 8;

/// A problem in the text of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// More than [`MAX_NESTING`] parentheses and brackets are open at once.
    TooDeep,
    /// A name, number or word continues after a blank, or begins after a dot and a blank; both are
    /// invalid in a path. Contains the position of the character after the blank, from 1.
    StrayBlank(usize),
}

/// Checks the text outside of string literals.
pub(crate) fn check(path: &str) -> Result<(), Flaw> {
    let mut depth: usize = 0;
    let mut quote = None;
    let mut escaped = false;
    // The last character that is not blank, and true if a blank followed it.
    let (mut last, mut blank) = ('\0', false);
    for (index, c) in path.chars().enumerate() {
        if let Some(open) = quote {
            if !escaped && c == open {
                quote = None;
            }
            escaped = !escaped && c == '\\';
            continue;
        }
        if matches!(c, ' ' | '\t' | '\n' | '\r') {
            blank = true;
            continue;
        }
        if blank && (last == '.' || is_word(last) && is_word(c)) {
            return Err(Flaw::StrayBlank(index + 1));
        }
        (last, blank) = (c, false);
        match c {
            '\'' | '"' => quote = Some(c),
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_NESTING {
            return Err(Flaw::TooDeep);
        }
    }
    Ok(())
}

/// Characters of unquoted names, numbers, function names and literals.
fn is_word(c: char) -> bool {
    c == '_' || c.is_ascii_alphanumeric() || !c.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_and_parentheses_count_together() {
        assert_eq!(check(&format!("{}{}", "[(".repeat(4), ")]".repeat(4))), Ok(()));
        assert_eq!(check("((((((((("), Err(Flaw::TooDeep));
        assert_eq!(check(&"[0]".repeat(300)), Ok(()));
    }

    #[test]
    fn string_literals_do_not_count() {
        assert_eq!(check(r#"$["((((((((((((","x y"]['[[[[[\'[[[[[[']"#), Ok(()));
        assert_eq!(check(r"$['\\'[[[[[[[[[["), Err(Flaw::TooDeep));
    }

    #[test]
    fn a_blank_ends_a_name() {
        assert_eq!(check("$.a b"), Err(Flaw::StrayBlank(5)));
        assert_eq!(check("$.a[?@.x\t y]"), Err(Flaw::StrayBlank(11)));
        assert_eq!(check("$.a[?@. x]"), Err(Flaw::StrayBlank(9)));
        assert_eq!(
            check("$ .a [ 0 , 1 ] [ ? @.b == 'c d' && true == ! @.e ]"),
            Ok(())
        );
    }
}
