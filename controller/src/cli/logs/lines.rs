//! Prefixes every line with the name of its step, in a text that arrives in pieces. The only state
//! is whether a line has started, so a log without line breaks takes no memory.

use std::io::{self, Write};

/// Writes a text with a prefix on each line.
#[derive(Debug)]
pub(super) struct Lines<W> {
    out: W,
    prefix: String,
    is_within: bool,
}

impl<W: Write> Lines<W> {
    /// Creates a writer to `out`.
    pub(super) fn new(out: W, prefix: String) -> Self {
        Self {
            out,
            prefix,
            is_within: false,
        }
    }

    /// Writes the next piece of the text.
    pub(super) fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            if !self.is_within {
                self.out.write_all(self.prefix.as_bytes())?;
            }
            self.out.write_all(part)?;
            self.is_within = !part.ends_with(b"\n");
        }
        Ok(())
    }

    /// Ends the text, and the last line if it has no line break.
    pub(super) fn end(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_within) {
            self.out.write_all(b"\n")?;
        }
        self.out.flush()
    }
}

/// Prefix of the lines of a step. With `is_colored`, its name has one of six colors, chosen by the ID
/// of its node.
pub(super) fn prefix(name: &str, node: &str, is_colored: bool) -> String {
    if !is_colored {
        return format!("{name}: ");
    }
    let sum: u32 = node.bytes().map(u32::from).sum();
    format!("\x1b[{}m{name}:\x1b[0m ", 31 + sum % 6)
}

/// The part of a piece that follows the next `skipped` bytes of its text.
pub(super) fn after<'a>(piece: &'a [u8], skipped: &mut u64) -> &'a [u8] {
    let here = usize::try_from(*skipped).unwrap_or(usize::MAX).min(piece.len());
    *skipped = skipped.saturating_sub(u64::try_from(here).unwrap_or(u64::MAX));
    piece.get(here..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(pieces: &[&str]) -> String {
        let mut out = Vec::new();
        let mut lines = Lines::new(&mut out, "a: ".to_owned());
        for piece in pieces {
            lines.write(piece.as_bytes()).unwrap();
        }
        lines.end().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_line_has_the_name_of_its_step_wherever_the_pieces_are_cut() {
        let expected = "a: one\na: \na: three\n";
        for pieces in [
            vec!["one\n\nthree\n"],
            vec!["o", "ne", "\n", "", "\nthr", "ee"],
            vec!["one\n", "\n", "three\n"],
        ] {
            assert_eq!(written(&pieces), expected, "{pieces:?}");
        }
        assert_eq!(written(&[]), "");
    }

    #[test]
    fn the_bytes_that_were_printed_are_skipped_wherever_the_pieces_are_cut() {
        for pieces in [
            vec!["one\ntwo\n"],
            vec!["on", "e\n", "two\n"],
            vec!["one", "\ntwo", "\n"],
        ] {
            let mut skipped = 4;
            let mut rest = Vec::new();
            for piece in &pieces {
                rest.extend_from_slice(after(piece.as_bytes(), &mut skipped));
            }
            assert_eq!(rest, b"two\n", "{pieces:?}");
        }
    }

    #[test]
    fn names_of_steps_have_colors_on_a_terminal_only() {
        assert_eq!(prefix("a", "id", false), "a: ");
        assert!(prefix("a", "id", true).starts_with("\x1b[3"));
    }
}
