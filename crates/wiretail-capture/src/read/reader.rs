//! The reader, which combines source, decompressor, buffer and format.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use wiretail_schema::run::pauses::Pauses;
use wiretail_schema::summary::Truncation;

use super::compression::Compression;
use super::detect::{self, Format, HEAD};
use super::input::Input;
use super::{Decoded, Fault, Frame, Interface, InterfaceChoice, OpenOptions, Timestamps, trailer};
use crate::error::CaptureError;

/// Counts the bytes read from the file, below the decompressor, and records whether the file itself caused an
/// error.
#[derive(Debug, Default)]
struct SourceState {
    bytes: AtomicU64,
    failed: AtomicBool,
}

struct Counted {
    source: Box<dyn Read + Send>,
    state: Arc<SourceState>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let result = self.source.read(buffer);
        match &result {
            Ok(count) => _ = self.state.bytes.fetch_add(*count as u64, Ordering::Relaxed),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.state.failed.store(true, Ordering::Relaxed),
        }
        result
    }
}

pub struct CaptureReader {
    name: String,
    input: Input,
    compression: Option<Compression>,
    format: Format,
    source: Arc<SourceState>,
    source_len: Option<u64>,
    options: OpenOptions,
    /// Bytes that the next record needs, according to the last decoding.
    need: usize,
    /// Whether the buffer contains bytes that were never decoded.
    primed: bool,
    frames: u64,
    trailers: trailer::Counts,
    truncation: Option<Truncation>,
    done: bool,
}

impl CaptureReader {
    /// Opens a file, or standard input if `path` is `-`, and reads its beginning. Compression and format are
    /// detected from the content. The name only selects among formats without a magic number.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is empty, is not a capture, or has an unsupported link
    /// type.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, CaptureError> {
        let name = path.display().to_string();
        if name == "-" {
            return Self::start(name, Box::new(io::stdin()), None, options);
        }
        let error = |source| CaptureError::Io { file: name.clone(), offset: 0, source };
        let file = File::open(path).map_err(error)?;
        let metadata = file.metadata().map_err(error)?;
        let source_len = metadata.is_file().then_some(metadata.len());
        Self::start(name, Box::new(file), source_len, options)
    }

    /// Reads from any source; errors refer to it as `name`.
    ///
    /// # Errors
    /// Same as [`open`](Self::open).
    pub fn from_reader(
        name: &str,
        reader: Box<dyn Read + Send>,
        options: &OpenOptions,
    ) -> Result<Self, CaptureError> {
        Self::start(name.to_owned(), reader, None, options)
    }

    fn start(
        name: String,
        reader: Box<dyn Read + Send>,
        source_len: Option<u64>,
        options: &OpenOptions,
    ) -> Result<Self, CaptureError> {
        let source = Arc::new(SourceState::default());
        let mut input = Input::new(Box::new(Counted { source: reader, state: Arc::clone(&source) }));
        let io_error = |source| CaptureError::Io { file: name.clone(), offset: 0, source };
        input.fill_to(HEAD).map_err(io_error)?;
        if input.bytes().is_empty() {
            return Err(CaptureError::Empty { file: name });
        }
        let compression = Compression::detect(input.bytes());
        if let Some(compression) = compression {
            input = Input::new(compression.decoder(input.into_reader()).map_err(io_error)?);
            input.fill_to(HEAD).map_err(|error| match source.failed.load(Ordering::Relaxed) {
                true => io_error(error),
                false => compression.error(&name, 0, &error),
            })?;
        }
        let (format, head_len) = detect::format(&name, compression, input.bytes(), options)?;
        input.consume(head_len);
        Ok(Self {
            name,
            input,
            compression,
            format,
            source,
            source_len,
            options: options.clone(),
            need: 0,
            primed: true,
            frames: 0,
            trailers: trailer::Counts::default(),
            truncation: None,
            done: false,
        })
    }

    /// Decodes the next buffer of frames (about 128 KiB) into `sink`. Returns `Ok(false)` at the end, without
    /// delivering a frame.
    ///
    /// A file that ends within a record or is damaged after intact frames is not an error: reading stops, and
    /// [`truncation`](Self::truncation) reports the offset and the reason.
    ///
    /// # Errors
    /// Returns an error if the source cannot be read, if no frame can be decoded from a damaged file, if a
    /// packet has no timestamp or an unsupported link type, or if the requested interface does not exist.
    pub fn read<S: FnMut(&Frame<'_>)>(&mut self, sink: &mut S) -> Result<bool, CaptureError> {
        if self.options.timestamps == Timestamps::Header {
            return self.read_frames(sink);
        }
        let mut counts = self.trailers;
        let result = self.read_frames(&mut |frame: &Frame<'_>| {
            if let Some(frame) = counts.set_timestamp(frame) {
                sink(&frame);
            }
        });
        self.trailers = counts;
        let more = result?;
        if counts.are_hopeless(!more) {
            self.done = true;
            return Err(CaptureError::NoTrailer { file: self.name.clone(), frames: counts.without });
        }
        Ok(more)
    }

    #[inline]
    fn read_frames<S: FnMut(&Frame<'_>)>(&mut self, sink: &mut S) -> Result<bool, CaptureError> {
        while !self.done {
            if self.primed {
                self.primed = false;
            } else if let Err(error) = self.input.fill(self.need) {
                self.source_failed(error)?;
                break;
            }
            let decoded = self.format.decode(self.input.bytes(), sink);
            let frames = decoded.frames;
            self.account(decoded)?;
            if frames > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Updates the counters after a call of `decode`, and determines whether it was the last call.
    fn account(&mut self, decoded: Decoded) -> Result<(), CaptureError> {
        self.input.consume(decoded.consumed);
        self.need = decoded.need;
        self.frames += decoded.frames;
        match decoded.fault {
            None if self.input.ended() && decoded.consumed == 0 => self.finish(),
            None => Ok(()),
            Some(Fault::Damage(detail)) => self.stop(detail),
            Some(fault) => {
                self.done = true;
                Err(fault.error(self.name.clone(), self.input.consumed()))
            }
        }
    }

    /// Handles the end of the source, when nothing more can be decoded.
    fn finish(&mut self) -> Result<(), CaptureError> {
        self.done = true;
        let left = self.input.bytes().len();
        let skipping = self.format.skipping();
        if left > 0 || skipping > 0 {
            let detail = match self.need {
                _ if skipping > 0 => format!("the file ends {skipping} bytes before the end of a block"),
                0 => format!("the file ends within a record's header, after {left} bytes"),
                need => format!("the file ends within a record, after {left} of its {need} bytes"),
            };
            self.stop(detail)?;
        }
        self.check_interface()
    }

    /// Checks that the requested interface exists. Interfaces may be described anywhere in the file, so this
    /// is checked at the end.
    fn check_interface(&self) -> Result<(), CaptureError> {
        let Some(wanted) = &self.options.interface else { return Ok(()) };
        if self.interfaces().iter().any(|interface| wanted.is(interface)) {
            return Ok(());
        }
        let available = match self.interfaces() {
            [] => "none".to_owned(),
            some => some.iter().map(Interface::describe).collect::<Vec<_>>().join(", "),
        };
        Err(CaptureError::NoInterface { file: self.name.clone(), wanted: wanted.to_string(), available })
    }

    /// Stops reading at the current offset: reports a truncation if there are packets to analyze, and an
    /// error otherwise.
    fn stop(&mut self, detail: String) -> Result<(), CaptureError> {
        self.done = true;
        let offset = self.input.consumed();
        if self.frames == 0 {
            return Err(CaptureError::Damaged { file: self.name.clone(), offset, detail });
        }
        self.truncation = Some(Truncation { offset, detail });
        self.check_interface()
    }

    /// If the decompressor fails although the file could be read, the data is damaged. Otherwise the file
    /// cannot be read.
    fn source_failed(&mut self, error: io::Error) -> Result<(), CaptureError> {
        self.done = true;
        match self.compression {
            Some(compression) if !self.source.failed.load(Ordering::Relaxed) => {
                let offset = self.input.consumed();
                if self.frames == 0 {
                    return Err(compression.error(&self.name, offset, &error));
                }
                self.stop(format!("the {} data is damaged: {error}", compression.name()))
            }
            _ => Err(CaptureError::Io {
                file: self.name.clone(),
                offset: self.compressed_offset(),
                source: error,
            }),
        }
    }

    /// Describes format, compression and link types for display: "pcap (ns, little endian), zstd, Ethernet".
    /// In pcapng and ERF, interfaces are described between the packets, so call this after reading packets.
    pub fn description(&self) -> String {
        let mut text = self.format.describe();
        if let Some(compression) = self.compression {
            text.push_str(", ");
            text.push_str(compression.name());
        }
        let mut links = Vec::new();
        for interface in self.chosen_interfaces() {
            let link = interface.link.map_or("unsupported link type", |link| link.name());
            if !links.contains(&link) {
                links.push(link);
            }
        }
        if !links.is_empty() {
            text.push_str(", ");
            text.push_str(&links.join(" + "));
        }
        text
    }

    /// Resolution of the format's timestamps, in ns. If interfaces differ, the coarsest one is returned.
    pub fn resolution_ns(&self) -> f64 {
        match self.options.timestamps {
            Timestamps::Trailer => trailer::RESOLUTION_NS,
            Timestamps::Header => self.chosen_interfaces().map(|i| i.resolution_ns).fold(0.0, f64::max),
        }
    }

    fn chosen_interfaces(&self) -> impl Iterator<Item = &Interface> {
        let wanted = self.options.interface.as_ref();
        self.interfaces().iter().filter(move |&interface| wanted.is_none_or(|w| w.is(interface)))
    }

    /// Source of the timestamps, if the file contains it.
    pub fn clock_source(&self) -> String {
        match self.options.timestamps {
            Timestamps::Trailer => trailer::CLOCK_SOURCE.to_owned(),
            Timestamps::Header => self.format.clock_source(),
        }
    }

    /// Packets that the tap lost so far, according to the file (pcapng interface statistics, which are
    /// usually at the end); 0 if the file does not contain this number.
    pub fn dropped(&self) -> u64 {
        self.format.dropped()
    }

    /// Pauses of the trial that the capture recorded, if the file lists them: Wiretail writes a comment into the
    /// section header of a pcapng file.
    pub fn pauses(&self) -> Pauses {
        self.format.pauses()
    }

    /// Offset and reason if reading stopped before the end; `None` otherwise.
    pub fn truncation(&self) -> Option<Truncation> {
        self.truncation.clone()
    }

    /// Interfaces seen so far, in the order of the file.
    pub fn interfaces(&self) -> &[Interface] {
        self.format.interfaces()
    }

    /// Number of frames read so far, including those of other interfaces and those without a trailer.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Number of frames skipped because they have no timestamp in their trailer.
    pub fn frames_without_trailer(&self) -> u64 {
        self.trailers.without
    }

    /// Bytes consumed of the (decompressed) capture.
    pub fn offset(&self) -> u64 {
        self.input.consumed()
    }

    /// Bytes read from the file as stored, before decompression.
    pub fn compressed_offset(&self) -> u64 {
        self.source.bytes.load(Ordering::Relaxed)
    }

    /// Length of the file as stored, if known; `None` for pipes.
    pub fn total_len(&self) -> Option<u64> {
        self.source_len
    }

    /// The options passed to [`open`](Self::open).
    pub fn options(&self) -> &OpenOptions {
        &self.options
    }

    /// Size of the read buffer, in bytes. It is bounded independently of the file's content.
    pub fn buffer_capacity(&self) -> usize {
        self.input.capacity()
    }
}

impl Fault {
    fn error(self, file: String, offset: u64) -> CaptureError {
        match self {
            Self::Damage(detail) => CaptureError::Damaged { file, offset, detail },
            Self::UnknownLinkType { number, expected, hint } => {
                CaptureError::UnknownLinkType { file, offset, number, expected, hint }
            }
            Self::NoTimestamp => CaptureError::NoTimestamp { file, offset },
        }
    }
}

impl Interface {
    /// Describes the interface for display: "0 (eth0)".
    fn describe(&self) -> String {
        match &self.name {
            Some(name) => format!("{} ({name})", self.index),
            None => self.index.to_string(),
        }
    }
}

impl InterfaceChoice {
    /// Whether `interface` is the requested one.
    pub(super) fn is(&self, interface: &Interface) -> bool {
        match self {
            Self::Index(index) => *index == interface.index,
            Self::Name(name) => interface.name.as_ref() == Some(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_support::{OwnedFrame, Pieces, collect, gzip, open, samples, zstd};

    /// All properties of a capture that are visible to callers.
    fn everything(mut reader: CaptureReader) -> (Vec<OwnedFrame>, Option<Truncation>, String, u64) {
        let frames = collect(&mut reader).unwrap();
        (frames, reader.truncation(), reader.description(), reader.offset())
    }

    proptest! {
        /// The result does not depend on how many bytes each read of the source returns, for complete and for
        /// truncated captures.
        #[test]
        fn read_sizes_do_not_matter(
            sizes in prop::collection::vec(1usize..400, 1..20),
            cut in 0usize..100,
            compression in 0usize..3,
        ) {
            for (_, sample) in samples() {
                let plain = &sample[..sample.len() - cut];
                let bytes = [|b: &[u8]| b.to_vec(), gzip, zstd][compression](plain);
                let expected = everything(open(&bytes).unwrap());
                let source = Box::new(Pieces::new(&bytes, &sizes));
                let pieces = CaptureReader::from_reader("test", source, &OpenOptions::default()).unwrap();
                prop_assert!(everything(pieces) == expected);
            }
        }
    }

    #[test]
    fn records_cross_the_buffer_end_at_every_offset() {
        for (name, sample) in samples() {
            // The file header stays; the packets repeat until they fill the buffer twice.
            let head = if name == "pcap" { 24 } else { 0 };
            let mut bytes = sample[..head].to_vec();
            while bytes.len() < 3 * super::super::input::BUFFER_LEN {
                bytes.extend(&sample[head..]);
            }
            let turns = (bytes.len() - head) / (sample.len() - head);
            let one = everything(open(&sample).unwrap()).0.len();
            let (frames, truncation, _, offset) = everything(open(&bytes).unwrap());
            assert_eq!((frames.len(), truncation, offset), (one * turns, None, bytes.len() as u64), "{name}");
        }
    }

    #[test]
    fn an_unreadable_source_is_reported_as_an_error() {
        struct Failing(std::io::Cursor<Vec<u8>>);
        impl Read for Failing {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                match self.0.read(buffer)? {
                    0 => Err(io::Error::other("the disk is gone")),
                    count => Ok(count),
                }
            }
        }
        let (_, sample) = samples().remove(0);
        let long: Vec<u8> = sample.iter().chain(sample[24..].iter().cycle().take(1 << 20)).copied().collect();
        for bytes in [long.clone(), zstd(&long)] {
            let source = Box::new(Failing(io::Cursor::new(bytes)));
            let error = CaptureReader::from_reader("f.pcap", source, &OpenOptions::default())
                .and_then(|mut reader| collect(&mut reader))
                .unwrap_err();
            assert!(matches!(error, CaptureError::Io { .. }), "{error}");
            assert!(error.to_string().contains("the disk is gone"));
        }
    }

    #[test]
    fn files_are_opened_by_name() {
        let error = CaptureReader::open(Path::new("/nonexistent/x.pcap"), &OpenOptions::default());
        let error = error.err().unwrap().to_string();
        assert!(error.starts_with("/nonexistent/x.pcap: cannot be read"), "{error}");
        let directory = CaptureReader::open(Path::new("/"), &OpenOptions::default());
        assert!(matches!(directory.err().unwrap(), CaptureError::Io { .. }));
    }

    #[test]
    fn formats_with_one_interface_reject_others() {
        for (name, sample) in samples().into_iter().filter(|(name, _)| *name != "pcapng") {
            let choice = Some(InterfaceChoice::Index(9));
            let options = OpenOptions { interface: choice, ..OpenOptions::default() };
            let source = Box::new(io::Cursor::new(sample));
            let result =
                CaptureReader::from_reader("f", source, &options).and_then(|mut reader| collect(&mut reader));
            assert!(matches!(result.unwrap_err(), CaptureError::NoInterface { .. }), "{name}");
        }
    }
}
