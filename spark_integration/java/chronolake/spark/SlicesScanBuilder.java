package chronolake.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.internal.connector.SupportsPushDownCatalystFilters;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;

/**
 * Plans a scan: Spark's own Parquet reader reads slices without log files, the Python source the
 * others. Both get the columns and filters of the query.
 */
final class SlicesScanBuilder implements SupportsPushDownRequiredColumns, SupportsPushDownCatalystFilters {
  private final ChronolakeTable table;
  private final StructType shown;
  private final StructType whole;
  private final String view;
  private final String wanted;
  private StructType read;
  private Seq<Expression> filters;

  SlicesScanBuilder(ChronolakeTable table) {
    this(table, table.struct(), "snapshot", null);
  }

  /** The columns that a query may name; {@code wanted} is the option {@code filter}, or null. */
  SlicesScanBuilder(ChronolakeTable table, StructType shown, String view, String wanted) {
    this.table = table;
    this.shown = shown;
    this.view = view;
    this.wanted = wanted;
    StructType columns = shown;
    for (String name : ChronolakeTable.META_COLUMNS) {
      if (columns.getFieldIndex(name).isEmpty()) {
        columns = columns.add(name, DataTypes.StringType, false);
      }
    }
    this.whole = columns;
    this.read = shown;
  }

  /** Keeps nested fields whole, and one column at least: an Arrow batch of none has no rows. */
  @Override
  public void pruneColumns(StructType required) {
    if (wanted != null) {
      // Python filters the records, by columns that the query may leave out.
      return;
    }
    Set<String> names = new HashSet<>(List.of(required.fieldNames()));
    List<StructField> fields = new ArrayList<>();
    for (StructField field : whole.fields()) {
      if (names.contains(field.name())) {
        fields.add(field);
      }
    }
    if (fields.isEmpty()) {
      fields.add(shown.fields()[0]);
    }
    read = new StructType(fields.toArray(length -> new StructField[length]));
  }

  /** All filters stay with Spark: the server and the Parquet reader only leave files and rows out. */
  @Override
  public Seq<Expression> pushFilters(Seq<Expression> filters) {
    this.filters = filters;
    return filters;
  }

  @Override
  public Predicate[] pushedFilters() {
    return new Predicate[0];
  }

  @Override
  public Scan build() {
    ObjectNode request = PythonProcess.request();
    ArrayNode columns = request.putArray("columns");
    List.of(read.fieldNames()).forEach(columns::add);
    request.put("schema", read.asNullable().json()).put("view", view).put("filter", wanted);
    request.set("conditions", filters == null ? request.arrayNode() : Conditions.described(filters));
    JsonNode plan = table.plan(request);
    List<Scan> scans = new ArrayList<>();
    if (!plan.get("files").isEmpty()) {
      scans.add(NativeParquet.scan(table.name(), plan.get("files"), read, filters));
    }
    if (!plan.get("slices").isNull()) {
      scans.add(PythonSource.scan(read.asNullable(), plan.get("slices").asText()));
    }
    // As Spark does for files: the columns' part of the bytes, by their types.
    long bytes = plan.get("bytes").asLong() * read.defaultSize() / whole.defaultSize();
    return new SlicesScan(table.name(), read, scans, plan.get("rows").asLong(), bytes);
  }
}
