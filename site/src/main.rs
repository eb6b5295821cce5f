//! Builds the documents as a site into `target/site`. The pages are those of `docs/SUMMARY.md`, and the settings are in
//! `book.toml`.
//!
//! Pages link to source code and to other files of the repository. The environment variable `SOURCES` is the address of
//! these files on the web, such as `https://forge.example.com/owner/linkerd-mc/blob/main`. Without it, the site has
//! only the text of such links.
//!
//! The program draws Mermaid diagrams, so that pages need no script. GitHub and GitLab draw them by themselves.

use std::{
    collections::BTreeSet,
    env,
    path::{Component, Path, PathBuf},
};

use anyhow::Context as _;
use merman::{MermaidConfig, render::HeadlessRenderer};
use mdbook_driver::MDBook;
use mdbook_preprocessor::{
    Preprocessor, PreprocessorContext,
    book::{Book, BookItem},
    errors::Result,
};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

fn main() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut book = MDBook::load(&root).context("failed to read the book")?;
    let sources = env::var("SOURCES").ok().filter(|text| !text.is_empty());
    book.with_preprocessor(Outward { sources });
    book.with_preprocessor(Diagrams);
    book.build().context("failed to build the site")?;
    println!("{}", book.build_dir_for("html").join("index.html").display());
    Ok(())
}

/// Rewrites links to files that are not in the book.
struct Outward {
    sources: Option<String>,
}

impl Preprocessor for Outward {
    fn name(&self) -> &'static str {
        "outward"
    }

    fn run(&self, _: &PreprocessorContext, mut book: Book) -> Result<Book> {
        let mut pages = BTreeSet::new();
        book.for_each_mut(|item| {
            if let BookItem::Chapter(chapter) = item {
                pages.extend(chapter.source_path.clone());
            }
        });
        book.for_each_mut(|item| {
            if let BookItem::Chapter(chapter) = item
                && let Some(path) = &chapter.source_path
            {
                chapter.content = self.rewrite(&chapter.content, path, &pages);
            }
        });
        Ok(book)
    }
}

impl Outward {
    /// Returns the text of a page. Links to files that are not pages lead to `sources`. Without `sources`, only their
    /// text stays.
    fn rewrite(&self, text: &str, page: &Path, pages: &BTreeSet<PathBuf>) -> String {
        let mut changes = Vec::new();
        let (mut link, mut inside) = (None, 0..0);
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            match event {
                Event::Start(Tag::Link { dest_url, .. }) => {
                    let file = dest_url.split('#').next().unwrap_or_default();
                    let target = resolve(page, file);
                    let stays = file.is_empty() || file.contains("://") || pages.contains(&target);
                    link = (!stays).then(|| (range.clone(), dest_url.to_string(), target));
                    inside = range.end..range.start;
                }
                Event::End(TagEnd::Link) => {
                    let Some((range, written, target)) = link.take() else { continue };
                    let shown = &text[inside.clone()];
                    let new = match &self.sources {
                        Some(sources) => {
                            let anchor = written.find('#').map_or("", |at| &written[at..]);
                            let target = resolve(Path::new("docs/x"), &target.to_string_lossy());
                            format!("[{shown}]({}/{}{anchor})", sources.trim_end_matches('/'), target.display())
                        }
                        None => shown.to_owned(),
                    };
                    changes.push((range, new));
                }
                _ => inside = inside.start.min(range.start)..inside.end.max(range.end),
            }
        }
        let mut text = text.to_owned();
        for (range, new) in changes.into_iter().rev() {
            text.replace_range(range, &new);
        }
        text
    }
}

/// Replaces Mermaid blocks by SVG.
struct Diagrams;

impl Preprocessor for Diagrams {
    fn name(&self) -> &'static str {
        "diagrams"
    }

    fn run(&self, _: &PreprocessorContext, mut book: Book) -> Result<Book> {
        let mut failure = None;
        book.for_each_mut(|item| {
            if let BookItem::Chapter(chapter) = item {
                match drawn(&chapter.content) {
                    Ok(content) => chapter.content = content,
                    Err(error) => failure = Some(error.context(format!("failed to draw a diagram of {}", chapter.name))),
                }
            }
        });
        failure.map_or(Ok(book), Err)
    }
}

/// Returns the text of a page with SVG in place of Mermaid blocks.
fn drawn(text: &str) -> Result<String> {
    let (mut changes, mut source) = (Vec::new(), None::<String>);
    // A diagram that is wider than the page gets a scroll bar. Otherwise the browser would shrink it.
    let mut config = MermaidConfig::empty_object();
    config.set_value("flowchart.useMaxWidth", false.into());
    for (event, range) in Parser::new(text).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) if &*info == "mermaid" => source = Some(String::new()),
            Event::Text(line) => source.iter_mut().for_each(|source| source.push_str(&line)),
            Event::End(TagEnd::CodeBlock) => {
                let Some(source) = source.take() else { continue };
                let renderer = HeadlessRenderer::new()
                    .with_site_config(config.clone())
                    .with_vendored_text_measurer()
                    .with_diagram_id(&format!("diagram-{}", changes.len()));
                let svg = renderer.render_svg_resvg_safe_sync(&source)?.context("there is no diagram in the block")?;
                // In Markdown, a blank line would end the HTML block.
                let svg: Vec<&str> = svg.lines().filter(|line| !line.trim().is_empty()).collect();
                let svg = svg.join("\n");
                changes.push((range, format!("<div style=\"background: white; overflow-x: auto\">{svg}</div>")));
            }
            _ => {}
        }
    }
    let mut text = text.to_owned();
    for (range, picture) in changes.into_iter().rev() {
        text.replace_range(range, &picture);
    }
    Ok(text)
}

/// Returns the path that a link of a page leads to, relative to `docs`. If the path is outside of `docs`, it begins
/// with `..`.
fn resolve(page: &Path, link: &str) -> PathBuf {
    let mut found = PathBuf::new();
    for component in page.parent().unwrap_or(Path::new("")).join(link).components() {
        match component {
            Component::ParentDir if found.file_name().is_some() => {
                found.pop();
            }
            component => found.push(component),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diagrams_become_pictures_and_other_blocks_stay() {
        let other = "```sh\nls\n```\n";
        let text = format!("{other}\n```mermaid\nflowchart LR\n  A[one] -->|to| B[two]\n```\n\nEnd\n");
        let drawn = drawn(&text).unwrap();
        assert!(drawn.starts_with(other) && drawn.ends_with("</svg></div>\n\nEnd\n"), "{drawn}");
        for part in ["<svg ", "one", "to", "two"] {
            assert!(drawn.contains(part), "{part}: {drawn}");
        }
        assert!(!drawn.contains("mermaid\n") && !drawn.contains("<script") && !drawn.contains("foreignObject"), "{drawn}");
    }

    #[test]
    fn links_that_leave_the_book_lead_to_the_sources() {
        let pages = ["a.md", "in/b.md"].map(PathBuf::from).into();
        let text = "[b](in/b.md#x) [`lib`](../src/lib.rs#L1) [web](https://example.com) [here](#y)\n\n| [t](../README.md) |\n| --- |\n";
        let rewrite = |sources: Option<&str>| {
            let outward = Outward { sources: sources.map(str::to_owned) };
            outward.rewrite(text, Path::new("a.md"), &pages)
        };
        assert_eq!(
            rewrite(Some("https://forge.example.com/blob/main/")),
            "[b](in/b.md#x) [`lib`](https://forge.example.com/blob/main/src/lib.rs#L1) [web](https://example.com) [here](#y)\n\n\
             | [t](https://forge.example.com/blob/main/README.md) |\n| --- |\n"
        );
        assert_eq!(
            rewrite(None),
            "[b](in/b.md#x) `lib` [web](https://example.com) [here](#y)\n\n| t |\n| --- |\n"
        );
        assert_eq!(resolve(Path::new("in/b.md"), "../../src"), Path::new("../src"));
    }
}
