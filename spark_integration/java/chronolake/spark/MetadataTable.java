package chronolake.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.EnumSet;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.types.UTF8String;

/** Metadata of a table as rows, such as {@code lake.shop.orders.files}: the driver has all of them. */
final class MetadataTable implements SupportsRead {
  private final ChronolakeCatalog catalog;
  private final Identifier identifier;
  private final StructType schema;
  private final String asOf;

  /** Whether a name is that of metadata: {@code shop.orders} is the namespace of {@code files}. */
  static boolean isNamed(Identifier identifier) {
    return identifier.namespace().length == 2;
  }

  MetadataTable(ChronolakeCatalog catalog, Identifier identifier, ObjectNode state) {
    this.catalog = catalog;
    this.identifier = identifier;
    JsonNode loaded = catalog.ask("metadata", named(state));
    this.schema = StructType.fromDDL(loaded.get("schema").asText());
    this.asOf = loaded.get("as_of").asText(null);
  }

  private ObjectNode named(ObjectNode request) {
    String table = String.join(".", identifier.namespace());
    return request.put("table", table).put("kind", identifier.name());
  }

  @Override
  public String name() {
    return catalog.name() + "." + identifier;
  }

  @Override
  public Column[] columns() {
    return ChronolakeTable.columns(schema);
  }

  @Override
  public Set<TableCapability> capabilities() {
    return EnumSet.of(TableCapability.BATCH_READ);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    ChronolakeTable.refuseOptions(name(), options);
    return () -> new Rows(this);
  }

  private record Rows(MetadataTable table) implements LocalScan {
    @Override
    public StructType readSchema() {
      return table.schema;
    }

    @Override
    public InternalRow[] rows() {
      ObjectNode request = table.named(PythonProcess.request()).put("as_of", table.asOf);
      JsonNode rows = table.catalog.ask("metadata_rows", request);
      InternalRow[] converted = new InternalRow[rows.size()];
      for (int i = 0; i < converted.length; i++) {
        converted[i] = row(rows.get(i));
      }
      return converted;
    }

    /** The values are texts, whole numbers (times in microseconds too) and booleans. */
    private static InternalRow row(JsonNode given) {
      Object[] values = new Object[given.size()];
      for (int i = 0; i < values.length; i++) {
        JsonNode value = given.get(i);
        if (value.isTextual()) {
          values[i] = UTF8String.fromString(value.asText());
        } else if (value.isBoolean()) {
          values[i] = value.asBoolean();
        } else if (!value.isNull()) {
          values[i] = value.asLong();
        }
      }
      return new GenericInternalRow(values);
    }
  }
}
