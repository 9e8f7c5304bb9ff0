package chronolake.spark;

import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsCatalogOptions;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.sources.StreamSinkProvider;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * {@code format("chronolake")}: frames are read and written as tables of a catalog, which {@link
 * FormatCatalog} finds by their options. Streams go to the source in Python.
 */
public final class FormatSource implements SupportsCatalogOptions, StreamSinkProvider, DataSourceRegister {
  private TableProvider streams;

  @Override
  public String shortName() {
    return PythonSource.NAME;
  }

  @Override
  public Identifier extractIdentifier(CaseInsensitiveStringMap options) {
    return new FormatCatalog.Named(Map.copyOf(options.asCaseSensitiveMap()));
  }

  @Override
  public String extractCatalog(CaseInsensitiveStringMap options) {
    return FormatCatalog.registered();
  }

  /** The state that a read shows. Spark asks for none before a write: so the catalog knows both. */
  @Override
  public Optional<String> extractTimeTravelVersion(CaseInsensitiveStringMap options) {
    return Optional.of(options.getOrDefault("as_of", "latest"));
  }

  /** The columns of a stream that is read. */
  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    Map<String, String> given = options.asCaseSensitiveMap();
    ChronolakeCatalog.ofFormat(PythonSource.NAME, given).ask("check_stream", FormatCatalog.given(given));
    return streams().inferSchema(new CaseInsensitiveStringMap(PythonSource.ofChanges(given)));
  }

  /** Refuses {@code CREATE TABLE … USING chronolake} in Spark's own catalog, which asks for this first. */
  @Override
  public Transform[] inferPartitioning(CaseInsensitiveStringMap options) {
    if (options.containsKey("provider") || !(options.containsKey("table") || options.containsKey("path"))) {
      throw new Refusal("invalid-option",
          "no table is given: use .option(\"table\", \"namespace.table\"). CREATE TABLE, saveAsTable and toTable"
              + " make tables only in a catalog of Chronolake: chronolake_spark.catalog(spark, 'lake', url), then"
              + " CREATE TABLE lake.namespace.table … TBLPROPERTIES (record_key = 'id')");
    }
    return new Transform[0];
  }

  /** A stream that is read, or the rows of one that is written: Spark then asks for the sink. */
  @Override
  public Table getTable(StructType schema, Transform[] partitions, Map<String, String> options) {
    if (new CaseInsensitiveStringMap(options).containsKey("delete_when")) {
      TableSink.check(schema.json(), options);
    }
    return PythonSource.changes(streams(), schema, options);
  }

  /** One for all calls: it keeps the columns that it has inferred. */
  private TableProvider streams() {
    if (streams == null) {
      streams = PythonSource.source();
    }
    return streams;
  }

  @Override
  public Sink createSink(SQLContext context, scala.collection.immutable.Map<String, String> options,
      Seq<String> partitions, OutputMode mode) {
    return new TableSink(CollectionConverters.asJava(options), !partitions.isEmpty(), mode);
  }

  /** Whether a stream may be read with some of its columns. */
  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }
}
