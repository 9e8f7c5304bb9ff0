package chronolake.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.EnumSet;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What {@code spark.read.format("chronolake").load()} shows: a state of a table, or its changes. */
final class FormatRead implements SupportsRead {
  private final ChronolakeTable table;
  private final JsonNode read;
  private final StructType shown;

  FormatRead(ChronolakeCatalog metastore, JsonNode read) {
    JsonNode loaded = read.get("table");
    this.table = ChronolakeTable.of(metastore, ChronolakeCatalog.identifier(loaded), loaded);
    this.read = read;
    this.shown = (StructType) DataType.fromJson(read.get("schema").asText());
  }

  /** The table, if this shows its records, in a state that no option names. */
  ChronolakeTable table() {
    return table;
  }

  @Override
  public String name() {
    return table.name();
  }

  @Override
  public Column[] columns() {
    return ChronolakeTable.columns(shown);
  }

  @Override
  public Set<TableCapability> capabilities() {
    return EnumSet.of(TableCapability.BATCH_READ);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    if (!read.get("changes").isNull()) {
      return () -> PythonSource.scan(shown, read.get("changes").asText());
    }
    return new SlicesScanBuilder(table, shown, read.get("view").asText(), read.get("filter").asText(null));
  }

  @Override
  public String toString() {
    return name();
  }
}
