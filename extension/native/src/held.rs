//! The session behind a handle.

use crate::plan;
use crate::store::Store;
use fold_runtime::agent::{Action, act};
use fold_runtime::config::Settings;
use fold_runtime::fold::FoldKind;
use fold_runtime::journal::Entry;
use fold_runtime::ports::ObjectStore;
use fold_runtime::session::{Decision, Deferral, Moment, Session};
use serde_json::{Value, json};

/// A session, and where its second copies are kept.
pub struct Held {
    session: Session,
    store: Option<Store>,
    /// Why there is no store although there was to be one.
    unopened: Option<String>,
    /// What a person was told of the store last.
    told: Option<String>,
    /// Copies that were put were not kept after all: all of them are looked at again.
    lost: bool,
}

impl Held {
    pub fn open(branch: &[u8], settings: &str, window: u32, store: Option<String>) -> Result<Self, String> {
        let session = Session::open(&entries(branch)?, &parsed(settings)?, window.into())?;
        let (store, unopened) = match store.map(|path| Store::open(path.as_ref())) {
            None => (None, None),
            Some(Ok(store)) => (Some(store), None),
            Some(Err(why)) => (None, Some(why.to_string())),
        };
        Ok(Held { session, store, unopened, told: None, lost: false })
    }

    pub fn turn(&mut self, lines: &[u8], moment: Option<&str>) -> Result<String, String> {
        for entry in entries(lines)? {
            self.session.observe(&entry);
        }
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
            Err(refusal) => json!({ "text": refusal.to_string(), "refused": true, "drafts": [] }).to_string(),
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
            "uncounted": session.uncounted().map(|(id, why)| json!([id, why])).collect::<Vec<_>>(),
        })
        .to_string()
    }

    pub fn configure(&mut self, settings: &str, window: u32) -> Result<String, String> {
        self.session.configure(&parsed(settings)?, window.into())?;
        Ok("null".to_owned())
    }

    /// What a person is to be told of the store, where it is not what was told last.
    pub fn save(&mut self) -> String {
        let warning = match &mut self.store {
            Some(store) => {
                let (session, again) = (&mut self.session, std::mem::take(&mut self.lost));
                let (mut saved, kept) = store.together(|store| if again { session.heal(store) } else { session.save(store) });
                if let Err(error) = kept {
                    self.lost = true;
                    saved.left += saved.written + saved.repaired.len();
                    saved.repaired.clear();
                    saved.error.get_or_insert(error);
                }
                saved.warning()
            }
            None => self.unopened.clone(),
        };
        let news = warning.clone().filter(|warning| self.told.as_ref() != Some(warning));
        self.told = warning;
        Value::from(news).to_string()
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
