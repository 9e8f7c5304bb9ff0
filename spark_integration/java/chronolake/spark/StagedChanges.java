package chronolake.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.UUID;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.DeltaBatchWrite;
import org.apache.spark.sql.connector.write.DeltaWriter;
import org.apache.spark.sql.connector.write.DeltaWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.StructType;

/**
 * The write of the changed rows of a statement. Tasks stage them by Python workers; then the Python
 * process of the catalog finds their file groups, writes and publishes them.
 */
final class StagedChanges implements DeltaBatchWrite {
  private final ChronolakeTable table;
  private final RowLevelOperation.Command command;
  private final LogicalWriteInfo info;
  private final String statement = UUID.randomUUID().toString();

  StagedChanges(ChronolakeTable table, RowLevelOperation.Command command, LogicalWriteInfo info) {
    this.table = table;
    this.command = command;
    this.info = info;
  }

  /** Begins the instant: Spark asks for the factory after it has planned, so EXPLAIN begins none. */
  @Override
  public DeltaWriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
    ObjectNode request = request().put("command", command.name());
    request.set("schema_version", table.schemaVersion());
    try {
      JsonNode begun = table.ask("begin_statement", request);
      Map<String, String> options = new HashMap<>();
      begun.get("options").properties().forEach(
          entry -> options.put(entry.getKey(), entry.getValue().asText()));
      StructType rows = ChangeWriter.rows(table.struct());
      BatchWrite python = PythonSource.write(info, rows, options);
      return new Factory(python.createBatchWriterFactory(physical), rows);
    } catch (RuntimeException e) {
      // Also if the thread was interrupted while the statement began.
      try {
        abort(new WriterCommitMessage[0]);
      } catch (Refusal refused) {
        e.addSuppressed(refused);
      }
      throw e;
    }
  }

  @Override
  public void commit(WriterCommitMessage[] messages) {
    ObjectNode request = request().put("read_as_of", table.state());
    ArrayNode texts = request.putArray("messages");
    for (WriterCommitMessage message : messages) {
      if (message != null) {
        texts.add(Base64.getEncoder().encodeToString(PythonSource.content(message)));
      }
    }
    table.ask("complete_statement", request);
  }

  /** Rolls back; Spark calls it also after a failed commit, whose instant has ended already. */
  @Override
  public void abort(WriterCommitMessage[] messages) {
    table.ask("abort_statement", request());
  }

  private ObjectNode request() {
    return PythonProcess.request().put("statement", statement);
  }

  private record Factory(DataWriterFactory python, StructType rows) implements DeltaWriterFactory {
    @Override
    public DeltaWriter<InternalRow> createWriter(int partition, long task) {
      return new ChangeWriter(python.createWriter(partition, task), rows);
    }
  }
}
