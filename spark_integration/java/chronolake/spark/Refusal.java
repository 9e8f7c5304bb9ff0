package chronolake.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.Base64;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
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
  private static final Pattern ENCODED = Pattern.compile("\\[chronolake:([A-Za-z0-9_=-]+)\\]");
  private final String code;

  Refusal(String code, String message) {
    super(message);
    this.code = code;
  }

  static Refusal of(JsonNode refusal) {
    return new Refusal(refusal.get("code").asText(), refusal.get("message").asText());
  }

  /** The refusal that a worker of Python has put into the message of its exception; else the exception. */
  static RuntimeException inMessageOf(RuntimeException failure) {
    Matcher encoded = ENCODED.matcher(String.valueOf(failure.getMessage()));
    if (!encoded.find()) {
      return failure;
    }
    JsonNode problem;
    try {
      problem = PythonProcess.JSON.readTree(Base64.getUrlDecoder().decode(encoded.group(1)));
    } catch (IOException e) {
      return failure;
    }
    Refusal refusal = new Refusal(problem.get("code").asText(), problem.get("detail").asText());
    refusal.initCause(failure);
    return refusal;
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
