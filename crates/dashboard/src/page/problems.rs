//! What is wrong now. Pure.

use serde_json::{Value, json};

use crate::facts::PageFacts;

/// Problems that are shown.
const SHOWN: usize = 30;

/// The section.
pub fn view(facts: &PageFacts) -> Value {
    let shown: Vec<_> = facts.problems.iter().take(SHOWN).collect();
    json!({
        "twin": facts.flags.mc("status -o json", &[]).line(),
        "unseen": facts.unseen,
        "more": facts.problems.len() - shown.len(),
        "problems": shown,
    })
}
