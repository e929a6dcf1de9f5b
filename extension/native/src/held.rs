//! The session behind a handle.

use crate::plan;
use fold_runtime::agent::{Action, Reading, act, read};
use fold_runtime::config::Settings;
use fold_runtime::fold::FoldKind;
use fold_runtime::journal::{Digest, Entry};
use fold_runtime::ports::ObjectStore;
use fold_runtime::session::{Category, Decision, Deferral, Item, Moment, Place, Row, Session, State};
use fold_store::{Mended, Store};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Bytes of new entries that are read at once, while Pi waits; more is handed to a worker.
const AT_ONCE: usize = 64 * 1024;

/// A session, and where its second copies are kept.
pub struct Held {
    session: Session,
    /// Where second copies are to be, if anywhere.
    place: Option<PathBuf>,
    store: Option<Store>,
    /// What a person was told of the store last.
    told: Option<String>,
    /// Copies that were put were not kept after all: all of them are looked at again.
    lost: bool,
}

impl Held {
    pub fn open(branch: &[u8], settings: &str, window: u32, store: Option<String>) -> Result<Self, String> {
        let session = Session::open(&entries(branch)?, &parsed(settings)?, window.into())?;
        let place = store.map(PathBuf::from);
        // What cannot be opened now is tried again when something is to be saved, and told then.
        let store = place.as_deref().and_then(|path| Store::open(path).ok());
        Ok(Held { session, place, store, told: None, lost: false })
    }

    /// What [`Held::turn`] does, where that is over in a moment: where little came, nothing is committed, and nothing waits to be written or copied.
    /// `None` where nothing was done, `null` where the entries were taken and the moment is to be asked for.
    pub fn turn_now(&mut self, lines: &[u8], moment: Option<&str>) -> Result<Option<String>, String> {
        if lines.len() > AT_ONCE {
            return Ok(None);
        }
        self.observe(lines)?;
        let session = &self.session;
        let is_quiet = session.occupancy() < session.band().max_target && session.unwritten() == 0 && session.unsaved() == 0;
        if moment.is_none() || (is_quiet && moment != Some("asked")) { self.turn(&[], moment).map(Some) } else { Ok(Some("null".to_owned())) }
    }

    fn observe(&mut self, lines: &[u8]) -> Result<(), String> {
        for entry in entries(lines)? {
            self.session.observe(&entry);
        }
        Ok(())
    }

    pub fn turn(&mut self, lines: &[u8], moment: Option<&str>) -> Result<String, String> {
        self.observe(lines)?;
        let moment = moment.map(named).transpose()?;
        let decision = moment.map_or(Decision::Quiet, |moment| self.session.boundary(moment));
        let mut plan = plan::decision(&decision);
        // What a person is told once stands beside the plan.
        if matches!(decision, Decision::Deferred(Deferral::RefusedAgain)) {
            plan::add(&mut plan, "message", &Value::from(self.session.refused_again()).to_string());
        }
        // Each call wakes threads, which costs more than most answers: what is asked next anyhow is answered at once.
        match moment {
            Some(Moment::Request) if matches!(decision, Decision::Quiet | Decision::Deferred(_)) => plan::add(&mut plan, "request", &self.request()),
            Some(Moment::TurnEnd | Moment::Settling | Moment::Refused) => plan::add(&mut plan, "store", &self.save()),
            _ => {}
        }
        Ok(plan)
    }

    pub fn request(&self) -> String {
        let fence = self.session.fence().err();
        plan::request(&self.session.overlay(), &self.session.unkeepable(), fence.as_ref())
    }

    pub fn lets_host_compact(&self, moment: &str) -> Result<String, String> {
        Ok(self.session.lets_host_compact(named(moment)?).to_string())
    }

    pub fn act(&self, call: &str, room: u32) -> String {
        let store = self.store.as_ref().map(|store| store as &dyn ObjectStore);
        let reply = Action::parse(call).and_then(|action| act(&self.session, &action, store, room.into()));
        match reply {
            Ok(reply) => format!(r#"{{"text":{},"refused":false,"drafts":{}}}"#, Value::from(reply.text), plan::drafts(&reply.drafts)),
            // A person needs no call of the tool that would work.
            Err(refusal) => {
                let why = format!("{}: {}", refusal.subject, refusal.rule);
                json!({ "text": refusal.to_string(), "refused": true, "why": why, "drafts": [] }).to_string()
            }
        }
    }

    pub fn status(&self) -> String {
        let session = &self.session;
        let band = session.band();
        let of = |kind: FoldKind| session.folds().filter(|(_, other)| *other == kind).count();
        json!({
            "occupancy": session.occupancy(),
            "margin": session.margin(),
            "budget": band.budget,
            "window": band.window,
            "maxTarget": band.max_target,
            "minTarget": band.min_target,
            "folds": session.folds().count(),
            "roots": session.roots().count(),
            "tool": of(FoldKind::Tool),
            "span": of(FoldKind::Span),
            "consolidated": of(FoldKind::Consolidated),
            "marks": session.marks(),
            "pinned": session.pins().units.len() + session.pins().folds.len(),
            "unwritten": session.unwritten(),
            "suspended": session.suspended(),
            "copies": self.copies(),
            "uncounted": session.uncounted().map(|(id, why)| json!([id, why])).collect::<Vec<_>>(),
        })
        .to_string()
    }

    /// How second copies stand, in a sentence.
    fn copies(&self) -> String {
        match (&self.place, &self.told) {
            (None, _) => "none: the session is in no file".to_owned(),
            (Some(place), None) => format!("all in {}", place.display()),
            (Some(_), Some(warning)) => warning.clone(),
        }
    }

    /// What the fold bar shows.
    pub fn gauge(&self) -> String {
        let (gauge, band) = (self.session.gauge(), self.session.band());
        json!({
            "measured": gauge.measured,
            "isOld": gauge.is_old,
            "budget": band.budget,
            "maxTarget": band.max_target,
            "minTarget": band.min_target,
            "weights": gauge.weights,
            "folds": gauge.folds,
            "marks": gauge.marks,
            "pinned": gauge.pinned,
            "suspended": self.session.suspended().is_some(),
        })
        .to_string()
    }

    /// The window row by row, or what a fold holds, one level; `null` where there is no such fold.
    pub fn map(&self, inside: Option<&str>) -> String {
        let rows = inside.map_or_else(|| Some(self.session.map()), |fold| self.session.inside(fold));
        let rows = rows.map(|rows| rows.iter().map(|row| self.row(row)).collect::<Vec<_>>());
        Value::from(rows).to_string()
    }

    /// Originals as a person reads them.
    pub fn read(&self, ids: &[String], offset: u32, bytes: u32) -> String {
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let store = self.store.as_ref().map(|store| store as &dyn ObjectStore);
        let Reading { text, start, whole } = read(&self.session, &ids, offset as usize, bytes as usize, store);
        json!({ "end": start + text.len(), "text": text, "start": start, "whole": whole }).to_string()
    }

    /// Visible folds in branch order: the record of the 1.x generation. A fold that cannot be given back is offered to nobody.
    pub fn candidates(&self) -> String {
        let tokens = |bytes: u64| bytes.div_ceil(4).max(1);
        let mut list = Vec::new();
        for row in self.session.map() {
            let Item::Fold(fold, _) = row.item else { continue };
            if !self.session.is_shown(fold.id) {
                continue;
            }
            let saved = row.original.saturating_sub(row.shown);
            let Some(lines) = Some(fold.id).filter(|_| saved > 0).and_then(|id| self.recover(id).ok()) else { continue };
            let key = format!("projection:{}", fold.id);
            let generator = if self.session.is_supplied(fold.id) { "projection-supplied" } else { "projection-deterministic" };
            list.push(json!({
                "version": 1,
                "key": key,
                "kind": "projection",
                "domain": "system",
                "horizon": "working",
                "source_id": fold.id,
                "source_version": Digest::of(&lines).to_string(),
                "route": { "tool": "pi_fold_context", "arguments": { "action": "expand", "id": fold.id } },
                "token_cost": tokens(row.shown),
                "expansion_cost": tokens(row.original),
                "rank": list.len(),
                "score": ratio(saved, row.original),
                "raw_score": saved,
                "confidence": "exact",
                "freshness": "current",
                "locked_owner": false,
                "collapse_key": key,
                "generator": generator,
                "generator_version": "memory-slate-generators-v2",
                "recency": null,
            }));
        }
        Value::from(list).to_string()
    }

    fn row(&self, row: &Row<'_>) -> Value {
        let tokens = |weight: u64| self.session.tokens(usize::try_from(weight).unwrap_or(usize::MAX));
        let category = Category::ALL.iter().position(|category| *category == row.category);
        let mut value = json!({ "category": category, "entries": row.entries, "shown": tokens(row.shown), "original": tokens(row.original), "within": row.within });
        let more = match &row.item {
            Item::Fold(fold, is_pinned) => json!({
                "fold": if fold.kind == FoldKind::Consolidated { "consolidated" } else { fold.kind.name() },
                "id": fold.id,
                "depth": fold.depth,
                "place": match fold.place {
                    Place::Root => "root",
                    Place::Open => "expanded",
                    Place::Within(_) => "within",
                    Place::Dissolved => "dissolved",
                    Place::Closed => "closed",
                },
                "pinned": is_pinned,
                "gist": fold.gist,
            }),
            Item::Unit { id, state, mark } => json!({ "id": id, "state": state.name(), "mark": mark, "pinned": *state == State::Pinned }),
        };
        let (Value::Object(value), Value::Object(more)) = (&mut value, more) else { return Value::Null };
        value.extend(more);
        Value::Object(std::mem::take(value))
    }

    pub fn configure(&mut self, settings: &str, window: u32) -> Result<String, String> {
        self.session.configure(&parsed(settings)?, window.into())?;
        Ok("null".to_owned())
    }

    /// What a person is to be told of the store, where it is not what was told last.
    pub fn save(&mut self) -> String {
        let warning = self.keep();
        let news = warning.clone().filter(|warning| self.told.as_ref() != Some(warning));
        self.told = warning;
        Value::from(news).to_string()
    }

    /// Sees to second copies. A database that is another one than before is filled with every fold of the session; damage may show itself
    /// only when it is written to, so there is a second try.
    fn keep(&mut self) -> Option<String> {
        let place = self.place.as_deref()?;
        let (mut news, mut left) = (None, None);
        for _ in 0..2 {
            let opened = match self.store.take() {
                Some(store) => store.mended(),
                None => Store::open(place).map(|store| (store, Mended::Yes)),
            };
            let (store, mended) = match opened {
                Ok((store, mended)) => (self.store.insert(store), mended),
                Err(why) => return Some(why.to_string()),
            };
            news = store.news().or(news);
            let (session, again) = (&mut self.session, std::mem::take(&mut self.lost) || mended == Mended::Yes);
            let (mut saved, kept) = store.together(|store| if again { session.heal(store) } else { session.save(store) });
            if let Err(error) = kept {
                self.lost = true;
                saved.left += saved.written + saved.repaired.len();
                saved.repaired.clear();
                saved.error.get_or_insert(error);
            }
            left = saved.warning();
            if !store.is_damaged() {
                break;
            }
        }
        let words: Vec<String> = news.into_iter().chain(left).collect();
        (!words.is_empty()).then(|| words.join(". "))
    }

    pub fn recover(&self, fold: &str) -> Result<Vec<u8>, String> {
        let store = self.store.as_ref().map(|store| store as &dyn ObjectStore);
        let originals = self.session.recover(fold, store).map_err(|error| error.to_string())?;
        Ok(originals.into_iter().flat_map(|original| [original.line, "\n".to_owned()]).collect::<String>().into_bytes())
    }

    pub fn suspend(&mut self, reason: &str) -> String {
        Value::from(self.session.suspend(reason)).to_string()
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a share for a person")]
    let ratio = part as f64 / whole as f64;
    ratio
}

fn entries(lines: &[u8]) -> Result<Vec<Entry>, String> {
    let text = std::str::from_utf8(lines).map_err(|error| format!("the entries are not UTF-8: {error}"))?;
    let read = |(number, line): (usize, &str)| Entry::parse(line).map_err(|error| format!("entry {} of these is none: {error}", number + 1));
    text.lines().enumerate().map(read).collect()
}

fn parsed(settings: &str) -> Result<Settings, String> {
    Settings::parse(settings).map_err(|refused| refused.join("; "))
}

fn named(moment: &str) -> Result<Moment, String> {
    match moment {
        "turn_end" => Ok(Moment::TurnEnd),
        "settling" => Ok(Moment::Settling),
        "request" => Ok(Moment::Request),
        "refused" => Ok(Moment::Refused),
        "asked" => Ok(Moment::Asked),
        other => Err(format!("there is no moment {other:?}; there are turn_end, settling, request, refused and asked")),
    }
}
