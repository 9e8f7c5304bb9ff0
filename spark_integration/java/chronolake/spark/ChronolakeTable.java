package chronolake.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TruncatableTable;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A table as one statement sees it. All scans of it show one state: that of the time travel, or the
 * newest one when the first scan is planned.
 */
class ChronolakeTable implements SupportsRead, SupportsWrite, SupportsRowLevelOperations,
                                 SupportsMetadataColumns, TruncatableTable {
  static final String[] META_COLUMNS = {"_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key",
      "_hoodie_partition_path", "_hoodie_file_name"};

  private static final String NOTHING_YET = "0";

  /** Options by which Spark itself loads an earlier state. */
  private static final Set<String> OF_SPARK = Set.of("versionasof", "timestampasof");

  private final ChronolakeCatalog catalog;
  private final Identifier identifier;
  private final JsonNode loaded;
  private final StructType schema;
  private String asOf;
  private boolean hasRead;
  private TableSink sink;

  static ChronolakeTable of(ChronolakeCatalog catalog, Identifier identifier, JsonNode loaded) {
    return new ChronolakeTable(catalog, identifier, loaded);
  }

  ChronolakeTable(ChronolakeCatalog catalog, Identifier identifier, JsonNode loaded) {
    this.catalog = catalog;
    this.identifier = identifier;
    this.loaded = loaded;
    this.schema = (StructType) DataType.fromJson(loaded.get("schema").asText());
    this.asOf = loaded.get("as_of").asText(null);
  }

  @Override
  public String name() {
    return catalog.name() + "." + identifier;
  }

  /** The version of the columns that this statement knows. */
  JsonNode schemaVersion() {
    return loaded.get("schema_version");
  }

  /** The columns of the table, as Spark's schema. */
  StructType struct() {
    return schema;
  }

  @Override
  public Column[] columns() {
    return columns(schema);
  }

  static Column[] columns(StructType struct) {
    return Stream.of(struct.fields())
        .map(field -> Column.create(field.name(), field.dataType(), field.nullable()))
        .toArray(length -> new Column[length]);
  }

  /** Spark parses the names: without backquotes it would fail at {@code the day}, and split {@code a.b}. */
  @Override
  public Transform[] partitioning() {
    return StreamSupport.stream(loaded.get("partitions").spliterator(), false)
        .map(field -> Expressions.identity('`' + field.asText().replace("`", "``") + '`'))
        .toArray(length -> new Transform[length]);
  }

  @Override
  public Map<String, String> properties() {
    Map<String, String> properties = new HashMap<>();
    loaded.get("properties")
        .properties()
        .forEach(entry -> properties.put(entry.getKey(), entry.getValue().asText()));
    return properties;
  }

  @Override
  public Set<TableCapability> capabilities() {
    return EnumSet.of(TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ, TableCapability.BATCH_WRITE,
        TableCapability.V1_BATCH_WRITE, TableCapability.TRUNCATE, TableCapability.OVERWRITE_BY_FILTER,
        TableCapability.OVERWRITE_DYNAMIC, TableCapability.STREAMING_WRITE,
        TableCapability.AUTOMATIC_SCHEMA_EVOLUTION);
  }

  /** Hudi's columns, of which the names and values are in the files. */
  @Override
  public MetadataColumn[] metadataColumns() {
    MetadataColumn[] columns = new MetadataColumn[META_COLUMNS.length];
    for (int i = 0; i < columns.length; i++) {
      columns[i] = new HudiColumn(META_COLUMNS[i]);
    }
    return columns;
  }

  private record HudiColumn(String name) implements MetadataColumn {
    @Override
    public DataType dataType() {
      return DataTypes.StringType;
    }

    @Override
    public boolean isNullable() {
      return false;
    }
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    refuseOptions(name(), options);
    return new SlicesScanBuilder(this);
  }

  /** Refuses options of a read by name: ignored, {@code as_of} would show the newest state. */
  static void refuseOptions(String name, CaseInsensitiveStringMap options) {
    for (String option : options.keySet()) {
      if (!OF_SPARK.contains(option) && !option.startsWith("__")) {
        throw new Refusal("invalid-option",
            "a read of " + name + " has no option '" + option
                + "': name an earlier state by VERSION AS OF, or the"
                + " option versionAsOf; spark.read.format(\"chronolake\") has other options, and a stream reads the"
                + " table changes");
      }
    }
  }

  @Override
  public boolean truncateTable() {
    ask("truncate", PythonProcess.request());
    return true;
  }

  /** The files of a scan, planned by the Python process; later scans show the same state. */
  synchronized JsonNode plan(ObjectNode request) {
    request.put("as_of", asOf).set("schema_version", loaded.get("schema_version"));
    JsonNode plan = ask("scan", request);
    asOf = plan.get("as_of").asText(null);
    hasRead = true;
    return plan;
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new FrameWrite(this, info, false);
  }

  /** The table of Chronolake that a query reads; null if it reads another one. */
  static ChronolakeTable shownBy(Table read) {
    if (read instanceof FormatRead byFormat) {
      return byFormat.table();
    }
    return read instanceof ChronolakeTable table ? table : null;
  }

  /** Whether a query that reads a table reads this one, in its newest state: no time travel. */
  boolean isReadAs(Table read) {
    ChronolakeTable shown = shownBy(read);
    return shown != null && shown.loaded.get("as_of").isNull()
        && shown.loaded.get("table_id").equals(loaded.get("table_id"));
  }

  /**
   * Whether columns with given values name one record and its place. A partition column must also compare
   * nulls, which condition {@code ofNulls} says: else a row with a null matches no record.
   */
  boolean isFoundBy(Set<String> columns, Predicate<String> ofNulls) {
    List<String> key = texts(loaded.get("record_key"));
    List<String> partition = texts(loaded.get("partitions"));
    Set<String> needed = new HashSet<>(key);
    needed.addAll(partition);
    // With a record index a key is in one partition, where a MERGE does not find it from another.
    boolean isGlobal = loaded.get("properties").get("index").asText().equals("record");
    // An adopted table may have keys that are no columns.
    return !key.isEmpty() && columns.equals(needed) && partition.stream().allMatch(ofNulls)
        && (partition.isEmpty() || !isGlobal);
  }

  private static List<String> texts(JsonNode list) {
    return StreamSupport.stream(list.spliterator(), false).map(JsonNode::asText).toList();
  }

  /** The completion time of the state that all scans show; {@code 0} if nothing had completed. */
  synchronized String state() {
    if (asOf == null && hasRead) {
      return NOTHING_YET;
    }
    if (asOf != null) {
      return asOf;
    }
    String newest = ask("state", PythonProcess.request()).asText();
    // There is no snapshot of the state before the first one.
    asOf = newest.equals(NOTHING_YET) ? null : newest;
    return newest;
  }

  @Override
  public RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo info) {
    return () -> new RowChanges(this, info.command());
  }

  /** The answer to a request about this table. */
  JsonNode ask(String operation, ObjectNode request) {
    return catalog.ask(operation, named(request));
  }

  /** Writes a frame, as the request says. */
  void write(ObjectNode request, Dataset<Row> rows) {
    catalog.askWithFrame("write", named(request), rows);
  }

  /** The sink of the one query that was started with this table. */
  synchronized TableSink sink(Map<String, String> options, OutputMode mode) {
    if (sink == null) {
      String name = ChronolakeCatalog.text(identifier);
      sink = new TableSink(catalog.optionsOfFormat(name, options), mode, loaded.get("table_id").asText());
    }
    return sink;
  }

  /** Names this table, by its id too: another one may have its name by now. */
  private ObjectNode named(ObjectNode request) {
    request.set("table_id", loaded.get("table_id"));
    return ChronolakeCatalog.named(request, identifier);
  }

  @Override
  public String toString() {
    return name();
  }
}
