package chronolake.spark;

import java.io.IOException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DeltaWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Gives the changed rows of a task to a Python worker. Spark hands them over one by one, and Python takes
 * an iterator, so the rows of a task wait in a local file until the last one has come.
 */
final class ChangeWriter implements DeltaWriter<InternalRow> {
  private static final int DELETED = 0;
  private static final int UPDATED = 1;
  private static final int INSERTED = 2;
  private static final InternalRow NOTHING = new GenericInternalRow(new Object[3]);

  private final DataWriter<InternalRow> python;
  private final UnsafeProjection projection;
  private final JoinedRow joined = new JoinedRow();
  private final InternalRow noValues;
  private final RowSpill rows;

  ChangeWriter(DataWriter<InternalRow> python, StructType schema) {
    this.python = python;
    this.projection = UnsafeProjection.create(schema);
    this.noValues = new GenericInternalRow(new Object[schema.size() - 4]);
    this.rows = new RowSpill(schema.size());
  }

  /** The columns of the rows that Python gets: the change, where the stored row is, and its new values. */
  static StructType rows(StructType table) {
    StructType rows = new StructType()
                          .add("_chronolake_change", DataTypes.IntegerType)
                          .add("_hoodie_record_key", DataTypes.StringType)
                          .add("_hoodie_partition_path", DataTypes.StringType)
                          .add("_hoodie_file_name", DataTypes.StringType);
    for (StructField field : table.asNullable().fields()) {
      rows = rows.add(field);
    }
    return rows;
  }

  @Override
  public void delete(InternalRow metadata, InternalRow id) throws IOException {
    add(DELETED, id, metadata, noValues);
  }

  @Override
  public void update(InternalRow metadata, InternalRow id, InternalRow row) throws IOException {
    add(UPDATED, id, metadata, row);
  }

  @Override
  public void insert(InternalRow row) throws IOException {
    add(INSERTED, NOTHING, NOTHING, row);
  }

  private void add(int change, InternalRow id, InternalRow metadata, InternalRow values) throws IOException {
    Object key = id.isNullAt(0) ? null : id.getUTF8String(0);
    Object path = id.isNullAt(1) ? null : id.getUTF8String(1);
    Object file = metadata.isNullAt(0) ? null : metadata.getUTF8String(0);
    InternalRow place = new GenericInternalRow(new Object[] {change, key, path, file});
    rows.add(projection.apply(joined.apply(place, values)));
  }

  @Override
  public WriterCommitMessage commit() throws IOException {
    try {
      python.writeAll(rows.iterator());
    } catch (RuntimeException e) {
      throw Refusal.inMessageOf(e);
    }
    return python.commit();
  }

  @Override
  public void abort() throws IOException {
    python.abort();
  }

  @Override
  public void close() throws IOException {
    rows.close();
    python.close();
  }
}
