//! The objects of a link of a fleet, from what is known of its target cluster.

use hints::console::Console;
use manifests::{kubeconfig::Secret, link::LinkObjects};

use crate::{
    fleet::{
        facts::TargetSide,
        loaded::{LoadedFleet, LoadedLink},
    },
    link::{api_server::Way, existing::Existing, facts::WantedLink, remark::Remark},
};

impl LoadedLink {
    /// The objects of the link in the source cluster. Without a token, what depends on it is wrong.
    pub fn objects(
        &self,
        loaded: &LoadedFleet,
        side: &TargetSide,
        token: Option<&Secret>,
        remarks: &mut Vec<Remark>,
    ) -> anyhow::Result<LinkObjects> {
        let wanted = WantedLink {
            name: &self.ends.target,
            linkerd: &loaded.linkerd,
            args: &self.args,
            given: &self.given,
            existing: Existing::default(),
        };
        let way = self.way(side, remarks)?;
        let none = Secret::new("");
        wanted.objects(&side.facts, &way, token.unwrap_or(&none), remarks)
    }

    fn way(&self, side: &TargetSide, remarks: &mut Vec<Remark>) -> anyhow::Result<Way> {
        let (context, inside) = (&side.facts.context, &side.inside);
        Way::of(context, inside, &self.ends.target, &self.args, remarks)
    }

    /// Tries the way of the link to the API server, as far as that is possible from here.
    pub async fn check_way(
        &self,
        side: &TargetSide,
        token: &Secret,
        console: &dyn Console,
    ) -> anyhow::Result<()> {
        let way = self.way(side, &mut Vec::new())?;
        let account = &self.args.service_account_name;
        way.check(&side.facts.context, account, token, console)
            .await
    }
}
