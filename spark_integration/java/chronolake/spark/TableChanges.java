package chronolake.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.connector.catalog.TableChange;

/** The changes of {@code ALTER TABLE}, as the Python process takes them: it decides about each. */
final class TableChanges {
  private TableChanges() {}

  static ArrayNode described(TableChange[] changes) {
    ArrayNode described = PythonProcess.JSON.createArrayNode();
    for (TableChange change : changes) {
      described.add(described(change));
    }
    return described;
  }

  private static ObjectNode described(TableChange change) {
    ObjectNode node = PythonProcess.request();
    node.put("change", change.getClass().getSimpleName());
    if (change instanceof TableChange.ColumnChange column) {
      ArrayNode path = node.putArray("column");
      for (String name : column.fieldNames()) {
        path.add(name);
      }
      describeColumn(node, column);
    } else if (change instanceof TableChange.SetProperty set) {
      node.put("property", set.property()).put("value", set.value());
    } else if (change instanceof TableChange.RemoveProperty remove) {
      node.put("property", remove.property());
    }
    return node;
  }

  private static void describeColumn(ObjectNode node, TableChange.ColumnChange change) {
    if (change instanceof TableChange.AddColumn add) {
      node.put("type", add.dataType().json()).put("nullable", add.isNullable());
      node.put("comment", add.comment()).put("position", text(add.position()));
      node.put("default", text(add.defaultValue()));
    } else if (change instanceof TableChange.RenameColumn rename) {
      node.put("to", rename.newName());
    } else if (change instanceof TableChange.UpdateColumnType update) {
      node.put("type", update.newDataType().json());
    } else if (change instanceof TableChange.UpdateColumnNullability update) {
      node.put("nullable", update.nullable());
    } else if (change instanceof TableChange.DeleteColumn delete) {
      node.put("if_exists", delete.ifExists());
    }
  }

  private static String text(Object given) {
    return given == null ? null : given.toString();
  }
}
