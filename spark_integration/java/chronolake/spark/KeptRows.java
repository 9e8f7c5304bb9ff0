package chronolake.spark;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Iterator;
import java.util.Objects;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.rdd.BlockRDD;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.storage.BlockId;
import org.apache.spark.storage.RDDBlockId;
import org.apache.spark.storage.StorageLevel;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/**
 * The rows of a write that Spark gives to tasks, and not to the driver as a frame. Tasks keep them as blocks
 * of their executors, as of a persisted frame; the driver makes a frame of those of the winning attempts. If
 * an executor with blocks is lost before they are read, the write fails.
 */
final class KeptRows implements AutoCloseable {
  private static final ClassTag<InternalRow> ROW = ClassTag$.MODULE$.apply(InternalRow.class);

  private final StructType schema;
  private RDD<InternalRow> owner;

  KeptRows(StructType schema) {
    this.schema = schema;
  }

  /** The writers of the tasks of one run of the write. */
  WritersOfRows writers() {
    // Its id is that of all blocks, also of failed attempts: so they are removed together.
    owner = SparkSession.active().sparkContext().emptyRDD(ROW).persist(StorageLevel.MEMORY_AND_DISK_SER());
    return new WritersOfRows(owner.id(), schema);
  }

  /** The rows that the tasks with these messages have kept. */
  Dataset<Row> frame(WriterCommitMessage[] messages) {
    SparkSession session = SparkSession.active();
    SparkContext context = session.sparkContext();
    BlockId[] blocks =
        Arrays.stream(messages)
            .filter(Objects::nonNull)
            .map(PythonSource::content)
            .filter(number -> number.length > 0)
            .map(number -> block(owner.id(), Integer.parseInt(new String(number, StandardCharsets.US_ASCII))))
            .toArray(length -> new BlockId[length]);
    RDD<InternalRow> rows = blocks.length == 0 ? context.emptyRDD(ROW) : new BlockRDD<>(context, blocks, ROW);
    return ((org.apache.spark.sql.classic.SparkSession) session).internalCreateDataFrame(rows, schema, false);
  }

  /** Lets executors forget the rows. */
  @Override
  public void close() {
    if (owner == null) {
      return;
    }
    // A thread that is interrupted would not wait for Spark, and the rows would stay.
    boolean isInterrupted = Thread.interrupted();
    try {
      owner.unpersist(false);
      owner = null;
    } finally {
      if (isInterrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  private static BlockId block(int owner, int number) {
    return new RDDBlockId(owner, number);
  }

  /** Makes the writers of tasks, of batches and of streams. */
  record WritersOfRows(int owner, StructType schema) implements DataWriterFactory, StreamingDataWriterFactory {
    @Override
    public DataWriter<InternalRow> createWriter(int partition, long task) {
      // The number of an attempt of a task is unique in the application.
      return new Writer(owner, (int) (task & Integer.MAX_VALUE), schema);
    }

    @Override
    public DataWriter<InternalRow> createWriter(int partition, long task, long epoch) {
      return createWriter(partition, task);
    }
  }

  private static final class Writer implements DataWriter<InternalRow> {
    private final int number;
    private final BlockId block;
    private final UnsafeProjection projection;
    private boolean hasRows;

    Writer(int owner, int number, StructType schema) {
      this.number = number;
      this.block = block(owner, number);
      this.projection = UnsafeProjection.create(schema);
    }

    @Override
    public void writeAll(Iterator<InternalRow> rows) throws IOException {
      if (!rows.hasNext()) {
        return;
      }
      Iterator<InternalRow> copied = new Iterator<>() {
        @Override
        public boolean hasNext() {
          return rows.hasNext();
        }

        /** A copy: Spark gives one object again and again, which a serialiser would write once. */
        @Override
        public InternalRow next() {
          InternalRow row = rows.next();
          return row instanceof UnsafeRow ? row.copy() : projection.apply(row).copy();
        }
      };
      hasRows = true;
      if (!SparkEnv.get().blockManager().putIterator(
              block, CollectionConverters.asScala(copied), StorageLevel.MEMORY_AND_DISK_SER(), true, ROW)) {
        throw new IOException("the executor could not keep the rows of a task: is its local disk full?");
      }
    }

    /** Only the continuous trigger gives rows one by one. */
    @Override
    public void write(InternalRow row) {
      throw new UnsupportedOperationException();
    }

    /** The number of the block, nothing without rows. */
    @Override
    public WriterCommitMessage commit() {
      String text = hasRows ? Integer.toString(number) : "";
      return PythonSource.message(text.getBytes(StandardCharsets.US_ASCII));
    }

    @Override
    public void abort() {
      if (hasRows) {
        SparkEnv.get().blockManager().removeBlock(block, true);
      }
    }

    @Override
    public void close() {
      // The rows stay until the driver has written them.
    }
  }
}
