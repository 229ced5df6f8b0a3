//! Opening, reopening, and what a killed process leaves behind.

use super::*;
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

#[test]
fn each_start_is_a_new_epoch_of_one_generation() {
    let (_dir, url) = place();
    let mut open = Open::at(url.clone());
    let (generation, epoch) = (open.store.generation(), open.store.epoch());
    let states = [TaskState::Working, TaskState::Submitted, TaskState::InputRequired, TaskState::Completed];
    let mut made: Vec<_> = states.map(|state| new_task(&open.store, "ann", "c", state, 1)).into();
    made[2].row.as_mut().unwrap().live = false;
    // Waits for credentials with its run suspended.
    made.push(new_task(&open.store, "bob", "c", TaskState::AuthRequired, 1));
    open.write(made.clone());
    assert_eq!(wait(open.store.orphans(None, 10)).unwrap(), [], "of this epoch");
    open.close();

    let again = Open::at(url.clone());
    assert_eq!((again.store.generation(), again.store.epoch()), (generation, epoch + 1));
    assert!(again.store.new_task(Uuid::nil()) > made[4].task);
    let orphans = wait(again.store.orphans(None, 10)).unwrap();
    let pks: Vec<_> = orphans.iter().map(|row| row.task).collect();
    assert_eq!(pks, [made[0].task, made[1].task, made[4].task]);
    assert!(orphans.iter().all(|row| row.epoch == epoch));
    assert_eq!(wait(again.store.orphans(Some(pks[0]), 1)).unwrap()[0].task, pks[1]);
    // What is written again belongs to this epoch.
    let mut again = again;
    again.write([enter(pks[0], 3, TaskState::Working, 2)]);
    assert_eq!(wait(again.store.orphans(None, 10)).unwrap().len(), 2);
}

#[test]
fn a_store_is_open_once() {
    let (_dir, url) = place();
    let open = Open::at(url.clone());
    let refused = Store::open(&Options::new(url.clone())).unwrap_err();
    assert!(matches!(refused, OpenError::Locked(_)));
    assert!(refused.to_string().ends_with("tricord.db: another process has this store open"), "{refused}");
    open.close();
    Store::open(&Options::new(url)).unwrap();
}

#[test]
fn what_is_no_store_is_refused_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::write(path("text"), "not a database, but long enough to look like one".repeat(100)).unwrap();
    rusqlite::Connection::open(path("foreign")).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    drop(Store::open(&Options::new(StoreUrl::Sqlite(path("newer")))).unwrap());
    rusqlite::Connection::open(path("newer")).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let before = std::fs::read(path("foreign")).unwrap();
    for (name, says) in [
        ("text", "text: not a database"),
        ("foreign", "foreign: a database of another program"),
        ("newer", "newer: written by a newer version (schema 99, this one knows up to 1)"),
        ("missing/a.db", "missing: the directory does not exist"),
        ("", "is a directory"),
    ] {
        let error = Store::open(&Options::new(StoreUrl::Sqlite(path(name)))).unwrap_err().to_string();
        assert!(error.ends_with(says) && !error.contains('\n'), "{name}: {error}");
    }
    assert!(std::fs::read(path("foreign")).unwrap() == before, "another program's file was changed");
}

#[test]
fn every_older_version_is_brought_up_to_date() {
    for version in 0..=sqlite::MIGRATIONS.len() {
        let (dir, url) = place();
        let conn = rusqlite::Connection::open(dir.path().join("tricord.db")).unwrap();
        for migration in &sqlite::MIGRATIONS[..version] {
            conn.execute_batch(migration).unwrap();
        }
        if version > 0 {
            conn.pragma_update(None, "application_id", 0x5472_6963).unwrap();
            conn.pragma_update(None, "user_version", version as u32).unwrap();
        }
        drop(conn);
        let mut open = Open::at(url.clone());
        let append = new_task(&open.store, "ann", "c", TaskState::Completed, 1);
        assert_eq!(open.write([append]), [Ok(2)], "from version {version}");
        open.close();
        assert_eq!(check(&url).unwrap().problems, Vec::<String>::new(), "from version {version}");
    }
}

/// Not a test of its own: what the tests below run as another process. It writes tasks and prints the ids that are
/// acknowledged, until it is killed.
#[test]
#[ignore = "the other process of other tests"]
fn another_process() {
    let Some(path) = std::env::var_os("STORE_UNDER_TEST") else { return };
    let mut open = Open::at(StoreUrl::Sqlite(path.into()));
    let mut out = std::io::stdout().lock();
    loop {
        let appends: Vec<_> = (0..3).map(|_| new_task(&open.store, "ann", "c", TaskState::Working, 1)).collect();
        let ids: Vec<_> = appends.iter().map(id).collect();
        assert!(open.write(appends).iter().all(Result::is_ok));
        for id in ids {
            writeln!(out, "ack {id}").unwrap();
        }
        out.flush().unwrap();
    }
}

/// A child that is killed and waited for whatever happens.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    let (dir, url) = place();
    let mut acknowledged = HashSet::new();
    for round in 1..=3u64 {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::tests::process::another_process", "--ignored", "--nocapture"])
            .env("STORE_UNDER_TEST", dir.path().join("tricord.db"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut child = Killed(child);
        let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
        let mut ack =
            || lines.by_ref().map(Result::unwrap).find_map(|line| Some(line.strip_prefix("ack ")?.to_owned()));
        for _ in 0..60 {
            acknowledged.insert(ack().expect("the other process writes"));
        }
        let refused = Store::open(&Options::new(url.clone())).unwrap_err();
        assert!(matches!(refused, OpenError::Locked(_)), "{refused}");
        child.0.kill().unwrap();
        // Lines that it still printed were acknowledged, too.
        acknowledged.extend(std::iter::from_fn(ack));
        child.0.wait().unwrap();

        let open = Open::at(url.clone());
        let rows = wait(open.store.list(&ListQuery { limit: u32::MAX, ..everything("ann") })).unwrap();
        let found: HashSet<_> = rows.iter().map(|row| row.id.to_string()).collect();
        assert!(found.is_superset(&acknowledged), "round {round}");
        assert_eq!(wait(open.store.orphans(None, u32::MAX)).unwrap().len(), rows.len());
        assert_eq!(open.store.epoch(), 2 * round);
        open.close();
        assert_eq!(check(&url).unwrap().problems, Vec::<String>::new());
    }
}
