//! The task service: the one implementation of the generated trait. It decides what a call may do, then acts through the
//! engine. Every binding calls it.

mod card;
mod failure;
mod idempotency;
mod parts;
mod read;
mod send;
mod subscribe;

use std::collections::HashMap;
use std::sync::Arc;

use tricord_bindings::{Capability, Error, Events, Reply};

use crate::engine::Engine;
use crate::protocol;
use crate::schema::service::capability::{EXTENDED_AGENT_CARD, PUSH_NOTIFICATIONS, STREAMING};
use crate::schema::{
    A2aService, AgentCard, CancelTaskRequest, DeleteTaskPushNotificationConfigRequest, GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest, GetTaskRequest, ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse, ListTasksRequest, ListTasksResponse, SendMessageRequest,
    SendMessageResponse, StreamResponse, SubscribeToTaskRequest, Task, TaskPushNotificationConfig,
};
use tricord_bindings::wkt::Empty;

/// A call whose agent is known.
type Call = tricord_bindings::Call<Arc<ServedAgent>>;

/// What the service needs to know of an agent in addition to what the engine knows: its card.
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
    agents: Arc<HashMap<Arc<str>, Arc<ServedAgent>>>,
    default: Arc<str>,
    idempotency: idempotency::Idempotency,
}

/// An agent as calls carry it: its profile, and what follows from it.
#[derive(Debug)]
pub struct ServedAgent {
    name: Arc<str>,
    card: AgentCard,
    dedupe_message_id: bool,
    input: parts::MediaTypes,
    streaming: bool,
}

impl ServedAgent {
    fn new(profile: AgentProfile) -> Self {
        let AgentProfile { name, card, dedupe_message_id } = profile;
        let input = parts::MediaTypes::of(&card);
        let streaming = card.capabilities.as_ref().and_then(|c| c.streaming).unwrap_or(false);
        Self { name, card, dedupe_message_id, input, streaming }
    }

    /// Refuses what the agent does not offer. Push notifications are never offered yet. A server without authentication has
    /// no extended card.
    fn offer(&self, capability: Capability) -> Result<(), Error> {
        let unsupported = |message| Err(Error::new(&protocol::UNSUPPORTED_OPERATION, message));
        match capability {
            STREAMING if self.streaming => Ok(()),
            STREAMING => unsupported("this agent does not stream"),
            PUSH_NOTIFICATIONS => {
                let message = "this agent sends no push notifications";
                Err(Error::new(&protocol::PUSH_NOTIFICATION_NOT_SUPPORTED, message))
            }
            EXTENDED_AGENT_CARD => unsupported("this agent has no extended card"),
            Capability(_) => Err(Error::internal()),
        }
    }
}

impl AsRef<str> for ServedAgent {
    fn as_ref(&self) -> &str {
        &self.name
    }
}

impl Service {
    /// Serves these agents through this engine. `default` is the one that a call without a tenant means; it must be among
    /// them.
    pub fn new(engine: Engine, profiles: Vec<AgentProfile>, default: &str) -> Self {
        let agents =
            profiles.into_iter().map(|profile| (Arc::clone(&profile.name), Arc::new(ServedAgent::new(profile))));
        let idempotency = idempotency::Idempotency::new(engine.clone());
        Self { engine, agents: Arc::new(agents.collect()), default: default.into(), idempotency }
    }

    /// Returns the engine behind it.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }
}

impl A2aService for Service {
    type Agent = ServedAgent;

    fn authorize(&self, call: &mut tricord_bindings::Call, scope: &str) -> Result<Arc<ServedAgent>, Error> {
        let name = if scope.is_empty() { &*self.default } else { scope };
        let agent = self.agents.get(name);
        let agent = agent.ok_or_else(|| Error::invalid("tenant", "no agent of this name is served here"))?;
        card::negotiate_extensions(&agent.card, &mut call.extensions)?;
        if let Some(capability) = call.rpc.capability {
            agent.offer(capability)?;
        }
        Ok(Arc::clone(agent))
    }

    // These two return the futures of others as they are: an `async fn` around them would keep the request twice.

    fn send_message(
        &self,
        call: Call,
        request: SendMessageRequest,
    ) -> impl Future<Output = Result<Reply<SendMessageResponse>, Error>> + Send {
        send::send(self, call, request)
    }

    fn send_streaming_message(
        &self,
        call: Call,
        request: SendMessageRequest,
    ) -> impl Future<Output = Result<Events<StreamResponse>, Error>> + Send {
        send::stream(self, call, request)
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

    // `authorize` refuses these for every agent, by the capability that they need.

    async fn create_task_push_notification_config(
        &self,
        call: Call,
        _: TaskPushNotificationConfig,
    ) -> Result<Reply<TaskPushNotificationConfig>, Error> {
        Err(not_offered(&call))
    }

    async fn get_task_push_notification_config(
        &self,
        call: Call,
        _: GetTaskPushNotificationConfigRequest,
    ) -> Result<Reply<TaskPushNotificationConfig>, Error> {
        Err(not_offered(&call))
    }

    async fn list_task_push_notification_configs(
        &self,
        call: Call,
        _: ListTaskPushNotificationConfigsRequest,
    ) -> Result<Reply<ListTaskPushNotificationConfigsResponse>, Error> {
        Err(not_offered(&call))
    }

    async fn get_extended_agent_card(
        &self,
        call: Call,
        _: GetExtendedAgentCardRequest,
    ) -> Result<Reply<AgentCard>, Error> {
        Err(not_offered(&call))
    }

    async fn delete_task_push_notification_config(
        &self,
        call: Call,
        _: DeleteTaskPushNotificationConfigRequest,
    ) -> Result<Reply<Empty>, Error> {
        Err(not_offered(&call))
    }
}

/// The error of a call of something that is not offered.
fn not_offered(call: &Call) -> Error {
    let refused = call.rpc.capability.and_then(|capability| call.agent.offer(capability).err());
    refused.unwrap_or_else(Error::internal)
}
