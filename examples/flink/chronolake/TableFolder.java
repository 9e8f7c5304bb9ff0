package chronolake;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.core.fs.Path;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/** The files of a table, in any file system that Flink has. */
final class TableFolder {
    private final Path base;

    /** The folder of a table. It must have the table's claim (docs/writing.md#claims). */
    TableFolder(JsonNode table) throws IOException {
        this.base = new Path(table.get("base_path").asText());
        this.checkClaim(table);
    }

    /** Where a data file lies. */
    Path pathOf(JsonNode file) {
        String partition = file.get("partition_path").asText();
        Path folder = partition.isEmpty() ? this.base : new Path(this.base, partition);
        return new Path(folder, file.get("file_name").asText());
    }

    void create(JsonNode file, byte[] content) throws IOException {
        Path path = this.pathOf(file);
        try (OutputStream out = path.getFileSystem().create(path, FileSystem.WriteMode.NO_OVERWRITE)) {
            out.write(content);
        }
    }

    void delete(JsonNode file) throws IOException {
        Path path = this.pathOf(file);
        if (!path.getFileSystem().delete(path, false) && path.getFileSystem().exists(path)) {
            throw new IOException("cannot delete " + path);
        }
    }

    /** Refuse to write or delete where the folder is another table's. {@code owner} has the ids of the table. */
    void checkClaim(JsonNode owner) throws IOException {
        Path path = new Path(this.base, ".hoodie/.chronolake-claim.json");
        JsonNode claim;
        try (InputStream in = path.getFileSystem().open(path)) {
            claim = Server.JSON.readTree(in);
        } catch (FileNotFoundException none) {
            throw new IOException(this.base + " has no claim; make it with table.claim_storage() of the Python client");
        }
        if (claim.path("format_version").asInt() != 1
                || !claim.path("metastore_id").equals(owner.get("metastore_id"))
                || !claim.path("table_id").equals(owner.get("table_id"))) {
            throw new IOException(this.base + " is claimed by another table: " + claim);
        }
    }
}
