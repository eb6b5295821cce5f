//! Which file of a module calls methods of which other: calls on `self`, and on fields whose types the module declares.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Expr, ImplItem, Member, visit::Visit};

use crate::{graph::circles_of, source::without_tests};

/// The methods that a file has and calls, and the fields of its types.
#[derive(Debug, Default)]
struct File {
    /// Methods, by type.
    methods: BTreeSet<(String, String)>,
    /// Fields, with every name in their type.
    fields: BTreeSet<(String, String)>,
    /// Methods that are called on `self`, by type.
    own_calls: BTreeSet<(String, String)>,
    /// Methods that are called on a field, by its name.
    field_calls: BTreeSet<(String, String)>,
    /// The type whose `impl` is being read.
    this: String,
}

impl<'ast> Visit<'ast> for File {
    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if let syn::Type::Path(path) = &*item.self_ty {
            self.this = last(&path.path);
        }
        for member in &item.items {
            if let ImplItem::Fn(method) = member {
                let name = method.sig.ident.to_string();
                self.methods.insert((self.this.clone(), name));
            }
        }
        syn::visit::visit_item_impl(self, item);
        self.this.clear();
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if let Some(name) = &field.ident {
            let mut names = Names::default();
            names.visit_type(&field.ty);
            let of = names.0.into_iter().map(|of| (name.to_string(), of));
            self.fields.extend(of);
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let method = call.method.to_string();
        match &*call.receiver {
            Expr::Path(path) if path.path.is_ident("self") => {
                self.own_calls.insert((self.this.clone(), method));
            }
            Expr::Field(syn::ExprField {
                member: Member::Named(field),
                ..
            }) => {
                self.field_calls.insert((field.to_string(), method));
            }
            _ => {}
        }
        syn::visit::visit_expr_method_call(self, call);
    }
}

/// The names in a type.
#[derive(Default)]
struct Names(Vec<String>);

impl<'ast> Visit<'ast> for Names {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.0.push(last(path));
        syn::visit::visit_path(self, path);
    }
}

fn last(path: &syn::Path) -> String {
    let last = path.segments.last();
    last.map_or_else(String::new, |segment| segment.ident.to_string())
}

/// The files, by name, that call methods of each other in a circle.
pub(crate) fn circles(sources: &[(String, String)]) -> syn::Result<Vec<Vec<String>>> {
    let mut files = Vec::new();
    for (name, text) in sources {
        let mut file = File::default();
        file.visit_file(&syn::parse2(without_tests(text.parse()?))?);
        files.push((name, file));
    }
    let mut homes: BTreeMap<&(String, String), BTreeSet<&str>> = BTreeMap::new();
    for (name, file) in &files {
        for method in &file.methods {
            homes.entry(method).or_default().insert(name);
        }
    }
    let fields: Vec<_> = files.iter().flat_map(|(_, file)| &file.fields).collect();
    let arrows = files.iter().map(|(name, file)| {
        let on_fields = file.field_calls.iter().flat_map(|(field, method)| {
            let types = fields.iter().filter(move |(known, _)| known == field);
            types.map(|(_, of)| (of.clone(), method.clone()))
        });
        let called = file.own_calls.iter().cloned().chain(on_fields);
        let mut to: BTreeSet<String> = called
            .flat_map(|call| homes.get(&call).cloned().unwrap_or_default())
            .map(str::to_owned)
            .collect();
        to.remove(*name);
        ((*name).clone(), to)
    });
    Ok(circles_of(&arrows.collect()))
}

#[test]
fn calls_on_self_and_on_fields_are_followed() {
    let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let top = "struct Engine { queue: Option<Queue> } impl Engine { fn turn(&self) { self.on_event(); } fn again(&self) {} }";
    let part = "struct Queue; impl Queue { fn pop(&self) {} }";
    let circles_with = |events: &str| {
        let files = [file("top", top), file("part", part), file("events", events)];
        circles(&files).unwrap()
    };
    let straight = "impl Engine { fn on_event(&self) { self.queue.pop(); other.again(); } }";
    assert_eq!(circles_with(straight), [[""; 0]; 0]);
    let round = "impl Engine { fn on_event(&self) { self.again(); } }";
    assert_eq!(circles_with(round), [["events", "top"]]);
    let of_tests = "#[cfg(test)] impl Engine { fn on_event(&self) { self.again(); } }";
    assert_eq!(circles_with(of_tests), [[""; 0]; 0]);
    let by_field = "impl Queue { fn more(&self) { self.engine.turn(); } } struct More { engine: Engine } impl Engine { fn on_event(&self) {} }";
    assert_eq!(circles_with(by_field), [["events", "top"]]);
}
