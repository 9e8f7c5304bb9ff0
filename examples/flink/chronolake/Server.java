package chronolake;

import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.UUID;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;

/** Sends requests, and repeats those without an answer under the same idempotency key (docs/writing.md#retries). */
final class Server {
    static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final Duration ANSWER_WITHIN = Duration.ofSeconds(30);
    private static final Duration PAUSE_MAX = Duration.ofSeconds(5);

    private final HttpClient http;
    private final String url;
    private String tableId;

    Server(String url) {
        this.url = url;
        this.http = HttpClient.newBuilder()
                .sslContext(trusted(System.getenv("CHRONOLAKE_CA_FILE")))
                .connectTimeout(Duration.ofSeconds(10))
                .version(HttpClient.Version.HTTP_1_1)
                .build();
    }

    /** The CAs of a file of PEM, or without a file those of Java. */
    private static SSLContext trusted(String file) {
        try {
            if (file == null || file.isEmpty()) {
                return SSLContext.getDefault();
            }
            KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
            store.load(null, null);
            try (InputStream pem = Files.newInputStream(Path.of(file))) {
                for (Certificate ca : CertificateFactory.getInstance("X.509").generateCertificates(pem)) {
                    store.setCertificateEntry("ca-" + store.size(), ca);
                }
            }
            TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            trust.init(store);
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(null, trust.getTrustManagers(), null);
            return context;
        } catch (IOException | GeneralSecurityException unusable) {
            throw new IllegalStateException("the CA file " + file + " cannot be used", unusable);
        }
    }

    /** The token, read for each request because it may be replaced; null where the server asks for none. */
    private static String token() throws IOException {
        String token = System.getenv("CHRONOLAKE_TOKEN");
        String file = System.getenv("CHRONOLAKE_TOKEN_FILE");
        if (token != null && !token.isEmpty()) {
            return token;
        }
        return file == null || file.isEmpty() ? null : Files.readString(Path.of(file)).strip();
    }

    /** The definition of a table. No later request reaches another table that has its name by then. */
    JsonNode openTable(String path) throws IOException {
        JsonNode table = this.get(path);
        this.tableId = table.get("table_id").asText();
        return table;
    }

    JsonNode get(String path) throws IOException {
        return this.send(this.request(path).GET());
    }

    JsonNode post(String path, ObjectNode body) throws IOException {
        return this.post(path, body, UUID.randomUUID());
    }

    /** Requests with one key have one answer, whoever sends them. */
    JsonNode post(String path, ObjectNode body, UUID idempotencyKey) throws IOException {
        return this.send(this.request(path)
                .header("Content-Type", "application/json")
                .header("Idempotency-Key", idempotencyKey.toString())
                .POST(HttpRequest.BodyPublishers.ofString(body.toString())));
    }

    private HttpRequest.Builder request(String path) throws IOException {
        HttpRequest.Builder builder = HttpRequest.newBuilder(URI.create(this.url + path)).timeout(ANSWER_WITHIN);
        String token = token();
        if (token == null) {
            builder.header("Chronolake-Actor", "flink-sink");
        } else {
            builder.header("Authorization", "Bearer " + token);
        }
        return this.tableId == null ? builder : builder.header("Chronolake-Table-Id", this.tableId);
    }

    private JsonNode send(HttpRequest.Builder builder) throws IOException {
        HttpRequest request = builder.build();
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        for (Duration pause = Duration.ofMillis(100); ; pause = pause.multipliedBy(2)) {
            IOException failure;
            try {
                HttpResponse<byte[]> answer = this.http.send(request, HttpResponse.BodyHandlers.ofByteArray());
                if (answer.statusCode() < 300) {
                    return JSON.readTree(answer.body());
                }
                failure = refused(answer);
                // 502, 503, 504: there was no decision, or its answer was lost.
                if (answer.statusCode() < 502 || answer.statusCode() > 504) {
                    throw failure;
                }
            } catch (InterruptedException cancelled) {
                throw interrupted();
            } catch (Refused refusal) {
                throw refusal;
            } catch (IOException noAnswer) {
                failure = noAnswer;
            }
            if (System.nanoTime() > deadline) {
                throw failure;
            }
            sleep(pause.compareTo(PAUSE_MAX) < 0 ? pause : PAUSE_MAX);
        }
    }

    private static Refused refused(HttpResponse<byte[]> answer) {
        try {
            return new Refused(answer.statusCode(), JSON.readTree(answer.body()));
        } catch (IOException notJson) {
            return new Refused(answer.statusCode(), JSON.createObjectNode());
        }
    }

    private static void sleep(Duration pause) throws IOException {
        try {
            Thread.sleep(pause.toMillis());
        } catch (InterruptedException cancelled) {
            throw interrupted();
        }
    }

    /** Flink cancels a task by interrupting it. */
    private static IOException interrupted() {
        Thread.currentThread().interrupt();
        return new InterruptedIOException("the task was cancelled");
    }
}
