//! Cuts: which runs of ripe units become marks, and what each would look like once folded.
//!
//! A walk over units as they ripen. A closed cut never changes by later messages, because every question the walk asks is
//! answered as of the good answer that ripened the unit. A mark moves nothing: it is only what the next commit may apply.

use super::brief::{Bound, brief};
use super::text::{FoldId, FoldKind, placeholder, result_line};
use super::unit::{Unit, UnitKind};
use crate::journal::{Entry, Kind, Role};
use crate::window::Size;
use std::collections::BTreeSet;

/// What the walk needs of the settings.
#[derive(Clone, Debug)]
pub struct CutPolicy {
    /// Bytes a fold has to hide.
    pub min_fold: u64,
    /// Characters of a brief; see [`super::brief_bound`].
    pub brief_chars: usize,
    /// Tools whose batches stay raw.
    pub blacklist: BTreeSet<String>,
}

/// Where the placeholder stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A tool result; its calls stay, the other results of its batch become one line each. Positions on the branch.
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

/// A closed run: a mark until a commit applies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// What kind of fold it becomes.
    pub kind: FoldKind,
    /// Its units, oldest first.
    pub units: Vec<Unit>,
    /// User messages within its range; shown in place, not among its parts.
    pub users: Vec<usize>,
    /// Where its placeholder will stand.
    pub carrier: Carrier,
}

/// A fold as a commit would write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// Its name.
    pub id: FoldId,
    /// The placeholder's text.
    pub placeholder: String,
    /// One edit per part and carrier, in an order in which every prefix keeps calls and results paired: branch position, and the new
    /// content as JSON, or `None` to omit.
    pub edits: Vec<(usize, Option<String>)>,
    /// Weight of what it hides.
    pub hidden: u64,
    /// Weight of what stands in its place.
    pub shown: u64,
}

/// The walk.
#[derive(Clone, Debug)]
pub struct Cuts {
    policy: CutPolicy,
    marks: Vec<Cut>,
    run: Run,
    trapped: Vec<Vec<Unit>>,
}

#[derive(Clone, Debug, Default)]
struct Run {
    units: Vec<Unit>,
    users: Vec<usize>,
}

impl Cuts {
    /// A walk that has seen nothing.
    pub fn new(policy: CutPolicy) -> Self {
        Cuts { policy, marks: Vec::new(), run: Run::default(), trapped: Vec::new() }
    }

    /// The closed cuts, stalest first.
    pub fn marks(&self) -> &[Cut] {
        &self.marks
    }

    /// Runs that met something that ends a run before they could close.
    pub fn trapped(&self) -> &[Vec<Unit>] {
        &self.trapped
    }

    /// Takes units that became ripe. `branch` reaches to the answer that ripened them, and `newest_user` is its newest user message.
    pub fn ripened(&mut self, units: Vec<Unit>, branch: &[Entry], newest_user: Option<usize>) {
        for unit in units {
            match unit.kind {
                UnitKind::Irregular => {}
                UnitKind::User => self.run.users.extend(unit.entries),
                UnitKind::Ender => self.end_run(),
                UnitKind::Batch if self.is_held(&unit, branch) => self.end_run(),
                UnitKind::Custom | UnitKind::Answer | UnitKind::Batch => {
                    self.run.units.push(unit);
                    self.try_close(branch, newest_user);
                }
            }
        }
    }

    /// Forgets the marks that a commit applied: those with a part among the claimed positions.
    pub fn apply(&mut self, claimed: &BTreeSet<usize>) {
        self.marks.retain(|cut| cut.parts().iter().all(|at| !claimed.contains(at)));
    }

    fn is_held(&self, unit: &Unit, branch: &[Entry]) -> bool {
        unit.entries.iter().any(|&at| match branch[at].kind() {
            Kind::Message(Role::ToolResult { tool, .. }) => self.policy.blacklist.contains(&tool.to_string_lossy()),
            _ => false,
        })
    }

    fn end_run(&mut self) {
        let run = std::mem::take(&mut self.run);
        if !run.units.is_empty() {
            self.trapped.push(run.units);
        }
    }

    fn try_close(&mut self, branch: &[Entry], newest_user: Option<usize>) {
        let Some(carrier) = self.carrier(branch, newest_user) else { return };
        let only_batch = self.run.units.len() == 1 && self.run.units[0].kind == UnitKind::Batch;
        let kind = if only_batch { FoldKind::Tool } else { FoldKind::Span };
        let cut = Cut { kind, units: self.run.units.clone(), users: self.run.users.clone(), carrier };
        if weight(&cut.parts(), branch) < self.policy.min_fold {
            return;
        }
        let rendered = cut.render(branch, self.policy.brief_chars);
        if rendered.shown <= rendered.hidden / 2 {
            self.run = Run::default();
            self.marks.push(cut);
        }
    }

    /// The entry of the run with the least authority that can hold a placeholder.
    fn carrier(&self, branch: &[Entry], newest_user: Option<usize>) -> Option<Carrier> {
        let batches = self.run.units.iter().filter(|unit| unit.kind == UnitKind::Batch && branch[unit.entries[0]].is_good_answer());
        let light =
            batches.map(|unit| (Size::of_original(&branch[unit.entries[0]]).weight(), unit)).filter(|(weight, _)| *weight < self.policy.min_fold);
        if let Some((_, batch)) = light.min_by_key(|(weight, _)| *weight) {
            let results = &batch.entries[1..];
            let sound = results.iter().find(|&&at| !matches!(branch[at].kind(), Kind::Message(Role::ToolResult { is_error: true, .. })));
            let result = *sound.unwrap_or(&results[0]);
            let others = results.iter().copied().filter(|&at| at != result).collect();
            return Some(Carrier::Result { answer: batch.entries[0], result, others });
        }
        let users = self.run.users.iter().copied().filter(|&at| Some(at) != newest_user).map(Carrier::User);
        let customs = self.run.units.iter().filter(|unit| unit.kind == UnitKind::Custom).map(|unit| Carrier::Custom(unit.entries[0]));
        users.chain(customs).min_by_key(Carrier::position)
    }
}

impl Carrier {
    /// The entry that holds the placeholder.
    pub fn position(&self) -> usize {
        match self {
            Carrier::Result { result, .. } => *result,
            Carrier::User(at) | Carrier::Custom(at) => *at,
        }
    }
}

impl Cut {
    /// The entries that the fold hides or replaces, in branch order.
    pub fn parts(&self) -> Vec<usize> {
        let kept = if let Carrier::Result { answer, .. } = self.carrier { Some(answer) } else { None };
        let mut parts: Vec<usize> = self.units.iter().flat_map(|unit| unit.entries.iter().copied()).filter(|&at| Some(at) != kept).collect();
        parts.sort_unstable();
        parts
    }

    /// What a commit would write for this cut with no user message hidden.
    pub fn render(&self, branch: &[Entry], brief_chars: usize) -> Rendered {
        let parts = self.parts();
        let hidden = weight(&parts, branch);
        let entries: Vec<&Entry> = parts.iter().map(|&at| &branch[at]).collect();
        let id = FoldId::of(self.kind, entries.iter().map(|entry| (entry.id(), entry.digest())), 12);
        let bytes = usize::try_from(hidden / 4).unwrap_or(usize::MAX);
        let text = brief(&entries, &[], Bound { chars: brief_chars, bytes });
        let (first, last) = (entries[0].id(), entries[entries.len() - 1].id());
        let placeholder = placeholder(&id, self.kind, parts.len(), first, last, &text);
        let edits = self.edits(branch, &id, &placeholder);
        let kept = match &self.carrier {
            Carrier::Result { answer, others, .. } => {
                Size::of_original(&branch[*answer]).weight() + others.len() as u64 * result_line(&id).len() as u64
            }
            Carrier::User(_) | Carrier::Custom(_) => 0,
        };
        let shown = placeholder.len() as u64 + kept;
        Rendered { id, placeholder, edits, hidden, shown }
    }

    fn edits(&self, branch: &[Entry], id: &FoldId, placeholder: &str) -> Vec<(usize, Option<String>)> {
        let mut edits = Vec::new();
        match &self.carrier {
            Carrier::Result { result, others, .. } => {
                edits.push((*result, Some(format!("[{}]", text_block(placeholder)))));
                edits.extend(others.iter().map(|&at| (at, Some(format!("[{}]", text_block(&result_line(id)))))));
            }
            Carrier::Custom(at) => edits.push((*at, Some(format!("[{}]", text_block(placeholder))))),
            Carrier::User(at) => edits.push((*at, Some(with_block(&branch[*at], placeholder)))),
        }
        let replaced: BTreeSet<usize> = edits.iter().map(|(at, _)| *at).collect();
        let kept = if let Carrier::Result { answer, .. } = self.carrier { Some(answer) } else { None };
        for unit in &self.units {
            // Results go before the message that called them: a result without its call is refused by providers.
            let omitted = unit.entries.iter().rev().filter(|&&at| Some(at) != kept && !replaced.contains(&at));
            edits.extend(omitted.map(|&at| (at, None)));
        }
        edits
    }
}

fn weight(parts: &[usize], branch: &[Entry]) -> u64 {
    parts.iter().map(|&at| Size::of_original(&branch[at]).weight()).sum()
}

fn text_block(text: &str) -> String {
    format!("{{\"type\":\"text\",\"text\":{}}}", serde_json::Value::from(text))
}

/// A person's own content, untouched, with one more text block.
fn with_block(user: &Entry, text: &str) -> String {
    let content = user.content();
    let own =
        if content.string().is_some() { format!("{{\"type\":\"text\",\"text\":{}}}", content.raw()) } else { blocks_of(content.raw()).to_owned() };
    let separator = if own.trim().is_empty() { "" } else { "," };
    format!("[{own}{separator}{}]", text_block(text))
}

/// What stands between the brackets of a list.
fn blocks_of(raw: &str) -> &str {
    raw.trim().strip_prefix('[').and_then(|raw| raw.strip_suffix(']')).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::Units;
    use crate::journal::BlockKind;
    use crate::window::projection;

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

    fn walk(branch: &[Entry]) -> Cuts {
        let mut units = Units::default();
        let mut cuts = Cuts::new(CutPolicy { min_fold: 8_000, brief_chars: 2_000, blacklist: BTreeSet::from(["held".to_owned()]) });
        for (index, entry) in branch.iter().enumerate() {
            let ripe = units.observe(entry);
            let newest_user = branch[..=index].iter().rposition(|entry| entry.kind() == &Kind::Message(Role::User));
            cuts.ripened(ripe, &branch[..=index], newest_user);
        }
        cuts
    }

    fn spans(cuts: &Cuts) -> Vec<(FoldKind, Vec<usize>)> {
        cuts.marks().iter().map(|cut| (cut.kind, cut.parts())).collect()
    }

    /// Every result shown has its call shown before it; with `whole`, every call its result too.
    fn assert_paired(branch: &[Entry], whole: bool) {
        let mut open: BTreeSet<String> = BTreeSet::new();
        for message in projection(branch).iter().flat_map(|projected| projected.messages.iter().map(|message| (projected.source, message))) {
            match (message.0.kind(), message.1.role.as_str()) {
                (Kind::Message(Role::ToolResult { call_id, .. }), _) => {
                    assert!(open.remove(&call_id.to_string_lossy()), "a result without its call: {}", message.0.id());
                }
                (_, "assistant") => {
                    let calls = message.0.content().blocks();
                    open.extend(
                        calls.iter().filter(|block| block.kind == BlockKind::ToolCall).filter_map(|block| Some(block.call()?.0.to_string_lossy())),
                    );
                }
                _ => {}
            }
        }
        assert!(!whole || open.is_empty(), "calls without results: {open:?}");
    }

    #[test]
    fn one_heavy_batch_is_a_tool_fold_and_light_ones_make_a_span() {
        assert_eq!(spans(&walk(&journal("u C1 r9000 a"))), [(FoldKind::Tool, vec![2])]);
        assert_eq!(spans(&walk(&journal("u C1 r5000 C1 r5000 a"))), [(FoldKind::Span, vec![2, 3, 4])]);
    }

    #[test]
    fn the_newest_batch_stays_raw() {
        assert!(walk(&journal("u C1 r9000")).marks().is_empty());
    }

    #[test]
    fn a_chat_is_carried_by_an_older_user_message_and_keeps_its_words() {
        let branch = journal("u10 a9000 u20 a9000 u30 a1");
        let cuts = walk(&branch);
        let [first, second] = cuts.marks() else { panic!("{cuts:?}") };
        assert_eq!((&first.carrier, first.parts()), (&Carrier::User(0), vec![1]));
        assert_eq!((&second.carrier, second.parts()), (&Carrier::User(2), vec![3]));
        let edit = first.render(&branch, 2_000).edits[0].1.clone().expect("a replacement");
        assert!(edit.starts_with(r#"[{"type":"text","text":"qqqqqqqqqq"},{"type":"text","text":"⟦pi-fold"#), "{edit}");
    }

    #[test]
    fn the_newest_user_message_never_carries() {
        assert!(walk(&journal("u a9000 a1")).marks().is_empty());
    }

    #[test]
    fn a_run_that_meets_a_held_batch_is_trapped_and_said() {
        let mut branch = journal("u C1 r3000 C1 r9000 a");
        let line = branch[4].line().replace("\"toolName\":\"t\"", "\"toolName\":\"held\"");
        branch[4] = Entry::parse(&line).expect("an entry");
        branch[3] = Entry::parse(&branch[3].line().replace("\"name\":\"t\"", "\"name\":\"held\"")).expect("an entry");
        let cuts = walk(&branch);
        assert!(cuts.marks().is_empty());
        assert_eq!(cuts.trapped().len(), 1);
    }

    #[test]
    fn a_heavy_call_goes_on_to_a_lighter_carrier() {
        // The call itself weighs 20,000 bytes, so its own result cannot carry; the next batch does.
        let mut branch = journal("u C1 r10 C1 r10 a");
        let heavy = branch[1].line().replace("\"arguments\":{}", &format!("\"arguments\":{{\"content\":\"{}\"}}", "y".repeat(20_000)));
        branch[1] = Entry::parse(&heavy).expect("an entry");
        let cuts = walk(&branch);
        assert_eq!(spans(&cuts), [(FoldKind::Span, vec![1, 2, 4])]);
        assert_eq!(cuts.marks()[0].carrier, Carrier::Result { answer: 3, result: 4, others: vec![] });
    }

    #[test]
    fn what_stands_in_place_is_at_most_half_of_what_it_hides() {
        let branch = journal("u C3 r9000 r10 r10 C1 r4000 C1 r3000 a2000 u a3000 u a9000 a");
        let cuts = walk(&branch);
        assert!(cuts.marks().len() >= 2, "{:?}", spans(&cuts));
        for cut in cuts.marks() {
            let rendered = cut.render(&branch, 2_000);
            assert!(rendered.hidden >= 8_000 && rendered.shown * 2 <= rendered.hidden, "{} for {}", rendered.shown, rendered.hidden);
        }
    }

    #[test]
    fn every_prefix_of_the_edits_keeps_calls_and_results_paired() {
        let branch = journal("u C3 r5000 r10 r10 C2 r2000 r2000 C1 r9000 a2000 u a3000 u a9000 C1 r1 a");
        let cuts = walk(&branch);
        assert!(!cuts.marks().is_empty());
        let mut edited = branch.clone();
        for cut in cuts.marks() {
            for (index, (at, content)) in cut.render(&branch, 2_000).edits.into_iter().enumerate() {
                let replacement = content.map_or("null".to_owned(), |content| format!("{{\"content\":{content}}}"));
                let line = format!(r#"{{"type":"context_edit","id":"x{at}-{index}","targetId":"{}","replacement":{replacement}}}"#, branch[at].id());
                edited.push(Entry::parse(&line).expect("an edit"));
                assert_paired(&edited, false);
            }
            assert_paired(&edited, true);
        }
    }

    #[test]
    fn a_longer_branch_never_changes_a_closed_cut() {
        let branch = journal("u C3 r5000 r10 r10 C2 r2000 r2000 C1 r9000 a2000 u a3000 u a9000 C1 r1 u a9000 u a");
        let whole = walk(&branch);
        for end in 1..branch.len() {
            let prefix = walk(&branch[..end]);
            assert_eq!(prefix.marks(), &whole.marks()[..prefix.marks().len()], "after {end} entries");
        }
    }
}
