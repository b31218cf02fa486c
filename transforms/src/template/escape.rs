//! Escaping of text for other languages, byte for byte as in Go.

/// Like `html`.
pub(super) fn html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\0' => escaped.push('\u{fffd}'),
            '"' => escaped.push_str("&#34;"),
            '\'' => escaped.push_str("&#39;"),
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Like `js`.
pub(super) fn js(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '\'' | '"' => escaped.extend(['\\', c]),
            '<' | '>' | '&' | '=' | '\0'..' ' => code(&mut escaped, 'u', 4, c, true),
            c if c.is_ascii() || is_printable(c) => escaped.push(c),
            c => code(&mut escaped, 'u', 4, c, true),
        }
    }
    escaped
}

/// Like `urlquery`.
pub(super) fn url_query(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' ' => escaped.push('+'),
            b'-' | b'_' | b'.' | b'~' => escaped.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => escaped.push(char::from(byte)),
            byte => {
                let digits = format!("%{byte:02X}");
                escaped.push_str(&digits);
            }
        }
    }
    escaped
}

/// Like `%q`: a Go string literal.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        let simple = match c {
            '\u{7}' => 'a',
            '\u{8}' => 'b',
            '\u{c}' => 'f',
            '\n' => 'n',
            '\r' => 'r',
            '\t' => 't',
            '\u{b}' => 'v',
            '"' | '\\' => c,
            c if is_printable(c) => {
                quoted.push(c);
                continue;
            }
            c if u32::from(c) < 0x80 => {
                code(&mut quoted, 'x', 2, c, false);
                continue;
            }
            c if u32::from(c) <= 0xffff => {
                code(&mut quoted, 'u', 4, c, false);
                continue;
            }
            c => {
                code(&mut quoted, 'U', 8, c, false);
                continue;
            }
        };
        quoted.extend(['\\', simple]);
    }
    quoted.push('"');
    quoted
}

/// Go's `unicode.IsPrint`, computed from the same Unicode tables in Rust. A combining character is
/// printable in Go; Rust treats it as printable only after another character.
fn is_printable(c: char) -> bool {
    let after_another = format!("a{c}");
    matches!(c, '"' | '\'' | '\\') || after_another.escape_debug().eq(after_another.chars())
}

fn code(text: &mut String, letter: char, width: usize, c: char, upper: bool) {
    let code = u32::from(c);
    let digits = if upper {
        format!("{code:0width$X}")
    } else {
        format!("{code:0width$x}")
    };
    text.extend(['\\', letter]);
    text.push_str(&digits);
}
