//! What SQLite alone has: its file, its log, its plans, and a device that is full.

mod operate;

use super::backend::Sqlite;
use super::connection::MIGRATIONS;
use super::location::StoreLocation;
use super::query;
use super::write::Writes;
use crate::clock::now_us;
use crate::store::tests::*;
use rusqlite::{Connection, params_from_iter};
use std::sync::atomic::{AtomicBool, Ordering};

/// An open store with its writer, and the file behind it.
fn open(url: StoreUrl) -> (Open, Arc<Sqlite>) {
    open_with(&Options::new(url))
}

fn open_with(options: &Options) -> (Open, Arc<Sqlite>) {
    let location = match options.url.is_durable() {
        true => StoreLocation::of_file(options.url.location().as_ref()),
        false => StoreLocation::temporary(),
    };
    let sqlite = Arc::new(Sqlite::open(location.unwrap(), options.keep_finished).unwrap());
    (Open::on(Store::on(sqlite.clone())), sqlite)
}

fn prune(sqlite: &Sqlite, now_us: i64) {
    super::upkeep::prune(&sqlite.file, now_us, || false).unwrap();
}

fn other_connection(dir: &tempfile::TempDir) -> Connection {
    Connection::open(dir.path().join("tricord.db")).unwrap()
}

#[test]
fn closing_writes_what_was_pushed_into_one_file() {
    let (dir, url) = place();
    let (open, sqlite) = open(url.clone());
    for _ in 0..100 {
        open.writer.push(Item::new(vec![new_task(&open.store, "ann", "c", TaskState::Completed, 1)]));
    }
    wait(open.store.total(&everything("ann"))).unwrap();
    open.close();
    drop(sqlite);
    let files: Vec<_> = dir.path().read_dir().unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(files.iter().all(|name| name == "tricord.db" || name == "tricord.db.lock"), "{files:?}");
    let again = Open::on(Store::open(&Options::new(url)).unwrap());
    assert_eq!(wait(again.store.total(&everything("ann"))).unwrap(), 100);
}

#[test]
fn readers_see_whole_commits_while_the_log_is_emptied() {
    let (_dir, url) = place();
    let (mut open, sqlite) = open(url.clone());
    let store = open.store.clone();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (stop, store, sqlite) = (&stop, &store, &sqlite);
        let readers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(move || {
                    let mut seen = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let now = wait(store.total(&everything("ann"))).unwrap();
                        assert!(now >= seen && now % 20 == 0, "{now} after {seen}");
                        let rows = wait(store.list(&ListQuery { limit: 20, ..everything("ann") })).unwrap();
                        for row in rows.iter().take(3) {
                            assert_eq!(seqs(&wait(store.log(row.task, 0)).unwrap().batches), [1, 2]);
                        }
                        seen = now;
                    }
                    seen
                })
            })
            .collect();
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                sqlite.file.empty_wal().unwrap();
            }
        });
        for round in 0..100 {
            // Twenty in one item list are one transaction, as they are pushed under one lock.
            let appends: Vec<_> = (0..20).map(|_| new_task(store, "ann", "c", TaskState::Completed, round)).collect();
            assert!(open.write(appends).iter().all(Result::is_ok));
        }
        stop.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().unwrap();
        }
    });
    assert_eq!(wait(store.total(&everything("ann"))).unwrap(), 2000);
    open.close();
    drop((store, sqlite));
    assert_eq!(check(&url).unwrap().problems, Vec::<String>::new());
}

#[test]
fn the_write_ahead_log_stays_short_under_load() {
    let (_dir, url) = place();
    let (mut open, _sqlite) = open(url.clone());
    let body = vec![0; 100_000];
    for _ in 0..600 {
        let append = new_task(&open.store, "ann", "c", TaskState::Completed, 1);
        open.write([Append { body: body.clone(), ..append }]);
    }
    // Sixty megabytes went through it.
    let stats = stats(&url).unwrap();
    assert!(stats.file_bytes + stats.journal_bytes > 50 << 20, "{stats:?}");
    assert!(stats.journal_bytes < 40 << 20, "{stats:?}");
}

/// How a list is read, in the words of SQLite.
fn plan(sqlite: &Sqlite, query: &ListQuery) -> String {
    let (sql, values) = query::list(query);
    let plan = sqlite.file.reads().with(|conn| {
        conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?
            .query_map(params_from_iter(values), |row| row.get::<_, String>(3))?
            .collect()
    });
    plan.unwrap()
}

#[test]
fn lists_are_read_from_their_index() {
    let (_dir, url) = place();
    let (mut open, sqlite) = open(url);
    let append = new_task(&open.store, "ann", "c", TaskState::Working, 1);
    open.write([append]);
    let context = Some("c".into());
    let state = Some(TaskState::Working);
    for (query, index) in [
        (everything("ann"), "task_by_time"),
        (ListQuery { state, ..everything("ann") }, "task_by_state"),
        (ListQuery { context: context.clone(), ..everything("ann") }, "task_by_context"),
        (ListQuery { context, state, ..everything("ann") }, "task_by_context"),
        (ListQuery { after_us: Some(0), ..everything("ann") }, "task_by_time"),
        (ListQuery { after_us: Some(0), state, ..everything("ann") }, "task_by_state"),
    ] {
        for cursor in [None, Some((5, Uuid::now_v7()))] {
            let query = ListQuery { cursor, ..query.clone() };
            let plan = plan(&sqlite, &query);
            assert!(plan.contains(index), "{query:?}: {plan}");
            assert!(!plan.contains("TEMP B-TREE"), "{query:?} sorts: {plan}");
        }
    }
}

#[test]
fn a_key_is_forgotten_after_a_day() {
    let (dir, url) = place();
    let (open, sqlite) = open(url);
    let claim = || Claim {
        key: ClaimKey { agent: "support".into(), owner: "ann".into(), key: "order-7".into() },
        hash: [7; 32],
        reserve: Uuid::now_v7(),
    };
    let first = claim();
    assert_eq!(wait(open.store.claim(first.clone())).unwrap(), Claimed::New);
    wait(open.store.end_claim(first.key.clone(), ClaimEnd::Message(vec![1]))).unwrap();
    let age = |by_us: i64| {
        other_connection(&dir).execute("UPDATE claim SET created_us = created_us - ?1", [by_us]).unwrap();
    };
    let hour = 3_600_000_000;
    age(23 * hour);
    let answered = Claimed::Existing { hash: first.hash, task: first.reserve, state: ClaimedAs::Message(vec![1]) };
    assert_eq!(wait(open.store.claim(claim())).unwrap(), answered);
    age(2 * hour);
    assert_eq!(wait(open.store.claim(claim())).unwrap(), Claimed::New);
    age(25 * hour);
    prune(&sqlite, now_us());
    let left = other_connection(&dir).query_row("SELECT count(*) FROM claim", [], |row| row.get::<_, i64>(0));
    assert_eq!(left.unwrap(), 0);
}

#[test]
fn a_file_that_is_not_a_store_is_refused_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::write(path("text"), "not a database, but long enough to look like one".repeat(100)).unwrap();
    Connection::open(path("foreign")).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    drop(Store::open(&Options::new(StoreUrl::sqlite(path("newer")))).unwrap());
    Connection::open(path("newer")).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let before = std::fs::read(path("foreign")).unwrap();
    for (name, says) in [
        ("text", "text: not a database"),
        ("foreign", "foreign: a database of another program"),
        ("newer", "newer: written by a newer version (schema 99, this one knows up to 2)"),
        ("missing/a.db", "missing: the directory does not exist"),
        ("", "is a directory"),
    ] {
        let error = Store::open(&Options::new(StoreUrl::sqlite(path(name)))).unwrap_err().to_string();
        assert!(error.ends_with(says) && !error.contains('\n'), "{name}: {error}");
    }
    assert!(std::fs::read(path("foreign")).unwrap() == before, "another program's file was changed");
}

#[test]
fn every_older_version_is_brought_up_to_date() {
    for version in 0..=MIGRATIONS.len() {
        let (dir, url) = place();
        let conn = Connection::open(dir.path().join("tricord.db")).unwrap();
        for migration in &MIGRATIONS[..version] {
            conn.execute_batch(migration).unwrap();
        }
        if version > 0 {
            conn.pragma_update(None, "application_id", 0x5472_6963).unwrap();
            conn.pragma_update(None, "user_version", version as u32).unwrap();
        }
        drop(conn);
        let mut open = Open::on(Store::open(&Options::new(url.clone())).unwrap());
        let append = new_task(&open.store, "ann", "c", TaskState::Completed, 1);
        assert_eq!(open.write([append]), [Ok(2)], "from version {version}");
        open.close();
        assert_eq!(check(&url).unwrap().problems, Vec::<String>::new(), "from version {version}");
    }
}

#[test]
fn a_store_that_was_taken_over_is_written_no_more() {
    let (dir, url) = place();
    let (mut open, sqlite) = open(url);
    let mut health = open.store.health();
    let append = new_task(&open.store, "ann", "c", TaskState::Completed, 1);
    open.write([append]);
    other_connection(&dir).execute("UPDATE meta SET epoch = epoch + 1", []).unwrap();
    let append = new_task(&open.store, "ann", "c", TaskState::Completed, 1);
    assert_eq!(open.write([append]), [Err("another process took the store over".to_owned())]);
    until(&mut health, |h| *h == Health::Failing { why: StoreError::TakenOver });
    assert_eq!(wait(open.store.total(&everything("ann"))).unwrap(), 1);
    // The upkeep deletes nothing of the other process either.
    let pruned = super::upkeep::prune(&sqlite.file, now_us(), || false);
    assert_eq!(pruned, Err(StoreError::TakenOver));
}

/// Lets the file grow no further than to so many pages, until the connection fails.
fn limit_pages(sqlite: &Sqlite, pages: u32) {
    let limited = sqlite.file.write(|writes: &mut Writes| {
        writes.reconnect()?;
        writes.conn.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(())).unwrap();
        Ok(())
    });
    limited.unwrap();
}

#[test]
fn a_full_file_is_reported_and_pruning_works_in_it() {
    let (dir, url) = place();
    let (mut open, sqlite) = open(url.clone());
    let mut health = open.store.health();
    limit_pages(&sqlite, 100);
    let mut written = 0;
    let mut pks = Vec::new();
    let failed = loop {
        let append = new_task(&open.store, "ann", "c", TaskState::Completed, 1);
        pks.push(append.task.0);
        match open.write([append]).remove(0) {
            Ok(_) => written += 1,
            Err(why) => break why,
        }
        assert!(written < 10_000, "the file has no limit");
    };
    assert!(failed.contains("full"), "{failed}");
    until(&mut health, |h| *h == Health::Ok);
    assert_eq!(wait(open.store.total(&everything("ann"))).unwrap(), written);
    let pages = || other_connection(&dir).pragma_query_value(None, "page_count", |row| row.get::<_, u32>(0)).unwrap();
    // Every page is in use, and stays the last one.
    limit_pages(&sqlite, pages());
    sqlite.file.write(|writes| writes.delete(&pks, 2)).unwrap();
    assert_eq!(wait(open.store.total(&everything("ann"))).unwrap(), 0);
    let append = new_task(&open.store, "ann", "c", TaskState::Completed, 1);
    assert_eq!(open.write([append]), [Ok(2)]);
    open.close();
    drop(sqlite);
    assert_eq!(check(&url).unwrap().problems, Vec::<String>::new());
}
