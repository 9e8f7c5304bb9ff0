package chronolake.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.connector.catalog.Column;

/** What the schema of a new table does not say of its columns: the Python process decides about it. */
final class NewColumns {
  private NewColumns() {}

  static ArrayNode described(Column[] columns) {
    ArrayNode described = PythonProcess.JSON.createArrayNode();
    for (Column column : columns) {
      described.add(described(column));
    }
    return described;
  }

  private static ObjectNode described(Column column) {
    ObjectNode node = PythonProcess.request();
    node.put("name", column.name()).put("comment", column.comment());
    node.put("default", text(column.defaultValue()));
    String identity = text(column.identityColumnSpec());
    return node.put("generated", identity == null ? column.generationExpression() : identity);
  }

  private static String text(Object given) {
    return given == null ? null : given.toString();
  }
}
