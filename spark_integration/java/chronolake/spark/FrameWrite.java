package chronolake.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.write.SupportsOverwriteV2;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.sources.InsertableRelation;

/**
 * An append to a table, or an overwrite: the Python process takes the frame of the rows, and writes it as
 * {@code SparkTable} does. So each index finds its file groups, and rows are shuffled by them.
 */
final class FrameWrite implements SupportsOverwriteV2, V1Write {
  private final ChronolakeTable table;
  private final Map<String, String> options;
  private final ArrayNode partition = PythonProcess.JSON.createArrayNode();
  private boolean overwrites;

  FrameWrite(ChronolakeTable table, Map<String, String> options) {
    this.table = table;
    this.options = options;
  }

  @Override
  public FrameWrite truncate() {
    overwrites = true;
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
      if (condition.children().length == 0
          || !(condition.children()[0] instanceof NamedReference column)) {
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
    return new Refusal(
        "invalid-option",
        "an overwrite replaces the whole table, or one partition that its condition names by values, as in "
            + "day = 'monday': delete other rows by DELETE");
  }

  @Override
  public Write build() {
    return this;
  }

  @Override
  public String description() {
    return "chronolake " + table.name();
  }

  @Override
  public InsertableRelation toInsertableRelation() {
    return (rows, ignored) -> write(rows);
  }

  private void write(Dataset<Row> rows) {
    ObjectNode request = PythonProcess.request();
    request.put("mode", overwrites ? "overwrite" : "append");
    request.set("write_options", ChronolakeCatalog.json(options));
    request.set("partition", partition);
    ArrayNode states = request.putArray("computed_from");
    if (overwrites) {
      statesRead(rows).forEach(states::add);
    }
    table.write(request, rows);
  }

  /** The states of this table that the rows are computed from, without those that the query names. */
  private List<String> statesRead(Dataset<Row> rows) {
    Predicate<Table> isThis = read -> read instanceof ChronolakeTable other && other.isNewestOf(table);
    List<String> states = new ArrayList<>();
    for (Table read : AnalysedPlans.tables(rows, isThis)) {
      states.add(((ChronolakeTable) read).state());
    }
    return states;
  }
}
