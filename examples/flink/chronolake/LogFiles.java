package chronolake;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.LocalDate;
import java.time.temporal.ChronoUnit;
import java.util.List;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.TextNode;
import org.apache.flink.types.Row;

/**
 * The content of log files: one block of records in Avro (client/chronolake_hudi/log_files.py has the format).
 *
 * <p>Written by hand, because it is shorter than the dependency: Avro has no framing, only values one after the other.
 */
final class LogFiles {
    private static final String[] META = {
        "_hoodie_commit_time",
        "_hoodie_commit_seqno",
        "_hoodie_record_key",
        "_hoodie_partition_path",
        "_hoodie_file_name"
    };
    private static final int BLOCK_VERSION = 1;
    private static final int CONTENT_VERSION = 3;
    private static final int AVRO_BLOCK = 3;
    private static final int INSTANT_TIME = 0;
    private static final int SCHEMA = 2;

    private final JsonNode columns;
    private final String schema;

    /** A record: its key, and the values of the table's own columns in Avro. */
    record Encoded(String key, byte[] columns) {}

    /** Log files of a table. */
    LogFiles(JsonNode table) {
        this.columns = table.get("schema");
        this.schema = avroSchema(table.get("name").asText().replaceFirst(".*\\.", ""), this.columns).toString();
    }

    /** The table's own columns of a row, which has them by their names. */
    byte[] encode(Row row) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        for (JsonNode column : this.columns) {
            String name = column.get("name").asText();
            Object value = row.getField(name);
            if (column.get("nullable").asBoolean()) {
                writeLong(bytes, value == null ? 0 : 1);
            } else if (value == null) {
                throw new IOException("the column " + name + " must not be null: " + row);
            }
            if (value != null) {
                write(bytes, column.get("type").asText(), value);
            }
        }
        return bytes.toByteArray();
    }

    /** A whole log file. The records get numbers from {@code number} on, which are unique for a task. */
    byte[] file(String requestedTime, String task, long number, JsonNode file, List<Encoded> records)
            throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream content = new DataOutputStream(bytes);
        content.writeInt(CONTENT_VERSION);
        content.writeInt(records.size());
        for (Encoded record : records) {
            ByteArrayOutputStream avro = new ByteArrayOutputStream();
            String[] meta = {
                requestedTime,
                requestedTime + "_" + task + "_" + number++,
                record.key(),
                file.get("partition_path").asText(),
                file.get("file_name").asText()
            };
            for (String value : meta) {
                writeLong(avro, 1);
                writeText(avro, value);
            }
            avro.write(record.columns());
            content.writeInt(avro.size());
            avro.writeTo(content);
        }
        return this.block(requestedTime, bytes.toByteArray());
    }

    private byte[] block(String requestedTime, byte[] content) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream inner = new DataOutputStream(bytes);
        inner.writeInt(BLOCK_VERSION);
        inner.writeInt(AVRO_BLOCK);
        inner.writeInt(2);
        writeEntry(inner, INSTANT_TIME, requestedTime);
        writeEntry(inner, SCHEMA, this.schema);
        inner.writeLong(content.length);
        inner.write(content);
        inner.writeInt(0); // a footer without entries
        byte[] magic = "#HUDI#".getBytes(StandardCharsets.US_ASCII);
        long length = bytes.size() + Long.BYTES;
        ByteArrayOutputStream block = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(block);
        out.write(magic);
        out.writeLong(length);
        bytes.writeTo(out);
        out.writeLong(length + magic.length);
        return block.toByteArray();
    }

    private static void writeEntry(DataOutputStream out, int key, String value) throws IOException {
        byte[] text = value.getBytes(StandardCharsets.UTF_8);
        out.writeInt(key);
        out.writeInt(text.length);
        out.write(text);
    }

    private static void write(ByteArrayOutputStream bytes, String type, Object value) throws IOException {
        switch (type) {
            case "boolean" -> bytes.write((Boolean) value ? 1 : 0);
            case "tinyint", "smallint", "int", "bigint" -> writeLong(bytes, ((Number) value).longValue());
            case "float" -> writeFixed(bytes, Float.floatToIntBits((Float) value), Float.BYTES);
            case "double" -> writeFixed(bytes, Double.doubleToLongBits((Double) value), Double.BYTES);
            case "string" -> writeText(bytes, (String) value);
            case "date" -> writeLong(bytes, ((LocalDate) value).toEpochDay());
            case "timestamp" -> writeLong(bytes, ChronoUnit.MICROS.between(Instant.EPOCH, (Instant) value));
            default -> throw new IOException("this example writes no columns of the type " + type);
        }
    }

    /** Avro's int and long: zigzag, seven bits a byte, the lowest first. */
    private static void writeLong(ByteArrayOutputStream bytes, long value) {
        long bits = (value << 1) ^ (value >> 63);
        for (; (bits & ~0x7FL) != 0; bits >>>= 7) {
            bytes.write((int) (bits & 0x7F | 0x80));
        }
        bytes.write((int) bits);
    }

    private static void writeFixed(ByteArrayOutputStream bytes, long bits, int count) {
        for (int octet = 0; octet < count; octet++) {
            bytes.write((int) (bits >>> (8 * octet)));
        }
    }

    private static void writeText(ByteArrayOutputStream bytes, String text) throws IOException {
        byte[] octets = text.getBytes(StandardCharsets.UTF_8);
        writeLong(bytes, octets.length);
        bytes.write(octets);
    }

    /** The schema of a record, as Hudi names it; a column that may be null is a union. */
    private static ObjectNode avroSchema(String tableName, JsonNode columns) {
        String name = tableName.replaceAll("[^A-Za-z0-9_]", "__").replaceFirst("^[0-9]", "__");
        ObjectNode schema = Server.JSON.createObjectNode().put("type", "record").put("name", name + "_record");
        ArrayNode fields = schema.put("namespace", "hoodie." + name).putArray("fields");
        for (String meta : META) {
            addField(fields, meta, true, TextNode.valueOf("string"));
        }
        for (JsonNode column : columns) {
            JsonNode type = switch (column.get("type").asText()) {
                case "tinyint", "smallint" -> TextNode.valueOf("int");
                case "bigint" -> TextNode.valueOf("long");
                case "date" -> logicalType("int", "date");
                case "timestamp" -> logicalType("long", "timestamp-micros");
                default -> column.get("type");
            };
            addField(fields, column.get("name").asText(), column.get("nullable").asBoolean(), type);
        }
        return schema;
    }

    private static JsonNode logicalType(String type, String meaning) {
        return Server.JSON.createObjectNode().put("type", type).put("logicalType", meaning);
    }

    private static void addField(ArrayNode fields, String name, boolean nullable, JsonNode type) {
        ObjectNode field = fields.addObject().put("name", name);
        if (nullable) {
            field.putArray("type").add("null").add(type);
            field.putNull("default");
        } else {
            field.set("type", type);
        }
    }
}
