//! Cuts: which runs of ripe units become marks.
//!
//! A walk over units as they ripen. A closed cut never changes by later messages, because every question the walk asks is
//! answered as of the good answer that ripened the unit. A mark moves nothing: it is only what the next commit may apply.

use super::brief::{Bound, brief};
use super::context::Context;
use super::text::{FoldKind, FoldName, placeholder, result_line};
use super::unit::UnitKind;
use crate::journal::{Entry, Kind, Role};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// What the walk needs of the settings.
#[derive(Clone, Debug)]
pub(crate) struct CutPolicy {
    /// Bytes a fold has to hide.
    pub min_fold: u64,
    /// Characters of a brief; see [`super::brief_bound`].
    pub brief_chars: usize,
}

/// Where a placeholder stands. Positions on the branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A tool result; its calls stay, the other results of its batch become one line each.
    Result {
        /// The message that called.
        answer: usize,
        /// The result that is replaced by the placeholder.
        result: usize,
        /// The other results of that batch.
        others: Vec<usize>,
    },
    /// A person's message, which keeps its words and gets the placeholder as a further block.
    User(usize),
    /// A custom message, which is replaced.
    Custom(usize),
}

impl Carrier {
    /// The entry that holds the placeholder.
    pub fn position(&self) -> usize {
        match self {
            Carrier::Result { result, .. } => *result,
            Carrier::User(at) | Carrier::Custom(at) => *at,
        }
    }

    /// The message whose calls stay shown for the placeholder's sake.
    pub fn answer(&self) -> Option<usize> {
        if let Carrier::Result { answer, .. } = self { Some(*answer) } else { None }
    }

    /// The other results of its batch.
    pub fn others(&self) -> &[usize] {
        if let Carrier::Result { others, .. } = self { others } else { &[] }
    }

    /// A batch as carrier: its first result that is no error, else its first.
    pub(crate) fn of_batch(batch: &[usize], entries: &[Entry]) -> Self {
        let results = &batch[1..];
        let sound = results.iter().find(|&&at| !matches!(entries[at].kind(), Kind::Message(Role::ToolResult { is_error: true, .. })));
        let result = *sound.unwrap_or(&results[0]);
        Carrier::Result { answer: batch[0], result, others: results.iter().copied().filter(|&at| at != result).collect() }
    }
}

/// A closed run: a mark until a commit applies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub kind: FoldKind,
    /// Its units by number, oldest first.
    pub units: Vec<usize>,
    /// Positions of the user messages within its range; shown in place, not among its parts.
    pub users: Vec<usize>,
    pub carrier: Carrier,
}

impl Cut {
    /// The entries that the fold hides or replaces, in branch order, without user messages.
    pub fn parts(&self, context: &Context) -> Vec<usize> {
        let kept = self.carrier.answer();
        let mut parts: Vec<usize> =
            self.units.iter().flat_map(|&unit| context.units[unit].entries.iter().copied()).filter(|&at| Some(at) != kept).collect();
        parts.sort_unstable();
        parts
    }
}

/// A run that met something that ends runs before it could close.
#[derive(Clone, Debug)]
struct Remainder {
    run: Run,
    carrier: Option<Carrier>,
    /// The first unit of the cut that closed before it, with nothing between that ends a run.
    behind: Option<usize>,
}

/// The walk.
#[derive(Clone, Debug)]
pub(crate) struct Cuts {
    policy: CutPolicy,
    marks: Vec<Cut>,
    run: Run,
    remainders: Vec<Remainder>,
    /// The first unit of the cut that closed last since a run was ended.
    closed: Option<usize>,
}

#[derive(Clone, Debug, Default)]
struct Run {
    units: Vec<usize>,
    users: Vec<usize>,
    /// Weight of all entries of its units.
    weight: u64,
    /// The batch with the lightest assistant message, and that weight.
    lightest: Option<(u64, usize)>,
    custom: Option<usize>,
}

impl Cuts {
    /// A walk that has seen nothing.
    pub fn new(policy: CutPolicy) -> Self {
        Cuts { policy, marks: Vec::new(), run: Run::default(), remainders: Vec::new(), closed: None }
    }

    /// Takes the next ripe unit; `newest_user` is the newest user message as of now.
    pub fn walk(&mut self, unit: usize, context: &Context, newest_user: Option<usize>) {
        let found = &context.units[unit];
        match found.kind {
            UnitKind::User => self.run.users.extend(&found.entries),
            UnitKind::Ender => self.end_run(context, newest_user),
            _ if context.held.contains(&unit) => self.end_run(context, newest_user),
            UnitKind::Irregular => {}
            UnitKind::Custom | UnitKind::Answer | UnitKind::Batch => {
                self.run.push(unit, context, self.policy.min_fold);
                self.try_close(context, newest_user);
            }
        }
    }

    /// The cut of exactly these units; `None` if it has no carrier.
    pub fn exactly(&self, units: &[usize], users: Vec<usize>, context: &Context, newest_user: Option<usize>) -> Option<Cut> {
        let mut run = Run { users, ..Run::default() };
        units.iter().for_each(|&unit| run.push(unit, context, self.policy.min_fold));
        run.carrier(context, newest_user).map(|carrier| run.cut(carrier, context))
    }

    /// Closes a cut that was agreed on, after whatever was open before it; `false` if it has no carrier. The newest user message is that as
    /// of its first unit, and as of its last.
    pub fn agree(&mut self, units: &[usize], users: Vec<usize>, context: &Context, newest_user: (Option<usize>, Option<usize>)) -> bool {
        self.end_run(context, newest_user.0);
        let cut = self.exactly(units, users, context, newest_user.1);
        let closes = cut.is_some();
        self.marks.extend(cut);
        closes
    }

    /// Ends the run; what it holds becomes a remainder.
    pub fn end_run(&mut self, context: &Context, newest_user: Option<usize>) {
        let run = std::mem::take(&mut self.run);
        let behind = self.closed.take();
        if !run.units.is_empty() {
            self.remainders.push(Remainder { carrier: run.carrier(context, newest_user), run, behind });
        }
    }

    /// Forgets the marks and remainders that a commit applied: the units it claimed, and the entries (`taken`) that it hides or that carry
    /// its placeholders. `false` if it cut through one of them, as a commit under other settings may: then the walk has to begin anew.
    #[must_use]
    pub fn apply(&mut self, claimed: &BTreeSet<usize>, taken: &BTreeSet<usize>) -> bool {
        let mut whole = true;
        let mut free = |units: &[usize], users: &[usize]| {
            let free = units.iter().all(|unit| !claimed.contains(unit));
            let claims_all = !free && units.iter().all(|unit| claimed.contains(unit));
            whole &= claims_all || free && users.iter().all(|user| !taken.contains(user));
            free
        };
        self.marks.retain(|cut| free(&cut.units, &cut.users));
        self.remainders.retain(|remainder| free(&remainder.run.units, &remainder.run.users));
        // A run that is still open is no mark; what follows its units in it would be lost with them.
        free(&self.run.units, &self.run.users) && whole
    }

    /// How many cuts are closed.
    pub fn len(&self) -> usize {
        self.marks.len()
    }

    /// The marks a commit may apply, stalest first: closed cuts, with light remainders joined to the cut before them.
    pub fn marks(&self, context: &Context) -> Vec<Cow<'_, Cut>> {
        let mut marks: Vec<Cow<'_, Cut>> = self.marks.iter().map(Cow::Borrowed).collect();
        for remainder in &self.remainders {
            let before = marks.iter_mut().find(|cut| Some(cut.units[0]) == remainder.behind);
            match before {
                Some(cut) if remainder.run.weight < self.policy.min_fold => {
                    let cut = cut.to_mut();
                    cut.kind = FoldKind::Span;
                    cut.units.extend(&remainder.run.units);
                    cut.users.extend(&remainder.run.users);
                }
                _ => marks.extend(self.alone(remainder, context).map(Cow::Owned)),
            }
        }
        marks.sort_by_key(|cut| cut.units[0]);
        marks
    }

    /// A remainder that joins no cut closes at any weight, if what is shown is at most half of what it hides.
    fn alone(&self, remainder: &Remainder, context: &Context) -> Option<Cut> {
        let cut = remainder.run.cut(remainder.carrier.clone()?, context);
        let hidden = remainder.run.weight - cut.carrier.answer().map_or(0, |answer| context.original[answer].weight());
        self.closes(&cut, hidden, context).then_some(cut)
    }

    fn try_close(&mut self, context: &Context, newest_user: Option<usize>) {
        if self.run.weight < self.policy.min_fold {
            return;
        }
        let Some(carrier) = self.run.carrier(context, newest_user) else { return };
        let kept = carrier.answer().map_or(0, |answer| context.original[answer].weight());
        let hidden = self.run.weight - kept;
        // The cheapest refusal first: what stays shown of the carrier's batch may be too much already.
        if hidden < self.policy.min_fold || kept > hidden / 2 {
            return;
        }
        let cut = self.run.cut(carrier, context);
        if self.closes(&cut, hidden, context) {
            self.run = Run::default();
            self.closed = Some(cut.units[0]);
            self.marks.push(cut);
        }
    }

    /// Whether what is shown in place of the cut is at most half of what it hides. A brief is written only where its bounds leave
    /// the question open.
    fn closes(&self, cut: &Cut, hidden: u64, context: &Context) -> bool {
        let parts = cut.parts(context);
        let entries: Vec<&Entry> = parts.iter().map(|&at| &context.entries[at]).collect();
        let id = FoldName::of(cut.kind, [], []).id(12);
        let (first, last) = (entries[0].id(), entries[entries.len() - 1].id());
        let frame = placeholder(&id, cut.kind, parts.len(), first, last, "-").len() as u64 - 1;
        let kept = cut.carrier.answer().map_or(0, |answer| context.original[answer].weight());
        let lines = cut.carrier.others().len() as u64 * result_line(&id).len() as u64;
        let bytes = hidden / 4;
        let fits = |brief: u64| frame + kept + lines + brief <= hidden / 2;
        if fits(bytes.min(self.policy.brief_chars as u64 * 4)) {
            return true;
        }
        fits(1)
            && fits(brief(&entries, &[], Bound { chars: self.policy.brief_chars, bytes: usize::try_from(bytes).unwrap_or(usize::MAX) }).len() as u64)
    }
}

impl Run {
    fn push(&mut self, unit: usize, context: &Context, min_fold: u64) {
        let found = &context.units[unit];
        self.units.push(unit);
        self.weight += context.weight(found.entries.iter().copied());
        let answer = found.entries[0];
        if found.kind == UnitKind::Batch && context.entries[answer].is_good_answer() {
            let weight = context.original[answer].weight();
            if weight < min_fold && self.lightest.is_none_or(|(lightest, _)| weight < lightest) {
                self.lightest = Some((weight, unit));
            }
        }
        if found.kind == UnitKind::Custom {
            self.custom.get_or_insert(answer);
        }
    }

    /// The entry of the run with the least authority that can hold a placeholder.
    fn carrier(&self, context: &Context, newest_user: Option<usize>) -> Option<Carrier> {
        if let Some((_, unit)) = self.lightest {
            return Some(Carrier::of_batch(&context.units[unit].entries, &context.entries));
        }
        let user = self.users.iter().copied().find(|&at| Some(at) != newest_user && !context.is_pinned(at)).map(Carrier::User);
        user.into_iter().chain(self.custom.map(Carrier::Custom)).min_by_key(Carrier::position)
    }

    fn cut(&self, carrier: Carrier, context: &Context) -> Cut {
        let only_batch = self.units.len() == 1 && context.units[self.units[0]].kind == UnitKind::Batch;
        let kind = if only_batch { FoldKind::Tool } else { FoldKind::Span };
        Cut { kind, units: self.units.clone(), users: self.users.clone(), carrier }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::Units;
    use crate::window::Size;

    fn journal(script: &str) -> Vec<Entry> {
        let mut turn = 0;
        script
            .split(' ')
            .enumerate()
            .map(|(index, word)| {
                let (kind, size) = word.split_at(1);
                let size: usize = size.parse().unwrap_or(1);
                let text = format!(r#"[{{"type":"text","text":"{}"}}]"#, "x".repeat(size));
                let message = match kind {
                    "u" => format!(r#"{{"role":"user","content":"{}"}}"#, "q".repeat(size)),
                    "a" => format!(r#"{{"role":"assistant","stopReason":"stop","content":{text}}}"#),
                    "C" => {
                        turn = index;
                        let call = |n: usize| format!(r#"{{"type":"toolCall","id":"{index}-{n}","name":"t","arguments":{{}}}}"#);
                        let calls: Vec<_> = (0..size).map(call).collect();
                        format!(r#"{{"role":"assistant","stopReason":"toolUse","content":[{}]}}"#, calls.join(","))
                    }
                    "r" => format!(r#"{{"role":"toolResult","toolCallId":"{turn}-{}","toolName":"t","content":{text}}}"#, index - turn - 1),
                    other => panic!("{other}"),
                };
                Entry::parse(&format!(r#"{{"type":"message","id":"e{index}","message":{message}}}"#)).expect("an entry")
            })
            .collect()
    }

    fn walk(branch: &[Entry]) -> (Context, Cuts) {
        let (mut context, mut units) = (Context::default(), Units::default());
        let mut cuts = Cuts::new(CutPolicy { min_fold: 8_000, brief_chars: 2_000 });
        for entry in branch {
            context.push(entry, Size::of_original(entry));
            for unit in units.observe(entry) {
                let number = context.ripened(unit, &BTreeSet::from(["held".to_owned()]));
                cuts.walk(number, &context, context.newest_user());
            }
        }
        (context, cuts)
    }

    fn spans((context, cuts): &(Context, Cuts)) -> Vec<(FoldKind, Vec<usize>)> {
        cuts.marks(context).iter().map(|cut| (cut.kind, cut.parts(context))).collect()
    }

    #[test]
    fn one_heavy_batch_is_a_tool_fold_and_light_ones_make_a_span() {
        assert_eq!(spans(&walk(&journal("u C1 r9000 a"))), [(FoldKind::Tool, vec![2])]);
        assert_eq!(spans(&walk(&journal("u C1 r5000 C1 r5000 a"))), [(FoldKind::Span, vec![2, 3, 4])]);
    }

    #[test]
    fn the_newest_batch_stays_raw() {
        assert!(spans(&walk(&journal("u C1 r9000"))).is_empty());
    }

    #[test]
    fn a_chat_is_carried_by_an_older_user_message() {
        let (context, cuts) = walk(&journal("u10 a9000 u20 a9000 u30 a1"));
        let marks = cuts.marks(&context);
        let carriers: Vec<_> = marks.iter().map(|cut| (&cut.carrier, cut.parts(&context))).collect();
        assert_eq!(carriers, [(&Carrier::User(0), vec![1]), (&Carrier::User(2), vec![3])]);
    }

    #[test]
    fn the_newest_user_message_never_carries() {
        assert!(spans(&walk(&journal("u a9000 a1"))).is_empty());
    }

    fn held(branch: &mut [Entry], at: usize) {
        for (at, from, to) in [(at, "\"name\":\"t\"", "\"name\":\"held\""), (at + 1, "\"toolName\":\"t\"", "\"toolName\":\"held\"")] {
            branch[at] = Entry::parse(&branch[at].line().replace(from, to)).expect("an entry");
        }
    }

    #[test]
    fn a_light_remainder_joins_the_cut_before_it_and_closes_alone_without_one() {
        let mut branch = journal("u C1 r9000 C1 r3000 C1 r10 a");
        held(&mut branch, 5);
        assert_eq!(spans(&walk(&branch)), [(FoldKind::Span, vec![2, 3, 4])]);
        let mut branch = journal("u C1 r3000 C1 r10 a");
        held(&mut branch, 3);
        assert_eq!(spans(&walk(&branch)), [(FoldKind::Tool, vec![2])]);
    }

    #[test]
    fn a_remainder_without_a_carrier_stays_raw() {
        let mut branch = journal("a3000 C1 r10 a");
        held(&mut branch, 1);
        assert!(spans(&walk(&branch)).is_empty());
    }

    #[test]
    fn a_heavy_call_goes_on_to_a_lighter_carrier() {
        // The call itself weighs 20,000 bytes, so its own result cannot carry; the next batch does.
        let mut branch = journal("u C1 r10 C1 r10 a");
        let heavy = branch[1].line().replace("\"arguments\":{}", &format!("\"arguments\":{{\"content\":\"{}\"}}", "y".repeat(20_000)));
        branch[1] = Entry::parse(&heavy).expect("an entry");
        let walked = walk(&branch);
        assert_eq!(spans(&walked), [(FoldKind::Span, vec![1, 2, 4])]);
        assert_eq!(walked.1.marks(&walked.0)[0].carrier, Carrier::Result { answer: 3, result: 4, others: vec![] });
    }

    #[test]
    fn a_longer_branch_never_changes_a_closed_cut() {
        let branch = journal("u C3 r5000 r10 r10 C2 r2000 r2000 C1 r9000 a2000 u a3000 u a9000 C1 r1 u a9000 u a");
        let whole = spans(&walk(&branch));
        assert!(whole.len() >= 3);
        for end in 1..branch.len() {
            let prefix = spans(&walk(&branch[..end]));
            assert_eq!(prefix, whole[..prefix.len()], "after {end} entries");
        }
    }
}
