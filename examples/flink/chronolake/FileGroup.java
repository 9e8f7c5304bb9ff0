package chronolake;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.LocalDate;
import java.util.List;
import net.jpountz.xxhash.XXHash64;
import net.jpountz.xxhash.XXHashFactory;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.types.Row;

/** The file group that a record belongs to, and the record's key (docs/writing.md#record-keys and after it). */
record FileGroup(String partitionPath, int bucket) {
    private static final List<String> KEY_TYPES =
            List.of("boolean", "tinyint", "smallint", "int", "bigint", "string", "date");
    private static final String NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__";
    private static final String ESCAPED = "\u007f\"#%'*/:=?\\{[]^";
    private static final int SEED = 42;
    // lz4-java is part of Flink.
    private static final XXHash64 XXH64 = XXHashFactory.fastestJavaInstance().hash64();

    /** Refuse tables that this example cannot write. */
    static void refuseOthers(JsonNode table) throws IOException {
        JsonNode properties = table.get("properties");
        String why = null;
        if (!table.get("type").asText().equals("merge_on_read")
                || !table.at("/index/type").asText().equals("bucket")) {
            why = "it is no merge-on-read table with a bucket index";
        } else if (table.get("record_key_fields").size() != 1 || table.get("partition_fields").size() > 1) {
            why = "it has several key fields or partition fields";
        } else if (table.get("ordering_field").isNull()
                || properties.path("merge.mode").asText().equals("commit-time")) {
            // Two files of one instant may have the same key: only the ordering field says which record is later.
            why = "it has no ordering field";
        } else if (properties.path("partition-paths.hive-style").asText().equals("false")
                || properties.path("partition-paths.url-encode").asText().equals("false")) {
            why = "its partition paths are spelled in another way";
        }
        for (JsonNode column : table.get("schema")) {
            boolean isKey = column.get("name").equals(table.at("/record_key_fields/0"))
                    || column.get("name").equals(table.at("/partition_fields/0"));
            String type = column.get("type").asText();
            if (isKey && !KEY_TYPES.contains(type)) {
                why = "the key or partition field " + column.get("name").asText() + " is of type " + type;
            }
        }
        if (why != null) {
            throw new IOException("this example cannot write the table " + table.get("name").asText() + ": " + why);
        }
    }

    /** The record key of a row. */
    static String keyOf(JsonNode table, Row row) throws IOException {
        String name = table.at("/record_key_fields/0").asText();
        String key = text(row.getField(name));
        if (key == null || key.isEmpty()) {
            throw new IOException("the record key " + name + " is null or empty: " + row);
        }
        return key;
    }

    /** The file group of a row. */
    static FileGroup of(JsonNode table, Row row, String key) {
        byte[] octets = key.getBytes(StandardCharsets.UTF_8);
        long buckets = table.at("/index/buckets").asLong();
        int bucket = (int) Math.floorMod(XXH64.hash(octets, 0, octets.length, SEED), buckets);
        if (table.get("partition_fields").isEmpty()) {
            return new FileGroup("", bucket);
        }
        String name = table.at("/partition_fields/0").asText();
        String value = text(row.getField(name));
        boolean isNull = value == null || value.isEmpty();
        return new FileGroup(escape(name) + "=" + (isNull ? NULL_PARTITION : escape(value)), bucket);
    }

    /** The file id of the group that the bucket has, or of its next one; {@code found} is what the server says. */
    String fileId(JsonNode found) {
        if (!found.get("slice").isNull()) {
            return found.at("/slice/file_id").asText();
        }
        String replaced = found.get("replaced").asText("");
        long generation = replaced.length() < 36 ? 0 : 1 + Long.parseLong(replaced.substring(24, 36));
        return String.format("%08d-0000-0000-0000-%012d-0", this.bucket, generation);
    }

    private static String text(Object value) {
        // LocalDate writes years as the tables' keys do.
        return value == null ? null : value instanceof LocalDate date ? date.toString() : value.toString();
    }

    private static String escape(String text) {
        StringBuilder escaped = new StringBuilder();
        for (char c : text.toCharArray()) {
            escaped.append(c < ' ' || ESCAPED.indexOf(c) >= 0 ? String.format("%%%02X", (int) c) : String.valueOf(c));
        }
        return escaped.toString();
    }
}
