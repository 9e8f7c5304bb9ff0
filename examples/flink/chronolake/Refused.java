package chronolake;

import java.io.IOException;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/** The server refused a request: the status, the code of the problem (RFC 9457) and its context. */
final class Refused extends IOException {
    final int status;
    final String code;
    final transient JsonNode context;

    Refused(int status, JsonNode problem) {
        super(status + " " + problem.path("code").asText() + ": " + problem.path("detail").asText());
        this.status = status;
        this.code = problem.path("code").asText();
        this.context = problem.path("context");
    }

    /** Whether the same request may succeed later. */
    boolean isTemporary() {
        return this.status == 429 || this.status >= 500 || this.code.equals("checkpoint-incomplete");
    }
}
