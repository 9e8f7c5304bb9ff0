package chronolake.spark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The tables that options of {@code format("chronolake")} name. It has no table that SQL could name. */
public final class FormatCatalog implements TableCatalog {
  private static final String NAME = "chronolake_format";

  /** The name of this catalog, which the session has from now on. */
  static String registered() {
    SparkSession.active().conf().set("spark.sql.catalog." + NAME, FormatCatalog.class.getName());
    return NAME;
  }

  /** A table as the options of a read or a write name it. Plans show its name alone. */
  record Named(Map<String, String> options) implements Identifier {
    private String[] parts() {
      CaseInsensitiveStringMap given = new CaseInsensitiveStringMap(options);
      return given.getOrDefault("table", given.getOrDefault("path", "unnamed")).split("[.]");
    }

    @Override
    public String[] namespace() {
      String[] parts = parts();
      return Arrays.copyOf(parts, parts.length - 1);
    }

    @Override
    public String name() {
      String[] parts = parts();
      return parts[parts.length - 1];
    }

    @Override
    public String toString() {
      return String.join(".", parts());
    }
  }

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    // The options of each read and write say where its table is.
  }

  @Override
  public String name() {
    return NAME;
  }

  /** The table that a read shows. */
  @Override
  public Table loadTable(Identifier table, String version) {
    Named named = named(table);
    ChronolakeCatalog metastore = ChronolakeCatalog.ofFormat(NAME, named.options);
    return new FormatRead(metastore, metastore.ask("read", given(named.options)));
  }

  /** The table that a write goes to. */
  @Override
  public Table loadTable(Identifier table) {
    Named named = named(table);
    ChronolakeCatalog metastore = ChronolakeCatalog.ofFormat(NAME, named.options);
    return new FormatTarget(metastore, metastore.ask("written_table", given(named.options)));
  }

  static ObjectNode given(Map<String, String> options) {
    return PythonProcess.request().set("given", ChronolakeCatalog.json(options));
  }

  private static Named named(Identifier table) {
    if (table instanceof Named named) {
      return named;
    }
    throw new Refusal("invalid-option",
        "SQL names tables by a catalog, as that of chronolake_spark.catalog(spark, 'lake'): lake." + table);
  }

  /** Refused: Spark asks it before it makes a table, which a write in its default mode does. */
  @Override
  public boolean tableExists(Identifier table) {
    throw new Refusal("invalid-option",
        "give a mode: df.write.format(\"chronolake\").option(\"table\", …).mode(\"append\").save(). Without"
            + " one, and with \"errorifexists\" or \"ignore\", Spark writes only to tables that do not exist;"
            + " make them with CREATE TABLE, or chronolake_spark.create_table");
  }

  @Override
  public Identifier[] listTables(String[] namespace) {
    return new Identifier[0];
  }

  @Override
  public Table alterTable(Identifier table, TableChange... changes) {
    named(table);
    throw new UnsupportedOperationException();
  }

  @Override
  public boolean dropTable(Identifier table) {
    return false;
  }

  @Override
  public void renameTable(Identifier from, Identifier to) {
    named(from);
    throw new UnsupportedOperationException();
  }
}
