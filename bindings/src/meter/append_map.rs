//! A map that only grows and is read without a lock.

use std::sync::OnceLock;

/// A map for a small number of keys. The first lookup of a key inserts its default value; nothing is ever removed.
///
/// It is a linked list in order of insertion. A lookup walks the list and takes no lock.
#[derive(Debug)]
pub struct AppendMap<K, V> {
    first: OnceLock<Box<Node<K, V>>>,
}

#[derive(Debug)]
struct Node<K, V> {
    key: K,
    value: V,
    next: OnceLock<Box<Node<K, V>>>,
}

impl<K, V> Default for AppendMap<K, V> {
    fn default() -> Self {
        Self { first: OnceLock::new() }
    }
}

impl<K: PartialEq + Copy, V: Default> AppendMap<K, V> {
    /// Returns the value of a key, inserting it first if it is new.
    pub fn get(&self, key: K) -> &V {
        let mut slot = &self.first;
        loop {
            let node = slot.get_or_init(|| Box::new(Node { key, value: V::default(), next: OnceLock::new() }));
            if node.key == key {
                return &node.value;
            }
            slot = &node.next;
        }
    }
}

impl<K, V> AppendMap<K, V> {
    /// Iterates over the entries, in the order in which they were inserted.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        std::iter::successors(self.first.get(), |node| node.next.get()).map(|node| (&node.key, &node.value))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn threads_that_insert_at_the_same_time_find_the_same_values() {
        let map = AppendMap::<u32, AtomicU32>::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    (0..1000).for_each(|n| {
                        map.get(n % 10).fetch_add(1, Ordering::Relaxed);
                    })
                });
            }
        });
        let mut entries: Vec<_> = map.iter().map(|(key, value)| (*key, value.load(Ordering::Relaxed))).collect();
        entries.sort_unstable();
        assert_eq!(entries, (0..10).map(|key| (key, 400)).collect::<Vec<_>>());
    }
}
