//! Tests of the file, with the real flags of `link`, and of plans, with what clusters of a test have.

mod account_namespaces;
mod extension;
mod file;
mod imported;
mod kubeconfigs;
mod parts;
mod planned;
mod profiles;
mod removed;
mod renamed;
mod rendered;
mod settings;
mod values;
