//! Tables of facts, and what is found in them.

mod cases;
mod clients;
mod differences;
mod existing;
mod federated;
mod fixes;
mod healthy;
mod history;
mod linkerd;
mod missing;
mod pairs;
mod scene;
mod statuses;
mod targets;
