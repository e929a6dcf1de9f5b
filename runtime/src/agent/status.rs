//! How the window stands, page by page. Read from the session; it decides nothing and promises nothing.

use super::{Action, Refusal};
use crate::fold::{Bound, CLOSE, FoldKind, OPEN, disarm, fit};
use crate::session::{FoldView, Mark, Origin, Place, Session};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most characters a page may have (fold law, the nine verbs).
pub const PAGE_CHARS: usize = 24_000;
/// Of these, what the first and the last line of a page may take.
const FRAME: usize = 300;
/// The longest line, in characters: ids are as long as whoever writes the journal makes them.
const LINE: usize = 2_000;
/// How many ids a list names, and how much of each, in characters.
const LISTED: usize = 20;
const LISTED_CHARS: usize = 60;

/// Which page of which list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatusPage {
    /// The list.
    #[serde(default)]
    pub detail: Detail,
    /// The page, from 1.
    #[serde(default = "first")]
    pub page: usize,
}

fn first() -> usize {
    1
}

impl Default for StatusPage {
    fn default() -> Self {
        StatusPage { detail: Detail::None, page: first() }
    }
}

/// What a status tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Detail {
    /// The numbers alone.
    #[default]
    None,
    /// Every fold, nested ones too, in transcript order.
    Tree,
    /// The folds that no other contains.
    Folds,
    /// The cuts that wait for a commit.
    Marks,
}

impl Detail {
    /// The word for it in a call.
    pub fn name(self) -> &'static str {
        match self {
            Detail::None => "none",
            Detail::Tree => "tree",
            Detail::Folds => "folds",
            Detail::Marks => "marks",
        }
    }
}

/// One page, at most [`PAGE_CHARS`] characters. The same session gives the same page.
///
/// # Errors
/// [`Refusal`] when there is no such page.
pub fn status(session: &Session, asked: StatusPage) -> Result<String, Refusal> {
    let lines = match asked.detail {
        Detail::None => numbers(session),
        Detail::Tree => session.forest().iter().map(in_tree).collect(),
        Detail::Folds => session.forest().iter().filter(|fold| fold.place == Place::Open || session.is_shown(fold.id)).map(as_shown).collect(),
        Detail::Marks => marks(session),
    };
    let pages = pages(lines);
    let name = asked.detail.name();
    let Some(lines) = asked.page.checked_sub(1).and_then(|index| pages.get(index)) else {
        let rule = format!("status {name} has no page {}; its pages are 1 to {}", asked.page, pages.len());
        return Err(Refusal::new("page", rule, Action::Status(StatusPage { page: 1, ..asked })));
    };
    let mut page = format!("{OPEN}pi-fold status · {name} · page {} of {}{CLOSE}\n{lines}", asked.page, pages.len());
    if asked.page < pages.len() {
        let next = Action::Status(StatusPage { page: asked.page + 1, ..asked });
        page.push_str(&format!("\n{OPEN}go on: pi_fold_context {}{CLOSE}", next.call()));
    }
    Ok(page)
}

/// Lines put together while they fit; at least one page.
fn pages(lines: Vec<String>) -> Vec<String> {
    if lines.is_empty() {
        return vec!["(none)".to_owned()];
    }
    let mut pages = vec![String::new()];
    let mut chars = 0;
    for line in lines {
        let line = fit(&line, Bound { chars: LINE, bytes: usize::MAX });
        let more = line.chars().count() + 1;
        if chars > 0 && chars + more > PAGE_CHARS - FRAME {
            pages.push(String::new());
            chars = 0;
        }
        let page = pages.last_mut().expect("there is a page");
        if chars > 0 {
            page.push('\n');
        }
        page.push_str(&line);
        chars += more;
    }
    pages
}

fn numbers(session: &Session) -> Vec<String> {
    let (band, thresholds) = (session.band(), session.settings().thresholds);
    let (occupancy, margin) = (session.occupancy(), session.margin());
    let (held, held_tokens) = session.held();
    let mut lines = vec![
        format!("budget: {} tokens; the model's window: {}", band.budget, band.window),
        format!("occupancy: {occupancy} tokens, {} of the budget; the estimate may be off by {margin}", share(occupancy, band.budget)),
        format!("a commit fires at {} tokens and stops at {}", band.max_target, band.min_target),
        format!(
            "thresholds (read only): maxTarget {}, minTarget {}, consolidateAfter {}, minFoldChars {}",
            ratio(thresholds.max_target_ppm),
            ratio(thresholds.min_target_ppm),
            thresholds.consolidate_after,
            thresholds.min_fold_chars
        ),
        format!("marks: {} pending", session.marked().len()),
    ];
    lines.extend(folds(&session.forest()));
    lines.push(format!("held: {}, {held_tokens} tokens", count(held, "unit")));
    lines.extend(misses(session));
    lines.extend(decisions(session));
    if let Some(reason) = session.suspended() {
        lines.push(format!(
            "suspended after an internal error ({}): nothing is folded until a person asks or the session is opened again",
            disarm(reason)
        ));
    }
    lines
}

/// What made the provider read anew.
fn misses(session: &Session) -> Vec<String> {
    let misses = session.misses();
    let by_cause: Vec<String> = misses.rewrites.iter().map(|(cause, requests)| format!("{requests} by {cause}")).collect();
    let rewrites = if by_cause.is_empty() { "none".to_owned() } else { by_cause.join(", ") };
    let mut lines = vec![
        format!("requests after a change of what is shown: {rewrites}"),
        format!(
            "of these read anew by the provider: {}; read anew although nothing had changed, the provider's own: {}",
            misses.explained, misses.provider
        ),
    ];
    if let Some((before, read)) = misses.last {
        lines[1].push_str(&format!(" (last: {read} tokens read from its cache after a request of {before})"));
    }
    lines.push(format!("answers whose signed reasoning stood behind a change, which the newest models drop: {}", misses.unsigned));
    lines
}

/// What was decided and what is promised.
fn decisions(session: &Session) -> Vec<String> {
    let (pins, (agreed, pending), lost) = (session.pins(), session.agreed(), session.unkeepable());
    let (units, folds) = (count(pins.units.len(), "unit"), count(pins.folds.len(), "fold"));
    let mut lines = vec![
        format!("pinned: {units} and {folds}, with what is expanded {} of at most {} tokens", pins.tokens, pins.cap),
        format!("withdrawn: {}, until the next commit by the band or by a person", count(session.withdrawn(), "unit")),
        format!("agreed cuts: {agreed}, {pending} of them pending"),
        format!("promised and not written yet: {}", count(session.unwritten(), "edit")),
    ];
    if !pins.units.is_empty() || !pins.folds.is_empty() {
        lines[0].push_str(&format!(": {}", list(pins.units.iter().chain(&pins.folds).copied())));
    }
    if !lost.is_empty() {
        lines[3].push_str(&format!(", {} of which cannot be derived again: {}", lost.len(), list(lost.iter().copied())));
    }
    lines
}

/// How many folds there are, by kind and by depth.
fn folds(forest: &[FoldView<'_>]) -> Vec<String> {
    let mut depths: BTreeMap<u32, usize> = BTreeMap::new();
    for fold in forest {
        *depths.entry(fold.depth).or_default() += 1;
    }
    let of = |kind: FoldKind| forest.iter().filter(|fold| fold.kind == kind).count();
    let placed = |place: Place<'_>| forest.iter().filter(|fold| fold.place == place).count();
    let mut lines = vec![format!(
        "folds: {}: {} tool, {} span, {} consolidated; {} in context as roots, {} expanded, {} dissolved, {} closed by a compaction",
        forest.len(),
        of(FoldKind::Tool),
        of(FoldKind::Span),
        of(FoldKind::Consolidated),
        placed(Place::Root),
        placed(Place::Open),
        placed(Place::Dissolved),
        placed(Place::Closed),
    )];
    lines.extend(depths.iter().map(|(depth, folds)| format!("at depth {depth}: {folds}")));
    lines
}

fn place(fold: &FoldView<'_>) -> String {
    match fold.place {
        Place::Root => "root".to_owned(),
        Place::Open => "expanded".to_owned(),
        Place::Dissolved => "dissolved".to_owned(),
        Place::Within(parent) => format!("in {parent}"),
        Place::Closed => "closed".to_owned(),
    }
}

fn in_tree(fold: &FoldView<'_>) -> String {
    format!("{} · depth {} · {} · {} · {} · {}", fold.id, fold.depth, place(fold), kind(fold.kind), count(fold.entries, "entry"), fold.gist)
}

/// A root needs no word for its place.
fn as_shown(fold: &FoldView<'_>) -> String {
    let range = range(fold.first, fold.last);
    let place = if fold.place == Place::Root { String::new() } else { format!("{} · ", place(fold)) };
    format!("{} · depth {} · {place}{} · {} · {range} · {}", fold.id, fold.depth, kind(fold.kind), count(fold.entries, "entry"), fold.gist)
}

fn marks(session: &Session) -> Vec<String> {
    let budget = session.band().budget;
    let line = |(index, mark): (usize, &Mark<'_>)| {
        let origin = match (mark.origin, mark.briefed) {
            (Origin::Walk, false) => "walk",
            (Origin::Walk, true) => "walk, brief supplied",
            (Origin::Agreed, false) => "agreed",
            (Origin::Agreed, true) => "agreed, brief supplied",
        };
        let freed = mark.freed.map_or("passed over for now".to_owned(), |freed| format!("frees {} of the budget", share(freed, budget)));
        let (range, units) = (range(mark.first, mark.last), count(mark.units.len(), "unit"));
        let head = format!("mark {} · {} · {origin} · {units} · {range}", index + 1, kind(mark.kind));
        format!("{head} · {freed} · rewrites {} tokens · units {}", mark.rewrite, list(mark.units.iter().copied()))
    };
    session.pending().iter().enumerate().map(line).collect()
}

/// The word for a kind that a placeholder uses.
fn kind(kind: FoldKind) -> &'static str {
    if kind == FoldKind::Consolidated { "consolidated" } else { kind.name() }
}

pub(super) fn range(first: &str, last: &str) -> String {
    format!("{}..{}", disarm(first), disarm(last))
}

/// The first of these ids, and how many more there are.
pub(super) fn list<'a>(ids: impl Iterator<Item = &'a str>) -> String {
    let mut ids = ids.map(|id| disarm(&fit(id, Bound { chars: LISTED_CHARS, bytes: usize::MAX })));
    let told: Vec<String> = ids.by_ref().take(LISTED).collect();
    match ids.count() {
        0 => told.join(", "),
        more => format!("{} and {more} more", told.join(", ")),
    }
}

pub(super) fn count(count: usize, what: &str) -> String {
    match (count, what) {
        (1, _) => format!("1 {what}"),
        (_, "entry") => format!("{count} entries"),
        _ => format!("{count} {what}s"),
    }
}

/// A share in percent with one decimal, rounded down.
fn share(part: u64, whole: u64) -> String {
    let tenths = u128::from(part) * 1_000 / u128::from(whole.max(1));
    format!("{}.{}%", tenths / 10, tenths % 10)
}

/// Millionths as a decimal number.
fn ratio(ppm: u32) -> String {
    let decimals = format!("{:06}", ppm % 1_000_000);
    format!("{}.{:0<2}", ppm / 1_000_000, decimals.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_ratios_are_exact_and_rounded_down() {
        assert_eq!([share(1, 1_000), share(2, 3), share(0, 7), share(30, 20)], ["0.1%", "66.6%", "0.0%", "150.0%"]);
        assert_eq!([ratio(800_000), ratio(50), ratio(123_456), ratio(0)], ["0.80", "0.00005", "0.123456", "0.00"]);
    }

    #[test]
    fn pages_hold_every_line_once_and_none_is_too_long() {
        let lines: Vec<String> = (0..2_000).map(|line| format!("{line} {}", "⟦".repeat(line % 90))).chain(["x".repeat(50_000)]).collect();
        let pages = pages(lines.clone());
        assert!(pages.len() > 2 && pages.iter().all(|page| page.chars().count() <= PAGE_CHARS - FRAME));
        let joined: Vec<&str> = pages.iter().flat_map(|page| page.lines()).collect();
        assert_eq!(joined.len(), lines.len());
        assert_eq!(joined[..2_000], lines[..2_000]);
    }

    #[test]
    fn no_lines_are_one_page() {
        assert_eq!(pages(Vec::new()), ["(none)"]);
    }
}
