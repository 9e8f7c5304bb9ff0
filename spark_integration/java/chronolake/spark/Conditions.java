package chronolake.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.Literal;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;

/** Conditions of a query as trees of JSON: the Python process decides which of them prune files. */
final class Conditions {
  private Conditions() {}

  static ArrayNode described(Seq<Expression> conditions) {
    ArrayNode described = PythonProcess.JSON.createArrayNode();
    addAll(described, conditions);
    return described;
  }

  private static void addAll(ArrayNode list, Seq<Expression> expressions) {
    for (Iterator<Expression> each = expressions.iterator(); each.hasNext();) {
      list.add(described(each.next()));
    }
  }

  private static ObjectNode described(Expression expression) {
    ObjectNode node = PythonProcess.request();
    node.put("node", expression.getClass().getSimpleName());
    node.put("type", expression.dataType().catalogString());
    if (expression instanceof AttributeReference column) {
      return node.put("column", column.name());
    }
    if (expression instanceof Literal literal) {
      return node.put("value", literal.value() == null ? null : literal.value().toString());
    }
    ArrayNode children = node.putArray("children");
    addAll(children, expression.children());
    if (expression instanceof InSet in) {
      for (Iterator<Object> each = in.hset().iterator(); each.hasNext();) {
        Object value = each.next();
        children.add(described(Literal.create(value, in.child().dataType())));
      }
    }
    return node;
  }
}
