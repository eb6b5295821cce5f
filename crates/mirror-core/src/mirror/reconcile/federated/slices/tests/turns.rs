//! Links that change how their cluster takes part, and what such a change leaves.

use super::*;

/// The annotation for members in other clusters after a plan.
fn members_after(state: &State, annotation: &str) -> Option<String> {
    let writes = plan(state, &key()).writes;
    let patch = body(&writes, "web-federated");
    let list = patch["metadata"]["annotations"][annotation].as_str();
    list.map(str::to_owned)
}

#[test]
fn form_stays_while_a_link_cannot_be_read_and_changes_once_it_is_deleted() {
    let mut state = two(By::Gateway, By::Discovery).worked_on(&key());
    let unreadable = state.clone().with_link("east", |entry| {
        entry.target = Err(crate::mirror::InvalidLink::GatewayPort("x".to_owned()));
    });
    assert_eq!(described(&plan(&unreadable, &key()).writes), [""; 0]);
    state.links.remove("east");
    let members = members_after(&state, l::REMOTE_DISCOVERY);
    assert_eq!(members.as_deref(), Some("web@west"));
}
