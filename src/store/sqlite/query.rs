//! Questions as SQL: rows of tasks, pages and totals.

use super::super::{ListQuery, TaskHandle, TaskRow};
use super::append::context_key;
use crate::schema::TaskState;
use rusqlite::Row;
use rusqlite::types::Value;
use uuid::Uuid;

/// The columns of a [`TaskRow`], in the order in which `task_row` reads them.
const COLUMNS: &str = "t.pk, t.id, s.agent, s.owner, t.context_key, t.context, t.state, t.status_us, t.created_us, \
                       t.live, t.epoch";

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

pub(super) fn task_row(row: &Row<'_>) -> rusqlite::Result<TaskRow> {
    let key = Uuid::from_bytes(row.get(4)?);
    let context = match row.get_ref(5)?.as_str_or_null()? {
        Some(text) => text.into(),
        None => key.hyphenated().to_string().into(),
    };
    Ok(TaskRow {
        task: TaskHandle(row.get(0)?),
        id: Uuid::from_bytes(row.get(1)?),
        agent: row.get(2)?,
        owner: row.get(3)?,
        context,
        state: state(row.get(6)?),
        status_us: row.get(7)?,
        created_us: row.get(8)?,
        live: row.get(9)?,
        epoch: row.get::<_, i64>(10)? as u64,
    })
}

pub(super) fn state(number: i32) -> TaskState {
    TaskState::try_from(number).unwrap_or(TaskState::Unspecified)
}
