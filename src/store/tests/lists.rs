//! Lists and their pages: complete, in order, without repetition, while tasks change.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashSet};

const STATES: [TaskState; 4] = [TaskState::Working, TaskState::InputRequired, TaskState::Completed, TaskState::Failed];

/// Pages through a query, with something happening after each page.
fn pages(store: &Store, query: &ListQuery, mut between: impl FnMut(usize)) -> Vec<TaskRow> {
    let mut all = Vec::new();
    let mut query = query.clone();
    let total = wait(store.total(&query)).unwrap();
    for page in 0.. {
        let rows = wait(store.list(&query)).unwrap();
        assert!(rows.len() <= query.limit as usize);
        let Some(last) = rows.last() else { break };
        let token = store.page_token(&query, &PageToken { status_us: last.status_us, id: last.id, total });
        let token = store.read_page_token(&query, &token).unwrap();
        assert_eq!(token.total, total);
        query.cursor = Some((token.status_us, token.id));
        all.extend(rows);
        between(page);
    }
    all
}

fn in_order(rows: &[TaskRow]) -> bool {
    rows.is_sorted_by(|a, b| (a.status_us, a.id) > (b.status_us, b.id))
}

pub(super) fn pages_of_seven_over_equal_times_miss_and_repeat_nothing(kind: Kind) {
    let mut open = kind.at(StoreUrl::memory());
    let made: Vec<_> =
        (0..120).map(|n| new_task(&open.store, "ann", "c", TaskState::Completed, 100 + n / 30)).collect();
    open.write(made.clone());
    let rows = pages(&open.store, &ListQuery { limit: 7, ..everything("ann") }, |_| {});
    assert!(in_order(&rows));
    let ids: HashSet<_> = rows.iter().map(|row| row.id).collect();
    assert_eq!((rows.len(), ids), (120, made.iter().map(id).collect()));
}

pub(super) fn tasks_that_change_between_pages_disturb_no_other(kind: Kind) {
    let mut open = kind.at(StoreUrl::memory());
    let made: Vec<_> = (0..120).map(|n| new_task(&open.store, "ann", "c", TaskState::Working, 100 + n % 4)).collect();
    open.write(made.clone());
    let store = open.store.clone();
    let mut changed = HashSet::new();
    let rows = pages(&store, &ListQuery { limit: 7, ..everything("ann") }, |page| {
        // One seen, one not seen, and a new one; all get a newer time.
        let picks = [page * 5 % 120, 119 - page * 7 % 120];
        let mut appends = vec![new_task(&store, "ann", "c", TaskState::Working, 500)];
        for pick in picks {
            if changed.insert(id(&made[pick])) {
                appends.push(enter(made[pick].task, 3, TaskState::Completed, 500 + page as i64));
            }
        }
        assert!(open.write(appends).iter().all(Result::is_ok));
    });
    assert!(in_order(&rows));
    let ids: HashSet<_> = rows.iter().map(|row| row.id).collect();
    assert_eq!(ids.len(), rows.len(), "a task came twice");
    for append in made.iter().filter(|a| !changed.contains(&id(a))) {
        assert!(ids.contains(&id(append)), "a task that nobody touched was left out");
    }
    assert!(rows.iter().all(|row| row.status_us < 500), "what came after the first page is not on a later one");
}

#[derive(Debug, Clone)]
struct Made {
    owner: usize,
    context: usize,
    state: usize,
    time: i64,
}

fn made() -> impl Strategy<Value = Made> {
    (0..2usize, 0..3usize, 0..4usize, 0..4i64).prop_map(|(owner, context, state, time)| Made {
        owner,
        context,
        state,
        time,
    })
}

pub(super) fn every_query_lists_what_a_simple_model_does(kind: Kind) {
    proptest!(ProptestConfig::with_cases(24), |(
        tasks in prop::collection::vec(made(), 0..60),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..4usize, 0..4i64), 0..30),
        limit in 1u32..20,
    )| {
        const OWNERS: [&str; 2] = ["ann", "bob"];
        const CONTEXTS: [&str; 3] = ["c", "0197f2a4-0000-7000-8000-0123456789ab", "other"];
        let mut open = kind.at(StoreUrl::memory());
        let mut model = BTreeMap::new();
        let appends: Vec<_> = tasks
            .iter()
            .map(|m| {
                let append =
                    new_task(&open.store, OWNERS[m.owner], CONTEXTS[m.context], STATES[m.state], m.time);
                model.insert(append.task, (id(&append), m.clone(), 2));
                append
            })
            .collect();
        open.write(appends);
        let pks: Vec<_> = model.keys().copied().collect();
        for (pick, state, time) in changes.iter().filter(|_| !pks.is_empty()) {
            let entry = model.get_mut(pick.get(&pks)).unwrap();
            (entry.1.state, entry.1.time, entry.2) = (*state, *time, entry.2 + 1);
            open.write([enter(*pick.get(&pks), entry.2, STATES[*state], *time)]);
        }
        for (owner, name) in OWNERS.into_iter().enumerate() {
            for context in [None, Some(0), Some(1), Some(2)] {
                for state in [None, Some(0), Some(2)] {
                    for after_us in [None, Some(2)] {
                        let query = ListQuery {
                            context: context.map(|c: usize| CONTEXTS[c].into()),
                            state: state.map(|s: usize| STATES[s]),
                            after_us,
                            limit,
                            ..everything(name)
                        };
                        let mut expected: Vec<_> = model
                            .values()
                            .filter(|(_, m, _)| {
                                m.owner == owner
                                    && context.is_none_or(|c| m.context == c)
                                    && state.is_none_or(|s| m.state == s)
                                    && after_us.is_none_or(|t| m.time >= t)
                            })
                            .map(|(id, m, _)| (m.time, *id))
                            .collect();
                        expected.sort_unstable_by(|a, b| b.cmp(a));
                        let rows = pages(&open.store, &query, |_| {});
                        let listed: Vec<_> = rows.iter().map(|row| (row.status_us, row.id)).collect();
                        prop_assert_eq!(wait(open.store.total(&query)).unwrap(), expected.len() as u64);
                        prop_assert_eq!(listed, expected);
                    }
                }
            }
        }
    });
}
