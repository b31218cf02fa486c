//! Splits a page into code blocks, prose, links and headings. Supports only the Markdown that the
//! book uses.

use std::{collections::BTreeMap, fs};

use crate::in_checkout;

/// A file of the book.
pub(crate) struct Page {
    /// Path relative to the checkout.
    pub(crate) path: String,
    text: String,
}

/// Code between fences.
pub(crate) struct Block {
    /// File and line, for the error message.
    pub(crate) place: String,
    /// The info string after the opening fence.
    pub(crate) info: String,
    pub(crate) code: String,
}

/// The summary and every page that it links to.
pub(crate) fn pages() -> Vec<Page> {
    let summary = Page::read("docs/SUMMARY.md").expect("the book has a summary");
    let targets = summary.links().into_iter().map(|link| link.target);
    let mut pages: Vec<Page> = targets
        .filter_map(|path| Page::read(&format!("docs/{path}")))
        .collect();
    pages.push(summary);
    pages
}

/// A link of a page.
pub(crate) struct Link {
    pub(crate) place: String,
    pub(crate) target: String,
}

impl Page {
    pub(crate) fn read(path: &str) -> Option<Self> {
        let text = fs::read_to_string(in_checkout(path)).ok()?;
        Some(Self {
            path: path.to_owned(),
            text,
        })
    }

    /// A page of this text.
    pub(crate) fn of(text: &str) -> Self {
        Self {
            path: "docs/page.md".to_owned(),
            text: text.to_owned(),
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Lines outside of fences, with their numbers.
    fn prose(&self) -> Vec<(usize, &str)> {
        let mut is_code = false;
        let lines = self.text.lines().enumerate();
        lines
            .filter(|(_, line)| {
                let is_fence = line.trim_start().starts_with("```");
                is_code ^= is_fence;
                !is_code && !is_fence
            })
            .map(|(place, line)| (place + 1, line))
            .collect()
    }

    pub(crate) fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut open: Option<(usize, Block)> = None;
        for (number, line) in self.text.lines().enumerate() {
            let indent = line.len() - line.trim_start().len();
            match (&mut open, line.trim_start().strip_prefix("```")) {
                (None, Some(info)) => {
                    let block = Block {
                        place: format!("{}:{}", self.path, number + 1),
                        info: info.trim().to_owned(),
                        code: String::new(),
                    };
                    open = Some((indent, block));
                }
                (Some(_), Some(_)) => blocks.extend(open.take().map(|(_, block)| block)),
                (Some((outer, block)), None) => {
                    block
                        .code
                        .push_str(line.get(indent.min(*outer)..).unwrap_or_default());
                    block.code.push('\n');
                }
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{}: a fence is not closed", self.path);
        blocks
    }

    /// The prose of the page and the code spans within it, in order, each with the place of its
    /// beginning. A span may continue on the next line, but ends with its paragraph at the latest.
    fn parts(&self) -> Vec<(bool, String, String)> {
        let mut parts = Vec::new();
        let mut paragraph: Vec<(usize, &str)> = Vec::new();
        let prose = self.prose();
        for (number, line) in prose.into_iter().chain([(0, "")]) {
            if !line.trim().is_empty() {
                paragraph.push((number, line));
                continue;
            }
            let mut number = paragraph.first().map_or(0, |(first, _)| *first);
            let lines: Vec<&str> = paragraph.drain(..).map(|(_, line)| line).collect();
            for (place, part) in lines.join("\n").split('`').enumerate() {
                parts.push((place % 2 == 1, format!("{}:{number}", self.path), part.to_owned()));
                number += part.matches('\n').count();
            }
        }
        parts
    }

    /// The code spans within the prose, each with its place.
    pub(crate) fn spans(&self) -> Vec<(String, String)> {
        let code = self.parts().into_iter().filter(|(is_code, _, _)| *is_code);
        code.map(|(_, place, code)| (place, code.replace('\n', " ")))
            .collect()
    }

    pub(crate) fn links(&self) -> Vec<Link> {
        let mut links = Vec::new();
        // The text of a link may be a code span, so its target is in the next part.
        for (_, place, prose) in self.parts().into_iter().filter(|(is_code, _, _)| !is_code) {
            for part in prose.split("](").skip(1) {
                let target = part.split_once(')').map(|(target, _)| target);
                links.push(Link {
                    place: place.clone(),
                    target: target.expect("a target is no code").to_owned(),
                });
            }
        }
        links
    }

    /// The anchors of the page's headings, as mdBook and GitHub derive them.
    pub(crate) fn anchors(&self) -> Vec<String> {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let headings = self.prose().into_iter().filter_map(|(_, line)| {
            let title = line.trim_start_matches('#');
            (title.len() < line.len()).then(|| title.strip_prefix(' '))?
        });
        headings
            .map(|title| {
                let id = anchor(title);
                let count = seen.entry(id.clone()).or_default();
                *count += 1;
                if *count == 1 {
                    id
                } else {
                    format!("{id}-{}", *count - 1)
                }
            })
            .collect()
    }
}

fn anchor(title: &str) -> String {
    let letters = title.trim().chars().filter_map(|letter| match letter {
        letter if letter.is_alphanumeric() || letter == '_' || letter == '-' => Some(letter),
        letter if letter.is_whitespace() => Some('-'),
        _ => None,
    });
    letters.flat_map(char::to_lowercase).collect()
}

#[test]
fn code_is_kept_apart_from_prose() {
    let page = Page::of(
        "# A `b` c\n\nsee [x](y.md#z), [`w`](w.md) and `[no]\n(link)`\n\n  ```sh\n  one\n    two\n  ```\n# A b c\n",
    );
    let blocks = page.blocks();
    let told: Vec<_> = blocks
        .iter()
        .map(|block| (block.info.as_str(), block.code.as_str()))
        .collect();
    assert_eq!(told, [("sh", "one\n  two\n")]);
    let links: Vec<_> = page.links().into_iter().map(|link| link.target).collect();
    assert_eq!(links, ["y.md#z", "w.md"]);
    assert_eq!(page.anchors(), ["a-b-c", "a-b-c-1"]);
    let spans: Vec<_> = page.spans().into_iter().map(|(_, code)| code).collect();
    assert_eq!(spans, ["b", "w", "[no] (link)"]);
}
