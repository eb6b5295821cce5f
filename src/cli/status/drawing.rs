//! Clusters and the Links between them, drawn: `-o tree`, `mermaid` and `dot`.

mod diagram;
mod edges;
#[cfg(test)]
mod tests;
mod tree;

pub use self::{
    diagram::{dot, mermaid},
    tree::text as tree,
};
