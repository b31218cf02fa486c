//! Text from untrusted sources: its maximum length and safe form for display.

/// Maximum length of a foreign message for display, in characters. An Event holds 1,024 bytes.
pub(crate) const LONGEST_MESSAGE: usize = 600;

/// The first `longest` characters, with an ellipsis if there are more.
pub(crate) fn shortened(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{} …", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// The text in one line, without characters that control a terminal or change the order of the
/// displayed text.
pub fn printable(text: &str) -> String {
    let shown = text.chars().map(|one| match one {
        _ if one.is_whitespace() => ' ',
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            char::REPLACEMENT_CHARACTER
        }
        _ if one.is_control() => char::REPLACEMENT_CHARACTER,
        _ => one,
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_carries_out_is_printed() {
        for (text, shown) in [
            ("ErrImagePull: \"busybux\" é 船", "ErrImagePull: \"busybux\" é 船"),
            ("one\r\n\ttwo\u{85}three", "one   two three"),
            (
                "\u{1b}[2J\u{9b}31m\u{7}\u{8}\u{7f}",
                "\u{fffd}[2J\u{fffd}31m\u{fffd}\u{fffd}\u{fffd}",
            ),
            ("a\u{202e}b\u{2067}c\u{200f}", "a\u{fffd}b\u{fffd}c\u{fffd}"),
        ] {
            assert_eq!(printable(text), shown, "{text:?}");
        }
    }
}
