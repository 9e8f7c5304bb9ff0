package chronolake.spark;

import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.StructType;

/**
 * A batch of {@code df.writeStream.toTable}: tasks keep its rows, of which the sink of {@code
 * format("chronolake")} then gets a frame.
 */
final class StreamBatches implements StreamingWrite {
  private final ChronolakeTable table;
  private final Map<String, String> options;
  private final OutputMode mode;
  private final KeptRows kept;

  StreamBatches(ChronolakeTable table, Map<String, String> options, StructType schema, OutputMode mode) {
    this.table = table;
    this.options = options;
    this.mode = mode;
    this.kept = new KeptRows(schema);
  }

  /** Makes the sink with the first batch, so a query that cannot be written is refused before its tasks run. */
  @Override
  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
    String isContinuous = SparkSession.active().sparkContext().getLocalProperty("__is_continuous_processing");
    if (Boolean.parseBoolean(isContinuous)) {
      throw new Refusal("invalid-option",
          "the trigger continuous has no batches that could complete exactly once: use processingTime or"
              + " availableNow");
    }
    table.sink(options, mode);
    return kept.writers();
  }

  @Override
  public void commit(long batch, WriterCommitMessage[] messages) {
    try (kept) {
      table.sink(options, mode).write(batch, kept.frame(messages));
    }
  }

  @Override
  public void abort(long batch, WriterCommitMessage[] messages) {
    kept.close();
  }

  @Override
  public String toString() {
    return PythonSource.NAME + " " + table.name() + " (stream)";
  }
}
