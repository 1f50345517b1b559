//! Writes `samples.parquet`: the outcome of every packet, one row each.
//!
//! Rows are collected column by column and written in groups, so memory is limited to one group regardless of
//! the capture's length. Timestamps and indices increase almost steadily, so delta encoding keeps them small. A
//! general compressor would treat them as noise.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as PhysicalType, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type};

use super::{AtomicFile, WriteError};

/// Name and version of the table. The version changes if the table is incompatible with older readers.
pub const SAMPLES_SCHEMA: &str = "wiretail.samples/1";

/// Metadata key for [`SAMPLES_SCHEMA`].
pub const SCHEMA_KEY: &str = "wiretail.schema";

/// Number of rows held in memory and written as one group.
pub const ROWS_PER_GROUP: usize = 128 * 1024;

/// Outcome of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Position in the ingress capture among packets with a key, from 0; `None` if the packet was not seen
    /// there.
    pub pre_index: Option<u64>,
    /// Time at the ingress tap, in ns since the capture clock's epoch.
    pub pre_ns: Option<i64>,
    /// Time at the egress tap, in ns since the capture clock's epoch.
    pub post_ns: Option<i64>,
    /// Egress minus ingress timestamp, in ns.
    pub delay_ns: Option<i64>,
    /// Key of the packet.
    pub key: u64,
    /// Index of the flow in the flow table.
    pub flow: Option<u32>,
    pub kind: SampleKind,
}

/// Outcome of matching a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleKind {
    /// Seen at both taps, later at the egress, within the window.
    Matched,
    /// Seen at both taps with the same timestamp.
    Zero,
    /// Seen at the egress before the ingress.
    Negative,
    /// Seen at the egress after the end of the window.
    OutOfWindow,
    /// Seen at the ingress only.
    Lost,
    /// Seen at the egress only.
    Extra,
    /// A further ingress packet with the same key.
    DuplicatePre,
    /// A further egress packet with the same key.
    DuplicatePost,
}

impl SampleKind {
    const ALL: [Self; 8] = [
        Self::Matched,
        Self::Zero,
        Self::Negative,
        Self::OutOfWindow,
        Self::Lost,
        Self::Extra,
        Self::DuplicatePre,
        Self::DuplicatePost,
    ];

    /// Returns the text in the column `kind`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Matched => "matched",
            Self::Zero => "zero",
            Self::Negative => "negative",
            Self::OutOfWindow => "out-of-window",
            Self::Lost => "lost",
            Self::Extra => "extra",
            Self::DuplicatePre => "duplicate-pre",
            Self::DuplicatePost => "duplicate-post",
        }
    }
}

/// Writes `samples.parquet`. The file appears under its name only after [`SamplesWriter::finish`].
#[derive(Debug)]
pub struct SamplesWriter {
    writer: SerializedFileWriter<AtomicFile>,
    rows: Rows,
}

impl SamplesWriter {
    /// Creates a table named `path`, with these pairs in its metadata in addition to the schema's name.
    pub fn create<'a>(
        path: &Path,
        metadata: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, WriteError> {
        let file = AtomicFile::create(path)?;
        let metadata = std::iter::once((SCHEMA_KEY, SAMPLES_SCHEMA)).chain(metadata);
        let writer = schema()
            .and_then(|schema| {
                SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties(metadata)?))
            })
            .map_err(|source| parquet_error(path, source))?;
        Ok(Self { writer, rows: Rows::new() })
    }

    pub fn push(&mut self, sample: &Sample) -> Result<(), WriteError> {
        self.rows.push(sample);
        if self.rows.len() == ROWS_PER_GROUP { self.write_group() } else { Ok(()) }
    }

    /// Writes the last rows and renames the file to its final name.
    pub fn finish(mut self) -> Result<(), WriteError> {
        if self.rows.len() > 0 {
            self.write_group()?;
        }
        let path = self.writer.inner().path().to_owned();
        self.writer.into_inner().map_err(|source| parquet_error(&path, source))?.commit()
    }

    fn write_group(&mut self) -> Result<(), WriteError> {
        let written = self.writer.next_row_group().and_then(|group| self.rows.write(group));
        self.rows.clear();
        written.map_err(|source| parquet_error(self.writer.inner().path(), source))
    }
}

/// Reports errors of the file system, such as a full disk or a removed folder, as I/O errors instead of
/// Parquet errors.
fn parquet_error(path: &Path, source: ParquetError) -> WriteError {
    let path = path.to_owned();
    match source {
        ParquetError::External(error) => match error.downcast::<std::io::Error>() {
            Ok(source) => WriteError::Io { path, source: *source },
            Err(error) => WriteError::Parquet { path, source: ParquetError::External(error) },
        },
        source => WriteError::Parquet { path, source },
    }
}

/// Columns with almost steadily increasing values.
const DELTA_ENCODED: [&str; 4] = ["pre_index", "pre_ns", "post_ns", "key"];

fn schema() -> ParquetResult<Type> {
    let unsigned = |bits| Some(LogicalType::integer(bits, false));
    let column = |name: &str, physical, logical, repetition| {
        let column = Type::primitive_type_builder(name, physical);
        column.with_logical_type(logical).with_repetition(repetition).build().map(Arc::new)
    };
    let (required, optional) = (Repetition::REQUIRED, Repetition::OPTIONAL);
    let columns = vec![
        column("pre_index", PhysicalType::INT64, unsigned(64), optional)?,
        column("pre_ns", PhysicalType::INT64, None, optional)?,
        column("post_ns", PhysicalType::INT64, None, optional)?,
        column("delay_ns", PhysicalType::INT64, None, optional)?,
        column("key", PhysicalType::INT64, unsigned(64), required)?,
        column("flow", PhysicalType::INT32, unsigned(32), optional)?,
        column("kind", PhysicalType::BYTE_ARRAY, Some(LogicalType::String), required)?,
    ];
    Type::group_type_builder("samples").with_fields(columns).build()
}

fn properties<'a>(metadata: impl Iterator<Item = (&'a str, &'a str)>) -> ParquetResult<WriterProperties> {
    let metadata = metadata.map(|(key, value)| KeyValue::new(key.to_owned(), value.to_owned()));
    let mut properties = WriterProperties::builder()
        .set_created_by(format!("wiretail {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        // The offset index is disabled because the page indices of all groups would be kept in memory until
        // the end.
        .set_offset_index_disabled(true)
        .set_key_value_metadata(Some(metadata.collect()));
    for name in DELTA_ENCODED {
        let path = ColumnPath::from(name);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    Ok(properties.build())
}

/// The rows of a group, by column in the order of [`schema`].
#[derive(Debug)]
struct Rows {
    pre_index: Optional<i64>,
    pre_ns: Optional<i64>,
    post_ns: Optional<i64>,
    delay_ns: Optional<i64>,
    key: Vec<i64>,
    flow: Optional<i32>,
    kind: Vec<ByteArray>,
    /// The texts of [`SampleKind::ALL`], shared by the rows.
    kinds: [ByteArray; 8],
}

impl Rows {
    fn new() -> Self {
        Self {
            pre_index: Optional::new(),
            pre_ns: Optional::new(),
            post_ns: Optional::new(),
            delay_ns: Optional::new(),
            key: Vec::with_capacity(ROWS_PER_GROUP),
            flow: Optional::new(),
            kind: Vec::with_capacity(ROWS_PER_GROUP),
            // Static, so that cloning for a row needs no reference counting.
            kinds: SampleKind::ALL.map(|kind| Bytes::from_static(kind.name().as_bytes()).into()),
        }
    }

    fn len(&self) -> usize {
        self.key.len()
    }

    fn push(&mut self, sample: &Sample) {
        // Parquet stores unsigned numbers in the bits of signed numbers.
        self.pre_index.push(sample.pre_index.map(u64::cast_signed));
        self.pre_ns.push(sample.pre_ns);
        self.post_ns.push(sample.post_ns);
        self.delay_ns.push(sample.delay_ns);
        self.key.push(sample.key.cast_signed());
        self.flow.push(sample.flow.map(u32::cast_signed));
        self.kind.push(self.kinds[sample.kind as usize].clone());
    }

    fn write(&self, mut group: SerializedRowGroupWriter<'_, AtomicFile>) -> ParquetResult<()> {
        self.pre_index.write::<Int64Type>(&mut group)?;
        self.pre_ns.write::<Int64Type>(&mut group)?;
        self.post_ns.write::<Int64Type>(&mut group)?;
        self.delay_ns.write::<Int64Type>(&mut group)?;
        write_column::<Int64Type>(&mut group, &self.key, None)?;
        self.flow.write::<Int32Type>(&mut group)?;
        write_column::<ByteArrayType>(&mut group, &self.kind, None)?;
        group.close().map(|_| ())
    }

    fn clear(&mut self) {
        self.pre_index.clear();
        self.pre_ns.clear();
        self.post_ns.clear();
        self.delay_ns.clear();
        self.key.clear();
        self.flow.clear();
        self.kind.clear();
    }
}

/// A nullable column: the values that are present, and for each row whether it has a value.
#[derive(Debug)]
struct Optional<T> {
    values: Vec<T>,
    levels: Vec<i16>,
}

impl<T> Optional<T> {
    fn new() -> Self {
        Self { values: Vec::with_capacity(ROWS_PER_GROUP), levels: Vec::with_capacity(ROWS_PER_GROUP) }
    }

    fn push(&mut self, value: Option<T>) {
        self.levels.push(i16::from(value.is_some()));
        self.values.extend(value);
    }

    fn write<D: DataType<T = T>>(
        &self,
        group: &mut SerializedRowGroupWriter<'_, AtomicFile>,
    ) -> ParquetResult<()> {
        write_column::<D>(group, &self.values, Some(&self.levels))
    }

    fn clear(&mut self) {
        self.values.clear();
        self.levels.clear();
    }
}

fn write_column<D: DataType>(
    group: &mut SerializedRowGroupWriter<'_, AtomicFile>,
    values: &[D::T],
    levels: Option<&[i16]>,
) -> ParquetResult<()> {
    let next = group.next_column()?;
    let mut column = next.ok_or_else(|| ParquetError::General("more columns than the schema has".into()))?;
    column.typed::<D>().write_batch(values, levels, None)?;
    column.close()
}

#[cfg(test)]
mod tests;
