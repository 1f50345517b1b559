//! Frames that depart together, built from the templates of the streams or taken from a recording.

use std::sync::Arc;

use crate::generator::frame::{LongSignature, PORT_FIRST, Template};
use crate::generator::marks::Marks;
use crate::generator::missed::Departure;
use crate::generator::plan::GeneratorPlan;
use crate::generator::recording::Recording;
use crate::port::{BATCH_MAX, TxPort};

/// Maximum size of a built frame, in bytes.
const FRAME_ROOM: usize = 2048;

/// State and templates of a stream.
#[derive(Debug)]
struct Source {
    id: u16,
    flows: u16,
    /// Index of the port for its frames.
    port: usize,
    /// Indices of templates, in the order of the size cycle.
    cycle: Vec<usize>,
    sequence: u64,
}

/// Frames that depart together, in order.
#[derive(Debug)]
pub(super) struct Batch {
    recording: Option<Arc<Recording>>,
    /// Index of the next frame of the recording.
    recorded: usize,
    /// Templates of unmarked frames, followed by the same number of templates of marked frames.
    templates: Vec<Template>,
    /// Distance from a template to its marked version.
    to_marked: usize,
    marks: Option<Marks>,
    /// Number of the next packet to build, and of the next packet to mark.
    number: u64,
    next_mark: u64,
    sources: Vec<Source>,
    turn: usize,
    next_id: u32,
    /// Room for [`BATCH_MAX`] frames of [`FRAME_ROOM`] bytes. Empty for a recording, whose frames are sent in
    /// place.
    frames: Vec<u8>,
    /// Template that each slot was last filled with. Bytes are copied only if the template changes.
    template: [usize; BATCH_MAX],
    /// Start of the frames, in `frames` or in the recording.
    start: [usize; BATCH_MAX],
    len: [usize; BATCH_MAX],
    port: [usize; BATCH_MAX],
    /// Departures without the shift.
    departure: [Departure; BATCH_MAX],
    shift_ns: u64,
    taken: [bool; BATCH_MAX],
    /// Position of the first frame; those before it were dropped.
    first: usize,
    /// Position after the last frame.
    end: usize,
}

/// A frame of a batch that was passed to a port.
#[derive(Debug, Clone, Copy)]
pub(super) struct Handed {
    /// Intended departure, CLOCK_MONOTONIC in ns.
    pub(super) due_ns: u64,
    /// Its length in bytes.
    pub(super) len: usize,
    /// Whether the port accepted it.
    pub(super) taken: bool,
}

impl Batch {
    pub(super) fn new(plan: &GeneratorPlan) -> Self {
        let mut templates = Vec::new();
        let mut marked = Vec::new();
        let mut sources = Vec::new();
        for stream in &plan.streams {
            let lengths = stream.sizes.cycle(plan.seed ^ u64::from(stream.id));
            let mut distinct = lengths.clone();
            distinct.sort_unstable();
            distinct.dedup();
            let first = templates.len();
            templates.extend(distinct.iter().map(|&len| Template::new(&stream.addresses, len)));
            if let Some(marks) = &plan.marks {
                let template = |&len: &u16| Template::marked(&stream.addresses, len, &marks.text);
                marked.extend(distinct.iter().map(template));
            }
            let index = |len: &u16| first + distinct.partition_point(|other| other < len);
            let cycle = lengths.iter().map(index).collect();
            let (id, flows, port) = (stream.id, stream.flows, stream.port);
            sources.push(Source { id, flows, port, cycle, sequence: 0 });
        }
        let to_marked = templates.len();
        templates.append(&mut marked);
        let built = if plan.recording.is_none() { BATCH_MAX * FRAME_ROOM } else { 0 };
        Self {
            recording: plan.recording.clone(),
            recorded: 0,
            templates,
            to_marked,
            next_mark: plan.marks.as_ref().map_or(u64::MAX, |marks| marks.next_from(0)),
            marks: plan.marks.clone(),
            number: 0,
            sources,
            turn: 0,
            next_id: plan.id_first,
            frames: vec![0; built],
            template: [usize::MAX; BATCH_MAX],
            start: std::array::from_fn(|at| at * FRAME_ROOM),
            len: [0; BATCH_MAX],
            port: [0; BATCH_MAX],
            departure: [Departure { due_ns: 0, earliest_ns: 0 }; BATCH_MAX],
            shift_ns: 0,
            taken: [false; BATCH_MAX],
            first: 0,
            end: 0,
        }
    }

    /// Starts an empty batch. `shift_ns` is added to its departures.
    #[inline]
    pub(super) fn begin(&mut self, shift_ns: u64) {
        (self.first, self.end, self.shift_ns) = (0, 0, shift_ns);
    }

    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.end < BATCH_MAX
    }

    /// Number of frames in the batch.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.end - self.first
    }

    /// Departure of the first frame, without the shift; `None` if the batch is empty.
    #[inline]
    pub(super) fn first(&self) -> Option<Departure> {
        (self.first < self.end).then(|| self.departure[self.first])
    }

    /// Departure of the last frame, without the shift; `None` if the batch is empty.
    #[inline]
    pub(super) fn last(&self) -> Option<Departure> {
        (self.first < self.end).then(|| self.departure[self.end - 1])
    }

    /// Adds the next packet.
    #[inline]
    pub(super) fn push(&mut self, departure: Departure) {
        let at = self.end;
        self.departure[at] = departure;
        match &self.recording {
            Some(recording) => {
                // The schedule iterates over the same list, so this frame exists.
                let frame = recording.frames()[self.recorded];
                self.start[at] = frame.start as usize;
                self.len[at] = usize::from(frame.len);
            }
            None => self.build(at, departure.due_ns + self.shift_ns),
        }
        self.skip();
        self.end += 1;
    }

    /// Proceeds to the next packet without adding this one. Its number and its place in the stream stay unused.
    #[inline]
    pub(super) fn skip(&mut self) {
        if self.recording.is_some() {
            self.recorded += 1;
            return;
        }
        if self.number == self.next_mark {
            self.next_mark = self.marks.as_ref().map_or(u64::MAX, |marks| marks.next_from(self.number + 1));
        }
        self.number += 1;
        self.next_id = self.next_id.wrapping_add(1);
        self.sources[self.turn].sequence += 1;
        self.turn = if self.turn + 1 == self.sources.len() { 0 } else { self.turn + 1 };
    }

    /// Drops the first frame.
    #[inline]
    pub(super) fn drop_first(&mut self) {
        self.first += 1;
    }

    /// Builds the next packet of the next stream in round-robin order.
    #[inline]
    fn build(&mut self, at: usize, due: u64) {
        let source = &self.sources[self.turn];
        let mut which = source.cycle[(source.sequence % source.cycle.len() as u64) as usize];
        if self.number == self.next_mark {
            which += self.to_marked;
        }
        let template = &self.templates[which];
        let frame = &mut self.frames[at * FRAME_ROOM..(at + 1) * FRAME_ROOM];
        let len = template.bytes().len();
        if self.template[at] != which {
            frame[..len].copy_from_slice(template.bytes());
            self.template[at] = which;
        }
        let port = PORT_FIRST + (source.sequence % u64::from(source.flows)) as u16;
        let long = LongSignature { stream: source.id, sequence: source.sequence, departure_ns: due };
        template.fill(frame, port, self.next_id, &long);
        self.len[at] = len;
        self.port[at] = source.port;
    }

    /// Passes all frames to the ports. Consecutive frames of the same port are passed in one call. Frames
    /// that a port does not accept are not retried.
    #[inline]
    pub(super) fn hand_to(&mut self, ports: &mut [impl TxPort]) {
        let bytes = self.recording.as_ref().map_or(&self.frames[..], |recording| recording.bytes());
        let mut frames: [&[u8]; BATCH_MAX] = [&[]; BATCH_MAX];
        for (at, frame) in frames.iter_mut().enumerate().take(self.end).skip(self.first) {
            *frame = &bytes[self.start[at]..][..self.len[at]];
        }
        let mut first = self.first;
        while first < self.end {
            let port = self.port[first];
            let same = self.port[first..self.end].iter().take_while(|other| **other == port).count();
            let taken = ports[port].send(&frames[first..first + same]);
            for at in 0..same {
                self.taken[first + at] = at < taken;
            }
            first += same;
        }
    }

    /// The frames and whether they were accepted.
    #[inline]
    pub(super) fn handed(&self) -> impl Iterator<Item = Handed> {
        let due_ns = |at: usize| self.departure[at].due_ns + self.shift_ns;
        (self.first..self.end).map(move |at| Handed {
            due_ns: due_ns(at),
            len: self.len[at],
            taken: self.taken[at],
        })
    }
}
