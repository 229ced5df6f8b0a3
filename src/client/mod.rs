//! Calls A2A agents: reads the card, chooses an interface, sends messages, follows tasks.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use tricord::client::{Client, ClientSettings};
//! use tricord::schema::{GetTaskRequest, Task};
//!
//! let agent = Client::connect("http://127.0.0.1:8080", ClientSettings::default()).await?;
//! let task: Task = agent.get_task(GetTaskRequest { id: "0198…".into(), ..Default::default() }).await?;
//! # Ok(())
//! # }
//! ```

mod choose;
mod discover;
mod follow;

use tricord_bindings::client::{AnyTransport, CallOptions, ClientError, EventStream, HttpClient};

use crate::schema::{
    A2aServiceClient, AgentCard, CancelTaskRequest, GetTaskRequest, ListTasksRequest, ListTasksResponse,
    SendMessageRequest, SendMessageResponse, StreamResponse, SubscribeToTaskRequest, Task,
};

pub use choose::Choice;
pub use discover::{ClientSettings, ConnectError, fetch_card, read_card};
pub use follow::Follow;
pub use tricord_bindings::Binding;

/// A client of one agent.
#[derive(Debug, Clone)]
pub struct Client {
    service: A2aServiceClient<AnyTransport>,
    card: AgentCard,
    choice: Choice,
    options: CallOptions,
}

impl Client {
    /// Reads the agent's card and chooses an interface. Calls nothing yet.
    ///
    /// `url` is the agent's URL, to which `/.well-known/agent-card.json` is added, or the URL of the card itself.
    ///
    /// # Errors
    /// When the card cannot be read, or has no usable interface.
    pub async fn connect(url: &str, settings: ClientSettings) -> Result<Self, ConnectError> {
        let http = HttpClient::new();
        let (card, address) = read_card(&http, url, &settings).await?;
        let mut choice = choose::choose(&card, &address, settings.binding)?;
        if let Some(tenant) = &settings.tenant {
            choice.tenant.clone_from(tenant);
        }
        discover::check_trust(&address, &choice, &settings)?;
        let transport = choose::transport(http, &choice).map_err(ConnectError::Call)?;
        Ok(Self { service: A2aServiceClient::new(transport), card, choice, options: settings.options })
    }

    /// Returns the agent's card.
    pub fn card(&self) -> &AgentCard {
        &self.card
    }

    /// Returns the interface that is called.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// Returns the generated client, for calls with their own options. It does not fill in the tenant.
    pub fn service(&self) -> &A2aServiceClient<AnyTransport> {
        &self.service
    }

    /// Returns the options of every call.
    pub fn options(&self) -> &CallOptions {
        &self.options
    }

    /// Returns the request's tenant, or the interface's if the request names none.
    fn tenant(&self, tenant: &mut String) {
        if tenant.is_empty() {
            self.choice.tenant.clone_into(tenant);
        }
    }

    /// Sends a message and waits for the answer.
    ///
    /// # Errors
    /// When the call fails.
    pub async fn send(&self, mut request: SendMessageRequest) -> Result<SendMessageResponse, ClientError> {
        self.tenant(&mut request.tenant);
        self.service.send_message(&request, &self.options).await
    }

    /// Sends a message and streams the events that follow. Reconnects when a connection breaks.
    ///
    /// # Errors
    /// When the call fails before the stream begins.
    pub async fn stream(&self, mut request: SendMessageRequest) -> Result<Follow, ClientError> {
        self.tenant(&mut request.tenant);
        let events = self.service.send_streaming_message(&request, &self.options).await?;
        Ok(Follow::of_message(self.clone(), events))
    }

    /// Streams the events of a task, after the event with this id if one is given. Reconnects when a connection breaks.
    ///
    /// # Errors
    /// When the call fails before the stream begins.
    pub async fn follow(&self, task: &str, last_event_id: Option<&str>) -> Result<Follow, ClientError> {
        let events = self.subscribe(task, last_event_id).await?;
        Ok(Follow::of_task(self.clone(), task.to_owned(), last_event_id.map(str::to_owned), events))
    }

    async fn subscribe(
        &self,
        task: &str,
        last_event_id: Option<&str>,
    ) -> Result<EventStream<StreamResponse>, ClientError> {
        let request = SubscribeToTaskRequest { tenant: self.choice.tenant.clone(), id: task.to_owned() };
        let options = match last_event_id {
            Some(id) => self.options.clone().last_event_id(id)?,
            None => self.options.clone(),
        };
        self.service.subscribe_to_task(&request, &options).await
    }

    /// Reads a task.
    ///
    /// # Errors
    /// When the call fails.
    pub async fn get_task(&self, mut request: GetTaskRequest) -> Result<Task, ClientError> {
        self.tenant(&mut request.tenant);
        self.service.get_task(&request, &self.options).await
    }

    /// Reads a page of tasks.
    ///
    /// # Errors
    /// When the call fails.
    pub async fn list_tasks(&self, mut request: ListTasksRequest) -> Result<ListTasksResponse, ClientError> {
        self.tenant(&mut request.tenant);
        self.service.list_tasks(&request, &self.options).await
    }

    /// Cancels a task.
    ///
    /// # Errors
    /// When the call fails.
    pub async fn cancel_task(&self, mut request: CancelTaskRequest) -> Result<Task, ClientError> {
        self.tenant(&mut request.tenant);
        self.service.cancel_task(&request, &self.options).await
    }
}
