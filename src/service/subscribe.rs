//! SubscribeToTask.

use futures::StreamExt as _;
use tricord_bindings::{Call, Error, Events};
use uuid::Uuid;

use crate::protocol;
use crate::schema::{StreamResponse, SubscribeToTaskRequest};

use super::{Service, failure};

pub(super) async fn subscribe(
    service: &Service,
    call: &Call,
    request: &SubscribeToTaskRequest,
) -> Result<Events<StreamResponse>, Error> {
    let refused = |error| failure::error(error, &protocol::UNSUPPORTED_OPERATION);
    let id = Uuid::try_parse(&request.id).map_err(|_| failure::not_found())?;
    let cursor = call.last_event_id.as_deref();
    let events = service.engine.subscribe(&call.agent, call.principal.owner(), id, cursor, None).await;
    Ok(Events::new(events.map_err(refused)?.map(move |event| event.map_err(refused))))
}
