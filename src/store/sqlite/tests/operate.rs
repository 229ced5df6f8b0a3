//! Old tasks are deleted, and what an operator does with the file.

use super::*;
use crate::clock::now_us;

const HOUR_US: i64 = 3_600_000_000;
const DAY_US: i64 = 24 * HOUR_US;

#[test]
fn a_covered_log_goes_an_hour_after_the_end() {
    let (mut open, sqlite) = open(StoreUrl::memory());
    let made = new_task(&open.store, "ann", "c", TaskState::Working, 1);
    let pk = made.task;
    let uncovered = new_task(&open.store, "ann", "c", TaskState::Completed, 1);
    let other = uncovered.task;
    open.write([made, uncovered]);
    open.write([Append {
        checkpoint: Some(checkpoint(4, TaskState::Completed)),
        body: RecordBatch { records: vec![piece(3), record(4, status(TaskState::Completed))] }.encode_to_vec(),
        last: 4,
        ..enter(pk, 3, TaskState::Completed, 100)
    }]);
    prune(&sqlite, 99 + HOUR_US);
    assert!(matches!(wait(open.store.log_since(pk, 2)).unwrap(), Tail::Records(b) if seqs(&b) == [3, 4]));
    prune(&sqlite, 100 + HOUR_US);
    assert_eq!(wait(open.store.log_since(pk, 2)).unwrap(), Tail::Gone);
    assert_eq!(wait(open.store.log_since(pk, 0)).unwrap(), Tail::Gone);
    assert_eq!(wait(open.store.log_since(pk, 4)).unwrap(), Tail::Records(vec![]));
    for after in [0, 2] {
        let read = wait(open.store.log(pk, after)).unwrap();
        assert_eq!((read.checkpoint.unwrap().seq, read.batches.len()), (4, 0));
    }
    assert!(matches!(wait(open.store.log_since(other, 0)).unwrap(), Tail::Records(b) if seqs(&b) == [1, 2]));
}

#[test]
fn finished_tasks_go_with_all_that_is_theirs() {
    let (_dir, url) = place();
    let keep_finished = Some(Duration::from_secs(30 * 24 * 3600));
    let (mut open, sqlite) = open_with(&Options { url: url.clone(), keep_finished });
    let now = now_us();
    let task = |state, created_us, status_us| {
        let mut append = new_task(&open.store, "ann", "c", state, status_us);
        append.new.as_mut().unwrap().created_us = created_us;
        append
    };
    let month_ago = now - 31 * DAY_US;
    let mut kept = vec![
        task(TaskState::InputRequired, month_ago, month_ago),
        task(TaskState::Working, month_ago, month_ago),
        // Made long ago, ended not so long ago.
        task(TaskState::Completed, month_ago, now - 29 * DAY_US),
    ];
    let mut gone: Vec<_> = (0..130).map(|n| task(TaskState::Completed, month_ago + n, month_ago + n)).collect();
    gone[5].row.as_mut().unwrap().state = TaskState::Canceled;
    gone[7].checkpoint = Some(checkpoint(2, TaskState::Completed));
    kept.push(task(TaskState::Completed, now, now));
    open.write(kept.iter().chain(&gone).cloned());

    prune(&sqlite, now_us());
    for append in &gone {
        assert_eq!(wait(open.store.find_any(id(append))).unwrap(), None);
        assert_eq!(wait(open.store.log(append.task, 0)).unwrap(), LogRead { checkpoint: None, batches: vec![] });
    }
    for append in &kept {
        assert!(wait(open.store.find_any(id(append))).unwrap().is_some());
    }
    assert_eq!(wait(open.store.total(&everything("ann"))).unwrap(), 4);
    // One that came to life since it was chosen stays.
    sqlite.file.write(|writes| writes.delete(&[kept[1].task.0], now)).unwrap();
    assert!(wait(open.store.find_any(id(&kept[1]))).unwrap().is_some());
    open.close();
    drop(sqlite);
    assert_eq!(check(&url).unwrap().problems, Vec::<String>::new());
}

#[test]
fn a_task_that_just_ended_is_kept_for_its_streams_however_little_is_kept() {
    let (mut open, sqlite) = open_with(&Options { url: StoreUrl::memory(), keep_finished: Some(Duration::ZERO) });
    let now = now_us();
    let made = [new_task(&open.store, "ann", "c", TaskState::Completed, now - HOUR_US / 2)];
    open.write(made);
    prune(&sqlite, now_us());
    assert_eq!(wait(open.store.total(&everything("ann"))).unwrap(), 1);
}

#[test]
fn a_check_names_what_is_wrong() {
    let break_it = |sql: &str, says: &str| {
        let (dir, url) = place();
        let (mut open, sqlite) = open(url.clone());
        let made = new_task(&open.store, "ann", "c", TaskState::Working, 1);
        let pk = made.task;
        open.write([made]);
        open.write([pieces(pk, &[piece(3)])]);
        open.write([Append {
            checkpoint: Some(checkpoint(4, TaskState::Completed)),
            ..enter(pk, 4, TaskState::Completed, 9)
        }]);
        open.close();
        drop(sqlite);
        let report = check(&url).unwrap();
        assert_eq!((report.tasks, report.records, report.is_sound()), (1, 4, true), "{report:?}");
        rusqlite::Connection::open(dir.path().join("tricord.db")).unwrap().execute_batch(sql).unwrap();
        let report = check(&url).unwrap();
        assert!(!report.is_sound());
        assert!(report.problems.iter().any(|p| p.contains(says)), "{sql}: {report:?}");
    };
    break_it("UPDATE counter SET n = n + 1 WHERE state = 3", "the counter is 2, the number of tasks 1");
    break_it("DELETE FROM counter", "the counter is 0, the number of tasks 1");
    break_it("DELETE FROM log WHERE k & 0xFFFFF = 3", "record 4 follows 2");
    // Rows of older versions have no checksum.
    const UNSUMMED: &str = "UPDATE meta SET summed_from = 100; UPDATE task SET sum = NULL; UPDATE log SET sum = NULL; \
                            UPDATE checkpoint SET sum = NULL;";
    let break_old = |sql: &str, says: &str| break_it(&format!("{UNSUMMED} {sql}"), says);
    break_old(
        "UPDATE task SET state = 4; UPDATE counter SET state = 4 WHERE state = 3",
        "the task has state 4, but its log ends in state 3",
    );
    break_it("DELETE FROM task", "records or a checkpoint, but no task");
    break_old("UPDATE checkpoint SET seq = 3", "the checkpoint of record 3 contains record number 4");
    break_it("DELETE FROM log; DELETE FROM checkpoint", "there is neither a record nor a checkpoint");
    break_old("UPDATE log SET body = x'ff'", "records cannot be read");
    break_old("UPDATE task SET scope = 9; UPDATE counter SET scope = 9", "belong to no agent and owner");
    break_old("UPDATE log SET k = k + 1 WHERE k & 0xFFFFF = 4", "the row for record 5 ends with record Some(4)");
    for (sql, what) in [
        ("UPDATE task SET status_us = status_us + 1", "its row is not as it was written"),
        ("UPDATE task SET sum = NULL", "its row is not as it was written"),
        ("UPDATE scope SET owner = 'bob'", "agent or owner is not as it was written"),
        ("UPDATE log SET body = x'ff' WHERE k & 0xFFFFF = 3", "the records up to 3 are not as they were written"),
        ("UPDATE log SET k = k + 1 WHERE k & 0xFFFFF = 4", "the records up to 5 are not as they were written"),
        ("UPDATE checkpoint SET seq = 3", "its checkpoint is not as it was written"),
    ] {
        break_it(sql, what);
    }
}

#[test]
fn a_copy_is_made_while_the_store_is_written() {
    let (dir, url) = place();
    let (mut open, _sqlite) = open(url.clone());
    let to = dir.path().join("copy.db");
    let copied = std::thread::scope(|scope| {
        let mut write = || {
            let appends: Vec<_> = (0..10).map(|_| new_task(&open.store, "ann", "c", TaskState::Completed, 1)).collect();
            assert!(open.write(appends).iter().all(Result::is_ok));
        };
        (0..20).for_each(|_| write());
        let copy = scope.spawn(|| backup(&url, &to));
        while !copy.is_finished() {
            write();
        }
        copy.join().unwrap()
    });
    copied.unwrap();
    let again = backup(&url, &to).unwrap_err();
    assert!(again.to_string().contains("copy.db"), "{again}");

    let copy = StoreUrl::sqlite(to);
    let report = check(&copy).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
    assert!(report.tasks >= 200 && report.tasks.is_multiple_of(10), "half a commit was copied: {report:?}");
    let generation = restored(&copy).unwrap();
    assert_ne!(generation, open.store.generation());
    let opened = Store::open(&Options::new(copy)).unwrap();
    assert_eq!(opened.generation(), generation);
    assert_eq!(wait(opened.total(&everything("ann"))).unwrap(), report.tasks);
}

#[test]
fn the_numbers_of_a_store_can_be_read_while_it_runs() {
    let (_dir, url) = place();
    let (mut open, _sqlite) = open(url.clone());
    let made = [TaskState::Working, TaskState::Completed, TaskState::Completed]
        .map(|state| new_task(&open.store, "ann", "c", state, 1));
    open.write(made);
    let stats = stats(&url).unwrap();
    assert_eq!(stats.tasks, [(TaskState::Working, 1), (TaskState::Completed, 2)].into());
    assert_eq!((stats.generation, stats.epoch), (open.store.generation(), 1));
    assert!(stats.journal_bytes > 0);
    assert!(matches!(restored(&url), Err(OpenError::Locked(_))));
}

#[test]
fn operating_on_what_is_not_there_makes_nothing() {
    let (dir, url) = place();
    for error in [
        check(&url).unwrap_err(),
        stats(&url).unwrap_err(),
        restored(&url).unwrap_err(),
        backup(&url, &dir.path().join("copy")).unwrap_err(),
    ] {
        assert!(error.to_string().ends_with("no such store"), "{error}");
    }
    assert_eq!(dir.path().read_dir().unwrap().count(), 0);
}
