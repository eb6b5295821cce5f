//! What `unlink` says about the objects that it prints or deletes. Pure.

use hints::{
    hint::fail,
    prose::{counted, listed},
    suggest::ClusterFlags,
};
use manifests::{link::ClusterName, render::ObjectName};

use links::{
    inventory::ListedObject,
    linked::{LinkedObjects, Losses, Mirrors},
};

/// Names in a note; more are only counted.
const NAMED: usize = 3;

/// A note for printed objects without Secrets: Linkerd needs them until the controller has removed the cluster from
/// these federated Services. It does that when the Link is gone, and `kubectl delete` does not wait for it.
pub fn memberships(cluster: &ClusterName, shared: &[ObjectName]) -> Option<String> {
    if shared.is_empty() {
        return None;
    }
    Some(format!(
        "note: the Secrets are left out, because Linkerd needs them until {cluster} is removed from {}; the controller \
         does that after the Link is deleted. Run this again afterwards to get the Secrets; --apply does all of it",
        with_others(shared),
    ))
}

/// The number of federated Services, and the names of the first ones.
fn with_others(shared: &[ObjectName]) -> String {
    let names = shared.iter().map(|service| {
        let namespace = service.namespace.as_deref().unwrap_or_default();
        format!("{namespace}/{}", service.name)
    });
    let names: Vec<String> = names.collect();
    let services = counted(shared.len(), "federated Service");
    format!("{services} with other members ({})", listed(&names, NAMED))
}

/// A note if other Links of the namespace are for the cluster too.
pub fn others(cluster: &ClusterName, linked: &LinkedObjects) -> Option<String> {
    let other = linked.remaining.first()?;
    Some(format!(
        "note: {cluster} stays linked by the Link {other}, with the mirrors that it selects"
    ))
}

/// How to do the rest if it ends before all is deleted. `only` is the name of the Link that was asked for: when no Link
/// is left, it leads to nothing.
pub fn again(
    cluster: &ClusterName,
    flags: &ClusterFlags,
    namespace: &str,
    only: Option<&str>,
    linked: &LinkedObjects,
) -> String {
    if only.is_none() || !linked.remaining.is_empty() {
        return "run the same command again".to_owned();
    }
    let cluster = cluster.to_string();
    let unlink = flags.mc("unlink {} --namespace {} --apply", &[&cluster, namespace]);
    format!("run {unlink}")
}

/// The error if mirrors are left when the time is up. `had_link` is whether there was a Link to delete, and `again` how
/// to go on.
pub fn left_over(
    cluster: &ClusterName,
    flags: &ClusterFlags,
    left: &Mirrors,
    had_link: bool,
    again: &str,
) -> anyhow::Error {
    let shared = &left.shared;
    let own = left.count() - shared.len();
    let verb = if own == 1 { "exists" } else { "exist" };
    let own = (own > 0).then(|| format!("{} of {cluster} still {verb}", counted(own, "mirror")));
    let members =
        (!shared.is_empty()).then(|| format!("{cluster} is still in {}", with_others(shared)));
    let what = [own, members].into_iter().flatten().collect::<Vec<_>>();
    let what = format!("{}; the Secrets were not deleted", what.join(", and "));
    if had_link || shared.is_empty() {
        return fail(
            what,
            format!(
                "check that the controller is running, then {again}: without a Link, it deletes the mirrors itself"
            ),
        );
    }
    let deletions = shared.iter().take(NAMED).map(|service| {
        let namespace = service.namespace.as_deref().unwrap_or_default();
        let delete = flags.kubectl("-n {} delete service {}", &[namespace, &service.name]);
        delete.to_string()
    });
    fail(
        what,
        format!(
            "start the controller, which takes the cluster out, then {again}; if no controller is to run any more, \
             delete these Services first: {}",
            deletions.collect::<Vec<_>>().join(", ")
        ),
    )
}

/// A note about what stays because a Link of another namespace needs it.
pub fn kept(linked: &LinkedObjects) -> Option<String> {
    let other = linked.elsewhere.first()?;
    let secret = "note: Linkerd's Secret for this cluster stays";
    Some(if linked.is_only_elsewhere() {
        format!(
            "{secret}, with mirrors and ClusterRoles of Linkerd's service mirror, because the Link {other} needs them"
        )
    } else {
        format!("{secret}, because the Link {other} needs it")
    })
}

/// The confirmation prompt, with the numbers of Services that will be removed.
pub fn question(name: &ClusterName, linked: &LinkedObjects) -> String {
    let what = what(name, linked);
    if let Some(other) = linked.remaining.first() {
        return format!("The Link {other} stays, and keeps {name} linked. Delete {what}?");
    }
    match losses(name, linked) {
        None => format!("Delete {what}?"),
        Some(losses) => format!("This also {losses}. Delete {what}?"),
    }
}

/// What --apply would do, after "would".
pub fn plan(name: &ClusterName, linked: &LinkedObjects) -> String {
    let what = what(name, linked);
    if let Some(other) = linked.remaining.first() {
        return format!("delete {what}; the Link {other} keeps {name} linked");
    }
    match losses(name, linked) {
        None => format!("delete {what}"),
        Some(losses) => format!("delete {what}, which also {losses}"),
    }
}

/// What is deleted: the Links, unless there are only objects of Linkerd's service mirror.
pub fn what(name: &ClusterName, linked: &LinkedObjects) -> String {
    if linked.has_only_leftovers() {
        let objects = counted(linked.leftovers.len(), "object");
        return format!("{objects} of Linkerd's service mirror for {name}");
    }
    let links: Vec<&str> = linked.links.iter().map(ListedObject::name).collect();
    match links.as_slice() {
        [link] if !linked.remaining.is_empty() => format!("the Link {link}"),
        [] | [_] => format!("the link to {name}"),
        several => format!("the Links {} to {name}", several.join(" and ")),
    }
}

/// What happens to Services with them.
fn losses(name: &ClusterName, linked: &LinkedObjects) -> Option<String> {
    Losses::of(&linked.mirrors).text(&name.to_string())
}

#[cfg(test)]
mod tests {
    use hints::hint::hint_of;
    use kube::core::ObjectMeta;
    use links::inventory::{LINK, SERVICE};

    use super::*;

    #[test]
    fn note_about_memberships_names_at_most_three_services() {
        let name = "east".parse().unwrap();
        let note = |count: usize| {
            let services =
                (0..count).map(|n| SERVICE.named(Some("shop".into()), format!("web{n}")));
            memberships(&name, &services.collect::<Vec<_>>())
        };
        assert_eq!(note(0), None);
        for (count, expected) in [
            (
                1,
                "1 federated Service with other members (shop/web0); the controller",
            ),
            (
                5,
                "5 federated Services with other members (shop/web0, shop/web1, shop/web2 and 2 more); the controller",
            ),
        ] {
            let note = note(count).unwrap();
            assert!(note.contains(expected), "{note}");
        }
    }

    fn link(name: &str) -> ListedObject {
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            ..Default::default()
        };
        ListedObject::new(LINK, &metadata)
    }

    #[test]
    fn note_says_what_a_link_of_another_namespace_keeps() {
        let mut linked = LinkedObjects::default();
        assert_eq!(kept(&linked), None);
        linked.elsewhere.push("other/east".to_owned());
        let note = kept(&linked).unwrap();
        assert!(
            note.ends_with("because the Link other/east needs them"),
            "{note}"
        );
        linked.links.push(link("east"));
        let note = kept(&linked).unwrap();
        assert!(
            note.ends_with("stays, because the Link other/east needs it"),
            "{note}"
        );
    }

    fn mirrors(own: usize, federated: usize, shared: usize) -> Mirrors {
        let metadata = ObjectMeta {
            namespace: Some("shop".into()),
            name: Some("web".into()),
            ..Default::default()
        };
        let service = ListedObject::new(SERVICE, &metadata);
        Mirrors {
            own: vec![service.clone(); own],
            probes: vec![service.clone()],
            federated: vec![service.clone(); federated],
            shared: vec![service.object; shared],
        }
    }

    #[test]
    fn prompt_names_several_links_and_counts_the_services_that_will_be_removed() {
        let name = "east".parse().unwrap();
        let one = &["east"][..];
        for (mirrors, links, remaining, expected) in [
            (mirrors(0, 0, 0), one, None, "Delete the link to east?"),
            (
                mirrors(1, 0, 0),
                one,
                None,
                "This also deletes 1 mirror, with its ClusterIP. Delete the link to east?",
            ),
            (
                mirrors(3, 1, 2),
                one,
                None,
                "This also deletes 3 mirrors and 1 federated Service without another member, with their ClusterIPs, and \
                 takes east out of 2 federated Services. Delete the link to east?",
            ),
            (
                mirrors(3, 0, 0),
                &["east", "again"],
                None,
                "This also deletes 3 mirrors, with their ClusterIPs. Delete the Links east and again to east?",
            ),
            (
                Mirrors::default(),
                &["again"],
                Some("east"),
                "The Link east stays, and keeps east linked. Delete the Link again?",
            ),
        ] {
            let links = links.iter().map(|name| link(name));
            let linked = LinkedObjects {
                links: links.collect(),
                remaining: remaining.iter().map(ToString::to_string).collect(),
                mirrors,
                ..LinkedObjects::default()
            };
            assert_eq!(question(&name, &linked), expected);
        }
    }

    #[test]
    fn objects_of_linkerds_service_mirror_are_not_the_link() {
        let name = "east".parse().unwrap();
        let mut linked = LinkedObjects {
            leftovers: vec![link("any")],
            ..LinkedObjects::default()
        };
        let one = "1 object of Linkerd's service mirror for east";
        assert_eq!(question(&name, &linked), format!("Delete {one}?"));
        assert_eq!(plan(&name, &linked), format!("delete {one}"));
        linked.links.push(link("east"));
        assert_eq!(plan(&name, &linked), "delete the link to east");
    }

    #[test]
    fn rest_of_a_link_that_is_gone_is_found_by_its_cluster() {
        let (name, flags) = ("east".parse().unwrap(), ClusterFlags::of_context("west"));
        let mut linked = LinkedObjects::default();
        let said = |linked: &LinkedObjects, only| again(&name, &flags, "mc", only, linked);
        assert_eq!(said(&linked, None), "run the same command again");
        assert_eq!(
            said(&linked, Some("east2")),
            "run `linkerd-mc --context west unlink east --namespace mc --apply`"
        );
        // This would delete the other Link too. The one that was asked for goes last.
        linked.remaining.push("east".to_owned());
        assert_eq!(said(&linked, Some("east2")), "run the same command again");
    }

    #[test]
    fn hint_about_what_is_left_leads_on() {
        let name = "east".parse().unwrap();
        let again = "then run it: without a Link, it deletes the mirrors itself";
        let services =
            "delete these Services first: `kubectl --context west -n shop delete service web`";
        let flags = ClusterFlags::of_context("west");
        let shared = "east is still in 1 federated Service with other members (shop/web)";
        for (left, had_link, what, hint) in [
            (
                mirrors(1, 1, 0),
                true,
                "3 mirrors of east still exist",
                again,
            ),
            (
                mirrors(0, 0, 0),
                false,
                "1 mirror of east still exists",
                again,
            ),
            (mirrors(0, 0, 1), true, shared, again),
            (mirrors(0, 0, 1), false, shared, services),
        ] {
            let error = left_over(&name, &flags, &left, had_link, "run it");
            assert!(error.to_string().contains(what), "{error}");
            let said = hint_of(&error).unwrap();
            assert!(said.contains(hint), "{said}");
        }
    }
}
