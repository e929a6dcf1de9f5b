//! Carrying out a call. A decision becomes entries to append; what would be refused is refused here, before anything is written, since the
//! law honours every decision that reads well.
//!
//! A refusal is made in two steps: the judgement names the rule and calls that might serve instead; the first of those that would be carried out
//! is the one that is told.

use super::peek::{look, peek};
use super::status::{count, list, status};
use super::{Action, Brief, Detail, Id, Ids, Peek, Reboundary, Refusal, StatusPage};
use crate::fold::{Bound, DECISION, Decided, FoldId, brief_bound, disarm, fit};
use crate::ports::ObjectStore;
use crate::session::{Choice, Draft, Named, Session, Unclosed, Unmarked, Unopened};
use std::collections::BTreeMap;

/// What a call that was carried out answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// What the agent reads.
    pub text: String,
    /// What the host has to append at once, in this order. Nothing counts before it stands on the branch.
    pub drafts: Vec<Draft>,
}

impl Reply {
    fn told(text: String) -> Self {
        Reply { text, drafts: Vec::new() }
    }

    fn decided(text: &str, decisions: impl IntoIterator<Item = Decided>) -> Self {
        let draft = |decided: Decided| Draft::Custom { custom_type: DECISION, data: decided.data() };
        Reply { text: format!("{text}. Nothing that is shown changes now."), drafts: decisions.into_iter().map(draft).collect() }
    }
}

/// Carries out a call. `store` stands in for what the journal lost, `room` is what the answer may take, in tokens.
///
/// # Errors
/// [`Refusal`]: nothing is to be appended, and its call would be carried out.
pub fn act(session: &Session, action: &Action, store: Option<&dyn ObjectStore>, room: u64) -> Result<Reply, Refusal> {
    match action {
        Action::Peek(asked) => return peek(session, asked, store, room).map(Reply::told),
        Action::Status(page) => return status(session, *page).map(Reply::told),
        _ => {}
    }
    decide(session, action).map_err(|barred| {
        let works = |instead: Action| match instead {
            Action::Peek(sound) => Some(look(session, sound, store, room)),
            Action::Status(_) => Some(instead),
            _ => decide(session, &instead).is_ok().then_some(instead),
        };
        let call = barred.instead.into_iter().find_map(works).unwrap_or_else(Action::status);
        Refusal::new(&barred.subject, barred.rule, call)
    })
}

/// Why a decision cannot be taken, and calls that might serve instead, the best first. A peek and a first page always do.
struct Barred {
    subject: String,
    rule: String,
    instead: Vec<Action>,
}

/// What is wrong with one id.
struct Wrong {
    rule: String,
    /// The id that was meant, if that can be told.
    meant: Option<String>,
    instead: Action,
}

impl Wrong {
    fn new(rule: impl Into<String>, instead: Action) -> Self {
        Wrong { rule: rule.into(), meant: None, instead }
    }

    fn about(self, id: &str) -> Barred {
        Barred { subject: id.to_owned(), rule: self.rule, instead: vec![self.instead] }
    }
}

fn decide(session: &Session, action: &Action) -> Result<Reply, Barred> {
    match action {
        Action::Peek(_) | Action::Status(_) => unreachable!("they decide nothing"),
        Action::Expand(Id { id }) => expand(session, id),
        Action::Refold(Id { id }) => refold(session, id),
        Action::Pin(Ids { ids }) => pin(session, ids),
        Action::Unpin(Ids { ids }) => unpin(session, ids),
        Action::Brief(asked) => brief(session, asked),
        Action::Reboundary(asked) => reboundary(session, asked),
        Action::Unmark(Ids { ids }) => unmark(session, ids),
    }
}

/// What each id stands for, each thing once and in its order; if one id is wrong, the call without the wrong ones is proposed.
fn all<T: Ord>(
    (field, ids): (&str, &[String]),
    again: impl Fn(Vec<String>) -> Action,
    judge: impl Fn(&str) -> Result<T, Wrong>,
) -> Result<Vec<T>, Barred> {
    let (mut found, mut good, mut wrong) = (Vec::new(), Vec::new(), None);
    for id in ids {
        match judge(id) {
            Ok(thing) => {
                found.push(thing);
                good.push(id.clone());
            }
            Err(mut error) => {
                good.extend(error.meant.take());
                wrong.get_or_insert((id, error));
            }
        }
    }
    if let Some((id, wrong)) = wrong {
        let mut barred = wrong.about(id);
        barred.instead.insert(0, again(good));
        return Err(barred);
    }
    if found.is_empty() {
        return Err(Wrong::new("it names nothing", marks()).about(field));
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

fn marks() -> Action {
    Action::Status(StatusPage { detail: Detail::Marks, page: 1 })
}

fn tree() -> Action {
    Action::Status(StatusPage { detail: Detail::Tree, page: 1 })
}

fn pin(session: &Session, ids: &[String]) -> Result<Reply, Barred> {
    let again = |ids: Vec<String>| Action::Pin(Ids { ids });
    let choices = all(("ids", ids), again, |id| pinnable(session, id))?;
    let cap = session.pins().cap;
    let taken: Vec<u64> = session.pinned_with(&choices).collect();
    let would = taken[taken.len() - 1];
    if would > cap {
        let fits = taken.partition_point(|&tokens| tokens <= cap);
        let ids = choices[..fits].iter().map(|choice| session.chosen(choice).to_owned()).collect();
        let rule = format!(
            "pins would take about {would} tokens, {} of them already; at most {cap}, a quarter of the budget, may be pinned",
            session.pins().tokens
        );
        return Err(Barred { subject: "ids".to_owned(), rule, instead: vec![again(ids)] });
    }
    let (units, folds) = split(session, &choices);
    let unripe = choices.iter().any(|choice| matches!(choice, Choice::Unit(first) if session.ripe_unit(*first).is_none()));
    let mut text = format!("Pinned {} until unpinned", told(&units, &folds));
    if !units.is_empty() {
        text.push_str(". Units are neither folded nor clipped");
        text.push_str(if unripe { "; one that no answer has followed yet, from then on" } else { "" });
    }
    if !folds.is_empty() {
        text.push_str(". Folds stay as they are, inside no other");
    }
    text.push_str(&format!(". Pins take about {would} of at most {cap} tokens"));
    Ok(Reply::decided(&text, [Decided::Pin { units, folds }]))
}

/// What may be pinned by this id.
fn pinnable(session: &Session, id: &str) -> Result<Choice, Wrong> {
    let peek = || Action::Peek(Peek::of(id));
    let choice = match session.named(id) {
        Named::Unit(first) => Choice::Unit(first),
        Named::Root(fold) => Choice::Fold(fold.clone()),
        Named::Open(fold) => Choice::Fold(fold.clone()),
        Named::Nested(_, root) => {
            let rule = format!("it is inside fold {root}; of folds, only those that no other contains can be pinned");
            return Err(Wrong { meant: Some(root.to_string()), ..Wrong::new(rule, peek()) });
        }
        Named::Folded(fold, shown, _) => {
            let rule = if fold == shown {
                format!("it is hidden in fold {fold}; what is hidden cannot be pinned, expand that fold first")
            } else {
                format!("it is hidden in fold {fold}, inside {shown}; what is hidden cannot be pinned, expand {shown} first")
            };
            return Err(Wrong::new(rule, expansion(shown)));
        }
        Named::Dissolved => return Err(Wrong::new("this fold was cut anew, so there is nothing to pin", peek())),
        Named::Closed | Named::LeftOut => return Err(Wrong::new("a compaction left it out of the window, so nothing folds it any more", peek())),
        Named::Apart => return Err(Wrong::new("it is never folded, so there is nothing to pin", peek())),
        Named::Unknown => return Err(unknown(id)),
    };
    if session.is_pinned(&choice) {
        return Err(Wrong::new("it is pinned already; this would change nothing", Action::status()));
    }
    Ok(choice)
}

fn expansion(fold: &FoldId) -> Action {
    Action::Expand(Id { id: fold.to_string() })
}

fn unknown(id: &str) -> Wrong {
    Wrong::new(if id.is_empty() { "the id is empty" } else { "this branch has no fold and no entry with this id" }, tree())
}

fn unpin(session: &Session, ids: &[String]) -> Result<Reply, Barred> {
    let choices = all(
        ("ids", ids),
        |ids| Action::Unpin(Ids { ids }),
        |id| {
            session.pinned_by(id).ok_or_else(|| match session.named(id) {
                Named::Unknown => unknown(id),
                _ => Wrong::new("it is not pinned; this would change nothing", Action::status()),
            })
        },
    )?;
    let (units, folds) = split(session, &choices);
    let text = format!("Unpinned {}: the next commit may fold this like anything else", told(&units, &folds));
    Ok(Reply::decided(&text, [Decided::Unpin { units, folds }]))
}

/// Unit ids and fold ids.
fn split(session: &Session, choices: &[Choice]) -> (Vec<String>, Vec<String>) {
    let (units, folds): (Vec<&Choice>, Vec<&Choice>) = choices.iter().partition(|choice| matches!(choice, Choice::Unit(_)));
    let ids = |choices: Vec<&Choice>| choices.into_iter().map(|choice| session.chosen(choice).to_owned()).collect();
    (ids(units), ids(folds))
}

fn told(units: &[String], folds: &[String]) -> String {
    let told = |ids: &[String], what| (!ids.is_empty()).then(|| format!("{} ({})", count(ids.len(), what), list(ids.iter().map(String::as_str))));
    told(units, "unit").into_iter().chain(told(folds, "fold")).collect::<Vec<_>>().join(" and ")
}

/// The pending marks, by the numbers of their units.
struct Marks<'a> {
    session: &'a Session,
    marks: Vec<Vec<usize>>,
    of_unit: BTreeMap<usize, usize>,
}

impl<'a> Marks<'a> {
    fn of(session: &'a Session) -> Self {
        let marks = session.marked();
        let of_unit = marks.iter().enumerate().flat_map(|(mark, units)| units.iter().map(move |&unit| (unit, mark))).collect();
        Marks { session, marks, of_unit }
    }

    /// The number of the mark that this id is in.
    fn find(&self, id: &str) -> Result<usize, Wrong> {
        let wrong = |rule: &str| Wrong::new(rule, marks());
        match self.session.named(id) {
            Named::Unit(first) => {
                let mark = self.session.ripe_unit(first).and_then(|unit| self.of_unit.get(&unit));
                mark.copied().ok_or_else(|| match self.session.unmarked(first) {
                    Unmarked::Unripe => wrong("no answer has followed it yet, so it is in no pending mark"),
                    Unmarked::Words => wrong("it is a person's message, and those are in no mark"),
                    Unmarked::Pinned => Wrong::new("it is pinned, so it is in no mark", Action::Unpin(Ids { ids: vec![id.to_owned()] })),
                    Unmarked::Withdrawn => wrong("its mark was withdrawn until the next commit by the band or by a person"),
                    Unmarked::Expanded(fold) => {
                        Wrong::new(format!("fold {fold}, which is expanded, has it already"), Action::Refold(Id { id: fold.to_string() }))
                    }
                    Unmarked::Blacklisted => wrong("the settings keep the results of its tool, so it is in no mark"),
                    Unmarked::Open => wrong("no mark has closed over it yet"),
                })
            }
            Named::Root(_) | Named::Open(_) | Named::Nested(..) | Named::Closed | Named::Dissolved => {
                Err(wrong("it is a fold; only marks that wait for a commit can be changed"))
            }
            Named::Folded(fold, ..) => Err(wrong(&format!("fold {fold} has it already; only marks that wait for a commit can be changed"))),
            Named::LeftOut => Err(wrong("a compaction left it out of the window, so it is in no mark")),
            Named::Apart => Err(wrong("it is never folded, so it is in no mark")),
            Named::Unknown => Err(unknown(id)),
        }
    }

    fn ids(&self, units: &[usize]) -> Vec<String> {
        units.iter().map(|&unit| self.session.unit_id(unit).to_owned()).collect()
    }

    fn told(&self, units: &[usize]) -> String {
        session_units(self.session, units)
    }
}

fn brief(session: &Session, Brief { id, text }: &Brief) -> Result<Reply, Barred> {
    let marks = Marks::of(session);
    let units = &marks.marks[marks.find(id).map_err(|wrong| wrong.about(id))?];
    let again = |text: String| Action::Brief(Brief { id: id.clone(), text });
    let barred = |rule: String, instead: Vec<Action>| Barred { subject: id.clone(), rule, instead };
    let Some(source) = session.stands_for(units) else {
        return Err(barred("nothing within its mark could carry a text of its own".to_owned(), vec![self::marks()]));
    };
    let bound = Bound { chars: brief_bound(session.band().budget), bytes: usize::try_from(source / 4).unwrap_or(usize::MAX) };
    let clean = || fit(&text.lines().map(disarm).collect::<Vec<_>>().join("\n"), bound);
    let look = || Action::Peek(Peek::of(id));
    if text.trim().is_empty() {
        return Err(barred("the text is blank; look at what it has to tell of first".to_owned(), vec![look()]));
    }
    if text.split('\n').any(|line| disarm(line) != line) {
        let rule = "the text holds a bracket of the context manager's markers, or a control character".to_owned();
        return Err(barred(rule, vec![again(clean()), look()]));
    }
    let (chars, bytes) = (text.chars().count(), text.len());
    if chars > bound.chars {
        return Err(barred(format!("the text has {chars} characters; at most {} may stand here", bound.chars), vec![again(clean()), look()]));
    }
    if bytes > bound.bytes {
        let rule = format!("the text has {bytes} bytes; at most {} may stand here, a quarter of what it stands for", bound.bytes);
        return Err(barred(rule, vec![again(clean()), look()]));
    }
    let told = format!(
        "Brief taken, {chars} of at most {} characters: the fold that a commit makes of {} will say it. Until then another brief replaces it",
        bound.chars,
        marks.told(units)
    );
    Ok(Reply::decided(&told, [Decided::Cut { units: marks.ids(units), brief: Some(text.clone()) }]))
}

fn reboundary(session: &Session, Reboundary { id, at }: &Reboundary) -> Result<Reply, Barred> {
    let edges = |units: &[usize], what: &str| {
        let edge = |edge: &str| {
            let unit = session.position(edge).and_then(|at| session.ripe_unit(at)).filter(|unit| units.contains(unit));
            let Some(unit) = unit else {
                return Err(Wrong::new(format!("it is no unit of this {what}, which is {}", session_units(session, units)), self::marks()));
            };
            if unit == units[0] {
                return Err(Wrong::new(format!("the {what} begins there already"), self::marks()));
            }
            let first = session.unit_id(unit);
            if first != edge {
                let rule = format!("a cut begins with a whole unit, and this is an entry within unit {}", disarm(first));
                return Err(Wrong { meant: Some(first.to_owned()), ..Wrong::new(rule, self::marks()) });
            }
            Ok(unit)
        };
        all(("at", at), |at| Action::Reboundary(Reboundary { id: id.clone(), at }), edge)
    };
    if let Named::Root(fold) | Named::Nested(fold, _) = session.named(id)
        && fold.as_str() == id
    {
        return cut_fold_anew(session, fold, edges);
    }
    let marks = Marks::of(session);
    let units = &marks.marks[marks.find(id).map_err(|wrong| wrong.about(id))?];
    let parts = parts(units, &edges(units, "mark")?);
    let cuts = cuts(session, &parts)?;
    let told = format!(
        "The mark becomes {} that begin at {}: a commit makes a fold of each. A brief of the old mark is dropped",
        count(parts.len(), "cut"),
        list(parts.iter().map(|part| session.unit_id(part[0])))
    );
    Ok(Reply::decided(&told, cuts))
}

/// Dissolves a fold and agrees on the cuts in its place.
fn cut_fold_anew(session: &Session, fold: &FoldId, edges: impl Fn(&[usize], &str) -> Result<Vec<usize>, Barred>) -> Result<Reply, Barred> {
    let barred = |rule: String, instead: Vec<Action>| Barred { subject: fold.to_string(), rule, instead };
    let Some(units) = session.claimed_by_leaf(fold) else {
        let rule = "only a fold that contains no other, and that no other contains, can be cut anew";
        return Err(barred(rule.to_owned(), vec![expansion(fold), Action::Peek(Peek::of(fold.as_str()))]));
    };
    let parts = parts(&units, &edges(&units, "fold")?);
    let (draft, after) = session.dissolution(fold).map_err(|why| unopened(fold, why))?;
    let cuts = cuts(&after, &parts)?;
    let text = format!(
        "Fold {fold} is dissolved: from the next request on its {} stand as they were. They are {} now that begin at {}: the next commit makes a fold of each",
        count(units.len(), "unit"),
        count(parts.len(), "cut"),
        list(parts.iter().map(|part| session.unit_id(part[0])))
    );
    let cuts = cuts.into_iter().map(|cut| Draft::Custom { custom_type: DECISION, data: cut.data() });
    Ok(Reply { text, drafts: std::iter::once(draft).chain(cuts).collect() })
}

/// Units cut at these edges.
fn parts<'a>(units: &'a [usize], edges: &[usize]) -> Vec<&'a [usize]> {
    let starts = edges.iter().map(|edge| units.partition_point(|unit| unit < edge));
    let ends = starts.clone().chain([units.len()]);
    std::iter::once(0).chain(starts).zip(ends).map(|(start, end)| &units[start..end]).collect()
}

/// These parts as agreed cuts, if each could carry a placeholder.
fn cuts(session: &Session, parts: &[&[usize]]) -> Result<Vec<Decided>, Barred> {
    let ids = |part: &[usize]| part.iter().map(|&unit| session.unit_id(unit).to_owned()).collect();
    let cut = |part: &&[usize]| {
        let rule = "nothing in the cut that would begin here could carry a placeholder";
        session.stands_for(part).ok_or_else(|| Wrong::new(rule, marks()).about(session.unit_id(part[0])))?;
        Ok(Decided::Cut { units: ids(part), brief: None })
    };
    parts.iter().map(cut).collect()
}

fn session_units(session: &Session, units: &[usize]) -> String {
    format!("{} ({})", count(units.len(), "unit"), list(units.iter().map(|&unit| session.unit_id(unit))))
}

fn expand(session: &Session, id: &str) -> Result<Reply, Barred> {
    let peek = || Action::Peek(Peek::of(id));
    let barred = |rule: String, instead: Vec<Action>| Barred { subject: id.to_owned(), rule, instead };
    let fold = match session.named(id) {
        Named::Root(fold) => fold,
        Named::Nested(shown, _) if shown.as_str() == id => shown,
        Named::Nested(shown, _) => {
            return Err(barred(format!("it is inside fold {shown}, which is expanded before it"), vec![expansion(shown), peek()]));
        }
        Named::Open(fold) => {
            return Err(barred(
                "it is expanded already; this would change nothing".to_owned(),
                vec![Action::Refold(Id { id: fold.to_string() }), peek()],
            ));
        }
        Named::Folded(fold, shown, _) => {
            return Err(barred(
                format!("it is an entry hidden in fold {fold}; folds are expanded, one level at a time"),
                vec![expansion(shown), peek()],
            ));
        }
        Named::Closed => return Err(barred("a compaction left it out of the window; its originals can be peeked".to_owned(), vec![peek()])),
        Named::Dissolved => return Err(barred("it was cut anew, so its originals stand in other folds, or as they were".to_owned(), vec![peek()])),
        Named::Unit(_) | Named::LeftOut | Named::Apart => {
            return Err(barred("it is an entry that no fold hides; folds are expanded".to_owned(), vec![tree()]));
        }
        Named::Unknown => return Err(unknown(id).about(id)),
    };
    let draft = session.expansion(fold).map_err(|why| unopened(fold, why))?;
    let text = format!(
        "Fold {fold} is expanded by one level from the next request on. It counts as pinned, and the first commit after eight answers folds it again, the same id and the same bytes, unless it is pinned"
    );
    Ok(Reply { text, drafts: vec![draft] })
}

/// Why a fold may not be opened, and what works.
fn unopened(fold: &FoldId, why: Unopened) -> Barred {
    let peek = |fold: &FoldId| Action::Peek(Peek::of(fold.as_str()));
    let (rule, instead) = match why {
        Unopened::Pinned => ("it is pinned, so it stays as it is".to_owned(), Action::Unpin(Ids { ids: vec![fold.to_string()] })),
        Unopened::LeftOut => ("a compaction left a part of it out of the window; its originals can be peeked".to_owned(), peek(fold)),
        Unopened::Foreign(entry) => (format!("another extension edited its entry {}, and that edit stands", disarm(&entry)), peek(fold)),
        Unopened::Damaged(entry) => {
            let rule =
                format!("its original {} on this branch differs from what was folded; a peek says whether a second copy has it", disarm(&entry));
            (rule, peek(fold))
        }
        Unopened::Taken(entry) => (format!("entry {}, which one of its folds stood in, belongs to another fold by now", disarm(&entry)), peek(fold)),
        Unopened::TooLarge(would, most) => (format!("the window would hold about {would} tokens; at {most} a commit would fold again"), peek(fold)),
        Unopened::OverCap(would, cap) => {
            (format!("what is pinned and expanded would take about {would} tokens; at most {cap}, a quarter of the budget, may be"), peek(fold))
        }
    };
    Barred { subject: fold.to_string(), rule, instead: vec![instead, peek(fold)] }
}

fn refold(session: &Session, id: &str) -> Result<Reply, Barred> {
    let barred = |rule: String, instead: Vec<Action>| Barred { subject: id.to_owned(), rule, instead };
    let fold = match session.named(id) {
        Named::Open(fold) => fold,
        Named::Unknown => return Err(unknown(id).about(id)),
        Named::Root(_) | Named::Nested(..) | Named::Closed | Named::Dissolved => {
            return Err(barred("it is a fold that is not expanded; this would change nothing".to_owned(), vec![tree()]));
        }
        _ => return Err(barred("it is no fold; expanded folds can be folded again".to_owned(), vec![tree()])),
    };
    let draft = session.refolding(fold).map_err(|why| match why {
        Unclosed::Pinned(pinned) => barred(format!("{} in it is pinned", disarm(&pinned)), vec![Action::Unpin(Ids { ids: vec![pinned] })]),
        Unclosed::Foreign(entry) => barred(
            format!("another extension edited its entry {}, so it stays as it is", disarm(&entry)),
            vec![Action::Peek(Peek::of(fold.as_str()))],
        ),
        Unclosed::Damaged(entry) => barred(
            format!("its original {} is not what was folded, so it stays as it is", disarm(&entry)),
            vec![Action::Peek(Peek::of(fold.as_str())), tree()],
        ),
    })?;
    let text = format!("Fold {fold} stands as it was from the next request on, with everything in it");
    Ok(Reply { text, drafts: vec![draft] })
}

fn unmark(session: &Session, ids: &[String]) -> Result<Reply, Barred> {
    let marks = Marks::of(session);
    let chosen = all(("ids", ids), |ids| Action::Unmark(Ids { ids }), |id| marks.find(id))?;
    let units: Vec<usize> = chosen.iter().flat_map(|&mark| marks.marks[mark].iter().copied()).collect();
    let told = format!(
        "Withdrawn {}, {}: not folded until the next commit by the band or by a person is over, unless a request would not fit without",
        count(chosen.len(), "mark"),
        marks.told(&units)
    );
    Ok(Reply::decided(&told, [Decided::Unmark { units: marks.ids(&units) }]))
}
