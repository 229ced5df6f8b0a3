//! GetTask, ListTasks and CancelTask.

use std::ops::ControlFlow;
use std::sync::Arc;

use prost::Message as _;

use tricord_bindings::{Encoded, Error, Reply};

use crate::protocol;
use crate::schema::{CancelTaskRequest, GetTaskRequest, ListTasksRequest, ListTasksResponse, Task, TaskState};
use crate::store::{ListQuery, PageToken};
use crate::task::event::{micros, parse_id};
use crate::task::fold;

use super::parts::{history_length, violation};
use super::{Call, Service, failure};

/// The size of a page if the client sets none.
const DEFAULT_PAGE: i32 = 50;
/// The largest page that a client can request.
const MAX_PAGE: i32 = 100;

/// The size of a page, in bytes of protobuf, at which it ends. It has one task at least.
const PAGE_BYTES: usize = 4 << 20;

pub(super) async fn get(service: &Service, call: &Call, request: &GetTaskRequest) -> Result<Reply<Task>, Error> {
    let history = history_length("historyLength", request.history_length)?;
    let id = parse_id(&request.id).ok_or_else(failure::not_found)?;
    let task = service.engine.read(&call.agent.name, call.principal.owner(), id).await.map_err(failure::refused)?;
    Ok(Reply::shared(service.engine.limited(&task, history).map_err(failure::refused)?))
}

pub(super) async fn cancel(service: &Service, call: &Call, request: &CancelTaskRequest) -> Result<Reply<Task>, Error> {
    let id = parse_id(&request.id).ok_or_else(failure::not_found)?;
    let task = service.engine.cancel(&call.agent.name, call.principal.owner(), id).await;
    task.map(Reply::shared).map_err(|error| failure::error(error, &protocol::TASK_NOT_CANCELABLE))
}

pub(super) async fn list(
    service: &Service,
    call: &Call,
    request: &ListTasksRequest,
) -> Result<Reply<ListTasksResponse>, Error> {
    let history = history_length("historyLength", request.history_length)?;
    let page_size = match request.page_size {
        None => DEFAULT_PAGE,
        Some(size @ 1..=MAX_PAGE) => size,
        Some(_) => return Err(violation("pageSize", "must be from 1 to 100")),
    };
    let store = service.engine.store();
    let mut query = ListQuery {
        agent: Arc::clone(&call.agent.name),
        owner: Arc::clone(call.principal.owner()),
        context: (!request.context_id.is_empty()).then(|| request.context_id.as_str().into()),
        state: (request.status() != TaskState::Unspecified).then(|| request.status()),
        // The bound is inclusive and the store counts microseconds, so a fraction of one rounds up.
        after_us: request
            .status_timestamp_after
            .as_ref()
            .map(|t| micros(t).saturating_add(i64::from(t.nanos % 1000 != 0))),
        limit: page_size.unsigned_abs(),
        cursor: None,
    };
    let total = if request.page_token.is_empty() {
        store.total(&query).await.map_err(|e| failure::read(&e))?
    } else {
        let token = store
            .read_page_token(&query, &request.page_token)
            .map_err(|error| violation("pageToken", &error.to_string()))?;
        query.cursor = Some((token.status_us, token.id));
        token.total
    };
    // One row more than the page shows whether there is a next page.
    query.limit += 1;
    let mut rows = store.list(&query).await.map_err(|e| failure::read(&e))?;
    query.limit -= 1;
    let more = rows.len() > query.limit as usize;
    rows.truncate(query.limit as usize);
    let artifacts = request.include_artifacts.unwrap_or(false);
    let (mut tasks, mut bytes) = (Vec::with_capacity(rows.len()), 0);
    let take = |task: Arc<Encoded<Task>>| {
        let listed = listed(&task, history, artifacts);
        bytes += listed.encoded_len();
        tasks.push(listed);
        if bytes < PAGE_BYTES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let taken = service.engine.read_rows(&rows, take).await.map_err(failure::refused)?;
    let more = more || taken < rows.len();
    let next_page_token = match rows[..taken].last() {
        Some(last) if more => store.page_token(&query, &PageToken { status_us: last.status_us, id: last.id, total }),
        _ => String::new(),
    };
    let total_size = i32::try_from(total).unwrap_or(i32::MAX);
    Ok(Reply::Owned(ListTasksResponse { tasks, next_page_token, page_size, total_size }))
}

/// Returns a copy of a task for a list, with at most `history` messages, and without artifacts unless requested.
fn listed(task: &Encoded<Task>, history: Option<u32>, artifacts: bool) -> Task {
    let mut listed = fold::limited(task.value(), history).unwrap_or_else(|| task.value().clone());
    if !artifacts {
        listed.artifacts.clear();
    }
    listed
}
