//! Opening, reopening, and what a killed process leaves behind.

use super::*;
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

pub(super) fn each_start_is_a_new_epoch_of_one_generation(kind: Kind) {
    let (_dir, url) = place();
    let mut open = kind.at(url.clone());
    let (generation, epoch) = (open.store.generation(), open.store.lease().epoch);
    let states = [TaskState::Working, TaskState::Submitted, TaskState::InputRequired, TaskState::Completed];
    let mut made: Vec<_> = states.map(|state| new_task(&open.store, "ann", "c", state, 1)).into();
    made[2].row.as_mut().unwrap().live = false;
    // Waits for credentials with its run suspended.
    made.push(new_task(&open.store, "bob", "c", TaskState::AuthRequired, 1));
    open.write(made.clone());
    assert_eq!(wait(open.store.orphans(None, 10)).unwrap(), [], "of this epoch");
    open.close();

    let again = kind.at(url.clone());
    assert_eq!((again.store.generation(), again.store.lease().epoch), (generation, epoch + 1));
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

pub(super) fn a_store_is_open_once(kind: Kind) {
    let (_dir, url) = place();
    let open = kind.at(url.clone());
    let refused = kind.open(&Options::new(url.clone())).unwrap_err();
    assert!(matches!(refused, OpenError::Locked(_)));
    assert!(refused.to_string().ends_with("tricord.db: another process has this store open"), "{refused}");
    open.close();
    kind.open(&Options::new(url)).unwrap();
}

/// Not a test of its own: what the tests below run as another process. It writes tasks and prints the ids that are
/// acknowledged, until it is killed.
#[test]
#[ignore = "the other process of other tests"]
fn another_process() {
    let Some(path) = std::env::var_os("STORE_UNDER_TEST") else { return };
    let mut open = SQLITE.at(StoreUrl::sqlite(path));
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

pub(super) fn what_was_acknowledged_survives_a_kill(kind: Kind) {
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
        let refused = kind.open(&Options::new(url.clone())).unwrap_err();
        assert!(matches!(refused, OpenError::Locked(_)), "{refused}");
        child.0.kill().unwrap();
        // Lines that it still printed were acknowledged, too.
        acknowledged.extend(std::iter::from_fn(ack));
        child.0.wait().unwrap();

        let open = kind.at(url.clone());
        let rows = wait(open.store.list(&ListQuery { limit: u32::MAX, ..everything("ann") })).unwrap();
        let found: HashSet<_> = rows.iter().map(|row| row.id.to_string()).collect();
        assert!(found.is_superset(&acknowledged), "round {round}");
        assert_eq!(wait(open.store.orphans(None, u32::MAX)).unwrap().len(), rows.len());
        assert_eq!(open.store.lease().epoch, 2 * round);
        open.close();
        assert_eq!(check(&url).unwrap().problems, Vec::<String>::new());
    }
}
