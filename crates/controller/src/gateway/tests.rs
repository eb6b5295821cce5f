//! Tests of lookups, of their times, and of what is reported.

use std::{cell::RefCell, collections::VecDeque, rc::Rc};

use tokio::time::Instant;

use super::*;

fn ip(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn set(lasts: &[u8]) -> BTreeSet<IpAddr> {
    lasts.iter().copied().map(ip).collect()
}

#[test]
fn gateway_addresses_are_parsed_as_people_write_them() {
    let name = |n: &str| Host::Name(n.to_owned());
    for (text, hosts) in [
        ("", vec![]),
        (" , ,", vec![]),
        ("192.0.2.1", vec![Host::Ip(ip(1))]),
        (
            "gw.example, 192.0.2.2 ,192.0.2.1,gw.example,",
            vec![Host::Ip(ip(1)), Host::Ip(ip(2)), name("gw.example")],
        ),
        (
            "2001:db8::1",
            vec![Host::Ip("2001:db8::1".parse().unwrap())],
        ),
        ("192.0.2.256", vec![name("192.0.2.256")]),
    ] {
        assert_eq!(Host::parse_list(text), hosts, "{text:?}");
    }
}

#[test]
fn only_a_gateway_without_names_is_fixed() {
    assert_eq!(fixed(&[]), None);
    assert_eq!(
        fixed(&[Host::Ip(ip(2)), Host::Ip(ip(1)), Host::Ip(ip(2))]),
        Some(vec![ip(1), ip(2)])
    );
    assert_eq!(fixed(&Host::parse_list("192.0.2.1,gw.example")), None);
}

#[tokio::test]
async fn failed_names_do_not_hide_resolved_ones() {
    let lookup = async |name: String| match name.as_str() {
        "good" => Ok(set(&[2, 1])),
        "empty" => Ok(BTreeSet::new()),
        _ => Err(io::Error::other("no such name")),
    };
    let of = |text: &str| Resolver::new(&Host::parse_list(text));
    for (hosts, resolution) in [
        (
            "good,bad,192.0.2.9",
            Resolution::Addresses(vec![ip(1), ip(2), ip(9)]),
        ),
        ("bad,192.0.2.9", Resolution::Addresses(vec![ip(9)])),
        (
            "bad,empty",
            Resolution::Unresolved("bad: no such name; empty: no addresses found".into()),
        ),
        (
            "",
            Resolution::Unresolved("the gateway has no address".into()),
        ),
    ] {
        let got = of(hosts).resolve_with(&lookup).await;
        assert_eq!(got, resolution, "{hosts}");
    }
}

#[tokio::test]
async fn known_addresses_stay_until_there_are_enough_answers_for_each_name() {
    // The answers for two names (empty: a failed lookup), and the addresses after them.
    type Step = ([&'static [u8]; 2], &'static [u8]);
    let table: &[(&str, &[Step])] = &[
        (
            "the same",
            &[([&[1], &[2]], &[1, 2, 3]), ([&[1], &[2]], &[1, 2, 3])],
        ),
        (
            "a name that fails keeps what no answer had",
            &[
                ([&[1], &[]], &[1, 2, 3]),
                ([&[4], &[]], &[1, 2, 3, 4]),
                ([&[4], &[]], &[1, 2, 3, 4]),
                ([&[4], &[]], &[2, 3, 4]),
                ([&[4], &[2]], &[2, 3, 4]),
                ([&[4], &[2]], &[2, 3, 4]),
                ([&[4], &[2]], &[2, 4]),
            ],
        ),
        (
            "a rotation",
            &[
                ([&[1], &[3]], &[1, 2, 3]),
                ([&[2], &[3]], &[1, 2, 3]),
                ([&[1], &[3]], &[1, 2, 3]),
                ([&[1], &[3]], &[1, 2, 3]),
                ([&[1], &[3]], &[1, 3]),
            ],
        ),
    ];
    for (what, steps) in table {
        let hosts = Host::parse_list("a,b");
        let mut resolver = Resolver::new(&hosts).knowing(set(&[1, 2, 3]));
        for (i, ([a, b], addresses)) in steps.iter().enumerate() {
            let lookup = async |name: String| Ok(set(if name == "a" { a } else { b }));
            let expected: Vec<_> = set(addresses).into_iter().collect();
            let got = resolver.resolve_with(&lookup).await;
            assert_eq!(got, Resolution::Addresses(expected), "{what}, step {i}");
        }
    }
    // Without any answer nothing is reported, and what is in use stays.
    let mut resolver = Resolver::new(&Host::parse_list("a")).knowing(set(&[1]));
    let fails = async |_| Ok(BTreeSet::new());
    let got = resolver.resolve_with(&fails).await;
    assert!(matches!(got, Resolution::Unresolved(_)), "{got:?}");
}

#[tokio::test(start_paused = true)]
async fn only_changes_are_reported_and_lookups_time_out() {
    let answers = RefCell::new(VecDeque::from([
        None,
        None,
        Some(set(&[1])),
        Some(set(&[1])),
        None,
        Some(set(&[1, 2])),
    ]));
    let lookup = async |_: String| {
        let next = answers.borrow_mut().pop_front();
        match next {
            Some(Some(answer)) => Ok(answer),
            // Never answers.
            _ => std::future::pending().await,
        }
    };
    let reports = Rc::new(RefCell::new(Vec::new()));
    let sink = |report| reports.borrow_mut().push(report);
    let hosts = Host::parse_list("gw");
    let (_failing, never) = latest::channel(false);
    let watching = watch(Resolver::new(&hosts), PERIOD, lookup, sink, never);
    assert!(timeout(PERIOD * 10, watching).await.is_err());
    assert_eq!(
        *reports.borrow(),
        [
            Resolution::Unresolved("gw: timed out".into()),
            Resolution::Addresses(vec![ip(1)]),
            Resolution::Addresses(vec![ip(1), ip(2)]),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn name_of_a_gateway_that_fails_is_looked_up_at_once_and_more_often() {
    let (began, times) = (Instant::now(), RefCell::new(Vec::new()));
    let lookup = async |_: String| {
        times.borrow_mut().push(began.elapsed().as_secs_f64());
        Ok(set(&[1]))
    };
    let hosts = Host::parse_list("gw");
    let (failing, fails) = latest::channel(false);
    let changes = async {
        sleep(Duration::from_secs(7)).await;
        failing.send_replace(true);
        sleep(Duration::from_secs(120)).await;
        failing.send_replace(false);
        sleep(Duration::from_secs(75)).await;
    };
    tokio::select! {
        () = watch(Resolver::new(&hosts), PERIOD, lookup, |_| (), fails) => {}
        () = changes => {}
    }
    let times = times.into_inner();
    let is_at = |at: usize, second: f64| (times[at] - second).abs() < 0.1;
    assert!(is_at(0, 0.0) && is_at(1, 7.0), "{times:?}");
    let pauses: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let usual = PERIOD.as_secs_f64();
    for (pause, expected) in pauses[1..]
        .iter()
        .zip([2.5, 5.0, 10.0, 20.0, usual, usual, usual])
    {
        assert!((expected..expected * 1.11).contains(pause), "{pauses:?}");
    }
}

#[tokio::test]
async fn gateway_with_only_addresses_is_reported_once_without_lookup() {
    let (send, mut reports) = tokio::sync::mpsc::unbounded_channel();
    let running = tokio::spawn(async move {
        let sink = |report| send.send(report).unwrap();
        let hosts = Host::parse_list("192.0.2.1");
        let never = async |_| unreachable!("a lookup");
        run(
            &hosts,
            BTreeSet::new(),
            PERIOD,
            never,
            sink,
            latest::channel(false).1,
            CancellationToken::new(),
        )
        .await;
    });
    // Ends by itself, and may be spawned.
    running.await.unwrap();
    let expected = Resolution::Addresses(vec![ip(1)]);
    assert_eq!(reports.recv().await, Some(expected));
    assert_eq!(reports.recv().await, None);
}
