use std::fs::File;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};

use super::*;
use crate::write::TestFolder;

const EVERYTHING: Sample = Sample {
    pre_index: Some(u64::MAX),
    pre_ns: Some(i64::MIN),
    post_ns: Some(i64::MAX),
    delay_ns: Some(-1),
    key: u64::MAX,
    flow: Some(u32::MAX),
    kind: SampleKind::Negative,
};

/// A sample whose columns all depend on `number`.
fn sample(number: u64) -> Sample {
    let kind = SampleKind::ALL[number as usize % 8];
    let timestamp = 1_700_000_000_000_000_000 + number as i64 * 100_000;
    let (pre, post) = (kind != SampleKind::Extra, kind != SampleKind::Lost);
    Sample {
        pre_index: pre.then_some(number),
        pre_ns: pre.then_some(timestamp),
        post_ns: post.then_some(timestamp + 3100),
        delay_ns: (pre && post).then_some(3100),
        key: number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        flow: (!number.is_multiple_of(3)).then_some(number as u32 % 7),
        kind,
    }
}

/// The expected fields of a sample's row.
fn fields(sample: &Sample) -> Vec<Field> {
    let long = |value: Option<i64>| value.map_or(Field::Null, Field::Long);
    vec![
        sample.pre_index.map_or(Field::Null, Field::ULong),
        long(sample.pre_ns),
        long(sample.post_ns),
        long(sample.delay_ns),
        Field::ULong(sample.key),
        sample.flow.map_or(Field::Null, Field::UInt),
        Field::Str(sample.kind.name().into()),
    ]
}

fn write(path: &Path, samples: impl Iterator<Item = Sample>) {
    let mut writer = SamplesWriter::create(path, [("title", "pre.pcap post.pcap")]).unwrap();
    for sample in samples {
        writer.push(&sample).unwrap();
    }
    writer.finish().unwrap();
}

fn columns(row: &Row) -> Vec<Field> {
    row.get_column_iter().map(|(_, field)| field.clone()).collect()
}

#[test]
fn rows_read_back() {
    let folder = TestFolder::new("samples-round-trip");
    let path = folder.file("samples.parquet");
    let count = ROWS_PER_GROUP as u64 + 1000;
    let samples = || (0..count).map(sample).chain([EVERYTHING]);
    write(&path, samples());

    let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    assert_eq!(reader.num_row_groups(), 2);
    let mut rows = reader.get_row_iter(None).unwrap();
    for expected in samples() {
        assert_eq!(columns(&rows.next().unwrap().unwrap()), fields(&expected));
    }
    assert!(rows.next().is_none());
    assert_eq!(folder.names(), ["samples.parquet"]);
}

#[test]
fn metadata_and_schema_are_in_the_file() {
    let folder = TestFolder::new("samples-metadata");
    let path = folder.file("samples.parquet");
    write(&path, std::iter::empty());

    let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let metadata = reader.metadata().file_metadata();
    assert_eq!(metadata.num_rows(), 0);
    let pairs: Vec<_> = metadata.key_value_metadata().unwrap().iter().collect();
    let pair = |at: usize| (pairs[at].key.as_str(), pairs[at].value.as_deref().unwrap());
    assert_eq!(pair(0), (SCHEMA_KEY, SAMPLES_SCHEMA));
    assert_eq!(pair(1), ("title", "pre.pcap post.pcap"));
    let names: Vec<_> = metadata.schema_descr().columns().iter().map(|c| c.name().to_owned()).collect();
    assert_eq!(names, ["pre_index", "pre_ns", "post_ns", "delay_ns", "key", "flow", "kind"]);
}

#[test]
fn columns_use_the_intended_encodings() {
    let folder = TestFolder::new("samples-encoding");
    let path = folder.file("samples.parquet");
    write(&path, (0..10_000).map(sample));

    let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    for column in reader.metadata().row_group(0).columns() {
        let name = column.column_descr().name();
        assert!(matches!(column.compression(), Compression::ZSTD(_)), "{name}");
        let delta = column.encodings().any(|encoding| encoding == Encoding::DELTA_BINARY_PACKED);
        assert_eq!(delta, DELTA_ENCODED.contains(&name), "{name}");
        assert_eq!(column.dictionary_page_offset().is_some(), !delta, "{name}");
    }
}

#[test]
fn an_unfinished_table_leaves_no_file() {
    let folder = TestFolder::new("samples-unfinished");
    let path = folder.file("samples.parquet");
    let mut writer = SamplesWriter::create(&path, []).unwrap();
    for number in 0..ROWS_PER_GROUP as u64 + 1 {
        writer.push(&sample(number)).unwrap();
    }
    drop(writer);
    assert!(folder.names().is_empty());
}

#[test]
fn errors_name_the_path() {
    let folder = TestFolder::new("samples-errors");
    let path = folder.file("missing/samples.parquet");
    let error = SamplesWriter::create(&path, []).unwrap_err();
    assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");

    let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
    let error = parquet_error(&path, ParquetError::from(full));
    assert!(matches!(error, WriteError::Io { .. }), "{error}");
}

#[test]
fn kinds_are_numbered_in_order() {
    for (number, kind) in SampleKind::ALL.into_iter().enumerate() {
        assert_eq!(kind as usize, number);
    }
}
