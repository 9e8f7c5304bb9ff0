import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.InputStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.attribute.FileAttribute;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.apache.parquet.column.page.PageReadStore;
import org.apache.parquet.example.data.Group;
import org.apache.parquet.example.data.simple.SimpleGroup;
import org.apache.parquet.example.data.simple.convert.GroupRecordConverter;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.ParquetWriter;
import org.apache.parquet.hadoop.example.ExampleParquetWriter;
import org.apache.parquet.hadoop.metadata.CompressionCodecName;
import org.apache.parquet.io.ColumnIOFactory;
import org.apache.parquet.io.LocalInputFile;
import org.apache.parquet.io.LocalOutputFile;
import org.apache.parquet.io.MessageColumnIO;
import org.apache.parquet.io.RecordReader;
import org.apache.parquet.io.api.Binary;
import org.apache.parquet.schema.LogicalTypeAnnotation;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName;
import org.apache.parquet.schema.Type;
import org.apache.parquet.schema.Types;

/**
 * A complete writer of Chronolake tables in Java: parquet-java, Jackson, java.net.http (docs/writing.md explains it).
 *
 * <pre>
 * java -cp "$(dirname $(python -c 'import pyspark; print(pyspark.__file__)'))/jars/*" \
 *   org.codehaus.janino.SimpleCompiler JavaWriter.java JavaWriter URL NAMESPACE.TABLE insert|upsert ROWS.jsonl
 * ... JavaWriter vectors vectors.json
 * </pre>
 *
 * It writes copy-on-write tables with a bucket index, on a local disk. Each line of ROWS.jsonl is a JSON object with
 * every column; decimals are texts, dates texts (2026-01-31) or days since 1970-01-01, timestamps microseconds since
 * then. There are no lambdas, and a cast wherever a generic type is read, so that Janino compiles it, for which a JRE is enough.
 */
public class JavaWriter {
    static final ObjectMapper JSON = new ObjectMapper();
    static final int FIRST_META_ID = 2000000001;
    static final String[] META = {
        "_hoodie_commit_time",
        "_hoodie_commit_seqno",
        "_hoodie_record_key",
        "_hoodie_partition_path",
        "_hoodie_file_name"
    };
    static final int LEASE_SECONDS = 60;
    /** The sender in the log. A job of yours has a name by which its owner knows it. */
    static final String ACTOR = "java-writer";
    static final long RETRY_SECONDS = 60;
    static final int CONFLICTS_MAX = 10;
    static final String CLAIM = ".hoodie/.chronolake-claim.json";

    // ---- keys, partition paths, buckets

    /** A value of a key field or partition field as text; null for null. */
    static String keyText(JsonNode value, String type) {
        String name = type.toLowerCase();
        if (value == null || value.isNull()) {
            return null;
        }
        if (name.startsWith("decimal")) {
            return decimalOf(value, type).toPlainString();
        }
        switch (name) {
            case "tinyint":
            case "smallint":
            case "int":
            case "bigint":
            case "timestamp":
                return String.valueOf(new BigDecimal(value.asText()).longValueExact());
            case "boolean":
            case "string":
                return value.asText();
            case "date":
                return dateText(value.asLong());
            case "timestamp_ntz":
                return localTimeText(value.asLong());
            default:
                throw new IllegalArgumentException(type + " is no type of a key field or a partition field");
        }
    }

    /** A value of a partition field as text; null for null. */
    static String partitionText(JsonNode value, String type) {
        if (value == null || value.isNull() || !type.equalsIgnoreCase("timestamp")) {
            return keyText(value, type);
        }
        return localTimeText(new BigDecimal(value.asText()).longValueExact()).replace(' ', 'T') + "Z";
    }

    static BigDecimal decimalOf(JsonNode value, String type) {
        int scale = Integer.parseInt(type.substring(type.indexOf(',') + 1, type.indexOf(')')).trim());
        return new BigDecimal(value.asText()).setScale(scale, RoundingMode.UNNECESSARY);
    }

    static String localTimeText(long micros) {
        long days = Math.floorDiv(micros, 86400000000L);
        long ofDay = Math.floorMod(micros, 86400000000L);
        long seconds = ofDay / 1000000L;
        String fraction = String.format("%06d", new Object[] {Long.valueOf(ofDay % 1000000L)}).replaceAll("0+$", "");
        Object[] parts = {Long.valueOf(seconds / 3600), Long.valueOf(seconds / 60 % 60), Long.valueOf(seconds % 60)};
        String time = String.format("%02d:%02d:%02d", parts);
        return dateText(days) + " " + time + (fraction.isEmpty() ? "" : "." + fraction);
    }

    /** Days since 1970-01-01 as yyyy-MM-dd; LocalDate writes years as the tables' keys do. */
    static String dateText(long days) {
        return java.time.LocalDate.ofEpochDay(days).toString();
    }

    /** The record key: the text of one field, a:1,b:2 of several. */
    static String recordKey(String[] names, String[] texts) {
        boolean missing = true;
        for (int i = 0; i < texts.length; i++) {
            missing = missing && (texts[i] == null || texts[i].isEmpty());
        }
        if (missing) {
            throw new IllegalArgumentException("the record key " + String.join(", ", names) + " is null or empty");
        }
        if (texts.length == 1) {
            return texts[0];
        }
        StringBuilder key = new StringBuilder();
        for (int i = 0; i < texts.length; i++) {
            String text = texts[i];
            for (int j = 0; text != null && j < names.length; j++) {
                if (text.equals("__null__") || text.equals("__empty__") || text.contains("," + names[j] + ":")) {
                    throw new IllegalArgumentException("the value " + text + " makes the record key ambiguous");
                }
            }
            String value = text == null ? "__null__" : text.isEmpty() ? "__empty__" : text;
            key.append(i == 0 ? "" : ",").append(names[i]).append(":").append(value);
        }
        return key.toString();
    }

    /** a=1/b=2, or 1/2 unless in hive style; the empty text without partition fields. */
    static String partitionPath(String[] names, String[] texts, JsonNode properties) {
        boolean hiveStyle = !textOf(properties, "partition-paths.hive-style", "true").equals("false");
        boolean urlEncode = !textOf(properties, "partition-paths.url-encode", "true").equals("false");
        String[] parts = new String[names.length];
        for (int i = 0; i < names.length; i++) {
            boolean missing = texts[i] == null || texts[i].isEmpty();
            if (!missing && !isWritable(texts[i], hiveStyle, urlEncode)) {
                throw new IllegalArgumentException("the partition paths of this table cannot have " + texts[i]);
            }
            String value = missing ? "__HIVE_DEFAULT_PARTITION__" : urlEncode ? escape(texts[i]) : texts[i];
            parts[i] = hiveStyle ? (urlEncode ? escape(names[i]) : names[i]) + "=" + value : value;
        }
        return String.join("/", parts);
    }

    /** Whether a partition path can have the value: it would not be another path, or read as another value. */
    static boolean isWritable(String text, boolean hiveStyle, boolean urlEncode) {
        if (text.equals("__HIVE_DEFAULT_PARTITION__")) {
            return false;
        }
        if (!hiveStyle && (text.equals(".") || text.equals("..") || text.equals(".hoodie"))) {
            return false;
        }
        boolean refused = false;
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            refused = refused || c < ' ' || "/\\%\u007f".indexOf(c) >= 0 || (!hiveStyle && c == '=');
        }
        return urlEncode || !refused;
    }

    /** Percent and two hexadecimal digits in place of each special character. */
    static String escape(String text) {
        StringBuilder escaped = new StringBuilder();
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c < ' ' || "\u007f\"#%'*/:=?\\{[]^".indexOf(c) >= 0) {
                escaped.append(String.format("%%%02X", new Object[] {Integer.valueOf(c)}));
            } else {
                escaped.append(c);
            }
        }
        return escaped.toString();
    }

    static final long P1 = 0x9E3779B185EBCA87L;
    static final long P2 = 0xC2B2AE3D27D4EB4FL;
    static final long P3 = 0x165667B19E3779F9L;
    static final long P4 = 0x85EBCA77C2B2AE63L;
    static final long P5 = 0x27D4EB2F165667C5L;

    /** The hash of the key fields' texts: XXH64, seed 42, each hash the seed of the next; nulls pass. */
    static long keyHash(String[] texts) {
        long seed = 42;
        for (int i = 0; i < texts.length; i++) {
            if (texts[i] != null) {
                seed = xxh64(texts[i].getBytes(StandardCharsets.UTF_8), seed);
            }
        }
        return seed;
    }

    static long xxh64(byte[] octets, long seed) {
        int at = 0;
        long state;
        if (octets.length >= 32) {
            long[] lanes = {seed + P1 + P2, seed + P2, seed, seed - P1};
            for (; at + 32 <= octets.length; at += 32) {
                for (int lane = 0; lane < 4; lane++) {
                    lanes[lane] = round(lanes[lane], word(octets, at + 8 * lane, 8));
                }
            }
            state = Long.rotateLeft(lanes[0], 1) + Long.rotateLeft(lanes[1], 7);
            state += Long.rotateLeft(lanes[2], 12) + Long.rotateLeft(lanes[3], 18);
            for (int lane = 0; lane < 4; lane++) {
                state = (state ^ round(0L, lanes[lane])) * P1 + P4;
            }
        } else {
            state = seed + P5;
        }
        state += octets.length;
        for (; at + 8 <= octets.length; at += 8) {
            state = Long.rotateLeft(state ^ round(0L, word(octets, at, 8)), 27) * P1 + P4;
        }
        if (at + 4 <= octets.length) {
            state = Long.rotateLeft(state ^ (word(octets, at, 4) * P1), 23) * P2 + P3;
            at += 4;
        }
        for (; at < octets.length; at++) {
            state = Long.rotateLeft(state ^ ((octets[at] & 0xFFL) * P5), 11) * P1;
        }
        state = (state ^ (state >>> 33)) * P2;
        state = (state ^ (state >>> 29)) * P3;
        return state ^ (state >>> 32);
    }

    static long round(long lane, long word) {
        return Long.rotateLeft(lane + word * P2, 31) * P1;
    }

    /** Octets as a little-endian number. */
    static long word(byte[] octets, int at, int count) {
        long word = 0;
        for (int i = count - 1; i >= 0; i--) {
            word = (word << 8) | (octets[at + i] & 0xFFL);
        }
        return word;
    }

    static int bucketOf(String[] texts, int buckets) {
        return (int) Math.floorMod(keyHash(texts), (long) buckets);
    }

    /** The file id of a bucket's file group; the generation counts those that were replaced before it. */
    static String fileIdOf(int bucket, long generation) {
        Object[] parts = {Integer.valueOf(bucket), Long.valueOf(generation)};
        return String.format("%08d-0000-0000-0000-%012d-0", parts);
    }

    /** Says which attempt of which task wrote a file. */
    static String writeToken(int partition, int stage, int attempt) {
        return partition + "-" + stage + "-" + attempt;
    }

    static String baseFileName(String fileId, String token, String requestedTime) {
        return fileId + "_" + token + "_" + requestedTime + ".parquet";
    }

    // ---- the server: REST, with retries

    /** The server refused: the status, and the code of the problem (RFC 9457). */
    static class Refused extends IOException {
        final int status;
        final String code;

        Refused(int status, String code, String detail) {
            super(status + " " + code + ": " + detail);
            this.status = status;
            this.code = code;
        }
    }

    /** Sends requests, and repeats them without an answer. Every attempt of a command has the same idempotency key. */
    static class Server {
        private final String url;
        private final HttpClient http;
        private String tableId;

        Server(String url) throws Exception {
            this.url = url;
            this.http = HttpClient.newBuilder().sslContext(trusted(System.getenv("CHRONOLAKE_CA_FILE"))).build();
        }

        /** The CAs of a file of PEM, or without a file those of Java. */
        private static SSLContext trusted(String file) throws Exception {
            if (file == null || file.isEmpty()) {
                return SSLContext.getDefault();
            }
            KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
            store.load(null, null);
            InputStream pem = Files.newInputStream(Paths.get(file, new String[0]), new OpenOption[0]);
            try {
                Object[] all = CertificateFactory.getInstance("X.509").generateCertificates(pem).toArray();
                for (int i = 0; i < all.length; i++) {
                    store.setCertificateEntry("ca-" + i, (Certificate) all[i]);
                }
            } finally {
                pem.close();
            }
            TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            trust.init(store);
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(null, trust.getTrustManagers(), null);
            return context;
        }

        /** The token, read for each request because it may be replaced; null where the server asks for none. */
        private static String token() throws IOException {
            String token = System.getenv("CHRONOLAKE_TOKEN");
            String file = System.getenv("CHRONOLAKE_TOKEN_FILE");
            if (token != null && !token.isEmpty()) {
                return token;
            }
            return file == null || file.isEmpty() ? null : Files.readString(Paths.get(file, new String[0])).strip();
        }

        /** A table. No later request reaches another table that has its name by then. */
        JsonNode openTable(String path) throws Exception {
            JsonNode table = this.get(path);
            this.tableId = at(table, "table_id").asText();
            return table;
        }

        JsonNode get(String path) throws Exception {
            return this.send("GET", path, HttpRequest.BodyPublishers.noBody());
        }

        JsonNode post(String path, ObjectNode body) throws Exception {
            return this.send("POST", path, HttpRequest.BodyPublishers.ofString(body.toString()));
        }

        /** The entries of all pages of a list. */
        List<JsonNode> pages(String path, String entries) throws Exception {
            List<JsonNode> all = new ArrayList<JsonNode>();
            String next = path;
            while (next != null) {
                JsonNode page = this.get(next);
                for (int i = 0; i < at(page, entries).size(); i++) {
                    all.add(at(at(page, entries), i));
                }
                JsonNode cursor = at(page, "next_cursor");
                String separator = path.contains("?") ? "&" : "?";
                String rest = separator + "cursor=" + URLEncoder.encode(cursor.asText(), "UTF-8");
                next = cursor.isNull() ? null : path + rest;
            }
            return all;
        }

        private JsonNode send(String method, String path, HttpRequest.BodyPublisher body) throws Exception {
            HttpRequest.Builder builder = HttpRequest.newBuilder(URI.create(this.url + path)).method(method, body);
            builder.header("Content-Type", "application/json").header("Idempotency-Key", UUID.randomUUID().toString());
            String token = token();
            if (token == null) {
                builder.header("Chronolake-Actor", ACTOR);
            } else {
                builder.header("Authorization", "Bearer " + token);
            }
            if (this.tableId != null) {
                builder.header("Chronolake-Table-Id", this.tableId);
            }
            HttpRequest request = builder.timeout(Duration.ofSeconds(30)).build();
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(RETRY_SECONDS);
            for (long pause = 100; ; pause = Math.min(2 * pause, 5000)) {
                try {
                    HttpResponse response = this.http.send(request, HttpResponse.BodyHandlers.ofString());
                    int status = response.statusCode();
                    // 502, 503, 504: the request was not decided, or its answer was lost.
                    if (status < 502 || status > 504 || System.nanoTime() > deadline) {
                        return answerOf(status, (String) response.body());
                    }
                } catch (Refused refused) {
                    throw refused;
                } catch (IOException unreachable) {
                    if (System.nanoTime() > deadline) {
                        throw unreachable;
                    }
                }
                Thread.sleep(pause);
            }
        }

        private static JsonNode answerOf(int status, String body) throws IOException {
            if (status < 400) {
                return JSON.readTree(body);
            }
            JsonNode problem = body.startsWith("{") ? JSON.readTree(body) : JSON.createObjectNode();
            throw new Refused(status, textOf(problem, "code", ""), textOf(problem, "detail", body));
        }
    }

    // ---- one write

    /** Insert or upsert rows as one instant; begin again when another writer published the file groups first. */
    static JsonNode write(Server server, String name, String operation, List<JsonNode> rows) throws Exception {
        for (int i = 0; i < CONFLICTS_MAX; i++) {
            try {
                return new Attempt(server, name, operation).run(rows);
            } catch (Refused refused) {
                if (!refused.code.equals("write-conflict")) {
                    throw refused;
                }
            }
        }
        throw new IllegalStateException(name + ": " + CONFLICTS_MAX + " times another writer was faster");
    }

    /** One instant from begin to complete, or to its rollback. */
    static class Attempt {
        private final Server server;
        private final String operation;
        private final String path;
        private final JsonNode table;
        private final JsonNode schema;
        private final String root;
        private final String ordering;
        private final int buckets;
        private final String writer = "java-writer-" + UUID.randomUUID();
        private String time;

        Attempt(Server server, String name, String operation) throws Exception {
            this.server = server;
            this.operation = operation;
            this.path = "/v1/tables/" + name;
            this.table = server.openTable(this.path);
            this.schema = at(this.table, "schema");
            String type = at(this.table, "type").asText();
            if (!type.equals("copy_on_write") || !at(at(this.table, "index"), "type").asText().equals("bucket")) {
                throw new IllegalArgumentException(name + " is no copy-on-write table with a bucket index");
            }
            this.buckets = at(at(this.table, "index"), "buckets").asInt();
            String mode = textOf(at(this.table, "properties"), "merge.mode", "");
            this.ordering = mode.equals("commit-time") ? null : textOf(this.table, "ordering_field", null);
            String base = at(this.table, "base_path").asText();
            if (base.contains("://") && !base.startsWith("file://")) {
                throw new IllegalArgumentException("this example writes to local disks, and not to " + base);
            }
            this.root = base.startsWith("file://") ? URI.create(base).getPath() : base;
        }

        /** Write and complete. After a failure, roll the instant back and delete its files. */
        JsonNode run(List<JsonNode> rows) throws Exception {
            this.countDates(rows);
            TreeMap<String, Map<String, JsonNode>> groups = this.fileGroups(rows);
            this.checkClaim(at(this.table, "metastore_id").asText(), at(this.table, "table_id").asText());
            ObjectNode begin = this.body().put("operation", this.operation).put("lease_seconds", LEASE_SECONDS);
            JsonNode begun = this.server.post(this.path + "/instants", begin);
            this.time = at(begun, "requested_time").asText();
            try {
                if (at(begun, "buckets").asInt() != this.buckets) {
                    throw new IOException("the table was resized meanwhile: the rows belong to other buckets; try again");
                }
                ObjectNode complete = this.body().put("schema_version", at(this.table, "schema_version").asInt());
                complete.set("write_stats", this.writeGroups(groups));
                return this.server.post(this.instant() + "/complete", complete);
            } catch (Exception failure) {
                // 410: the lease had ended, and another client or the server has rolled the instant back.
                if (!(failure instanceof Refused) || ((Refused) failure).status != 410) {
                    this.rollBack(String.valueOf(failure.getMessage()));
                }
                throw failure;
            }
        }

        /** Put days since 1970-01-01 in place of dates that are texts. */
        private void countDates(List<JsonNode> rows) {
            for (int column = 0; column < this.schema.size(); column++) {
                String name = at(at(this.schema, column), "name").asText();
                if (this.typeOf(name).toLowerCase().equals("date")) {
                    for (int i = 0; i < rows.size(); i++) {
                        ObjectNode row = (ObjectNode) rows.get(i);
                        if (row.hasNonNull(name) && at(row, name).isTextual()) {
                            row.put(name, java.time.LocalDate.parse(at(row, name).asText()).toEpochDay());
                        }
                    }
                }
            }
        }

        /** Claim the base path for the table, or check that the table has claimed it. */
        private void checkClaim(String metastore, String tableId) throws IOException {
            Path path = Paths.get(this.root, new String[] {CLAIM});
            if (!Files.exists(path, new LinkOption[0])) {
                ObjectNode claim = JSON.createObjectNode().put("format_version", 1).put("metastore_id", metastore);
                claim.put("table_id", tableId).put("table", at(this.table, "name").asText());
                claim.put("claimed_at", Instant.now().truncatedTo(ChronoUnit.SECONDS).toString());
                Files.createDirectories(path.getParent(), new FileAttribute[0]);
                Path temporary = path.resolveSibling(path.getFileName() + "." + UUID.randomUUID());
                Files.write(temporary, claim.toString().getBytes(StandardCharsets.UTF_8), new OpenOption[0]);
                try {
                    // A link appears with its whole content, and only if the name is free.
                    Files.createLink(path, temporary);
                } catch (FileAlreadyExistsException faster) {
                    // Another client has claimed it; the next lines read the claim.
                } finally {
                    Files.delete(temporary);
                }
            }
            JsonNode claim = JSON.readTree(path.toFile());
            if (at(claim, "format_version").asInt() != 1) {
                throw new IOException(path + " has a format that this writer does not know");
            }
            String owner = textOf(claim, "metastore_id", "") + " " + textOf(claim, "table_id", "");
            if (!owner.equals(metastore + " " + tableId)) {
                throw new IOException(this.root + " is claimed by " + textOf(claim, "table", "") + ", " + owner);
            }
        }

        private String instant() {
            return this.path + "/instants/" + this.time;
        }

        /** A body with the name of this writer. */
        private ObjectNode body() {
            return JSON.createObjectNode().put("writer", this.writer);
        }

        /** The rows by "bucket partition path", in there by record key: one row per key. */
        private TreeMap<String, Map<String, JsonNode>> fileGroups(List<JsonNode> rows) {
            String[] keys = namesOf(at(this.table, "record_key_fields"));
            String[] partitions = namesOf(at(this.table, "partition_fields"));
            TreeMap<String, Map<String, JsonNode>> groups = new TreeMap<String, Map<String, JsonNode>>();
            for (int i = 0; i < rows.size(); i++) {
                JsonNode row = (JsonNode) rows.get(i);
                String[] texts = this.textsOf(row, keys);
                String[] values = new String[partitions.length];
                for (int j = 0; j < partitions.length; j++) {
                    values[j] = partitionText(at(row, partitions[j]), this.typeOf(partitions[j]));
                }
                String path = partitionPath(partitions, values, at(this.table, "properties"));
                String name = groupName(bucketOf(texts, this.buckets), path);
                if (!groups.containsKey(name)) {
                    groups.put(name, new LinkedHashMap<String, JsonNode>());
                }
                Map<String, JsonNode> group = (Map<String, JsonNode>) groups.get(name);
                String key = recordKey(keys, texts);
                if (group.containsKey(key) && this.operation.equals("insert")) {
                    throw new IllegalArgumentException("the key " + key + " comes twice");
                }
                if (!group.containsKey(key) || this.replaces(row, (JsonNode) group.get(key))) {
                    group.put(key, row);
                }
            }
            return groups;
        }

        private String[] textsOf(JsonNode row, String[] names) {
            String[] texts = new String[names.length];
            for (int i = 0; i < names.length; i++) {
                texts[i] = keyText(at(row, names[i]), this.typeOf(names[i]));
            }
            return texts;
        }

        private String typeOf(String name) {
            for (int i = 0; i < this.schema.size(); i++) {
                if (at(at(this.schema, i), "name").asText().equals(name)) {
                    return at(at(this.schema, i), "type").asText();
                }
            }
            throw new IllegalArgumentException("the table has no column " + name);
        }

        /** Whether a row replaces another of its key: the greater ordering value wins, of equal ones the later. */
        private boolean replaces(JsonNode row, JsonNode old) {
            if (this.ordering == null || isNull(at(old, this.ordering))) {
                return true;
            }
            JsonNode value = at(row, this.ordering);
            if (isNull(value)) {
                return false;
            }
            if (this.typeOf(this.ordering).toLowerCase().equals("string")) {
                byte[] later = value.asText().getBytes(StandardCharsets.UTF_8);
                byte[] earlier = at(old, this.ordering).asText().getBytes(StandardCharsets.UTF_8);
                return Arrays.compareUnsigned(later, earlier) >= 0;
            }
            return number(value).compareTo(number(at(old, this.ordering))) >= 0;
        }

        /** The write stats of the written files, file group by file group; the lease is renewed meanwhile. */
        private ArrayNode writeGroups(TreeMap<String, Map<String, JsonNode>> groups) throws Exception {
            ArrayNode stats = JSON.createArrayNode();
            final CountDownLatch ended = new CountDownLatch(1);
            Thread heartbeats = new Thread(new Runnable() {
                public void run() {
                    Attempt.this.beatUntil(ended);
                }
            });
            heartbeats.setDaemon(true);
            heartbeats.start();
            try {
                // The snapshot is read after begin: a completion in between is a conflict, not a lost update.
                Map<String, JsonNode> stored = this.storedFiles();
                int number = 0;
                for (Iterator names = groups.keySet().iterator(); names.hasNext(); number++) {
                    String name = (String) names.next();
                    Map<String, JsonNode> rows = (Map<String, JsonNode>) groups.get(name);
                    ObjectNode stat = this.writeGroup(number, name, rows, (JsonNode) stored.get(name));
                    if (stat != null) {
                        stats.add(stat);
                    }
                }
            } finally {
                ended.countDown();
                heartbeats.join();
            }
            return stats;
        }

        void beatUntil(CountDownLatch ended) {
            try {
                while (!ended.await(LEASE_SECONDS / 3, TimeUnit.SECONDS)) {
                    try {
                        this.server.post(this.instant() + "/heartbeat", this.body());
                    } catch (IOException failure) {
                        // The answer to complete says whether the lease is lost.
                    }
                }
            } catch (Exception interrupted) {
                Thread.currentThread().interrupt();
            }
        }

        /** The present file slice of each file group. */
        private Map<String, JsonNode> storedFiles() throws Exception {
            Map<String, JsonNode> stored = new TreeMap<String, JsonNode>();
            List<JsonNode> slices = this.server.pages(this.path + "/snapshot", "slices");
            for (int i = 0; i < slices.size(); i++) {
                JsonNode slice = (JsonNode) slices.get(i);
                if (!isNull(at(slice, "base_file"))) {
                    int bucket = Integer.parseInt(at(slice, "file_id").asText().substring(0, 8));
                    stored.put(groupName(bucket, at(slice, "partition_path").asText()), slice);
                }
            }
            return stored;
        }

        /** Merge rows into a file group's base file: the write stat of the next one; null if nothing changes. */
        private ObjectNode writeGroup(int number, String group, Map<String, JsonNode> rows, JsonNode stored)
                throws Exception {
            String partition = group.substring(9);
            List<ObjectNode> old = stored == null ? new ArrayList<ObjectNode>() : this.read(at(stored, "base_file"));
            // Partition, stage and attempt of the task: no two attempts of one instant may share a name.
            String first = fileIdOf(Integer.parseInt(group.substring(0, 8)), 0L);
            String fileId = stored == null ? first : at(stored, "file_id").asText();
            String fileName = baseFileName(fileId, writeToken(number, 0, 0), this.time);
            Map<String, JsonNode> fresh = new LinkedHashMap<String, JsonNode>(rows);
            List<ObjectNode> merged = new ArrayList<ObjectNode>();
            int updates = 0;
            for (int i = 0; i < old.size(); i++) {
                ObjectNode row = (ObjectNode) old.get(i);
                String key = at(row, META[2]).asText();
                if (fresh.containsKey(key) && this.operation.equals("insert")) {
                    throw new IllegalArgumentException("the table has the key " + key + " already");
                }
                if (fresh.containsKey(key) && this.replaces((JsonNode) fresh.get(key), row)) {
                    updates++;
                } else {
                    fresh.remove(key);
                    // Only the file name changes: a stored record keeps the commit that wrote it.
                    merged.add(row.put(META[4], fileName));
                }
            }
            if (fresh.isEmpty()) {
                return null;
            }
            int index = 0;
            for (Iterator keys = fresh.keySet().iterator(); keys.hasNext(); index++) {
                String key = (String) keys.next();
                ObjectNode row = (ObjectNode) ((ObjectNode) fresh.get(key)).deepCopy();
                row.put(META[0], this.time).put(META[1], this.time + "_" + number + "_" + index).put(META[2], key);
                merged.add(row.put(META[3], partition).put(META[4], fileName));
            }
            long size = this.writeFile(partition, fileName, stored == null ? "CREATE" : "MERGE", merged);
            ObjectNode stat = JSON.createObjectNode().put("partition_path", partition).put("file_id", fileId);
            stat.put("file_name", fileName).put("size_bytes", size).put("records", merged.size());
            return stat.put("inserts", fresh.size() - updates).put("updates", updates).put("has_field_ids", true);
        }

        /** Mark the file, then write it, and give its size: a file in storage always has a marker. */
        private long writeFile(String partition, String name, String kind, List<ObjectNode> rows) throws Exception {
            ObjectNode marker = JSON.createObjectNode().put("partition_path", partition).put("file_name", name);
            ObjectNode body = this.body();
            body.putArray("markers").add(marker.put("kind", kind));
            this.server.post(this.instant() + "/markers", body);
            Path file = Paths.get(this.root, new String[] {partition, name});
            Files.createDirectories(file.getParent());
            MessageType layout = this.layout();
            ExampleParquetWriter.Builder builder = ExampleParquetWriter.builder(new LocalOutputFile(file));
            builder.withType(layout);
            builder.withCompressionCodec(CompressionCodecName.ZSTD);
            ParquetWriter parquet = builder.build();
            try {
                for (int i = 0; i < rows.size(); i++) {
                    parquet.write(this.groupOf(layout, (JsonNode) rows.get(i)));
                }
            } finally {
                parquet.close();
            }
            return Files.size(file);
        }

        /** Five texts, then the table's columns; all may be null, and have their field ids. */
        private MessageType layout() {
            List<Type> types = new ArrayList<Type>();
            for (int i = 0; i < META.length; i++) {
                types.add(parquetType(META[i], "string").withId(FIRST_META_ID + i));
            }
            for (int i = 0; i < this.schema.size(); i++) {
                JsonNode field = at(this.schema, i);
                Type type = parquetType(at(field, "name").asText(), at(field, "type").asText());
                types.add(type.withId(at(field, "field_id").asInt()));
            }
            return new MessageType("record", types);
        }

        private Group groupOf(MessageType layout, JsonNode row) {
            Group group = new SimpleGroup(layout);
            for (int i = 0; i < layout.getFieldCount(); i++) {
                JsonNode value = at(row, layout.getFieldName(i));
                if (!isNull(value)) {
                    boolean isMeta = i < META.length;
                    add(group, i, value, isMeta ? "string" : at(at(this.schema, i - META.length), "type").asText());
                }
            }
            return group;
        }

        /** The rows of a base file. */
        private List<ObjectNode> read(JsonNode file) throws Exception {
            if (at(file, "schema_version").asInt() != at(this.table, "schema_version").asInt()) {
                throw new IllegalStateException(
                    "the schema has changed since " + at(file, "path").asText() + " was written; this example does "
                    + "not map columns by their field ids, as the one in Python does");
            }
            List<ObjectNode> rows = new ArrayList<ObjectNode>();
            Path path = Paths.get(this.root, new String[] {at(file, "path").asText()});
            ParquetFileReader reader = ParquetFileReader.open(new LocalInputFile(path));
            try {
                MessageType layout = reader.getFooter().getFileMetaData().getSchema();
                MessageColumnIO columns = new ColumnIOFactory().getColumnIO(layout);
                PageReadStore pages;
                while ((pages = reader.readNextRowGroup()) != null) {
                    RecordReader records = columns.getRecordReader(pages, new GroupRecordConverter(layout));
                    for (long i = 0; i < pages.getRowCount(); i++) {
                        rows.add(this.rowOf((Group) records.read(), layout));
                    }
                }
            } finally {
                reader.close();
            }
            return rows;
        }

        private ObjectNode rowOf(Group group, MessageType layout) {
            ObjectNode row = JSON.createObjectNode();
            for (int i = 0; i < layout.getFieldCount(); i++) {
                String name = layout.getFieldName(i);
                if (group.getFieldRepetitionCount(i) > 0) {
                    put(row, name, group, i, name.startsWith("_hoodie_") ? "string" : this.typeOf(name));
                }
            }
            return row;
        }

        /** Roll the instant back, delete its marked files, and report them. If that fails, its lease ends. */
        private void rollBack(String reason) {
            try {
                ObjectNode body = this.body().put("reason", reason.substring(0, Math.min(reason.length(), 500)));
                JsonNode undone = this.server.post(this.instant() + "/rollback", body);
                String rollback = this.path + "/instants/" + at(undone, "rolled_back_by").asText();
                if (!at(this.server.get(rollback), "state").asText().equals("inflight")) {
                    return;
                }
                List<JsonNode> markers = this.server.pages(this.instant() + "/markers?unpublished=true", "markers");
                for (int first = 0; first < markers.size(); first += 5000) {
                    this.delete(rollback, markers.subList(first, Math.min(first + 5000, markers.size())));
                }
                // The server refuses this until all files are reported.
                this.server.post(rollback + "/complete", this.body());
            } catch (Exception failure) {
                System.err.println("the rollback is left to the server: " + failure.getMessage());
            }
        }

        /** Delete the marked files that a rollback may delete, and report them. */
        private void delete(String rollback, List<JsonNode> markers) throws Exception {
            ObjectNode question = this.body();
            ArrayNode files = question.putArray("files");
            for (int i = 0; i < markers.size(); i++) {
                String partition = at((JsonNode) markers.get(i), "partition_path").asText();
                files.addObject().put("partition_path", partition)
                    .put("file_name", at((JsonNode) markers.get(i), "file_name").asText());
            }
            JsonNode answer = this.server.post(rollback + "/deletable", question);
            this.checkClaim(at(answer, "metastore_id").asText(), at(answer, "table_id").asText());
            List<String> refused = new ArrayList<String>();
            for (int i = 0; i < at(answer, "refused").size(); i++) {
                refused.add(this.pathOf(at(at(answer, "refused"), i)).toString());
            }
            ObjectNode report = this.body();
            ArrayNode deleted = report.putArray("files");
            for (int i = 0; i < files.size(); i++) {
                Path path = this.pathOf(at(files, i));
                if (!refused.contains(path.toString())) {
                    Files.deleteIfExists(path);
                    deleted.add(at(files, i));
                }
            }
            if (deleted.size() > 0) {
                this.server.post(rollback + "/deletions", report);
            }
        }

        private Path pathOf(JsonNode file) {
            return Paths.get(this.root, new String[] {textOf(file, "partition_path", ""), textOf(file, "file_name", "")});
        }
    }

    // Jackson's own get has a second method of its name and arguments, which Janino takes: hence the casts.

    static JsonNode at(JsonNode node, String name) {
        return (JsonNode) node.get(name);
    }

    static JsonNode at(JsonNode node, int index) {
        return (JsonNode) node.get(index);
    }

    static String textOf(JsonNode node, String name, String otherwise) {
        return isNull(at(node, name)) ? otherwise : at(node, name).asText();
    }

    static boolean isNull(JsonNode value) {
        return value == null || value.isNull() || (value.isDouble() && Double.isNaN(value.asDouble()));
    }

    static BigDecimal number(JsonNode value) {
        return value.isBoolean() ? BigDecimal.valueOf(value.asBoolean() ? 1L : 0L) : new BigDecimal(value.asText());
    }

    static String groupName(int bucket, String partitionPath) {
        return String.format("%08d %s", new Object[] {Integer.valueOf(bucket), partitionPath});
    }

    static String[] namesOf(JsonNode names) {
        String[] texts = new String[names.size()];
        for (int i = 0; i < texts.length; i++) {
            texts[i] = at(names, i).asText();
        }
        return texts;
    }

    // ---- columns

    static Type parquetType(String name, String type) {
        String lower = type.toLowerCase();
        if (lower.startsWith("decimal")) {
            int precision = Integer.parseInt(lower.substring(lower.indexOf('(') + 1, lower.indexOf(',')).trim());
            int scale = Integer.parseInt(lower.substring(lower.indexOf(',') + 1, lower.indexOf(')')).trim());
            int length = BigInteger.TEN.pow(precision).bitLength() / 8 + 1;
            LogicalTypeAnnotation decimal = LogicalTypeAnnotation.decimalType(scale, precision);
            return typeOf(name, PrimitiveTypeName.FIXED_LEN_BYTE_ARRAY, length, decimal);
        }
        LogicalTypeAnnotation.TimeUnit micros = LogicalTypeAnnotation.TimeUnit.MICROS;
        switch (lower) {
            case "boolean":
                return typeOf(name, PrimitiveTypeName.BOOLEAN, 0, null);
            case "tinyint":
                return typeOf(name, PrimitiveTypeName.INT32, 0, LogicalTypeAnnotation.intType(8, true));
            case "smallint":
                return typeOf(name, PrimitiveTypeName.INT32, 0, LogicalTypeAnnotation.intType(16, true));
            case "int":
                return typeOf(name, PrimitiveTypeName.INT32, 0, null);
            case "bigint":
                return typeOf(name, PrimitiveTypeName.INT64, 0, null);
            case "float":
                return typeOf(name, PrimitiveTypeName.FLOAT, 0, null);
            case "double":
                return typeOf(name, PrimitiveTypeName.DOUBLE, 0, null);
            case "string":
                return typeOf(name, PrimitiveTypeName.BINARY, 0, LogicalTypeAnnotation.stringType());
            case "date":
                return typeOf(name, PrimitiveTypeName.INT32, 0, LogicalTypeAnnotation.dateType());
            case "timestamp":
                return typeOf(name, PrimitiveTypeName.INT64, 0, LogicalTypeAnnotation.timestampType(true, micros));
            case "timestamp_ntz":
                return typeOf(name, PrimitiveTypeName.INT64, 0, LogicalTypeAnnotation.timestampType(false, micros));
            default:
                throw new IllegalArgumentException("this example has no columns of type " + type);
        }
    }

    static Type typeOf(String name, PrimitiveTypeName kind, int length, LogicalTypeAnnotation annotation) {
        Types.PrimitiveBuilder builder = Types.optional(kind);
        if (length > 0) {
            builder.length(length);
        }
        if (annotation != null) {
            builder.as(annotation);
        }
        return (Type) builder.named(name);
    }

    /** Put a value as JSON has it into a record of Parquet. */
    static void add(Group group, int column, JsonNode value, String type) {
        switch (group.getType().getType(column).asPrimitiveType().getPrimitiveTypeName()) {
            case BOOLEAN:
                group.add(column, value.asBoolean());
                break;
            case INT32:
                group.add(column, Math.toIntExact(new BigDecimal(value.asText()).longValueExact()));
                break;
            case INT64:
                group.add(column, new BigDecimal(value.asText()).longValueExact());
                break;
            case FLOAT:
                group.add(column, (float) value.asDouble());
                break;
            case DOUBLE:
                group.add(column, value.asDouble());
                break;
            case FIXED_LEN_BYTE_ARRAY:
                byte[] octets = padded(decimalOf(value, type).unscaledValue(), group, column);
                group.add(column, Binary.fromConstantByteArray(octets));
                break;
            default:
                group.add(column, Binary.fromString(value.asText()));
        }
    }

    /** Two's complement, big-endian, as long as the column's values are. */
    static byte[] padded(BigInteger unscaled, Group group, int column) {
        byte[] octets = new byte[group.getType().getType(column).asPrimitiveType().getTypeLength()];
        byte[] given = unscaled.toByteArray();
        Arrays.fill(octets, (byte) (unscaled.signum() < 0 ? -1 : 0));
        System.arraycopy(given, 0, octets, octets.length - given.length, given.length);
        return octets;
    }

    /** Take a value out of a record of Parquet, as JSON has it. */
    static void put(ObjectNode row, String name, Group group, int column, String type) {
        PrimitiveTypeName kind = group.getType().getType(column).asPrimitiveType().getPrimitiveTypeName();
        if (type.toLowerCase().startsWith("decimal")) {
            BigInteger unscaled = kind == PrimitiveTypeName.INT32 ? BigInteger.valueOf(group.getInteger(column, 0))
                : kind == PrimitiveTypeName.INT64 ? BigInteger.valueOf(group.getLong(column, 0))
                : new BigInteger(group.getBinary(column, 0).getBytes());
            int scale = Integer.parseInt(type.substring(type.indexOf(',') + 1, type.indexOf(')')).trim());
            row.put(name, new BigDecimal(unscaled, scale).toPlainString());
            return;
        }
        switch (kind) {
            case BOOLEAN:
                row.put(name, group.getBoolean(column, 0));
                break;
            case INT32:
                row.put(name, group.getInteger(column, 0));
                break;
            case INT64:
                row.put(name, group.getLong(column, 0));
                break;
            case FLOAT:
                row.put(name, (double) group.getFloat(column, 0));
                break;
            case DOUBLE:
                row.put(name, group.getDouble(column, 0));
                break;
            default:
                row.put(name, group.getString(column, 0));
        }
    }

    // ---- the command line

    /** The results of this writer for the test vectors, in the form of the file. */
    static JsonNode computed(ObjectNode vectors) {
        for (int i = 0; i < at(vectors, "keys").size(); i++) {
            ObjectNode vector = (ObjectNode) at(at(vectors, "keys"), i);
            String[] texts = textsOf(vector);
            ArrayNode array = vector.putArray("texts");
            for (int j = 0; j < texts.length; j++) {
                array.add(texts[j]);
            }
            JsonNode counts = vector.remove("buckets");
            vector.remove("xxhash64");
            try {
                vector.put("key", recordKey(fieldNames(vector), texts));
            } catch (IllegalArgumentException refused) {
                vector.putNull("key");
                continue;
            }
            vector.put("xxhash64", String.valueOf(keyHash(texts)));
            ObjectNode buckets = vector.putObject("buckets");
            for (Iterator names = counts.fieldNames(); names.hasNext(); ) {
                String count = (String) names.next();
                buckets.put(count, bucketOf(texts, Integer.parseInt(count)));
            }
        }
        for (int i = 0; i < at(vectors, "partition_paths").size(); i++) {
            ObjectNode vector = (ObjectNode) at(at(vectors, "partition_paths"), i);
            String[] values = new String[at(vector, "fields").size()];
            for (int j = 0; j < values.length; j++) {
                JsonNode field = at(at(vector, "fields"), j);
                values[j] = partitionText(at(at(vector, "values"), j), at(field, 1).asText());
            }
            JsonNode properties = vector.has("properties") ? at(vector, "properties") : JSON.createObjectNode();
            try {
                vector.put("path", partitionPath(fieldNames(vector), values, properties));
            } catch (IllegalArgumentException refused) {
                vector.putNull("path");
            }
        }
        for (int i = 0; i < at(vectors, "names").size(); i++) {
            computeNames((ObjectNode) at(at(vectors, "names"), i));
        }
        return vectors;
    }

    static void computeNames(ObjectNode vector) {
        JsonNode attempt = at(vector, "attempt");
        String time = at(vector, "requested_time").asText();
        String token = writeToken(at(attempt, 0).asInt(), at(attempt, 1).asInt(), at(attempt, 2).asInt());
        String fileId = fileIdOf(at(vector, "bucket").asInt(), at(vector, "generation").asLong());
        String name = baseFileName(fileId, token, time);
        vector.put("file_id", fileId).put("write_token", token).put("file_name", name);
        vector.put("marker", "region=eu/" + name + ".marker.CREATE");
        vector.put("commit_seqno", time + "_" + at(attempt, 0).asInt() + "_" + at(vector, "number").asInt());
    }

    static String[] fieldNames(JsonNode vector) {
        String[] names = new String[at(vector, "fields").size()];
        for (int i = 0; i < names.length; i++) {
            names[i] = at(at(at(vector, "fields"), i), 0).asText();
        }
        return names;
    }

    static String[] textsOf(JsonNode vector) {
        String[] texts = new String[at(vector, "fields").size()];
        for (int i = 0; i < texts.length; i++) {
            texts[i] = keyText(at(at(vector, "values"), i), at(at(at(vector, "fields"), i), 1).asText());
        }
        return texts;
    }

    public static void main(String[] args) throws Exception {
        if (args[0].equals("vectors")) {
            System.out.println(computed((ObjectNode) JSON.readTree(Paths.get(args[1], new String[0]).toFile())));
            return;
        }
        List<JsonNode> rows = new ArrayList<JsonNode>();
        List<String> lines = Files.readAllLines(Paths.get(args[3], new String[0]));
        for (int i = 0; i < lines.size(); i++) {
            if (!((String) lines.get(i)).isBlank()) {
                rows.add(JSON.readTree((String) lines.get(i)));
            }
        }
        System.out.println(write(new Server(args[0]), args[1], args[2], rows));
    }
}
