//! Tasks that ended lately, kept with their encodings for those who read them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tricord_bindings::Encoded;
use uuid::Uuid;

use crate::schema::Task;

use super::live::{IdMap, lock};

/// Tasks that ended lately. Bounded by bytes; the oldest leave first.
pub(super) struct Finished {
    inner: Mutex<FinishedInner>,
    capacity: usize,
}

#[derive(Default)]
struct FinishedInner {
    tasks: IdMap<FinishedTask>,
    order: VecDeque<(Uuid, usize)>,
    bytes: usize,
}

struct FinishedTask {
    agent: Arc<str>,
    owner: Arc<str>,
    task: Arc<Encoded<Task>>,
}

impl Finished {
    pub(super) fn new(capacity: usize) -> Self {
        Self { inner: Mutex::default(), capacity }
    }

    pub(super) fn get(&self, agent: &str, owner: &str, id: Uuid) -> Option<Arc<Encoded<Task>>> {
        let inner = lock(&self.inner);
        let found = inner.tasks.get(&id).filter(|found| *found.agent == *agent && *found.owner == *owner);
        found.map(|found| Arc::clone(&found.task))
    }

    pub(super) fn put(&self, id: Uuid, agent: &Arc<str>, owner: &Arc<str>, task: &Arc<Encoded<Task>>) {
        // The value and its two encodings; what the allocator adds is left out.
        let size = 1024 + 4 * prost::Message::encoded_len(task.value());
        if size > self.capacity / 8 {
            return;
        }
        let entry = FinishedTask { agent: Arc::clone(agent), owner: Arc::clone(owner), task: Arc::clone(task) };
        let mut inner = lock(&self.inner);
        if inner.tasks.insert(id, entry).is_none() {
            inner.order.push_back((id, size));
            inner.bytes += size;
        }
        let mut dropped = Vec::new();
        while inner.bytes > self.capacity {
            let Some((oldest, size)) = inner.order.pop_front() else { break };
            inner.bytes -= size;
            dropped.extend(inner.tasks.remove(&oldest));
        }
        drop(inner);
    }
}
