//! Questions as SQL: rows of tasks, pages and totals.

use super::super::{ListQuery, TaskHandle, TaskRow};
use super::TaskPk;
use super::append::context_key;
use super::sum::{self, TaskColumns};
use crate::schema::TaskState;
use rusqlite::Row;
use rusqlite::types::Value;
use std::sync::Arc;
use uuid::Uuid;

/// The columns of a [`TaskRow`], in the order in which `task_row` reads them.
const COLUMNS: &str = "t.pk, t.id, t.scope, t.context_key, t.context, t.state, t.status_us, t.created_us, t.live, \
                       t.epoch, t.sum, s.agent, s.owner, s.sum";

/// `SELECT` of task rows. The index is named, as SQLite without statistics guesses, and sorts a whole scope where it
/// guesses wrong.
pub(super) fn select(index: &str, filter: &str) -> String {
    format!("SELECT {COLUMNS} FROM task t INDEXED BY {index} JOIN scope s ON s.pk = t.scope {filter}")
}

/// A page of a query, as a statement and its values.
pub(super) fn list(query: &ListQuery) -> (String, Vec<Value>) {
    let (index, filter, mut values) = filter(query);
    let mut sql = select(index, &filter);
    if let Some((status_us, id)) = query.cursor {
        sql.push_str(" AND (t.status_us, t.id) < (?, ?)");
        values.extend([Value::from(status_us), Value::from(id.as_bytes().to_vec())]);
    }
    sql.push_str(" ORDER BY t.status_us DESC, t.id DESC LIMIT ?");
    values.push(i64::from(query.limit).into());
    (sql, values)
}

/// The number of tasks of a query, as a statement and its values. A filter by state alone is looked up; by context or time,
/// counted.
pub(super) fn total(query: &ListQuery) -> (String, Vec<Value>) {
    if query.context.is_some() || query.after_us.is_some() {
        let (index, filter, values) = filter(query);
        return (format!("SELECT count(*) FROM task t INDEXED BY {index} {filter}"), values);
    }
    let mut sql = "SELECT coalesce(sum(n), 0) FROM counter WHERE scope = \
                   (SELECT pk FROM scope WHERE agent = ? AND owner = ?)"
        .to_owned();
    let mut values = vec![Value::from(query.agent.to_string()), Value::from(query.owner.to_string())];
    if let Some(state) = query.state {
        sql.push_str(" AND state = ?");
        values.push(i64::from(state as i32).into());
    }
    (sql, values)
}

/// The index and the `WHERE` of a query without its cursor.
fn filter(query: &ListQuery) -> (&'static str, String, Vec<Value>) {
    let index = match (&query.context, query.state) {
        (Some(_), _) => "task_by_context",
        (None, Some(_)) => "task_by_state",
        (None, None) => "task_by_time",
    };
    let mut sql = "WHERE t.scope = (SELECT pk FROM scope WHERE agent = ? AND owner = ?)".to_owned();
    let mut values = vec![Value::from(query.agent.to_string()), Value::from(query.owner.to_string())];
    if let Some(context) = &query.context {
        let (key, text) = context_key(context);
        sql.push_str(" AND t.context_key = ? AND t.context IS ?");
        values.extend([Value::from(key.to_vec()), text.map_or(Value::Null, |t| t.to_owned().into())]);
    }
    if let Some(state) = query.state {
        sql.push_str(" AND t.state = ?");
        values.push(i64::from(state as i32).into());
    }
    if let Some(after_us) = query.after_us {
        sql.push_str(" AND t.status_us >= ?");
        values.push(after_us.into());
    }
    (index, sql, values)
}

/// Reads a row of [`select`]. What is not as it was written comes as a damaged row, as far as it can be read.
pub(super) fn task_row(row: &Row<'_>, summed_from: TaskPk) -> rusqlite::Result<TaskRow> {
    let task = TaskHandle(row.get(0)?);
    let Ok((columns, sum)) = TaskColumns::read(row) else {
        return Ok(TaskRow {
            task,
            id: row.get(1).map(Uuid::from_bytes).unwrap_or_default(),
            agent: row.get(11).unwrap_or_default(),
            owner: row.get(12).unwrap_or_default(),
            context: Arc::default(),
            state: TaskState::Unspecified,
            status_us: row.get(6).unwrap_or_default(),
            created_us: 0,
            live: false,
            epoch: 0,
            is_damaged: true,
        });
    };
    let key = Uuid::from_slice(columns.context_key);
    let id = Uuid::from_slice(columns.id);
    let is_whole = sum::is_whole(columns.pk, sum, || columns.sum(), summed_from) && key.is_ok() && id.is_ok();
    let (agent, owner): (Arc<str>, Arc<str>) = (row.get(11)?, row.get(12)?);
    let scope_sum: Option<u32> = row.get(13)?;
    let is_whole = is_whole && scope_sum.is_none_or(|sum| sum == sum::scope(columns.scope, &agent, &owner));
    let context = match columns.context {
        Some(text) => text.into(),
        None => key.unwrap_or_default().hyphenated().to_string().into(),
    };
    Ok(TaskRow {
        task,
        id: id.unwrap_or_default(),
        agent,
        owner,
        context,
        state: state(columns.state),
        status_us: columns.status_us,
        created_us: columns.created_us,
        live: columns.live,
        epoch: columns.epoch as u64,
        is_damaged: !is_whole,
    })
}

pub(super) fn state(number: i32) -> TaskState {
    TaskState::try_from(number).unwrap_or(TaskState::Unspecified)
}
