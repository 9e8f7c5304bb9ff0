package chronolake.spark;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** The table of a {@code CREATE TABLE … AS SELECT}: if the query or the write fails, it is dropped. */
final class CreatedTable extends ChronolakeTable implements StagedTable {
  private final ChronolakeCatalog catalog;
  private final Identifier identifier;

  CreatedTable(ChronolakeCatalog catalog, Identifier identifier, JsonNode loaded) {
    super(catalog, identifier, loaded);
    this.catalog = catalog;
    this.identifier = identifier;
  }

  @Override
  public CustomTaskMetric[] reportDriverMetrics() {
    return new CustomTaskMetric[0];
  }

  @Override
  public void commitStagedChanges() {
    // The write is one instant, which has completed.
  }

  @Override
  public void abortStagedChanges() {
    catalog.dropTable(identifier);
  }
}
