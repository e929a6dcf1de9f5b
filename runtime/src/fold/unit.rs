//! Units: the smallest things that are folded whole, found as entries arrive.
//!
//! A batch (an assistant message with calls and exactly its results) must never be split, or a call would stand without its result.
//! What does not form such a batch is *irregular*: shown in place and never part of anything. Each entry is looked at once; when a
//! good answer arrives, the units before it become ripe, because the model has read them.

use crate::journal::{Entry, Kind, Part, Role, Text};

/// Something that is folded whole, or never.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// What it is.
    pub kind: UnitKind,
    /// Positions of its entries on the branch, in order.
    pub entries: Vec<usize>,
}

/// What a unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitKind {
    /// A person's message.
    User,
    /// A message an extension wrote.
    Custom,
    /// An answer without calls.
    Answer,
    /// An answer with calls and exactly its results.
    Batch,
    /// A call without its result, a result without its call, or an entry that Pi cannot edit; passed over.
    Irregular,
    /// A system message or a compaction: ends every run.
    Ender,
}

impl UnitKind {
    /// Whether a cut takes it as a unit of its own.
    pub(crate) fn is_folded(self) -> bool {
        matches!(self, UnitKind::Custom | UnitKind::Answer | UnitKind::Batch)
    }
}

/// Finds units as entries arrive.
#[derive(Clone, Debug, Default)]
pub struct Units {
    open: Option<OpenBatch>,
    /// Closed units that no good answer has followed yet.
    unripe: Vec<Unit>,
    next: usize,
}

#[derive(Clone, Debug)]
struct OpenBatch {
    answer: usize,
    calls: Vec<Call>,
    results: Vec<usize>,
    irregular: bool,
}

#[derive(Clone, Debug)]
struct Call {
    id: Text,
    tool: Text,
    answered: bool,
}

impl Units {
    /// Takes the next entry of the branch; answers with the units that this entry made ripe, oldest first.
    ///
    /// ```
    /// use fold_runtime::{fold::{UnitKind, Units}, journal::Entry};
    /// let mut units = Units::default();
    /// let question = r#"{"type":"message","id":"a","parentId":null,"message":{"role":"user","content":"why?"}}"#;
    /// let answer = r#"{"type":"message","id":"b","parentId":"a","message":{"role":"assistant","stopReason":"stop","content":[{"type":"text","text":"so"}]}}"#;
    /// assert!(units.observe(&Entry::parse(question)?).is_empty());
    /// assert_eq!(units.observe(&Entry::parse(answer)?)[0].kind, UnitKind::User);
    /// # Ok::<(), fold_runtime::journal::EntryError>(())
    /// ```
    pub fn observe(&mut self, entry: &Entry) -> Vec<Unit> {
        let at = self.next;
        self.next += 1;
        match entry.kind() {
            Kind::Message(Role::ToolResult { call_id, tool, .. }) => {
                self.result(at, call_id, tool);
                Vec::new()
            }
            Kind::Message(Role::Assistant(_)) => self.answer(at, entry),
            Kind::Message(Role::User) => self.close_with(UnitKind::User, at),
            Kind::CustomMessage => self.close_with(UnitKind::Custom, at),
            // What migrated files hold as a message of its own role stands where a custom message would, but Pi edits no such entry.
            Kind::Message(Role::Custom) => self.close_with(UnitKind::Irregular, at),
            Kind::Message(Role::System) | Kind::Compaction { .. } => self.close_with(UnitKind::Ender, at),
            // These do not end a batch: Pi may write a person's command between a call and its result.
            Kind::Message(Role::BashExecution { .. } | Role::Other) | Kind::BranchSummary => {
                self.unripe.push(Unit { kind: UnitKind::Irregular, entries: vec![at] });
                Vec::new()
            }
            Kind::Custom { .. } | Kind::ContextEdit { .. } | Kind::ModelChange { .. } | Kind::Other => Vec::new(),
        }
    }

    /// The unit that an entry is in and that no good answer has followed yet, as far as it has come.
    pub(crate) fn unripe(&self, at: usize) -> Option<Unit> {
        let open = self.open.as_ref().filter(|batch| batch.answer == at || batch.results.contains(&at)).map(|batch| Unit {
            kind: if batch.irregular { UnitKind::Irregular } else { UnitKind::Batch },
            entries: std::iter::once(batch.answer).chain(batch.results.iter().copied()).collect(),
        });
        open.or_else(|| self.unripe.iter().find(|unit| unit.entries.contains(&at)).cloned())
    }

    fn close_with(&mut self, kind: UnitKind, at: usize) -> Vec<Unit> {
        self.close();
        self.unripe.push(Unit { kind, entries: vec![at] });
        Vec::new()
    }

    fn answer(&mut self, at: usize, entry: &Entry) -> Vec<Unit> {
        self.close();
        let ripe = if entry.is_good_answer() { std::mem::take(&mut self.unripe) } else { Vec::new() };
        let call = |part| match part {
            Part::Call { id, name, .. } => Some(Call { id: id.unwrap_or_default(), tool: name.unwrap_or_default(), answered: false }),
            _ => None,
        };
        let calls: Vec<Call> = entry.content().parts().into_iter().filter_map(call).collect();
        if calls.is_empty() {
            self.unripe.push(Unit { kind: UnitKind::Answer, entries: vec![at] });
        } else {
            let mut ids: Vec<&Text> = calls.iter().map(|call| &call.id).collect();
            ids.sort_unstable();
            let irregular = ids.windows(2).any(|pair| pair[0] == pair[1]);
            self.open = Some(OpenBatch { answer: at, calls, results: Vec::new(), irregular });
        }
        ripe
    }

    fn result(&mut self, at: usize, call_id: &Text, tool: &Text) {
        let Some(batch) = &mut self.open else {
            self.unripe.push(Unit { kind: UnitKind::Irregular, entries: vec![at] });
            return;
        };
        batch.results.push(at);
        match batch.calls.iter_mut().find(|call| !call.answered && call.id == *call_id && call.tool == *tool) {
            Some(call) => call.answered = true,
            None => batch.irregular = true,
        }
    }

    fn close(&mut self) {
        let Some(batch) = self.open.take() else { return };
        let irregular = batch.irregular || batch.calls.iter().any(|call| !call.answered);
        let kind = if irregular { UnitKind::Irregular } else { UnitKind::Batch };
        let entries: Vec<usize> = std::iter::once(batch.answer).chain(batch.results).collect();
        // A command that came between call and result was noted first; the branch order is that of first entries.
        let place = self.unripe.partition_point(|unit| unit.entries[0] < entries[0]);
        self.unripe.insert(place, Unit { kind, entries });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use UnitKind::{Answer, Batch, Custom, Ender, Irregular, User};

    /// A line per entry: `u`, `c` custom, `s` system, `b` bash, `a` answer, `x` aborted, `A1,2` answer with calls, `r1` result.
    fn ripe(script: &str) -> Vec<(UnitKind, Vec<usize>)> {
        let mut units = Units::default();
        let mut out = Vec::new();
        for word in script.split(' ') {
            let message = match word.as_bytes()[0] {
                b'u' => r#"{"role":"user","content":"q"}"#.to_owned(),
                b's' => r#"{"role":"system","content":"q"}"#.to_owned(),
                b'b' => r#"{"role":"bashExecution","command":"ls","output":"x"}"#.to_owned(),
                b'a' => r#"{"role":"assistant","stopReason":"stop","content":[{"type":"text","text":"t"}]}"#.to_owned(),
                b'e' => r#"{"role":"assistant","stopReason":"stop","content":[]}"#.to_owned(),
                b'x' => r#"{"role":"assistant","stopReason":"aborted","content":[{"type":"text","text":"t"}]}"#.to_owned(),
                b'A' => {
                    let calls: Vec<_> =
                        word[1..].split(',').map(|id| format!(r#"{{"type":"toolCall","id":"{id}","name":"t","arguments":{{}}}}"#)).collect();
                    format!(r#"{{"role":"assistant","stopReason":"toolUse","content":[{}]}}"#, calls.join(","))
                }
                b'r' => format!(r#"{{"role":"toolResult","toolCallId":"{}","toolName":"t","content":[]}}"#, &word[1..]),
                b'h' => r#"{"role":"custom","customType":"z","content":"x"}"#.to_owned(),
                b'c' => String::new(),
                other => panic!("{other}"),
            };
            let line = if message.is_empty() {
                r#"{"type":"custom_message","id":"i","content":"c"}"#.to_owned()
            } else {
                format!(r#"{{"type":"message","id":"i","message":{message}}}"#)
            };
            let ripened = units.observe(&Entry::parse(&line).expect("an entry"));
            out.extend(ripened.into_iter().map(|unit| (unit.kind, unit.entries)));
        }
        out
    }

    #[test]
    fn a_batch_is_its_answer_and_exactly_its_results() {
        assert_eq!(ripe("u A1,2 r2 r1 a"), [(User, vec![0]), (Batch, vec![1, 2, 3])]);
    }

    #[test]
    fn nothing_is_ripe_before_a_good_answer_follows() {
        assert_eq!(ripe("u A1 r1"), [(User, vec![0])]);
        assert_eq!(ripe("u A1 r1 x e"), [(User, vec![0])]);
        assert_eq!(ripe("u A1 r1 x e a").len(), 4);
    }

    #[test]
    fn a_missing_doubled_or_foreign_result_makes_the_batch_irregular() {
        assert_eq!(ripe("A1,2 r1 a"), [(Irregular, vec![0, 1])]);
        assert_eq!(ripe("A1 r1 r1 a"), [(Irregular, vec![0, 1, 2])]);
        assert_eq!(ripe("A1 r9 a"), [(Irregular, vec![0, 1])]);
        assert_eq!(ripe("A1,1 r1 r1 a"), [(Irregular, vec![0, 1, 2])]);
    }

    #[test]
    fn call_ids_may_be_reused_by_a_later_batch() {
        assert_eq!(ripe("A1 r1 A1 r1 a"), [(Batch, vec![0, 1]), (Batch, vec![2, 3])]);
    }

    #[test]
    fn a_result_without_a_call_stands_alone() {
        assert_eq!(ripe("u r1 a"), [(User, vec![0]), (Irregular, vec![1])]);
        assert_eq!(ripe("A1 u r1 a"), [(Irregular, vec![0]), (User, vec![1]), (Irregular, vec![2])]);
    }

    #[test]
    fn a_command_between_a_call_and_its_result_does_not_split_them() {
        assert_eq!(ripe("A1 b r1 a"), [(Batch, vec![0, 2]), (Irregular, vec![1])]);
    }

    #[test]
    fn system_messages_end_runs_and_customs_are_units() {
        assert_eq!(ripe("s c a a"), [(Ender, vec![0]), (Custom, vec![1]), (Answer, vec![2])]);
    }

    #[test]
    fn a_message_of_the_role_custom_is_passed_over() {
        assert_eq!(ripe("u h a"), [(User, vec![0]), (Irregular, vec![1])]);
        assert_eq!(ripe("A1 h r1 a")[0], (Irregular, vec![0]));
    }
}
