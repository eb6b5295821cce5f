//! Each state that a run may find, and each state in which one may be interrupted.

use hints::{hint::hint_of, suggest::ClusterFlags};
use mirror_core::api::metadata::ResourceId;
use observe::clusters::snapshot::Workload;

use super::{
    execute::Adoption,
    found::{FormerLink, FormerMirror, Found, Lead},
    plan::{TakeOverStep, refuse, shown, steps},
};
use crate::cli::plan::{PlanProblem, PlannedChange, Preview};

fn workload(name: &str, cluster: Option<&str>, desired: i32) -> Workload {
    Workload {
        id: ResourceId::new("mc", name),
        cluster: cluster.map(str::to_owned),
        desired,
        available: desired,
        images: vec!["registry.example/controller:2.18.1".to_owned()],
        ..Workload::default()
    }
}

fn change(verb: &'static str, name: &str) -> PlannedChange {
    PlannedChange {
        verb,
        kind: "Service",
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        fields: std::collections::BTreeMap::default(),
    }
}

fn mirror(name: &str, cluster: Option<&str>) -> FormerMirror {
    FormerMirror {
        id: ResourceId::new("shop", name),
        uid: name.to_owned(),
        cluster: cluster.map(str::to_owned),
        is_ours: false,
    }
}

/// Linkerd's service mirror runs, and linkerd-mc is installed.
fn found() -> Found {
    let mut names = vec![change("patch", "web-east"), change("delete", "old-east")];
    names.push(change("patch", "web-federated"));
    let problem = PlanProblem {
        service: "shop/taken".to_owned(),
        reason: "NameConflict",
        message: "shop/taken-east belongs to a user".to_owned(),
    };
    Found {
        namespace: "mc".to_owned(),
        programs: vec![
            workload("controller-east", Some("east"), 1),
            workload("linkerd-local-service-mirror", None, 2),
        ],
        pods: vec!["controller-east-1".to_owned()],
        own: Some(workload("linkerd-multicluster-controller", None, 0)),
        lead: Lead::Nobody,
        links: vec![FormerLink {
            name: "east".to_owned(),
            cluster: "east".to_owned(),
            problem: None,
            is_ready: false,
            preview: Ok(Preview {
                changes: names,
                problems: vec![problem],
            }),
        }],
        mirrors: vec![
            mirror("old-east", Some("east")),
            mirror("strange-east", Some("east")),
            mirror("web-east", Some("east")),
            mirror("web-federated", None),
        ],
        crd_lacks: Vec::new(),
        reads_slices: true,
    }
}

/// Does a step in the model of a cluster.
fn done(found: &mut Found, step: &TakeOverStep) {
    let own = found.own.as_mut().unwrap();
    match step {
        TakeOverStep::Reserve => found.lead = Lead::Reserved,
        TakeOverStep::Start => (own.desired, own.available) = (1, 1),
        TakeOverStep::Stop(name) => {
            let mut programs = found.programs.iter_mut();
            programs.find(|p| p.id.name == *name).unwrap().desired = 0;
        }
        TakeOverStep::AwaitStopped => found.pods.clear(),
        TakeOverStep::Release => found.lead = Lead::Controller("ours".to_owned()),
        TakeOverStep::AwaitReady => found.links[0].is_ready = true,
        TakeOverStep::AwaitAdopted => {
            found.mirrors.remove(0);
            let own = found.mirrors.iter_mut();
            let own = own.filter(|mirror| mirror.id.name != "strange-east");
            own.for_each(|mirror| mirror.is_ours = true);
        }
    }
    if *step == TakeOverStep::AwaitAdopted {
        found.links[0].preview = Ok(Preview::default());
    }
}

/// Whether linkerd-mc's controller may write while Linkerd's service mirror runs.
fn is_fight(found: &Found) -> bool {
    let own = found.own.as_ref().unwrap();
    let leads = match &found.lead {
        Lead::Controller(_) => true,
        Lead::Nobody => own.desired > 0,
        Lead::Reserved => false,
    };
    found.linkerds_runs() && leads
}

#[test]
fn every_interrupted_run_is_finished_by_the_next_one_and_both_never_write() {
    let all = steps(&found());
    assert_eq!(all.len(), 8, "{all:?}");
    for first in 0..=all.len() {
        for starting in [false, true] {
            let mut now = found();
            for step in &all[..first] {
                done(&mut now, step);
                assert!(!is_fight(&now), "{step:?}");
            }
            if starting && let Some(TakeOverStep::Start) = all.get(first) {
                now.own.as_mut().unwrap().desired = 1;
            }
            // The second run is interrupted too.
            for _ in 0..2 {
                refuse(&now, &ClusterFlags::default()).unwrap();
                let rest = steps(&now);
                for step in rest.iter().take(2) {
                    done(&mut now, step);
                    assert!(!is_fight(&now), "{first} {step:?}");
                }
            }
            for step in steps(&now) {
                done(&mut now, &step);
                assert!(!is_fight(&now), "{first} {step:?}");
            }
            assert_eq!(steps(&now), [], "{first}");
            let ours = now.mirrors.iter().filter(|mirror| mirror.is_ours);
            assert_eq!(
                (now.lead, ours.count()),
                (Lead::Controller("ours".into()), 2)
            );
        }
    }
}

#[test]
fn steps_depend_on_what_is_there() {
    let told = |found: &Found| {
        let all = steps(found);
        all.iter()
            .map(|step| format!("{step:?}"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let whole = r#"Reserve Start Stop("controller-east") Stop("linkerd-local-service-mirror") AwaitStopped Release AwaitReady AwaitAdopted"#;
    assert_eq!(told(&found()), whole);
    // A Helm upgrade has deleted Linkerd's Deployments.
    let mut helm = found();
    helm.programs.clear();
    helm.pods.clear();
    assert_eq!(told(&helm), "Reserve Start Release AwaitReady AwaitAdopted");
    // Linkerd's Pods still end.
    helm.pods.push("controller-east-1".to_owned());
    assert_eq!(
        told(&helm),
        "Reserve Start AwaitStopped Release AwaitReady AwaitAdopted"
    );
    // linkerd-mc has been there before, without this command.
    helm.pods.clear();
    helm.own.as_mut().unwrap().desired = 1;
    assert_eq!(told(&helm), "AwaitReady AwaitAdopted");
    helm.links[0].is_ready = true;
    assert_eq!(told(&helm), "AwaitAdopted");
    // Only a mirror is left that nothing adopts.
    helm.mirrors
        .retain(|mirror| mirror.id.name == "strange-east");
    assert_eq!(told(&helm), "");
    // Unless its cluster was not read.
    helm.links[0].preview = Err("no route".to_owned());
    assert_eq!(told(&helm), "AwaitAdopted");
}

#[test]
fn what_cannot_work_is_refused_before_anything_is_written() {
    type Change = fn(&mut Found);
    let cases: [(Change, &str, &str); 9] = [
        (|_| (), "", ""),
        (
            |f| f.own = None,
            "is not installed",
            "--set controller.replicas=0 --namespace mc | kubectl apply",
        ),
        (
            |f| f.crd_lacks = vec!["status.gateway".into()],
            "lacks status.gateway",
            "install linkerd-mc again",
        ),
        (
            |f| f.reads_slices = false,
            "enableEndpointSlices is off",
            "linkerd upgrade",
        ),
        (|f| f.links.clear(), "has no Links", "--namespace"),
        (
            |f| f.links[0].problem = Some("bad".into()),
            "cannot use the Link east: bad",
            "kubectl -n mc edit",
        ),
        (
            |f| f.lead = Lead::Controller("x".into()),
            "x holds the Lease",
            "until it has expired",
        ),
        (
            |f| f.own.as_mut().unwrap().desired = 1,
            "runs beside",
            "--replicas=0",
        ),
        (
            |f| {
                f.own.as_mut().unwrap().desired = 1;
                f.lead = Lead::Controller("x".into());
            },
            "runs beside",
            "--replicas=0",
        ),
    ];
    for (change, what, hint) in cases {
        let mut found = found();
        change(&mut found);
        match refuse(&found, &ClusterFlags::default()) {
            Ok(()) => assert_eq!(what, "", "accepted"),
            Err(error) => {
                let (said, hinted) = (error.to_string(), hint_of(&error).unwrap());
                assert!(!what.is_empty() && said.contains(what), "{said}");
                assert!(hinted.contains(hint), "{hinted}");
            }
        }
    }
}

#[test]
fn plan_says_what_goes_what_stays_and_why() {
    let found = found();
    insta::assert_snapshot!(shown(&found, &steps(&found)), @r"
    Linkerd's service mirror in namespace mc:
      controller-east for east: 1 replica, version 2.18.1
      linkerd-local-service-mirror for members in this cluster: 2 replicas, version 2.18.1
    Links:
      east to east: 3 mirrors
        will be deleted, with its ClusterIP: shop/old-east
        will not be mirrored: shop/taken: NameConflict: shop/taken-east belongs to a user
      1 federated Service
      will stay, and nothing updates it: shop/strange-east
    Steps:
      1. hold the Lease, so that linkerd-mc's controller waits
      2. start linkerd-mc's controller, and wait until it is ready
      3. scale the Deployment controller-east to 0
      4. scale the Deployment linkerd-local-service-mirror to 0
      5. wait until the Pods of Linkerd's service mirror are gone
      6. release the Lease: linkerd-mc's controller takes over
      7. wait until all Links are ready
      8. wait until linkerd-mc has adopted all mirrors
    ");
}

#[test]
fn what_became_of_each_mirror_is_counted() {
    let before = found();
    let now = |names: &[(&str, &str, bool)]| {
        let all = names.iter().map(|(name, uid, is_ours)| FormerMirror {
            uid: (*uid).to_owned(),
            is_ours: *is_ours,
            ..mirror(name, Some("east"))
        });
        let all = all.map(|mirror| (mirror.id.clone(), mirror)).collect();
        Adoption::of(&before, &all)
    };
    let adoption = |adopted, waiting: &[&str], gone: &[&str]| Adoption {
        adopted,
        waiting: waiting.iter().map(|name| format!("shop/{name}")).collect(),
        gone: gone.iter().map(|name| format!("shop/{name}")).collect(),
    };
    let (web, federated) = (
        ("web-east", "web-east", true),
        ("web-federated", "web-federated", true),
    );
    let strange = ("strange-east", "strange-east", false);
    assert_eq!(now(&[web, federated, strange]), adoption(2, &[], &[]));
    // It was to be deleted, and still exists.
    let old = ("old-east", "old-east", true);
    assert_eq!(
        now(&[web, federated, strange, old]),
        adoption(2, &["old-east"], &[])
    );
    // Not adopted yet; and created anew, with another ClusterIP.
    let foreign = ("web-east", "web-east", false);
    let new = ("web-federated", "other", true);
    assert_eq!(
        now(&[foreign, new, strange]),
        adoption(0, &["web-east"], &["web-federated"])
    );
}
