//! gRPC on tonic with prost's codec, as in tonic's own generated code.

use axum::body::Body;
use axum::extract::State;
use axum::response::IntoResponse as _;
use futures::StreamExt as _;
use futures::future::{Ready, ready};
use futures::stream::BoxStream;
use tonic::server::{Grpc, ServerStreamingService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tricord::schema::send_message_response::Payload;
use tricord::schema::{
    GetTaskRequest, SendMessageRequest, SendMessageResponse, StreamResponse, SubscribeToTaskRequest, Task,
};

use super::agent::{Agent, Event, Events};

/// One call, selected by its path.
pub async fn call(State(agent): State<Agent>, request: axum::extract::Request) -> axum::response::Response {
    let rpc = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
    let response = match rpc.as_str() {
        "SendMessage" => Grpc::new(ProstCodec::default()).unary(Send(agent), request).await,
        "GetTask" => Grpc::new(ProstCodec::default()).unary(Get(agent), request).await,
        "SendStreamingMessage" => Grpc::new(ProstCodec::default()).server_streaming(Stream(agent), request).await,
        "SubscribeToTask" => Grpc::new(ProstCodec::default()).server_streaming(Subscribe(agent), request).await,
        _ => return Status::unimplemented(rpc).into_http::<Body>(),
    };
    response.into_response()
}

struct Send(Agent);

impl UnaryService<SendMessageRequest> for Send {
    type Response = SendMessageResponse;
    type Future = Ready<Result<Response<Self::Response>, Status>>;

    fn call(&mut self, request: Request<SendMessageRequest>) -> Self::Future {
        let payload = Some(Payload::Task(self.0.send(request.get_ref())));
        ready(Ok(Response::new(SendMessageResponse { payload })))
    }
}

struct Get(Agent);

impl UnaryService<GetTaskRequest> for Get {
    type Response = Task;
    type Future = Ready<Result<Response<Task>, Status>>;

    fn call(&mut self, _: Request<GetTaskRequest>) -> Self::Future {
        let task = self.0.task().ok_or_else(|| Status::not_found("no task"));
        // tonic needs an owned answer.
        ready(task.map(|task| Response::new(task.as_ref().clone())))
    }
}

struct Stream(Agent);

impl ServerStreamingService<SendMessageRequest> for Stream {
    type Response = StreamResponse;
    type ResponseStream = Messages;
    type Future = Ready<Result<Response<Messages>, Status>>;

    fn call(&mut self, request: Request<SendMessageRequest>) -> Self::Future {
        ready(messages(self.0.stream(request.get_ref())))
    }
}

struct Subscribe(Agent);

impl ServerStreamingService<SubscribeToTaskRequest> for Subscribe {
    type Response = StreamResponse;
    type ResponseStream = Messages;
    type Future = Ready<Result<Response<Messages>, Status>>;

    fn call(&mut self, request: Request<SubscribeToTaskRequest>) -> Self::Future {
        ready(messages(self.0.subscribe(&request.get_ref().id)))
    }
}

type Messages = BoxStream<'static, Result<StreamResponse, Status>>;

fn messages(events: Option<Events>) -> Result<Response<Messages>, Status> {
    let events = events.ok_or_else(|| Status::invalid_argument("not a stream"))?;
    let message = |event| match event {
        Event::Own(message) => Ok(*message),
        Event::Shared(shared) => Ok(shared.0.clone()),
    };
    Ok(Response::new(events.map(message).boxed()))
}
