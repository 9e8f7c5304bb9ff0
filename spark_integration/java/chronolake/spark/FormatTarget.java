package chronolake.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.EnumSet;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;

/**
 * The table of {@code df.write.format("chronolake").save()}. It takes a frame as it is: Spark would
 * fill columns that the frame lacks with null, which an upsert would store over values.
 */
final class FormatTarget implements SupportsWrite {
  private final ChronolakeTable table;

  FormatTarget(ChronolakeCatalog metastore, JsonNode loaded) {
    this.table = ChronolakeTable.of(metastore, ChronolakeCatalog.identifier(loaded), loaded);
  }

  @Override
  public String name() {
    return table.name();
  }

  @Override
  public Column[] columns() {
    return table.columns();
  }

  @Override
  public Transform[] partitioning() {
    return table.partitioning();
  }

  @Override
  public Set<TableCapability> capabilities() {
    return EnumSet.of(TableCapability.V1_BATCH_WRITE, TableCapability.TRUNCATE,
        TableCapability.OVERWRITE_BY_FILTER, TableCapability.ACCEPT_ANY_SCHEMA);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new FrameWrite(table, info, true);
  }
}
