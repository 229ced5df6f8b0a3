//! Tasks, their logs and their counters: what is written is what is read.

use super::*;

pub(super) fn what_was_written_is_found_again(kind: Kind) {
    let mut open = kind.at(StoreUrl::memory());
    let append = new_task(&open.store, "ann", "trip to Rome", TaskState::Working, 5);
    assert_eq!(open.write([append.clone()]), [Ok(2)]);
    let row = wait(open.store.find("support", "ann", id(&append))).unwrap().unwrap();
    assert_eq!((row.task, row.state, row.status_us, row.live), (append.task, TaskState::Working, 5, true));
    assert_eq!(&*row.context, "trip to Rome");
    assert_eq!(wait(open.store.find("support", "bob", id(&append))).unwrap(), None);
    assert_eq!(wait(open.store.find("other", "ann", id(&append))).unwrap(), None);
    let log = wait(open.store.log(append.task, 0)).unwrap();
    assert_eq!(log.batches, [RecordBatch::decode(&*append.body).unwrap()]);
    open.close();
}

pub(super) fn a_context_comes_back_as_it_was_written(kind: Kind) {
    let mut open = kind.at(StoreUrl::memory());
    let names = [
        "0197f2a4-0000-7000-8000-0123456789ab",
        "0197F2A4-0000-7000-8000-0123456789AB",
        "0197f2a4000070008000012345678 9ab",
        "0197f2a40000700080000123456789ab",
        "{0197f2a4-0000-7000-8000-0123456789ab}",
        "trip \u{1F30D} 'quoted'; --",
        " ",
    ];
    let appends = names.map(|name| new_task(&open.store, "ann", name, TaskState::Completed, 1));
    open.write(appends.clone());
    for (name, append) in names.iter().zip(&appends) {
        let row = wait(open.store.find("support", "ann", id(append))).unwrap().unwrap();
        assert_eq!(&*row.context, *name);
        let query = ListQuery { context: Some((*name).into()), ..everything("ann") };
        assert_eq!(wait(open.store.list(&query)).unwrap(), [row], "{name}");
        assert_eq!(wait(open.store.total(&query)).unwrap(), 1);
    }
}

pub(super) fn a_name_that_looks_like_the_digest_of_another_is_another(kind: Kind) {
    // Anybody can make a UUID of a name's digest.
    let digest = ring::digest::digest(&ring::digest::SHA256, b"trip");
    let forged = Uuid::from_slice(&digest.as_ref()[..16]).unwrap().to_string();
    let mut open = kind.at(StoreUrl::memory());
    let append = new_task(&open.store, "ann", "trip", TaskState::Completed, 1);
    open.write([append]);
    let query = ListQuery { context: Some(forged.into()), ..everything("ann") };
    assert_eq!(wait(open.store.list(&query)).unwrap(), []);
    assert_eq!(wait(open.store.total(&query)).unwrap(), 0);
}

pub(super) fn records_are_read_after_any_seq(kind: Kind) {
    let mut open = kind.at(StoreUrl::memory());
    let made = new_task(&open.store, "ann", "c", TaskState::Working, 1);
    let pk = made.task;
    let other = new_task(&open.store, "ann", "c", TaskState::Working, 1);
    open.write([made, other]);
    open.write([pieces(pk, &[piece(3), piece(4), piece(5)])]);
    open.write([pieces(pk, &[piece(6)])]);
    for after in 0..=7 {
        let expected: Vec<u64> = (after + 1..=6).collect();
        match wait(open.store.log_since(pk, after)).unwrap() {
            Tail::Records(batches) => assert_eq!(seqs(&batches), expected, "after {after}"),
            Tail::Gone => panic!("nothing was pruned"),
        }
        assert_eq!(seqs(&wait(open.store.log(pk, after)).unwrap().batches), expected, "after {after}");
    }
    let row = wait(open.store.list(&everything("ann"))).unwrap();
    assert!(row.iter().all(|row| row.status_us == 1), "pieces change no row");
    let unused = open.store.new_task(Uuid::now_v7());
    assert_eq!(wait(open.store.log(unused, 0)).unwrap(), LogRead { checkpoint: None, batches: vec![] });
}

pub(super) fn a_fold_starts_from_the_checkpoint_and_a_replay_does_not(kind: Kind) {
    let mut open = kind.at(StoreUrl::memory());
    let made = new_task(&open.store, "ann", "c", TaskState::Working, 1);
    let pk = made.task;
    open.write([made]);
    open.write([Append {
        checkpoint: Some(checkpoint(3, TaskState::Working)),
        ..pieces(pk, &[piece(3), piece(4), piece(5)])
    }]);
    let read = wait(open.store.log(pk, 0)).unwrap();
    assert_eq!(read.checkpoint.unwrap().seq, 3);
    assert_eq!(seqs(&read.batches), [4, 5]);
    let read = wait(open.store.log(pk, 2)).unwrap();
    assert_eq!((read.checkpoint, seqs(&read.batches)), (None, vec![3, 4, 5]));
    // A later one replaces it, without any record.
    open.write([Append {
        body: vec![],
        follows: 5,
        last: 5,
        checkpoint: Some(checkpoint(5, TaskState::Working)),
        ..pieces(pk, &[piece(5)])
    }]);
    let read = wait(open.store.log(pk, 0)).unwrap();
    assert_eq!((read.checkpoint.unwrap().seq, read.batches.len()), (5, 0));
    assert!(matches!(wait(open.store.log_since(pk, 0)).unwrap(), Tail::Records(batches) if seqs(&batches).len() == 5));
}

pub(super) fn logs_are_read_together_up_to_a_size(kind: Kind) {
    let mut open = kind.at(StoreUrl::memory());
    let made: Vec<_> = (0..6).map(|_| new_task(&open.store, "ann", "c", TaskState::Working, 1)).collect();
    let tasks: Vec<_> = made.iter().map(|append| append.task).collect();
    open.write(made);
    assert_eq!(wait(open.store.logs(tasks.clone())).unwrap().len(), 6);
    let mut large = piece(3);
    if let Some(Event::Artifact(piece)) = &mut large.event {
        let text = crate::schema::part::Content::Text("x".repeat(2 << 20));
        let part = crate::schema::Part { content: Some(text), ..Default::default() };
        piece.artifact = Some(crate::schema::Artifact { parts: vec![part], ..Default::default() });
    }
    open.write([pieces(tasks[1], &[large])]);
    let logs = wait(open.store.logs(tasks.clone())).unwrap();
    assert_eq!(logs.iter().map(|log| seqs(&log.as_ref().unwrap().batches).len()).collect::<Vec<_>>(), [2, 3]);
    let rest = wait(open.store.logs(tasks[2..].to_vec())).unwrap();
    assert_eq!(rest.len(), 4);
}

pub(super) fn counters_follow_every_change(kind: Kind) {
    let mut open = kind.at(StoreUrl::memory());
    let total =
        |store: &Store, owner: &str, state| wait(store.total(&ListQuery { state, ..everything(owner) })).unwrap();
    let made: Vec<_> = (0..5).map(|_| new_task(&open.store, "ann", "c", TaskState::Working, 1)).collect();
    let pks: Vec<_> = made.iter().map(|a| a.task).collect();
    let foreign = new_task(&open.store, "bob", "c", TaskState::Working, 1);
    open.write(made.into_iter().chain([foreign]));
    assert_eq!(total(&open.store, "ann", None), 5);
    assert_eq!(total(&open.store, "bob", None), 1);
    assert_eq!(total(&open.store, "nobody", None), 0);
    // Two changes of one task in one transaction.
    let lease = open.store.lease();
    let enter_now = |task, seq, state, at| Append { lease, ..enter(task, seq, state, at) };
    let item =
        Item::new(vec![enter_now(pks[0], 3, TaskState::InputRequired, 2), enter_now(pks[0], 4, TaskState::Working, 3)]);
    open.writer.push_all([item.clone(), item]);
    open.write([enter(pks[1], 3, TaskState::Completed, 2), enter(pks[2], 3, TaskState::Completed, 2)]);
    for (state, n) in [(TaskState::Working, 3), (TaskState::Completed, 2), (TaskState::InputRequired, 0)] {
        assert_eq!(total(&open.store, "ann", Some(state)), n, "{state:?}");
        let query = ListQuery { state: Some(state), ..everything("ann") };
        assert_eq!(wait(open.store.list(&query)).unwrap().len() as u64, n, "{state:?}");
    }
    assert_eq!(total(&open.store, "ann", None), 5);
}

pub(super) fn everything_pushed_from_many_threads_is_answered_once(kind: Kind) {
    const THREADS: usize = 8;
    const EACH: usize = 100;
    let mut open = kind.at(StoreUrl::memory());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let (writer, store) = (open.writer.clone(), open.store.clone());
            scope.spawn(move || {
                for _ in 0..EACH {
                    writer.push(Item::new(vec![new_task(&store, "ann", "c", TaskState::Completed, 1)]));
                }
            });
        }
    });
    let mut answered = 0;
    while answered < THREADS * EACH {
        let Some(Commit::Done(done)) = open.commits.blocking_recv() else { panic!("a commit failed") };
        assert!(done.iter().all(|(_, result)| *result == Ok(2)));
        answered += done.len();
    }
    assert_eq!(wait(open.store.total(&everything("ann"))).unwrap(), 800);
    let mut commits = open.commits;
    open.writer.close();
    drop(open.writer);
    assert!(commits.blocking_recv().is_none(), "nothing is answered twice");
}

pub(super) fn an_item_with_nothing_left_is_passed_over(kind: Kind) {
    let mut open = kind.at(StoreUrl::memory());
    let item = Item::new(vec![new_task(&open.store, "ann", "c", TaskState::Completed, 1)]);
    open.writer.push(item.clone());
    open.writer.push(item.clone());
    open.writer.push(item);
    let Some(Commit::Done(done)) = open.commits.blocking_recv() else { panic!("the commit failed") };
    assert_eq!(done.len(), 1);
    open.writer.close();
    assert!(open.commits.try_recv().is_err());
}

pub(super) fn a_store_has_one_writer(kind: Kind) {
    let open = kind.at(StoreUrl::memory());
    let (sender, _commits) = unbounded_channel::<Commit<Item>>();
    assert_eq!(Writer::start(open.store.clone(), sender).unwrap_err(), StoreError::Closed);
}
