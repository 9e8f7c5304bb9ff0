package chronolake.spark;

import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The changes of a table as a stream: {@code spark.readStream.table("lake.shop.orders.changes")}. */
final class ChangesTable implements SupportsRead {
  private final ChronolakeCatalog catalog;
  private final Identifier identifier;
  private final String table;
  private final StructType schema;

  /** Whether a name is that of the changes of a table: {@code shop.orders} is their namespace. */
  static boolean isNamed(Identifier identifier) {
    return MetadataTable.isNamed(identifier) && identifier.name().equalsIgnoreCase("changes");
  }

  ChangesTable(ChronolakeCatalog catalog, Identifier identifier) {
    this.catalog = catalog;
    this.identifier = identifier;
    this.table = String.join(".", identifier.namespace());
    String loaded = catalog.ask("load", PythonProcess.request().put("table", table)).get("schema").asText();
    StructType columns = (StructType) DataType.fromJson(loaded);
    this.schema = columns.asNullable().add("_change_type", DataTypes.StringType);
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
    return EnumSet.of(TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return () -> new Changes(catalog.optionsOfFormat(table, options.asCaseSensitiveMap()));
  }

  private final class Changes implements Scan {
    private final Map<String, String> options;

    Changes(Map<String, String> options) {
      this.options = options;
    }

    @Override
    public StructType readSchema() {
      return schema;
    }

    @Override
    public String description() {
      return PythonSource.NAME + " " + name();
    }

    @Override
    public Batch toBatch() {
      throw new Refusal("invalid-option",
          name() + " is for spark.readStream: read the changes of a range by SELECT … FROM " + catalog.name()
              + "." + table + " CHANGES FROM VERSION …");
    }

    /** The stream of {@code format("chronolake")}. */
    @Override
    public MicroBatchStream toMicroBatchStream(String checkpoint) {
      FormatSource format = new FormatSource();
      CaseInsensitiveStringMap given = new CaseInsensitiveStringMap(options);
      if (!format.inferSchema(given).equals(schema)) {
        throw new Refusal("schema-mismatch",
            "the columns of " + table
                + " changed after this stream was made: make it again, and start it with the"
                + " same checkpoint folder; the option meta_columns is for format(\"chronolake\")");
      }
      SupportsRead changes = (SupportsRead) format.getTable(schema, format.inferPartitioning(given), options);
      return changes.newScanBuilder(given).build().toMicroBatchStream(checkpoint);
    }
  }
}
