//! Frames that depart together, built from the templates of the streams or taken from a recording.

use std::sync::Arc;

use crate::generator::frame::{LongSignature, PORT_FIRST, Template};
use crate::generator::marks::Marks;
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
    due: [u64; BATCH_MAX],
    taken: [bool; BATCH_MAX],
    count: usize,
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
            due: [0; BATCH_MAX],
            taken: [false; BATCH_MAX],
            count: 0,
        }
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        self.count = 0;
    }

    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.count < BATCH_MAX
    }

    /// Number of frames in the batch.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Adds the next packet.
    #[inline]
    pub(super) fn push(&mut self, due: u64) {
        let at = self.count;
        self.due[at] = due;
        match &self.recording {
            Some(recording) => {
                // The schedule iterates over the same list, so this frame exists.
                let frame = recording.frames()[self.recorded];
                self.start[at] = frame.start as usize;
                self.len[at] = usize::from(frame.len);
                self.recorded += 1;
            }
            None => self.build(at, due),
        }
        self.count += 1;
    }

    /// Builds the next packet of the next stream in round-robin order.
    #[inline]
    fn build(&mut self, at: usize, due: u64) {
        let source = &mut self.sources[self.turn];
        let mut which = source.cycle[(source.sequence % source.cycle.len() as u64) as usize];
        if self.number == self.next_mark {
            which += self.to_marked;
            self.next_mark = self.marks.as_ref().map_or(u64::MAX, |marks| marks.next_from(self.number + 1));
        }
        self.number += 1;
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
        source.sequence += 1;
        self.len[at] = len;
        self.port[at] = source.port;
        self.next_id = self.next_id.wrapping_add(1);
        self.turn = if self.turn + 1 == self.sources.len() { 0 } else { self.turn + 1 };
    }

    /// Passes all frames to the ports. Consecutive frames of the same port are passed in one call. Frames
    /// that a port does not accept are not retried.
    #[inline]
    pub(super) fn hand_to(&mut self, ports: &mut [impl TxPort]) {
        let bytes = self.recording.as_ref().map_or(&self.frames[..], |recording| recording.bytes());
        let mut frames: [&[u8]; BATCH_MAX] = [&[]; BATCH_MAX];
        for (at, frame) in frames[..self.count].iter_mut().enumerate() {
            *frame = &bytes[self.start[at]..][..self.len[at]];
        }
        let mut first = 0;
        while first < self.count {
            let port = self.port[first];
            let same = self.port[first..self.count].iter().take_while(|other| **other == port).count();
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
        (0..self.count).map(|at| Handed { due_ns: self.due[at], len: self.len[at], taken: self.taken[at] })
    }
}
