package chronolake.spark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.ref.Cleaner;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.execution.streaming.sources.ForeachBatchSink;
import org.apache.spark.sql.streaming.OutputMode;
import scala.Function2;
import scala.runtime.BoxedUnit;

/**
 * Where a streaming query writes a table: the Python process writes each batch exactly once, as the
 * function for {@code foreachBatch} does.
 */
final class TableSink implements Sink {
  private static final Cleaner UNUSED = Cleaner.create();

  private final ChronolakeCatalog metastore;
  private final String id;
  private final String tableId;
  private final String description;

  TableSink(Map<String, String> options, boolean isPartitioned, OutputMode mode) {
    this(options, isPartitioned, mode, null);
  }

  /** The sink of a query that writes the table with this id, and no other one of its name. */
  TableSink(Map<String, String> options, OutputMode mode, String tableId) {
    this(options, false, mode, tableId);
  }

  private TableSink(Map<String, String> options, boolean isPartitioned, OutputMode mode, String tableId) {
    this.tableId = tableId;
    metastore = ChronolakeCatalog.ofFormat(PythonSource.NAME, options);
    ObjectNode request = FormatCatalog.given(options);
    request.put("output_mode", mode.toString()).put("is_partitioned", isPartitioned);
    id = metastore.ask("new_sink", request).asText();
    description = PythonSource.NAME + " " + new FormatCatalog.Named(options);
    // Spark does not say when a query has ended.
    UNUSED.register(this, new End(id));
  }

  /** Refuses rows that do not fit the options of a query, as a condition of deletes. */
  static void check(String schema, Map<String, String> options) {
    ChronolakeCatalog.ofFormat(PythonSource.NAME, options)
        .ask("check_rows", FormatCatalog.given(options).put("schema", schema));
  }

  @Override
  public void addBatch(long batch, Dataset<Row> rows) {
    // The plan of a batch can run only once: Spark's sink makes a frame of it that can be read again.
    Function2<Dataset<Row>, Object, BoxedUnit> write = (frame, ignored) -> {
      write(batch, frame);
      return BoxedUnit.UNIT;
    };
    new ForeachBatchSink<>(write, ExpressionEncoder.apply(rows.schema())).addBatch(batch, rows);
  }

  /** What the progress of a query shows. */
  @Override
  public String toString() {
    return description;
  }

  /** Writes a batch, as a frame that can be read again. */
  void write(long batch, Dataset<Row> frame) {
    ObjectNode request = PythonProcess.request().put("sink", id).put("batch", batch);
    request.put("table_id", tableId);
    try {
      if (metastore.askWithFrame(PythonProcess.WRITE_BATCH, request, frame).asBoolean()) {
        return;
      }
    } catch (Refusal refusal) {
      if (!refusal.code().equals(Refusal.INTERRUPTED)) {
        throw refusal;
      }
    }
    throw TableSink.<RuntimeException>unchecked(new InterruptedException("the query was stopped"));
  }

  /** Spark knows by the class of an exception that a query was stopped. */
  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E unchecked(Throwable thrown) throws E {
    throw (E) thrown;
  }

  private record End(String id) implements Runnable {
    @Override
    public void run() {
      PythonProcess.tell("end_sink", PythonProcess.request().put("sink", id));
    }
  }
}
