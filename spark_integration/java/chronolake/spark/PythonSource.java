package chronolake.spark;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Scan;
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
    // A new one for each scan, because it keeps what it has planned.
    PythonDataSourceV2 source = new PythonDataSourceV2();
    source.setShortName(NAME);
    SupportsRead table = (SupportsRead) source.getTable(read, new Transform[0], options);
    return table.newScanBuilder(options).build();
  }

  /** The write of rows of this schema by Python workers. */
  static BatchWrite write(LogicalWriteInfo info, StructType rows, Map<String, String> options) {
    PythonDataSourceV2 source = new PythonDataSourceV2();
    source.setShortName(NAME);
    LogicalWriteInfo changed =
        new LogicalWriteInfo() {
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
    return new PythonBatchWrite(source, NAME, changed, false);
  }

  /** The content of the message of a task, such as what Python has pickled. */
  static byte[] content(WriterCommitMessage message) {
    return ((PythonWriterCommitMessage) message).pickledMessage();
  }

  /** A message of a task with another content. A class of this jar may be loaded twice: executors have their own. */
  static WriterCommitMessage message(byte[] content) {
    return new PythonWriterCommitMessage(content);
  }
}
