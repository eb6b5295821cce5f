//! What a Markdown document has: anchors, links and fenced blocks.

use std::collections::BTreeSet;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// A document.
#[derive(Debug, Default)]
pub(crate) struct Document {
    /// What `#…` may lead to: the headings, as forges and mdBook name them.
    pub(crate) anchors: BTreeSet<String>,
    /// Where links and pictures lead to.
    pub(crate) links: Vec<String>,
    /// Fenced blocks.
    pub(crate) blocks: Vec<Block>,
    /// Code inside of text.
    pub(crate) code: Vec<String>,
}

/// A fenced block.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Block {
    /// What stands behind the fence, such as `sh no-run`.
    pub(crate) info: String,
    /// What is inside.
    pub(crate) text: String,
}

impl Block {
    /// Whether it is a shell script.
    pub(crate) fn is_shell(&self) -> bool {
        self.info.split(' ').next() == Some("sh")
    }

    /// Whether nothing runs it.
    pub(crate) fn is_marked(&self) -> bool {
        self.info.split(' ').any(|word| word == "no-run")
    }
}

impl Document {
    /// Reads a document.
    pub(crate) fn parse(text: &str) -> Self {
        let mut document = Self::default();
        let (mut heading, mut block) = (None::<String>, None::<Block>);
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
        for event in Parser::new_ext(text, options) {
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let anchor = anchor(&heading.take().unwrap_or_default());
                    document.add_anchor(&anchor);
                }
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                    let info = info.into_string();
                    block = Some(Block {
                        info,
                        text: String::new(),
                    });
                }
                Event::End(TagEnd::CodeBlock) => document.blocks.extend(block.take()),
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    document.links.push(dest_url.into_string());
                }
                Event::Text(text) => {
                    if let Some(block) = &mut block {
                        block.text.push_str(&text);
                    } else if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                Event::Code(code) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&code);
                    }
                    document.code.push(code.into_string());
                }
                _ => {}
            }
        }
        document
    }

    /// The second heading of a name is `name-1`, and so on.
    fn add_anchor(&mut self, anchor: &str) {
        let mut numbered = anchor.to_owned();
        for number in 1.. {
            if self.anchors.insert(numbered) {
                return;
            }
            numbered = format!("{anchor}-{number}");
        }
    }
}

fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || "-_ ".contains(*c);
    let dashed = |c: char| if c == ' ' { '-' } else { c };
    let kept = heading.trim().chars().filter(kept).map(dashed);
    kept.flat_map(char::to_lowercase).collect()
}

#[test]
fn a_document_is_read_as_forges_read_it() {
    let text = "# A `b` c, D!\n\n# A `b` c, D!\n\n[x](y.md#z) `in --line` ![p](q.svg)\n\n```sh no-run\nls\n```\n\n\
                | a |\n| --- |\n| [t](u.md) |\n\n```yaml\n[no](link)\n```\n";
    let document = Document::parse(text);
    let anchors: Vec<&str> = document.anchors.iter().map(String::as_str).collect();
    assert_eq!(anchors, ["a-b-c-d", "a-b-c-d-1"]);
    assert_eq!(document.links, ["y.md#z", "q.svg", "u.md"]);
    assert_eq!(document.code.last().unwrap(), "in --line");
    let [shell, yaml] = &document.blocks[..] else {
        panic!("{:?}", document.blocks)
    };
    assert_eq!(
        (shell.text.as_str(), shell.is_shell(), shell.is_marked()),
        ("ls\n", true, true)
    );
    assert!(!yaml.is_shell() && !yaml.is_marked());
}
