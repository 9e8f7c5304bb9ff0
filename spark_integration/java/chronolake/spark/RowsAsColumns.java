package chronolake.spark;

import java.io.IOException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.execution.RowToColumnConverter;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Rows as columnar batches, so that native partitions stay vectorised beside those of Python. */
final class RowsAsColumns implements PartitionReader<ColumnarBatch> {
  private static final int BATCH_ROWS = 4096;

  private final PartitionReader<InternalRow> rows;
  private final RowToColumnConverter converter;
  private final OnHeapColumnVector[] vectors;
  private final ColumnarBatch batch;

  RowsAsColumns(StructType read, PartitionReader<InternalRow> rows) {
    this.rows = rows;
    converter = new RowToColumnConverter(read);
    vectors = OnHeapColumnVector.allocateColumns(BATCH_ROWS, read);
    batch = new ColumnarBatch(vectors);
  }

  @Override
  public boolean next() throws IOException {
    for (OnHeapColumnVector vector : vectors) {
      vector.reset();
    }
    int count = 0;
    while (count < BATCH_ROWS && rows.next()) {
      converter.convert(rows.get(), vectors);
      count++;
    }
    batch.setNumRows(count);
    return count > 0;
  }

  @Override
  public ColumnarBatch get() {
    return batch;
  }

  @Override
  public void close() throws IOException {
    batch.close();
    rows.close();
  }
}
