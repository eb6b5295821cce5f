//! Problems of the credentials of each Link, as `check` finds them.

use futures::future::join_all;
use jiff::Timestamp;

use crate::{
    check::{
        credentials::problems,
        facts::{Destination, Known, Survey},
        gather,
        topology::Fleet,
    },
    cli::fleet::Member,
};

/// Reads the credentials that Linkerd has in each cluster, concurrently.
pub(super) async fn ask(members: &[Member]) -> Vec<Known<Destination>> {
    join_all(members.iter().map(async |member| match &member.source {
        Ok(source) => gather::destination(source).await,
        Err(why) => Err(why.clone()),
    }))
    .await
}

/// Adds the problems to each Link of a fleet. The fleet was made from these surveys, with their Links in the same
/// order.
pub(super) fn note(
    fleet: &mut Fleet,
    surveys: &[Survey],
    destinations: &[Known<Destination>],
    now: Timestamp,
) {
    let links = surveys
        .iter()
        .zip(destinations)
        .flat_map(|(survey, theirs)| {
            let links = survey.links.iter().flatten();
            links.map(move |link| (link, theirs))
        });
    for (edge, (link, theirs)) in fleet.links.iter_mut().zip(links) {
        edge.link.credentials_problems = problems(link, theirs, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::topology::{fleet, tests::surveys};

    #[test]
    fn each_link_has_the_problems_of_its_own_credentials() {
        let mut surveys = surveys();
        let now = Timestamp::UNIX_EPOCH;
        let north = &mut surveys[1].links.as_mut().unwrap()[1];
        let credentials = north.credentials.as_mut().unwrap();
        credentials.as_mut().unwrap().expiry = Some(now);
        let mut destinations: Vec<Known<Destination>> =
            surveys.iter().map(|_| Ok(Destination::default())).collect();
        destinations[0] = Err("forbidden".into());
        let mut fleet = fleet(&surveys);
        note(&mut fleet, &surveys, &destinations, now);
        let noted = fleet.links.iter().map(|edge| {
            let problems = edge.link.credentials_problems.as_ref();
            (edge.target.as_str(), problems.map(Vec::len))
        });
        assert_eq!(
            noted.collect::<Vec<_>>(),
            [
                ("west", None),
                ("east", Some(0)),
                ("north", Some(1)),
                ("moon", Some(0))
            ]
        );
    }
}
