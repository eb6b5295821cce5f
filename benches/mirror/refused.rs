//! Measures how long a change takes while the API server of the source cluster refuses the mirrors of many other
//! Services.

use std::time::{Duration, Instant};

use kube::{
    Api,
    api::{Patch, PatchParams},
};
use linkerd_mc::api::{k8s::Service, wire::Wire};
use serde_json::json;

use crate::{
    objects::{all, create, namespace, service},
    scenarios::Bench,
};

/// The namespace in which [`POLICY`] allows no Services.
const CLOSED: &str = "bench-closed";
/// Number of changes that are measured, one after the other.
const CHANGES: i32 = 5;

/// Refuses all creations of Services in [`CLOSED`], also those of an administrator.
const POLICY: &str = r#"
apiVersion: v1
kind: Namespace
metadata:
  name: bench-closed
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: bench-closed
spec:
  matchConstraints:
    resourceRules:
      - apiGroups: [""]
        apiVersions: [v1]
        operations: [CREATE]
        resources: [services]
  validations:
    - expression: "object.metadata.namespace != 'bench-closed'"
      message: no Services here
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: bench-closed
spec:
  policyName: bench-closed
  validationActions: [Deny]
"#;

impl Bench {
    /// The API server refuses the mirrors of `--services` exported Services. Measures changes of one more Service of
    /// the same target cluster: first as soon as that one is mirrored, and then `--seconds` later.
    pub async fn refused(&mut self) {
        self.apply(POLICY).await;
        let namespaced = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: bench-closed\n";
        let server_side = ["apply", "--server-side", "-f", "-"];
        self.east
            .kubectl_stdin(&server_side, namespaced)
            .await
            .unwrap();
        let api: Api<Wire<Service>> = Api::namespaced(self.local.clone(), CLOSED);
        let probe = service(CLOSED, "probe", json!({}));
        self.until("refusals", async || {
            let dry = kube::api::PostParams {
                dry_run: true,
                ..Default::default()
            };
            api.create(&dry, &probe.clone().into()).await.is_err()
        })
        .await;
        let labels = json!({ "mirror.linkerd.io/exported": "refused" });
        let refused = (0..self.args.services)
            .map(|index| service(CLOSED, &format!("refused-{index}"), labels.clone()));
        let allowed = service(&namespace("bench", 0), "allowed", labels.clone());
        all(refused
            .chain([allowed])
            .map(|service| create(self.remote.clone(), service)))
        .await;
        self.stop();
        self.writes();
        self.controller();
        let flags = ["--selector=mirror.linkerd.io/exported=refused"];
        let yaml = self.link_yaml("refused", self.east.url(), &flags);
        self.apply(&yaml).await;
        self.mirrored(1).await;
        for (number, wait) in [0, self.args.seconds].into_iter().enumerate() {
            tokio::time::sleep(Duration::from_secs(wait)).await;
            self.writes();
            let mut longest = Duration::ZERO;
            for change in 1..=CHANGES {
                let port = 20_000 + 100 * i32::try_from(number).unwrap() + change;
                longest = longest.max(self.changed(port).await);
            }
            let mut row = self.row(&format!("refused, after {wait} s"), Some(longest), None);
            row.objects = self.args.services;
            row.note = format!("the longest of {CHANGES} changes of another Service");
            self.report.add(row);
        }
        let binding = ["delete", "validatingadmissionpolicybinding", "bench-closed"];
        self.west.kubectl(&binding).await.unwrap();
        self.unlink().await;
    }

    /// Changes the port of the Service whose mirror is allowed. Returns the time until the mirror has the port.
    async fn changed(&self, port: i32) -> Duration {
        let of = namespace("bench", 0);
        let remote: Api<Wire<Service>> = Api::namespaced(self.remote.clone(), &of);
        let local: Api<Wire<Service>> = Api::namespaced(self.local.clone(), &of);
        let ports = json!([{ "name": "http", "port": port, "targetPort": 8080 }]);
        let patch = Patch::Merge(json!({ "spec": { "ports": ports } }));
        let started = Instant::now();
        let parameters = PatchParams::default();
        remote.patch("allowed", &parameters, &patch).await.unwrap();
        self.until("the port", async || {
            let mirror = local.get("allowed-refused").await.unwrap().object;
            mirror.spec.ports.iter().any(|found| found.port == port)
        })
        .await;
        started.elapsed()
    }
}
