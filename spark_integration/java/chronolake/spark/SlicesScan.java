package chronolake.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** A scan of scans: the partitions of all of them. Partitions of rows become columnar if others are. */
record SlicesScan(String name, StructType readSchema, List<Scan> scans, long rows, long bytes)
    implements Scan, Batch, SupportsReportStatistics {
  @Override
  public String description() {
    return scans.stream()
        .map(Scan::description)
        .collect(Collectors.joining(", ", "chronolake " + name + " [", "]"));
  }

  @Override
  public Statistics estimateStatistics() {
    return new Statistics() {
      @Override
      public OptionalLong sizeInBytes() {
        return OptionalLong.of(bytes);
      }

      @Override
      public OptionalLong numRows() {
        return rows < 0 ? OptionalLong.empty() : OptionalLong.of(rows);
      }
    };
  }

  @Override
  public Batch toBatch() {
    return this;
  }

  /** Refused: without the type of a change, a deleted record would look like another one. */
  @Override
  public MicroBatchStream toMicroBatchStream(String checkpoint) {
    throw new Refusal("invalid-option",
        "a stream reads the changes of a table: use spark.readStream.table(\"" + name + ".changes\")");
  }

  @Override
  public InputPartition[] planInputPartitions() {
    List<InputPartition> partitions = new ArrayList<>();
    for (int scan = 0; scan < scans.size(); scan++) {
      for (InputPartition partition : scans.get(scan).toBatch().planInputPartitions()) {
        partitions.add(new Part(scan, partition));
      }
    }
    return partitions.toArray(length -> new InputPartition[length]);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    PartitionReaderFactory[] factories = scans.stream()
                                             .map(scan -> scan.toBatch().createReaderFactory())
                                             .toArray(length -> new PartitionReaderFactory[length]);
    return new Factory(readSchema, factories);
  }

  private record Part(int scan, InputPartition partition) implements InputPartition {
    @Override
    public String[] preferredLocations() {
      return partition.preferredLocations();
    }
  }

  private record Factory(StructType read, PartitionReaderFactory[] factories)
      implements PartitionReaderFactory {
    @Override
    public PartitionReader<InternalRow> createReader(InputPartition given) {
      Part part = (Part) given;
      return factories[part.scan].createReader(part.partition);
    }

    @Override
    public boolean supportColumnarReads(InputPartition given) {
      // Spark wants all partitions of a scan columnar, or none: Python's rows alone stay rows.
      Part part = (Part) given;
      return factories.length > 1 || factories[part.scan].supportColumnarReads(part.partition);
    }

    @Override
    public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition given) {
      Part part = (Part) given;
      PartitionReaderFactory factory = factories[part.scan];
      return factory.supportColumnarReads(part.partition)
          ? factory.createColumnarReader(part.partition)
          : new RowsAsColumns(read, factory.createReader(part.partition));
    }
  }
}
