//! Second copies on a disk that goes wrong: what the runtime says of them, and what is there.
//!
//! The journal is the only truth. Whatever becomes of the disk, folds are recovered from the journal, and no window and no decision is
//! another one; every original that a fold hides has a sound second copy, or a person was warned that it has none.

use super::{Outcome, World};
use crate::sabotage::{Careless, Saboteur};
use fold_invariants::Broken;
use fold_models::store::Fault;
use fold_runtime::journal::Entry;
use fold_runtime::session::{Original, RecoverError, Saved, Session};

impl World<'_> {
    /// A second copy rots, unseen until somebody looks.
    pub(super) fn rot(&mut self, nth: u32) {
        let rotten = self.store.rot(nth as usize);
        self.probes.when("disk: rot", rotten.is_some());
        self.faults.extend(rotten.map(|_| "disk: rot"));
        self.rotted.extend(rotten);
    }

    /// The process ends, and what its writes came to is on the disk.
    pub(super) fn process_ends(&mut self) {
        let came_to_light = self.store.reopen();
        self.probes.when("disk: torn write", came_to_light.contains(&Fault::TornWrite));
        self.probes.when("disk: lost sync", came_to_light.contains(&Fault::LostSync));
        self.faults.extend(came_to_light.into_iter().map(Fault::name));
    }

    /// Offers the store what no second copy is known of, as a host does when a session is opened, after a commit, and at a turn's end.
    pub(super) fn save(&mut self) -> Outcome {
        let Some(session) = &mut self.session else { return Ok(()) };
        let saved = match &self.saboteur {
            Some(saboteur) if saboteur.takes_for_saved() => session.save(&mut Careless::of(&mut self.store)),
            _ => session.save(&mut self.store),
        };
        self.kept_or_told(&saved)
    }

    /// Every folded original is in the store, or what is not is in the count of those that are left, with a reason.
    fn kept_or_told(&mut self, saved: &Saved) -> Outcome {
        if *saved == Saved::default() {
            return Ok(());
        }
        let fault = self.store.fault();
        let refused = saved.left > 0;
        for (this, probe) in [
            (Fault::NoSpace, "disk: no space left"),
            (Fault::WriteError, "disk: write error"),
            (Fault::ReadError, "disk: read error"),
            (Fault::ShortWrite, "disk: short write"),
        ] {
            self.probes.when(probe, refused && fault == Some(this));
        }
        self.faults.extend(fault.filter(|_| refused).map(Fault::name));
        self.probes.when("second copy refused", refused);
        self.probes.when("second copy repaired", !saved.repaired.is_empty());
        let warning = saved.warning();
        // A person is told once, until it is another warning.
        if let Some(warning) = warning.as_ref().filter(|_| self.warned != warning) {
            self.note = format!("{}{warning}; ", self.note);
        }
        self.warned = warning;
        if self.warned.is_none() && (refused || !saved.repaired.is_empty()) {
            return Err(Broken::new("durable", "a warning where a second copy is missing or was damaged", "nothing was said"));
        }
        if refused && fault.is_none() {
            return Err(Broken::new("durable", "a sound disk that keeps what it is given", format!("{} originals are left", saved.left)));
        }
        // What was whole and has not been touched since is whole.
        let changed = self.store.changed();
        self.whole.retain(|digest| !changed.contains(digest));
        let branch = self.host.branch();
        let missing = |&at: &usize| {
            let digest = branch[at].digest();
            let whole = self.whole.contains(&digest) || self.store.holds(digest, branch[at].line().as_bytes()) && self.whole.insert(digest);
            !whole && !self.rotted.contains(&digest)
        };
        let missing = self.folds.originals().filter(missing).count();
        if missing > saved.left {
            let expected = format!("every folded original in the store, or said to be missing; {} are", saved.left);
            return Err(Broken::new("durable", expected, format!("{missing} are missing")));
        }
        Ok(())
    }

    /// Once the disk is sound, everything is in the store again, whatever had become of it.
    pub(super) fn healed(&mut self) -> Outcome {
        self.store.fail(None);
        self.rotted.clear();
        let Some(session) = &mut self.session else { return Ok(()) };
        let saved = session.heal(&mut self.store);
        self.probes.when("second copies looked at again", saved != Saved::default());
        self.kept_or_told(&saved)
    }

    /// What a session gives back of a fold, with the store to stand in for the journal.
    fn gives(&self, session: &Session, fold: &str) -> Result<Vec<Original>, RecoverError> {
        let given = session.recover(fold, Some(&self.store));
        let unchecked = |saboteur: &Saboteur| saboteur.gives_unchecked(&given, self.host.branch(), &self.store);
        self.saboteur.as_ref().and_then(unchecked).map_or(given.clone(), Ok)
    }

    /// A journal that lost a line gives it back from a sound second copy, and from no other.
    pub(super) fn second_copies(&mut self) -> Outcome {
        let Some(fold) = self.recovered.iter().next().filter(|_| self.deep).cloned() else { return Ok(()) };
        let Some(&lost) = self.folds.hidden(&fold).unwrap_or_default().first() else { return Ok(()) };
        let original = self.host.branch()[lost].line().to_owned();
        let mut branch = self.host.branch().to_vec();
        let damaged = original.replacen('{', "{\"damaged\":true,", 1);
        branch[lost] = Entry::parse(&damaged).map_err(|error| Broken::new("lossless", "a line", error.to_string()))?;
        let mut session =
            Session::open(&branch, &self.settings, self.model.context_window).map_err(|why| Broken::new("resume", "a session that opens", why))?;
        if session.recover(&fold, None).is_ok() {
            return Err(Broken::new("lossless", "a damaged original is noticed", "it was given back"));
        }
        // What the journal lost is not written over the copy that still has it.
        session.save(&mut self.store);
        let given = self.gives(&session, &fold).map_err(|error| Broken::new("lossless", "the second copy", error.to_string()))?;
        if !given.iter().any(|one| one.from_store && one.line == original) {
            return Err(Broken::new("lossless", "the second copy of the damaged line", "another line"));
        }
        self.probes.hit("fold recovered from the store");
        self.store.damage(self.host.branch()[lost].digest(), |bytes| bytes.push(b' '));
        if self.gives(&session, &fold).is_ok() {
            return Err(Broken::new("lossless", "a damaged second copy is noticed", "it was given back"));
        }
        self.store.fail(Some(Fault::ReadError));
        if self.gives(&session, &fold).is_ok() {
            return Err(Broken::new("lossless", "a second copy that cannot be read is not given back", "something was"));
        }
        Ok(())
    }
}
