package chronolake.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.stream.StreamSupport;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The tables of a metastore as a catalog of Spark: {@code spark.sql.catalog.lake}. Its options are
 * those of the server's address and of access, as for {@code format("chronolake")}.
 *
 * <p>Decides nothing: the Python process asks the server, and its refusals become Spark's errors.
 */
public class ChronolakeCatalog implements StagingTableCatalog, SupportsNamespaces {
  private static final String SECRETS = "storage_secrets";

  private String name;
  private Map<String, String> options;
  private boolean isByFormat;

  /** The metastore that options of {@code format("chronolake")} name. */
  static ChronolakeCatalog ofFormat(String name, Map<String, String> options) {
    ChronolakeCatalog catalog = new ChronolakeCatalog();
    catalog.initialize(name, new CaseInsensitiveStringMap(options));
    catalog.isByFormat = true;
    return catalog;
  }

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    SparkSession session = SparkSession.active();
    UpsertStrategy.register(session);
    this.name = name;
    Map<String, String> given = new HashMap<>(options.asCaseSensitiveMap());
    given.keySet().stream().filter(SECRETS::equalsIgnoreCase).forEach(option -> hide(session, option));
    given.entrySet().removeIf(
        option -> SECRETS.equalsIgnoreCase(option.getKey()) && option.getValue().isEmpty());
    this.options = Map.copyOf(given);
  }

  /**
   * Has Spark hide the setting of an option. Its event log, which has the settings of a session with each job,
   * hides only those that the configuration of the application has, too: there it is an empty text, for none.
   */
  private void hide(SparkSession session, String option) {
    session.sparkContext().conf().setIfMissing("spark.sql.catalog." + name + "." + option, "");
  }

  @Override
  public String name() {
    return name;
  }

  // ---- namespaces ----

  @Override
  public String[][] listNamespaces() {
    return StreamSupport.stream(ask("namespaces", PythonProcess.request()).spliterator(), false)
        .map(namespace -> new String[] {namespace.asText()})
        .toArray(length -> new String[length][]);
  }

  @Override
  public String[][] listNamespaces(String[] namespace) throws NoSuchNamespaceException {
    if (namespace.length == 0) {
      return listNamespaces();
    }
    loadNamespaceMetadata(namespace);
    return new String[0][];
  }

  @Override
  public Map<String, String> loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
    try {
      return texts(ask("namespace", of(namespace)));
    } catch (Refusal refusal) {
      throw missingNamespace(refusal, namespace);
    }
  }

  @Override
  public void createNamespace(String[] namespace, Map<String, String> properties)
      throws NamespaceAlreadyExistsException {
    try {
      ask("create_namespace", of(namespace).set("properties", json(properties)));
    } catch (Refusal refusal) {
      if (refusal.code().equals("namespace-exists")) {
        throw new NamespaceAlreadyExistsException(namespace);
      }
      throw refusal;
    }
  }

  @Override
  public void alterNamespace(String[] namespace, NamespaceChange... changes) {
    throw new Refusal("invalid-option", "namespaces of Chronolake have no properties to change");
  }

  @Override
  public boolean dropNamespace(String[] namespace, boolean cascade)
      throws NoSuchNamespaceException, NonEmptyNamespaceException {
    try {
      ask("drop_namespace", of(namespace).put("cascade", cascade));
      return true;
    } catch (Refusal refusal) {
      if (refusal.code().equals("namespace-not-empty")) {
        throw new NonEmptyNamespaceException(namespace);
      }
      throw missingNamespace(refusal, namespace);
    }
  }

  // ---- tables ----

  @Override
  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    try {
      return StreamSupport.stream(ask("tables", of(namespace)).spliterator(), false)
          .map(table -> Identifier.of(namespace, table.asText()))
          .toArray(length -> new Identifier[length]);
    } catch (Refusal refusal) {
      throw missingNamespace(refusal, namespace);
    }
  }

  @Override
  public Table loadTable(Identifier table) throws NoSuchTableException {
    return load(table, PythonProcess.request());
  }

  @Override
  public Table loadTable(Identifier table, String version) throws NoSuchTableException {
    return load(table, PythonProcess.request().put("version", version));
  }

  @Override
  public Table loadTable(Identifier table, long micros) throws NoSuchTableException {
    return load(table, PythonProcess.request().put("micros", micros));
  }

  private Table load(Identifier table, ObjectNode state) throws NoSuchTableException {
    try {
      if (ChangesTable.isNamed(table)) {
        return new ChangesTable(this, table);
      }
      return MetadataTable.isNamed(table) ? new MetadataTable(this, table, state)
                                          : ChronolakeTable.of(this, table, ask("load", named(state, table)));
    } catch (Refusal refusal) {
      throw missingTable(refusal, table);
    }
  }

  @Override
  public Table createTable(Identifier table, TableInfo info)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return ChronolakeTable.of(this, table, created(table, info));
  }

  /** Makes the table of {@code CREATE TABLE … AS SELECT}, before its rows are written. */
  @Override
  public StagedTable stageCreate(Identifier table, TableInfo info)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return new CreatedTable(this, table, created(table, info));
  }

  /** Refused: Spark would drop the table before the new rows are written, and so lose its history. */
  @Override
  public StagedTable stageReplace(Identifier table, TableInfo info) {
    throw new Refusal("table-exists",
        table + " exists, and a table is not replaced by another: replace its rows by INSERT OVERWRITE or"
            + " df.write.mode(\"overwrite\").insertInto(…), or drop it before");
  }

  @Override
  public StagedTable stageCreateOrReplace(Identifier table, TableInfo info) throws NoSuchNamespaceException {
    // First, because saveAsTable replaces a table without what a new one must be made with.
    if (tableExists(table)) {
      return stageReplace(table, info);
    }
    try {
      return stageCreate(table, info);
    } catch (TableAlreadyExistsException e) {
      return stageReplace(table, info);
    }
  }

  private JsonNode created(Identifier table, TableInfo info)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    ObjectNode request = named(PythonProcess.request(), table);
    request.put("schema", info.schema().json());
    request.set("columns", NewColumns.described(info.columns()));
    request.set("partitions", described(info.partitions()));
    request.set("properties", json(info.properties()));
    try {
      return ask("create", request);
    } catch (Refusal refusal) {
      if (refusal.code().equals("table-exists")) {
        throw new TableAlreadyExistsException(table);
      }
      throw missingNamespace(refusal, table.namespace());
    }
  }

  @Override
  public Table alterTable(Identifier table, TableChange... changes) throws NoSuchTableException {
    ObjectNode request = named(PythonProcess.request(), table);
    request.set("changes", TableChanges.described(changes));
    try {
      return ChronolakeTable.of(this, table, ask("alter", request));
    } catch (Refusal refusal) {
      throw missingTable(refusal, table);
    }
  }

  @Override
  public boolean dropTable(Identifier table) {
    try {
      ask("drop", named(PythonProcess.request(), table));
      return true;
    } catch (Refusal refusal) {
      if (refusal.code().equals("table-not-found")) {
        return false;
      }
      throw refusal;
    }
  }

  @Override
  public void renameTable(Identifier from, Identifier to)
      throws NoSuchTableException, TableAlreadyExistsException {
    try {
      ask("rename", named(PythonProcess.request(), from).put("to", text(to)));
    } catch (Refusal refusal) {
      if (refusal.code().equals("table-exists")) {
        throw new TableAlreadyExistsException(to);
      }
      throw missingTable(refusal, from);
    }
  }

  /** The options by which {@code format("chronolake")} finds a table of this catalog. */
  Map<String, String> optionsOfFormat(String table, Map<String, String> given) {
    Map<String, String> found = new HashMap<>();
    given.forEach((name, text) -> found.put(name.toLowerCase(Locale.ROOT), text));
    options.forEach((name, text) -> found.put(name.toLowerCase(Locale.ROOT), text));
    found.remove("warehouse");
    found.put("table", table);
    return found;
  }

  // ---- requests ----

  /** The answer of the Python process to a request about this catalog. */
  JsonNode ask(String operation, ObjectNode request) {
    SparkSession session = SparkSession.active();
    return ask(PythonProcess.running(session.sparkContext()), session, operation, request);
  }

  /** The answer to a request about the rows of a frame, in the session of the frame. */
  JsonNode askWithFrame(String operation, ObjectNode request, Dataset<Row> rows) {
    SparkSession session = rows.sparkSession();
    PythonProcess python = PythonProcess.running(session.sparkContext());
    request.put("frame", python.lent(rows));
    return ask(python, session, operation, request);
  }

  private JsonNode ask(PythonProcess python, SparkSession session, String operation, ObjectNode request) {
    // So that what cancels the statement, or the query, cancels the jobs of Python too.
    Properties properties = new Properties();
    properties.putAll(session.sparkContext().getLocalProperties());
    request.put("by_format", isByFormat).put("local_properties", python.lent(properties));
    request.set("options", json(options));
    return python.ask(session, operation, request);
  }

  private static ObjectNode of(String[] namespace) {
    return PythonProcess.request().put("namespace", String.join(".", namespace));
  }

  static ObjectNode named(ObjectNode request, Identifier table) {
    return request.put("table", text(table));
  }

  /** The name of a table that the Python process has described. */
  static Identifier identifier(JsonNode loaded) {
    String[] parts = loaded.get("name").asText().split("[.]");
    return Identifier.of(new String[] {parts[0]}, parts[1]);
  }

  static String text(Identifier table) {
    return table.namespace().length == 0 ? table.name()
                                         : String.join(".", table.namespace()) + "." + table.name();
  }

  static ObjectNode json(Map<String, String> texts) {
    ObjectNode node = PythonProcess.request();
    texts.forEach(node::put);
    return node;
  }

  private static Map<String, String> texts(JsonNode node) {
    Map<String, String> texts = new HashMap<>();
    node.properties().forEach(entry -> texts.put(entry.getKey(), entry.getValue().asText()));
    return texts;
  }

  /** Each partition transform by its name and the columns that it names: {@code ["identity", "day"]}. */
  private static ArrayNode described(Transform[] partitions) {
    ArrayNode described = PythonProcess.JSON.createArrayNode();
    for (Transform partition : partitions) {
      ArrayNode one = described.addArray().add(partition.name());
      Arrays.stream(partition.references())
          .map(reference -> String.join(".", List.of(reference.fieldNames())))
          .forEach(one::add);
    }
    return described;
  }

  static NoSuchTableException missingTable(Refusal refusal, Identifier table) {
    if (refusal.code().equals("table-not-found") || refusal.code().equals("namespace-not-found")) {
      return new NoSuchTableException(table);
    }
    throw refusal;
  }

  private static NoSuchNamespaceException missingNamespace(Refusal refusal, String[] namespace) {
    if (refusal.code().equals("namespace-not-found")) {
      return new NoSuchNamespaceException(namespace);
    }
    throw refusal;
  }
}
