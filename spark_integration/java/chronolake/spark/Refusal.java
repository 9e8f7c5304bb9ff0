package chronolake.spark;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.SparkThrowable;

/**
 * A request was refused, by the server or before: the message says what to do, in one line.
 *
 * <p>Spark shows an error of its own kind as it is, and PySpark an illegal argument without a trace.
 */
public final class Refusal extends IllegalArgumentException implements SparkThrowable {
  /** The code of a request whose thread was interrupted. */
  static final String INTERRUPTED = "interrupted";

  private static final long serialVersionUID = 1;
  private final String code;

  Refusal(String code, String message) {
    super(message);
    this.code = code;
  }

  static Refusal of(JsonNode refusal) {
    return new Refusal(refusal.get("code").asText(), refusal.get("message").asText());
  }

  /** The code of the problem, as of the server: {@code table-not-found}. */
  public String code() {
    return code;
  }

  /** The code: Python has it as {@code exc.getCondition()}. */
  @Override
  public String getCondition() {
    return code;
  }
}
