package chronolake.spark;

import com.fasterxml.jackson.databind.JsonNode;

/** A request was refused, by the server or before: the message says what to do, in one line. */
public final class Refusal extends IllegalArgumentException {
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
}
