//! `rotate` refuses rotations that would break something, and changes nothing.

use control_plane::{ControlPlane, eventually};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams},
};
use linkerd_mc::api::link::LinkStatus;
use serde_json::{Value, json};

use super::{LINKERD, Rotation, is_accepted, linkerds, minted, result, token};
use crate::support::{
    SOON,
    installation::{NAMESPACE, account, can_i},
    links::{condition, own_link, status_that, unlink},
    planes::alone,
    program::run,
};

/// The permissions in docs/rotate.md.
const GUIDE: &str = include_str!("../../../docs/rotate.md");

#[tokio::test(flavor = "multi_thread")]
async fn rotation_that_would_break_something_is_refused() {
    let alone = alone().await;
    let rotation = Rotation::between(&alone).await;
    let before = rotation.kubeconfig().await;

    rotation.a_context_of_another_cluster_is_refused().await;
    rotation.secrets_of_different_servers_are_refused().await;
    rotation.a_cluster_that_linkerd_would_lose_is_named().await;
    rotation.a_destination_controller_is_needed().await;
    assert_eq!(rotation.kubeconfig().await, before);
    assert_eq!(linkerds(&rotation.source, "turn").await, before);
    for plane in [&rotation.source, &rotation.far] {
        assert_eq!(minted(plane).await, Vec::<String>::new());
    }
    rotation.a_namespace_without_linkerd_revokes_nothing().await;
    rotation.the_documented_permissions_are_enough().await;
}

impl Rotation {
    /// Runs the program, which must fail with a message that has this part. A dry run must fail as well.
    fn fails(&self, more: &[&str], part: &str) {
        for dry in [&["--dry-run"][..], &[]] {
            let outcome = self.run(&[more, dry].concat());
            assert_eq!(outcome.code, 1, "{dry:?}: {}", outcome.stderr);
            assert!(outcome.stderr.contains(part), "{}", outcome.stderr);
        }
    }

    /// The other cluster has an account with the same name, so the name alone does not show the mistake.
    async fn a_context_of_another_cluster_is_refused(&self) {
        let source = self.source.name();
        let args = ["rotate", "turn", "--target", source, "--source", source];
        let outcome = run(&self.config, &args);
        assert_eq!(outcome.code, 1);
        let why = format!("the context {source} is of another cluster than the token");
        assert!(outcome.stderr.contains(&why), "{}", outcome.stderr);
        assert_eq!(minted(&self.source).await, Vec::<String>::new());
    }

    async fn secrets_of_different_servers_are_refused(&self) {
        let before = linkerds(&self.source, "turn").await;
        let other = before.replace(self.far.url(), "https://192.0.2.1:6443");
        assert_ne!(before, other);
        self.put_linkerds(&other).await;
        self.fails(&[], "are for different ServiceAccounts or API servers");
        self.put_linkerds(&before).await;
    }

    async fn put_linkerds(&self, kubeconfig: &str) {
        let data = json!({ "stringData": { "kubeconfig": kubeconfig } }).to_string();
        let args = [
            "-n",
            LINKERD,
            "patch",
            "secret",
            "cluster-credentials-turn",
            "-p",
            &data,
        ];
        self.source.kubectl(&args).await.unwrap();
    }

    /// After a restart, Linkerd's destination controller would not know a cluster that does not answer.
    async fn a_cluster_that_linkerd_would_lose_is_named(&self) {
        let (source, far) = (&self.source, &self.far);
        let nobody = "--api-server-address=https://127.0.0.1:1";
        own_link(source, far, "mute", &[nobody]).await;
        let is_lost =
            |now: &LinkStatus| condition(now, "Connected").is_some_and(|c| c.status == "False");
        status_that(source, "mute", is_lost).await;
        self.fails(
            &[],
            "mute is unreachable, and a restart would cut Linkerd off from it",
        );
        unlink(source, "mute").await;
        self.forget("mute").await;
    }

    /// Without Linkerd's destination controller, `rotate` cannot know when the old token is unused.
    async fn a_destination_controller_is_needed(&self) {
        let params = DeleteParams::default();
        self.deployments
            .delete("linkerd-destination", &params)
            .await
            .unwrap();
        self.fails(&[], "linkerd-destination not found");
        super::destination(&self.source).await;
    }

    /// `--linkerd-namespace` names a namespace without Linkerd. The current token belongs to this link alone, and
    /// Linkerd uses it elsewhere.
    async fn a_namespace_without_linkerd_revokes_nothing(&self) {
        assert_eq!(result(&self.run(&["-o=json"]))["result"], "rotated");
        let before = self.kubeconfig().await;
        let tokens = minted(&self.far).await;
        assert_eq!(tokens.len(), 1);
        for namespace in ["linkred", "default"] {
            let why = format!("namespace \"{namespace}\" is not Linkerd's");
            for more in [&["-L", namespace][..], &["-L", namespace, "--no-restart"]] {
                self.fails(more, &why);
            }
        }
        self.both_have(&token(&before)).await;
        assert_eq!(minted(&self.far).await, tokens);
        is_accepted(&self.far, &token(&before), true).await;
    }

    /// A user with only these permissions can rotate, and nobody gets them by the token of a controller: it can list no
    /// Secret that it could not list before.
    async fn the_documented_permissions_are_enough(&self) {
        let blocks: Vec<&str> = GUIDE
            .split("\n```yaml\n")
            .skip(1)
            .filter_map(|rest| Some(rest.split_once("\n```")?.0))
            .filter(|block| block.contains("kind: Role"))
            .collect();
        let [source, target] = blocks[..] else {
            panic!("{} blocks with permissions", blocks.len());
        };
        self.use_an_account_in_its_own_namespace().await;
        let source = source.replace("cluster-credentials-east", "cluster-credentials-turn");
        let target = target.replace("resourceNames: [west]", "resourceNames: [peers]");
        let clusters: [(&ControlPlane, &str); 2] = [(&self.source, &source), (&self.far, &target)];
        for (plane, roles) in clusters {
            let before = listed_by_the_controller(plane).await;
            plane.apply(roles).await.unwrap();
            assert_eq!(listed_by_the_controller(plane).await, before);
        }
        let user = "--as=system:serviceaccount:linkerd-mc-rotate:rotate-credentials";
        self.the_account_can_only_restart(user).await;
        self.the_account_gets_no_token_that_lasts(user).await;
        assert_eq!(result(&self.run(&[user, "-o=json"]))["result"], "rotated");
        // The second rotation also revokes a token.
        let second = result(&self.run(&[user, "-o=json"]));
        assert_eq!(second["revoked"].as_array().unwrap().len(), 1);
    }

    /// The account gets tokens of the account of the links, and of no other one, and none that never expires.
    async fn the_account_gets_no_token_that_lasts(&self, user: &str) {
        let its = "linkerd-multicluster-access";
        for (account, is_allowed) in [("peers", true), ("default", false)] {
            let account = format!("serviceaccounts/{account}");
            let ask = ["create", &account, "--subresource=token", "-n", its, user];
            assert_eq!(can_i(&self.far, &ask).await, is_allowed, "{account}");
        }
        let try_secret = async |more: &[&str]| {
            let args = ["-n", its, "create", "secret", "generic", "tried"];
            let dry = [user, "--dry-run=server"];
            self.far.kubectl(&[&args[..], &dry, more].concat()).await
        };
        eventually("the policy to be in force", SOON, async || {
            let Err(refused) = try_secret(&[]).await else {
                return Ok(None);
            };
            let is_policy = refused.to_string().contains("only create empty Secrets");
            is_policy.then_some(Some(())).ok_or(refused)
        })
        .await
        .unwrap();
        let bound = "--type=mirror.linkerd.io/bound-token";
        let (empty, full) = ([bound], [bound, "--from-literal=a=b"]);
        assert!(try_secret(&empty).await.is_ok());
        assert!(try_secret(&full).await.is_err());
    }

    /// The account cannot list Secrets, such as the key of the issuer, nor change what Pods of Linkerd run.
    async fn the_account_can_only_restart(&self, user: &str) {
        let list = ["list", "secrets", "-n", LINKERD, user];
        assert!(!can_i(&self.source, &list).await);
        let try_patch = async |template: Value| {
            let patch = json!({ "spec": { "template": template } }).to_string();
            let args = ["-n", LINKERD, "patch", "deployment", "linkerd-destination"];
            let more = [user, "--dry-run=server", "--type=merge", "-p", &patch];
            self.source.kubectl(&[&args[..], &more].concat()).await
        };
        let annotation = |key: &str| json!({ "metadata": { "annotations": { key: "new" } } });
        let account = json!({ "spec": { "serviceAccountName": "linkerd-identity" } });
        eventually("the policy to be in force", SOON, async || {
            let Err(refused) = try_patch(account.clone()).await else {
                return Ok(None);
            };
            let is_policy = refused.to_string().contains("may only restart");
            is_policy.then_some(Some(())).ok_or(refused)
        })
        .await
        .unwrap();
        for (template, is_restart) in [
            (annotation("kubectl.kubernetes.io/restartedAt"), true),
            (annotation("config.linkerd.io/proxy-image"), false),
            (json!({ "metadata": { "labels": { "new": "new" } } }), false),
        ] {
            let patched = try_patch(template.clone()).await;
            assert_eq!(patched.is_ok(), is_restart, "{template}: {patched:?}");
        }
    }

    /// Links again, with an account that is in no namespace whose Secrets a controller may list.
    async fn use_an_account_in_its_own_namespace(&self) {
        let (target, source) = (self.far.name(), self.source.name());
        let (account, its) = ("peers", "linkerd-multicluster-access");
        let name = ["--service-account-name", account];
        let allow = ["--context", target, "allow", "--namespace", its];
        let allowed = run(&self.config, &[&allow[..], &name].concat()).data();
        self.far.apply(&allowed).await.unwrap();
        let link = ["link", "--target", target, "--source", source, "--yes"];
        let more = ["--cluster-name=turn", "--service-account-namespace", its];
        let linked = run(&self.config, &[&link[..], &name, &more].concat());
        assert_eq!(linked.code, 0, "{}", linked.stderr);
    }
}

/// The Secrets that the controller's account may list, apart from the credentials of Links.
async fn listed_by_the_controller(plane: &ControlPlane) -> Vec<String> {
    let controller = format!("--as={}", account(NAMESPACE));
    let namespaces = ["get", "namespaces", "-o", "name"];
    let namespaces = plane.kubectl(&namespaces).await.unwrap();
    let mut found = Vec::new();
    for namespace in namespaces
        .lines()
        .map(|line| line.replace("namespace/", ""))
    {
        let list = ["list", "secrets", "-n", &namespace, &controller];
        if can_i(plane, &list).await {
            let secrets = Api::<Secret>::namespaced(plane.client(), &namespace);
            let secrets = secrets.list(&ListParams::default()).await.unwrap();
            let of_links = "mirror.linkerd.io/remote-kubeconfig";
            let others = secrets
                .items
                .iter()
                .filter(|secret| secret.type_.as_deref() != Some(of_links));
            found.extend(others.map(|secret| format!("{namespace}/{}", secret.name_any())));
        }
    }
    found
}
