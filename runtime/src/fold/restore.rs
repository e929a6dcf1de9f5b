//! What a record promised to show, derived again from the originals.
//!
//! A deterministic brief is a function of what it stands for and of its bound, so no text has to be stored twice. What is derived is
//! compared with the digest that was promised: it is right or is not used.

use super::brief::{Bound, Child, brief, parent_brief};
use super::clip::clip_content;
use super::context::Context;
use super::lattice::{Fold, Lattice};
use super::record::Promise;
use super::text::{FoldId, placeholder, result_line};
use super::write::{text_block, with_block};
use crate::journal::{Digest, Entry, Kind, Role};
use crate::session::line_of;
use std::collections::BTreeMap;

/// The content promised of an entry; `None` where none has the digest that was promised.
pub(crate) fn promised_content(context: &Context, lattice: &Lattice, at: usize, promise: &Promise) -> Option<String> {
    let entry = &context.entries[at];
    let digest = promise.digest?;
    let right = |content: &String| Digest::of(content.as_bytes()) == digest;
    if let Some((head, tail)) = promise.clip {
        return clip_content(entry.content(), entry.id(), head, tail).filter(right);
    }
    let folded = as_folded(context, lattice, at).filter(right);
    let peeked = || line_of(entry).map(|line| format!("[{}]", text_block(&line))).filter(right);
    folded.or_else(peeked).or_else(|| Some(entry.content().raw().to_owned()).filter(right))
}

/// What a shown fold has an entry of its carrier's batch show: its placeholder, or the line beside it.
pub(crate) fn as_folded(context: &Context, lattice: &Lattice, at: usize) -> Option<String> {
    let is_result = matches!(context.entries[at].kind(), Kind::Message(Role::ToolResult { .. }));
    let batch = context.unit_of[at].filter(|_| is_result).map(|unit| &context.units[unit].entries);
    let carried = || batch.and_then(|batch| batch.iter().find_map(|other| lattice.carriers.get(other)));
    let fold = lattice.carriers.get(&at).or_else(carried)?;
    Some(content_of(context, lattice, &lattice.folds[fold], at))
}

/// What a fold has its carrier show, or another result of that batch.
pub(crate) fn content_of(context: &Context, lattice: &Lattice, fold: &Fold, at: usize) -> String {
    let entry = &context.entries[at];
    if at != fold.carrier.position() {
        return format!("[{}]", text_block(&result_line(&fold.id)));
    }
    let text = placeholder_of(context, lattice, fold);
    if entry.kind() == &Kind::Message(Role::User) { with_block(entry, &text) } else { format!("[{}]", text_block(&text)) }
}

/// A fold's placeholder, written again. A child that was never shown stands in no edit that would tell its size: it is written first.
fn placeholder_of(context: &Context, lattice: &Lattice, fold: &Fold) -> String {
    let mut sizes: BTreeMap<&FoldId, u64> = BTreeMap::new();
    let mut stack = vec![(fold, false)];
    while let Some((next, is_ready)) = stack.pop() {
        if is_ready {
            let text = write_again(context, lattice, next, &sizes);
            if next.id == fold.id {
                return text;
            }
            sizes.insert(&next.id, text.len() as u64);
        } else {
            stack.push((next, true));
            let children = next.children.iter().filter_map(|child| lattice.folds.get(child));
            stack.extend(children.filter(|child| child.placeholder == 0).map(|child| (child, false)));
        }
    }
    unreachable!("the fold itself is written last")
}

fn write_again(context: &Context, lattice: &Lattice, fold: &Fold, sizes: &BTreeMap<&FoldId, u64>) -> String {
    let entries: Vec<&Entry> = fold.parts.iter().map(|&at| &context.entries[at]).collect();
    let hidden: Vec<&Entry> = entries.iter().copied().filter(|entry| entry.kind() == &Kind::Message(Role::User)).collect();
    let bound = |source: u64| Bound { chars: fold.bound, bytes: usize::try_from(source / 4).unwrap_or(usize::MAX) };
    let own = context.weight(fold.parts.iter().copied());
    let brief = if let Some(supplied) = &fold.brief {
        supplied.to_string()
    } else if fold.children.is_empty() {
        brief(&entries, &hidden, bound(own))
    } else {
        let children = || fold.children.iter().filter_map(|child| lattice.folds.get(child));
        let size = |child: &Fold| if child.placeholder == 0 { sizes.get(&child.id).copied().unwrap_or(0) } else { child.placeholder };
        let told: Vec<Child> =
            children().map(|child| Child { id: child.id.to_string(), kind: child.kind, entries: child.entries, gist: child.gist.clone() }).collect();
        parent_brief(&told, &entries, &hidden, bound(children().map(size).sum::<u64>() + own))
    };
    placeholder(&fold.id, fold.kind, fold.entries, context.entries[fold.first].id(), context.entries[fold.last].id(), &brief)
}
