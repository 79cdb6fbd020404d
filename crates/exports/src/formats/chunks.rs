//! Cuts a stream of rows into chunks. Where the cuts fall follows from the rows alone, not from how they arrive.

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use service::batch_exports::destination::FileFormat;

use super::format::Format;

/// Cuts fall at multiples of this many rows.
const GRAIN: usize = 1024;
const MAX_ROWS: usize = 65_536;
/// What rows of a chunk weigh at most, give or take a grain. Of text a second copy is made, so there it is less.
const MAX_WEIGHT: usize = 8 * 1024 * 1024;
const MAX_WEIGHT_OF_PARQUET: usize = 32 * 1024 * 1024;
const LEAST_WEIGHT: usize = 256 * 1024;
/// Rows that weigh more than this on average are heavy. A grain of them would be gigabytes, so a chunk of them is cut where it weighs this.
const HEAVY_ROW: usize = 64 * 1024;
const MAX_WEIGHT_OF_HEAVY: usize = 8 * 1024 * 1024;
/// In a longer text it is counted what becomes longer when it is encoded.
const LONG_TEXT: usize = 4096;

#[derive(Debug)]
pub(super) struct Chunks {
    most_weight: usize,
    gathered: Vec<RecordBatch>,
    rows: usize,
    weight: usize,
}

/// Rows that are encoded in one go.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) batches: Vec<RecordBatch>,
    pub(super) rows: usize,
    pub(super) weight: usize,
}

impl Chunk {
    /// Others of its kind are not to be in memory at the same time.
    pub(super) fn is_heavy(&self) -> bool {
        is_heavy(self.rows, self.weight)
    }
}

fn is_heavy(rows: usize, weight: usize) -> bool {
    weight >= MAX_WEIGHT_OF_HEAVY && weight / rows.max(1) > HEAVY_ROW
}

impl Chunks {
    pub(super) fn new(format: Format) -> Self {
        let most = match format.file_format {
            FileFormat::Parquet => MAX_WEIGHT_OF_PARQUET,
            FileFormat::JSONLines | FileFormat::Csv => MAX_WEIGHT,
        };
        // A file ends with the chunk that fills it, so chunks of a small file are small.
        let half_a_file = |largest: u64| usize::try_from(largest / 2).unwrap_or(usize::MAX);
        let fitting = format.largest_file.map_or(most, half_a_file);
        Self {
            most_weight: fitting.clamp(LEAST_WEIGHT, most),
            gathered: Vec::new(),
            rows: 0,
            weight: 0,
        }
    }

    /// Takes rows and gives out the chunks that are full.
    pub(super) fn push(&mut self, batch: &RecordBatch) -> Vec<Chunk> {
        let mut full = Vec::new();
        let (mut start, mut seen) = (0, 0);
        while seen < batch.num_rows() {
            let step = (GRAIN - self.rows % GRAIN).min(batch.num_rows() - seen);
            let (step, added) = self.step(batch, seen, step);
            self.weight += added;
            self.rows += step;
            seen += step;
            let is_at_cut = self.rows.is_multiple_of(GRAIN);
            let is_full = is_at_cut && (self.rows >= MAX_ROWS || self.weight >= self.most_weight);
            if is_full || is_heavy(self.rows, self.weight) {
                self.gathered.push(batch.slice(start, seen - start));
                start = seen;
                full.extend(self.rest());
            }
        }
        if start < seen {
            self.gathered.push(batch.slice(start, seen - start));
        }
        full
    }

    /// How many of these rows come next, and what they weigh: those up to the one that makes the chunk heavy. It is looked for row by row
    /// where there can be one: what the rows weigh together does not tell, as that depends on how they arrive.
    fn step(&self, batch: &RecordBatch, start: usize, rows: usize) -> (usize, usize) {
        let all = weight(batch, start, rows);
        if !is_heavy(self.rows + 1, self.weight + all) {
            return (rows, all);
        }
        let mut taken = 0;
        for row in 0..rows {
            taken += weight(batch, start + row, 1);
            if is_heavy(self.rows + row + 1, self.weight + taken) {
                return (row + 1, taken);
            }
        }
        (rows, all)
    }

    /// What is left, if anything.
    pub(super) fn rest(&mut self) -> Option<Chunk> {
        let batches = std::mem::take(&mut self.gathered);
        let rows = std::mem::take(&mut self.rows);
        let weight = std::mem::take(&mut self.weight);
        (rows > 0).then_some(Chunk { batches, rows, weight })
    }
}

/// About as many bytes as the rows hold.
pub(super) fn weight_of(batches: &[RecordBatch]) -> usize {
    let whole = |batch: &RecordBatch| weight(batch, 0, batch.num_rows());
    batches.iter().map(whole).sum()
}

fn weight(batch: &RecordBatch, start: usize, rows: usize) -> usize {
    let names: usize = batch.schema_ref().fields().iter().map(|field| field.name().len()).sum();
    let values = |column: &dyn Array| match column.data_type() {
        DataType::Utf8 => {
            let text = column.as_string::<i32>();
            let offsets = text.value_offsets();
            let length = usize::try_from(offsets[start + rows] - offsets[start]).expect("offsets only grow");
            // Most batches have no long text, and are not looked through.
            let rows = if length > LONG_TEXT { start..start + rows } else { 0..0 };
            let long = rows.map(|row| text.value(row)).filter(|text| text.len() > LONG_TEXT);
            length + long.map(escapes).sum::<usize>()
        }
        _ => 8 * rows,
    };
    names * rows + batch.columns().iter().map(|column| values(column)).sum::<usize>()
}

/// By how many bytes a text grows as JSON: a control character is written as six.
fn escapes(text: &str) -> usize {
    let grows = |byte: u8| match byte {
        0..0x20 => 5,
        b'"' | b'\\' => 1,
        _ => 0,
    };
    text.bytes().map(grows).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::StringArray;

    use super::*;

    fn sizes(step: usize, format: Format) -> Vec<usize> {
        let text = |number: usize| "x".repeat(number % 300);
        let column = StringArray::from_iter_values((0..100_000).map(text));
        let whole = RecordBatch::try_from_iter([("text", Arc::new(column) as _)]).expect("one column");
        let mut chunks = Chunks::new(format);
        let mut sizes = Vec::new();
        for start in (0..whole.num_rows()).step_by(step) {
            let batch = whole.slice(start, step.min(whole.num_rows() - start));
            sizes.extend(chunks.push(&batch).iter().map(|chunk| chunk.rows));
        }
        sizes.extend(chunks.rest().map(|chunk| chunk.rows));
        sizes
    }

    /// A grain of the largest rows there are would be 16 GiB.
    #[test]
    fn a_chunk_of_very_large_rows_is_cut_early() {
        // Of every second one, encoding makes six times as much.
        let long = ["x", "\u{1}"].map(|text| text.repeat(1 << 20));
        let column = StringArray::from_iter_values((0..50).map(|number| &long[number % 2]));
        let whole = RecordBatch::try_from_iter([("text", Arc::new(column) as _)]).expect("one column");
        let format = Format {
            file_format: FileFormat::JSONLines,
            compression: None,
            largest_file: None,
        };
        let mut expected = None;
        for step in [1, 7, 50] {
            let mut chunks = Chunks::new(format);
            let mut sizes = Vec::new();
            for start in (0..50).step_by(step) {
                let batch = whole.slice(start, step.min(50 - start));
                sizes.extend(chunks.push(&batch).iter().map(|chunk| chunk.rows));
            }
            sizes.extend(chunks.rest().map(|chunk| chunk.rows));
            assert_eq!(*expected.get_or_insert(sizes.clone()), sizes);
            assert!(sizes.iter().all(|&rows| rows <= 3), "{sizes:?}");
        }
    }

    #[test]
    fn cuts_do_not_depend_on_how_rows_arrive() {
        let format = |file_format, largest_file| Format {
            file_format,
            compression: None,
            largest_file,
        };
        for format in [
            format(FileFormat::Parquet, None),
            format(FileFormat::JSONLines, Some(1024 * 1024)),
        ] {
            let expected = sizes(100_000, format);
            assert!(expected.len() > 1);
            assert_eq!(expected.iter().sum::<usize>(), 100_000);
            for step in [1000, 1024, 8192, 33_333] {
                assert_eq!(sizes(step, format), expected);
            }
        }
    }
}
