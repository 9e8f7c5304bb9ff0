package chronolake.spark;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;

/** Filters of a query as the server's, which leaves out files that cannot have a matching record. */
final class ServerFilters {
  private ServerFilters() {}

  static JsonNode of(Seq<Expression> filters, StructType schema) {
    return null;
  }
}
