package chronolake.spark;

import java.util.Locale;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.DeltaBatchWrite;
import org.apache.spark.sql.connector.write.DeltaWrite;
import org.apache.spark.sql.connector.write.DeltaWriteBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsDelta;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A DELETE, UPDATE or MERGE: only the changed rows are written. A stored row is known by its record key
 * and its partition path, which are never null; its file group by the name of its file.
 */
record RowChanges(ChronolakeTable table, Command command) implements SupportsDelta {
  @Override
  public String description() {
    return "chronolake " + table.name() + " (" + command.name().toLowerCase(Locale.ROOT) + ")";
  }

  /** What EXPLAIN shows. */
  @Override
  public String toString() {
    return description();
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return table.newScanBuilder(options);
  }

  @Override
  public NamedReference[] rowId() {
    return new NamedReference[] {
        Expressions.column("_hoodie_record_key"), Expressions.column("_hoodie_partition_path")};
  }

  @Override
  public NamedReference[] requiredMetadataAttributes() {
    return new NamedReference[] {Expressions.column("_hoodie_file_name")};
  }

  @Override
  public DeltaWriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new Builder(info);
  }

  final class Builder implements DeltaWriteBuilder, DeltaWrite {
    private final LogicalWriteInfo info;

    Builder(LogicalWriteInfo info) {
      this.info = info;
    }

    @Override
    public DeltaWrite build() {
      return this;
    }

    @Override
    public String description() {
      return RowChanges.this.description();
    }

    @Override
    public String toString() {
      return description();
    }

    /** The write of a statement whose rows are whole records to insert or update. */
    V1Write ofWholeRows() {
      return FrameWrite.ofMerge(table, info);
    }

    @Override
    public DeltaBatchWrite toBatch() {
      return new StagedChanges(table, command, info);
    }
  }
}
