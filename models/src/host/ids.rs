//! Where each entry stands, by its id: a table that is asked and never walked, so that no order can leak out of it.

use crate::hash::hash;
use fold_runtime::journal::Entry;

/// Positions in a journal, by id. Open addressing, at most half full.
#[derive(Clone, Debug, Default)]
pub(super) struct Ids {
    slots: Vec<u32>,
    held: usize,
}

const FREE: u32 = u32::MAX;

impl Ids {
    /// Where an entry stands in the journal this table was made of.
    pub(super) fn get(&self, journal: &[Entry], id: &str) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let at = self.slots[self.slot(journal, id)];
        (at != FREE).then_some(at as usize)
    }

    /// Adds the last entry of the journal, whose id is new.
    pub(super) fn push(&mut self, journal: &[Entry]) {
        if self.held * 2 >= self.slots.len() {
            self.slots = vec![FREE; (self.slots.len() * 2).max(64)];
            for (at, entry) in journal[..journal.len() - 1].iter().enumerate() {
                self.fill(journal, entry.id(), at);
            }
        }
        let at = journal.len() - 1;
        self.fill(journal, journal[at].id(), at);
        self.held = journal.len();
    }

    fn fill(&mut self, journal: &[Entry], id: &str, at: usize) {
        let slot = self.slot(journal, id);
        assert!(self.slots[slot] == FREE, "the id {id} is new");
        self.slots[slot] = u32::try_from(at).expect("fewer than four billion entries");
    }

    /// The slot of an id, or the free one it would take.
    fn slot(&self, journal: &[Entry], id: &str) -> usize {
        let mask = self.slots.len() - 1;
        #[expect(clippy::cast_possible_truncation, reason = "only the low bits count")]
        let mut slot = hash(0, id.as_bytes()) as usize & mask;
        while self.slots[slot] != FREE && journal[self.slots[slot] as usize].id() != id {
            slot = (slot + 1) & mask;
        }
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_is_found_where_it_was_put_and_no_other_is() {
        let entry = |id: usize| Entry::parse(&format!(r#"{{"type":"label","id":"{id}"}}"#)).expect("an entry");
        let (mut journal, mut ids) = (Vec::new(), Ids::default());
        assert_eq!(ids.get(&journal, "0"), None);
        for at in 0..1_000 {
            journal.push(entry(at));
            ids.push(&journal);
        }
        assert!((0..1_000).all(|at| ids.get(&journal, &at.to_string()) == Some(at)));
        assert_eq!(ids.get(&journal, "1000"), None);
    }
}
