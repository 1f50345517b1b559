//! The initramfs archive: cpio in `newc` format, as described in the kernel's
//! Documentation/driver-api/early-userspace/buffer-format.rst.

use std::io::{self, Write};

/// Name of the last entry of an archive.
const TRAILER: &str = "TRAILER!!!";
const FOLDER: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

/// Writes an archive. A folder must be written before its content.
#[derive(Debug)]
pub(super) struct Archive<W> {
    output: W,
    written: u64,
    number: u32,
}

impl<W: Write> Archive<W> {
    pub(super) fn new(output: W) -> Self {
        Archive { output, written: 0, number: 0 }
    }

    /// `path` must not start with a slash.
    pub(super) fn folder(&mut self, path: &str) -> io::Result<()> {
        self.entry(path, FOLDER | 0o755, &[])
    }

    pub(super) fn link(&mut self, path: &str, target: &str) -> io::Result<()> {
        self.entry(path, LINK | 0o777, target.as_bytes())
    }

    pub(super) fn file(&mut self, path: &str, executable: bool, content: &[u8]) -> io::Result<()> {
        self.entry(path, FILE | if executable { 0o755 } else { 0o644 }, content)
    }

    /// Writes the trailer.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.number = 0;
        self.entry(TRAILER, 0, &[])?;
        self.output.flush()?;
        Ok(self.output)
    }

    /// Writes an entry: the magic number and thirteen numbers of eight hexadecimal digits, then the name with
    /// a NUL byte, then the content. Name and content are each padded to a multiple of four bytes.
    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        let too_large = |_| io::Error::from(io::ErrorKind::FileTooLarge);
        let len = u32::try_from(content.len()).map_err(too_large)?;
        let name_len = u32::try_from(path.len() + 1).map_err(too_large)?;
        self.number += u32::from(path != TRAILER);
        // Inode, mode, owner, group, links, time, size, device (two), special device (two), name length,
        // checksum.
        let fields = [self.number, mode, 0, 0, 1, 0, len, 0, 0, 0, 0, name_len, 0];
        let mut header = String::from("070701");
        for field in fields {
            header.push_str(&format!("{field:08x}"));
        }
        self.write(header.as_bytes())?;
        self.write(path.as_bytes())?;
        self.write(&[0])?;
        self.pad()?;
        self.write(content)?;
        self.pad()
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        self.output.write_all(bytes)
    }

    fn pad(&mut self) -> io::Result<()> {
        let missing = (4 - self.written % 4) % 4;
        self.write(&[0; 3][..missing as usize])
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn archive_is_readable_by_cpio() {
        let mut archive = Archive::new(Vec::new());
        archive.folder("a").expect("written");
        archive.file("a/odd", true, b"12345").expect("written");
        archive.link("a/link", "odd").expect("written");
        archive.file("a/empty", false, b"").expect("written");
        let bytes = archive.finish().expect("ended");
        assert_eq!(bytes.len() % 4, 0);
        for program in [&["cpio"][..], &["busybox", "cpio"]] {
            let Some(path) = super::super::super::installed(program[0]) else {
                println!("SKIPPED: archive_is_readable_by_cpio: no {}", program[0]);
                continue;
            };
            let folder = tempfile::tempdir().expect("a folder");
            let mut command = Command::new(path);
            command.args(&program[1..]).arg("-id").current_dir(folder.path());
            let mut child = command.stdin(Stdio::piped()).spawn().expect("started");
            child.stdin.take().expect("a pipe").write_all(&bytes).expect("written");
            assert!(child.wait().expect("ended").success());
            let read = |name: &str| std::fs::read(folder.path().join("a").join(name)).expect("unpacked");
            assert_eq!(
                (read("odd"), read("link"), read("empty")),
                (b"12345".into(), b"12345".into(), b"".into())
            );
        }
    }
}
