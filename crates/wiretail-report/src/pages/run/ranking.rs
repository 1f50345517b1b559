//! Ranks of the devices under each load. Devices whose order is uncertain share a range of ranks.

use wiretail_schema::run::scenario::{Place, Ranking};

use super::{Page, counted};
use crate::format;
use crate::html::Markup;
use crate::pages::cells::{Cell, head, table};
use crate::pages::page;

/// Number of loads with open tables; further ones are folded.
const OPEN: usize = 3;
/// Number of devices named in a cell.
const NAMED: usize = 4;

/// The section; empty unless at least two devices had the same load.
pub fn section(m: &mut Markup, page: &Page<'_>) {
    let mut loads: Vec<Vec<&Ranking>> = Vec::new();
    for ranking in page.rankings {
        match loads.iter_mut().find(|same| same[0].load == ranking.load) {
            Some(same) => same.push(ranking),
            None => loads.push(vec![ranking]),
        }
    }
    if loads.is_empty() {
        return;
    }
    page::section(m, "ranking", "Ranking", |m| {
        m.tag("p").class("hint").text(
            "Devices under the same load, the fastest first. If 95\u{a0}% confidence intervals overlap, the order of the \
             devices is uncertain and their ranks are ranges.",
        );
        let (open, more) = loads.split_at(loads.len().min(OPEN));
        open.iter().for_each(|load| one(m, load));
        if !more.is_empty() {
            m.tag("details").class("more").body(|m| {
                m.tag("summary").text(counted(more.len(), "more load"));
                more.iter().for_each(|load| one(m, load));
            });
        }
        m.tag("p").class("rests").text(
            "The whole device under test, valid trials only, with the interval below each percentile. The median \
             over repeats is shown, and the interval extends from the lowest bound of all repeats to the \
             highest; repeats are not pooled. Intervals assume that packets are independent. If one stall delays \
             many packets, the intervals are too narrow; compare the repeats. Percentiles in italics are based \
             on fewer than ten packets.",
        );
    });
}

/// The table of a load in the order of its first ranking, with the ranks of the other rankings next to it.
fn one(m: &mut Markup, rankings: &[&Ranking]) {
    let first = rankings[0];
    let mut names = head(["device", "trials"]).to_vec();
    for ranking in rankings {
        let percentile = format::short(ranking.percentile);
        names.extend([format!("rank by p{percentile}").into(), format!("p{percentile}").into()]);
    }
    names.push(format!("not distinguished by p{} from", format::short(first.percentile)).into());
    let rows = first.places.iter().map(|place| {
        let mut cells = vec![Cell::text(&place.device), Cell::count(place.trials.len() as u64)];
        for ranking in rankings {
            match ranking.places.iter().find(|other| other.device == place.device) {
                Some(place) => cells.extend(values(place)),
                None => cells.extend((0..2).map(|_| super::numbers::none())),
            }
        }
        cells.push(alike(first, place));
        cells
    });
    let load = if first.load.settings.is_empty() { "All trials".to_owned() } else { first.load.to_string() };
    m.tag("div").class("broad").body(|m| table(m, &load, &names, rows));
}

/// A rank, or a range of ranks: "2", "2–3".
pub fn places(best: usize, worst: usize) -> String {
    if best == worst { best.to_string() } else { format!("{best}–{worst}") }
}

fn values(place: &Place) -> [Cell; 2] {
    let low = format::duration(place.low_ns as f64);
    let interval = match place.high_ns {
        Some(high) => format!("{low} to {}", format::duration(high as f64)),
        None => format!("from {low}, open above"),
    };
    let value = Cell::ns(place.value_ns).note(interval);
    let value = if place.supported { value } else { value.class("number weak") };
    [Cell::number(places(place.best, place.worst)), value]
}

fn alike(ranking: &Ranking, place: &Place) -> Cell {
    if place.alike.is_empty() {
        return Cell::text("distinguished from all").class("zero");
    }
    let mut names: Vec<String> =
        place.alike.iter().filter_map(|&other| Some(ranking.places.get(other)?.device.to_string())).collect();
    let all = names.join("; ");
    if names.len() > NAMED {
        let more = names.len() - NAMED;
        names.truncate(NAMED);
        names.push(format!("{more} more"));
    }
    Cell::text(names.join("; ")).exact(all).class("meaning")
}
