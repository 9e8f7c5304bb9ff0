package chronolake.spark;

import java.util.EnumSet;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.PythonBatchWrite;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Spark's data sources in Python: workers read slices, and write files. */
final class PythonSource {
  static final String NAME = "chronolake";

  private PythonSource() {}

  /** The scan of slices that Python workers merge: {@code plan} is a text of the Python process. */
  static Scan scan(StructType read, String plan) {
    CaseInsensitiveStringMap options = new CaseInsensitiveStringMap(Map.of("plan", plan));
    SupportsRead table = (SupportsRead) source().getTable(read, new Transform[0], options);
    return table.newScanBuilder(options).build();
  }

  /** A stream of changes with these columns. */
  static Table changes(TableProvider source, StructType columns, Map<String, String> options) {
    return new Changes((SupportsRead) source.getTable(columns, new Transform[0], ofChanges(options)));
  }

  /** A table that a stream reads, and that nothing writes. */
  private record Changes(SupportsRead table) implements SupportsRead {
    @Override
    public String name() {
      return NAME;
    }

    @Override
    public Column[] columns() {
      return table.columns();
    }

    @Override
    public Set<TableCapability> capabilities() {
      return EnumSet.of(TableCapability.MICRO_BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      return table.newScanBuilder(new CaseInsensitiveStringMap(ofChanges(options.asCaseSensitiveMap())));
    }
  }

  /** The options of a stream: Python cannot see that its rows are read as one. */
  static Map<String, String> ofChanges(Map<String, String> options) {
    Map<String, String> given = new HashMap<>(options);
    if (!new CaseInsensitiveStringMap(options).containsKey("view")) {
      given.put("view", "changes");
    }
    return given;
  }

  /** A new one, because it keeps what it has planned. */
  static PythonDataSourceV2 source() {
    PythonDataSourceV2 source = new PythonDataSourceV2();
    source.setShortName(NAME);
    return source;
  }

  /** The write of rows of this schema by Python workers. */
  static BatchWrite write(LogicalWriteInfo info, StructType rows, Map<String, String> options) {
    LogicalWriteInfo changed = new LogicalWriteInfo() {
      @Override
      public CaseInsensitiveStringMap options() {
        return new CaseInsensitiveStringMap(options);
      }

      @Override
      public String queryId() {
        return info.queryId();
      }

      @Override
      public StructType schema() {
        return rows;
      }
    };
    return new PythonBatchWrite(source(), NAME, changed, false);
  }

  /** The content of the message of a task, such as what Python has pickled. */
  static byte[] content(WriterCommitMessage message) {
    return ((PythonWriterCommitMessage) message).pickledMessage();
  }

  /**
   * A message of a task with another content. A class of this jar may be loaded twice: executors have their
   * own.
   */
  static WriterCommitMessage message(byte[] content) {
    return new PythonWriterCommitMessage(content);
  }
}
