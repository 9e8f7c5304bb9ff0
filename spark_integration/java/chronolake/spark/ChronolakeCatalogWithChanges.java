package chronolake.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Changelog;
import org.apache.spark.sql.connector.catalog.ChangelogContext;
import org.apache.spark.sql.connector.catalog.ChangelogRange;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The catalog with {@code SELECT … FROM table CHANGES FROM …}, which Spark has since 4.3. A class of
 * its own: an earlier Spark cannot load one that names {@code Changelog}.
 */
public class ChronolakeCatalogWithChanges extends ChronolakeCatalog {
  @Override
  public Changelog loadChangelog(Identifier table, ChangelogContext context, CaseInsensitiveStringMap options)
      throws NoSuchTableException {
    ObjectNode request = named(PythonProcess.request(), table);
    ChangelogRange range = context.range();
    request.put("from_inclusive", range.startingBoundInclusive());
    request.put("to_inclusive", range.endingBoundInclusive());
    if (range instanceof ChangelogRange.VersionRange versions) {
      request.put("from_version", versions.startingVersion());
      versions.endingVersion().ifPresent(version -> request.put("to_version", version));
    } else if (range instanceof ChangelogRange.TimestampRange times) {
      request.put("from_micros", times.startingTimestamp());
      times.endingTimestamp().ifPresent(micros -> request.put("to_micros", micros));
    }
    try {
      return new Changes(name() + "." + table, ask("changes", request));
    } catch (Refusal refusal) {
      throw missingTable(refusal, table);
    }
  }

  /** The net changes of a range: each record once, or twice if it was updated. */
  private record Changes(String name, JsonNode plan) implements Changelog {
    private StructType struct() {
      return (StructType) DataType.fromJson(plan.get("schema").asText());
    }

    @Override
    public Column[] columns() {
      return ChronolakeTable.columns(struct());
    }

    @Override
    public boolean containsCarryoverRows() {
      return false;
    }

    @Override
    public boolean containsIntermediateChanges() {
      return false;
    }

    @Override
    public boolean representsUpdateAsDeleteAndInsert() {
      return false;
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      Scan scan = PythonSource.scan(struct(), plan.get("slices").asText());
      return () -> new OfRange(name, scan);
    }
  }

  /** A range of changes. A stream has another source. */
  private record OfRange(String name, Scan range) implements Scan {
    @Override
    public StructType readSchema() {
      return range.readSchema();
    }

    @Override
    public Batch toBatch() {
      return range.toBatch();
    }

    @Override
    public MicroBatchStream toMicroBatchStream(String checkpoint) {
      throw new Refusal(
          "invalid-option", "use spark.readStream.table(\"" + name + ".changes\"), and not readStream.changes");
    }
  }
}
