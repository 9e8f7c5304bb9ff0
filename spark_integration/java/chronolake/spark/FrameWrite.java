package chronolake.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwriteV2;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * An append to a table, or an overwrite: the Python process takes the frame of the rows, and writes it as
 * {@code SparkTable} does. So each index finds its file groups, and rows are shuffled by them.
 *
 * <p>Spark gives no frame to an overwrite of the partitions that its rows have, and to a batch of a stream:
 * tasks keep these rows before.
 */
final class FrameWrite
    implements SupportsOverwriteV2, SupportsDynamicOverwrite, SupportsStreamingUpdateAsAppend, V1Write {
  private static final String PARTITIONS = "partitions";
  private static final String APPEND = "append";
  private static final String OVERWRITE = "overwrite";

  private final ChronolakeTable table;
  private final CaseInsensitiveStringMap given;
  private final StructType schema;
  private final Map<String, String> options;
  private final boolean isByFormat;
  private final ArrayNode partition = PythonProcess.JSON.createArrayNode();
  private String mode = APPEND;

  FrameWrite(ChronolakeTable table, LogicalWriteInfo info, boolean isByFormat) {
    this.table = table;
    this.isByFormat = isByFormat;
    this.given = info.options();
    this.schema = info.schema();
    this.options = new HashMap<>(given.asCaseSensitiveMap());
  }

  /** The write of a MERGE whose rows are inserted or updated: two of one key are an error. */
  static FrameWrite ofMerge(ChronolakeTable table, LogicalWriteInfo info) {
    FrameWrite write = new FrameWrite(table, info, false);
    write.mode = "merge";
    return write;
  }

  @Override
  public FrameWrite overwriteDynamicPartitions() {
    if (!given.containsKey(PARTITIONS)) {
      options.put(PARTITIONS, "dynamic");
    }
    return truncate();
  }

  @Override
  public FrameWrite truncate() {
    mode = OVERWRITE;
    return this;
  }

  @Override
  public boolean canOverwrite(org.apache.spark.sql.connector.expressions.filter.Predicate[] where) {
    return true;
  }

  /** Replaces the rows of one partition: each column has one value. Python refuses parts of one. */
  @Override
  public FrameWrite overwrite(org.apache.spark.sql.connector.expressions.filter.Predicate[] where) {
    for (var condition : where) {
      if (condition.children().length == 0 || !(condition.children()[0] instanceof NamedReference column)) {
        throw notOnePartition();
      }
      ObjectNode field = partition.addObject().put("column", String.join(".", column.fieldNames()));
      switch (condition.name()) {
        case "=", "<=>" -> field.put("value", sql(condition.children()[1]));
        case "IS_NULL" -> field.put("value", "null");
        default -> throw notOnePartition();
      }
    }
    return truncate();
  }

  private static String sql(org.apache.spark.sql.connector.expressions.Expression value) {
    if (value instanceof Literal<?> literal) {
      return new org.apache.spark.sql.catalyst.expressions.Literal(literal.value(), literal.dataType()).sql();
    }
    throw notOnePartition();
  }

  private static Refusal notOnePartition() {
    return new Refusal("invalid-option",
        "an overwrite replaces the whole table, or one partition that its condition names by values, as in "
            + "day = 'monday': delete other rows by DELETE");
  }

  @Override
  public Write build() {
    return this;
  }

  @Override
  public String description() {
    return "chronolake " + table.name() + " (" + mode + ")";
  }

  /** What EXPLAIN shows. */
  @Override
  public String toString() {
    return description();
  }

  @Override
  public InsertableRelation toInsertableRelation() {
    return (rows, ignored) -> write(rows, AnalysedPlans.tables(rows, table::isReadAs));
  }

  @Override
  public BatchWrite toBatch() {
    return new OfKeptRows();
  }

  @Override
  public StreamingWrite toStreaming() {
    return new StreamBatches(
        table, options, schema, overwrites() ? OutputMode.Complete() : OutputMode.Append());
  }

  private boolean overwrites() {
    return mode.equals(OVERWRITE);
  }

  /** Writes rows, which are computed from states of this table if the query reads it. */
  private void write(Dataset<Row> rows, List<Table> read) {
    ObjectNode request = PythonProcess.request();
    request.put("mode", mode).put("by_format", isByFormat);
    request.set("write_options", ChronolakeCatalog.json(options));
    request.set("partition", partition);
    ArrayNode states = request.putArray("computed_from");
    if (overwrites()) {
      read.forEach(each -> states.add(ChronolakeTable.shownBy(each).state()));
    }
    table.write(request, rows);
  }

  private final class OfKeptRows implements BatchWrite {
    private final KeptRows kept = new KeptRows(schema);

    @Override
    public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
      return kept.writers();
    }

    @Override
    public void commit(WriterCommitMessage[] messages) {
      try (kept) {
        write(kept.frame(messages), AnalysedPlans.tablesOfStatement(table::isReadAs));
      }
    }

    @Override
    public void abort(WriterCommitMessage[] messages) {
      kept.close();
    }

    @Override
    public String toString() {
      return description();
    }
  }
}
