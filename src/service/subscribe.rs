//! SubscribeToTask.

use futures::StreamExt as _;
use tricord_bindings::{Error, Events};

use crate::engine::EngineError;
use crate::schema::{StreamResponse, SubscribeToTaskRequest};
use crate::task::event::parse_id;

use super::failure::{not_found, refused};
use super::{Call, Service};

pub(super) async fn subscribe(
    service: &Service,
    call: &Call,
    request: &SubscribeToTaskRequest,
) -> Result<Events<StreamResponse>, Error> {
    let id = parse_id(&request.id).ok_or_else(not_found)?;
    let cursor = call.last_event_id.as_deref();
    let events = service.engine.subscribe(&call.agent.name, call.principal.owner(), id, cursor, None).await;
    let events = events.map_err(|error| match error {
        // The client has seen the end: there is nothing to connect for again.
        EngineError::Ended(_) if cursor.is_some() => refused(error).ending_stream(),
        error => refused(error),
    })?;
    Ok(Events::new(events.map(|event| event.map_err(refused))))
}
