//! Linkerd's controllers: a server that gives fixed answers.

use std::{
    fmt::Debug,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use futures::{StreamExt as _, stream, stream::BoxStream};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use linkerd2_proxy_api::{
    destination::{
        DestinationProfile, GetDestination, Update,
        destination_server::{Destination, DestinationServer},
    },
    inbound::{
        PortSpec, Server,
        inbound_server_policies_server::{InboundServerPolicies, InboundServerPoliciesServer},
    },
    outbound::{
        OutboundPolicy, TrafficSpec,
        outbound_policies_server::{OutboundPolicies, OutboundPoliciesServer},
    },
};
use tokio::net::TcpListener;
use tonic::{Request as Call, Response as Reply, Status};
use tower::ServiceExt as _;

type Stream<T> = BoxStream<'static, Result<T, Status>>;

/// What the controllers answer, and whatever they were asked.
#[derive(Default)]
pub struct ControllerAnswers {
    pub updates: Vec<Update>,
    pub profile: Option<DestinationProfile>,
    pub policy: Option<OutboundPolicy>,
    pub server: Option<Server>,
    pub asked: Mutex<Vec<String>>,
}

impl ControllerAnswers {
    fn note(&self, asked: impl Debug) {
        self.asked.lock().unwrap().push(format!("{asked:?}"));
    }
}

/// The answers, and then nothing, as streams of the controllers.
fn open<T: Send + 'static>(answers: Vec<T>) -> Stream<T> {
    let answers = stream::iter(answers.into_iter().map(Ok));
    answers.chain(stream::pending()).boxed()
}

#[derive(Clone)]
struct Controller(Arc<ControllerAnswers>);

#[tonic::async_trait]
impl Destination for Controller {
    type GetStream = Stream<Update>;
    type GetProfileStream = Stream<DestinationProfile>;

    async fn get(&self, call: Call<GetDestination>) -> Result<Reply<Self::GetStream>, Status> {
        self.0.note(call.into_inner());
        Ok(Reply::new(open(self.0.updates.clone())))
    }

    async fn get_profile(
        &self,
        call: Call<GetDestination>,
    ) -> Result<Reply<Self::GetProfileStream>, Status> {
        self.0.note(call.into_inner());
        match &self.0.profile {
            Some(profile) => Ok(Reply::new(open(vec![profile.clone()]))),
            None => Err(Status::not_found("no such\nservice")),
        }
    }
}

#[tonic::async_trait]
impl OutboundPolicies for Controller {
    type WatchStream = Stream<OutboundPolicy>;

    async fn get(&self, call: Call<TrafficSpec>) -> Result<Reply<OutboundPolicy>, Status> {
        self.0.note(call.into_inner());
        let policy = self.0.policy.clone();
        policy
            .map(Reply::new)
            .ok_or_else(|| Status::not_found("No such service"))
    }

    async fn watch(&self, _: Call<TrafficSpec>) -> Result<Reply<Self::WatchStream>, Status> {
        Err(Status::unimplemented(""))
    }
}

#[tonic::async_trait]
impl InboundServerPolicies for Controller {
    type WatchPortStream = Stream<Server>;

    async fn get_port(&self, call: Call<PortSpec>) -> Result<Reply<Server>, Status> {
        self.0.note(call.into_inner());
        let server = self.0.server.clone();
        server
            .map(Reply::new)
            .ok_or_else(|| Status::not_found("unknown pod"))
    }

    async fn watch_port(&self, _: Call<PortSpec>) -> Result<Reply<Self::WatchPortStream>, Status> {
        Err(Status::unimplemented(""))
    }
}

/// Serves all controllers on one port.
pub async fn serve(answers: Arc<ControllerAnswers>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let controller = Controller(answers.clone());
            let service = service_fn(move |request: http::Request<Incoming>| {
                let controller = controller.clone();
                async move {
                    let path = request.uri().path();
                    if path.starts_with("/io.linkerd.proxy.destination.") {
                        DestinationServer::new(controller).oneshot(request).await
                    } else if path.starts_with("/io.linkerd.proxy.outbound.") {
                        OutboundPoliciesServer::new(controller)
                            .oneshot(request)
                            .await
                    } else {
                        InboundServerPoliciesServer::new(controller)
                            .oneshot(request)
                            .await
                    }
                }
            });
            let server = http2::Builder::new(TokioExecutor::new());
            tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}
