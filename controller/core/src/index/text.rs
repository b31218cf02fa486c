//! Text from untrusted sources: its maximum length and safe form for display. Lists of names of which
//! there may be thousands.

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

/// The first `most` names, and the number of the others.
pub(crate) fn list(names: impl IntoIterator<Item = impl AsRef<str>>, most: usize) -> String {
    limited(names, most, |rest| format!("{rest} more"))
}

/// The same for text that is stored on many objects. The number of the others is rounded down, so that
/// one name more or less seldom changes the text.
pub(crate) fn list_roughly(names: impl IntoIterator<Item = impl AsRef<str>>, most: usize) -> String {
    limited(names, most, |rest| match 10_usize.pow(rest.ilog10()) {
        1 => format!("{rest} more"),
        unit => format!("at least {} more", rest / unit * unit),
    })
}

/// `others` describes the names after the first `most`, by their number, which is not 0.
fn limited(
    names: impl IntoIterator<Item = impl AsRef<str>>,
    most: usize,
    others: impl Fn(usize) -> String,
) -> String {
    let mut names = names.into_iter();
    let shown: Vec<_> = names.by_ref().take(most).collect();
    let shown: Vec<&str> = shown.iter().map(AsRef::as_ref).collect();
    match names.count() {
        0 => shown.join(", "),
        rest => format!("{} and {}", shown.join(", "), others(rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_the_first_and_counts_the_others_roughly_where_it_is_stored() {
        for (number, exact, rough) in [
            (0, "", ""),
            (2, "0, 1", "0, 1"),
            (3, "0, 1 and 1 more", "0, 1 and 1 more"),
            (11, "0, 1 and 9 more", "0, 1 and 9 more"),
            (12, "0, 1 and 10 more", "0, 1 and at least 10 more"),
            (21, "0, 1 and 19 more", "0, 1 and at least 10 more"),
            (1000, "0, 1 and 998 more", "0, 1 and at least 900 more"),
        ] {
            let names = || (0..number).map(|number| number.to_string());
            let lists = (list(names(), 2), list_roughly(names(), 2));
            assert_eq!((&*lists.0, &*lists.1), (exact, rough), "{number}");
        }
    }

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
