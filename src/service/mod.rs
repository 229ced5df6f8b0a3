//! The task service: the one implementation of the generated trait. It judges what a call may do, then acts through the
//! engine; every wire comes through here.

mod card;
mod claims;
mod failure;
mod parts;
mod push;
mod read;
mod send;
mod subscribe;

use std::collections::HashMap;
use std::sync::Arc;

use tricord_bindings::{Call, Error, Events, Reply};

use crate::engine::Engine;
use crate::protocol;
use crate::schema::{
    A2aService, AgentCard, CancelTaskRequest, DeleteTaskPushNotificationConfigRequest, GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest, GetTaskRequest, ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse, ListTasksRequest, ListTasksResponse, SendMessageRequest,
    SendMessageResponse, StreamResponse, SubscribeToTaskRequest, Task, TaskPushNotificationConfig,
};
use tricord_bindings::wkt::Empty;

/// What the service needs to know of an agent, beside what the engine does: what its card says to callers.
#[derive(Debug, Clone)]
pub struct AgentProfile {
    /// The agent's name, which is its tenant on the wire.
    pub name: Arc<str>,
    /// Its card, as it is served.
    pub card: AgentCard,
    /// Whether a message id that was seen before answers with the first call's task.
    pub dedupe_message_id: bool,
}

/// The task service.
#[derive(Debug, Clone)]
pub struct Service {
    engine: Engine,
    agents: Arc<HashMap<Arc<str>, Agent>>,
    default: Arc<str>,
    claims: Arc<claims::Claims>,
}

/// An offer, with what every call looks up prepared.
#[derive(Debug)]
struct Agent {
    offer: AgentProfile,
    input: parts::MediaTypes,
    streaming: bool,
}

impl Service {
    /// Serves these agents through this engine. `default` is the one that a call without a tenant means; it must be among
    /// them.
    pub fn new(engine: Engine, offers: Vec<AgentProfile>, default: &str) -> Self {
        let agents = offers.into_iter().map(|offer| {
            let input = parts::MediaTypes::of(&offer.card);
            let streaming = offer.card.capabilities.as_ref().and_then(|c| c.streaming).unwrap_or(false);
            (Arc::clone(&offer.name), Agent { offer, input, streaming })
        });
        Self { engine, agents: Arc::new(agents.collect()), default: default.into(), claims: Arc::default() }
    }

    /// The engine behind it.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    fn agent(&self, name: &str) -> Result<&Agent, Error> {
        let name = if name.is_empty() { &*self.default } else { name };
        self.agents.get(name).ok_or_else(|| Error::invalid("tenant", "no agent of this name is served here"))
    }
}

impl A2aService for Service {
    fn authorize(&self, call: &mut Call, scope: &str) -> Result<(), Error> {
        let agent = self.agent(scope)?;
        call.agent = Arc::clone(&agent.offer.name);
        card::negotiate_extensions(&agent.offer.card, &mut call.extensions)?;
        match call.rpc {
            "SendStreamingMessage" | "SubscribeToTask" if !agent.streaming => {
                Err(Error::new(&protocol::UNSUPPORTED_OPERATION, "this agent does not stream"))
            }
            "CreateTaskPushNotificationConfig"
            | "GetTaskPushNotificationConfig"
            | "ListTaskPushNotificationConfigs"
            | "DeleteTaskPushNotificationConfig" => Err(push::not_supported()),
            "GetExtendedAgentCard" => Err(card::no_extended_card()),
            _ => Ok(()),
        }
    }

    async fn send_message(&self, call: Call, request: SendMessageRequest) -> Result<Reply<SendMessageResponse>, Error> {
        send::send(self, call, request).await
    }

    async fn send_streaming_message(
        &self,
        call: Call,
        request: SendMessageRequest,
    ) -> Result<Events<StreamResponse>, Error> {
        send::stream(self, call, request).await
    }

    async fn get_task(&self, call: Call, request: GetTaskRequest) -> Result<Reply<Task>, Error> {
        read::get(self, &call, &request).await
    }

    async fn list_tasks(&self, call: Call, request: ListTasksRequest) -> Result<Reply<ListTasksResponse>, Error> {
        read::list(self, &call, &request).await
    }

    async fn cancel_task(&self, call: Call, request: CancelTaskRequest) -> Result<Reply<Task>, Error> {
        read::cancel(self, &call, &request).await
    }

    async fn subscribe_to_task(
        &self,
        call: Call,
        request: SubscribeToTaskRequest,
    ) -> Result<Events<StreamResponse>, Error> {
        subscribe::subscribe(self, &call, &request).await
    }

    async fn create_task_push_notification_config(
        &self,
        _: Call,
        _: TaskPushNotificationConfig,
    ) -> Result<Reply<TaskPushNotificationConfig>, Error> {
        Err(push::not_supported())
    }

    async fn get_task_push_notification_config(
        &self,
        _: Call,
        _: GetTaskPushNotificationConfigRequest,
    ) -> Result<Reply<TaskPushNotificationConfig>, Error> {
        Err(push::not_supported())
    }

    async fn list_task_push_notification_configs(
        &self,
        _: Call,
        _: ListTaskPushNotificationConfigsRequest,
    ) -> Result<Reply<ListTaskPushNotificationConfigsResponse>, Error> {
        Err(push::not_supported())
    }

    async fn get_extended_agent_card(
        &self,
        _: Call,
        _: GetExtendedAgentCardRequest,
    ) -> Result<Reply<AgentCard>, Error> {
        Err(card::no_extended_card())
    }

    async fn delete_task_push_notification_config(
        &self,
        _: Call,
        _: DeleteTaskPushNotificationConfigRequest,
    ) -> Result<Reply<Empty>, Error> {
        Err(push::not_supported())
    }
}
