//! Detects the format of a capture by its magic number. The two formats without a magic number are detected
//! by checking whether the first records are plausible.

use super::compression::Compression;
use super::erf::Erf;
use super::mscap::Mscap;
use super::pcap::{self, HeadError, Pcap};
use super::pcapng::Pcapng;
use super::{Decoded, Frame, Interface, InterfaceChoice, OpenOptions, SUPPORTED_LINKS};
use crate::error::CaptureError;

/// Number of bytes examined to detect the format.
pub(super) const HEAD: usize = 16 * 1024;

/// A capture format with its state.
#[allow(clippy::large_enum_variant, reason = "a capture has only one, and it is used in the hot loop")]
pub(super) enum Format {
    Pcap(Pcap),
    Pcapng(Pcapng),
    Mscap(Mscap),
    Erf(Erf),
}

impl Format {
    #[inline]
    pub(super) fn decode<S: FnMut(&Frame<'_>)>(&mut self, bytes: &[u8], sink: &mut S) -> Decoded {
        match self {
            Self::Pcap(pcap) => pcap.decode(bytes, sink),
            Self::Pcapng(pcapng) => pcapng.decode(bytes, sink),
            Self::Mscap(mscap) => mscap.decode(bytes, sink),
            Self::Erf(erf) => erf.decode(bytes, sink),
        }
    }

    pub(super) fn describe(&self) -> String {
        match self {
            Self::Pcap(pcap) => pcap.describe(),
            Self::Pcapng(pcapng) => pcapng.describe(),
            Self::Mscap(_) => "mscap".to_owned(),
            Self::Erf(_) => "ERF".to_owned(),
        }
    }

    pub(super) fn clock_source(&self) -> String {
        match self {
            Self::Pcap(_) => "pcap file, source not recorded".to_owned(),
            Self::Pcapng(_) => "pcapng file, source not recorded".to_owned(),
            Self::Mscap(mscap) => mscap.clock_source(),
            Self::Erf(_) => "ERF file, Endace hardware or compatible".to_owned(),
        }
    }

    pub(super) fn interfaces(&self) -> &[Interface] {
        match self {
            Self::Pcap(pcap) => pcap.interfaces(),
            Self::Pcapng(pcapng) => pcapng.interfaces(),
            Self::Mscap(mscap) => mscap.interfaces(),
            Self::Erf(erf) => erf.interfaces(),
        }
    }

    /// Number of packets that the tap has lost so far, according to the file.
    pub(super) fn dropped(&self) -> u64 {
        match self {
            Self::Pcapng(pcapng) => pcapng.dropped(),
            Self::Pcap(_) | Self::Mscap(_) | Self::Erf(_) => 0,
        }
    }

    /// Number of bytes of an irrelevant block that still have to be skipped.
    pub(super) fn skipping(&self) -> u64 {
        match self {
            Self::Pcapng(pcapng) => pcapng.skipping(),
            Self::Pcap(_) | Self::Mscap(_) | Self::Erf(_) => 0,
        }
    }
}

/// Detects the format of a capture and returns the length of its file header. `head` is the start of the
/// capture, or all of it if the capture is shorter than [`HEAD`]. At most [`HEAD`] bytes are used, so that
/// the result does not depend on how many bytes each read returns.
pub(super) fn format(
    name: &str,
    compression: Option<Compression>,
    head: &[u8],
    options: &OpenOptions,
) -> Result<(Format, usize), CaptureError> {
    let file = || name.to_owned();
    let head = &head[..head.len().min(HEAD)];
    if head.is_empty() {
        return Err(CaptureError::Empty { file: file() });
    }
    let choice = options.interface.as_ref();
    let found = if Pcap::is_magic(head) {
        open_pcap(name, head)?
    } else if Pcapng::is_magic(head) {
        (Format::Pcapng(Pcapng::new(choice.cloned())), 0)
    } else if has_extension(name, "mscap") && Mscap::is_plausible(head, true) {
        (Format::Mscap(Mscap::new()), 0)
    } else if Erf::is_plausible(head, has_extension(name, "erf")) {
        return Ok((Format::Erf(Erf::new(choice.cloned())), 0));
    } else if Mscap::is_plausible(head, false) {
        (Format::Mscap(Mscap::new()), 0)
    } else {
        return Err(unknown(file(), compression, head));
    };
    match (&found.0, choice) {
        (Format::Pcapng(_), _) | (_, None | Some(InterfaceChoice::Index(0))) => Ok(found),
        (_, Some(wanted)) => Err(CaptureError::NoInterface {
            file: file(),
            wanted: wanted.to_string(),
            available: "only one, 0, without a name".to_owned(),
        }),
    }
}

fn open_pcap(name: &str, head: &[u8]) -> Result<(Format, usize), CaptureError> {
    match Pcap::open(head) {
        Ok((pcap, len)) => Ok((Format::Pcap(pcap), len)),
        Err(HeadError::Truncated) => Err(CaptureError::Damaged {
            file: name.to_owned(),
            offset: 0,
            detail: format!(
                "the file ends within the pcap file header, after {} of its 24 bytes",
                head.len()
            ),
        }),
        Err(HeadError::UnknownLinkType(number)) => Err(CaptureError::UnknownLinkType {
            file: name.to_owned(),
            offset: pcap::LINK_TYPE_AT,
            number,
            expected: SUPPORTED_LINKS,
            hint: "record on an Ethernet interface, or with tcpdump -i any",
        }),
    }
}

/// Whether the file name, without a compression suffix, has this extension.
fn has_extension(name: &str, extension: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let name = [".gz", ".zst", ".zstd"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(&name);
    name.rsplit_once('.').is_some_and(|(_, found)| found == extension)
}

/// Magic numbers of files that are passed by mistake, with hints.
const MISTAKES: &[(&[u8], &str)] = &[
    (b"snoop\0\0\0", "it is a snoop file: convert it with editcap -F nsecpcap"),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0], "it is compressed with xz: xz -dc FILE | wiretail analyze - POST"),
    (b"BZh", "it is compressed with bzip2: bzip2 -dc FILE | wiretail analyze - POST"),
    (&[0x04, 0x22, 0x4d, 0x18], "it is compressed with lz4: lz4 -dc FILE | wiretail analyze - POST"),
    (b"PK\x03\x04", "it is a zip archive: unpack it"),
    (b"PAR1", "it is a Parquet file, which is a result and not a capture"),
    (b"GMBU", "it is a Microsoft Network Monitor file: convert it with editcap -F nsecpcap"),
    (
        &[0x34, 0xcd, 0xb2, 0xa1],
        "it is a modified pcap file (Kuznetzov): convert it with editcap -F nsecpcap",
    ),
    (
        &[0xa1, 0xb2, 0xcd, 0x34],
        "it is a modified pcap file (Kuznetzov): convert it with editcap -F nsecpcap",
    ),
    (b"\x7fELF", "it is a program"),
];

fn unknown(file: String, compression: Option<Compression>, head: &[u8]) -> CaptureError {
    let found = head.iter().take(8).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    let is_text = head.iter().take(256).all(|&byte| matches!(byte, b'\t' | b'\n' | b'\r' | 0x20..=0x7e));
    let hint = if let Some((_, hint)) = MISTAKES.iter().find(|(magic, _)| head.starts_with(magic)) {
        (*hint).to_owned()
    } else if compression.is_some() && Compression::detect(head).is_some() {
        "it is compressed twice: decompress it once".to_owned()
    } else if is_text {
        "it looks like a text file: are the arguments in order (ingress capture, then egress capture)?"
            .to_owned()
    } else if head.iter().all(|&byte| byte == 0) {
        "it starts with zeros: was the file allocated and never written?".to_owned()
    } else {
        "if it is another tool's capture, convert it with editcap -F nsecpcap".to_owned()
    };
    CaptureError::UnknownFormat { file, found, hint }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CaptureReader;
    use crate::test_support::{open, samples};

    #[test]
    fn the_name_selects_between_formats_without_magic() {
        let (_, erf) = samples().into_iter().find(|(name, _)| *name == "erf").unwrap();
        for (name, expected) in [("a.erf", "ERF"), ("a", "ERF"), ("a.mscap.gz", "mscap")] {
            let source = Box::new(std::io::Cursor::new(erf.clone()));
            let reader = CaptureReader::from_reader(name, source, &OpenOptions::default()).unwrap();
            assert!(reader.description().starts_with(expected), "{name}");
        }
    }

    #[test]
    fn detects_other_file_types() {
        let hint = |bytes: &[u8]| match open(bytes).err().unwrap() {
            CaptureError::UnknownFormat { hint, found, .. } => format!("{found}: {hint}"),
            other => panic!("{other}"),
        };
        assert!(hint(b"time;irq;count\n1;2;3\n").contains("text file"));
        assert!(hint(b"snoop\0\0\0\0\0\0\x02").starts_with("73 6e 6f 6f 70 00 00 00: it is a snoop file"));
        assert!(hint(&[0xfd, b'7', b'z', b'X', b'Z', 0, 1]).contains("xz -dc"));
        assert!(hint(&[0; 100]).contains("zeros"));
        assert!(hint(&[0xff; 100]).contains("editcap"));
        assert!(matches!(open(b"").err().unwrap(), CaptureError::Empty { .. }));
    }

    #[test]
    fn extensions_are_found_before_compression_suffixes() {
        assert!(has_extension("a/b.mscap", "mscap"));
        assert!(has_extension("b.MSCAP.zst", "mscap"));
        assert!(has_extension("b.erf.gz", "erf"));
        assert!(!has_extension("mscap", "mscap"));
        assert!(!has_extension("b.mscap.pcap", "mscap"));
    }
}
