//! Tables of facts, and what is found in them.

mod cases;
mod clients;
mod existing;
mod federated;
mod fixes;
mod linkerd;
mod missing;
mod scene;
mod statuses;
mod targets;
