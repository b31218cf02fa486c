//! I-Regexp, the regular expressions of RFC 9485: a check of the syntax, and the translation to that
//! of the crate `regex`.
//!
//! I-Regexp has no anchors, so `^` and `$` are ordinary characters outside of classes, and a dot
//! does not match the end of a line. Not here: limits (`pattern`).

use std::fmt::Write;
use std::iter::Peekable;
use std::str::Chars;

/// Maximum nesting of groups.
const DEEPEST: usize = 16;

/// The general categories of Unicode that `\p{…}` may name, by their first letter.
const CATEGORIES: [(char, &str); 7] = [
    ('L', "lmotu"),
    ('M', "cen"),
    ('N', "dlo"),
    ('P', "cdefios"),
    ('Z', "lps"),
    ('S', "ckmo"),
    ('C', "cfno"),
];

/// The pattern in the syntax of the crate `regex`. The error describes the problem.
pub(crate) fn translate(pattern: &str) -> Result<String, String> {
    let mut translation = Translation {
        rest: pattern.chars().peekable(),
        written: String::new(),
    };
    translation.expression()?;
    Ok(translation.written)
}

struct Translation<'a> {
    rest: Peekable<Chars<'a>>,
    written: String,
}

impl Translation<'_> {
    fn expression(&mut self) -> Result<(), String> {
        let mut open = 0_usize;
        // True after an atom, which a quantifier may follow.
        let mut is_atom = false;
        while let Some(next) = self.rest.next() {
            is_atom = match next {
                '(' if open == DEEPEST => return Err(format!("more than {DEEPEST} groups are nested")),
                '(' => {
                    open += 1;
                    self.written.push_str("(?:");
                    false
                }
                ')' => {
                    open = open
                        .checked_sub(1)
                        .ok_or("a group is closed that was not opened")?;
                    self.written.push(')');
                    true
                }
                '|' => {
                    self.written.push('|');
                    false
                }
                '*' | '+' | '?' | '{' => {
                    if !is_atom {
                        return Err(format!("there is nothing that {next} could repeat"));
                    }
                    self.quantifier(next)?;
                    false
                }
                '.' => {
                    self.written.push_str(r"[^\n\r]");
                    true
                }
                '\\' => {
                    self.escape()?;
                    true
                }
                '[' => {
                    self.class()?;
                    true
                }
                ']' | '}' => return Err(format!("{next} must be escaped")),
                other => {
                    self.literal(other);
                    true
                }
            };
        }
        if open > 0 {
            return Err("a group is not closed".to_owned());
        }
        Ok(())
    }

    fn quantifier(&mut self, first: char) -> Result<(), String> {
        self.written.push(first);
        if first != '{' {
            return Ok(());
        }
        self.digits()?;
        if self.rest.next_if_eq(&',').is_some() {
            self.written.push(',');
            if self.rest.peek() != Some(&'}') {
                self.digits()?;
            }
        }
        self.expect('}')
    }

    fn digits(&mut self) -> Result<(), String> {
        let before = self.written.len();
        while let Some(digit) = self.rest.next_if(char::is_ascii_digit) {
            self.written.push(digit);
        }
        if self.written.len() == before {
            return Err("a repetition needs a number".to_owned());
        }
        Ok(())
    }

    fn expect(&mut self, expected: char) -> Result<(), String> {
        match self.rest.next() {
            Some(next) if next == expected => {
                self.written.push(expected);
                Ok(())
            }
            _ => Err(format!("{expected} is missing")),
        }
    }

    /// The part of an escape after its backslash.
    fn escape(&mut self) -> Result<(), String> {
        match self.rest.next() {
            Some(kind @ ('p' | 'P')) => self.category(kind),
            Some(escaped) => {
                let character = single(escaped).ok_or_else(|| format!("\\{escaped} is not known"))?;
                self.literal(character);
                Ok(())
            }
            None => Err("it ends with a backslash".to_owned()),
        }
    }

    fn category(&mut self, kind: char) -> Result<(), String> {
        let _ = write!(self.written, "\\{kind}");
        self.expect('{')?;
        let first = self.rest.next().unwrap_or_default();
        let (_, second) = CATEGORIES
            .into_iter()
            .find(|(letter, _)| *letter == first)
            .ok_or("a category of Unicode is not known")?;
        self.written.push(first);
        if let Some(letter) = self.rest.next_if(|letter| second.contains(*letter)) {
            self.written.push(letter);
        }
        self.expect('}')
    }

    /// The part of a class after its bracket.
    fn class(&mut self) -> Result<(), String> {
        self.written.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.written.push('^');
        }
        let mut is_empty = true;
        loop {
            let next = self.rest.next().ok_or("a class is not closed")?;
            match next {
                ']' if is_empty => return Err("a class is empty".to_owned()),
                ']' => break,
                '-' if is_empty || self.rest.peek() == Some(&']') => self.literal('-'),
                '-' => return Err("a hyphen inside a class must be escaped".to_owned()),
                '\\' if matches!(self.rest.peek(), Some('p' | 'P')) => self.escape()?,
                first => self.range(first)?,
            }
            is_empty = false;
        }
        self.written.push(']');
        Ok(())
    }

    /// One character of a class, or a range that begins with it.
    fn range(&mut self, first: char) -> Result<(), String> {
        let first = self.class_character(first)?;
        self.literal(first);
        // A hyphen at the end of the class stands for itself.
        let mut ahead = self.rest.clone();
        if ahead.next() == Some('-') && ahead.peek().is_some_and(|next| *next != ']') {
            self.rest.next();
            let last = self.rest.next().ok_or("a class is not closed")?;
            let last = self.class_character(last)?;
            self.written.push('-');
            self.literal(last);
        }
        Ok(())
    }

    fn class_character(&mut self, character: char) -> Result<char, String> {
        match character {
            '\\' => {
                let escaped = self.rest.next().unwrap_or_default();
                single(escaped).ok_or_else(|| "an escape in a class is not known".to_owned())
            }
            '[' | '-' => Err(format!("{character} must be escaped inside a class")),
            other => Ok(other),
        }
    }

    /// Writes a character that stands for itself.
    fn literal(&mut self, character: char) {
        if character.is_ascii_alphanumeric() {
            self.written.push(character);
        } else {
            let _ = write!(self.written, "\\x{{{:x}}}", u32::from(character));
        }
    }
}

/// The character that an escape stands for.
fn single(escaped: char) -> Option<char> {
    match escaped {
        'n' => Some('\n'),
        'r' => Some('\r'),
        't' => Some('\t'),
        '(' | ')' | '*' | '+' | '-' | '.' | '?' | '[' | '\\' | ']' | '^' | '{' | '|' | '}' => Some(escaped),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_that_means_something_else_to_the_crate_is_written_by_its_number() {
        for (pattern, expected) in [
            ("aB9", "aB9"),
            ("a.b", r"a[^\n\r]b"),
            ("^a$", r"\x{5e}a\x{24}"),
            (r"\.\n\\", r"\x{2e}\x{a}\x{5c}"),
            ("(a|b)*", "(?:a|b)*"),
            ("a{2}b{2,}c{2,3}", "a{2}b{2,}c{2,3}"),
            ("[^a-z_]", r"[^a-z\x{5f}]"),
            ("[-a]", r"[\x{2d}a]"),
            ("[a-]", r"[a\x{2d}]"),
            ("[^-a]", r"[^\x{2d}a]"),
            (r"[\]-\^&&~]", r"[\x{5d}-\x{5e}\x{26}\x{26}\x{7e}]"),
            (r"\p{Lu}\P{N}[\p{Zs}x]", r"\p{Lu}\P{N}[\p{Zs}x]"),
            ("", ""),
            ("a||b", "a||b"),
            ("()", "(?:)"),
            ("ü", r"\x{fc}"),
        ] {
            assert_eq!(translate(pattern).as_deref(), Ok(expected), "{pattern}");
        }
    }

    #[test]
    fn text_that_is_no_i_regexp_is_an_error() {
        for pattern in [
            "*",
            "a**",
            "a+?",
            "(",
            ")",
            "(a",
            "a)",
            "[",
            "[]",
            "[^]",
            "[a",
            "]",
            "}",
            "a{",
            "a{}",
            "a{,2}",
            "a{2",
            "a{x}",
            "|*",
            "(?:a)",
            "(?i)a",
            r"\",
            r"\d",
            r"\w",
            r"\b",
            r"\x{41}",
            r"\p",
            r"\p{",
            r"\p{X}",
            r"\p{Lx}",
            r"\p{Greek}",
            r"\pL",
            "[[a]]",
            "[a-b-c]",
            r"[\d]",
            r"[a\",
            "[a--b]",
        ] {
            assert!(translate(pattern).is_err(), "{pattern}");
        }
        assert!(
            translate(&"(".repeat(DEEPEST + 1))
                .unwrap_err()
                .contains("nested")
        );
    }
}
