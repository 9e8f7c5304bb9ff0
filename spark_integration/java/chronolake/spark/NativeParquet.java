package chronolake.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetScanBuilder;
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetTable;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Spark's own vectorised Parquet reader, given the files of a scan. */
final class NativeParquet {
  // clang-format off: pairs.
  private static final Map<String, String> OPTIONS =
      Map.of(
          "recursiveFileLookup", "true",
          "__globPaths__", "false",
          "datetimeRebaseMode", "CORRECTED",
          "int96RebaseMode", "CORRECTED",
          "ignoreCorruptFiles", "false",
          "ignoreMissingFiles", "false",
          "ignoredPathSegmentRegex", "(?!)",
          "mergeSchema", "false");
  // clang-format on

  private NativeParquet() {}

  static Scan scan(String name, JsonNode files, StructType read, Seq<Expression> filters) {
    List<String> paths = new ArrayList<>();
    files.forEach(file -> paths.add(file.asText()));
    CaseInsensitiveStringMap options = new CaseInsensitiveStringMap(OPTIONS);
    ParquetTable table = new ParquetTable(name, SparkSession.active(), options,
        CollectionConverters.asScala(paths).toSeq(), Option.apply(read.asNullable()), ParquetFileFormat.class);
    ParquetScanBuilder builder = table.newScanBuilder(options);
    if (filters != null) {
      builder.pushFilters(filters);
    }
    return builder.build();
  }
}
