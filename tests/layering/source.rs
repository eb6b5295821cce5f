//! What a source file declares and names, read with `syn`. Code that only tests have is left out.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use syn::{Item, UseTree, visit::Visit};

/// A path in a source, a name each.
pub(crate) type Path = Vec<String>;

/// What a file declares and names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source {
    /// Every path that it names, in `use` and elsewhere: `a::{b, c::d}` is `a::b` and `a::c::d`.
    pub(crate) paths: Vec<Path>,
    /// What each name stands for that a `use` brings into scope.
    pub(crate) uses: Vec<(String, Path)>,
    /// The structs, enums, traits and type aliases that it declares.
    pub(crate) types: Vec<String>,
    /// Whether it has `async` code.
    pub(crate) is_async: bool,
}

/// A `mod name;` and whether it stands under `#[cfg(test)]`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Module {
    pub(crate) name: String,
    pub(crate) test: bool,
}

/// Reads a file.
pub(crate) fn source(text: &str) -> syn::Result<Source> {
    let tokens = without_tests(text.parse()?);
    let mut source = Source {
        is_async: names(&tokens).any(|name| name == "async" || name == "await"),
        ..Source::default()
    };
    source.visit_file(&syn::parse2(tokens)?);
    Ok(source)
}

/// The modules of a file that have files of their own.
pub(crate) fn modules_of(text: &str) -> syn::Result<Vec<Module>> {
    let tokens: TokenStream = text.parse()?;
    let kept = declared(without_tests(tokens.clone()));
    let modules = declared(tokens).into_iter().map(|name| Module {
        test: !kept.contains(&name),
        name,
    });
    Ok(modules.collect())
}

/// The names of all `mod name;` outside of braces.
fn declared(tokens: TokenStream) -> Vec<String> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let names = tokens.windows(3).filter_map(|three| match three {
        [
            TokenTree::Ident(keyword),
            TokenTree::Ident(name),
            TokenTree::Punct(end),
        ] if keyword == "mod" && end.as_char() == ';' => Some(name.to_string()),
        _ => None,
    });
    names.collect()
}

impl<'ast> Visit<'ast> for Source {
    fn visit_item(&mut self, item: &'ast Item) {
        let name = match item {
            Item::Struct(item) => Some(&item.ident),
            Item::Enum(item) => Some(&item.ident),
            Item::Trait(item) => Some(&item.ident),
            Item::Type(item) => Some(&item.ident),
            _ => None,
        };
        self.types.extend(name.map(ToString::to_string));
        syn::visit::visit_item(self, item);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.flatten(&mut Vec::new(), &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments = path.segments.iter();
        self.paths
            .push(segments.map(|segment| segment.ident.to_string()).collect());
        syn::visit::visit_path(self, path);
    }

    /// `pub(super)` names who may see an item, and uses nothing.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if let syn::Meta::List(list) = &attribute.meta {
            paths_in(list.tokens.clone(), &mut self.paths);
        }
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.visit_path(&called.path);
        paths_in(called.tokens.clone(), &mut self.paths);
    }
}

impl Source {
    fn flatten(&mut self, prefix: &mut Path, tree: &UseTree) {
        let (name, local) = match tree {
            UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.flatten(prefix, &path.tree);
                prefix.pop();
                return;
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.flatten(prefix, tree);
                }
                return;
            }
            UseTree::Name(name) => (name.ident.to_string(), name.ident.to_string()),
            UseTree::Rename(renamed) => (renamed.ident.to_string(), renamed.rename.to_string()),
            UseTree::Glob(_) => ("*".to_owned(), "*".to_owned()),
        };
        let mut path = prefix.clone();
        let local = if name == "self" {
            prefix.last().cloned().unwrap_or_default()
        } else {
            path.push(name);
            local
        };
        self.uses.push((local, path.clone()));
        self.paths.push(path);
    }
}

/// The paths in what a macro is given, which need not be Rust. The path in `pub(super)` is not a use.
fn paths_in(tokens: TokenStream, found: &mut Vec<Path>) {
    let (mut path, mut colons) = (Path::new(), 0);
    for token in tokens {
        match token {
            TokenTree::Ident(name) => {
                if colons != 2 {
                    found.extend((!path.is_empty()).then(|| std::mem::take(&mut path)));
                }
                path.push(name.to_string());
                colons = 0;
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => {
                colons = match punct.spacing() {
                    Spacing::Joint => 1,
                    Spacing::Alone => colons + 1,
                };
            }
            other => {
                let is_visibility = path == ["pub"];
                found.extend((!path.is_empty()).then(|| std::mem::take(&mut path)));
                colons = 0;
                if let TokenTree::Group(group) = other
                    && !is_visibility
                {
                    paths_in(group.stream(), found);
                }
            }
        }
    }
    found.extend((!path.is_empty()).then_some(path));
}

/// All names in the tokens, keywords included.
fn names(tokens: &TokenStream) -> impl Iterator<Item = String> {
    let mut names = Vec::new();
    let mut rest = vec![tokens.clone()];
    while let Some(tokens) = rest.pop() {
        for token in tokens {
            match token {
                TokenTree::Ident(name) => names.push(name.to_string()),
                TokenTree::Group(group) => rest.push(group.stream()),
                _ => {}
            }
        }
    }
    names.into_iter()
}

/// The tokens without what stands under `#[cfg(test)]`, or under this and the feature `fixtures`: an item or a statement ends with its braces or a semicolon.
pub(crate) fn without_tests(tokens: TokenStream) -> TokenStream {
    let mut kept = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let is_test = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '#')
            && matches!(tokens.peek(), Some(TokenTree::Group(group)) if is_cfg_test(group));
        if is_test {
            drop_attributes(&mut kept);
            let end = tokens.by_ref().skip(1).find(|token| match token {
                TokenTree::Punct(punct) => punct.as_char() == ';',
                TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                _ => false,
            });
            // A `use a::{b};` ends after its braces.
            let braces = matches!(end, Some(TokenTree::Group(_)));
            if braces
                && matches!(tokens.peek(), Some(TokenTree::Punct(next)) if next.as_char() == ';')
            {
                tokens.next();
            }
            continue;
        }
        kept.push(match token {
            TokenTree::Group(group) => {
                let inside = without_tests(group.stream());
                let mut kept = proc_macro2::Group::new(group.delimiter(), inside);
                kept.set_span(group.span());
                TokenTree::Group(kept)
            }
            token => token,
        });
    }
    kept.into_iter().collect()
}

/// Takes away attributes at the end: they belong to what follows. Doc comments are attributes too.
fn drop_attributes(tokens: &mut Vec<TokenTree>) {
    while let [.., TokenTree::Punct(hash), TokenTree::Group(group)] = tokens.as_slice() {
        if hash.as_char() != '#' || group.delimiter() != Delimiter::Bracket {
            break;
        }
        tokens.truncate(tokens.len() - 2);
    }
}

fn is_cfg_test(attribute: &proc_macro2::Group) -> bool {
    let names: Vec<String> = names(&attribute.stream()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    attribute.delimiter() == Delimiter::Bracket
        && matches!(
            names.as_slice(),
            ["cfg", "test"] | ["cfg", "any", "test", "feature"]
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(text: &str) -> Vec<String> {
        let paths = source(text).unwrap().paths.into_iter();
        paths.map(|path| path.join("::")).collect()
    }

    #[test]
    fn comments_and_literals_are_left_out() {
        let text = "/// a::b\nfn x<'l>() { /* c::d */ let _ = \"e::f\"; }";
        assert_eq!(spelled(text), [""; 0]);
    }

    #[test]
    fn groups_are_spelled_out() {
        assert_eq!(
            spelled("use a::{b::{self, C as D}, e::*}; pub(super) fn x() { f::g::<H>() }"),
            ["a::b", "a::b::C", "a::e::*", "f::g", "H"]
        );
        let uses = source("use a::{b::{self, C as D}, E};").unwrap().uses;
        let uses: Vec<String> = uses
            .into_iter()
            .map(|(name, path)| format!("{name} = {}", path.join("::")))
            .collect();
        assert_eq!(uses, ["b = a::b", "D = a::b::C", "E = a::E"]);
    }

    #[test]
    fn paths_in_macros_are_found() {
        assert_eq!(
            spelled("fn x() { json!({ \"a\": b::c(d, &e::F), g: h }) }"),
            ["json", "b::c", "d", "e::F", "g", "h"]
        );
        assert_eq!(spelled("a! { pub(super) b: c, }"), ["a", "pub", "b", "c"]);
    }

    #[test]
    fn what_only_tests_have_is_told_apart() {
        let text = "mod a; #[cfg(test)] mod b; /// d::d\n #[cfg(test)] #[allow(x)] fn c(d: [u8; 2]) { { e::e } } mod f { use g::g; } \
                    mod h; fn i() { #[cfg(test)] j::j(); } #[cfg(test)] use k::{l, m};";
        let modules = modules_of(text).unwrap();
        let modules: Vec<(&str, bool)> =
            modules.iter().map(|m| (m.name.as_str(), m.test)).collect();
        assert_eq!(modules, [("a", false), ("b", true), ("h", false)]);
        assert_eq!(spelled(text), ["g::g"]);
    }

    #[test]
    fn declared_types_are_found() {
        let text = "struct A; mod b { enum C {} } #[cfg(test)] struct D; impl A { type E = u8; } fn f() { trait G {} }";
        assert_eq!(source(text).unwrap().types, ["A", "C", "G"]);
    }

    #[test]
    fn asynchronous_code_is_seen() {
        for (text, is_async) in [
            ("async fn x() {}", true),
            ("fn x() {}", false),
            ("/// async\nfn x() {}", false),
        ] {
            assert_eq!(source(text).unwrap().is_async, is_async, "{text}");
        }
    }
}
